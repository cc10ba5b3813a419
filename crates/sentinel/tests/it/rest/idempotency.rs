//! `Idempotency-Key`: a request that is sent again is answered again and not made again (fact E-5).

use serde_json::{Value, json};

use super::posting::{code, executed, post, release, send, text, waiting};
use crate::support::http::Answer;
use crate::support::records::export;
use crate::support::setup::{Gateway, Server, free_port, http_backend};
use crate::support::tokens::token;

fn gateway(more: &str) -> (Server, Gateway) {
    let server = Server::start(&[]);
    let backend = http_backend("one", &server.address, "");
    let gateway = Gateway::ready(&format!("{more}{backend}"));
    (server, gateway)
}

fn keyed(gateway: &Gateway, tool: &str, key: &str, arguments: &Value) -> Answer {
    post(gateway, tool, &[("Idempotency-Key", key)], arguments)
}

fn is_replayed(answer: &Answer) -> bool {
    answer.header("idempotency-replayed") == "true"
}

#[track_caller]
fn sentinel(gateway: &Gateway, command: &[&str]) {
    let (code, _, wrong) = gateway.setup.sentinel(command);
    assert_eq!(code, 0, "{command:?}: {wrong}");
}

#[test]
fn issue_18_a_request_that_is_sent_again_gets_the_same_answer_and_is_not_made_again() {
    let (_server, gateway) = gateway("");
    let first = keyed(&gateway, "count", "k-1", &json!({"key": "a"}));
    assert_eq!((text(&first).as_str(), is_replayed(&first)), ("1", false));
    // In quotes it is the same key, and spaces in the body mean nothing.
    let headers = [
        ("Idempotency-Key", "\"k-1\""),
        ("Content-Type", "application/json"),
    ];
    let again = crate::support::http::send(
        &gateway.address,
        "POST",
        "/api/count",
        &headers,
        r#" { "key" : "\u0061" } "#,
    );
    let again = again.finish();
    assert!(is_replayed(&again), "{again:?}");
    assert_eq!((again.status, &again.text), (first.status, &first.text));
    assert_eq!(again.header("content-type"), first.header("content-type"));
    let other = keyed(&gateway, "count", "k-2", &json!({"key": "a"}));
    assert_eq!((text(&other).as_str(), is_replayed(&other)), ("2", false));
    assert_eq!(executed(&gateway, "a"), "2");
    // The same key at another operation is another key.
    assert!(!is_replayed(&keyed(
        &gateway,
        "echo",
        "k-1",
        &json!({"text": "x"})
    )));
    let mismatch = keyed(&gateway, "count", "k-1", &json!({"key": "b"}));
    assert_eq!(
        (mismatch.status, code(&mismatch).as_str()),
        (422, "idempotency_mismatch")
    );
    assert_eq!(executed(&gateway, "b"), "0");
}

#[test]
fn issue_18_errors_of_the_tool_and_of_the_arguments_are_final_and_questions_are_not() {
    let (_server, gateway) = gateway("");
    for (tool, arguments, status, is_final) in [
        ("fail", json!({"text": "no"}), 422, true),
        (
            "rpc_error",
            json!({"code": -32000, "message": "no"}),
            500,
            true,
        ),
        ("count", json!({"key": 1}), 422, true),
        ("ask", json!({"message": "who?"}), 409, false),
    ] {
        let [first, again] = [0, 1].map(|_| keyed(&gateway, tool, "k", &arguments));
        assert_eq!(
            (first.status, again.status),
            (status, status),
            "{tool}: {again:?}"
        );
        assert!(!is_replayed(&first), "{tool}");
        assert_eq!(is_replayed(&again), is_final, "{tool}");
        assert_eq!(again.text == first.text, is_final, "{tool}");
    }
}

#[test]
fn issue_18_a_key_that_is_none_and_a_stream_with_a_key_are_refused() {
    let (_server, gateway) = gateway("");
    let long = "x".repeat(256);
    for key in ["", "\"\"", "\"open", "a b", "\"a\"b", &long] {
        let refused = keyed(&gateway, "count", key, &json!({"key": "a"}));
        assert_eq!(
            (refused.status, code(&refused).as_str()),
            (400, "invalid_request"),
            "{key}"
        );
    }
    let headers = [("Idempotency-Key", "k"), ("Accept", "text/event-stream")];
    let refused = post(&gateway, "count", &headers, &json!({"key": "a"}));
    assert_eq!(
        (refused.status, code(&refused).as_str()),
        (400, "invalid_request")
    );
    assert_eq!(executed(&gateway, "a"), "0");
}

