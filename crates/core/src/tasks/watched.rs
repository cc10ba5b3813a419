//! The tasks that callers have handles for, so that the kill switch reaches them.
//!
//! A handle says all that is needed to find its task again. But a task works on at its backend while no call is in
//! flight that could be ended. So each one is watched until its caller sees its end, for a day at most, and what is
//! switched off meanwhile is cancelled at its backend.
//!
//! Not here: tasks that a call waits for (`super::wait`, `surfaces::mcp::tasks::PolledTask`), which end with that call.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use parking_lot::Mutex;
use sentinel_wire::Outcome;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::questions::Key;
use super::{TASK_MAX, Tasks, extension};
use crate::admission::PermitSlot;
use crate::backend::{Backend, Call};
use crate::caller::Caller;
use crate::fault::{Fault, Kind};
use crate::invocation::{CallId, Invocation, TaskAction, TaskOf, View};
use crate::line::{Conversation, Line, Step, UNREAD_BYTES_MAX};
use crate::operation::Operation;
use crate::reply::Reply;

/// Watched tasks, over all callers and for one. Beyond that the oldest task of the caller is forgotten, or of the
/// caller with the most.
const WATCHED_MAX: usize = 4096;
const WATCHED_PER_CALLER_MAX: usize = 256;
/// Tasks that are cancelled at once: a kill may concern all of them.
const CANCELS_AT_ONCE: usize = 64;
/// A backend that takes longer lets others have their turn meanwhile.
const CANCEL_TURN_MAX: Duration = Duration::from_secs(1);
/// How long a backend may take to cancel.
const CANCEL_MAX: Duration = Duration::from_secs(10);

pub(crate) struct WatchedTasks {
    open: Mutex<Open>,
    cancels: Semaphore,
}

#[derive(Default)]
struct Open {
    watched: HashMap<Key, Watched>,
    next: u64,
}

struct Watched {
    /// Later ones have greater numbers.
    number: u64,
    watch: AbortHandle,
}

impl Default for WatchedTasks {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            cancels: Semaphore::new(CANCELS_AT_ONCE),
        }
    }
}

impl WatchedTasks {
    /// Watches one more task; `watch` is given the number that it leaves by.
    fn add<W>(&self, key: Key, watch: impl FnOnce(u64) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let mut open = self.open.lock();
        open.forget(&key);
        if open.count_of(&key.subject) >= WATCHED_PER_CALLER_MAX {
            open.forget_oldest_of(&key.subject);
        } else if open.watched.len() >= WATCHED_MAX
            && let Some(owner) = open.largest_owner()
        {
            open.forget_oldest_of(&owner);
        }
        let number = open.next;
        open.next += 1;
        let watch = tokio::spawn(watch(number)).abort_handle();
        open.watched.insert(key, Watched { number, watch });
    }

    /// A task is over.
    fn forget(&self, key: &Key) {
        self.open.lock().forget(key);
    }

    /// A watch is over. Another may have its place by now.
    fn leave(&self, key: &Key, number: u64) {
        let watched = &mut self.open.lock().watched;
        if watched.get(key).is_some_and(|w| w.number == number) {
            watched.remove(key);
        }
    }
}

impl Open {
    fn forget(&mut self, key: &Key) {
        if let Some(one) = self.watched.remove(key) {
            one.watch.abort();
        }
    }

    fn count_of(&self, subject: &str) -> usize {
        let keys = self.watched.keys();
        keys.filter(|key| &*key.subject == subject).count()
    }

    fn largest_owner(&self) -> Option<Arc<str>> {
        let mut counts = HashMap::<&Arc<str>, usize>::new();
        for key in self.watched.keys() {
            *counts.entry(&key.subject).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(subject, _)| subject.clone())
    }

    fn forget_oldest_of(&mut self, subject: &str) {
        let all = self.watched.iter();
        let of_caller = all.filter(|(key, _)| &*key.subject == subject);
        let oldest = of_caller.min_by_key(|(_, watched)| watched.number);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
            self.forget(&oldest);
        }
    }
}

