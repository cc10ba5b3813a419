//! Requests of the handshake era over HTTP: sessions, one POST per message, a GET stream.
//!
//! A call belongs to its session, not to the connection it came by (`running`): only
//! `notifications/cancelled`, DELETE or the end of the session stop it. Whoever loses its
//! stream takes it up again with GET (`resume`).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{FutureExt, join_all, ready};
use futures_util::stream;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{HeaderName, Response, StatusCode};
use sentinel_core::queue::{Teller, queue};
use sentinel_core::{Caller, ClientCapabilities, Fault, Identity, Kind, LogLevel, View};
use sentinel_wire::envelope::Refusal;
use sentinel_wire::{Id, Message, Method, Notification, Request, Revision, sse};

use super::body::Body;
use super::post::{Version, arrival};
use super::running::{self, Answer, Running};
use super::session::{NotTaken, Session};
use super::{Door, Endpoint, reply, resume};
use crate::exchange::{Handled, MessageExchange};
use crate::mcp::{self, CallerSink, LegacyCall, SILENCE_MAX, StreamItem, change_message};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Notices and questions on their way to one caller.
const MESSAGES_MAX: usize = 64;

/// The handshake: answered from what we know, at once.
pub(super) fn initialize(
    door: &Arc<Door>,
    identity: &Arc<Identity>,
    at: &Endpoint,
    request: &Request,
    mut exchange: MessageExchange,
) -> Response<Body> {
    let session = match open_session(door, identity, at, request) {
        Ok(session) => session,
        Err(fault) => return reply::answer(exchange.answer(Err(fault))),
    };
    exchange.identify(&session.caller);
    let result = mcp::initialize(&door.gateway.policy, &session.caller, at.view);
    let mut response = reply::answer(exchange.answer(Ok(Handled::Result(result.into()))));
    let id = HeaderValue::from_str(&session.id).expect("session ids are visible ASCII");
    response.headers_mut().insert(SESSION, id);
    response
}

fn open_session(
    door: &Door,
    identity: &Arc<Identity>,
    at: &Endpoint,
    request: &Request,
) -> Result<Arc<Session>, Fault> {
    let params = &request.params;
    let requested = params.string("protocolVersion").ok_or_else(|| {
        let text = "`protocolVersion` is missing or no string";
        Fault::new(Kind::InvalidParams, text)
    })?;
    let revision = Revision::negotiate(&requested);
    door.sessions.bound(&door.gateway.limits());
    let opened = door.sessions.open(at.view, identity, |session| Caller {
        subject: identity.subject.clone(),
        role: identity.role.clone(),
        scopes: identity.scopes.clone(),
        tenant: identity.tenant.clone(),
        revision,
        capabilities: params
            .get_bytes("capabilities")
            .and_then(ClientCapabilities::parse)
            .unwrap_or_default(),
        client_info: params.get_bytes("clientInfo"),
        session: Some(session),
        log_level: LogLevel::default(),
        tags: at.tags.clone(),
    });
    opened.map_err(|_| {
        let text = "too many sessions (limits.sessions)";
        Fault::new(Kind::TooManySessions, text)
    })
}

/// Any other message of a session.
pub(super) async fn message(
    door: &Arc<Door>,
    identity: &Arc<Identity>,
    at: &Endpoint,
    headers: &HeaderMap,
    message: Message,
    exchange: Option<MessageExchange>,
) -> Response<Body> {
    let session = find(door, identity, at, headers);
    match (message, exchange) {
        (Message::Request(request), Some(mut exchange)) => {
            // A ping is answered without a session, too.
            if request.method == Method::Ping && !headers.contains_key(SESSION) {
                let pong = Handled::Result(Bytes::from_static(b"{}"));
                return reply::answer(exchange.answer(Ok(pong)));
            }
            let session = match session {
                Ok(session) => session,
                Err(fault) => return reply::answer(exchange.answer(Err(fault))),
            };
            exchange.identify(&session.caller);
            match answer_locally(door, &session, &request).await {
                Some(handled) => reply::answer(exchange.answer(handled)),
                None => call(door, identity, session, headers, request, exchange).await,
            }
        }
        (message, _) => match session {
            Err(fault) => reply::refuse_in(Version::of(headers).revision(), &fault),
            Ok(session) => {
                take(door, &session, message);
                reply::accepted()
            }
        },
    }
}

