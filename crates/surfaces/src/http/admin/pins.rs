//! Pinned definitions of tools, and their approval.

use std::collections::HashMap;

use schemars::JsonSchema;
use sentinel_core::catalog::{ChangedDefinition, Pinned};
use sentinel_core::{Fault, Kind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Endpoint, Exchange, Json, LOOK_MAX, blocking, invalid};

/// Of all definitions in one answer; thousands of tools fit.
const DEFINITIONS_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PinList {
    pub pins: Vec<PinnedTool>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PinnedTool {
    #[serde(flatten)]
    pub pin: Pinned,
    /// Of a tool that changed: its whole definition when it was approved or first seen. Absent where that was before
    /// definitions were kept, and where they are too many for one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_definition: Option<Value>,
    /// Of a tool that changed or is new: what its backend offers now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_definition: Option<Value>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRequest {
    pub backend: String,
    /// Absent: all of them.
    pub tool: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The tools whose new definitions were approved.
    pub approved: Vec<String>,
    pub pins: Vec<Pinned>,
}

pub(crate) struct List;

impl Endpoint for List {
    type Input = ();
    type Output = PinList;

    async fn handle(exchange: &Exchange<'_>, (): ()) -> Result<PinList, Fault> {
        let registry = exchange.server.gateway.policy.registry().clone();
        blocking(move || {
            let changed = registry.pins().changed(DEFINITIONS_BYTES_MAX).into_iter();
            let mut changed: HashMap<(String, String), ChangedDefinition> = changed
                .map(|one| ((one.backend.clone(), one.tool.clone()), one))
                .collect();
            let one = |pin: Pinned| {
                let both = changed.remove(&(pin.backend.clone(), pin.tool.clone()));
                let (approved, offered) =
                    both.map_or((None, None), |both| (both.approved, both.offered));
                PinnedTool {
                    pin,
                    approved_definition: approved,
                    offered_definition: offered,
                }
            };
            let pins = registry.pins().list().into_iter().map(one).collect();
            Ok(PinList { pins })
        })
        .await
    }
}

pub(crate) struct Approve;

impl Endpoint for Approve {
    type Input = Json<ApprovalRequest>;
    type Output = Approval;

    async fn handle(
        exchange: &Exchange<'_>,
        Json(ApprovalRequest { backend, tool }): Json<ApprovalRequest>,
    ) -> Result<Approval, Fault> {
        let registry = exchange.server.gateway.policy.registry().clone();
        let unknown = || invalid(format!("there is no backend `{backend}`"));
        let running = registry.running(&backend).ok_or_else(unknown)?;
        // What is approved is what it offers now, not what it was last seen to offer.
        let looked = tokio::time::timeout(LOOK_MAX, running.look()).await;
        let late = |_| {
            let text = format!("backend `{backend}` did not answer in time");
            Err(Fault::new(Kind::BackendTimeout, text))
        };
        looked.unwrap_or_else(late).map_err(|fault| {
            let text = format!("nothing was approved, for what it offers now is unknown: {fault}");
            Fault::new(fault.kind, text)
        })?;
        blocking(move || {
            let approved = registry
                .approve(&backend, tool.as_deref())
                .map_err(|error| {
                    tracing::error!("the pins could not be saved: {error}");
                    Fault::new(Kind::Internal, "it could not be saved: see the log")
                })?;
            if !approved.is_empty() {
                tracing::warn!(backend, tools = ?approved, "definitions were approved");
            }
            let pins = registry.pins().list();
            Ok(Approval { approved, pins })
        })
        .await
    }
}
