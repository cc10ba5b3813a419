//! Calls of 2026-07-28 callers: one request and one answer, with only notices in between. A question of a legacy
//! backend parks the call; the retry resumes it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ring::digest::{Context, SHA256};
use sentinel_core::audit::AuditTrail;
use sentinel_core::park::{Parked, input_requests};
use sentinel_core::{
    Answer, Ask, Beginning, Caller, Conversation, Event, Extra, Fault, Invocation, Kind, Notice,
    Refusals, Reply, Round, Step, TaskAction, View,
};
use sentinel_wire::json::{Object, Rules};
use sentinel_wire::translate::elicitations;
use sentinel_wire::{Method, Outcome, Params, Payload, Request, Revision, json, meta};

use super::legacy::{SAYS_NOT_WHICH, cannot};
use super::render::notice_message;
use super::tasks;
use crate::exchange::Handled;
use crate::gateway::Gateway;

/// Questions that arrive within this time are asked together.
const SETTLE: Duration = Duration::from_millis(20);
const ROUNDS_MAX: u32 = 10;
/// Type tags of sealed states.
const PARKED: u8 = b'P';
const RELAYED: u8 = b'R';
/// A retry without questions: the call is made again.
const AGAIN: u8 = b'A';
/// Params of a question that has none.
const NOTHING: Bytes = Bytes::from_static(b"{}");

/// A call in progress. Dropping it cancels the call.
pub(crate) struct ModernCall {
    gateway: Arc<Gateway>,
    caller: Arc<Caller>,
    request: Request,
    view: View,
    talk: Option<Conversation>,
    /// The caller's handle, where the request is about a task.
    task: Option<String>,
    /// Open questions of an earlier round that the retry did not answer.
    unanswered: Vec<Ask>,
    rounds: u32,
    round: Round,
    trail: Arc<AuditTrail>,
    options: CallOptions,
}

/// Options of calls from surfaces other than MCP.
#[derive(Clone, Default)]
pub(crate) struct CallOptions {
    /// The form of refusals.
    pub(crate) refusals: Refusals,
    /// The caller's confirmation token.
    pub(crate) confirmation: Option<Arc<str>>,
    pub(crate) extra: Extra,
    /// A sealed state that was sent before is refused, and does not begin a new call.
    pub(crate) state_is_once: bool,
}

/// The next message for the caller.
pub(crate) enum Turn {
    /// A notification; more messages follow.
    Notice(Vec<u8>),
    /// The outcome; the last message.
    Done(Result<Handled, Fault>),
}

impl ModernCall {
    /// Begins a call, or resumes the parked call that the request retries.
    pub(crate) fn begin(
        gateway: &Arc<Gateway>,
        caller: Arc<Caller>,
        view: View,
        request: Request,
        trail: Arc<AuditTrail>,
    ) -> Result<Self, Fault> {
        Self::begin_as(
            gateway,
            caller,
            view,
            request,
            trail,
            CallOptions::default(),
        )
    }

    /// Like [`ModernCall::begin`], for a surface other than MCP.
    pub(crate) fn begin_as(
        gateway: &Arc<Gateway>,
        caller: Arc<Caller>,
        view: View,
        request: Request,
        trail: Arc<AuditTrail>,
        options: CallOptions,
    ) -> Result<Self, Fault> {
        let mut this = Self {
            gateway: gateway.clone(),
            caller,
            request,
            view,
            talk: None,
            unanswered: Vec::new(),
            task: None,
            rounds: 0,
            round: Round::first(),
            trail,
            options,
        };
        state_is_text(&this.request)?;
        let state = this.request.params.string("requestState");
        let state = state.map(|state| state.into_owned());
        match (tasks::task_action(&this.request.method), state) {
            (Some(action), _) => this.start_task(action)?,
            (None, Some(state)) if this.request.method.may_need_input() => this.resume(&state)?,
            _ => this.start(this.request.params.clone()),
        }
        Ok(this)
    }

    fn start(&mut self, params: Params) {
        let method = self.request.method.clone();
        let caller = self.caller.clone();
        let call = Invocation {
            refusals: self.options.refusals,
            confirmation: self.options.confirmation.take(),
            extra: std::mem::take(&mut self.options.extra),
            ..Invocation::mcp(self.round, caller, self.view, method, params)
        };
        self.talk = Some(self.gateway.walk.begin(call, self.trail.clone()));
    }

