//! One call of a legacy caller, or a list that waits for backends.
//!
//! Notices and questions go to the call's sink; answers to questions come back as messages of their own
//! and are matched by id (`Asks`). When a modern backend answers `input_required`, the gateway asks the
//! caller, collects the answers and calls the backend again.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sentinel_core::audit::AuditTrail;
use sentinel_core::seal::random_id;
use sentinel_core::updates::Ticket;
use sentinel_core::{
    Answer, Ask, Beginning, Caller, Conversation, Event, Fault, Invocation, Kind, Notice, Reply,
    Round, Step,
};
use sentinel_wire::envelope::{error_object, write_request};
use sentinel_wire::json::{Object, Rules};
use sentinel_wire::translate::ask::{is_url_mode, question, with_elicitation_id};
use sentinel_wire::{Method, Outcome, Params, Payload, Request, Revision, json, meta};
use tokio::sync::oneshot;

use super::hello;
use super::render::notice_message;
use super::session::LegacySession;
use super::sink::{CallerSink, StreamItem};
use super::tasks::{self, PolledTask};
use super::visits::{OpenedPages, accept_all};
use crate::exchange::Handled;
use crate::gateway::Gateway;

/// Rounds of questions in one call.
const ROUNDS_MAX: u32 = 10;
/// Pause before a backend is called again that requested a retry without questions (load shedding).
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A call while it runs. Dropping it cancels the call.
pub(crate) struct LegacyCall {
    pub(super) session: Arc<LegacySession>,
    pub(super) caller: Arc<Caller>,
    pub(super) request: Request,
    pub(super) sink: CallerSink,
    pub(super) trail: Arc<AuditTrail>,
}

/// The end of one round of a call.
enum RoundEnd {
    Over(Result<Reply, Fault>),
    /// A large reply has begun; the conversation produces its rest.
    Begins(Box<Beginning>, Box<Conversation>),
}

impl LegacyCall {
    pub(super) fn gateway(&self) -> &Gateway {
        &self.session.gateway
    }

    pub(super) async fn run(&self) -> Result<Handled, Fault> {
        let (policy, view) = (&self.gateway().policy, self.session.view);
        let Request { method, params, .. } = &self.request;
        let listed = || hello::answer_list(policy, &self.caller, view, method, params);
        if hello::listed_kind(method).is_some()
            && let Some(listed) = Box::pin(listed()).await
        {
            return listed.map(Handled::Result);
        }
        let subscription = self.listen();
        let mut params = self.request.params.clone();
        let mut visits = OpenedPages::default();
        let (mut round, mut questions) = (Round::first(), 0);
        loop {
            let outcome = match self.round(round, params).await {
                RoundEnd::Begins(beginning, talk) => return Ok(Handled::Begins(beginning, talk)),
                RoundEnd::Over(Ok(reply)) if tasks::is_task(&reply).is_some() => {
                    Box::pin(self.drive(reply, round)).await
                }
                RoundEnd::Over(outcome) => outcome,
            };
            let Some(needed) = input_required(&outcome) else {
                self.settle_subscription(subscription, &outcome);
                return outcome.map(Handled::Reply);
            };
            // Rare and large, so boxed to keep the future of other calls small.
            match Box::pin(self.input(&needed, &mut visits, &mut questions)).await {
                Ok(next) => (params, round) = (next, round.next()),
                Err(outcome) => return outcome.map(Handled::Reply),
            }
        }
    }

    /// Calls the backend once and forwards its notices and questions.
    async fn round(&self, round: Round, params: Params) -> RoundEnd {
        let (caller, method) = (self.caller.clone(), self.request.method.clone());
        let invocation = Invocation::mcp(round, caller, self.session.view, method, params);
        let mut talk = self.gateway().walk.begin(invocation, self.trail.clone());
        loop {
            match talk.next().await {
                Step::Done(outcome) => return RoundEnd::Over(outcome),
                Step::Event(Event::Begins(beginning)) => {
                    return RoundEnd::Begins(beginning, Box::new(talk));
                }
                Step::Event(Event::Ask(ask)) => self.ask(*ask),
                Step::Event(Event::Notice(notice)) => self.notify(&notice),
            }
        }
    }