/// Calls a tool for a caller who may get a task, and watches what it gets.
pub(super) async fn begin(
    tasks: Arc<Tasks>,
    backend: Arc<dyn Backend>,
    call: Box<Call>,
) -> Result<Reply, Fault> {
    let (caller, id_of_call) = (call.caller.clone(), call.round.call);
    let operation = call.target().operation.clone();
    let meta = call.params.get_bytes("_meta");
    let reply = match operation.needs_task {
        true => extension::begin(backend, call).await?,
        false => backend.call(call).await?,
    };
    if let Outcome::Result(result) = &reply.outcome
        && result.get("resultType") == Some(br#""task""#)
        && let Some(id) = result.string("taskId")
    {
        let task = Task {
            key: Key {
                backend: operation.index,
                subject: caller.principal(),
                id: id.into_owned(),
            },
            caller,
            operation,
            call: id_of_call,
            meta,
        };
        let watched = &tasks.watched;
        watched.add(task.key.clone(), |number| task.watch(tasks.clone(), number));
    }
    Ok(reply)
}

/// Answers a request about a task, and notices its end.
pub(super) async fn ask(
    tasks: Arc<Tasks>,
    backend: Arc<dyn Backend>,
    call: Box<Call>,
) -> Result<Reply, Fault> {
    let key = call.params.string("taskId").map(|id| Key {
        backend: call.target().index,
        subject: call.caller.principal(),
        id: id.into_owned(),
    });
    let is_modern = backend.status().revision.is_some_and(|r| r.is_modern());
    let reply = match is_modern {
        true => backend.call(call).await?,
        false => extension::answer(&tasks.questions, backend, call).await?,
    };
    if let (Some(key), Outcome::Result(task)) = (key, &reply.outcome)
        && let Some("completed" | "failed" | "cancelled") = task.string("status").as_deref()
    {
        tasks.watched.forget(&key);
    }
    Ok(reply)
}

/// A task that a caller has a handle for.
struct Task {
    key: Key,
    caller: Arc<Caller>,
    operation: Arc<Operation>,
    call: CallId,
    /// How the caller introduced itself.
    meta: Option<Bytes>,
}

impl Task {
    async fn watch(self, tasks: Arc<Tasks>, number: u64) {
        let view = View::Only(self.key.backend);
        let off = tasks
            .policy
            .kills()
            .until_off(&self.caller, &self.operation, view);
        let is_off = timeout(TASK_MAX, off).await.is_ok();
        tasks.watched.leave(&self.key, number);
        if !is_off {
            return;
        }
        let (backend, tool) = (&*self.operation.backend, &*self.operation.own);
        let why = match self.cancel(&tasks).await {
            Err(fault) => fault.public,
            Ok(reply) => match reply.outcome {
                Outcome::Error(_) => "its backend refused".into(),
                Outcome::Result(_) => {
                    tracing::info!(backend, tool, "a task was cancelled: it was switched off");
                    return;
                }
            },
        };
        tracing::warn!(backend, tool, %why, "a task is switched off and could not be cancelled");
    }

    async fn cancel(&self, tasks: &Arc<Tasks>) -> Result<Reply, Fault> {
        let turn = tasks.watched.cancels.acquire().await;
        let of = Arc::new(TaskOf {
            tool: self.operation.own.clone(),
            questions: self.caller.capabilities.questions(),
            call: self.call,
        });
        let meta = self
            .meta
            .as_deref()
            .map(|meta| [b",\"_meta\":", meta].concat());
        let (caller, meta) = (self.caller.clone(), meta.unwrap_or_default());
        let Key { backend, id, .. } = &self.key;
        let cancel = Invocation::task(caller, *backend, TaskAction::Cancel, of, id, &meta);
        let mut cancelled = pin!(end(tasks, cancel));
        match timeout(CANCEL_TURN_MAX, &mut cancelled).await {
            Ok(outcome) => outcome,
            Err(_) => {
                drop(turn);
                cancelled.await
            }
        }
    }
}

/// Has a backend end a task. This is not the caller's request but ours, so no policy is asked and nothing recorded.
pub(crate) async fn end(tasks: &Arc<Tasks>, cancellation: Invocation) -> Result<Reply, Fault> {
    let slot = PermitSlot::default();
    let (line, events) = Line::open(slot.clone(), UNREAD_BYTES_MAX);
    let call = Call::new(cancellation, line, Arc::default(), slot.clone());
    let mut call = Box::new(call);
    let target = tasks.policy.registry.resolve(&call)?;
    let backend = target.backend.clone();
    call.target = Some(target);
    let work = ask(tasks.clone(), backend, call).boxed();
    let mut talk = Conversation::new(work, events, Arc::default(), slot);
    let outcome = async {
        loop {
            if let Step::Done(outcome) = talk.next().await {
                return outcome;
            }
        }
    };
    let late = || {
        Fault::new(
            Kind::BackendTimeout,
            "the backend took too long to cancel a task",
        )
    };
    timeout(CANCEL_MAX, outcome).await.map_err(|_| late())?
}

#[cfg(test)]
mod tests;
