//! Backends and their health.

use std::sync::Arc;

use schemars::JsonSchema;
use sentinel_core::{Fault, ItemKind, Policy, View};
use serde::{Deserialize, Serialize};

use super::{Endpoint, Exchange, invalid};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct BackendStatus {
    pub name: String,
    /// The `type` of its configuration; `builtin` where it has none.
    #[serde(rename = "type")]
    pub kind: String,
    /// A URL or a command line, without secrets.
    pub target: String,
    /// `starting`, `up`, `asleep`, `failing`, `down`, or `stopped` by an operator.
    pub health: String,
    /// The revision spoken with it, once known.
    pub revision: Option<String>,
    pub restarts: u32,
    /// The last failure, while it matters.
    pub problem: Option<String>,
    /// When a backend that failed is tried next.
    pub retry_after_ms: Option<u64>,
    /// Whether its operations are in the catalog.
    pub listed: bool,
    pub tools: usize,
    /// Calls that run, and that wait for a place.
    pub active: u32,
    pub queued: u32,
}

pub(crate) struct List;

impl Endpoint for List {
    type Input = ();
    type Output = Vec<BackendStatus>;

    async fn handle(exchange: &Exchange<'_>, (): ()) -> Result<Self::Output, Fault> {
        Ok(statuses(&exchange.server.gateway.policy))
    }
}

/// Every backend, in configuration order.
pub(crate) fn statuses(policy: &Policy) -> Vec<BackendStatus> {
    let registry = policy.registry();
    let catalog = registry.catalog();
    let one = |(index, backend): (usize, Arc<dyn sentinel_core::Backend>)| {
        let (status, described) = (backend.status(), backend.describe());
        let admission = policy.admission();
        let places = admission.map(|admission| admission.backend(index));
        BackendStatus {
            name: backend.name().to_owned(),
            kind: described.kind.to_owned(),
            target: described.target,
            health: status.health.as_str().to_owned(),
            revision: status.revision.map(|revision| revision.as_str().to_owned()),
            restarts: status.restarts,
            problem: status.problem,
            retry_after_ms: status.retry_in.map(|left| left.as_millis() as u64),
            listed: catalog.is_listed(index),
            tools: catalog.count(View::Only(index), ItemKind::Tool),
            active: places.map_or(0, |places| places.active),
            queued: places.map_or(0, |places| places.queued),
        }
    };
    registry.backends().into_iter().map(one).collect()
}

/// One of them.
pub(super) fn status_of(exchange: &Exchange<'_>, name: &str) -> Result<BackendStatus, Fault> {
    let mut all = statuses(&exchange.server.gateway.policy).into_iter();
    let found = all.find(|status| status.name == name);
    found.ok_or_else(|| invalid(format!("there is no backend `{name}`")))
}
