//! Exports spans to a collector: OTLP over HTTP in its JSON form, in batches.
//!
//! Nothing waits for the collector: a slow or missing one costs spans, which are counted.
//!
//! Not here: the content of spans (`sentinel_core::trace`, `sentinel_core::audit`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Context;
use sentinel_backends::http::Webhook;
use sentinel_core::metrics::Metrics;
use sentinel_core::trace::{Span, SpanKind, Spans, to_hex};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Queued spans: some seconds of a busy gateway.
const QUEUE_LEN_MAX: usize = 8192;
/// Spans in one request: a few hundred kilobytes.
const BATCH_LEN_MAX: usize = 512;
/// Longest wait for filling a batch.
const BATCH_AGE_MAX: Duration = Duration::from_secs(1);
/// Pause before the single retry of a batch.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Longest wait for the collector at the end.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Accepts spans until it is finished.
pub(crate) struct Exporter {
    queue: Arc<Queue>,
    sending: JoinHandle<()>,
}

struct Queue {
    spans: parking_lot::Mutex<Option<mpsc::Sender<Span>>>,
    metrics: Arc<Metrics>,
}

impl Spans for Queue {
    fn take(&self, span: Span) {
        let queue = self.spans.lock().clone();
        if queue.is_none_or(|queue| queue.try_send(span).is_err()) {
            self.metrics.spans_dropped.fetch_add(1, Relaxed);
        }
    }
}

impl Exporter {
    /// Sends to a collector's base URL, such as `http://127.0.0.1:4318`, from this runtime.
    pub(crate) fn start(endpoint: &http::Uri, metrics: Arc<Metrics>) -> anyhow::Result<Self> {
        let url = traces_url(endpoint)?;
        let hook = Webhook::new(&url)
            .map_err(|error| anyhow::anyhow!(error))
            .context("telemetry.otlp_endpoint")?;
        let (spans, waiting) = mpsc::channel(QUEUE_LEN_MAX);
        let queue = Arc::new(Queue {
            spans: parking_lot::Mutex::new(Some(spans)),
            metrics: metrics.clone(),
        });
        let sending = tokio::spawn(send(hook, waiting, metrics));
        Ok(Self { queue, sending })
    }

    pub(crate) fn spans(&self) -> Arc<dyn Spans> {
        self.queue.clone()
    }

    /// Sends the remaining spans, within bounds.
    pub(crate) async fn finish(self) {
        drop(self.queue.spans.lock().take());
        let _ = tokio::time::timeout(FLUSH_MAX, self.sending).await;
    }
}

/// As OpenTelemetry requires, the path of traces is added unless present.
fn traces_url(endpoint: &http::Uri) -> anyhow::Result<http::Uri> {
    let text = endpoint.to_string();
    let base = text.trim_end_matches('/');
    if base.ends_with("/v1/traces") {
        return Ok(base.parse()?);
    }
    Ok(format!("{base}/v1/traces").parse()?)
}

async fn send(hook: Webhook, mut waiting: mpsc::Receiver<Span>, metrics: Arc<Metrics>) {
    let mut failing = false;
    let mut batch = Vec::with_capacity(BATCH_LEN_MAX);
    while let Some(first) = waiting.recv().await {
        batch.push(first);
        let full = async {
            while batch.len() < BATCH_LEN_MAX {
                match waiting.recv().await {
                    Some(span) => batch.push(span),
                    None => break,
                }
            }
        };
        let _ = tokio::time::timeout(BATCH_AGE_MAX, full).await;
        let body = bytes::Bytes::from(document(&batch).to_string());
        let mut sent = post(&hook, body.clone()).await;
        if sent.is_err() && !waiting.is_closed() {
            tokio::time::sleep(RETRY_AFTER).await;
            sent = post(&hook, body).await;
        }
        match sent {
            Ok(()) => failing = false,
            Err(error) => {
                metrics.spans_dropped.fetch_add(batch.len() as u64, Relaxed);
                if !failing {
                    tracing::warn!(
                        "the collector (telemetry.otlp_endpoint) does not take spans: {error}"
                    );
                }
                failing = true;
            }
        }
        batch.clear();
    }
}

async fn post(hook: &Webhook, body: bytes::Bytes) -> Result<(), String> {
    match hook.post(body).await {
        Ok(status) if status.is_success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// `ExportTraceServiceRequest`, as JSON.
fn document(spans: &[Span]) -> Value {
    let service = [
        ("service.name", "sentinel-gateway"),
        ("service.version", env!("CARGO_PKG_VERSION")),
    ];
    json!({"resourceSpans": [{
        "resource": {"attributes": service.map(|(key, value)| attribute(key, value))},
        "scopeSpans": [{
            "scope": {"name": "sentinel", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans.iter().map(one).collect::<Vec<_>>(),
        }],
    }]})
}

fn one(span: &Span) -> Value {
    let attributes = span.attributes.iter();
    let mut object = json!({
        "traceId": to_hex(&span.context.trace),
        "spanId": to_hex(&span.context.span),
        "name": span.name,
        // SERVER and CLIENT; 64-bit numbers are strings in this form.
        "kind": match span.kind { SpanKind::Server => 2, SpanKind::Client => 3 },
        "startTimeUnixNano": span.start_ns.to_string(),
        "endTimeUnixNano": span.end_ns.to_string(),
        "attributes": attributes.map(|(key, value)| attribute(key, value)).collect::<Vec<_>>(),
    });
    if let Some(parent) = &span.parent {
        object["parentSpanId"] = to_hex(parent).into();
    }
    if let Some(error) = span.error {
        object["status"] = json!({"code": 2, "message": error});
    }
    object
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}
