//! One request on its way to becoming a record.

mod spans;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use sentinel_wire::{Method, Outcome, Params, Revision, json, meta};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::doorstep::{Doorstep, Knocks};
use super::record::{Draft, Guarantee, Surface};
use super::redact::{Said, without_userinfo};
use super::{Arguments, NotKept, Sink};
use crate::caller::Caller;
use crate::fault::{Fault, Kind};
use crate::identity::Identity;
use crate::metrics::{Metrics, STATUSES};
use crate::operation::Operation;
use crate::reply::Reply;
use crate::trace::{Spans, Traced};

const NS_PER_MS: u64 = 1_000_000;

/// Opens entries; one per gateway.
pub struct Auditor {
    pub metrics: Arc<Metrics>,
    sink: Option<Arc<dyn Sink>>,
    keeps: ArcSwap<Keeps>,
    policy_version: AtomicU64,
    doorstep: Doorstep,
    spans: OnceLock<Arc<dyn Spans>>,
}

/// What is kept of a request, and how surely; a reload may change it.
#[derive(Clone, Debug, Default)]
pub struct Keeps {
    pub arguments: Arguments,
    pub guarantee: Guarantee,
    /// By the backends' places, where it differs.
    pub by_backend: Vec<Option<Guarantee>>,
}

/// What a surface has read.
pub struct Request<'a> {
    pub surface: Surface,
    /// The id as it was sent; `None` where none could be read.
    pub id: Option<&'a [u8]>,
    pub method: Option<&'a Method>,
    pub params: Option<&'a Params>,
    pub bytes_in: usize,
    /// The header of that name, where there are headers.
    pub traceparent: Option<&'a [u8]>,
}

/// What is known of a request, shared by the surface that answers it and the walk it takes.
#[derive(Default)]
pub struct Trail {
    facts: Option<Facts>,
    /// Where the catalog sent it.
    went: OnceLock<Arc<Operation>>,
    dispatched: AtomicBool,
    /// When, where somebody collects spans.
    dispatched_at: OnceLock<Instant>,
    intent: AtomicU64,
    refused: OnceLock<Kind>,
    /// What it is about, where the request's own members do not say.
    about: OnceLock<Box<str>>,
    /// For how many seconds a piece of the answer may wait; 0 if it cannot come in pieces.
    patience_s: AtomicU32,
}

/// A short text, which needs no allocation of its own.
struct Text(SmallVec<[u8; 32]>);

impl Text {
    fn of(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }

    /// What a caller sent was scanned before, so it is UTF-8.
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

struct Facts {
    surface: Surface,
    request_id: Text,
    method: Option<Method>,
    operation: Text,
    arguments: Said,
    at_ns: u64,
    began: Instant,
    bytes_in: usize,
    traced: Traced,
}

/// Every word that a record's `outcome` may be: how requests end, and two of `sync`, for a call that was begun and one
/// whose end nobody knows.
pub const OUTCOMES: [&str; STATUSES.len() + 2] = {
    let mut all = ["intent"; STATUSES.len() + 2];
    all[STATUSES.len() + 1] = "unknown";
    let mut at = 0;
    while at < STATUSES.len() {
        all[at] = STATUSES[at];
        at += 1;
    }
    all
};

/// How a request ended.
#[derive(Clone, Copy)]
pub enum Ending {
    /// The gateway or the backend answered.
    Success,
    /// The backend's tool said `isError`, or the backend answered with an error of its own.
    BackendError,
    /// The caller is asked for input first.
    InputRequired,
    Refused(Kind),
}

impl Ending {
    pub fn of(outcome: &Result<Reply, Fault>) -> Self {
        match outcome {
            Err(fault) => Self::Refused(fault.kind),
            Ok(Reply {
                outcome: Outcome::Error(_),
                ..
            }) => Self::BackendError,
            Ok(Reply {
                outcome: Outcome::Result(result),
                ..
            }) => {
                if result.get("isError") == Some(b"true") {
                    Self::BackendError
                } else if result.get("resultType") == Some(br#""input_required""#) {
                    Self::InputRequired
                } else {
                    Self::Success
                }
            }
        }
    }

