//! The admin API: what an operator asks and switches, as JSON under `/admin/api`.
//!
//! It takes no place of `admission` and asks no backend, so it answers however busy the gateway is.
//!
//! Not here: who the operator is (the door), what a kill does (`core::policy`).

use std::sync::Arc;

use http::{Method as Verb, Request, Response, StatusCode};
use hyper::body::Incoming;
use sentinel_core::policy::{Killed, Reason, Scope};
use sentinel_core::{Caller, ClientCapabilities, Identity, ItemKind, Kind, LogLevel, Policy, View};
use sentinel_wire::Revision;
use serde_json::{Value, json};

use super::body::Body;
use super::{Door, post, reply};

pub(super) const PREFIX: &str = "/admin/api/";
/// What an operator sends is small.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// What a request was about, for its record; it travels on the response.
#[derive(Clone)]
pub(super) struct About(pub(super) String);

pub(super) async fn answer(
    door: &Arc<Door>,
    identity: &Identity,
    request: Request<Incoming>,
) -> Response<Body> {
    let policy = &door.gateway.policy;
    if !policy.is_admin(&operator(identity)) {
        return reply::refuse(Kind::Forbidden, "your role may not use the admin API");
    }
    let path = request.uri().path().to_owned();
    match (request.method(), &path[PREFIX.len()..]) {
        (&Verb::GET, "status") => ok(&status(door)),
        (&Verb::GET, "backends") => ok(&backends(policy)),
        (&Verb::GET, "catalog") => ok(&catalog(policy)),
        (&Verb::POST, "kill") => switch(policy, request, kill).await,
        (&Verb::POST, "revive") => switch(policy, request, revive).await,
        (_, "status" | "backends" | "catalog") => reply::method_not_allowed("GET"),
        (_, "kill" | "revive") => reply::method_not_allowed("POST"),
        _ => reply::text(StatusCode::NOT_FOUND, "not found\n"),
    }
}

/// The one who asks, as policy judges callers.
fn operator(identity: &Identity) -> Caller {
    Caller {
        subject: identity.subject.clone(),
        role: identity.role.clone(),
        scopes: identity.scopes.clone(),
        tenant: identity.tenant.clone(),
        revision: Revision::NEWEST,
        capabilities: ClientCapabilities::default(),
        client_info: None,
        session: None,
        log_level: LogLevel::default(),
    }
}

fn ok(body: &Value) -> Response<Body> {
    reply::json(StatusCode::OK, body.to_string().into_bytes())
}

fn status(door: &Door) -> Value {
    let policy = &door.gateway.policy;
    let admission = policy.admission().map(|admission| {
        let figures = admission.figures();
        let rejected: serde_json::Map<String, Value> = Reason::ALL
            .iter()
            .map(|r| (r.as_str().to_owned(), figures.rejected[*r as usize].into()))
            .collect();
        json!({"active": figures.active, "queued": figures.queued, "admitted": figures.admitted,
               "rejected": rejected})
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "sessions": door.sessions.len(),
        "admission": admission,
        "killed": policy.kills().killed(),
    })
}

fn backends(policy: &Policy) -> Value {
    let registry = policy.registry();
    let catalog = registry.catalog();
    let one = |(index, backend): (usize, &Arc<dyn sentinel_core::Backend>)| {
        let status = backend.status();
        let (active, queued) = policy
            .admission()
            .map_or((0, 0), |admission| admission.backend(index));
        json!({
            "name": registry.name_of(index),
            "health": status.health.as_str(),
            "revision": status.revision.map(|r| r.as_str()),
            "restarts": status.restarts,
            "problem": status.problem,
            "listed": catalog.is_listed(index),
            "tools": catalog.count(View::Only(index), ItemKind::Tool),
            "active": active,
            "queued": queued,
        })
    };
    registry.backends().map(one).collect()
}

fn catalog(policy: &Policy) -> Value {
    let registry = policy.registry();
    let catalog = registry.catalog();
    let all = (0..registry.len()).flat_map(|index| catalog.operations(index));
    all.map(|operation| {
        let kind = operation.kind.map(ItemKind::list_member);
        json!({"backend": *operation.backend, "kind": kind, "own_name": *operation.own,
               "name": *operation.exposed})
    })
    .collect()
}

type Switch = fn(&Policy, Killed) -> std::io::Result<Value>;

fn kill(policy: &Policy, one: Killed) -> std::io::Result<Value> {
    tracing::warn!(scope = ?one.scope, name = one.name, reason = one.reason, "switched off");
    policy.kill(one)?;
    Ok(json!({"killed": policy.kills().killed()}))
}

fn revive(policy: &Policy, one: Killed) -> std::io::Result<Value> {
    let revived = policy.revive(one.scope, &one.name)?;
    tracing::warn!(scope = ?one.scope, name = one.name, revived, "switched on again");
    Ok(json!({"revived": revived, "killed": policy.kills().killed()}))
}

/// Throws the switch away from the workers: it waits for the disk, and answers when it holds.
async fn switch(policy: &Arc<Policy>, request: Request<Incoming>, throw: Switch) -> Response<Body> {
    let (head, body) = request.into_parts();
    if let Some(refusal) = post::check_types(&head.headers) {
        return refusal;
    }
    let bytes = match post::gather(body, BODY_BYTES_MAX).await {
        Ok(bytes) => bytes,
        Err(why) => return why.respond(BODY_BYTES_MAX),
    };
    let one: Killed = match serde_json::from_slice(&bytes) {
        Ok(one) => one,
        Err(error) => return reply::refuse(Kind::InvalidParams, format!("the body: {error}")),
    };
    if one.name.is_empty() != (one.scope == Scope::All) {
        let text = "`name` says what; only the scope \"all\" has none";
        return reply::refuse(Kind::InvalidParams, text);
    }
    let scope = format!("{:?}", one.scope).to_ascii_lowercase();
    let about = About(format!("{scope} {}", one.name).trim_end().to_owned());
    let policy = policy.clone();
    let mut response = match tokio::task::spawn_blocking(move || throw(&policy, one)).await {
        Ok(Ok(body)) => ok(&body),
        Ok(Err(error)) => {
            tracing::error!("the kill switch could not be saved: {error}");
            let text = "in force, if it was a kill, but it could not be saved: see the log";
            reply::refuse(Kind::Internal, text)
        }
        Err(_) => reply::refuse(Kind::Internal, "the switch failed: see the log"),
    };
    response.extensions_mut().insert(about);
    response
}