#[test]
fn issue_18_a_repeat_waits_for_the_first_and_is_told_when_it_will_not() {
    let (_server, gateway) = gateway("");
    let (name, key) = (json!({"name": "b"}), ("Idempotency-Key", "k"));
    let first = send(&gateway, "POST", "/api/barrier", &[key], &name);
    waiting(&gateway, "b", 1);
    let hasty = post(&gateway, "barrier", &[key, ("Prefer", "wait=0")], &name);
    assert_eq!(
        (hasty.status, code(&hasty).as_str()),
        (409, "idempotency_in_progress")
    );
    assert_eq!(hasty.header("retry-after"), "1");
    let second = send(&gateway, "POST", "/api/barrier", &[key], &name);
    release(&gateway, "b");
    let (first, second) = (first.finish(), second.finish());
    assert_eq!((first.status, second.status), (200, 200), "{second:?}");
    assert_eq!(first.text, second.text);
    assert_eq!((is_replayed(&first), is_replayed(&second)), (false, true));
    waiting(&gateway, "b", 0);
}

#[test]
fn issue_18_a_call_whose_client_left_is_not_made_again_by_its_key() {
    let (_server, gateway) = gateway("");
    let (name, key) = (json!({"name": "b"}), ("Idempotency-Key", "k"));
    let first = send(&gateway, "POST", "/api/barrier", &[key], &name);
    waiting(&gateway, "b", 1);
    let second = send(&gateway, "POST", "/api/barrier", &[key], &name);
    first.hang_up();
    waiting(&gateway, "b", 0);
    // One that waited for the first is told the same as one that comes later.
    for second in [
        second,
        send(&gateway, "POST", "/api/barrier", &[key], &name),
    ] {
        let second = second.finish();
        let problem = second.json();
        assert_eq!(
            (second.status, &problem["code"]),
            (422, &json!("answer_lost")),
            "{problem}"
        );
        assert_eq!(problem["retryable"], false, "{problem}");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(
            detail.contains("whether the call ran is not known"),
            "{detail}"
        );
    }
    waiting(&gateway, "b", 0);
}

#[test]
fn issue_18_a_failure_before_the_call_ran_is_not_kept() {
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let mut server = Server::start_at(port, &[]);
    let gateway = Gateway::ready(&http_backend(
        "one",
        &address,
        "[backends.circuit_breaker]\nthreshold = 0",
    ));
    server.kill();
    let arguments = json!({"key": "a"});
    for _ in 0..2 {
        let failed = keyed(&gateway, "count", "k", &arguments);
        assert_eq!(
            (failed.status, code(&failed).as_str()),
            (502, "backend_unavailable")
        );
        assert!(!is_replayed(&failed));
    }
    let _server = Server::start_at(port, &[]);
    gateway.wait_ready();
    let made = keyed(&gateway, "count", "k", &arguments);
    assert_eq!((text(&made).as_str(), is_replayed(&made)), ("1", false));
}

/// A call that may have run must not be made again by its key.
#[test]
fn issue_18_a_call_whose_end_nobody_knows_is_kept() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, "timeout = 0.3"));
    let [first, again] = [0, 1].map(|_| keyed(&gateway, "never", "k", &json!({})));
    assert_eq!(
        (first.status, code(&first).as_str()),
        (504, "backend_timeout")
    );
    assert_eq!((again.status, is_replayed(&again)), (504, true));
}

