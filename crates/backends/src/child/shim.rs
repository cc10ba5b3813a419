//! The shim: a copy of this program that stands between the gateway and one child.
//!
//! It exists so that nothing outlives the gateway, not even after kill -9 and not even daemons. It leads
//! its own session, so a terminal's Ctrl-C reaches the gateway alone; it is a subreaper, so a descendant
//! that loses its parent becomes the shim's own child instead of init's. When the gateway is gone (its
//! `pidfd` says so, or the control socket ends), when it is told to, or when the child ends by itself, the
//! shim kills its direct children again and again until the kernel has none left for it to wait for.
//!
//! It takes its command from the control socket on its standard input, together with the child's three
//! pipes, and ends with the child's own status. No runtime, one thread, nothing allocated while it waits.
//!
//! Not here: the gateway's end of the socket (`super`), who restarts what (`crate::stdio`).

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, getppid, getrlimit,
    kill_process, kill_process_group, pidfd_open, set_child_subreaper, setrlimit, setsid, wait,
};

use super::Bounds;
use super::namespace;
use super::spec::{KILL, Report, SPEC_LEN_MAX, Spec, Stage, TERMINATE};
use super::tree;

/// The hidden subcommand: `main` calls [`run`] at once when it is the first argument.
pub const SUBCOMMAND: &str = "__shim";

/// How often the parent's pid is looked at where the kernel has no `pidfd` (before 5.3).
const PARENT_POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Pause between two rounds of killing: short at first, longer for a process that hangs inside the kernel.
const ROUND_MIN: Duration = Duration::from_micros(200);
const ROUND_MAX: Duration = Duration::from_millis(50);

/// Exit status of a shim that fails; shells leave it free.
const SHIM_FAILED: u8 = 125;

/// Signals that the gateway may have been started with ignored. Ignoring is inherited through exec,
/// a handler is not: catching them here both keeps the shim alive (the gateway decides when it ends)
/// and gives the child the defaults. The standard library does the same for SIGPIPE and the mask.
const CAUGHT: [i32; 10] = {
    use signal_hook::consts as s;
    [
        s::SIGHUP,
        s::SIGINT,
        s::SIGQUIT,
        s::SIGTERM,
        s::SIGUSR1,
        s::SIGUSR2,
        s::SIGALRM,
        s::SIGTSTP,
        s::SIGTTIN,
        s::SIGTTOU,
    ]
};

/// The whole life of a shim. Call it before any runtime or thread exists.
pub fn run() -> ExitCode {
    match Shim::set_up().and_then(Shim::serve) {
        Ok(status) => ExitCode::from(status),
        Err(_) => ExitCode::from(SHIM_FAILED),
    }
}

struct Shim {
    control: UnixStream,
    /// Readable when a child ended.
    ended: UnixStream,
    ready: Result<(), Errno>,
}

/// Why watching a running child ended.
enum WatchEnd {
    Ended(WaitStatus),
    Killed,
}

