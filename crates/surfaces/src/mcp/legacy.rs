//! A conversation with a caller of the handshake era.
//!
//! Notices and questions go out on the way that belongs to the call; answers come back as messages
//! of their own and find their question by id. When a modern backend says it needs input, the
//! gateway asks, collects the answers and calls again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sentinel_core::audit::Ending;
use sentinel_core::{Answer, Ask, Caller, Entry, Event, Fault, Kind, Notice, Reply, Step, View};
use sentinel_wire::envelope::{error_object, write_request};
use sentinel_wire::json::{Object, Rules};
use sentinel_wire::{Method, Outcome, Params, Payload, Request, json, meta};
use tokio::sync::{mpsc, oneshot};

use super::asks::Asks;
use super::render::{notice_message, outcome_message};
use super::subscribe::Subscriber;
use super::tasks::{self, Driven};
use crate::gateway::Gateway;

/// How often one call may come back for more input.
const ROUNDS_MAX: u32 = 10;

/// The way back to one legacy caller.
pub(crate) struct Outlet {
    /// Messages on their way to the caller, ready to be framed.
    pub(crate) messages: mpsc::Sender<Vec<u8>>,
    pub(crate) asks: Arc<Asks>,
    pub(crate) subscriber: Arc<Subscriber>,
    /// The caller can come back for the rest of a stream: then it is told to whenever its backend
    /// has us come back, by a message without a byte.
    pub(crate) may_pause: bool,
}

/// Runs one request of a legacy caller and returns the response message.
pub(crate) async fn converse(
    gateway: &Gateway,
    caller: &Arc<Caller>,
    view: View,
    request: Request,
    outlet: &Outlet,
    entry: Entry,
) -> Vec<u8> {
    let finish = |entry: Entry, message: Vec<u8>, outcome: &Result<Reply, Fault>| {
        entry.finish(&Ending::of(outcome), message.len());
        message
    };
    let Request { id, method, params } = request;
    let uri = || params.string("uri").map(|uri| uri.into_owned());
    let listening = (method == Method::ResourcesSubscribe)
        .then(uri)
        .flatten()
        .and_then(|uri| Some((outlet.subscriber.begin(&uri)?, uri)));
    let mut now = params.clone();
    for _ in 0..ROUNDS_MAX {
        let outcome = one_round(gateway, caller, view, &method, now, &params, outlet, &entry).await;
        let outcome = match outcome {
            Ok(reply) if tasks::is_task(&reply).is_some() => {
                Box::pin(drive(
                    gateway, caller, view, &method, &params, reply, outlet, &entry,
                ))
                .await
            }
            other => other,
        };
        let Some(needed) = input_required(&outcome) else {
            if let Ok(Reply {
                outcome: Outcome::Result(_),
                ..
            }) = &outcome
            {
                if let Some((ticket, uri)) = listening {
                    outlet.subscriber.keep(uri, ticket);
                } else if method == Method::ResourcesUnsubscribe {
                    outlet.subscriber.end(&uri().unwrap_or_default());
                }
            }
            let message = outcome_message(&id, &method, caller.revision, &outcome);
            return finish(entry, message, &outcome);
        };
        // Rare, and large: kept out of every call's future.
        match Box::pin(collect(&needed, caller, outlet, gateway.limits.park_ttl)).await {
            Ok(answers) => now = with_input(&params, &needed, &answers),
            Err(stop) => {
                let message = outcome_message(&id, &method, caller.revision, &stop);
                return finish(entry, message, &stop);
            }
        }
    }
    let outcome = Err(Fault::new(
        Kind::BackendBadReply,
        "the backend keeps asking for input",
    ));
    let message = outcome_message(&id, &method, caller.revision, &outcome);
    finish(entry, message, &outcome)
}

#[expect(
    clippy::too_many_arguments,
    reason = "the parts of one conversation, each with its own life"
)]
async fn one_round(
    gateway: &Gateway,
    caller: &Arc<Caller>,
    view: View,
    method: &Method,
    now: Params,
    original: &Params,
    outlet: &Outlet,
    entry: &Entry,
) -> Result<Reply, Fault> {
    let mut talk = gateway
        .walk
        .begin(caller.clone(), view, method.clone(), now, entry.trail());
    loop {
        match talk.next().await {
            Step::Done(outcome) => return outcome,
            Step::Event(Event::Ask(ask)) => put(*ask, caller, outlet),
            Step::Event(Event::Notice(notice)) if matches!(*notice, Notice::Pause) => {
                if outlet.may_pause {
                    let _ = outlet.messages.try_send(Vec::new());
                }
            }
            Step::Event(Event::Notice(notice)) => {
                let level = caller.log_level.get();
                let token = original.meta(meta::PROGRESS_TOKEN);
                if let Some(message) = notice_message(&notice, token, level) {
                    // A caller who does not read misses notices, not the answer.
                    let _ = outlet.messages.try_send(message);
                }
            }
        }
    }
}

/// A task in place of a result: the caller waits as for any slow call.
#[expect(
    clippy::too_many_arguments,
    reason = "the parts of one conversation, each with its own life"
)]
async fn drive(
    gateway: &Gateway,
    caller: &Arc<Caller>,
    view: View,
    method: &Method,
    params: &Params,
    reply: Reply,
    outlet: &Outlet,
    entry: &Entry,
) -> Result<Reply, Fault> {
    let owner = gateway.registry.owner(view, method, params);
    match (tasks::is_task(&reply), owner) {
        (Some(task), Some(owner)) => {
            Driven::new(gateway, caller, owner, task, entry.trail())
                .run(task, outlet)
                .await
        }
        _ => Ok(reply),
    }
}

