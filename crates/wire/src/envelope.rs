//! JSON-RPC envelopes: parsed once into spans of the received bytes, and written by splicing.
//!
//! A message keeps the buffer it was read from; ids, params, results and errors are ranges of it and are forwarded
//! unchanged. `Id` is a type of its own because a JSON-RPC id must be returned byte for byte, and because serde reads
//! `"id":null` as absent.
//!
//! Not here: which methods mean what (`method`), what changes between revisions (`translate`).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::json::{self, Key, Kind, Member, Object, Problem, Rules, Scanner, Span};
use crate::method::Method;
use crate::revision::Revision;

pub const PARSE_ERROR: i32 = -32700;
pub const INVALID_REQUEST: i32 = -32600;
pub const METHOD_NOT_FOUND: i32 = -32601;
pub const INVALID_PARAMS: i32 = -32602;
pub const INTERNAL_ERROR: i32 = -32603;

/// A request id as its sender spelled it: a JSON string or number.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Bytes);

impl Id {
    /// `raw` must be one scanned JSON value; only strings and numbers are ids.
    pub fn from_raw(raw: Bytes) -> Option<Self> {
        matches!(Kind::of(&raw)?, Kind::String | Kind::Number).then_some(Self(raw))
    }

    pub fn from_number(number: u64) -> Self {
        Self(Bytes::copy_from_slice(
            itoa::Buffer::new().format(number).as_bytes(),
        ))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number, if this is one of ours: a plain unsigned integer.
    pub fn as_u64(&self) -> Option<u64> {
        std::str::from_utf8(&self.0).ok()?.parse().ok()
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", String::from_utf8_lossy(&self.0))
    }
}

/// Why a message was rejected before its content was looked at.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub code: i32,
    pub message: String,
    /// The id to answer with, where it could be read.
    pub id: Option<Id>,
}

impl From<json::Error> for Refusal {
    fn from(error: json::Error) -> Self {
        // Nesting beyond the limit is reported as a parse error, since the rest was not read.
        let code = match error.problem {
            Problem::Duplicate(_) => INVALID_REQUEST,
            _ => PARSE_ERROR,
        };
        Self {
            code,
            message: error.to_string(),
            id: None,
        }
    }
}

/// The `params` of a request or notification; absent ones read as an empty object. Shared, because a call may be
/// repeated with the same params.
#[derive(Clone, Debug, Default)]
pub struct Params(Arc<Scanned>);

#[derive(Debug, Default)]
struct Scanned {
    body: Bytes,
    object: Object,
    meta: Option<Object>,
}

impl Params {
    /// Parses params that did not come in an envelope.
    pub fn parse(body: Bytes, rules: Rules) -> Result<Self, json::Error> {
        let mut scanner = Scanner::new(&body, rules)?;
        let (object, meta) = scan_params(&mut scanner, &body)?;
        scanner.end()?;
        Ok(Self::of(body, object, meta))
    }

    fn of(body: Bytes, object: Object, meta: Option<Object>) -> Self {
        Self(Arc::new(Scanned { body, object, meta }))
    }

    pub fn is_absent(&self) -> bool {
        self.0.object.span.is_empty()
    }

    /// The raw value of a member.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0
            .object
            .get(&self.0.body, name)
            .map(|span| span.of(&self.0.body))
    }

    /// Like [`Params::get`], sharing the buffer.
    pub fn get_bytes(&self, name: &str) -> Option<Bytes> {
        self.0
            .object
            .get(&self.0.body, name)
            .map(|span| self.0.body.slice(span.range()))
    }

    /// A member that must be a string; `None` when absent or of another type.
    pub fn string(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name).and_then(json::decode_string)
    }

    /// The raw value of a member of `_meta`.
    pub fn meta(&self, name: &str) -> Option<&[u8]> {
        let meta = self.0.meta.as_ref()?;
        meta.get(&self.0.body, name)
            .map(|span| span.of(&self.0.body))
    }

    /// Like [`Params::meta`], sharing the buffer.
    pub fn meta_bytes(&self, name: &str) -> Option<Bytes> {
        let meta = self.0.meta.as_ref()?;
        meta.get(&self.0.body, name)
            .map(|span| self.0.body.slice(span.range()))
    }

    pub fn meta_object(&self) -> Option<Raw<'_>> {
        self.0.meta.as_ref().map(|object| Raw {
            text: &self.0.body,
            object,
        })
    }

    /// The whole object as it was sent; `{}` when absent.
    pub fn as_bytes(&self) -> &[u8] {
        if self.is_absent() {
            b"{}"
        } else {
            self.0.object.span.of(&self.0.body)
        }
    }

    pub fn as_raw(&self) -> Raw<'_> {
        Raw {
            text: &self.0.body,
            object: &self.0.object,
        }
    }
}

