//! Every operation of every backend.

use schemars::JsonSchema;
use sentinel_core::{Fault, ItemKind};
use serde::{Deserialize, Serialize};

use super::{Endpoint, Exchange};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CatalogEntry {
    pub backend: String,
    /// `tools`, `resources`, `resourceTemplates` or `prompts`.
    pub kind: Option<String>,
    /// The backend's own name for it.
    pub own_name: String,
    /// The name in the merged catalog.
    pub name: String,
    /// Held back until its definition is approved.
    pub held: bool,
}

pub(crate) struct List;

impl Endpoint for List {
    type Input = ();
    type Output = Vec<CatalogEntry>;

    async fn handle(exchange: &Exchange<'_>, (): ()) -> Result<Self::Output, Fault> {
        let catalog = exchange.server.gateway.policy.registry().catalog();
        let all = catalog.all_operations().map(|operation| CatalogEntry {
            backend: operation.backend.to_string(),
            kind: operation
                .kind
                .map(|kind| ItemKind::list_member(kind).to_owned()),
            own_name: operation.own.to_string(),
            name: operation.exposed.to_string(),
            held: operation.held.is_some(),
        });
        Ok(all.collect())
    }
}
