//! `sentinel pin`: what backends say about their tools, and whether that was approved.

use std::process::ExitCode;

use sentinel_core::catalog::{Pinned, Pins};
use sentinel_core::operation::Difference;
use sentinel_surfaces::http::admin::pins::{Approval, ApprovalRequest, PinList, PinnedTool};
use serde_json::json;

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
        [] => Pins::open(pin_file(&reached.data_dir)).list(),
        gateways => client::run(seen_by(gateways))?,
    };
    let known = pins.len();
    pins.retain(|pin| all || pin.difference.is_some());
    if global.json {
        return print(&format!("{:#}\n", json!({ "pins": pins })));
    }
    // Without one the backends' present lists are not known.
    let unknown = reached.gateways.is_empty();
    if unknown && known > 0 {
        warn("no gateway is running, so present differences are not known");
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

/// What the gateways of a data directory see: each may have other backends, and one may know of a difference
/// before the others do.
async fn seen_by(gateways: &[Reach]) -> anyhow::Result<Vec<Pinned>> {
    let mut pins: Vec<Pinned> = Vec::new();
    for gateway in gateways {
        let seen: PinList = gateway.wish("pins", None).await?;
        for PinnedTool { pin, .. } in seen.pins {
            let same =
                |known: &&mut Pinned| (&known.backend, &known.tool) == (&pin.backend, &pin.tool);
            match pins.iter_mut().find(same) {
                Some(known) if known.difference.is_none() => *known = pin,
                Some(_) => {}
                None => pins.push(pin),
            }
        }
    }
    Ok(pins)
}

fn line(pin: &Pinned) -> String {
    let how = match pin.difference {
        None if pin.approved => "as approved",
        None => "as first seen",
        Some(Difference::Words) => "its description changed",
        Some(Difference::Shape) => "its schema changed",
        Some(Difference::Both) => "its description and its schema changed",
        Some(Difference::New) => "it is new",
        Some(Difference::Unknown) => "what was approved cannot be read",
    };
    let held = match pin.held {
        true => ", held back",
        false => "",
    };
    let (backend, tool) = (one_line(&pin.backend), one_line(&pin.tool));
    format!("{backend}  {tool}: {how}{held}\n")
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
    let request = ApprovalRequest {
        backend: backend.to_owned(),
        tool: tool.map(str::to_owned),
    };
    let Approved { names, known } = client::run(approve_at(&reached.gateways, &request))?;
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
async fn approve_at(gateways: &[Reach], request: &ApprovalRequest) -> anyhow::Result<Approved> {
    let mut approved = Approved::default();
    let mut problem = None;
    for gateway in gateways {
        let answer = match approve_one(gateway, request).await {
            Ok(answer) => answer,
            Err(error) => {
                problem = Some(error);
                continue;
            }
        };
        approved.names.extend(answer.approved);
        let pins = answer.pins.into_iter();
        let of_backend = pins.filter(|pin| pin.backend == request.backend);
        approved.known.extend(of_backend.map(|pin| pin.tool));
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
async fn approve_one(gateway: &Reach, request: &ApprovalRequest) -> anyhow::Result<Approval> {
    let _: PinList = gateway.wish("pins", None).await?;
    let gateway = gateway.patient(APPROVED_MAX);
    gateway.wish("pins", Some(&json!(request))).await
}
