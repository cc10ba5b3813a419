//! The lane of the guarantee `memory`: a bounded ring buffer that drops its oldest records.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use sentinel_core::audit::{Batch, Draft, Gathering, chain, encode, genesis};
use sentinel_core::metrics::Metrics;

pub struct MemoryLane {
    node: Arc<str>,
    lane: i64,
    len_max: usize,
    ring: Mutex<Ring>,
    metrics: Arc<Metrics>,
}

struct Ring {
    /// Number, bytes, hash.
    records: VecDeque<(u64, Box<[u8]>, [u8; 32])>,
    seq: u64,
    hash: [u8; 32],
    /// The hash before the oldest of them.
    before: [u8; 32],
}

impl MemoryLane {
    pub fn new(node: Arc<str>, lane: i64, len_max: usize, metrics: Arc<Metrics>) -> Self {
        let hash = genesis(&node, lane);
        Self {
            node,
            lane,
            len_max: len_max.max(1),
            ring: Mutex::new(Ring {
                records: VecDeque::new(),
                seq: 0,
                hash,
                before: hash,
            }),
            metrics,
        }
    }

    pub fn lane(&self) -> i64 {
        self.lane
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.lock().records.is_empty()
    }

    pub(crate) fn append(&self, draft: &Draft<'_>) {
        let mut bytes = Vec::with_capacity(256);
        encode(draft, &mut bytes);
        let mut ring = self.ring.lock();
        ring.seq += 1;
        ring.hash = chain(&ring.hash, ring.seq, &bytes);
        if ring.records.len() == self.len_max
            && let Some((_, _, hash)) = ring.records.pop_front()
        {
            ring.before = hash;
            self.metrics.audit.dropped.fetch_add(1, Relaxed);
        }
        let (seq, hash) = (ring.seq, ring.hash);
        ring.records.push_back((seq, bytes.into(), hash));
        self.metrics.audit.records.fetch_add(1, Relaxed);
    }

    /// Removes up to `max` oldest records; returns them after the hash before the first.
    pub(crate) fn take(&self, max: usize) -> ([u8; 32], Batch) {
        let mut ring = self.ring.lock();
        let len = max.min(ring.records.len());
        let taken: Vec<_> = ring.records.drain(..len).collect();
        let last = taken.last().map_or(ring.before, |(_, _, hash)| *hash);
        let before = std::mem::replace(&mut ring.before, last);
        drop(ring);
        let mut bytes = Vec::new();
        let mut records = Gathering::default();
        for (seq, encoded, hash) in taken {
            let begin = bytes.len();
            bytes.extend_from_slice(&encoded);
            let added = records.add(&bytes, begin..bytes.len(), seq, hash);
            debug_assert!(added.is_ok(), "it was encoded here");
        }
        (before, records.over(bytes, self.node.clone(), self.lane))
    }
}
