//! Results of operations as HTTP answers: the JSON body, bytes of a single image or file, ranges and entity tags.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderValue, IF_NONE_MATCH, IF_RANGE, RANGE, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use ring::digest::{SHA256, digest};
use sentinel_core::{Fault, Kind};
use sentinel_wire::{Method, Payload};

use super::super::body::Body;
use super::super::operations::{blocks, elements};
use super::super::reply;
use super::accept::{Accept, not_acceptable};

/// Nothing of a document with this policy runs, and it has an origin of its own.
pub(super) const INERT: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");
const VARIES: HeaderValue = HeaderValue::from_static("Accept, Authorization");

/// A representation: its media type and bytes.
#[derive(Clone)]
pub(in crate::http) struct Content {
    pub(in crate::http) media_type: HeaderValue,
    pub(in crate::http) bytes: Bytes,
}

impl Content {
    pub(in crate::http) fn json(bytes: impl Into<Bytes>) -> Self {
        Self {
            media_type: HeaderValue::from_static("application/json"),
            bytes: bytes.into(),
        }
    }

    fn of(media_type: &str, bytes: Bytes) -> Self {
        let fallback = HeaderValue::from_static("application/octet-stream");
        Self {
            media_type: HeaderValue::try_from(media_type).unwrap_or(fallback),
            bytes,
        }
    }

    pub(in crate::http) fn respond(self) -> Response<Body> {
        let mut response = reply::with_type(StatusCode::OK, "", self.bytes.into());
        let headers = response.headers_mut();
        if self.media_type != "application/json" {
            // A backend chose the bytes and their type: a page of its own must not act with the origin of the gateway.
            headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            headers.insert(CONTENT_SECURITY_POLICY, INERT);
        }
        headers.insert(CONTENT_TYPE, self.media_type);
        response
    }

    /// The answer to a GET: with an entity tag, and 304 where the client has these bytes.
    pub(in crate::http) fn respond_to(self, headers: &HeaderMap) -> Response<Body> {
        let tag = entity_tag(&self.bytes);
        self.respond_tagged(headers, tag)
    }

    /// The same where their entity tag is known.
    pub(in crate::http) fn respond_tagged(
        self,
        headers: &HeaderMap,
        tag: String,
    ) -> Response<Body> {
        let mut response = if is_known(headers, &tag) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            self.respond()
        };
        let tag = HeaderValue::try_from(tag).expect("base64 in quotes");
        let headers = response.headers_mut();
        headers.insert(ETAG, tag);
        headers.insert(VARY, VARIES);
        response
    }

    /// The same for bytes of which a client may want a part.
    pub(super) fn respond_to_range(mut self, headers: &HeaderMap) -> Response<Body> {
        let len = self.bytes.len();
        let tag = entity_tag(&self.bytes);
        let wanted = headers.get(RANGE).and_then(|range| range.to_str().ok());
        // A client that has these bytes needs no part, and one that has others needs the whole.
        let is_same = headers.get(IF_RANGE).is_none_or(|known| *known == *tag);
        let wanted = wanted.filter(|_| is_same && !is_known(headers, &tag));
        let range = match wanted.map(|wanted| parse_range(wanted, len)) {
            Some(Range::Part(first, last)) => Some((first, last)),
            Some(Range::Beyond) => return beyond(len),
            Some(Range::Whole) | None => None,
        };
        let mut response = match range {
            None => self.respond_to(headers),
            Some((first, last)) => {
                self.bytes = self.bytes.slice(first..=last);
                let mut response = self.respond();
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                let part = format!("bytes {first}-{last}/{len}");
                let part = HeaderValue::try_from(part).expect("digits");
                response.headers_mut().insert(CONTENT_RANGE, part);
                let tag = HeaderValue::try_from(tag).expect("base64 in quotes");
                response.headers_mut().insert(ETAG, tag);
                response.headers_mut().insert(VARY, VARIES);
                response
            }
        };
        let bytes = HeaderValue::from_static("bytes");
        response.headers_mut().insert(ACCEPT_RANGES, bytes);
        response
    }
}

/// The answer to a range that begins behind the last byte.
fn beyond(len: usize) -> Response<Body> {
    let text = format!("the resource has {len} bytes");
    let mut response = reply::problem(&Fault::new(Kind::RangeNotSatisfiable, text));
    let whole = HeaderValue::try_from(format!("bytes */{len}")).expect("digits");
    response.headers_mut().insert(CONTENT_RANGE, whole);
    response
}

/// A strong entity tag of these bytes.
pub(in crate::http) fn entity_tag(bytes: &[u8]) -> String {
    let hash = digest(&SHA256, bytes);
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]))
}

fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter();
    let mut tags = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    tags.any(|known| matches!(known.trim(), "*") || known.trim().trim_start_matches("W/") == tag)
}

#[derive(Debug, PartialEq, Eq)]
enum Range {
    /// First and last byte.
    Part(usize, usize),
    Beyond,
    /// Several ranges, another unit or nonsense: the whole is an answer to each.
    Whole,
}

