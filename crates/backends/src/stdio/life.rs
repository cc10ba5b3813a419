//! One process of a child from start to end: started, initialized, listed, served, and ended.
//!
//! [`live`] runs in a task of its own, which owns the process: dropping that task kills the whole process tree. It
//! signals `ready` once when calls may come, and stops when `end` is signalled.
//!
//! Not here: when the next process starts (`super::keeper`), the messages (`super::session`).

use std::collections::HashSet;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use parking_lot::Mutex;
use sentinel_core::catalog::{Change, Publisher};
use sentinel_core::{Fault, ItemKind, Offer};
use sentinel_wire::{Era, Method, Outcome, Revision};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::Config;
use super::pipe::read_lines;
use super::session::{CallMode, ChangedLists, ChildSession, PROBE_TIMEOUT};
use super::stderr::{self, OutputTail};
use crate::causes::with_causes;
use crate::child::{Child, Exit, ProcessGuard, StopTimeouts};
use crate::discover::{self, Greeting, Peer, Probe};

/// Bursts of `list_changed` within this time are read once.
const SETTLE: Duration = Duration::from_millis(100);
/// Backoff for asking a child again that refused its list of tools: doubles from the first to the second.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Longest time for reading the remaining output of a dead child; its pipe is closed by then.
const LAST_LINES: Duration = Duration::from_millis(500);
/// Stages of stopping a child that closed its output or failed its handshake: shorter than for a working one.
const HUNG_UP_TIMEOUTS: StopTimeouts = StopTimeouts {
    after_eof: Duration::from_millis(500),
    after_term: Duration::from_millis(500),
};

/// What all processes of one child have in common.
pub(crate) struct Plan {
    pub(crate) config: Arc<Config>,
    pub(crate) name: Arc<str>,
    /// The client capabilities declared to a legacy server.
    pub(crate) declared: Bytes,
    pub(crate) mode: CallMode,
    /// Whether its lists are those of the backend; false for a child that belongs to one caller.
    pub(crate) lists: bool,
    /// Receives its lists and notifications.
    pub(crate) publisher: Publisher,
    /// Lists that this child, or another of the same backend, said have changed.
    pub(crate) changed: Arc<ChangedLists>,
    /// A resource was followed when the last process ended, so updates may have been missed.
    pub(crate) missed: AtomicBool,
    /// The era of an earlier process. Children of callers share it with the child that lists.
    pub(crate) era: Arc<Mutex<Option<Era>>>,
    pub(crate) output_tail: OutputTail,
}

impl Plan {
    /// The era of its server, if configured or detected.
    fn era_known(&self) -> Option<Era> {
        let configured = self.config.revision.map(Revision::era);
        configured.or(*self.era.lock())
    }

    /// Whether callers follow a resource of this child.
    pub(crate) fn is_followed(&self) -> bool {
        !self.publisher.wanted().is_empty()
    }
}

/// Sent when calls may come.
pub(crate) struct Ready {
    pub(crate) session: Arc<ChildSession>,
    pub(crate) offer: Option<Offer>,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// It had answered a call.
    pub(crate) served: bool,
    pub(crate) why: String,
}

/// Why a running process is to be ended.
enum Verdict {
    HungUp,
    Exited(Exit),
    StopRequested,
    Failed(Fault),
}

/// Runs a child from its start to its end.
pub(crate) async fn live(
    plan: Arc<Plan>,
    ready: oneshot::Sender<Ready>,
    mut end: oneshot::Receiver<()>,
) -> Ended {
    let mut ready = Some(ready);
    let known = plan.era_known();
    let mut era = known.unwrap_or(Era::Legacy);
    let mut other = match known {
        None => Some(Era::Modern),
        Some(_) => None,
    };
    loop {
        let child = tokio::select! {
            started = plan.config.command.start() => match started {
                Ok(child) => child,
                Err(error) => return Ended { served: false, why: error.to_string() },
            },
            _ = &mut end => return Ended { served: false, why: "stopped".into() },
        };
        let process = Process::new(&plan, era);
        let ended = process.run(child, &mut ready, &mut end).await;
        match other.take() {
            // Some servers exit at a first request of an era that they do not support.
            Some(other) if process.died_of_greeting.load(Ordering::Relaxed) => era = other,
            _ => return ended,
        }
    }
}

