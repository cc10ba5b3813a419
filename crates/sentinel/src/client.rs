//! A gateway client for command-line users.
//!
//! It uses `--url`, else the running gateway of this data directory, else the backends of the configuration, started
//! in this process. All three become a small in-process gateway (a remote one is its HTTP backend), so lists, eras,
//! streams and TLS work as for other callers. `Client::end` stops what was started; if the process is killed instead,
//! the shims clean up.
//!
//! Not here: the presentation of answers (`commands`).

mod owners;
mod pipe;
mod remote;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use sentinel_backends::child;
use sentinel_core::{Health, ItemKind, Status, View};
use sentinel_surfaces::Gateway;
use sentinel_wire::Revision;
use serde_json::value::RawValue;
use tokio::time::Instant;

pub(crate) use owners::Listed;
pub(crate) use pipe::Answer;
pub(crate) use remote::{GatewayAddress, endpoint, ready_of};

use crate::audit::Audit;
use crate::cli::{Global, Target};
use crate::commands::{self, Unreachable};
use crate::config::{self, Config, Loaded, suggest};
use crate::operator::{self, Reach};
use crate::progress::{self, Progress};
use crate::runfile::RunFile;
use crate::{logging, wiring};

/// Longest wait for backends before a list is shown without them.
const START_MAX: Duration = Duration::from_secs(10);
/// By then a backend has its names, whatever the state of earlier ones.
const NAMED_MAX: Duration = Duration::from_secs(3);
/// Longest time for children to end.
const STOP_MAX: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The backend without a configuration entry: the tools of the review broker.
const BUILT_IN: &str = sentinel_review::tools::NAME;

/// The operation of a command, which determines what to wait for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wish<'a> {
    pub(crate) backend: Option<&'a str>,
    pub(crate) tool: Option<&'a str>,
}

/// A backend that is unusable.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub(crate) backend: String,
    pub(crate) health: String,
    pub(crate) problem: Option<String>,
}

impl Trouble {
    pub(crate) fn of(backend: &str, status: Status) -> Self {
        let silent = (status.health == Health::Starting).then(|| "it does not answer".to_owned());
        let problem = status.problem.or(silent);
        // The last output of a program usually explains its end.
        let problem = match (problem, status.stderr.last()) {
            (Some(problem), Some(last)) => Some(format!("{problem}: {last}")),
            (problem, _) => problem,
        };
        Self {
            backend: backend.to_owned(),
            health: status.health.as_str().to_owned(),
            problem,
        }
    }

    pub(crate) fn words(&self) -> String {
        match &self.problem {
            Some(problem) => format!("backend `{}`: {}", self.backend, commands::plain(problem)),
            None => format!("backend `{}` is {}", self.backend, self.health),
        }
    }
}

pub(crate) struct Client {
    gateway: Arc<Gateway>,
    view: View,
    /// Backends with a list of their own, which tells the owner of an item.
    parts: Vec<(String, View)>,
    pub(crate) troubles: Vec<Trouble>,
    /// Calls through a gateway in this process are recorded like all others.
    audit: Audit,
}

/// Connects, runs `work`, and stops what was started.
pub(crate) fn with_client(
    global: &Global,
    target: &Target,
    wish: Wish<'_>,
    work: impl AsyncFnOnce(&Client) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    run(async {
        let client = connect(global, target, wish).await?;
        let outcome = match client.unreachable(wish) {
            Some(error) if !client.lists_any(wish) => Err(error.into()),
            _ => work(&client).await,
        };
        stop(&client.gateway).await;
        client.audit.finish().await;
        outcome
    })
}

/// Runs a command that uses backends, on one thread.
pub(crate) fn run<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

pub(crate) async fn stop(gateway: &Gateway) {
    // A child that does not end in time is killed by its shim when this process ends.
    let _ = tokio::time::timeout(STOP_MAX, wiring::stop(gateway)).await;
}

