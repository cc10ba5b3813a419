//! Counters as plain atomics, read for `/metrics`.
//!
//! Labels come from the catalog and from our own constants, never from callers: an unresolved name has no label. Only
//! called operations are counted, and their number is bounded.
//!
//! Not here: how they are written down (`surfaces::http::metrics`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use sentinel_wire::Method;

use crate::map::Map;

/// Upper bounds of the duration buckets, in microseconds.
pub const BUCKETS_US: [u64; 12] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// Outcomes of requests, in the order of `Operation::ended`.
pub const STATUSES: [&str; 9] = [
    "success",
    "error",
    "denied",
    "rate_limited",
    "killed",
    "circuit_open",
    "overloaded",
    "cancelled",
    "input_required",
];

/// Operations with series of their own. Each has some 16 lines (1.7 kB) in the output, and a series each in the
/// scraper.
const OPERATIONS_MAX: usize = 1_000;
/// The label under which further tools of a backend are counted together.
const OTHER: &str = "other";

#[derive(Default)]
pub struct Metrics {
    operations: RwLock<Operations>,
    pub audit: AuditMetrics,
    pub sessions: AtomicU64,
    pub streams: AtomicU64,
    /// Spans that were lost.
    pub spans_dropped: AtomicU64,
}

/// By method, backend and own name.
type ByName = Map<Box<str>, Map<Box<str>, Arc<Operation>>>;

#[derive(Default)]
struct Operations {
    by_method: Map<&'static str, ByName>,
    len: usize,
}

/// The counters of one operation.
#[derive(Default)]
pub struct Operation {
    pub ended: [AtomicU64; STATUSES.len()],
    pub buckets: [AtomicU64; BUCKETS_US.len() + 1],
    pub sum_us: AtomicU64,
    /// Structured results of a tool that its output schema does not allow, and those that were not compared with it.
    pub output_mismatches: AtomicU64,
    pub output_unchecked: AtomicU64,
    /// By kind of fault, of which there are few.
    pub errors: Mutex<Vec<(&'static str, u64)>>,
}

/// Counters of the audit's writers and readers.
#[derive(Default)]
pub struct AuditMetrics {
    pub enabled: AtomicU64,
    /// Records written to the ring or the spool.
    pub records: AtomicU64,
    /// Records that were lost.
    pub dropped: AtomicU64,
    pub gaps: AtomicU64,
    /// Records that reached the store.
    pub ingested: AtomicU64,
    pub ingest_failures: AtomicU64,
    pub spool_bytes: AtomicU64,
}

impl AuditMetrics {
    /// Written, not dropped, not yet in the store.
    pub fn backlog(&self) -> u64 {
        let gone = self.ingested.load(Relaxed) + self.dropped.load(Relaxed);
        self.records.load(Relaxed).saturating_sub(gone)
    }
}

/// One row of the output.
pub struct Row {
    pub method: &'static str,
    pub backend: String,
    pub tool: String,
    pub operation: Arc<Operation>,
}

impl Metrics {
    pub(crate) fn ended(
        &self,
        method: Option<&Method>,
        backend: &str,
        own_name: &str,
        status: &'static str,
        kind: &'static str,
        latency: Duration,
    ) {
        let method = label(method);
        // Only tools have labels of their own: callers could make up any number of URIs and prompts.
        let tool = if method == "tools/call" { own_name } else { "" };
        self.operation(method, backend, tool)
            .count(status, kind, latency);
    }

    /// Where a tool is counted.
    pub(crate) fn tool(&self, backend: &str, own_name: &str) -> Arc<Operation> {
        self.operation(label(Some(&Method::ToolsCall)), backend, own_name)
    }

    fn operation(&self, method: &'static str, backend: &str, tool: &str) -> Arc<Operation> {
        let known = {
            let operations = self.operations.read();
            operations.find(method, backend, tool).cloned()
        };
        known.unwrap_or_else(|| self.operations.write().add(method, backend, tool))
    }

