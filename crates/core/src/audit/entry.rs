//! A request's audit entry, from reading the request to its record.

mod ending;
mod spans;
mod trail;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use sentinel_wire::{Method, Params, Revision, json, meta};
use tokio::time::Instant;

pub use self::ending::{Ending, OUTCOMES};
pub use self::trail::AuditTrail;

use self::ending::REPLAYED;
use self::trail::{Facts, Text};
use super::record::{Draft, Guarantee, Surface};
use super::redact::without_userinfo;
use super::rejections::{RejectionCount, Rejections};
use super::story::Stories;
use super::{Arguments, NotKept, Sink};
use crate::caller::Caller;
use crate::fault::Kind;
use crate::identity::Identity;
use crate::metrics::Metrics;
use crate::trace::{Context, Spans, Traced};

const NS_PER_MS: u64 = 1_000_000;

/// Opens entries; one per gateway.
pub struct Auditor {
    pub metrics: Arc<Metrics>,
    pub stories: Arc<Stories>,
    sink: Option<Arc<dyn Sink>>,
    settings: ArcSwap<AuditSettings>,
    policy_version: AtomicU64,
    rejections: Rejections,
    spans: OnceLock<Arc<dyn Spans>>,
}

/// Which arguments are recorded, and with which guarantee; a reload may change it.
#[derive(Clone, Debug, Default)]
pub struct AuditSettings {
    pub arguments: Arguments,
    pub guarantee: Guarantee,
    /// By backend slot, where it differs.
    pub by_backend: Vec<Option<Guarantee>>,
}

/// The request as a surface read it.
pub struct Request<'a> {
    pub surface: Surface,
    /// The id as it was sent; `None` if unreadable.
    pub id: Option<&'a [u8]>,
    pub method: Option<&'a Method>,
    pub params: Option<&'a Params>,
    pub bytes_in: usize,
    /// The header of that name, if any.
    pub traceparent: Option<&'a [u8]>,
}

impl Auditor {
    pub fn new(
        metrics: Arc<Metrics>,
        sink: Option<Arc<dyn Sink>>,
        settings: AuditSettings,
    ) -> Arc<Self> {
        let this = Self {
            metrics,
            stories: Arc::default(),
            sink,
            settings: ArcSwap::default(),
            policy_version: AtomicU64::new(0),
            rejections: Rejections::default(),
            spans: OnceLock::new(),
        };
        this.reconfigure(settings);
        Arc::new(this)
    }

    /// Sets what is recorded of later requests.
    pub fn reconfigure(&self, mut settings: AuditSettings) {
        if self.sink.is_none() {
            settings.arguments = Arguments::Off;
        }
        self.settings.store(Arc::new(settings));
    }

    /// Reports later requests as spans, too.
    pub fn trace_to(&self, spans: Arc<dyn Spans>) {
        let _ = self.spans.set(spans);
    }

    /// Sets the policy version of later records.
    pub fn governed_by(&self, version: u64) {
        self.policy_version.store(version, Ordering::Relaxed);
    }

    /// Records a request that was rejected unread.
    pub fn turned_away(&self, address: IpAddr, kind: Kind) {
        let (outcome, word) = Ending::Refused(kind).words();
        let took = Duration::ZERO;
        self.metrics.ended(None, "", "", outcome, word, took);
        if self.sink.is_some() {
            let told = self.rejections.count_one(address, kind, now_ms() / 1000);
            told.iter()
                .for_each(|rejections| self.record_rejections(rejections));
        }
    }

    /// Called every second: records the rejections of earlier seconds, and ends the noting of stories that nobody watches.
    pub fn sweep(&self) {
        self.stories.sweep();
        let over = self.rejections.sweep(now_ms() / 1000);
        over.iter()
            .for_each(|rejections| self.record_rejections(rejections));
    }

    /// Records the remaining rejections at shutdown.
    pub fn close(&self) {
        let over = self.rejections.sweep(u64::MAX);
        over.iter()
            .for_each(|rejections| self.record_rejections(rejections));
    }

