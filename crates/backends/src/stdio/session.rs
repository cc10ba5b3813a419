//! The MCP conversation with one process: calls out, answers, notices and questions in.
//!
//! A [`Talk`] is shared by the calls (any thread) and by the process's own task, which feeds it every line
//! (`hear`). Each call owns its [`Ticket`]; dropping the call's future frees it and cancels at the child.
//! Questions run as tasks of their own, ended by [`Talk::close`].
//!
//! A legacy server's question names no call. It is put to a caller only where there can be but one: the
//! child then takes one call at a time (`Manner::Interactive`). Requests about tasks run beside it, for a
//! question of a task names the task. Otherwise the child was told that nobody
//! can be asked, and a question is refused at once.
//!
//! Not here: the process (`super::life`), ids and queues (`super::pipe`).

mod doubt;

use std::collections::HashMap;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use sentinel_core::catalog::Publisher;
use sentinel_core::{
    Answer, Call, Caller, Fault, ItemKind, Kind, Line as CallerLine, LogLevel, Reply,
};
use sentinel_wire::envelope::{
    self, INVALID_PARAMS, METHOD_NOT_FOUND, Refusal, error_object, write_error_object, write_result,
};
use sentinel_wire::json::Rules;
use sentinel_wire::{
    Era, Id, Incoming, Message, Method, Notification, Outcome, Payload, Request, Revision, meta,
};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep, sleep_until};

use self::doubt::{Doubt, Own};
use super::pipe::{Closed, Line, Pipe, Ticket};
use super::stderr::{Allowance, LastWords, Quota};
use crate::discover::{self, Peer, PeerError};
use crate::relay;

/// A server may not answer a request of the other era at all; both official SDKs wait this long.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// A busy child may be late; the next ping is not far.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long calls wait behind one whose caller was sent away with a question: time enough for a program to come back,
/// not for a person.
const PUT_OFF_MAX: Duration = Duration::from_secs(2);
/// How often a call looks whether its caller has answered, once its own time is over.
const ASKING_AGAIN: Duration = Duration::from_secs(1);
/// Questions of one child that wait for people. One call may ask several things, not endlessly many.
const ASKS_MAX: usize = 32;
/// Lines of one child that are no message and still reach the log.
const GARBAGE_PER_SECOND: u32 = 2;

/// How a child may treat its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Many calls at once; nobody can be asked.
    Silent,
    /// One call at a time, whose caller can be asked.
    Interactive,
}

/// Somebody who waits for an answer.
pub(crate) struct Waiter {
    reply: oneshot::Sender<Result<Outcome, Fault>>,
    /// Absent for requests of our own.
    side: Option<CallerSide>,
}

/// The way back to a caller while its call runs.
struct CallerSide {
    caller: Arc<Caller>,
    line: CallerLine,
    /// It is a request about a task, and which one where it waits for its result.
    is_about_a_task: bool,
    awaits: Option<Box<str>>,
    /// Questions that its caller has not answered yet, and since when there are any.
    asking: u32,
    since: Instant,
    /// How long its caller thought about those before.
    thought: Duration,
}

pub(crate) struct Talk {
    name: Arc<str>,
    /// What it printed beside its messages, for whoever asks what is wrong with it.
    words: LastWords,
    pub(crate) pipe: Arc<Pipe<Waiter>>,
    revision: OnceLock<Revision>,
    /// Held by the one call that runs, where only one may.
    turn: Option<Semaphore>,
    /// What the caller of that one is being asked.
    asked: watch::Sender<Option<Asked>>,
    timeout: Duration,
    changed: Arc<Changed>,
    /// Whether its tools may be others by now.
    doubt: Doubt,
    /// What it says of its tools itself, where they are not those that are listed.
    own: Option<Own>,
    /// Where news of resources go.
    publisher: Publisher,
    /// The least urgent log level asked of the child so far.
    log_level: AtomicU8,
    /// Whether it said that it logs.
    logs: AtomicBool,
    /// Questions of the child, each with the call it belongs to.
    asks: Mutex<HashMap<Id, (u64, AbortHandle)>>,
    garbage: Mutex<Quota>,
    served: AtomicBool,
    born: Instant,
    /// When the newest call began or ended, in milliseconds since `born`.
    last_call_ms: AtomicU64,
}

/// A question that the one call that runs waits for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    since: Instant,
    /// Its caller was sent away with it, and may never come back.
    is_parked: bool,
}

