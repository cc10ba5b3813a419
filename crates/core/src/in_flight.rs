//! Reference count of a replaced component, which is ended after its last user.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct InFlight {
    count: AtomicUsize,
    closed: AtomicBool,
    /// Notified when the last user is gone after `close`.
    empty: Notify,
}

/// One user; counted while it lives.
pub struct Hold(Arc<InFlight>);

impl InFlight {
    /// Counts one more user; `None` after `close`.
    pub(crate) fn hold(self: &Arc<Self>) -> Option<Hold> {
        // Incremented first: either `close` sees this user, or this user sees the closed flag.
        self.count.fetch_add(1, SeqCst);
        let hold = Hold(self.clone());
        (!self.closed.load(SeqCst)).then_some(hold)
    }

    /// Admits no more users.
    pub(crate) fn close(&self) {
        self.closed.store(true, SeqCst);
    }

    /// Resolves when no user is left after `close`.
    pub(crate) async fn ended(&self) {
        loop {
            let told = self.empty.notified();
            if self.count.load(SeqCst) == 0 {
                return;
            }
            told.await;
        }
    }
}

impl Clone for Hold {
    fn clone(&self) -> Self {
        self.0.count.fetch_add(1, SeqCst);
        Self(self.0.clone())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, SeqCst) == 1 && self.0.closed.load(SeqCst) {
            self.0.empty.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_ends_with_the_last_one_and_lets_nobody_in_meanwhile() {
        let flights = Arc::new(InFlight::default());
        let (one, other) = (flights.hold().expect("open"), flights.hold().expect("open"));
        let copy = one.clone();
        flights.close();
        assert!(flights.hold().is_none());
        let waiting = tokio::spawn({
            let flights = flights.clone();
            async move { flights.ended().await }
        });
        tokio::task::yield_now().await;
        drop((one, other));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(copy);
        waiting.await.expect("it ended");
    }
}
