//! Starts the backend and everything that stands in front of it, each with a directory and a port
//! of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;

use crate::cell::INGESTING;
use crate::gateway::{self, PLACES, START, Scratch, free_address, last_lines, present, text};
use crate::leash::{Leash, SECRET};
use crate::load::{self, Caller};
use crate::options::{Contender, Options};
use crate::usage;

/// Everything on, for a caller with a token of a plain role.
const GOVERNED: &str = "[auth]\n\n[rbac.roles.bench]\npermissions = [\"tools.read\", \"tools.execute\"]\n\n\
    [audit]\nguarantee = \"spool\"\n\n";

/// How long the records of a whole run may take to reach the store after it.
const INGESTED_WITHIN: Duration = Duration::from_secs(60);

/// Everything that runs during a benchmark.
pub(crate) struct Stage {
    pub(crate) lanes: Vec<Lane>,
    fixture: PathBuf,
    backend: Backend,
    // Last: the directory is removed after the processes that use it are gone.
    directory: Scratch,
}

/// A contender that answers.
pub(crate) struct Lane {
    pub(crate) contender: Contender,
    pub(crate) address: SocketAddr,
    /// Where callers must prove who they are.
    pub(crate) token: Option<String>,
    leash: Option<Leash>,
}

/// What bringing audit records into the store cost.
#[derive(Serialize)]
pub(crate) struct Ingestion {
    pub(crate) records: u64,
    pub(crate) us_per_record: f64,
}

struct Backend {
    leash: Leash,
    address: SocketAddr,
}

/// Whose CPU time is counted where.
pub(crate) struct Crew {
    pub(crate) proxy: Vec<u32>,
    pub(crate) backend: Vec<u32>,
}

#[derive(Serialize)]
pub(crate) struct Idle {
    pub(crate) backends: usize,
    /// Resident set of the gateway's own processes, in kB.
    pub(crate) gateway_kb: u64,
    pub(crate) children_kb: u64,
}

impl Stage {
    /// Starts these, with a backend of their own.
    pub(crate) async fn set(options: &Options, contenders: &[Contender]) -> anyhow::Result<Self> {
        let fixture = present(
            &options.fixture(),
            "cargo build --release -p sentinel-fixture",
        )?;
        let directory = Scratch::new("bench")?;
        let backend = backend(&fixture, options, &directory.0)
            .await
            .context("the backend")?;
        let mut stage = Self {
            lanes: Vec::new(),
            fixture,
            backend,
            directory,
        };
        for &contender in contenders {
            let lane = stage
                .lane(contender, options)
                .await
                .with_context(|| contender.name())?;
            stage.lanes.push(lane);
        }
        Ok(stage)
    }

    async fn lane(&self, contender: Contender, options: &Options) -> anyhow::Result<Lane> {
        let mut token = None;
        let (address, leash) = match contender {
            Contender::Direct => (self.backend.address, None),
            Contender::Nginx => self
                .nginx()
                .map(|(address, leash)| (address, Some(leash)))?,
            Contender::SentinelHttp => {
                let (address, leash) =
                    self.sentinel(options, "http", "", &self.http_backend("bench"))?;
                (address, Some(leash))
            }
            Contender::Governed | Contender::Unaudited => {
                let name = contender.name();
                let backend = self.http_backend("bench") + GOVERNED;
                let audit = contender == Contender::Governed;
                let gateway = format!("audit_enabled = {audit}\n");
                let (address, leash) = self.sentinel(options, name, &gateway, &backend)?;
                token = Some(self.token(options, name).await?);
                (address, Some(leash))
            }
            Contender::Postgres => bail!("it is measured apart"),
            Contender::Mcp | Contender::Rest | Contender::Rpc => {
                let backend = self.http_backend("bench");
                let (address, leash) = self.sentinel(options, contender.name(), "", &backend)?;
                (address, Some(leash))
            }
            Contender::SentinelStdio => {
                let (address, leash) =
                    self.sentinel(options, "stdio", "", &self.stdio_backend("bench", options))?;
                (address, Some(leash))
            }
        };
        let lane = Lane {
            contender,
            address,
            token,
            leash,
        };
        self.wait_for(&lane, contender.name(), options).await?;
        Ok(lane)
    }

