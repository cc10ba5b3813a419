//! G-18, G-36, G-42, G-79, P-A01 to P-A06: every answered request has its record, whatever happens.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Modern, text_of};
use crate::support::elicitation::{accept, first_round, forms, retry};
use crate::support::http;
use crate::support::records::{call, export, open_session, post, verify, with_backend};
use crate::support::setup::{Gateway, Process, Server, Setup, http_backend, until};

/// How one request's record reads in the tables below: method, id, caller, decision, outcome, kind.
type Seen = [String; 6];

fn seen(records: &[Value], surface: &str) -> Vec<Seen> {
    let of = |r: &Value| {
        [
            "method",
            "request_id",
            "caller",
            "decision",
            "outcome",
            "kind",
        ]
        .map(|name| match &r[name] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        })
    };
    let of_surface = records.iter().filter(|r| r["surface"] == surface);
    let mut seen: Vec<Seen> = of_surface.map(of).collect();
    seen.sort();
    seen
}

#[track_caller]
fn assert_seen(records: &[Value], surface: &str, wanted: &[[&str; 6]]) {
    let mut wanted: Vec<Seen> = wanted.iter().map(|row| row.map(str::to_owned)).collect();
    wanted.sort();
    assert_eq!(seen(records, surface), wanted);
}

const JSON: (&str, &str) = ("content-type", "application/json");

/// Sends a request of each kind, valid and refused.
fn send_all_kinds(address: &str) {
    let session = open_session(address, "i1");
    let own = ("mcp-session-id", session.as_str());
    let say = |verb: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        http::send(address, verb, path, headers, body)
            .finish()
            .status
    };
    let list = json!({"jsonrpc": "2.0", "id": "l1", "method": "tools/list"});
    let ask = |body: &Value| post(address, Some(&session), body);
    ask(&call("c1", "echo"));
    ask(&call("c2", "no-such-tool"));
    ask(&list);
    ask(&json!({"jsonrpc": "2.0", "id": "m1", "method": "no/such"}));
    ask(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    // A batch in a session whose revision has none: each request of it, not the notification.
    ask(
        &json!([call("b1", "echo"), call("b2", "echo"), {"jsonrpc": "2.0", "method": "notifications/x"}]),
    );
    post(address, None, &call("s1", "echo"));
    post(address, Some("no-such-session"), &call("s2", "echo"));
    assert_eq!(say("POST", "/mcp", &[JSON, own], "{"), 400);
    assert_eq!(
        say(
            "POST",
            "/mcp",
            &[JSON, own],
            r#"{"jsonrpc":"2.0","id":"d1","method":"a","method":"b"}"#
        ),
        400
    );
    assert_eq!(say("POST", "/mcp", &[own], "{}"), 415);
    assert_eq!(
        say("POST", "/mcp", &[JSON, ("accept", "text/html")], "{}"),
        406
    );
    assert_eq!(say("POST", "/messages?session=x", &[JSON], "{}"), 404);
    assert_eq!(say("POST", "/nowhere", &[JSON], "{}"), 404);
    assert_eq!(say("GET", "/mcp", &[], ""), 405);
    assert_eq!(say("GET", "/mcp", &[own, ("accept", "text/html")], ""), 406);
    assert_eq!(say("DELETE", "/mcp", &[("mcp-session-id", "x")], ""), 404);
    assert_eq!(say("PATCH", "/mcp", &[], ""), 405);
    assert_eq!(say("DELETE", "/mcp", &[own], ""), 200);
    // Modern, the headers wrong and right.
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let modern =
        json!({"jsonrpc": "2.0", "id": "n1", "method": "tools/list", "params": {"_meta": meta}})
            .to_string();
    let version = ("mcp-protocol-version", "2026-07-28");
    assert_eq!(say("POST", "/mcp", &[JSON, version], &modern), 400);
    let named = [JSON, version, ("mcp-method", "tools/list")];
    assert_eq!(
        say("POST", "/mcp", &named, &modern.replace("n1", "n2")),
        200
    );
    for probe in ["/health", "/ready", "/metrics"] {
        assert_eq!(say("GET", probe, &[], ""), 200);
    }
    assert_eq!(say("GET", "/admin/api/status", &[], ""), 200);
    assert_eq!(say("GET", "/admin/api/nothing", &[], ""), 404);
    assert_eq!(
        say(
            "POST",
            "/admin/api/kill",
            &[JSON],
            r#"{"scope":"tool","name":"echo","reason":"t"}"#
        ),
        200
    );
    assert_eq!(say("POST", "/admin/api/kill", &[JSON], "{}"), 400);
}