/// A message that has no answer.
fn take(door: &Door, session: &Session, message: Message) {
    match message {
        Message::Response(response) => session.asks.settle(response),
        Message::Notification(note) => notified(door, session, &note),
        Message::Request(_) => {}
    }
}

/// A batch, which only 2025-03-26 knows.
pub(super) async fn batch(
    door: &Arc<Door>,
    identity: &Arc<Identity>,
    at: &Endpoint,
    headers: &HeaderMap,
    messages: Vec<Result<Message, Refusal>>,
) -> Response<Body> {
    let session = find(door, identity, at, headers).ok();
    let allowed = |session: &Arc<Session>| session.caller.revision == Revision::V2025_03_26;
    let Some(session) = session.filter(allowed) else {
        let text = "batches exist only in sessions of 2025-03-26";
        let fault = Fault::new(Kind::InvalidRequest, text);
        arrival(door, identity, headers).refuse_batch(&messages, &fault);
        return reply::refuse_in(Version::of(headers).revision(), &fault);
    };
    let (outbox, mut inbox) = queue(MESSAGES_MAX, 0);
    let mut done = Vec::new();
    let mut running = Vec::new();
    let arrival = arrival(door, identity, headers);
    for message in messages {
        match message {
            Err(refusal) => {
                let answer = arrival.malformed(&refusal, session.caller.revision, 0);
                done.push(answer.whole().await);
            }
            Ok(Message::Request(request)) => {
                let len = request.params.as_bytes().len();
                let mut exchange = MessageExchange::open(&arrival, &request, len);
                exchange.identify(&session.caller);
                let handled = match &request.method {
                    Method::Initialize => {
                        let text = "initialize must not be in a batch";
                        Some(Err(Fault::new(Kind::InvalidRequest, text)))
                    }
                    _ => answer_locally(door, &session, &request).await,
                };
                match handled {
                    Some(handled) => done.push(exchange.answer(handled).whole().await),
                    None => match begin(door, &session, request, outbox.clone(), false, exchange) {
                        Ok(call) => running.push(call),
                        Err(message) => done.push(message),
                    },
                }
            }
            Ok(message) => take(door, &session, message),
        }
    }
    drop(outbox);
    if done.is_empty() && running.is_empty() {
        return reply::accepted();
    }
    let mut answers = Box::pin(async move {
        let answers = join_all(running.into_iter().map(Running::whole)).await;
        done.extend(answers.into_iter().flatten());
        done
    });
    // Whatever is said before the last answer makes it a stream; otherwise it is one array.
    let (first, answers) = tokio::select! {
        biased;
        message = inbox.next() => (Some(message), answers.boxed()),
        answers = &mut answers => match inbox.try_next() {
            Some(said) => (Some(said), ready(answers).boxed()),
            None => {
                let mut out = vec![b'['];
                out.extend_from_slice(&answers.join(&b','));
                out.push(b']');
                return reply::json(StatusCode::OK, out);
            }
        },
        () = tokio::time::sleep(SILENCE_MAX) => (None, answers.boxed()),
    };
    let heard = session.streams.open(false, first, inbox, answers);
    door.events(identity, resume::events(heard))
}

/// What the gateway answers itself; `None` for a call.
async fn answer_locally(
    door: &Door,
    session: &Session,
    request: &Request,
) -> Option<Result<Handled, Fault>> {
    let policy = &door.gateway.policy;
    let revision = session.caller.revision;
    let empty = || Some(Ok(Handled::Result(Bytes::from_static(b"{}"))));
    let fail = |kind, text| Some(Err(Fault::new(kind, text)));
    if let Some(listed) = mcp::answer_list(
        policy,
        &session.caller,
        session.view,
        &request.method,
        &request.params,
    )
    .await
    {
        return Some(listed.map(Handled::Result));
    }
    match &request.method {
        Method::Ping => empty(),
        Method::SetLevel => match request.params.get("level").and_then(LogLevel::rank) {
            Some(level) => {
                session.caller.log_level.set(level);
                empty()
            }
            None => {
                let text = "`level` must be one of the eight log levels";
                fail(Kind::InvalidParams, text.to_owned())
            }
        },
        Method::Other(_) if matches!(session.view, View::Only(_)) => None,
        method if method.is_request_in(revision) => None,
        method => {
            let text = format!("unknown method: {}", method.as_str());
            fail(Kind::MethodNotFound, text)
        }
    }
}

