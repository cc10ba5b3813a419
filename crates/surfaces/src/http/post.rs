//! A POST to the MCP endpoint: read it, parse it once, determine the era.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderMap, HeaderValue,
    TRANSFER_ENCODING,
};
use http::{HeaderName, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming as HttpBody;
use sentinel_core::audit::Surface;
use sentinel_core::{Fault, Identity, Kind};
use sentinel_wire::json::Rules;
use sentinel_wire::{Incoming, Message, Method, Params, Revision, meta};
use tokio::time::Instant;

use super::auth::RejectedRequest;
use super::body::Body;
use super::exchange::Exchange;
use super::pace::Pace;
use super::{Endpoint, HttpServer, legacy, modern, reply};
use crate::exchange::{Arrival, MessageExchange};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

pub(super) async fn answer(
    exchange: &Exchange<'_>,
    body: HttpBody,
) -> Result<Response<Body>, Fault> {
    let at = exchange.endpoint()?;
    Ok(messages(exchange, &at, body).await)
}

/// Each message has a record of its own, and so has a body of which none could be read.
async fn messages(exchange: &Exchange<'_>, at: &Endpoint, body: HttpBody) -> Response<Body> {
    let (server, identity) = (exchange.server, exchange.identity());
    let (head, headers) = (exchange.head, exchange.headers());
    let bytes = match take_body(server, headers, body).await {
        Ok(bytes) => bytes,
        Err((fault, len)) => return refused(server, identity, headers, &fault, len),
    };
    let rules = Rules::caller(server.gateway.limits().json_depth_max);
    let version = Version::of(headers);
    let bytes_in = bytes.len();
    let arrival = arrival(server, identity, headers);
    match Incoming::parse(bytes, rules) {
        Err(refusal) => reply::answer(arrival.malformed(&refusal, version.revision(), bytes_in)),
        Ok(Incoming::Batch(messages)) => {
            Box::pin(legacy::batch(server, identity, at, headers, messages)).await
        }
        Ok(Incoming::One(message)) => {
            let message_exchange = match &message {
                Message::Request(request) => {
                    let revision = version.of_request(&request.params);
                    let _ = exchange.asked.set(RejectedRequest {
                        id: request.id.clone(),
                        revision,
                    });
                    let opened = MessageExchange::open(&arrival, request, bytes_in);
                    let opened = opened.in_revision(revision);
                    if server.gateway.is_draining() {
                        return reply::answer(opened.answer(Err(going_down())));
                    }
                    // Before 1.1 a body that was cut looks like one that is whole.
                    if head.version >= http::Version::HTTP_11 {
                        opened.takes_pieces(server.gateway.pace().piece_patience_s());
                    }
                    Some(opened)
                }
                _ => None,
            };
            route(
                server,
                identity,
                at,
                headers,
                version,
                message,
                message_exchange,
            )
            .await
        }
    }
}

/// Another instance, or this one started anew, may be there by then.
const GOING_DOWN_RETRY_MS: u64 = 1000;

/// No new request is accepted while draining.
pub(super) fn going_down() -> Fault {
    Fault::new(Kind::GoingDown, "this gateway is shutting down").retry_after_ms(GOING_DOWN_RETRY_MS)
}

/// The origin of a message POSTed with these headers.
pub(super) fn arrival<'a>(
    server: &'a HttpServer,
    identity: &'a Identity,
    headers: &'a HeaderMap,
) -> Arrival<'a> {
    arrival_at(Surface::Http, server, identity, headers)
}

/// The same for any surface.
pub(super) fn arrival_at<'a>(
    surface: Surface,
    server: &'a HttpServer,
    identity: &'a Identity,
    headers: &'a HeaderMap,
) -> Arrival<'a> {
    // Of two values neither is trusted.
    let mut traces = headers.get_all(TRACEPARENT).iter();
    let trace = traces.next().filter(|_| traces.next().is_none());
    Arrival {
        gateway: &server.gateway,
        surface,
        identity,
        traceparent: trace.map(HeaderValue::as_bytes),
    }
}

/// The answer to a POST of which no message could be read, on record.
pub(super) fn refused(
    server: &HttpServer,
    identity: &Identity,
    headers: &HeaderMap,
    fault: &Fault,
    bytes_in: usize,
) -> Response<Body> {
    let revision = Version::of(headers).revision();
    let answer = arrival(server, identity, headers).refuse(None, fault, revision, bytes_in);
    let response = reply::answer(answer);
    match fault.kind {
        // The start of the next request on this connection is unknown.
        Kind::UnsupportedCoding => reply::last(response),
        _ => response,
    }
}

