//! The kill switch: stops a tool, a backend, a caller or everything at once.
//!
//! Calls are polled under the read side of one lock and a kill takes the write side, so from the moment `kill`
//! returns no killed call takes another step: waiting and running calls are woken, see the kill and end, which
//! cancels them at their backends. Nothing awaits under the lock.
//!
//! Kills made at run time are in a small file that is on disk before `kill` returns. If that file is unreadable at
//! start, everything is off until an operator changes it. All gateways of a data directory share the file;
//! `look_again` loads the changes of other processes.

use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::{Mutex, RwLock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::roles::Pattern;
use crate::caller::Caller;
use crate::fault::{Fault, Kind};
use crate::invocation::View;
use crate::operation::Operation;
use crate::state_file::{StateFile, Version};

/// Bound on kills at run time: more than an operator makes by hand.
const KILLED_MAX: usize = 10_000;
/// Bound on the length of names: longer than any operation's or caller's.
const NAME_LEN_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Tool,
    Backend,
    Caller,
    All,
}

/// One kill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Killed {
    pub scope: Scope,
    /// A tool's merged name or `<backend>.<glob>`, a backend, a caller; empty for everything.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub reason: String,
}

impl Killed {
    /// The reason is shown unchanged to callers, operators and logs, and the name is stored.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.reason.contains(char::is_control) {
            return Err("`reason` is one line of text, without control characters");
        }
        if self.name.len() > NAME_LEN_MAX {
            return Err("`name` has at most 4096 bytes");
        }
        Ok(())
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Saved {
    killed: Vec<Killed>,
}

/// The entry by which something is off.
#[derive(Clone, Copy, Debug)]
pub struct KilledBy<'k> {
    pub scope: Scope,
    /// As in [`Killed`].
    pub name: &'k str,
    pub reason: &'k Arc<str>,
}

/// The kills in force; immutable.
#[derive(Debug, Default)]
pub struct Kills {
    /// With their reasons.
    tools: Vec<(Pattern, Arc<str>)>,
    backends: Vec<(String, Arc<str>)>,
    callers: Vec<(String, Arc<str>)>,
    all: Option<Arc<str>>,
    /// The kills made at run time, for showing and saving.
    killed: Vec<Killed>,
}

impl Kills {
    fn new(configured: &[Killed], killed: Vec<Killed>) -> Self {
        let mut this = Self::default();
        for one in configured.iter().chain(&killed) {
            let reason = one.reason.as_str().into();
            match one.scope {
                Scope::Tool => this.tools.push((Pattern::new(&one.name), reason)),
                Scope::Backend => this.backends.push((one.name.clone(), reason)),
                Scope::Caller => this.callers.push((one.name.clone(), reason)),
                Scope::All => this.all = Some(reason),
            }
        }
        this.killed = killed;
        this
    }

    pub(super) fn only(one: &Killed) -> Self {
        Self::new(std::slice::from_ref(one), Vec::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_none()
            && self.tools.is_empty()
            && self.backends.is_empty()
            && self.callers.is_empty()
    }

    /// Whether this very caller was killed.
    pub fn names_caller(&self, subject: &str) -> bool {
        self.of_caller(subject).is_some()
    }

    fn of_caller(&self, subject: &str) -> Option<KilledBy<'_>> {
        let mut callers = self.callers.iter();
        let (name, reason) = callers.find(|(caller, _)| caller == subject)?;
        let scope = Scope::Caller;
        Some(KilledBy {
            scope,
            name,
            reason,
        })
    }

    fn of_operation(&self, operation: &Operation) -> Option<KilledBy<'_>> {
        let mut backends = self.backends.iter();
        if let Some((name, reason)) = backends.find(|(name, _)| **name == *operation.backend) {
            let scope = Scope::Backend;
            return Some(KilledBy {
                scope,
                name,
                reason,
            });
        }
        let mut tools = self.tools.iter();
        let (tool, reason) = tools.find(|(tool, _)| tool.matches(operation))?;
        let (scope, name) = (Scope::Tool, tool.text());
        Some(KilledBy {
            scope,
            name,
            reason,
        })
    }

    /// Whether everything is off for this caller.
    pub(super) fn hits_caller(&self, subject: &str) -> bool {
        self.all.is_some() || self.names_caller(subject)
    }

    pub(super) fn hits_operation(&self, operation: &Operation) -> bool {
        self.all.is_some() || self.of_operation(operation).is_some()
    }

    /// The entry by which this call is off, if it is.
    fn hits(&self, caller: &Caller, operation: &Operation) -> Option<KilledBy<'_>> {
        if self.is_empty() {
            return None;
        }
        let all = self.all.as_ref().map(|reason| KilledBy {
            scope: Scope::All,
            name: "",
            reason,
        });
        all.or_else(|| self.of_caller(&caller.subject))
            .or_else(|| self.of_operation(operation))
    }

    /// Why a call must stop. One that only cancels a task is harmless: it stops only if its caller is killed.
    pub(crate) fn stops(
        &self,
        caller: &Caller,
        operation: &Operation,
        ends_a_task: bool,
    ) -> Option<KilledBy<'_>> {
        match ends_a_task {
            true => self.of_caller(&caller.subject),
            false => self.hits(caller, operation),
        }
    }
}

