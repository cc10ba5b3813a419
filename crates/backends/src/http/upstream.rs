//! The legacy sessions held at one server.
//!
//! `initialize` fixes what a legacy session's client can be asked for. Callers who cannot be asked anything and want
//! no log lines share the base session, or one per revision where the base is modern (`eras`); the others share one
//! per (caller, capabilities, revision). A question belongs to the call on whose stream it comes, otherwise to the
//! only call in flight (`session_stream`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use bytes::Bytes;
use http::HeaderValue;
use parking_lot::Mutex;
use sentinel_core::{Caller, LogLevel};
use sentinel_wire::{Method, Revision};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::post::Envelope;
use super::session_stream::SessionStream;
use crate::discover::Greeting;
use crate::relay;

/// Sessions for callers who can be asked, per server; when full, the least recently used one is evicted.
const SESSIONS_MAX: usize = 1024;

/// Names of tools.
pub(super) type TaskTools = Arc<HashSet<String>>;

/// The session and revision under which requests of a group of callers are sent.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) revision: Revision,
    /// Absent at modern servers and at legacy ones that keep no sessions.
    pub(super) session: Option<HeaderValue>,
    /// Whether the server declared logging, and tasks for calls.
    pub(super) logs: bool,
    pub(super) has_tasks: bool,
    /// Tools that run as tasks only, once they were read (`eras`).
    pub(super) task_tools: Mutex<Option<TaskTools>>,
    /// The least urgent log level asked of this session so far.
    log_level: AtomicU8,
    /// The server asked a question in an era that has none.
    has_asked: AtomicBool,
    /// The session's own stream, for callers who can be asked.
    pub(super) session_stream: SessionStream,
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
            session_stream: SessionStream::default(),
        })
    }

    /// What goes around a message of this method that concerns the session and no target.
    pub(super) fn envelope<'a>(&'a self, method: &'a Method) -> Envelope<'a> {
        Envelope {
            method,
            name: None,
            revision: Some(self.revision),
            session: self.session.as_ref(),
            extra: &[],
        }
    }

    /// Records a question in an era that has none; true the first time.
    pub(super) fn is_first_breach(&self) -> bool {
        !self.has_asked.swap(true, Ordering::Relaxed)
    }

    /// Whether the server must be given a lower log level for this caller; true once per level.
    pub(super) fn needs_level(&self, rank: u8) -> bool {
        !self.revision.is_modern() && self.log_level.fetch_min(rank, Ordering::Relaxed) > rank
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// `None` where no caller can be asked.
    subject: Option<Arc<str>>,
    capabilities: Bytes,
    /// The capabilities declared in the handshake.
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

    /// Whether it belongs to one caller, who can be asked.
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

/// Whether a server may send this caller questions or log lines outside the stream of a call, as many servers do on
/// the session's own stream.
pub(super) fn is_spoken_to(caller: &Caller) -> bool {
    caller.capabilities.can_be_asked() || caller.log_level.get().is_some()
}

type Cell = Arc<OnceCell<Arc<Upstream>>>;

#[derive(Default)]
pub(super) struct Sessions {
    open: Mutex<HashMap<Key, (Cell, Instant)>>,
}

impl Sessions {
    /// An existing session.
    pub(super) fn find(&self, key: &Key) -> Option<Arc<Upstream>> {
        let open = self.open.lock();
        open.get(key).and_then(|(cell, _)| cell.get().cloned())
    }

    /// The cell of a session, filled by the first caller.
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

    /// Removes a session that the server no longer knows; the next call opens another.
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

    /// The server's tools may have changed.
    pub(super) fn forget_tools(&self) {
        for (cell, _) in self.open.lock().values() {
            if let Some(upstream) = cell.get() {
                upstream.task_tools.lock().take();
            }
        }
    }

    /// Takes all sessions out, to be ended or because the server no longer knows them.
    pub(super) fn drain(&self) -> Vec<Arc<Upstream>> {
        self.open
            .lock()
            .drain()
            .filter_map(|(_, (cell, _))| cell.get().cloned())
            .collect()
    }
}
