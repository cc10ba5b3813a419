//! Starts programs and guarantees that no process of theirs outlives them or the gateway.
//!
//! A [`Child`] is a program under a shim (`shim`): its three pipes, and a [`ProcessGuard`] for the shim.
//! [`ProcessGuard::stop`] ends the process tree in bounded stages; dropping the guard kills the tree at once. The
//! shim kills the tree by itself when this process dies. The shim table (`shims`) reaps shims.
//!
//! The shim is this same program, run with a hidden subcommand that `main` hands to [`shim::run`] first
//! of all. Only this module starts processes.
//!
//! Not here: when to start and how often (`crate::stdio`), what is said over the pipes (`crate::stdio`).
#![allow(
    clippy::disallowed_methods,
    reason = "this is the module that starts processes"
)]

mod error;
mod namespace;
pub mod shim;
mod shims;
mod spec;
mod tree;

use std::ffi::OsString;
use std::future::Future;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command as StdCommand, Stdio};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::time::timeout;

pub use error::{StartError, StartFailure};
use shims::ShimEntry;
pub use shims::{become_subreaper, reap_unknown_children, shim_count};
use spec::{KILL, Report, Spec, TERMINATE};

/// A shim answers within a millisecond or two; a longer wait means an overloaded machine.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// After SIGKILL only a process stuck inside the kernel remains; its shim goes on waiting for it.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Variables that many programs need and that hold no secrets. All others of the gateway's environment stay with the
/// gateway.
const INHERITED_VARIABLES: [&str; 8] = [
    "PATH", "HOME", "LANG", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR",
];

/// A program to start.
#[derive(Debug, Clone)]
pub struct Command {
    /// The backend's name; shown beside the shim in process lists.
    pub label: String,
    pub program: OsString,
    pub args: Vec<OsString>,
    /// All of it: see [`environment`].
    pub env: Vec<(OsString, OsString)>,
    pub cwd: Option<PathBuf>,
    pub bounds: Bounds,
    /// In a PID namespace of its own, where the system allows that.
    pub pid_namespace: bool,
    pub shim: ShimProgram,
}

/// Resource limits of each process of a program; 0 is no limit. The process limit counts all processes of the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    pub memory_bytes: u64,
    pub address_space_bytes: u64,
    pub processes: u64,
    pub open_files: u64,
    pub cpu_seconds: u64,
}

/// Which executable plays the shim.
#[derive(Debug, Clone, Default)]
pub enum ShimProgram {
    /// The running one, even if its file was replaced or removed by an upgrade.
    #[default]
    ThisProgram,
    /// Another program that calls [`shim::run`]: tests need it, since a test's executable is not the gateway.
    At(PathBuf),
}

/// The environment of a child: the variables without secrets, or all of ours, and `configured` on top.
pub fn environment<K: Into<OsString>, V: Into<OsString>>(
    inherit: bool,
    configured: impl IntoIterator<Item = (K, V)>,
) -> Vec<(OsString, OsString)> {
    choose(std::env::vars_os(), inherit, configured)
}

fn choose<K: Into<OsString>, V: Into<OsString>>(
    ours: impl Iterator<Item = (OsString, OsString)>,
    inherit: bool,
    configured: impl IntoIterator<Item = (K, V)>,
) -> Vec<(OsString, OsString)> {
    let harmless = |name: &OsString| {
        name.to_str()
            .is_some_and(|name| INHERITED_VARIABLES.contains(&name) || name.starts_with("LC_"))
    };
    let mut env: Vec<_> = ours.filter(|(name, _)| inherit || harmless(name)).collect();
    for (name, value) in configured {
        let (name, value) = (name.into(), value.into());
        env.retain(|(earlier, _)| *earlier != name);
        env.push((name, value));
    }
    env
}

/// A running program.
#[derive(Debug)]
pub struct Child {
    /// Dropping it is end of file for the program.
    pub stdin: pipe::Sender,
    pub stdout: pipe::Receiver,
    pub stderr: pipe::Receiver,
    pub guard: ProcessGuard,
}

/// How a program ended. None of its processes is left by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// Its shim was killed, so the exit status was lost.
    Lost,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with status {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::Lost => f.write_str("was lost with its shim"),
        }
    }
}

/// Longest duration of each stage of [`ProcessGuard::stop`].
#[derive(Debug, Clone, Copy)]
pub struct StopTimeouts {
    /// After its standard input was closed, which asks every MCP server to end.
    pub after_eof: Duration,
    /// After SIGTERM to the whole tree.
    pub after_term: Duration,
}

