//! `sentinel reload`: every gateway of the data directory reads its configuration again.

use std::process::ExitCode;

use http::StatusCode;
use serde_json::{Value, json};

use super::{Unreachable, plain, print, say, warn};
use crate::cli::{Global, Reload};
use crate::client;
use crate::config::mistake;
use crate::wiring::Applied;

pub(crate) fn run(global: &Global, args: &Reload) -> anyhow::Result<ExitCode> {
    let reached = client::reach(global, &args.target)?;
    if reached.gateways.is_empty() {
        let text = "no gateway is running on this data directory; --url names one elsewhere";
        return Err(Unreachable(text.to_owned()).into());
    }
    let answers = client::run(async {
        let mut answers = Vec::new();
        for gateway in &reached.gateways {
            answers.push(match gateway.ask("reload", Some(&json!({}))).await? {
                (StatusCode::UNPROCESSABLE_ENTITY, problem) if problem["detail"].is_string() => {
                    Err(problem)
                }
                (status, answer) => {
                    let _: Applied = gateway.granted(status, answer.clone())?;
                    Ok(answer)
                }
            });
        }
        Ok(answers)
    })?;
    let failed = answers.iter().any(Result::is_err);
    if global.json {
        let all: Vec<&Value> = answers
            .iter()
            .map(|answer| answer.as_ref().unwrap_or_else(|problem| problem))
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

fn tell(answer: &Result<Value, Value>) {
    let done = match answer {
        Ok(done) => done,
        Err(problem) => {
            let detail = problem["detail"].as_str().unwrap_or_default();
            return warn(&format!("not reloaded:\n{}", plain(detail)));
        }
    };
    let names = |key: &str| {
        let list = done[key].as_array().map_or(&[][..], Vec::as_slice);
        let words: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
        (!words.is_empty()).then(|| words.join(", "))
    };
    let mut parts = Vec::new();
    for (key, word) in [
        ("added", "added"),
        ("removed", "removed"),
        ("replaced", "started anew"),
        ("changed", "changed"),
    ] {
        parts.extend(names(key).map(|names| format!("{word} {names}")));
    }
    match parts.is_empty() {
        true => say("reloaded: nothing is different"),
        false => say(&format!("reloaded: {}", parts.join("; "))),
    }
    if let Some(keys) = names("restart_needed") {
        warn(&format!("only a restart changes {keys}"));
    }
    for notice in done["notices"].as_array().into_iter().flatten() {
        warn(&plain(notice.as_str().unwrap_or_default()));
    }
}
