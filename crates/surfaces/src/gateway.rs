//! What every surface shares: the walk, the catalog, the limits, and whether we are going down.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use futures_util::future::BoxFuture;
use sentinel_core::audit::AuditStore;
use sentinel_core::catalog::Registry;
use sentinel_core::identity::KeyStore;
use sentinel_core::park::{Continuations, Lot};
use sentinel_core::seal::Sealer;
use sentinel_core::{Auditor, Fault, Policy, Walk, walk};
use serde_json::Value;
use tokio::sync::watch;

use crate::http::Pace;
use crate::http::admin::reload::Reloaded;

/// Bounds on what callers can make us hold; each has its key in the configuration.
#[derive(Clone, Debug)]
pub struct Limits {
    /// One HTTP request body.
    pub body_bytes_max: usize,
    /// One HTTP request head, and its fields.
    pub head_bytes_max: usize,
    pub head_fields_max: usize,
    /// How slow an HTTP peer may be.
    pub pace: Pace,
    /// One line on stdio.
    pub line_bytes_max: usize,
    pub json_depth_max: u32,
    /// Legacy sessions at once.
    pub sessions_max: usize,
    pub session_idle: Duration,
    /// Open event streams at once.
    pub streams_max: usize,
    /// The same for one caller, where callers can be told apart.
    pub streams_per_caller_max: usize,
    /// What one slow reader of a stream may leave unread, answers apart. Read once.
    pub stream_bytes_max: usize,
    /// How long a caller may think about a question.
    pub park_ttl: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 4 << 20,
            head_bytes_max: 32 << 10,
            head_fields_max: 100,
            pace: Pace::default(),
            line_bytes_max: 16 << 20,
            json_depth_max: 64,
            sessions_max: 10_000,
            session_idle: Duration::from_secs(1800),
            streams_max: 20_000,
            streams_per_caller_max: Self::streams_per_caller(20_000),
            stream_bytes_max: 256 << 10,
            park_ttl: Duration::from_secs(600),
        }
    }
}

impl Limits {
    /// What one caller may have of so many streams, unless configured: a sixteenth, as of sessions, but enough for the
    /// windows of one person.
    pub fn streams_per_caller(streams: usize) -> usize {
        (streams / 16).max(64)
    }
}

/// What operators ask of the program around the gateway.
pub trait Control: Send + Sync {
    /// Reads the configuration again and puts it in force; the fault names every mistake in it.
    fn reload(&self) -> BoxFuture<'static, Result<Reloaded, Fault>>;

    /// The configuration in force, without secrets.
    fn config(&self) -> Value;

    /// Where API keys are kept.
    fn key_store(&self) -> Arc<dyn KeyStore>;

    /// Where audit records end up, if any are kept.
    fn records(&self) -> Option<Arc<dyn AuditStore>>;
}

pub struct Gateway {
    pub registry: Arc<Registry>,
    pub policy: Arc<Policy>,
    pub walk: Walk,
    pub auditor: Arc<Auditor>,
    limits: ArcSwap<Limits>,
    pub(crate) sealer: Sealer,
    pub(crate) lot: Lot,
    pub(crate) continuations: Continuations,
    control: OnceLock<Arc<dyn Control>>,
    draining: watch::Sender<bool>,
}

impl Gateway {
    pub fn new(policy: Arc<Policy>, limits: Limits, auditor: Arc<Auditor>) -> Arc<Self> {
        Arc::new(Self {
            walk: walk(policy.clone(), auditor.clone())
                .leaving_unread(limits.stream_bytes_max)
                .patient(limits.park_ttl),
            auditor,
            registry: policy.registry().clone(),
            policy,
            lot: Lot::new(limits.park_ttl),
            continuations: Continuations::default(),
            limits: ArcSwap::from_pointee(limits),
            sealer: Sealer::new(),
            control: OnceLock::new(),
            draining: watch::Sender::new(false),
        })
    }

    /// The bounds in force.
    pub fn limits(&self) -> Guard<Arc<Limits>> {
        self.limits.load()
    }

    /// How slow an HTTP peer may be.
    pub(crate) fn pace(&self) -> Pace {
        self.limits.load().pace
    }

    /// Bounds for what comes from now on: connections, requests, sessions and questions that are there keep
    /// theirs.
    pub fn set_limits(&self, limits: Limits) {
        self.lot.set_ttl(limits.park_ttl);
        self.limits.store(Arc::new(limits));
    }

    /// Operators find the program here. Once.
    pub fn controlled_by(&self, control: Arc<dyn Control>) {
        let _ = self.control.set(control);
    }

    pub(crate) fn control(&self) -> Option<&Arc<dyn Control>> {
        self.control.get()
    }

    /// From now on readiness says no, streams end in order, and connections close after their
    /// present request.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Resolves once draining began.
    pub async fn drained(&self) {
        let mut draining = self.draining.subscribe();
        let _ = draining.wait_for(|draining| *draining).await;
    }

    /// Drops what waits for callers who never came back; called every few seconds.
    pub fn sweep(&self) {
        self.lot.sweep();
    }
}
