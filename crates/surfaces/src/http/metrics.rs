//! `/metrics`: the counters as Prometheus reads them.

mod outputs;

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use futures_util::future::{FutureExt, ready};
use http::header::{AUTHORIZATION, HeaderMap};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use ring::digest::{SHA256, digest};
use sentinel_core::admission::Reason;
use sentinel_core::metrics::{BUCKETS_US, Metrics, Row, STATUSES};
use sentinel_core::{Fault, Health, Kind};

use super::body::Body;
use super::exchange::Exchange;
use super::routes::Handled;
use super::{Serves, reply};
use crate::gateway::Gateway;

/// Which requests may read the counters.
#[derive(Clone, Default)]
pub enum Scrape {
    /// The counters are disabled.
    Off,
    #[default]
    Open,
    /// Requests with this bearer token; only its hash is stored and compared.
    Token([u8; 32]),
}

impl Scrape {
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    pub fn with_token(token: &str) -> Self {
        Self::Token(hash(token.as_bytes()))
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        match self {
            Self::Off => false,
            Self::Open => true,
            Self::Token(wanted) => headers
                .get(AUTHORIZATION)
                .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "))
                .is_some_and(|token| hash(token) == *wanted),
        }
    }
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes)
        .as_ref()
        .try_into()
        .expect("SHA-256 has 32 bytes")
}

pub(super) fn metrics<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    ready(answer(exchange)).boxed()
}

fn answer(exchange: &Exchange<'_>) -> Result<Response<Body>, Fault> {
    let server = exchange.server;
    let refuse = |kind, text| Err(Fault::new(kind, text));
    match (&server.serves, exchange.caller()) {
        // The names in counters may be hidden from this caller.
        (_, Some(identity)) if !server.gateway.policy.sees_everything(identity) => {
            let text = "metrics are for roles that see everything, or by the token in HEALTH_TOKEN";
            return refuse(Kind::Forbidden, text);
        }
        // This listener does not authenticate.
        (Serves::ProbesOnly { beside }, _)
            if server.scrape.is_open() && beside.entrance.load().epoch.access.is_guarded() =>
        {
            let text = "with [auth] metrics are here by the token in HEALTH_TOKEN only";
            return refuse(Kind::Forbidden, text);
        }
        _ => {}
    }
    match &server.scrape {
        Scrape::Off => refuse(Kind::NotFound, "metrics are off (telemetry.metrics)"),
        Scrape::Token(_) if !server.scrape.admits(exchange.headers()) => {
            refuse(Kind::Unauthorized, "a bearer token is needed")
        }
        _ => {
            if !matches!(server.serves, Serves::ProbesOnly { .. }) {
                server.sweep();
            }
            Ok(reply::text(StatusCode::OK, &render(&server.gateway)))
        }
    }
}

fn render(gateway: &Gateway) -> String {
    let metrics = &gateway.auditor.metrics;
    let mut page = Page(String::with_capacity(4096));
    let rows = metrics.rows();
    operations(&mut page, &rows);
    outputs::render(&mut page, &rows);
    backends(&mut page, gateway);
    admission(&mut page, gateway);
    shared_limits(&mut page, gateway);
    audit(&mut page, metrics);
    page.head("sentinel_sessions", "gauge", "Open legacy sessions.");
    page.line("sentinel_sessions", &[], metrics.sessions.load(Relaxed));
    page.head("sentinel_streams", "gauge", "Open event streams.");
    page.line("sentinel_streams", &[], metrics.streams.load(Relaxed));
    let name = "sentinel_spans_dropped_total";
    page.head(name, "counter", "Spans that did not reach the collector.");
    page.line(name, &[], metrics.spans_dropped.load(Relaxed));
    page.0
}

fn operations(page: &mut Page, rows: &[Row]) {
    let name = "sentinel_requests_total";
    page.head(name, "counter", "Requests by how they ended.");
    for row in rows {
        for (status, count) in STATUSES.iter().zip(&row.operation.ended) {
            let count = count.load(Relaxed);
            if count > 0 {
                page.line(
                    name,
                    &[labels(row).as_slice(), &[("status", status)]].concat(),
                    count,
                );
            }
        }
    }
    let name = "sentinel_errors_total";
    page.head(name, "counter", "Requests that failed, by kind.");
    for row in rows {
        for (kind, count) in row.operation.errors.lock().iter() {
            page.line(
                name,
                &[labels(row).as_slice(), &[("error_type", kind)]].concat(),
                *count,
            );
        }
    }
    let name = "sentinel_rate_limit_hits_total";
    page.head(name, "counter", "Requests refused by a rate limit.");
    let limited = STATUSES.iter().position(|status| *status == "rate_limited");
    for row in rows {
        let hits = limited.map_or(0, |at| row.operation.ended[at].load(Relaxed));
        if hits > 0 {
            page.line(name, &labels(row), hits);
        }
    }
    durations(page, rows);
}

