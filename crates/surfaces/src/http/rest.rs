//! REST: every operation of the catalog at `/api`, with the identity, policy, record and result that it has over MCP.
//!
//! Not here: the call itself (`operations`), the documents that describe all this (OpenAPI).

pub(super) mod accept;
mod answer;
pub(crate) mod arguments;
pub(crate) mod headers;
mod jobs;
mod later;
mod listing;
pub(super) mod next;
mod once;
mod replays;
mod routed;
mod stored;
mod stream;
pub(super) mod verbs;
pub(super) mod whole;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use sentinel_core::audit::Surface;
use sentinel_core::invocation::{params_named, params_of_uri};
use sentinel_core::{Addressing, Fault, Kind, Operation, View};
use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Method, Params, Payload};

use super::body::Body;
use super::exchange::Exchange;
use super::operations::{self, Completed, Next, Wanted, Way};
use super::post::{is_json, take_any_body};
use super::reply;
use super::routes::Handled;
use crate::rescue::{self, RestInput};
use accept::{Accept, Form};
pub(super) use answer::{Content, entity_tag, json_body};
use headers::{IDEMPOTENCY_KEY, PREFER};
pub(crate) use jobs::Jobs;
pub(super) use later::{cancel, continue_later, status};
pub(super) use listing::{catalog, resources};
use next::Called;
pub use replays::Replayable;
pub(crate) use replays::Replays;
pub(super) use routed::{at_route, is_shadowed, shadowed};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// Longer ones are refused: a name or URI of that length is a mistake.
const SEGMENT_BYTES_MAX: usize = 8 * 1024;
/// Asks for progress; the token itself is not shown to anybody.
const WITH_PROGRESS: &[u8] = br#","_meta":{"progressToken":"rest"}"#;

/// `POST /api/{operation}`.
pub(super) async fn post(exchange: &Exchange<'_>, body: Incoming) -> Result<Response<Body>, Fault> {
    let accept = Accept::of(exchange.headers());
    let form = accept.form()?;
    let name = segment(exchange.rest)?;
    verbs::check_post(exchange, &name)?;
    let bytes = take_any_body(exchange.server, exchange.headers(), body).await?;
    let bytes_in = bytes.len();
    let arguments = arguments_of(exchange, bytes, || {
        visible_tool(exchange, &name, Addressing::Name)
    })?;
    let call = ToolCall {
        name: &name,
        arguments: &arguments,
        input: RestInput::Body,
        bytes_in,
        addressing: Addressing::Name,
    };
    call.run_with_body(exchange, accept, form).await
}

/// `GET /api/{operation}`, for operations that say they change nothing.
pub(super) fn get<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    async move {
        exchange.check_site()?;
        let accept = Accept::of(exchange.headers());
        let form = accept.form()?;
        let name = segment(exchange.rest)?;
        let query = exchange.head.uri.query().unwrap_or_default();
        let tool = visible_tool(exchange, &name, Addressing::Name);
        // One that cannot be seen is refused as unknown by the walk.
        if tool.as_ref().is_some_and(|tool| !tool.is_read_only) {
            let text = "this operation may change something: call it with POST";
            return Err(exchange.only("POST", text));
        }
        let schema = tool.as_deref().and_then(input_schema);
        let parameters = form_urlencoded::parse(query.as_bytes());
        let arguments = arguments::coerce(parameters, schema)?;
        let call = ToolCall {
            name: &name,
            arguments: &arguments,
            input: RestInput::Query,
            bytes_in: query.len(),
            addressing: Addressing::Name,
        };
        call.run(exchange, &accept, form).await
    }
    .boxed()
}

