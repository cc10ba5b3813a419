//! `sentinel kill` and `sentinel revive`: the kill switch from the command line.
//!
//! Every gateway of the data directory is told, each answers when it holds; where none runs the file
//! that they begin with is changed.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use sentinel_core::policy::{KillSwitch, Killed, Scope};
use sentinel_surfaces::http::admin::backends::BackendStatus;
use sentinel_surfaces::http::admin::catalog::CatalogEntry;
use sentinel_surfaces::http::admin::kill::{SwitchedOff, SwitchedOn};
use sentinel_surfaces::http::admin::status::Status;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{one_line, print, say, warn};
use crate::cli::{Global, Kill, KillScope, Revive, Target};
use crate::client;
use crate::config::suggest;
use crate::key_file::KeyFile;
use crate::operator::Reach;
use crate::wiring::kill_file;

pub(crate) fn kill(global: &Global, args: &Kill) -> anyhow::Result<ExitCode> {
    let Some(scope) = args.scope else {
        return list(global, &args.target);
    };
    let one = killed(scope, args.name.as_deref(), &args.reason)?;
    let reached = client::reach(global, &args.target)?;
    if reached.gateways.is_empty() {
        let switch = KillSwitch::open(Vec::new(), Some(kill_file(&reached.data_dir)));
        for name in names(&one, &reached.data_dir) {
            switch.kill(Killed {
                name,
                ..one.clone()
            })?;
        }
    }
    let answers: Vec<SwitchedOff> = tell(&reached.gateways, "kill", &one)?;
    if !answers.is_empty() && answers.iter().all(|answer| answer.hits == Some(0)) {
        let what = described(&one);
        let near = suggestion(&reached.gateways[0], &one);
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        warn(&format!(
            "{what} is off, but nothing has that name at the moment{near}"
        ));
    }
    let killed: Vec<&[Killed]> = answers.iter().map(|answer| &answer.killed[..]).collect();
    finish(global, &one, &killed, "off")
}

/// What may have been meant, by the catalog of a gateway.
fn suggestion(gateway: &Reach, one: &Killed) -> Option<String> {
    let names: Vec<String> = client::run(async {
        Ok(match one.scope {
            Scope::Backend => {
                let all: Vec<BackendStatus> = gateway.wish("backends", None).await?;
                all.into_iter().map(|backend| backend.name).collect()
            }
            _ => {
                let all: Vec<CatalogEntry> = gateway.wish("catalog", None).await?;
                let names = all.into_iter().flat_map(|one| {
                    let own = format!("{}.{}", one.backend, one.own_name);
                    [one.name, own]
                });
                names.collect()
            }
        })
    })
    .ok()?;
    suggest::nearest(&one.name, names.iter().map(String::as_str)).map(str::to_owned)
}

pub(crate) fn revive(global: &Global, args: &Revive) -> anyhow::Result<ExitCode> {
    let one = killed(args.scope, args.name.as_deref(), "")?;
    let reached = client::reach(global, &args.target)?;
    let mut revived = false;
    if reached.gateways.is_empty() {
        let switch = KillSwitch::open(Vec::new(), Some(kill_file(&reached.data_dir)));
        for name in names(&one, &reached.data_dir) {
            revived |= switch.revive(one.scope, &name)?;
        }
    }
    let answers: Vec<SwitchedOn> = tell(&reached.gateways, "revive", &one)?;
    revived |= answers.iter().any(|answer| answer.revived);
    if !revived {
        anyhow::bail!(
            "{} was not switched off at run time; `sentinel kill` shows what is, [kill_switch] in the configuration may say more",
            described(&one)
        );
    }
    let killed: Vec<&[Killed]> = answers.iter().map(|answer| &answer.killed[..]).collect();
    finish(global, &one, &killed, "on again")
}

fn killed(scope: KillScope, name: Option<&str>, reason: &str) -> anyhow::Result<Killed> {
    let (scope, word) = match scope {
        KillScope::Tool => (Scope::Tool, "tool"),
        KillScope::Backend => (Scope::Backend, "backend"),
        KillScope::Caller => (Scope::Caller, "caller"),
        KillScope::All => (Scope::All, ""),
    };
    let name = match (scope, name) {
        (Scope::All, Some(name)) => anyhow::bail!("`all` has no name, but there is {name:?}"),
        (Scope::All, None) => String::new(),
        (_, name) => name
            .filter(|name| !name.is_empty())
            .with_context(|| format!("which {word}? Give its name"))?
            .to_owned(),
    };
    let one = Killed {
        scope,
        name,
        reason: reason.to_owned(),
    };
    one.check().map_err(anyhow::Error::msg)?;
    Ok(one)
}

/// What every gateway answered.
fn tell<T: DeserializeOwned>(
    gateways: &[Reach],
    verb: &str,
    one: &Killed,
) -> anyhow::Result<Vec<T>> {
    let body = serde_json::to_value(one)?;
    client::run(async {
        let mut answers = Vec::with_capacity(gateways.len());
        for gateway in gateways {
            answers.push(gateway.wish(verb, Some(&body)).await?);
        }
        Ok(answers)
    })
}

/// The name that was given and, of a caller, those of the API keys that are meant by it.
fn names(one: &Killed, data_dir: &Path) -> Vec<String> {
    let mut names = vec![one.name.clone()];
    if one.scope == Scope::Caller {
        names.extend(KeyFile::new(data_dir).subjects(&one.name));
        names.dedup();
    }
    names
}

fn described(one: &Killed) -> String {
    let name = one_line(&one.name);
    match one.scope {
        Scope::Tool => format!("tool `{name}`"),
        Scope::Backend => format!("backend `{name}`"),
        Scope::Caller => format!("caller `{name}`"),
        Scope::All => "everything".to_owned(),
    }
}

fn finish(
    global: &Global,
    one: &Killed,
    killed: &[&[Killed]],
    now: &str,
) -> anyhow::Result<ExitCode> {
    let gateways = killed.len();
    if global.json {
        let answer = json!({"scope": one.scope, "name": one.name, "gateways": gateways,
                            "killed": killed.first()});
        return print(&format!("{answer:#}\n"));
    }
    say(&match gateways {
        0 => format!(
            "{} is {now}: no gateway is running, the next one begins like that",
            described(one)
        ),
        _ => format!("{} is {now}", described(one)),
    });
    Ok(ExitCode::SUCCESS)
}

/// What is off at run time.
fn list(global: &Global, target: &Target) -> anyhow::Result<ExitCode> {
    let reached = client::reach(global, target)?;
    let killed: Vec<Killed> = match reached.gateways.first() {
        Some(gateway) => {
            let status: Status = client::run(gateway.wish("status", None))?;
            status.killed
        }
        None => KillSwitch::open(Vec::new(), Some(kill_file(&reached.data_dir))).killed(),
    };
    if global.json {
        return print(&format!("{:#}\n", json!({ "killed": killed })));
    }
    if killed.is_empty() {
        say("nothing is switched off at run time");
        return Ok(ExitCode::SUCCESS);
    }
    let lines = killed.iter().map(|one| match one.reason.as_str() {
        "" => format!("{}\n", described(one)),
        reason => format!("{}: {}\n", described(one), super::one_line(reason)),
    });
    print(&lines.collect::<String>())
}
