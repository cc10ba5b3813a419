//! Tools of 2025-11-25 that run as tasks only (`taskSupport: "required"`).
//!
//! To callers such a tool is an ordinary slow one: the call asks for a task, looks at it as often as its
//! server suggests, and ends with the task's result. What the task wants to know is asked while its
//! result is waited for, like any question during a call. Dropping the call cancels the task.
//!
//! Not here: tasks of 2026-07-28, which callers see (`surfaces::mcp::tasks`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Method, Outcome, Params, Payload};

use crate::backend::Backend;
use crate::call::{Call, Reply};
use crate::fault::{Fault, Kind};

/// How long the server shall keep the task: as long as we would wait for it.
const TTL_MS: u64 = 24 * 3600 * 1000;
const TASK_MAX: Duration = Duration::from_millis(TTL_MS);
/// Between two looks, whatever the server suggests.
const POLL_MIN: Duration = Duration::from_millis(20);
const POLL_MAX: Duration = Duration::from_secs(10);
const POLL_DEFAULT: Duration = Duration::from_secs(1);
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Runs a call of such a tool to its end.
pub(crate) async fn run(backend: Arc<dyn Backend>, mut call: Box<Call>) -> Result<Reply, Fault> {
    call.params = as_task(&call.params);
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
    let (trail, policy, slot) = (call.trail.clone(), call.policy.clone(), call.slot.clone());
    let auditor = call.auditor.clone();
    let mut target = call.target.clone();
    if let Some(target) = &mut target {
        // These requests name the task, not the tool.
        target.own_name = None;
        target.mirrored = None;
    }
    Box::new(move |method, params| {
        Box::new(Call {
            caller: caller.clone(),
            view,
            method,
            params,
            line: line.clone(),
            target: target.clone(),
            trail: trail.clone(),
            policy: policy.clone(),
            auditor: auditor.clone(),
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
                return self.send("tasks/result").await.map(plain);
            }
            if tokio::time::Instant::now() >= deadline {
                let text = "the task did not end within a day";
                return Err(Fault::new(Kind::BackendTimeout, text));
            }
            tokio::time::sleep(poll_interval(&task)).await;
            let reply = self.send("tasks/get").await?;
            match reply.outcome {
                Outcome::Result(now) => task = now,
                Outcome::Error(_) => return Ok(reply),
            }
        }
    }

    fn request(&self, method: &str) -> Box<Call> {
        let mut params = br#"{"taskId":"#.to_vec();
        json::encode_string(self.id.as_deref().unwrap_or_default(), &mut params);
        params.push(b'}');
        let params = Params::parse(params.into(), Rules::backend()).expect("what we wrote is JSON");
        (self.again)(Method::parse(method), params)
    }

    async fn send(&self, method: &str) -> Result<Reply, Fault> {
        self.backend.call(self.request(method)).await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.id.is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let cancel = self.backend.call(self.request("tasks/cancel"));
            runtime.spawn(async move { drop(cancel.await) });
        }
    }
}

fn as_task(params: &Params) -> Params {
    let task = format!(r#"{{"ttl":{TTL_MS}}}"#);
    let mut out = Vec::with_capacity(params.as_bytes().len() + 32);
    params
        .as_raw()
        .rewrite(&[("task", Some(task.as_bytes()))], &mut out);
    Params::parse(out.into(), Rules::backend()).expect("what we wrote is JSON")
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
    let related = |meta: Bytes| {
        let meta = Payload::parse(meta, Rules::backend()).ok()?;
        meta.get(RELATED)?;
        let mut out = Vec::new();
        meta.as_raw().rewrite(&[(RELATED, None)], &mut out);
        Some(out)
    };
    let Some(meta) = result.get_bytes("_meta").and_then(related) else {
        return reply;
    };
    let mut out = Vec::with_capacity(result.as_bytes().len());
    let meta = (meta != b"{}").then_some(&meta[..]);
    result.as_raw().rewrite(&[("_meta", meta)], &mut out);
    match Payload::parse(out.into(), Rules::backend()) {
        Ok(result) => Reply {
            revision: reply.revision,
            outcome: Outcome::Result(result),
        },
        Err(_) => reply,
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
