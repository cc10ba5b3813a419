//! `sentinel restart`: starts a backend anew, in every gateway of the data directory that has it.

use std::process::ExitCode;

use sentinel_surfaces::http::admin::backends::BackendStatus;
use sentinel_surfaces::http::admin::restart::{RestartRequest, Restarted};
use serde_json::json;

use super::{EXIT_UNREACHABLE, Unreachable, one_line, print, say, warn};
use crate::cli::{Global, Restart};
use crate::client;
use crate::config::suggest;
use crate::operator::{APPROVED_MAX, Reach};

pub(crate) fn run(global: &Global, args: &Restart) -> anyhow::Result<ExitCode> {
    let reached = client::reach(global, &args.target)?;
    if reached.gateways.is_empty() {
        let text = "no gateway is running on this data directory; --url names one elsewhere";
        return Err(Unreachable(text.to_owned()).into());
    }
    let answers = client::run(restart_at(&reached.gateways, &args.backend))?;
    if global.json {
        print(&format!("{:#}\n", json!({ "gateways": answers })))?;
    } else {
        answers.iter().for_each(tell);
    }
    Ok(match answers.iter().all(|answer| answer.up) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_UNREACHABLE),
    })
}

/// What the gateways that have the backend answer; an error if none has it.
async fn restart_at(gateways: &[Reach], backend: &str) -> anyhow::Result<Vec<Restarted>> {
    let body = json!(RestartRequest {
        backend: backend.to_owned()
    });
    let mut answers = Vec::new();
    let mut refusal = None;
    for gateway in gateways {
        let gateway = gateway.patient(APPROVED_MAX);
        match gateway.wish("restart", Some(&body)).await {
            Ok(answer) => answers.push(answer),
            Err(error) => refusal = Some((gateway, error)),
        }
    }
    match refusal {
        Some((gateway, error)) if answers.is_empty() => {
            Err(match nearest(&gateway, backend).await {
                Some(near) => anyhow::anyhow!("{error:#}; did you mean `{near}`?"),
                None => error,
            })
        }
        _ => Ok(answers),
    }
}

async fn nearest(gateway: &Reach, backend: &str) -> Option<String> {
    let known: Vec<BackendStatus> = gateway.wish("backends", None).await.ok()?;
    let near = suggest::nearest(backend, known.iter().map(|one| &*one.name))?;
    (near != backend).then(|| near.to_owned())
}

fn tell(answer: &Restarted) {
    let name = one_line(&answer.backend);
    if answer.up {
        return say(&format!("backend `{name}` is up"));
    }
    let problem = one_line(answer.problem.as_deref().unwrap_or("it does not answer"));
    let next = answer.retry_after_ms.map_or(String::new(), |ms| {
        format!("; it is tried again in {} s", ms.div_ceil(1000))
    });
    warn(&format!("backend `{name}` did not start: {problem}{next}"));
}
