//! A session of a legacy caller: the handshake, what the gateway answers itself, notifications, and the calls in
//! flight.
//!
//! Streamable HTTP, HTTP+SSE and stdio differ in framing, in where messages to the caller go, and in when they `end` a
//! session. A call belongs to its session: on Streamable HTTP, DELETE, expiry or revocation end it and a lost
//! connection does not; on stdio and HTTP+SSE the session ends with the connection.
//!
//! Not here: the course of a call (`legacy`), requests of 2026-07-28 (`modern`).

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use sentinel_core::{Caller, ClientCapabilities, Fault, Identity, Kind, LogLevel, View, tags};
use sentinel_wire::{Id, Message, Method, Notification, Params, Request, Revision};

use super::asks::Asks;
use super::hello;
use super::in_flight::{CallGuard, InFlight};
use super::legacy::LegacyCall;
use super::sink::CallerSink;
use super::subscribe::Subscriber;
use crate::exchange::{Answer, Handled, MessageExchange};
use crate::gateway::Gateway;

/// When a session takes requests other than `ping`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadyAt {
    /// Once `initialize` is answered: over HTTP, requests overtake `notifications/initialized`.
    Initialize,
    /// Once `notifications/initialized` came.
    Initialized,
}

/// The opener of a session, and its endpoint.
pub(crate) struct Opening {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) view: View,
    pub(crate) tags: Option<tags::TagFilter>,
    pub(crate) id: Arc<str>,
    pub(crate) ready_at: ReadyAt,
}

pub(crate) struct LegacySession {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) view: View,
    pub(crate) tags: Option<tags::TagFilter>,
    pub(crate) id: Arc<str>,
    ready_at: ReadyAt,
    stage: Mutex<Stage>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(super) asks: Asks,
    pub(super) subscriber: Subscriber,
}

/// Progress of the handshake.
enum Stage {
    Created,
    /// `initialize` was answered.
    Initializing(Arc<Caller>),
    /// `notifications/initialized` came.
    Operational(Arc<Caller>),
}

/// A request whose answer takes longer, usually a backend's.
pub(crate) struct PendingCall {
    pub(crate) caller: Arc<Caller>,
    request: Request,
    exchange: MessageExchange,
}

impl LegacySession {
    /// `send` takes messages outside of any call to the caller; it must not block.
    pub(crate) fn new(
        opening: Opening,
        send: impl Fn(Vec<u8>) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let Opening {
            gateway,
            identity,
            view,
            tags,
            id,
            ready_at,
        } = opening;
        Arc::new(Self {
            subscriber: Subscriber::new(view, send),
            gateway,
            identity,
            view,
            tags,
            id,
            ready_at,
            stage: Mutex::new(Stage::Created),
            in_flight: Arc::default(),
            asks: Asks::default(),
        })
    }

    /// Whether requests with this identity may use the session. It acts with the rights it was opened with, so all of
    /// these must be equal; another token with the same rights is accepted.
    pub(crate) fn belongs_to(&self, identity: &Identity) -> bool {
        let own = &*self.identity;
        own.subject == identity.subject
            && own.role == identity.role
            && own.tenant == identity.tenant
            && own.scopes == identity.scopes
            && own.holder() == identity.holder()
    }

    /// The next calls carry this credential: its holder has a new one while the session goes on.
    pub(crate) fn renew(&self, identity: &Identity) {
        let mut stage = self.stage.lock();
        let (Stage::Initializing(caller) | Stage::Operational(caller)) = &mut *stage else {
            return;
        };
        if caller.account != identity.account {
            *caller = Arc::new(Caller {
                account: identity.account.clone(),
                ..Caller::clone(caller)
            });
        }
    }

    /// The caller, once `initialize` was answered, and whether its requests are taken.
    fn handshake(&self) -> (Option<Arc<Caller>>, bool) {
        match &*self.stage.lock() {
            Stage::Created => (None, false),
            Stage::Initializing(caller) => {
                (Some(caller.clone()), self.ready_at == ReadyAt::Initialize)
            }
            Stage::Operational(caller) => (Some(caller.clone()), true),
        }
    }

    /// The revision in which messages to the caller are written.
    pub(crate) fn revision(&self) -> Revision {
        let (caller, _) = self.handshake();
        caller.map_or(Revision::NEWEST_LEGACY, |caller| caller.revision)
    }

    /// Whether the caller may be sent messages outside of its calls.
    pub(crate) fn is_operational(&self) -> bool {
        matches!(&*self.stage.lock(), Stage::Operational(_))
    }

    /// The handshake. A proxy in front of several clients repeats it on one connection: the last one counts.
    pub(crate) fn initialize(&self, params: &Params) -> Result<(Arc<Caller>, Handled), Fault> {
        let Some(requested) = params.string("protocolVersion") else {
            let text = "`protocolVersion` is missing or no string";
            return Err(Fault::new(Kind::InvalidParams, text));
        };
        let capabilities = params
            .get_bytes("capabilities")
            .and_then(ClientCapabilities::parse);
        let caller = Arc::new(Caller {
            revision: Revision::negotiate(&requested),
            capabilities: capabilities.unwrap_or_default(),
            client_info: params.get_bytes("clientInfo"),
            session: Some(self.id.clone()),
            tags: self.tags.clone(),
            ..Caller::of(&self.identity)
        });
        let result = hello::initialize(&self.gateway.policy, &caller, self.view);
        *self.stage.lock() = Stage::Initializing(caller.clone());
        Ok((caller, Handled::Result(result.into())))
    }