/// Why a call has no reply.
enum Failure {
    Closed,
    Fault(Fault),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Which lists the child said have changed.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    kinds: AtomicU8,
    some: Notify,
}

impl Changed {
    fn set(&self, kinds: &[ItemKind]) {
        let bits = kinds.iter().fold(0, |bits, kind| bits | bit(*kind));
        self.kinds.fetch_or(bits, Ordering::Relaxed);
        self.some.notify_one();
    }

    /// Waits for a change, then a little longer, for they come in bursts.
    async fn some(&self, settle: Duration) {
        self.some.notified().await;
        tokio::time::sleep(settle).await;
    }

    fn take(&self) -> Vec<ItemKind> {
        let bits = self.kinds.swap(0, Ordering::Relaxed);
        ItemKind::ALL
            .into_iter()
            .filter(|kind| bits & bit(*kind) != 0)
            .collect()
    }
}

fn bit(kind: ItemKind) -> u8 {
    1 << kind as u8
}

impl Talk {
    pub(crate) fn new(
        name: Arc<str>,
        timeout: Duration,
        manner: Manner,
        lists: bool,
        publisher: Publisher,
        changed: Arc<Changed>,
        words: LastWords,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            words,
            pipe: Pipe::new(),
            revision: OnceLock::new(),
            turn: (manner == Manner::Interactive).then(|| Semaphore::new(1)),
            asked: watch::Sender::new(None),
            timeout,
            changed,
            doubt: Doubt::default(),
            own: (!lists).then(Own::default),
            publisher,
            log_level: AtomicU8::new(LogLevel::NONE),
            logs: AtomicBool::new(false),
            asks: Mutex::default(),
            garbage: Mutex::new(Quota::new(GARBAGE_PER_SECOND)),
            served: AtomicBool::new(false),
            born: Instant::now(),
            last_call_ms: AtomicU64::new(0),
        })
    }

    /// The handshake is over.
    pub(crate) fn agree(&self, revision: Revision, logs: bool) {
        let _ = self.revision.set(revision);
        self.logs.store(logs, Ordering::Relaxed);
    }

    /// What is spoken; the newest legacy revision until the handshake is over.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
            .get()
            .copied()
            .unwrap_or(Revision::NEWEST_LEGACY)
    }

    /// Whether a call was ever answered.
    pub(crate) fn has_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// Calls that wait for an answer; a ping or a list of our own does not count.
    pub(crate) fn calls_in_flight(&self) -> usize {
        self.pipe.count(|waiter| waiter.side.is_some())
    }

    /// When the newest call began or ended.
    pub(crate) fn last_call(&self) -> Instant {
        self.born + Duration::from_millis(self.last_call_ms.load(Ordering::Relaxed))
    }

    fn touch(&self) {
        let now = self.born.elapsed().as_millis() as u64;
        self.last_call_ms.store(now, Ordering::Relaxed);
    }

    /// The process is gone: everything that waits fails now.
    pub(crate) fn close(&self) {
        self.pipe.close();
        // Nobody reads its lists any more; whoever waits for that finds it gone.
        self.doubt.settle(u64::MAX, None);
        for (_, (_, ask)) in self.asks.lock().drain() {
            ask.abort();
        }
    }

    /// Runs one call to its end. Dropping the future cancels it at the child. `Closed` if the child was
    /// gone before anything was sent to it.
    pub(crate) async fn call(
        self: &Arc<Self>,
        call: &Call,
        deadline: Instant,
    ) -> Result<Result<Reply, Fault>, Closed> {
        self.touch();
        let reply = self.converse(call, deadline).await;
        self.touch();
        match reply {
            Ok(reply) => Ok(Ok(reply)),
            Err(Failure::Closed) => Err(Closed),
            Err(Failure::Fault(fault)) => Ok(Err(fault)),
        }
    }

    async fn converse(self: &Arc<Self>, call: &Call, deadline: Instant) -> Result<Reply, Failure> {
        let mut time = pin!(sleep_until(deadline));
        let revision = self.revision();
        let _turn = match &self.turn {
            Some(turn) if !revision.is_modern() && !relay::is_about_a_task(&call.method) => {
                Some(self.take_turn(turn, &mut time).await?)
            }
            _ => None,
        };
        if let Some(reply) = relay::answer_for_modern(call).filter(|_| revision.is_modern()) {
            Box::pin(self.publisher.are_told()).await;
            return Ok(reply);
        }
        self.tell_level(&call.caller).await;
        if self.publisher.concerns(call) {
            Box::pin(self.confirm(call, &mut time)).await?;
        }
        let (reply, mut answer) = oneshot::channel();
        let side = CallerSide {
            caller: call.caller.clone(),
            line: call.line.clone(),
            is_about_a_task: relay::is_about_a_task(&call.method),
            awaits: relay::awaited_task(call),
            asking: 0,
            since: Instant::now(),
            thought: Duration::ZERO,
        };
        let waiter = Waiter {
            reply,
            side: Some(side),
        };
        let write = |id: u64, out: &mut Vec<u8>| relay::write_request(call, id, revision, out);
        let entered = self
            .in_time(&mut time, self.pipe.begin(waiter, write))
            .await?;
        let ticket = entered.map_err(|Closed| Failure::Closed)?;
        let outcome = loop {
            match self.in_time(&mut time, &mut answer).await {
                Ok(Ok(outcome)) => break outcome?,
                Ok(Err(dropped)) => return Err(self.gone().because(dropped).into()),
                Err(late) => match self.longer(&ticket, deadline) {
                    Some(until) => time.as_mut().reset(until),
                    None => return Err(late.into()),
                },
            }
        };
        Ok(relay::reply(call, outcome, revision)?)
    }

    /// Waits for a turn. A question to another caller may keep the child for very long: whoever waits behind one that was
    /// put off hears so soon, and behind one that is being answered when its own time is over.
    async fn take_turn<'t>(
        &self,
        turn: &'t Semaphore,
        time: &mut std::pin::Pin<&mut Sleep>,
    ) -> Result<SemaphorePermit<'t>, Fault> {
        let taken = tokio::select! {
            biased;
            taken = self.in_time(time, turn.acquire()) => taken,
            () = self.is_put_off() => return Err(self.busy()),
        };
        match taken {
            Ok(permit) => {
                self.asked.send_replace(None);
                Ok(permit.expect("the semaphore lives as long as `self`"))
            }
            Err(_) if self.asked.borrow().is_some() => Err(self.busy()),
            Err(late) => Err(late),
        }
    }

    /// Ends when the caller of the call that runs was sent away with a question, a while ago.
    async fn is_put_off(&self) {
        let mut asked = self.asked.subscribe();
        loop {
            let until = asked
                .borrow_and_update()
                .filter(|asked| asked.is_parked)
                .map(|asked| asked.since + PUT_OFF_MAX);
            let waited = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = waited => return,
                // The sender lives as long as `self`.
                _ = asked.changed() => {}
            }
        }
    }

    fn busy(&self) -> Fault {
        let text = format!(
            "backend `{}` takes one call at a time and waits for another caller's answer; try again later",
            self.name
        );
        let ms = PUT_OFF_MAX.as_millis() as u64;
        Fault::new(Kind::BackendBusy, text).retry_after_ms(ms)
    }

    /// Asks a legacy child for log lines as chatty as the caller wants them; the first caller that
    /// wants more than all before it waits for the answer.
    async fn tell_level(&self, caller: &Caller) {
        let Some(rank) = caller.log_level.get() else {
            return;
        };
        if self.revision().is_modern() || !self.logs.load(Ordering::Relaxed) {
            return;
        }
        if self.log_level.fetch_min(rank, Ordering::Relaxed) > rank {
            let level = LogLevel::name(rank)
                .map(String::from_utf8_lossy)
                .unwrap_or_default();
            let params = format!(r#"{{"level":{level}}}"#).into_bytes();
            let told = self.ask_child(Method::SetLevel, params, PING_TIMEOUT, Leave::Cancelled);
            if let Err(fault) = Box::pin(told).await {
                tracing::debug!(backend = %self.name, "logging/setLevel: {fault}");
            }
        }
    }

    async fn in_time<F: Future>(
        &self,
        time: &mut std::pin::Pin<&mut Sleep>,
        work: F,
    ) -> Result<F::Output, Fault> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = time => {
                let text = format!("backend `{}` did not answer in time", self.name);
                Err(Fault::new(Kind::BackendTimeout, text))
            }
        }
    }

    /// Until when to wait instead. People take their time: while one is asked the clock stands still,
    /// also for a call that was set aside and is looked at again only after the answer.
    fn longer(&self, ticket: &Ticket<Waiter>, deadline: Instant) -> Option<Instant> {
        let side = |waiter: &mut Waiter| waiter.side.as_ref().map(|s| (s.asking, s.thought));
        let (asking, thought) = self.pipe.with(ticket.id(), side).flatten()?;
        if asking > 0 {
            return Some(Instant::now() + ASKING_AGAIN);
        }
        Some(deadline + thought).filter(|until| *until > Instant::now())
    }

    /// One question less that the caller thinks about.
    fn answered(&self, call: u64) {
        self.pipe.with(call, |waiter| {
            if let Some(side) = &mut waiter.side {
                side.asking = side.asking.saturating_sub(1);
                if side.asking == 0 {
                    side.thought += side.since.elapsed();
                    if !side.is_about_a_task {
                        self.asked.send_replace(None);
                    }
                }
            }
        });
    }

    pub(crate) fn gone(&self) -> Fault {
        let text = format!("backend `{}` went away during the call", self.name);
        Fault::new(Kind::BackendUnavailable, text).retry_after_ms(1000)
    }

    pub(crate) fn roots_changed(&self) {
        if !self.revision().is_modern() {
            self.pipe.post(|out| out.extend(relay::roots_changed()));
        }
    }

    /// Whether the child answers at all.
    pub(crate) async fn ping(&self) -> bool {
        // Modern servers have no ping; this is the request that every one of them knows.
        let (method, params) = match self.revision().era() {
            Era::Legacy => (Method::Ping, b"{}".to_vec()),
            Era::Modern => (Method::Discover, discover::own_params(self.revision(), "")),
        };
        let answer = self.ask_child(method, params, PING_TIMEOUT, Leave::Cancelled);
        matches!(answer.await, Ok(Outcome::Result(_)))
    }

    /// Opens a modern server's stream of changed lists and of the resources and tasks that callers want to
    /// hear of; `begun` is called once that is on its way to the child. It has no end; dropping the future cancels it at the child.
    pub(crate) async fn listen(&self, uris: &[Arc<str>], tasks: &[Arc<str>], begun: impl FnOnce()) {
        let params = discover::wishes(self.revision(), uris, tasks);
        let (reply, ended) = oneshot::channel();
        let waiter = Waiter { reply, side: None };
        let write = |id: u64, out: &mut Vec<u8>| write_request(id, &Method::Listen, &params, out);
        if let Ok(mut ticket) = self.pipe.begin(waiter, write).await {
            begun();
            let _ = ended.await;
            ticket.silence();
        }
    }

    async fn ask_child(
        &self,
        method: Method,
        params: Vec<u8>,
        limit: Duration,
        leave: Leave,
    ) -> Result<Outcome, Fault> {
        let mut time = pin!(sleep_until(Instant::now() + limit));
        let (reply, mut answer) = oneshot::channel();
        let waiter = Waiter { reply, side: None };
        let write = |id: u64, out: &mut Vec<u8>| write_request(id, &method, &params, out);
        let entered = self
            .in_time(&mut time, self.pipe.begin(waiter, write))
            .await?;
        let mut ticket = entered.map_err(|closed| self.gone().because(closed))?;
        if leave == Leave::Silent {
            ticket.silence();
        }
        let answered = self.in_time(&mut time, &mut answer).await;
        answered?.map_err(|dropped| self.gone().because(dropped))?
    }

    /// Takes in one line of the child. Never blocks: it runs in the task that reads.
    pub(crate) fn hear(self: &Arc<Self>, line: Line) {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong { error, id } => return self.too_long(error, id),
        };
        match Incoming::parse(line, Rules::backend()) {
            Ok(Incoming::One(message)) => self.message(message),
            // Only 2025-03-26 has batches, but reading one costs nothing in any revision.
            Ok(Incoming::Batch(messages)) => {
                for message in messages {
                    match message {
                        Ok(message) => self.message(message),
                        Err(refusal) => self.garbage(&refusal),
                    }
                }
            }
            Err(refusal) => self.garbage(&refusal),
        }
    }

    fn message(self: &Arc<Self>, message: Message) {
        match message {
            Message::Response(response) => {
                let id = response.id.as_ref().and_then(Id::as_u64);
                if let Some(waiter) = self.pipe.take(id) {
                    if waiter.side.is_some() {
                        self.served.store(true, Ordering::Relaxed);
                    }
                    // Whoever waited may have left a moment ago.
                    let _ = waiter.reply.send(Ok(response.outcome));
                } else {
                    tracing::debug!(backend = %self.name, id = ?response.id, "an answer that nobody waits for");
                }
            }
            Message::Notification(notification) => self.notification(notification),
            Message::Request(request) => self.request_of_child(request),
        }
    }

    fn notification(&self, notification: Notification) {
        let Notification { method, params } = notification;
        match method {
            Method::Progress => {
                let token = params.get(meta::PROGRESS_TOKEN).map(Bytes::copy_from_slice);
                let id = token
                    .and_then(Id::from_raw)
                    .and_then(|token| token.as_u64());
                let line = id.and_then(|id| self.pipe.with(id, |w| w.line()).flatten());
                self.pass_on(line, &method, params.as_bytes());
            }
            // Log lines name no request: they reach a caller only when there is no other.
            Method::LogMessage | Method::ElicitationComplete => {
                let line = self
                    .pipe
                    .only(|w| w.side.is_some(), |_, w| w.line())
                    .flatten();
                self.pass_on(line, &method, params.as_bytes());
            }
            Method::ToolsChanged => self.tools_changed(),
            Method::ResourcesChanged => {
                self.changed.set(&[ItemKind::Resource, ItemKind::Template]);
            }
            Method::PromptsChanged => self.changed.set(&[ItemKind::Prompt]),
            Method::ResourceUpdated => {
                if let Some(uri) = params.string("uri") {
                    self.publisher.updated(&uri);
                }
            }
            Method::TaskChanged => self.publisher.task_changed(&params),
            Method::Cancelled => self.withdraw_ask(params.get("requestId")),
            _ => {}
        }
    }

    fn pass_on(&self, line: Option<CallerLine>, method: &Method, params: &[u8]) {
        let Some(line) = line else { return };
        let payload = Payload::parse(Bytes::copy_from_slice(params), Rules::backend());
        if let Some(notice) = payload
            .ok()
            .and_then(|params| relay::notice(method, params))
        {
            line.notice(notice);
        }
    }

    fn request_of_child(self: &Arc<Self>, request: Request) {
        if self.revision().is_modern() {
            // Such a server must not ask, and we must not answer it.
            tracing::debug!(backend = %self.name, method = request.method.as_str(), "a request from a modern server");
            return;
        }
        match request.method {
            Method::Ping => self.pipe.post(|out| write_result(&request.id, b"{}", out)),
            Method::Elicit | Method::Sample | Method::RootsList => self.ask(request),
            method => {
                let text = format!("{}: no such method", method.as_str());
                self.refuse(
                    &request.id,
                    error_object(METHOD_NOT_FOUND.into(), &text, None).into(),
                );
            }
        }
    }

    /// Puts a question of the child to the one caller it can be for.
    fn ask(self: &Arc<Self>, request: Request) {
        let Request { id, method, params } = request;
        if self.turn.is_none() {
            return self.refuse(&id, relay::nobody_to_ask(&method));
        }
        let begin = |call: u64, waiter: &mut Waiter| {
            let side = waiter.side.as_mut()?;
            can_answer(&side.caller, &method).then(|| {
                if side.asking == 0 {
                    side.since = Instant::now();
                    if !side.is_about_a_task {
                        self.asked.send_replace(Some(Asked {
                            since: side.since,
                            is_parked: side.caller.revision.is_modern(),
                        }));
                    }
                }
                side.asking += 1;
                (call, side.line.clone())
            })
        };
        let mut asks = self.asks.lock();
        let full = asks.len() >= ASKS_MAX || asks.contains_key(&id);
        let task = relay::related_task(&params);
        let found = match task {
            _ if full => Some(None),
            Some(task) => self.pipe.only(|w| w.awaits(&task), begin),
            None => self.pipe.only(Waiter::is_of_a_call, begin),
        };
        let (call, line) = match found {
            Some(Some(found)) => found,
            Some(None) => {
                drop(asks);
                return self.refuse(&id, relay::nobody_to_ask(&method));
            }
            None => {
                drop(asks);
                let text = "no call of a client goes with this question";
                return self.refuse(&id, error_object(INVALID_PARAMS.into(), text, None).into());
            }
        };
        let answer = line.ask(method, Bytes::copy_from_slice(params.as_bytes()));
        let talk = Arc::clone(self);
        let asked = id.clone();
        let task = tokio::spawn(async move { talk.answer(call, &asked, answer.await) });
        asks.insert(id, (call, task.abort_handle()));
    }

    fn answer(&self, call: u64, id: &Id, answer: Option<Answer>) {
        self.asks.lock().remove(id);
        self.answered(call);
        match answer {
            Some(Answer::Result(result)) => self.pipe.post(|out| write_result(id, &result, out)),
            Some(Answer::Error(error)) => self.refuse(id, error),
            None => {
                let text = "the client is gone";
                self.refuse(id, error_object(-1, text, None).into());
            }
        }
    }

    /// The child no longer wants to know.
    fn withdraw_ask(&self, id: Option<&[u8]>) {
        let id = id.map(Bytes::copy_from_slice).and_then(Id::from_raw);
        let found = id.and_then(|id| self.asks.lock().remove(&id));
        if let Some((call, ask)) = found {
            ask.abort();
            self.answered(call);
        }
    }

    fn refuse(&self, id: &Id, error: Bytes) {
        self.pipe
            .post(|out| write_error_object(Some(id), Revision::NEWEST_LEGACY, &error, out));
    }

    /// Not a message. If it at least carries an id of ours, its caller should not wait for another.
    fn garbage(&self, refusal: &Refusal) {
        let id = refusal.id.as_ref().and_then(Id::as_u64);
        if let Some(waiter) = id.and_then(|id| self.pipe.take(Some(id))) {
            let fault = relay::bad_reply(&refusal.message);
            let _ = waiter.reply.send(Err(fault));
        }
        let left_out = match self.garbage.lock().take(Instant::now()) {
            Allowance::Yes => 0,
            Allowance::YesAfter(left_out) => left_out,
            Allowance::No => return,
        };
        let text = format!(
            "its standard output has a line that is no message: {}",
            refusal.message
        );
        tracing::warn!(backend = %self.name, left_out, "{text}");
        self.words.push(format!("({text})"));
    }

    fn too_long(&self, error: impl std::error::Error + Send + Sync + 'static, id: Option<u64>) {
        // Where the line itself does not say whose it was, it can only be the only one's.
        let id = id.or_else(|| self.pipe.only(|_| true, |id, _| id));
        tracing::warn!(backend = %self.name, "{error}");
        if let Some(waiter) = id.and_then(|id| self.pipe.take(Some(id))) {
            let text = "the backend's answer is longer than `limits.line_mb` allows";
            let _ = waiter
                .reply
                .send(Err(Fault::new(Kind::BackendBadReply, text).because(error)));
        }
    }
}

