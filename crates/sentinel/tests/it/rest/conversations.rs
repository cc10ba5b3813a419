//! Calls that say something before they end: streams of progress and log lines, and questions to the caller.

use serde_json::{Value, json};

use crate::support::setup::{Gateway, Server, http_backend, stdio_backend, until};
use crate::support::tokens::token;
use crate::support::web::{JSON_BODY, Web};

const EVENTS: (&str, &str) = ("Accept", "text/event-stream");
const LINES: (&str, &str) = ("Accept", "application/jsonl");

/// Both eras over HTTP, a child, and one that may ask.
struct Talkative {
    gateway: Gateway,
    _servers: [Server; 2],
}

impl Talkative {
    fn start() -> Self {
        let legacy = Server::start(&["--era", "legacy"]);
        let modern = Server::start(&["--era", "modern"]);
        let prefix = "prefix = \"always\"";
        let gateway = Gateway::ready(&format!(
            "[auth]\n{}{}{}{}",
            http_backend("old", &legacy.address, prefix),
            http_backend("new", &modern.address, prefix),
            stdio_backend("child", &[], prefix),
            stdio_backend(
                "asking",
                &[],
                "prefix = \"always\"\ninteractive = \"serialize\""
            ),
        ));
        let _servers = [legacy, modern];
        Self { gateway, _servers }
    }

    fn web(&self, subject: &str) -> Web {
        let token = token(json!({"role": "admin", "sub": subject}));
        Web::new(&self.gateway).bearing(&token)
    }
}

/// The records of an answer, whichever of the two forms it has.
fn records(text: &str) -> Vec<Value> {
    let lines = text
        .lines()
        .filter_map(|line| match line.strip_prefix("data:") {
            Some(data) => Some(data.trim()),
            None => Some(line).filter(|line| line.starts_with('{')),
        });
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

fn types(records: &[Value]) -> Vec<&str> {
    let types = records.iter().map(|record| record["type"].as_str());
    types.map(|word| word.expect("a type")).collect()
}

#[test]
fn e_8_a_call_streams_progress_and_log_lines_and_ends_with_its_result() {
    let talkative = Talkative::start();
    let web = talkative.web("alice");
    for backend in ["old", "new", "child"] {
        for (accept, media_type) in [(EVENTS, "text/event-stream"), (LINES, "application/jsonl")] {
            let path = format!("/api/{backend}__chatty");
            let answer = web.post_with(&path, &json!({"n": 2}), &[accept]);
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.header("content-type"), media_type);
            assert_eq!(answer.header("cache-control"), "no-cache");
            let records = records(&answer.text);
            let (last, before) = records.split_last().expect("records");
            assert_eq!(last["type"], "result", "{records:?}");
            assert!(last["result"]["content"].is_array(), "{last}");
            let kinds = types(before);
            for kind in ["progress", "log"] {
                let count = kinds.iter().filter(|known| **known == kind).count();
                assert_eq!(count, 2, "{kind} of {backend}: {records:?}");
            }
            assert_eq!(
                before
                    .iter()
                    .find(|r| r["type"] == "progress")
                    .expect("one")["progress"],
                1
            );
        }
    }
    let plain = web.post("/api/old__chatty", &json!({"n": 2}));
    assert_eq!(plain.header("content-type"), "application/json");
    let unsaid = web.post_with("/api/old__echo", &json!({"text": "x"}), &[EVENTS]);
    assert_eq!(types(&records(&unsaid.text)), ["result"], "{unsaid:?}");
}

