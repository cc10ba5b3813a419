//! Questions to a legacy caller that wait for answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sentinel_core::Answer;
use sentinel_wire::{Outcome, Response};
use tokio::sync::oneshot;

/// Bound on a caller's open questions.
const OPEN_MAX: usize = 256;

#[derive(Default)]
pub(crate) struct Asks {
    next_id: AtomicU64,
    open: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
}

impl Asks {
    /// Stores a question until its answer comes; returns its id, or `None` when too many are open.
    pub(crate) fn open(&self, answer: oneshot::Sender<Answer>) -> Option<u64> {
        let mut open = self.open.lock();
        if open.len() >= OPEN_MAX {
            // Questions whose call has ended are useless.
            open.retain(|_, answer| !answer.is_closed());
            if open.len() >= OPEN_MAX {
                return None;
            }
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        open.insert(id, answer);
        Some(id)
    }

    /// Delivers a caller's response to the call that asked; unknown and late ones are dropped.
    pub(crate) fn settle(&self, response: Response) {
        let Some(id) = response.id.and_then(|id| id.as_u64()) else {
            return;
        };
        let Some(answer) = self.open.lock().remove(&id) else {
            return;
        };
        let _ = answer.send(match response.outcome {
            Outcome::Result(result) => Answer::Result(result.to_bytes()),
            Outcome::Error(error) => Answer::Error(error.to_bytes()),
        });
    }
}
