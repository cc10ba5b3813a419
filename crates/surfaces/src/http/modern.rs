//! Requests of 2026-07-28 over HTTP: each says everything itself, in `_meta` and again in headers.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::header::{HeaderMap, HeaderName};
use http::{Response, StatusCode};
use sentinel_core::audit::Ending;
use sentinel_core::{Caller, Entry, Fault, Identity, Kind, Policy, View};
use sentinel_wire::envelope::{METHOD_NOT_FOUND, write_result};
use sentinel_wire::{Method, Request, Revision, header, meta, sse};
use serde_json::value::RawValue;

use super::body::Body;
use super::{Door, Endpoint, listen, reply};
use crate::mcp::{self, HEADER_MISMATCH, Introduction, Refused, SILENCE_MAX, Said, Talk, Turn};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

pub(super) async fn answer(
    door: &Arc<Door>,
    identity: &Identity,
    at: &Endpoint,
    headers: &HeaderMap,
    request: Request,
    mut entry: Entry,
) -> Response<Body> {
    let refuse = |entry: Entry, refused: Refused| {
        let message = refused.message(&request.id);
        entry.finish(&Ending::Malformed(refused.kind()), message.len());
        reply::json(StatusCode::BAD_REQUEST, message)
    };
    let mut caller = match check(headers, identity, &request) {
        Ok(caller) => caller,
        Err(refused) => return refuse(entry, refused),
    };
    caller.tags.clone_from(&at.tags);
    let view = at.view;
    entry.by(&caller);
    let policy = &door.gateway.policy;
    if let Err(refused) = check_mirrored(policy, &caller, view, headers, &request) {
        return refuse(entry, refused);
    }
    let listed = mcp::answer_list(policy, &caller, view, &request.method, &request.params);
    match (&request.method, listed) {
        (_, Some(Ok(list))) => result(&request, &list, entry),
        (_, Some(Err(fault))) => fault_response(&request, &fault, entry),
        (Method::Discover, _) => result(&request, &mcp::discover(policy, &caller, view), entry),
        (Method::Listen, _) => {
            let opened = Box::pin(listen::open(door, caller, view, request.clone())).await;
            let opened = match opened {
                Ok(opened) => opened,
                Err(fault) => return fault_response(&request, &fault, entry),
            };
            let ending = match opened.status() {
                StatusCode::OK => Ending::Success,
                status => Ending::Malformed(reply::kind_of(status)),
            };
            entry.finish(&ending, 0);
            opened
        }
        _ => call(door, Arc::new(caller), view, request, entry).await,
    }
}

fn result(request: &Request, result: &[u8], entry: Entry) -> Response<Body> {
    let mut out = Vec::new();
    write_result(&request.id, result, &mut out);
    entry.finish(&Ending::Success, out.len());
    reply::json(StatusCode::OK, out)
}

fn fault_response(request: &Request, fault: &Fault, entry: Entry) -> Response<Body> {
    let message = mcp::fault_message(Some(&request.id), Revision::NEWEST, fault);
    entry.finish(&Ending::Refused(fault.kind), message.len());
    reply::json(fault_status(fault.kind), message)
}

