//! The admin API: what an operator asks and switches, as JSON under `/admin/api`.
//!
//! It takes no place of `admission` and asks no backend, so it answers however busy the gateway is. Only what is to be
//! approved is looked at first.
//!
//! Not here: who the operator is (the door), what a kill does (`core::policy`).

mod search;

use std::sync::Arc;
use std::time::Duration;

use http::{Method as Verb, Request, Response, StatusCode};
use hyper::body::Incoming;
use sentinel_core::admission::Reason;
use sentinel_core::identity::Proof;
use sentinel_core::operation::Operation;
use sentinel_core::policy::{Killed, Scope};
use sentinel_core::{Caller, Fault, Identity, ItemKind, Kind, Policy, View};
use sentinel_wire::Revision;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::body::Body;
use super::{Door, Serves, post, reply};
use crate::gateway::Control;

pub(super) const PREFIX: &str = "/admin/api/";
/// What an operator sends is small.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// How long a backend may take to say what it offers, before that is approved: less than whoever asks waits.
const LOOK_MAX: Duration = Duration::from_secs(45);

/// What a request was about, for its record; it travels on the response.
#[derive(Clone)]
pub(super) struct About(pub(super) String);

pub(super) async fn answer(
    door: &Arc<Door>,
    identity: &Identity,
    request: Request<Incoming>,
) -> Response<Body> {
    let policy = &door.gateway.policy;
    let operates = matches!(door.serves, Serves::Operator);
    if !operates && !policy.is_admin(&Caller::of(identity)) {
        return reply::refuse(Kind::Forbidden, "your role may not use the admin API");
    }
    // Whoever was switched off does not switch himself on again; the operator's socket is not his. Where
    // nobody proves anything all are one caller, and somebody must be able to.
    let is_off = || policy.kills().now().names_caller(&identity.subject);
    if identity.proof != Proof::None && is_off() {
        return reply::refuse(Kind::Disabled, "this caller is switched off");
    }
    let path = request.uri().path().to_owned();
    match (request.method(), &path[PREFIX.len()..]) {
        (&Verb::GET, "status") => ok(&status(door)),
        (&Verb::GET, "backends") => ok(&backends(policy)),
        (&Verb::GET, "catalog") => ok(&catalog(policy)),
        (&Verb::GET, "audit") => match door.gateway.control().map(|control| control.records()) {
            Some(Some(store)) => search::answer(&*store, request.uri().query()).await,
            Some(None) => reply::text(StatusCode::NOT_FOUND, "this gateway keeps no records\n"),
            None => not_here(),
        },
        (&Verb::GET, "config") => match door.gateway.control() {
            Some(control) => ok(&control.config()),
            None => not_here(),
        },
        (&Verb::GET, "keys") => match door.gateway.control().map(|control| control.keys()) {
            Some(Ok(keys)) => ok(&keys),
            Some(Err(problem)) => reply::refuse(Kind::Internal, problem),
            None => not_here(),
        },
        (&Verb::GET, "pins") => ok(&json!({"pins": policy.registry().pins().list()})),
        (&Verb::POST, "pins") => approve(door, request).await,
        (&Verb::POST, "reload") => reload(door, request).await,
        (&Verb::POST, "restart") => restart(door, request).await,
        (&Verb::POST, "kill") => switch(door, request, kill).await,
        (&Verb::POST, "revive") => switch(door, request, revive).await,
        (_, "status" | "backends" | "catalog" | "audit" | "config" | "keys") => {
            reply::method_not_allowed("GET")
        }
        (_, "pins") => reply::method_not_allowed("GET, POST"),
        (_, "kill" | "revive" | "reload" | "restart") => reply::method_not_allowed("POST"),
        _ => reply::text(StatusCode::NOT_FOUND, "not found\n"),
    }
}

fn not_here() -> Response<Body> {
    reply::text(
        StatusCode::NOT_FOUND,
        "this gateway has no configuration file\n",
    )
}

/// Another page must not be able to send this: a form has no such type.
async fn reload(door: &Door, request: Request<Incoming>) -> Response<Body> {
    if let Err(fault) = post::check_types(request.headers()) {
        return reply::refuse_in(Revision::NEWEST, &fault);
    }
    let Some(control) = door.gateway.control() else {
        return not_here();
    };
    match control.reload().await {
        Ok(done) => ok(&done),
        Err(problem) => reply::problem(StatusCode::UNPROCESSABLE_ENTITY, &problem),
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
        json!({"active": figures.active, "queued": figures.queued, "returning": figures.returning,
               "admitted": figures.admitted, "rejected": rejected})
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "sessions": door.sessions.len(),
        "admission": admission,
        "killed": policy.kills().killed(),
        "unchecked": unchecked(policy),
    })
}

