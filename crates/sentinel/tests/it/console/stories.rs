//! `/admin/api/audit/record`: what happened in one call.

use std::thread;

use serde_json::{Value, json};

use super::live::open;
use crate::support::callers::{Caller, Modern, tool};
use crate::support::elicitation::{accept, first_round, forms, retry};
use crate::support::records::with_backend;
use crate::support::setup::{Gateway, Server, http_backend, until};
use crate::support::web::Web;

/// The story of the newest record that a filter finds.
#[track_caller]
fn story(web: &Web, filter: &str) -> Value {
    let key = until("the record is in the store", || {
        let page = web
            .get(&format!("/admin/api/audit?limit=1&{filter}"))
            .json();
        let record = page["records"].get(0)?.clone();
        let member = |name: &str| record[name].to_string().replace('"', "");
        Some(["node", "lane", "seq"].map(member).join("."))
    });
    let answer = web.get(&format!("/admin/api/audit/record?key={key}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn step<'v>(story: &'v Value, name: &str) -> &'v Value {
    let steps = story["steps"].as_array().expect("steps");
    let found = steps.iter().find(|step| step["step"] == name);
    found.unwrap_or_else(|| panic!("no step {name}: {story}"))
}

fn verdicts(story: &Value) -> Vec<&str> {
    let steps = story["steps"].as_array().expect("steps");
    let verdict = |step: &'_ Value| step["verdict"].as_str().map(|_| ());
    assert!(steps.iter().all(|step| verdict(step).is_some()));
    steps
        .iter()
        .map(|step| step["verdict"].as_str().expect("text"))
        .collect()
}

#[test]
fn a_watched_call_has_a_time_for_each_step_it_took() {
    let (_server, gateway) = with_backend("", "");
    let web = Web::new(&gateway);
    let _watching = open(&web, "live");
    let caller = Modern::new(&gateway, "/mcp");
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let call = tool("slow", json!({"ms": 40}));
    let more = [("traceparent", parent.as_str())];
    caller
        .send_with(&json!("s1"), "tools/call", call, &more)
        .finish();
    let told = story(&web, "tool=slow");
    assert_eq!(
        (&told["story_known"], &told["trace_id"]),
        (&json!(true), &json!(trace))
    );
    assert_eq!(
        (&told["attempts"], &told["questions"]),
        (&json!(1), &json!(0)),
        "{told}"
    );
    assert_eq!(
        (&told["rounds"], &told["began_ms"]),
        (&json!(1), &told["record"]["at_ms"])
    );
    assert!(told["backend_us"].as_u64() >= Some(40_000), "{told}");
    assert!(
        told["backend_us"].as_u64() <= told["record"]["latency_us"].as_u64(),
        "{told}"
    );
    let steps = told["steps"].as_array().expect("steps");
    let mut end = 0;
    for step in steps {
        // Each step begins when the one before ended.
        let at = step["at_us"].as_u64().unwrap_or_else(|| panic!("{told}"));
        assert!(at >= end, "{told}");
        end = at + step["took_us"].as_u64().expect("a time");
    }
    assert_eq!(step(&told, "backend")["verdict"], "passed");
    assert_eq!(step(&told, "recall")["verdict"], "skipped");
    assert_eq!(step(&told, "intend")["verdict"], "skipped");

    caller.call("no-such-tool", json!({}));
    let told = story(&web, "tool=no-such-tool");
    assert_eq!(told["story_known"], true);
    assert_eq!(step(&told, "resolve")["verdict"], "refused", "{told}");
    assert!(
        verdicts(&told)[1..]
            .iter()
            .all(|verdict| *verdict == "not_reached")
    );
    assert_eq!(
        (&told["attempts"], &told["backend_us"]),
        (&json!(0), &Value::Null)
    );

    // By request id, the newest that has it.
    let by_id = web
        .get("/admin/api/audit/record?request_id=%22s1%22&caller=local")
        .json();
    assert_eq!(by_id["record"]["operation"], "slow");
    let list = story(&web, "method=admin/audit");
    assert_eq!(list["steps"], json!([]));
    let missing = web.get("/admin/api/audit/record?key=nobody.2.1");
    assert_eq!(missing.status, 404, "{missing:?}");
}

/// Nobody watched, so nothing was noted, and the record says where its call ended.
#[test]
fn without_times_the_record_tells_the_verdicts() {
    let (_server, gateway) = with_backend("", "");
    let web = Web::new(&gateway);
    let caller = Modern::new(&gateway, "/mcp");
    let kill = json!({"scope": "tool", "name": "echo", "reason": "a test"});
    web.post("/admin/api/kill", &kill);
    caller.call("echo", json!({"text": "a"}));
    let told = story(&web, "tool=echo");
    assert_eq!(
        (&told["story_known"], &told["attempts"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(
        verdicts(&told)[..4],
        ["passed", "passed", "refused", "not_reached"]
    );
    assert_eq!(step(&told, "kill")["note"], "disabled");
    assert_eq!(step(&told, "kill")["at_us"], Value::Null);
    caller.call("fail", json!({"text": "no"}));
    let told = story(&web, "tool=fail");
    assert_eq!(step(&told, "backend")["verdict"], "failed", "{told}");
}

#[test]
fn a_call_that_waited_for_a_place_says_how_long() {
    let server = Server::start(&[]);
    let alpha = http_backend("alpha", &server.address, "");
    let config = format!("[admission]\nmax_concurrent = 1\nqueue_size = 4\n{alpha}");
    let gateway = Gateway::ready(&config);
    let web = Web::new(&gateway);
    let _watching = open(&web, "audit/live");
    thread::scope(|scope| {
        let call = |id: &'static str| {
            let caller = Modern::new(&gateway, "/mcp");
            let call = tool("slow", json!({"ms": 80}));
            caller.send_as(&json!(id), "tools/call", call)
        };
        let first = scope.spawn(move || call("first").finish());
        until("the first runs", || {
            let status = web.get("/admin/api/status").json();
            (status["admission"]["active"] == 1).then_some(())
        });
        let caller = Modern::new(&gateway, "/mcp");
        let second = tool("slow", json!({"ms": 1}));
        caller
            .send_as(&json!("second"), "tools/call", second)
            .finish();
        first.join().expect("no panic");
    });
    let told = until("the second call has its story", || {
        let path = "/admin/api/audit/record?request_id=%22second%22";
        let answer = web.get(path);
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(step(&told, "admit")["verdict"], "waited", "{told}");
    assert!(told["waited_us"].as_u64() >= Some(1_000), "{told}");
    assert_eq!(told["waited_us"], step(&told, "admit")["took_us"]);
}

/// A call that asked its caller began with an earlier request than the one whose record it ends with.
#[test]
fn a_call_that_asked_says_how_often_and_when_it_began() {
    let server = Server::start(&["--era", "legacy"]);
    let alpha = http_backend("alpha", &server.address, "");
    let gateway = Gateway::ready(&alpha);
    let web = Web::new(&gateway);
    let _watching = open(&web, "live");
    let caller = Modern::with(&gateway, "/mcp", forms());
    let round = first_round(&caller, "who?");
    let answer = caller.ask("tools/call", retry(&round, "who?", accept("Ann")));
    assert!(answer["result"]["content"].is_array(), "{answer}");
    let told = story(&web, "tool=ask&outcome=success");
    assert_eq!(told["questions"], 1, "{told}");
    assert_eq!(told["story_known"], true);
    assert!(told["began_ms"].as_u64() < told["record"]["at_ms"].as_u64().map(|ms| ms + 1));
    assert_eq!(step(&told, "backend")["verdict"], "passed");
    let asked = story(&web, "tool=ask&outcome=input_required");
    assert_eq!(asked["began_ms"], told["began_ms"]);
    assert_eq!(
        step(&asked, "backend")["note"],
        "waits for its caller",
        "{asked}"
    );
}
