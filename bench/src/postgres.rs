//! What functions of PostgreSQL cost through the gateway, beside pgbench with the same statement.
//!
//! pgbench is the limit: a program in C that sends one prepared statement again and again. It is asked twice: with the
//! statement alone, and with the whole transaction of the gateway in one round trip, which says what the identity of
//! callers costs. The statements are those that the gateway sends, read from the server's log. All have as many
//! connections as there are callers, and log in with the same role; their windows take turns.
//!
//! The processor is shared by the server, the client and the gateway: on few cores the rates say what all of them take
//! together.

mod cluster;
mod statement;
mod stream;
mod table;

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStderr;

use self::cluster::{Cluster, LOGIN};
use self::statement::{Script, logged};
pub(crate) use self::table::Functions;
use self::table::{Measured, Window};
use crate::cell::{drive, warm_up};
use crate::gateway::{self, PLACES, START, Scratch, last_lines};
use crate::leash::Leash;
use crate::load::{self, Caller};
use crate::options::Options;
use crate::report::say;
use crate::usage;

const WINDOW: Duration = Duration::from_secs(1);
/// How long a window of pgbench takes: it reports once a second, and its sessions take a while to start.
const PGBENCH: Duration = Duration::from_millis(3500);
const ROUNDS: usize = 5;
const QUICK_ROUNDS: usize = 2;
const CALLERS: [usize; 2] = [16, 100];
const QUICK_CALLERS: [usize; 1] = [16];
/// pgbench is ended when it has reported twice; many sessions take long to start on a busy machine.
const PGBENCH_MAX: Duration = Duration::from_secs(60);
/// Threads of pgbench.
const THREADS: usize = 2;
/// Where the gateway finds the URL of the database.
const URL_ENV: &str = "BENCH_DATABASE_URL";
/// Sessions that are neither pgbench's nor the gateway's.
const SESSIONS_MORE: usize = 20;

/// A function, and how it is called.
struct Shape {
    name: &'static str,
    /// Arguments over REST.
    arguments: String,
    /// Method, path and body of its own route.
    route: (&'static str, &'static str, String),
    /// What is in every answer.
    marker: &'static str,
}

impl Shape {
    fn all() -> [Self; 3] {
        let item = |n: usize| {
            format!(
                r#"{{"id":{n},"name":"item {n}","price":{n}.50,"amount":3,"shipped":{}}}"#,
                n.is_multiple_of(5)
            )
        };
        let items: Vec<String> = (1..=10).map(item).collect();
        let body = format!(r#"{{"items":[{}]}}"#, items.join(","));
        [
            Self {
                name: "minimal",
                arguments: "{}".to_owned(),
                route: ("GET", "/bench/minimal", String::new()),
                marker: r#""minimal""#,
            },
            Self {
                name: "types",
                arguments: r#"{"records":1}"#.to_owned(),
                route: ("GET", "/bench/types/1", String::new()),
                marker: r#""a_int8":9007199254740993"#,
            },
            Self {
                name: "body",
                arguments: body.clone(),
                route: ("POST", "/bench/body", body),
                marker: r#""name":"ITEM 9""#,
            },
        ]
    }

    fn function(&self) -> String {
        format!("api.{}", self.name)
    }

    /// The request of one contender.
    fn request(&self, contender: Way, address: SocketAddr) -> Vec<u8> {
        let path = format!("/api/{}", self.name);
        let (method, path, body) = match contender {
            Way::Route => (self.route.0, self.route.1, &self.route.2),
            _ => ("POST", path.as_str(), &self.arguments),
        };
        let content = match body.len() {
            0 => String::new(),
            len => format!("Content-Type: application/json\r\nContent-Length: {len}\r\n"),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\n{content}\r\n{body}"
        );
        request.into_bytes()
    }
}

/// How a function is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// pgbench with the statement.
    Statement,
    /// pgbench with the transaction of the gateway.
    Transaction,
    /// `POST /api/NAME`.
    Rest,
    /// The path that the function's comment names.
    Route,
}

impl Way {
    const ALL: [Self; 4] = [Self::Statement, Self::Transaction, Self::Rest, Self::Route];

    fn name(self) -> &'static str {
        match self {
            Self::Statement => "pgbench",
            Self::Transaction => "pgbench, transaction",
            Self::Rest => "rest",
            Self::Route => "route",
        }
    }
}

/// A gateway in front of the server.
struct Gateway {
    leash: Leash,
    address: SocketAddr,
}