    /// The outcome and the kind, as records and metrics name them.
    fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::Success => ("success", ""),
            Self::BackendError => ("error", "backend_error"),
            Self::InputRequired => ("input_required", ""),
            Self::Refused(kind) => {
                let kind = kind.as_str();
                let outcome = match kind {
                    "unauthorized" | "forbidden" | "unknown_name" | "unknown_resource" => "denied",
                    "rate_limited" | "circuit_open" | "overloaded" | "cancelled" => kind,
                    "disabled" => "killed",
                    _ => "error",
                };
                (outcome, kind)
            }
        }
    }
}

impl Auditor {
    pub fn new(metrics: Arc<Metrics>, sink: Option<Arc<dyn Sink>>, keeps: Keeps) -> Arc<Self> {
        let this = Self {
            metrics,
            sink,
            keeps: ArcSwap::default(),
            policy_version: AtomicU64::new(0),
            doorstep: Doorstep::default(),
            spans: OnceLock::new(),
        };
        this.keep(keeps);
        Arc::new(this)
    }

    /// What is kept of requests from now on.
    pub fn keep(&self, mut keeps: Keeps) {
        if self.sink.is_none() {
            keeps.arguments = Arguments::Off;
        }
        self.keeps.store(Arc::new(keeps));
    }

    /// Requests from now on are spans, too.
    pub fn trace_to(&self, spans: Arc<dyn Spans>) {
        let _ = self.spans.set(spans);
    }

    /// Records from now on say that this version of the policy decided.
    pub fn governed_by(&self, version: u64) {
        self.policy_version.store(version, Ordering::Relaxed);
    }

    /// Somebody was not let in; what it wanted was not even read.
    pub fn turned_away(&self, address: IpAddr, kind: Kind) {
        let (outcome, word) = Ending::Refused(kind).words();
        let took = Duration::ZERO;
        self.metrics.ended(None, "", "", outcome, word, took);
        if self.sink.is_some() {
            let told = self.doorstep.knock(address, kind, now_ms() / 1000);
            told.iter().for_each(|knocks| self.knocked(knocks));
        }
    }

    /// Called every second: records those who were turned away in the seconds before.
    pub fn sweep(&self) {
        let over = self.doorstep.sweep(now_ms() / 1000);
        over.iter().for_each(|knocks| self.knocked(knocks));
    }

    /// The same at the end, when there is no next second.
    pub fn close(&self) {
        let over = self.doorstep.sweep(u64::MAX);
        over.iter().for_each(|knocks| self.knocked(knocks));
    }

