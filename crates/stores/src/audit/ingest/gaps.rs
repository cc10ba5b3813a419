//! Announces missing records.

use std::sync::atomic::Ordering::Relaxed;

use sentinel_core::audit::GAP;
use serde_json::json;

use super::super::heads::hex;
use crate::spool::Recorder;
use crate::spool::follow::Gap;

/// Appends a gap record for each gap; returns the number of the last one.
pub(super) fn announce(recorder: &Recorder, gaps: &[Gap], reason: &str) -> Option<u64> {
    let said = gaps.iter().map(|gap| announce_one(recorder, gap, reason));
    said.fold(None, Option::max)
}

fn announce_one(recorder: &Recorder, gap: &Gap, reason: &str) -> Option<u64> {
    let count = gap.to_seq + 1 - gap.from_seq;
    recorder.metrics.audit.gaps.fetch_add(1, Relaxed);
    tracing::warn!(
        lane = gap.lane,
        from = gap.from_seq,
        to = gap.to_seq,
        count,
        "audit records are missing"
    );
    let mut args = json!({
        "lane": gap.lane, "from_seq": gap.from_seq, "to_seq": gap.to_seq, "count": count, "reason": reason,
    });
    if let Some(before) = &gap.before {
        args["before"] = hex(before).into();
    }
    recorder.announce(GAP, &args.to_string())
}
