//! `/admin/api/history` and `/admin/api/usage`: figures of calls from the store, on SQLite and on PostgreSQL.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Modern};
use crate::support::records::{with_backend, with_postgres};
use crate::support::setup::{Gateway, until};
use crate::support::web::Web;

/// The sum of a member over all of a list.
fn sum(list: &Value, member: &str) -> u64 {
    let list = list.as_array().expect("a list");
    let numbers = list
        .iter()
        .map(|one| one[member].as_u64().expect("a number"));
    numbers.sum()
}

fn row<'v>(usage: &'v Value, name: &str) -> &'v Value {
    let rows = usage["rows"].as_array().expect("rows");
    let found = rows.iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {usage}"))
}

#[test]
fn figures_of_calls_are_read_from_sqlite() {
    let (_server, gateway) = with_backend("", "");
    figures(&gateway);
}

#[test]
fn figures_of_calls_are_read_from_postgresql() {
    let (_cluster, _server, gateway) = with_postgres("");
    figures(&gateway);
}

fn figures(gateway: &Gateway) {
    let web = Web::new(gateway);
    let caller = Modern::new(gateway, "/mcp");
    for text in ["a", "b", "c"] {
        caller.said("echo", json!({"text": text}));
    }
    caller.call("slow", json!({"ms": 60}));
    caller.call("fail", json!({"text": "no"}));
    caller.call("no-such-tool", json!({}));
    // No calls.
    caller.tools();
    web.get("/admin/api/status");
    let get = |path: &str| {
        let answer = web.get(&format!("/admin/api/{path}"));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    };
    let history = until("all six calls are in the store", || {
        let history = get("history?since=1m");
        (sum(&history["points"], "calls") == 6).then_some(history)
    });
    assert_eq!(sum(&history["points"], "errors"), 1, "{history}");
    assert_eq!(sum(&history["points"], "refused"), 1, "{history}");
    assert_eq!(
        (&history["complete"], &history["step_ms"]),
        (&json!(true), &json!(1000))
    );
    let points = history["points"].as_array().expect("points");
    for point in points {
        assert_eq!(point["at_ms"].as_u64().expect("a time") % 1000, 0);
        assert!(point["p50_us"].as_u64() <= point["p95_us"].as_u64());
        assert!(point["p95_us"].as_u64() <= point["p99_us"].as_u64());
    }
    assert!(
        points
            .iter()
            .any(|point| point["p99_us"].as_u64() >= Some(60_000))
    );
    let coarse = get("history?since=1m&step_s=3600");
    assert!(coarse["points"].as_array().expect("points").len() <= 2);
    let echoes = get("history?since=1m&tool=echo&failed=false");
    assert_eq!(sum(&echoes["points"], "calls"), 3);
    let none = get("history?since=1000&until=2000");
    assert_eq!(none["points"], json!([]));

    let by_operation = get("usage?by=operation&since=1m");
    assert_eq!(by_operation["complete"], true);
    assert_eq!(by_operation["rows"][0]["name"], "echo");
    let echo = row(&by_operation, "echo");
    assert_eq!(
        (&echo["backend"], &echo["calls"]),
        (&json!("alpha"), &json!(3))
    );
    assert!(echo["bytes_in"].as_u64() > Some(0) && echo["bytes_out"].as_u64() > Some(0));
    assert!(echo["last_at_ms"].as_u64() > history["since_ms"].as_u64());
    let slow = row(&by_operation, "slow");
    // Percentiles are never below the exact ones, and never above the slowest call.
    for figure in ["p50_us", "p95_us", "p99_us"] {
        assert_eq!(slow[figure], slow["max_us"], "{slow}");
    }
    assert!(slow["max_us"].as_u64() >= Some(60_000));
    let failed = row(&by_operation, "fail");
    assert_eq!(
        (&failed["errors"], &failed["refused"]),
        (&json!(1), &json!(0))
    );
    let unknown = row(&by_operation, "no-such-tool");
    assert_eq!(
        (&unknown["errors"], &unknown["refused"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(unknown["backend"], "");
    for (by, name, calls) in [
        ("caller", "local", 6),
        ("backend", "alpha", 5),
        ("outcome", "success", 4),
        ("kind", "unknown_name", 1),
    ] {
        let usage = get(&format!("usage?by={by}&since=1m"));
        assert_eq!(row(&usage, name)["calls"], calls, "{usage}");
    }
    let one = get("usage?by=operation&since=1m&limit=1");
    assert_eq!(one["rows"].as_array().expect("rows").len(), 1);
    let failures = get("usage?by=operation&since=1m&failed=true");
    assert_eq!(sum(&failures["rows"], "calls"), 2);

    for (path, word) in [
        ("history?since=7d&step_s=1", "2000 steps"),
        ("history?since=1m&until=1h", "before"),
        ("usage", "`by`"),
        ("usage?by=weather", "operation, caller"),
        ("usage?by=caller&outcome=fine", "success, error"),
    ] {
        let refused = web.get(&format!("/admin/api/{path}"));
        assert_eq!(refused.status, 400, "{path}: {refused:?}");
        assert!(refused.text.contains(word), "{path}: {refused:?}");
    }
}
