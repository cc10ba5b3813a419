//! MCP servers over HTTP: any revision, JSON and event streams, pooled connections.
//!
//! `HttpBackend` is what the core calls; its `run` finds the server, reads its lists, keeps them
//! fresh and watches its health until `stop`. Dropping a call closes its stream at a modern server
//! and sends `notifications/cancelled` to a legacy one.
//!
//! Not here: the wire's shapes (`sentinel_wire`), what changes between revisions (`relay`).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, Uri};
use parking_lot::Mutex;
use sentinel_core::backend::OfferFor;
use sentinel_core::catalog::{Change, Glob, Publisher};
use sentinel_core::{
    Backend, Call, Caller, CapabilitySet, Description, Fault, Health, Kind, Reply, Status,
};
use sentinel_wire::{Method, Params, Revision};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::discover::Greeting;
use crate::kind::StartError;
use crate::relay;

mod advice;
mod call;
mod eras;
mod freshness;
mod http_sse;
mod keep;
mod kind;
mod large;
mod offers;
mod plain;
pub(crate) mod pool;
mod post;
mod session_stream;
mod speak;
mod upstream;
mod webhook;
pub(crate) mod wire;

pub use plain::{PlainRequest, get};
pub use webhook::Webhook;

use eras::OtherEra;
use freshness::Freshness;
use post::Post;
use upstream::{Sessions, Upstream};

/// The `type` of these backends in the configuration.
pub const TYPE: &str = "http";

pub struct Config {
    pub name: String,
    /// The URL without secrets, for operators.
    pub target: String,
    pub url: Uri,
    /// A Unix socket of this machine through which the URL is reached.
    pub socket: Option<PathBuf>,
    /// The URL does not come from the configuration: only public addresses are connected to.
    pub public_only: bool,
    /// The configured revision; `None` detects it, and serves each caller in its own era.
    pub revision: Option<Revision>,
    /// Sent with every request; values come from the environment.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Deadline of one call.
    pub timeout: Duration,
    /// Further attempts while nothing was delivered.
    pub retries: u32,
    pub health_interval: Duration,
    pub unhealthy_after: u32,
    pub reply_bytes_max: usize,
    /// Longest event of a stream that is not a reply.
    pub event_bytes_max: usize,
    /// Tools whose calls may be sent again after delivery.
    pub idempotent_tools: Vec<Glob>,
}

/// Whether calls can be sent.
#[derive(Clone)]
enum State {
    /// Not yet reached; calls wait until their deadline.
    Starting,
    Ready(Ready),
    /// Unreachable; calls fail at once.
    Failed,
    Stopped,
}

#[derive(Clone)]
struct Ready {
    greeting: Arc<Greeting>,
    /// Shared by callers that cannot be asked anything and by the gateway's own requests.
    base: Arc<Upstream>,
    /// Whether legacy callers of a modern server are served in their own era.
    other_era: Arc<OtherEra>,
}

struct Inner {
    config: Config,
    post: Post,
    publisher: Publisher,
    state: watch::Sender<State>,
    sessions: Sessions,
    /// Serializes re-initialization.
    renewing: tokio::sync::Mutex<()>,
    next_id: AtomicU64,
    /// Ends the pause before the next attempt to reach the server.
    find_now: Notify,
    /// A list may have changed; the bits name the lists that the server announced.
    refresh: Notify,
    announced: AtomicU8,
    /// Whether the known list of tools may be outdated.
    freshness: Freshness,
    /// The session whose notification stream is open.
    listening_in: watch::Sender<Option<Arc<Upstream>>>,
    /// Set after the first successful contact.
    was_found: AtomicBool,
    status: Mutex<Status>,
    began: Instant,
}

#[derive(Clone)]
pub struct HttpBackend(Arc<Inner>);

impl HttpBackend {
    pub fn new(config: Config, publisher: Publisher) -> Result<Self, StartError> {
        let address =
            pool::Address::of(&config.url).map_err(|why| StartError::new(&config.name, why))?;
        let address = match config.public_only {
            true => address.public_only(),
            false => address,
        };
        let post = Post::new(
            pool::Pool::new(address.by(config.socket.as_deref())),
            &config.url,
            &config.headers,
            config.reply_bytes_max,
            config.retries,
        );
        let status = Status::of(Health::Starting);
        Ok(Self(Arc::new(Inner {
            config,
            post,
            publisher,
            state: watch::Sender::new(State::Starting),
            sessions: Sessions::default(),
            renewing: tokio::sync::Mutex::default(),
            next_id: AtomicU64::new(1),
            find_now: Notify::new(),
            refresh: Notify::new(),
            announced: AtomicU8::new(0),
            freshness: Freshness::default(),
            listening_in: watch::Sender::new(None),
            was_found: AtomicBool::new(false),
            status: Mutex::new(status),
            began: Instant::now(),
        })))
    }