#[test]
fn e_8_a_stream_that_fails_ends_with_the_problem_of_the_failure() {
    let talkative = Talkative::start();
    let web = talkative.web("alice");
    let early = web.post_with("/api/old__echo", &json!({"text": 7}), &[EVENTS]);
    assert_eq!(
        early.status, 422,
        "before the stream began it is an ordinary answer"
    );
    assert_eq!(early.header("content-type"), "application/problem+json");
    for accept in [EVENTS, LINES] {
        let stream = web.send(
            "POST",
            "/api/old__chatty",
            &[JSON_BODY, accept],
            r#"{"n": 1000, "ms": 100}"#,
        );
        // The head comes with the first record.
        let stream = stream.head();
        assert_eq!(stream.status, 200);
        let killed = web.post(
            "/admin/api/kill",
            &json!({"scope": "tool", "name": "old__chatty", "reason": "test"}),
        );
        assert_eq!(killed.status, 200, "{killed:?}");
        let rest = stream.finish();
        let records = records(&rest.text);
        let last = records.last().expect("a last record");
        assert_eq!(last["type"], "error", "{records:?}");
        assert_eq!(last["error"]["code"], "disabled", "{last}");
        assert_eq!(last["error"]["type"], "/problems/disabled", "{last}");
        let revived = web.post(
            "/admin/api/revive",
            &json!({"scope": "tool", "name": "old__chatty"}),
        );
        assert_eq!(revived.status, 200, "{revived:?}");
    }
}