/// An object with the text that contains it, for copies with changes.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub text: &'a [u8],
    pub object: &'a Object,
}

impl<'a> Raw<'a> {
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.object
            .get(self.text, name)
            .map(|span| span.of(self.text))
    }

    /// Copies the object to `out`. A member named in `edits` is replaced, or removed for `None`; a replacement
    /// without a member is added at the end. All other members stay as they are.
    pub fn rewrite(&self, edits: &[(&str, Option<&[u8]>)], out: &mut Vec<u8>) {
        let mut first = true;
        let mut comma = |out: &mut Vec<u8>| {
            out.push(if first { b'{' } else { b',' });
            first = false;
        };
        let mut used = [false; 16];
        debug_assert!(edits.len() <= used.len());
        for Member { key, value } in &self.object.members {
            match edits.iter().position(|(name, _)| key.is(self.text, name)) {
                Some(i) => {
                    if let (false, Some(new)) = (used[i], edits[i].1) {
                        comma(out);
                        copy_key(self.text, *key, out);
                        out.extend_from_slice(new);
                    }
                    used[i] = true;
                }
                None => {
                    comma(out);
                    copy_key(self.text, *key, out);
                    out.extend_from_slice(value.of(self.text));
                }
            }
        }
        for (i, (name, value)) in edits.iter().enumerate() {
            if let (false, Some(new)) = (used[i], value) {
                comma(out);
                json::encode_string(name, out);
                out.push(b':');
                out.extend_from_slice(new);
            }
        }
        if first {
            out.push(b'{');
        }
        out.push(b'}');
    }
}

fn copy_key(text: &[u8], key: Key, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(key.span.of(text));
    out.extend_from_slice(b"\":");
}

#[derive(Clone, Debug)]
pub struct Request {
    pub id: Id,
    pub method: Method,
    pub params: Params,
}

#[derive(Clone, Debug)]
pub struct Notification {
    pub method: Method,
    pub params: Params,
}

/// The answer of a peer. The result or error is kept unchanged.
#[derive(Clone, Debug)]
pub struct Response {
    /// Absent only in errors whose sender could not read our id.
    pub id: Option<Id>,
    pub outcome: Outcome,
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Result(Payload),
    Error(Payload),
}

/// One JSON value and, when it is an object, its members.
#[derive(Clone, Debug)]
pub struct Payload {
    body: Bytes,
    object: Object,
}

impl Payload {
    pub fn parse(body: Bytes, rules: Rules) -> Result<Self, json::Error> {
        let object = Object::parse(&body, rules)?;
        Ok(Self { body, object })
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.object.span.of(&self.body)
    }

