//! Reading the configuration again.

use schemars::JsonSchema;
use sentinel_core::Fault;
use serde::{Deserialize, Serialize};

use super::{Endpoint, Exchange, Posted, control};

/// What a reload did.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Reloaded {
    /// Backends by name.
    pub added: Vec<String>,
    pub removed: Vec<String>,
    /// Started anew: something about how they run is different.
    pub replaced: Vec<String>,
    /// Still the same program or connection.
    pub kept: Vec<String>,
    /// Sections that changed, and `backends.<name>` of those that are kept and seen or used otherwise.
    pub changed: Vec<String>,
    /// Keys whose new value needs a restart.
    pub restart_needed: Vec<String>,
    /// What an operator should know.
    pub notices: Vec<String>,
}

pub(crate) struct Reload;

impl Endpoint for Reload {
    type Input = Posted;
    type Output = Reloaded;

    async fn handle(exchange: &Exchange<'_>, _: Posted) -> Result<Reloaded, Fault> {
        control(exchange.server)?.reload().await
    }
}
