//! JSON-RPC envelopes: parsed once into spans of the received bytes, and written by splicing.
//!
//! A message keeps the buffer it was read from; ids, params, results and errors are ranges of it and are forwarded
//! unchanged. `Id` is a type of its own because a JSON-RPC id must be returned byte for byte, and because serde reads
//! `"id":null` as absent.
//!
//! Not here: which methods mean what (`method`), what changes between revisions (`translate`).

mod raw;
mod reading;
mod writing;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::json::{self, Kind, Object, Problem, Rules, Scanner, Span};
use crate::method::Method;

pub use raw::Raw;
use reading::scan_params;
pub use writing::{
    begin_request, error_object, write_error_object, write_notification, write_request,
    write_result,
};

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

fn invalid(why: &str) -> Refusal {
    Refusal {
        code: INVALID_REQUEST,
        message: why.to_owned(),
        id: None,
    }
}

#[cfg(test)]
mod tests;
