//! `Prefer: respond-async`: a call that is answered later, at a URL of its own (RFC 7240).

use serde_json::{Value, json};

use super::posting::{code, get, post, release, send, text, waiting};
use crate::support::http::Answer;
use crate::support::records::export;
use crate::support::setup::{Gateway, Server, http_backend, until};
use crate::support::tokens::token;

const LATER: (&str, &str) = ("Prefer", "respond-async");
/// Waits longer than anything takes; only failures wait so long.
const PATIENTLY: (&str, &str) = ("Prefer", "wait=20");

fn gateway(server: &Server, more: &str) -> Gateway {
    let backend = http_backend("one", &server.address, "");
    Gateway::ready(&format!("{more}{backend}"))
}

/// Where a call that was begun is to be seen.
#[track_caller]
fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.header("preference-applied"), "respond-async");
    let location = answer.header("location");
    assert!(location.starts_with("/api/tasks/"), "{location}");
    location.to_owned()
}

/// Begins a call that waits at a barrier of the fixture.
#[track_caller]
fn begun(gateway: &Gateway, name: &str, headers: &[(&str, &str)]) -> String {
    let headers = [&[LATER], headers].concat();
    let answer = post(gateway, "barrier", &headers, &json!({"name": name}));
    waiting(gateway, name, 1);
    location(&answer)
}

#[test]
fn issue_18_a_call_is_begun_seen_and_answered_later() {
    let server = Server::start(&[]);
    let gateway = gateway(&server, "");
    let url = begun(&gateway, "b", &[]);
    let seen = until("its progress is shown", || {
        let seen = get(&gateway, &url, &[]);
        (seen.json()["progress"]["progress"] == 1).then_some(seen)
    });
    assert_eq!((seen.status, seen.header("retry-after")), (202, "1"));
    let status = seen.json();
    assert_eq!(
        (&status["state"], &status["operation"]),
        (&json!("working"), &json!("barrier"))
    );
    assert!(url.ends_with(status["id"].as_str().expect("an id")));
    assert!(
        status["created_at_ms"]
            .as_u64()
            .is_some_and(|ms| ms > 1_600_000_000_000)
    );
    release(&gateway, "b");
    let answer = get(&gateway, &url, &[PATIENTLY]);
    let ordinary = send(
        &gateway,
        "POST",
        "/api/barrier",
        &[],
        &json!({"name": "b", "count": 1}),
    );
    let ordinary = ordinary.finish();
    assert_eq!(text(&answer), text(&ordinary));
    assert_eq!(
        answer.header("content-type"),
        ordinary.header("content-type")
    );
    assert_eq!(get(&gateway, &url, &[]).text, answer.text, "read again");
    let gone = send(&gateway, "DELETE", &url, &[], &json!({})).finish();
    assert_eq!(gone.status, 204);
    assert_eq!(get(&gateway, &url, &[]).status, 404);
}

#[test]
fn issue_18_what_is_decided_in_time_is_answered_at_once() {
    let server = Server::start(&[]);
    let gateway = gateway(&server, "");
    let wrong = post(&gateway, "count", &[LATER], &json!({"key": 1}));
    assert_eq!(
        (wrong.status, code(&wrong).as_str()),
        (422, "invalid_arguments")
    );
    // Whether a tool exists may have to be asked of the backends first.
    let unknown = post(&gateway, "nonesuch", &[LATER], &json!({}));
    let unknown = match unknown.status {
        202 => get(&gateway, &location(&unknown), &[PATIENTLY]),
        _ => unknown,
    };
    assert_eq!(
        (unknown.status, code(&unknown).as_str()),
        (404, "unknown_name")
    );
    let patient = [("Prefer", "respond-async, wait=20")];
    let answer = post(&gateway, "echo", &patient, &json!({"text": "x"}));
    assert_eq!(
        (text(&answer).as_str(), answer.header("location")),
        ("x", "")
    );
    // A failure later is the problem document that it would have been.
    let failed = post(&gateway, "fail", &[LATER], &json!({"text": "no"}));
    let failed = match failed.status {
        202 => get(&gateway, &location(&failed), &[PATIENTLY]),
        _ => failed,
    };
    assert_eq!((failed.status, code(&failed).as_str()), (422, "tool_error"));
}

#[test]
fn p_r08_a_call_that_is_deleted_is_cancelled() {
    let server = Server::start(&[]);
    let gateway = gateway(&server, "");
    let url = begun(&gateway, "b", &[]);
    assert_eq!(
        send(&gateway, "DELETE", &url, &[], &json!({}))
            .finish()
            .status,
        204
    );
    waiting(&gateway, "b", 0);
    assert_eq!(get(&gateway, &url, &[]).status, 404);
    let again = send(&gateway, "DELETE", &url, &[], &json!({})).finish();
    assert_eq!((again.status, code(&again).as_str()), (404, "not_found"));
}

#[test]
fn p_s07_a_call_is_seen_by_the_whole_identity_that_made_it_only() {
    let server = Server::start(&[]);
    let role = "[rbac.roles.other]\npermissions = [\"*\"]\n";
    let gateway = gateway(
        &server,
        &format!("[auth]\njwt_secret_env = \"JWT_SECRET_KEY\"\n{role}"),
    );
    let bearer = |claims: Value| format!("Bearer {}", token(claims));
    let alice = bearer(json!({"sub": "alice"}));
    let own = ("Authorization", alice.as_str());
    let call = post(&gateway, "slow", &[LATER, own], &json!({"ms": 60_000}));
    let url = location(&call);
    for claims in [
        json!({"sub": "bob"}),
        json!({"sub": "alice", "role": "other"}),
        json!({"sub": "alice", "tenant_id": "t"}),
        json!({"sub": "alice", "scope": "x"}),
    ] {
        let other = bearer(claims.clone());
        let other = ("Authorization", other.as_str());
        let seen = get(&gateway, &url, &[other]);
        assert_eq!(
            (seen.status, code(&seen).as_str()),
            (404, "not_found"),
            "{claims}"
        );
        let gone = send(&gateway, "DELETE", &url, &[other], &json!({})).finish();
        assert_eq!(gone.status, 404, "{claims}");
    }
    assert_eq!(get(&gateway, &url, &[own]).status, 202);
    assert_eq!(get(&gateway, &url, &[]).status, 401);
}