/// Commands log nothing by default: their output contains the errors.
pub(crate) fn begin_logs(global: &Global, config: &Config) -> anyhow::Result<()> {
    match global.overrides().log_level {
        Some(_) => logging::begin(config),
        None => Ok(()),
    }
}

async fn connect(global: &Global, target: &Target, wish: Wish<'_>) -> anyhow::Result<Client> {
    let environment = config::environment()?;
    let overrides = global.overrides();
    let defaults = || {
        config::parse(
            "built-in defaults",
            "",
            &environment.cwd,
            &overrides,
            &environment,
        )
    };
    if let Some(url) = &target.url {
        begin_logs(global, &defaults()?)?;
        let way = GatewayAddress {
            endpoint: endpoint(url)?,
            socket: None,
            token: target.token.as_deref(),
        };
        return remote::connect(&way, wish).await;
    }
    let loaded = config::load(&overrides, &environment);
    // A running gateway can be used even if, say, a variable is missing in this shell.
    let running = match &loaded {
        Ok(loaded) => running(&loaded.config.gateway.data_dir),
        Err(mistakes) => mistakes.data_dir().and_then(|dir| running(dir)),
    };
    if let Some((file, url)) = running {
        match &loaded {
            Ok(loaded) => begin_logs(global, &loaded.config)?,
            Err(_) => commands::warn("the configuration has mistakes; `sentinel check` shows them"),
        }
        if Progress::begin().is_seen() {
            commands::say(&format!(
                "asking the running gateway at {url} (pid {})",
                file.pid
            ));
        }
        // With a token as its caller; without one as the operator.
        let socket = file.socket().filter(|_| target.token.is_none());
        let way = GatewayAddress {
            endpoint: endpoint(socket.as_ref().map_or(url.as_str(), |_| operator::HERE))?,
            socket,
            token: target.token.as_deref(),
        };
        return remote::connect(&way, wish).await;
    }
    let loaded = loaded?;
    begin_logs(global, &loaded.config)?;
    local(&loaded, wish).await
}