pub(crate) fn callers(options: &Options) -> Vec<usize> {
    match (options.callers_given(), options.quick) {
        (Some(given), _) => given,
        (None, true) => QUICK_CALLERS.into(),
        (None, false) => CALLERS.into(),
    }
}

fn rounds(options: &Options) -> usize {
    if options.quick { QUICK_ROUNDS } else { ROUNDS }
}

pub(crate) fn planned(options: &Options) -> Duration {
    if !options.wants_postgres() {
        return Duration::ZERO;
    }
    let round = (PGBENCH + WINDOW + warm_up(WINDOW)) * 2;
    let cells = callers(options).len() * Shape::all().len();
    round * (cells * rounds(options)) as u32 + stream::planned(options) + START
}

/// Whether there is a PostgreSQL to measure.
pub(crate) fn check_installed() -> anyhow::Result<()> {
    cluster::programs().map(drop)
}

/// Every cell, and the stream of a large set.
pub(crate) async fn functions(options: &Options) -> anyhow::Result<Functions> {
    let directory = Scratch::new("bench-postgres")?;
    let callers = callers(options);
    let most = callers.iter().copied().max().unwrap_or_default();
    let cluster = Cluster::start(&directory, most * 2 + SESSIONS_MORE).await?;
    let scripts = scripts(&cluster, &directory, options).await?;
    let mut cells = Vec::new();
    for callers in callers {
        let gateway = Gateway::start(&cluster, &directory, callers, options).await?;
        for (shape, scripts) in Shape::all().iter().zip(&scripts) {
            let contest = Contest {
                cluster: &cluster,
                directory: &directory,
                gateway: &gateway,
                shape,
                scripts,
                callers,
            };
            let name = format!("{} x{callers}", shape.name);
            let windows = contest.measure(options).await;
            let windows = windows.with_context(|| format!("in the cell {name}"))?;
            let measured = Measured::of(name, callers, &windows);
            say(options, &measured.line())?;
            cells.push(measured);
        }
    }
    let stream = stream::measure(&cluster, &directory, options).await?;
    Ok(Functions::new(cluster.version, cells, stream))
}

/// What pgbench is to send for each shape, alone and in its transaction: as a gateway sends it.
async fn scripts(
    cluster: &Cluster,
    directory: &Scratch,
    options: &Options,
) -> anyhow::Result<Vec<[Script; 2]>> {
    let set = format!("ALTER ROLE {LOGIN} SET log_statement = 'all'");
    cluster.run(&set).await?;
    let gateway = Gateway::start(cluster, directory, 1, options).await?;
    let reset = format!("ALTER ROLE {LOGIN} RESET log_statement");
    cluster.run(&reset).await?;
    for shape in Shape::all() {
        gateway.ask(&shape, Way::Rest).await?;
    }
    drop(gateway);
    let log = cluster.log()?;
    let script = |shape: &Shape| {
        let function = shape.function();
        let transaction = logged(&log, &function)?;
        let alone = Script::alone(&transaction, &function)?;
        Ok([alone, Script::pipeline(&transaction)])
    };
    Shape::all().iter().map(script).collect()
}