/// The body of a POST of JSON, within its bounds; otherwise why not, and how much had come.
pub(super) async fn take_body(
    server: &HttpServer,
    headers: &HeaderMap,
    body: HttpBody,
) -> Result<Bytes, (Fault, usize)> {
    check_types(headers).map_err(|fault| (fault, 0))?;
    read_body(server, headers, body).await
}

async fn read_body(
    server: &HttpServer,
    headers: &HeaderMap,
    body: HttpBody,
) -> Result<Bytes, (Fault, usize)> {
    let limit = server.gateway.limits().body_bytes_max;
    let declared = headers
        .get(CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    let gathered = match declared {
        Some(len) if len > limit => Err(NotRead::TooLarge(len)),
        _ => gather(body, limit, &server.gateway.pace()).await,
    };
    gathered.map_err(|why| match why {
        NotRead::TooLarge(len) => (why.fault(limit), len),
        NotRead::TooSlow | NotRead::Broken => (why.fault(limit), 0),
    })
}

/// The content of the version header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Absent,
    Known(Revision),
    Unknown,
}

impl Version {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        match headers.get(VERSION) {
            None => Self::Absent,
            Some(value) => match value.to_str().ok().and_then(|v| Revision::parse(v.trim())) {
                Some(revision) => Self::Known(revision),
                None => Self::Unknown,
            },
        }
    }

    /// Whether these params come from a modern caller: a version in `_meta` says so, or a header that names
    /// something newer than the handshake era.
    fn is_modern(self, params: &Params) -> bool {
        params.meta(meta::PROTOCOL_VERSION).is_some()
            || matches!(self, Self::Unknown | Self::Known(Revision::V2026_07_28))
    }

    /// The revision of early errors.
    fn of_request(self, params: &Params) -> Revision {
        match self.is_modern(params) {
            true => Revision::NEWEST,
            false => self.revision(),
        }
    }

    /// The specification's default for an absent or unknown version is 2025-03-26.
    pub(super) fn revision(self) -> Revision {
        match self {
            Self::Known(revision) => revision,
            Self::Absent | Self::Unknown => Revision::V2025_03_26,
        }
    }
}

/// Tells the eras apart. `initialize` is legacy whatever it names; a version in `_meta` is modern;
/// a header that names something newer than the handshake era is modern and malformed.
async fn route(
    server: &Arc<HttpServer>,
    identity: &Arc<Identity>,
    at: &Endpoint,
    headers: &HeaderMap,
    version: Version,
    message: Message,
    exchange: Option<MessageExchange>,
) -> Response<Body> {
    let is_modern = |params: &Params| version.is_modern(params);
    match (message, exchange) {
        (Message::Request(request), Some(exchange))
            if request.method == Method::Initialize
                && request.params.meta(meta::PROTOCOL_VERSION).is_none() =>
        {
            legacy::initialize(server, identity, at, &request, exchange)
        }
        (Message::Request(request), Some(exchange)) if is_modern(&request.params) => {
            // An unknown revision in a session's header is a legacy mistake.
            if version == Version::Unknown
                && headers.contains_key("mcp-session-id")
                && request.params.meta(meta::PROTOCOL_VERSION).is_none()
            {
                let text = "unsupported MCP-Protocol-Version";
                let fault = Fault::new(Kind::UnsupportedVersion, text);
                let exchange = exchange.in_revision(version.revision());
                return reply::answer(exchange.answer(Err(fault)));
            }
            modern::answer(server, identity, at, headers, request, exchange).await
        }
        // No notification of a modern client over HTTP has a meaning; it is accepted and dropped.
        (Message::Notification(note), _) if is_modern(&note.params) => reply::accepted(),
        (message, exchange) => {
            legacy::message(server, identity, at, headers, message, exchange).await
        }
    }
}

