//! The kill switch: a tool, a backend, a caller or everything, off at once.
//!
//! Calls are driven under the read side of one lock and a kill takes the write side, so from the
//! moment `kill` returns no killed call takes another step: what was waiting or running is woken,
//! sees the kill and ends, which cancels it at its backend. Nothing awaits under the lock.
//!
//! What was killed at run time is in a small file that is on disk before `kill` returns. If that
//! file cannot be read at start, everything stays off until somebody says otherwise.

use std::fs::{self, File};
use std::future::poll_fn;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::roles::Pattern;
use crate::caller::Caller;
use crate::catalog::Operation;
use crate::fault::{Fault, Kind};

/// Entries at run time: more than anybody switches off by hand.
const KILLED_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Tool,
    Backend,
    Caller,
    All,
}

/// One thing that is off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    pub scope: Scope,
    /// A tool's merged name or `<backend>.<glob>`, a backend, a caller; empty for everything.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub reason: String,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    killed: Vec<Killed>,
}

/// What is off at the moment; immutable.
#[derive(Debug, Default)]
pub struct Kills {
    tools: Vec<Pattern>,
    backends: Vec<String>,
    callers: Vec<String>,
    all: bool,
    /// The run-time part, for showing and saving.
    killed: Vec<Killed>,
}

impl Kills {
    fn new(configured: &[Killed], killed: Vec<Killed>) -> Self {
        let mut this = Self::default();
        for one in configured.iter().chain(&killed) {
            match one.scope {
                Scope::Tool => this.tools.push(Pattern::new(&one.name)),
                Scope::Backend => this.backends.push(one.name.clone()),
                Scope::Caller => this.callers.push(one.name.clone()),
                Scope::All => this.all = true,
            }
        }
        this.killed = killed;
        this
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.all && self.tools.is_empty() && self.backends.is_empty() && self.callers.is_empty()
    }

    /// Whether everything is off for this caller.
    pub(super) fn hits_caller(&self, subject: &str) -> bool {
        self.all || self.callers.iter().any(|caller| caller == subject)
    }

    pub(super) fn hits_operation(&self, operation: &Operation) -> bool {
        self.all
            || self.backends.iter().any(|b| **b == *operation.backend)
            || self.tools.iter().any(|tool| tool.matches(operation))
    }

    pub(super) fn hits(&self, caller: &Caller, operation: &Operation) -> bool {
        !self.is_empty() && (self.hits_caller(&caller.subject) || self.hits_operation(operation))
    }
}

pub struct KillSwitch {
    /// `None`: nothing is remembered.
    file: Option<PathBuf>,
    configured: Mutex<Vec<Killed>>,
    now: RwLock<Arc<Kills>>,
    /// Wakes calls in flight after a change.
    changed: watch::Sender<()>,
}

impl KillSwitch {
    /// Reads what was killed before the restart. Not being able to is no reason to let calls pass.
    pub fn open(configured: Vec<Killed>, file: Option<PathBuf>) -> Self {
        let killed = match file.as_deref().map(read).transpose() {
            Ok(killed) => killed.unwrap_or_default(),
            Err(error) => {
                tracing::error!(
                    "the kill switch's state cannot be read, so everything is off until `revive`: {error}"
                );
                vec![unreadable()]
            }
        };
        Self {
            file,
            now: RwLock::new(Arc::new(Kills::new(&configured, killed))),
            configured: Mutex::new(configured),
            changed: watch::Sender::new(()),
        }
    }

    pub fn now(&self) -> Arc<Kills> {
        self.now.read().clone()
    }

    /// What is off at run time.
    pub fn killed(&self) -> Vec<Killed> {
        self.now.read().killed.clone()
    }

    /// Switches something off: in force for every step of every call once this returns, whether or
    /// not it could be saved. Blocks on the disk.
    pub fn kill(&self, one: Killed) -> io::Result<()> {
        let configured = self.configured.lock();
        let mut killed = self.killed();
        killed.retain(|k| (k.scope, &k.name) != (one.scope, &one.name));
        if killed.len() >= KILLED_MAX {
            return Err(io::Error::other("too many entries in the kill switch"));
        }
        killed.push(one);
        self.swap(Kills::new(&configured, killed.clone()));
        self.save(killed)
    }

    /// Switches something on again; false if it was not off at run time. Blocks on the disk.
    pub fn revive(&self, scope: Scope, name: &str) -> io::Result<bool> {
        let configured = self.configured.lock();
        let mut killed = self.killed();
        let before = killed.len();
        killed.retain(|k| scope != k.scope || (scope != Scope::All && k.name != name));
        if killed.len() == before {
            return Ok(false);
        }
        // On disk first: what cannot be remembered stays off.
        self.save(killed.clone())?;
        self.swap(Kills::new(&configured, killed));
        Ok(true)
    }

    /// The configuration's own list, after a reload.
    pub fn reconfigure(&self, configured: Vec<Killed>) {
        let mut ours = self.configured.lock();
        let killed = self.killed();
        self.swap(Kills::new(&configured, killed));
        *ours = configured;
    }

    fn swap(&self, next: Kills) {
        // Waits for the steps that calls are taking this moment; none can begin meanwhile.
        *self.now.write() = Arc::new(next);
        self.changed.send_replace(());
    }

    fn save(&self, killed: Vec<Killed>) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let fresh = file.with_extension("new");
        let mut out = File::create(&fresh)?;
        out.write_all(&serde_json::to_vec_pretty(&Saved { killed })?)?;
        out.sync_all()?;
        fs::rename(&fresh, file)?;
        File::open(folder)?.sync_all()
    }

    /// Drives a call; ends it, and so cancels it, as soon as it is killed.
    pub(crate) async fn watch<T>(
        &self,
        caller: &Caller,
        operation: &Operation,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let mut changed = self.changed.subscribe();
        let mut work = pin!(work);
        let mut step = pin!(poll_fn(|cx| {
            let now = self.now.read();
            if now.hits(caller, operation) {
                return std::task::Poll::Ready(Err(disabled(operation)));
            }
            work.as_mut().poll(cx)
        }));
        loop {
            tokio::select! {
                biased;
                outcome = &mut step => return outcome,
                // Around again, where the step looks at the new state.
                _ = changed.changed() => {}
            }
        }
    }
}

pub(super) fn disabled(operation: &Operation) -> Fault {
    let text = format!("`{}` is switched off for now", operation.exposed);
    Fault::new(Kind::Disabled, text)
}

fn unreadable() -> Killed {
    Killed {
        scope: Scope::All,
        name: String::new(),
        reason: "the saved state could not be read".to_owned(),
    }
}

fn read(file: &Path) -> io::Result<Vec<Killed>> {
    match fs::read(file) {
        Ok(text) => Ok(serde_json::from_slice::<Saved>(&text)?.killed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "kill/tests.rs"]
mod tests;
