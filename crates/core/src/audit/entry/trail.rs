//! The facts about one request.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sentinel_wire::Method;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::super::record::{Draft, Surface};
use super::super::redact::RecordedArguments;
use super::super::story::{Notes, StepName};
use super::NS_PER_MS;
use crate::fault::Kind;
use crate::operation::Operation;
use crate::trace::Traced;

/// The facts about a request, shared by the surface that answers it and its walk.
#[derive(Default)]
pub struct AuditTrail {
    pub(super) facts: Option<Facts>,
    /// The story of the request, while somebody watches.
    pub(super) notes: Option<Arc<Notes>>,
    /// That of the call which the request continues.
    pub(super) continued: OnceLock<Arc<Notes>>,
    /// The operation it resolved to.
    pub(super) went: OnceLock<Arc<Operation>>,
    pub(super) dispatched: AtomicBool,
    /// When it was sent to its backend, where spans are collected or the caller is told.
    pub(super) dispatched_at: OnceLock<Instant>,
    pub(super) is_timed: AtomicBool,
    pub(super) intent: AtomicU64,
    pub(super) refused: OnceLock<Kind>,
    /// The target, where the request's own members do not name it.
    pub(super) about: OnceLock<Box<str>>,
    /// Seconds that a piece of the answer may wait; 0 if the answer must be whole.
    pub(super) patience_s: AtomicU32,
}

/// A short text, stored inline.
pub(super) struct Text(SmallVec<[u8; 32]>);

impl Text {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }

    /// Callers' texts were scanned before, so this is UTF-8.
    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

pub(super) struct Facts {
    pub(super) surface: Surface,
    pub(super) request_id: Text,
    pub(super) method: Option<Method>,
    pub(super) operation: Text,
    pub(super) arguments: RecordedArguments,
    pub(super) at_ns: u64,
    pub(super) began: Instant,
    pub(super) bytes_in: usize,
    pub(super) traced: Traced,
}

impl AuditTrail {
    /// Notes the operation that the call resolved to.
    pub(crate) fn resolved(&self, operation: &Arc<Operation>) {
        let _ = self.went.set(operation.clone());
    }

    /// Notes that the call is being sent to its backend.
    pub(crate) fn dispatched(&self) {
        self.dispatched.store(true, Ordering::Relaxed);
        let facts = self.facts.as_ref();
        if facts.is_some_and(|facts| facts.traced.spans.is_some())
            || self.is_timed.load(Ordering::Relaxed)
        {
            let _ = self.dispatched_at.set(Instant::now());
        }
    }

    /// Whether it was handed to its backend.
    pub fn is_dispatched(&self) -> bool {
        self.dispatched.load(Ordering::Relaxed)
    }

    /// Notes that the connector refused the call: the backend did not receive it.
    pub(crate) fn turned_back(&self) {
        self.dispatched.store(false, Ordering::Relaxed);
    }

    /// The `traceparent` for the backend, where it differs from the request's own.
    pub fn traceparent(&self) -> Option<&str> {
        self.facts.as_ref()?.traced.onward.as_deref()
    }

    /// How long a piece of the answer may wait, if the caller takes it in pieces.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let seconds = self.patience_s.load(Ordering::Relaxed);
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Has the time of its stages kept.
    pub fn time(&self) {
        self.is_timed.store(true, Ordering::Relaxed);
    }

    /// When it was sent to its backend, if that is kept and it was.
    pub fn dispatched_at(&self) -> Option<Instant> {
        self.dispatched_at.get().copied()
    }

    /// Notes why the request is refused, for an entry that is then dropped.
    pub fn refuse(&self, kind: Kind) {
        let _ = self.refused.set(kind);
    }

    /// Notes the request's target.
    pub fn about(&self, what: &str) {
        let _ = self.about.set(what.into());
    }

    /// Notes that a step of the walk begins, while somebody watches.
    pub(crate) fn enters(&self, step: StepName) {
        if let Some(notes) = &self.notes {
            notes.enter(step);
        }
    }

    /// Notes that the caller is asked something.
    pub(crate) fn asked(&self) {
        if let Some(notes) = &self.notes {
            notes.asked();
        }
    }

    /// Notes that the backend is sent the request once more.
    pub fn retried(&self) {
        if let Some(notes) = &self.notes {
            notes.retried();
        }
    }

    /// The story of the call.
    pub(super) fn notes(&self) -> Option<&Arc<Notes>> {
        self.continued.get().or(self.notes.as_ref())
    }

    /// Links this request to the call that an earlier one began.
    pub fn continues(&self, earlier: &Self) {
        if let Some(notes) = earlier.notes() {
            let _ = self.continued.set(notes.clone());
        }
        if let Some(went) = earlier.went.get() {
            let _ = self.went.set(went.clone());
        }
        if earlier.dispatched.load(Ordering::Relaxed) {
            self.dispatched();
        }
        let intent = earlier.intent.load(Ordering::Relaxed);
        self.intent.store(intent, Ordering::Relaxed);
    }

    pub(super) fn draft(&self) -> Draft<'_> {
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
