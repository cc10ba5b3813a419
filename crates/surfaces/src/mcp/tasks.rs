//! Tasks: a backend may answer a call with a handle instead of a result.
//!
//! A modern caller gets the handle, sealed: it contains the backend, the tool and the backend's own id, and is valid
//! for this caller only, and like a session at this endpoint only. Tasks of 2025-11-25 have been translated before
//! (`core::tasks`). A legacy caller knows no tasks: the gateway polls for it, and the call looks slow. Handles end
//! with the process that sealed them.

use std::sync::Arc;
use std::time::Duration;

use sentinel_core::{
    CallId, Caller, Fault, Invocation, Kind, Operation, Reply, Step, TaskAction, TaskOf, View,
};
use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Method, Outcome, Payload};

use super::legacy::{LegacyCall, RequestedInput, read_inputs};
use super::visits::OpenedPages;
use crate::gateway::Gateway;

/// Bounds on the polling interval, whatever the server suggests.
const POLL_MIN: Duration = Duration::from_millis(20);
const POLL_MAX: Duration = Duration::from_secs(10);
const POLL_DEFAULT: Duration = Duration::from_secs(1);
/// Longest duration of a legacy caller's call as a task.
const TASK_MAX: Duration = Duration::from_secs(24 * 3600);

/// The action of a task method.
pub(crate) fn task_action(method: &Method) -> Option<TaskAction> {
    match method {
        Method::TasksGet => Some(TaskAction::Get),
        Method::TasksUpdate => Some(TaskAction::Update),
        Method::TasksCancel => Some(TaskAction::Cancel),
        _ => None,
    }
}

/// The refusal of task methods for callers that did not declare tasks.
pub(crate) fn undeclared() -> Fault {
    let required = r#""requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    Fault::new(Kind::MissingCapability, "tasks were not declared").with_data(required)
}

/// Whether a reply is a task in place of a result.
pub(crate) fn is_task(reply: &Reply) -> Option<&Payload> {
    match &reply.outcome {
        Outcome::Result(result) if result.get("resultType") == Some(br#""task""#) => Some(result),
        _ => None,
    }
}

/// The content of a handle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TaskHandle {
    /// The backend's slot in the registry.
    pub(crate) owner: usize,
    pub(crate) of: Arc<TaskOf>,
    /// The backend's task id.
    pub(crate) id: String,
}

impl TaskHandle {
    /// The task that a call of this operation became.
    pub(crate) fn new(operation: &Operation, caller: &Caller, call: CallId, id: &str) -> Self {
        Self {
            owner: operation.index,
            of: Arc::new(TaskOf {
                tool: operation.own.clone(),
                questions: caller.capabilities.questions(),
                call,
            }),
            id: id.to_owned(),
        }
    }

    /// A request about the task. `members` are further members of its params, each preceded by a comma.
    pub(crate) fn request(
        &self,
        caller: &Arc<Caller>,
        action: TaskAction,
        members: &str,
    ) -> Invocation {
        let (caller, of) = (caller.clone(), self.of.clone());
        Invocation::task(caller, self.owner, action, of, &self.id, members.as_bytes())
    }

    fn write(&self) -> Vec<u8> {
        let tool = self.of.tool.as_bytes();
        let mut out = (self.owner as u32).to_le_bytes().to_vec();
        out.push(self.of.questions);
        out.extend_from_slice(&self.of.call.to_bytes());
        out.extend_from_slice(&(tool.len() as u32).to_le_bytes());
        out.extend_from_slice(tool);
        out.extend_from_slice(self.id.as_bytes());
        out
    }

    fn read(plain: &[u8]) -> Option<Self> {
        let (owner, rest) = plain.split_first_chunk::<4>()?;
        let (questions, rest) = rest.split_first()?;
        let (call, rest) = rest.split_first_chunk::<16>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (tool, id) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        Some(Self {
            owner: u32::from_le_bytes(*owner) as usize,
            of: Arc::new(TaskOf {
                tool: std::str::from_utf8(tool).ok()?.into(),
                questions: *questions,
                call: CallId::from_bytes(*call),
            }),
            id: String::from_utf8(id.to_vec()).ok()?,
        })
    }
}

/// The caller's handle for a backend's task.
pub(crate) fn seal(gateway: &Gateway, caller: &Caller, view: View, named: &TaskHandle) -> String {
    let whose = bound_to(caller, view);
    gateway.sealer.seal(&named.write(), &whose)
}

/// The task in a handle; only for the caller and the endpoint that it was made for.
pub(crate) fn open(
    gateway: &Gateway,
    caller: &Caller,
    view: View,
    handle: &str,
) -> Result<TaskHandle, Fault> {
    let plain = gateway.sealer.open(handle, &bound_to(caller, view));
    plain
        .and_then(|plain| TaskHandle::read(&plain))
        .ok_or_else(|| Fault::new(Kind::InvalidParams, "unknown or expired task"))
}

