//! The table of shims that this process started.
//!
//! A shim is entered while it is started and removed when it was reaped. Dropping its [`ShimEntry`] hands the shim to
//! the reaper thread, so that needs no runtime and leaves no zombie. If this process is a subreaper, processes that a
//! killed shim leaves behind become children of this process without an entry; the same thread kills and reaps them.
//!
//! Not here: starting (`super`), what the shim does (`super::shim`).

use std::collections::HashMap;
use std::io;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

use super::tree;

/// Pause between two reaping rounds, doubled while nothing changes.
const ROUND_MIN: Duration = Duration::from_micros(500);
const ROUND_MAX: Duration = Duration::from_millis(50);

/// Makes this process the subreaper of processes that a killed shim leaves behind, so that they can be killed.
///
/// From now on the next sweep kills every child of this process that was not started through this module. For a
/// gateway's `main`; a process that starts programs by other means must not call it.
pub fn become_subreaper() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    shim_table().state.lock().subreaper = true;
    Ok(())
}

/// Requests a sweep: children without an entry are killed and reaped in the background.
///
/// It happens by itself whenever a shim ends. Does nothing before [`become_subreaper`].
pub fn reap_unknown_children() {
    let table = shim_table();
    table.state.lock().sweep = true;
    table.work.notify_one();
}

/// How many shims are alive or not yet reaped.
pub fn shim_count() -> usize {
    shim_table().state.lock().shims.len()
}

/// A shim's entry.
#[derive(Debug)]
pub(super) struct ShimEntry {
    shim: Pid,
}

impl ShimEntry {
    /// Enters the shim that `start` starts. The lock is held meanwhile: a sweep in between would kill the new shim as
    /// unknown.
    pub(super) fn enter(start: impl FnOnce() -> io::Result<Pid>) -> io::Result<Self> {
        let mut state = shim_table().state.lock();
        let shim = start()?;
        state.shims.insert(shim, Shim::Kept);
        Ok(Self { shim })
    }

    pub(super) fn shim(&self) -> Pid {
        self.shim
    }
}

impl Drop for ShimEntry {
    fn drop(&mut self) {
        let table = shim_table();
        let mut state = table.state.lock();
        state.shims.insert(self.shim, Shim::Leaving);
        table.work.notify_one();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shim {
    Kept,
    /// Ended or ending: its control socket is closed.
    Leaving,
}

#[derive(Debug, Default)]
struct State {
    subreaper: bool,
    sweep: bool,
    /// Bounded by what the configuration lets run (`max_children` per backend).
    shims: HashMap<Pid, Shim>,
}

struct ShimTable {
    state: Mutex<State>,
    work: Condvar,
}

fn shim_table() -> &'static ShimTable {
    static TABLE: OnceLock<ShimTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        thread::Builder::new()
            .name("reaper".into())
            .stack_size(128 * 1024)
            .spawn(reap_for_ever)
            .expect("a thread can be started while the process starts its first child");
        ShimTable {
            state: Mutex::default(),
            work: Condvar::new(),
        }
    })
}

fn reap_for_ever() {
    // Blocks until the initialiser above has finished.
    let table = shim_table();
    let mut pause = ROUND_MIN;
    loop {
        let mut state = table.state.lock();
        while !state.has_work() {
            pause = ROUND_MIN;
            table.work.wait(&mut state);
        }
        let progress = state.round();
        pause = if progress {
            ROUND_MIN
        } else {
            (pause * 2).min(ROUND_MAX)
        };
        MutexGuard::unlocked(&mut state, || thread::sleep(pause));
    }
}

impl State {
    fn has_work(&self) -> bool {
        self.sweep || self.shims.values().any(|shim| *shim == Shim::Leaving)
    }

    /// True if anything was reaped.
    fn round(&mut self) -> bool {
        let before = self.shims.len();
        self.shims
            .retain(|pid, shim| *shim == Shim::Kept || !reaped(*pid));
        let mut progress = self.shims.len() < before;
        // A shim that is gone may have been killed; its tree is below this process then.
        self.sweep |= progress;
        if self.sweep {
            let unknown = if self.subreaper {
                self.unknown_children()
            } else {
                Vec::new()
            };
            self.sweep = !unknown.is_empty();
            for pid in unknown {
                let _ = kill_process(pid, Signal::KILL);
                progress |= reaped(pid);
            }
        }
        progress
    }

    /// Children of this process without an entry.
    fn unknown_children(&self) -> Vec<Pid> {
        let mut pids = tree::children();
        pids.retain(|pid| !self.shims.contains_key(pid));
        pids
    }
}

/// Takes the status of `pid` if it ended.
fn reaped(pid: Pid) -> bool {
    match waitpid(Some(pid), WaitOptions::NOHANG) {
        Ok(None) | Err(Errno::INTR) => false,
        // It ended, or it is not our child any more.
        Ok(Some(_)) | Err(_) => true,
    }
}
