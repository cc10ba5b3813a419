//! Servers of MCP clients: those of this machine, and those of a pasted file, as backends of this gateway.

use std::time::Duration;

use futures_util::future::join_all;
use schemars::JsonSchema;
use sentinel_core::catalog::Registry;
use sentinel_core::{Fault, Health};
use serde::{Deserialize, Serialize};

use super::backends::{BackendStatus, statuses};
use super::reload::Reloaded;
use super::{Endpoint, Exchange, Json, LOOK_MAX, control};

/// A client's file with dozens of servers and their icons fits.
const BODY_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct FoundServers {
    pub files: Vec<ClientFile>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClientFile {
    pub path: String,
    /// `claude-code`, `claude-desktop`, `cursor`, `vscode` or `generic`.
    pub client: String,
    /// Why it cannot be read.
    pub problem: Option<String>,
    pub servers: Vec<ImportedServer>,
}

/// A server as it would be a backend.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ImportedServer {
    /// A valid name that no backend has.
    pub name: String,
    /// Its name in the client's file.
    pub original: String,
    /// A command line or a URL.
    pub summary: String,
    /// Its table of the configuration file.
    pub toml: String,
    /// Why it cannot be added as it is.
    pub problem: Option<String>,
    /// The backend that is the same server.
    pub known: Option<String>,
    /// Environment variables that it reads. Those that the gateway does not have must be set before it starts.
    pub variables: Vec<VariableNeeded>,
    /// What could not be taken over unchanged.
    pub warnings: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct VariableNeeded {
    pub name: String,
    /// The gateway has it.
    pub set: bool,
    /// The client's file has its value as text.
    pub literal: bool,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// JSON with `mcpServers` or `servers`, the map of servers itself, or one server.
    #[serde(default)]
    pub text: Option<String>,
    /// In place of `text`: the path of a client's file that was found on this machine.
    #[serde(default)]
    pub file: Option<String>,
    /// The servers to add, by `name`; absent: every one that is not known and has no problem.
    #[serde(default)]
    pub names: Option<Vec<String>>,
    /// Add them to the file, reload, and try them. False: only say what they are.
    #[serde(default)]
    pub apply: bool,
    /// Of the configuration file that they are added to: if it is another by now, nothing is written.
    #[serde(default)]
    pub digest: Option<String>,
    /// Write credentials that the client's file has as text into the configuration file. False: they must be in the
    /// gateway's environment, under the names of `variables`.
    #[serde(default)]
    pub literals: bool,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ImportAnswer {
    pub servers: Vec<ImportedServer>,
    /// The backends that were added.
    pub added: Vec<String>,
    /// What the reload did.
    pub reloaded: Option<Reloaded>,
    /// The added backends after they were tried once, or when that took too long.
    pub backends: Vec<BackendStatus>,
}

pub(crate) struct Find;

impl Endpoint for Find {
    type Input = ();
    type Output = FoundServers;

    async fn handle(exchange: &Exchange<'_>, (): ()) -> Result<FoundServers, Fault> {
        control(exchange.server)?.found_servers().await
    }
}

/// Pause before the health of a backend is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(crate) struct Import;

impl Endpoint for Import {
    type Input = Json<ImportRequest, BODY_BYTES_MAX>;
    type Output = ImportAnswer;

    async fn handle(
        exchange: &Exchange<'_>,
        Json(request): Self::Input,
    ) -> Result<ImportAnswer, Fault> {
        let apply = request.apply;
        let mut answer = control(exchange.server)?.import(request).await?;
        exchange.about(format!("backends {}", answer.added.join(" ")).trim_end());
        if apply {
            let registry = &exchange.server.gateway.registry;
            let tried = join_all(answer.added.iter().map(|name| tried(registry, name)));
            let _ = tokio::time::timeout(LOOK_MAX, tried).await;
            answer.backends = statuses(&exchange.server.gateway.policy);
            let added = &answer.added;
            answer
                .backends
                .retain(|status| added.contains(&status.name));
        }
        Ok(answer)
    }
}

/// Resolves when a backend was tried once. Its lists are published just before its health is set.
async fn tried(registry: &Registry, name: &str) {
    registry.answered(name).await;
    let is_starting = || {
        let backend = registry.running(name);
        backend.is_some_and(|backend| matches!(backend.status().health, Health::Starting))
    };
    while is_starting() {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
