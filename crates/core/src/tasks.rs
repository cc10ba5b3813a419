//! Tools of 2025-11-25 that run as tasks only (`taskSupport: "required"`).
//!
//! A caller that declares the tasks extension of 2026-07-28 gets the task, in the extension's words
//! (`extension`). To all others such a tool is an ordinary slow one: the call asks for a task, looks at it
//! as often as its server suggests, and ends with the task's result. What the task wants to know is asked
//! while its result is waited for, like any question during a call. Dropping the call cancels the task.
//!
//! Tasks of modern backends pass as they are (`surfaces::mcp::tasks`). A caller that got a task, of either era, may
//! leave while it works; a task that is switched off meanwhile is cancelled by the gateway (`watched`).

mod extension;
mod questions;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Method, Outcome, Params, Payload};

use crate::backend::{Backend, Call};
use crate::fault::{Fault, Kind};
use crate::invocation::{Extra, Refusals};
use crate::line::relation::{edited, unrelated};
use crate::policy::Policy;
use crate::reply::Reply;
use questions::TaskQuestions;
use watched::WatchedTasks;
pub(crate) use watched::end;

/// How long the server shall keep the task: as long as we would wait for it.
const TTL_MS: u64 = 24 * 3600 * 1000;
const TASK_MAX: Duration = Duration::from_millis(TTL_MS);
/// Between two looks, whatever the server suggests.
const POLL_MIN: Duration = Duration::from_millis(20);
const POLL_MAX: Duration = Duration::from_secs(10);
const POLL_DEFAULT: Duration = Duration::from_secs(1);

/// What calls that concern tasks share; one per gateway.
pub(crate) struct Tasks {
    policy: Arc<Policy>,
    questions: Arc<TaskQuestions>,
    watched: WatchedTasks,
}

impl Tasks {
    pub(crate) fn new(policy: Arc<Policy>) -> Arc<Self> {
        Arc::new(Self {
            policy,
            questions: Arc::default(),
            watched: WatchedTasks::default(),
        })
    }

    /// How long a caller may think about what a task asks.
    pub(crate) fn set_patience(&self, think: Duration) {
        self.questions.set_think_time(think);
    }
}

/// Whether a call needs more than to be handed to its backend.
pub(crate) fn concern(call: &Call) -> bool {
    match call.method {
        Method::ToolsCall => call.target().operation.needs_task || call.caller.takes_tasks(),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => true,
        _ => false,
    }
}

/// Runs a call that may become a task, or one about a task.
pub(crate) async fn run(
    tasks: Arc<Tasks>,
    backend: Arc<dyn Backend>,
    call: Box<Call>,
) -> Result<Reply, Fault> {
    match call.method {
        Method::ToolsCall if call.caller.takes_tasks() => {
            watched::begin(tasks, backend, call).await
        }
        Method::ToolsCall => wait(backend, call).await,
        _ => watched::ask(tasks, backend, call).await,
    }
}

/// Runs a call of such a tool to its end.
async fn wait(backend: Arc<dyn Backend>, mut call: Box<Call>) -> Result<Reply, Fault> {
    call.task_ttl_ms = Some(TTL_MS);
    call.line = call.line.hiding_task();
    let mut running = Running {
        again: again(&call),
        backend: backend.clone(),
        id: None,
    };
    let reply = backend.call(call).await?;
    let Some(task) = created(&reply) else {
        return Ok(reply);
    };
    running.id = task.string("taskId").map(|id| id.into_owned());
    let outcome = running.follow(task).await;
    running.id = None;
    outcome
}

/// The same call with another method and other params.
type Again = Box<dyn Fn(Method, Params) -> Box<Call> + Send + Sync>;

fn again(call: &Call) -> Again {
    let (caller, view, line) = (call.caller.clone(), call.view, call.line.clone());
    let round = call.round.next();
    let (trail, slot) = (call.trail.clone(), call.slot.clone());
    let mut target = call.target.clone();
    if let Some(target) = &mut target {
        // These requests name the task, not the tool.
        target.own_name = None;
        target.mirrored = None;
    }
    Box::new(move |method, params| {
        Box::new(Call {
            round,
            caller: caller.clone(),
            view,
            method,
            params,
            refusals: Refusals::default(),
            confirmation: None,
            extra: Extra::default(),
            about: None,
            task_ttl_ms: None,
            line: line.clone(),
            target: target.clone(),
            trail: trail.clone(),
            slot: slot.clone(),
        })
    })
}

/// A task at its server; dropped before its end, the server is told.
struct Running {
    again: Again,
    backend: Arc<dyn Backend>,
    id: Option<String>,
}

impl Running {
    async fn follow(&self, mut task: Payload) -> Result<Reply, Fault> {
        let deadline = tokio::time::Instant::now() + TASK_MAX;
        loop {
            // While it wants input, its result is where it asks; a result that is there comes at once.
            if task.get("status") != Some(br#""working""#) {
                return self.send(Method::TasksResult).await.map(plain);
            }
            if tokio::time::Instant::now() >= deadline {
                let text = "the task did not end within a day";
                return Err(Fault::new(Kind::BackendTimeout, text));
            }
            tokio::time::sleep(poll_interval(&task)).await;
            let reply = self.send(Method::TasksGet).await?;
            match reply.outcome {
                Outcome::Result(now) => task = now,
                Outcome::Error(_) => return Ok(reply),
            }
        }
    }

    fn request(&self, method: Method) -> Box<Call> {
        (self.again)(method, about(self.id.as_deref().unwrap_or_default()))
    }

    async fn send(&self, method: Method) -> Result<Reply, Fault> {
        self.backend.call(self.request(method)).await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.id.is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let cancel = self.backend.call(self.request(Method::TasksCancel));
            runtime.spawn(async move { drop(cancel.await) });
        }
    }
}

/// Params of a request about a task.
fn about(id: &str) -> Params {
    let mut params = br#"{"taskId":"#.to_vec();
    json::encode_string(id, &mut params);
    params.push(b'}');
    Params::parse(params.into(), Rules::backend()).expect("what we wrote is JSON")
}

/// The task that a reply creates, if it does.
fn created(reply: &Reply) -> Option<Payload> {
    let Outcome::Result(result) = &reply.outcome else {
        return None;
    };
    let task = Payload::parse(result.get_bytes("task")?, Rules::backend()).ok()?;
    task.get("taskId").is_some().then_some(task)
}

/// The result as the tool would have given it: nothing in it speaks of a task.
fn plain(reply: Reply) -> Reply {
    let Outcome::Result(result) = &reply.outcome else {
        return reply;
    };
    match unrelated(result) {
        Some((plain, _)) => Reply {
            outcome: Outcome::Result(plain),
            ..reply
        },
        None => reply,
    }
}

fn poll_interval(task: &Payload) -> Duration {
    let suggested = task
        .get("pollInterval")
        .and_then(|ms| std::str::from_utf8(ms).ok()?.parse().ok());
    suggested
        .map_or(POLL_DEFAULT, Duration::from_millis)
        .clamp(POLL_MIN, POLL_MAX)
}

#[cfg(test)]
mod tests;
