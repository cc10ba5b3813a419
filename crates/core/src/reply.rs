//! A backend's final answer.

use sentinel_wire::{Outcome, Revision};

/// The answer as it came, and the revision it was written in.
#[derive(Clone, Debug)]
pub struct Reply {
    pub revision: Revision,
    pub outcome: Outcome,
}
