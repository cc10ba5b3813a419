//! Tasks: a backend of 2026-07-28 may answer a call with a handle instead of a result.
//!
//! A modern caller gets the handle, sealed: it names the backend and the backend's own id, and is
//! good for this caller only. A legacy caller knows nothing of tasks: the gateway polls for it, and
//! the call looks like an ordinary slow one. Handles end with the process that sealed them.

use std::sync::Arc;
use std::time::Duration;

use sentinel_core::audit::Trail;
use sentinel_core::{Caller, Fault, Kind, Reply, Step, View};
use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Method, Outcome, Params, Payload};

use super::legacy::{Needed, Outlet, collect, read_inputs};
use super::visits::Visits;
use crate::gateway::Gateway;

/// Between two looks at a task, whatever its server suggests.
const POLL_MIN: Duration = Duration::from_millis(20);
const POLL_MAX: Duration = Duration::from_secs(10);
const POLL_DEFAULT: Duration = Duration::from_secs(1);
/// Longest a legacy caller's call may go on as a task.
const TASK_MAX: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn is_task_method(method: &Method) -> bool {
    matches!(
        method,
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel
    )
}

/// Whether a reply is a task in place of a result.
pub(crate) fn is_task(reply: &Reply) -> Option<&Payload> {
    match &reply.outcome {
        Outcome::Result(result) if result.get("resultType") == Some(br#""task""#) => Some(result),
        _ => None,
    }
}

/// The caller's handle for a backend's task.
pub(crate) fn seal(gateway: &Gateway, caller: &Caller, owner: usize, inner: &str) -> String {
    let plain = [&(owner as u32).to_le_bytes()[..], inner.as_bytes()].concat();
    gateway.sealer.seal(&plain, &bound_to(caller))
}

/// Whose task a handle names, and what it is called there.
pub(crate) fn open(
    gateway: &Gateway,
    caller: &Caller,
    handle: &str,
) -> Result<(usize, String), Fault> {
    let unknown = || Fault::new(Kind::InvalidParams, "unknown or expired task");
    let plain = gateway
        .sealer
        .open(handle, &bound_to(caller))
        .ok_or_else(unknown)?;
    let (owner, inner) = plain.split_first_chunk::<4>().ok_or_else(unknown)?;
    let inner = String::from_utf8(inner.to_vec()).map_err(|_| unknown())?;
    Ok((u32::from_le_bytes(*owner) as usize, inner))
}

fn bound_to(caller: &Caller) -> Vec<u8> {
    [b"task\0", caller.subject.as_bytes()].concat()
}

/// The same object under another task id.
pub(crate) fn with_id(object: &Payload, id: &str) -> Payload {
    let mut quoted = Vec::new();
    json::encode_string(id, &mut quoted);
    let mut out = Vec::with_capacity(object.as_bytes().len() + id.len());
    object
        .as_raw()
        .rewrite(&[("taskId", Some(&quoted))], &mut out);
    Payload::parse(out.into(), Rules::backend()).expect("what we wrote is JSON")
}

/// A task that the gateway drives for a legacy caller.
pub(crate) struct Driven<'a> {
    gateway: &'a Gateway,
    caller: &'a Arc<Caller>,
    owner: usize,
    id: String,
    /// Of the call that became a task: its record covers all that is said about it.
    trail: Arc<Trail>,
    /// Dropped before its end: the backend is told.
    ended: bool,
}

impl<'a> Driven<'a> {
    pub(crate) fn new(
        gateway: &'a Gateway,
        caller: &'a Arc<Caller>,
        owner: usize,
        task: &Payload,
        trail: Arc<Trail>,
    ) -> Self {
        let id = task.string("taskId").unwrap_or_default().into_owned();
        Self {
            gateway,
            caller,
            owner,
            id,
            trail,
            ended: false,
        }
    }

