//! One life of a child: started, greeted, listed, served, and ended with nothing left of it.
//!
//! [`live`] runs it to its end in a task of its own, which owns the process: dropping that task kills the
//! whole tree. It says once through `ready` that calls may come, and is asked to end through `end`.
//!
//! Not here: when there is another life (`super::keeper`), what is said (`super::talk`).

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
use super::stderr::{self, LastWords};
use super::talk::{Changed, Manner, PROBE_TIMEOUT, Talk};
use crate::child::{Child, Exit, Patience, Tether};
use crate::discover::{self, Greeting, Peer, Probe};

/// List changes come in bursts: one reading for all of them.
const SETTLE: Duration = Duration::from_millis(100);
/// First and longest pause until a child that did not give its list of tools is asked again.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// What a dead child had still written is read within this; its pipe has ended by then.
const LAST_LINES: Duration = Duration::from_millis(500);
/// A child that has hung up, or that we could not talk to, is not waited for as long as a working one.
const HUNG_UP: Patience = Patience {
    after_eof: Duration::from_millis(500),
    after_term: Duration::from_millis(500),
};

/// What every life of one child has in common.
pub(crate) struct Plan {
    pub(crate) config: Arc<Config>,
    pub(crate) name: Arc<str>,
    /// The capabilities that a legacy server is told its client has.
    pub(crate) declared: Bytes,
    pub(crate) manner: Manner,
    /// Whether its lists are those of the backend; those of a child that belongs to one caller are not.
    pub(crate) lists: bool,
    /// Where its lists and its news go.
    pub(crate) publisher: Publisher,
    /// Which lists are said to have changed, by this child or by another of the backend.
    pub(crate) changed: Arc<Changed>,
    /// Somebody followed a resource when the last life ended, and has missed a while of it.
    pub(crate) missed: AtomicBool,
    /// The era that an earlier process was found to speak. Children of callers share it with the one that lists.
    pub(crate) era: Arc<Mutex<Option<Era>>>,
    pub(crate) words: LastWords,
}

impl Plan {
    /// The era of its server, as far as it is configured or was found out.
    fn era_known(&self) -> Option<Era> {
        let configured = self.config.revision.map(Revision::era);
        configured.or(*self.era.lock())
    }

    /// Whether callers follow a resource of this child.
    pub(crate) fn is_followed(&self) -> bool {
        !self.publisher.wanted().is_empty()
    }
}

/// Calls may come.
pub(crate) struct Ready {
    pub(crate) talk: Arc<Talk>,
    pub(crate) offer: Option<Offer>,
}

/// How a life ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// It had answered somebody.
    pub(crate) served: bool,
    pub(crate) why: String,
}

/// Why a running process is to be ended.
enum Verdict {
    HungUp,
    Exited(Exit),
    Told,
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
            // Some servers end at a first request of an era that they do not speak.
            Some(other) if process.died_of_greeting.load(Ordering::Relaxed) => era = other,
            _ => return ended,
        }
    }
}

struct Process<'a> {
    plan: &'a Plan,
    talk: Arc<Talk>,
    /// In which it is greeted first.
    era: Era,
    /// Its first request is not answered yet.
    is_greeted: AtomicBool,
    died_of_greeting: AtomicBool,
}

