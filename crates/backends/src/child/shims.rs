//! The one place that knows which children this process has.
//!
//! Every shim is entered here while it is started and leaves when it was reaped; a [`Place`] is the proof
//! of entry, and dropping it hands the shim to the reaper thread, so no runtime is needed at that moment
//! and no zombie stays. If this process is a subreaper, whatever a killed shim leaves behind becomes a
//! child that is not entered here: a stranger, killed and reaped by the same thread.
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

/// Between two rounds while something is still to be reaped.
const ROUND_MIN: Duration = Duration::from_micros(500);
const ROUND_MAX: Duration = Duration::from_millis(50);

/// Makes this process inherit what a killed shim leaves behind, so that it can be cleared away.
///
/// From now on every child of this process that was not started through this module is killed by the
/// next sweep. For a gateway's `main`; a process that starts programs by other means must not call it.
pub fn become_subreaper() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    nursery().state.lock().subreaper = true;
    Ok(())
}

/// Asks for a sweep: children that nobody here started are killed and reaped in the background.
///
/// It happens by itself whenever a shim ends. Does nothing before [`become_subreaper`].
pub fn reap_strangers() {
    let nursery = nursery();
    nursery.state.lock().sweep = true;
    nursery.work.notify_one();
}

/// How many shims are alive or not yet reaped.
pub fn living() -> usize {
    nursery().state.lock().shims.len()
}

/// A shim's entry.
#[derive(Debug)]
pub(super) struct Place {
    shim: Pid,
}

impl Place {
    /// Enters what `start` starts. The lock is held meanwhile: a sweep in between would take the new
    /// shim for a stranger.
    pub(super) fn enter(start: impl FnOnce() -> io::Result<Pid>) -> io::Result<Self> {
        let mut state = nursery().state.lock();
        let shim = start()?;
        state.shims.insert(shim, Shim::Kept);
        Ok(Self { shim })
    }

    pub(super) fn shim(&self) -> Pid {
        self.shim
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let nursery = nursery();
        let mut state = nursery.state.lock();
        state.shims.insert(self.shim, Shim::Leaving);
        nursery.work.notify_one();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shim {
    Kept,
    /// Ended or about to: nobody holds its control socket any more.
    Leaving,
}

#[derive(Debug, Default)]
struct State {
    subreaper: bool,
    sweep: bool,
    /// Bounded by what the configuration lets run (`max_children` per backend).
    shims: HashMap<Pid, Shim>,
}

struct Nursery {
    state: Mutex<State>,
    work: Condvar,
}

fn nursery() -> &'static Nursery {
    static NURSERY: OnceLock<Nursery> = OnceLock::new();
    NURSERY.get_or_init(|| {
        thread::Builder::new()
            .name("reaper".into())
            .stack_size(128 * 1024)
            .spawn(reap_for_ever)
            .expect("a thread can be started while the process starts its first child");
        Nursery {
            state: Mutex::default(),
            work: Condvar::new(),
        }
    })
}

fn reap_for_ever() {
    // Blocks until the initialiser above is done.
    let nursery = nursery();
    let mut pause = ROUND_MIN;
    loop {
        let mut state = nursery.state.lock();
        while !state.has_work() {
            pause = ROUND_MIN;
            nursery.work.wait(&mut state);
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
        // A shim that is gone may have been killed; then its tree is here now.
        self.sweep |= progress;
        if self.sweep {
            let strangers = if self.subreaper {
                self.strangers()
            } else {
                Vec::new()
            };
            self.sweep = !strangers.is_empty();
            for pid in strangers {
                let _ = kill_process(pid, Signal::KILL);
                progress |= reaped(pid);
            }
        }
        progress
    }

    /// Children of this process that were not started here.
    fn strangers(&self) -> Vec<Pid> {
        let mut pids = tree::children();
        pids.retain(|pid| !self.shims.contains_key(pid));
        pids
    }
}

/// Takes the status of `pid` if it ended.
fn reaped(pid: Pid) -> bool {
    match waitpid(Some(pid), WaitOptions::NOHANG) {
        Ok(None) | Err(Errno::INTR) => false,
        // Ended, or no child of ours any more.
        Ok(Some(_)) | Err(_) => true,
    }
}
