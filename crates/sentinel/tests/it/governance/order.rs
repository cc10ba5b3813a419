//! The order in which a call is judged, by what each refusal leaves unspent (C-5, decision 6): see and call, kill
//! switch, rate limit, arguments, circuit, admission.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Modern, kind_of, text_of, tool};
use crate::support::http::{self, Answer};
use crate::support::setup::{Gateway, Server, http_backend, until};
use crate::support::tokens::token;

/// What a caller may call at once; afterwards one a minute.
const BURST: usize = 5;
/// More than any bucket holds.
const MANY: usize = 3 * BURST;

fn config(more: &str) -> String {
    format!(
        "[auth]\n[rate_limits]\ndefault_rpm = 0\nburst = {BURST}\n[rate_limits.per_tool]\necho = 1\n\
         [rbac.roles.reader]\npermissions = [\"tools.read\"]\n\
         [rbac.roles.stranger]\npermissions = []\n{more}"
    )
}

/// Buckets belong to subjects, whatever role they come in.
fn caller(gateway: &Gateway, subject: &str, role: &str) -> Modern {
    let credential = token(json!({"sub": subject, "role": role}));
    Modern::new(gateway, "/mcp").bearing(&credential)
}

fn operator(gateway: &Gateway, verb: &str, path: &str, body: &Value) -> Answer {
    let bearer = format!("Bearer {}", token(json!({"sub": "operator"})));
    let headers = [
        ("Content-Type", "application/json"),
        ("Authorization", bearer.as_str()),
    ];
    let path = format!("/admin/api/{path}");
    let answer = http::send(&gateway.address, verb, &path, &headers, body.to_string()).finish();
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

/// What became of a call of `echo` with this text.
fn echo(caller: &Modern, text: Value) -> String {
    let answer = caller.call("echo", json!({ "text": text }));
    match kind_of(&answer) {
        "" if answer["result"]["isError"] == true => "invalid_arguments".to_owned(),
        "" => text_of(&answer),
        kind => kind.to_owned(),
    }
}

/// That so many calls pass, and no more.
#[track_caller]
fn assert_left(caller: &Modern, left: usize, why: &str) {
    let said: Vec<String> = (0..=left).map(|_| echo(caller, json!("x"))).collect();
    let mut expected = vec!["x"; left];
    expected.push("rate_limited");
    assert_eq!(said, expected, "{why}");
}

#[test]
fn c_5_neither_the_forbidden_nor_the_killed_spend_a_bucket_but_bad_arguments_do() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&config(&http_backend("alpha", &server.address, "")));

    let allowed = caller(&gateway, "alice", "admin");
    for (role, answer) in [("reader", "forbidden"), ("stranger", "unknown_name")] {
        let refused = caller(&gateway, "alice", role);
        for _ in 0..MANY {
            assert_eq!(echo(&refused, json!("x")), answer);
        }
    }
    assert_left(&allowed, BURST, "whoever may not call spends nothing");
    let forbidden = echo(&caller(&gateway, "alice", "reader"), json!("x"));
    assert_eq!(forbidden, "forbidden", "asked before the empty bucket");

    for (scope, name) in [
        ("tool", "echo"),
        ("backend", "alpha"),
        ("caller", "bob"),
        ("all", ""),
    ] {
        // A bucket of its own for each, but where the caller is what is off.
        let subject = if scope == "caller" { name } else { scope };
        let allowed = caller(&gateway, subject, "admin");
        let switch = json!({"scope": scope, "name": name, "reason": "test"});
        operator(&gateway, "POST", "kill", &switch);
        for _ in 0..MANY {
            assert_eq!(echo(&allowed, json!("x")), "disabled", "{scope}");
        }
        let switch = json!({"scope": scope, "name": name});
        operator(&gateway, "POST", "revive", &switch);
        assert_left(&allowed, BURST, scope);
    }

    let careless = caller(&gateway, "carol", "admin");
    for _ in 0..3 {
        assert_eq!(echo(&careless, json!(5)), "invalid_arguments");
    }
    assert_left(&careless, BURST - 3, "arguments are looked at for a price");
    let limited = echo(&careless, json!(5));
    assert_eq!(limited, "rate_limited", "and never for free");
}

#[test]
fn c_5_no_call_that_is_refused_before_admission_takes_a_place() {
    let server = Server::start(&[]);
    let fails = "timeout = 1\nhealth_interval = 300\nprefix = \"always\"\n[backends.circuit_breaker]\nthreshold = 1\nrecovery = 300";
    let backends =
        http_backend("alpha", &server.address, "") + &http_backend("beta", &server.address, fails);
    let places = "[admission]\nmax_concurrent = 1\nqueue_size = 0\n";
    let gateway = Gateway::ready(&config(&(places.to_owned() + &backends)));
    let alice = caller(&gateway, "alice", "admin");
    let to_beta = |ms: u64| kind_of(&alice.call("beta__slow", json!({ "ms": ms }))).to_owned();
    assert_eq!(to_beta(60_000), "backend_timeout", "once is enough");
    assert_left(&alice, BURST, "nothing was spent");

    let admission = || operator(&gateway, "GET", "status", &json!({})).json()["admission"].clone();
    let direct = Modern::at(&server.address, "/mcp", json!({}));
    let held = alice.send("tools/call", tool("barrier", json!({"name": "b"})));
    until("the only place is taken", || {
        (direct.said("waiting", json!({"name": "b"})) == "1").then_some(())
    });
    let before = admission();
    assert_eq!(before["active"], 1, "{before}");
    assert_eq!(to_beta(0), "circuit_open");
    assert_eq!(echo(&alice, json!("x")), "rate_limited");
    let bob = caller(&gateway, "bob", "admin");
    assert_eq!(echo(&bob, json!(5)), "invalid_arguments");
    let reader = caller(&gateway, "bob", "reader");
    assert_eq!(echo(&reader, json!("x")), "forbidden");
    assert_eq!(admission(), before, "nobody asked for a place");
    // So there was none to be had.
    assert_eq!(echo(&bob, json!("x")), "overloaded");
    direct.said("release", json!({"name": "b"}));
    drop(held.finish());
    assert_eq!(to_beta(0), "circuit_open");
    let after = admission();
    assert_eq!(
        (&after["admitted"], &after["active"]),
        (&before["admitted"], &json!(0)),
        "{after}"
    );
}