    /// Waits until a call gets through; the first answers may be refusals while things start.
    async fn wait_for(&self, lane: &Lane, log: &str, options: &Options) -> anyhow::Result<()> {
        let since = Instant::now();
        loop {
            let tried = tokio::time::timeout(Duration::from_secs(2), async {
                let mut caller = Caller::open(
                    lane.address,
                    lane.contender.speech(options.era),
                    lane.token.as_deref(),
                    load::text(64),
                )
                .await?;
                caller.call().await?;
                caller.close().await
            });
            let why = match tried.await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error,
                Err(_) => anyhow::anyhow!("no answer within 2 s"),
            };
            // Not at once: the shell needs a moment to start it.
            let gone = lane
                .leash
                .as_ref()
                .is_some_and(|leash| leash.pids().is_empty());
            let ended = gone && since.elapsed() > Duration::from_millis(500);
            if ended || since.elapsed() > START {
                let said = last_lines(&self.directory.0.join(format!("{log}.log")));
                return Err(why.context(format!(
                    "it does not answer; its last lines:
{said}"
                )));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn nginx(&self) -> anyhow::Result<(SocketAddr, Leash)> {
        let Some(nginx) = find_nginx() else {
            bail!(
                "nginx is not installed; install it with `apt-get install nginx-light`, or leave it out with `--contender`"
            );
        };
        let address = free_address()?;
        let directory = self.directory.0.join("nginx");
        std::fs::create_dir_all(&directory)?;
        let config = directory.join("nginx.conf");
        std::fs::write(
            &config,
            nginx_config(&directory, address, self.backend.address),
        )?;
        let args = [
            "-p",
            text(&directory)?,
            "-c",
            text(&config)?,
            "-e",
            "stderr",
        ];
        let leash = Leash::start(&nginx, &args, &self.directory.0.join("nginx.log"))?;
        Ok((address, leash))
    }

    fn sentinel(
        &self,
        options: &Options,
        name: &str,
        lines: &str,
        backends: &str,
    ) -> anyhow::Result<(SocketAddr, Leash)> {
        gateway::start(options, &self.directory.0, name, &[], lines, backends)
    }

    /// A token for the role that `GOVERNED` names.
    async fn token(&self, options: &Options, name: &str) -> anyhow::Result<String> {
        let file = self.directory.0.join(name).join("sentinel.toml");
        let made = tokio::process::Command::new(options.sentinel())
            .args(["--config", text(&file)?, "token"])
            .args(["--role", "bench", "--subject", "bench", "--expires", "1h"])
            .env("JWT_SECRET_KEY", SECRET)
            .output()
            .await?;
        if !made.status.success() {
            bail!("no token: {}", String::from_utf8_lossy(&made.stderr));
        }
        Ok(String::from_utf8(made.stdout)?.trim().to_owned())
    }

    /// What the governed gateway's records cost on their way into the store, once all are there.
    pub(crate) async fn ingestion(&self) -> anyhow::Result<Option<Ingestion>> {
        let governed = |lane: &&Lane| lane.contender == Contender::Governed;
        let Some(lane) = self.lanes.iter().find(governed) else {
            return Ok(None);
        };
        let token = lane.token.as_deref().unwrap_or_default();
        let since = Instant::now();
        loop {
            let page = load::get(lane.address, "/metrics", token).await?;
            let value = |name: &str| {
                let line = page.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|rest| rest.trim().parse::<u64>().ok())
            };
            let records = value("sentinel_audit_ingested_total ").unwrap_or_default();
            if value("sentinel_audit_backlog ") == Some(0) {
                let used = usage::threads_ns(&self.crew(lane).proxy, &INGESTING);
                return Ok(Some(Ingestion {
                    records,
                    us_per_record: used as f64 / 1e3 / records.max(1) as f64,
                }));
            }
            if since.elapsed() > INGESTED_WITHIN {
                bail!("the store still lacks records after {INGESTED_WITHIN:?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn http_backend(&self, name: &str) -> String {
        let address = self.backend.address;
        format!(
            "[[backends]]\nname = \"{name}\"\ntype = \"http\"\nurl = \"http://{address}/mcp\"\n{PLACES}\n"
        )
    }

    fn stdio_backend(&self, name: &str, options: &Options) -> String {
        format!(
            "[[backends]]\nname = \"{name}\"\ntype = \"stdio\"\ncommand = {:?}\nargs = [\"stdio\", \"--era\", \"{}\"]\n{PLACES}\n",
            self.fixture,
            options.era.name()
        )
    }

    /// The processes behind a lane. A child of the gateway that runs the fixture is a backend.
    pub(crate) fn crew(&self, lane: &Lane) -> Crew {
        let fixture = self
            .fixture
            .canonicalize()
            .unwrap_or_else(|_| self.fixture.clone());
        let pids = lane.leash.as_ref().map(Leash::pids).unwrap_or_default();
        let (mut backend, proxy): (Vec<_>, Vec<_>) = pids
            .into_iter()
            .partition(|pid| usage::program(*pid).is_some_and(|program| program == fixture));
        backend.extend(self.backend.leash.pids());
        Crew { proxy, backend }
    }

    /// Memory of a gateway with ten backends, half of each kind, that nobody calls.
    pub(crate) async fn idle(&self, options: &Options) -> anyhow::Result<Option<Idle>> {
        if !options.wants(Contender::SentinelHttp) && !options.wants(Contender::SentinelStdio) {
            return Ok(None);
        }
        let http = (1..=5).map(|n| self.http_backend(&format!("http-{n}")));
        let stdio = (1..=5).map(|n| self.stdio_backend(&format!("stdio-{n}"), options));
        let (address, leash) =
            self.sentinel(options, "idle", "", &http.chain(stdio).collect::<String>())?;
        let lane = Lane {
            contender: Contender::SentinelHttp,
            address,
            token: None,
            leash: Some(leash),
        };
        self.wait_for(&lane, "sentinel-idle", options).await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut crew = self.crew(&lane);
        let shared = self.backend.leash.pids();
        crew.backend.retain(|pid| !shared.contains(pid));
        let (gateway_kb, children_kb) = (usage::pss_kb(&crew.proxy), usage::pss_kb(&crew.backend));
        Ok(Some(Idle {
            backends: 10,
            gateway_kb,
            children_kb,
        }))
    }
}

async fn backend(fixture: &Path, options: &Options, directory: &Path) -> anyhow::Result<Backend> {
    let args = ["http", "--port", "0", "--era", options.era.name()];
    let mut leash = Leash::start(fixture, &args, &directory.join("backend.log"))?;
    let line = leash.line().await?;
    let address = line
        .strip_prefix("listening on ")
        .and_then(|address| address.parse().ok());
    Ok(Backend {
        leash,
        address: address.with_context(|| format!("not an address: {line}"))?,
    })
}

fn nginx_config(directory: &Path, listen: SocketAddr, backend: SocketAddr) -> String {
    let at = directory.display();
    // Without the request limits a connection would be closed every 1000 calls; without the last
    // three lines large answers would go through files.
    format!(
        "daemon off;\nworker_processes 2;\npid {at}/nginx.pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n  access_log off;\n  keepalive_requests 100000000;\n\
         \x20 client_body_temp_path {at}/body;\n  proxy_temp_path {at}/proxy;\n  fastcgi_temp_path {at}/fastcgi;\n\
         \x20 uwsgi_temp_path {at}/uwsgi;\n  scgi_temp_path {at}/scgi;\n\
         \x20 upstream backend {{ server {backend}; keepalive 256; keepalive_requests 100000000; }}\n\
         \x20 server {{\n    listen {listen};\n    location / {{\n      proxy_pass http://backend;\n\
         \x20     proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_set_header Host {backend};\n\
         \x20     proxy_max_temp_file_size 0;\n    }}\n  }}\n}}\n"
    )
}

fn find_nginx() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian puts it where ordinary users do not look.
    let places = std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
    places
        .map(|place| place.join("nginx"))
        .find(|program| program.is_file())
}
