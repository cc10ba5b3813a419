//! The MCP session with one process: calls, answers, notices and questions.
//!
//! A [`ChildSession`] is shared by the calls (any thread) and by the process's own task, which passes every line to
//! it (`on_line`). Each call owns its [`Ticket`]; dropping the call's future frees it and cancels the request at the
//! child. Questions run as tasks of their own, ended by [`ChildSession::close`].
//!
//! A legacy server's question names no call. It goes to a caller only where there can be but one: such a child takes
//! one call at a time (`CallMode::Interactive`). Requests about tasks run beside it, for a question of a task names
//! the task. In the other mode the child was told that no caller can be asked, and questions are refused at once.
//!
//! Not here: the process (`super::life`), ids and queues (`super::pipe`).

mod freshness;
mod incoming;
mod own_requests;
mod questions;

use std::collections::HashMap;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use sentinel_core::catalog::Publisher;
use sentinel_core::{Call, Caller, Fault, ItemKind, Kind, Line as CallerLine, LogLevel, Reply};
use sentinel_wire::{Id, Method, Outcome, Revision};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep, sleep_until};

use self::freshness::{Freshness, OwnTools};
use self::own_requests::OnTimeout;
use self::questions::OpenQuestion;
use super::pipe::{Closed, Pipe, Ticket};
use super::stderr::{OutputTail, Quota};
use crate::relay;

/// A server may not answer a request of the other era at all; both official SDKs wait this long.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// A busy child may answer late; the next ping is soon.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long calls wait behind one that is parked with a question: enough for a program to come back, not for a
/// person.
const PUT_OFF_MAX: Duration = Duration::from_secs(2);
/// Interval at which a call past its deadline checks whether its caller has answered.
const ANSWER_POLL: Duration = Duration::from_secs(1);
/// Invalid lines of one child that are logged.
const INVALID_LINES_PER_SECOND: u32 = 2;

/// Whether calls run in parallel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallMode {
    /// Many calls at once; callers cannot be asked.
    Parallel,
    /// One call at a time, whose caller can be asked.
    Interactive,
}

/// A request that waits for its answer.
pub(crate) struct PendingRequest {
    reply: oneshot::Sender<Result<Outcome, Fault>>,
    /// Absent for requests of the gateway itself.
    side: Option<CallerSide>,
}

/// The link to a caller while its call runs.
struct CallerSide {
    caller: Arc<Caller>,
    line: CallerLine,
    /// Whether it is a request about a task, and the task if it waits for its result.
    is_about_a_task: bool,
    awaits: Option<Box<str>>,
    /// Unanswered questions to its caller, and the start of the oldest wait.
    open_questions: u32,
    since: Instant,
    /// Time its caller took for earlier answers.
    answer_time: Duration,
}

pub(crate) struct ChildSession {
    name: Arc<str>,
    /// Invalid lines of its standard output, for operators.
    output_tail: OutputTail,
    pub(crate) pipe: Arc<Pipe<PendingRequest>>,
    revision: OnceLock<Revision>,
    /// Held by the running call in `Interactive` mode.
    turn: Option<Semaphore>,
    /// The question that the caller of the running call is being asked.
    asked: watch::Sender<Option<OpenQuestion>>,
    timeout: Duration,
    changed: Arc<ChangedLists>,
    /// Whether its known list of tools may be outdated.
    freshness: Freshness,
    /// Its own list of tools, where it is not the child whose lists are published.
    own: Option<OwnTools>,
    /// Receives notifications about resources.
    publisher: Publisher,
    /// The least urgent log level asked of the child so far.
    log_level: AtomicU8,
    /// Whether it declared logging.
    logs: AtomicBool,
    /// Open questions, each with the call that it belongs to.
    asks: Mutex<HashMap<Id, (u64, AbortHandle)>>,
    invalid_lines: Mutex<Quota>,
    served: AtomicBool,
    started_at: Instant,
    /// When the newest call began or ended, in milliseconds since `started_at`.
    last_call_ms: AtomicU64,
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

/// Which lists the child announced as changed.
#[derive(Debug, Default)]
pub(crate) struct ChangedLists {
    kinds: AtomicU8,
    some: Notify,
}

impl ChangedLists {
    fn set(&self, kinds: &[ItemKind]) {
        let bits = kinds.iter().fold(0, |bits, kind| bits | bit(*kind));
        self.kinds.fetch_or(bits, Ordering::Relaxed);
        self.some.notify_one();
    }

