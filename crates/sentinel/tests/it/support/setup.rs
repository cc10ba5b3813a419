//! Gateways and backends as real processes, each ended with the test that started it.
//!
//! Nothing here waits by time: `until` looks again and again, and gives up loudly.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::http::{self, Answer};

/// Longer than anything takes on a busy machine; only failures wait this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// What gateways with [auth] sign and check HS256 tokens with.
pub(crate) const SECRET: &str = "a secret of tests, 32 bytes long.";
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until there is something, and returns it.
#[track_caller]
pub(crate) fn until<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, probe)
}

/// How often a figure is measured that a busy machine may spoil.
const MEASURED_MAX: usize = 3;

/// Measures until the figures are good, three times at most. For how long things take, and nothing else: what must
/// hold however busy the machine is, `measure` asserts itself, each time.
#[track_caller]
pub(crate) fn measured<T: std::fmt::Debug>(
    mut measure: impl FnMut() -> T,
    good: impl Fn(&T) -> bool,
) -> T {
    let mut bad = Vec::new();
    while bad.len() < MEASURED_MAX {
        let figures = measure();
        if good(&figures) {
            return figures;
        }
        eprintln!("measured once more, after {figures:?}");
        bad.push(figures);
    }
    panic!("measured {MEASURED_MAX} times: {bad:?}")
}

#[track_caller]
pub(crate) fn within<T>(limit: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        // Read before the look: a pause between the two is not the gateway's.
        let looked = start.elapsed();
        if let Some(found) = probe() {
            return found;
        }
        assert!(looked < limit, "not within {limit:?}: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// The fixture server, which lies beside the program under test; built here if it is missing.
pub(crate) fn fixture() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_sentinel"))
            .parent()
            .expect("the program lies in a folder");
        let path = folder.join("sentinel-fixture");
        // A run of the whole workspace has built it; a run of this package alone may have not.
        if !path.exists() {
            let profile = match folder.file_name().and_then(|name| name.to_str()) {
                Some("debug") | None => "dev",
                Some(other) => other,
            };
            let built = Command::new(std::env::var("CARGO").unwrap_or("cargo".into()))
                .args(["build", "-p", "sentinel-fixture", "--profile", profile])
                .status()
                .expect("cargo starts");
            assert!(built.success() && path.exists(), "no fixture at {path:?}");
        }
        path
    })
}

/// A configured HTTP backend.
pub(crate) fn http_backend(name: &str, address: &str, more: &str) -> String {
    format!(
        "[[backends]]\nname = \"{name}\"\ntype = \"http\"\nurl = \"http://{address}/mcp\"\n{more}\n"
    )
}

/// A configured child: the fixture with these options.
pub(crate) fn stdio_backend(name: &str, options: &[&str], more: &str) -> String {
    let args: Vec<&str> = ["stdio"].iter().chain(options).copied().collect();
    program_backend(name, fixture().to_str().expect("text"), &args, more)
}

pub(crate) fn program_backend(name: &str, program: &str, args: &[&str], more: &str) -> String {
    format!(
        "[[backends]]\nname = \"{name}\"\ntype = \"stdio\"\ncommand = {program:?}\nargs = {args:?}\n{more}\n"
    )
}

/// A directory with a configuration, from which gateways are started one after the other.
pub(crate) struct Setup {
    dir: TempDir,
    /// Variables that the configuration names.
    env: Vec<(String, String)>,
}

impl Setup {
    pub(crate) fn new(config: &str) -> Self {
        Self::with_env(config, &[])
    }

    pub(crate) fn with_env(config: &str, env: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        let setup = Self {
            dir: TempDir::new().expect("a temporary directory"),
            env: env.iter().map(own).collect(),
        };
        setup.rewrite(config);
        setup
    }

    pub(crate) fn rewrite(&self, config: &str) {
        // Keys of [gateway] may come first in `config`; tables follow them.
        let data = self.data();
        // Tests compare with what their backends offer; the built-in tools have tests of their own.
        let review = if config.contains("[review]") {
            ""
        } else {
            "[review]\nenabled = false\n"
        };
        // One caller makes thousands of calls here within a minute.
        let rates = if config.contains("[rate_limits") {
            ""
        } else {
            "[rate_limits]\ndefault_rpm = 0\n"
        };
        let text = format!(
            "[gateway]\nlisten = \"127.0.0.1:0\"\nlog_level = \"info\"\ndata_dir = {data:?}\n{config}\n{review}{rates}"
        );
        fs::write(self.file(), text).expect("a configuration");
    }

    /// The file as it is given, without what `rewrite` adds.
    pub(crate) fn overwrite(&self, text: &str) {
        fs::write(self.file(), text).expect("a configuration");
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("sentinel.toml")
    }

    /// Puts a pipe in the place of the configuration, whose text is returned.
    pub(crate) fn become_a_pipe(&self) -> Vec<u8> {
        let text = fs::read(self.file()).expect("a configuration");
        fs::remove_file(self.file()).expect("ours");
        let made = Command::new("mkfifo").arg(self.file()).status();
        assert!(made.is_ok_and(|status| status.success()), "a pipe");
        text
    }

    pub(crate) fn become_a_link_to(&self, other: &str) {
        fs::remove_file(self.file()).expect("ours");
        std::os::unix::fs::symlink(other, self.file()).expect("a link");
    }

    /// Whatever was there: a file takes its place.
    pub(crate) fn become_a_file(&self, text: &[u8]) {
        let fresh = self.dir.path().join("sentinel.toml.new");
        fs::write(&fresh, text).expect("a configuration");
        fs::rename(fresh, self.file()).expect("ours");
    }

