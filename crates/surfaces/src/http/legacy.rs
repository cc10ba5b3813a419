//! Requests of the handshake era over HTTP: sessions, one POST per message, a GET stream.
//!
//! A call belongs to its session, not to the connection it came by (`running`): only
//! `notifications/cancelled`, DELETE or the end of the session stop it. A caller that
//! loses its stream resumes it with GET (`resume`).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{FutureExt, join_all, ready};
use futures_util::stream;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{HeaderName, Response, StatusCode};
use hyper::body::Incoming;
use sentinel_core::queue::queue;
use sentinel_core::{Fault, Identity, Kind};
use sentinel_wire::envelope::Refusal;
use sentinel_wire::{Message, Method, Request, Revision, sse};

use super::body::Body;
use super::exchange::Exchange;
use super::post::{Version, arrival};
use super::routes::Handled;
use super::running::{self, Answer, Running};
use super::session::HttpSession;
use super::{Endpoint, HttpServer, reply, resume};
use crate::exchange::{self, MessageExchange};
use crate::mcp::{self, CallerSink, PendingCall, SILENCE_MAX, change_message};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Queued notices and questions for one caller.
const MESSAGES_MAX: usize = 64;

/// The handshake, which opens a session.
pub(super) fn initialize(
    server: &Arc<HttpServer>,
    identity: &Arc<Identity>,
    at: &Endpoint,
    request: &Request,
    mut exchange: MessageExchange,
) -> Response<Body> {
    server.sessions.bound(&server.gateway.limits());
    let session = server.sessions.create(&server.gateway, identity, at);
    let handled = session.legacy.initialize(&request.params);
    let handled = handled.and_then(|(caller, handled)| {
        server.sessions.add(session.clone())?;
        exchange.identify(&caller);
        Ok(handled)
    });
    let is_open = handled.is_ok();
    let mut response = reply::answer(exchange.answer(handled));
    if is_open {
        let id = HeaderValue::from_str(session.id()).expect("session ids are visible ASCII");
        response.headers_mut().insert(SESSION, id);
    }
    response
}

/// Any other message of a session.
pub(super) async fn message(
    server: &Arc<HttpServer>,
    identity: &Arc<Identity>,
    at: &Endpoint,
    headers: &HeaderMap,
    message: Message,
    exchange: Option<MessageExchange>,
) -> Response<Body> {
    let session = find(server, identity, at, headers);
    match (message, exchange, session) {
        // A ping is answered without a session, too.
        (Message::Request(request), Some(exchange), Err(_))
            if request.method == Method::Ping && !headers.contains_key(SESSION) =>
        {
            let pong = exchange::Handled::Result(Bytes::from_static(b"{}"));
            reply::answer(exchange.answer(Ok(pong)))
        }
        (_, Some(exchange), Err(fault)) => reply::answer(exchange.answer(Err(fault))),
        (_, None, Err(fault)) => reply::refuse_in(Version::of(headers).revision(), &fault),
        (Message::Request(request), Some(exchange), Ok(session)) => {
            match session.legacy.receive(request, exchange, false) {
                Err(answer) => reply::answer(answer),
                Ok(pending) => call(server, identity, session, headers, pending).await,
            }
        }
        (message, _, Ok(session)) => {
            session.legacy.take(message);
            reply::accepted()
        }
    }
}

