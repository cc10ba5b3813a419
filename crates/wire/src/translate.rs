//! Translates between revisions by splicing: params on the way to a backend; results, errors and list items on the
//! way back. With the same revision on both sides nothing changes.
//!
//! The rules are those of the translation table: for each a line says which side needs it. Members that no rule names
//! pass unchanged, in their order.

pub mod ask;

use std::borrow::Cow;

use bytes::Bytes;

use crate::envelope::{INTERNAL_ERROR, INVALID_PARAMS, Params, Payload, Raw, error_object};
use crate::json::{self, Kind, Object, Rules};
use crate::meta;
use crate::method::Method;
use crate::revision::Revision;

/// What a modern backend must be told with each request.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    pub capabilities: &'a [u8],
    pub client_info: Option<&'a [u8]>,
    /// As a JSON string.
    pub log_level: Option<&'a [u8]>,
    /// The trace context as a JSON string, where it differs from what the caller sent. For either era.
    pub traceparent: Option<&'a [u8]>,
}

/// How the params of one request change on the way to a backend.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    pub method: &'a Method,
    /// The caller's revision.
    pub from: Revision,
    /// The backend's revision.
    pub to: Revision,
    /// The backend's own name for the operation, if the caller used another.
    pub own_name: Option<&'a str>,
    /// Our progress token in place of the caller's, as JSON; only where the caller sent one.
    pub progress_token: Option<&'a [u8]>,
    /// The `task` to request, for a 2025-11-25 tool that runs only as a task.
    pub task: Option<&'a [u8]>,
    /// Who is calling; used where `needs_introduction`.
    pub about: About<'a>,
}

/// Whether a request lacks what a modern backend must be told with each: it is of a caller who said it at `initialize`, or
/// of one who speaks no MCP.
pub fn needs_introduction(params: &Params, from: Revision, to: Revision) -> bool {
    to.is_modern() && (!from.is_modern() || params.meta(meta::PROTOCOL_VERSION).is_none())
}

impl Outgoing<'_> {
    /// Appends the params in the form that the backend needs.
    pub fn write(&self, params: &Params, out: &mut Vec<u8>) {
        let meta = self.meta(params);
        let reference = self.reference(params);
        let own_name = self
            .own_name
            .filter(|_| reference.is_none())
            .map(json_string);
        let mut edits: Vec<(&str, Option<&[u8]>)> = Vec::new();
        if let Some(name) = &own_name {
            edits.push((self.method.name_member().unwrap_or("name"), Some(name)));
        }
        if let Some(reference) = &reference {
            edits.push(("ref", Some(reference)));
        }
        if let Some(meta) = &meta {
            edits.push(("_meta", (meta != b"{}").then_some(meta)));
        }
        if self.from.is_modern() && !self.to.is_modern() && self.method.may_need_input() {
            edits.push(("inputResponses", None));
            edits.push(("requestState", None));
        }
        // Whether a call becomes a task is agreed between gateway and server, independent of the caller.
        if *self.method == Method::ToolsCall
            && !self.to.is_modern()
            && (self.task.is_some() || params.get("task").is_some())
        {
            edits.push(("task", self.task));
        }
        if self.to < Revision::V2025_06_18 && *self.method == Method::Complete {
            edits.push(("context", None));
        }
        if edits
            .iter()
            .all(|(name, new)| new.is_none() && params.get(name).is_none())
        {
            out.extend_from_slice(params.as_bytes());
        } else {
            params.as_raw().rewrite(&edits, out);
        }
    }

    /// The new `_meta`, or `None` when it stays as it is.
    fn meta(&self, params: &Params) -> Option<Vec<u8>> {
        let stamp = needs_introduction(params, self.from, self.to);
        let strip = self.from.is_modern() && !self.to.is_modern();
        let strip = strip && params.meta_object().is_some();
        let trace = self.about.traceparent;
        if !stamp && !strip && self.progress_token.is_none() && trace.is_none() {
            return None;
        }
        let version = json_string(self.to.as_str());
        let mut edits: Vec<(&str, Option<&[u8]>)> = Vec::new();
        if stamp {
            edits.push((meta::PROTOCOL_VERSION, Some(&version)));
            edits.push((meta::CLIENT_CAPABILITIES, Some(self.about.capabilities)));
            edits.push((meta::CLIENT_INFO, self.about.client_info));
            edits.push((meta::LOG_LEVEL, self.about.log_level));
        }
        if strip {
            edits.extend(meta::MODERN_REQUEST_KEYS.map(|key| (key, None)));
        }
        if let Some(token) = self.progress_token {
            edits.push((meta::PROGRESS_TOKEN, Some(token)));
        }
        if let Some(trace) = trace {
            edits.push((meta::TRACEPARENT, Some(trace)));
        }
        let empty = Object::default();
        let old = params.meta_object().unwrap_or(Raw {
            text: b"",
            object: &empty,
        });
        let mut out = Vec::with_capacity(old.object.span.len() + 256);
        old.rewrite(&edits, &mut out);
        Some(out)
    }

    /// A completion names its prompt inside `ref`.
    fn reference(&self, params: &Params) -> Option<Vec<u8>> {
        let own = self.own_name.filter(|_| *self.method == Method::Complete)?;
        let reference = Payload::parse(params.get_bytes("ref")?, Rules::backend()).ok()?;
        let mut out = Vec::new();
        reference
            .as_raw()
            .rewrite(&[("name", Some(&json_string(own)))], &mut out);
        Some(out)
    }
}