struct Process<'a> {
    plan: &'a Plan,
    session: Arc<ChildSession>,
    /// The era of the first handshake attempt.
    era: Era,
    output_tail: OutputTail,
    /// Its first request is unanswered.
    is_greeted: AtomicBool,
    died_of_greeting: AtomicBool,
}

impl<'a> Process<'a> {
    fn new(plan: &'a Plan, era: Era) -> Self {
        let output_tail = plan.output_tail.for_process();
        let session = ChildSession::new(
            plan.name.clone(),
            plan.config.timeout,
            plan.mode,
            plan.lists,
            plan.publisher.clone(),
            plan.changed.clone(),
            output_tail.clone(),
        );
        Self {
            plan,
            session,
            output_tail,
            era,
            is_greeted: AtomicBool::new(false),
            died_of_greeting: AtomicBool::new(false),
        }
    }

    async fn run(
        &self,
        child: Child,
        ready: &mut Option<oneshot::Sender<Ready>>,
        end: &mut oneshot::Receiver<()>,
    ) -> Ended {
        let Child {
            stdin,
            stdout,
            stderr,
            mut guard,
        } = child;
        self.output_tail.runs_as(guard.pid());
        let config = &self.plan.config;
        let mut reading =
            pin!(read_lines(stdout, config.line_max, |line| self.session.on_line(line)).fuse());
        let mut writing = pin!(self.session.pipe.write_to(stdin).fuse());
        let mut errors = pin!(stderr::read(&self.plan.name, stderr, &self.output_tail).fuse());
        let mut serving = pin!(self.serve(ready).fuse());

        let verdict = tokio::select! {
            biased;
            _ = &mut reading => Verdict::HungUp,
            // It closed its standard input, so it can take no more requests.
            _ = &mut writing => Verdict::HungUp,
            exit = guard.exited() => Verdict::Exited(exit),
            _ = end => Verdict::StopRequested,
            fault = &mut serving => Verdict::Failed(fault),
            () = async { errors.as_mut().await; pending().await } => unreachable!("it waits for ever"),
        };
        if self.is_greeted.load(Ordering::Relaxed)
            && matches!(verdict, Verdict::HungUp | Verdict::Exited(_))
        {
            self.died_of_greeting.store(true, Ordering::Relaxed);
            *self.plan.era.lock() = None;
        }

        // Input and output continue while it ends: it may still answer, and must not block on a full pipe.
        let ending = self.end(&verdict, guard);
        let exit = {
            let io = async {
                tokio::join!(rest(&mut writing), rest(&mut errors), rest(&mut reading));
                pending::<()>().await
            };
            tokio::select! { exit = ending => exit, () = io => unreachable!("it waits for ever") }
        };
        // Output written before its end still counts.
        let _ = timeout(LAST_LINES, async {
            tokio::join!(rest(&mut reading), rest(&mut errors))
        })
        .await;
        self.session.close();
        if self.plan.is_followed() {
            self.plan.missed.store(true, Ordering::Relaxed);
        }
        self.ended(verdict, exit)
    }

    async fn end(&self, verdict: &Verdict, guard: ProcessGuard) -> Option<Exit> {
        match verdict {
            Verdict::StopRequested => {
                self.session.pipe.finish();
                guard.stop(self.plan.config.timeouts).await
            }
            Verdict::Exited(exit) => Some(*exit),
            Verdict::HungUp | Verdict::Failed(_) => {
                self.session.close();
                guard.stop(HUNG_UP_TIMEOUTS).await
            }
        }
    }

    fn ended(&self, verdict: Verdict, exit: Option<Exit>) -> Ended {
        let exit = exit.map_or_else(|| "does not end".to_owned(), |exit| exit.to_string());
        let why = match verdict {
            Verdict::Failed(fault) => with_causes(&fault),
            Verdict::HungUp | Verdict::Exited(_) => format!("it {exit}"),
            Verdict::StopRequested => "stopped".into(),
        };
        Ended {
            served: self.session.has_served(),
            why,
        }
    }

