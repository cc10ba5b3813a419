//! A PostgreSQL of the test's own, in a temporary directory, gone with the test.

#![expect(
    clippy::disallowed_methods,
    reason = "a test starts the server and its tools itself"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub(crate) struct Cluster {
    folder: TempDir,
    server: Child,
    port: u16,
    tls: bool,
}

/// An open transaction.
#[allow(dead_code, reason = "this file serves several test programs")]
pub(crate) struct Held(Child);

impl Held {
    /// Rolls it back.
    #[allow(dead_code, reason = "this file serves several test programs")]
    pub(crate) fn release(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Debian keeps the programs of each version apart.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    versions
        .flatten()
        .map(|version| version.path().join("bin").join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| name.into())
}

/// PostgreSQL refuses to run as root.
fn unprivileged(name: &str) -> Command {
    if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command
            .args([
                "--reuid=postgres",
                "--regid=postgres",
                "--clear-groups",
                "--",
            ])
            .arg(program(name));
        command
    } else {
        Command::new(program(name))
    }
}

/// A directory for a server, which has no data yet.
fn folder() -> TempDir {
    let folder = TempDir::new().expect("a temporary directory");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("the system allows it");
    if rustix::process::geteuid().is_root() {
        let owned = Command::new("chown")
            .args(["-R", "postgres"])
            .arg(folder.path())
            .status();
        assert!(owned.expect("chown starts").success());
    }
    folder
}

fn serve(folder: &TempDir, port: u16, tls: bool) -> Child {
    unprivileged("postgres")
        .args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"])
        .args(["-c", if tls { "ssl=on" } else { "ssl=off" }, "-p"])
        .arg(port.to_string())
        .arg("-k")
        .arg(folder.path())
        .arg("-D")
        .arg(folder.path().join("data"))
        .stderr(Stdio::null())
        .spawn()
        .expect("the system allows it")
}

/// Makes a key and a certificate where the server looks for them.
fn certify(data: &std::path::Path) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(data.join("server.key"))
        .arg("-out")
        .arg(data.join("server.crt"))
        .stderr(Stdio::null())
        .status()
        .expect("openssl starts");
    assert!(made.success());
    if rustix::process::geteuid().is_root() {
        let owned = Command::new("chown")
            .arg("postgres")
            .args([data.join("server.key"), data.join("server.crt")])
            .status();
        assert!(owned.expect("chown starts").success());
    }
}

impl Cluster {
    pub(crate) fn start() -> Self {
        Self::make(false)
    }

    /// The same with a certificate that only it trusts, for the name `localhost`.
    #[allow(dead_code, reason = "this file serves two test programs")]
    pub(crate) fn start_with_tls() -> Self {
        Self::make(true)
    }

    fn make(tls: bool) -> Self {
        let folder = folder();
        let data = folder.path().join("data");
        let made = unprivileged("initdb")
            .args(["--auth=trust", "--username=postgres", "--no-sync", "-D"])
            .arg(&data)
            .stdout(Stdio::null())
            .status()
            .expect("initdb starts (tests/setup installs PostgreSQL)");
        assert!(made.success());
        if tls {
            certify(&data);
        }
        Self::begin(folder, tls)
    }

