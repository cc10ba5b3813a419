//! The kill switch.

use schemars::JsonSchema;
use sentinel_core::identity::api_key;
use sentinel_core::policy::{Killed, Scope};
use sentinel_core::{Fault, Kind, Policy};
use serde::{Deserialize, Serialize};

use super::{Endpoint, Exchange, Json, blocking, invalid};

/// What is switched off or on. Unlike the file that is kept, a request has no other members.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchRequest {
    pub scope: Scope,
    /// A tool's merged name or `<backend>.<glob>`, a backend, a caller or its API key; empty for everything.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub reason: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SwitchedOff {
    /// How many operations have that name at the moment; of callers nobody knows.
    pub hits: Option<usize>,
    /// Everything that is off at run time.
    pub killed: Vec<Killed>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SwitchedOn {
    /// False: it was not off at run time.
    pub revived: bool,
    pub killed: Vec<Killed>,
}

pub(crate) struct Kill;

impl Endpoint for Kill {
    type Input = Json<SwitchRequest>;
    type Output = SwitchedOff;

    async fn handle(
        exchange: &Exchange<'_>,
        Json(request): Json<SwitchRequest>,
    ) -> Result<SwitchedOff, Fault> {
        switch(exchange, request, |policy, meant| {
            let mut hits = None;
            for one in meant {
                tracing::warn!(scope = ?one.scope, name = one.name, reason = one.reason, "switched off");
                hits = policy.hits(&one);
                policy.kill(one)?;
            }
            let killed = policy.kills().killed();
            Ok(SwitchedOff { hits, killed })
        })
        .await
    }
}

pub(crate) struct Revive;

impl Endpoint for Revive {
    type Input = Json<SwitchRequest>;
    type Output = SwitchedOn;

    async fn handle(
        exchange: &Exchange<'_>,
        Json(request): Json<SwitchRequest>,
    ) -> Result<SwitchedOn, Fault> {
        switch(exchange, request, |policy, meant| {
            let mut revived = false;
            for one in meant {
                let was_off = policy.revive(one.scope, &one.name)?;
                tracing::warn!(scope = ?one.scope, name = one.name, was_off, "switched on again");
                revived |= was_off;
            }
            let killed = policy.kills().killed();
            Ok(SwitchedOn { revived, killed })
        })
        .await
    }
}

/// Moves the switch away from the workers: it waits for the disk, and answers when it holds.
async fn switch<T: Send + 'static>(
    exchange: &Exchange<'_>,
    request: SwitchRequest,
    act: fn(&Policy, Vec<Killed>) -> std::io::Result<T>,
) -> Result<T, Fault> {
    let SwitchRequest {
        scope,
        name,
        reason,
    } = request;
    let one = Killed {
        scope,
        name,
        reason,
    };
    one.check().map_err(invalid)?;
    if one.name.is_empty() != (one.scope == Scope::All) {
        return Err(invalid("`name` says what; only the scope \"all\" has none"));
    }
    let scope = format!("{:?}", one.scope).to_ascii_lowercase();
    exchange.about(format!("{scope} {}", one.name).trim_end());
    let gateway = &exchange.server.gateway;
    let policy = gateway.policy.clone();
    let keys = gateway.control().map(|control| control.key_store());
    blocking(move || {
        // A caller may be named by its API key, whose bearer has another name.
        let mut names = vec![one.name.clone()];
        if let (Scope::Caller, Some(Ok(keys))) = (one.scope, keys.map(|keys| keys.list())) {
            names.extend(api_key::subjects(keys.iter(), &one.name));
            names.dedup();
        }
        let meant = names.into_iter().map(|name| Killed {
            name,
            ..one.clone()
        });
        act(&policy, meant.collect()).map_err(|error| {
            tracing::error!("the kill switch could not be saved: {error}");
            let text = "could not be saved, see the log: a kill is in force in this process only, a revive is not done";
            Fault::new(Kind::Internal, text)
        })
    })
    .await
}