    fn notify(&self, notice: &Notice) {
        match notice {
            Notice::Primed => self.sink.signal(StreamItem::Primed),
            Notice::Pause => self.sink.signal(StreamItem::Pause),
            // Unknown to clients of other revisions.
            Notice::Elicited(_) if self.caller.revision != Revision::V2025_11_25 => {}
            notice => {
                let level = self.caller.log_level.get();
                let token = self.request.params.meta(meta::PROGRESS_TOKEN);
                if let Some(message) = notice_message(notice, token, level) {
                    self.sink.send(message);
                }
            }
        }
    }

    /// Waits for a task that the backend returned in place of a result; to the caller it is a slow call.
    async fn drive(&self, reply: Reply, round: Round) -> Result<Reply, Fault> {
        let Request { method, params, .. } = &self.request;
        let registry = &self.gateway().registry;
        let operation = registry.operation(self.session.view, method, params);
        match (tasks::is_task(&reply), operation) {
            (Some(task), Some(operation)) => {
                let driven = PolledTask::new(self, round.call, operation, task);
                driven.run(task).await
            }
            _ => Ok(reply),
        }
    }

    /// The params for the next round, with the requested input; `Err` ends the call.
    async fn input(
        &self,
        needed: &RequestedInput,
        visits: &mut OpenedPages,
        rounds: &mut u32,
    ) -> Result<Params, Result<Reply, Fault>> {
        let Request { method, params, .. } = &self.request;
        let bad_reply = |text| Err(Err(Fault::new(Kind::BackendBadReply, text)));
        if needed.inputs.is_empty() && needed.state.is_none() {
            return bad_reply(SAYS_NOT_WHICH);
        }
        if visits.are_all_of(needed) {
            // The user was sent to a page already: the backend is asked again, not the user.
            let Some(pause) = visits.pause() else {
                return Err(visits.unfinished(method, self.caller.revision));
            };
            tokio::time::sleep(pause).await;
            return Ok(with_input(params, needed, &accept_all(needed)));
        }
        if *rounds == ROUNDS_MAX {
            return bad_reply("the backend keeps asking for input");
        }
        *rounds += 1;
        if needed.inputs.is_empty() {
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        let answers = self.collect(needed, visits).await?;
        Ok(with_input(params, needed, &answers))
    }

    /// Puts a backend's question to the caller, translated to its revision.
    fn ask(&self, ask: Ask) {
        let Some(params) = translated_question(&self.caller, &ask.method, &ask.params) else {
            let _ = ask.answer.send(Answer::Error(cannot(&ask.method)));
            return;
        };
        let Some(id) = self.session.asks.open(ask.answer) else {
            return;
        };
        let id = id.to_string();
        let mut message = Vec::with_capacity(params.len() + 96);
        write_request(id.as_bytes(), ask.method.as_str(), &params, &mut message);
        self.sink.send(message);
    }

    /// Asks all questions at once and waits for the answers. An error ends the call, since it cannot be passed to the
    /// backend, except for elicitation, where it means "cancel".
    pub(super) async fn collect(
        &self,
        needed: &RequestedInput,
        visits: &mut OpenedPages,
    ) -> Result<Vec<u8>, Result<Reply, Fault>> {
        let patience = self.gateway().limits().park_ttl;
        let mut waiting = Vec::with_capacity(needed.inputs.len());
        for (key, method, params) in &needed.inputs {
            let (answer, answered) = oneshot::channel();
            self.ask(Ask {
                method: method.clone(),
                params: params.clone(),
                answer,
            });
            waiting.push((key, method, params, answered));
        }
        let mut answers = vec![b'{'];
        for (key, method, params, answered) in waiting {
            let result = match tokio::time::timeout(patience, answered).await {
                Ok(Ok(Answer::Result(result))) => result,
                Ok(Ok(Answer::Error(_))) if *method == Method::Elicit => {
                    Bytes::from_static(br#"{"action":"cancel"}"#)
                }
                Ok(Ok(Answer::Error(error))) => return Err(self.refused_answer(error)),
                _ => {
                    let text = "the question was not answered in time";
                    return Err(Err(Fault::new(Kind::Cancelled, text)));
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

    /// The caller's own refusal, returned to it as the outcome of its call.
    fn refused_answer(&self, error: Bytes) -> Result<Reply, Fault> {
        let error = Payload::parse(error, Rules::backend())
            .map_err(|_| Fault::new(Kind::InvalidRequest, "the answer could not be read"))?;
        Ok(Reply {
            revision: self.caller.revision,
            outcome: Outcome::Error(error),
        })
    }

    /// For `resources/subscribe`: listens before the backend is asked, so that no update is missed.
    fn listen(&self) -> Option<Ticket> {
        if self.request.method != Method::ResourcesSubscribe {
            return None;
        }
        let uri = self.request.params.string("uri")?;
        let subscriber = &self.session.subscriber;
        subscriber.begin(self.gateway(), &self.caller, &uri)
    }

    /// Stores a subscription that the backend accepted, or ends the one being unsubscribed.
    fn settle_subscription(&self, ticket: Option<Ticket>, outcome: &Result<Reply, Fault>) {
        let is_result = |reply: &Reply| matches!(reply.outcome, Outcome::Result(_));
        if !outcome.as_ref().is_ok_and(is_result) {
            return;
        }
        let uri = || self.request.params.string("uri").unwrap_or_default();
        if let Some(ticket) = ticket {
            self.session.subscriber.keep(uri().into_owned(), ticket);
        } else if self.request.method == Method::ResourcesUnsubscribe {
            self.session.subscriber.end(&uri());
        }
    }
}

/// A question in the caller's revision; `None` if the caller cannot be asked it. A modern backend's URL elicitation
/// has no id, which clients of 2025-11-25 require.
fn translated_question(caller: &Caller, method: &Method, params: &Bytes) -> Option<Bytes> {
    let params = Payload::parse(params.clone(), Rules::backend()).ok()?;
    if !caller.can_answer(method, &params) {
        return None;
    }
    if *method == Method::Elicit && is_url_mode(&params) {
        let params = with_elicitation_id(&params, &random_id());
        return Some(params.into_owned().into());
    }
    let translated = question(method, &params, caller.revision)?;
    Some(match translated {
        Cow::Borrowed(_) => params.to_bytes(),
        Cow::Owned(translated) => translated.into(),
    })
}

pub(crate) fn cannot(method: &Method) -> Bytes {
    let text = format!("{}: the caller did not declare this", method.as_str());
    error_object(-32601, &text, None).into()
}

pub(crate) const SAYS_NOT_WHICH: &str = "the backend wants input and does not say which";

/// The input that a modern backend requests.
pub(crate) struct RequestedInput {
    /// Key, method and params of each question.
    pub(crate) inputs: Vec<(String, Method, Bytes)>,
    pub(crate) state: Option<Bytes>,
}

fn input_required(outcome: &Result<Reply, Fault>) -> Option<RequestedInput> {
    let Outcome::Result(result) = &outcome.as_ref().ok()?.outcome else {
        return None;
    };
    (result.get("resultType") == Some(br#""input_required""#)).then(|| RequestedInput {
        inputs: read_inputs(result),
        state: result.get_bytes("requestState"),
    })
}

pub(crate) fn read_inputs(result: &Payload) -> Vec<(String, Method, Bytes)> {
    let raw = result.get_bytes("inputRequests").unwrap_or_default();
    let object = Object::parse(&raw, Rules::backend()).unwrap_or_default();
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

/// The original params, with the answers and the unchanged `requestState`.
fn with_input(params: &Params, needed: &RequestedInput, answers: &[u8]) -> Params {
    let answers = (!needed.inputs.is_empty()).then_some(answers);
    let edits = [
        ("inputResponses", answers),
        ("requestState", needed.state.as_deref()),
    ];
    let mut out = Vec::new();
    params.as_raw().rewrite(&edits, &mut out);
    Params::parse(out.into(), Rules::backend()).expect("what we wrote is JSON")
}
