//! Operations called by surfaces other than MCP: one call with its record, and what it came to as a result or a fault.
//!
//! The call itself is that of a modern MCP caller (`mcp::ModernCall`), so questions park it and a sealed state continues it.
//! Not here: how input is read and answers are written (`rest`, `rpc`).

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, StatusCode};
use sentinel_core::audit::{Ending, Surface};
use sentinel_core::rows::rows;
use sentinel_core::{
    Addressing, Caller, ClientCapabilities, Extra, Fault, HTTP_META, HttpCall, Identity,
    Invocation, Kind, LogLevel, Refusals, Reply, Round, View,
};
use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Id, Method, Outcome, Params, Payload, Request};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::exchange::Exchange;
use super::post::{arrival_at, going_down};
use crate::exchange::{Handled, OperationExchange};
use crate::mcp::{CallOptions, ModernCall, Turn};

const CONFIRMATION: HeaderName = HeaderName::from_static("x-confirmation-token");
/// Log lines of this level and above are in the stream of a call.
const LOG_LEVEL: &[u8] = br#""info""#;

/// Whoever calls over HTTP can be asked: the answer to the call is the question.
static CAPABILITIES: LazyLock<ClientCapabilities> = LazyLock::new(|| {
    let declared = br#"{"elicitation":{"form":{},"url":{}},"sampling":{}}"#;
    ClientCapabilities::parse(Bytes::from_static(declared)).expect("an object")
});

/// Of the message of a backend's internal error.
const LOGGED_CHARS_MAX: usize = 1000;

/// What is called.
pub(super) struct Wanted {
    pub(super) method: Method,
    pub(super) params: Params,
    /// As the caller sent it, where the surface has ids.
    pub(super) id: Option<Id>,
    pub(super) bytes_in: usize,
    /// Progress and log lines are wanted, too.
    pub(super) with_notices: bool,
    pub(super) way: Way,
}

/// How a call comes to its operation, where that is not by its name and arguments alone.
#[derive(Clone, Default)]
pub(super) struct Way {
    pub(super) addressing: Addressing,
    /// The request, where a backend answers it as a whole.
    pub(super) http: Option<Arc<HttpCall>>,
    /// Rows are taken one by one.
    pub(super) takes_rows: bool,
}

/// A call that runs. Dropping it cancels the call.
pub(super) struct Running {
    talk: ModernCall,
    method: Method,
    rows: Option<mpsc::Receiver<Bytes>>,
    /// What it came to, while rows of it are still to be taken.
    ended: Option<Result<Handled, Fault>>,
    /// Until it is done.
    record: Option<OperationExchange>,
}

/// What a call came to; not yet on record.
pub(super) struct Completed {
    pub(super) outcome: Result<Payload, Fault>,
    ending: Ending,
    record: OperationExchange,
}

/// What comes next of a call.
pub(super) enum Next {
    /// A notification as MCP has it.
    Notice(Vec<u8>),
    /// Rows of the answer, a line each.
    Rows(Bytes),
    Done(Box<Completed>),
}

/// The caller of a request that speaks no MCP.
pub(super) fn caller(exchange: &Exchange<'_>, with_notices: bool) -> Caller {
    let level = with_notices.then(|| LogLevel::rank(LOG_LEVEL)).flatten();
    Caller {
        capabilities: CAPABILITIES.clone(),
        log_level: LogLevel::of(level),
        ..Caller::of(exchange.identity())
    }
}

/// Such a caller of whom nothing else is known.
pub(super) fn reader(addressing: Addressing) -> Caller {
    Caller {
        capabilities: CAPABILITIES.clone(),
        addressing,
        ..Caller::of(&Identity::local(""))
    }
}

/// The same where it names operations in another way, or reads about them.
pub(super) fn caller_by(exchange: &Exchange<'_>, addressing: Addressing) -> Caller {
    Caller {
        addressing,
        ..caller(exchange, false)
    }
}