fn bound_to(caller: &Caller, view: View) -> Vec<u8> {
    let endpoint = match view {
        View::Merged => "all".to_owned(),
        View::Only(index) => index.to_string(),
    };
    format!("task\0{endpoint}\0{}", caller.principal()).into_bytes()
}

/// The object with another task id.
pub(crate) fn with_id(object: &Payload, id: &str) -> Payload {
    let mut quoted = Vec::new();
    json::encode_string(id, &mut quoted);
    let mut out = Vec::with_capacity(object.as_bytes().len() + id.len());
    object
        .as_raw()
        .rewrite(&[("taskId", Some(&quoted))], &mut out);
    Payload::parse(out.into(), Rules::backend()).expect("what we wrote is JSON")
}

/// A task that the gateway polls for a legacy caller. Its requests belong to the record of the call that became the
/// task.
pub(crate) struct PolledTask<'a> {
    call: &'a LegacyCall,
    operation: Arc<Operation>,
    named: TaskHandle,
    /// If this is dropped earlier, the task is cancelled at its backend.
    ended: bool,
}

impl<'a> PolledTask<'a> {
    pub(crate) fn new(
        call: &'a LegacyCall,
        call_id: CallId,
        operation: Arc<Operation>,
        task: &Payload,
    ) -> Self {
        let id = task.string("taskId").unwrap_or_default();
        Self {
            call,
            named: TaskHandle::new(&operation, &call.caller, call_id, &id),
            operation,
            ended: false,
        }
    }

    /// Polls to the end, unless it is switched off, which is checked between polls.
    pub(crate) async fn run(mut self, created: &Payload) -> Result<Reply, Fault> {
        let (call, operation) = (self.call, self.operation.clone());
        let kills = call.gateway().policy.kills();
        tokio::select! {
            biased;
            fault = kills.until_off(&call.caller, &operation, call.session.view) => Err(fault),
            outcome = self.follow(created) => outcome,
        }
    }

    /// Polls to the end, passing the task's questions to the caller.
    async fn follow(&mut self, created: &Payload) -> Result<Reply, Fault> {
        let mut pause = poll_interval(created);
        let deadline = tokio::time::Instant::now() + TASK_MAX;
        while tokio::time::Instant::now() < deadline {
            tokio::time::sleep(pause).await;
            let reply = self.send(TaskAction::Get, "").await?;
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
                "input_required" => self.answer(task).await?,
                _ => {}
            }
        }
        Err(Fault::new(
            Kind::BackendTimeout,
            "the task did not end within a day",
        ))
    }

    async fn answer(&self, task: &Payload) -> Result<(), Fault> {
        let needed = RequestedInput {
            inputs: read_inputs(task),
            state: None,
        };
        if needed.inputs.is_empty() {
            return Ok(());
        }
        // A task asks each question once, under a key of its own.
        let mut visits = OpenedPages::default();
        let answers = match self.call.collect(&needed, &mut visits).await {
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
        self.send(TaskAction::Update, &answers).await.map(drop)
    }

    async fn send(&self, action: TaskAction, members: &str) -> Result<Reply, Fault> {
        let request = self.named.request(&self.call.caller, action, members);
        let mut talk = (self.call.gateway().walk).begin(request, self.call.trail.clone());
        loop {
            if let Step::Done(outcome) = talk.next().await {
                return outcome;
            }
        }
    }
}

impl Drop for PolledTask<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let walk = self.call.gateway().walk.clone();
        let cancel = self
            .named
            .request(&self.call.caller, TaskAction::Cancel, "");
        tokio::spawn(async move { walk.end_task(cancel).await });
    }
}

fn poll_interval(task: &Payload) -> Duration {
    let suggested = task
        .get("pollIntervalMs")
        .and_then(|ms| std::str::from_utf8(ms).ok()?.parse().ok());
    suggested
        .map_or(POLL_DEFAULT, Duration::from_millis)
        .clamp(POLL_MIN, POLL_MAX)
}

/// The result in the form of an ordinary call.
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

#[cfg(test)]
mod tests {
    use sentinel_core::Round;

    use super::*;

    #[test]
    fn a_handle_holds_what_is_needed_to_find_the_task_again() {
        let named = TaskHandle {
            owner: 7,
            of: Arc::new(TaskOf {
                tool: "dïg".into(),
                questions: 0b10101,
                call: Round::first().call,
            }),
            id: "a\"b".into(),
        };
        let written = named.write();
        assert_eq!(TaskHandle::read(&written), Some(named));
        for cut in 0..25 {
            assert_eq!(TaskHandle::read(&written[..cut]), None);
        }
    }
}
