//! The program in a directory of its own, and fixtures for it to talk to, each ended with its test.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes on a busy machine; only failures wait this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The fixture lies beside the program under test; built here if this package alone was asked for.
pub(crate) fn fixture() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = Path::new(env!("CARGO_BIN_EXE_sentinel")).with_file_name("sentinel-fixture");
        if !path.exists() {
            let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
            let built = Command::new(cargo)
                .args(["build", "-p", "sentinel-fixture"])
                .status();
            assert!(built.expect("cargo starts").success() && path.exists());
        }
        path
    })
}

/// A backend that is the fixture with these options.
pub(crate) fn stdio(name: &str, options: &[&str], more: &str) -> String {
    let args: Vec<&str> = ["stdio"].iter().chain(options).copied().collect();
    program(name, fixture().to_str().expect("text"), &args, more)
}

pub(crate) fn program(name: &str, command: &str, args: &[&str], more: &str) -> String {
    format!(
        "[[backends]]\nname = \"{name}\"\ntype = \"stdio\"\ncommand = {command:?}\nargs = {args:?}\n{more}\n"
    )
}

/// A directory with a configuration, in which the program is run.
pub(crate) struct Setup(pub(crate) TempDir);

impl Setup {
    pub(crate) fn new(gateway: &str, backends: &[String]) -> Self {
        let setup = Self(TempDir::new().expect("a temporary directory"));
        let text = format!(
            "[gateway]\nlisten = \"127.0.0.1:0\"\n{gateway}\n[review]\nenabled = false\n{}",
            backends.concat()
        );
        fs::write(setup.0.path().join("sentinel.toml"), text).expect("a file");
        setup
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sentinel"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            .args(args)
            .current_dir(self.0.path())
            .env_clear()
            .envs([("HOME", self.0.path().as_os_str()), ("PATH", &path)]);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(args).output().expect("the program starts"))
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut pipe = child.stdin.take().expect("it was asked for");
        pipe.write_all(input.as_bytes()).expect("it reads");
        drop(pipe);
        Ran::of(&child.wait_with_output().expect("it ends"))
    }

    /// Starts the gateway and waits until other commands can find it.
    pub(crate) fn serve(&self) -> Served {
        let child = self
            .command(&["serve"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let folder = self.0.path().join(".local/share/sentinel/run");
        let file = folder.join(format!("{}.json", child.id()));
        let began = Instant::now();
        let announced = loop {
            if let Ok(text) = fs::read(&file) {
                break serde_json::from_slice(&text).expect("JSON");
            }
            assert!(
                began.elapsed() < PATIENCE,
                "the gateway does not announce itself"
            );
            std::thread::sleep(Duration::from_millis(5));
        };
        Served { child, announced }
    }
}

/// A running program, ended with the test.
pub(crate) struct Served {
    pub(crate) child: Child,
    /// The run file of a gateway, the first line of a fixture.
    pub(crate) announced: Value,
}

impl Served {
    pub(crate) fn text(&self, member: &str) -> &str {
        self.announced[member].as_str().expect("text")
    }

    /// The fixture over HTTP.
    pub(crate) fn fixture(options: &[&str]) -> Self {
        let mut child = Command::new(fixture())
            .arg("http")
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the fixture starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("it was asked for");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line.trim().rsplit(' ').next().expect("an address");
        let announced = serde_json::json!({ "url": format!("http://{address}/mcp") });
        Self { child, announced }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        Self {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    #[track_caller]
    pub(crate) fn well(self) -> Self {
        assert_eq!(self.code, Some(0), "{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
}