/// Begins a call; what refuses it at once is its outcome.
pub(super) fn begin(
    exchange: &Exchange<'_>,
    surface: Surface,
    wanted: Wanted,
) -> Result<Running, Box<Completed>> {
    let (server, headers) = (exchange.server, exchange.headers());
    let record = open(exchange, surface, &wanted);
    let method = wanted.method;
    if server.gateway.is_draining() {
        let completed = Completed::of(&method, Err(going_down()), record);
        return Err(Box::new(completed));
    }
    let (sender, rows) = match wanted.way.takes_rows {
        true => {
            let patience = u64::from(server.gateway.pace().piece_patience_s());
            let (sender, rows) = rows(Duration::from_secs(patience));
            (Some(sender), Some(rows))
        }
        false => (None, None),
    };
    let manner = CallOptions {
        refusals: Refusals::Faults,
        confirmation: headers
            .get(CONFIRMATION)
            .and_then(|token| token.to_str().ok().map(Arc::from)),
        extra: Extra {
            http: wanted.way.http,
            rows: sender,
        },
        state_is_once: true,
    };
    let caller = Arc::new(Caller {
        addressing: wanted.way.addressing,
        ..caller(exchange, wanted.with_notices)
    });
    let request = Request {
        id: wanted.id.unwrap_or_else(|| Id::from_number(0)),
        method: method.clone(),
        params: wanted.params,
    };
    let (gateway, trail) = (&server.gateway, record.trail());
    if exchange.timing.is_some() {
        trail.time();
    }
    match ModernCall::begin_as(gateway, caller, View::Merged, request, trail, manner) {
        Ok(talk) => Ok(Running {
            talk,
            method,
            rows,
            ended: None,
            record: Some(record),
        }),
        Err(fault) => Err(Box::new(Completed::of(&method, Err(fault), record))),
    }
}

/// A record of what is asked of a call without making it.
pub(super) fn open(
    exchange: &Exchange<'_>,
    surface: Surface,
    wanted: &Wanted,
) -> OperationExchange {
    let (server, headers) = (exchange.server, exchange.headers());
    let arrival = arrival_at(surface, server, exchange.identity(), headers);
    let Wanted { method, params, .. } = wanted;
    OperationExchange::open(
        &arrival,
        wanted.id.as_ref(),
        method,
        params,
        wanted.bytes_in,
    )
}

/// Whether the caller may make this call now. What is found out about it goes on the record.
pub(super) fn permits(
    exchange: &Exchange<'_>,
    wanted: &Wanted,
    record: &OperationExchange,
) -> Result<(), Fault> {
    let (method, params) = (wanted.method.clone(), wanted.params.clone());
    let caller = Arc::new(caller_by(exchange, wanted.way.addressing));
    let call = Invocation::mcp(Round::first(), caller, View::Merged, method, params);
    let gateway = &exchange.server.gateway;
    gateway.walk.permits(call, record.trail())
}

/// Takes up a call that waits for its caller, and drops it: its backend hears that it is cancelled.
pub(super) fn abandon(exchange: &Exchange<'_>, params: Params) {
    let request = Request {
        id: Id::from_number(0),
        method: Method::ToolsCall,
        params,
    };
    let (gateway, caller) = (&exchange.server.gateway, Arc::new(caller(exchange, false)));
    drop(ModernCall::begin(
        gateway,
        caller,
        View::Merged,
        request,
        Arc::default(),
    ));
}

/// Runs a call to its end; nothing is said on the way.
pub(super) async fn run(
    exchange: &Exchange<'_>,
    surface: Surface,
    wanted: Wanted,
) -> Box<Completed> {
    let began = exchange.timing.map(|timing| (timing, Instant::now()));
    let mut running = match begin(exchange, surface, wanted) {
        Ok(running) => running,
        Err(completed) => return completed,
    };
    loop {
        if let Next::Done(completed) = running.next().await {
            if let Some((timing, began)) = began {
                timing.called(began, &completed.record.trail());
            }
            return completed;
        }
    }
}