    /// Polls to the end, asking the caller whatever the task wants to know.
    pub(crate) async fn run(mut self, created: &Payload, outlet: &Outlet) -> Result<Reply, Fault> {
        let mut pause = poll_interval(created);
        let deadline = tokio::time::Instant::now() + TASK_MAX;
        while tokio::time::Instant::now() < deadline {
            tokio::time::sleep(pause).await;
            let reply = self.send(Method::TasksGet, "").await?;
            let Outcome::Result(task) = &reply.outcome else {
                self.ended = true;
                return Ok(reply);
            };
            pause = poll_interval(task);
            match &*task.string("status").unwrap_or_default() {
                "completed" | "failed" | "cancelled" => {
                    self.ended = true;
                    return finished(&reply, task);
                }
                "input_required" => self.answer(task, outlet).await?,
                _ => {}
            }
        }
        Err(Fault::new(
            Kind::BackendTimeout,
            "the task did not end within a day",
        ))
    }

    async fn answer(&self, task: &Payload, outlet: &Outlet) -> Result<(), Fault> {
        let needed = Needed {
            inputs: read_inputs(task),
            state: None,
        };
        if needed.inputs.is_empty() {
            return Ok(());
        }
        let think = self.gateway.limits().park_ttl;
        // A task asks each thing once, under a key of its own.
        let mut visits = Visits::default();
        let answers = match collect(&needed, self.caller, outlet, think, &mut visits).await {
            Ok(answers) => answers,
            Err(Err(fault)) => return Err(fault),
            Err(Ok(_)) => {
                return Err(Fault::new(
                    Kind::Cancelled,
                    "the caller refused to answer the task",
                ));
            }
        };
        let answers = format!(r#","inputResponses":{}"#, String::from_utf8_lossy(&answers));
        self.send(Method::TasksUpdate, &answers).await.map(drop)
    }

    async fn send(&self, method: Method, members: &str) -> Result<Reply, Fault> {
        let params = task_params(&self.id, members);
        let view = View::Only(self.owner);
        let (caller, trail) = (self.caller.clone(), self.trail.clone());
        let mut talk = self.gateway.walk.begin(caller, view, method, params, trail);
        loop {
            if let Step::Done(outcome) = talk.next().await {
                return outcome;
            }
        }
    }
}

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let params = task_params(&self.id, "");
        let view = View::Only(self.owner);
        let (caller, trail) = (self.caller.clone(), self.trail.clone());
        let mut talk = self
            .gateway
            .walk
            .begin(caller, view, Method::TasksCancel, params, trail);
        tokio::spawn(async move { while !matches!(talk.next().await, Step::Done(_)) {} });
    }
}

fn task_params(id: &str, members: &str) -> Params {
    let mut out = br#"{"taskId":"#.to_vec();
    json::encode_string(id, &mut out);
    out.extend_from_slice(members.as_bytes());
    out.push(b'}');
    Params::parse(out.into(), Rules::backend()).expect("what we wrote is JSON")
}

fn poll_interval(task: &Payload) -> Duration {
    let suggested = task
        .get("pollIntervalMs")
        .and_then(|ms| std::str::from_utf8(ms).ok()?.parse().ok());
    suggested
        .map_or(POLL_DEFAULT, Duration::from_millis)
        .clamp(POLL_MIN, POLL_MAX)
}

/// What an ordinary call would have answered.
fn finished(reply: &Reply, task: &Payload) -> Result<Reply, Fault> {
    let part = |name: &str| {
        task.get_bytes(name)
            .and_then(|raw| Payload::parse(raw, Rules::backend()).ok())
    };
    if let Some(result) = part("result") {
        return Ok(Reply {
            revision: reply.revision,
            outcome: Outcome::Result(result),
        });
    }
    if let Some(error) = part("error") {
        return Ok(Reply {
            revision: reply.revision,
            outcome: Outcome::Error(error),
        });
    }
    let why = task
        .string("statusMessage")
        .unwrap_or("the task was cancelled".into())
        .into_owned();
    Err(Fault::new(Kind::Cancelled, why))
}
