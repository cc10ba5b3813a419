//! `sentinel serve`: the gateway, listening for callers over HTTP.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use sentinel_backends::child;
use sentinel_surfaces::Gateway;
use sentinel_surfaces::http::{self, HttpServer, Scrape, Serving};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::audit::Audit;
use crate::cli::{Global, Serve};
use crate::config::{self, Config, Loaded, Place};
use crate::reload::{Load, Reloader};
use crate::runfile::RunFile;
use crate::workers::Workers;
use crate::{logging, operator, wiring};

/// How long children may take to end after the last call did.
const STOP_MAX: Duration = Duration::from_secs(10);
/// After an accept that failed (no descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Between two lines of the log about that.
const FAILURE_LINES: Duration = Duration::from_secs(10);

pub(crate) fn run(global: &Global, args: &Serve) -> anyhow::Result<ExitCode> {
    let overrides = config::Overrides {
        listen: args.listen.clone(),
        ..global.overrides()
    };
    listen(Arc::new(move |place| {
        let environment = config::environment()?;
        Ok(config::load_from(place, &overrides, &environment)?)
    }))
}

/// Serves a configuration until told to stop.
pub(super) fn listen(load: Load) -> anyhow::Result<ExitCode> {
    let main = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Before anything else: a supervisor may end the process at once and expects exit code 0.
    let signals = main.block_on(async { Signals::new() })?;
    let loaded = load(Place::Anything)?;
    let config = &loaded.config;
    logging::begin(config)?;
    for notice in &config.notices {
        tracing::warn!("{notice}");
    }
    let Some(address) = config.gateway.listen else {
        anyhow::bail!(
            "gateway.listen is \"off\": nothing to serve (use `sentinel stdio`, or set an address)"
        );
    };
    child::become_subreaper().context("becoming a subreaper")?;
    let workers = Arc::new(Workers::start()?);
    let outcome = main.block_on(serve(&loaded, address, &workers, load, signals));
    if let Ok(workers) = Arc::try_unwrap(workers) {
        workers.stop();
    }
    outcome
}

async fn serve(
    loaded: &Loaded,
    address: SocketAddr,
    workers: &Arc<Workers>,
    load: Load,
    mut signals: Signals,
) -> anyhow::Result<ExitCode> {
    let config = &loaded.config;
    let key = match config.review.alone {
        true => "--port or review.listen",
        false => "--listen or gateway.listen",
    };
    let listener = bind(workers, config, address, key).await?;
    let address = listener.local_addr()?;
    let further = listen_further(workers, config).await?;
    let further_addresses: Vec<SocketAddr> = further.iter().map(|one| one.address).collect();
    let audit = Audit::start(config)?;
    let homes = workers.clone();
    let home = move |index| homes.handle(index).clone();
    let running = wiring::build(config, home, &audit)?;
    let gateway = running.gateway.clone();
    let addresses = [&[address], &further_addresses[..]].concat();
    let server = running.http_server(addresses, scrape(config))?;
    // Before anybody can ask for it.
    let (file, overridden) = (loaded.file.clone(), loaded.overridden.clone());
    let reloader = Reloader::new(running.clone(), load, file, overridden)?;
    let open = Arc::new(AtomicUsize::new(0));
    let main = Listening {
        listener,
        address,
        serving: None,
    };
    let accepting: Vec<JoinHandle<()>> = [main]
        .into_iter()
        .chain(further)
        .map(|one| one.spawn(&server, workers, &open))
        .collect();
    workers.handle(0).spawn(server.clone().watch_revocations());
    workers.handle(0).spawn(sweep(server.clone()));
    let probes = match config.gateway.health_listen {
        Some(address) => Some(listen_for_probes(address, config, &server, workers).await?),
        None => None,
    };
    if let Err(error) = operator::open(&config.gateway.data_dir, &gateway, workers.handle(0)) {
        tracing::warn!("other commands cannot reach this gateway without a token: {error:#}");
    }
    let announced = RunFile::announce(
        &config.gateway.data_dir,
        Some(address.to_string()),
        probes.map(|at| at.to_string()),
        further_addresses.iter().map(ToString::to_string).collect(),
    );
    if let Err(error) = &announced {
        tracing::warn!("other commands will not find this gateway: {error:#}");
    }
    greet(address, config, &further_addresses);
    tracing::info!(%address, backends = config.backends.iter().filter(|b| b.enabled).count(), workers = workers.count(), "listening");

    tokio::select! {
        () = signals.next() => {}
        () = reloader.run() => {}
    }
    tracing::info!("shutting down: finishing calls in flight");
    let finished = tokio::select! {
        () = drain(&gateway, running.config().gateway.drain_timeout, &open, &server) => true,
        () = signals.next() => false,
    };
    accepting.iter().for_each(JoinHandle::abort);
    if finished {
        tokio::select! {
            _ = tokio::time::timeout(STOP_MAX, wiring::stop(&gateway)) => {}
            () = signals.next() => {}
        }
    }
    // What still runs ends here, and with it its records, before the last of them are brought home.
    workers.end().await;
    tokio::select! {
        () = audit.finish() => {}
        () = signals.next() => {}
    }
    drop(announced);
    // Children that are left go with their shims, which see this process end.
    let _ = std::io::stderr().flush();
    std::process::exit(if finished { 0 } else { 1 })
}

