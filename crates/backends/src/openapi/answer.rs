//! What an API answered, as the result of a tool.
//!
//! JSON is structured content and text; images and audio are content of their kind, other bytes a resource. An answer of 4xx or
//! 5xx is a result that says it is an error: the API did answer, so it is no failure of the backend. `_meta` has what only the head of
//! an answer says: status, the next page, when to try again.
//!
//! Not here: reading the answer (`client`).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::StatusCode;
use sentinel_core::{HTTP_META as META, Reply};
use sentinel_wire::json::{Kind, Rules, Scanner};
use sentinel_wire::{Outcome, Payload, Revision};
use serde_json::{Map, Value, json};

use super::client::Response;
use super::media::{bare, is_json, is_text};
use super::operation::{Operation, Output};
use super::paging::{self, Next};

/// A result in the making.
#[derive(Default)]
struct Made {
    content: Vec<Value>,
    /// JSON as it came.
    structured: Option<String>,
    is_error: bool,
    meta: Map<String, Value>,
}

/// The result of a call.
pub(super) fn reply(operation: &Operation, arguments: &Payload, response: &Response) -> Reply {
    let status = response.head.status;
    let mut made = Made::default();
    made.meta.insert("status".into(), status.into());
    head(response, &mut made);
    match status {
        200..=299 => good(operation, arguments, response, &mut made),
        300..=399 => redirect(response, &mut made),
        _ => failed(operation, response, &mut made),
    }
    if response.is_cut {
        made.text(format!(
            "(cut here: the answer is longer than {} bytes, limits.reply_mb)",
            response.body.len()
        ));
    }
    made.reply()
}

/// A result that only says what is wrong with the arguments.
pub(super) fn unsendable(why: &str) -> Reply {
    let mut made = Made {
        is_error: true,
        ..Made::default()
    };
    made.text(format!("invalid arguments: {why}"));
    made.reply()
}

impl Made {
    fn text(&mut self, text: String) {
        self.content.push(json!({ "type": "text", "text": text }));
    }

