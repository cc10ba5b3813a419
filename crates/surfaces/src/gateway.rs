//! State shared by all surfaces: the walk, the catalog, the limits, and whether the gateway is draining.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use futures_util::future::BoxFuture;
use sentinel_core::audit::AuditStore;
use sentinel_core::catalog::Registry;
use sentinel_core::identity::KeyStore;
use sentinel_core::park::{Continuations, ParkedCalls};
use sentinel_core::seal::{Sealer, random_id};
use sentinel_core::{Auditor, Fault, Policy, Walk, walk};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::http::admin::audit::verify::Verified;
use crate::http::admin::config_file::{Checked, ConfigFile, ReplaceRequest};
use crate::http::admin::import::{FoundServers, ImportAnswer, ImportRequest};
use crate::http::admin::reload::Reloaded;
use crate::http::{Jobs, Pace, Replayable, Replays};

/// Bounds on the memory and work that callers can cause; each has a key in the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// One HTTP request body.
    pub body_bytes_max: usize,
    /// One HTTP request head, and its fields.
    pub head_bytes_max: usize,
    pub head_fields_max: usize,
    /// Time limits of HTTP peers.
    pub pace: Pace,
    /// One line on stdio.
    pub line_bytes_max: usize,
    pub json_depth_max: u32,
    /// Concurrent legacy sessions.
    pub sessions_max: usize,
    pub session_idle: Duration,
    /// Open event streams at once.
    pub streams_max: usize,
    /// The bound per caller, where callers are authenticated.
    pub streams_per_caller_max: usize,
    /// Bytes that a slow reader of a stream may leave unread, answers excluded. Read once.
    pub stream_bytes_max: usize,
    /// Longest time for a caller's answer to a question.
    pub park_ttl: Duration,
    /// Answers that are kept by idempotency key.
    pub replays: Replayable,
    /// How long somebody is signed in to the console.
    pub console_session: Duration,
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
            replays: Replayable::default(),
            console_session: Duration::from_secs(12 * 3600),
        }
    }
}

impl Limits {
    /// The default share of one caller: a sixteenth, as for sessions, but enough for the windows of one person.
    pub fn streams_per_caller(streams: usize) -> usize {
        (streams / 16).max(64)
    }
}

/// Operations of the program around the gateway, for operators.
pub trait Control: Send + Sync {
    /// Reads the configuration again and applies it; the fault names every mistake in it.
    fn reload(&self) -> BoxFuture<'static, Result<Reloaded, Fault>>;

    /// The configuration in force, without secrets.
    fn config(&self) -> Value;

    /// Connects to an MCP server that an operator named. The gateway of the answer has this one backend and no limits; it
    /// ends with [`sentinel_core::Backend::stop`]. Refused where the configuration does not allow it.
    fn visit(&self, url: &str, bearer: Option<&str>) -> Result<Arc<Gateway>, Fault>;

    /// The configuration file, and where each value in force comes from.
    fn config_file(&self) -> BoxFuture<'static, Result<ConfigFile, Fault>>;

    /// The mistakes of a configuration, and what a reload of it would do.
    fn check_config(&self, text: String) -> BoxFuture<'static, Result<Checked, Fault>>;

    /// Replaces the configuration file and applies it; the fault names every mistake, and nothing was changed.
    fn replace_config(&self, new: ReplaceRequest) -> BoxFuture<'static, Result<Reloaded, Fault>>;

    /// The servers in the files of this machine's MCP clients.
    fn found_servers(&self) -> BoxFuture<'static, Result<FoundServers, Fault>>;

    /// Servers of a client's file as backends, added to the configuration if that is asked.
    fn import(&self, request: ImportRequest) -> BoxFuture<'static, Result<ImportAnswer, Fault>>;

    /// Ends a backend and keeps it down.
    fn stop_backend(&self, name: String, reason: String) -> BoxFuture<'static, Result<(), Fault>>;

    /// Starts a backend that was kept down.
    fn start_backend(&self, name: String) -> BoxFuture<'static, Result<(), Fault>>;

    /// The store of API keys.
    fn key_store(&self) -> Arc<dyn KeyStore>;

    /// The store of audit records, if records are kept.
    fn records(&self) -> Option<Arc<dyn AuditStore>>;

    /// Verifies the chains of all records, if records are kept.
    fn verify_records(&self) -> BoxFuture<'static, Result<Verified, Fault>>;
}

/// This run of the gateway: counters begin anew with it.
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) began: Instant,
}

impl Run {
    fn begin() -> Self {
        Self {
            id: random_id(),
            began: Instant::now(),
        }
    }
}

pub struct Gateway {
    pub registry: Arc<Registry>,
    pub policy: Arc<Policy>,
    pub walk: Walk,
    pub auditor: Arc<Auditor>,
    limits: ArcSwap<Limits>,
    pub(crate) sealer: Sealer,
    pub(crate) parked_calls: ParkedCalls,
    pub(crate) continuations: Continuations,
    pub(crate) replays: Arc<Replays>,
    pub(crate) jobs: Arc<Jobs>,
    control: OnceLock<Arc<dyn Control>>,
    pub(crate) run: Run,
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
            parked_calls: ParkedCalls::new(limits.park_ttl),
            continuations: Continuations::default(),
            replays: Arc::default(),
            jobs: Arc::default(),
            limits: ArcSwap::from_pointee(limits),
            sealer: Sealer::new(),
            control: OnceLock::new(),
            run: Run::begin(),
            draining: watch::Sender::new(false),
        })
    }

    /// A random name of this run of the gateway.
    pub fn boot_id(&self) -> &str {
        &self.run.id
    }

    /// The bounds in force.
    pub fn limits(&self) -> Guard<Arc<Limits>> {
        self.limits.load()
    }

    /// Time limits of HTTP peers.
    pub(crate) fn pace(&self) -> Pace {
        self.limits.load().pace
    }

    /// Sets the bounds for new connections, requests, sessions and questions; existing ones keep theirs.
    pub fn set_limits(&self, limits: Limits) {
        self.parked_calls.set_ttl(limits.park_ttl);
        self.limits.store(Arc::new(limits));
    }

    /// Sets the operations of the program. Once.
    pub fn controlled_by(&self, control: Arc<dyn Control>) {
        let _ = self.control.set(control);
    }

    pub(crate) fn control(&self) -> Option<&Arc<dyn Control>> {
        self.control.get()
    }

    /// Starts draining: readiness fails, streams end in order, and connections close after their current request.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Resolves when draining has begun.
    pub async fn drained(&self) {
        let mut draining = self.draining.subscribe();
        let _ = draining.wait_for(|draining| *draining).await;
    }

    /// Drops expired parked calls; called every few seconds.
    pub fn sweep(&self) {
        self.parked_calls.sweep();
        self.replays.sweep();
        self.jobs.sweep(self.limits().park_ttl);
    }
}