/// Who may read `/metrics`.
fn scrape(config: &Config) -> Scrape {
    if !config.telemetry.metrics {
        return Scrape::Off;
    }
    match std::env::var("HEALTH_TOKEN") {
        Ok(token) if !token.is_empty() => Scrape::with_token(&token),
        _ => Scrape::Open,
    }
}

/// An address that is listened on for callers.
struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    /// `None`: everything.
    serving: Option<Arc<Serving>>,
}

impl Listening {
    /// Accepts connections until it is aborted.
    fn spawn(
        self,
        server: &Arc<HttpServer>,
        workers: &Arc<Workers>,
        open: &Arc<AtomicUsize>,
    ) -> JoinHandle<()> {
        let (server, pool, open) = (server.clone(), workers.clone(), open.clone());
        workers
            .handle(0)
            .spawn(accept(self.listener, server, self.serving, pool, open))
    }
}

/// Binds the addresses of `[[listeners]]`.
async fn listen_further(workers: &Workers, config: &Config) -> anyhow::Result<Vec<Listening>> {
    let mut all = Vec::with_capacity(config.listeners.len());
    for one in &config.listeners {
        let listener = bind(workers, config, one.listen, "listeners.listen").await?;
        let address = listener.local_addr()?;
        let serving = wiring::serving(one);
        let what = match &serving {
            None => "everything".to_owned(),
            Some(Serving::Backend(name)) => format!("the backend {name}"),
            Some(Serving::Surfaces(names)) => format!("{names:?}"),
        };
        tracing::info!(%address, "listening for {what}");
        all.push(Listening {
            listener,
            address,
            serving: serving.map(Arc::new),
        });
    }
    Ok(all)
}

/// The second listener. Its connections do not count: a probe that stays connected must not hold up
/// the end.
async fn listen_for_probes(
    address: SocketAddr,
    config: &Config,
    beside: &Arc<HttpServer>,
    workers: &Arc<Workers>,
) -> anyhow::Result<SocketAddr> {
    let listener = bind(workers, config, address, "gateway.health_listen").await?;
    let address = listener.local_addr()?;
    let server = HttpServer::probes_only(beside);
    let uncounted = Arc::new(AtomicUsize::new(0));
    workers
        .handle(0)
        .spawn(accept(listener, server, None, workers.clone(), uncounted));
    tracing::info!(%address, "listening for probes");
    Ok(address)
}