    /// Sends a request about a task to the backend named in its handle.
    fn start_task(&mut self, action: TaskAction) -> Result<(), Fault> {
        if !self.caller.capabilities.tasks {
            return Err(tasks::undeclared());
        }
        let missing = || Fault::new(Kind::InvalidParams, "`taskId` is missing or no string");
        let handle = self
            .request
            .params
            .string("taskId")
            .ok_or_else(missing)?
            .into_owned();
        let named = tasks::open(&self.gateway, &self.caller, self.view, &handle)?;
        self.trail.about(&self.tool_of(&named));
        let mut quoted = Vec::new();
        json::encode_string(&named.id, &mut quoted);
        let mut params = Vec::new();
        self.request
            .params
            .as_raw()
            .rewrite(&[("taskId", Some(&quoted))], &mut params);
        let params = Params::parse(params.into(), Rules::backend()).map_err(|_| missing())?;
        self.task = Some(handle);
        let (caller, owner) = (self.caller.clone(), named.owner);
        let request = Invocation::about_task(caller, owner, action, named.of, params);
        self.talk = Some(self.gateway.walk.begin(request, self.trail.clone()));
        Ok(())
    }

    /// The tool that became a task, by its name for this caller. The record needs it, since each handle is sealed
    /// anew and only this process can open it.
    fn tool_of(&self, named: &tasks::TaskHandle) -> Arc<str> {
        let own = View::Only(named.owner);
        match self.gateway.registry.tool(own, &named.of.tool) {
            Some(tool) => tool.name_in(self.view).into(),
            None => named.of.tool.clone(),
        }
    }

    /// Continues from a state that was sealed for exactly this caller and request.
    fn resume(&mut self, state: &str) -> Result<(), Fault> {
        let bad = || {
            Fault::new(
                Kind::BadState,
                "invalid or expired requestState: make the call again",
            )
        };
        let plain = self
            .gateway
            .sealer
            .open(state, &self.binding())
            .ok_or_else(bad)?;
        let (kind, inner) = plain.split_first().ok_or_else(bad)?;
        match *kind {
            RELAYED => {
                let inner = self.continues(inner).ok_or_else(bad)?;
                let inner = (!inner.is_empty()).then_some(inner);
                let mut params = Vec::new();
                self.request
                    .params
                    .as_raw()
                    .rewrite(&[("requestState", inner)], &mut params);
                let params = Params::parse(params.into(), Rules::backend()).map_err(|_| bad())?;
                self.start(params);
            }
            AGAIN => {
                self.continues(inner).ok_or_else(bad)?;
                let mut params = Vec::new();
                let edits = [("requestState", None), ("inputResponses", None)];
                self.request.params.as_raw().rewrite(&edits, &mut params);
                let params = Params::parse(params.into(), Rules::backend()).map_err(|_| bad())?;
                self.start(params);
            }
            PARKED => {
                let id = std::str::from_utf8(inner).map_err(|_| bad())?;
                let responses = self.request.params.get_bytes("inputResponses");
                let responses = responses.unwrap_or_default();
                let check = |asks: &[(String, Ask)]| well_formed(&responses, asks);
                let parked = self
                    .gateway
                    .parked_calls
                    .take(id, check)
                    .ok_or_else(bad)??;
                // Checked again, since it may have waited for long. A caller that may no longer make the call cannot
                // end it either.
                let (method, params) = (self.request.method.clone(), self.request.params.clone());
                (self.rounds, self.round) = (parked.rounds, parked.round);
                let caller = self.caller.clone();
                let call = Invocation::mcp(self.round, caller, self.view, method, params);
                self.gateway.walk.permits(call, self.trail.clone())?;
                self.answer_parked(parked);
            }
            _ => return Err(bad()),
        }
        Ok(())
    }

