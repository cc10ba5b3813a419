//! What every MCP connector does with a call: write it in the form that its server needs, and read the answer.
//! Transports are elsewhere.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use sentinel_core::{Call, Caller, ClientCapabilities, Fault, Kind, LogLevel, Notice, Reply};
use sentinel_wire::envelope::{begin_request, error_object, write_notification};
use sentinel_wire::translate::{About, Outgoing, needs_introduction};
use sentinel_wire::{Method, Outcome, Params, Payload, Revision, json, meta};

/// The name and version under which the gateway introduces itself to servers.
pub fn client_info() -> &'static [u8] {
    concat!(
        r#"{"name":"sentinel-gateway","version":""#,
        env!("CARGO_PKG_VERSION"),
        r#""}"#
    )
    .as_bytes()
}

/// A call as one JSON-RPC request with our id.
pub fn request(call: &Call, id: u64, to: Revision) -> Vec<u8> {
    let mut out = Vec::with_capacity(call.params.as_bytes().len() + 128);
    write_request(call, id, to, &mut out);
    out
}

/// Like [`request`], appended to a buffer. If the caller wants progress, the progress token is our id as well: it is
/// unique among the requests in flight to this server.
pub fn write_request(call: &Call, id: u64, to: Revision, out: &mut Vec<u8>) {
    let id_text = itoa::Buffer::new().format(id).to_owned();
    let from = call.caller.revision;
    let is_stamped = needs_introduction(&call.params, from, to);
    let capabilities = match is_stamped {
        // The gateway polls the task for a caller that does not support tasks.
        true if call.method == Method::ToolsCall => with_tasks(declared(&call.caller, to)),
        true if is_about_a_task(&call.method) => with_tasks(declared(&call.caller, to)),
        true => declared(&call.caller, to),
        false => Vec::new(),
    };
    let trace = call.trail.traceparent().map(|trace| format!("\"{trace}\""));
    let wants_progress = call.params.meta(meta::PROGRESS_TOKEN).is_some();
    let task = call.task_ttl_ms.map(|ttl| format!(r#"{{"ttl":{ttl}}}"#));
    let outgoing = Outgoing {
        method: &call.method,
        from,
        to,
        own_name: call
            .target
            .as_ref()
            .and_then(|target| target.own_name.as_deref()),
        progress_token: wants_progress.then_some(id_text.as_bytes()),
        task: task.as_deref().map(str::as_bytes),
        about: About {
            capabilities: &capabilities,
            client_info: call.caller.client_info.as_deref().or(Some(client_info())),
            log_level: call.caller.log_level.get().and_then(LogLevel::name),
            traceparent: trace.as_deref().map(str::as_bytes),
        },
    };
    begin_request(id_text.as_bytes(), call.method.as_str(), out);
    outgoing.write(&call.params, out);
    out.push(b'}');
}

/// Requests that name a task. A question belongs to one of them only if it names that task.
pub fn is_about_a_task(method: &Method) -> bool {
    matches!(
        method,
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksResult
    )
}

/// The task whose result a call waits for: the server's questions about the task go to this call.
pub fn awaited_task(call: &Call) -> Option<Box<str>> {
    let id = call.params.string("taskId");
    id.filter(|_| call.method == Method::TasksResult)
        .map(|id| id.into())
}

/// The task that a question of a 2025-11-25 server belongs to.
pub fn related_task(params: &Params) -> Option<Box<str>> {
    let related = params.meta_bytes(meta::RELATED_TASK)?;
    let related = Payload::parse(related, json::Rules::backend()).ok()?;
    Some(related.string("taskId")?.into())
}

fn with_tasks(mut declared: Vec<u8>) -> Vec<u8> {
    declared.pop();
    if declared.len() > 1 {
        declared.push(b',');
    }
    declared.extend_from_slice(br#""extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
    declared
}

/// The caller's capabilities as declared to a server of this revision: no tasks, an empty `elicitation` spelled out,
/// and nothing newer than the caller's revision. `roots.listChanged` exists between legacy peers only.
pub fn declared(caller: &Caller, to: Revision) -> Vec<u8> {
    declaration(&caller.capabilities.in_revision(caller.revision), to)
}

/// Like [`declared`], for capabilities without a particular caller.
pub fn declaration(c: &ClientCapabilities, to: Revision) -> Vec<u8> {
    let mut parts: Vec<String> = Vec::new();
    let mut modes: Vec<&str> = Vec::new();
    if c.elicit_form {
        modes.push(r#""form":{}"#);
    }
    if c.elicit_url {
        modes.push(r#""url":{}"#);
    }
    if !modes.is_empty() {
        parts.push(format!(r#""elicitation":{{{}}}"#, modes.join(",")));
    }
    if c.sampling {
        let tools = if c.sampling_tools {
            r#""tools":{}"#
        } else {
            ""
        };
        parts.push(format!(r#""sampling":{{{tools}}}"#));
    }
    if c.roots && c.roots_changed && !to.is_modern() {
        parts.push(r#""roots":{"listChanged":true}"#.to_owned());
    } else if c.roots {
        parts.push(r#""roots":{}"#.to_owned());
    }
    format!("{{{}}}", parts.join(",")).into_bytes()
}

/// A modern server has no `resources/subscribe`: the connector maintains the subscriptions of all callers, so the
/// request is answered here.
pub fn answer_for_modern(call: &Call) -> Option<Reply> {
    let subscribing = matches!(
        call.method,
        Method::ResourcesSubscribe | Method::ResourcesUnsubscribe
    );
    subscribing.then(|| Reply {
        revision: call.caller.revision,
        outcome: Outcome::Result(empty()),
    })
}

fn empty() -> Payload {
    Payload::parse(Bytes::from_static(b"{}"), json::Rules::backend()).expect("an empty object")
}

/// A JSON array of strings.
pub fn json_strings(texts: &[Arc<str>]) -> String {
    serde_json::to_string(&texts.iter().map(|text| &**text).collect::<Vec<&str>>())
        .expect("strings are JSON")
}

/// The reply of a server at `revision` to a call.
pub fn reply(call: &Call, outcome: Outcome, revision: Revision) -> Result<Reply, Fault> {
    if let Outcome::Result(result) = &outcome {
        if json::Kind::of(result.as_bytes()) != Some(json::Kind::Object) {
            return Err(bad_reply("its result is no object"));
        }
        if revision.is_modern() && !is_known_type(call, result) {
            return Err(bad_reply("its `resultType` is unknown"));
        }
    }
    Ok(Reply { revision, outcome })
}

/// Whether the result type is known. Clients must reject unknown types, but a modern caller may have declared an
/// extension that the gateway passes through, so it judges by itself.
fn is_known_type(call: &Call, result: &Payload) -> bool {
    let may_be_task = call.method == Method::ToolsCall || is_about_a_task(&call.method);
    if call.caller.revision.is_modern() || result.get("resultType").is_none() {
        return true;
    }
    match result.string("resultType").as_deref() {
        Some("complete" | "input_required") => true,
        Some("task") => may_be_task,
        _ => false,
    }
}

/// A notification as a notice for the call whose progress token is `token`; `None` for notifications that reach
/// callers in other ways or not at all.
pub fn notice(method: &Method, params: Payload) -> Option<Notice> {
    match method {
        Method::Progress => Some(Notice::Progress(params)),
        Method::LogMessage => Some(Notice::Log(params)),
        Method::ElicitationComplete => Some(Notice::Elicited(params)),
        _ => None,
    }
}

/// `why` must be our own text and quote nothing of the backend.
pub fn bad_reply(why: impl Display) -> Fault {
    let text = format!("the backend's answer could not be read: {why}");
    Fault::new(Kind::BackendBadReply, text)
}

/// The error object for a server's question when no caller can be asked.
pub fn nobody_to_ask(method: &Method) -> Bytes {
    let text = format!("{}: no caller can be asked", method.as_str());
    error_object(-32601, &text, None).into()
}

/// The notification that a caller's roots changed.
pub fn roots_changed() -> Vec<u8> {
    let mut out = Vec::new();
    write_notification(Method::RootsChanged.as_str(), b"", &mut out);
    out
}

/// Params of `notifications/cancelled` for one of our ids.
pub fn cancelled_params(id: u64) -> Vec<u8> {
    format!(r#"{{"requestId":{id},"reason":"the caller left"}}"#).into_bytes()
}
