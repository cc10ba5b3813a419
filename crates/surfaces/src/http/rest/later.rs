//! Calls that are answered later: begun by `Prefer: respond-async`, seen, answered and cancelled at `/api/tasks/{id}`.
//!
//! The call runs in a task of its own, as it would for a client that waits: where a backend makes an MCP task of it, the core
//! waits for that in the caller's stead (`core::tasks`). It has one record, made when it ends and before its answer can be
//! seen; each request about it has its own. What it asks is shown at its URL, and the answers continue it. It is cancelled
//! when it is removed, when its caller's credential is taken back, and when the gateway shuts down.
//!
//! Not here: which jobs there are (`jobs`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use sentinel_core::audit::{Ending, Surface};
use sentinel_core::invocation::params_named;
use sentinel_core::{Fault, Identity, Kind};
use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Method, Params, Payload};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::super::auth::AccessEpoch;
use super::super::body::Body;
use super::super::exchange::Exchange;
use super::super::mounts;
use super::super::operations::{self, Completed, Next, Running, Wanted, Way};
use super::super::post::take_any_body;
use super::super::reply;
use super::super::routes::Handled;
use super::accept::Accept;
use super::headers::Preferences;
use super::jobs::{Job, Order, Owner, Said, State};
use super::next::Called;
use super::stored::StoredAnswer;
use super::{
    ToolCall, WITH_PROGRESS, answered, check_json_type, malformed, refused, rules, segment,
    tool_answer,
};
use crate::gateway::Gateway;
use crate::rescue::RestInput;

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// Advice between two looks at a call that runs.
const RETRY_AFTER_S: u64 = 1;
/// As long as the core waits for a task of a backend.
const JOB_MAX: Duration = Duration::from_secs(24 * 3600);

/// Begins a call whose client need not wait for it. What is decided within `wait` is answered at once. Whether the answer is
/// final comes with it.
pub(super) async fn begin(
    call: ToolCall<'_>,
    exchange: &Exchange<'_>,
    wanted: Wanted,
    accept: Accept,
    wait: Option<Duration>,
) -> Result<(Response<Body>, bool), Fault> {
    let path = exchange.head.uri.path();
    let (above, _) = path.rsplit_once('/').unwrap_or_default();
    let order = Order {
        tool: call.name.to_owned(),
        arguments: Bytes::copy_from_slice(call.arguments),
        input: call.input,
        accept,
        addressing: call.addressing,
        above: above.to_owned(),
    };
    let tasks = {
        let entrance = exchange.server.entrance.load();
        let at = entrance.mounts.rest.as_deref().unwrap_or(mounts::REST);
        format!("{at}/tasks")
    };
    let (jobs, owner) = (
        &exchange.server.gateway.jobs,
        Owner::of(exchange.identity()),
    );
    let opened = match jobs.open(owner, order, &tasks) {
        Ok(opened) => opened,
        Err(fault) => {
            let record = operations::open(exchange, Surface::Rest, &wanted);
            let completed = Completed::refused(fault, record);
            return Ok((refused(completed, call.input), false));
        }
    };
    let mut running = match operations::begin(exchange, Surface::Rest, wanted) {
        Ok(running) => running,
        Err(completed) => return Ok((refused(*completed, call.input), false)),
    };
    let mut said = Said::default();
    let until = Instant::now() + wait.unwrap_or_default();
    while let Ok(next) = timeout_at(until, running.next()).await {
        match next {
            Next::Notice(message) => said.hear(&message),
            // Not asked for: the answer is kept as a whole.
            Next::Rows(_) => {}
            Next::Done(completed) => {
                let is_final = completed.is_final();
                let response = answered(*completed, call.input, |result| {
                    tool_answer(result, &opened.order().accept, call.called(exchange))
                });
                return Ok((response, is_final));
            }
        }
    }
    let job = opened.keep(said);
    drive_on(exchange, &job, running);
    Ok((accepted(&job), true))
}

/// Lets a job's call run on without a request.
fn drive_on(exchange: &Exchange<'_>, job: &Arc<Job>, running: Running) {
    let driver = Driver {
        job: job.clone(),
        gateway: exchange.server.gateway.clone(),
        epoch: exchange.server.entrance.load().epoch.clone(),
        identity: exchange.identity().clone(),
    };
    let driven = tokio::spawn(driver.run(running));
    job.driven_by(driven.abort_handle());
}

struct Driver {
    job: Arc<Job>,
    gateway: Arc<Gateway>,
    epoch: Arc<AccessEpoch>,
    identity: Arc<Identity>,
}