fn notified(door: &Door, session: &Session, note: &Notification) {
    if note.method == Method::RootsChanged && session.caller.capabilities.roots_changed {
        let registry = &door.gateway.registry;
        return registry.roots_changed(session.view, &session.caller);
    }
    if note.method == Method::Cancelled
        && let Some(id) = note.params.get_bytes("requestId").and_then(Id::from_raw)
    {
        session.cancel(&id);
    }
}

/// Makes a call of the session ready to go.
fn begin(
    door: &Arc<Door>,
    session: &Arc<Session>,
    request: Request,
    items: Teller<StreamItem>,
    resumable: bool,
    exchange: MessageExchange,
) -> Result<Running, Vec<u8>> {
    let trail = exchange.trail();
    let id = request.id.clone();
    let call = LegacyCall {
        gateway: door.gateway.clone(),
        caller: session.caller.clone(),
        view: session.view,
        request,
        sink: CallerSink::Stream { items, resumable },
        asks: session.asks.clone(),
        subscriber: session.subscriber.clone(),
        exchange,
    };
    Running::begin(session, &id, &trail, call.run()).map_err(|why| {
        let text = match why {
            NotTaken::IdInUse => "this id is in use by a request in flight",
            NotTaken::TooMany => "too many requests in flight",
        };
        let fault = Fault::new(Kind::InvalidRequest, text);
        mcp::fault_message(Some(&id), session.caller.revision, &fault)
    })
}

/// Runs a call: JSON if the first thing to say is the answer, otherwise a stream.
async fn call(
    door: &Arc<Door>,
    identity: &Identity,
    session: Arc<Session>,
    headers: &HeaderMap,
    request: Request,
    exchange: MessageExchange,
) -> Response<Body> {
    let (outbox, mut inbox) = queue(MESSAGES_MAX, 0);
    let primed = session.caller.revision >= Revision::V2025_11_25;
    let may_resume = primed && accepts_events(headers) && door.has_room_for_events(identity);
    let mut running = match begin(door, &session, request, outbox, may_resume, exchange) {
        Ok(running) => running,
        Err(message) => return reply::json(StatusCode::OK, message),
    };
    let (first, answers) = tokio::select! {
        biased;
        message = inbox.next() => (Some(message), rest(running)),
        answer = &mut running => match (answer, inbox.try_next()) {
            (Some(Answer::Whole(message)), None) => return reply::json(StatusCode::OK, message),
            (Some(Answer::Large(large, noted)), None) => {
                return match running::flow(*large, noted) {
                    Some(body) => reply::pieces(body),
                    None => reply::events(Body::empty()),
                };
            }
            (Some(answer), Some(said)) => {
                // An event must be whole.
                let answer = answer.whole().map(|message| message.into_iter().collect());
                (Some(said), answer.boxed())
            }
            // Cancelled: nothing more is said about it.
            (None, _) => return reply::cancelled(),
        },
        () = tokio::time::sleep(SILENCE_MAX) => (None, rest(running)),
    };
    let heard = session.streams.open(primed, first, inbox, answers);
    door.events(identity, resume::events(heard))
}

/// The answer of a call that is still running, as the end of a stream.
fn rest(running: Running) -> resume::Answers {
    let answer = running.whole();
    answer.map(|answer| answer.into_iter().collect()).boxed()
}

/// The session's own stream: changed lists and resources.
pub(super) fn stream(
    door: &Arc<Door>,
    identity: &Arc<Identity>,
    at: &Endpoint,
    headers: &HeaderMap,
) -> Response<Body> {
    if !headers.contains_key(SESSION) {
        return reply::method_not_allowed("POST");
    }
    if !accepts_events(headers) {
        return reply::text(
            StatusCode::NOT_ACCEPTABLE,
            "send Accept: text/event-stream\n",
        );
    }
    let session = match find(door, identity, at, headers) {
        Ok(session) => session,
        Err(fault) => return reply::refuse_in(Version::of(headers).revision(), &fault),
    };
    if let Some(after) = headers.get(LAST_EVENT_ID) {
        return resume(door, identity, &session, after);
    }
    let primed = session.caller.revision >= Revision::V2025_11_25;
    let heard = session.streams.listen(primed);
    door.events(identity, outside(door, session, heard, false))
}

