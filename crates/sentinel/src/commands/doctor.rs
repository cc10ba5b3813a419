//! `sentinel doctor`: tries everything once and says what is wrong, why, and what to do.
//!
//! It starts the backends of the configuration itself, the lazy ones too, beside a gateway that may be
//! running: what it finds is true of this configuration, this shell and this moment. With `--url` it
//! looks at that gateway from outside.
//!
//! Not here: how a report is printed (`report`), what is not as safe as it could be (`deviations`), what
//! to do about a problem (`BackendKind::advice`).

mod deviations;
mod report;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use sentinel_backends::{child, kind_of};
use sentinel_core::catalog::Pinned;
use sentinel_core::operation::Operation;
use sentinel_core::{Health, ItemKind, Status, View};
use sentinel_surfaces::Gateway;
use serde_json::json;
use tokio::time::Instant;

use self::report::{Checked, DataDir, Examined, Found, Report, SharedLimits};
use super::{EXIT_UNREACHABLE, print};
use crate::cli::{Doctor, Global};
use crate::client::{self, Wish};
use crate::config::{self, Config, Loaded, mistake};
use crate::progress::{self, Progress};
use crate::wiring;

/// Longest wait for one backend; its own timeout may be shorter.
const WAIT_MAX: Duration = Duration::from_secs(15);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(crate) fn run(global: &Global, args: &Doctor) -> anyhow::Result<ExitCode> {
    if args.target.url.is_some() {
        return remote(global, args);
    }
    let loaded = match config::load(&global.overrides(), &config::environment()?) {
        Ok(loaded) => loaded,
        Err(mistakes) if global.json => {
            let configuration = json!({ "ok": false, "mistakes": mistakes.to_json() });
            let answer = json!({ "ok": false, "configuration": configuration });
            print(&format!("{answer:#}\n"))?;
            return Ok(ExitCode::from(mistake::EXIT_CODE));
        }
        Err(mistakes) => return Err(mistakes.into()),
    };
    client::begin_logs(global, &loaded.config)?;
    let report = client::run(examine(&loaded))?;
    show(global, &report)
}

