//! What a backend has read of its source (a description, a catalog), whether calls can go by it, and the backend's status.
//!
//! Calls wait while the source is read for the first time. Not here: reading it, and what to offer of it.

use std::sync::Arc;

use parking_lot::Mutex;
use sentinel_core::{Health, Status};
use tokio::sync::watch;
use tokio::time::Instant;

/// Whether calls can be made.
enum State<T> {
    /// It is being read for the first time; calls wait, within their deadline.
    Starting,
    Ready(Arc<T>),
    /// It could not be read so far.
    Failed,
    Stopped,
}

pub(crate) struct Loaded<T> {
    state: watch::Sender<State<T>>,
    status: Mutex<Status>,
    began: Instant,
}

impl<T> Loaded<T> {
    pub(crate) fn starting() -> Self {
        Self {
            state: watch::Sender::new(State::Starting),
            status: Mutex::new(Status::of(Health::Starting)),
            began: Instant::now(),
        }
    }

    /// What calls go by at present.
    pub(crate) fn current(&self) -> Option<Arc<T>> {
        match &*self.state.borrow() {
            State::Ready(value) => Some(value.clone()),
            _ => None,
        }
    }

    /// The same, waiting for the first reading; `None` if there is nothing to go by.
    pub(crate) async fn ready(&self) -> Option<Arc<T>> {
        let mut states = self.state.subscribe();
        let settled = states
            .wait_for(|state| !matches!(state, State::Starting))
            .await;
        match settled.as_deref() {
            Ok(State::Ready(value)) => Some(value.clone()),
            _ => None,
        }
    }

    pub(crate) fn replace(&self, value: Arc<T>) {
        self.turn(State::Ready(value));
    }

    /// Lets calls that wait for the first reading fail. What was read stays.
    pub(crate) fn give_up_starting(&self) {
        if self.current().is_none() {
            self.turn(State::Failed);
        }
    }

    pub(crate) fn stop(&self) {
        self.state.send_replace(State::Stopped);
    }

    /// Ends after `stop`.
    pub(crate) async fn stopped(&self) {
        let mut states = self.state.subscribe();
        drop(
            states
                .wait_for(|state| matches!(state, State::Stopped))
                .await,
        );
    }

    /// A stop that came meanwhile stands.
    fn turn(&self, next: State<T>) {
        self.state.send_if_modified(|state| {
            let is_running = !matches!(state, State::Stopped);
            if is_running {
                *state = next;
            }
            is_running
        });
    }

    pub(crate) fn status(&self) -> Status {
        self.status.lock().clone()
    }

    /// Replaces the notices, and returns those before.
    pub(crate) fn set_notices(&self, notices: Vec<String>) -> Vec<String> {
        std::mem::replace(&mut self.status.lock().notices, notices)
    }

    /// It works, maybe with a problem.
    pub(crate) fn note_up(&self, problem: Option<String>) {
        let mut status = self.status.lock();
        status.health = Health::Up;
        status.problem = problem;
        if status.start_up.is_none() {
            status.start_up = Some(self.began.elapsed());
        }
    }

    pub(crate) fn note_failure(&self, problem: String, is_down: bool) {
        let mut status = self.status.lock();
        status.health = match is_down {
            true => Health::Down,
            false => Health::Failing,
        };
        status.problem = Some(problem);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn calls_wait_for_the_first_reading_and_go_by_the_last_good_one() {
        let loaded = Loaded::starting();
        let waiting = loaded.ready();
        tokio::pin!(waiting);
        assert!((&mut waiting).now_or_never().is_none());
        loaded.replace(Arc::new(1));
        assert_eq!(waiting.await.as_deref(), Some(&1));
        loaded.give_up_starting();
        assert_eq!(loaded.ready().await.as_deref(), Some(&1), "it stays");
        loaded.stop();
        loaded.replace(Arc::new(2));
        assert_eq!(loaded.ready().await, None, "a stop stands");
        loaded.stopped().await;
    }

    #[tokio::test]
    async fn calls_fail_once_the_first_reading_failed() {
        let loaded = Loaded::<()>::starting();
        loaded.give_up_starting();
        assert_eq!(loaded.ready().await, None);
        loaded.note_failure("away".to_owned(), true);
        assert_eq!(loaded.status().health, Health::Down);
        loaded.note_up(None);
        let status = loaded.status();
        assert_eq!((status.health, status.problem), (Health::Up, None));
    }
}
