//! The next page of a result, where its backend named one: headers by which a client gets it from the same operation.
//!
//! What a described API says of its pages is in `_meta` of the result, which REST and JSON-RPC do not show: their answer may
//! be structured content alone. Nothing is fetched: the caller decides.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, LINK};
use percent_encoding::utf8_percent_encode;
use sentinel_core::{Registry, View};
use sentinel_wire::Payload;
use sentinel_wire::json::{self, Object, Rules, canonical};

use super::super::documents::SEGMENT;
use super::super::operations::http_meta;
use super::{arguments, verbs};

/// The arguments of the next call, over those of this one: a JSON object in ASCII.
const NEXT_ARGUMENTS: HeaderName = HeaderName::from_static("next-arguments");
/// Of either header: a longer one would not be read by clients and proxies.
const HEADER_BYTES_MAX: usize = 8 * 1024;

/// As many members of an object can be rewritten at once.
const NEXT_MEMBERS_MAX: usize = 16;

/// The call whose result has further pages.
#[derive(Clone, Copy)]
pub(super) struct Called<'a> {
    pub(super) registry: &'a Registry,
    /// The path above those of the operations.
    pub(super) above: &'a str,
    pub(super) tool: &'a str,
    pub(super) arguments: &'a [u8],
}

/// What to put over the arguments of a call for the next page of its result.
pub(super) fn arguments_of(result: &Payload) -> Option<Vec<u8>> {
    let next = http_meta(result)?.get_bytes("next")?;
    let next = Payload::parse(next, Rules::backend()).ok()?;
    let arguments = next.get_bytes("arguments")?;
    let object = Object::parse(&arguments, Rules::backend()).ok()?;
    (!object.members.is_empty()).then(|| canonical(&arguments))
}

/// Names the next page for a caller who can merge arguments.
pub(in crate::http) fn add_arguments(result: &Payload, headers: &mut HeaderMap) {
    if let Some(next) = arguments_of(result) {
        insert(headers, NEXT_ARGUMENTS, in_ascii(&next));
    }
}

/// Names the next page: its arguments, and its URL where the operation can be called by one.
pub(super) fn add(result: &Payload, called: Called<'_>, headers: &mut HeaderMap) {
    let Some(next) = arguments_of(result) else {
        return;
    };
    if let Some(url) = called.url(&next) {
        insert(headers, LINK, format!(r#"<{url}>; rel="next""#));
    }
    insert(headers, NEXT_ARGUMENTS, in_ascii(&next));
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: String) {
    if value.len() > HEADER_BYTES_MAX {
        return;
    }
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

impl Called<'_> {
    /// The path and query of the next call; `None` if a query cannot say it.
    fn url(&self, next: &[u8]) -> Option<String> {
        let tool = self.registry.tool(View::Merged, self.tool)?;
        if !tool.is_read_only || verbs::is_list(self.tool) {
            return None;
        }
        let merged = merged(self.arguments, next)?;
        let query = query(&merged)?;
        let schema = tool.schema.as_ref().and_then(|schema| schema.as_bytes());
        let read = arguments::coerce(form_urlencoded::parse(query.as_bytes()), schema).ok()?;
        if canonical(&read) != canonical(&merged) {
            return None;
        }
        let name = utf8_percent_encode(self.tool, SEGMENT);
        Some(format!("{}/{name}?{query}", self.above))
    }
}

/// The arguments of a call with others over them.
fn merged(arguments: &[u8], over: &[u8]) -> Option<Bytes> {
    let arguments = Payload::parse(Bytes::copy_from_slice(arguments), Rules::backend()).ok()?;
    let object = Object::parse(over, Rules::backend()).ok()?;
    if object.members.len() > NEXT_MEMBERS_MAX {
        return None;
    }
    let members = object.members.iter();
    let new: Vec<_> = members
        .map(|member| (member.key.decode(over), member.value.of(over)))
        .collect();
    let edits: Vec<(&str, Option<&[u8]>)> = new
        .iter()
        .map(|(name, value)| (&**name, Some(*value)))
        .collect();
    let mut out = Vec::new();
    arguments.as_raw().rewrite(&edits, &mut out);
    Some(out.into())
}

/// Arguments as the parameters of a query: texts as they are, everything else as JSON.
fn query(arguments: &[u8]) -> Option<String> {
    let object = Object::parse(arguments, Rules::backend()).ok()?;
    let mut query = form_urlencoded::Serializer::new(String::new());
    for member in &object.members {
        let value = member.value.of(arguments);
        let name = member.key.decode(arguments);
        match json::decode_string(value) {
            Some(text) => query.append_pair(&name, &text),
            None => query.append_pair(&name, std::str::from_utf8(value).ok()?),
        };
    }
    Some(query.finish())
}

/// JSON without any other character than those of ASCII that a header may have.
fn in_ascii(json: &[u8]) -> String {
    let mut out = String::with_capacity(json.len());
    for c in String::from_utf8_lossy(json).chars() {
        if c.is_ascii() && !c.is_ascii_control() {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_arguments_lie_over_those_of_the_call() {
        let all = merged(
            br#"{"q":"a b","page":1,"ids":[1,2]}"#,
            br#"{"page":2,"cursor":"x&y"}"#,
        );
        let all = all.expect("objects");
        assert_eq!(
            canonical(&all),
            br#"{"cursor":"x&y","ids":[1,2],"page":2,"q":"a b"}"#
        );
        let query = query(&all).expect("an object");
        for part in ["q=a+b", "page=2", "ids=%5B1%2C2%5D", "cursor=x%26y"] {
            assert!(query.split('&').any(|own| own == part), "{part} in {query}");
        }
    }

    #[test]
    fn a_header_is_ascii_and_means_the_same() {
        let text = "{\"c\":\"\u{e9}\u{1f600}\u{7f}\"}";
        let ascii = in_ascii(text.as_bytes());
        assert_eq!(ascii, r#"{"c":"\u00e9\ud83d\ude00\u007f"}"#);
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(read(&ascii), read(text));
    }
}