/// Puts a backend's question to the caller.
fn put(ask: Ask, caller: &Caller, outlet: &Outlet) {
    if !can_answer(caller, &ask.method, &ask.params) {
        let _ = ask.answer.send(Answer::Error(cannot(&ask.method)));
        return;
    }
    let Some(id) = outlet.asks.open(ask.answer) else {
        return;
    };
    let mut message = Vec::with_capacity(ask.params.len() + 96);
    write_request(
        id.to_string().as_bytes(),
        ask.method.as_str(),
        &ask.params,
        &mut message,
    );
    let _ = outlet.messages.try_send(message);
}

/// Whether the caller declared that it can be asked this.
pub(crate) fn can_answer(caller: &Caller, method: &Method, params: &[u8]) -> bool {
    let member = |name: &str| {
        let object = Object::parse(params, Rules::backend()).ok()?;
        object
            .get(params, name)
            .map(|span| span.of(params).to_vec())
    };
    match method {
        Method::Elicit if member("mode").as_deref() == Some(br#""url""#) => {
            caller.capabilities.elicit_url
        }
        Method::Elicit => caller.capabilities.elicit_form,
        Method::Sample => caller.capabilities.sampling,
        Method::RootsList => caller.capabilities.roots,
        _ => false,
    }
}

pub(crate) fn cannot(method: &Method) -> Bytes {
    error_object(
        -32601,
        &format!("{}: the caller did not declare this", method.as_str()),
        None,
    )
    .into()
}

/// What a modern backend wants to know before it goes on.
pub(crate) struct Needed {
    /// Key, method and params of each question.
    pub(crate) inputs: Vec<(String, Method, Bytes)>,
    pub(crate) state: Option<Bytes>,
}

fn input_required(outcome: &Result<Reply, Fault>) -> Option<Needed> {
    let Ok(Reply {
        outcome: Outcome::Result(result),
        ..
    }) = outcome
    else {
        return None;
    };
    if result.get("resultType") != Some(br#""input_required""#) {
        return None;
    }
    Some(Needed {
        inputs: read_inputs(result),
        state: result.get_bytes("requestState"),
    })
}

pub(crate) fn read_inputs(result: &Payload) -> Vec<(String, Method, Bytes)> {
    let Some(raw) = result.get_bytes("inputRequests") else {
        return Vec::new();
    };
    let Ok(object) = Object::parse(&raw, Rules::backend()) else {
        return Vec::new();
    };
    let read = |m: &json::Member| {
        let input = Payload::parse(raw.slice(m.value.range()), Rules::backend()).ok()?;
        let method = Method::parse(&input.string("method")?);
        let params = input
            .get_bytes("params")
            .unwrap_or_else(|| Bytes::from_static(b"{}"));
        Some((m.key.decode(&raw).into_owned(), method, params))
    };
    object.members.iter().filter_map(read).collect()
}

/// Asks everything at once and waits for all answers. An error ends the call: there is no way to
/// hand it to the backend, except for elicitation, where it means "cancel".
pub(crate) async fn collect(
    needed: &Needed,
    caller: &Caller,
    outlet: &Outlet,
    think: Duration,
) -> Result<Vec<u8>, Result<Reply, Fault>> {
    if needed.inputs.is_empty() {
        // Load shedding: the backend only wants to be called again.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut waiting: Vec<(&str, &Method, oneshot::Receiver<Answer>)> = Vec::new();
    for (key, method, params) in &needed.inputs {
        let (answer, heard) = oneshot::channel();
        put(
            Ask {
                method: method.clone(),
                params: params.clone(),
                answer,
            },
            caller,
            outlet,
        );
        waiting.push((key, method, heard));
    }
    let mut answers = vec![b'{'];
    for (key, method, heard) in waiting {
        let answer = tokio::time::timeout(think, heard).await;
        let result: Bytes = match answer {
            Ok(Ok(Answer::Result(result))) => result,
            Ok(Ok(Answer::Error(_))) if *method == Method::Elicit => {
                Bytes::from_static(br#"{"action":"cancel"}"#)
            }
            Ok(Ok(Answer::Error(error))) => return Err(refused(error, caller)),
            _ => {
                return Err(Err(Fault::new(
                    Kind::Cancelled,
                    "the question was not answered in time",
                )));
            }
        };
        if answers.len() > 1 {
            answers.push(b',');
        }
        json::encode_string(key, &mut answers);
        answers.push(b':');
        answers.extend_from_slice(&result);
    }
    answers.push(b'}');
    Ok(answers)
}

/// The caller's own refusal, handed back to it as the outcome of its call.
fn refused(error: Bytes, caller: &Caller) -> Result<Reply, Fault> {
    match Payload::parse(error, Rules::backend()) {
        Ok(error) => Ok(Reply {
            revision: caller.revision,
            outcome: Outcome::Error(error),
        }),
        Err(_) => Err(Fault::new(
            Kind::InvalidRequest,
            "the answer could not be read",
        )),
    }
}

/// The original params, with the answers and the exact state to go on from.
fn with_input(params: &Params, needed: &Needed, answers: &[u8]) -> Params {
    let answers = (!needed.inputs.is_empty()).then_some(answers);
    let edits = [
        ("inputResponses", answers),
        ("requestState", needed.state.as_deref()),
    ];
    let mut out = Vec::new();
    params.as_raw().rewrite(&edits, &mut out);
    Params::parse(out.into(), Rules::backend()).expect("what we wrote is JSON")
}
