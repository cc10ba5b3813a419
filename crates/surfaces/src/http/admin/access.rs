//! Roles, what each of them may see and call, and why.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use sentinel_core::audit::{Filter, Query};
use sentinel_core::identity::{self, KeyRecord, api_key};
use sentinel_core::invocation::{params_named, params_of_uri};
use sentinel_core::policy::{self, ADMIN};
use sentinel_core::walk::Verdict;
use sentinel_core::{
    Addressing, Caller, Fault, Invocation, ItemKind, Operation, Registry, Round, View,
};
use sentinel_wire::Method;
use sentinel_wire::json::Rules;
use serde::{Deserialize, Serialize};

use super::parameters::{FromQuery, Pairs, Parameters};
use super::{Endpoint, Exchange, blocking, invalid};
use crate::http::operations;

/// How long the last record of a caller is looked for, which tells its role.
const SEARCH_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RoleList {
    pub roles: Vec<RoleSummary>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RoleSummary {
    pub name: String,
    /// As the configuration has them.
    pub permissions: Vec<String>,
    pub denied: Vec<String>,
    /// Tools whose calls it has to confirm.
    pub confirm: Vec<String>,
    /// It exists without configuration.
    pub builtin: bool,
    /// How many operations of the catalog it sees, and may call.
    pub sees: usize,
    pub calls: usize,
}

#[derive(JsonSchema)]
pub(crate) struct AccessQuery {
    /// The name of a role.
    role: String,
}

impl FromQuery for AccessQuery {
    type Declared = Self;

    fn take(pairs: &mut Pairs<'_>) -> Result<Self, String> {
        let role = pairs.owned("role").ok_or("`role` says which")?;
        Ok(Self { role })
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RoleAccess {
    pub role: String,
    pub operations: Vec<OperationAccess>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OperationAccess {
    pub name: String,
    pub backend: String,
    /// `tools`, `resources`, `resourceTemplates` or `prompts`.
    pub kind: Option<String>,
    pub see: bool,
    pub call: bool,
}

#[derive(JsonSchema)]
pub(crate) struct WhyQuery {
    /// A name of the merged catalog, a URI, or `<backend>.<own name>`.
    operation: String,
    /// `tools`, `resources`, `resourceTemplates` or `prompts`, where a name is more than one of them.
    kind: Option<String>,
    /// The name of a role.
    role: Option<String>,
    /// The subject of a caller, or the id or name of an API key. Without `role` it has the role of its key, or of its last
    /// record.
    caller: Option<String>,
}

impl FromQuery for WhyQuery {
    type Declared = Self;

    fn take(pairs: &mut Pairs<'_>) -> Result<Self, String> {
        let kinds = ItemKind::ALL.map(ItemKind::list_member);
        let this = Self {
            operation: pairs.owned("operation").unwrap_or_default(),
            kind: pairs.word("kind", &kinds)?,
            role: pairs.owned("role"),
            caller: pairs.owned("caller"),
        };
        match (this.operation.is_empty(), &this.role, &this.caller) {
            (true, ..) => Err("`operation` says which".to_owned()),
            (_, None, None) => Err("`role` or `caller` says who calls".to_owned()),
            _ => Ok(this),
        }
    }
}

/// What would come of a call now.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    pub operation: String,
    pub backend: Option<String>,
    pub kind: Option<String>,
    /// Whose limits and kills were looked at; none where a role was asked about.
    pub caller: Option<String>,
    pub role: String,
    /// It is in the lists of such a caller.
    pub see: bool,
    /// A call would reach the backend.
    pub call: bool,
    /// In the order of the walk.
    pub reasons: Vec<Reason>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// `resolve`, `authorize`, `kill`, `pin`, `stop`, `limit`, `confirm`, `circuit` or `admit`.
    pub step: String,
    pub verdict: Verdict,
    /// The setting that decided: a key of the configuration with its value, a kill, a pin.
    pub rule: Option<String>,
    /// A sentence for people.
    pub text: String,
}

pub(crate) struct Roles;

impl Endpoint for Roles {
    type Input = ();
    type Output = RoleList;

    async fn handle(exchange: &Exchange<'_>, (): ()) -> Result<RoleList, Fault> {
        let policy = exchange.server.gateway.policy.clone();
        blocking(move || {
            let catalog = policy.registry().catalog();
            let one = |(name, role): (&Arc<str>, &Arc<policy::Role>)| {
                let grants = || catalog.all_operations().map(|one| role.grant(one));
                RoleSummary {
                    name: name.to_string(),
                    permissions: role.permissions().map(str::to_owned).collect(),
                    denied: role.denied().map(str::to_owned).collect(),
                    confirm: role.confirms().map(str::to_owned).collect(),
                    builtin: **name == *ADMIN,
                    sees: grants().filter(|grant| grant.see).count(),
                    calls: grants().filter(|grant| grant.call).count(),
                }
            };
            let roles = policy.roles();
            let roles = roles.all().into_iter().map(one).collect();
            Ok(RoleList { roles })
        })
        .await
    }
}

pub(crate) struct Access;

impl Endpoint for Access {
    type Input = Parameters<AccessQuery>;
    type Output = RoleAccess;

    async fn handle(
        exchange: &Exchange<'_>,
        Parameters(AccessQuery { role: name }): Self::Input,
    ) -> Result<RoleAccess, Fault> {
        let policy = exchange.server.gateway.policy.clone();
        blocking(move || {
            let roles = policy.roles();
            let unknown = || invalid(format!("there is no role `{name}`"));
            let role = roles.get(&name).ok_or_else(unknown)?;
            let catalog = policy.registry().catalog();
            let one = |operation: &Arc<Operation>| {
                let grant = role.grant(operation);
                OperationAccess {
                    name: operation.exposed.to_string(),
                    backend: operation.backend.to_string(),
                    kind: operation.kind.map(|kind| kind.list_member().to_owned()),
                    see: grant.see,
                    call: grant.call,
                }
            };
            let operations = catalog.all_operations().map(one).collect();
            let role = name.clone();
            Ok(RoleAccess { role, operations })
        })
        .await
    }
}

pub(crate) struct Explain;

impl Endpoint for Explain {
    type Input = Parameters<WhyQuery>;
    type Output = Why;

    async fn handle(exchange: &Exchange<'_>, Parameters(query): Self::Input) -> Result<Why, Fault> {
        let gateway = exchange.server.gateway.clone();
        let WhyQuery {
            operation: name,
            kind,
            role,
            caller,
        } = query;
        let kind = kind.and_then(|kind| {
            let mut all = ItemKind::ALL.into_iter();
            all.find(|one| one.list_member() == kind)
        });
        let (subject, role) = match (caller, role) {
            (None, role) => (None, role.unwrap_or_default()),
            (Some(caller), role) => {
                let (subject, role) = holder(exchange, caller, role).await?;
                (Some(subject), role)
            }
        };
        blocking(move || {
            let asks = Caller {
                subject: subject.as_deref().unwrap_or_default().into(),
                role: role.as_str().into(),
                ..operations::reader(Addressing::Document)
            };
            let invocation = invocation(gateway.policy.registry(), asks, &name, kind);
            let explained = gateway.walk.explain(invocation);
            let operation = explained.operation.as_deref();
            let reasons = explained.steps.iter().map(|step| Reason {
                step: step.step.to_owned(),
                verdict: step.verdict,
                rule: step.rule.clone(),
                text: step.text.clone(),
            });
            Ok(Why {
                operation: operation.map_or(name, |operation| operation.exposed.to_string()),
                backend: operation.map(|operation| operation.backend.to_string()),
                kind: operation
                    .and_then(|operation| operation.kind)
                    .map(|kind| kind.list_member().to_owned()),
                caller: subject,
                role,
                see: explained.see,
                call: explained.call,
                reasons: reasons.collect(),
            })
        })
        .await
    }
}

/// The subject and the role of a caller that is named by its subject or its API key.
async fn holder(
    exchange: &Exchange<'_>,
    name: String,
    role: Option<String>,
) -> Result<(String, String), Fault> {
    let control = exchange.server.gateway.control();
    let key = match control.map(|control| control.key_store()) {
        None => None,
        Some(keys) => {
            let name = name.clone();
            blocking(move || Ok(key_of(&keys.list().unwrap_or_default(), &name))).await?
        }
    };
    if let Some((subject, of_key)) = key {
        return Ok((subject, role.unwrap_or(of_key)));
    }
    let records = control.and_then(|control| control.records());
    let role = match (role, records) {
        (None, Some(records)) => {
            let found = records.find(Query {
                filter: Filter {
                    caller: Some(name.clone()),
                    ..Filter::default()
                },
                newest: true,
                limit: 1,
                within: Some(SEARCH_MAX),
                ..Query::default()
            });
            let found = found.await.ok().and_then(|mut found| found.pop());
            found.map(|stored| stored.record.role)
        }
        (role, _) => role,
    };
    let unknown = || {
        invalid(format!(
            "no record tells the role of `{name}`: say it with `role`"
        ))
    };
    let role = role.filter(|role| !role.is_empty()).ok_or_else(unknown)?;
    Ok((name, role))
}

/// The subject and the role of the key of this id or name; of several with one name, the good one.
fn key_of(keys: &[KeyRecord], name: &str) -> Option<(String, String)> {
    let now = identity::now();
    let meant = api_key::subjects(keys, name);
    let named = keys
        .iter()
        .filter(|key| meant.contains(&api_key::subject(&key.id)));
    let best = named.max_by_key(|key| (key.is_good(now), key.created_at))?;
    Some((api_key::subject(&best.id), best.role.clone()))
}

/// The call of an operation that is named by its name in the merged catalog, as `<backend>.<own name>`, or by a URI.
fn invocation(
    registry: &Registry,
    caller: Caller,
    name: &str,
    kind: Option<ItemKind>,
) -> Invocation {
    let catalog = registry.catalog();
    let of_kind = |one: &&Arc<Operation>| kind.is_none_or(|kind| one.kind == Some(kind));
    let all = || catalog.all_operations().filter(of_kind);
    let merged = all().find(|one| *one.exposed == *name);
    let owned = |one: &&Arc<Operation>| {
        let rest = name
            .strip_prefix(&*one.backend)
            .and_then(|rest| rest.strip_prefix('.'));
        rest == Some(&*one.own)
    };
    let found = merged.or_else(|| all().find(owned));
    let kind = found
        .and_then(|one| one.kind)
        .or(kind)
        .unwrap_or(match name.contains("://") {
            true => ItemKind::Resource,
            false => ItemKind::Tool,
        });
    let method = match kind {
        ItemKind::Tool => Method::ToolsCall,
        ItemKind::Prompt => Method::PromptsGet,
        ItemKind::Resource | ItemKind::Template => Method::ResourcesRead,
    };
    let named = |name: &str| match kind {
        ItemKind::Tool | ItemKind::Prompt => {
            params_named(name, b"{}", b"", Rules::backend()).expect("an object")
        }
        ItemKind::Resource | ItemKind::Template => params_of_uri(name, b""),
    };
    let (view, input) = match found {
        None => (View::Merged, named(name)),
        Some(one) => {
            let merged = named(&one.exposed);
            let is_there = registry
                .operation(View::Merged, &method, &merged)
                .is_some_and(|there| there.index == one.index && there.own == one.own);
            match is_there {
                true => (View::Merged, merged),
                false => (View::Only(one.index), named(&one.own)),
            }
        }
    };
    Invocation::mcp(Round::first(), Arc::new(caller), view, method, input)
}
