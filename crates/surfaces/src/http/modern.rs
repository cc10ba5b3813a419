//! Requests of 2026-07-28 over HTTP: each is self-contained, in `_meta` and repeated in headers.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http::header::{HeaderMap, HeaderName};
use sentinel_core::{Caller, Fault, Identity, Kind, Policy, View};
use sentinel_wire::{Method, Request, Revision, header, meta, sse};
use serde_json::value::RawValue;

use super::body::Body;
use super::{Endpoint, HttpServer, listen, reply};
use crate::exchange::{Handled, MessageExchange};
use crate::mcp::{self, Introduction, Listener, ModernCall, SILENCE_MAX, Turn};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A request before its answer.
enum Started {
    Handled(Handled),
    /// Events, the first of which is ready.
    Listening(Box<Listener>),
    Call(Box<ModernCall>),
}

pub(super) async fn answer(
    server: &Arc<HttpServer>,
    identity: &Identity,
    at: &Endpoint,
    headers: &HeaderMap,
    request: Request,
    exchange: MessageExchange,
) -> Response<Body> {
    let mut exchange = exchange.in_revision(Revision::NEWEST);
    let begun = begin(server, identity, at, headers, request, &mut exchange).await;
    let handled = match begun {
        Ok(Started::Handled(handled)) => Ok(handled),
        Ok(Started::Listening(listener)) => match server.stream_place(identity) {
            Ok(place) => {
                exchange.opened(0);
                let events = listen::events(server.gateway.clone(), *listener);
                return reply::stream(place, events);
            }
            Err(fault) => Err(fault),
        },
        Ok(Started::Call(talk)) => return call(server, identity, *talk, exchange).await,
        Err(fault) => Err(fault),
    };
    reply::answer(exchange.answer(handled))
}

async fn begin(
    server: &Arc<HttpServer>,
    identity: &Identity,
    at: &Endpoint,
    headers: &HeaderMap,
    request: Request,
    exchange: &mut MessageExchange,
) -> Result<Started, Fault> {
    let mut caller = check(headers, identity, &request)?;
    caller.tags.clone_from(&at.tags);
    let (view, gateway) = (at.view, &server.gateway);
    exchange.identify(&caller);
    let policy = &gateway.policy;
    check_mirrored(policy, &caller, view, headers, &request)?;
    let Request { method, params, .. } = &request;
    if let Some(listed) = mcp::answer_list(policy, &caller, view, method, params).await {
        return listed.map(Handled::Result).map(Started::Handled);
    }
    match method {
        Method::Discover => {
            let discovered = mcp::discover(policy, &caller, view);
            Ok(Started::Handled(Handled::Result(discovered.into())))
        }
        Method::Listen => {
            let opened = Listener::open(gateway, Arc::new(caller), view, request);
            Ok(Started::Listening(Box::new(Box::pin(opened).await?)))
        }
        // A method that MCP does not know can only go to the one backend of an endpoint.
        method
            if !method.is_request_in(Revision::NEWEST)
                && !matches!((method, view), (Method::Other(_), View::Only(_))) =>
        {
            let text = format!("unknown method: {}", method.as_str());
            Err(Fault::new(Kind::MethodNotFound, text))
        }
        _ => {
            let talk =
                ModernCall::begin(gateway, Arc::new(caller), view, request, exchange.trail())?;
            Ok(Started::Call(Box::new(talk)))
        }
    }
}

/// Runs a call: JSON if the first thing to send is the answer, otherwise a stream.
async fn call(
    server: &HttpServer,
    identity: &Identity,
    mut talk: ModernCall,
    exchange: MessageExchange,
) -> Response<Body> {
    let first = match tokio::time::timeout(SILENCE_MAX, talk.next()).await {
        Ok(Turn::Done(handled)) => return reply::answer(exchange.answer(handled)),
        Ok(Turn::Notice(notice)) => Some(notice),
        Err(_) => None,
    };
    match server.stream_place(identity) {
        Ok(place) => reply::stream(place, turns(talk, exchange, first)),
        Err(fault) => {
            drop(talk);
            reply::answer(exchange.answer(Err(fault)))
        }
    }
}

/// The rest of a call as events; dropping it cancels the call.
fn turns(
    talk: ModernCall,
    exchange: MessageExchange,
    first: Option<Vec<u8>>,
) -> impl futures_util::Stream<Item = Bytes> + Send {
    let state = (Some((talk, exchange)), first);
    stream::unfold(state, |(running, first)| async move {
        let (mut talk, exchange) = running?;
        let mut out = Vec::new();
        if let Some(first) = first {
            sse::push_message(&mut out, &first);
            return Some((out.into(), (Some((talk, exchange)), None)));
        }
        match tokio::time::timeout(SILENCE_MAX, talk.next()).await {
            Err(_) => sse::push_keep_alive(&mut out),
            Ok(Turn::Notice(notice)) => sse::push_message(&mut out, &notice),
            Ok(Turn::Done(handled)) => {
                // An event must be whole.
                sse::push_message(&mut out, &exchange.answer(handled).whole().await);
                return Some((out.into(), (None, None)));
            }
        }
        Some((out.into(), (Some((talk, exchange)), None)))
    })
}

/// The order of checks: `_meta`, headers, version; then the method. If only a header names a later revision, the
/// answer lists the supported revisions.
fn check(headers: &HeaderMap, identity: &Identity, request: &Request) -> Result<Caller, Fault> {
    let named = headers
        .get(VERSION)
        .and_then(|version| version.to_str().ok());
    if let Some(version) = named.filter(|version| Revision::parse(version).is_none())
        && request.params.meta(meta::PROTOCOL_VERSION).is_none()
    {
        return Err(mcp::unsupported_version(version));
    }
    let introduction = Introduction::read(request, identity)?;
    check_headers(headers, request, &introduction.version)?;
    introduction.caller()
}

/// Headers must agree with the body, since intermediaries may trust them.
fn check_headers(headers: &HeaderMap, request: &Request, version: &str) -> Result<(), Fault> {
    let mismatch = |text: String| Err(Fault::new(Kind::HeaderMismatch, text));
    let agrees = |name: &HeaderName, want: &str| -> Result<(), Fault> {
        let mut values = headers.get_all(name).iter();
        let value = match (values.next(), values.next()) {
            (Some(value), None) => value,
            (None, _) => return mismatch(format!("the header {name} is missing")),
            (_, Some(_)) => return mismatch(format!("the header {name} is repeated")),
        };
        match header::decode(value.as_bytes()) {
            Ok(got) if got == want => Ok(()),
            Ok(_) => mismatch(format!("the header {name} does not match the body")),
            Err(error) => mismatch(format!("the header {name} cannot be read: {error}")),
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

/// The same for arguments that the tool's schema mirrors into headers.
fn check_mirrored(
    policy: &Policy,
    caller: &Caller,
    view: View,
    headers: &HeaderMap,
    request: &Request,
) -> Result<(), Fault> {
    if request.method != Method::ToolsCall {
        return Ok(());
    }
    let name = request.params.string("name").unwrap_or_default();
    // Not checked for a tool that the caller may not call.
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
        .map_err(|why| Fault::new(Kind::HeaderMismatch, why.to_string()))
}
