//! A PostgreSQL of the benchmark's own, in a temporary directory.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::process::Command;

use crate::gateway::{START, Scratch, free_address, last_lines, text};
use crate::leash::Leash;
use crate::usage;

const SCHEMA: &str = include_str!("../postgres.sql");
/// The role of the gateway and of pgbench, which `SCHEMA` creates.
pub(super) const LOGIN: &str = "bench";
const HOST: &str = "127.0.0.1";

pub(super) struct Cluster {
    pub(super) leash: Leash,
    pub(super) version: String,
    programs: PathBuf,
    port: u16,
    log: PathBuf,
}

impl Cluster {
    /// Starts a server for so many sessions, with the functions that are measured.
    pub(super) async fn start(directory: &Scratch, sessions: usize) -> anyhow::Result<Self> {
        let programs = programs()?;
        let directory = &directory.0;
        let data = directory.join("data");
        std::fs::create_dir_all(&data)?;
        if is_root()? {
            let args = ["-R", "postgres", text(directory)?];
            run(Command::new("chown").args(args)).await?;
        }
        let (program, mut args) = unprivileged(&programs, "initdb")?;
        args.extend(["--auth=trust", "--username=postgres", "--no-sync", "-D"].map(String::from));
        args.push(text(&data)?.to_owned());
        run(Command::new(program).args(args)).await?;

        let port = free_address()?.port();
        let log = directory.join("postgres.log");
        let (program, mut args) = unprivileged(&programs, "postgres")?;
        let settings = [
            format!("listen_addresses={HOST}"),
            format!("port={port}"),
            format!("unix_socket_directories={}", text(directory)?),
            format!("max_connections={sessions}"),
            // Nothing is written that a crash could lose.
            "fsync=off".to_owned(),
            // As `statement::logged` reads it.
            "log_line_prefix=%p|".to_owned(),
            "lc_messages=C".to_owned(),
        ];
        args.extend(["-D".to_owned(), text(&data)?.to_owned()]);
        args.extend(settings.into_iter().flat_map(|one| ["-c".to_owned(), one]));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut cluster = Self {
            leash: Leash::start(&program, &args, &log)?,
            version: String::new(),
            programs,
            port,
            log,
        };
        cluster.version = cluster.wait().await?;
        cluster.run(SCHEMA).await.context("postgres.sql")?;
        Ok(cluster)
    }

    /// Waits until it answers; its version.
    async fn wait(&self) -> anyhow::Result<String> {
        let since = Instant::now();
        loop {
            match self.run("SHOW server_version").await {
                Ok(version) => return Ok(version),
                Err(why) if since.elapsed() > START => {
                    let said = last_lines(&self.log);
                    return Err(why.context(format!("PostgreSQL does not start: {said}")));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// What the server says to these statements of its superuser.
    pub(super) async fn run(&self, sql: &str) -> anyhow::Result<String> {
        let mut command = self.client("psql");
        command.args(["-U", "postgres", "-v", "ON_ERROR_STOP=1", "-qAtXc", sql]);
        let said = run(command.arg("postgres")).await?;
        Ok(said.trim().to_owned())
    }

    /// A program that connects to it.
    pub(super) fn client(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        let port = self.port.to_string();
        command.args(["-h", HOST, "-p", &port]).kill_on_drop(true);
        command
    }

    pub(super) fn url(&self) -> String {
        format!("postgres://{LOGIN}@{HOST}:{}/postgres", self.port)
    }

    pub(super) fn log(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }

    /// CPU time of all its processes.
    pub(super) fn cpu_ns(&self) -> u64 {
        usage::cpu_ns(&self.leash.pids())
    }
}

/// Runs a program to its end; what it printed.
async fn run(command: &mut Command) -> anyhow::Result<String> {
    let name = command.as_std().get_program().to_owned();
    let done = command.output().await;
    let done = done.with_context(|| format!("{} does not start", name.display()))?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{}: {said}", name.display());
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn is_root() -> anyhow::Result<bool> {
    Ok(std::fs::metadata("/proc/self")?.uid() == 0)
}

/// PostgreSQL refuses to run as root. A program and its first arguments.
fn unprivileged(programs: &Path, name: &str) -> anyhow::Result<(PathBuf, Vec<String>)> {
    let program = programs.join(name);
    if !is_root()? {
        return Ok((program, Vec::new()));
    }
    let args = [
        "--reuid=postgres",
        "--regid=postgres",
        "--clear-groups",
        "--",
        text(&program)?,
    ];
    Ok(("setpriv".into(), args.map(String::from).into()))
}

/// Where the programs of the newest version are. Debian keeps those of each apart.
pub(super) fn programs() -> anyhow::Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .flatten()
        .filter_map(|one| {
            let version = one.file_name().to_str()?.parse().ok()?;
            Some((version, one.path().join("bin")))
        })
        .collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let elsewhere = std::env::split_paths(&path);
    let mut all = found
        .into_iter()
        .rev()
        .map(|(_, path)| path)
        .chain(elsewhere);
    let has_all = |path: &PathBuf| {
        let mut names = ["initdb", "postgres", "psql", "pgbench"].into_iter();
        names.all(|name| path.join(name).is_file())
    };
    match all.find(has_all) {
        Some(path) => Ok(path),
        None => bail!(
            "PostgreSQL is not installed; install it with `apt-get install postgresql`, or leave it out with `--contender`"
        ),
    }
}
