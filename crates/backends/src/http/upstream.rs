//! The legacy sessions we hold at one server.
//!
//! A legacy session fixes at `initialize` what its client can be asked for. Callers who cannot be
//! asked anything and want no log lines share the base session, or one per revision where the base is
//! modern (`eras`); the others share one per (caller, capabilities, revision), and what the server asks is
//! attributed by the stream of the call it asks on, or else by being the only one (`ear`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use bytes::Bytes;
use http::HeaderValue;
use parking_lot::Mutex;
use sentinel_core::{Caller, LogLevel};
use sentinel_wire::Revision;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::ear::Ear;
use crate::discover::Greeting;
use crate::relay;

/// Sessions for callers who can be asked, per server; the one used least recently goes first.
const SESSIONS_MAX: usize = 1024;

/// Names of tools.
pub(super) type TaskTools = Arc<HashSet<String>>;

/// How to address the server for one group of callers.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) revision: Revision,
    /// Absent at modern servers and at legacy ones that keep no sessions.
    pub(super) session: Option<HeaderValue>,
    /// Whether the server said that it logs, and that calls may become tasks.
    pub(super) logs: bool,
    pub(super) has_tasks: bool,
    /// Tools that run as tasks only, once that was looked at (`eras`).
    pub(super) task_tools: Mutex<Option<TaskTools>>,
    /// The least urgent log level asked of this session so far.
    log_level: AtomicU8,
    /// It asked, in an era in which servers do not.
    has_asked: AtomicBool,
    /// What the server says on the session's own stream, for callers who can be asked.
    pub(super) ear: Ear,
}

impl Upstream {
    pub(super) fn new(greeting: &Greeting, session: Option<HeaderValue>) -> Arc<Self> {
        Arc::new(Self {
            revision: greeting.revision,
            session,
            logs: greeting.capabilities.logging,
            has_tasks: greeting.capabilities.tasks,
            task_tools: Mutex::default(),
            log_level: AtomicU8::new(LogLevel::NONE),
            has_asked: AtomicBool::new(false),
            ear: Ear::default(),
        })
    }

    /// Notes that the server asked where it must not; says yes once.
    pub(super) fn is_first_breach(&self) -> bool {
        !self.has_asked.swap(true, Ordering::Relaxed)
    }

    /// Whether a caller that wants `rank` must be made known to the server first; says yes once.
    pub(super) fn needs_level(&self, rank: u8) -> bool {
        !self.revision.is_modern() && self.log_level.fetch_min(rank, Ordering::Relaxed) > rank
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Nobody in particular, where nobody is spoken to.
    subject: Option<Arc<str>>,
    capabilities: Bytes,
    /// What is asked for at the handshake.
    revision: Revision,
}

impl Key {
    /// The session of a caller at this revision.
    pub(super) fn of(caller: &Caller, revision: Revision) -> Self {
        match is_spoken_to(caller) {
            true => Self {
                subject: Some(caller.principal()),
                capabilities: relay::declared(caller, Revision::NEWEST_LEGACY).into(),
                revision,
            },
            false => Self {
                subject: None,
                capabilities: Bytes::from_static(b"{}"),
                revision,
            },
        }
    }

    /// Whether it belongs to one caller, who is spoken to.
    pub(super) fn is_personal(&self) -> bool {
        self.subject.is_some()
    }

    pub(super) fn capabilities(&self) -> &[u8] {
        &self.capabilities
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }
}

/// Whether a server may say something to this caller in particular that no stream of a call attributes: a question, or
/// a log line it wants. Many servers say those on the session's own stream.
pub(super) fn is_spoken_to(caller: &Caller) -> bool {
    caller.capabilities.can_be_asked() || caller.log_level.get().is_some()
}

type Cell = Arc<OnceCell<Arc<Upstream>>>;

#[derive(Default)]
pub(super) struct Sessions {
    open: Mutex<HashMap<Key, (Cell, Instant)>>,
}

impl Sessions {
    /// A session that is there already.
    pub(super) fn find(&self, key: &Key) -> Option<Arc<Upstream>> {
        let open = self.open.lock();
        open.get(key).and_then(|(cell, _)| cell.get().cloned())
    }

    /// The place of a session, to be filled by whoever comes first.
    pub(super) fn cell(&self, key: &Key) -> Cell {
        let mut open = self.open.lock();
        if open.len() >= SESSIONS_MAX && !open.contains_key(key) {
            let oldest = open
                .iter()
                .min_by_key(|(_, (_, used))| *used)
                .map(|(key, _)| key.clone());
            oldest.and_then(|key| open.remove(&key));
        }
        let entry = open
            .entry(key.clone())
            .or_insert_with(|| (Cell::default(), Instant::now()));
        entry.1 = Instant::now();
        entry.0.clone()
    }

    /// The server no longer knows this session; the next call opens another.
    pub(super) fn forget(&self, key: &Key, stale: &Arc<Upstream>) {
        let mut open = self.open.lock();
        let same = |cell: &Cell| {
            cell.get()
                .is_some_and(|current| Arc::ptr_eq(current, stale))
        };
        if open.get(key).is_some_and(|(cell, _)| same(cell)) {
            open.remove(key);
        }
    }

    /// The server's tools may be others by now.
    pub(super) fn forget_tools(&self) {
        for (cell, _) in self.open.lock().values() {
            if let Some(upstream) = cell.get() {
                upstream.task_tools.lock().take();
            }
        }
    }

    /// Takes all sessions out, to be ended or because the server forgot them.
    pub(super) fn drain(&self) -> Vec<Arc<Upstream>> {
        self.open
            .lock()
            .drain()
            .filter_map(|(_, (cell, _))| cell.get().cloned())
            .collect()
    }
}