/// A batch, which only 2025-03-26 knows.
pub(super) async fn batch(
    server: &Arc<HttpServer>,
    identity: &Arc<Identity>,
    at: &Endpoint,
    headers: &HeaderMap,
    messages: Vec<Result<Message, Refusal>>,
) -> Response<Body> {
    let arrival = arrival(server, identity, headers);
    let session = find(server, identity, at, headers).ok();
    let Some(session) = session.filter(|session| session.legacy.takes_batches()) else {
        let fault = mcp::no_batches();
        arrival.refuse_batch(&messages, &fault);
        return reply::refuse_in(Version::of(headers).revision(), &fault);
    };
    let legacy = &session.legacy;
    let (outbox, mut inbox) = queue(MESSAGES_MAX, 0);
    let mut done = Vec::new();
    let mut running = Vec::new();
    for message in messages {
        match message {
            Err(refusal) => {
                let answer = arrival.malformed(&refusal, legacy.revision(), 0);
                done.push(answer.whole().await);
            }
            Ok(Message::Request(request)) => {
                let len = request.params.as_bytes().len();
                let exchange = MessageExchange::open(&arrival, &request, len);
                let sink = || CallerSink::Stream {
                    items: outbox.clone(),
                    resumable: false,
                };
                let received = legacy.receive(request, exchange, true);
                match received.and_then(|pending| legacy.begin(pending, sink())) {
                    Ok((work, guard)) => running.push(Running::new(work, guard)),
                    Err(answer) => done.push(answer.whole().await),
                }
            }
            Ok(message) => legacy.take(message),
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
    // A message before the last answer makes it a stream; otherwise it is one array.
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
    let events = server.events(identity, resume::events(heard));
    events.unwrap_or_else(|fault| reply::refuse_in(session.legacy.revision(), &fault))
}

/// Runs a call: JSON if the answer is the first message, otherwise a stream.
async fn call(
    server: &Arc<HttpServer>,
    identity: &Identity,
    session: Arc<HttpSession>,
    headers: &HeaderMap,
    pending: PendingCall,
) -> Response<Body> {
    let (items, mut inbox) = queue(MESSAGES_MAX, 0);
    let primed = pending.caller.revision >= Revision::V2025_11_25;
    let resumable = primed && accepts_events(headers) && server.has_room_for_events(identity);
    let sink = CallerSink::Stream { items, resumable };
    let mut running = match session.legacy.begin(pending, sink) {
        Ok((work, guard)) => Running::new(work, guard),
        Err(answer) => return reply::answer(answer),
    };
    let (first, answers) = tokio::select! {
        biased;
        message = inbox.next() => (Some(message), rest(running)),
        answer = &mut running => match (answer, inbox.try_next()) {
            (Some(Answer::Whole(message)), None) => return reply::json(StatusCode::OK, message),
            (Some(Answer::Large(large, guard)), None) => {
                return match running::flow(*large, guard) {
                    Some(body) => reply::pieces(body),
                    None => reply::events(Body::empty()),
                };
            }
            (Some(answer), Some(first)) => {
                // An event must be whole.
                let answer = answer.whole().map(|message| message.into_iter().collect());
                (Some(first), answer.boxed())
            }
            // Cancelled: it has no answer.
            (None, _) => return reply::cancelled(),
        },
        () = tokio::time::sleep(SILENCE_MAX) => (None, rest(running)),
    };
    let heard = session.streams.open(primed, first, inbox, answers);
    let events = server.events(identity, resume::events(heard));
    events.unwrap_or_else(|fault| reply::refuse_in(session.legacy.revision(), &fault))
}

/// The answer of a call that is still running, as the end of a stream.
fn rest(running: Running) -> resume::Answers {
    let answer = running.whole();
    answer.map(|answer| answer.into_iter().collect()).boxed()
}

/// The session's own stream: changed lists and resources.
pub(super) fn stream<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    ready(open_stream(exchange)).boxed()
}

fn open_stream(exchange: &Exchange<'_>) -> Result<Response<Body>, Fault> {
    let (server, identity) = (exchange.server, exchange.identity());
    let (at, headers) = (exchange.endpoint()?, exchange.headers());
    if !headers.contains_key(SESSION) {
        return Err(only_post());
    }
    if !accepts_events(headers) {
        let text = "send Accept: text/event-stream";
        return Err(Fault::new(Kind::NotAcceptable, text));
    }
    let session = find(server, identity, &at, headers)?;
    if let Some(after) = headers.get(LAST_EVENT_ID) {
        return resume(server, identity, &session, after);
    }
    let primed = session.legacy.revision() >= Revision::V2025_11_25;
    let events = session.streams.listen(primed);
    server.events(identity, outside(server, session, events, false))
}

/// Messages outside of calls, until a newer stream replaces it, the caller falls behind, or the session ends.
fn outside(
    server: &HttpServer,
    session: Arc<HttpSession>,
    events: resume::EventReceiver,
    resumed: bool,
) -> impl futures_util::Stream<Item = Bytes> + Send + use<> {
    let gateway = server.gateway.clone();
    let changes = session.changes(resumed);
    session.note_announced(&changes);
    // The stream must not keep its session alive, which ends it.
    let session = Arc::downgrade(&session);
    stream::unfold((events, changes), move |(mut events, mut changes)| {
        let (gateway, session) = (gateway.clone(), session.clone());
        async move {
            loop {
                tokio::select! {
                    biased;
                    event = events.recv() => return Some((event?, (events, changes))),
                    changed = changes.next() => {
                        let changed = changed?;
                        let session = session.upgrade()?;
                        for change in changed {
                            session.streams.tell(&change_message(change));
                        }
                        session.note_announced(&changes);
                    }
                    () = gateway.drained() => return None,
                    () = tokio::time::sleep(SILENCE_MAX) => {
                        let mut out = Vec::new();
                        sse::push_keep_alive(&mut out);
                        return Some((Bytes::from(out), (events, changes)));
                    }
                }
            }
        }
    })
}

/// Without a session there is nothing to stream or to end.
fn only_post() -> Fault {
    let text = "only POST, until initialize has given a Mcp-Session-Id";
    Fault::new(Kind::MethodNotAllowed, text)
}

/// Resumes a stream. An unknown event id is not a 404, which would end the session.
fn resume(
    server: &HttpServer,
    identity: &Identity,
    session: &Arc<HttpSession>,
    after: &HeaderValue,
) -> Result<Response<Body>, Fault> {
    let heard = after.to_str().map_err(|_| resume::Expired);
    match heard.and_then(|after| session.streams.resume(after)) {
        Ok((heard, true)) => server.events(identity, outside(server, session.clone(), heard, true)),
        Ok((heard, false)) => server.events(identity, resume::events(heard)),
        Err(resume::Expired) => {
            let text = "Last-Event-ID is unknown or expired in this session";
            Err(Fault::new(Kind::InvalidRequest, text))
        }
    }
}

fn accepts_events(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|v| {
        v.to_str()
            .is_ok_and(|v| v.contains("text/event-stream") || v.contains("*/*"))
    })
}