    /// Initializes, lists, sends `ready`, then reads lists again as they change. Returns only on failure.
    async fn serve(&self, ready: &mut Option<oneshot::Sender<Ready>>) -> Fault {
        let greeting = match self.greet().await {
            Ok(greeting) => greeting,
            Err(fault) => {
                *self.plan.era.lock() = None;
                return fault;
            }
        };
        *self.plan.era.lock() = Some(greeting.revision.era());
        self.session
            .agree(greeting.revision, greeting.capabilities.logging);
        let offer = match self.plan.lists {
            false => None,
            true => {
                let (name, before) = (&self.plan.name, self.plan.publisher.offer());
                let read = discover::read_lists(&self.session, &greeting, name, before.as_deref());
                match read.await {
                    Ok(lists) => {
                        self.session
                            .settle(0, Some(self.list_outcome(lists.tools_refused)));
                        Some(lists.offer)
                    }
                    Err(fault) => return fault,
                }
            }
        };
        if let Some(ready) = ready.take() {
            let _ = ready.send(Ready {
                session: self.session.clone(),
                offer: offer.clone(),
            });
        }
        let (modern, subscribe) = (
            greeting.revision.is_modern(),
            greeting.capabilities.subscribe,
        );
        let hearing = self.hear_of_resources(modern, subscribe);
        match offer {
            Some(offer) => self.follow(offer, hearing).await,
            None => {
                hearing.await;
                unreachable!("it waits for ever")
            }
        }
    }

    /// Initializes it in the known or configured era, otherwise as a legacy server first: a legacy session can be
    /// translated for callers of both eras, whereas a dual-era server refuses questions in a modern one, and keeps to
    /// the era of the first request.
    async fn greet(&self) -> Result<Greeting, Fault> {
        self.is_greeted.store(true, Ordering::Relaxed);
        let greeting = match self.era {
            Era::Legacy => self.initialize().await,
            Era::Modern => self.discover().await,
        };
        self.is_greeted.store(false, Ordering::Relaxed);
        greeting
    }

    async fn initialize(&self) -> Result<Greeting, Fault> {
        let configured = self.plan.config.revision;
        let revision = configured.unwrap_or(Revision::NEWEST_LEGACY);
        let asked = discover::initialize_at(&self.session, revision, &self.plan.declared);
        if configured.is_some() {
            return Ok(asked.await?);
        }
        let mut asked = pin!(asked);
        let refusal = match timeout(PROBE_TIMEOUT, &mut asked).await {
            Ok(Ok(greeting)) => return Ok(greeting),
            Ok(Err(refusal)) => refusal.into(),
            // It is slow to start, or modern and silent about unknown methods.
            Err(_) => tokio::select! {
                biased;
                greeted = &mut asked => return Ok(greeted?),
                found = discover::probe(&self.session) => match found? {
                    Probe::Modern(greeting) => return Ok(greeting),
                    Probe::Legacy => return Ok(asked.await?),
                },
            },
        };
        match discover::probe(&self.session).await? {
            Probe::Modern(greeting) => Ok(greeting),
            Probe::Legacy => Err(refusal),
        }
    }

    async fn discover(&self) -> Result<Greeting, Fault> {
        let began = Instant::now();
        loop {
            let answered = self.session.pipe.seen().answered;
            if let Probe::Modern(greeting) = discover::probe(&self.session).await? {
                return Ok(greeting);
            }
            let is_silent = self.session.pipe.seen().answered == answered;
            if !is_silent || began.elapsed() >= self.plan.config.timeout {
                break;
            }
        }
        if let Some(revision) = self.plan.config.revision {
            return Err(discover::does_not_speak(revision));
        }
        // The program was replaced by another.
        Ok(discover::initialize(&self.session, &self.plan.declared).await?)
    }