impl Shim {
    fn set_up() -> io::Result<Self> {
        // Already a leader only if someone ran the subcommand by hand; nothing depends on it then.
        let _ = setsid();
        // Without this a daemon would escape, so a failure is reported instead of starting the child.
        let ready = set_child_subreaper(Some(getpid()));
        let (ended, tell) = UnixStream::pair()?;
        ended.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, tell)?;
        let ignored = Arc::new(AtomicBool::new(false));
        for signal in CAUGHT {
            signal_hook::flag::register(signal, Arc::clone(&ignored))?;
        }
        let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self {
            control,
            ended,
            ready,
        })
    }

    fn serve(mut self) -> io::Result<u8> {
        let (spec, pipes) = self.receive()?;
        let gateway = Pid::from_raw(spec.gateway_pid).ok_or(io::ErrorKind::InvalidData)?;
        // Opened first, compared second: if the parent is still the gateway after the open, the descriptor belongs to
        // the gateway and not to a later process with the same number.
        let pidfd = pidfd_open(gateway, PidfdFlags::empty()).ok();
        if getppid() != Some(gateway) {
            return Ok(SHIM_FAILED);
        }
        let (pid, namespaced) = match self.start(spec, pipes) {
            Ok(started) => started,
            Err((stage, errno)) => {
                self.report(Report::Failed { stage, errno });
                return Ok(SHIM_FAILED);
            }
        };
        self.report(Report::Started {
            pid: pid.as_raw_pid(),
            namespaced,
        });

        let end = self.watch(pid, gateway, pidfd.as_ref());
        let status = clear(pid, end);
        // No status: the kernel reaped the child itself, after the SIGKILL from here.
        let code = status.and_then(WaitStatus::exit_status);
        let signal = status.map_or(Some(Signal::KILL.as_raw()), WaitStatus::terminating_signal);
        self.report(Report::Exited {
            code: code.unwrap_or(-1),
            signal: signal.unwrap_or(0),
        });
        // The shell's convention for a child that died by a signal.
        Ok(code.unwrap_or_else(|| 128 + signal.unwrap_or(0)) as u8)
    }

    /// The command and the child's stdin, stdout and stderr.
    fn receive(&mut self) -> io::Result<(Spec, [OwnedFd; 3])> {
        let mut len = [0; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let got = retry(|| {
            let mut into = [io::IoSliceMut::new(&mut len)];
            recvmsg(
                &self.control,
                &mut into,
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            )
        })?;
        let mut fds = Vec::with_capacity(3);
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        self.control.read_exact(&mut len[got.bytes..])?;
        let len = u32::from_le_bytes(len) as usize;
        if len > SPEC_LEN_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; len];
        self.control.read_exact(&mut body)?;
        let spec = Spec::decode(&body).ok_or(io::ErrorKind::InvalidData)?;
        let pipes = fds.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        Ok((spec, pipes))
    }

    /// Starts the child; says whether it is the first of a PID namespace.
    fn start(&self, spec: Spec, pipes: [OwnedFd; 3]) -> Result<(Pid, bool), (Stage, i32)> {
        let at = |stage| move |error: io::Error| (stage, error.raw_os_error().unwrap_or(0));
        self.ready
            .map_err(|errno| (Stage::Shim, errno.raw_os_error()))?;
        // Checked here and not by `Command`, whose error looks like that of a missing program.
        if let Some(cwd) = &spec.cwd {
            std::env::set_current_dir(cwd).map_err(at(Stage::Cwd))?;
        }
        bound(spec.bounds).map_err(|errno| (Stage::Bounds, errno.raw_os_error()))?;
        let namespaced = spec.pid_namespace && namespace::enter().map_err(at(Stage::Shim))?;
        let [stdin, stdout, stderr] = pipes.map(Stdio::from);
        let child = Command::new(&spec.program)
            .args(&spec.args)
            .env_clear()
            .envs(spec.env)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            // A child that signals its own group must not hit the shim.
            .process_group(0)
            .spawn()
            .map_err(at(Stage::Program))?;
        // Not waited for through the handle: `reap_until` below reaps every process that ended.
        let pid = Pid::from_raw(child.id() as i32).expect("a started process has a pid");
        Ok((pid, namespaced))
    }

    fn watch(&mut self, child: Pid, gateway: Pid, pidfd: Option<&OwnedFd>) -> WatchEnd {
        loop {
            let [control, ended, gone] =
                ready(&self.control, &self.ended, pidfd.map(|fd| fd.as_fd()));
            if ended {
                let mut told = [0; 64];
                while matches!(self.ended.read(&mut told), Ok(1..)) {}
                if let Some(status) = reap_until(child) {
                    return WatchEnd::Ended(status);
                }
            }
            if gone || getppid() != Some(gateway) {
                return WatchEnd::Killed;
            }
            if control {
                let mut command = [0];
                match self.control.read(&mut command) {
                    Ok(1) if command[0] == TERMINATE => tree::signal_descendants(Signal::TERM),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // Told to kill, or the gateway closed its end, which means the same.
                    read => {
                        debug_assert!(!matches!(read, Ok(1)) || command[0] == KILL);
                        return WatchEnd::Killed;
                    }
                }
            }
        }
    }

    fn report(&mut self, report: Report) {
        // The write fails if the gateway is gone, which `watch` detects.
        let _ = self.control.write_all(&report.encode());
    }
}

/// Sets the limits on this process, which all processes that it starts inherit. The shim itself needs little, and
/// limits set on the child after its start could come too late.
fn bound(bounds: Bounds) -> rustix::io::Result<()> {
    use Resource::{As, Cpu, Data, Nofile, Nproc};
    for (resource, most) in [Data, As, Nproc, Nofile, Cpu]
        .into_iter()
        .zip(bounds.numbers())
    {
        if most == 0 {
            continue;
        }
        // A stricter existing limit stays.
        let now = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Some(most.min(now));
        setrlimit(
            resource,
            Rlimit {
                current: limit,
                maximum: limit,
            },
        )?;
    }
    Ok(())
}

/// Waits for an event; says which of the three descriptors is ready.
fn ready(control: &UnixStream, ended: &UnixStream, gone: Option<BorrowedFd<'_>>) -> [bool; 3] {
    // Without a pidfd the third entry repeats the first, and the wait times out regularly.
    let timeout = gone.is_none().then_some(&PARENT_POLL);
    let third = gone.unwrap_or(control.as_fd());
    let mut fds = [control.as_fd(), ended.as_fd(), third]
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    match poll(&mut fds, timeout) {
        Ok(_) => {
            let [control, ended, third] = fds.map(|fd| !fd.revents().is_empty());
            [control, ended, gone.is_some() && third]
        }
        // Interrupted by a signal: look again.
        Err(_) => [false; 3],
    }
}

/// Takes every process that ended; gives `child`'s status if it was among them.
fn reap_until(child: Pid) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == child {
            found = Some(status);
        }
    }
    found
}

/// Kills everything below this process until there is nothing left to wait for.
///
/// A killed process hands its children up to the next subreaper, which is this process, so each round reaches one
/// level deeper and sees processes forked meanwhile. Only direct children are killed: their numbers cannot be reused
/// before this process has waited for them.
fn clear(child: Pid, end: WatchEnd) -> Option<WaitStatus> {
    let mut status = match end {
        WatchEnd::Ended(status) => Some(status),
        WatchEnd::Killed => None,
    };
    let mut pause = ROUND_MIN;
    loop {
        // The number of a reaped child may be reused already, and so may its group's.
        if status.is_none() {
            let _ = kill_process_group(child, Signal::KILL);
        }
        for pid in tree::children() {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(ROUND_MAX);
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, ended))) => {
                    // One level less: the next level consists of direct children by now.
                    pause = ROUND_MIN;
                    if pid == child {
                        status = Some(ended);
                    }
                }
                Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return status,
            }
        }
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}