impl<'a> Process<'a> {
    fn new(plan: &'a Plan, era: Era) -> Self {
        let talk = Talk::new(
            plan.name.clone(),
            plan.config.timeout,
            plan.manner,
            plan.lists,
            plan.publisher.clone(),
            plan.changed.clone(),
            plan.words.clone(),
        );
        Self {
            plan,
            talk,
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
            mut tether,
        } = child;
        let config = &self.plan.config;
        let mut reading =
            pin!(read_lines(stdout, config.line_max, |line| self.talk.hear(line)).fuse());
        let mut writing = pin!(self.talk.pipe.write_to(stdin).fuse());
        let mut errors = pin!(stderr::read(&self.plan.name, stderr, &self.plan.words).fuse());
        let mut serving = pin!(self.serve(ready).fuse());

        let verdict = tokio::select! {
            biased;
            _ = &mut reading => Verdict::HungUp,
            // It closed its input: nothing can be asked of it any more.
            _ = &mut writing => Verdict::HungUp,
            exit = tether.exited() => Verdict::Exited(exit),
            _ = end => Verdict::Told,
            fault = &mut serving => Verdict::Failed(fault),
            () = async { errors.as_mut().await; pending().await } => unreachable!("it waits for ever"),
        };
        if self.is_greeted.load(Ordering::Relaxed)
            && matches!(verdict, Verdict::HungUp | Verdict::Exited(_))
        {
            self.died_of_greeting.store(true, Ordering::Relaxed);
            *self.plan.era.lock() = None;
        }

        // Input and output go on while it ends: it may still answer, and must not block on a full pipe.
        let ending = self.end(&verdict, tether);
        let exit = {
            let io = async {
                tokio::join!(rest(&mut writing), rest(&mut errors), rest(&mut reading));
                pending::<()>().await
            };
            tokio::select! { exit = ending => exit, () = io => unreachable!("it waits for ever") }
        };
        // What it wrote before its death still counts.
        let _ = timeout(LAST_LINES, async {
            tokio::join!(rest(&mut reading), rest(&mut errors))
        })
        .await;
        self.talk.close();
        if self.plan.is_followed() {
            self.plan.missed.store(true, Ordering::Relaxed);
        }
        self.ended(verdict, exit)
    }

    async fn end(&self, verdict: &Verdict, tether: Tether) -> Option<Exit> {
        match verdict {
            Verdict::Told => {
                self.talk.pipe.finish();
                tether.stop(self.plan.config.patience).await
            }
            Verdict::Exited(exit) => Some(*exit),
            Verdict::HungUp | Verdict::Failed(_) => {
                self.talk.close();
                tether.stop(HUNG_UP).await
            }
        }
    }

    fn ended(&self, verdict: Verdict, exit: Option<Exit>) -> Ended {
        let exit = exit.map_or_else(|| "does not end".to_owned(), |exit| exit.to_string());
        let why = match verdict {
            Verdict::Failed(fault) => chain(&fault),
            Verdict::HungUp | Verdict::Exited(_) => format!("it {exit}"),
            Verdict::Told => "stopped".into(),
        };
        Ended {
            served: self.talk.has_served(),
            why,
        }
    }

