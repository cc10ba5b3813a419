//! Missing records, and the announcements that account for them.

use std::collections::HashMap;

use sentinel_core::audit::RecordKey;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct GapArgs {
    pub(super) lane: i64,
    pub(super) from_seq: u64,
    pub(super) to_seq: u64,
    /// The hash that the next record follows, if known.
    pub(super) before: Option<String>,
}

/// Missing records, to be matched with announcements, which may come later.
pub(super) struct Hole {
    /// The record after it.
    pub(super) next: RecordKey,
    pub(super) from_seq: u64,
    /// The hash of the record before it.
    pub(super) hash: [u8; 32],
}

impl Hole {
    pub(super) fn to_seq(&self) -> u64 {
        self.next.seq - 1
    }
}

/// The announced gaps of each lane.
#[derive(Default)]
pub(super) struct Announced<'a> {
    /// In order of their starts.
    ranges: HashMap<(&'a str, i64), Vec<&'a GapArgs>>,
}

impl<'a> Announced<'a> {
    pub(super) fn of(gaps: &'a [(RecordKey, GapArgs)]) -> Self {
        let mut this = Self::default();
        for (key, gap) in gaps {
            let ranges = this.ranges.entry((&key.node, gap.lane)).or_default();
            ranges.push(gap);
        }
        for ranges in this.ranges.values_mut() {
            ranges.sort_by_key(|gap| gap.from_seq);
        }
        this
    }

    /// Whether all of a hole was announced, perhaps in pieces; and if so, the hash that the record after it follows,
    /// if known.
    pub(super) fn before(&self, hole: &Hole) -> Option<Option<String>> {
        let ranges = self
            .ranges
            .get(&(hole.next.node.as_str(), hole.next.lane))?;
        let mut reached = hole.from_seq;
        for gap in ranges {
            if gap.from_seq <= reached {
                reached = reached.max(gap.to_seq.saturating_add(1));
            }
        }
        let last = |gap: &&&GapArgs| gap.to_seq == hole.to_seq() && gap.before.is_some();
        let said = ranges.iter().find(last);
        (reached > hole.to_seq()).then(|| said.and_then(|gap| gap.before.clone()))
    }
}
