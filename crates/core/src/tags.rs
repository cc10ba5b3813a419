//! Tags of tools, and tag filters of callers (`/mcp?tags=`).
//!
//! A filter hides tools: lists leave them out, and a call of one is answered like a call of an unknown name. It is no
//! protection, since any caller of the endpoint can omit it.

use std::sync::Arc;

use bytes::Bytes;
use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Payload, json::decode_string};

/// Where servers put tags below `_meta`: plainly, as the built-in tools do, or under FastMCP's key.
const CORNERS: [&str; 2] = ["fastmcp", "_fastmcp"];
/// Views of longer filters are not cached.
const USUAL_BYTES_MAX: usize = 512;

/// The tags that a tool's definition names.
pub(crate) fn of(tool: &Payload) -> Arc<[Box<str>]> {
    let parse = |raw: Bytes| Payload::parse(raw, Rules::backend()).ok();
    let Some(meta) = tool.get_bytes("_meta").and_then(parse) else {
        return Arc::default();
    };
    let corners = CORNERS
        .iter()
        .filter_map(|name| parse(meta.get_bytes(name)?));
    let lists = corners.chain([meta.clone()]);
    let lists = lists.filter_map(|corner| corner.get_bytes("tags"));
    lists.flat_map(|list| strings(&list)).collect()
}

fn strings(list: &[u8]) -> Vec<Box<str>> {
    let spans = json::elements(list, Rules::backend()).unwrap_or_default();
    let texts = spans.iter().filter_map(|span| decode_string(span.of(list)));
    texts.map(|text| text.into()).collect()
}

/// Tags of which a tool must have one to be visible; sorted and unique.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TagFilter(Arc<[Box<str>]>);

impl TagFilter {
    /// The filter of a query, `None` if it has none: `tags=a,b`, also repeated.
    pub fn in_query(query: &str) -> Option<Self> {
        let asked = query
            .split('&')
            .filter_map(|pair| pair.strip_prefix("tags="));
        let mut asked = asked.peekable();
        asked.peek()?;
        let mut tags: Vec<Box<str>> = asked
            .flat_map(|list| list.split(','))
            .map(|tag| decoded(tag).trim().to_owned())
            .filter(|tag| !tag.is_empty())
            .map(Into::into)
            .collect();
        tags.sort();
        tags.dedup();
        Some(Self(tags.into()))
    }

    /// Whether a tool with these tags is visible.
    pub(crate) fn shows(&self, tags: &[Box<str>]) -> bool {
        tags.iter().any(|tag| self.0.binary_search(tag).is_ok())
    }

    pub(crate) fn is_usual(&self) -> bool {
        self.0.iter().map(|tag| tag.len()).sum::<usize>() <= USUAL_BYTES_MAX
    }

    /// The tags in one line.
    pub fn joined(&self) -> String {
        self.0.join(",")
    }
}

/// Decodes percent-encoding in a part of a query; invalid escapes stay.
fn decoded(part: &str) -> String {
    let mut out = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = || {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        rest = match (byte, escaped()) {
            (b'%', Some(byte)) => {
                out.push(byte);
                &tail[2..]
            }
            (b'+', _) => {
                out.push(b' ');
                tail
            }
            _ => {
                out.push(byte);
                tail
            }
        };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(query: &str) -> Option<String> {
        TagFilter::in_query(query).map(|wanted| wanted.joined())
    }

    #[test]
    fn c_25_queries_name_tags() {
        for (query, tags) in [
            ("", None),
            ("x=1", None),
            ("tagss=a", None),
            ("tags=b,a,b", Some("a,b")),
            ("x=1&tags=a&tags=%62%20c,d+e", Some("a,b c,d e")),
            ("tags=100%,%zz,%2", Some("%2,%zz,100%")),
            ("tags=", Some("")),
            ("tags=%2C,%20", Some(",")),
        ] {
            assert_eq!(wanted(query).as_deref(), tags, "{query}");
        }
    }

    #[test]
    fn c_25_servers_name_tags_where_they_do() {
        for (tool, tags) in [
            (r#"{"name":"x"}"#, &[][..]),
            (r#"{"_meta":{"tags":["a","b"]}}"#, &["a", "b"]),
            (r#"{"_meta":{"fastmcp":{"tags":["a"]}}}"#, &["a"]),
            (
                r#"{"_meta":{"_fastmcp":{"tags":["a"]},"tags":["c"]}}"#,
                &["a", "c"],
            ),
            (r#"{"_meta":{"tags":"a"}}"#, &[]),
            (r#"{"_meta":{"tags":[1,{},"\u0061"]}}"#, &["a"]),
            (r#"{"_meta":[]}"#, &[]),
        ] {
            let payload = Payload::parse(tool.into(), Rules::backend()).expect("JSON");
            let found = of(&payload);
            let found: Vec<&str> = found.iter().map(|tag| &**tag).collect();
            assert_eq!(found, tags, "{tool}");
        }
    }
}