/// Tools whose arguments were not checked when they were called, and why.
fn unchecked(policy: &Policy) -> Value {
    let catalog = policy.registry().catalog();
    let one = |operation: &Arc<Operation>| {
        let why = operation.schema.as_ref()?.unusable()?;
        Some(json!({"backend": *operation.backend, "tool": *operation.own, "why": why}))
    };
    catalog.all_operations().filter_map(one).collect()
}

fn backends(policy: &Policy) -> Value {
    let registry = policy.registry();
    let catalog = registry.catalog();
    let one = |(index, backend): (usize, Arc<dyn sentinel_core::Backend>)| {
        let (status, described) = (backend.status(), backend.describe());
        let (active, queued) = policy
            .admission()
            .map_or((0, 0), |admission| admission.backend(index));
        json!({
            "name": backend.name(),
            "type": described.kind,
            "target": described.target,
            "health": status.health.as_str(),
            "revision": status.revision.map(|r| r.as_str()),
            "restarts": status.restarts,
            "problem": status.problem,
            "retry_after_ms": status.retry_in.map(|left| left.as_millis() as u64),
            "listed": catalog.is_listed(index),
            "tools": catalog.count(View::Only(index), ItemKind::Tool),
            "active": active,
            "queued": queued,
        })
    };
    registry.backends().into_iter().map(one).collect()
}

fn catalog(policy: &Policy) -> Value {
    let catalog = policy.registry().catalog();
    let all = catalog.all_operations();
    all.map(|operation| {
        let kind = operation.kind.map(ItemKind::list_member);
        json!({"backend": *operation.backend, "kind": kind, "own_name": *operation.own,
               "name": *operation.exposed, "held": operation.held.is_some()})
    })
    .collect()
}

/// Whose definitions are approved.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approval {
    backend: String,
    /// Absent: all of them.
    tool: Option<String>,
}

async fn approve(door: &Door, request: Request<Incoming>) -> Response<Body> {
    let Approval { backend, tool } = match read(door, request).await {
        Ok(approval) => approval,
        Err(refusal) => return refusal,
    };
    let registry = door.gateway.policy.registry().clone();
    let Some(running) = registry.running(&backend) else {
        let text = format!("there is no backend `{backend}`");
        return reply::refuse(Kind::InvalidParams, text);
    };
    // What is approved is what it offers now, not what it was last seen to offer.
    let looked = tokio::time::timeout(LOOK_MAX, running.look()).await;
    let late = |_| {
        let text = format!("backend `{backend}` did not answer in time");
        Err(Fault::new(Kind::BackendTimeout, text))
    };
    if let Err(fault) = looked.unwrap_or_else(late) {
        let text = format!("nothing was approved, for nobody knows what it offers now: {fault}");
        return reply::refuse(fault.kind, text);
    }
    let done = tokio::task::spawn_blocking(move || {
        let approved = registry.approve(&backend, tool.as_deref())?;
        if !approved.is_empty() {
            tracing::warn!(backend, tools = ?approved, "definitions were approved");
        }
        Ok::<_, std::io::Error>(json!({"approved": approved, "pins": registry.pins().list()}))
    });
    match done.await {
        Ok(Ok(body)) => ok(&body),
        Ok(Err(error)) => {
            tracing::error!("the pins could not be saved: {error}");
            reply::refuse(Kind::Internal, "it could not be saved: see the log")
        }
        Err(_) => reply::refuse(Kind::Internal, "it failed: see the log"),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restart {
    backend: String,
}

/// Starts a backend anew. That it then fails is an answer, too: the operator asked for an attempt.
async fn restart(door: &Door, request: Request<Incoming>) -> Response<Body> {
    let Restart { backend } = match read(door, request).await {
        Ok(restart) => restart,
        Err(refusal) => return refusal,
    };
    let Some(running) = door.gateway.policy.registry().running(&backend) else {
        let text = format!("there is no backend `{backend}`");
        return reply::refuse(Kind::InvalidParams, text);
    };
    if running.is_builtin() {
        let text = format!("`{backend}` is built in: there is nothing to restart");
        return reply::refuse(Kind::InvalidParams, text);
    }
    tracing::warn!(backend, "restarted by an operator");
    let limit = tokio::time::timeout(LOOK_MAX, running.restart());
    let problem = match limit.await {
        Ok(Ok(())) => None,
        Ok(Err(fault)) => Some(
            running
                .status()
                .problem
                .unwrap_or_else(|| fault.to_string()),
        ),
        Err(_) => Some("it did not answer in time".to_owned()),
    };
    let retry_in = running.status().retry_in.filter(|_| problem.is_some());
    let mut response = ok(
        &json!({"backend": backend, "up": problem.is_none(), "problem": problem,
        "retry_after_ms": retry_in.map(|left| left.as_millis() as u64)}),
    );
    response
        .extensions_mut()
        .insert(About(format!("backend {backend}")));
    response
}

/// The JSON of a POST.
async fn read<T: DeserializeOwned>(
    door: &Door,
    request: Request<Incoming>,
) -> Result<T, Response<Body>> {
    let (head, body) = request.into_parts();
    if let Err(fault) = post::check_types(&head.headers) {
        return Err(reply::refuse_in(Revision::NEWEST, &fault));
    }
    let bytes = match post::gather(body, BODY_BYTES_MAX, &door.gateway.pace()).await {
        Ok(bytes) => bytes,
        Err(why) => {
            return Err(reply::refuse_in(
                Revision::NEWEST,
                &why.fault(BODY_BYTES_MAX),
            ));
        }
    };
    // A list would be taken for the members in their order.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        let text = "the body must be a JSON object";
        return Err(reply::refuse(Kind::InvalidParams, text));
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| reply::refuse(Kind::InvalidParams, format!("the body: {error}")))
}

/// What is switched off or on. Unlike the file that is kept, what is sent has no other members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    scope: Scope,
    #[serde(default)]
    name: String,
    #[serde(default)]
    reason: String,
}

