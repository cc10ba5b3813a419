//! `/admin/api/live`: how the gateway is doing, at once and each second.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Modern};
use crate::support::http::{Stream, data_of, parse};
use crate::support::records::with_backend;
use crate::support::setup::{Gateway, until};
use crate::support::web::Web;

/// An event of a stream: its name and its data.
pub(super) fn event(stream: &mut Stream) -> (String, Value) {
    loop {
        let event = stream.event().expect("another event");
        if let Some(name) = event.lines().find_map(|line| line.strip_prefix("event: ")) {
            return (name.to_owned(), parse(&data_of(&event)));
        }
    }
}

pub(super) fn open(web: &Web, what: &str) -> Stream {
    let stream = web
        .send("GET", &format!("/admin/api/{what}"), &[], "")
        .head();
    assert_eq!(stream.status, 200);
    let kind = stream
        .headers
        .iter()
        .find(|(name, _)| name == "content-type");
    assert_eq!(
        kind.map(|(_, value)| value.as_str()),
        Some("text/event-stream")
    );
    stream
}

fn overview(stream: &mut Stream) -> Value {
    let (name, data) = event(stream);
    assert_eq!(name, "overview");
    data
}

/// Waits for figures that are as they should be.
#[track_caller]
fn overview_with(stream: &mut Stream, what: &str, good: impl Fn(&Value) -> bool) -> Value {
    until(what, || Some(overview(stream)).filter(&good))
}

fn sum(counts: &Value) -> u64 {
    let counts = counts.as_array().expect("a list");
    counts
        .iter()
        .map(|count| count.as_u64().expect("a number"))
        .sum()
}

#[test]
fn figures_come_at_once_and_go_on_and_count_calls_only() {
    let (_server, gateway) = with_backend("", "");
    let web = Web::new(&gateway);
    let mut stream = open(&web, "live");
    let first = overview(&mut stream);
    assert_eq!(first["ended"].get("success"), None, "{first}");
    assert_eq!(sum(&first["latency"]["counts"]), 0);
    assert_eq!(first["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(first["draining"], false);
    assert_eq!(first["streams"], 1);
    assert_eq!(first["backends"][0]["name"], "alpha");
    assert_eq!(first["backends"][0]["health"], "up");
    assert_eq!(first["audit"]["enabled"], true);

    let caller = Modern::new(&gateway, "/mcp");
    assert_eq!(caller.said("echo", json!({"text": "a"})), "a");
    caller.call("fail", json!({"text": "no"}));
    caller.call("no-such-tool", json!({}));
    caller.tools();
    web.get("/admin/api/status");
    let after = overview_with(&mut stream, "three calls are counted", |seen| {
        sum(&seen["latency"]["counts"]) == 3
    });
    let ended = json!({"success": 1, "error": 1, "denied": 1, "killed": 0});
    for (outcome, count) in ended.as_object().expect("an object") {
        assert_eq!(&after["ended"][outcome], count, "{outcome}: {after}");
    }
    assert_eq!(after["errors"]["unknown_name"], 1, "{after}");
    assert_eq!(after["errors"]["backend_error"], 1, "{after}");
    let bounds = after["latency"]["bounds_us"].as_array().expect("a list");
    let counts = after["latency"]["counts"].as_array().expect("a list");
    assert_eq!(counts.len(), bounds.len() + 1);
    assert_eq!(after["boot_id"], first["boot_id"]);
    assert!(after["at_ms"].as_u64() > first["at_ms"].as_u64());

    let reason = json!({"scope": "tool", "name": "echo", "reason": "a test"});
    assert_eq!(web.post("/admin/api/kill", &reason).status, 200);
    let killed = overview_with(&mut stream, "the kill is shown", |seen| {
        seen["killed"] != json!([])
    });
    assert_eq!(killed["killed"][0]["name"], "echo");
    caller.call("echo", json!({"text": "a"}));
    overview_with(&mut stream, "the refusal is counted", |seen| {
        seen["ended"]["killed"] == 1 && seen["errors"]["disabled"] == 1
    });
}

/// Totals begin anew with each start, and a page must not take that for negative rates.
#[test]
fn another_start_has_another_boot_id() {
    let (_server, gateway) = with_backend("", "");
    let before = overview(&mut open(&Web::new(&gateway), "live"));
    let gateway = gateway.restart();
    let after = overview(&mut open(&Web::new(&gateway), "live"));
    assert_ne!(before["boot_id"], after["boot_id"]);
}

/// What is refused before it is read is no call.
#[test]
fn requests_that_are_turned_away_are_counted_apart() {
    let gateway = Gateway::start("[auth]\n");
    let operator = crate::support::tokens::token(json!({}));
    let web = Web::new(&gateway).bearing(&operator);
    let stranger = Web::new(&gateway).bearing("no-such-key");
    assert_eq!(stranger.get("/api/catalog").status, 401);
    let seen = overview(&mut open(&web, "live"));
    assert_eq!(seen["turned_away"], json!({"unauthorized": 1}), "{seen}");
    assert_eq!(sum(&seen["latency"]["counts"]), 0, "{seen}");
}
