//! Keeping a backend down, and ending that.

use schemars::JsonSchema;
use sentinel_core::Fault;
use sentinel_core::policy::{Killed, Scope};
use serde::{Deserialize, Serialize};

use super::backends::{BackendStatus, status_of};
use super::{Endpoint, Exchange, Json, LOOK_MAX, control, invalid};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    pub backend: String,
    /// One line; callers are told.
    #[serde(default)]
    pub reason: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    pub backend: String,
    /// For the log.
    #[serde(default)]
    pub reason: String,
}

pub(crate) struct Stop;

impl Endpoint for Stop {
    type Input = Json<StopRequest>;
    type Output = BackendStatus;

    async fn handle(
        exchange: &Exchange<'_>,
        Json(StopRequest { backend, reason }): Self::Input,
    ) -> Result<BackendStatus, Fault> {
        external(exchange, &backend, &reason)?;
        tracing::warn!(backend, reason, "stopped by an operator");
        let control = control(exchange.server)?;
        control.stop_backend(backend.clone(), reason).await?;
        status_of(exchange, &backend)
    }
}

pub(crate) struct Start;

impl Endpoint for Start {
    type Input = Json<StartRequest>;
    type Output = BackendStatus;

    async fn handle(
        exchange: &Exchange<'_>,
        Json(StartRequest { backend, reason }): Self::Input,
    ) -> Result<BackendStatus, Fault> {
        external(exchange, &backend, &reason)?;
        tracing::warn!(backend, reason, "started by an operator");
        let control = control(exchange.server)?;
        control.start_backend(backend.clone()).await?;
        // How that ends is in the status.
        let running = exchange.server.gateway.registry.running(&backend);
        if let Some(running) = running {
            let _ = tokio::time::timeout(LOOK_MAX, running.look()).await;
        }
        status_of(exchange, &backend)
    }
}

/// Notes what the request is about, and refuses what can be neither stopped nor started.
fn external(exchange: &Exchange<'_>, backend: &str, reason: &str) -> Result<(), Fault> {
    exchange.about(format!("backend {backend}"));
    let running = exchange.server.gateway.registry.running(backend);
    let running = running.ok_or_else(|| invalid(format!("there is no backend `{backend}`")))?;
    if running.is_builtin() {
        return Err(invalid(format!("`{backend}` is built in: it always runs")));
    }
    let named = Killed {
        scope: Scope::Backend,
        name: backend.to_owned(),
        reason: reason.to_owned(),
    };
    named.check().map_err(invalid)
}