    /// Publishes the lists again whenever the child announces a change.
    async fn follow(&self, mut offer: Offer, hearing: impl Future<Output = ()>) -> Fault {
        let revision = offer.revision;
        let mut hearing = pin!(hearing);
        let mut pause = ASK_AGAIN.0;
        loop {
            let (kinds, invalidations) = tokio::select! {
                changes = self.session.changes(SETTLE) => changes,
                () = sleep(pause), if self.session.refuses_tools() => {
                    pause = (pause * 2).min(ASK_AGAIN.1);
                    self.session.tools_changed();
                    continue;
                }
                () = &mut hearing => unreachable!("it waits for ever"),
            };
            let mut said = Vec::new();
            let mut tools = None;
            for kind in kinds {
                said.extend(Change::of_kind(kind));
                match discover::read_list(
                    &self.session,
                    revision,
                    kind,
                    &self.plan.name,
                    offer.items(kind),
                )
                .await
                {
                    Ok(mut list) => {
                        if kind == ItemKind::Tool {
                            tools = Some(self.list_outcome(list.refused.take()));
                        }
                        list.put_into(&mut offer, kind);
                    }
                    Err(fault) => {
                        let why = with_causes(&fault);
                        tracing::warn!(backend = %self.plan.name, "could not read its changed list: {why}");
                        if kind == ItemKind::Tool {
                            tools = Some(Err(why));
                        }
                    }
                }
            }
            self.plan.publisher.publish_changed(offer.clone(), &said);
            // Settled after the publication: a waiting call is checked against what is published.
            self.session.settle(invalidations, tools);
            if !self.session.refuses_tools() {
                pause = ASK_AGAIN.0;
            }
        }
    }

    /// Whether it listed its tools; logs a refusal.
    fn list_outcome(&self, refused: Option<String>) -> Result<(), String> {
        let Some(why) = refused else {
            return Ok(());
        };
        tracing::warn!(backend = %self.plan.name, "it does not give its list of tools, which is taken to be as it was: {why}");
        Err(why)
    }

    /// Keeps the child informed of the resources that callers follow. Never ends.
    async fn hear_of_resources(&self, modern: bool, subscribe: bool) {
        let publisher = &self.plan.publisher;
        // Updates between two processes were missed.
        let mut gap = self.plan.missed.swap(false, Ordering::Relaxed);
        let mut wishes = publisher.wanted_changes();
        let mut subscribed: HashSet<Arc<str>> = HashSet::new();
        loop {
            let wish = *wishes.borrow_and_update();
            let wanted: HashSet<Arc<str>> = publisher.wanted().into_iter().collect();
            if modern {
                let uris: Vec<Arc<str>> = wanted.into_iter().collect();
                let tasks = publisher.wanted_tasks();
                let listening = async {
                    let begun = || {
                        publisher.told(wish);
                        // Updates between two streams were missed.
                        publisher.missed();
                    };
                    self.session.listen(&uris, &tasks, begun).await;
                    pending::<()>().await
                };
                let told = async {
                    if std::mem::take(&mut gap) {
                        publisher.are_told().await;
                        publisher.missed_resources().await;
                    }
                    pending::<()>().await
                };
                tokio::select! {
                    () = listening => unreachable!("it waits for ever"),
                    () = told => unreachable!("it waits for ever"),
                    Ok(()) = wishes.changed() => continue,
                }
            }
            if subscribe {
                for uri in wanted.difference(&subscribed) {
                    self.tell(Method::ResourcesSubscribe, uri).await;
                }
                for uri in subscribed.difference(&wanted) {
                    self.tell(Method::ResourcesUnsubscribe, uri).await;
                }
                subscribed = wanted;
            }
            if std::mem::take(&mut gap) {
                publisher.missed_resources().await;
            }
            if wishes.changed().await.is_err() {
                pending::<()>().await;
            }
        }
    }

    async fn tell(&self, method: Method, uri: &str) {
        let params = serde_json::json!({ "uri": uri }).to_string().into_bytes();
        let why = match self.session.request(method, params).await {
            Ok(Outcome::Result(_)) => return,
            Ok(Outcome::Error(error)) => error.string("message").unwrap_or_default().into_owned(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(backend = %self.plan.name, uri, "could not subscribe: {why}");
    }
}

/// Polls a fused future to its end.
async fn rest<F: FusedFuture + Unpin>(work: &mut F) {
    if !work.is_terminated() {
        work.await;
    }
}
