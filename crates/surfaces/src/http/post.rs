//! A POST to the MCP endpoint: read it, parse it once, tell the eras apart.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderMap, HeaderValue,
    TRANSFER_ENCODING,
};
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming as HttpBody;
use sentinel_core::audit::{Ending, Surface};
use sentinel_core::{Entry, Fault, Identity, Kind};
use sentinel_wire::json::Rules;
use sentinel_wire::{Incoming, Message, Method, Params, Revision, meta};
use tokio::time::Instant;

use super::auth::Asked;
use super::body::Body;
use super::pace::Pace;
use super::{Door, Endpoint, legacy, modern, reply};
use crate::mcp::{fault_message, refusal_kind, refusal_message};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

pub(super) async fn answer(
    door: &Arc<Door>,
    identity: &Arc<Identity>,
    at: &Endpoint,
    request: Request<HttpBody>,
    asked: &OnceLock<Asked>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let headers = head.headers;
    let bytes = match take_body(door, identity, &headers, body).await {
        Ok(bytes) => bytes,
        Err(refusal) => return refusal,
    };
    let rules = Rules::caller(door.gateway.limits().json_depth_max);
    let version = Version::of(&headers);
    let bytes_in = bytes.len();
    match Incoming::parse(bytes, rules) {
        Err(refusal) => {
            let message = refusal_message(&refusal, version.revision());
            let (id, kind) = (refusal.id.as_ref(), refusal_kind(&refusal));
            let gateway = &door.gateway;
            gateway.refused(Surface::Http, identity, id, kind, bytes_in, message.len());
            reply::json(StatusCode::BAD_REQUEST, message)
        }
        Ok(Incoming::One(Message::Request(request))) if door.gateway.is_draining() => {
            let mut entry = heard(door, &headers, &request, bytes_in);
            entry.from(identity);
            entry.finish(&Ending::Malformed("going_down"), 0);
            reply::going_down()
        }
        Ok(Incoming::Batch(messages)) => {
            Box::pin(legacy::batch(door, identity, at, &headers, messages)).await
        }
        Ok(Incoming::One(message)) => {
            let entry = match &message {
                Message::Request(request) => {
                    let _ = asked.set(Asked {
                        id: request.id.clone(),
                        revision: version.of_request(&request.params),
                    });
                    let mut entry = heard(door, &headers, request, bytes_in);
                    entry.from(identity);
                    // Before 1.1 a body that was cut looks like one that is whole.
                    if head.version >= http::Version::HTTP_11 {
                        entry.takes_pieces(door.gateway.pace().piece_patience_s());
                    }
                    Some(entry)
                }
                _ => None,
            };
            route(door, identity, at, &headers, version, message, entry).await
        }
    }
}

/// A request came; the entry of its record.
pub(super) fn heard(
    door: &Door,
    headers: &HeaderMap,
    request: &sentinel_wire::Request,
    bytes_in: usize,
) -> Entry {
    // Of two nobody can say which one is meant.
    let mut traces = headers.get_all(TRACEPARENT).iter();
    let trace = traces.next().filter(|_| traces.next().is_none());
    let trace = trace.map(HeaderValue::as_bytes);
    let gateway = &door.gateway;
    gateway.heard(Surface::Http, request, bytes_in, trace)
}

/// The body of a POST of JSON, within its bounds. What is not read is refused, and recorded.
pub(super) async fn take_body(
    door: &Door,
    identity: &Identity,
    headers: &HeaderMap,
    body: HttpBody,
) -> Result<Bytes, Response<Body>> {
    let limit = door.gateway.limits().body_bytes_max;
    let refused = |kind: &'static str, len: usize, response: Response<Body>| {
        let gateway = &door.gateway;
        gateway.refused(Surface::Http, identity, None, kind, len, 0);
        response
    };
    if let Some(refusal) = check_types(headers) {
        return Err(refused(reply::kind_of(refusal.status()), 0, refusal));
    }
    let declared = headers
        .get(CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    let gathered = match declared {
        Some(len) if len > limit => Err(NotRead::TooLarge(len)),
        _ => gather(body, limit, &door.gateway.pace()).await,
    };
    gathered.map_err(|why| {
        let response = why.respond(limit, Version::of(headers).revision());
        match why {
            NotRead::TooLarge(len) => refused(Kind::TooLarge.as_str(), len, response),
            NotRead::TooSlow | NotRead::Broken => {
                refused(reply::kind_of(response.status()), 0, response)
            }
        }
    })
}