fn show(global: &Global, report: &Report) -> anyhow::Result<ExitCode> {
    if global.json {
        print(&format!("{:#}\n", report.to_json()))?;
    } else {
        print(&report.to_text())?;
    }
    Ok(match report.backends.iter().any(Examined::failed) {
        true => ExitCode::from(EXIT_UNREACHABLE),
        false if !report.is_well() => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// A gateway elsewhere: what its callers find.
fn remote(global: &Global, args: &Doctor) -> anyhow::Result<ExitCode> {
    let url = args.target.url.as_deref().unwrap_or_default();
    let endpoint = client::endpoint(url)?;
    let mut report = Report::default();
    let outcome = client::with_client(global, &args.target, Wish::default(), async |client| {
        let ready = client::ready_of(&endpoint, None).await;
        let kinds = ItemKind::ALL.map(|kind| client.list(kind).unwrap_or_default());
        let healths = ready.iter().flat_map(|ready| &ready.backends);
        for (name, health) in healths {
            let count = |kind: ItemKind| {
                let list = kinds[kind as usize].iter();
                list.filter(|item| item.backend.as_ref() == Some(name))
                    .count()
            };
            report.backends.push(Examined {
                name: name.clone(),
                health: health.as_str().unwrap_or_default().to_owned(),
                reachable: matches!(health.as_str(), Some("up" | "asleep")),
                counts: ItemKind::ALL.map(count),
                ..Examined::default()
            });
        }
        let state = ready.map(|ready| match ready.reason {
            Some(reason) => format!("{}: {reason}", ready.status),
            None => ready.status,
        });
        report.gateway = Some(Found {
            url: endpoint.to_string(),
            pid: None,
            state: state.unwrap_or_else(|| "answers".to_owned()),
        });
        Ok(ExitCode::SUCCESS)
    });
    // A gateway all of whose backends are away still has a report.
    match outcome {
        Err(error) if report.gateway.is_none() => Err(error),
        _ => show(global, &report),
    }
}

async fn examine(loaded: &Loaded) -> anyhow::Result<Report> {
    let config = &loaded.config;
    let gateway = match client::running(&config.gateway.data_dir) {
        Some((file, url)) => {
            let ready = client::ready_of(&client::endpoint(&url)?, None).await;
            let state = ready.map_or_else(
                || "does not answer".to_owned(),
                |ready| match ready.reason {
                    Some(reason) => format!("{}: {reason}", ready.status),
                    None => ready.status,
                },
            );
            Some(Found {
                url,
                pid: Some(file.pid),
                state,
            })
        }
        None => None,
    };
    let data_dir = data_dir(&config.gateway.data_dir);
    let tried = try_backends(config).await?;
    let (held, changed): (Vec<_>, Vec<_>) = tried.pins.into_iter().partition(|(held, _)| *held);
    let words = |(_, words)| words;
    Ok(Report {
        configuration: Some(Checked {
            file: loaded.file.clone(),
        }),
        data_dir: Some(data_dir),
        shared_limits: shared_limits(config).await?,
        gateway,
        backends: tried.backends,
        collisions: tried.collisions,
        deviations: deviations::of(config),
        held: held.into_iter().map(words).collect(),
        unchecked: tried.unchecked,
        notices: config
            .notices
            .iter()
            .cloned()
            .chain(changed.into_iter().map(words))
            .chain(tried.notices)
            .collect(),
    })
}

/// Whether catalogs and run files can be kept.
fn data_dir(path: &Path) -> DataDir {
    let tried = crate::data_dir::make(path).and_then(|()| {
        let probe = path.join(format!(".doctor-{}", std::process::id()));
        std::fs::write(&probe, b"")?;
        std::fs::remove_file(probe)
    });
    DataDir {
        path: path.to_owned(),
        problem: tried.err().map(|error| error.to_string()),
    }
}

/// Whether the store of shared rate limits answers, where there is one.
async fn shared_limits(config: &Config) -> anyhow::Result<Option<SharedLimits>> {
    let Some(redis) = &config.redis else {
        return Ok(None);
    };
    let (place, found) = sentinel_stores::Redis::probe(redis.url.expose()).await?;
    let problem = found.err().map(|trouble| trouble.to_string());
    Ok(Some(SharedLimits { place, problem }))
}

/// What is known once all backends were started.
struct Tried {
    backends: Vec<Examined>,
    /// Names that collide.
    collisions: Vec<String>,
    /// Tools that are not what they were, and whether they are held back for it.
    pins: Vec<(bool, String)>,
    unchecked: Vec<String>,
    /// What of a backend cannot be used, while the rest can.
    notices: Vec<String>,
}

/// Starts all backends and waits for each.
async fn try_backends(config: &Config) -> anyhow::Result<Tried> {
    child::become_subreaper().context("becoming a subreaper")?;
    let here = tokio::runtime::Handle::current();
    let home = move |_| here.clone();
    let running = wiring::build_with(config, home, &crate::audit::Audit::off(), true)?;
    let gateway = &running.gateway;
    let mut seen = wait(config, gateway).await.into_iter().enumerate();
    let mut examined = Vec::new();
    for backend in &config.backends {
        let found = if backend.enabled { seen.next() } else { None };
        examined.push(match found {
            Some((index, seen)) => look(backend, gateway, index, seen),
            None => Examined {
                name: backend.name.clone(),
                kind: kind_of(&backend.kind).type_name(),
                health: "disabled".into(),
                ..Examined::default()
            },
        });
    }
    let collisions = gateway.registry.complaints();
    let pins = gateway.registry.pins().list();
    let pins = pins.iter().filter_map(not_as_pinned).collect();
    let catalog = gateway.registry.catalog();
    let unchecked = catalog.all_operations().filter_map(|o| not_checked(o));
    let enabled = config.backends.iter().filter(|backend| backend.enabled);
    let running = gateway.registry.backends().into_iter();
    let notices = enabled.zip(running).flat_map(|(backend, (_, running))| {
        let notices = running.status().notices.into_iter();
        notices.map(|notice| format!("backend `{}`: {}", backend.name, super::one_line(&notice)))
    });
    let notices = notices.collect();
    let tried = Tried {
        backends: examined,
        collisions,
        pins,
        unchecked: unchecked.collect(),
        notices,
    };
    client::stop(gateway).await;
    Ok(tried)
}

/// A schema is tried at the first call of its tool, and here before anybody calls it.
fn not_checked(operation: &Operation) -> Option<String> {
    let why = operation.schema.as_ref()?.examine()?;
    let (tool, backend) = (super::one_line(&operation.own), &operation.backend);
    Some(format!(
        "tool `{tool}` of backend `{backend}`: its inputSchema cannot be used: {why}; mend it there, or see that the backend checks"
    ))
}

fn not_as_pinned(pin: &Pinned) -> Option<(bool, String)> {
    let how = pin.difference?.words();
    let held = if pin.held { " and is held back" } else { "" };
    let words = format!(
        "tool `{}` of backend `{}` is not what was pinned: {how}{held}; `sentinel pin approve {} {}` if that is right",
        super::one_line(&pin.tool),
        pin.backend,
        pin.backend,
        super::one_line(&pin.tool),
    );
    Some((pin.held, words))
}

fn limit(backend: &config::Backend) -> Duration {
    backend.timeout.min(WAIT_MAX)
}

/// How a backend was when it first answered or failed, and how long that took. Later on it may have been
/// restarted, again and again, while others were still waited for.
struct Seen {
    status: Status,
    took: Duration,
}

/// Waits for every enabled backend, for each at most its limit.
async fn wait(config: &Config, gateway: &Gateway) -> Vec<Seen> {
    let enabled: Vec<_> = config.backends.iter().filter(|b| b.enabled).collect();
    let mut seen: Vec<Option<Seen>> = enabled.iter().map(|_| None).collect();
    let mut progress = Progress::begin();
    let began = Instant::now();
    loop {
        // What is built in comes after them, and needs no waiting for.
        for (index, running) in gateway.registry.backends() {
            let Some(backend) = enabled.get(index) else {
                break;
            };
            let (status, took) = (running.status(), began.elapsed());
            let settled = status.health != Health::Starting || took >= limit(backend);
            if seen[index].is_none() && settled {
                seen[index] = Some(Seen { status, took });
            }
        }
        let open = enabled.iter().zip(&seen).filter(|(_, seen)| seen.is_none());
        let waiting: Vec<&str> = open.map(|(backend, _)| backend.name.as_str()).collect();
        if waiting.is_empty() {
            return seen.into_iter().flatten().collect();
        }
        progress.show(&progress::starting(&waiting, enabled.len()));
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn look(backend: &config::Backend, gateway: &Gateway, index: usize, seen: Seen) -> Examined {
    let Seen { mut status, took } = seen;
    let reachable = status.health == Health::Up;
    let problem = status.problem.filter(|_| !reachable).or_else(|| {
        (status.health == Health::Starting)
            .then(|| format!("no answer within {:.0} s", took.as_secs_f64()))
    });
    // A program that dies of the probe for its era is started once more, and says the same again.
    status.stderr.dedup();
    let catalog = gateway.registry.catalog();
    Examined {
        name: backend.name.clone(),
        kind: kind_of(&backend.kind).type_name(),
        health: status.health.as_str().to_owned(),
        reachable,
        revision: status.revision.filter(|_| reachable),
        start_up: status.start_up.filter(|_| reachable),
        counts: match reachable {
            true => ItemKind::ALL.map(|kind| catalog.count(View::Only(index), kind)),
            // What is remembered from another day is no finding.
            false => [0; 4],
        },
        advice: problem
            .as_deref()
            .map(|problem| kind_of(&backend.kind).advice(problem, &status.stderr)),
        problem,
        stderr: if reachable { Vec::new() } else { status.stderr },
    }
}
