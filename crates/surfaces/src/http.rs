//! The HTTP server: one listener for MCP, the admin API, health, readiness and metrics.
//!
//! `HttpServer` is shared by all connections; `serve` runs one of them to its end. Each connection is a task of the worker
//! that accepted it, and so is all the work of its requests.
//!
//! Not here: the processing of one request (`exchange`), the paths (`routes`), the meaning of MCP messages (`mcp`),
//! binding and accepting (the binary).

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::Stream;
use http::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use sentinel_core::policy::ADMIN;
use sentinel_core::{Caller, Fault, Identity, View, tags};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::gateway::Gateway;

pub mod admin;
mod assets;
mod auth;
mod body;
mod console;
mod cors;
pub(crate) mod documents;
mod exchange;
mod explorer;
mod guard;
mod health;
mod joined;
mod legacy;
mod listen;
mod metrics;
mod modern;
mod mounts;
mod operations;
mod pace;
mod post;
mod problems;
mod reply;
pub(crate) mod rest;
pub(crate) mod resume;
mod routes;
mod rpc;
mod running;
mod session;
mod sse2024;
mod streams;
mod timing;
mod wake_filter;

pub use auth::{Access, OAuth};
pub use guard::Allowed;
pub use metrics::Scrape;
pub use mounts::{Mounts, Serving, SurfaceName};
pub use pace::{Pace, greet};
pub use rest::Replayable;
pub(crate) use rest::{Jobs, Replays};
pub use routes::{Answers, Described, describe};

use admin::visits::Visits;
use body::Body;
use console::sign_in::SignedIn;
use session::Sessions;
use streams::{OpenStreams, StreamPlace};
use wake_filter::WakeFilter;

/// Buffer of a connection whose heads may not be larger.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// hyper's default bound on header fields. Only a different one is set, since that costs an allocation per request.
const HEAD_FIELDS_USUAL: usize = 100;

pub struct HttpServer {
    gateway: Arc<Gateway>,
    /// Which callers the current configuration admits.
    entrance: ArcSwap<Entrance>,
    sessions: Sessions,
    sse_connections: sse2024::Connections,
    streams: Arc<OpenStreams>,
    serves: Serves,
    scrape: Scrape,
    documents: documents::Documents,
    signed_in: SignedIn,
    visits: Visits,
    /// The shadowed routes that were reported.
    reported: Mutex<Vec<String>>,
}

struct Entrance {
    allowed: Allowed,
    mounts: Mounts,
    epoch: Arc<auth::AccessEpoch>,
}

/// The endpoint of a request: its view and tool filter. Sessions are bound to it.
struct Endpoint {
    view: View,
    tags: Option<tags::TagFilter>,
}

impl Entrance {
    /// For a listener whose callers need no credential.
    fn trusting(identity: Arc<Identity>) -> Self {
        Self {
            allowed: Allowed::default(),
            mounts: Mounts::default(),
            epoch: auth::AccessEpoch::new(Access::Trusted(identity)),
        }
    }
}

/// What is behind a server.
enum Serves {
    Everything,
    /// For a listener that orchestrators reach and callers must not.
    ProbesOnly {
        /// The listener for callers.
        beside: Arc<HttpServer>,
    },
    /// Everything, for the operator: the admin API requires no role.
    Operator,
}

impl HttpServer {
    pub fn new(
        gateway: Arc<Gateway>,
        allowed: Allowed,
        mounts: Mounts,
        access: Access,
        scrape: Scrape,
    ) -> Arc<Self> {
        let entrance = Entrance {
            allowed,
            mounts,
            epoch: auth::AccessEpoch::new(access),
        };
        Self::serving(Serves::Everything, gateway, entrance, scrape)
    }

    /// A listener with `/health`, `/ready` and `/metrics` only, beside the one for callers. If callers authenticate,
    /// metrics require their token here.
    pub fn probes_only(beside: &Arc<Self>) -> Arc<Self> {
        // Nobody comes further than the probes, whoever it is.
        let entrance = Entrance::trusting(Identity::local(""));
        let (gateway, scrape) = (beside.gateway.clone(), beside.scrape.clone());
        let beside = beside.clone();
        Self::serving(Serves::ProbesOnly { beside }, gateway, entrance, scrape)
    }

    /// A listener on a socket that only the gateway's own user can open.
    pub fn operator(gateway: Arc<Gateway>) -> Arc<Self> {
        let entrance = Entrance::trusting(Identity::local(ADMIN));
        Self::serving(Serves::Operator, gateway, entrance, Scrape::Open)
    }

    fn serving(
        serves: Serves,
        gateway: Arc<Gateway>,
        entrance: Entrance,
        scrape: Scrape,
    ) -> Arc<Self> {
        let sessions = Sessions::new(&gateway.limits());
        Arc::new(Self {
            gateway,
            entrance: ArcSwap::from_pointee(entrance),
            sessions,
            sse_connections: sse2024::Connections::default(),
            streams: Arc::default(),
            serves,
            scrape,
            documents: documents::Documents::default(),
            signed_in: SignedIn::default(),
            visits: Visits::default(),
            reported: Mutex::default(),
        })
    }

    /// Applies a new configuration of who may come in and what is served where. Where it has another `access`, open streams
    /// end, so that their callers show their credentials again.
    pub fn set_access(&self, allowed: Allowed, mounts: Mounts, access: Option<Access>) {
        let before = self.entrance.load_full();
        let epoch = match access {
            Some(access) => auth::AccessEpoch::new(access),
            None => before.epoch.clone(),
        };
        let same = Arc::ptr_eq(&epoch, &before.epoch);
        self.entrance.store(Arc::new(Entrance {
            allowed,
            mounts,
            epoch,
        }));
        if !same {
            before.epoch.close();
        }
    }

