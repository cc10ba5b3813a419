//! The next page of an answer, as arguments for the same tool.
//!
//! Three ways are understood: `Link: <...>; rel="next"`, a `next` URL in the body, and a cursor in the body that has a parameter of the
//! same name (`next_cursor` and `cursor`, `nextPageToken` and `pageToken`). Nothing is fetched: the caller decides.

use percent_encoding::percent_decode_str;
use sentinel_wire::Payload;
use serde_json::{Map, Value};

use super::auth::Credential;
use super::client::{Place, Response};
use super::operation::{In, Operation, Parameter};

/// Objects in which APIs put what is about the page.
const CORNERS: [&str; 9] = [
    "_links",
    "links",
    "meta",
    "metadata",
    "page_info",
    "pageInfo",
    "paging",
    "pagination",
    "response_metadata",
];
/// A body above this is not read a second time for a cursor.
const BODY_BYTES_MAX: usize = 4 << 20;
const CURSOR_CHARS_MAX: usize = 4096;

pub(super) struct Next {
    /// Without the gateway's own credentials.
    pub(super) url: Option<String>,
    /// To be put over the arguments of this call.
    pub(super) arguments: Map<String, Value>,
}

pub(super) fn next(
    operation: &Operation,
    arguments: &Payload,
    response: &Response,
    body: Option<&str>,
) -> Option<Next> {
    let body: Option<Value> = body
        .filter(|body| body.len() <= BODY_BYTES_MAX)
        .and_then(|body| serde_json::from_str(body).ok());
    let linked = response
        .head
        .all("link")
        .find_map(|field| rel_next(std::str::from_utf8(field).ok()?));
    let named = linked.or_else(|| body.as_ref().and_then(next_url));
    if let Some(place) = named.and_then(|url| response.place.join(&url)) {
        return Some(Next {
            url: Some(without_credentials(operation, &place)),
            arguments: by_url(operation, arguments, response, &place),
        });
    }
    let arguments = by_cursor(operation, body.as_ref()?)?;
    Some(Next {
        url: None,
        arguments,
    })
}

/// The target of the link with this relation, in a field of several.
fn rel_next(field: &str) -> Option<String> {
    let mut rest = field;
    while let Some((_, after)) = rest.split_once('<') {
        let (url, after) = after.split_once('>')?;
        let parameters = after.split('<').next().unwrap_or_default();
        let is_next = parameters.split(';').any(|parameter| {
            let Some((name, value)) = parameter.split_once('=') else {
                return false;
            };
            let value = value.trim().trim_end_matches(',').trim().trim_matches('"');
            name.trim().eq_ignore_ascii_case("rel")
                && value
                    .split_ascii_whitespace()
                    .any(|rel| rel.eq_ignore_ascii_case("next"))
        });
        if is_next {
            return Some(url.to_owned());
        }
        rest = after;
    }
    None
}

/// The body and the corners of it that are about pages.
fn corners(body: &Value) -> impl Iterator<Item = &Value> {
    let within = CORNERS.iter().filter_map(|name| body.get(*name));
    std::iter::once(body).chain(within)
}

/// `next` that is a URL, or holds one.
fn next_url(body: &Value) -> Option<String> {
    corners(body).find_map(|corner| {
        let next = ["next", "next_url", "nextUrl", "@odata.nextLink"]
            .iter()
            .find_map(|name| corner.get(*name))?;
        let url = next.as_str().or_else(|| next.get("href")?.as_str())?;
        let is_url = ["http://", "https://", "/", "?"]
            .iter()
            .any(|start| url.starts_with(start));
        is_url.then(|| url.to_owned())
    })
}

/// A query as names and values.
fn pairs(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| {
        percent_decode_str(&text.replace('+', " "))
            .decode_utf8_lossy()
            .into_owned()
    };
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    };
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(pair)
        .collect()
}

fn query(place: &Place) -> &str {
    place.target.split_once('?').map_or("", |(_, query)| query)
}

/// What of a URL to the same operation differs from what was sent.
fn by_url(
    operation: &Operation,
    arguments: &Payload,
    response: &Response,
    place: &Place,
) -> Map<String, Value> {
    let mut out = Map::new();
    if place.shown() != response.place.shown() {
        return out;
    }
    for (name, value) in pairs(query(place)) {
        let parameter = operation
            .parameters
            .iter()
            .find(|p| p.place == In::Query && p.name == name);
        let Some(parameter) = parameter else { continue };
        let value = typed(parameter, value);
        if arguments.get(&parameter.argument) != Some(value.to_string().as_bytes()) {
            out.insert(parameter.argument.clone(), value);
        }
    }
    out
}

fn typed(parameter: &Parameter, value: String) -> Value {
    let bare = parameter
        .is_bare
        .then(|| serde_json::from_str(&value).ok())
        .flatten();
    bare.unwrap_or(Value::String(value))
}

/// A cursor in the body, and the parameter that takes it.
fn by_cursor(operation: &Operation, body: &Value) -> Option<Map<String, Value>> {
    let plain = |name: &str| {
        let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        letters.to_ascii_lowercase()
    };
    let taken = |name: &str| {
        let wanted = plain(name);
        let bare = wanted
            .strip_prefix("next")
            .filter(|bare| !bare.is_empty())?
            .to_owned();
        operation.parameters.iter().find(|parameter| {
            let own = plain(&parameter.name);
            parameter.place == In::Query && (own == bare || own == wanted)
        })
    };
    for corner in corners(body) {
        for (name, value) in corner.as_object().into_iter().flatten() {
            let is_cursor = match value {
                Value::String(text) => !text.is_empty() && text.len() <= CURSOR_CHARS_MAX,
                Value::Number(_) => true,
                _ => false,
            };
            if let Some(parameter) = taken(name).filter(|_| is_cursor) {
                let value = match value {
                    Value::String(text) => typed(parameter, text.clone()),
                    other if parameter.is_bare => other.clone(),
                    other => Value::String(other.to_string()),
                };
                return Some(Map::from_iter([(parameter.argument.clone(), value)]));
            }
        }
    }
    None
}

/// An API may repeat the key that it was called with.
fn without_credentials(operation: &Operation, place: &Place) -> String {
    let secret = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        operation
            .credentials
            .iter()
            .any(|c| matches!(c, Credential::Query(own, _) if own == name))
    };
    let kept: Vec<&str> = query(place)
        .split('&')
        .filter(|pair| !pair.is_empty() && !secret(pair))
        .collect();
    match kept.is_empty() {
        true => place.shown(),
        false => format!("{}?{}", place.shown(), kept.join("&")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_7_links_to_the_next_page_are_found() {
        for (field, next) in [
            (
                r#"<https://a/x?page=2>; rel="next", <https://a/x?page=9>; rel="last""#,
                Some("https://a/x?page=2"),
            ),
            (
                r#"<https://a/x?page=1>; rel="prev", </x?page=3>; title="a"; rel=next"#,
                Some("/x?page=3"),
            ),
            (r#"<?p=2>; REL="last next""#, Some("?p=2")),
            (r#"<https://a>; rel="prev""#, None),
            ("<https://a", None),
            ("rel=next", None),
        ] {
            assert_eq!(rel_next(field).as_deref(), next, "{field}");
        }
    }
}
