//! A conversation with a caller of 2026-07-28: one request, one answer, nothing in between but
//! notices. What a legacy backend asks meanwhile parks the call; the retry takes it up again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ring::digest::{Context, SHA256};
use sentinel_core::audit::Trail;
use sentinel_core::park::{Parked, input_requests};
use sentinel_core::{
    Answer, Ask, Beginning, Caller, Conversation, Event, Fault, Invocation, Kind, Notice, Refusals,
    Reply, Round, Step, TaskAction, View,
};
use sentinel_wire::json::{Object, Rules};
use sentinel_wire::translate::elicitations;
use sentinel_wire::{Method, Outcome, Params, Payload, Request, Revision, json, meta};

use super::legacy::{SAYS_NOT_WHICH, cannot};
use super::render::notice_message;
use super::tasks;
use crate::exchange::Handled;
use crate::gateway::Gateway;

/// Questions that arrive together are asked together.
const SETTLE: Duration = Duration::from_millis(20);
const ROUNDS_MAX: u32 = 10;
/// Marks what a sealed state is for.
const PARKED: u8 = b'P';
const RELAYED: u8 = b'R';
/// Nothing waits: the call is simply made again.
const AGAIN: u8 = b'A';
/// The params of a question that has none.
const NOTHING: Bytes = Bytes::from_static(b"{}");

/// A request of a modern caller while it runs. Dropping it cancels the call.
pub(crate) struct Talk {
    gateway: Arc<Gateway>,
    caller: Arc<Caller>,
    request: Request,
    view: View,
    talk: Option<Conversation>,
    /// The handle the caller used, where the request is about a task.
    task: Option<String>,
    /// Questions of an earlier round that the retry did not answer.
    unanswered: Vec<Ask>,
    rounds: u32,
    round: Round,
    trail: Arc<Trail>,
    manner: Manner,
}

/// How a surface other than MCP makes its calls.
#[derive(Clone, Default)]
pub(crate) struct Manner {
    /// How its callers hear of a refusal.
    pub(crate) refusals: Refusals,
    /// The token by which the caller confirms the call.
    pub(crate) confirmation: Option<Arc<str>>,
}

/// What comes next for the caller.
pub(crate) enum Turn {
    /// A notification; more follows.
    Notice(Vec<u8>),
    /// What the request came to; nothing follows.
    Done(Result<Handled, Fault>),
}

impl Talk {
    /// Begins a call, or resumes a parked one where the request is a retry of it.
    pub(crate) fn begin(
        gateway: &Arc<Gateway>,
        caller: Arc<Caller>,
        view: View,
        request: Request,
        trail: Arc<Trail>,
    ) -> Result<Self, Fault> {
        Self::begin_as(gateway, caller, view, request, trail, Manner::default())
    }

    /// The same for a surface other than MCP.
    pub(crate) fn begin_as(
        gateway: &Arc<Gateway>,
        caller: Arc<Caller>,
        view: View,
        request: Request,
        trail: Arc<Trail>,
        manner: Manner,
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
            manner,
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
            refusals: self.manner.refusals,
            confirmation: self.manner.confirmation.take(),
            ..Invocation::mcp(self.round, caller, self.view, method, params)
        };
        self.talk = Some(self.gateway.walk.begin(call, self.trail.clone()));
    }

    /// A request about a task goes to the backend that its handle names.
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

    /// The tool that became a task, by the name that this caller uses. On record the handle would say nothing: a new one
    /// is sealed for each task, and only this process can open it.
    fn tool_of(&self, named: &tasks::Named) -> Arc<str> {
        let own = View::Only(named.owner);
        match self.gateway.registry.tool(own, &named.of.tool) {
            Some(tool) => tool.name_in(self.view).into(),
            None => named.of.tool.clone(),
        }
    }

    /// Goes on from a state that we sealed for exactly this caller and request.
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
                let parked = self.gateway.lot.take(id, check).ok_or_else(bad)??;
                // It may have waited for long. A caller that may no longer make the call does not end it either.
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

    /// Takes up the round that a sealed state begins with; what follows it is the backend's own state. A state that was
    /// sent before begins a call of its own, which is counted.
    fn continues<'s>(&mut self, state: &'s [u8]) -> Option<&'s [u8]> {
        let (round, inner) = state.split_first_chunk()?;
        self.round = self.gateway.continuations.take(Round::from_bytes(*round));
        Some(inner)
    }

    /// A sealed state that continues this call.
    fn continuation(&self, kind: u8, inner: &[u8]) -> String {
        let round = self.gateway.continuations.issue(self.round);
        let plain = [&[kind], &round.to_bytes()[..], inner].concat();
        self.gateway.sealer.seal(&plain, &self.binding())
    }

    /// What a sealed state is bound to: the caller, and the request as it was.
    fn binding(&self) -> Vec<u8> {
        let mut digest = Context::new(&SHA256);
        for part in ["name", "uri", "arguments"] {
            // However the caller's own library orders and spaces it the second time.
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

    /// Hands the caller's answers to the backend's questions; what is not answered is asked again.
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

    /// The next thing to tell the caller.
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
                // Modern callers learn the outcome by coming back.
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

    /// The backend's final answer begins, and no step has to look into it.
    fn begins(&mut self, beginning: Box<Beginning>) -> Turn {
        let talk = self.talk.take();
        let talk = talk.expect("a reply comes from a running call");
        Turn::Done(Ok(Handled::Begins(beginning, Box::new(talk))))
    }

    /// A legacy backend asks: gather what it asks at once, and leave out what it withdraws, then park.
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
                // Progress between two questions is old by the time it could be told.
                Step::Event(Event::Notice(_)) => {}
                // It has no use for the answers any more.
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
        let Ok(id) = self.gateway.lot.park(&whose, parked) else {
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

    /// The backend's final word. A modern backend may want input: then its state comes back through
    /// us, sealed.
    fn finish(&mut self, outcome: Result<Reply, Fault>) -> Turn {
        self.talk = None;
        let outcome = outcome.and_then(|reply| self.may_ask(reply));
        let outcome = outcome.map(|reply| self.seal_task(self.seal_state(reply)));
        let outcome = outcome.and_then(|reply| self.ask_for_visits(reply));
        Turn::Done(outcome.map(Handled::Reply))
    }

    /// A backend of 2025-11-25 may refuse until the user was at a URL. To a modern caller that is a
    /// question, and its retry the call anew.
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

    /// A new task gets a handle of ours; later answers about it bear the handle the caller used.
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
                let named = tasks::Named::new(&operation, &self.caller, self.round.call, &inner);
                tasks::seal(&self.gateway, &self.caller, self.view, &named)
            }
        };
        let sealed = tasks::with_id(result, &handle);
        Reply {
            outcome: Outcome::Result(sealed),
            ..reply
        }
    }

    /// A modern backend may only ask where it may, and for what this caller offered.
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

/// A state that is none of ours would be taken for no state, and the call be made anew.
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

/// An answer to a question is an object; anything else is refused before the call goes on.
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

/// A result of the gateway's own making.
fn own_reply(result: String) -> Reply {
    let result = Payload::parse(result.into(), Rules::backend()).expect("what we wrote is JSON");
    Reply {
        revision: Revision::NEWEST,
        outcome: Outcome::Result(result),
    }
}