    /// Takes the round from the beginning of a sealed state; the rest is the backend's own state. A state that was
    /// sent before begins a new call, which is counted, or none (`CallOptions::state_is_once`).
    fn continues<'s>(&mut self, state: &'s [u8]) -> Option<&'s [u8]> {
        let (round, inner) = state.split_first_chunk()?;
        self.round = self.gateway.continuations.take(Round::from_bytes(*round));
        let is_used = self.options.state_is_once && self.round.is_first();
        (!is_used).then_some(inner)
    }

    /// Seals a state that continues this call.
    fn continuation(&self, kind: u8, inner: &[u8]) -> String {
        let round = self.gateway.continuations.issue(self.round);
        let plain = [&[kind], &round.to_bytes()[..], inner].concat();
        self.gateway.sealer.seal(&plain, &self.binding())
    }

    /// The binding of a sealed state: the caller and the request.
    fn binding(&self) -> Vec<u8> {
        let mut digest = Context::new(&SHA256);
        for part in ["name", "uri", "arguments"] {
            // Canonical, since the caller's library may order and space the retry differently.
            let value = self.request.params.get(part).map(json::canonical);
            digest.update(&value.unwrap_or_default());
            digest.update(b"\0");
        }
        let tags = self.caller.tags.as_ref().map(|tags| tags.joined());
        let view = format!("{:?}{tags:?}", self.view);
        let mut bound = [
            self.caller.principal().as_bytes(),
            self.caller.role.as_bytes(),
            self.request.method.as_str().as_bytes(),
            view.as_bytes(),
        ]
        .join(&0);
        bound.extend_from_slice(digest.finish().as_ref());
        bound
    }

    /// Passes the caller's answers to the backend; unanswered questions are asked again.
    fn answer_parked(&mut self, mut parked: Parked) {
        let raw = self
            .request
            .params
            .get_bytes("inputResponses")
            .unwrap_or_default();
        let answers = Object::parse(&raw, Rules::backend()).unwrap_or_default();
        let mut open = Vec::new();
        for (key, ask) in parked.asks.drain(..) {
            match answers.get(&raw, &key) {
                Some(span) => drop(ask.answer.send(Answer::Result(raw.slice(span.range())))),
                None => open.push(ask),
            }
        }
        self.unanswered = open;
        self.trail.continues(parked.talk.trail());
        self.talk = Some(parked.talk);
    }

    /// The next message for the caller.
    pub(crate) async fn next(&mut self) -> Turn {
        let token = self
            .request
            .params
            .meta(meta::PROGRESS_TOKEN)
            .map(<[u8]>::to_vec);
        let level = self.caller.log_level.get();
        let open = std::mem::take(&mut self.unanswered);
        if !open.is_empty()
            && let Some(turn) = Box::pin(self.asked(open)).await
        {
            return turn;
        }
        loop {
            let talk = self
                .talk
                .as_mut()
                .expect("not asked again after the answer");
            match talk.next().await {
                // Modern callers learn the outcome by retrying.
                Step::Event(Event::Notice(notice)) if matches!(*notice, Notice::Elicited(_)) => {}
                Step::Event(Event::Notice(notice)) => {
                    if let Some(message) = notice_message(&notice, token.as_deref(), level) {
                        return Turn::Notice(message);
                    }
                }
                Step::Event(Event::Ask(ask)) => {
                    if let Some(turn) = Box::pin(self.asked(vec![*ask])).await {
                        return turn;
                    }
                }
                Step::Event(Event::Begins(beginning)) => return self.begins(beginning),
                Step::Done(outcome) => return self.finish(outcome),
            }
        }
    }

    /// The backend's final answer begins, and no later step inspects it.
    fn begins(&mut self, beginning: Box<Beginning>) -> Turn {
        let talk = self.talk.take();
        let talk = talk.expect("a reply comes from a running call");
        Turn::Done(Ok(Handled::Begins(beginning, Box::new(talk))))
    }

    /// A legacy backend asks: collects its current questions, without withdrawn ones, and parks the call.
    async fn asked(&mut self, mut asks: Vec<Ask>) -> Option<Turn> {
        let until = tokio::time::Instant::now() + SETTLE;
        let mut ended = None;
        let talk = self
            .talk
            .as_mut()
            .expect("an ask comes from a running call");
        while let Ok(step) = tokio::time::timeout_at(until, talk.next()).await {
            match step {
                Step::Event(Event::Ask(ask)) => asks.push(*ask),
                // Progress would be outdated by the time of the answer.
                Step::Event(Event::Notice(_)) => {}
                // The backend withdrew the question.
                Step::Event(Event::Begins(beginning)) => return Some(self.begins(beginning)),
                Step::Done(outcome) => {
                    ended = Some(outcome);
                    break;
                }
            }
        }
        if let Some(outcome) = ended {
            return Some(self.finish(outcome));
        }
        let mut open = Vec::new();
        for ask in asks {
            let params = Payload::parse(ask.params.clone(), Rules::backend());
            if !params.is_ok_and(|params| self.caller.can_answer(&ask.method, &params)) {
                let _ = ask.answer.send(Answer::Error(cannot(&ask.method)));
            } else if !ask.answer.is_closed() {
                open.push((format!("{}-{}", self.rounds + 1, open.len() + 1), ask));
            }
        }
        (!open.is_empty()).then(|| self.park(open))
    }

    fn park(&mut self, asks: Vec<(String, Ask)>) -> Turn {
        if self.rounds >= ROUNDS_MAX {
            let text = "the backend keeps asking for input";
            return Turn::Done(Err(Fault::new(Kind::BackendBadReply, text)));
        }
        let requests = input_requests(&asks);
        let talk = self.talk.take().expect("an ask comes from a running call");
        talk.set_aside();
        let parked = Parked {
            talk,
            asks,
            rounds: self.rounds + 1,
            round: self.round,
        };
        // One stdio connection is one caller.
        let session = self.caller.session.clone();
        let whose = session.unwrap_or_else(|| self.caller.principal());
        let Ok(id) = self.gateway.parked_calls.park(&whose, parked) else {
            let text = "too many calls wait for input: answer some of them first";
            return Turn::Done(Err(Fault::new(Kind::RateLimited, text)));
        };
        let mut plain = vec![PARKED];
        plain.extend_from_slice(id.as_bytes());
        let state = self.gateway.sealer.seal(&plain, &self.binding());
        let result = format!(
            r#"{{"resultType":"input_required","inputRequests":{requests},"requestState":"{state}"}}"#
        );
        Turn::Done(Ok(Handled::Reply(own_reply(result))))
    }

    /// The backend's final answer. If a modern backend requests input, its state is sealed into ours.
    fn finish(&mut self, outcome: Result<Reply, Fault>) -> Turn {
        self.talk = None;
        self.keep_state(&outcome);
        let outcome = outcome.and_then(|reply| self.may_ask(reply));
        let outcome = outcome.map(|reply| self.seal_task(self.seal_state(reply)));
        let outcome = outcome.and_then(|reply| self.ask_for_visits(reply));
        Turn::Done(outcome.map(Handled::Reply))
    }

    /// A state stays good if what it continues certainly did not run, as when the gateway has no place for it.
    fn keep_state(&self, outcome: &Result<Reply, Fault>) {
        let Err(fault) = outcome else { return };
        let is_unrun = fault.is_not_run || !self.trail.is_dispatched();
        if self.options.state_is_once && !self.round.is_first() && is_unrun {
            self.gateway.continuations.reopen(self.round);
        }
    }

    /// A backend of 2025-11-25 may refuse until the user has visited a URL. A modern caller gets that as a question,
    /// and its retry makes the call anew.
    fn ask_for_visits(&self, reply: Reply) -> Result<Reply, Fault> {
        let Outcome::Error(error) = &reply.outcome else {
            return Ok(reply);
        };
        let asked = elicitations(error);
        if asked.is_empty() || !self.request.method.may_need_input() {
            return Ok(reply);
        }
        if !self.caller.capabilities.elicit_url {
            let required = r#""requiredCapabilities":{"elicitation":{"url":{}}}"#;
            let text = "the backend wants to send the user to a web page";
            return Err(Fault::new(Kind::MissingCapability, text).with_data(required));
        }
        let mut requests = vec![b'{'];
        for (i, one) in asked.iter().enumerate() {
            if i > 0 {
                requests.push(b',');
            }
            let key = format!(
                r#""visit-{}":{{"method":"elicitation/create","params":"#,
                i + 1
            );
            requests.extend_from_slice(key.as_bytes());
            one.as_raw()
                .rewrite(&[("elicitationId", None), ("_meta", None)], &mut requests);
            requests.push(b'}');
        }
        requests.push(b'}');
        let state = self.continuation(AGAIN, b"");
        let result = format!(
            r#"{{"resultType":"input_required","inputRequests":{},"requestState":"{state}"}}"#,
            String::from_utf8_lossy(&requests)
        );
        Ok(own_reply(result))
    }

    /// A new task gets a sealed handle; later answers about it contain the caller's handle.
    fn seal_task(&self, reply: Reply) -> Reply {
        let Outcome::Result(result) = &reply.outcome else {
            return reply;
        };
        let Some(inner) = result.string("taskId") else {
            return reply;
        };
        let handle = match &self.task {
            Some(handle) => handle.clone(),
            None if tasks::is_task(&reply).is_none() => return reply,
            None => {
                let Request { method, params, .. } = &self.request;
                let registry = &self.gateway.registry;
                let Some(operation) = registry.operation(self.view, method, params) else {
                    return reply;
                };
                let named =
                    tasks::TaskHandle::new(&operation, &self.caller, self.round.call, &inner);
                tasks::seal(&self.gateway, &self.caller, self.view, &named)
            }
        };
        let sealed = tasks::with_id(result, &handle);
        Reply {
            outcome: Outcome::Result(sealed),
            ..reply
        }
    }

    /// Checks the questions of a modern backend: only where allowed, and only those that this caller declared.
    fn may_ask(&self, reply: Reply) -> Result<Reply, Fault> {
        let bad = |text: String| Err(Fault::new(Kind::BackendBadReply, text));
        let Outcome::Result(result) = &reply.outcome else {
            return Ok(reply);
        };
        if result.get("resultType") != Some(br#""input_required""#) {
            return Ok(reply);
        }
        let method = self.request.method.as_str();
        if !self.request.method.may_need_input() {
            return bad(format!("the backend asks for input to {method}"));
        }
        let has_state = result.get("requestState").is_some();
        let Some(requests) = result.get_bytes("inputRequests") else {
            return match has_state {
                true => Ok(reply),
                false => bad(SAYS_NOT_WHICH.to_owned()),
            };
        };
        let Ok(object) = Object::parse(&requests, Rules::backend()) else {
            return bad("`inputRequests` of the backend is no object".to_owned());
        };
        if object.members.is_empty() && !has_state {
            return bad(SAYS_NOT_WHICH.to_owned());
        }
        for member in &object.members {
            let input = Payload::parse(requests.slice(member.value.range()), Rules::backend());
            let asked = input.as_ref().ok().and_then(|input| input.string("method"));
            let asked = Method::parse(&asked.unwrap_or_default());
            let params = input.ok().and_then(|input| input.get_bytes("params"));
            let params = Payload::parse(params.unwrap_or(NOTHING), Rules::backend());
            if !params.is_ok_and(|params| self.caller.can_answer(&asked, &params)) {
                let asked = asked.as_str();
                return bad(format!(
                    "the backend asks for `{asked}`, which the caller does not offer"
                ));
            }
        }
        Ok(reply)
    }

    fn seal_state(&self, reply: Reply) -> Reply {
        let Outcome::Result(result) = &reply.outcome else {
            return reply;
        };
        if result.get("resultType") != Some(br#""input_required""#) {
            return reply;
        }
        let Some(inner) = result.get("requestState") else {
            return reply;
        };
        let state = format!("\"{}\"", self.continuation(RELAYED, inner));
        let mut out = Vec::new();
        result
            .as_raw()
            .rewrite(&[("requestState", Some(state.as_bytes()))], &mut out);
        match Payload::parse(out.into(), Rules::backend()) {
            Ok(sealed) => Reply {
                outcome: Outcome::Result(sealed),
                ..reply
            },
            Err(_) => reply,
        }
    }
}

