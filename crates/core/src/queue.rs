//! A bounded queue with one receiver, for messages during a call.
//!
//! Most calls send none, so it allocates nothing until the first message; tokio's channels reserve a block of
//! messages each. Messages that do not fit are dropped: the sender never waits.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Bytes that a queued item holds; items of weight zero are bounded by count only.
pub trait Weighted {
    fn weight(&self) -> usize;
}

struct State<T> {
    items: VecDeque<T>,
    bytes: usize,
    listener: Option<Waker>,
    len_max: usize,
    bytes_max: usize,
    /// The receiver was dropped; further items are discarded.
    closed: bool,
}

/// The sending end; clones send to the same receiver.
pub struct Sender<T>(Arc<Mutex<State<T>>>);

/// The receiving end.
pub struct Receiver<T>(Arc<Mutex<State<T>>>);

/// Bounded by count and weight; a lone item is accepted at any weight.
pub fn queue<T: Weighted>(len_max: usize, bytes_max: usize) -> (Sender<T>, Receiver<T>) {
    let state = Arc::new(Mutex::new(State {
        items: VecDeque::new(),
        bytes: 0,
        listener: None,
        len_max,
        bytes_max,
        closed: false,
    }));
    (Sender(state.clone()), Receiver(state))
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Weighted> Sender<T> {
    /// Sends an item; dropped when the receiver is gone or does not keep up.
    pub fn send(&self, what: T) {
        let mut state = self.0.lock();
        let weight = what.weight();
        let is_too_much = weight > 0 && state.bytes > 0 && state.bytes + weight > state.bytes_max;
        if state.closed || state.items.len() >= state.len_max || is_too_much {
            return;
        }
        state.bytes += weight;
        state.items.push_back(what);
        let listener = state.listener.take();
        drop(state);
        if let Some(listener) = listener {
            listener.wake();
        }
    }
}

impl<T: Weighted> State<T> {
    fn take(&mut self) -> Option<T> {
        let items = self.items.pop_front()?;
        self.bytes -= items.weight();
        Some(items)
    }
}

impl<T: Weighted> Receiver<T> {
    /// The next item. It stays pending when no sender is left: the end of a call is reported by the call itself.
    pub async fn next(&mut self) -> T {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.lock();
        if let Some(items) = state.take() {
            return Poll::Ready(items);
        }
        match &mut state.listener {
            Some(listener) => listener.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// The next item that is queued already.
    pub fn try_next(&mut self) -> Option<T> {
        self.0.lock().take()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        // Dropping a question answers it as gone; not under the lock.
        let unheard = std::mem::take(&mut state.items);
        state.listener = None;
        drop(state);
        drop(unheard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weighted for usize {
        fn weight(&self) -> usize {
            *self
        }
    }

    impl Weighted for Arc<()> {
        fn weight(&self) -> usize {
            0
        }
    }

    #[tokio::test]
    async fn what_is_said_is_heard_in_order_and_wakes_the_listener() {
        let (sender, mut listener) = queue(8, 100);
        let speaker = tokio::spawn(async move {
            tokio::task::yield_now().await;
            for n in 0..3 {
                sender.send(n);
            }
        });
        assert_eq!(listener.next().await, 0);
        speaker.await.expect("spoken");
        assert_eq!((listener.try_next(), listener.next().await), (Some(1), 2));
        assert_eq!(listener.try_next(), None);
    }

    #[test]
    fn a_listener_who_does_not_listen_holds_a_bounded_queue() {
        let (sender, mut listener) = queue(4, 100);
        (0..100).for_each(|n| sender.send(n));
        let mut heard = || std::iter::from_fn(|| listener.try_next()).collect::<Vec<_>>();
        assert_eq!(heard(), [0, 1, 2, 3]);
        // In bytes as well, but what is alone passes, and what weighs nothing always does.
        [200, 1, 0].into_iter().for_each(|n| sender.send(n));
        assert_eq!(heard(), [200, 0]);
        [60, 50, 40].into_iter().for_each(|n| sender.send(n));
        assert_eq!(heard(), [60, 40]);
    }

    #[test]
    fn nothing_is_kept_for_a_listener_who_left() {
        let (sender, listener) = queue(4, 0);
        let token = Arc::new(());
        sender.send(token.clone());
        drop(listener);
        sender.send(token.clone());
        assert_eq!(Arc::strong_count(&token), 1);
    }
}
