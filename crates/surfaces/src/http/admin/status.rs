//! How the gateway is doing.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use sentinel_core::admission::Reason;
use sentinel_core::policy::Killed;
use sentinel_core::{Fault, Policy};
use serde::{Deserialize, Serialize};

use super::{Endpoint, Exchange};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub version: String,
    /// Open legacy sessions.
    pub sessions: usize,
    /// `None`: calls are not limited.
    pub admission: Option<Admission>,
    /// What is switched off at run time.
    pub killed: Vec<Killed>,
    /// Tools whose arguments were not checked when they were called.
    pub unchecked: Vec<UncheckedTool>,
    /// Routes of backends that are never taken, because the gateway has something of its own at their paths.
    #[serde(default)]
    pub shadowed: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Admission {
    pub active: u32,
    pub queued: u32,
    /// Calls that gave their place back and wait for another.
    pub returning: u32,
    /// How many may run at once.
    #[serde(default)]
    pub max: u32,
    pub admitted: u64,
    /// By reason.
    pub rejected: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct UncheckedTool {
    pub backend: String,
    pub tool: String,
    pub why: String,
}

pub(crate) struct Read;

impl Endpoint for Read {
    type Input = ();
    type Output = Status;

    async fn handle(exchange: &Exchange<'_>, (): ()) -> Result<Status, Fault> {
        let policy = &exchange.server.gateway.policy;
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sessions: exchange.server.sessions.len(),
            admission: admission(policy),
            killed: policy.kills().killed(),
            unchecked: unchecked(policy),
            shadowed: exchange.server.shadowed_routes(),
        })
    }
}

pub(super) fn admission(policy: &Policy) -> Option<Admission> {
    let admission = policy.admission()?;
    let figures = admission.figures();
    let rejected = |reason: &Reason| {
        let count = figures.rejected[*reason as usize];
        (reason.as_str().to_owned(), count)
    };
    Some(Admission {
        active: figures.active,
        queued: figures.queued,
        returning: figures.returning,
        max: admission.max_concurrent(),
        admitted: figures.admitted,
        rejected: Reason::ALL.iter().map(rejected).collect(),
    })
}

fn unchecked(policy: &Policy) -> Vec<UncheckedTool> {
    let catalog = policy.registry().catalog();
    let unchecked = catalog.all_operations().filter_map(|operation| {
        Some(UncheckedTool {
            why: operation.schema.as_ref()?.unusable()?.to_owned(),
            backend: operation.backend.to_string(),
            tool: operation.own.to_string(),
        })
    });
    unchecked.collect()
}
