//! Serves legacy callers of a dual-era server in the legacy era.
//!
//! Such a server was detected by its modern side, and lists, health and subscriptions stay there: there is one
//! catalog. Calls of legacy callers use a legacy session at their own revision, so that questions and resumable
//! streams need no translation. A server need not announce its legacy side, so the first such call tries it; a
//! refusal is remembered.
//!
//! Not here: the sessions themselves (`upstream`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sentinel_core::{Call, Caller, ItemKind};
use sentinel_wire::{Method, Revision};
use tokio::time::Instant;

use super::speak::Speaker;
use super::upstream::{Key, TaskTools, Upstream, is_spoken_to};
use super::{Inner, Ready, speak};
use crate::discover::{self, Greeting, PeerError};
use crate::relay;

/// Longest wait for the handshake, and at most half of the call's time: the call can go on without it.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Pause after a handshake that failed without a verdict; calls use the modern era meanwhile.
const AGAIN: Duration = Duration::from_secs(60);

/// What is known of the legacy side of a modern server.
#[derive(Debug)]
pub(super) struct OtherEra {
    /// The revisions it names; empty if it names none.
    named: Vec<Revision>,
    closed: Mutex<Closed>,
}

/// Why legacy sessions are not tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closed {
    No,
    Until(Instant),
    /// The server has no such era.
    ForGood,
}

impl OtherEra {
    /// `is_configured`: the revision of the greeting is the only one to speak.
    pub(super) fn of(greeting: &Greeting, is_configured: bool) -> Self {
        Self {
            named: greeting.legacy.clone(),
            closed: Mutex::new(match is_configured {
                true => Closed::ForGood,
                false => Closed::No,
            }),
        }
    }

    /// Whether trying is useless now.
    fn is_closed(&self) -> bool {
        match *self.closed.lock() {
            Closed::No => false,
            Closed::Until(then) => Instant::now() < then,
            Closed::ForGood => true,
        }
    }

    /// The revision to request for a caller; `None` if trying is useless.
    fn revision_for(&self, caller: Revision) -> Option<Revision> {
        let own = self.named.is_empty() || self.named.contains(&caller);
        let offered = match own {
            true => Some(caller),
            false => self.named.iter().copied().max(),
        };
        offered.filter(|_| !self.is_closed())
    }

    /// A handshake failed. A server that announced legacy revisions is tried again later.
    fn failed(&self, error: &PeerError) {
        let verdict = matches!(error, PeerError::NotSpoken(_)) && self.named.is_empty();
        *self.closed.lock() = match verdict {
            true => Closed::ForGood,
            false => Closed::Until(Instant::now() + AGAIN),
        };
    }
}

impl Ready {
    /// The legacy session that a caller's calls belong in; `None` for the base.
    pub(super) fn session_of(&self, caller: &Caller) -> Option<Key> {
        if !self.base.revision.is_modern() {
            // The revision of the base: the newest that the server speaks, or the configured one.
            let own = is_spoken_to(caller);
            return own.then(|| Key::of(caller, self.base.revision));
        }
        if caller.revision.is_modern() {
            return None;
        }
        let revision = self.other_era.revision_for(caller.revision)?;
        Some(Key::of(caller, revision))
    }
}

/// The legacy session for a legacy caller's call to a modern server; `None` if the call is to be made in the modern
/// era.
pub(super) async fn legacy(
    inner: &Inner,
    ready: &Ready,
    call: &Call,
    key: &Key,
) -> Option<Arc<Upstream>> {
    if began_modern(call) {
        return None;
    }
    let cell = inner.sessions.cell(key);
    let opened = cell.get_or_try_init(|| open(inner, &ready.other_era, key));
    let upstream = opened.await.ok()?.clone();
    let as_task = call.method == Method::ToolsCall
        && upstream.has_tasks
        && Box::pin(runs_as_task(inner, &upstream, call)).await;
    (!as_task).then_some(upstream)
}

/// No legacy session could be opened.
struct NotOpened;

/// Opens a session and remembers a failure; concurrent calls share the attempt.
async fn open(inner: &Inner, era: &OtherEra, key: &Key) -> Result<Arc<Upstream>, NotOpened> {
    if era.is_closed() {
        return Err(NotOpened);
    }
    let limit = HANDSHAKE_MAX.min(inner.config.timeout / 2);
    let opened = tokio::time::timeout(limit, speak::open_session(inner, key)).await;
    let late = |_| Err(PeerError::Failed(inner.timed_out()));
    opened.unwrap_or_else(late).map_err(|error| {
        era.failed(&error);
        let name = &inner.config.name;
        tracing::info!(backend = %name, "no legacy session, so what legacy callers say is translated: {error}");
        NotOpened
    })
}

/// Whether a call goes on with what a modern answer began: a task, or a call that needed input first.
fn began_modern(call: &Call) -> bool {
    let goes_on = |member: &str| call.params.get(member).is_some();
    relay::is_about_a_task(&call.method) || goes_on("requestState") || goes_on("inputResponses")
}

/// Whether a tool runs only as a task in the legacy era, which the modern catalog does not tell. Such a call is made
/// in the modern era, in which the server decides and the gateway waits.
async fn runs_as_task(inner: &Inner, upstream: &Upstream, call: &Call) -> bool {
    let own = call.target.as_ref().and_then(|t| t.own_name.as_deref());
    let name = call.params.string("name").unwrap_or_default();
    let known = upstream.task_tools.lock().clone();
    let tools = match known {
        Some(tools) => tools,
        None => read_task_tools(inner, upstream).await,
    };
    tools.contains(own.unwrap_or(&name))
}

async fn read_task_tools(inner: &Inner, upstream: &Upstream) -> TaskTools {
    let speaker = Speaker::within(inner, upstream);
    let (name, revision) = (&inner.config.name, upstream.revision);
    let read = discover::read_list(&speaker, revision, ItemKind::Tool, name, &[]).await;
    let Ok(list) = read else {
        // The call itself will report the problem.
        return TaskTools::default();
    };
    let tasks = list.items.into_iter().filter(|tool| tool.needs_task);
    let tools: TaskTools = Arc::new(tasks.map(|tool| tool.key).collect());
    *upstream.task_tools.lock() = Some(tools.clone());
    tools
}