/// `POST /api/{operation}/continue`: the same call again, with answers to what it asked.
pub(super) fn resume<'a>(exchange: &'a Exchange<'a>, body: Incoming) -> Handled<'a> {
    async move {
        let accept = Accept::of(exchange.headers());
        let name = segment(exchange.rest)?;
        let bytes = take_any_body(exchange.server, exchange.headers(), body).await?;
        check_json_type(exchange.headers())?;
        let rules = rules(exchange);
        let bytes_in = bytes.len();
        let sent = Params::parse(bytes, rules).map_err(malformed)?;
        let params = continued(&name, &sent, rules)?;
        let wanted = Wanted {
            method: Method::ToolsCall,
            params,
            id: None,
            bytes_in,
            with_notices: false,
            way: Way::default(),
        };
        let completed = operations::run(exchange, Surface::Rest, wanted).await;
        let arguments = sent.get("arguments").unwrap_or(b"{}");
        let path = exchange.head.uri.path();
        let path = path.strip_suffix("/continue").unwrap_or(path);
        let called = called_at(exchange, path, &name, arguments);
        let mut response = answered(*completed, RestInput::Body, |result| {
            tool_answer(result, &accept, called)
        });
        add_rate_limit(exchange, &name, Addressing::Name, response.headers_mut());
        Ok(response)
    }
    .boxed()
}

/// The params that continue a call: its arguments, the sealed state and the answers.
pub(super) fn continued(name: &str, sent: &Params, rules: Rules) -> Result<Params, Fault> {
    let missing = |what: &str| {
        let text = format!(
            "`{what}` is missing: send `arguments` as before, `requestState` and `inputResponses`"
        );
        Fault::new(Kind::InvalidParams, text)
    };
    let arguments = sent
        .get("arguments")
        .or(sent.get("params"))
        .unwrap_or(b"{}");
    let state = sent
        .get("requestState")
        .ok_or_else(|| missing("requestState"))?;
    let answers = sent.get("inputResponses").unwrap_or(b"{}");
    let members = [
        br#","requestState":"#.as_slice(),
        state,
        br#","inputResponses":"#,
        answers,
    ];
    params_named(name, arguments, &members.concat(), rules).map_err(malformed)
}

/// `GET /api/resources/{uri}`.
pub(super) fn resource<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    async move {
        exchange.check_site()?;
        let accept = Accept::of(exchange.headers());
        let uri = segment(exchange.rest)?;
        let wanted = Wanted {
            method: Method::ResourcesRead,
            params: params_of_uri(&uri, b""),
            id: None,
            bytes_in: uri.len(),
            with_notices: false,
            way: Way::default(),
        };
        let completed = operations::run(exchange, Surface::Rest, wanted).await;
        let headers = exchange.headers();
        Ok(answered(
            *completed,
            RestInput::Query,
            |result| match answer::of_resource(result, &accept) {
                Ok(content) => content.respond_to_range(headers),
                Err(fault) => reply::problem(&fault),
            },
        ))
    }
    .boxed()
}

/// `POST /api/prompts/{name}`.
pub(super) fn prompt<'a>(exchange: &'a Exchange<'a>, body: Incoming) -> Handled<'a> {
    async move {
        let name = segment(exchange.rest)?;
        let bytes = take_any_body(exchange.server, exchange.headers(), body).await?;
        let bytes_in = bytes.len();
        let arguments = arguments_of(exchange, bytes, || None)?;
        let wanted = Wanted {
            method: Method::PromptsGet,
            params: params_named(&name, &arguments, b"", rules(exchange)).map_err(malformed)?,
            id: None,
            bytes_in,
            with_notices: false,
            way: Way::default(),
        };
        let completed = operations::run(exchange, Surface::Rest, wanted).await;
        Ok(answered(*completed, RestInput::Body, |result| {
            Content::json(json_body(&Method::PromptsGet, result)).respond()
        }))
    }
    .boxed()
}

/// One call of a tool.
#[derive(Clone, Copy)]
struct ToolCall<'a> {
    name: &'a str,
    arguments: &'a [u8],
    input: RestInput,
    bytes_in: usize,
    addressing: Addressing,
}

