//! `sentinel pin`: what backends say about their tools, and whether that was approved.

use std::process::ExitCode;

use sentinel_core::catalog::Pins;
use serde_json::{Value, json};

use super::{Unreachable, one_line, print, say};
use crate::cli::{Global, Pin, PinAction, Target};
use crate::client;
use crate::wiring::pin_file;

pub(crate) fn run(global: &Global, args: &Pin) -> anyhow::Result<ExitCode> {
    match &args.action {
        PinAction::List { all, target } => list(global, target, *all),
        PinAction::Approve {
            backend,
            tool,
            target,
        } => approve(global, target, backend, tool.as_deref()),
    }
}

fn list(global: &Global, target: &Target, all: bool) -> anyhow::Result<ExitCode> {
    let reached = client::reach(global, target)?;
    let mut pins: Vec<Value> = match reached.gateways.last() {
        Some(gateway) => {
            let answer = client::run(gateway.wish("pins", None))?;
            serde_json::from_value(answer["pins"].clone())?
        }
        // What backends say at the moment nobody knows.
        None => {
            let kept = Pins::open(pin_file(&reached.data_dir)).list();
            serde_json::from_value(serde_json::to_value(kept)?)?
        }
    };
    let known = pins.len();
    pins.retain(|pin| all || !pin["difference"].is_null());
    if global.json {
        return print(&format!("{:#}\n", json!({ "pins": pins })));
    }
    if pins.is_empty() {
        say(&format!("{known} tools are pinned, none of them differs"));
        return Ok(ExitCode::SUCCESS);
    }
    print(&pins.iter().map(line).collect::<String>())
}

fn line(pin: &Value) -> String {
    let text = |key: &str| one_line(pin[key].as_str().unwrap_or_default());
    let how = match pin["difference"].as_str() {
        None if pin["approved"] == true => "as approved",
        None => "as first seen",
        Some("words") => "its description changed",
        Some("shape") => "its schema changed",
        Some("both") => "its description and its schema changed",
        Some("new") => "it is new",
        Some(_) => "what was approved cannot be read",
    };
    let held = match pin["held"] == true {
        true => ", held back",
        false => "",
    };
    format!("{}  {}: {how}{held}\n", text("backend"), text("tool"))
}

fn approve(
    global: &Global,
    target: &Target,
    backend: &str,
    tool: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let reached = client::reach(global, target)?;
    if reached.gateways.is_empty() {
        let text =
            "no gateway is running that could say what is to be approved: `sentinel serve` first";
        return Err(Unreachable(text.to_owned()).into());
    }
    let body = json!({"backend": backend, "tool": tool});
    let approved = client::run(async {
        let mut approved: Vec<String> = Vec::new();
        for gateway in &reached.gateways {
            let answer = gateway.wish("pins", Some(&body)).await?;
            let names = answer["approved"].as_array().into_iter().flatten();
            approved.extend(names.filter_map(Value::as_str).map(str::to_owned));
        }
        approved.sort();
        approved.dedup();
        Ok(approved)
    })?;
    if global.json {
        return print(&format!("{:#}\n", json!({ "approved": approved })));
    }
    match (approved.as_slice(), tool) {
        ([], Some(tool)) => anyhow::bail!(
            "`{tool}` of `{backend}` waits for no approval; `sentinel pin list` shows what does"
        ),
        ([], None) => say("nothing waits for approval"),
        (names, _) => say(&format!("approved {}", one_line(&names.join(", ")))),
    }
    Ok(ExitCode::SUCCESS)
}
