//! `sentinel reload`: every gateway of the data directory reads its configuration again.

use std::process::ExitCode;

use http::StatusCode;
use sentinel_surfaces::http::admin::reload::Reloaded;
use serde_json::{Value, json};

use super::{Unreachable, plain, print, say, warn};
use crate::cli::{Global, Reload};
use crate::client;
use crate::config::mistake;

pub(crate) fn run(global: &Global, args: &Reload) -> anyhow::Result<ExitCode> {
    let reached = client::reach(global, &args.target)?;
    if reached.gateways.is_empty() {
        let text = "no gateway is running on this data directory; --url names one elsewhere";
        return Err(Unreachable(text.to_owned()).into());
    }
    let answers = client::run(async {
        let mut answers: Vec<Result<Reloaded, Value>> = Vec::new();
        for gateway in &reached.gateways {
            answers.push(match gateway.ask("reload", Some(&json!({}))).await? {
                (StatusCode::UNPROCESSABLE_ENTITY, problem) if problem["detail"].is_string() => {
                    Err(problem)
                }
                (status, answer) => Ok(gateway.granted(status, answer)?),
            });
        }
        Ok(answers)
    })?;
    let failed = answers.iter().any(Result::is_err);
    if global.json {
        let all: Vec<Value> = answers
            .iter()
            .map(|answer| match answer {
                Ok(reloaded) => json!(reloaded),
                Err(problem) => problem.clone(),
            })
            .collect();
        print(&format!("{:#}\n", json!({"ok": !failed, "gateways": all})))?;
    } else {
        answers.iter().for_each(tell);
    }
    Ok(match failed {
        true => ExitCode::from(mistake::EXIT_CODE),
        false => ExitCode::SUCCESS,
    })
}

fn tell(answer: &Result<Reloaded, Value>) {
    let done = match answer {
        Ok(done) => done,
        Err(problem) => {
            let detail = problem["detail"].as_str().unwrap_or_default();
            return warn(&format!("not reloaded:\n{}", plain(detail)));
        }
    };
    let parts: Vec<String> = [
        (&done.added, "added"),
        (&done.removed, "removed"),
        (&done.replaced, "started anew"),
        (&done.changed, "changed"),
    ]
    .into_iter()
    .filter(|(names, _)| !names.is_empty())
    .map(|(names, word)| format!("{word} {}", names.join(", ")))
    .collect();
    match parts.is_empty() {
        true => say("reloaded: nothing is different"),
        false => say(&format!("reloaded: {}", parts.join("; "))),
    }
    if !done.restart_needed.is_empty() {
        let keys = done.restart_needed.join(", ");
        warn(&format!("only a restart changes {keys}"));
    }
    for notice in &done.notices {
        warn(&plain(notice));
    }
}