impl ToolCall<'_> {
    /// A call with a body, which may be made once only, or be answered later.
    async fn run_with_body(
        self,
        exchange: &Exchange<'_>,
        accept: Accept,
        form: Form,
    ) -> Result<Response<Body>, Fault> {
        let headers = exchange.headers();
        match headers.contains_key(IDEMPOTENCY_KEY) || headers.contains_key(PREFER) {
            false => self.run(exchange, &accept, form).await,
            // Boxed, for the futures of other calls have no room for it.
            true => Box::pin(once::run(self, exchange, accept, form)).await,
        }
    }

    fn wanted(&self, exchange: &Exchange<'_>, with_notices: bool) -> Result<Wanted, Fault> {
        let members = if with_notices { WITH_PROGRESS } else { b"" };
        let params = params_named(self.name, self.arguments, members, rules(exchange));
        Ok(Wanted {
            method: Method::ToolsCall,
            params: params.map_err(malformed)?,
            id: None,
            bytes_in: self.bytes_in,
            with_notices,
            way: Way {
                addressing: self.addressing,
                takes_rows: false,
                http: None,
            },
        })
    }

    /// The call, to name the next page of its result.
    fn called<'a>(&'a self, exchange: &'a Exchange<'_>) -> Called<'a> {
        let path = exchange.head.uri.path();
        called_at(exchange, path, self.name, self.arguments)
    }

    async fn run(
        self,
        exchange: &Exchange<'_>,
        accept: &Accept,
        form: Form,
    ) -> Result<Response<Body>, Fault> {
        let wanted = self.wanted(exchange, form != Form::Json)?;
        let mut response = match form {
            Form::Json => {
                let completed = operations::run(exchange, Surface::Rest, wanted).await;
                answered(*completed, self.input, |result| match self.input {
                    RestInput::Query => {
                        let content = answer::of_tool(result, accept);
                        let mut response = content.respond_to(exchange.headers());
                        next::add(result, self.called(exchange), response.headers_mut());
                        response
                    }
                    RestInput::Body => tool_answer(result, accept, self.called(exchange)),
                })
            }
            form => {
                let way = Way {
                    takes_rows: true,
                    ..wanted.way
                };
                let wanted = Wanted { way, ..wanted };
                Box::pin(streamed(exchange, wanted, form, self.input)).await
            }
        };
        add_rate_limit(exchange, self.name, self.addressing, response.headers_mut());
        Ok(response)
    }
}

/// A call of the operation that has this path.
fn called_at<'a>(
    exchange: &'a Exchange<'_>,
    path: &'a str,
    tool: &'a str,
    arguments: &'a [u8],
) -> Called<'a> {
    let (above, _) = path.rsplit_once('/').unwrap_or_default();
    Called {
        registry: &exchange.server.gateway.registry,
        above,
        tool,
        arguments,
    }
}

/// The answer to a POST of a tool.
fn tool_answer(result: &Payload, accept: &Accept, called: Called<'_>) -> Response<Body> {
    let mut response = answer::of_tool(result, accept).respond();
    next::add(result, called, response.headers_mut());
    response
}

/// A call as a stream. What refuses it before its first record is an ordinary answer.
async fn streamed(
    exchange: &Exchange<'_>,
    wanted: Wanted,
    form: Form,
    input: RestInput,
) -> Response<Body> {
    let method = wanted.method.clone();
    let mut running = match operations::begin(exchange, Surface::Rest, wanted) {
        Ok(running) => running,
        Err(completed) => return refused(*completed, input),
    };
    match running.next().await {
        Next::Done(completed) if completed.outcome.is_err() => refused(*completed, input),
        Next::Done(completed) => stream::only(form, &method, *completed),
        first => match exchange.server.stream_place(exchange.identity()) {
            Ok(place) => {
                let records = stream::records(form, method, first, running);
                stream::respond(form, reply::held(place, records))
            }
            Err(fault) => refused(*running.refuse(fault), input),
        },
    }
}

/// The answer to a call, on record before it is returned.
fn answered(
    completed: Completed,
    input: RestInput,
    respond: impl FnOnce(&Payload) -> Response<Body>,
) -> Response<Body> {
    let response = match &completed.outcome {
        Ok(result) => respond(result),
        Err(_) => return refused(completed, input),
    };
    completed.record(http_body::Body::size_hint(response.body()).lower() as usize);
    response
}