/// The gateway of this data directory that listens for callers, and its endpoint; the newest one, if there are
/// several.
pub(crate) fn running(data_dir: &Path) -> Option<(RunFile, String)> {
    let listening = RunFile::find(data_dir).into_iter();
    let (file, mut address) = listening.rev().find_map(|file| {
        let address: SocketAddr = file.listen.as_deref()?.parse().ok()?;
        Some((file, address))
    })?;
    if address.ip().is_unspecified() {
        // It listens on all addresses, so also on loopback.
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    Some((file, format!("http://{address}/mcp")))
}

/// The admin APIs that a command uses.
pub(crate) struct AdminApis {
    /// None: no gateway runs on this data directory.
    pub(crate) gateways: Vec<Reach>,
    pub(crate) data_dir: PathBuf,
}

/// The data directory of the configuration. An invalid file does not prevent using a running gateway.
pub(crate) fn data_dir(global: &Global) -> anyhow::Result<PathBuf> {
    let environment = config::environment()?;
    match config::load(&global.overrides(), &environment) {
        Ok(loaded) => {
            begin_logs(global, &loaded.config)?;
            Ok(loaded.config.gateway.data_dir)
        }
        Err(mistakes) => match mistakes.data_dir().cloned() {
            Some(data_dir) => {
                commands::warn("the configuration has mistakes; `sentinel check` shows them");
                Ok(data_dir)
            }
            None => Err(mistakes.into()),
        },
    }
}

/// The gateway at `--url`, else every gateway of the data directory.
pub(crate) fn reach(global: &Global, target: &Target) -> anyhow::Result<AdminApis> {
    let data_dir = data_dir(global)?;
    let gateways = match &target.url {
        Some(url) => vec![Reach::remote(&endpoint(url)?, target.token.as_deref())?],
        None => {
            let reached = sockets(&data_dir);
            if reached.len() < RunFile::find(&data_dir).len() {
                return Err(Unreachable(
                    "a gateway is running without its socket in the data directory; name it with --url and --token".to_owned(),
                )
                .into());
            }
            reached
        }
    };
    Ok(AdminApis { gateways, data_dir })
}

/// The gateways of a data directory whose sockets accept connections.
pub(crate) fn sockets(data_dir: &Path) -> Vec<Reach> {
    let running = RunFile::find(data_dir);
    let sockets = running.iter().filter_map(RunFile::socket);
    sockets.map(Reach::socket).collect()
}

/// Starts the configured backends in this process.
async fn local(loaded: &Loaded, wish: Wish<'_>) -> anyhow::Result<Client> {
    let mut names: Vec<&str> = enabled(&loaded.config);
    let built_in = loaded.config.review.enabled;
    if names.is_empty() {
        let file = match &loaded.file {
            Some(file) => format!("{} names no backend", file.display()),
            None => "there is no configuration file".to_owned(),
        };
        let text = format!(
            "no gateway is running, and {file}: `sentinel import` takes over the servers of an MCP client, `--url` asks another gateway"
        );
        if !built_in {
            return Err(Unreachable(text).into());
        }
        if wish.backend != Some(BUILT_IN) && wish.tool.is_none() {
            commands::warn(&text);
        }
    }
    names.extend(built_in.then_some(BUILT_IN));
    if let Some(name) = wish.backend {
        position(name, &names)?;
    }
    child::become_subreaper().context("becoming a subreaper")?;
    let here = tokio::runtime::Handle::current();
    let home = move |_| here.clone();
    let audit = match wish.tool {
        Some(_) => Audit::start(&loaded.config)?,
        None => Audit::off(),
    };
    let running = wiring::build(&loaded.config, home, &audit)?;
    let gateway = running.gateway.clone();
    // Built-in tools are missing if their store cannot be opened.
    let place = |name: &str| gateway.registry.index_of(name).map(View::Only);
    let view = match wish.backend {
        Some(name) => {
            place(name).with_context(|| format!("the tools of `{name}` have no store"))?
        }
        None => View::Merged,
    };
    let parts = names.iter();
    let parts = parts.filter_map(|name| Some(((*name).to_owned(), place(name)?)));
    let mut client = Client {
        parts: parts.collect(),
        gateway,
        view,
        troubles: Vec::new(),
        audit,
    };
    client.wait(wish).await;
    client.troubles = client.not_usable();
    Ok(client)
}

pub(crate) fn enabled(config: &Config) -> Vec<&str> {
    let enabled = config.backends.iter().filter(|backend| backend.enabled);
    enabled.map(|backend| backend.name.as_str()).collect()
}

/// The index of a backend among the known ones.
fn position(name: &str, names: &[&str]) -> anyhow::Result<usize> {
    names
        .iter()
        .position(|known| *known == name)
        .with_context(|| {
            let hint = match suggest::nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are: {}", names.join(", ")),
            };
            format!("there is no backend `{name}`; {hint}")
        })
}

impl Client {
    /// The callers' list, with the owner of each item where known.
    pub(crate) fn list(&self, kind: ItemKind) -> anyhow::Result<Vec<Listed>> {
        let mut parts = Vec::with_capacity(self.parts.len());
        // Items of a single backend are its own, whatever similar items others have.
        let alone = self.parts.iter().any(|(_, view)| *view == self.view);
        for (name, view) in &self.parts {
            if alone && *view != self.view {
                continue;
            }
            parts.push((name.as_str(), self.items(*view, kind)?));
        }
        owners::tell(kind, self.items(self.view, kind)?, &parts)
    }

    fn items(&self, view: View, kind: ItemKind) -> anyhow::Result<Vec<Box<RawValue>>> {
        let catalog = self.gateway.registry.catalog();
        let mut all: Vec<Box<RawValue>> = Vec::new();
        for page in catalog.pages(view, kind, Revision::NEWEST, true) {
            let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(page)?;
            let items = members
                .remove(kind.list_member())
                .context("a list without its items")?;
            all.extend(serde_json::from_str::<Vec<_>>(items.get())?);
        }
        Ok(all)
    }