#[test]
fn p_a06_every_request_over_http_leaves_one_record_refused_or_not() {
    let (_server, gateway) = with_backend("", "");
    send_all_kinds(&gateway.address);
    let setup = gateway.end();
    let records = export(&setup);
    #[rustfmt::skip] // a table has columns
    let expected = [
        ["initialize", "i1", "local", "allow", "success", ""],
        ["tools/call", "c1", "local", "allow", "success", ""],
        ["tools/call", "c2", "local", "deny", "denied", "unknown_name"],
        ["tools/list", "l1", "local", "allow", "success", ""],
        ["no/such", "m1", "local", "deny", "error", "method_not_found"],
        ["tools/call", "b1", "local", "deny", "error", "invalid_request"],
        ["tools/call", "b2", "local", "deny", "error", "invalid_request"],
        ["tools/call", "s1", "local", "deny", "error", "not_initialized"],
        ["tools/call", "s2", "local", "deny", "error", "unknown_session"],
        ["", "", "local", "deny", "error", "parse_error"],
        ["", "", "local", "deny", "error", "invalid_request"],
        ["", "", "local", "deny", "error", "unsupported_media_type"],
        ["", "", "local", "deny", "error", "not_acceptable"],
        ["", "", "local", "deny", "error", "unknown_session"],
        ["POST", "", "local", "deny", "error", "not_found"],
        ["GET", "", "local", "deny", "error", "method_not_allowed"],
        ["GET", "", "local", "deny", "error", "not_acceptable"],
        ["DELETE", "", "local", "deny", "error", "unknown_session"],
        ["PATCH", "", "local", "deny", "error", "method_not_allowed"],
        ["tools/list", "n1", "local", "deny", "error", "header_mismatch"],
        ["tools/list", "n2", "local", "allow", "success", ""],
    ];
    assert_seen(&records, "http", &expected);
    #[rustfmt::skip] // a table has columns
    let expected = [
        ["admin/status", "", "local", "allow", "success", ""],
        ["admin/nothing", "", "local", "deny", "error", "not_found"],
        ["admin/kill", "", "local", "allow", "success", ""],
        ["admin/kill", "", "local", "deny", "error", "invalid_params"],
    ];
    assert_seen(&records, "admin", &expected);
    let find =
        |name: &str, value: &str| records.iter().find(|r| r[name] == value).expect("a record");
    let called = find("request_id", "c1");
    assert_eq!(
        (&called["backend"], &called["operation"]),
        (&json!("alpha"), &json!("echo"))
    );
    assert_eq!(
        (&called["role"], &called["revision"]),
        (&json!("admin"), &json!("2025-06-18"))
    );
    assert_eq!(
        (&called["guarantee"], &called["args"]),
        (&json!("spool"), &Value::Null)
    );
    assert_eq!(called["args_digest"].as_str().expect("a digest").len(), 64);
    assert!(called["policy_version"].as_u64().expect("a number") > 0);
    assert!(called["bytes_in"].as_u64() > Some(50) && called["bytes_out"].as_u64() > Some(20));
    let killed = records
        .iter()
        .find(|r| r["method"] == "admin/kill" && r["outcome"] == "success");
    assert_eq!(killed.expect("a record")["operation"], "tool echo");
    assert_eq!(verify(&setup)["ok"], true);
}

