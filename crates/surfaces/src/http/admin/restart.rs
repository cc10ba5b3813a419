//! Starting a backend anew.

use schemars::JsonSchema;
use sentinel_core::Fault;
use serde::{Deserialize, Serialize};

use super::{Endpoint, Exchange, Json, LOOK_MAX, control, invalid};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestartRequest {
    pub backend: String,
}

/// What came of it. That the backend fails again is an answer, too: the operator asked for an attempt.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Restarted {
    pub backend: String,
    pub up: bool,
    pub problem: Option<String>,
    /// When it is tried next.
    pub retry_after_ms: Option<u64>,
}

pub(crate) struct Restart;

impl Endpoint for Restart {
    type Input = Json<RestartRequest>;
    type Output = Restarted;

    async fn handle(
        exchange: &Exchange<'_>,
        Json(RestartRequest { backend }): Json<RestartRequest>,
    ) -> Result<Restarted, Fault> {
        exchange.about(format!("backend {backend}"));
        let unknown = || invalid(format!("there is no backend `{backend}`"));
        let registry = exchange.server.gateway.policy.registry();
        let mut running = registry.running(&backend).ok_or_else(unknown)?;
        if running.is_builtin() {
            let text = format!("`{backend}` is built in: there is nothing to restart");
            return Err(invalid(text));
        }
        tracing::warn!(backend, "restarted by an operator");
        let attempt = match running.stopped() {
            None => running.restart(),
            Some(_) => {
                let control = control(exchange.server)?;
                control.start_backend(backend.clone()).await?;
                running = registry.running(&backend).ok_or_else(unknown)?;
                running.look()
            }
        };
        let problem = match tokio::time::timeout(LOOK_MAX, attempt).await {
            Ok(Ok(())) => None,
            Ok(Err(fault)) => running.status().problem.or(Some(fault.to_string())),
            Err(_) => Some("it did not answer in time".to_owned()),
        };
        let retry_in = running.status().retry_in.filter(|_| problem.is_some());
        Ok(Restarted {
            backend,
            up: problem.is_none(),
            problem,
            retry_after_ms: retry_in.map(|left| left.as_millis() as u64),
        })
    }
}
