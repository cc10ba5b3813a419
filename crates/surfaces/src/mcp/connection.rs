//! A connection whose messages to the caller share one queue: stdio, and HTTP+SSE of 2024-11-05.
//!
//! Each call runs as a task, so that no message waits for the one before. The session ends with the connection, and
//! its calls are cancelled. A client of 2026-07-28 may use it as well; it has no session, but its calls are cancelled
//! by id in the same way.
//!
//! Not here: framing (`stdio`, `http::sse2024`).

use std::sync::Arc;

use bytes::Bytes;
use sentinel_core::audit::Surface;
use sentinel_core::catalog::Change;
use sentinel_core::{Caller, Fault, Kind};
use sentinel_wire::envelope::Refusal;
use sentinel_wire::json::Rules;
use sentinel_wire::{Incoming, Message, Method, Request, Revision, meta};
use tokio::sync::mpsc;

use super::hello;
use super::in_flight::CallGuard;
use super::introduction::Introduction;
use super::listen::{Changes, Listener, change_message};
use super::modern::{ModernCall, Turn};
use super::render::fault_message;
use super::session::{LegacySession, Opening, no_batches};
use super::sink::CallerSink;
use crate::exchange::{Answer, Arrival, Handled, MessageExchange};

/// Bound on messages to be written; a caller that does not read delays its own calls only.
const OUTBOX_MAX: usize = 1024;

pub(crate) struct Connection {
    pub(crate) session: Arc<LegacySession>,
    surface: Surface,
    outbox: mpsc::Sender<Vec<u8>>,
}

impl Connection {
    /// The connection, and the messages to write to its caller.
    pub(crate) fn open(surface: Surface, opening: Opening) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (outbox, messages) = mpsc::channel(OUTBOX_MAX);
        let updates = outbox.clone();
        // A caller that does not read misses updates of resources; answers wait for it.
        let session = LegacySession::new(opening, move |message| drop(updates.try_send(message)));
        let connection = Self {
            session,
            surface,
            outbox,
        };
        (connection, messages)
    }

    /// Resolves when nothing reads the messages any more.
    pub(crate) async fn closed(&self) {
        self.outbox.closed().await;
    }

    /// Waits until there is room for a message; false if nothing reads them any more.
    pub(crate) async fn has_room(&self) -> bool {
        self.outbox.reserve().await.is_ok()
    }

    /// Changes of lists from now on, as messages; none before the end of the handshake.
    pub(crate) fn list_changes(&self) -> Changes {
        Changes::of(&self.session.gateway.registry, self.session.view)
    }

    /// The notifications for changed lists.
    pub(crate) fn change_messages(
        &self,
        changed: Vec<Change>,
    ) -> impl Iterator<Item = Vec<u8>> + use<> {
        let is_operational = self.session.is_operational();
        let changed = changed.into_iter().filter(move |_| is_operational);
        changed.map(change_message)
    }

    pub(crate) async fn send(&self, message: Vec<u8>) {
        let _ = self.outbox.send(message).await;
    }

    async fn answer(&self, answer: Answer) {
        self.send(answer.whole().await).await;
    }

    fn arrival<'a>(&'a self, traceparent: Option<&'a [u8]>) -> Arrival<'a> {
        Arrival {
            gateway: &self.session.gateway,
            surface: self.surface,
            identity: &self.session.identity,
            traceparent,
        }
    }

    /// Answers a message that could not be parsed.
    pub(crate) async fn refuse(&self, fault: &Fault) {
        let revision = self.session.revision();
        self.answer(self.arrival(None).refuse(None, fault, revision, 0))
            .await;
    }

    /// One message, or one batch, as it came.
    pub(crate) async fn receive(&self, bytes: Bytes, traceparent: Option<&[u8]>) {
        let arrival = self.arrival(traceparent);
        let rules = Rules::caller(arrival.gateway.limits().json_depth_max);
        let len = bytes.len();
        match Incoming::parse(bytes, rules) {
            Err(refusal) => self.malformed(&arrival, &refusal, len).await,
            Ok(Incoming::One(message)) => self.message(&arrival, message, Some(len)).await,
            Ok(Incoming::Batch(messages)) => self.batch(&arrival, messages).await,
        }
    }

    async fn malformed(&self, arrival: &Arrival<'_>, refusal: &Refusal, len: usize) {
        let revision = self.session.revision();
        self.answer(arrival.malformed(refusal, revision, len)).await;
    }

    /// The answers to a batch come one by one.
    async fn batch(&self, arrival: &Arrival<'_>, messages: Vec<Result<Message, Refusal>>) {
        if !self.session.takes_batches() {
            let fault = no_batches();
            arrival.refuse_batch(&messages, &fault);
            let revision = self.session.revision();
            return self.send(fault_message(None, revision, &fault)).await;
        }
        for message in messages {
            match message {
                Ok(message) => self.message(arrival, message, None).await,
                Err(refusal) => self.malformed(arrival, &refusal, 0).await,
            }
        }
    }

    /// `len` is that of the line or body; elements of a batch have none, and count their params.
    async fn message(&self, arrival: &Arrival<'_>, message: Message, len: Option<usize>) {
        let request = match message {
            Message::Request(request) => request,
            message => return self.session.take(message),
        };
        let is_batched = len.is_none();
        let len = len.unwrap_or(request.params.as_bytes().len());
        let exchange = MessageExchange::open(arrival, &request, len);
        if arrival.gateway.is_draining() {
            let fault = Fault::new(Kind::GoingDown, "this gateway is shutting down");
            return self.answer(exchange.answer(Err(fault))).await;
        }
        if request.params.meta(meta::PROTOCOL_VERSION).is_some() {
            let exchange = exchange.in_revision(Revision::NEWEST);
            return self.modern(request, exchange).await;
        }
        if request.method == Method::Discover {
            // The probe of a modern client that does not name its revision.
            let text = format!("params._meta needs {:?}", meta::PROTOCOL_VERSION);
            let fault = Fault::new(Kind::InvalidParams, text);
            return self.answer(exchange.answer(Err(fault))).await;
        }
        let received = self.session.receive(request, exchange, is_batched);
        let sink = || CallerSink::Shared(self.outbox.clone());
        match received.and_then(|call| self.session.begin(call, sink())) {
            Err(answer) => self.answer(answer).await,
            Ok((work, guard)) => {
                let outbox = self.outbox.clone();
                spawn(guard, async move {
                    // A line or an event must be whole, since other messages wait behind it.
                    let _ = outbox.send(work.await.whole().await).await;
                });
            }
        }
    }

    async fn modern(&self, request: Request, mut exchange: MessageExchange) {
        let handled = match self.answer_modern(&request, &mut exchange) {
            Ok(handled) => handled,
            Err(caller) => match self.session.in_flight.begin(&request.id) {
                Ok(guard) => return self.spawn_modern(caller, request, exchange, guard),
                Err(fault) => Err(fault),
            },
        };
        self.answer(exchange.answer(handled)).await;
    }

    /// The gateway's own answer; `Err` is the caller of a call to be made.
    fn answer_modern(
        &self,
        request: &Request,
        exchange: &mut MessageExchange,
    ) -> Result<Result<Handled, Fault>, Arc<Caller>> {
        let Request { method, params, .. } = request;
        let (policy, view) = (&self.session.gateway.policy, self.session.view);
        let introduced = Introduction::read(request, &self.session.identity);
        let caller = match introduced.and_then(Introduction::caller) {
            Ok(caller) => Caller {
                session: Some(self.session.id.clone()),
                ..caller
            },
            Err(fault) => return Ok(Err(fault)),
        };
        exchange.identify(&caller);
        if hello::waits_for_lists(policy, &caller, view, method) {
            return Err(Arc::new(caller));
        }
        if let Some(listed) = hello::list_now(policy, &caller, view, method, params) {
            return Ok(listed.map(Handled::Result));
        }
        if *method == Method::Discover {
            let discovered = hello::discover(policy, &caller, view);
            return Ok(Ok(Handled::Result(discovered.into())));
        }
        if !method.is_request_in(Revision::NEWEST) {
            let text = format!("unknown method: {}", method.as_str());
            return Ok(Err(Fault::new(Kind::MethodNotFound, text)));
        }
        Err(Arc::new(caller))
    }

    fn spawn_modern(
        &self,
        caller: Arc<Caller>,
        request: Request,
        exchange: MessageExchange,
        guard: CallGuard,
    ) {
        let (session, outbox) = (self.session.clone(), self.outbox.clone());
        match request.method {
            Method::Listen => spawn(guard, listen(session, caller, request, exchange, outbox)),
            _ => spawn(guard, call(session, caller, request, exchange, outbox)),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.end();
    }
}

