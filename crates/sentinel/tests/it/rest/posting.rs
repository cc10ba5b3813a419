//! Requests to `/api` with headers, and what the fixture counts and holds.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Modern};
use crate::support::http::{self, Answer, Sent};
use crate::support::setup::{Gateway, until};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Sends a request with these headers besides its content type.
pub(super) fn send(
    gateway: &Gateway,
    verb: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Sent {
    let headers = [&[JSON], headers].concat();
    http::send(&gateway.address, verb, path, &headers, body.to_string())
}

/// Calls a tool.
pub(super) fn post(
    gateway: &Gateway,
    tool: &str,
    headers: &[(&str, &str)],
    arguments: &Value,
) -> Answer {
    send(gateway, "POST", &format!("/api/{tool}"), headers, arguments).finish()
}

pub(super) fn get(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> Answer {
    http::send(&gateway.address, "GET", path, headers, "").finish()
}

/// The text of an answer that is one text block.
#[track_caller]
pub(super) fn text(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = answer.json()["content"][0]["text"].clone();
    text.as_str().expect("a text").to_owned()
}

/// The code of a problem document.
#[track_caller]
pub(super) fn code(answer: &Answer) -> String {
    let kind = answer.header("content-type");
    assert_eq!(kind, "application/problem+json", "{answer:?}");
    answer.json()["code"].as_str().expect("a code").to_owned()
}

/// How often `count` ran with this key.
pub(super) fn executed(gateway: &Gateway, key: &str) -> String {
    Modern::new(gateway, "/mcp").said("executed", json!({"key": key}))
}

/// Waits until so many calls are at this barrier of the fixture.
#[track_caller]
pub(super) fn waiting(gateway: &Gateway, name: &str, count: usize) {
    let caller = Modern::new(gateway, "/mcp");
    let is_so = || caller.said("waiting", json!({"name": name})) == count.to_string();
    until("calls are at the barrier", || is_so().then_some(()));
}

/// Lets everybody at this barrier go.
pub(super) fn release(gateway: &Gateway, name: &str) {
    Modern::new(gateway, "/mcp").said("release", json!({"name": name}));
}
