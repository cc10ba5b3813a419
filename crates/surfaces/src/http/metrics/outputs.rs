//! Results that tools' output schemas do not allow, and those that were not compared with them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use sentinel_core::metrics::{Operation, Row};

use super::Page;

type Counter = fn(&Operation) -> &AtomicU64;

const COUNTERS: [(&str, &str, Counter); 2] = [
    (
        "sentinel_output_mismatches_total",
        "Results that their tool's output schema does not allow.",
        |operation| &operation.output_mismatches,
    ),
    (
        "sentinel_output_unchecked_total",
        "Results that were too large or too costly to compare with their tool's output schema.",
        |operation| &operation.output_unchecked,
    ),
];

pub(super) fn render(page: &mut Page, rows: &[Row]) {
    for (name, help, counter) in COUNTERS {
        page.head(name, "counter", help);
        for row in rows {
            let count = counter(&row.operation).load(Relaxed);
            if count > 0 {
                let labels = [("backend", &*row.backend), ("tool", &*row.tool)];
                page.line(name, &labels, count);
            }
        }
    }
}
