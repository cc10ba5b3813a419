//! The stdio door: one caller, newline-delimited JSON on a pair of pipes, either era.
//!
//! The reader never waits for a call: each runs as a task, found again by its id for cancellation.
//! Everything goes out through one bounded queue, written in batches. When the input ends, calls
//! in flight are dropped, which cancels them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use sentinel_core::audit::{Surface, Trail};
use sentinel_core::{Caller, ClientCapabilities, Fault, Identity, Kind, LogLevel, View};
use sentinel_wire::envelope::Refusal;
use sentinel_wire::json::Rules;
use sentinel_wire::lines::{LineDecoder, push_line};
use sentinel_wire::{Id, Incoming, Message, Method, Notification, Request, Revision, meta};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::exchange::{Arrival, Handled, MessageExchange};
use crate::gateway::Gateway;
use crate::mcp::{
    self, Asks, CallerSink, Changes, Introduction, LegacyCall, Listener, Subscriber, Talk, Turn,
    change_message,
};

/// Messages waiting to be written; a caller who does not read holds up its own calls only.
const OUTBOX_MAX: usize = 1024;
/// Calls in flight at once.
const IN_FLIGHT_MAX: usize = 4096;
const READ_BYTES: usize = 64 * 1024;

/// Serves one caller of the merged catalog until its input ends or draining is over. Who it is was
/// settled at the start (G-19): nothing it sends changes that.
pub async fn serve<R, W>(gateway: Arc<Gateway>, identity: Arc<Identity>, input: R, output: W)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    serve_view(gateway, identity, View::Merged, input, output).await;
}

/// Serves one caller of one view, as `/mcp` and `/mcp/<backend>` do over HTTP.
pub async fn serve_view<R, W>(
    gateway: Arc<Gateway>,
    identity: Arc<Identity>,
    view: View,
    input: R,
    output: W,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    // A process on pipes has one caller, so any name will do.
    let at = (Surface::Stdio, "stdio".into());
    serve_session(gateway, identity, view, at, input, output).await;
}

/// The same where there are several callers at once: the session tells them apart, the surface says
/// which door is behind the pipes.
pub(crate) async fn serve_session<R, W>(
    gateway: Arc<Gateway>,
    identity: Arc<Identity>,
    view: View,
    at: (Surface, Arc<str>),
    mut input: R,
    output: W,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (outbox, inbox) = mpsc::channel(OUTBOX_MAX);
    let writer = tokio::spawn(write(inbox, output));
    let answers = outbox.clone();
    let mut connection = Connection::new(gateway.clone(), identity, view, at, outbox);
    let mut decoder = LineDecoder::new(gateway.limits().line_bytes_max);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = tokio::select! {
            read = input.read(&mut buffer) => read,
            () = gateway.drained() => break,
            // Nobody reads the answers any more, whatever may still be asked.
            () = answers.closed() => break,
        };
        let Ok(len @ 1..) = read else { break };
        let mut chunk = &buffer[..len];
        while let Some(line) = decoder.next(&mut chunk) {
            connection.line(line.map_err(|long| long.to_string())).await;
        }
    }
    if let Some(line) = decoder.finish() {
        connection.line(line.map_err(|long| long.to_string())).await;
    }
    if gateway.is_draining() {
        connection.finish().await;
    }
    drop((connection, answers));
    let _ = writer.await;
}