    /// Calls a tool; `arguments` is a JSON object, sent unchanged.
    pub(crate) async fn call(
        &self,
        name: &str,
        arguments: &RawValue,
        progress: &mut Progress,
    ) -> anyhow::Result<Answer> {
        pipe::call(&self.gateway, self.view, name, arguments, progress).await
    }

    /// Backends in configuration order, for grouping.
    pub(crate) fn backends(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|(name, _)| name.as_str())
    }

    /// Whether a backend may still be hidden because names of earlier ones take precedence.
    fn is_unnamed(&self, name: &str) -> bool {
        let registry = &self.gateway.registry;
        let shows_nothing = |index| registry.catalog().operations(index).next().is_none();
        !registry.all_tried() && registry.index_of(name).is_some_and(shows_nothing)
    }

    /// Waits until every backend was tried, or until the required one answers.
    async fn wait(&self, wish: Wish<'_>) {
        let mut progress = Progress::begin();
        let began = Instant::now();
        let mut settled_before = usize::MAX;
        while began.elapsed() < START_MAX {
            let all = self.statuses();
            let waiting: Vec<&str> = all
                .iter()
                .filter(|(_, status)| status.health == Health::Starting)
                .map(|(name, _)| name.as_str())
                .collect();
            let wanted = wish.backend.map_or(!waiting.is_empty(), |name| {
                waiting.contains(&name) || (began.elapsed() < NAMED_MAX && self.is_unnamed(name))
            });
            if !wanted {
                return;
            }
            if all.len() - waiting.len() != settled_before {
                settled_before = all.len() - waiting.len();
                if wish.tool.is_some_and(|tool| self.is_served(tool, &waiting)) {
                    return;
                }
            }
            progress.show(&progress::starting(&waiting, all.len()));
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Whether a tool's backend has answered.
    fn is_served(&self, tool: &str, waiting: &[&str]) -> bool {
        let listed = self.list(ItemKind::Tool).unwrap_or_default();
        listed.iter().any(|item| {
            let owner = item.backend.as_deref();
            item.key == tool && owner.is_some_and(|owner| !waiting.contains(&owner))
        })
    }

    fn statuses(&self) -> Vec<(String, Status)> {
        let backends = self.gateway.registry.backends();
        backends
            .into_iter()
            .map(|(_, backend)| (backend.name().to_owned(), backend.status()))
            .collect()
    }

    fn not_usable(&self) -> Vec<Trouble> {
        self.statuses()
            .into_iter()
            .filter(|(_, status)| !matches!(status.health, Health::Up | Health::Asleep))
            .map(|(name, status)| Trouble::of(&name, status))
            .collect()
    }

    /// Why none of the command's configured backends is usable, if so.
    pub(crate) fn unreachable(&self, wish: Wish<'_>) -> Option<Unreachable> {
        let of_interest = |name: &str| wish.backend.is_none_or(|wanted| wanted == name);
        // Built-in tools are always available, and do not count.
        let asked = self
            .backends()
            .filter(|name| of_interest(name) && (wish.backend.is_some() || *name != BUILT_IN))
            .count();
        let troubles = self.troubles.iter();
        let failed: Vec<_> = troubles.filter(|t| of_interest(&t.backend)).collect();
        if asked == 0 || failed.len() < asked {
            return None;
        }
        let mut text = "no backend can be reached; `sentinel doctor` says more".to_owned();
        for trouble in failed {
            text.push_str(&format!("\n  {}", trouble.words()));
        }
        Some(Unreachable(text))
    }

    /// Whether callers see any operation of this kind: a built-in tool, or a remembered one of an unreachable
    /// backend.
    fn lists_any(&self, wish: Wish<'_>) -> bool {
        let kinds = match wish.tool {
            Some(_) => &[ItemKind::Tool][..],
            None => &ItemKind::ALL,
        };
        let listed = kinds.iter().filter_map(|kind| self.list(*kind).ok());
        let is_meant = |item: &Listed| wish.tool.is_none_or(|tool| item.key == tool);
        listed.flatten().any(|item| is_meant(&item))
    }
}