fn durations(page: &mut Page, rows: &[Row]) {
    let name = "sentinel_request_duration_seconds";
    page.head(
        name,
        "histogram",
        "From the request read to the answer ready.",
    );
    for row in rows {
        let mut total = 0;
        for (at, count) in row.operation.buckets.iter().enumerate() {
            total += count.load(Relaxed);
            let bound = BUCKETS_US
                .get(at)
                .map_or_else(|| "+Inf".to_owned(), |us| (*us as f64 / 1e6).to_string());
            let with = [labels(row).as_slice(), &[("le", &bound)]].concat();
            page.line("sentinel_request_duration_seconds_bucket", &with, total);
        }
        let seconds = row.operation.sum_us.load(Relaxed) as f64 / 1e6;
        page.line(
            "sentinel_request_duration_seconds_sum",
            &labels(row),
            seconds,
        );
        page.line(
            "sentinel_request_duration_seconds_count",
            &labels(row),
            total,
        );
    }
}

fn labels(row: &Row) -> [(&str, &str); 3] {
    [
        ("method", row.method),
        ("backend", &row.backend),
        ("tool", &row.tool),
    ]
}

fn backends(page: &mut Page, gateway: &Gateway) {
    let name = "sentinel_backend_healthy";
    page.head(name, "gauge", "1 if the backend can be called.");
    for (_, backend) in gateway.registry.backends() {
        let healthy = matches!(backend.status().health, Health::Up | Health::Asleep);
        page.line(name, &[("backend", backend.name())], u8::from(healthy));
    }
    let name = "sentinel_backend_restarts_total";
    page.head(name, "counter", "Times a backend was started again.");
    for (_, backend) in gateway.registry.backends() {
        page.line(
            name,
            &[("backend", backend.name())],
            backend.status().restarts,
        );
    }
}

fn admission(page: &mut Page, gateway: &Gateway) {
    let Some(admission) = gateway.policy.admission() else {
        return;
    };
    let figures = admission.figures();
    #[rustfmt::skip] // a table has columns
    let lines = [
        ("sentinel_admission_active", "gauge", "Calls that run.", figures.active as u64),
        ("sentinel_admission_queued", "gauge", "Calls that wait for a place.", figures.queued as u64),
        ("sentinel_admission_returning", "gauge", "Calls that ran before and wait for a place to go on in.", figures.returning as u64),
        ("sentinel_admission_admitted_total", "counter", "Calls that got a place.", figures.admitted),
    ];
    page.plain(&lines);
    let name = "sentinel_admission_rejected_total";
    page.head(name, "counter", "Calls refused for lack of a place.");
    for reason in Reason::ALL {
        let count = figures.rejected[reason as usize];
        page.line(name, &[("reason", reason.as_str())], count);
    }
    let name = "sentinel_backend_active";
    page.head(name, "gauge", "Calls that run at a backend.");
    for (index, backend) in gateway.registry.backends() {
        let active = admission.backend(index).active;
        page.line(name, &[("backend", backend.name())], active);
    }
}

fn shared_limits(page: &mut Page, gateway: &Gateway) {
    let Some(shared) = gateway.policy.rates().shared() else {
        return;
    };
    let figures = shared.figures();
    #[rustfmt::skip] // a table has columns
    let lines = [
        ("sentinel_shared_limits_up", "gauge", "1 if the store of shared rate limits answers.", u64::from(figures.is_up)),
        ("sentinel_shared_limits_decided_total", "counter", "Calls whose limit the store decided.", figures.decided),
        ("sentinel_shared_limits_alone_total", "counter", "Calls whose limit this gateway decided alone, for the store did not answer.", figures.alone),
    ];
    page.plain(&lines);
}

fn audit(page: &mut Page, metrics: &Metrics) {
    let audit = &metrics.audit;
    #[rustfmt::skip] // a table has columns
    let lines = [
        ("sentinel_audit_enabled", "gauge", "1 if requests leave records.", audit.enabled.load(Relaxed)),
        ("sentinel_audit_records_total", "counter", "Records written.", audit.records.load(Relaxed)),
        ("sentinel_audit_dropped_total", "counter", "Records lost to a full spool, buffer or disk.", audit.dropped.load(Relaxed)),
        ("sentinel_audit_gaps_total", "counter", "Gap records, each for a run of lost ones.", audit.gaps.load(Relaxed)),
        ("sentinel_audit_ingested_total", "counter", "Records that reached the store.", audit.ingested.load(Relaxed)),
        ("sentinel_audit_ingest_failures_total", "counter", "Attempts that the store refused.", audit.ingest_failures.load(Relaxed)),
        ("sentinel_audit_backlog", "gauge", "Records that wait for the store.", audit.backlog()),
        ("sentinel_audit_spool_bytes", "gauge", "Size of the spool.", audit.spool_bytes.load(Relaxed)),
    ];
    page.plain(&lines);
}

struct Page(String);

impl Page {
    /// Series without labels: name, type, help and value.
    fn plain(&mut self, lines: &[(&str, &str, &str, u64)]) {
        for (name, kind, help, value) in lines {
            self.head(name, kind, help);
            self.line(name, &[], value);
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"");
            for c in text.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn labels_are_escaped_as_prometheus_wants() {
        let mut page = Page(String::new());
        page.line("x", &[("a", "q\"\\\n")], 1);
        assert_eq!(page.0, "x{a=\"q\\\"\\\\\\n\"} 1\n");
    }

    #[test]
    fn a_token_is_asked_for_where_one_is_set() {
        let scrape = Scrape::with_token("s3");
        let mut headers = HeaderMap::new();
        assert!(!scrape.admits(&headers));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer s4"));
        assert!(!scrape.admits(&headers));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer s3"));
        assert!(scrape.admits(&headers));
        assert!(Scrape::Open.admits(&HeaderMap::new()));
    }
}