impl Gateway {
    /// One with so many connections, of which one function may take all.
    async fn start(
        cluster: &Cluster,
        directory: &Scratch,
        connections: usize,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let name = format!("x{connections}");
        let backend = format!(
            "[[backends]]\nname = \"bench\"\ntype = \"postgres\"\nurl_env = \"{URL_ENV}\"\ntimeout = 600\n\
             statement_timeout = 600\nmax_connections = {connections}\nmax_per_operation = {connections}\n{PLACES}\n"
        );
        let environment = [(URL_ENV, &*cluster.url())];
        let (address, leash) =
            gateway::start(options, &directory.0, &name, &environment, "", &backend)?;
        let gateway = Self { leash, address };
        let [shape, ..] = Shape::all();
        let since = Instant::now();
        while let Err(why) = gateway.ask(&shape, Way::Rest).await {
            if since.elapsed() > START {
                let log = directory.0.join(format!("sentinel-{name}.log"));
                let said = last_lines(&log);
                return Err(why.context(format!("it does not answer; its last lines:\n{said}")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(gateway)
    }

    /// The answer to one call, which must be that of the function.
    async fn ask(&self, shape: &Shape, way: Way) -> anyhow::Result<Arc<[u8]>> {
        let body = load::ask(self.address, &shape.request(way, self.address)).await?;
        let text = String::from_utf8_lossy(&body);
        ensure!(
            text.contains(shape.marker),
            "{}: not the answer of the function: {text}",
            shape.name
        );
        Ok(body.into())
    }
}

/// What one cell is measured with.
struct Contest<'a> {
    cluster: &'a Cluster,
    directory: &'a Scratch,
    gateway: &'a Gateway,
    shape: &'a Shape,
    scripts: &'a [Script; 2],
    callers: usize,
}

impl Contest<'_> {
    /// The windows of each way, in turn.
    async fn measure(&self, options: &Options) -> anyhow::Result<Vec<(Way, Vec<Window>)>> {
        let mut all: Vec<_> = Way::ALL.map(|way| (way, Vec::new())).into();
        for round in 0..rounds(options) {
            for turn in 0..all.len() {
                let at = (round + turn) % all.len();
                let (way, windows) = &mut all[at];
                let window = match way {
                    Way::Statement => self.pgbench(&self.scripts[0]).await,
                    Way::Transaction => self.pgbench(&self.scripts[1]).await,
                    Way::Rest | Way::Route => self.gateway(*way).await,
                };
                windows.push(window.with_context(|| way.name())?);
            }
        }
        Ok(all)
    }

    /// CPU of the server, the client and the gateway.
    fn sample(&self, client: u32) -> [u64; 3] {
        [
            self.cluster.cpu_ns(),
            usage::cpu_ns(&[client]),
            usage::cpu_ns(&self.gateway.leash.pids()),
        ]
    }

    async fn gateway(&self, way: Way) -> anyhow::Result<Window> {
        let expected = self.gateway.ask(self.shape, way).await?;
        let address = self.gateway.address;
        let request = self.shape.request(way, address);
        let mut waiting = Vec::with_capacity(self.callers);
        for _ in 0..self.callers {
            waiting.push(Caller::repeat(address, request.clone(), expected.clone()).await?);
        }
        let sample = || self.sample(std::process::id());
        let driven = drive(waiting, WINDOW, sample, sample).await?;
        let per_second = driven.latencies.len() as f64 / driven.elapsed.as_secs_f64();
        Ok(Window::of(
            per_second,
            driven.elapsed,
            driven.before,
            driven.after,
        ))
    }

    /// Runs pgbench, and looks at what is used while it runs: the CPU time of its sessions is gone with them.
    async fn pgbench(&self, script: &Script) -> anyhow::Result<Window> {
        let file = self.directory.0.join("pgbench.sql");
        std::fs::write(&file, &script.text)?;
        let (callers, threads) = (self.callers.to_string(), THREADS.to_string());
        let seconds = PGBENCH_MAX.as_secs().to_string();
        let mut command = self.cluster.client("pgbench");
        command
            .args(["-U", LOGIN, "-n", "-M", "prepared", "-c", &callers])
            .args(["-j", &threads, "-T", &seconds, "-P", "1", "-f"])
            .arg(&file);
        for (name, value) in &script.variables {
            command.arg("-D").arg(format!("{name}={value}"));
        }
        let mut child = command
            .arg("postgres")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("pgbench does not start")?;
        let pid = child.id().context("pgbench has no process")?;
        let said = child.stderr.take().context("stderr is piped")?;
        let mut said = BufReader::new(said).lines();
        // The first second is that of its sessions' start.
        progress(&mut said).await?;
        let (from, began) = (self.sample(pid), Instant::now());
        let per_second = progress(&mut said).await?;
        let (to, elapsed) = (self.sample(pid), began.elapsed());
        child.kill().await?;
        Ok(Window::of(per_second, elapsed, from, to))
    }
}

/// The calls per second that pgbench reports next.
async fn progress(said: &mut Lines<BufReader<ChildStderr>>) -> anyhow::Result<f64> {
    let mut all = String::new();
    let reads = async {
        while let Some(line) = said.next_line().await? {
            // "progress: 1.0 s, 33374.1 tps, lat ..."
            if let Some(rest) = line.strip_prefix("progress: ") {
                let rate = rest.split(", ").find_map(|one| one.strip_suffix(" tps"));
                let rate = rate.with_context(|| format!("no rate: {line}"))?;
                return Ok(rate.parse()?);
            }
            all.push_str(&line);
            all.push('\n');
        }
        bail!("{all}")
    };
    tokio::time::timeout(PGBENCH_MAX, reads)
        .await
        .context("pgbench says nothing")?
}