/// Writes whatever is waiting in one go.
async fn write<W: AsyncWrite + Unpin>(mut inbox: mpsc::Receiver<Vec<u8>>, mut output: W) {
    let mut batch = Vec::with_capacity(64);
    let mut out = Vec::new();
    while inbox.recv_many(&mut batch, 64).await > 0 {
        out.clear();
        for message in batch.drain(..) {
            push_line(&mut out, &message);
        }
        if output.write_all(&out).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

/// How far a legacy caller's handshake got.
enum Stage {
    Created,
    /// `initialize` was answered; `initialized` has not come.
    Initializing(Arc<Caller>),
    Operational(Arc<Caller>),
}

struct Connection {
    gateway: Arc<Gateway>,
    identity: Arc<Identity>,
    view: View,
    surface: Surface,
    session: Arc<str>,
    outbox: mpsc::Sender<Vec<u8>>,
    stage: Stage,
    asks: Arc<Asks>,
    subscriber: Arc<Subscriber>,
    in_flight: Arc<Mutex<HashMap<Id, AbortHandle>>>,
    changes: Option<AbortHandle>,
}

impl Connection {
    fn new(
        gateway: Arc<Gateway>,
        identity: Arc<Identity>,
        view: View,
        (surface, session): (Surface, Arc<str>),
        outbox: mpsc::Sender<Vec<u8>>,
    ) -> Self {
        let told = outbox.clone();
        let subscriber = Subscriber::new(view, move |message| {
            // A caller that does not read misses news; its answers wait for it.
            let _ = told.try_send(message);
        });
        Self {
            gateway,
            identity,
            view,
            surface,
            session,
            outbox,
            stage: Stage::Created,
            asks: Arc::default(),
            subscriber: Arc::new(subscriber),
            in_flight: Arc::default(),
            changes: None,
        }
    }

    fn revision(&self) -> Revision {
        match &self.stage {
            Stage::Created => Revision::NEWEST_LEGACY,
            Stage::Initializing(caller) | Stage::Operational(caller) => caller.revision,
        }
    }

    async fn line(&mut self, line: Result<Bytes, String>) {
        let rules = Rules::caller(self.gateway.limits().json_depth_max);
        let len = line.as_ref().map_or(0, Bytes::len);
        match line.map(|line| Incoming::parse(line, rules)) {
            Err(too_long) => self.refuse(Kind::TooLarge, too_long).await,
            Ok(Err(refusal)) => self.malformed(&refusal, len).await,
            Ok(Ok(Incoming::One(message))) => self.message(message, len).await,
            Ok(Ok(Incoming::Batch(messages))) => self.batch(messages).await,
        }
    }

    /// A batch's answers may come one by one over stdio; only 2025-03-26 may send one.
    async fn batch(&mut self, messages: Vec<Result<Message, Refusal>>) {
        if self.revision() != Revision::V2025_03_26 {
            let text = "batches exist only in 2025-03-26";
            let fault = Fault::new(Kind::InvalidRequest, text);
            self.arrival().refuse_batch(&messages, &fault);
            return self
                .send(mcp::fault_message(None, self.revision(), &fault))
                .await;
        }
        for message in messages {
            match message {
                Ok(message) => self.message(message, 0).await,
                Err(refusal) => self.malformed(&refusal, 0).await,
            }
        }
    }

    fn arrival(&self) -> Arrival<'_> {
        Arrival {
            gateway: &self.gateway,
            surface: self.surface,
            identity: &self.identity,
            traceparent: None,
        }
    }

    async fn malformed(&self, refusal: &Refusal, len: usize) {
        let answer = self.arrival().malformed(refusal, self.revision(), len);
        self.send(answer.whole().await).await;
    }

    /// `len` is the line's; a batch's elements count their params.
    async fn message(&mut self, message: Message, len: usize) {
        match message {
            Message::Response(response) => self.asks.settle(response),
            Message::Notification(note) => self.notified(note),
            Message::Request(request) => {
                let len = len.max(request.params.as_bytes().len());
                let exchange = MessageExchange::open(&self.arrival(), &request, len);
                if request.params.meta(meta::PROTOCOL_VERSION).is_some() {
                    self.modern(request, exchange.in_revision(Revision::NEWEST))
                        .await;
                } else {
                    self.legacy(request, exchange).await;
                }
            }
        }
    }

    fn notified(&mut self, note: Notification) {
        match note.method {
            Method::Initialized => {
                if let Stage::Initializing(caller) = &self.stage {
                    self.stage = Stage::Operational(caller.clone());
                    self.watch_changes();
                }
            }
            Method::Cancelled => {
                if let Some(id) = note.params.get_bytes("requestId").and_then(Id::from_raw)
                    && let Some(task) = self.in_flight.lock().remove(&id)
                {
                    task.abort();
                }
            }
            Method::RootsChanged => {
                if let Stage::Operational(caller) = &self.stage
                    && caller.capabilities.roots_changed
                {
                    self.gateway.registry.roots_changed(self.view, caller);
                }
            }
            _ => {}
        }
    }

    /// Tells a legacy caller when lists change.
    fn watch_changes(&mut self) {
        let mut changes = Changes::of(&self.gateway.registry, self.view);
        let outbox = self.outbox.clone();
        let task = tokio::spawn(async move {
            while let Some(changed) = changes.next().await {
                for change in changed {
                    if outbox.send(change_message(change)).await.is_err() {
                        return;
                    }
                }
            }
        });
        self.changes = Some(task.abort_handle());
    }

    async fn legacy(&mut self, request: Request, mut exchange: MessageExchange) {
        if let Stage::Initializing(caller) | Stage::Operational(caller) = &self.stage {
            exchange.identify(caller);
        }
        if let Stage::Operational(caller) = &self.stage
            && mcp::waits_for_lists(&self.gateway.policy, self.view, &request.method)
        {
            let caller = caller.clone();
            return self.list_later(caller, request, exchange).await;
        }
        let caller = match self.answer_locally(&request, &mut exchange).await {
            Ok(caller) => caller,
            Err(handled) => return self.answer(exchange, handled).await,
        };
        let (id, trail) = (request.id.clone(), exchange.trail());
        let outbox = self.outbox.clone();
        let call = LegacyCall {
            gateway: self.gateway.clone(),
            caller,
            view: self.view,
            request,
            sink: CallerSink::Shared(outbox.clone()),
            asks: self.asks.clone(),
            subscriber: self.subscriber.clone(),
            exchange,
        };
        self.spawn(id, trail, async move {
            // A line must be whole, for others wait behind it.
            let answer = call.run().await.whole().await;
            let _ = outbox.send(answer).await;
        })
        .await;
    }

    /// What the gateway answers itself, as the error; otherwise the caller of the call to be made.
    async fn answer_locally(
        &mut self,
        request: &Request,
        exchange: &mut MessageExchange,
    ) -> Result<Arc<Caller>, Result<Handled, Fault>> {
        let empty = || Err(Ok(Handled::Result(Bytes::from_static(b"{}"))));
        let fail = |kind, text| Err(Err(Fault::new(kind, text)));
        let caller = match (&request.method, &self.stage) {
            (Method::Ping, _) => return empty(),
            (Method::Initialize, _) => return Err(self.initialize(request, exchange)),
            (Method::Discover, _) => {
                // A modern client's probe that forgot to say so.
                let text = format!("params._meta needs {:?}", meta::PROTOCOL_VERSION);
                return fail(Kind::InvalidParams, text);
            }
            (_, Stage::Operational(caller)) => caller.clone(),
            _ => {
                let text = "begin with initialize, then notifications/initialized";
                return fail(Kind::NotInitialized, text.to_owned());
            }
        };
        if let Some(listed) = mcp::answer_list(
            &self.gateway.policy,
            &caller,
            self.view,
            &request.method,
            &request.params,
        )
        .await
        {
            return Err(listed.map(Handled::Result));
        }
        if request.method == Method::SetLevel {
            return match request.params.get("level").and_then(LogLevel::rank) {
                Some(level) => {
                    caller.log_level.set(level);
                    empty()
                }
                None => {
                    let text = "`level` must be one of the eight log levels";
                    fail(Kind::InvalidParams, text.to_owned())
                }
            };
        }
        if !request.method.is_request_in(caller.revision) {
            let text = format!("unknown method: {}", request.method.as_str());
            return fail(Kind::MethodNotFound, text);
        }
        Ok(caller)
    }

    /// Answers a list that waits for backends; the reader goes on meanwhile.
    async fn list_later(
        &mut self,
        caller: Arc<Caller>,
        request: Request,
        exchange: MessageExchange,
    ) {
        let (gateway, outbox, view) = (self.gateway.clone(), self.outbox.clone(), self.view);
        let trail = exchange.trail();
        self.spawn(request.id.clone(), trail, async move {
            let Request { method, params, .. } = &request;
            let listed = mcp::answer_list(&gateway.policy, &caller, view, method, params).await;
            let listed = listed.expect("only lists wait").map(Handled::Result);
            let answer = exchange.answer(listed).whole().await;
            let _ = outbox.send(answer).await;
        })
        .await;
    }

    fn initialize(
        &mut self,
        request: &Request,
        exchange: &mut MessageExchange,
    ) -> Result<Handled, Fault> {
        let requested = request.params.string("protocolVersion").ok_or_else(|| {
            let text = "`protocolVersion` is missing or no string";
            Fault::new(Kind::InvalidParams, text)
        })?;
        let revision = Revision::negotiate(&requested);
        let capabilities = request
            .params
            .get_bytes("capabilities")
            .and_then(ClientCapabilities::parse);
        let caller = Arc::new(Caller {
            subject: self.identity.subject.clone(),
            role: self.identity.role.clone(),
            scopes: self.identity.scopes.clone(),
            tenant: self.identity.tenant.clone(),
            revision,
            capabilities: capabilities.unwrap_or_default(),
            client_info: request.params.get_bytes("clientInfo"),
            session: Some(self.session.clone()),
            log_level: LogLevel::default(),
            tags: None,
        });
        exchange.identify(&caller);
        let result = mcp::initialize(&self.gateway.policy, &caller, self.view);
        self.stage = Stage::Initializing(caller);
        Ok(Handled::Result(result.into()))
    }

    async fn modern(&mut self, request: Request, mut exchange: MessageExchange) {
        let introduced = Introduction::read(&request, &self.identity);
        let caller = match introduced.and_then(Introduction::caller) {
            Ok(caller) => Caller {
                session: Some(self.session.clone()),
                ..caller
            },
            Err(fault) => return self.answer(exchange, Err(fault)).await,
        };
        exchange.identify(&caller);
        let policy = self.gateway.policy.clone();
        if mcp::waits_for_lists(&policy, self.view, &request.method) {
            return self.list_later(Arc::new(caller), request, exchange).await;
        }
        let listed = mcp::answer_list(
            &policy,
            &caller,
            self.view,
            &request.method,
            &request.params,
        )
        .await;
        let handled = match (&request.method, listed) {
            (_, Some(listed)) => listed.map(Handled::Result),
            (Method::Discover, _) => {
                let discovered = mcp::discover(&policy, &caller, self.view);
                Ok(Handled::Result(discovered.into()))
            }
            (Method::Listen, _) => return self.listen(caller, request, exchange).await,
            (method, _) if method.is_request_in(Revision::NEWEST) => {
                return self.call(caller, request, exchange).await;
            }
            (method, _) => {
                let text = format!("unknown method: {}", method.as_str());
                Err(Fault::new(Kind::MethodNotFound, text))
            }
        };
        self.answer(exchange, handled).await;
    }

    async fn call(&mut self, caller: Caller, request: Request, exchange: MessageExchange) {
        let (gateway, outbox) = (self.gateway.clone(), self.outbox.clone());
        let (id, view) = (request.id.clone(), self.view);
        let trail = exchange.trail();
        self.spawn(id, trail.clone(), async move {
            let mut talk = match Talk::begin(&gateway, Arc::new(caller), view, request, trail) {
                Ok(talk) => talk,
                Err(fault) => {
                    let answer = exchange.answer(Err(fault)).whole().await;
                    let _ = outbox.send(answer).await;
                    return;
                }
            };
            loop {
                match talk.next().await {
                    Turn::Notice(notice) => drop(outbox.try_send(notice)),
                    Turn::Done(handled) => {
                        let answer = exchange.answer(handled).whole().await;
                        let _ = outbox.send(answer).await;
                        return;
                    }
                }
            }
        })
        .await;
    }

    async fn listen(&mut self, caller: Caller, request: Request, exchange: MessageExchange) {
        let (gateway, outbox, view) = (self.gateway.clone(), self.outbox.clone(), self.view);
        let trail = exchange.trail();
        self.spawn(request.id.clone(), trail, async move {
            let listener = Listener::open(&gateway, Arc::new(caller), view, request).await;
            let mut listener = match listener {
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
                tokio::select! {
                    messages = listener.next() => {
                        let Some(messages) = messages else { return };
                        for message in messages {
                            if outbox.send(message).await.is_err() {
                                return;
                            }
                        }
                    }
                    () = gateway.drained() => {
                        let _ = outbox.send(listener.farewell()).await;
                        return;
                    }
                }
            }
        })
        .await;
    }

    /// Runs a call as a task that can be cancelled by its id.
    async fn spawn(
        &mut self,
        id: Id,
        trail: Arc<Trail>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let problem = {
            let calls = self.in_flight.lock();
            match calls.get(&id) {
                Some(old) if !old.is_finished() => Some("this id is in use by a request in flight"),
                _ if calls.len() >= IN_FLIGHT_MAX => Some("too many requests in flight"),
                _ => None,
            }
        };
        if let Some(problem) = problem {
            trail.refuse(Kind::InvalidRequest);
            // And the entry with it, before the answer leaves.
            drop(work);
            let fault = Fault::new(Kind::InvalidRequest, problem);
            let message = mcp::fault_message(Some(&id), self.revision(), &fault);
            return self.send(message).await;
        }
        let mut calls = self.in_flight.lock();
        let (table, done) = (self.in_flight.clone(), id.clone());
        let task = tokio::spawn(async move {
            work.await;
            table.lock().remove(&done);
        });
        calls.insert(id, task.abort_handle());
    }

    /// Waits until every call in flight is answered; the caller bounds how long.
    async fn finish(&self) {
        while !self.in_flight.lock().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    async fn send(&self, message: Vec<u8>) {
        let _ = self.outbox.send(message).await;
    }

    async fn answer(&self, exchange: MessageExchange, handled: Result<Handled, Fault>) {
        self.send(exchange.answer(handled).whole().await).await;
    }

    async fn refuse(&self, kind: Kind, text: String) {
        let fault = Fault::new(kind, text);
        let answer = self.arrival().refuse(None, &fault, self.revision(), 0);
        self.send(answer.whole().await).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(changes) = self.changes.take() {
            changes.abort();
        }
        for (_, task) in self.in_flight.lock().drain() {
            task.abort();
        }
    }
}