/// A result in the form of revision `to`. Within one revision no rule applies, which is the common case and costs
/// nothing.
pub fn result<'p>(
    method: &Method,
    result: &'p Payload,
    from: Revision,
    to: Revision,
) -> Cow<'p, [u8]> {
    if from == to {
        return Cow::Borrowed(result.as_bytes());
    }
    let content = (*method == Method::ToolsCall)
        .then(|| older_content(result, to))
        .flatten();
    let messages = (*method == Method::PromptsGet)
        .then(|| older_messages(result, to))
        .flatten();
    let mut edits: Vec<(&str, Option<&[u8]>)> = Vec::new();
    if from.is_modern() && !to.is_modern() {
        // Legacy clients validate empty results strictly.
        edits.extend([("resultType", None), ("ttlMs", None), ("cacheScope", None)]);
        let structured = result.get("structuredContent");
        if structured.is_some_and(|value| Kind::of(value) != Some(Kind::Object)) {
            edits.push(("structuredContent", None));
        }
    }
    if !from.is_modern() && to.is_modern() {
        edits.push(("resultType", Some(br#""complete""#)));
        if method.is_cacheable() {
            edits.extend([
                ("ttlMs", Some(&b"0"[..])),
                ("cacheScope", Some(&br#""private""#[..])),
            ]);
        }
    }
    if let Some(content) = &content {
        edits.push(("content", Some(content)));
    }
    if let Some(messages) = &messages {
        edits.push(("messages", Some(messages)));
    }
    if edits
        .iter()
        .all(|(name, new)| new.is_none() && result.get(name).is_none())
    {
        return Cow::Borrowed(result.as_bytes());
    }
    let mut out = Vec::with_capacity(result.as_bytes().len() + 64);
    result.as_raw().rewrite(&edits, &mut out);
    Cow::Owned(out)
}

/// Whether `result` leaves every result of this pair unchanged, whatever its content.
pub fn is_verbatim(method: &Method, from: Revision, to: Revision) -> bool {
    let older =
        matches!(method, Method::ToolsCall | Method::PromptsGet) && to < Revision::V2025_06_18;
    from == to || (from.is_modern() == to.is_modern() && !older)
}

/// A backend's error object in the form of revision `to`.
pub fn error(error: &Payload, to: Revision) -> Cow<'_, [u8]> {
    let code: Option<i64> = error
        .get("code")
        .and_then(|raw| std::str::from_utf8(raw).ok())
        .and_then(|text| text.parse().ok());
    let recode = |code: i32| {
        let mut out = Vec::with_capacity(error.as_bytes().len() + 8);
        error
            .as_raw()
            .rewrite(&[("code", Some(code.to_string().as_bytes()))], &mut out);
        Cow::Owned(out)
    };
    match code {
        // Not an error object; only the message can be given.
        None => Cow::Owned(error_object(
            i64::from(INTERNAL_ERROR),
            "the backend answered with an error that has no code",
            Some(error.as_bytes()),
        )),
        // "Resource not found" moved to the standard code.
        Some(-32002) if to.is_modern() => recode(INVALID_PARAMS),
        // A client that does not know this error can still show the URL to its user.
        Some(-32042) if !to.is_modern() && to < Revision::V2025_11_25 => Cow::Owned(error_object(
            i64::from(INTERNAL_ERROR),
            &urls_in_words(error),
            None,
        )),
        // Reserved for implementations; modern callers must not read a meaning into them.
        Some(-32019..=-32000 | -32042) if to.is_modern() => Cow::Owned(error_object(
            i64::from(INTERNAL_ERROR),
            &error.string("message").unwrap_or("backend error".into()),
            Some(error.as_bytes()),
        )),
        // These concern gateway and backend; they mean nothing to a legacy caller.
        Some(-32022..=-32020) if !to.is_modern() => recode(INTERNAL_ERROR),
        Some(_) => Cow::Borrowed(error.as_bytes()),
    }
}

/// The URLs of a "URL elicitation required" error, as one sentence.
fn urls_in_words(error: &Payload) -> String {
    let mut words = error
        .string("message")
        .unwrap_or("a visit to a web page is needed".into())
        .into_owned();
    for elicitation in elicitations(error) {
        let part = |name: &str| elicitation.string(name).unwrap_or_default().into_owned();
        words.push_str(&format!(" {} {}", part("message"), part("url")));
    }
    words
}

/// The elicitations of a "URL elicitation required" error; none for other errors.
pub fn elicitations(error: &Payload) -> Vec<Payload> {
    if error.get("code") != Some(b"-32042") {
        return Vec::new();
    }
    let parse = |raw| Payload::parse(raw, Rules::backend()).ok();
    let Some(list) = error
        .get_bytes("data")
        .and_then(parse)
        .and_then(|data| data.get_bytes("elicitations"))
    else {
        return Vec::new();
    };
    let spans = json::elements(&list, Rules::backend()).unwrap_or_default();
    let all = spans.iter().filter_map(|s| parse(list.slice(s.range())));
    all.collect()
}

/// A listed tool in the form of revision `to`.
pub fn tool(raw: &Bytes, from: Revision, to: Revision) -> Cow<'_, [u8]> {
    if from.is_modern() == to.is_modern() {
        return Cow::Borrowed(raw);
    }
    let Ok(tool) = Payload::parse(raw.clone(), Rules::backend()) else {
        return Cow::Borrowed(raw);
    };
    let mut edits: Vec<(&str, Option<&[u8]>)> = Vec::new();
    let input = tool.get("inputSchema").and_then(plain_properties);
    let output = tool.get("outputSchema").and_then(plain_properties);
    if to.is_modern() {
        edits.push(("execution", None));
    } else {
        // A TypeScript client of that era rejects the whole list for one tool that it cannot read.
        if tool
            .get("outputSchema")
            .is_some_and(|schema| !is_object_schema(schema))
        {
            edits.push(("outputSchema", None));
        } else if let Some(output) = &output {
            edits.push(("outputSchema", Some(output)));
        }
        if let Some(input) = &input {
            edits.push(("inputSchema", Some(input)));
        }
    }
    if edits
        .iter()
        .all(|(name, new)| new.is_none() && tool.get(name).is_none())
    {
        return Cow::Borrowed(raw);
    }
    let mut out = Vec::with_capacity(raw.len() + 64);
    tool.as_raw().rewrite(&edits, &mut out);
    Cow::Owned(out)
}

fn is_object_schema(schema: &[u8]) -> bool {
    Object::parse(schema, Rules::backend()).is_ok_and(|object| {
        object.get(schema, "type").map(|s| s.of(schema)) == Some(br#""object""#)
    })
}

/// The schema with boolean property schemas spelled as objects; `None` when there are none.
fn plain_properties(schema: &[u8]) -> Option<Vec<u8>> {
    let object = Object::parse(schema, Rules::backend()).ok()?;
    let properties = object.get(schema, "properties")?.of(schema);
    let members = Object::parse(properties, Rules::backend()).ok()?;
    let is_bool = |value: &[u8]| Kind::of(value) == Some(Kind::Bool);
    if !members
        .members
        .iter()
        .any(|m| is_bool(m.value.of(properties)))
    {
        return None;
    }
    let mut plain = vec![b'{'];
    for (i, member) in members.members.iter().enumerate() {
        if i > 0 {
            plain.push(b',');
        }
        json::encode_string(&member.key.decode(properties), &mut plain);
        plain.push(b':');
        plain.extend_from_slice(match member.value.of(properties) {
            b"true" => b"{}",
            b"false" => br#"{"not":{}}"#,
            other => other,
        });
    }
    plain.push(b'}');
    let mut out = Vec::with_capacity(schema.len() + 32);
    Raw {
        text: schema,
        object: &object,
    }
    .rewrite(&[("properties", Some(&plain))], &mut out);
    Some(out)
}

/// `content` with blocks unknown in the caller's revision replaced by text.
fn older_content(result: &Payload, to: Revision) -> Option<Vec<u8>> {
    if to >= Revision::V2025_06_18 {
        return None;
    }
    let content = result.get("content")?;
    let blocks = json::elements(content, Rules::backend()).ok()?;
    let stand_ins: Vec<Option<Vec<u8>>> = blocks
        .iter()
        .map(|span| stand_in(span.of(content), to))
        .collect();
    if stand_ins.iter().all(Option::is_none) {
        return None;
    }
    let blocks = blocks.iter().zip(&stand_ins);
    Some(join(blocks.map(|(span, new)| {
        new.as_deref().unwrap_or(span.of(content))
    })))
}

/// Like [`older_content`] for the messages of a prompt, each of which has one block.
fn older_messages(result: &Payload, to: Revision) -> Option<Vec<u8>> {
    if to >= Revision::V2025_06_18 {
        return None;
    }
    let messages = result.get_bytes("messages")?;
    let spans = json::elements(&messages, Rules::backend()).ok()?;
    let mut changed = false;
    let rewritten: Vec<Vec<u8>> = spans
        .iter()
        .map(|span| {
            let raw = messages.slice(span.range());
            let Ok(message) = Payload::parse(raw.clone(), Rules::backend()) else {
                return raw.to_vec();
            };
            let Some(block) = message.get("content").and_then(|c| stand_in(c, to)) else {
                return raw.to_vec();
            };
            changed = true;
            let mut out = Vec::with_capacity(raw.len());
            message
                .as_raw()
                .rewrite(&[("content", Some(&block))], &mut out);
            out
        })
        .collect();
    changed.then(|| join(rewritten.iter().map(Vec::as_slice)))
}

fn join<'a>(items: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = vec![b'['];
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item);
    }
    out.push(b']');
    out
}

fn stand_in(block: &[u8], to: Revision) -> Option<Vec<u8>> {
    let object = Object::parse(block, Rules::backend()).ok()?;
    let text = |name: &str| {
        object
            .get(block, name)
            .and_then(|span| json::decode_string(span.of(block)))
            .unwrap_or_default()
    };
    let words = match &*text("type") {
        "resource_link" => format!("[resource] {} {}", text("name"), text("uri")),
        "audio" if to < Revision::V2025_03_26 => format!("[audio, {}]", text("mimeType")),
        _ => return None,
    };
    let mut out = br#"{"type":"text","text":"#.to_vec();
    json::encode_string(&words, &mut out);
    out.push(b'}');
    Some(out)
}

fn json_string(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    json::encode_string(text, &mut out);
    out
}

#[cfg(test)]
mod tests;
