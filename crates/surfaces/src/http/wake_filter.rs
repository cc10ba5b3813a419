//! Polls a call only when something happened to it.
//!
//! hyper drives a connection and the call on it as one task, and taking a body wakes that task once more for nothing:
//! a tenth of a call's own work was being looked at in vain. So a call has a waker of its own, and whatever else
//! wakes the connection passes it by.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// One for a connection, whose requests come one after the other.
pub(super) struct WakeFilter {
    inner: Arc<Inner>,
    waker: Waker,
}

#[derive(Default)]
struct Inner {
    woken: AtomicBool,
    connection: AtomicWaker,
}

impl WakeFilter {
    pub(super) fn new() -> Arc<Self> {
        let inner = Arc::new(Inner::default());
        let waker = Waker::from(inner.clone());
        Arc::new(Self { inner, waker })
    }

    /// Has the next `poll` go through: a new call begins.
    pub(super) fn open(&self) {
        self.inner.woken.store(true, Ordering::Relaxed);
    }

    pub(super) fn poll<F: Future>(
        &self,
        cx: &mut Context<'_>,
        call: Pin<&mut F>,
    ) -> Poll<F::Output> {
        // Registered first, so that a wake from now on is not missed.
        self.inner.connection.register(cx.waker());
        if !self.inner.woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        call.poll(&mut Context::from_waker(&self.waker))
    }
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.connection.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_call_is_polled_when_it_was_woken_and_not_otherwise() {
        let filter = WakeFilter::new();
        let polls = AtomicUsize::new(0);
        let (send, mut heard) = tokio::sync::oneshot::channel();
        let mut call = pin!(poll_fn(|cx| {
            polls.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut heard).poll(cx)
        }));
        filter.open();
        let mut spurious = 0;
        let mut send = Some(send);
        let answer = poll_fn(|cx| {
            let polled = filter.poll(cx, call.as_mut());
            if polled.is_pending() && spurious < 3 {
                spurious += 1;
                cx.waker().wake_by_ref();
            } else if let Some(send) = send.take() {
                send.send(7).expect("it is waited for");
            }
            polled
        });
        let answer = tokio::time::timeout(Duration::from_secs(5), answer).await;
        assert_eq!(answer.expect("the wake came through"), Ok(7));
        assert_eq!(polls.load(Ordering::Relaxed), 2);
    }
}
