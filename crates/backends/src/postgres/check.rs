//! What a database offers through a backend and what is unsafe about it, without serving anything.
//!
//! `inspect` connects as the backend does, only that a login which the backend would refuse is a finding here. What is unsafe is in
//! `check::rules` and, for functions, in `check::functions`.
//!
//! Not here: which roles of the gateway see what (`core::policy`), how a report is printed.

use std::time::Duration;

use sentinel_config::PostgresBackend as Settings;
use sentinel_core::{ItemKind, Offer, Reach, Route, RouteKind};
use sentinel_pg::{PgError, Session};
use serde_json::Value;

use super::served::Served;
use super::{kind, offer, read, serve};
use crate::kind::StartError;

mod functions;
mod rules;

const LOGIN: &str = "SELECT session_user::text, current_user::text, current_setting('server_version'), \
    pg_catalog.current_database()::text";

pub struct Report {
    /// The role that logs in, and the one that calls run with.
    pub login: String,
    pub role: String,
    pub database: String,
    /// The server's version.
    pub version: String,
    pub operations: Vec<Exposed>,
    /// As the catalog of the gateway takes it.
    pub offer: Offer,
    /// What is not offered, and why.
    pub left_out: Vec<String>,
    pub findings: Vec<Finding>,
    /// What is unsafe if functions call what their texts only name.
    pub hints: Vec<Finding>,
}

/// One operation that callers can reach, if policy lets them.
pub struct Exposed {
    pub kind: ItemKind,
    /// Its own name, URI or URI template.
    pub key: String,
    pub reach: Reach,
    pub hints: Hints,
    /// `GET /path/{id}`, or `RPC method`.
    pub routes: Vec<String>,
    /// It is for callers with a credential only.
    pub needs_identity: bool,
}

/// A tool's annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    pub read_only: bool,
    pub idempotent: bool,
    pub destructive: bool,
}

/// Something unsafe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A word for programs.
    pub rule: &'static str,
    /// The role, schema, table or function.
    pub object: String,
    pub problem: String,
    pub advice: String,
}

#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    #[error(transparent)]
    Settings(#[from] StartError),
    #[error("the database cannot be read")]
    Unreachable(#[source] PgError),
}

/// Looks at the database of a backend, on the current runtime.
pub async fn inspect(
    settings: &Settings,
    name: &str,
    timeout: Duration,
) -> Result<Report, InspectError> {
    let options = kind::options(settings, &settings.url, timeout);
    let mut options = options.map_err(|why| StartError::new(name, why))?;
    options.max_connections = 1;
    let config = kind::config(settings, name.to_owned(), timeout);
    let look = async |session: &mut Session| {
        let row = session.client().query_one(LOGIN, &[]).await?;
        let found = read(session, &config, &[]).await?;
        let judged = rules::apply(session, &config).await?;
        let (served, mut left_out) = serve(found, 1);
        left_out.extend(judged.unseen);
        Ok::<_, PgError>(Report {
            login: row.get(0),
            role: row.get(1),
            version: row.get(2),
            database: row.get(3),
            operations: served.iter().map(|one| exposed(one)).collect(),
            offer: offer(&served),
            left_out,
            findings: judged.findings,
            hints: judged.hints,
        })
    };
    let looked = options.build().run(look).await;
    looked
        .map_err(InspectError::Unreachable)?
        .map_err(InspectError::Unreachable)
}

fn exposed(served: &Served) -> Exposed {
    let declared = &served.declared;
    Exposed {
        kind: declared.kind,
        key: declared.key.clone(),
        reach: declared.reach,
        hints: hints(&served.item.raw),
        routes: declared.routes.iter().map(shown).collect(),
        needs_identity: declared.needs_identity,
    }
}

fn hints(definition: &[u8]) -> Hints {
    let definition: Value = serde_json::from_slice(definition).unwrap_or_default();
    let is = |name: &str| definition["annotations"][name] == true;
    Hints {
        read_only: is("readOnlyHint"),
        idempotent: is("idempotentHint"),
        destructive: is("destructiveHint"),
    }
}

fn shown(route: &Route) -> String {
    match &route.kind {
        RouteKind::Http { pattern, verbs } if verbs.is_empty() => pattern.shown().to_owned(),
        RouteKind::Http { pattern, verbs } => {
            let verbs = verbs.iter().map(|verb| &**verb).collect::<Vec<_>>();
            format!("{} {}", verbs.join("|"), pattern.shown())
        }
        RouteKind::Rpc { method } => format!("RPC {method}"),
    }
}