    /// Greets, lists, says `ready`, then re-reads lists as they change. Returns only when it cannot.
    async fn serve(&self, ready: &mut Option<oneshot::Sender<Ready>>) -> Fault {
        let greeting = match self.greet().await {
            Ok(greeting) => greeting,
            Err(fault) => {
                *self.plan.era.lock() = None;
                return fault;
            }
        };
        *self.plan.era.lock() = Some(greeting.revision.era());
        self.talk
            .agree(greeting.revision, greeting.capabilities.logging);
        let offer = match self.plan.lists {
            false => None,
            true => {
                let (name, before) = (&self.plan.name, self.plan.publisher.offer());
                let read = discover::read_lists(&self.talk, &greeting, name, before.as_deref());
                match read.await {
                    Ok(lists) => {
                        self.talk.settle(0, Some(self.told(lists.tools_refused)));
                        Some(lists.offer)
                    }
                    Err(fault) => return fault,
                }
            }
        };
        if let Some(ready) = ready.take() {
            let _ = ready.send(Ready {
                talk: self.talk.clone(),
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

    /// Greets it in the era that is known or configured, else as a legacy server first: a legacy conversation can be
    /// translated for callers of both eras, while a server of both refuses to ask its client anything in a modern one,
    /// and keeps to the era of the first request.
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
        let asked = discover::initialize_at(&self.talk, revision, &self.plan.declared);
        if configured.is_some() {
            return Ok(asked.await?);
        }
        let mut asked = pin!(asked);
        let refusal = match timeout(PROBE_TIMEOUT, &mut asked).await {
            Ok(Ok(greeting)) => return Ok(greeting),
            Ok(Err(refusal)) => refusal.into(),
            // It is slow to start, or modern and silent about what it does not know.
            Err(_) => tokio::select! {
                biased;
                greeted = &mut asked => return Ok(greeted?),
                found = discover::probe(&self.talk) => match found? {
                    Probe::Modern(greeting) => return Ok(greeting),
                    Probe::Legacy => return Ok(asked.await?),
                },
            },
        };
        match discover::probe(&self.talk).await? {
            Probe::Modern(greeting) => Ok(greeting),
            Probe::Legacy => Err(refusal),
        }
    }

    async fn discover(&self) -> Result<Greeting, Fault> {
        let began = Instant::now();
        loop {
            let answered = self.talk.pipe.seen().answered;
            if let Probe::Modern(greeting) = discover::probe(&self.talk).await? {
                return Ok(greeting);
            }
            let is_silent = self.talk.pipe.seen().answered == answered;
            if !is_silent || began.elapsed() >= self.plan.config.timeout {
                break;
            }
        }
        if let Some(revision) = self.plan.config.revision {
            return Err(discover::does_not_speak(revision));
        }
        // Another program than before.
        Ok(discover::initialize(&self.talk, &self.plan.declared).await?)
    }

    /// Publishes the lists anew whenever the child says that they changed.
    async fn follow(&self, mut offer: Offer, hearing: impl Future<Output = ()>) -> Fault {
        let revision = offer.revision;
        let mut hearing = pin!(hearing);
        let mut pause = ASK_AGAIN.0;
        loop {
            let (kinds, doubts) = tokio::select! {
                changes = self.talk.changes(SETTLE) => changes,
                () = sleep(pause), if self.talk.keeps_its_tools() => {
                    pause = (pause * 2).min(ASK_AGAIN.1);
                    self.talk.tools_changed();
                    continue;
                }
                () = &mut hearing => unreachable!("it waits for ever"),
            };
            let mut said = Vec::new();
            let mut tools = None;
            for kind in kinds {
                said.extend(Change::of_kind(kind));
                match discover::read_list(
                    &self.talk,
                    revision,
                    kind,
                    &self.plan.name,
                    offer.items(kind),
                )
                .await
                {
                    Ok(mut list) => {
                        if kind == ItemKind::Tool {
                            tools = Some(self.told(list.refused.take()));
                        }
                        list.put_into(&mut offer, kind);
                    }
                    Err(fault) => {
                        let why = chain(&fault);
                        tracing::warn!(backend = %self.plan.name, "could not read its changed list: {why}");
                        if kind == ItemKind::Tool {
                            tools = Some(Err(why));
                        }
                    }
                }
            }
            self.plan.publisher.publish_changed(offer.clone(), &said);
            // After that: whoever waits for it is confirmed by what is published.
            self.talk.settle(doubts, tools);
            if !self.talk.keeps_its_tools() {
                pause = ASK_AGAIN.0;
            }
        }
    }

    /// Whether it gave its list of tools; says so where it did not.
    fn told(&self, refused: Option<String>) -> Result<(), String> {
        let Some(why) = refused else {
            return Ok(());
        };
        tracing::warn!(backend = %self.plan.name, "it does not give its list of tools, which is taken to be as it was: {why}");
        Err(why)
    }

    /// Keeps the child informed of which resources callers want to hear of. Never ends.
    async fn hear_of_resources(&self, modern: bool, subscribe: bool) {
        let publisher = &self.plan.publisher;
        // What was said between two lives was heard by nobody.
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
                        // What was said between two of them was heard by nobody.
                        publisher.missed();
                    };
                    self.talk.listen(&uris, &tasks, begun).await;
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
        let why = match self.talk.request(method, params).await {
            Ok(Outcome::Result(_)) => return,
            Ok(Outcome::Error(error)) => error.string("message").unwrap_or_default().into_owned(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(backend = %self.plan.name, uri, "could not subscribe: {why}");
    }
}

/// Runs what is left of a future that may have ended before.
async fn rest<F: FusedFuture + Unpin>(work: &mut F) {
    if !work.is_terminated() {
        work.await;
    }
}

/// A fault with its causes, for operators.
fn chain(fault: &Fault) -> String {
    let mut text = fault.to_string();
    let mut source = std::error::Error::source(fault);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
