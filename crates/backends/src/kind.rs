//! A kind of backend, found by the `type` of its `[[backends]]` entry.
//!
//! The settings of a kind implement [`BackendKind`]: everything the rest of the program does with a kind
//! (start it, describe it, advise on its failures) goes through this trait, so that a new kind is one module and one
//! line in the table of kinds.
//!
//! Not here: what a running backend does (`core::Backend`), how settings are read from the file and which of them a
//! reload applies without a new start (`sentinel_config`).

use std::sync::Arc;
use std::time::Duration;

use sentinel_core::Backend;
use sentinel_core::catalog::Publisher;
use sentinel_wire::Revision;
use tokio::runtime::Handle;

/// The settings of one kind of backend.
pub trait BackendKind {
    /// The `type` in the configuration.
    fn type_name(&self) -> &'static str;

    /// Its URL or command for operators; secrets are shown as the names of their variables.
    fn target(&self) -> String;

    /// Starts a backend on `context.runtime`. It publishes what it offers, keeps itself alive, and ends with
    /// [`Backend::stop`].
    fn start(&self, context: Context) -> Result<Arc<dyn Backend>, StartError>;

    /// What to do about a problem that its status reports, recognised by the messages of this crate.
    fn advice(&self, problem: &str, stderr: &[String]) -> String;

    /// Settings that switch off a protection which is on by default.
    fn weakened(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What the gateway gives a backend of any kind.
pub struct Context {
    pub name: String,
    /// Where the backend's lists and notifications go.
    pub publisher: Publisher,
    /// The runtime that the backend's tasks and child processes belong to.
    pub runtime: Handle,
    /// Deadline of one call.
    pub timeout: Duration,
    /// Zero switches health checks off.
    pub health_interval: Duration,
    /// Failed health checks in a row after which it leaves the catalog.
    pub unhealthy_after: u32,
    /// Tools whose calls may be sent again after delivery.
    pub idempotent_tools: Vec<String>,
    pub limits: MessageLimits,
    /// Started at once and kept running, whatever the settings say: `doctor` inspects it.
    pub keep_running: bool,
}

/// Largest messages read from a backend, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct MessageLimits {
    pub line: usize,
    pub reply: usize,
    /// Longest event of a stream that is not a reply.
    pub event: usize,
}

/// The settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("backend `{name}`: {why}")]
pub struct StartError {
    name: String,
    why: String,
}

impl StartError {
    pub fn new(name: &str, why: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            why: why.into(),
        }
    }
}

/// The configured revision of MCP; `None` detects what the server speaks.
pub(crate) fn revision(configured: sentinel_config::Revision) -> Option<Revision> {
    use sentinel_config::Revision as Configured;
    match configured {
        Configured::Auto => None,
        Configured::V2024_11_05 => Some(Revision::V2024_11_05),
        Configured::V2025_03_26 => Some(Revision::V2025_03_26),
        Configured::V2025_06_18 => Some(Revision::V2025_06_18),
        Configured::V2025_11_25 => Some(Revision::V2025_11_25),
        Configured::V2026_07_28 => Some(Revision::V2026_07_28),
    }
}
