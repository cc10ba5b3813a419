//! JSON-RPC 2.0 at `/rpc`: a method is an operation of the catalog, its params are the arguments.
//!
//! The elements of a batch run side by side, and each has a record of its own. A tool's name comes before a method that a
//! backend declares (`routed`).
//!
//! Not here: MCP, whose messages have the same envelope and other methods (`post`).

mod routed;

use std::iter::repeat;

use std::borrow::Cow;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use hyper::body::Incoming as HttpBody;
use sentinel_core::audit::Surface;
use sentinel_core::invocation::{params_named, params_of_uri};
use sentinel_core::{Fault, Kind};
use sentinel_wire::envelope::{PARSE_ERROR, Refusal, write_error_object, write_result};
use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Id, Incoming, Message, Method, Notification, Params, Request, Revision};

use super::body::Body;
use super::exchange::Exchange;
use super::operations::{self, Wanted, Way};
use super::post::{arrival_at, take_body};
use super::rest::whole::{self, WholeAnswer};
use super::{documents, reply, rest};
use crate::rescue;

/// Elements of one batch: each may hold a place among the calls that run.
const BATCH_MAX: usize = 100;
/// Codes are those of the handshake era. An error without an id says `"id": null`, as JSON-RPC 2.0 asks and MCP did until
/// this revision.
const REVISION: Revision = Revision::V2025_06_18;

/// What the parser says of params that are no object.
const NO_OBJECT: &str = "params must be an object";

/// What a call is of its request.
struct Element {
    is_alone: bool,
    /// The bytes of a batch are not told apart.
    bytes_in: usize,
    /// As it was sent, for backends that take it as a whole.
    sent: Option<Bytes>,
}

/// What an element came to.
struct Answer {
    message: Vec<u8>,
    status: StatusCode,
    /// Of the response, if this is all of it.
    headers: HeaderMap,
    /// A backend's own answer, in place of all that.
    of_backend: Option<WholeAnswer>,
}

/// `POST /rpc`.
pub(super) async fn answer(
    exchange: &Exchange<'_>,
    body: HttpBody,
) -> Result<Response<Body>, Fault> {
    let taken = take_body(exchange.server, exchange.headers(), body).await;
    let bytes = taken.map_err(|(fault, _)| fault)?;
    let bytes_in = bytes.len();
    let gateway = &exchange.server.gateway;
    let rules = Rules::caller(gateway.limits().json_depth_max);
    // The elements as they were sent, for backends that take them as a whole.
    let sent = gateway.registry.has_routes().then(|| bytes.clone());
    let message = match Incoming::parse(bytes, rules) {
        Err(refusal) => Err(refusal),
        Ok(Incoming::One(message)) => Ok(message),
        Ok(Incoming::Batch(messages)) => {
            let spans = sent.map(|sent| (json::elements(&sent, rules).unwrap_or_default(), sent));
            let slices = spans.map_or_else(Vec::new, |(spans, sent)| {
                let slice = |span: &json::Span| sent.slice(span.range());
                spans.iter().map(slice).collect()
            });
            return Box::pin(batch(exchange, messages, slices)).await;
        }
    };
    let element = Element {
        is_alone: true,
        bytes_in,
        sent,
    };
    let answer = one(exchange, message, element).await;
    Ok(answer.map_or_else(no_content, Answer::respond))
}

/// A request that is refused before a call of it could be read.
pub(super) fn refusal(fault: &Fault) -> Response<Body> {
    Answer::refusal(None, fault).respond()
}

fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

async fn batch(
    exchange: &Exchange<'_>,
    messages: Vec<Result<Message, Refusal>>,
    sent: Vec<Bytes>,
) -> Result<Response<Body>, Fault> {
    if messages.len() > BATCH_MAX {
        let text = format!("a batch of more than {BATCH_MAX} calls; send several");
        return Err(Fault::new(Kind::TooLarge, text));
    }
    if let Some(timing) = exchange.timing {
        timing.has_several();
    }
    let sent = sent.into_iter().map(Some).chain(repeat(None));
    let all = messages.into_iter().zip(sent).map(|(message, sent)| {
        let element = Element {
            is_alone: false,
            bytes_in: 0,
            sent,
        };
        one(exchange, message, element)
    });
    let answers = join_all(all).await.into_iter().flatten();
    let answers: Vec<Vec<u8>> = answers.filter_map(Answer::into_element).collect();
    if answers.is_empty() {
        return Ok(no_content());
    }
    let mut out = vec![b'['];
    out.extend_from_slice(&answers.join(&b','));
    out.push(b']');
    Ok(reply::json(StatusCode::OK, out))
}

/// One call; a notification has no answer.
async fn one(
    exchange: &Exchange<'_>,
    message: Result<Message, Refusal>,
    mut element: Element,
) -> Option<Answer> {
    let message = match (message, element.sent.take()) {
        // A backend may take what tools do not: params by position.
        (message, Some(sent)) => match routed::taken(exchange, &message, &sent) {
            Some(taken) => return taken.answer(exchange, sent, &element).await,
            None => message,
        },
        (message, None) => message,
    };
    match message {
        Ok(Message::Request(Request { id, method, params })) => {
            Some(call(exchange, Some(id), method.as_str(), &params, &element).await)
        }
        Ok(Message::Notification(Notification { method, params })) => {
            call(exchange, None, method.as_str(), &params, &element).await;
            None
        }
        Ok(Message::Response(_)) => {
            let text = "this is an answer; nothing was asked";
            Some(unread(
                exchange,
                None,
                &Fault::new(Kind::InvalidRequest, text),
            ))
        }
        Err(refusal) => Some(unread(exchange, refusal.id.as_ref(), &malformed(&refusal))),
    }
}

