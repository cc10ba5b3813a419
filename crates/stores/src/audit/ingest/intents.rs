//! Calls that were begun, with `sync`.

use std::collections::BTreeMap;

use sentinel_core::audit::{Batch, Record};

use crate::spool::follow::Step;

/// Intents without completion; their segments are kept until they have one.
#[derive(Default)]
pub(super) struct Intents {
    pub(super) open: BTreeMap<u64, Record>,
    /// Segments kept only for these, with their last record number.
    pub(super) held: Vec<(u64, u64)>,
    pub(super) last_seq: u64,
}

impl Intents {
    pub(super) fn note(&mut self, records: &Batch, steps: Vec<Step>) {
        self.last_seq = records.last().map_or(self.last_seq, |(seq, _)| seq);
        for step in steps {
            match step {
                Step::Begun(seq, record) => self.open.insert(seq, *record),
                Step::Ended(seq) => self.open.remove(&seq),
            };
        }
    }
}