    /// Whether the revision of this session has batches.
    pub(crate) fn takes_batches(&self) -> bool {
        self.revision() == Revision::V2025_03_26
    }

    /// Answers a request, or returns the call that it makes.
    pub(crate) fn receive(
        &self,
        request: Request,
        mut exchange: MessageExchange,
        is_batched: bool,
    ) -> Result<PendingCall, Answer> {
        if request.method == Method::Initialize && !is_batched {
            let handled = self.initialize(&request.params).map(|(caller, handled)| {
                exchange.identify(&caller);
                handled
            });
            return Err(exchange.answer(handled));
        }
        let (caller, is_ready) = self.handshake();
        if let Some(caller) = &caller {
            exchange.identify(caller);
        }
        match request.method {
            Method::Ping => return Err(exchange.answer(Ok(EMPTY))),
            Method::Initialize => {
                let text = "initialize must not be in a batch";
                let fault = Fault::new(Kind::InvalidRequest, text);
                return Err(exchange.answer(Err(fault)));
            }
            _ => {}
        }
        let Some(caller) = caller.filter(|_| is_ready) else {
            let text = "begin with initialize, then notifications/initialized";
            let fault = Fault::new(Kind::NotInitialized, text);
            return Err(exchange.answer(Err(fault)));
        };
        match self.answer_locally(&caller, &request) {
            Some(handled) => Err(exchange.answer(handled)),
            None => Ok(PendingCall {
                caller,
                request,
                exchange,
            }),
        }
    }

    /// Lists, the log level and unknown methods; `None` for what takes longer: calls, and lists that wait for backends.
    fn answer_locally(&self, caller: &Caller, request: &Request) -> Option<Result<Handled, Fault>> {
        let Request { method, params, .. } = request;
        let policy = &self.gateway.policy;
        if hello::waits_for_lists(policy, caller, self.view, method) {
            return None;
        }
        if let Some(listed) = hello::list_now(policy, caller, self.view, method, params) {
            return Some(listed.map(Handled::Result));
        }
        match method {
            Method::SetLevel => Some(match params.get("level").and_then(LogLevel::rank) {
                Some(level) => {
                    caller.log_level.set(level);
                    Ok(EMPTY)
                }
                None => {
                    let text = "`level` must be one of the eight log levels";
                    Err(Fault::new(Kind::InvalidParams, text))
                }
            }),
            // With a single backend, it may know the method.
            Method::Other(_) if matches!(self.view, View::Only(_)) => None,
            method if method.is_request_in(caller.revision) => None,
            method => {
                let text = format!("unknown method: {}", method.as_str());
                Some(Err(Fault::new(Kind::MethodNotFound, text)))
            }
        }
    }

    /// Registers a call in the table of calls in flight and prepares it to run.
    pub(crate) fn begin(
        self: &Arc<Self>,
        call: PendingCall,
        sink: CallerSink,
    ) -> Result<(impl Future<Output = Answer> + Send + use<>, CallGuard), Answer> {
        let PendingCall {
            caller,
            request,
            exchange,
        } = call;
        let guard = match self.in_flight.begin(&request.id) {
            Ok(guard) => guard,
            Err(fault) => return Err(exchange.answer(Err(fault))),
        };
        let call = LegacyCall {
            session: self.clone(),
            caller,
            request,
            sink,
            trail: exchange.trail(),
        };
        let work = async move {
            let handled = call.run().await;
            exchange.answer(handled)
        };
        Ok((work, guard))
    }

    /// Handles a message without an answer: the caller's answer to a question, or a notification.
    pub(crate) fn take(&self, message: Message) {
        match message {
            Message::Response(response) => self.asks.settle(response),
            Message::Notification(note) => self.notified(&note),
            Message::Request(_) => {}
        }
    }

    fn notified(&self, note: &Notification) {
        match note.method {
            Method::Initialized => {
                let mut stage = self.stage.lock();
                if let Stage::Initializing(caller) = &*stage {
                    *stage = Stage::Operational(caller.clone());
                }
            }
            Method::Cancelled => {
                if let Some(id) = note.params.get_bytes("requestId").and_then(Id::from_raw) {
                    self.in_flight.cancel(&id);
                }
            }
            Method::RootsChanged => {
                if let (Some(caller), true) = self.handshake()
                    && caller.capabilities.roots_changed
                {
                    self.gateway.registry.roots_changed(self.view, &caller);
                }
            }
            _ => {}
        }
    }

    /// Cancels the calls in flight; no other begins.
    pub(crate) fn end(&self) {
        self.in_flight.close();
    }
}

/// Why a batch is refused.
pub(crate) fn no_batches() -> Fault {
    let text = "batches exist only in sessions of 2025-03-26";
    Fault::new(Kind::InvalidRequest, text)
}

const EMPTY: Handled = Handled::Result(Bytes::from_static(b"{}"));