fn malformed(refusal: &Refusal) -> Fault {
    let kind = match refusal.code {
        PARSE_ERROR => Kind::ParseError,
        _ if refusal.message == NO_OBJECT => Kind::InvalidParams,
        _ => Kind::InvalidRequest,
    };
    let text = match kind {
        Kind::InvalidParams => {
            "params must be an object: arguments have names, not positions".into()
        }
        _ => refusal.message.clone(),
    };
    Fault::new(kind, text)
}

/// The answer to what could not be read as a call, on record.
fn unread(exchange: &Exchange<'_>, id: Option<&Id>, fault: &Fault) -> Answer {
    let arrival = arrival_at(
        Surface::Rpc,
        exchange.server,
        exchange.identity(),
        exchange.headers(),
    );
    let _ = arrival.refuse(id, fault, REVISION, 0);
    Answer::refusal(id, fault)
}

async fn call(
    exchange: &Exchange<'_>,
    id: Option<Id>,
    name: &str,
    params: &Params,
    element: &Element,
) -> Answer {
    if name == "rpc.discover" {
        return match documents::discovered(exchange, id.as_ref()).await {
            Ok(document) => Answer::result(id.as_ref(), &document),
            Err(fault) => Answer::refusal(id.as_ref(), &fault),
        };
    }
    let depth = exchange.server.gateway.limits().json_depth_max;
    let (method, params) = match operation(name, params, Rules::caller(depth)) {
        Ok(operation) => operation,
        Err(fault) => return unread(exchange, id.as_ref(), &fault),
    };
    let wanted = Wanted {
        method,
        params,
        id,
        bytes_in: element.bytes_in,
        with_notices: false,
        way: Way::default(),
    };
    run(exchange, name, wanted, element.is_alone).await
}

/// Calls an operation by its arguments.
async fn run(exchange: &Exchange<'_>, name: &str, wanted: Wanted, is_alone: bool) -> Answer {
    let (method, id) = (wanted.method.clone(), wanted.id.clone());
    let addressing = wanted.way.addressing;
    let tool = match method {
        Method::ToolsCall => wanted.params.string("name").map(Cow::into_owned),
        _ => None,
    };
    let mut completed = operations::run(exchange, Surface::Rpc, wanted).await;
    // An unknown tool is an unknown method here (requirement C-16).
    if let Err(fault) = &mut completed.outcome
        && fault.kind == Kind::UnknownName
        && !name.starts_with("rpc.")
    {
        fault.kind = Kind::MethodNotFound;
    }
    let mut answer = match &completed.outcome {
        Ok(result) => {
            let mut answer = Answer::result(id.as_ref(), &rest::json_body(&method, result));
            rest::next::add_arguments(result, &mut answer.headers);
            answer
        }
        Err(fault) => Answer::refusal(id.as_ref(), fault),
    };
    // The headers are those of the response, which a batch shares.
    if let (true, Some(tool)) = (is_alone, tool) {
        rest::add_rate_limit(exchange, &tool, addressing, &mut answer.headers);
    }
    completed.record(answer.message.len());
    answer
}

/// What a method of ours means to MCP.
fn operation(name: &str, params: &Params, rules: Rules) -> Result<(Method, Params), Fault> {
    let text = |member: &str| {
        let missing = || Fault::new(Kind::InvalidParams, format!("`{member}` is missing"));
        params.string(member).ok_or_else(missing)
    };
    let named = |name: &str, arguments: &[u8]| {
        params_named(name, arguments, b"", rules).map_err(rest::malformed)
    };
    match name {
        "rpc.readResource" => Ok((Method::ResourcesRead, params_of_uri(&text("uri")?, b""))),
        "rpc.getPrompt" => {
            let arguments = params.get("arguments").unwrap_or(b"{}");
            Ok((Method::PromptsGet, named(&text("name")?, arguments)?))
        }
        "rpc.continue" => {
            let continued = rest::continued(&text("method")?, params, rules)?;
            Ok((Method::ToolsCall, continued))
        }
        other if other.starts_with("rpc.") => {
            let text = format!("unknown method: {other}");
            Err(Fault::new(Kind::MethodNotFound, text))
        }
        tool => Ok((Method::ToolsCall, named(tool, params.as_bytes())?)),
    }
}

impl Answer {
    fn result(id: Option<&Id>, result: &Bytes) -> Self {
        let mut message = Vec::new();
        if let Some(id) = id {
            write_result(id, result, &mut message);
        }
        Self {
            message,
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            of_backend: None,
        }
    }

    fn refusal(id: Option<&Id>, fault: &Fault) -> Self {
        let error = rescue::rpc_error(fault, reply::logged(fault));
        let mut message = Vec::new();
        write_error_object(id, REVISION, &error, &mut message);
        let mut headers = HeaderMap::new();
        if let Some(ms) = fault.retry_after_ms {
            headers.insert(RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000)));
        }
        Self {
            message,
            status: rescue::row(fault.kind).status(),
            headers,
            of_backend: None,
        }
    }

    fn of_backend(answer: WholeAnswer) -> Self {
        Self {
            message: Vec::new(),
            status: answer.status,
            headers: HeaderMap::new(),
            of_backend: Some(answer),
        }
    }

    /// As an element of the answer to a batch, if it has anything to say.
    fn into_element(self) -> Option<Vec<u8>> {
        let message = match &self.of_backend {
            Some(answer) => answer.body.to_vec(),
            None => self.message,
        };
        (!message.is_empty()).then_some(message)
    }

    fn respond(self) -> Response<Body> {
        if let Some(answer) = &self.of_backend {
            return whole::respond(answer, false);
        }
        let mut response = reply::json(self.status, self.message);
        response.headers_mut().extend(self.headers);
        response
    }
}