    fn record_rejections(&self, rejections: &RejectionCount) {
        let Some(sink) = &self.sink else { return };
        let (outcome, kind) = Ending::Refused(rejections.kind).words();
        let (address, count) = (rejections.address, rejections.count);
        sink.append(&Draft {
            at_ms: rejections.second * 1000,
            surface: Surface::Http.as_str(),
            role: "-",
            decision: "deny",
            outcome,
            kind,
            args: Some(&format!(r#"{{"address":"{address}","count":{count}}}"#)),
            policy_version: self.policy_version.load(Ordering::Relaxed),
            guarantee: self.settings.load().guarantee,
            ..Draft::default()
        });
    }

    /// Counts requests, but records none.
    pub fn off() -> Arc<Self> {
        Self::new(Arc::default(), None, AuditSettings::default())
    }

    /// Opens the entry of a request that was read.
    pub fn open(self: &Arc<Self>, request: &Request<'_>) -> Entry {
        let params = request.params;
        let named = request.method.and_then(Method::name_member);
        let operation = named.and_then(|member| params?.string(member));
        let operation = operation.unwrap_or_default();
        let settings = self.settings.load().arguments;
        // A URI may contain a password.
        let blanked = match settings {
            Arguments::Full => None,
            _ => without_userinfo(&operation),
        };
        let operation = blanked.as_deref().unwrap_or(&operation);
        let arguments = params.and_then(|params| params.get("arguments"));
        let (at_ns, began) = (now_ns(), Instant::now());
        let traced = self.traced(request);
        let trace = || traced.trace().or_else(|| trace_of(request));
        let notes = self.stories.begin(began, at_ns / NS_PER_MS, trace);
        let facts = Facts {
            surface: request.surface,
            request_id: Text::of(request.id.unwrap_or_default()),
            method: request.method.cloned(),
            operation: Text::of(operation.as_bytes()),
            arguments: settings.of(arguments),
            at_ns,
            began,
            bytes_in: request.bytes_in,
            traced,
        };
        let trail = AuditTrail {
            facts: Some(facts),
            notes,
            ..AuditTrail::default()
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

    fn guarantee(&self, trail: &AuditTrail) -> Guarantee {
        let settings = self.settings.load();
        let went = trail.went.get();
        went.and_then(|went| *settings.by_backend.get(went.index)?)
            .unwrap_or(settings.guarantee)
    }

    /// For the guarantee `sync`: the future that puts the intent on disk. `None` for the others.
    pub(crate) fn intend(
        &self,
        trail: &Arc<AuditTrail>,
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

/// The trace that a caller names.
fn trace_of(request: &Request<'_>) -> Option<[u8; 16]> {
    let params = request.params;
    let said = params.and_then(|params| json::decode_string(params.meta(meta::TRACEPARENT)?));
    let said = said.and_then(|said| Context::parse(said.as_bytes()));
    let context = said.or_else(|| Context::parse(request.traceparent?));
    context.map(|context| context.trace)
}

fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

fn now_ms() -> u64 {
    now_ns() / NS_PER_MS
}

/// An unfinished record. Dropping it records that the caller left.
pub struct Entry {
    auditor: Arc<Auditor>,
    trail: Arc<AuditTrail>,
    who: Option<RecordedCaller>,
    has_ended: bool,
}

/// The caller of a request, as far as known.
struct RecordedCaller {
    subject: Arc<str>,
    role: Arc<str>,
    tenant: Option<Arc<str>>,
    /// The protocol revision; `None` until the request or its session named it.
    revision: Option<Revision>,
}

impl Entry {
    /// The trail for the walk.
    pub fn trail(&self) -> Arc<AuditTrail> {
        self.trail.clone()
    }

    /// Allows a large answer in pieces, each of which may wait for this many seconds.
    pub fn takes_pieces(&self, patience_s: u32) {
        self.trail.patience_s.store(patience_s, Ordering::Relaxed);
    }

    /// Notes the authenticated identity.
    pub fn from(&mut self, identity: &Identity) {
        self.who = Some(RecordedCaller {
            subject: identity.subject.clone(),
            role: identity.role.clone(),
            tenant: identity.tenant.clone(),
            revision: None,
        });
    }

    /// Notes the caller.
    pub fn by(&mut self, caller: &Caller) {
        self.who = Some(RecordedCaller {
            subject: caller.subject.clone(),
            role: caller.role.clone(),
            tenant: caller.tenant.clone(),
            revision: Some(caller.revision),
        });
    }

    /// Records the outcome. The answer must not be sent before this returns.
    pub fn finish(mut self, ending: &Ending, bytes_out: usize) {
        self.end(ending, bytes_out);
    }

    fn end(&mut self, ending: &Ending, bytes_out: usize) {
        self.has_ended = true;
        let trail = &self.trail;
        let began = trail.facts.as_ref().map(|facts| facts.began);
        let latency = began.map_or(Duration::ZERO, |began| began.elapsed());
        let dispatched = trail.dispatched.load(Ordering::Relaxed);
        // A refusal that the gateway answered with a result is still recorded as a refusal.
        let refused = trail.refused.get().filter(|_| !dispatched);
        let refused = refused.map(|kind| Ending::Refused(*kind));
        let ending = refused.as_ref().unwrap_or(ending);
        let (outcome, kind) = ending.words();
        let refused = match ending {
            // A caller that left was not rejected.
            Ending::Refused(kind) => *kind != Kind::Cancelled,
            _ => false,
        };
        if let Some(facts) = &trail.facts {
            let went = trail.went.get();
            let (backend, own_name) = went.map_or(("", ""), |went| (&*went.backend, &*went.own));
            // A replay is no failure of its own.
            let failure = if kind == REPLAYED { "" } else { kind };
            self.auditor.metrics.ended(
                facts.method.as_ref(),
                backend,
                own_name,
                outcome,
                failure,
                latency,
            );
            if let Some(spans) = self.auditor.spans.get() {
                self.trace(&**spans, facts, (outcome, kind), latency);
            }
        }
        let Some(sink) = &self.auditor.sink else {
            return;
        };
        // Filled in place, since a draft is large and made for every call.
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
        if let Some(notes) = trail.notes() {
            self.auditor.stories.keep(&draft, notes);
        }
        sink.append(&draft);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let refused = self.trail.refused.get();
        // Nobody waits for this record.
        let kind = refused.copied().unwrap_or(Kind::Cancelled);
        self.end(&Ending::Refused(kind), 0);
    }
}
