//! The limits as they stand now: rates, places, circuits, sessions and streams.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use sentinel_core::Fault;
use serde::{Deserialize, Serialize};

use super::{Endpoint, Exchange};

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
    /// One call is let through, to see.
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
        let (server, limits) = (exchange.server, exchange.server.gateway.limits());
        Ok(LimitsNow {
            rates: Rates {
                default_rpm: 0,
                burst: 0,
                per_tool: BTreeMap::new(),
                shared: server.gateway.policy.rates().shared().is_some(),
            },
            buckets: Vec::new(),
            buckets_total: server.gateway.policy.rates().len(),
            admission: None,
            circuits: Vec::new(),
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
    }
}
