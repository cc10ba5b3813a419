//! The codec of the `Mcp-*` request headers of revision 2026-07-28.
//!
//! A value is sent plainly or, where a header could not carry it, as `=?base64?...?=`. Comparisons use the decoded
//! value.
//!
//! `header::params` knows the `x-mcp-header` annotations of a tool: which arguments are mirrored,
//! under which header, and whether a request agrees with its body.
//!
//! Not here: which header a method needs (`method`), statuses and error codes (`sentinel-surfaces`).

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

mod annotations;
mod number;
pub mod params;

pub use annotations::{AnnotationError, Param, ParamType, annotations};
pub use number::parse_integer;

pub const PROTOCOL_VERSION: &str = "MCP-Protocol-Version";
pub const METHOD: &str = "Mcp-Method";
pub const NAME: &str = "Mcp-Name";
/// Prefix of the header name in an `x-mcp-header` annotation.
pub const PARAM_PREFIX: &str = "Mcp-Param-";

const SENTINEL_START: &str = "=?base64?";
const SENTINEL_END: &str = "?=";

/// A header value that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the value has a character that headers may not contain")]
    Character,
    #[error("the value is not valid base64")]
    Base64,
    #[error("the value is not UTF-8")]
    Utf8,
}

/// A value for a header: integers in decimal, booleans as `true` or `false`, strings by [`encode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar<'a> {
    String(&'a str),
    Integer(i64),
    Boolean(bool),
}

impl<'a> Scalar<'a> {
    pub fn encode(self) -> Cow<'a, str> {
        match self {
            Scalar::String(text) => encode(text),
            Scalar::Integer(value) => Cow::Owned(itoa::Buffer::new().format(value).to_owned()),
            Scalar::Boolean(true) => Cow::Borrowed("true"),
            Scalar::Boolean(false) => Cow::Borrowed("false"),
        }
    }

    /// Whether a received header carries this value; integers are compared as numbers, so `42.0`
    /// is 42.
    pub fn agrees_with(self, header: &[u8]) -> Result<bool, DecodeError> {
        let text = decode(header)?;
        Ok(match self {
            Scalar::String(value) => text == value,
            Scalar::Integer(value) => parse_integer(&text) == Some(value),
            Scalar::Boolean(value) => text == if value { "true" } else { "false" },
        })
    }
}

/// Encodes a string for a header; borrowed when it needs no encoding.
pub fn encode(value: &str) -> Cow<'_, str> {
    if travels_plain(value) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(SENTINEL_START.len() + value.len() / 3 * 4 + 8);
    out.push_str(SENTINEL_START);
    STANDARD.encode_string(value, &mut out);
    out.push_str(SENTINEL_END);
    Cow::Owned(out)
}

/// Reads a received header value.
///
/// Whitespace around it belongs to HTTP, not to the value. Base64 is read strictly: padded, no
/// foreign characters, no stray bits, so that one value has one spelling.
pub fn decode(header: &[u8]) -> Result<Cow<'_, str>, DecodeError> {
    let header = trim_ows(header);
    if !header.iter().all(|b| matches!(b, b'\t' | b' '..=b'~')) {
        return Err(DecodeError::Character);
    }
    let text = std::str::from_utf8(header).map_err(|_| DecodeError::Character)?;
    let Some(inner) = text
        .strip_prefix(SENTINEL_START)
        .and_then(|rest| rest.strip_suffix(SENTINEL_END))
    else {
        return Ok(Cow::Borrowed(text));
    };
    let bytes = STANDARD.decode(inner).map_err(|_| DecodeError::Base64)?;
    let value = String::from_utf8(bytes).map_err(|_| DecodeError::Utf8)?;
    Ok(Cow::Owned(value))
}

/// Optional whitespace of HTTP: spaces and tabs. A line end is not among them and stays an error.
fn trim_ows(mut header: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = header {
        header = rest;
    }
    header
}

/// A tab within a value is legal in a header, but SEP-2243 counts it among the control characters, and every peer
/// reads base64.
fn travels_plain(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.iter().all(|b| matches!(b, b' '..=b'~'))
        && bytes.first() != Some(&b' ')
        && bytes.last() != Some(&b' ')
        && !(value.starts_with(SENTINEL_START) && value.ends_with(SENTINEL_END))
}

#[cfg(test)]
mod tests;
