//! `sentinel kill` and `sentinel revive`: the kill switch from the command line.
//!
//! Every gateway of the data directory is told, each answers when it holds; where none runs the file
//! that they begin with is changed.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use sentinel_core::policy::{KillSwitch, Killed, Scope};
use serde_json::{Value, json};

use super::{one_line, print, say, warn};
use crate::cli::{Global, Kill, KillScope, Revive, Target};
use crate::client;
use crate::config::suggest;
use crate::key_file::KeyFile;
use crate::wiring::kill_file;

pub(crate) fn kill(global: &Global, args: &Kill) -> anyhow::Result<ExitCode> {
    let Some(scope) = args.scope else {
        return list(global, &args.target);
    };
    let one = killed(scope, args.name.as_deref(), &args.reason)?;
    let answers = tell(global, &args.target, "kill", &one)?;
    if let Some(answers) = &answers
        && answers.iter().all(|answer| answer["hits"] == 0)
    {
        let what = described(&one);
        let near = suggestion(global, &args.target, &one);
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        warn(&format!(
            "{what} is off, but nothing has that name at the moment{near}"
        ));
    }
    finish(global, &one, answers.as_deref(), "off")
}

/// What may have been meant, by the catalog of a gateway.
fn suggestion(global: &Global, target: &Target, one: &Killed) -> Option<String> {
    let reached = client::reach(global, target).ok()?;
    let gateway = reached.gateways.first()?;
    let of = match one.scope {
        Scope::Backend => "backends",
        _ => "catalog",
    };
    let answer = client::run(gateway.wish(of, None)).ok()?;
    let all = answer.as_array()?.iter();
    let names: Vec<String> = all
        .flat_map(|item| {
            let text = |member: &str| item[member].as_str().unwrap_or_default().to_owned();
            [
                text("name"),
                format!("{}.{}", text("backend"), text("own_name")),
            ]
        })
        .collect();
    suggest::nearest(&one.name, names.iter().map(String::as_str)).map(str::to_owned)
}

pub(crate) fn revive(global: &Global, args: &Revive) -> anyhow::Result<ExitCode> {
    let one = killed(args.scope, args.name.as_deref(), "")?;
    let answers = tell(global, &args.target, "revive", &one)?;
    if let Some(answers) = &answers
        && answers.iter().all(|answer| answer["revived"] == false)
    {
        anyhow::bail!(
            "{} was not switched off at run time; `sentinel kill` shows what is, [kill_switch] in the configuration may say more",
            described(&one)
        );
    }
    finish(global, &one, answers.as_deref(), "on again")
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
    one.check_reason().map_err(anyhow::Error::msg)?;
    Ok(one)
}

/// What every gateway answered; `None` if there was none and the file was changed.
fn tell(
    global: &Global,
    target: &Target,
    verb: &str,
    one: &Killed,
) -> anyhow::Result<Option<Vec<Value>>> {
    let reached = client::reach(global, target)?;
    if reached.gateways.is_empty() {
        let switch = KillSwitch::open(Vec::new(), Some(kill_file(&reached.data_dir)));
        let mut revived = false;
        for name in names(one, &reached.data_dir) {
            match verb {
                "kill" => switch.kill(Killed {
                    name,
                    ..one.clone()
                })?,
                _ => revived |= switch.revive(one.scope, &name)?,
            }
        }
        let nothing = verb != "kill" && !revived;
        return Ok(nothing.then(|| vec![json!({ "revived": false })]));
    }
    let body = serde_json::to_value(one)?;
    client::run(async {
        let mut answers = Vec::new();
        for gateway in &reached.gateways {
            answers.push(gateway.wish(verb, Some(&body)).await?);
        }
        Ok(Some(answers))
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
    answers: Option<&[Value]>,
    now: &str,
) -> anyhow::Result<ExitCode> {
    let gateways = answers.map_or(0, <[Value]>::len);
    if global.json {
        let answer = json!({"scope": one.scope, "name": one.name, "gateways": gateways,
                            "killed": answers.and_then(<[Value]>::first).map(|a| &a["killed"])});
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
            let status = client::run(gateway.wish("status", None))?;
            serde_json::from_value(status["killed"].clone()).context("the gateway's answer")?
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