fn parse_range(header: &str, len: usize) -> Range {
    let Some((first, last)) = header
        .strip_prefix("bytes=")
        .and_then(|range| range.trim().split_once('-'))
    else {
        return Range::Whole;
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse::<usize>().unwrap_or(usize::MAX))
    };
    match (number(first), number(last)) {
        (Some(first), _) if last.is_empty() && first < len => Range::Part(first, len - 1),
        (Some(first), Some(last)) if last < first => Range::Whole,
        (Some(first), Some(last)) if first < len => Range::Part(first, last.min(len - 1)),
        (Some(_), Some(_)) => Range::Beyond,
        (Some(_), None) if last.is_empty() => Range::Beyond,
        (None, Some(0)) if first.is_empty() => Range::Beyond,
        (None, Some(_)) if first.is_empty() && len == 0 => Range::Beyond,
        (None, Some(count)) if first.is_empty() => Range::Part(len.saturating_sub(count), len - 1),
        _ => Range::Whole,
    }
}

/// The JSON body of a result.
pub(in super::super) fn json_body(method: &Method, result: &Payload) -> Bytes {
    let only = |names: &[&str]| {
        let mut out = vec![b'{'];
        for name in names {
            let Some(value) = result.get(name) else {
                continue;
            };
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(format!("\"{name}\":").as_bytes());
            out.extend_from_slice(value);
        }
        out.push(b'}');
        out.into()
    };
    match method {
        Method::PromptsGet => only(&["description", "messages"]),
        Method::ResourcesRead => only(&["contents"]),
        _ => match result.get_bytes("structuredContent") {
            Some(structured) if &structured[..] != b"null" => structured,
            _ if result.get("content").is_some() => only(&["content"]),
            _ => Bytes::from_static(br#"{"content":[]}"#),
        },
    }
}

/// What a tool's result is to a client that accepts this.
pub(super) fn of_tool(result: &Payload, accept: &Accept) -> Content {
    let json = || Content::json(json_body(&Method::ToolsCall, result));
    if !accept.prefers_any() {
        return json();
    }
    let blocks = blocks(result);
    let [block] = &blocks[..] else {
        return json();
    };
    let bytes = match block.string("type").as_deref() {
        Some("text") => plain_text(block),
        Some("image" | "audio") => decoded(block, "data"),
        Some("resource") => {
            let resource = block.get_bytes("resource");
            let rules = sentinel_wire::json::Rules::backend();
            let resource = resource.and_then(|raw| Payload::parse(raw, rules).ok());
            resource.and_then(|resource| of_contents(&resource))
        }
        _ => None,
    };
    let wanted = |content: &Content| {
        let media_type = content.media_type.to_str().unwrap_or_default();
        accept.prefers(media_type)
    };
    bytes.filter(wanted).unwrap_or_else(json)
}

/// What a resource is to a client that accepts this: its own bytes, or JSON that holds them.
pub(super) fn of_resource(result: &Payload, accept: &Accept) -> Result<Content, Fault> {
    let json = || Content::json(json_body(&Method::ResourcesRead, result));
    let contents = elements(result, "contents");
    let [one] = &contents[..] else {
        return Ok(json());
    };
    let Some(content) = of_contents(one) else {
        return Ok(json());
    };
    let media_type = content.media_type.to_str().unwrap_or_default().to_owned();
    if accept.takes(&media_type) {
        return Ok(content);
    }
    match accept.takes("application/json") {
        true => Ok(json()),
        false => Err(not_acceptable(&format!("{media_type} or application/json"))),
    }
}

/// The bytes of one entry of `contents`.
fn of_contents(one: &Payload) -> Option<Content> {
    match one.get("text").is_some() {
        true => plain_text(one),
        false => decoded(one, "blob"),
    }
}

fn plain_text(object: &Payload) -> Option<Content> {
    let text = object.string("text")?.into_owned();
    let media_type = object.string("mimeType");
    let media_type = media_type.as_deref().unwrap_or("text/plain");
    let media_type = match media_type.starts_with("text/") && !media_type.contains(';') {
        true => format!("{media_type}; charset=utf-8"),
        false => media_type.to_owned(),
    };
    Some(Content::of(&media_type, text.into()))
}

fn decoded(object: &Payload, member: &str) -> Option<Content> {
    let bytes = STANDARD.decode(&*object.string(member)?).ok()?;
    let media_type = object.string("mimeType");
    let media_type = media_type.as_deref().unwrap_or("application/octet-stream");
    Some(Content::of(media_type, bytes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_rfc_9110_has_them() {
        for (header, len, range) in [
            ("bytes=0-4", 10, Range::Part(0, 4)),
            ("bytes=5-", 10, Range::Part(5, 9)),
            ("bytes=-3", 10, Range::Part(7, 9)),
            ("bytes=-30", 10, Range::Part(0, 9)),
            ("bytes=8-99", 10, Range::Part(8, 9)),
            ("bytes=10-", 10, Range::Beyond),
            ("bytes=10-12", 10, Range::Beyond),
            ("bytes=-0", 10, Range::Beyond),
            ("bytes=0-", 0, Range::Beyond),
            ("bytes=-1", 0, Range::Beyond),
            ("bytes=4-2", 10, Range::Whole),
            ("bytes=0-1,3-4", 10, Range::Whole),
            ("bytes=0x1-2", 10, Range::Whole),
            ("items=0-1", 10, Range::Whole),
            ("bytes=-", 10, Range::Whole),
        ] {
            assert_eq!(parse_range(header, len), range, "{header} of {len}");
        }
    }
}
