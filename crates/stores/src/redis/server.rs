//! A Redis of the test's own, in a temporary directory, gone with the test.

#![expect(
    clippy::disallowed_methods,
    reason = "a test starts the server and its tools itself"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Another process may take a port before the server does.
const STARTS_MAX: usize = 5;

pub(crate) struct Server {
    folder: TempDir,
    process: Child,
    port: u16,
    tls: bool,
    options: Vec<String>,
}

fn free_port() -> u16 {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound.expect("the system allows it").port()
}

fn serve(folder: &TempDir, port: u16, tls: bool, options: &[String]) -> Child {
    let mut command = Command::new("redis-server");
    if tls {
        command
            .args(["--port", "0", "--tls-auth-clients", "no", "--tls-cert-file"])
            .arg(folder.path().join("server.crt"))
            .arg("--tls-key-file")
            .arg(folder.path().join("server.key"))
            .arg("--tls-ca-cert-file")
            .arg(folder.path().join("server.crt"));
    }
    command
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args([if tls { "--tls-port" } else { "--port" }, &port.to_string()])
        .arg("--dir")
        .arg(folder.path())
        .args(options)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server starts (tests/setup installs it)")
}

/// Makes a key and a certificate that only it trusts, for the name `localhost`.
fn certify(folder: &TempDir) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(folder.path().join("server.key"))
        .arg("-out")
        .arg(folder.path().join("server.crt"))
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("openssl starts").success());
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// With options of its command line.
    pub(crate) fn with(options: &[&str]) -> Self {
        Self::make(false, options)
    }

    /// Only by TLS, with a certificate for `localhost`.
    #[allow(dead_code, reason = "this file serves two test programs")]
    pub(crate) fn with_tls() -> Self {
        Self::make(true, &[])
    }

    fn make(tls: bool, options: &[&str]) -> Self {
        let folder = TempDir::new().expect("a temporary directory");
        if tls {
            certify(&folder);
        }
        let options: Vec<String> = options.iter().map(ToString::to_string).collect();
        let port = free_port();
        let mut server = Self {
            process: serve(&folder, port, tls, &options),
            folder,
            port,
            tls,
            options,
        };
        for _ in 1..STARTS_MAX {
            if server.comes_up() {
                return server;
            }
            server.port = free_port();
            server.process = serve(&server.folder, server.port, tls, &server.options);
        }
        assert!(server.comes_up(), "Redis did not start");
        server
    }

    /// Waits until it answers; no if it ended.
    fn comes_up(&mut self) -> bool {
        let began = Instant::now();
        loop {
            if self.answers() {
                return true;
            }
            if self.process.try_wait().expect("our child").is_some() {
                return false;
            }
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "Redis did not start"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whatever it says to a ping: it may ask for a password first.
    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            return false;
        };
        if self.tls {
            return true;
        }
        let asked = stream.write_all(b"PING\r\n");
        let mut first = [0];
        asked.is_ok() && stream.read_exact(&mut first).is_ok() && b"+-".contains(&first[0])
    }

    /// Ends it at once; it keeps nothing.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again at the same port, empty.
    #[allow(dead_code, reason = "this file serves two test programs")]
    pub(crate) fn restart(&mut self) {
        self.process = serve(&self.folder, self.port, self.tls, &self.options);
        assert!(self.comes_up(), "Redis did not start again");
    }

    /// It hangs: whoever connects is taken in by the system, and nobody hears an answer.
    #[allow(dead_code, reason = "this file serves two test programs")]
    pub(crate) fn hang(&self) {
        self.signal(Signal::STOP);
    }

    #[allow(dead_code, reason = "this file serves two test programs")]
    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("our child");
    }

    /// What it says to one command, as text.
    #[allow(dead_code, reason = "this file serves two test programs")]
    pub(crate) fn ask(&self, command: &[&str]) -> String {
        let said = Command::new("redis-cli")
            .args(["-p", &self.port.to_string()])
            .args(command)
            .output()
            .expect("redis-cli starts");
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }

    /// What a client must trust to trust the server.
    #[allow(dead_code, reason = "this file serves two test programs")]
    pub(crate) fn certificate(&self) -> std::path::PathBuf {
        self.folder.path().join("server.crt")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