    /// All counters in a stable order.
    pub fn rows(&self) -> Vec<Row> {
        let operations = self.operations.read();
        let mut rows = Vec::with_capacity(operations.len);
        for (method, backends) in &operations.by_method {
            for (backend, tools) in backends {
                for (tool, operation) in tools {
                    rows.push(Row {
                        method,
                        backend: backend.to_string(),
                        tool: tool.to_string(),
                        operation: operation.clone(),
                    });
                }
            }
        }
        rows.sort_by(|a, b| (a.method, &a.backend, &a.tool).cmp(&(b.method, &b.backend, &b.tool)));
        rows
    }
}

impl Operations {
    fn get(&self, method: &str, backend: &str, tool: &str) -> Option<&Arc<Operation>> {
        self.by_method.get(method)?.get(backend)?.get(tool)
    }

    fn is_full(&self) -> bool {
        self.len >= OPERATIONS_MAX
    }

    /// The counters of an operation; `None` if they must be added.
    fn find(&self, method: &str, backend: &str, tool: &str) -> Option<&Arc<Operation>> {
        let other = || self.get(method, backend, OTHER);
        let found = self.get(method, backend, tool);
        found.or_else(|| other().filter(|_| self.is_full() && !tool.is_empty()))
    }

    fn add(&mut self, method: &'static str, backend: &str, tool: &str) -> Arc<Operation> {
        if let Some(found) = self.find(method, backend, tool) {
            return found.clone();
        }
        // Methods and backends are few, and operations without a label are counted per method.
        let tool = match self.is_full() && !tool.is_empty() {
            true => OTHER,
            false => tool,
        };
        self.len += 1;
        let by_name = self.by_method.entry(method).or_default();
        let of_backend = by_name.entry(backend.into()).or_default();
        of_backend.entry(tool.into()).or_default().clone()
    }
}

impl Operation {
    fn count(&self, status: &'static str, kind: &'static str, latency: Duration) {
        let at = STATUSES
            .iter()
            .position(|s| *s == status)
            .expect("every outcome is in the table");
        self.ended[at].fetch_add(1, Relaxed);
        let us = latency.as_micros() as u64;
        let bucket = BUCKETS_US.partition_point(|bound| *bound < us);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
        if kind.is_empty() {
            return;
        }
        let mut errors = self.errors.lock();
        match errors.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => errors.push((kind, 1)),
        }
    }
}

/// The method's protocol name; unknown methods are `other`.
fn label(method: Option<&Method>) -> &'static str {
    method.map_or("", |method| method.known().unwrap_or("other"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seed 000's metrics, bounded: what was called first has series of its own, the rest of a backend's tools share one,
    /// and nothing is lost or made up.
    #[test]
    fn tools_beyond_the_bound_are_counted_together() {
        let metrics = Metrics::default();
        let call = |backend: &str, tool: &str| {
            let method = Some(&Method::ToolsCall);
            metrics.ended(method, backend, tool, "success", "", Duration::ZERO);
        };
        assert!(
            metrics.rows().is_empty(),
            "what nobody called has no series"
        );
        for n in 0..3 * OPERATIONS_MAX {
            call("a", &format!("tool-{n}"));
        }
        call("b", "x");
        call("b", "y");
        call("a", "tool-0");
        metrics.ended(None, "", "", "error", "parse_error", Duration::ZERO);
        let rows = metrics.rows();
        assert_eq!(rows.len(), OPERATIONS_MAX + 3);
        let count = |backend: &str, tool: &str| {
            let mut rows = rows.iter();
            let row = rows.find(|row| row.backend == backend && row.tool == tool);
            row.map(|row| row.operation.ended[0].load(Relaxed))
        };
        assert_eq!(count("a", "tool-0"), Some(2));
        assert_eq!(count("a", OTHER), Some(2 * OPERATIONS_MAX as u64));
        assert_eq!(count("b", OTHER), Some(2));
        assert_eq!(count("b", "x"), None);
    }
}