    fn reply(self) -> Reply {
        let content = Value::Array(self.content);
        let structured = self.structured.map_or_else(String::new, |json| {
            format!(r#","structuredContent":{json}"#)
        });
        let meta = json!({ META: self.meta });
        let text = format!(
            r#"{{"resultType":"complete","content":{content}{structured},"isError":{},"_meta":{meta}}}"#,
            self.is_error
        );
        let payload =
            Payload::parse(text.into(), Rules::backend()).expect("written as JSON just now");
        Reply {
            revision: Revision::NEWEST,
            outcome: Outcome::Result(payload),
        }
    }
}

/// What callers can use of the head.
fn head(response: &Response, made: &mut Made) {
    for (field, name) in [
        ("etag", "etag"),
        ("last-modified", "lastModified"),
        ("location", "location"),
    ] {
        if let Some(value) = response.field(field) {
            made.meta.insert(name.into(), value.into());
        }
    }
    let rates = [
        "ratelimit",
        "ratelimit-policy",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    ];
    for field in rates {
        if let Some(value) = response.field(field) {
            made.meta.insert(field.into(), value.into());
        }
    }
    if let Some(value) = response.field("retry-after") {
        made.meta.insert("retryAfter".into(), value.into());
        if let Some(seconds) = retry_after_s(value) {
            made.meta
                .insert("retryAfterMs".into(), seconds.saturating_mul(1000).into());
        }
    }
}

/// Seconds; a date is told as it is, for clocks differ.
fn retry_after_s(value: &str) -> Option<u64> {
    value.trim().parse().ok()
}

fn good(operation: &Operation, arguments: &Payload, response: &Response, made: &mut Made) {
    let json = json_body(response);
    match (json, operation.output) {
        (Some(body), output) => {
            let is_object = Kind::of(body.as_bytes()) == Some(Kind::Object);
            made.text(body.to_owned());
            made.structured = match (output, is_object) {
                (Output::Object, false) => None,
                (Output::Wrapped, _) | (Output::Free, false) => {
                    Some(format!(r#"{{"result":{body}}}"#))
                }
                (_, true) => Some(body.to_owned()),
            };
        }
        (None, _) => content(response, made),
    }
    if operation.output != Output::Free && made.structured.is_none() {
        // Clients refuse a result without the structure that its tool promises.
        let kind = response.field("content-type").unwrap_or("nothing");
        made.is_error = true;
        made.content.insert(0, json!({ "type": "text", "text": format!(
            "The request was carried out (HTTP {}), but the answer is not what the API's description promises: it is {kind}, not the described JSON. `output_schemas = false` accepts it.",
            response.head.status
        )}));
    }
    if let Some(next) = paging::next(operation, arguments, response, json) {
        page(&next, made);
    }
}

fn page(next: &Next, made: &mut Made) {
    let mut told = Map::new();
    if let Some(url) = &next.url {
        told.insert("url".into(), url.as_str().into());
    }
    if !next.arguments.is_empty() {
        let arguments = Value::Object(next.arguments.clone());
        made.text(format!(
            "There is more: call again with the same arguments and {arguments}."
        ));
        told.insert("arguments".into(), arguments);
    }
    made.meta.insert("next".into(), Value::Object(told));
}

/// A redirect of a request that may change something is not followed.
fn redirect(response: &Response, made: &mut Made) {
    made.is_error = true;
    let to = response.field("location").unwrap_or("nowhere");
    made.text(format!(
        "HTTP {}: the API redirects this request to {to}, and it was not sent again.",
        response.head.status
    ));
}

fn failed(operation: &Operation, response: &Response, made: &mut Made) {
    made.is_error = true;
    let status = response.head.status;
    let reason = StatusCode::from_u16(status)
        .ok()
        .and_then(|s| s.canonical_reason());
    let mut line = format!("HTTP {status} {}", reason.unwrap_or_default())
        .trim_end()
        .to_owned();
    if let Some(after) = response.field("retry-after") {
        let unit = if retry_after_s(after).is_some() {
            " seconds"
        } else {
            ""
        };
        line.push_str(&format!(": try again after {after}{unit}"));
    }
    made.text(line);
    let Some(body) = json_body(response) else {
        return content(response, made);
    };
    made.text(body.to_owned());
    if let Ok(body) = serde_json::from_str::<Value>(body) {
        let kind = bare(response.field("content-type").unwrap_or_default());
        let name = if kind == "application/problem+json" {
            "problem"
        } else {
            "body"
        };
        made.meta.insert(name.into(), body);
    }
    // Clients compare structured content with the tool's output schema, in errors as well.
    if operation.output == Output::Free {
        made.structured = Some(format!(r#"{{"status":{status},"body":{body}}}"#));
    }
}

/// The body, if it says that it is JSON and is.
fn json_body(response: &Response) -> Option<&str> {
    let kind = response.field("content-type")?;
    if !is_json(kind) || response.is_cut {
        return None;
    }
    let text = std::str::from_utf8(&response.body).ok()?;
    let mut scanner = Scanner::new(text.as_bytes(), Rules::backend()).ok()?;
    scanner.value().ok()?;
    scanner.end().ok()?;
    Some(text)
}

/// A body that is no JSON.
fn content(response: &Response, made: &mut Made) {
    let kind = response.field("content-type").unwrap_or_default();
    let name = bare(kind);
    if response.body.is_empty() {
        if made.content.is_empty() {
            made.text(format!("HTTP {}: no content", response.head.status));
        }
        return;
    }
    let text = match response.is_cut {
        // The cut may go through a character.
        true => Some(String::from_utf8_lossy(&response.body).into_owned()),
        false => std::str::from_utf8(&response.body).ok().map(str::to_owned),
    };
    let textual = name.is_empty() || is_text(&name) || is_json(&name);
    if let Some(text) = text.filter(|_| textual) {
        return made.text(text);
    }
    let data = BASE64_STANDARD.encode(&response.body);
    let mime = if name.is_empty() {
        "application/octet-stream"
    } else {
        name.as_str()
    };
    made.content.push(match mime.split('/').next() {
        Some(kind @ ("image" | "audio")) => json!({ "type": kind, "data": data, "mimeType": mime }),
        _ => json!({
            "type": "resource",
            "resource": { "uri": response.place.shown(), "mimeType": mime, "blob": data },
        }),
    });
}

#[cfg(test)]
mod tests;
