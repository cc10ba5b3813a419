//! HTTP+SSE of 2024-11-05, on paths of its own: GET `/sse` is the stream to the caller, POSTs to the announced
//! `/messages?session=…` bring its messages.
//!
//! A session lasts as long as its stream, and so do its calls.
//!
//! Not here: what the messages mean (`mcp::Connection`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{FutureExt, ready};
use futures_util::{Stream, stream};
use http::Response;
use hyper::body::Incoming;
use parking_lot::Mutex;
use sentinel_core::audit::Surface;
use sentinel_core::seal::random_id;
use sentinel_core::{Fault, Kind};
use sentinel_wire::sse;
use tokio::sync::mpsc;

use super::body::Body;
use super::exchange::Exchange;
use super::routes::Handled;
use super::{HttpServer, post, reply};
use crate::mcp::{Changes, Connection, LegacySession, Opening, ReadyAt, SILENCE_MAX};

/// How long a message may wait for a caller that does not read its stream.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// Open connections by their ids, which are secrets of their callers. Bounded by the number of streams.
#[derive(Default)]
pub(super) struct Connections(Mutex<HashMap<Arc<str>, Arc<Connection>>>);

/// GET: opens a connection and announces where to POST to.
pub(super) fn open<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    ready(open_connection(exchange)).boxed()
}

fn open_connection(exchange: &Exchange<'_>) -> Result<Response<Body>, Fault> {
    let (server, identity) = (exchange.server, exchange.identity());
    let view = exchange.endpoint()?.view;
    let place = server.stream_place(identity)?;
    let id: Arc<str> = random_id().into();
    let opening = Opening {
        gateway: server.gateway.clone(),
        identity: identity.clone(),
        view,
        tags: None,
        id: id.clone(),
        ready_at: ReadyAt::Initialize,
    };
    let (connection, messages) = Connection::open(Surface::Http, opening);
    let connection = Arc::new(connection);
    let connections = &server.sse_connections;
    connections.0.lock().insert(id, connection.clone());
    let events = Events {
        changes: connection.list_changes(),
        connection: Registered(server.clone(), connection),
        messages,
        is_draining: false,
    };
    Ok(reply::stream(place, events.stream()))
}

/// Ends the connection with its stream.
struct Registered(Arc<HttpServer>, Arc<Connection>);

impl Drop for Registered {
    fn drop(&mut self) {
        let Self(server, connection) = self;
        server
            .sse_connections
            .0
            .lock()
            .remove(&connection.session.id);
        connection.session.end();
    }
}

/// The event stream of one connection.
struct Events {
    connection: Registered,
    messages: mpsc::Receiver<Vec<u8>>,
    changes: Changes,
    is_draining: bool,
}

impl Events {
    fn stream(self) -> impl Stream<Item = Bytes> + Send + 'static {
        let mut first = Vec::new();
        let endpoint = format!("/messages?session={}", self.connection.1.session.id);
        sse::push_event(&mut first, None, Some("endpoint"), endpoint.as_bytes());
        stream::unfold((Some(first), self), |(first, mut events)| async {
            let event = match first {
                Some(first) => first,
                None => events.next().await?,
            };
            Some((event.into(), (None, events)))
        })
    }

    async fn next(&mut self) -> Option<Vec<u8>> {
        let Registered(server, connection) = &self.connection;
        let mut out = Vec::new();
        while out.is_empty() {
            tokio::select! {
                biased;
                message = self.messages.recv() => push(&mut out, &message?),
                Some(changed) = self.changes.next() => {
                    for message in connection.change_messages(changed) {
                        push(&mut out, &message);
                    }
                }
                () = server.gateway.drained(), if !self.is_draining => self.is_draining = true,
                // Calls in flight are answered; remaining messages are still to be read.
                () = connection.session.in_flight.idle(), if self.is_draining => {
                    self.messages.close();
                }
                () = tokio::time::sleep(SILENCE_MAX) => sse::push_keep_alive(&mut out),
            }
        }
        Some(out)
    }
}

fn push(out: &mut Vec<u8>, message: &[u8]) {
    sse::push_event(out, None, Some("message"), message);
}

/// POST: one message of the connection that the query names.
pub(super) fn message<'a>(exchange: &'a Exchange<'a>, body: Incoming) -> Handled<'a> {
    async move { Ok(take_message(exchange, body).await) }.boxed()
}

async fn take_message(exchange: &Exchange<'_>, body: Incoming) -> Response<Body> {
    let (server, identity) = (exchange.server, exchange.identity());
    let (head, headers) = (exchange.head, exchange.headers());
    let refuse = |fault: Fault, len| post::refused(server, identity, headers, &fault, len);
    let query = head.uri.query().unwrap_or_default();
    let id = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("session="));
    let connection = id.and_then(|id| server.sse_connections.0.lock().get(id).cloned());
    // Another caller's connection is answered like one that does not exist.
    let is_here =
        |session: &LegacySession| session.belongs_to(identity) && exchange.serves(session.view);
    let Some(connection) = connection.filter(|open| is_here(&open.session)) else {
        let text = "unknown session: GET /sse again";
        return refuse(Fault::new(Kind::UnknownSession, text), 0);
    };
    connection.session.renew(identity);
    let bytes = match post::take_body(server, headers, body).await {
        Ok(bytes) => bytes,
        Err((fault, len)) => return refuse(fault, len),
    };
    match tokio::time::timeout(ROOM_WITHIN, connection.has_room()).await {
        Ok(true) => {}
        Ok(false) => return refuse(Fault::new(Kind::UnknownSession, "the connection ended"), 0),
        Err(_) => {
            let text = "earlier messages wait: read the event stream";
            return refuse(Fault::new(Kind::Unavailable, text), 0);
        }
    }
    let arrival = post::arrival(server, identity, headers);
    connection.receive(bytes, arrival.traceparent).await;
    reply::accepted()
}