    /// Starts a server on what is in the folder.
    fn begin(folder: TempDir, tls: bool) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .expect("the system allows it")
            .local_addr()
            .expect("the system allows it")
            .port();
        let cluster = Self {
            server: serve(&folder, port, tls),
            folder,
            port,
            tls,
        };
        cluster.wait();
        cluster
    }

    /// A standby that follows it, and can be promoted.
    #[allow(dead_code, reason = "this file serves several test programs")]
    pub(crate) fn standby(&self) -> Self {
        let folder = folder();
        // Made anew, it has the rights that a server wants.
        fs::remove_dir(folder.path().join("data")).expect("it is empty");
        let copied = unprivileged("pg_basebackup")
            .args(["-h", "127.0.0.1", "-U", "postgres", "-R", "-c", "fast"])
            .args(["-X", "stream", "--no-sync", "-p"])
            .arg(self.port.to_string())
            .arg("-D")
            .arg(folder.path().join("data"))
            .status();
        assert!(copied.expect("pg_basebackup starts").success());
        Self::begin(folder, false)
    }

    /// Ends the server at once; what it has stays.
    pub(crate) fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        let _ = self.server.wait();
    }

    /// Starts it again at the same port.
    #[allow(dead_code, reason = "this file serves several test programs")]
    pub(crate) fn resume(&mut self) {
        self.server = serve(&self.folder, self.port, self.tls);
        self.wait();
    }

    /// Another database, empty; its URL.
    #[allow(dead_code, reason = "this file serves several test programs")]
    pub(crate) fn database(&self, name: &str) -> String {
        let name = &name[..name.len().min(60)];
        let made = unprivileged("createdb")
            .args(["-h", "127.0.0.1", "-U", "postgres", "-p"])
            .arg(self.port.to_string())
            .arg(name)
            .status();
        assert!(made.expect("createdb starts").success());
        format!("postgres://postgres@127.0.0.1:{}/{name}", self.port)
    }

    /// What the server says to one statement, as text.
    #[allow(dead_code, reason = "this file serves several test programs")]
    pub(crate) fn ask(&self, sql: &str) -> String {
        let said = unprivileged("psql")
            .args(["-h", "127.0.0.1", "-U", "postgres", "-Atc", sql, "-p"])
            .arg(self.port.to_string())
            .output()
            .expect("psql starts");
        assert!(said.status.success(), "{said:?}");
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }

    /// Runs a script of many statements, in one transaction.
    #[allow(dead_code, reason = "this file serves several test programs")]
    pub(crate) fn run(&self, script: &str) {
        let mut psql = unprivileged("psql")
            .args([
                "-h",
                "127.0.0.1",
                "-U",
                "postgres",
                "-qX1",
                "-v",
                "ON_ERROR_STOP=1",
                "-p",
            ])
            .arg(self.port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("psql starts");
        let mut input = psql.stdin.take().expect("a pipe");
        input.write_all(script.as_bytes()).expect("psql reads");
        drop(input);
        assert!(psql.wait().expect("psql ends").success());
    }

    /// Runs statements on a connection that stays open, as of somebody who began a transaction and does not end it.
    #[allow(dead_code, reason = "this file serves several test programs")]
    pub(crate) fn hold(&self, script: &str) -> Held {
        let mut psql = unprivileged("psql")
            .args([
                "-h",
                "127.0.0.1",
                "-U",
                "postgres",
                "-qXAt",
                "-v",
                "ON_ERROR_STOP=1",
                "-p",
            ])
            .arg(self.port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("psql starts");
        let input = psql.stdin.as_mut().expect("a pipe");
        writeln!(input, "{script}\nSELECT 'held';").expect("psql reads");
        let mut line = String::new();
        let output = psql.stdout.as_mut().expect("a pipe");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("psql answers");
        assert_eq!(line.trim(), "held");
        Held(psql)
    }

    #[allow(dead_code, reason = "this file serves several test programs")]
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    #[allow(dead_code, reason = "this file serves several test programs")]
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What a client must trust to trust the server.
    #[allow(dead_code, reason = "this file serves two test programs")]
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.path().join("data").join("server.crt")
    }

    #[allow(dead_code, reason = "this file serves two test programs")]
    pub(crate) fn pid(&self) -> u32 {
        self.server.id()
    }

    fn wait(&self) {
        let began = Instant::now();
        loop {
            let ready = unprivileged("pg_isready")
                .args(["-q", "-h", "127.0.0.1", "-p"])
                .arg(self.port.to_string())
                .status();
            if ready.expect("pg_isready starts").success() {
                return;
            }
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "PostgreSQL did not start"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}