    fn knocked(&self, knocks: &Knocks) {
        let Some(sink) = &self.sink else { return };
        let (outcome, kind) = Ending::Refused(knocks.kind).words();
        let (address, count) = (knocks.address, knocks.count);
        sink.append(&Draft {
            at_ms: knocks.second * 1000,
            surface: Surface::Http.as_str(),
            role: "-",
            decision: "deny",
            outcome,
            kind,
            args: Some(&format!(r#"{{"address":"{address}","count":{count}}}"#)),
            policy_version: self.policy_version.load(Ordering::Relaxed),
            guarantee: self.keeps.load().guarantee,
            ..Draft::default()
        });
    }

    /// Counts, but keeps no records.
    pub fn off() -> Arc<Self> {
        Self::new(Arc::default(), None, Keeps::default())
    }

    /// A request was read.
    pub fn open(self: &Arc<Self>, request: &Request<'_>) -> Entry {
        let params = request.params;
        let named = request.method.and_then(Method::name_member);
        let operation = named.and_then(|member| params?.string(member));
        let operation = operation.unwrap_or_default();
        let keeps = self.keeps.load().arguments;
        // A URI may name a password.
        let blanked = match keeps {
            Arguments::Full => None,
            _ => without_userinfo(&operation),
        };
        let operation = blanked.as_deref().unwrap_or(&operation);
        let arguments = params.and_then(|params| params.get("arguments"));
        let facts = Facts {
            surface: request.surface,
            request_id: Text::of(request.id.unwrap_or_default()),
            method: request.method.cloned(),
            operation: Text::of(operation.as_bytes()),
            arguments: keeps.of(arguments),
            at_ns: now_ns(),
            began: Instant::now(),
            bytes_in: request.bytes_in,
            traced: self.traced(request),
        };
        let trail = Trail {
            facts: Some(facts),
            ..Trail::default()
        };
        Entry {
            auditor: self.clone(),
            trail: Arc::new(trail),
            who: None,
            has_ended: false,
        }
    }

    fn traced(&self, request: &Request<'_>) -> Traced {
        let said = request
            .params
            .and_then(|params| params.meta(meta::TRACEPARENT));
        let collected = self.spans.get().is_some();
        if !collected && request.traceparent.is_none() {
            return Traced::default();
        }
        let said = said.and_then(json::decode_string);
        let said = said.as_deref().map(str::as_bytes);
        Traced::new(collected, said, request.traceparent)
    }

    fn guarantee(&self, trail: &Trail) -> Guarantee {
        let keeps = self.keeps.load();
        let went = trail.went.get();
        went.and_then(|went| *keeps.by_backend.get(went.index)?)
            .unwrap_or(keeps.guarantee)
    }

    /// For the guarantee `sync`: the future that puts the intent on disk. `None` for the others.
    pub(crate) fn intend(
        &self,
        trail: &Arc<Trail>,
        caller: &Caller,
    ) -> Option<impl Future<Output = Result<(), NotKept>> + Send + 'static> {
        let sink = self.sink.as_ref()?;
        if self.guarantee(trail) != Guarantee::Sync {
            return None;
        }
        let draft = Draft {
            caller: &caller.subject,
            role: &caller.role,
            tenant: caller.tenant.as_deref().unwrap_or_default(),
            revision: caller.revision.as_str(),
            decision: "allow",
            outcome: "intent",
            guarantee: Guarantee::Sync,
            policy_version: self.policy_version.load(Ordering::Relaxed),
            ..trail.draft()
        };
        let (kept, trail) = (sink.intend(&draft), trail.clone());
        Some(async move {
            trail.intent.store(kept.await?, Ordering::Relaxed);
            Ok(())
        })
    }
}

fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

fn now_ms() -> u64 {
    now_ns() / NS_PER_MS
}

impl Trail {
    /// The catalog knows where it goes.
    pub(crate) fn resolved(&self, operation: &Arc<Operation>) {
        let _ = self.went.set(operation.clone());
    }

    /// Nothing stands between the call and its backend any more.
    pub(crate) fn dispatched(&self) {
        self.dispatched.store(true, Ordering::Relaxed);
        if self
            .facts
            .as_ref()
            .is_some_and(|f| f.traced.spans.is_some())
        {
            let _ = self.dispatched_at.set(Instant::now());
        }
    }

    /// Its connector turned it back: the backend heard nothing of it.
    pub(crate) fn turned_back(&self) {
        self.dispatched.store(false, Ordering::Relaxed);
    }

    /// The `traceparent` that the backend is told, where it is not what the request says itself.
    pub fn traceparent(&self) -> Option<&str> {
        self.facts.as_ref()?.traced.onward.as_deref()
    }

    /// For how long a piece of the answer may wait, if whoever asked takes it in pieces.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let seconds = self.patience_s.load(Ordering::Relaxed);
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Whoever drops the entry refused the request for this reason.
    pub fn refuse(&self, kind: Kind) {
        let _ = self.refused.set(kind);
    }

    /// What the request turned out to be about.
    pub fn about(&self, what: &str) {
        let _ = self.about.set(what.into());
    }

    /// This request goes on with a call that an earlier one began.
    pub fn continues(&self, earlier: &Self) {
        if let Some(went) = earlier.went.get() {
            let _ = self.went.set(went.clone());
        }
        if earlier.dispatched.load(Ordering::Relaxed) {
            self.dispatched();
        }
        let intent = earlier.intent.load(Ordering::Relaxed);
        self.intent.store(intent, Ordering::Relaxed);
    }

    fn draft(&self) -> Draft<'_> {
        let backend = self.went.get().map_or("", |went| &*went.backend);
        let Some(facts) = &self.facts else {
            return Draft::default();
        };
        Draft {
            at_ms: facts.at_ns / NS_PER_MS,
            request_id: facts.request_id.as_str(),
            surface: facts.surface.as_str(),
            method: facts.method.as_ref().map_or("", Method::as_str),
            backend,
            operation: match self.about.get() {
                Some(about) => about,
                None => facts.operation.as_str(),
            },
            bytes_in: facts.bytes_in as u64,
            args_digest: facts.arguments.digest,
            args: facts.arguments.text.as_deref(),
            ..Draft::default()
        }
    }
}