impl Running {
    /// The next thing that it says; nothing comes after it is done.
    pub(super) async fn next(&mut self) -> Next {
        let ended = match (self.ended.take(), &mut self.rows) {
            (Some(ended), _) => ended,
            (None, None) => match self.talk.next().await {
                Turn::Notice(notice) => return Next::Notice(notice),
                Turn::Done(ended) => ended,
            },
            (None, Some(rows)) => tokio::select! {
                biased;
                Some(lines) = rows.recv() => return Next::Rows(lines),
                turn = self.talk.next() => match turn {
                    Turn::Notice(notice) => return Next::Notice(notice),
                    Turn::Done(ended) => ended,
                },
            },
        };
        if let Some(lines) = self.rows.as_mut().and_then(|rows| rows.try_recv().ok()) {
            self.ended = Some(ended);
            return Next::Rows(lines);
        }
        let record = self.record.take().expect("a call is done once");
        Next::Done(Box::new(Completed::of(&self.method, ended, record)))
    }

    /// Ends it for a reason of the surface's own.
    pub(super) fn refuse(self, fault: Fault) -> Box<Completed> {
        drop(self.talk);
        let record = self.record.expect("a call that is done is not refused");
        Box::new(Completed::of(&self.method, Err(fault), record))
    }
}

impl Completed {
    /// A request that is refused by its surface.
    pub(super) fn refused(fault: Fault, record: OperationExchange) -> Self {
        Self::of(&Method::ToolsCall, Err(fault), record)
    }

    /// Whether the same request would come to the same, or must not be made again since the call may have run.
    pub(super) fn is_final(&self) -> bool {
        let Err(fault) = &self.outcome else {
            return true;
        };
        match fault.kind {
            Kind::InvalidArguments => true,
            // It goes on, or nothing ran.
            Kind::InputRequired
            | Kind::ConfirmationRequired
            | Kind::ConfirmationInvalid
            | Kind::RateLimited
            | Kind::Overloaded
            | Kind::CircuitOpen
            | Kind::BackendBusy
            | Kind::TransactionConflict => false,
            _ => self.record.trail().is_dispatched() && !fault.is_not_run,
        }
    }

    fn of(method: &Method, handled: Result<Handled, Fault>, record: OperationExchange) -> Self {
        let reply: Result<Reply, Fault> = handled.and_then(|handled| match handled {
            Handled::Reply(reply) => Ok(reply),
            Handled::Result(_) | Handled::Begins(..) => {
                let text = "the answer has a form that this surface does not take";
                Err(Fault::new(Kind::Internal, text))
            }
        });
        let ending = Ending::of(&reply);
        let outcome = reply.and_then(|reply| match reply.outcome {
            Outcome::Result(result) => completed(result),
            Outcome::Error(error) => Err(backend_error(method, &error)),
        });
        Self {
            outcome,
            ending,
            record,
        }
    }

    /// What its backend answered is no answer.
    pub(super) fn spoil(&mut self, fault: Fault) {
        self.ending = Ending::Refused(fault.kind);
        self.outcome = Err(fault);
    }

    /// Its backend answered with an HTTP status of its own.
    #[must_use]
    pub(super) fn answered_with(mut self, status: StatusCode) -> Self {
        if status.is_client_error() || status.is_server_error() {
            self.ending = Ending::BackendError;
        }
        self
    }

    /// The answer is written, so many bytes of it: on record from here on.
    pub(super) fn record(self, bytes_out: usize) {
        self.record.end(&self.ending, bytes_out);
    }
}

