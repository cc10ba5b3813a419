//! The limits as they stand now: rates, places, circuits, sessions and streams.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use sentinel_core::circuit::CircuitFigures;
use sentinel_core::{Backend, Fault, Policy, policy};
use serde::{Deserialize, Serialize};

use super::{Endpoint, Exchange, blocking};

/// More than a page shows, and few enough to look at.
const BUCKETS_MAX: usize = 200;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LimitsNow {
    pub rates: Rates,
    /// The fullest buckets first, at most 200.
    pub buckets: Vec<RateBucket>,
    /// How many buckets there are.
    pub buckets_total: usize,
    /// `None`: calls are not limited.
    pub admission: Option<Places>,
    pub circuits: Vec<CircuitNow>,
    pub sessions: Sessions,
    pub streams: Streams,
}

/// The rate limits of the configuration. 0 is no limit.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Calls in a minute.
    pub default_rpm: u32,
    /// 0: the allowance of a minute.
    pub burst: u32,
    /// Calls in a minute by name or pattern.
    pub per_tool: BTreeMap<String, u32>,
    /// Other gateways count as well (`[redis]`): `buckets` are the calls at this one.
    pub shared: bool,
}

/// The allowance of one caller for one tool.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RateBucket {
    pub caller: String,
    pub backend: String,
    /// The name in the merged catalog.
    pub tool: String,
    /// Calls in a minute, and at once.
    pub limit: u32,
    pub burst: u32,
    /// Calls possible at once now.
    pub remaining: u32,
    /// Until one more call is possible.
    pub renews_in_ms: u64,
    /// Until all are.
    pub full_in_ms: u64,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Places {
    pub max: u32,
    pub queue_max: u32,
    pub queue_timeout_ms: u64,
    pub active: u32,
    pub queued: u32,
    pub backends: Vec<BackendPlaces>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct BackendPlaces {
    pub name: String,
    pub max: u32,
    pub queue_max: u32,
    pub active: u32,
    pub queued: u32,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CircuitNow {
    pub backend: String,
    pub state: CircuitState,
    /// Failures in a row, and how many open it; 0 never does.
    pub failures: u32,
    pub threshold: u32,
    /// When a call is let through again.
    pub retry_after_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CircuitState {
    Closed,
    Open,
    /// The next call is let through, to see.
    HalfOpen,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Sessions {
    pub open: usize,
    pub max: usize,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Streams {
    pub open: usize,
    pub max: usize,
    /// Where callers are authenticated.
    pub per_caller_max: usize,
}

pub(crate) struct Read;

impl Endpoint for Read {
    type Input = ();
    type Output = LimitsNow;

    async fn handle(exchange: &Exchange<'_>, (): ()) -> Result<LimitsNow, Fault> {
        let server = exchange.server.clone();
        // A quarter of a million buckets are looked through.
        blocking(move || {
            let (policy, limits) = (&server.gateway.policy, server.gateway.limits());
            Ok(LimitsNow {
                rates: rates(policy.rates()),
                buckets: buckets(policy),
                buckets_total: policy.rates().len(),
                admission: places(policy),
                circuits: policy
                    .registry()
                    .circuits()
                    .into_iter()
                    .map(circuit)
                    .collect(),
                sessions: Sessions {
                    open: server.sessions.len(),
                    max: limits.sessions_max,
                },
                streams: Streams {
                    open: server.streams.len(),
                    max: limits.streams_max,
                    per_caller_max: limits.streams_per_caller_max,
                },
            })
        })
        .await
    }
}

fn rates(rates: &policy::Rates) -> Rates {
    let config = rates.config();
    Rates {
        default_rpm: config.default_rpm,
        burst: config.burst,
        per_tool: config.per_tool.into_iter().collect(),
        shared: rates.shared().is_some(),
    }
}

fn buckets(policy: &Policy) -> Vec<RateBucket> {
    let registry = policy.registry();
    let one = |used: policy::UsedBucket| {
        let own = || used.own.clone();
        let exposed = registry.exposed_name(used.index, &used.own);
        let figures = used.figures;
        RateBucket {
            caller: used.subject.to_string(),
            backend: registry.name_of(used.index).unwrap_or_default(),
            tool: exposed.unwrap_or_else(own).to_string(),
            limit: figures.limit,
            burst: figures.burst,
            remaining: figures.remaining,
            renews_in_ms: figures.renews_in_ms,
            full_in_ms: figures.full_in_ms,
        }
    };
    let most = policy.rates().most_used(BUCKETS_MAX);
    most.into_iter().map(one).collect()
}

fn places(policy: &Policy) -> Option<Places> {
    let admission = policy.admission()?;
    let figures = admission.figures();
    let one = |(index, backend): (usize, Arc<dyn Backend>)| {
        let places = admission.backend(index);
        BackendPlaces {
            name: backend.name().to_owned(),
            max: places.bounds.max_concurrent,
            queue_max: places.bounds.queue_size,
            active: places.active,
            queued: places.queued,
        }
    };
    Some(Places {
        max: figures.bounds.max_concurrent,
        queue_max: figures.bounds.queue_size,
        queue_timeout_ms: admission.queue_timeout().as_millis() as u64,
        active: figures.active,
        queued: figures.queued,
        backends: policy.registry().backends().into_iter().map(one).collect(),
    })
}

fn circuit((backend, figures): (String, CircuitFigures)) -> CircuitNow {
    CircuitNow {
        backend,
        state: match (figures.is_closed, &figures.refuses) {
            (true, _) => CircuitState::Closed,
            (false, Some(_)) => CircuitState::Open,
            (false, None) => CircuitState::HalfOpen,
        },
        failures: figures.failures,
        threshold: figures.threshold,
        retry_after_ms: figures.refuses.map(|open| open.retry_after_ms),
    }
}