#[test]
fn g_40_a_replay_is_not_charged_and_a_refusal_by_the_limit_is_not_kept() {
    let (_server, gateway) = gateway("[rate_limits]\ndefault_rpm = 1\nburst = 2\n");
    let left = |answer: &Answer| {
        answer
            .header("ratelimit")
            .split(';')
            .nth(1)
            .map(str::to_owned)
    };
    let call = |key: &str| keyed(&gateway, "echo", key, &json!({"text": "x"}));
    let (first, again) = (call("a"), call("a"));
    assert_eq!((first.status, again.status), (200, 200));
    assert!(is_replayed(&again));
    assert_eq!(
        (left(&first), left(&again)),
        (Some("r=1".into()), Some("r=1".into()))
    );
    assert_eq!(call("b").status, 200);
    for _ in 0..2 {
        let limited = call("c");
        assert_eq!((limited.status, is_replayed(&limited)), (429, false));
    }
    assert!(is_replayed(&call("a")), "what was answered is answered");
}

#[test]
fn p_s07_an_answer_is_replayed_only_to_who_may_make_the_call_now() {
    let (server, gateway) = gateway("");
    let call = || keyed(&gateway, "count", "k", &json!({"key": "a"}));
    assert_eq!(call().status, 200);
    sentinel(&gateway, &["kill", "tool", "one.count"]);
    assert_eq!((call().status, code(&call()).as_str()), (503, "disabled"));
    sentinel(&gateway, &["revive", "tool", "one.count"]);
    assert!(is_replayed(&call()));
    let backend = http_backend("one", &server.address, "");
    let role = "[rbac.roles.admin]\npermissions = [\"*\"]\ndenied_tools = [\"one.count\"]\n";
    gateway.setup.rewrite(&format!("{role}{backend}"));
    sentinel(&gateway, &["reload"]);
    assert_eq!(
        (call().status, code(&call()).as_str()),
        (404, "unknown_name")
    );
}

#[test]
fn p_s07_a_key_belongs_to_the_whole_identity() {
    let (_server, gateway) = gateway("[auth]\njwt_secret_env = \"JWT_SECRET_KEY\"\n");
    let call = |claims: Value| {
        let bearer = format!("Bearer {}", token(claims));
        let headers = [("Idempotency-Key", "k"), ("Authorization", &bearer)];
        post(&gateway, "count", &headers, &json!({"key": "a"}))
    };
    let all = [
        json!({"sub": "alice"}),
        json!({"sub": "bob"}),
        json!({"sub": "alice", "tenant_id": "t"}),
    ];
    for (count, claims) in all.iter().enumerate() {
        let answer = call(claims.clone());
        assert_eq!(text(&answer), (count + 1).to_string(), "{claims}");
    }
    for (count, claims) in all.iter().enumerate() {
        let answer = call(claims.clone());
        assert!(is_replayed(&answer));
        assert_eq!(text(&answer), (count + 1).to_string(), "{claims}");
    }
}

#[test]
fn g_36_each_request_with_a_key_has_its_record_and_a_replay_says_so() {
    let (_server, gateway) = gateway("");
    for (tool, arguments) in [
        ("count", json!({"key": "a"})),
        ("fail", json!({"text": "no"})),
    ] {
        keyed(&gateway, tool, "k", &arguments);
        keyed(&gateway, tool, "k", &arguments);
    }
    keyed(&gateway, "count", "k", &json!({"key": "b"}));
    let setup = gateway.end();
    let records = export(&setup);
    let of_rest = records.iter().filter(|record| record["surface"] == "rest");
    let word = |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let told: Vec<_> = of_rest
        .map(|r| ["operation", "backend", "outcome", "kind"].map(|name| word(r, name)))
        .collect();
    let expected = [
        ["count", "one", "success", ""],
        ["count", "one", "success", "replayed"],
        ["fail", "one", "error", "backend_error"],
        ["fail", "one", "error", "replayed"],
        ["count", "", "error", "idempotency_mismatch"],
    ];
    assert_eq!(told, expected.map(|record| record.map(str::to_owned)));
}

/// `limits.idempotency_keys`: the oldest answer gives way.
#[test]
fn p_r10_so_many_answers_are_kept() {
    let (_server, gateway) = gateway("[limits]\nidempotency_keys = 2\n");
    let call = |key: &str| keyed(&gateway, "count", key, &json!({"key": "a"}));
    for key in ["a", "b", "c"] {
        assert!(!is_replayed(&call(key)));
    }
    assert!(is_replayed(&call("c")) && is_replayed(&call("b")));
    assert!(!is_replayed(&call("a")));
}
