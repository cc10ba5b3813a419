//! Every operation of every backend.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use sentinel_core::operation::Difference;
use sentinel_core::policy::Grant;
use sentinel_core::{Fault, ItemKind, Operation, cost};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parameters::{FromQuery, Pairs, Parameters};
use super::{Endpoint, Exchange, blocking};

#[derive(JsonSchema)]
#[expect(dead_code, reason = "declared for its schema")]
pub(crate) struct DeclaredCatalog {
    /// Entries have their definitions.
    definitions: Option<bool>,
}

pub(crate) struct CatalogQuery {
    definitions: bool,
}

impl FromQuery for CatalogQuery {
    type Declared = DeclaredCatalog;

    fn take(pairs: &mut Pairs<'_>) -> Result<Self, String> {
        let definitions = pairs.flag("definitions")?;
        Ok(Self { definitions })
    }
}

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
    pub title: Option<String>,
    pub description: Option<String>,
    /// What its definition costs a model, about.
    #[serde(default)]
    pub tokens: usize,
    #[serde(default)]
    pub pin: PinState,
    /// The roles that may call it, and that see it, by their rules alone.
    #[serde(default)]
    pub roles_call: Vec<String>,
    #[serde(default)]
    pub roles_see: Vec<String>,
    /// As callers of the newest revision are given it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Value>,
}

/// How a tool's definition stands to its pin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PinState {
    /// It has none.
    #[default]
    None,
    Pinned,
    /// It is another definition than was pinned.
    Changed,
    /// Its backend was pinned before it had this tool.
    New,
}

pub(crate) struct List;

impl Endpoint for List {
    type Input = Parameters<CatalogQuery>;
    type Output = Vec<CatalogEntry>;

    async fn handle(
        exchange: &Exchange<'_>,
        Parameters(CatalogQuery { definitions }): Self::Input,
    ) -> Result<Self::Output, Fault> {
        let policy = exchange.server.gateway.policy.clone();
        // Thousands of definitions are parsed and compared with every role.
        blocking(move || {
            let roles = policy.roles();
            let roles = roles.all();
            let pins = policy.registry().pins().list();
            let pins = pins
                .iter()
                .map(|pin| ((&*pin.backend, &*pin.tool), pin.difference));
            let pins: HashMap<_, _> = pins.collect();
            let state = |operation: &Operation| match operation.kind {
                Some(ItemKind::Tool) => match pins.get(&(&*operation.backend, &*operation.own)) {
                    None => PinState::None,
                    Some(None) => PinState::Pinned,
                    Some(Some(Difference::New)) => PinState::New,
                    Some(Some(_)) => PinState::Changed,
                },
                _ => PinState::None,
            };
            let one = |(raw, operation): (Bytes, Arc<Operation>)| {
                let definition: Value = serde_json::from_slice(&raw).unwrap_or_default();
                let text = |member: &str| definition[member].as_str().map(str::to_owned);
                let of_roles = |may: fn(Grant) -> bool| {
                    let roles = roles.iter();
                    let roles = roles.filter(|(_, role)| may(role.grant(&operation)));
                    roles.map(|(name, _)| name.to_string()).collect()
                };
                CatalogEntry {
                    backend: operation.backend.to_string(),
                    kind: operation
                        .kind
                        .map(|kind| ItemKind::list_member(kind).to_owned()),
                    own_name: operation.own.to_string(),
                    name: operation.exposed.to_string(),
                    held: operation.held.is_some(),
                    title: text("title"),
                    description: text("description"),
                    tokens: cost::tokens(&definition),
                    pin: state(&operation),
                    roles_call: of_roles(|grant| grant.call),
                    roles_see: of_roles(|grant| grant.see),
                    definition: definitions.then_some(definition),
                }
            };
            let all = policy.registry().catalog().definitions();
            Ok(all.into_iter().map(one).collect())
        })
        .await
    }
}