    /// Drives one connection to its end; after draining began it ends with its present request. `serving`: what its
    /// listener serves, where that is not everything.
    pub async fn serve(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        from: IpAddr,
        serving: Option<Arc<Serving>>,
    ) {
        let server = self.clone();
        let filter = WakeFilter::new();
        let service = service_fn(move |request| {
            let (server, filter) = (server.clone(), filter.clone());
            let serving = serving.clone();
            filter.open();
            async move {
                let mut answer = pin!(server.answer(request, from, serving.as_deref()));
                Ok::<_, Infallible>(poll_fn(|cx| filter.poll(cx, answer.as_mut())).await)
            }
        });
        // A connection opened while draining gets one request: a probe, or an answer or cancellation for a call in
        // flight.
        let late = self.gateway.is_draining();
        let limits = self.gateway.limits().clone();
        let (stream, timer) = pace::paced(stream, &limits.pace, late);
        let mut http = http1::Builder::new();
        http.header_read_timeout(timer.longest())
            .timer(timer)
            .max_buf_size(BUFFER_BYTES_MAX.max(limits.head_bytes_max))
            // The buffer alone does not bound a head, since one read may exceed it.
            .max_header_size(limits.head_bytes_max)
            .keep_alive(!late);
        if limits.head_fields_max != HEAD_FIELDS_USUAL {
            http.max_headers(limits.head_fields_max);
        }
        let connection = http.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.gateway.drained(), if !late => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!("a connection ended early: {error}");
        }
    }

    /// Calls in flight of sessions, including those whose connections are gone.
    pub fn session_calls(&self) -> usize {
        self.sessions.calls()
    }

    /// The routes of backends that are never taken.
    fn shadowed_routes(&self) -> Vec<String> {
        let registry = &self.gateway.registry;
        match registry.has_routes() {
            true => rest::shadowed(&registry.catalog(), &self.entrance.load().mounts),
            false => Vec::new(),
        }
    }

    /// Logs each of them once, for as long as it is one.
    fn report_shadowed_routes(&self) {
        let shadowed = self.shadowed_routes();
        let mut reported = self.reported.lock();
        for text in shadowed.iter().filter(|text| !reported.contains(text)) {
            tracing::warn!("{text}");
        }
        *reported = shadowed;
    }

    /// Ends expired sessions; called every few seconds.
    pub fn sweep(&self) {
        self.report_shadowed_routes();
        self.visits.sweep();
        self.end_expired_sessions();
        let metrics = &self.gateway.auditor.metrics;
        metrics
            .sessions
            .store(self.sessions.len() as u64, Ordering::Relaxed);
        let streams = self.streams.len() as u64;
        metrics.streams.store(streams, Ordering::Relaxed);
    }

    fn end_expired_sessions(&self) {
        self.sessions.bound(&self.gateway.limits());
        self.sessions.sweep();
    }

    /// Counts one more event stream of this caller, unless a bound is reached.
    fn stream_place(&self, identity: &Identity) -> Result<StreamPlace, Fault> {
        let (all_max, by_caller_max) = self.stream_bounds();
        let caller = Caller::of(identity).principal();
        self.streams.open(caller, all_max, by_caller_max)
    }

    /// Answers with an event stream, unless a bound is reached.
    fn events(
        &self,
        identity: &Identity,
        chunks: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Result<Response<Body>, Fault> {
        let place = self.stream_place(identity)?;
        Ok(reply::stream(place, chunks))
    }

    /// The bounds of answers that are kept by idempotency key, in all and by caller.
    fn replay_bounds(&self) -> (rest::Replayable, rest::Replayable) {
        let bounds = self.gateway.limits().replays;
        let is_guarded = self.entrance.load().epoch.access.is_guarded();
        (bounds, bounds.share(is_guarded))
    }

    /// Whether an optional stream could be opened.
    fn has_room_for_events(&self, identity: &Identity) -> bool {
        let (all_max, by_caller_max) = self.stream_bounds();
        let caller = Caller::of(identity).principal();
        self.streams.has_room(&caller, all_max, by_caller_max)
    }

    /// The bounds in total and per caller. Without authentication all callers count as one.
    fn stream_bounds(&self) -> (usize, usize) {
        let limits = self.gateway.limits();
        let by_caller = match self.entrance.load().epoch.access.is_guarded() {
            true => limits.streams_per_caller_max,
            false => limits.streams_max,
        };
        (limits.streams_max, by_caller)
    }

    /// Ends the sessions of callers whose credential was revoked (P-S07) or whose role was removed, and so their
    /// calls and streams; runs for ever.
    pub async fn watch_revocations(self: Arc<Self>) {
        let policy = &self.gateway.policy;
        let mut roles = policy.role_changes();
        loop {
            let entrance = self.entrance.load_full();
            let epoch = &entrance.epoch;
            let is_out = |identity: &Identity| {
                epoch.access.is_revoked(identity) || !policy.has_role(&identity.role)
            };
            tokio::select! {
                // The epoch closed: all callers must authenticate again.
                () = epoch.on_each_change(|| self.sessions.end_those(is_out)) => {
                    self.sessions.end_those(|_| true);
                }
                Ok(()) = roles.changed() => self.sessions.end_those(is_out),
            }
        }
    }
}
