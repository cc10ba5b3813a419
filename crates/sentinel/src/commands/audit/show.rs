//! Records and verdicts in print.

use sentinel_core::audit::{Stored, moment};
use sentinel_stores::audit::Verdict;
use serde_json::{Value, json};

use crate::commands::one_line;

pub(super) fn printer(json: bool) -> fn(&Stored) -> String {
    if json { json_line } else { line }
}

/// One line for people.
fn line(stored: &Stored) -> String {
    let record = &stored.record;
    let name = [&record.method, &record.operation]
        .into_iter()
        .filter(|part| !part.is_empty())
        .map(|part| one_line(part))
        .collect::<Vec<_>>()
        .join(" ");
    let of = |label: &str, text: &str| {
        if text.is_empty() {
            String::new()
        } else {
            format!("  {label}={}", one_line(text))
        }
    };
    format!(
        "{}  {:14}  {name}{}{}{}  {:.1} ms\n",
        moment::show(record.at_ms),
        record.outcome,
        of("kind", &record.kind),
        of("caller", &record.caller),
        of("backend", &record.backend),
        record.latency_us as f64 / 1000.0
    )
}

/// The whole record as one JSON object.
pub(super) fn json_line(stored: &Stored) -> String {
    serde_json::to_string(stored).expect("a record is JSON") + "\n"
}

pub(super) fn verdict(verdict: &Verdict, json: bool) -> String {
    if json {
        let broken: Vec<Value> = verdict
            .broken
            .iter()
            .map(|b| json!({"node": b.key.node, "lane": b.key.lane, "seq": b.key.seq as i64, "reason": b.reason}))
            .collect();
        let object = json!({
            "ok": verdict.broken.is_empty(), "records": verdict.records, "lanes": verdict.lanes,
            "announced_missing": verdict.announced, "lanes_of_others": verdict.elsewhere,
            "broken": broken,
        });
        return format!("{object}\n");
    }
    let mut text = format!(
        "{} records in {} lanes, {} missing and announced\n",
        verdict.records, verdict.lanes, verdict.announced
    );
    if verdict.elsewhere > 0 {
        text.push_str(&format!(
            "{} lanes were written by other data directories: only those know how far they came\n",
            verdict.elsewhere
        ));
    }
    if verdict.broken.is_empty() {
        text.push_str("every record is as it was written\n");
    }
    for broken in &verdict.broken {
        let key = &broken.key;
        text.push_str(&format!(
            "bad: node {} lane {} record {}: {}\n",
            // As the store has it: somebody may have put one below zero there.
            key.node,
            key.lane,
            key.seq as i64,
            broken.reason
        ));
    }
    text
}