    /// Waits for a change and then for `settle`, since changes come in bursts.
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

impl ChildSession {
    pub(crate) fn new(
        name: Arc<str>,
        timeout: Duration,
        mode: CallMode,
        lists: bool,
        publisher: Publisher,
        changed: Arc<ChangedLists>,
        output_tail: OutputTail,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            output_tail,
            pipe: Pipe::new(),
            revision: OnceLock::new(),
            turn: (mode == CallMode::Interactive).then(|| Semaphore::new(1)),
            asked: watch::Sender::new(None),
            timeout,
            changed,
            freshness: Freshness::default(),
            own: (!lists).then(OwnTools::default),
            publisher,
            log_level: AtomicU8::new(LogLevel::NONE),
            logs: AtomicBool::new(false),
            asks: Mutex::default(),
            invalid_lines: Mutex::new(Quota::new(INVALID_LINES_PER_SECOND)),
            served: AtomicBool::new(false),
            started_at: Instant::now(),
            last_call_ms: AtomicU64::new(0),
        })
    }

    /// Records the result of the handshake.
    pub(crate) fn agree(&self, revision: Revision, logs: bool) {
        let _ = self.revision.set(revision);
        self.logs.store(logs, Ordering::Relaxed);
    }

    /// The negotiated revision; the newest legacy one during the handshake.
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
        self.started_at + Duration::from_millis(self.last_call_ms.load(Ordering::Relaxed))
    }

    fn touch(&self) {
        let now = self.started_at.elapsed().as_millis() as u64;
        self.last_call_ms.store(now, Ordering::Relaxed);
    }

    /// The process is gone: everything that waits fails now.
    pub(crate) fn close(&self) {
        self.pipe.close();
        // Its lists are not read any more; calls that wait for that find the child gone.
        self.freshness.cover(u64::MAX, None);
        for (_, (_, ask)) in self.asks.lock().drain() {
            ask.abort();
        }
    }

    /// Runs one call to its end. Dropping the future cancels it at the child. `Closed` if the child was gone before
    /// anything was sent.
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
            open_questions: 0,
            since: Instant::now(),
            answer_time: Duration::ZERO,
        };
        let waiter = PendingRequest {
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
                Err(late) => match self.extended_deadline(&ticket, deadline) {
                    Some(until) => time.as_mut().reset(until),
                    None => return Err(late.into()),
                },
            }
        };
        Ok(relay::reply(call, outcome, revision)?)
    }

    /// Waits until the running call ends. A question to its caller may block the child for very long: behind a parked
    /// call the wait ends after `PUT_OFF_MAX`, behind one that is being answered at the deadline of the waiting call.
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

    /// Completes when the running call has been parked with a question for `PUT_OFF_MAX`.
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

    /// Sets a legacy child's log level to what the caller wants; the first caller that wants more than all before it
    /// waits for the answer.
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
            let told = self.request_own(Method::SetLevel, params, PING_TIMEOUT, OnTimeout::Cancel);
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

    /// The extended deadline, if any. The clock stands still while a caller is being asked, also for a call that was
    /// parked and is polled again only after the answer.
    fn extended_deadline(
        &self,
        ticket: &Ticket<PendingRequest>,
        deadline: Instant,
    ) -> Option<Instant> {
        let side = |waiter: &mut PendingRequest| {
            waiter
                .side
                .as_ref()
                .map(|s| (s.open_questions, s.answer_time))
        };
        let (open_questions, answer_time) = self.pipe.with(ticket.id(), side).flatten()?;
        if open_questions > 0 {
            return Some(Instant::now() + ANSWER_POLL);
        }
        Some(deadline + answer_time).filter(|until| *until > Instant::now())
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
}

impl PendingRequest {
    /// Whether it waits for the result of this task.
    fn awaits(&self, task: &str) -> bool {
        let side = self.side.as_ref();
        side.is_some_and(|side| side.awaits.as_deref() == Some(task))
    }

    /// Whether questions that name no task may belong to it.
    fn is_of_a_call(&self) -> bool {
        let side = self.side.as_ref();
        side.is_some_and(|side| !side.is_about_a_task)
    }

    fn line(&self) -> Option<CallerLine> {
        self.side.as_ref().map(|side| side.line.clone())
    }
}