    /// The bytes, sharing the buffer.
    pub fn to_bytes(&self) -> Bytes {
        self.body.slice(self.object.span.range())
    }

    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.object
            .get(&self.body, name)
            .map(|span| span.of(&self.body))
    }

    pub fn get_bytes(&self, name: &str) -> Option<Bytes> {
        self.object
            .get(&self.body, name)
            .map(|span| self.body.slice(span.range()))
    }

    pub fn string(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name).and_then(json::decode_string)
    }

    pub fn as_raw(&self) -> Raw<'_> {
        Raw {
            text: &self.body,
            object: &self.object,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Message {
    Request(Request),
    Notification(Notification),
    Response(Response),
}

/// The content of one body or line.
#[derive(Debug)]
pub enum Incoming {
    One(Message),
    /// A JSON-RPC batch; legal only at 2025-03-26, which the surface decides.
    Batch(Vec<Result<Message, Refusal>>),
}

impl Incoming {
    pub fn parse(body: Bytes, rules: Rules) -> Result<Self, Refusal> {
        let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
        if first != Some(&b'[') {
            return Message::parse(body, rules).map(Self::One);
        }
        let items = json::elements(&body, rules)?;
        if items.is_empty() {
            return Err(invalid("an empty batch"));
        }
        let parse = |span: Span| Message::parse(body.slice(span.range()), rules);
        Ok(Self::Batch(items.into_iter().map(parse).collect()))
    }
}

/// The members of an envelope before validation.
#[derive(Default)]
struct Parts {
    version: Option<Span>,
    id: Option<Span>,
    method: Option<Span>,
    params: Option<(Object, Option<Object>)>,
    bad_params: bool,
    result: Option<Object>,
    error: Option<Object>,
}

impl Message {
    pub fn parse(body: Bytes, rules: Rules) -> Result<Self, Refusal> {
        let mut scanner = Scanner::new(&body, rules)?;
        let mut parts = Parts::default();
        if scanner.peek() != Some(Kind::Object) {
            scanner.value()?;
            scanner.end()?;
            return Err(invalid("a message must be a JSON object"));
        }
        let mut repeated = None;
        scanner.object(|s, key| parts.take(s, key, &body, &mut repeated))?;
        scanner.end()?;
        if let Some(name) = repeated {
            return Err(invalid(&format!("the envelope names {name:?} twice")));
        }
        parts.judge(body)
    }
}

impl Parts {
    fn take(
        &mut self,
        s: &mut Scanner<'_>,
        key: Key,
        body: &[u8],
        repeated: &mut Option<&'static str>,
    ) -> Result<(), json::Error> {
        let mut once = |slot_taken: bool, name: &'static str| {
            if slot_taken {
                *repeated = Some(name);
            }
        };
        match &*key.name(body) {
            b"jsonrpc" => {
                once(self.version.is_some(), "jsonrpc");
                self.version = Some(s.value()?);
            }
            b"id" => {
                once(self.id.is_some(), "id");
                self.id = Some(s.value()?);
            }
            b"method" => {
                once(self.method.is_some(), "method");
                self.method = Some(s.value()?);
            }
            b"params" => {
                once(self.params.is_some(), "params");
                if s.peek() == Some(Kind::Object) {
                    self.params = Some(scan_params(s, body)?);
                } else {
                    s.value()?;
                    self.bad_params = true;
                }
            }
            b"result" => {
                once(self.result.is_some(), "result");
                self.result = Some(scan_payload(s)?);
            }
            b"error" => {
                once(self.error.is_some(), "error");
                self.error = Some(scan_payload(s)?);
            }
            _ => {
                s.value()?;
            }
        }
        Ok(())
    }

    fn judge(self, body: Bytes) -> Result<Message, Refusal> {
        let id_raw = self.id.map(|span| body.slice(span.range()));
        let id = id_raw.clone().and_then(Id::from_raw);
        let refuse = |why: &str| {
            Err(Refusal {
                id: id.clone(),
                ..invalid(why)
            })
        };
        if self.version.map(|span| span.of(&body)) != Some(br#""2.0""#) {
            return refuse(r#"jsonrpc must be "2.0""#);
        }
        if let Some(span) = self.method {
            let Some(name) = json::decode_string(span.of(&body)) else {
                return refuse("method must be a string");
            };
            if self.result.is_some() || self.error.is_some() {
                return refuse("a message is either a request or a response");
            }
            if self.bad_params {
                return refuse("params must be an object");
            }
            let method = Method::parse(&name);
            let (object, meta) = self.params.unwrap_or_default();
            let params = Params::of(body, object, meta);
            return match (id_raw, id) {
                (None, _) => Ok(Message::Notification(Notification { method, params })),
                (Some(_), Some(id)) => Ok(Message::Request(Request { id, method, params })),
                (Some(_), None) => Err(invalid("id must be a string or a number")),
            };
        }
        let outcome = match (self.result, self.error) {
            (Some(object), None) => Outcome::Result(Payload {
                body: body.clone(),
                object,
            }),
            (None, Some(object)) => Outcome::Error(Payload {
                body: body.clone(),
                object,
            }),
            (Some(_), Some(_)) => return refuse("a response has either a result or an error"),
            (None, None) => return refuse("neither method, result nor error"),
        };
        Ok(Message::Response(Response { id, outcome }))
    }
}

fn scan_params(s: &mut Scanner<'_>, body: &[u8]) -> Result<(Object, Option<Object>), json::Error> {
    let mut members = Vec::with_capacity(4);
    let mut meta = None;
    let span = s.object(|s, key| {
        let value = if key.is(body, "_meta") && s.peek() == Some(Kind::Object) {
            let object = scan_object(s)?;
            let span = object.span;
            meta = Some(object);
            span
        } else {
            s.value()?
        };
        members.push(Member { key, value });
        Ok(())
    })?;
    Ok((Object { span, members }, meta))
}

fn scan_object(s: &mut Scanner<'_>) -> Result<Object, json::Error> {
    let mut members = Vec::with_capacity(4);
    let span = s.object(|s, key| {
        members.push(Member {
            key,
            value: s.value()?,
        });
        Ok(())
    })?;
    Ok(Object { span, members })
}

fn scan_payload(s: &mut Scanner<'_>) -> Result<Object, json::Error> {
    if s.peek() == Some(Kind::Object) {
        scan_object(s)
    } else {
        Ok(Object {
            span: s.value()?,
            members: Vec::new(),
        })
    }
}

fn invalid(why: &str) -> Refusal {
    Refusal {
        code: INVALID_REQUEST,
        message: why.to_owned(),
        id: None,
    }
}

/// `{"jsonrpc":"2.0","id":ID,"result":RESULT}`
pub fn write_result(id: &Id, result: &[u8], out: &mut Vec<u8>) {
    out.reserve(40 + id.as_bytes().len() + result.len());
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","result":"#);
    out.extend_from_slice(result);
    out.push(b'}');
}

/// An error response around a serialized error object. Where no id could be read, older peers need `"id":null`
/// (JSON-RPC 2.0); the schemas from 2025-11-25 on require it absent.
pub fn write_error_object(id: Option<&Id>, revision: Revision, error: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    let id = id
        .map(Id::as_bytes)
        .or((revision < Revision::V2025_11_25).then_some(b"null"));
    if let Some(id) = id {
        out.extend_from_slice(br#""id":"#);
        out.extend_from_slice(id);
        out.push(b',');
    }
    out.extend_from_slice(br#""error":"#);
    out.extend_from_slice(error);
    out.push(b'}');
}

/// `{"code":CODE,"message":MESSAGE,"data":DATA}`
pub fn error_object(code: i64, message: &str, data: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::with_capacity(48 + message.len() + data.map_or(0, <[u8]>::len));
    out.extend_from_slice(br#"{"code":"#);
    out.extend_from_slice(itoa::Buffer::new().format(code).as_bytes());
    out.extend_from_slice(br#","message":"#);
    json::encode_string(message, &mut out);
    if let Some(data) = data {
        out.extend_from_slice(br#","data":"#);
        out.extend_from_slice(data);
    }
    out.push(b'}');
    out
}

/// The beginning of a request up to its params; the caller appends the params and `}`.
pub fn begin_request(id: &[u8], method: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id);
    out.extend_from_slice(br#","method":"#);
    json::encode_string(method, out);
    out.extend_from_slice(br#","params":"#);
}

/// A whole request.
pub fn write_request(id: &[u8], method: &str, params: &[u8], out: &mut Vec<u8>) {
    begin_request(id, method, out);
    out.extend_from_slice(params);
    out.push(b'}');
}

/// A whole notification; empty params are left out.
pub fn write_notification(method: &str, params: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"#);
    json::encode_string(method, out);
    if !params.is_empty() {
        out.extend_from_slice(br#","params":"#);
        out.extend_from_slice(params);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests;
