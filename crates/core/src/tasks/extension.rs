//! Tasks of 2025-11-25 in the words of the extension of 2026-07-28, for callers that declare it.
//!
//! | extension | what the legacy server is asked |
//! | --- | --- |
//! | `tools/call` | the same with `task`, and the task it creates is the answer |
//! | `tasks/get` | `tasks/get`; at the end also `tasks/result`, which goes into the answer |
//! | ... while it wants input | `tasks/result`, held open by the `TaskQuestions`: there the server asks |
//! | `tasks/update` | nothing: the answers go to the questions |
//! | `tasks/cancel` | `tasks/cancel`, and to refuse it is no error |

use std::sync::Arc;
use std::time::Duration;

use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Outcome, Payload, translate};

use super::questions::{AwaitedTask, Key, TaskQuestions};
use super::{Again, TTL_MS, about, again, created, edited, plain, unrelated};
use crate::backend::{Backend, Call};
use crate::caller::Caller;
use crate::capabilities::ClientCapabilities;
use crate::fault::{Fault, Kind};
use crate::reply::Reply;

/// How long a look at a task waits for what the task asks. A server that takes longer has asked by the next
/// look.
const ASKED_MAX: Duration = Duration::from_millis(500);

/// Calls a tool that runs as a task, and answers with the task.
pub(super) async fn begin(backend: Arc<dyn Backend>, mut call: Box<Call>) -> Result<Reply, Fault> {
    call.task_ttl_ms = Some(TTL_MS);
    call.line = call.line.hiding_task();
    let revision = call.caller.revision;
    let reply = backend.call(call).await?;
    let Some(task) = created(&reply) else {
        return Ok(reply);
    };
    let meta = match &reply.outcome {
        Outcome::Result(result) => match unrelated(result) {
            Some((plain, _)) => plain.get_bytes("_meta"),
            None => result.get_bytes("_meta"),
        },
        Outcome::Error(_) => None,
    };
    let members = [
        ("resultType", Some(&br#""task""#[..])),
        ("_meta", meta.as_deref()),
    ];
    Ok(Reply {
        revision,
        outcome: Outcome::Result(renamed(&task, &members)),
    })
}

/// A task with the extension's names for its members, and further ones.
fn renamed(task: &Payload, more: &[(&str, Option<&[u8]>)]) -> Payload {
    let whole = |name: &str| {
        let ms: f64 = std::str::from_utf8(task.get(name)?).ok()?.parse().ok()?;
        Some((ms.max(0.0).round() as u64).to_string())
    };
    // A task without an end says `null`.
    let ttl = whole("ttl").unwrap_or_else(|| "null".to_owned());
    let pause = whole("pollInterval");
    let mut edits: Vec<(&str, Option<&[u8]>)> = vec![
        ("ttl", None),
        ("pollInterval", None),
        ("ttlMs", Some(ttl.as_bytes())),
        ("pollIntervalMs", pause.as_deref().map(str::as_bytes)),
    ];
    edits.extend_from_slice(more);
    edited(task, &edits)
}

/// Answers a request about a task.
pub(super) async fn answer(
    questions: &Arc<TaskQuestions>,
    backend: Arc<dyn Backend>,
    mut call: Box<Call>,
) -> Result<Reply, Fault> {
    let missing = || Fault::new(Kind::InvalidParams, "`taskId` is missing or no string");
    let id = call
        .params
        .string("taskId")
        .ok_or_else(missing)?
        .into_owned();
    let asker = call.caller.clone();
    call.caller = at_home(&call);
    let target = call.target();
    let task = Task {
        key: Key {
            backend: target.index,
            subject: asker.principal(),
            id,
        },
        again: again(&call),
        questions,
        backend,
        asker,
    };
    match call.method {
        Method::TasksUpdate => task.update(&call).await,
        Method::TasksCancel => task.cancel().await,
        _ => task.get().await,
    }
}

/// The caller as it was when the task began: its server knows it in that session.
fn at_home(call: &Call) -> Arc<Caller> {
    match &call.about {
        Some(about) if about.questions != call.caller.capabilities.questions() => {
            Arc::new(Caller {
                capabilities: ClientCapabilities::of_questions(about.questions),
                ..Caller::clone(&call.caller)
            })
        }
        _ => call.caller.clone(),
    }
}

/// One request about a task.
struct Task<'a> {
    key: Key,
    again: Again,
    questions: &'a Arc<TaskQuestions>,
    backend: Arc<dyn Backend>,
    /// Who wants to know, and can be asked what this request declares.
    asker: Arc<Caller>,
}

impl Task<'_> {
    async fn send(&self, method: Method) -> Result<Reply, Fault> {
        let call = (self.again)(method, about(&self.key.id));
        self.backend.call(call).await
    }

    async fn get(&self) -> Result<Reply, Fault> {
        // Its state may change while we listen for questions; then it is looked at once more.
        let mut looks = 2;
        loop {
            looks -= 1;
            let reply = self.send(Method::TasksGet).await?;
            let Outcome::Result(task) = &reply.outcome else {
                self.questions.close(&self.key);
                return Ok(reply);
            };
            match &*task.string("status").unwrap_or_default() {
                "completed" | "failed" => return self.with_result(task).await,
                "cancelled" => {
                    self.questions.close(&self.key);
                    return Ok(self.told(task, &[]));
                }
                "input_required" => {
                    let awaited = self.wait_for_questions()?;
                    let asked = awaited.asked(ASKED_MAX, &self.asker).await;
                    if let Some(requests) = asked {
                        let requests = ("inputRequests", Some(requests.as_bytes()));
                        return Ok(self.told(task, &[requests]));
                    }
                    if !awaited.is_over() || looks == 0 {
                        // Nothing that this caller could do about it, so to it the task is busy.
                        return Ok(self.told(task, &[("status", Some(br#""working""#))]));
                    }
                }
                _ => return Ok(self.told(task, &[])),
            }
        }
    }

    fn told(&self, task: &Payload, more: &[(&str, Option<&[u8]>)]) -> Reply {
        let mut members = vec![("resultType", Some(&br#""complete""#[..]))];
        members.extend_from_slice(more);
        let plain = unrelated(task).map(|(plain, _)| plain);
        Reply {
            revision: self.asker.revision,
            outcome: Outcome::Result(renamed(plain.as_ref().unwrap_or(task), &members)),
        }
    }

    /// The task at its end. A tool that failed has completed, in the extension's words: failed is what
    /// ended in an error of the protocol.
    async fn with_result(&self, task: &Payload) -> Result<Reply, Fault> {
        self.questions.close(&self.key);
        let to = self.asker.revision;
        let reply = plain(self.send(Method::TasksResult).await?);
        Ok(match &reply.outcome {
            Outcome::Result(result) => {
                let result = translate::result(&Method::ToolsCall, result, reply.revision, to);
                let members = [
                    ("status", Some(&br#""completed""#[..])),
                    ("result", Some(&*result)),
                ];
                self.told(task, &members)
            }
            Outcome::Error(error) => {
                let error = translate::error(error, to);
                let members = [
                    ("status", Some(&br#""failed""#[..])),
                    ("error", Some(&*error)),
                ];
                self.told(task, &members)
            }
        })
    }

    /// The task with its questions; the first request opens it.
    fn wait_for_questions(&self) -> Result<Arc<AwaitedTask>, Fault> {
        let open = |line| {
            let mut call = (self.again)(Method::TasksResult, about(&self.key.id));
            call.line = line;
            // It outlives this request, which does not wait for it.
            call.slot = Default::default();
            call.trail = Arc::default();
            self.backend.call(call)
        };
        let text = "too many tasks wait for input; answer or cancel some first";
        self.questions
            .wait_for(&self.key, open)
            .ok_or_else(|| Fault::new(Kind::BackendBadReply, text))
    }

    async fn update(&self, call: &Call) -> Result<Reply, Fault> {
        match self.questions.find(&self.key) {
            Some(awaited) => {
                let answers = call.params.get_bytes("inputResponses").unwrap_or_default();
                awaited.answer(&answers);
            }
            None => {
                let reply = self.send(Method::TasksGet).await?;
                if let Outcome::Error(_) = reply.outcome {
                    return Ok(reply);
                }
            }
        }
        Ok(self.acknowledged())
    }

    /// To have come too late is no error here, and a server that cannot cancel has been asked: only a
    /// task that it does not know is one.
    async fn cancel(&self) -> Result<Reply, Fault> {
        let reply = self.send(Method::TasksCancel).await?;
        self.questions.close(&self.key);
        if let Outcome::Error(_) = reply.outcome
            && let Outcome::Error(_) = self.send(Method::TasksGet).await?.outcome
        {
            return Ok(reply);
        }
        Ok(self.acknowledged())
    }

    fn acknowledged(&self) -> Reply {
        let done = br#"{"resultType":"complete"}"#;
        let done = Payload::parse(bytes::Bytes::from_static(done), Rules::backend());
        Reply {
            revision: self.asker.revision,
            outcome: Outcome::Result(done.expect("what we wrote is JSON")),
        }
    }
}

#[cfg(test)]
mod tests;