type Switch = fn(&Policy, Killed) -> std::io::Result<Value>;

fn kill(policy: &Policy, one: Killed) -> std::io::Result<Value> {
    tracing::warn!(scope = ?one.scope, name = one.name, reason = one.reason, "switched off");
    let hits = policy.hits(&one);
    policy.kill(one)?;
    Ok(json!({"hits": hits, "killed": policy.kills().killed()}))
}

fn revive(policy: &Policy, one: Killed) -> std::io::Result<Value> {
    let revived = policy.revive(one.scope, &one.name)?;
    tracing::warn!(scope = ?one.scope, name = one.name, revived, "switched on again");
    Ok(json!({"revived": revived, "killed": policy.kills().killed()}))
}

/// What is to be switched: a caller may be named by its API key, whose bearer has another name.
fn meant(one: Killed, control: Option<&dyn Control>) -> Vec<Killed> {
    let subjects = match (one.scope, control) {
        (Scope::Caller, Some(control)) => control.key_subjects(&one.name),
        _ => Vec::new(),
    };
    let others = subjects.into_iter().filter(|subject| *subject != one.name);
    let others: Vec<Killed> = others
        .map(|name| Killed {
            name,
            ..one.clone()
        })
        .collect();
    [one].into_iter().chain(others).collect()
}

/// Two answers as one: what either did.
fn together(before: &Value, mut after: Value) -> Value {
    if before["revived"] == true {
        after["revived"] = Value::Bool(true);
    }
    after
}

/// Throws the switch away from the workers: it waits for the disk, and answers when it holds.
async fn switch(door: &Door, request: Request<Incoming>, throw: Switch) -> Response<Body> {
    let one = match read(door, request).await {
        Ok(Wanted {
            scope,
            name,
            reason,
        }) => Killed {
            scope,
            name,
            reason,
        },
        Err(refusal) => return refusal,
    };
    if let Err(wrong) = one.check() {
        return reply::refuse(Kind::InvalidParams, wrong);
    }
    if one.name.is_empty() != (one.scope == Scope::All) {
        let text = "`name` says what; only the scope \"all\" has none";
        return reply::refuse(Kind::InvalidParams, text);
    }
    let scope = format!("{:?}", one.scope).to_ascii_lowercase();
    let about = About(format!("{scope} {}", one.name).trim_end().to_owned());
    let policy = door.gateway.policy.clone();
    let control = door.gateway.control().cloned();
    let throw = move || {
        let mut answer = None;
        for one in meant(one, control.as_deref()) {
            let said = throw(&policy, one)?;
            answer = Some(match answer {
                None => said,
                Some(before) => together(&before, said),
            });
        }
        std::io::Result::Ok(answer.unwrap_or_default())
    };
    let mut response = match tokio::task::spawn_blocking(throw).await {
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