/// A result that is no result but a question or a tool's own error is a fault here.
fn completed(result: Payload) -> Result<Payload, Fault> {
    if result.get("isError") == Some(b"true") {
        return Err(tool_error(&result));
    }
    match result.get("resultType") {
        Some(br#""input_required""#) => Err(input_required(&result)),
        _ => Ok(result),
    }
}

fn tool_error(result: &Payload) -> Fault {
    let text = first_text(result).unwrap_or_else(|| "the tool reports an error".to_owned());
    let mut data = members(result, &["content", "structuredContent"]);
    let Some(meta) = http_meta(result) else {
        return Fault::new(Kind::ToolError, text).with_data(data);
    };
    if !data.is_empty() {
        data.push(',');
    }
    data.push_str(r#""upstream":"#);
    data.push_str(&String::from_utf8_lossy(meta.as_bytes()));
    let fault = Fault::new(Kind::ToolError, text).with_data(data);
    let number = |name| std::str::from_utf8(meta.get(name)?).ok()?.parse().ok();
    match (number("status"), number("retryAfterMs")) {
        // By these the API says that it has done nothing.
        (Some(429 | 503), Some(ms)) => fault.retry_after_ms(ms).not_run(),
        _ => fault,
    }
}

/// What the HTTP API behind a tool said besides its body, where there is one.
pub(super) fn http_meta(result: &Payload) -> Option<Payload> {
    let meta = Payload::parse(result.get_bytes("_meta")?, Rules::backend()).ok()?;
    Payload::parse(meta.get_bytes(HTTP_META)?, Rules::backend()).ok()
}

fn input_required(result: &Payload) -> Fault {
    let text = "the operation asks for input; send the answers with `requestState`";
    let asked = members(result, &["inputRequests", "requestState"]);
    Fault::new(Kind::InputRequired, text).with_data(asked)
}

/// The named members of an object as they are, without braces.
fn members(object: &Payload, names: &[&str]) -> String {
    let one = |name: &&str| {
        let value = String::from_utf8_lossy(object.get(name)?);
        Some(format!(r#""{name}":{value}"#))
    };
    names.iter().filter_map(one).collect::<Vec<_>>().join(",")
}

/// The text of the first text block of a tool's result.
fn first_text(result: &Payload) -> Option<String> {
    blocks(result)
        .iter()
        .find(|block| block.get("type") == Some(br#""text""#))
        .and_then(|block| Some(block.string("text")?.into_owned()))
}

/// The content blocks of a tool's result.
pub(super) fn blocks(result: &Payload) -> Vec<Payload> {
    elements(result, "content")
}

/// The objects in an array of a result.
pub(super) fn elements(result: &Payload, member: &str) -> Vec<Payload> {
    let Some(array) = result.get_bytes(member) else {
        return Vec::new();
    };
    let spans = json::elements(&array, Rules::backend()).unwrap_or_default();
    let object = |span: json::Span| Payload::parse(array.slice(span.range()), Rules::backend());
    spans
        .into_iter()
        .filter_map(|span| object(span).ok())
        .collect()
}

/// An error that the backend's own handler made, by the code that it chose (requirement D-20).
fn backend_error(method: &Method, error: &Payload) -> Fault {
    let code = error
        .get("code")
        .and_then(|code| std::str::from_utf8(code).ok());
    let kind = match code.and_then(|code| code.parse::<i64>().ok()) {
        // A read has one parameter, and 2026-07-28 has no other code for a URI that a server does not know.
        Some(-32602) if *method == Method::ResourcesRead => Kind::UnknownResource,
        Some(-32602) => Kind::InvalidParams,
        Some(-32601) => Kind::MethodNotFound,
        Some(-32002) => Kind::UnknownResource,
        // The backend says that this is no error for its callers: what it says is for the log (fact E-2).
        Some(-32603) => {
            let text = error.string("message").unwrap_or_default();
            let text: String = text.chars().take(LOGGED_CHARS_MAX).collect();
            return Fault::new(Kind::BackendError, "the backend failed internally").because(text);
        }
        _ => Kind::BackendError,
    };
    let text = error.string("message").unwrap_or_default().into_owned();
    Fault::new(kind, text)
}
