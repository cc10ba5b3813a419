//! `sentinel pg check`: what a database offers to whom, and what is unsafe about it.
//!
//! Whom the gateway lets see and call an operation is asked of the same policy that decides on calls: what was found goes into a
//! catalog of its own.

use std::process::ExitCode;
use std::sync::Arc;

use sentinel_backends::postgres::{Exposed, InspectError, inspect};
use sentinel_core::policy::{self, Policy};
use sentinel_core::{Addressing, Caller, Identity, Operation, Registry};

use super::super::{EXIT_UNREACHABLE, Misuse, print};
use super::report::{Access, Looked, Offered, Report};
use crate::cli::{Global, PgCheck};
use crate::client;
use crate::config::{self, Backend, BackendKind, Config, PostgresBackend};
use crate::wiring;

pub(super) fn run(global: &Global, args: &PgCheck) -> anyhow::Result<ExitCode> {
    let config = config::load(&global.overrides(), &config::environment()?)?.config;
    client::begin_logs(global, &config)?;
    let chosen = chosen(&config, args.backend.as_deref())?;
    let mut report = Report {
        is_open: config.auth.is_none(),
        anonymous: config.auth.as_ref().map(|auth| auth.anonymous_role.clone()),
        backends: Vec::new(),
    };
    client::run(async {
        for (backend, settings) in chosen {
            let looked = look(&config, backend, settings).await?;
            report.backends.push(looked);
        }
        Ok(())
    })?;
    match global.json {
        true => print(&format!("{:#}\n", report.to_json()))?,
        false => print(&report.to_text())?,
    };
    Ok(if report.backends.iter().any(|one| one.is_err()) {
        ExitCode::from(EXIT_UNREACHABLE)
    } else if report.is_safe() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The named backend, or all that are switched on.
fn chosen<'a>(
    config: &'a Config,
    name: Option<&str>,
) -> anyhow::Result<Vec<(&'a Backend, &'a PostgresBackend)>> {
    let settings = |backend: &'a Backend| match &backend.kind {
        BackendKind::Postgres(settings) => Some((backend, settings)),
        _ => None,
    };
    let Some(name) = name else {
        let enabled = config.backends.iter().filter(|backend| backend.enabled);
        let all: Vec<_> = enabled.filter_map(settings).collect();
        return match all.is_empty() {
            true => {
                let text = "the configuration has no backend of type \"postgres\"";
                Err(Misuse(text.to_owned()).into())
            }
            false => Ok(all),
        };
    };
    let Some(backend) = config.backends.iter().find(|backend| backend.name == name) else {
        let text = format!("the configuration has no backend `{name}`");
        return Err(Misuse(text).into());
    };
    match settings(backend) {
        Some(one) => Ok(vec![one]),
        None => {
            let text = format!("backend `{name}` is not of type \"postgres\"");
            Err(Misuse(text).into())
        }
    }
}

async fn look(
    config: &Config,
    backend: &Backend,
    settings: &PostgresBackend,
) -> anyhow::Result<Result<Looked, (String, String)>> {
    let found = match inspect(settings, &backend.name, backend.timeout).await {
        Ok(found) => found,
        Err(error @ InspectError::Unreachable(_)) => {
            let why = format!("{:#}", anyhow::Error::new(error));
            return Ok(Err((backend.name.clone(), why)));
        }
        Err(InspectError::Settings(error)) => return Err(Misuse(error.to_string()).into()),
    };
    let registry = Registry::new(vec![wiring::listing(backend)]);
    registry.publisher(0).publish(found.offer);
    let settings = policy::Settings {
        roles: wiring::roles(config),
        ..policy::Settings::default()
    };
    let policy = Policy::new(registry.clone(), settings);
    let roles: Vec<String> = match config.auth {
        Some(_) => config.rbac.roles.keys().cloned().collect(),
        // Every caller has it.
        None => vec![policy::ADMIN.to_owned()],
    };
    let catalog = registry.catalog();
    let operations = found.operations.into_iter().map(|exposed| {
        let mut all = catalog.operations(0);
        let entry = all.find(|entry| is_of(entry, &exposed));
        offered(&policy, &roles, exposed, entry)
    });
    Ok(Ok(Looked {
        operations: operations.collect(),
        name: backend.name.clone(),
        login: found.login,
        role: found.role,
        database: found.database,
        version: found.version,
        left_out: found.left_out,
        findings: found.findings,
        hints: found.hints,
    }))
}

fn is_of(entry: &Operation, exposed: &Exposed) -> bool {
    entry.kind == Some(exposed.kind) && *entry.own == *exposed.key
}

fn offered(
    policy: &Policy,
    roles: &[String],
    exposed: Exposed,
    entry: Option<&Arc<Operation>>,
) -> Offered {
    let access = |role: &String| {
        // Whatever way it is reached by.
        let caller = Caller {
            addressing: Addressing::Document,
            ..Caller::of(&Identity::local(role))
        };
        let grant = policy.grant(&caller, entry?);
        let access = match (grant.call, grant.see) {
            (true, _) => Access::Call,
            (false, true) => Access::See,
            (false, false) => return None,
        };
        Some((role.clone(), access))
    };
    Offered {
        name: entry.map(|entry| entry.exposed.to_string()),
        roles: roles.iter().filter_map(access).collect(),
        exposed,
    }
}