#[test]
fn issue_18_what_a_call_asks_is_shown_and_its_answers_continue_it() {
    for era in ["legacy", "modern"] {
        let server = Server::start(&["--era", era]);
        let gateway = gateway(&server, "");
        let begun = post(&gateway, "ask", &[LATER], &json!({"message": "who?"}));
        let url = location(&begun);
        let asked = get(&gateway, &url, &[PATIENTLY]);
        assert_eq!(
            (asked.status, code(&asked).as_str()),
            (409, "input_required"),
            "{era}"
        );
        let asked = asked.json();
        let (key, question) = asked["inputRequests"]
            .as_object()
            .and_then(|all| all.iter().next())
            .expect("a question");
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(asked["continue"], format!("{url}/continue"));
        let path = format!("{url}/continue");
        // Ours to check where the call waits here; a modern backend hears of it.
        if era == "legacy" {
            let wrong = json!({"inputResponses": 7});
            let wrong = send(&gateway, "POST", &path, &[], &wrong).finish();
            assert_eq!(
                (wrong.status, code(&wrong).as_str()),
                (400, "invalid_params")
            );
            assert_eq!(get(&gateway, &url, &[]).status, 409, "it still asks");
        }
        let given = json!({"action": "accept", "content": {"name": "Ada"}});
        let given = json!({"inputResponses": {key: given}});
        let gone_on = send(&gateway, "POST", &path, &[], &given).finish();
        assert_eq!(location(&gone_on), url, "{era}");
        let answer = get(&gateway, &url, &[PATIENTLY]);
        assert!(text(&answer).contains("Ada"), "{era}: {answer:?}");
        let late = send(&gateway, "POST", &path, &[], &given).finish();
        assert_eq!(
            (late.status, code(&late).as_str()),
            (400, "bad_state"),
            "{era}"
        );
    }
}

/// A call that waits for its caller is ended at its backend, too.
#[test]
fn p_r08_a_call_that_asks_and_is_deleted_ends_at_its_backend() {
    let server = Server::start(&["--era", "legacy"]);
    let gateway = gateway(&server, "");
    let url = location(&post(
        &gateway,
        "ask",
        &[LATER],
        &json!({"message": "who?"}),
    ));
    assert_eq!(get(&gateway, &url, &[PATIENTLY]).status, 409);
    let cancelled = || {
        let said = post(&gateway, "cancelled", &[], &json!({}));
        text(&said)
    };
    let before = cancelled();
    assert_eq!(
        send(&gateway, "DELETE", &url, &[], &json!({}))
            .finish()
            .status,
        204
    );
    until("the backend hears of it", || {
        (cancelled() != before).then_some(())
    });
}

#[test]
fn p_s07_a_tool_that_is_switched_off_ends_its_calls_and_hides_their_answers() {
    let server = Server::start(&[]);
    let gateway = gateway(&server, "");
    let url = begun(&gateway, "b", &[]);
    let (exit, _, wrong) = gateway.setup.sentinel(&["kill", "tool", "one.barrier"]);
    assert_eq!(exit, 0, "{wrong}");
    waiting(&gateway, "b", 0);
    let ended = get(&gateway, &url, &[PATIENTLY]);
    assert_eq!((ended.status, code(&ended).as_str()), (503, "disabled"));
}

#[test]
fn issue_18_a_key_makes_one_call_that_is_answered_later() {
    let server = Server::start(&[]);
    let gateway = gateway(&server, "");
    let key = ("Idempotency-Key", "k");
    let url = begun(&gateway, "b", &[key]);
    let again = post(&gateway, "barrier", &[LATER, key], &json!({"name": "b"}));
    assert_eq!(location(&again), url);
    assert_eq!(again.header("idempotency-replayed"), "true");
    waiting(&gateway, "b", 1);
}

#[test]
fn g_36_a_call_that_is_answered_later_has_one_record() {
    let server = Server::start(&[]);
    let gateway = gateway(&server, "");
    let done = begun(&gateway, "done", &[]);
    release(&gateway, "done");
    assert_eq!(get(&gateway, &done, &[PATIENTLY]).status, 200);
    let deleted = begun(&gateway, "deleted", &[]);
    send(&gateway, "DELETE", &deleted, &[], &json!({})).finish();
    waiting(&gateway, "deleted", 0);
    begun(&gateway, "unfinished", &[]);
    // The gateway does not wait for a call of which nobody will hear.
    let setup = gateway.end();
    let records = export(&setup);
    let of_rest = records.iter().filter(|record| record["surface"] == "rest");
    let word = |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let mut told: Vec<_> = of_rest
        .map(|r| ["method", "operation", "outcome"].map(|name| word(r, name)))
        .collect();
    told.sort();
    let expected = [
        ["tasks/cancel", "barrier", "success"],
        ["tasks/get", "barrier", "success"],
        ["tools/call", "barrier", "cancelled"],
        ["tools/call", "barrier", "cancelled"],
        ["tools/call", "barrier", "success"],
    ];
    assert_eq!(told, expected.map(|record| record.map(str::to_owned)));
}