pub struct KillSwitch {
    /// `None`: kills are not stored.
    file: Option<StateFile<Saved>>,
    configured: Mutex<Vec<Killed>>,
    now: RwLock<Arc<Kills>>,
    /// The version of the file that `now` was read from or written to.
    seen: Mutex<Version>,
    /// Wakes calls in flight after a change.
    changed: watch::Sender<()>,
}

impl KillSwitch {
    /// Loads the stored kills. If that fails, everything is off.
    pub fn open(configured: Vec<Killed>, file: Option<PathBuf>) -> Self {
        let file = file.map(StateFile::<Saved>::new);
        let read = file.as_ref().map(StateFile::read).transpose();
        let (version, killed) = match read {
            Ok(read) => read.map_or_else(Default::default, |(v, saved)| (v, saved.killed)),
            Err(error) => {
                tracing::error!(
                    "the kill switch's state cannot be read, so everything is off until `sentinel revive all`: {error}"
                );
                (Version::default(), vec![unreadable()])
            }
        };
        Self {
            file,
            now: RwLock::new(Arc::new(Kills::new(&configured, killed))),
            configured: Mutex::new(configured),
            seen: Mutex::new(version),
            changed: watch::Sender::new(()),
        }
    }

    pub fn now(&self) -> Arc<Kills> {
        self.now.read().clone()
    }

    /// The kills made at run time.
    pub fn killed(&self) -> Vec<Killed> {
        self.now.read().killed.clone()
    }

    /// Adds a kill: in force for every step of every call once this returns, whether or not it could be saved. Blocks
    /// on the disk.
    pub fn kill(&self, one: Killed) -> io::Result<()> {
        let configured = self.configured.lock();
        let add = |killed: &mut Vec<Killed>| {
            killed.retain(|k| (k.scope, &k.name) != (one.scope, &one.name));
            if killed.len() >= KILLED_MAX {
                return Err(io::Error::other("too many entries in the kill switch"));
            }
            killed.push(one.clone());
            Ok(())
        };
        let mut killed = self.killed();
        add(&mut killed)?;
        self.swap(Kills::new(&configured, killed));
        let killed = self.save(add)?;
        self.swap(Kills::new(&configured, killed));
        Ok(())
    }

    /// Revokes a kill; false if there was none at run time. Blocks on the disk.
    pub fn revive(&self, scope: Scope, name: &str) -> io::Result<bool> {
        let configured = self.configured.lock();
        let stays = |k: &Killed| scope != k.scope || (scope != Scope::All && k.name != name);
        let mut revived = self.killed().iter().any(|k| !stays(k));
        // Saved first: a kill whose revocation cannot be stored stays.
        let killed = self.save(|killed| {
            revived |= killed.iter().any(|k| !stays(k));
            killed.retain(stays);
            Ok(())
        })?;
        self.swap(Kills::new(&configured, killed));
        Ok(revived)
    }