impl Default for StopTimeouts {
    fn default() -> Self {
        Self {
            after_eof: Duration::from_secs(2),
            after_term: Duration::from_secs(2),
        }
    }
}

impl Command {
    /// Starts the program. When this returns, it runs (its exec succeeded).
    pub async fn start(&self) -> Result<Child, StartError> {
        let prepared = self
            .prepare()
            .map_err(|source| self.failed(StartFailure::Gateway, source))?;
        let label = self.label.clone();
        let shim = self.shim.clone();
        // Starting a process blocks until its exec, and the specification may exceed a socket buffer.
        let launched = tokio::task::spawn_blocking(move || prepared.launch(&label, &shim))
            .await
            .unwrap_or_else(|panic| Err(io::Error::other(panic)))
            .map_err(|source| self.failed(StartFailure::Gateway, source))?;
        self.attach(launched).await
    }

    fn prepare(&self) -> io::Result<Prepared> {
        let spec = Spec {
            gateway_pid: std::process::id() as i32,
            cwd: self.cwd.clone().map(PathBuf::into_os_string),
            bounds: self.bounds,
            pid_namespace: self.pid_namespace,
            program: self.program.clone(),
            args: self.args.clone(),
            env: self.env.clone(),
        };
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        Ok(Prepared {
            spec: spec.encode().map_err(invalid)?,
        })
    }

    async fn attach(&self, launched: Launched) -> Result<Child, StartError> {
        let gateway = |source| self.failed(StartFailure::Gateway, source);
        let mut guard = ProcessGuard::new(launched.control, launched.entry).map_err(gateway)?;
        let report = timeout(REPORT_TIMEOUT, guard.report())
            .await
            .map_err(|late| self.failed(StartFailure::Shim, late.into()))?;
        match report {
            Some(Report::Started { pid, namespaced }) => {
                if self.pid_namespace && !namespaced {
                    tracing::warn!(
                        backend = %self.label,
                        "the system does not allow a PID namespace: it runs without one, under its shim"
                    );
                }
                guard.pid = pid;
            }
            Some(Report::Failed { stage, errno }) => {
                let source = io::Error::from_raw_os_error(errno);
                return Err(StartError::reported(self, stage, source));
            }
            Some(Report::Exited { .. }) | None => {
                let source = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Err(self.failed(StartFailure::Shim, source));
            }
        }
        Ok(Child {
            stdin: pipe::Sender::from_owned_fd(launched.stdin).map_err(gateway)?,
            stdout: pipe::Receiver::from_owned_fd(launched.stdout).map_err(gateway)?,
            stderr: pipe::Receiver::from_owned_fd(launched.stderr).map_err(gateway)?,
            guard,
        })
    }

    fn failed(&self, failure: StartFailure, source: io::Error) -> StartError {
        StartError::new(self, failure, source)
    }
}

/// A command as bytes, ready to be sent from any thread.
struct Prepared {
    spec: Vec<u8>,
}

