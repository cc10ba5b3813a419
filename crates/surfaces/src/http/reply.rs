//! Heads of responses.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use sentinel_core::{CallId, Fault, Kind, Side};
use sentinel_wire::Revision;

use super::body::Body;
use super::streams::StreamPlace;
use crate::exchange::Answer;
use crate::mcp::fault_message;
use crate::rescue;

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(super) fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    with_type(status, "application/json", body.into())
}

/// A message that is sent in pieces.
pub(super) fn pieces(body: Body) -> Response<Body> {
    with_type(StatusCode::OK, "application/json", body)
}

/// The answer to a message.
pub(super) fn answer(answer: Answer) -> Response<Body> {
    match answer {
        Answer::Whole { message, status } => json(status, message),
        Answer::Large(large) => {
            let (rest, driven) = large.flow();
            tokio::spawn(driven);
            pieces(Body::message(rest))
        }
    }
}

/// An event stream, which counts toward the bounds until it ends.
pub(super) fn stream(
    place: StreamPlace,
    chunks: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<Body> {
    events(Body::stream(held(place, chunks)))
}

/// A stream that counts toward the bounds until it ends.
pub(super) fn held(
    place: StreamPlace,
    chunks: impl Stream<Item = Bytes> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send + 'static {
    chunks.map(move |chunk| {
        let _counted = &place;
        chunk
    })
}

pub(super) fn text(status: StatusCode, body: &str) -> Response<Body> {
    with_type(
        status,
        "text/plain; charset=utf-8",
        body.as_bytes().to_vec().into(),
    )
}

/// An event stream; proxies are told not to buffer it.
pub(super) fn events(body: Body) -> Response<Body> {
    let mut response = with_type(StatusCode::OK, "text/event-stream", body);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// Marks the answer to a cancelled call, about which nothing more is logged.
#[derive(Clone)]
pub(super) struct Cancelled;

pub(super) fn cancelled() -> Response<Body> {
    let mut response = events(Body::empty());
    response.extensions_mut().insert(Cancelled);
    response
}

pub(super) fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// A refusal for a client without JSON-RPC.
pub(super) fn problem(fault: &Fault) -> Response<Body> {
    problem_with(fault, rescue::row(fault.kind).status())
}

pub(super) fn problem_with(fault: &Fault, status: StatusCode) -> Response<Body> {
    let body = rescue::problem(fault, status, logged(fault));
    with_type(status, "application/problem+json", body.into())
}

/// Logs the cause of a failure that callers are not told, under an id that the answer contains.
pub(super) fn logged(fault: &Fault) -> Option<CallId> {
    let cause = std::error::Error::source(fault);
    // An error of a backend has a cause only where the backend says that it is internal.
    let is_callers = fault.side() == Side::Caller && fault.kind != Kind::BackendError;
    if is_callers || (cause.is_none() && fault.kind != Kind::Internal) {
        return None;
    }
    let id = CallId::mint();
    tracing::warn!(%id, kind = fault.kind.as_str(), ?cause, "{fault}");
    Some(id)
}

/// A refusal before any JSON-RPC request could be read, for a caller of this revision.
pub(super) fn refuse_in(revision: Revision, fault: &Fault) -> Response<Body> {
    let status = rescue::row(fault.kind).status();
    json(status, fault_message(None, revision, fault))
}

/// The last answer on its connection, since the start of the next request is unknown.
pub(super) fn last(mut response: Response<Body>) -> Response<Body> {
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(super) fn with_type(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