/// Ends the session.
pub(super) fn end<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    ready(end_session(exchange)).boxed()
}

fn end_session(exchange: &Exchange<'_>) -> Result<Response<Body>, Fault> {
    let (server, headers) = (exchange.server, exchange.headers());
    let at = exchange.endpoint()?;
    if !headers.contains_key(SESSION) {
        return Err(only_post());
    }
    let session = find(server, exchange.identity(), &at, headers)?;
    server.sessions.end(session.id());
    Ok(reply::text(StatusCode::OK, ""))
}

/// The session that the headers name.
fn find(
    server: &HttpServer,
    identity: &Arc<Identity>,
    at: &Endpoint,
    headers: &HeaderMap,
) -> Result<Arc<HttpSession>, Fault> {
    let mut ids = headers.get_all(SESSION).iter();
    let id = ids.next().ok_or_else(|| {
        let text = "no Mcp-Session-Id: begin with initialize";
        Fault::new(Kind::NotInitialized, text)
    })?;
    let id = id.to_str().ok().filter(|_| ids.next().is_none());
    let session = id.and_then(|id| server.sessions.get(id, identity, at));
    // Ended, unknown and other callers' sessions must get the same answer.
    session.ok_or_else(|| {
        let text = "unknown session: begin with initialize again";
        Fault::new(Kind::UnknownSession, text)
    })
}
