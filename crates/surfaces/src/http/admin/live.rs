//! How the gateway is doing: one event at once, and one each second.
//!
//! An event is made when its reader's connection asks for it, so nothing is computed while nobody watches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use schemars::JsonSchema;
use sentinel_core::Fault;
use sentinel_core::audit::figures::CALLS;
use sentinel_core::metrics::{AuditMetrics, BUCKETS_US, Metrics, STATUSES};
use sentinel_core::policy::Killed;
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::audit::now_ms;
use super::backends::{self, BackendStatus};
use super::status::{self, Admission};
use super::streaming::{Event, EventEndpoint, json};
use super::{Exchange, HttpServer};

const EVERY: Duration = Duration::from_secs(1);

/// An event of this stream.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum LiveEvent {
    Overview(Box<Overview>),
}

/// How the gateway is doing. Totals count from its start (`boot_id`).
#[derive(Serialize, JsonSchema)]
pub struct Overview {
    pub at_ms: u64,
    /// Another one after each start.
    pub boot_id: String,
    pub uptime_s: u64,
    pub version: String,
    /// Calls by outcome. A call is what the gateway passes to backends: `tools/call`, `resources/read`, `prompts/get` and
    /// `completion/complete`, on any surface.
    pub ended: BTreeMap<String, u64>,
    /// Calls that failed or were refused, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Requests that were refused before they were read, by kind.
    pub turned_away: BTreeMap<String, u64>,
    pub latency: Latency,
    /// Open legacy sessions.
    pub sessions: usize,
    /// Open event streams.
    pub streams: usize,
    /// `None`: calls are not limited.
    pub admission: Option<Admission>,
    pub audit: AuditFigures,
    pub backends: Vec<BackendStatus>,
    /// What is switched off at run time.
    pub killed: Vec<Killed>,
    /// Definitions of tools that wait for approval.
    pub pins_waiting: usize,
    pub draining: bool,
}

/// Latencies of calls.
#[derive(Serialize, JsonSchema)]
pub struct Latency {
    /// Inclusive upper bounds, in microseconds.
    pub bounds_us: Vec<u64>,
    /// Calls for each bound, and those above the last; each is counted once.
    pub counts: Vec<u64>,
}

#[derive(Serialize, JsonSchema)]
pub struct AuditFigures {
    pub enabled: bool,
    pub records: u64,
    /// Records that were lost.
    pub dropped: u64,
    pub gaps: u64,
    /// Records that wait for the store.
    pub backlog: u64,
    pub spool_bytes: u64,
}

impl Event for LiveEvent {
    fn name(&self) -> &'static str {
        match self {
            Self::Overview(_) => "overview",
        }
    }

    fn data(&self) -> Vec<u8> {
        match self {
            Self::Overview(overview) => json(overview),
        }
    }
}

pub(crate) struct Live;

impl EventEndpoint for Live {
    type Input = ();
    type Event = LiveEvent;

    async fn open(exchange: &Exchange<'_>, (): ()) -> Result<BoxStream<'static, LiveEvent>, Fault> {
        let mut ticks = interval(EVERY);
        // A reader that was slow is told how it is now, and not how it was.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let server = exchange.server.clone();
        // Whoever watches may look into a call.
        let watching = server.gateway.auditor.stories.watch();
        let state = (ticks, server, watching);
        let events = stream::unfold(state, |(mut ticks, server, watching)| async {
            ticks.tick().await;
            let event = LiveEvent::Overview(Box::new(overview(&server)));
            Some((event, (ticks, server, watching)))
        });
        Ok(events.boxed())
    }
}

fn overview(server: &Arc<HttpServer>) -> Overview {
    let gateway = &server.gateway;
    let (policy, metrics) = (&gateway.policy, &gateway.auditor.metrics);
    let calls = Calls::of(metrics);
    Overview {
        at_ms: now_ms(),
        boot_id: gateway.run.id.clone(),
        uptime_s: gateway.run.began.elapsed().as_secs(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ended: calls.ended,
        errors: calls.errors,
        turned_away: calls.turned_away,
        latency: Latency {
            bounds_us: BUCKETS_US.to_vec(),
            counts: calls.latencies.to_vec(),
        },
        sessions: server.sessions.len(),
        streams: server.streams.len(),
        admission: status::admission(policy),
        audit: audit(&metrics.audit),
        backends: backends::statuses(policy),
        killed: policy.kills().killed(),
        pins_waiting: policy.registry().pins().waiting(),
        draining: gateway.is_draining(),
    }
}

/// The counters of all operations, added up.
#[derive(Default)]
struct Calls {
    ended: BTreeMap<String, u64>,
    errors: BTreeMap<String, u64>,
    turned_away: BTreeMap<String, u64>,
    latencies: [u64; BUCKETS_US.len() + 1],
}

impl Calls {
    fn of(metrics: &Metrics) -> Self {
        let mut this = Self::default();
        for row in metrics.rows() {
            let operation = row.operation;
            let is_call = CALLS.contains(&row.method);
            let errors = match row.method {
                // Unread, so it has no method.
                "" => &mut this.turned_away,
                _ if is_call => &mut this.errors,
                _ => continue,
            };
            for (kind, count) in operation.errors.lock().iter() {
                *errors.entry((*kind).to_owned()).or_default() += count;
            }
            if !is_call {
                continue;
            }
            for (word, count) in STATUSES.iter().zip(&operation.ended) {
                *this.ended.entry((*word).to_owned()).or_default() += count.load(Relaxed);
            }
            for (total, count) in this.latencies.iter_mut().zip(&operation.buckets) {
                *total += count.load(Relaxed);
            }
        }
        this
    }
}

fn audit(metrics: &AuditMetrics) -> AuditFigures {
    AuditFigures {
        enabled: metrics.enabled.load(Relaxed) > 0,
        records: metrics.records.load(Relaxed),
        dropped: metrics.dropped.load(Relaxed),
        gaps: metrics.gaps.load(Relaxed),
        backlog: metrics.backlog(),
        spool_bytes: metrics.spool_bytes.load(Relaxed),
    }
}