#[test]
fn p_a06_every_request_over_stdio_leaves_one_record_too() {
    let server = Server::start(&[]);
    let setup = Setup::new(&http_backend("alpha", &server.address, ""));
    let mut process = setup.spawn_stdio();
    let mut input = process.stdin.take().expect("a pipe");
    let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
    let hello = json!({"jsonrpc": "2.0", "id": "i1", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let early = json!({"jsonrpc": "2.0", "id": "e1", "method": "tools/list"});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let ping = json!({"jsonrpc": "2.0", "id": "p1", "method": "ping"});
    let batch = json!([call("b1", "echo"), call("b2", "echo")]);
    let (lost, bad) = (call("c1", "no-such-tool"), "{".to_owned());
    // One answer to each but the notification.
    let lines = [
        hello.to_string(),
        early.to_string(),
        ready.to_string(),
        ping.to_string(),
        batch.to_string(),
        bad,
        lost.to_string(),
    ];
    for line in &lines {
        writeln!(input, "{line}").expect("it reads");
        if !line.contains("notifications/initialized") {
            // That a list changed may be told in between.
            let answer = loop {
                let mut answer = String::new();
                output.read_line(&mut answer).expect("an answer");
                if !answer.contains(r#""method":"notifications/"#) {
                    break answer;
                }
            };
            assert!(answer.contains("jsonrpc"), "{line}: {answer}");
        }
    }
    drop(input);
    process.wait().expect("it ends");
    #[rustfmt::skip] // a table has columns
    let expected = [
        ["initialize", "i1", "local", "allow", "success", ""],
        ["tools/list", "e1", "local", "deny", "error", "not_initialized"],
        ["ping", "p1", "local", "allow", "success", ""],
        ["tools/call", "b1", "local", "deny", "error", "invalid_request"],
        ["tools/call", "b2", "local", "deny", "error", "invalid_request"],
        ["", "", "local", "deny", "error", "parse_error"],
        ["tools/call", "c1", "local", "deny", "denied", "unknown_name"],
    ];
    assert_seen(&export(&setup), "stdio", &expected);
}

#[test]
fn p_a06_those_who_are_not_let_in_are_counted_by_address_and_second() {
    let gateway = Gateway::start("[auth]\n");
    for _ in 0..60 {
        assert_eq!(gateway.get("/mcp").status, 401);
    }
    let foreign = [("host", "evil.example")];
    assert_eq!(
        http::send(&gateway.address, "GET", "/mcp", &foreign, "")
            .finish()
            .status,
        403
    );
    let setup = gateway.end();
    let records = export(&setup);
    let of = |kind: &str| -> Vec<u64> {
        let those = records.iter().filter(|r| r["kind"] == kind);
        those
            .map(|r| {
                assert_eq!(
                    (&r["decision"], &r["outcome"]),
                    (&json!("deny"), &json!("denied"))
                );
                assert_eq!(r["args"]["address"], "127.0.0.1");
                r["args"]["count"].as_u64().expect("a number")
            })
            .collect()
    };
    let unauthorized = of("unauthorized");
    assert_eq!(unauthorized.iter().sum::<u64>(), 60);
    // Two for each second that it took.
    assert!(unauthorized.len() <= 12, "{unauthorized:?}");
    assert_eq!(of("forbidden"), [1]);
}

#[test]
fn p_s04_what_is_kept_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let (_server, gateway) = with_backend("", "");
    let session = open_session(&gateway.address, "i1");
    post(&gateway.address, Some(&session), &call("c1", "echo"));
    let mode = |path: &std::path::Path| {
        let meta = std::fs::metadata(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        format!("{:o}", meta.permissions().mode() & 0o777)
    };
    let data = gateway.setup.data();
    for folder in ["", "spool", "audit"] {
        assert_eq!(mode(&data.join(folder)), "700", "{folder}");
    }
    let lanes = std::fs::read_dir(data.join("spool")).expect("a spool");
    let mut files = vec![
        data.join("sentinel.db"),
        data.join("sentinel.db-wal"),
        data.join("audit/node"),
    ];
    for lane in lanes.flatten() {
        assert_eq!(mode(&lane.path()), "700");
        files.extend(
            std::fs::read_dir(lane.path())
                .expect("a lane")
                .flatten()
                .map(|e| e.path()),
        );
    }
    assert!(files.len() >= 5, "a lock and a segment: {files:?}");
    for file in files {
        assert_eq!(mode(&file), "600", "{file:?}");
    }
}

#[test]
fn arguments_are_recorded_only_as_configured() {
    let server = Server::start(&[]);
    let secret = json!({"jsonrpc": "2.0", "id": "c1", "method": "tools/call", "params": {"name": "echo",
        "arguments": {"text": "plain", "deep": [{"API_Key": "hunter2"}]}}});
    for (word, kept) in [
        ("off", Value::Null),
        ("digest", Value::Null),
        (
            "redacted",
            json!({"text": "plain", "deep": [{"API_Key": "[redacted]"}]}),
        ),
        ("full", secret["params"]["arguments"].clone()),
    ] {
        let backend = http_backend("alpha", &server.address, "");
        let gateway = Gateway::ready(&format!("[audit]\narguments = \"{word}\"\n{backend}"));
        let session = open_session(&gateway.address, "i1");
        post(&gateway.address, Some(&session), &secret);
        let setup = gateway.end();
        let records = export(&setup);
        let called = records
            .iter()
            .find(|r| r["request_id"] == "c1")
            .expect("a record");
        assert_eq!(called["args"], kept, "{word}");
        assert_eq!(called["args_digest"].is_null(), word == "off");
    }
}

#[test]
fn a_sync_call_has_its_intent_before_its_backend_is_called() {
    let (_server, gateway) = with_backend("", "guarantee = \"sync\"");
    let session = open_session(&gateway.address, "i1");
    let answer = post(&gateway.address, Some(&session), &call("c1", "echo")).expect("an answer");
    assert!(answer.body["result"].is_object());
    let setup = gateway.end();
    let records = export(&setup);
    let of_call: Vec<&Value> = records.iter().filter(|r| r["request_id"] == "c1").collect();
    let [intent, done] = of_call[..] else {
        panic!("intent and end: {of_call:?}")
    };
    assert_eq!(intent["outcome"], "intent");
    assert_eq!(done["outcome"], "success");
    assert_eq!(done["intent"], intent["seq"]);
}

#[test]
fn g_36_an_operator_finds_records_and_sees_new_ones_come() {
    let admin = "[rbac.roles.admin]\npermissions = [\"*\"]\ndenied_tools = [\"fail\"]";
    let (_server, gateway) = with_backend(admin, "");
    let session = open_session(&gateway.address, "hello");
    let say = |id: &str, tool: &str| {
        post(&gateway.address, Some(&session), &call(id, tool)).expect("an answer");
    };
    let audit = |args: &[&str]| {
        let (code, said, wrong) = gateway.setup.sentinel(&[&["audit"], args].concat());
        assert_eq!(code, 0, "{wrong}");
        said
    };
    say("first", "echo");
    say("refused", "fail");
    until("both are in the store", || {
        let all = audit(&["search", "--json"]);
        (all.contains("\"first\"") && all.contains("\"refused\"")).then_some(())
    });
    for (filter, found, other) in [
        (["--outcome", "denied"], "fail", "echo"),
        (["--tool", "echo"], "echo", "fail"),
        (["--backend", "alpha"], "echo", "initialize"),
    ] {
        let said = audit(&[&["search"], &filter[..]].concat());
        assert!(said.contains(found), "{filter:?}: {said}");
        assert!(!said.contains(other), "{filter:?}: {said}");
    }
    assert!(!audit(&["search", "--caller", "nobody"]).contains("echo"));

    let mut tail = gateway.setup.command("audit");
    tail.args(["tail", "--json", "--tool", "echo"]);
    let tail = tail.stdout(Stdio::piped()).spawn().expect("it starts");
    // Ended with the test, whatever becomes of it.
    let mut tail = Process(tail);
    let mut lines = BufReader::new(tail.0.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert!(next().contains("\"first\""), "the last one first");
    say("second", "echo");
    assert!(next().contains("\"second\""), "then the new one");
}

#[test]
fn audit_enabled_false_leaves_nothing() {
    let (_server, gateway) = with_backend("audit_enabled = false", "");
    open_session(&gateway.address, "i1");
    assert!(!gateway.setup.data().join("spool").exists());
    assert!(
        gateway
            .get("/metrics")
            .text
            .contains("sentinel_audit_enabled 0")
    );
}

/// A call that waits for its caller (parked at a server of sessions, relayed at a modern one) has one intent, which
/// the record of its first round completes.
#[test]
fn issue_17_a_call_of_several_rounds_has_one_intent() {
    let servers = ["legacy", "modern"].map(|era| Server::start(&["--era", era]));
    let sync = "guarantee = \"sync\"";
    let config = http_backend("hl", &servers[0].address, sync)
        + &http_backend("hm", &servers[1].address, sync);
    let gateway = Gateway::ready(&config);
    for backend in ["hl", "hm"] {
        let caller = Modern::with(&gateway, &format!("/mcp/{backend}"), forms());
        let first = first_round(&caller, "Who?");
        let mut unanswered = retry(&first, "Who?", accept("x"));
        unanswered["inputResponses"] = json!({});
        let second = caller.result("tools/call", unanswered);
        assert_eq!(
            second["resultType"], "input_required",
            "{backend}: {second}"
        );
        let done = caller.ask("tools/call", retry(&second, "Who?", accept("Ada")));
        assert_eq!(text_of(&done), "hello Ada", "{backend}");
    }
    let mut records = export(&gateway.end());
    records.retain(|record| record["method"] == "tools/call");
    records.sort_by_key(|record| record["request_id"].as_u64());
    for backend in ["hl", "hm"] {
        let of_call = records.iter().filter(|record| record["backend"] == backend);
        let (intents, rounds): (Vec<&Value>, Vec<&Value>) =
            of_call.partition(|record| record["outcome"] == "intent");
        let outcomes: Vec<&Value> = rounds.iter().map(|round| &round["outcome"]).collect();
        assert_eq!(
            outcomes,
            ["input_required", "input_required", "success"],
            "{backend}"
        );
        let [intent] = intents[..] else {
            panic!("{backend}: {intents:?}")
        };
        assert_eq!(intent["request_id"], rounds[0]["request_id"], "{backend}");
        assert_eq!(rounds[0]["intent"], intent["seq"], "{backend}");
        assert!(
            rounds.iter().all(|round| round["guarantee"] == "sync"),
            "{backend}"
        );
    }
}