impl Driver {
    async fn run(self, mut running: Running) {
        let deadline = Instant::now() + JOB_MAX;
        let mut rejected = std::pin::pin!(self.epoch.rejected(&self.identity));
        loop {
            let next = tokio::select! {
                biased;
                next = running.next() => next,
                () = &mut rejected => break,
                () = self.gateway.drained() => break,
                () = sleep_until(deadline) => {
                    let text = "the call did not end within a day";
                    let completed = running.refuse(Fault::new(Kind::BackendTimeout, text));
                    return self.settle(*completed);
                }
            };
            match next {
                Next::Notice(message) => self.job.state.send_modify(|state| {
                    if let State::Working(said) = state {
                        said.hear(&message);
                    }
                }),
                Next::Rows(_) => {}
                Next::Done(completed) => return self.settle(*completed),
            }
        }
        drop(running);
        self.gateway.jobs.remove(&self.job.id);
    }

    /// Makes the record, then lets the answer be seen.
    fn settle(&self, mut completed: Completed) {
        let (job, since) = (&self.job, Instant::now());
        let sealed = self.question(&mut completed);
        let called = Called {
            registry: &self.gateway.registry,
            above: &job.order.above,
            tool: &job.order.tool,
            arguments: &job.order.arguments,
        };
        let response = answered(completed, job.order.input, |result| {
            tool_answer(result, &job.order.accept, called)
        });
        let answer = StoredAnswer::of(&response);
        let fits = |answer: &StoredAnswer| self.gateway.jobs.has_room_for(job, answer.weight());
        let answer = answer.filter(fits).unwrap_or_else(too_large);
        let answer = Arc::new(answer);
        job.state.send_replace(match sealed {
            Some(sealed) => State::Asking {
                question: answer,
                sealed,
                since,
            },
            None => State::Done {
                answer,
                since,
                is_read: false,
            },
        });
    }

