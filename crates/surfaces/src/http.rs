//! The HTTP door: one listener for MCP, health, readiness and metrics.
//!
//! `Door` is shared by all connections; `serve` drives one of them to its end. Each connection is a
//! task of the worker that accepted it, and so is everything its requests do.
//!
//! Not here: what MCP messages mean (`mcp`), binding and accepting (the binary).

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::Stream;
use http::header::ORIGIN;
use http::{Method as Verb, Request, Response, StatusCode, Uri};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sentinel_core::audit::{self, Ending, Surface};
use sentinel_core::policy::ADMIN;
use sentinel_core::{Caller, Fault, Identity, Kind, View, tags};
use sentinel_wire::{Method, Revision};
use tokio::io::{AsyncRead, AsyncWrite};

use self::auth::Asked;
use crate::gateway::Gateway;

mod admin;
mod auth;
mod body;
mod cors;
mod gate;
mod guard;
mod health;
mod joined;
mod legacy;
mod listen;
mod metrics;
mod modern;
mod pace;
mod post;
mod reply;
pub(crate) mod resume;
mod running;
mod session;
mod sse2024;
mod streams;

pub use auth::{Access, OAuth};
pub use guard::Allowed;
pub use metrics::Scrape;
pub use pace::{Pace, greet};

use body::Body;
use gate::Gate;
use session::Sessions;
use streams::{OpenStreams, StreamPlace};

/// What a connection may buffer, if heads may not be larger.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// hyper's own bound on header fields. Only another one is set, for that costs an allocation per request.
const HEAD_FIELDS_USUAL: usize = 100;

pub struct Door {
    gateway: Arc<Gateway>,
    /// Who may come in, as the configuration says at the moment.
    entrance: ArcSwap<Entrance>,
    sessions: Sessions,
    sse_connections: sse2024::Connections,
    streams: Arc<OpenStreams>,
    serves: Serves,
    scrape: Scrape,
}

struct Entrance {
    allowed: Allowed,
    gate: Arc<auth::Gate>,
}

/// Where a request comes in: what is to be seen there, and which tools of it. Sessions are bound to it.
struct Endpoint {
    view: View,
    tags: Option<tags::Wanted>,
}

/// What is behind a door.
enum Serves {
    Everything,
    /// For a listener that orchestrators reach and callers must not.
    ProbesOnly {
        /// The door for those.
        beside: Arc<Door>,
    },
    /// Everything, for whoever runs the gateway: the admin API asks for no role.
    Operator,
}

impl Door {
    pub fn new(
        gateway: Arc<Gateway>,
        allowed: Allowed,
        access: Access,
        scrape: Scrape,
    ) -> Arc<Self> {
        Self::serving(Serves::Everything, gateway, allowed, access, scrape)
    }

    /// A door with `/health`, `/ready` and `/metrics` and nothing else, beside the one for callers. Where callers must
    /// prove who they are, metrics are here for whoever has their token only.
    pub fn probes_only(beside: &Arc<Self>) -> Arc<Self> {
        // Nobody comes further than the probes, whoever it is.
        let nobody = Access::Trusted(Identity::local(""));
        let (gateway, anywhere) = (beside.gateway.clone(), Allowed::default());
        let (scrape, beside) = (beside.scrape.clone(), beside.clone());
        let serves = Serves::ProbesOnly { beside };
        Self::serving(serves, gateway, anywhere, nobody, scrape)
    }

    /// A door for a socket that only the gateway's own user can open.
    pub fn operator(gateway: Arc<Gateway>) -> Arc<Self> {
        let operator = Access::Trusted(Identity::local(ADMIN));
        let here = Allowed::default();
        Self::serving(Serves::Operator, gateway, here, operator, Scrape::Open)
    }

    fn serving(
        serves: Serves,
        gateway: Arc<Gateway>,
        allowed: Allowed,
        access: Access,
        scrape: Scrape,
    ) -> Arc<Self> {
        let sessions = Sessions::new(&gateway.limits());
        Arc::new(Self {
            gateway,
            entrance: ArcSwap::from_pointee(Entrance {
                allowed,
                gate: auth::Gate::new(access),
            }),
            sessions,
            sse_connections: sse2024::Connections::default(),
            streams: Arc::default(),
            serves,
            scrape,
        })
    }