    /// Runs the backend: discovery, health checks, changed lists. Ends after `stop`.
    pub async fn run(self) {
        keep::run(&self.0).await;
    }
}

impl Backend for HttpBackend {
    fn name(&self) -> &str {
        &self.0.config.name
    }

    fn describe(&self) -> Description {
        Description {
            kind: TYPE,
            target: self.0.config.target.clone(),
        }
    }

    fn call(&self, call: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        Box::pin(call::run(self.0.clone(), call))
    }

    fn roots_changed(&self, caller: &Caller) {
        let key = match &*self.0.state.borrow() {
            State::Ready(ready) => ready.session_of(caller),
            _ => None,
        };
        if let Some(upstream) = key.and_then(|key| self.0.sessions.find(&key)) {
            let (inner, method) = (self.0.clone(), Method::RootsChanged);
            call::post_aside(inner, upstream, method, relay::roots_changed());
        }
    }

    fn look(&self) -> BoxFuture<'static, Result<(), Fault>> {
        let inner = self.0.clone();
        Box::pin(async move {
            inner.freshness.invalidate();
            tokio::time::timeout(inner.config.timeout, inner.ensure_fresh())
                .await
                .unwrap_or_else(|_| Err(inner.timed_out()))
        })
    }

    fn restart(&self) -> BoxFuture<'static, Result<(), Fault>> {
        if matches!(&*self.0.state.borrow(), State::Ready(_)) {
            return self.look();
        }
        let inner = self.0.clone();
        Box::pin(async move {
            inner.enter(State::Starting);
            inner.find_now.notify_one();
            tokio::time::timeout(inner.config.timeout, inner.ready())
                .await
                .unwrap_or_else(|_| Err(inner.timed_out()))
                .map(drop)
        })
    }

    fn offer_for(&self, set: CapabilitySet) -> Option<OfferFor> {
        let inner = self.0.clone();
        let reading = async move {
            let reading = offers::offer_for(&inner, set);
            let read = tokio::time::timeout(inner.config.timeout, reading).await;
            read.unwrap_or_else(|_| Err(inner.timed_out())).map(Some)
        };
        // The published lists were read with no capabilities declared.
        (set != CapabilitySet::NONE).then(|| reading.boxed())
    }

    fn status(&self) -> Status {
        self.0.status.lock().clone()
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let inner = self.0.clone();
        Box::pin(async move { keep::stop(&inner).await })
    }
}

impl Inner {
    fn mint_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Enters a state, unless the backend was stopped meanwhile.
    fn enter(&self, next: State) {
        self.state.send_if_modified(|state| {
            let going = !matches!(state, State::Stopped);
            if going {
                *state = next;
            }
            going
        });
    }

    /// The known way to address the server; waits while it is being detected.
    async fn ready(&self) -> Result<Ready, Fault> {
        if let State::Ready(ready) = &*self.state.borrow() {
            return Ok(ready.clone());
        }
        Box::pin(self.settled()).await
    }

    async fn settled(&self) -> Result<Ready, Fault> {
        let mut states = self.state.subscribe();
        let settled = states
            .wait_for(|state| !matches!(state, State::Starting))
            .await;
        match settled.as_deref() {
            Ok(State::Ready(ready)) => Ok(ready.clone()),
            _ => Err(self.unavailable()),
        }
    }

    /// Handles a notification that belongs to no call.
    fn on_notification(&self, method: &Method, params: &Params) {
        if let Some(change) = Change::of(method) {
            self.announced
                .fetch_or(1 << change as u8, Ordering::Relaxed);
            if change == Change::Tools {
                self.freshness.invalidate();
            }
            self.refresh.notify_one();
        } else if *method == Method::ResourceUpdated
            && let Some(uri) = params.string("uri")
        {
            self.publisher.updated(&uri);
        } else if *method == Method::TaskChanged {
            self.publisher.task_changed(params);
        }
    }

    fn unavailable(&self) -> Fault {
        let text = format!("backend `{}` cannot be reached", self.config.name);
        Fault::new(Kind::BackendUnavailable, text)
            .retry_after_ms(1000)
            .not_run()
    }

    fn note(&self, health: Health, revision: Option<Revision>, problem: Option<String>) {
        let mut status = self.status.lock();
        status.health = health;
        status.revision = revision.or(status.revision);
        status.problem = problem;
        if health == Health::Up && status.start_up.is_none() {
            status.start_up = Some(self.began.elapsed());
        }
    }
}