    /// The sealed state of a call that asks something, as JSON; the question says where its answers go.
    fn question(&self, completed: &mut Completed) -> Option<Bytes> {
        let Err(fault) = &mut completed.outcome else {
            return None;
        };
        let asked = fault
            .data
            .as_mut()
            .filter(|_| fault.kind == Kind::InputRequired)?;
        let members = Payload::parse(format!("{{{asked}}}").into(), Rules::backend());
        let sealed = members.ok()?.get_bytes("requestState")?;
        asked.push_str(&format!(r#","continue":"{}/continue""#, self.job.path));
        Some(sealed)
    }
}

fn too_large() -> StoredAnswer {
    let text =
        "the call was made, and there was no room to keep its answer (64 MiB for each caller)";
    let problem = reply::problem(&Fault::new(Kind::AnswerLost, text));
    StoredAnswer::of(&problem).expect("a problem document is no stream")
}

/// `202`: where the answer will be.
fn accepted(job: &Job) -> Response<Body> {
    let mut response = working(job, &job.now());
    let headers = response.headers_mut();
    let path = HeaderValue::try_from(&job.path).expect("a path of a request, and base64");
    headers.insert(LOCATION, path);
    let applied = HeaderValue::from_static("respond-async");
    headers.insert(PREFERENCE_APPLIED, applied);
    response
}

/// How a call goes that runs.
fn working(job: &Job, state: &State) -> Response<Body> {
    let mut out = br#"{"id":"#.to_vec();
    json::encode_string(&job.id, &mut out);
    out.extend_from_slice(br#","operation":"#);
    json::encode_string(&job.order.tool, &mut out);
    let rest = format!(
        r#","state":"working","created_at_ms":{}"#,
        job.created_at_ms
    );
    out.extend_from_slice(rest.as_bytes());
    if let State::Working(said) = state {
        let members = [("progress", &said.progress), ("log", &said.log)];
        for (name, object) in members {
            let Some(object) = object else { continue };
            out.extend_from_slice(format!(r#","{name}":"#).as_bytes());
            out.extend_from_slice(object);
        }
    }
    out.push(b'}');
    let mut response = reply::json(StatusCode::ACCEPTED, out);
    let headers = response.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The caller's job that the path names.
fn find(exchange: &Exchange<'_>) -> Result<Arc<Job>, Fault> {
    let id = segment(exchange.rest)?;
    let owner = Owner::of(exchange.identity());
    let job = exchange.server.gateway.jobs.find(&id, &owner);
    job.ok_or_else(|| {
        let text = "no such task: it is over, was removed, or is somebody else's";
        Fault::new(Kind::NotFound, text)
    })
}

/// The params of the job's call; `members` are further ones, each with a comma before it.
fn params(exchange: &Exchange<'_>, job: &Job, members: &[u8]) -> Result<Params, Fault> {
    let Order {
        tool, arguments, ..
    } = &job.order;
    params_named(tool, arguments, members, rules(exchange)).map_err(malformed)
}

fn way_of(job: &Job) -> Way {
    Way {
        addressing: job.order.addressing,
        ..Way::default()
    }
}

/// A request about a job, for its record.
fn about(exchange: &Exchange<'_>, job: &Job, method: Method) -> Result<Wanted, Fault> {
    Ok(Wanted {
        method,
        params: params(exchange, job, b"")?,
        id: None,
        bytes_in: 0,
        with_notices: false,
        way: way_of(job),
    })
}

/// `GET /api/tasks/{id}`: how the call goes, or the answer that it would have had. `Prefer: wait` waits for that.
pub(in super::super) fn status<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    async move {
        let job = find(exchange)?;
        let record = operations::open(
            exchange,
            Surface::Rest,
            &about(exchange, &job, Method::TasksGet)?,
        );
        record.trail().about(&job.order.tool);
        let wait = Preferences::of(exchange.headers()).wait;
        job.settled(wait.unwrap_or_default()).await;
        // The caller may have lost the right to the call since it made it.
        let call = about(exchange, &job, Method::ToolsCall)?;
        if let Err(fault) = operations::permits(exchange, &call, &record) {
            return Ok(refused(Completed::refused(fault, record), RestInput::Query));
        }
        let state = job.now();
        let response = match &state {
            State::Working(_) => working(&job, &state),
            State::Asking { question, .. } => question.respond(),
            State::Done { answer, .. } => {
                job.state.send_modify(|state| {
                    if let State::Done { is_read, .. } = state {
                        *is_read = true;
                    }
                });
                answer.respond()
            }
        };
        let bytes_out = http_body::Body::size_hint(response.body()).lower();
        record.end(&Ending::Success, bytes_out as usize);
        Ok(response)
    }
    .boxed()
}

/// `DELETE /api/tasks/{id}`: cancels the call, or forgets its answer.
pub(in super::super) fn cancel<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    async move {
        let job = find(exchange)?;
        let wanted = about(exchange, &job, Method::TasksCancel)?;
        let record = operations::open(exchange, Surface::Rest, &wanted);
        record.trail().about(&job.order.tool);
        exchange.server.gateway.jobs.remove(&job.id);
        if let Some((_, sealed)) = job.take_question() {
            let members = [br#","requestState":"#, &sealed[..]].concat();
            operations::abandon(exchange, params(exchange, &job, &members)?);
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        record.end(&Ending::Success, 0);
        Ok(response)
    }
    .boxed()
}

/// `POST /api/tasks/{id}/continue`: answers to what the call asked.
pub(in super::super) fn continue_later<'a>(
    exchange: &'a Exchange<'a>,
    body: Incoming,
) -> Handled<'a> {
    async move {
        let job = find(exchange)?;
        let bytes = take_any_body(exchange.server, exchange.headers(), body).await?;
        check_json_type(exchange.headers())?;
        let bytes_in = bytes.len();
        let sent = Params::parse(bytes, rules(exchange)).map_err(malformed)?;
        let Some((before, sealed)) = job.take_question() else {
            let text = "the call asks nothing at the moment";
            return Err(Fault::new(Kind::BadState, text));
        };
        let members = [
            br#","requestState":"#.as_slice(),
            &sealed,
            br#","inputResponses":"#,
            sent.get("inputResponses").unwrap_or(b"{}"),
            WITH_PROGRESS,
        ];
        let begun = params(exchange, &job, &members.concat()).map(|params| {
            let wanted = Wanted {
                method: Method::ToolsCall,
                params,
                id: None,
                bytes_in,
                with_notices: true,
                way: way_of(&job),
            };
            operations::begin(exchange, Surface::Rest, wanted)
        });
        match begun {
            Ok(Ok(running)) => {
                drive_on(exchange, &job, running);
                Ok(accepted(&job))
            }
            // What was asked can still be answered.
            Ok(Err(completed)) => {
                job.state.send_replace(before);
                Ok(refused(*completed, RestInput::Body))
            }
            Err(fault) => {
                job.state.send_replace(before);
                Err(fault)
            }
        }
    }
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The call ran: a client that repeats what it is told it may repeat must not make it twice.
    #[test]
    fn an_answer_without_room_is_no_reason_to_call_again() {
        let response = too_large().respond();
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
        let body = response.body().ready().expect("a whole body");
        let problem: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(problem["code"], "answer_lost", "{problem}");
        assert_eq!(problem["retryable"], false, "{problem}");
        assert!(response.headers().get(RETRY_AFTER).is_none());
    }
}
