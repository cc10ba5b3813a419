//! The HTTP door: one listener for MCP, health, readiness and metrics.
//!
//! `Door` is shared by all connections; `serve` drives one of them to its end. Each connection is a
//! task of the worker that accepted it, and so is everything its requests do.
//!
//! Not here: what MCP messages mean (`mcp`), binding and accepting (the binary).

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{Method as Verb, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use sentinel_core::View;
use tokio::net::TcpStream;

use crate::gateway::Gateway;

mod body;
mod guard;
mod health;
mod legacy;
mod listen;
mod metrics;
mod modern;
mod post;
mod reply;
mod session;

pub use guard::Allowed;
pub use metrics::Scrape;

use body::Body;
use session::Sessions;

/// Idle connections are closed after this long, and a request's head must have come by then.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// The same for connections that come while we go down: long enough for a probe.
const LATE_HEAD_TIMEOUT: Duration = Duration::from_secs(1);
/// What a connection may buffer; a request's head must fit.
const HEAD_BYTES_MAX: usize = 64 * 1024;

pub struct Door {
    gateway: Arc<Gateway>,
    allowed: Allowed,
    sessions: Sessions,
    streams: Arc<AtomicUsize>,
    serves: Serves,
    scrape: Scrape,
}

/// One open event stream, counted while it lives.
struct OpenStream(Arc<AtomicUsize>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is behind a door.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Serves {
    Everything,
    /// For a listener that orchestrators reach and callers must not.
    ProbesOnly,
}

impl Door {
    pub fn new(gateway: Arc<Gateway>, allowed: Allowed, scrape: Scrape) -> Arc<Self> {
        Self::serving(Serves::Everything, gateway, allowed, scrape)
    }

    /// A door with `/health`, `/ready` and `/metrics` and nothing else.
    pub fn probes_only(gateway: Arc<Gateway>, scrape: Scrape) -> Arc<Self> {
        Self::serving(Serves::ProbesOnly, gateway, Allowed::default(), scrape)
    }

    fn serving(
        serves: Serves,
        gateway: Arc<Gateway>,
        allowed: Allowed,
        scrape: Scrape,
    ) -> Arc<Self> {
        let sessions = Sessions::new(&gateway.limits);
        Arc::new(Self {
            gateway,
            allowed,
            sessions,
            streams: Arc::default(),
            serves,
            scrape,
        })
    }

    /// Drives one connection to its end; after draining began it ends with its present request.
    pub async fn serve(self: Arc<Self>, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let door = self.clone();
        let service = service_fn(move |request| {
            let door = door.clone();
            async move { Ok::<_, Infallible>(door.answer(request).await) }
        });
        // Whoever comes while we go down may still ask how we are, or answer or cancel a call in
        // flight, once.
        let late = self.gateway.is_draining();
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(if late {
                LATE_HEAD_TIMEOUT
            } else {
                HEAD_TIMEOUT
            })
            .max_buf_size(HEAD_BYTES_MAX)
            .keep_alive(!late)
            .serve_connection(TokioIo::new(stream), service);
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

    /// Ends sessions nobody used for too long; called every few seconds.
    pub fn sweep(&self) {
        self.sessions.sweep();
        let metrics = &self.gateway.auditor.metrics;
        metrics
            .sessions
            .store(self.sessions.len() as u64, Ordering::Relaxed);
        let streams = self.streams.load(Ordering::Relaxed);
        metrics.streams.store(streams as u64, Ordering::Relaxed);
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

    /// Answers with an event stream, unless there are too many already.
    fn events(&self, chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
        let open = OpenStream(self.streams.clone());
        if self.streams.fetch_add(1, Ordering::Relaxed) >= self.gateway.limits.streams_max {
            return reply::text(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many event streams (limits.streams)\n",
            );
        }
        let counted = chunks.map(move |chunk| {
            let _counted = &open;
            chunk
        });
        reply::events(Body::stream(counted))
    }

    /// The walk of one HTTP request: probes, the guard at the door, then MCP.
    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        match path {
            "/health" => return health::health(request.method()),
            "/ready" => return health::ready(request.method(), &self.gateway),
            _ => {}
        }
        if self.serves == Serves::ProbesOnly {
            return match path {
                "/metrics" => self.metrics(&request),
                _ => reply::text(
                    StatusCode::NOT_FOUND,
                    "not found; here are only /health, /ready and /metrics\n",
                ),
            };
        }
        if let Err(refused) = self.allowed.check(request.headers()) {
            return refused.respond();
        }
        if path == "/metrics" {
            self.sweep();
            return self.metrics(&request);
        }
        // A POST may hold an answer or a cancellation for a call in flight; it is looked at first.
        if self.gateway.is_draining() && request.method() != Verb::POST {
            return reply::going_down();
        }
        match self.view(path) {
            Some(view) => self.mcp(view, request).await,
            None => reply::text(
                StatusCode::NOT_FOUND,
                "not found; MCP is at /mcp and /mcp/<backend>\n",
            ),
        }
    }

    fn view(&self, path: &str) -> Option<View> {
        match path.strip_prefix("/mcp")? {
            "" | "/" => Some(View::Merged),
            rest => self
                .gateway
                .registry
                .index_of(rest.strip_prefix('/')?)
                .map(View::Only),
        }
    }

    async fn mcp(self: &Arc<Self>, view: View, request: Request<Incoming>) -> Response<Body> {
        match *request.method() {
            Verb::POST => post::answer(self, view, request).await,
            Verb::GET => legacy::stream(self, view, request.headers()),
            Verb::DELETE => legacy::end(self, view, request.headers()),
            _ => reply::method_not_allowed("POST, GET, DELETE"),
        }
    }
}