/// A shim with its command under way. Dropping it closes the control socket, which ends the shim.
struct Launched {
    control: StdUnixStream,
    entry: ShimEntry,
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl Prepared {
    fn launch(self, label: &str, shim: &ShimProgram) -> io::Result<Launched> {
        let (child_stdin, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stdout, child_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, child_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let (control, shims_end) = StdUnixStream::pair()?;
        let entry = ShimEntry::enter(|| start_shim(label, shim, shims_end))?;

        // Sent as ancillary data, the pipes are never inheritable: a child started at the same moment on another
        // thread cannot hold one open.
        let fds = [
            child_stdin.as_fd(),
            child_stdout.as_fd(),
            child_stderr.as_fd(),
        ];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        debug_assert!(fits, "the space was made for three descriptors");
        let iov = [IoSlice::new(&self.spec)];
        let sent = sendmsg(&control, &iov, &mut ancillary, SendFlags::NOSIGNAL)?;
        io::Write::write_all(&mut &control, &self.spec[sent..])?;
        Ok(Launched {
            control,
            entry,
            stdin,
            stdout,
            stderr,
        })
    }
}

fn start_shim(label: &str, shim: &ShimProgram, control: StdUnixStream) -> io::Result<Pid> {
    let program = match shim {
        ShimProgram::At(path) => path.clone(),
        ShimProgram::ThisProgram => {
            let running = PathBuf::from("/proc/self/exe");
            if running.exists() {
                running
            } else {
                std::env::current_exe()?
            }
        }
    };
    let child = StdCommand::new(program)
        .arg0("sentinel")
        .arg(shim::SUBCOMMAND)
        .arg(label)
        .env_clear()
        .stdin(OwnedFd::from(control))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(Pid::from_raw(child.id() as i32).expect("a started process has a pid"))
}

/// Owns a running program. Dropping it kills the program's whole process tree.
#[derive(Debug)]
pub struct ProcessGuard {
    control: UnixStream,
    pid: i32,
    /// Part of a report that is still arriving; kept here because `report` may be dropped at any await.
    partial: Vec<u8>,
    exit: Option<Exit>,
    // Last, so that the control socket is closed before the reaper checks the shim.
    entry: ShimEntry,
}

impl ProcessGuard {
    fn new(control: StdUnixStream, entry: ShimEntry) -> io::Result<Self> {
        control.set_nonblocking(true)?;
        let control = UnixStream::from_std(control)?;
        Ok(Self {
            control,
            pid: 0,
            partial: Vec::with_capacity(Report::LEN),
            exit: None,
            entry,
        })
    }

    /// The program's own process id.
    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// The process id of its shim.
    pub fn shim_pid(&self) -> u32 {
        self.entry.shim().as_raw_pid() as u32
    }

    /// Waits until the program ended and its tree is gone. Cancel-safe.
    pub async fn exited(&mut self) -> Exit {
        if let Some(exit) = self.exit {
            return exit;
        }
        let exit = loop {
            match self.report().await {
                Some(Report::Exited { signal: 0, code }) => break Exit::Code(code),
                Some(Report::Exited { signal, .. }) => break Exit::Signal(signal),
                Some(_) => {}
                None => break Exit::Lost,
            }
        };
        *self.exit.insert(exit)
    }

    /// Sends SIGTERM to the whole tree.
    pub fn terminate(&self) {
        self.command(TERMINATE);
    }

    /// Kills the whole tree.
    pub fn kill(&self) {
        self.command(KILL);
    }

    /// Ends the program whose standard input was closed: waits, terminates, waits, kills.
    ///
    /// `None` if one of its processes still hangs inside the kernel; its shim keeps waiting for that one.
    pub async fn stop(mut self, timeouts: StopTimeouts) -> Option<Exit> {
        if let Some(exit) = within(timeouts.after_eof, self.exited()).await {
            return Some(exit);
        }
        self.terminate();
        if let Some(exit) = within(timeouts.after_term, self.exited()).await {
            return Some(exit);
        }
        self.kill();
        within(KILL_TIMEOUT, self.exited()).await
    }

    fn command(&self, command: u8) {
        // A full buffer would take hundreds of unread commands, and a closed one has no reader left.
        let _ = self.control.try_write(&[command]);
    }

    /// The next report, or `None` when the shim is gone.
    async fn report(&mut self) -> Option<Report> {
        while self.partial.len() < Report::LEN {
            let mut byte = [0; Report::LEN];
            let want = Report::LEN - self.partial.len();
            match self.control.read(&mut byte[..want]).await {
                Ok(0) | Err(_) => return None,
                Ok(got) => self.partial.extend_from_slice(&byte[..got]),
            }
        }
        let bytes = self
            .partial
            .as_slice()
            .try_into()
            .expect("exactly one report was gathered");
        self.partial.clear();
        Report::decode(bytes)
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    timeout(limit, work).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(inherit: bool, configured: &[(&str, &str)]) -> Vec<String> {
        let ours = [
            ("PATH", "/bin"),
            ("HOME", "/home/a"),
            ("LC_TIME", "C"),
            ("JWT_SECRET_KEY", "s3cret"),
            ("DATABASE_URL", "postgres://"),
        ];
        let ours = ours
            .iter()
            .map(|(k, v)| (OsString::from(k), OsString::from(v)));
        let mut env: Vec<_> = choose(ours, inherit, configured.iter().copied())
            .into_iter()
            .map(|(k, v)| format!("{}={}", k.display(), v.display()))
            .collect();
        env.sort();
        env
    }

    #[test]
    fn g_65_a_child_sees_its_own_variables_and_none_of_our_secrets() {
        let env = chosen(false, &[("API_KEY", "k"), ("PATH", "/opt/bin")]);
        assert_eq!(
            env,
            ["API_KEY=k", "HOME=/home/a", "LC_TIME=C", "PATH=/opt/bin"]
        );
    }

    #[test]
    fn inherit_env_passes_everything() {
        assert_eq!(chosen(true, &[]).len(), 5);
    }
}
