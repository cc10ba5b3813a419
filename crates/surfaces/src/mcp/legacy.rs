//! A conversation with a caller of the handshake era.
//!
//! Notices and questions go out on the way that belongs to the call; answers come back as messages
//! of their own and find their question by id. When a modern backend says it needs input, the
//! gateway asks, collects the answers and calls again.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sentinel_core::audit::Ending;
use sentinel_core::queue::Teller;
use sentinel_core::seal::random_id;
use sentinel_core::{
    Answer, Ask, Beginning, Caller, Conversation, Entry, Event, Fault, Kind, Notice, Reply, Step,
    View,
};
use sentinel_wire::envelope::{error_object, write_request};
use sentinel_wire::json::{Object, Rules};
use sentinel_wire::translate::ask::{is_url_mode, question, with_elicitation_id};
use sentinel_wire::{Method, Outcome, Params, Payload, Request, Revision, json, meta};
use tokio::sync::{mpsc, oneshot};

use super::asks::Asks;
use super::large::{Large, Said};
use super::render::{notice_message, outcome_message};
use super::subscribe::Subscriber;
use super::tasks::{self, Driven};
use super::visits::{Visits, accept_all};
use crate::gateway::Gateway;

/// How often one call may come back for more input.
const ROUNDS_MAX: u32 = 10;

/// The way back to one legacy caller.
pub(crate) struct Outlet {
    pub(crate) messages: Mouth,
    pub(crate) asks: Arc<Asks>,
    pub(crate) subscriber: Arc<Subscriber>,
    /// The caller can come back for the rest of a stream: then it gets one where its backend began one of
    /// that kind (`PRIMED`), and is let go whenever its backend lets us go (`PAUSE`).
    pub(crate) may_pause: bool,
}

/// Messages about the stream itself; no other message begins like this.
pub(crate) const PRIMED: &[u8] = b"\n";
pub(crate) const PAUSE: &[u8] = b"";

/// Where messages for the caller go, ready to be framed. A caller who does not read misses notices, not
/// the answer.
pub(crate) enum Mouth {
    /// The call's own stream.
    Stream(Teller<Vec<u8>>),
    /// The one way that all calls of a caller share.
    Shared(mpsc::Sender<Vec<u8>>),
}

impl Mouth {
    pub(crate) fn tell(&self, message: Vec<u8>) {
        match self {
            Self::Stream(teller) => teller.tell(message),
            Self::Shared(sender) => drop(sender.try_send(message)),
        }
    }
}