/// The record in the making. Whoever answers finishes it; dropping it means nobody was left to.
pub struct Entry {
    auditor: Arc<Auditor>,
    trail: Arc<Trail>,
    who: Option<Who>,
    has_ended: bool,
}

/// As whom a request came, as far as that is known.
struct Who {
    subject: Arc<str>,
    role: Arc<str>,
    tenant: Option<Arc<str>>,
    /// Of the protocol; `None` until the request or its session said.
    revision: Option<Revision>,
}

impl Entry {
    /// For the walk.
    pub fn trail(&self) -> Arc<Trail> {
        self.trail.clone()
    }

    /// A large answer may come in pieces, each of which waits for so many seconds at most.
    pub fn takes_pieces(&self, patience_s: u32) {
        self.trail.patience_s.store(patience_s, Ordering::Relaxed);
    }

    /// Who was let in, before anything is known about what it speaks.
    pub fn from(&mut self, identity: &Identity) {
        self.who = Some(Who {
            subject: identity.subject.clone(),
            role: identity.role.clone(),
            tenant: identity.tenant.clone(),
            revision: None,
        });
    }

    /// Who it is, once known.
    pub fn by(&mut self, caller: &Caller) {
        self.who = Some(Who {
            subject: caller.subject.clone(),
            role: caller.role.clone(),
            tenant: caller.tenant.clone(),
            revision: Some(caller.revision),
        });
    }

    /// The answer is ready and has not left: it must not before this returns.
    pub fn finish(mut self, ending: &Ending, bytes_out: usize) {
        self.end(ending, bytes_out);
    }

    fn end(&mut self, ending: &Ending, bytes_out: usize) {
        self.has_ended = true;
        let trail = &self.trail;
        let began = trail.facts.as_ref().map(|facts| facts.began);
        let latency = began.map_or(Duration::ZERO, |began| began.elapsed());
        let dispatched = trail.dispatched.load(Ordering::Relaxed);
        // What we refused and answered with a result is still a refusal.
        let refused = trail.refused.get().filter(|_| !dispatched);
        let refused = refused.map(|kind| Ending::Refused(*kind));
        let ending = refused.as_ref().unwrap_or(ending);
        let (outcome, kind) = ending.words();
        let refused = match ending {
            // Whoever left was not turned away.
            Ending::Refused(kind) => *kind != Kind::Cancelled,
            _ => false,
        };
        if let Some(facts) = &trail.facts {
            let went = trail.went.get();
            let (backend, own_name) = went.map_or(("", ""), |went| (&*went.backend, &*went.own));
            self.auditor.metrics.ended(
                facts.method.as_ref(),
                backend,
                own_name,
                outcome,
                kind,
                latency,
            );
            if let Some(spans) = self.auditor.spans.get() {
                self.trace(&**spans, facts, (outcome, kind), latency);
            }
        }
        let Some(sink) = &self.auditor.sink else {
            return;
        };
        // Filled where it lies, for a draft is large and made for every call.
        let mut draft = trail.draft();
        draft.role = "-";
        if let Some(who) = &self.who {
            draft.caller = &who.subject;
            draft.role = &who.role;
            draft.tenant = who.tenant.as_deref().unwrap_or_default();
            draft.revision = who.revision.map_or("", Revision::as_str);
        }
        (draft.outcome, draft.kind) = (outcome, kind);
        let is_denied = refused && !dispatched;
        draft.decision = if is_denied { "deny" } else { "allow" };
        draft.latency_us = latency.as_micros() as u64;
        draft.bytes_out = bytes_out as u64;
        draft.guarantee = self.auditor.guarantee(trail);
        draft.intent = trail.intent.load(Ordering::Relaxed);
        draft.policy_version = self.auditor.policy_version.load(Ordering::Relaxed);
        sink.append(&draft);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let refused = self.trail.refused.get();
        // Nobody waits for it any more.
        let kind = refused.copied().unwrap_or(Kind::Cancelled);
        self.end(&Ending::Refused(kind), 0);
    }
}