    /// Waits until the gateway reads its configuration.
    pub(crate) fn open_the_pipe(&self) -> fs::File {
        let file = fs::OpenOptions::new().write(true).open(self.file());
        file.expect("a pipe")
    }

    /// A command with nothing of the test's environment but the path.
    pub(crate) fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sentinel"));
        command
            .args(["--config", self.file().to_str().expect("text"), subcommand])
            .current_dir(self.dir.path())
            .env_clear()
            .envs(self.env.iter().cloned())
            .env("HOME", self.dir.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            // Without [auth] nobody reads it.
            .env("JWT_SECRET_KEY", SECRET);
        command
    }

    /// The same as what another program starts.
    pub(crate) fn command_under(&self, outer: &[&str], subcommand: &str) -> Command {
        let inner = self.command(subcommand);
        let mut command = Command::new(outer[0]);
        command
            .args(&outer[1..])
            .arg(inner.get_program())
            .args(inner.get_args())
            .current_dir(self.dir.path())
            .env_clear();
        for (name, value) in inner.get_envs() {
            command.envs(value.map(|value| (name, value)));
        }
        command
    }

    /// Runs a command to its end: exit code, standard output, standard error.
    pub(crate) fn sentinel(&self, args: &[&str]) -> (i32, String, String) {
        let (command, rest) = args.split_first().expect("a command");
        let done = self.command(command).args(rest).output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let code = done.status.code().unwrap_or(-1);
        (code, text(done.stdout), text(done.stderr))
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn log_file(&self) -> fs::File {
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.path().join("log"))
            .expect("a log")
    }

    /// Starts `sentinel stdio` with pipes for its input and output.
    pub(crate) fn spawn_stdio(&self) -> Child {
        self.command("stdio")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(self.log_file())
            .spawn()
            .expect("the program starts")
    }

    /// Starts `sentinel serve` and waits until it has said where it listens.
    pub(crate) fn serve(&self) -> Process {
        let process = self
            .command("serve")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log_file())
            .spawn()
            .expect("the program starts");
        let mut process = Process(process);
        process.address(self);
        process
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            // Backends that are all the same fixture collide in everything.
            let lines = log.lines().filter(|line| !line.contains("is taken by"));
            let lines: Vec<&str> = lines.collect();
            let tail = &lines[lines.len().saturating_sub(20)..];
            eprintln!("--- the gateway's log ---\n{}\n---", tail.join("\n"));
        }
    }
}

/// A running `sentinel serve`, killed when dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn address(&mut self, setup: &Setup) -> String {
        let file = setup
            .data()
            .join("run")
            .join(format!("{}.json", self.pid()));
        until("the gateway says where it listens", || {
            if let Ok(Some(status)) = self.0.try_wait() {
                panic!("the gateway ended with {status}:\n{}", setup.log());
            }
            let text = fs::read(&file).ok()?;
            let said: Value = serde_json::from_slice(&text).ok()?;
            said["listen"].as_str().map(str::to_owned)
        })
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        until("the gateway ends", || self.0.try_wait().expect("our child"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn signal(pid: u32, name: &str) {
    let done = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .stderr(Stdio::null())
        .status();
    assert!(done.is_ok(), "kill runs");
}

/// A gateway over HTTP with its setup.
pub(crate) struct Gateway {
    pub(crate) process: Process,
    pub(crate) address: String,
    // After the process: its files outlive it.
    pub(crate) setup: Setup,
}

impl Gateway {
    /// Starts a gateway and waits for every backend of it.
    pub(crate) fn ready(config: &str) -> Self {
        let gateway = Self::start(config);
        gateway.wait_ready();
        gateway
    }

    /// Starts a gateway; its backends come when they come.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_in(Setup::new(config))
    }

    pub(crate) fn start_in(setup: Setup) -> Self {
        let mut process = setup.serve();
        let address = process.address(&setup);
        Self {
            process,
            address,
            setup,
        }
    }

    pub(crate) fn wait_ready(&self) {
        until("every backend is ready", || {
            let answer = self.get("/ready");
            let all_up = answer.status == 200
                && answer.json()["backends"]
                    .as_object()
                    .is_some_and(|all| all.values().all(|health| health == "up"));
            all_up.then_some(())
        });
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        http::send(&self.address, "GET", path, &[], "").finish()
    }

    /// What readiness says of one backend.
    pub(crate) fn health(&self, backend: &str) -> String {
        self.get("/ready").json()["backends"][backend]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Ends the gateway in order.
    pub(crate) fn end(mut self) -> Setup {
        self.process.signal("TERM");
        self.process.wait();
        self.setup
    }

    /// Ends the gateway and starts another in the same setup.
    pub(crate) fn restart(self) -> Self {
        Self::start_in(self.end())
    }
}

/// A fixture over HTTP, killed when dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::start_at(0, options)
    }

    pub(crate) fn start_at(port: u16, options: &[&str]) -> Self {
        Self::start_as("http", port, options)
    }

    /// An HTTP API that shows what it was sent.
    pub(crate) fn api(options: &[&str]) -> Self {
        Self::start_as("api", 0, options)
    }

    fn start_as(what: &str, port: u16, options: &[&str]) -> Self {
        let mut process = Command::new(fixture())
            .args([what, "--port", &port.to_string()])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the fixture starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe"))
            .read_line(&mut line)
            .expect("a line");
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .expect("an address");
        Self {
            address: address.to_owned(),
            process,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        let (_, port) = self.address.rsplit_once(':').expect("a port");
        port.parse().expect("a number")
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.process.id(), name);
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that nobody listens on at the moment.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