/// What the version header says.
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

    /// The revision that a request is answered in, before anybody looks further.
    fn of_request(self, params: &Params) -> Revision {
        match self.is_modern(params) {
            true => Revision::NEWEST,
            false => self.revision(),
        }
    }

    /// Without a known one the specification says to assume 2025-03-26.
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
    door: &Arc<Door>,
    identity: &Arc<Identity>,
    at: &Endpoint,
    headers: &HeaderMap,
    version: Version,
    message: Message,
    entry: Option<Entry>,
) -> Response<Body> {
    let is_modern = |params: &Params| version.is_modern(params);
    match (message, entry) {
        (Message::Request(request), Some(entry))
            if request.method == Method::Initialize
                && request.params.meta(meta::PROTOCOL_VERSION).is_none() =>
        {
            legacy::initialize(door, identity, at, request, entry)
        }
        (Message::Request(request), Some(entry)) if is_modern(&request.params) => {
            // A header of a session's revision that we do not know stays a legacy mistake.
            if version == Version::Unknown
                && headers.contains_key("mcp-session-id")
                && request.params.meta(meta::PROTOCOL_VERSION).is_none()
            {
                let fault = Fault::new(Kind::InvalidRequest, "unsupported MCP-Protocol-Version");
                let message = fault_message(Some(&request.id), version.revision(), &fault);
                entry.finish(&Ending::Refused(fault.kind), message.len());
                return reply::json(StatusCode::BAD_REQUEST, message);
            }
            modern::answer(door, identity, at, headers, request, entry).await
        }
        // Nothing that a modern client notifies over HTTP means anything; it is taken and dropped.
        (Message::Notification(note), _) if is_modern(&note.params) => reply::accepted(),
        (message, entry) => legacy::message(door, identity, at, headers, message, entry).await,
    }
}

/// Whether we can read what is sent and the sender what we answer. One pass, for looking each of these up costs
/// more than all of it.
///
/// Not here, for hyper leaves no trace of it: `Content-Length` beside `Transfer-Encoding`. It goes by the latter and
/// closes the connection after its answer (RFC 9112 6.1).
pub(super) fn check_types(headers: &HeaderMap) -> Option<Response<Body>> {
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
            CONTENT_ENCODING if !value.eq_ignore_ascii_case(b"identity") => {
                let text = "send the body without a Content-Encoding\n";
                return Some(reply::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
            }
            // hyper takes any whose last coding is `chunked`, and would hand us the others' bytes.
            TRANSFER_ENCODING => {
                if is_chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    let text = "the only Transfer-Encoding known here is chunked\n";
                    return Some(reply::last(reply::text(StatusCode::NOT_IMPLEMENTED, text)));
                }
                is_chunked = true;
            }
            EXPECT if !value.eq_ignore_ascii_case(b"100-continue") => {
                let text = "the only Expect known here is 100-continue\n";
                return Some(reply::text(StatusCode::EXPECTATION_FAILED, text));
            }
            _ => {}
        }
    }
    if json != Some(true) {
        return Some(reply::text(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send Content-Type: application/json\n",
        ));
    }
    if accepts == Some(false) {
        let text = "send Accept: application/json, text/event-stream\n";
        return Some(reply::text(StatusCode::NOT_ACCEPTABLE, text));
    }
    None
}

fn is_json(kind: &[u8]) -> bool {
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
    /// So much had come by then.
    TooLarge(usize),
    TooSlow,
    Broken,
}

impl NotRead {
    pub(super) fn respond(&self, limit: usize, revision: Revision) -> Response<Body> {
        match self {
            Self::TooLarge(_) => reply::refuse_in(
                revision,
                Kind::TooLarge,
                format!("the body is larger than the {limit} bytes allowed (limits.body_mb)"),
            ),
            Self::TooSlow => {
                let text = "the body comes too slowly (limits.body_min_kb_per_s)\n";
                reply::text(StatusCode::REQUEST_TIMEOUT, text)
            }
            Self::Broken => reply::text(StatusCode::BAD_REQUEST, "the body could not be read\n"),
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
        // A body that came with its head needs no clock.
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