/// What is said outside of any call, until a newer stream takes over, the caller does not keep up, or
/// the session ends.
fn outside(
    door: &Door,
    session: Arc<Session>,
    heard: resume::Heard,
    resumed: bool,
) -> impl futures_util::Stream<Item = Bytes> + Send + use<> {
    let gateway = door.gateway.clone();
    let changes = session.changes(&gateway.registry, resumed);
    session.note_told(&changes);
    // The stream must not keep its session alive, which ends it.
    let session = Arc::downgrade(&session);
    stream::unfold((heard, changes), move |(mut heard, mut changes)| {
        let (gateway, session) = (gateway.clone(), session.clone());
        async move {
            loop {
                tokio::select! {
                    biased;
                    said = heard.recv() => return Some((said?, (heard, changes))),
                    changed = changes.next() => {
                        let changed = changed?;
                        let session = session.upgrade()?;
                        for change in changed {
                            session.streams.tell(&change_message(change));
                        }
                        session.note_told(&changes);
                    }
                    () = gateway.drained() => return None,
                    () = tokio::time::sleep(SILENCE_MAX) => {
                        let mut out = Vec::new();
                        sse::push_keep_alive(&mut out);
                        return Some((Bytes::from(out), (heard, changes)));
                    }
                }
            }
        }
    })
}

/// The rest of a stream that the caller lost. Not a 404 if it is not known, for that would end the
/// session.
fn resume(
    door: &Door,
    identity: &Identity,
    session: &Arc<Session>,
    after: &HeaderValue,
) -> Response<Body> {
    let heard = after
        .to_str()
        .map_err(|_| resume::Expired)
        .and_then(|after| session.streams.resume(after));
    match heard {
        Ok((heard, true)) => door.events(identity, outside(door, session.clone(), heard, true)),
        Ok((heard, false)) => door.events(identity, resume::events(heard)),
        Err(resume::Expired) => {
            let fault = Fault::new(
                Kind::InvalidRequest,
                "Last-Event-ID is unknown or expired in this session",
            );
            reply::json(
                StatusCode::BAD_REQUEST,
                mcp::fault_message(None, session.caller.revision, &fault),
            )
        }
    }
}

fn accepts_events(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|v| {
        v.to_str()
            .is_ok_and(|v| v.contains("text/event-stream") || v.contains("*/*"))
    })
}

/// The caller is done.
pub(super) fn end(
    door: &Arc<Door>,
    identity: &Arc<Identity>,
    at: &Endpoint,
    headers: &HeaderMap,
) -> Response<Body> {
    if !headers.contains_key(SESSION) {
        return reply::method_not_allowed("POST");
    }
    match find(door, identity, at, headers) {
        Ok(session) => {
            door.sessions.end(&session.id);
            reply::text(StatusCode::OK, "")
        }
        Err(fault) => reply::refuse_in(Version::of(headers).revision(), &fault),
    }
}

/// The session that the headers name.
fn find(
    door: &Door,
    identity: &Arc<Identity>,
    at: &Endpoint,
    headers: &HeaderMap,
) -> Result<Arc<Session>, Fault> {
    let mut ids = headers.get_all(SESSION).iter();
    let id = ids.next().ok_or_else(|| {
        let text = "no Mcp-Session-Id: begin with initialize";
        Fault::new(Kind::NotInitialized, text)
    })?;
    let id = id.to_str().ok().filter(|_| ids.next().is_none());
    let session = id.and_then(|id| door.sessions.get(id, identity, at.view));
    let session = session.filter(|session| session.caller.tags == at.tags);
    // One that ended, never was, or is another caller's: these must not differ.
    session.ok_or_else(|| {
        let text = "unknown session: begin with initialize again";
        Fault::new(Kind::UnknownSession, text)
    })
}