impl Waiter {
    /// Whether it is the result of this task that is waited for.
    fn awaits(&self, task: &str) -> bool {
        let side = self.side.as_ref();
        side.is_some_and(|side| side.awaits.as_deref() == Some(task))
    }

    /// Whether questions that name no task may be of this one.
    fn is_of_a_call(&self) -> bool {
        let side = self.side.as_ref();
        side.is_some_and(|side| !side.is_about_a_task)
    }

    fn line(&self) -> Option<CallerLine> {
        self.side.as_ref().map(|side| side.line.clone())
    }
}

/// What happens at the child when an answer did not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    Cancelled,
    /// Handshakes cannot be cancelled, and nothing may precede them.
    Silent,
}

impl Peer for Arc<Talk> {
    async fn request(&self, method: Method, params: Vec<u8>) -> Result<Outcome, PeerError> {
        match method {
            // During the probe silence is an answer: a legacy server may ignore what it does not know.
            Method::Discover => self
                .ask_child(method, params, PROBE_TIMEOUT, Leave::Silent)
                .await
                .map_err(PeerError::NotSpoken),
            Method::Initialize => self
                .ask_child(method, params, self.timeout, Leave::Silent)
                .await
                .map_err(PeerError::Failed),
            _ => self
                .ask_child(method, params, self.timeout, Leave::Cancelled)
                .await
                .map_err(PeerError::Failed),
        }
    }

    async fn notify(&self, method: Method, params: Vec<u8>) -> Result<(), PeerError> {
        self.pipe
            .post(|out| envelope::write_notification(method.as_str(), &params, out));
        Ok(())
    }
}

fn write_request(id: u64, method: &Method, params: &[u8], out: &mut Vec<u8>) {
    let id = itoa::Buffer::new().format(id).to_owned();
    envelope::write_request(id.as_bytes(), method.as_str(), params, out);
}

fn can_answer(caller: &Caller, method: &Method) -> bool {
    let can = &caller.capabilities;
    match method {
        Method::Elicit => can.elicit_form || can.elicit_url,
        Method::Sample => can.sampling,
        Method::RootsList => can.roots,
        _ => false,
    }
}