/// Whether the request's content type and accepted types are supported. One pass over the headers, since single
/// lookups cost more.
///
/// Not here, for hyper leaves no trace of it: `Content-Length` beside `Transfer-Encoding`. It goes by the latter and
/// closes the connection after its answer (RFC 9112 6.1).
pub(super) fn check_types(headers: &HeaderMap) -> Result<(), Fault> {
    let refuse = |kind, text| Err(Fault::new(kind, text));
    let mut json = None;
    let mut accepts = None;
    let mut is_chunked = false;
    for (name, value) in headers {
        let value = value.as_bytes();
        match *name {
            CONTENT_TYPE => {
                json.get_or_insert_with(|| is_json(value));
            }
            ACCEPT => accepts = Some(accepts == Some(true) || takes_json(value)),
            _ => check_framing(name, value, &mut is_chunked)?,
        }
    }
    if json != Some(true) {
        let text = "send Content-Type: application/json";
        return refuse(Kind::UnsupportedMediaType, text);
    }
    if accepts == Some(false) {
        let text = "send Accept: application/json, text/event-stream";
        return refuse(Kind::NotAcceptable, text);
    }
    Ok(())
}

/// Refuses a header that gives the body an unsupported form.
fn check_framing(name: &HeaderName, value: &[u8], is_chunked: &mut bool) -> Result<(), Fault> {
    let refuse = |kind, text| Err(Fault::new(kind, text));
    match *name {
        CONTENT_ENCODING if !value.eq_ignore_ascii_case(b"identity") => {
            let text = "send the body without a Content-Encoding";
            refuse(Kind::UnsupportedMediaType, text)
        }
        // hyper accepts any list whose last coding is `chunked`, and would pass on the bytes of the others.
        TRANSFER_ENCODING => {
            if *is_chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                let text = "the only Transfer-Encoding known here is chunked";
                return refuse(Kind::UnsupportedCoding, text);
            }
            *is_chunked = true;
            Ok(())
        }
        EXPECT if !value.eq_ignore_ascii_case(b"100-continue") => {
            let text = "the only Expect known here is 100-continue";
            refuse(Kind::ExpectationFailed, text)
        }
        _ => Ok(()),
    }
}

/// A body of any type, within its bounds.
pub(super) async fn take_any_body(
    server: &HttpServer,
    headers: &HeaderMap,
    body: HttpBody,
) -> Result<Bytes, Fault> {
    let mut is_chunked = false;
    for (name, value) in headers {
        check_framing(name, value.as_bytes(), &mut is_chunked)?;
    }
    let read = read_body(server, headers, body).await;
    read.map_err(|(fault, _)| fault)
}

pub(super) fn is_json(kind: &[u8]) -> bool {
    let essence = kind.split(|b| *b == b';').next().unwrap_or_default();
    essence
        .trim_ascii()
        .eq_ignore_ascii_case(b"application/json")
}

fn takes_json(accept: &[u8]) -> bool {
    let wanted: [&[u8]; 3] = [b"application/json", b"*/*", b"application/*"];
    wanted.iter().any(|wanted| {
        let mut parts = accept.windows(wanted.len());
        parts.any(|part| part.eq_ignore_ascii_case(wanted))
    })
}

/// Why a body was not read.
pub(super) enum NotRead {
    /// Bytes received by then.
    TooLarge(usize),
    TooSlow,
    Broken,
}

impl NotRead {
    pub(super) fn fault(&self, limit: usize) -> Fault {
        match self {
            Self::TooLarge(_) => Fault::new(
                Kind::TooLarge,
                format!("the body is larger than the {limit} bytes allowed (limits.body_mb)"),
            ),
            Self::TooSlow => {
                let text = "the body comes too slowly (limits.body_min_kb_per_s)";
                Fault::new(Kind::RequestTimeout, text)
            }
            Self::Broken => Fault::new(Kind::InvalidRequest, "the body could not be read"),
        }
    }
}

pub(super) async fn gather(
    mut body: HttpBody,
    limit: usize,
    pace: &Pace,
) -> Result<Bytes, NotRead> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut began = None;
    loop {
        // A body that came with its head needs no timer.
        let frame = match body.frame().now_or_never() {
            Some(frame) => frame,
            None => {
                let began = *began.get_or_insert_with(Instant::now);
                match pace.body_deadline(began, first.len() + rest.len()) {
                    Some(deadline) => match tokio::time::timeout_at(deadline, body.frame()).await {
                        Ok(frame) => frame,
                        Err(_) => return Err(NotRead::TooSlow),
                    },
                    None => body.frame().await,
                }
            }
        };
        let Some(frame) = frame else {
            break;
        };
        let Ok(frame) = frame else {
            return Err(NotRead::Broken);
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if first.len() + rest.len() + data.len() > limit {
            return Err(NotRead::TooLarge(first.len() + rest.len() + data.len()));
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&std::mem::take(&mut first));
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() {
        first
    } else {
        rest.freeze()
    })
}