/// Runs one request of a legacy caller and returns the response message, or its beginning.
pub(crate) async fn converse(
    gateway: &Gateway,
    caller: &Arc<Caller>,
    view: View,
    request: Request,
    outlet: &Outlet,
    entry: Entry,
) -> Said {
    let finish = |entry: Entry, message: Vec<u8>, outcome: &Result<Reply, Fault>| {
        entry.finish(&Ending::of(outcome), message.len());
        Said::Whole(message)
    };
    let Request { id, method, params } = request;
    let uri = || params.string("uri").map(|uri| uri.into_owned());
    let listening = (method == Method::ResourcesSubscribe)
        .then(uri)
        .flatten()
        .and_then(|uri| Some((outlet.subscriber.begin(gateway, caller, &uri)?, uri)));
    let mut now = params.clone();
    let mut visits = Visits::default();
    let mut rounds = 0;
    while rounds < ROUNDS_MAX {
        let round = one_round(gateway, caller, view, &method, now, &params, outlet, &entry).await;
        let outcome = match round {
            Round::Begins(beginning, talk) => {
                let large = Large::new(id, caller.revision, *beginning, *talk, entry);
                return Said::Large(Box::new(large));
            }
            Round::Over(outcome) => outcome,
        };
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
        if needed.inputs.is_empty() && needed.state.is_none() {
            let outcome = Err(Fault::new(Kind::BackendBadReply, SAYS_NOT_WHICH));
            let message = outcome_message(&id, &method, caller.revision, &outcome);
            return finish(entry, message, &outcome);
        }
        if visits.are_all_of(&needed) {
            // The user is on the way: the backend is asked again, not the user.
            match visits.pause() {
                Some(pause) => {
                    tokio::time::sleep(pause).await;
                    now = with_input(&params, &needed, &accept_all(&needed));
                    continue;
                }
                None => {
                    let outcome = visits.unfinished(&method, caller.revision);
                    let message = outcome_message(&id, &method, caller.revision, &outcome);
                    return finish(entry, message, &outcome);
                }
            }
        }
        rounds += 1;
        // Rare, and large: kept out of every call's future.
        let think = gateway.limits().park_ttl;
        match Box::pin(collect(&needed, caller, outlet, think, &mut visits)).await {
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

/// How one call to the backend ends for us.
enum Round {
    Over(Result<Reply, Fault>),
    /// The reply has begun; the call goes on.
    Begins(Box<Beginning>, Box<Conversation>),
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
) -> Round {
    let mut talk = gateway
        .walk
        .begin(caller.clone(), view, method.clone(), now, entry.trail());
    loop {
        match talk.next().await {
            Step::Done(outcome) => return Round::Over(outcome),
            Step::Event(Event::Begins(beginning)) => {
                return Round::Begins(beginning, Box::new(talk));
            }
            Step::Event(Event::Ask(ask)) => put(*ask, caller, outlet),
            Step::Event(Event::Notice(notice))
                if matches!(*notice, Notice::Primed | Notice::Pause) =>
            {
                let about = match *notice {
                    Notice::Primed => PRIMED,
                    _ => PAUSE,
                };
                if outlet.may_pause {
                    outlet.messages.tell(about.to_vec());
                }
            }
            // Only clients of 2025-11-25 know what it is about.
            Step::Event(Event::Notice(notice))
                if matches!(*notice, Notice::Elicited(_))
                    && caller.revision != Revision::V2025_11_25 => {}
            Step::Event(Event::Notice(notice)) => {
                let level = caller.log_level.get();
                let token = original.meta(meta::PROGRESS_TOKEN);
                if let Some(message) = notice_message(&notice, token, level) {
                    outlet.messages.tell(message);
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
    let operation = gateway.registry.operation(view, method, params);
    match (tasks::is_task(&reply), operation) {
        (Some(task), Some(operation)) => {
            Driven::new(gateway, caller, view, operation, task, entry.trail())
                .run(task, outlet)
                .await
        }
        _ => Ok(reply),
    }
}

/// Puts a backend's question to the caller, in words of its revision.
fn put(ask: Ask, caller: &Caller, outlet: &Outlet) {
    let Some(params) = in_its_words(caller, &ask.method, &ask.params) else {
        let _ = ask.answer.send(Answer::Error(cannot(&ask.method)));
        return;
    };
    let Some(id) = outlet.asks.open(ask.answer) else {
        return;
    };
    let mut message = Vec::with_capacity(params.len() + 96);
    write_request(
        id.to_string().as_bytes(),
        ask.method.as_str(),
        &params,
        &mut message,
    );
    outlet.messages.tell(message);
}

/// A question as this caller can be asked it; `None` if it cannot. A URL elicitation of a modern
/// backend has no id, without which clients of 2025-11-25 refuse it.
fn in_its_words(caller: &Caller, method: &Method, params: &Bytes) -> Option<Bytes> {
    let params = Payload::parse(params.clone(), Rules::backend()).ok()?;
    if !caller.can_answer(method, &params) {
        return None;
    }
    if *method == Method::Elicit && is_url_mode(&params) {
        let told = with_elicitation_id(&params, &random_id());
        return Some(told.into_owned().into());
    }
    let told = question(method, &params, caller.revision)?;
    Some(match told {
        Cow::Borrowed(_) => params.to_bytes(),
        Cow::Owned(told) => told.into(),
    })
}

pub(crate) fn cannot(method: &Method) -> Bytes {
    error_object(
        -32601,
        &format!("{}: the caller did not declare this", method.as_str()),
        None,
    )
    .into()
}

pub(crate) const SAYS_NOT_WHICH: &str = "the backend wants input and does not say which";

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
    visits: &mut Visits,
) -> Result<Vec<u8>, Result<Reply, Fault>> {
    if needed.inputs.is_empty() {
        // Load shedding: the backend only wants to be called again.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut waiting: Vec<(&str, &Method, &Bytes, oneshot::Receiver<Answer>)> = Vec::new();
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
        waiting.push((key, method, params, heard));
    }
    let mut answers = vec![b'{'];
    for (key, method, params, heard) in waiting {
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
        visits.note(params, &result);
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