/// Runs a call as a task, until it ends or is cancelled by its id.
fn spawn(guard: CallGuard, work: impl Future<Output = ()> + Send + 'static) {
    if let Some(work) = guard.cancellable(work) {
        tokio::spawn(async move {
            let _ = work.await;
            drop(guard);
        });
    }
}

/// A call of a modern caller, or a list that waits for backends.
async fn call(
    session: Arc<LegacySession>,
    caller: Arc<Caller>,
    request: Request,
    exchange: MessageExchange,
    outbox: mpsc::Sender<Vec<u8>>,
) {
    let (gateway, view) = (&session.gateway, session.view);
    let Request { method, params, .. } = &request;
    let listed = hello::answer_list(&gateway.policy, &caller, view, method, params).await;
    let handled = match listed {
        Some(listed) => listed.map(Handled::Result),
        None => match ModernCall::begin(gateway, caller, view, request, exchange.trail()) {
            Err(fault) => Err(fault),
            Ok(mut talk) => loop {
                match talk.next().await {
                    Turn::Notice(notice) => drop(outbox.try_send(notice)),
                    Turn::Done(handled) => break handled,
                }
            },
        },
    };
    let _ = outbox.send(exchange.answer(handled).whole().await).await;
}

/// `subscriptions/listen`, until the caller cancels it or the gateway shuts down.
async fn listen(
    session: Arc<LegacySession>,
    caller: Arc<Caller>,
    request: Request,
    exchange: MessageExchange,
    outbox: mpsc::Sender<Vec<u8>>,
) {
    let (gateway, view) = (&session.gateway, session.view);
    let mut listener = match Listener::open(gateway, caller, view, request).await {
        Ok(listener) => listener,
        Err(fault) => {
            let answer = exchange.answer(Err(fault)).whole().await;
            let _ = outbox.send(answer).await;
            return;
        }
    };
    let acknowledgement = listener.acknowledgement();
    exchange.opened(acknowledgement.len());
    let _ = outbox.send(acknowledgement).await;
    loop {
        let messages = tokio::select! {
            messages = listener.next() => messages,
            () = gateway.drained() => {
                let _ = outbox.send(listener.farewell()).await;
                None
            }
        };
        let Some(messages) = messages else { return };
        for message in messages {
            if outbox.send(message).await.is_err() {
                return;
            }
        }
    }
}