    /// Loads the kills of other processes; true on a change. Blocks on the disk.
    pub fn look_again(&self) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        let configured = self.configured.lock();
        if file.version() == *self.seen.lock() {
            return false;
        }
        match file.read() {
            Ok((version, _)) if version.is_none() => {
                *self.seen.lock() = version;
                let path = file.path().display();
                tracing::error!(
                    "the kill switch's state ({path}) is gone; what is off stays off until `sentinel revive` or a restart"
                );
                false
            }
            Ok((version, saved)) => {
                *self.seen.lock() = version;
                self.swap(Kills::new(&configured, saved.killed));
                true
            }
            Err(error) => {
                *self.seen.lock() = file.version();
                tracing::error!(
                    "the kill switch's state cannot be read and stays as it is: {error}"
                );
                false
            }
        }
    }

    /// Replaces the configuration's own kills, after a reload.
    pub fn reconfigure(&self, configured: Vec<Killed>) {
        let mut ours = self.configured.lock();
        let killed = self.killed();
        self.swap(Kills::new(&configured, killed));
        *ours = configured;
    }

    fn swap(&self, next: Kills) {
        // Waits for the steps in progress; no step can begin meanwhile.
        *self.now.write() = Arc::new(next);
        self.changed.send_replace(());
    }

    /// Changes the file and returns its new content. An unreadable or missing file is replaced by the state in
    /// memory.
    fn save(
        &self,
        change: impl FnOnce(&mut Vec<Killed>) -> io::Result<()>,
    ) -> io::Result<Vec<Killed>> {
        let Some(file) = &self.file else {
            let mut killed = self.killed();
            change(&mut killed)?;
            return Ok(killed);
        };
        let killed = file.rewrite(|read| {
            let mut killed = match read {
                Ok(saved) if !file.version().is_none() => saved.killed,
                _ => self.killed(),
            };
            change(&mut killed)?;
            let saved = Saved {
                killed: killed.clone(),
            };
            Ok((saved, killed))
        })?;
        *self.seen.lock() = file.version();
        Ok(killed)
    }

    /// Runs a call; ends it, and so cancels it, as soon as it is killed.
    pub(crate) async fn watch<T>(
        &self,
        caller: &Caller,
        operation: &Operation,
        view: View,
        ends_a_task: bool,
        mut work: impl Future<Output = Result<T, Fault>> + Unpin,
    ) -> Result<T, Fault> {
        let mut changed = self.changed.subscribe();
        let mut step = pin!(poll_fn(|cx| {
            let now = self.now.read();
            if let Some(by) = now.stops(caller, operation, ends_a_task) {
                return std::task::Poll::Ready(Err(disabled(operation.name_in(view), by.reason)));
            }
            work.poll_unpin(cx)
        }));
        loop {
            tokio::select! {
                biased;
                outcome = &mut step => return outcome,
                // Loops, and the next step sees the new state.
                _ = changed.changed() => {}
            }
        }
    }

    /// Resolves with a fault for the caller when a kill applies. For calls whose steps are polled elsewhere.
    pub async fn until_off(&self, caller: &Caller, operation: &Operation, view: View) -> Fault {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(by) = self.now().hits(caller, operation) {
                return disabled(operation.name_in(view), by.reason);
            }
            // The sender is in `self`, so this never fails.
            let _ = changed.changed().await;
        }
    }
}

/// The reason of kills in the configuration.
pub const CONFIGURED: &str = "configured";
impl KilledBy<'_> {
    /// The key of the configuration that it is an entry of, or that an operator made it.
    pub fn rule(&self) -> String {
        let Self { scope, name, .. } = self;
        if **self.reason == *CONFIGURED {
            return match scope {
                Scope::Tool => format!("kill_switch.disabled_tools: {name}"),
                Scope::Backend => format!("kill_switch.disabled_backends: {name}"),
                Scope::Caller => format!("kill_switch.disabled_callers: {name}"),
                Scope::All => "kill_switch.everything: true".to_owned(),
            };
        }
        let what = match scope {
            Scope::Tool => format!("kill: tool {name}"),
            Scope::Backend => format!("kill: backend {name}"),
            Scope::Caller => format!("kill: caller {name}"),
            Scope::All => "kill: all".to_owned(),
        };
        match self.reason.is_empty() {
            true => what,
            false => format!("{what} ({})", self.reason),
        }
    }
}

/// Longer reasons are cut for callers.
const REASON_LEN_MAX: usize = 200;

pub(crate) fn disabled(name: &str, reason: &str) -> Fault {
    let mut text = format!("`{name}` is switched off for now");
    if !matches!(reason, "" | CONFIGURED) {
        text.push_str(": ");
        text.extend(reason.chars().take(REASON_LEN_MAX));
    }
    Fault::new(Kind::Disabled, text)
}

fn unreadable() -> Killed {
    Killed {
        scope: Scope::All,
        name: String::new(),
        reason: "the saved state could not be read".to_owned(),
    }
}

#[cfg(test)]
#[path = "kill/tests.rs"]
mod tests;