/// An invalid state is refused: ignoring it would make the call anew.
fn state_is_text(request: &Request) -> Result<(), Fault> {
    let params = &request.params;
    let bad = match params.get("requestState") {
        None => false,
        Some(b"null") => params.get("inputResponses").is_some(),
        Some(state) => !state.starts_with(b"\""),
    };
    if bad && request.method.may_need_input() {
        let text = "`requestState` must be the text that came with the question";
        return Err(Fault::new(Kind::BadState, text));
    }
    Ok(())
}

/// The answer to a question must be an object; otherwise the call does not continue.
fn well_formed(responses: &[u8], asks: &[(String, Ask)]) -> Result<(), Fault> {
    if responses.is_empty() {
        return Ok(());
    }
    let refuse = |text: String| Err(Fault::new(Kind::InvalidParams, text));
    let Ok(answers) = Object::parse(responses, Rules::backend()) else {
        return refuse("`inputResponses` must be an object".to_owned());
    };
    let wrong = asks.iter().find(|(key, _)| {
        let span = answers.get(responses, key);
        span.is_some_and(|span| !responses[span.range()].starts_with(b"{"))
    });
    match wrong {
        Some((key, _)) => refuse(format!("`inputResponses.{key}` must be an object")),
        None => Ok(()),
    }
}

/// A result made by the gateway.
fn own_reply(result: String) -> Reply {
    let result = Payload::parse(result.into(), Rules::backend()).expect("what we wrote is JSON");
    Reply {
        revision: Revision::NEWEST,
        outcome: Outcome::Result(result),
    }
}
