//! HTTP+SSE of 2024-11-05, on paths of its own: GET `/sse` is the way to the caller, POST to the
//! announced `/messages?session=…` the way from it.
//!
//! The conversation is the stdio door's: each stream has a pair of pipes, what is POSTed becomes a
//! line on one, what is said on the other becomes an event. Whoever closes the stream ends the
//! connection, and with it the calls in flight.
//!
//! Not here: what the messages mean (`stdio`, `mcp`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{Request, Response};
use hyper::body::Incoming;
use parking_lot::Mutex;
use sentinel_core::audit::Surface;
use sentinel_core::seal::random_id;
use sentinel_core::{Fault, Identity, Kind, View};
use sentinel_wire::lines::{LineDecoder, push_line};
use sentinel_wire::{Revision, sse};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::AbortHandle;

use super::body::Body;
use super::{Door, post, reply};
use crate::mcp::SILENCE_MAX;
use crate::stdio;

/// What a pipe holds: a few messages of usual size, larger ones pass in pieces.
const PIPE_BYTES: usize = 64 * 1024;
/// How long a message may wait for a caller that does not read what it is told.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// One message to the caller; a backend's reply is bounded long before.
const LINE_BYTES_MAX: usize = 1 << 30;

/// The open connections, by the id that only their caller knows. As many as there are streams.
#[derive(Default)]
pub(super) struct Lines(Mutex<HashMap<Arc<str>, Arc<Line>>>);

/// The way in of one connection, and whose it is.
struct Line {
    subject: Arc<str>,
    /// One message at a time, in the order they came.
    input: tokio::sync::Mutex<DuplexStream>,
}

/// Takes the connection down with its stream.
struct Open {
    door: Arc<Door>,
    id: Arc<str>,
    task: AbortHandle,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.door.lines.0.lock().remove(&self.id);
        self.task.abort();
    }
}

/// GET: opens a connection and announces where to write to.
pub(super) fn open(door: &Arc<Door>, identity: &Arc<Identity>, view: View) -> Response<Body> {
    let place = match door.stream_place(identity) {
        Ok(place) => place,
        Err(fault) => return reply::refuse_in(Revision::V2024_11_05, &fault),
    };
    let id: Arc<str> = random_id().into();
    let (line, input) = duplex(PIPE_BYTES);
    let (output, said) = duplex(PIPE_BYTES);
    let serving = stdio::serve_session(
        door.gateway.clone(),
        identity.clone(),
        view,
        (Surface::Http, id.clone()),
        input,
        output,
    );
    let open = Open {
        door: door.clone(),
        id: id.clone(),
        task: tokio::spawn(serving).abort_handle(),
    };
    let mut first = Vec::new();
    let endpoint = format!("/messages?session={id}");
    sse::push_event(&mut first, None, Some("endpoint"), endpoint.as_bytes());
    let line = Line {
        subject: identity.subject.clone(),
        input: tokio::sync::Mutex::new(line),
    };
    door.lines.0.lock().insert(id, Arc::new(line));
    reply::stream(place, events(open, first, said))
}

/// What is said, line by line, as events.
fn events(
    open: Open,
    first: Vec<u8>,
    said: DuplexStream,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let decoder = LineDecoder::new(LINE_BYTES_MAX);
    let buffer = vec![0; PIPE_BYTES];
    let state = (open, Some(first), said, decoder, buffer);
    stream::unfold(
        state,
        |(open, first, mut said, mut decoder, mut buffer)| async {
            if let Some(first) = first {
                return Some((first.into(), (open, None, said, decoder, buffer)));
            }
            let mut out = Vec::new();
            while out.is_empty() {
                match tokio::time::timeout(SILENCE_MAX, said.read(&mut buffer)).await {
                    Err(_) => sse::push_keep_alive(&mut out),
                    Ok(Ok(len @ 1..)) => {
                        let mut chunk = &buffer[..len];
                        while let Some(Ok(line)) = decoder.next(&mut chunk) {
                            sse::push_event(&mut out, None, Some("message"), &line);
                        }
                    }
                    Ok(_) => return None,
                }
            }
            Some((out.into(), (open, None, said, decoder, buffer)))
        },
    )
}

/// POST: one message of the connection that the query names.
pub(super) async fn message(
    door: &Arc<Door>,
    identity: &Identity,
    request: Request<Incoming>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    let id = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("session="));
    let line = id.and_then(|id| door.lines.0.lock().get(id).cloned());
    // Somebody else's connection does not exist.
    let Some(line) = line.filter(|line| line.subject == identity.subject) else {
        let fault = Fault::new(Kind::UnknownSession, "unknown session: GET /sse again");
        return post::refused(door, identity, &head.headers, &fault, 0);
    };
    let bytes = match post::take_body(door, &head.headers, body).await {
        Ok(bytes) => bytes,
        Err((fault, len)) => return post::refused(door, identity, &head.headers, &fault, len),
    };
    let mut out = Vec::with_capacity(bytes.len() + 1);
    push_line(&mut out, &bytes);
    let written = tokio::time::timeout(TAKEN_WITHIN, async {
        line.input.lock().await.write_all(&out).await
    });
    let fault = match written.await {
        Ok(Ok(())) => return reply::accepted(),
        Ok(Err(_)) => Fault::new(Kind::UnknownSession, "the connection ended"),
        Err(_) => {
            let text = "earlier messages wait: read the event stream";
            Fault::new(Kind::Unavailable, text)
        }
    };
    // A message that its connection never saw has its record here.
    post::refused(door, identity, &head.headers, &fault, 0)
}
