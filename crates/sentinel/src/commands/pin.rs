//! `sentinel pin`: what backends say about their tools, and whether that was approved.

use std::process::ExitCode;

use sentinel_core::catalog::Pins;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Unreachable, one_line, print, say, warn};
use crate::cli::{Global, Pin, PinAction, Target};
use crate::client;
use crate::operator::{APPROVED_MAX, Reach};
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
    let mut pins = match reached.gateways.as_slice() {
        [] => {
            let kept = Pins::open(pin_file(&reached.data_dir)).list();
            serde_json::from_value(serde_json::to_value(kept)?)?
        }
        gateways => client::run(seen_by(gateways))?,
    };
    let known = pins.len();
    pins.retain(|pin| all || !pin["difference"].is_null());
    if global.json {
        return print(&format!("{:#}\n", json!({ "pins": pins })));
    }
    // Without one nobody knows what backends say at the moment.
    let unknown = reached.gateways.is_empty();
    if unknown && known > 0 {
        warn("no gateway is running, so nobody knows whether a tool differs now");
    }
    if pins.is_empty() {
        say(&match unknown {
            true => format!("{known} tools are pinned; `sentinel pin list --all` shows them"),
            false => format!("{known} tools are pinned, none of them differs"),
        });
        return Ok(ExitCode::SUCCESS);
    }
    print(&pins.iter().map(line).collect::<String>())
}

/// What a gateway knows of definitions.
#[derive(Deserialize)]
struct Seen {
    pins: Vec<Value>,
}

/// What a gateway answers to an approval.
#[derive(Deserialize)]
struct Approval {
    approved: Vec<String>,
    pins: Vec<Value>,
}

/// What the gateways of a data directory see: each may have other backends, and one may know of a difference
/// before the others do.
async fn seen_by(gateways: &[Reach]) -> anyhow::Result<Vec<Value>> {
    let mut pins: Vec<Value> = Vec::new();
    for gateway in gateways {
        let seen: Seen = gateway.wish("pins", None).await?;
        for pin in seen.pins {
            let same = |known: &&mut Value| {
                (&known["backend"], &known["tool"]) == (&pin["backend"], &pin["tool"])
            };
            match pins.iter_mut().find(same) {
                Some(known) if known["difference"].is_null() => *known = pin,
                Some(_) => {}
                None => pins.push(pin),
            }
        }
    }
    Ok(pins)
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
    let Approved { names, known } = client::run(approve_at(&reached.gateways, &body))?;
    if global.json {
        return print(&format!("{:#}\n", json!({ "approved": names })));
    }
    match (names.as_slice(), tool) {
        ([], Some(tool)) if known.iter().any(|name| name == tool) => anyhow::bail!(
            "`{tool}` of `{backend}` is what was pinned, so there is nothing to approve"
        ),
        ([], Some(tool)) => anyhow::bail!(
            "`{tool}` of `{backend}` waits for no approval; `sentinel pin list` shows what does"
        ),
        ([], None) => say(&format!(
            "nothing of `{backend}` differs from what was pinned"
        )),
        (names, _) => say(&format!("approved {}", one_line(&names.join(", ")))),
    }
    Ok(ExitCode::SUCCESS)
}

/// What came of an approval.
#[derive(Default)]
struct Approved {
    names: Vec<String>,
    /// Every tool of the backend that is pinned.
    known: Vec<String>,
}

/// Approves what each gateway's own backend offers now; a gateway that cannot say does not keep the others from it.
async fn approve_at(gateways: &[Reach], body: &Value) -> anyhow::Result<Approved> {
    let mut approved = Approved::default();
    let mut problem = None;
    for gateway in gateways {
        let answer = match approve_one(gateway, body).await {
            Ok(answer) => answer,
            Err(error) => {
                problem = Some(error);
                continue;
            }
        };
        approved.names.extend(answer.approved);
        let mut pins = answer.pins;
        pins.retain(|pin| pin["backend"] == body["backend"]);
        let tools = pins.iter().filter_map(|pin| pin["tool"].as_str());
        approved.known.extend(tools.map(str::to_owned));
    }
    approved.names.sort();
    approved.names.dedup();
    match problem {
        Some(error) if approved.names.is_empty() => Err(error),
        Some(error) => {
            warn(&format!("{error:#}"));
            Ok(approved)
        }
        None => Ok(approved),
    }
}

/// Whether there is a gateway is known soon; what a backend of it offers may take longer.
async fn approve_one(gateway: &Reach, body: &Value) -> anyhow::Result<Approval> {
    let _: Seen = gateway.wish("pins", None).await?;
    let gateway = gateway.patient(APPROVED_MAX);
    gateway.wish("pins", Some(body)).await
}