fn fault_status(kind: Kind) -> StatusCode {
    match kind {
        Kind::MethodNotFound => StatusCode::NOT_FOUND,
        Kind::MissingCapability => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// Runs a call: JSON if the first thing to say is the answer, otherwise a stream.
async fn call(
    door: &Arc<Door>,
    caller: Arc<Caller>,
    view: View,
    request: Request,
    entry: Entry,
) -> Response<Body> {
    let known = request.method.is_request_in(Revision::NEWEST);
    if !known && !matches!((&request.method, view), (Method::Other(_), View::Only(_))) {
        return unknown_method(&request, entry);
    }
    let mut talk = match Talk::begin(&door.gateway, caller, view, request, entry) {
        Ok(talk) => talk,
        Err((kind, message)) => return reply::json(fault_status(kind), message),
    };
    match tokio::time::timeout(SILENCE_MAX, talk.next()).await {
        Ok(Turn::Answer(message, code)) => reply::json(answer_status(code), message),
        Ok(Turn::Large(large)) => {
            let (pieces, driven) = large.flow();
            tokio::spawn(driven);
            reply::pieces(Body::message(pieces))
        }
        Ok(Turn::Notice(notice)) => door.events(turns(talk, Some(notice))),
        Err(_) => door.events(turns(talk, None)),
    }
}

/// Two errors have a status of their own, whoever made them; all others travel with 200.
fn answer_status(code: Option<i64>) -> StatusCode {
    match code {
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(-32021) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The rest of a conversation as events; dropping it cancels the call.
fn turns(talk: Talk, first: Option<Vec<u8>>) -> impl futures_util::Stream<Item = Bytes> + Send {
    stream::unfold((Some(talk), first), |(talk, first)| async move {
        let mut talk = talk?;
        let mut out = Vec::new();
        if let Some(first) = first {
            sse::push_message(&mut out, &first);
            return Some((out.into(), (Some(talk), None)));
        }
        match tokio::time::timeout(SILENCE_MAX, talk.next()).await {
            Err(_) => sse::push_keep_alive(&mut out),
            Ok(Turn::Notice(notice)) => sse::push_message(&mut out, &notice),
            Ok(Turn::Answer(answer, _)) => {
                sse::push_message(&mut out, &answer);
                return Some((out.into(), (None, None)));
            }
            Ok(Turn::Large(large)) => {
                // An event must be whole.
                sse::push_message(&mut out, &Said::Large(large).whole().await);
                return Some((out.into(), (None, None)));
            }
        }
        Some((out.into(), (Some(talk), None)))
    })
}

fn unknown_method(request: &Request, entry: Entry) -> Response<Body> {
    let text = format!("unknown method: {}", request.method.as_str());
    let refused = Refused::new(METHOD_NOT_FOUND, text);
    let message = refused.message(&request.id);
    entry.finish(&Ending::Malformed(refused.kind()), message.len());
    reply::json(StatusCode::NOT_FOUND, message)
}

/// The ladder: `_meta`, headers, version; the method comes after. A later revision may say elsewhere what
/// it is: one whose header alone names it is told what we speak instead of what we miss.
fn check(headers: &HeaderMap, identity: &Identity, request: &Request) -> Result<Caller, Refused> {
    let named = headers
        .get(VERSION)
        .and_then(|version| version.to_str().ok());
    if let Some(version) = named.filter(|version| Revision::parse(version).is_none())
        && request.params.meta(meta::PROTOCOL_VERSION).is_none()
    {
        return Err(Refused::version(version));
    }
    let introduction = Introduction::read(request, identity)?;
    check_headers(headers, request, &introduction.version)?;
    introduction.caller()
}

/// Whoever reads the body compares it with the headers: others on the way may trust them.
fn check_headers(headers: &HeaderMap, request: &Request, version: &str) -> Result<(), Refused> {
    let agrees = |name: &HeaderName, want: &str| -> Result<(), Refused> {
        let mut values = headers.get_all(name).iter();
        let value = match (values.next(), values.next()) {
            (Some(value), None) => value,
            (None, _) => {
                return Err(Refused::new(
                    HEADER_MISMATCH,
                    format!("the header {name} is missing"),
                ));
            }
            (_, Some(_)) => {
                return Err(Refused::new(
                    HEADER_MISMATCH,
                    format!("the header {name} is repeated"),
                ));
            }
        };
        match header::decode(value.as_bytes()) {
            Ok(got) if got == want => Ok(()),
            Ok(_) => Err(Refused::new(
                HEADER_MISMATCH,
                format!("the header {name} does not match the body"),
            )),
            Err(error) => Err(Refused::new(
                HEADER_MISMATCH,
                format!("the header {name} cannot be read: {error}"),
            )),
        }
    };
    agrees(&VERSION, version)?;
    agrees(&METHOD, request.method.as_str())?;
    match request
        .method
        .name_member()
        .and_then(|member| request.params.string(member))
    {
        Some(name) => agrees(&NAME, &name),
        None => Ok(()),
    }
}

/// The same for arguments that the tool's schema wants repeated.
fn check_mirrored(
    policy: &Policy,
    caller: &Caller,
    view: View,
    headers: &HeaderMap,
    request: &Request,
) -> Result<(), Refused> {
    if request.method != Method::ToolsCall {
        return Ok(());
    }
    let name = request.params.string("name").unwrap_or_default();
    // A tool that the caller may not call has no headers to be wrong about.
    let tool = policy.callable_tool(caller, view, &name);
    let Some(params) = tool.and_then(|tool| tool.mirrored.clone()) else {
        return Ok(());
    };
    let arguments: Option<&RawValue> = request
        .params
        .get("arguments")
        .and_then(|raw| serde_json::from_slice(raw).ok());
    let received: Vec<(&str, &[u8])> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    header::params::check(&params, arguments, received)
        .map_err(|why| Refused::new(HEADER_MISMATCH, why.to_string()))
}