    /// Lets in whoever a new configuration lets in. Where it has another `access`, streams that are open
    /// end, so that their callers show their credentials again.
    pub fn readmit(&self, allowed: Allowed, access: Option<Access>) {
        let before = self.entrance.load_full();
        let gate = match access {
            Some(access) => auth::Gate::new(access),
            None => before.gate.clone(),
        };
        let same = Arc::ptr_eq(&gate, &before.gate);
        self.entrance.store(Arc::new(Entrance { allowed, gate }));
        if !same {
            before.gate.close();
        }
    }

    /// Drives one connection to its end; after draining began it ends with its present request.
    pub async fn serve(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        from: IpAddr,
    ) {
        let door = self.clone();
        let gate = Gate::new();
        let service = service_fn(move |request| {
            let (door, gate) = (door.clone(), gate.clone());
            gate.open();
            async move {
                let mut answer = pin!(door.answer(request, from));
                Ok::<_, Infallible>(poll_fn(|cx| gate.poll(cx, answer.as_mut())).await)
            }
        });
        // Whoever comes while we go down may still ask how we are, or answer or cancel a call in
        // flight, once.
        let late = self.gateway.is_draining();
        let limits = self.gateway.limits().clone();
        let (stream, timer) = pace::paced(stream, &limits.pace, late);
        let mut http = http1::Builder::new();
        http.header_read_timeout(timer.longest())
            .timer(timer)
            .max_buf_size(BUFFER_BYTES_MAX.max(limits.head_bytes_max))
            // The buffer alone does not bound a head, for one read may go beyond.
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

    /// Calls of sessions that run, also those whose connections are gone.
    pub fn session_calls(&self) -> usize {
        self.sessions.calls()
    }

    /// Ends sessions nobody used for too long; called every few seconds.
    pub fn sweep(&self) {
        self.sessions.bound(&self.gateway.limits());
        self.sessions.sweep();
        let metrics = &self.gateway.auditor.metrics;
        metrics
            .sessions
            .store(self.sessions.len() as u64, Ordering::Relaxed);
        let streams = self.streams.len() as u64;
        metrics.streams.store(streams, Ordering::Relaxed);
    }

    fn metrics(&self, request: &Request<Incoming>) -> Response<Body> {
        metrics::answer(
            request.method(),
            request.headers(),
            &self.scrape,
            &self.gateway,
        )
    }

    pub fn sessions_len(&self) -> usize {
        self.sessions.len()
    }

    /// Counts one more event stream of this caller, unless there are too many.
    fn stream_place(&self, identity: &Identity) -> Result<StreamPlace, Fault> {
        let (all_max, by_caller_max) = self.stream_bounds();
        let caller = Caller::of(identity).principal();
        self.streams.open(caller, all_max, by_caller_max)
    }

    /// Answers with an event stream, unless there are too many already.
    fn events(
        &self,
        identity: &Identity,
        chunks: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Response<Body> {
        match self.stream_place(identity) {
            Ok(place) => reply::stream(place, chunks),
            Err(fault) => reply::refuse_in(Revision::NEWEST_LEGACY, &fault),
        }
    }

    /// Whether a stream that need not be could be opened.
    fn has_room_for_events(&self, identity: &Identity) -> bool {
        let (all_max, by_caller_max) = self.stream_bounds();
        let caller = Caller::of(identity).principal();
        self.streams.has_room(&caller, all_max, by_caller_max)
    }

    /// The bounds in all and by caller. Where callers cannot be told apart all of them are one.
    fn stream_bounds(&self) -> (usize, usize) {
        let limits = self.gateway.limits();
        let by_caller = match self.entrance.load().gate.access.is_guarded() {
            true => limits.streams_per_caller_max,
            false => limits.streams_max,
        };
        (limits.streams_max, by_caller)
    }

    /// The walk of one HTTP request: probes, the guard at the door, who it is, then MCP.
    async fn answer(self: &Arc<Self>, request: Request<Incoming>, from: IpAddr) -> Response<Body> {
        let path = request.uri().path();
        match path {
            "/health" => return health::health(request.method()),
            "/ready" => return health::ready(request.method(), &self.gateway),
            _ => {}
        }
        if let Serves::ProbesOnly { beside } = &self.serves {
            let is_guarded = || beside.entrance.load().gate.access.is_guarded();
            return match path {
                "/metrics" if self.scrape.is_open() && is_guarded() => metrics::not_here(),
                "/metrics" => self.metrics(&request),
                _ => reply::text(
                    StatusCode::NOT_FOUND,
                    "not found; here are only /health, /ready and /metrics\n",
                ),
            };
        }
        let entrance = self.entrance.load_full();
        let authority = request.uri().authority();
        if let Err(refused) = entrance.allowed.check(authority, request.headers()) {
            self.gateway.auditor.turned_away(from, Kind::Forbidden);
            return refused.respond();
        }
        let Some(origin) = request.headers().get(ORIGIN).cloned() else {
            return self.allowed_in(&entrance, request, from).await;
        };
        let response = match cors::preflight(request.method(), request.headers()) {
            Some(response) => response,
            None => self.allowed_in(&entrance, request, from).await,
        };
        cors::shown_to(origin, response)
    }

    /// The walk from the guard on.
    async fn allowed_in(
        self: &Arc<Self>,
        entrance: &Entrance,
        request: Request<Incoming>,
        from: IpAddr,
    ) -> Response<Body> {
        let path = request.uri().path();
        let access = &entrance.gate.access;
        // Where callers must prove who they are, the figures are for them or for whoever has the token.
        let scraped = path == "/metrics";
        if scraped && !(self.scrape.is_open() && access.is_guarded()) {
            self.sweep();
            return self.metrics(&request);
        }
        // A POST may hold an answer or a cancellation for a call in flight; it is looked at first.
        if self.gateway.is_draining() && request.method() != Verb::POST {
            return reply::refuse_plain(&post::going_down());
        }
        let headers = request.headers();
        if let Some(document) = access.metadata(request.method(), path, headers) {
            return document;
        }
        let identity = match access.admit(headers).await {
            Ok(identity) => identity,
            Err(refused) => {
                let kind = match refused.status() {
                    StatusCode::FORBIDDEN => Kind::Forbidden,
                    _ => Kind::Unauthorized,
                };
                self.gateway.auditor.turned_away(from, kind);
                return refused;
            }
        };
        // A reload must be able to say that it changed who may come in.
        let operates = path.starts_with(admin::PREFIX);
        let asked = OnceLock::new();
        let turned_out = async {
            entrance.gate.turned_out(&identity).await;
            // A call belongs to the request, which is dropped next, or to its session: in either case it ends now, and
            // has its record before the answer.
            let is_out = |identity: &Identity| entrance.gate.is_out(identity);
            self.sessions.end_those(is_out);
        };
        let response = tokio::select! {
            biased;
            response = self.known(&identity, request, &asked) => response,
            () = turned_out, if !operates => return entrance.gate.turn_out(asked.get()),
        };
        // A call that ended with its session, before this request heard why.
        if response.extensions().get::<reply::Cancelled>().is_some()
            && entrance.gate.is_out(&identity)
        {
            return entrance.gate.turn_out(asked.get());
        }
        entrance.gate.watch(identity, response)
    }

    /// Ends the sessions of callers who were turned out, and so their calls (P-S07); never ends.
    pub async fn watch_revocations(self: Arc<Self>) {
        loop {
            let entrance = self.entrance.load_full();
            let gate = &entrance.gate;
            let out = |identity: &Identity| gate.access.is_revoked(identity);
            gate.at_each_change(|| self.sessions.end_those(out)).await;
            // Other rules: everybody begins anew.
            self.sessions.end_those(|_| true);
        }
    }

    /// The rest of the walk, for somebody we know.
    async fn known(
        self: &Arc<Self>,
        identity: &Arc<Identity>,
        request: Request<Incoming>,
        asked: &OnceLock<Asked>,
    ) -> Response<Body> {
        let path = request.uri().path();
        if path == "/metrics" {
            if self.scrape.is_open() && !self.gateway.policy.sees_everything(identity) {
                return metrics::not_for_you();
            }
            self.sweep();
            return self.metrics(&request);
        }
        if path.starts_with(admin::PREFIX) {
            return Box::pin(self.admin(identity, request)).await;
        }
        // What is POSTed here has its records where it is read.
        match (request.method(), self.endpoint(identity, request.uri())) {
            (&Verb::POST, Some(at)) => {
                return post::answer(self, identity, &at, request, asked).await;
            }
            (&Verb::POST, None) if path == "/messages" => {
                return sse2024::message(self, identity, request).await;
            }
            _ => {}
        }
        let response = self.others(identity, &request);
        let status = response.status();
        if status.is_client_error() || status.is_server_error() {
            let method = Method::parse(request.method().as_str());
            let mut entry = self.gateway.auditor.open(&audit::Request {
                surface: Surface::Http,
                id: None,
                method: Some(&method),
                params: None,
                bytes_in: 0,
                traceparent: None,
            });
            entry.from(identity);
            entry.finish(&Ending::Malformed(reply::kind_of(status)), 0);
        }
        response
    }

    /// Streams and the ends of sessions, and what is not there.
    fn others(
        self: &Arc<Self>,
        identity: &Arc<Identity>,
        request: &Request<Incoming>,
    ) -> Response<Body> {
        let (path, headers) = (request.uri().path(), request.headers());
        if let Some(at) = self.endpoint(identity, request.uri()) {
            return match *request.method() {
                Verb::GET => legacy::stream(self, identity, &at, headers),
                Verb::DELETE => legacy::end(self, identity, &at, headers),
                _ => reply::method_not_allowed("POST, GET, DELETE"),
            };
        }
        match (request.method(), self.view(identity, "/sse", path)) {
            (&Verb::GET, Some(view)) => sse2024::open(self, identity, view),
            (_, Some(_)) => reply::method_not_allowed("GET"),
            _ => reply::text(
                StatusCode::NOT_FOUND,
                "not found; MCP is at /mcp and /mcp/<backend>\n",
            ),
        }
    }

    /// A request of the admin API, and its record.
    async fn admin(
        self: &Arc<Self>,
        identity: &Arc<Identity>,
        request: Request<Incoming>,
    ) -> Response<Body> {
        let asked = &request.uri().path()[admin::PREFIX.len()..];
        let method = Method::parse(&format!("admin/{asked}"));
        let mut entry = self.gateway.auditor.open(&audit::Request {
            surface: Surface::Admin,
            id: None,
            method: Some(&method),
            params: None,
            bytes_in: request.body().size_hint().lower() as usize,
            traceparent: None,
        });
        entry.from(identity);
        let response = admin::answer(self, identity, request).await;
        if let Some(admin::About(what)) = response.extensions().get() {
            entry.trail().about(what);
        }
        let ending = match response.status() {
            status if status.is_success() => Ending::Success,
            StatusCode::FORBIDDEN => Ending::Refused(Kind::Forbidden),
            status => Ending::Malformed(reply::kind_of(status)),
        };
        entry.finish(&ending, response.body().size_hint().lower() as usize);
        response
    }

    /// Where an address of MCP leads whoever asks.
    fn endpoint(&self, identity: &Identity, uri: &Uri) -> Option<Endpoint> {
        Some(Endpoint {
            view: self.view(identity, "/mcp", uri.path())?,
            tags: uri.query().and_then(tags::Wanted::in_query),
        })
    }

    /// What a path below `base` shows: everything, or one backend. One that is hidden from whoever asks is not
    /// there.
    fn view(&self, identity: &Identity, base: &str, path: &str) -> Option<View> {
        let name = match path.strip_prefix(base)? {
            "" | "/" => return Some(View::Merged),
            rest => rest.strip_prefix('/')?,
        };
        let index = self.gateway.registry.index_of(name)?;
        let sees = self.gateway.policy.sees_backend(identity, index);
        sees.then_some(View::Only(index))
    }
}