fn refused(completed: Completed, input: RestInput) -> Response<Body> {
    let Err(fault) = &completed.outcome else {
        return reply::problem(&Fault::new(
            Kind::Internal,
            "a result was taken for a fault",
        ));
    };
    let mut response = reply::problem_with(fault, rescue::rest_status(fault.kind, input));
    if let Some(ms) = fault.retry_after_ms {
        let seconds = HeaderValue::from(ms.div_ceil(1000));
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    completed.record(http_body::Body::size_hint(response.body()).lower() as usize);
    response
}

/// What is left of the caller's rate limit for this tool, where there is one.
pub(super) fn add_rate_limit(
    exchange: &Exchange<'_>,
    name: &str,
    addressing: Addressing,
    headers: &mut HeaderMap,
) {
    let Some(tool) = visible_tool(exchange, name, addressing) else {
        return;
    };
    let rates = exchange.server.gateway.policy.rates();
    let Some(figures) = rates.figures(&exchange.identity().subject, &tool) else {
        return;
    };
    let limit = format!(r#""calls";q={};w=60"#, figures.limit);
    let left = format!(r#""calls";r={};t={}"#, figures.remaining, figures.full_in_s);
    for (name, value) in [(RATE_LIMIT_POLICY, limit), (RATE_LIMIT, left)] {
        headers.insert(
            name,
            HeaderValue::try_from(value).expect("digits and quotes"),
        );
    }
}

pub(super) fn visible_tool(
    exchange: &Exchange<'_>,
    name: &str,
    addressing: Addressing,
) -> Option<Arc<Operation>> {
    let policy = &exchange.server.gateway.policy;
    let tool = policy.registry().tool(View::Merged, name)?;
    let caller = operations::caller_by(exchange, addressing);
    policy.grant(&caller, &tool).see.then_some(tool)
}

/// The arguments in a body: JSON, or a form coerced by the schema of `tool`.
fn arguments_of<'b>(
    exchange: &Exchange<'_>,
    bytes: Bytes,
    tool: impl FnOnce() -> Option<Arc<Operation>>,
) -> Result<Cow<'b, [u8]>, Fault> {
    let media_type = exchange.headers().get(CONTENT_TYPE);
    if bytes.is_empty() {
        return Ok(Cow::Borrowed(b"{}"));
    }
    let essence = media_type.map_or(&b""[..], |value| value.as_bytes());
    let essence = essence.split(|b| *b == b';').next().unwrap_or_default();
    if essence
        .trim_ascii()
        .eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
    {
        let tool = tool();
        let schema = tool.as_deref().and_then(input_schema);
        let form = arguments::coerce(form_urlencoded::parse(&bytes), schema)?;
        return Ok(Cow::Owned(form));
    }
    check_json_type(exchange.headers())?;
    Ok(Cow::Owned(bytes.into()))
}

fn input_schema(tool: &Operation) -> Option<&[u8]> {
    tool.schema.as_ref()?.as_bytes()
}

fn check_json_type(headers: &HeaderMap) -> Result<(), Fault> {
    let media_type = headers.get(CONTENT_TYPE);
    if media_type.is_some_and(|value| is_json(value.as_bytes())) {
        return Ok(());
    }
    let text =
        "send Content-Type: application/json, or application/x-www-form-urlencoded for arguments";
    Err(Fault::new(Kind::UnsupportedMediaType, text))
}

fn rules(exchange: &Exchange<'_>) -> Rules {
    Rules::caller(exchange.server.gateway.limits().json_depth_max)
}

/// JSON that is none, or not within our rules.
pub(super) fn malformed(error: json::Error) -> Fault {
    Fault::new(
        Kind::ParseError,
        format!("the body cannot be read: {error}"),
    )
}

/// The name or URI that one segment of a path stands for.
fn segment(text: &str) -> Result<String, Fault> {
    if text.len() > SEGMENT_BYTES_MAX {
        let text = format!("a name or URI of more than {SEGMENT_BYTES_MAX} bytes");
        return Err(Fault::new(Kind::UriTooLong, text));
    }
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| {
        let text = "the path is not percent-encoded UTF-8";
        Fault::new(Kind::InvalidParameter, text)
    })?;
    Ok(decoded.into_owned())
}
