//! A bounded queue with one listener, for what is said during a call.
//!
//! Most calls say nothing, so it allocates nothing but itself until one does; tokio's channels come with
//! room for a block of messages each. What does not fit is dropped: whoever speaks never waits.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// How many bytes something holds while it waits; what weighs nothing is bounded in number only.
pub trait Weigh {
    fn weight(&self) -> usize;
}

struct State<T> {
    said: VecDeque<T>,
    bytes: usize,
    listener: Option<Waker>,
    len_max: usize,
    bytes_max: usize,
    /// The listener is gone; nothing more is taken.
    closed: bool,
}

/// The end that speaks; clones speak to the same listener.
pub struct Teller<T>(Arc<Mutex<State<T>>>);

/// The end that listens.
pub struct Listener<T>(Arc<Mutex<State<T>>>);

/// A queue that holds so many, and so many bytes; what is alone passes whatever its weight.
pub fn queue<T: Weigh>(len_max: usize, bytes_max: usize) -> (Teller<T>, Listener<T>) {
    let state = Arc::new(Mutex::new(State {
        said: VecDeque::new(),
        bytes: 0,
        listener: None,
        len_max,
        bytes_max,
        closed: false,
    }));
    (Teller(state.clone()), Listener(state))
}

impl<T> Clone for Teller<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Weigh> Teller<T> {
    /// Says something; dropped when the listener is gone or does not keep up.
    pub fn tell(&self, what: T) {
        let mut state = self.0.lock();
        let weight = what.weight();
        let is_too_much = weight > 0 && state.bytes > 0 && state.bytes + weight > state.bytes_max;
        if state.closed || state.said.len() >= state.len_max || is_too_much {
            return;
        }
        state.bytes += weight;
        state.said.push_back(what);
        let listener = state.listener.take();
        drop(state);
        if let Some(listener) = listener {
            listener.wake();
        }
    }
}

impl<T: Weigh> State<T> {
    fn take(&mut self) -> Option<T> {
        let said = self.said.pop_front()?;
        self.bytes -= said.weight();
        Some(said)
    }
}

impl<T: Weigh> Listener<T> {
    /// The next that is said. It stays pending when nobody is left to speak: whoever listens to a call
    /// hears from the call itself that it is over.
    pub async fn next(&mut self) -> T {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.lock();
        if let Some(said) = state.take() {
            return Poll::Ready(said);
        }
        match &mut state.listener {
            Some(listener) => listener.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// What was said already.
    pub fn try_next(&mut self) -> Option<T> {
        self.0.lock().take()
    }
}

impl<T> Drop for Listener<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        // Whoever asked hears that there is no answer; not under the lock.
        let unheard = std::mem::take(&mut state.said);
        state.listener = None;
        drop(state);
        drop(unheard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for usize {
        fn weight(&self) -> usize {
            *self
        }
    }

    impl Weigh for Arc<()> {
        fn weight(&self) -> usize {
            0
        }
    }

    #[tokio::test]
    async fn what_is_said_is_heard_in_order_and_wakes_the_listener() {
        let (teller, mut listener) = queue(8, 100);
        let speaker = tokio::spawn(async move {
            tokio::task::yield_now().await;
            for n in 0..3 {
                teller.tell(n);
            }
        });
        assert_eq!(listener.next().await, 0);
        speaker.await.expect("spoken");
        assert_eq!((listener.try_next(), listener.next().await), (Some(1), 2));
        assert_eq!(listener.try_next(), None);
    }

    #[test]
    fn a_listener_who_does_not_listen_holds_a_bounded_queue() {
        let (teller, mut listener) = queue(4, 100);
        (0..100).for_each(|n| teller.tell(n));
        let mut heard = || std::iter::from_fn(|| listener.try_next()).collect::<Vec<_>>();
        assert_eq!(heard(), [0, 1, 2, 3]);
        // In bytes as well, but what is alone passes, and what weighs nothing always does.
        [200, 1, 0].into_iter().for_each(|n| teller.tell(n));
        assert_eq!(heard(), [200, 0]);
        [60, 50, 40].into_iter().for_each(|n| teller.tell(n));
        assert_eq!(heard(), [60, 40]);
    }

    #[test]
    fn nothing_is_kept_for_a_listener_who_left() {
        let (teller, listener) = queue(4, 0);
        let token = Arc::new(());
        teller.tell(token.clone());
        drop(listener);
        teller.tell(token.clone());
        assert_eq!(Arc::strong_count(&token), 1);
    }
}