/// Waits until no connection is open and no session's call runs; streams end by themselves once draining began.
async fn drain(gateway: &Gateway, limit: Duration, open: &AtomicUsize, server: &HttpServer) {
    gateway.drain();
    let empty = async {
        while open.load(Ordering::Acquire) > 0 || server.session_calls() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(limit, empty).await.is_err() {
        tracing::warn!(
            connections = open.load(Ordering::Relaxed),
            calls = server.session_calls(),
            "gateway.drain_timeout is over: ending what is left"
        );
    }
}

/// The listener belongs to the first worker, which accepts for all. `key` is where a person says another address.
async fn bind(
    workers: &Workers,
    config: &Config,
    address: SocketAddr,
    key: &str,
) -> anyhow::Result<TcpListener> {
    let bound = workers.handle(0).spawn(TcpListener::bind(address)).await?;
    bound.map_err(|error| {
        let words = match error.kind() {
            ErrorKind::AddrInUse => taken(config, address, key),
            _ => format!("listening on {address} ({key})"),
        };
        anyhow::Error::new(error).context(words)
    })
}

/// Who may have an address, and what to do about it.
fn taken(config: &Config, address: SocketAddr, key: &str) -> String {
    let here = |said: &Option<String>| {
        let said = said.as_deref().and_then(|said| said.parse().ok());
        said.is_some_and(|at: SocketAddr| at.port() == address.port())
    };
    let running = RunFile::find(&config.gateway.data_dir);
    let ours = running
        .iter()
        .find(|file| here(&file.listen) || here(&file.health_listen));
    let who = match ours {
        Some(file) => format!("a gateway that runs already (pid {}) has it", file.pid),
        None => format!("`ss -ltnp 'sport = :{}'` shows who has it", address.port()),
    };
    format!("cannot listen on {address}: {who}; end that, or choose another address with {key}")
}

async fn accept(
    listener: TcpListener,
    server: Arc<HttpServer>,
    serving: Option<Arc<Serving>>,
    workers: Arc<Workers>,
    open: Arc<AtomicUsize>,
) {
    let mut failures = Failures::default();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok((stream, from)) => {
                http::greet(&stream);
                (stream, from.ip())
            }
            Err(error) => {
                if let Some(times) = failures.count(Instant::now()) {
                    tracing::warn!(times, "a connection could not be accepted: {error}");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let counted = Counted::new(&open);
        let (server, serving) = (server.clone(), serving.clone());
        let (n, worker) = workers.pick();
        if n == 0 {
            worker.spawn(async move {
                server.serve(stream, from, serving).await;
                drop(counted);
            });
            continue;
        }
        // A socket belongs to the runtime that polls it: hand over the bare descriptor.
        let Ok(stream) = stream.into_std() else {
            continue;
        };
        worker.spawn(async move {
            if let Ok(stream) = TcpStream::from_std(stream) {
                server.serve(stream, from, serving).await;
            }
            drop(counted);
        });
    }
}

/// Accepts that failed, for one line every `FAILURE_LINES` however often it happens.
#[derive(Default)]
struct Failures {
    times: u64,
    said: Option<Instant>,
}

impl Failures {
    /// How often it happened since the last line, if another is due.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.times += 1;
        let due = self.said.is_none_or(|said| now >= said + FAILURE_LINES);
        due.then(|| {
            self.said = Some(now);
            std::mem::take(&mut self.times)
        })
    }
}

async fn sweep(server: Arc<HttpServer>) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.sweep();
    }
}

/// Counts a connection while it is open.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::AcqRel);
        Self(open.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// SIGTERM and SIGINT, whichever comes.
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Tells a person where everything is.
fn greet(address: SocketAddr, config: &Config, further: &[SocketAddr]) {
    let surfaces = &config.surfaces;
    let url = format!("http://{address}{}", surfaces.mcp_path);
    let mut text = format!("\nSentinel Gateway {}\n\n", env!("CARGO_PKG_VERSION"));
    let mut line = |what: &str, at: String| text.push_str(&format!("  {what:<13}  {at}\n"));
    if surfaces.console && config.console.enabled {
        line("console", format!("http://{address}/console/"));
    }
    if surfaces.mcp {
        line("MCP endpoint", url.clone());
        for backend in config.backends.iter().filter(|b| b.enabled) {
            line("one backend", format!("{url}/{}", backend.name));
        }
        if config.review.enabled {
            line("code review", format!("{url}/review"));
        }
    }
    if surfaces.rest {
        let rest = &surfaces.rest_path;
        let explorer = match surfaces.explorer && surfaces.documents {
            true => format!("   explorer   http://{address}/explorer"),
            false => String::new(),
        };
        line("REST", format!("http://{address}{rest}{explorer}"));
    }
    if surfaces.rpc {
        line("JSON-RPC", format!("http://{address}{}", surfaces.rpc_path));
    }
    for (listener, address) in config.listeners.iter().zip(further) {
        let what = match &*listener.backend {
            "" => "also at",
            name => name,
        };
        line(what, format!("http://{address}"));
    }
    line(
        "health",
        format!("http://{address}/health   readiness   http://{address}/ready"),
    );
    if surfaces.mcp {
        text.push_str(&format!(
            "\nConnect a client:\n\n\
             \x20 claude mcp add --transport http sentinel {url}\n\
             \x20 {{\"mcpServers\":{{\"sentinel\":{{\"type\":\"http\",\"url\":\"{url}\"}}}}}}\n"
        ));
    }
    text.push('\n');
    let _ = super::print(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_that_fail_fill_no_log() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        let mut count = |ms: u64| failures.count(start + Duration::from_millis(ms));
        assert_eq!(count(0), Some(1), "the first is said at once");
        assert!((1..200).all(|n| count(n * 50).is_none()));
        assert_eq!(count(10_000), Some(200));
        assert_eq!(count(10_050), None);
        assert_eq!(count(90_000), Some(2));
    }
}