#[test]
fn issue_18_a_client_that_goes_away_cancels_its_call() {
    let talkative = Talkative::start();
    let web = talkative.web("alice");
    for backend in ["old", "new", "child"] {
        let waiting = || {
            let answer = web.rpc(&format!("{backend}__waiting"), &json!({"name": "gone"}));
            answer.json()["result"]["content"][0]["text"].clone()
        };
        let path = format!("/api/{backend}__barrier");
        let call = web.send("POST", &path, &[JSON_BODY], r#"{"name":"gone"}"#);
        until("it waits", || (waiting() == "1").then_some(()));
        call.hang_up();
        until("it is gone", || (waiting() == "0").then_some(()));
    }
}

/// What a call asks: its state, the id of its only question, and the question.
#[track_caller]
fn asked(web: &Web, path: &str, body: &Value) -> (Value, String, Value) {
    let answer = web.post(path, body);
    let problem = answer.json();
    assert_eq!(
        (answer.status, &problem["code"]),
        (409, &json!("input_required")),
        "{problem}"
    );
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let requests = problem["inputRequests"].as_object().expect("questions");
    let (id, question) = requests.iter().next().expect("one");
    (
        problem["requestState"].clone(),
        id.clone(),
        question.clone(),
    )
}

#[test]
fn issue_18_a_question_is_a_409_and_its_answer_continues_the_call() {
    let talkative = Talkative::start();
    let (alice, bob) = (talkative.web("alice"), talkative.web("bob"));
    for backend in ["old", "new", "asking"] {
        let path = format!("/api/{backend}__ask");
        let arguments = json!({"message": "Who is there?"});
        let (state, id, question) = asked(&alice, &path, &arguments);
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let message = question["params"]["message"].as_str();
        assert!(
            message.is_some_and(|text| text.ends_with("Who is there?")),
            "{question}"
        );
        let answers = json!({ id: {"action": "accept", "content": {"name": "Ada"}} });
        let body =
            json!({"arguments": arguments, "requestState": state, "inputResponses": answers});
        let path = format!("{path}/continue");
        let foreign = bob.post(&path, &body);
        assert_eq!(foreign.json()["code"], "bad_state", "{foreign:?}");
        let done = alice.post(&path, &body);
        assert_eq!(done.status, 200, "{backend}: {done:?}");
        assert!(done.text.contains("Ada"), "{done:?}");
        let again = alice.post(&path, &body);
        assert_eq!(again.json()["code"], "bad_state", "used: {again:?}");
    }
    let missing = alice.post("/api/old__ask/continue", &json!({"arguments": {}}));
    assert_eq!(
        (missing.status, &missing.json()["code"]),
        (400, &json!("invalid_params"))
    );
}

/// A backend of 2026-07-28 keeps its state in the caller's hands: the gateway tells a first use of it from a second.
#[test]
fn issue_18_a_state_whose_call_was_refused_before_it_ran_stays_good() {
    let talkative = Talkative::start();
    let alice = talkative.web("alice");
    let arguments = json!({"message": "Who is there?"});
    let (state, id, _) = asked(&alice, "/api/new__ask", &arguments);
    let answers = json!({ id: {"action": "accept", "content": {"name": "Ada"}} });
    let body = json!({"arguments": arguments, "requestState": state, "inputResponses": answers});
    let go_on = || alice.post("/api/new__ask/continue", &body);
    let tool = json!({"scope": "tool", "name": "new__ask", "reason": "test"});
    assert_eq!(alice.post("/admin/api/kill", &tool).status, 200);
    let refused = go_on();
    assert_eq!(refused.json()["code"], "disabled", "{refused:?}");
    let tool = json!({"scope": "tool", "name": "new__ask"});
    assert_eq!(alice.post("/admin/api/revive", &tool).status, 200);
    let done = go_on();
    assert!(done.status == 200 && done.text.contains("Ada"), "{done:?}");
    let again = go_on();
    assert_eq!(again.json()["code"], "bad_state", "{again:?}");
}

#[test]
fn issue_18_sampling_is_asked_for_likewise_and_over_json_rpc() {
    let talkative = Talkative::start();
    let web = talkative.web("alice");
    let arguments = json!({"prompt": "Say hello"});
    let (state, id, question) = asked(&web, "/api/old__ask_sampling", &arguments);
    assert_eq!(question["method"], "sampling/createMessage", "{question}");
    let said = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hello there"}});
    let body = json!({"arguments": arguments, "requestState": state, "inputResponses": {id: said}});
    let done = web.post("/api/old__ask_sampling/continue", &body);
    assert!(
        done.status == 200 && done.text.contains("hello there"),
        "{done:?}"
    );

    let arguments = json!({"message": "Who?"});
    let refused = web.rpc("new__ask", &arguments);
    assert_eq!(refused.status, 409, "{refused:?}");
    let data = refused.json()["error"]["data"].clone();
    assert_eq!(data["code"], "input_required");
    let id = data["inputRequests"]
        .as_object()
        .and_then(|all| all.keys().next().cloned());
    let answers = json!({ id.expect("one"): {"action": "accept", "content": {"name": "Bo"}} });
    let done = web.rpc(
        "rpc.continue",
        &json!({"method": "new__ask", "params": arguments,
        "requestState": data["requestState"], "inputResponses": answers}),
    );
    assert!(done.status == 200 && done.text.contains("Bo"), "{done:?}");
}

#[test]
fn d_20_a_batch_runs_side_by_side_and_its_notifications_are_not_answered() {
    let talkative = Talkative::start();
    let web = talkative.web("alice");
    // Three calls that wait for each other: one after the other would hang.
    let meet = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "old__barrier", "params": {"name": "batch", "count": 3}});
    let note = json!({"jsonrpc": "2.0", "method": "old__count", "params": {"key": "note"}});
    let wrong = json!({"jsonrpc": "2.0", "id": "w", "method": "old__echo", "params": {"text": 1}});
    let batch = json!([meet(1), meet(2), note, wrong, meet(3), 7]);
    let answer = web.post("/rpc", &batch);
    assert_eq!(answer.status, 200, "{answer:?}");
    let answers = answer.json();
    let ids: Vec<&Value> = answers
        .as_array()
        .expect("answers")
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(
        ids,
        [&json!(1), &json!(2), &json!("w"), &json!(3), &Value::Null],
        "{answers}"
    );
    assert_eq!(answers[2]["error"]["code"], -32602, "{answers}");
    assert_eq!(answers[4]["error"]["code"], -32600, "{answers}");
    let executed = web.rpc("old__executed", &json!({"key": "note"})).json();
    assert_eq!(executed["result"]["content"][0]["text"], "1", "{executed}");
    let only_notes = web.post("/rpc", &json!([note]));
    assert_eq!((only_notes.status, &*only_notes.text), (204, ""));
    let empty = web.post("/rpc", &json!([]));
    assert_eq!(empty.json()["error"]["code"], -32600, "{empty:?}");
}
