//! A backend asks its caller in the middle of a call, in every pairing of eras: legacy callers get
//! a request on the call's stream, modern ones `input_required` and a state to come back with.

use serde_json::{Value, json};

use crate::support::callers::{
    Caller, Legacy, Modern, kind_of, notification, request, text_of, tool,
};
use crate::support::elicitation::{accept, first_round, forms, retry};
use crate::support::pipe::Pipe;
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend, until};

/// Four backends that may ask: children of one caller each may, shared ones may not.
fn askers() -> (Gateway, [Server; 2]) {
    let legacy = Server::start(&["--era", "legacy"]);
    let modern = Server::start(&["--era", "modern"]);
    let config = [
        http_backend("hl", &legacy.address, ""),
        http_backend("hm", &modern.address, ""),
        stdio_backend("sl", &["--era", "legacy"], "isolation = \"caller\""),
        stdio_backend("sm", &["--era", "modern"], "isolation = \"caller\""),
    ];
    (Gateway::ready(&config.concat()), [legacy, modern])
}

const BACKENDS: [&str; 4] = ["hl", "hm", "sl", "sm"];

#[test]
fn c_39_that_roots_changed_is_told_to_legacy_servers_by_callers_who_said_they_would() {
    let (gateway, _servers) = askers();
    let changed = notification("notifications/roots/list_changed", json!({}));
    for backend in BACKENDS {
        let path = format!("/mcp/{backend}");
        let able = json!({"roots": {"listChanged": true}});
        let teller = Legacy::with(&gateway, &path, "2025-11-25", able);
        let who: Value = serde_json::from_str(&teller.said("whoami", json!({}))).expect("JSON");
        let is_legacy = backend.ends_with('l');
        let told = match is_legacy {
            true => json!({"listChanged": true}),
            false => json!({}),
        };
        assert_eq!(who["capabilities"]["roots"], told, "{backend}");
        let heard = |caller: &Legacy| {
            let key = json!({"key": "notifications/roots/list_changed"});
            caller.said("executed", key)
        };
        assert_eq!(teller.post(&changed).status, 202);
        if is_legacy {
            until("it is heard", || (heard(&teller) == "1").then_some(()));
        }
        // Who did not declare it is not believed.
        let other = Legacy::with(&gateway, &path, "2025-11-25", json!({"roots": {}}));
        other.said("whoami", json!({}));
        assert_eq!(other.post(&changed).status, 202);
        let count = if is_legacy { "1" } else { "0" };
        assert_eq!(heard(&teller), count, "{backend}");
    }
}

#[test]
fn c_39_a_legacy_caller_is_asked_on_the_calls_own_stream_and_answers_with_a_post() {
    let (gateway, _servers) = askers();
    for backend in BACKENDS {
        let caller = Legacy::with(&gateway, &format!("/mcp/{backend}"), "2025-11-25", forms());
        let ask = tool("ask", json!({"message": "Who are you?"}));
        let mut stream = caller.send(&request(&json!("q"), "tools/call", ask)).head();
        let question = stream.json();
        assert_eq!(
            question["method"], "elicitation/create",
            "{backend}: {question}"
        );
        let signed = format!("[{backend}] Who are you?");
        assert_eq!(question["params"]["message"], signed, "it says who asks");
        assert_eq!(
            question["params"]["requestedSchema"]["properties"]["name"]["type"],
            "string"
        );
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": accept("Ada")});
        assert_eq!(caller.post(&answer.to_string()).status, 202);
        let done = stream.json();
        assert_eq!(
            (&done["id"], text_of(&done).as_str()),
            (&json!("q"), "hello Ada")
        );
        assert_eq!(stream.message(), None, "the stream ends with the answer");
    }
}

#[test]
fn c_39_sampling_and_roots_reach_a_legacy_caller_and_a_refusal_reaches_the_backend() {
    let (gateway, _servers) = askers();
    for backend in BACKENDS {
        let caller = Legacy::with(&gateway, &format!("/mcp/{backend}"), "2025-11-25", forms());
        let said = json!({"role": "assistant", "content": {"type": "text", "text": "four"},
                          "model": "m", "stopReason": "endTurn"});
        for (name, arguments, method, result, want) in [
            (
                "ask_sampling",
                json!({"prompt": "2+2"}),
                "sampling/createMessage",
                said,
                "the model said: four",
            ),
            (
                "ask_roots",
                json!({}),
                "roots/list",
                json!({"roots": [{"uri": "file:///a"}]}),
                "roots: file:///a",
            ),
            (
                "ask",
                json!({"message": "?"}),
                "elicitation/create",
                json!({"action": "decline"}),
                "no name: decline",
            ),
        ] {
            let body = request(&json!(caller.id()), "tools/call", tool(name, arguments));
            let mut stream = caller.send(&body).head();
            let question = stream.json();
            assert_eq!(question["method"], method, "{backend}: {question}");
            if name != "ask" {
                let by = &question["params"]["_meta"]["sentinel-gateway/backend"];
                assert_eq!(by, backend, "it says who asks: {question}");
            }
            let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
            assert_eq!(caller.post(&answer.to_string()).status, 202);
            assert_eq!(text_of(&stream.json()), want, "{backend}");
        }
    }
}

#[test]
fn c_39_a_modern_caller_is_told_what_is_wanted_and_comes_back_with_it() {
    let (gateway, _servers) = askers();
    for backend in BACKENDS {
        let caller = Modern::with(&gateway, &format!("/mcp/{backend}"), forms());
        let round = first_round(&caller, "Who?");
        let done = caller.ask("tools/call", retry(&round, "Who?", accept("Ada")));
        assert_eq!(text_of(&done), "hello Ada", "{backend}");
        assert_eq!(done["result"]["resultType"], "complete");

        // An answer that is missing is asked for again.
        let round = first_round(&caller, "Again?");
        let mut empty = retry(&round, "Again?", accept("x"));
        empty["inputResponses"] = json!({});
        let again = caller.result("tools/call", empty);
        assert_eq!(again["resultType"], "input_required", "{backend}: {again}");
        let done = caller.ask("tools/call", retry(&again, "Again?", accept("Bob")));
        assert_eq!(text_of(&done), "hello Bob", "{backend}");
    }
}

#[test]
fn c_39_an_answer_that_is_none_is_refused_and_the_call_still_waits() {
    let (gateway, _servers) = askers();
    for backend in ["hl", "sl"] {
        let caller = Modern::with(&gateway, &format!("/mcp/{backend}"), forms());
        let round = first_round(&caller, "Who?");
        for answer in [json!(null), json!("Ada"), json!([accept("Ada")])] {
            let refused = caller.ask("tools/call", retry(&round, "Who?", answer));
            assert_eq!(kind_of(&refused), "invalid_params", "{backend}: {refused}");
            let message = refused["error"]["message"].to_string();
            assert!(message.contains("must be an object"), "{message}");
        }
        for state in [json!(5), json!(null), json!(true), json!([]), json!({})] {
            let mut other = retry(&round, "Who?", accept("Ada"));
            other["requestState"] = state;
            assert_eq!(kind_of(&caller.ask("tools/call", other)), "bad_state");
        }
        let mut list = retry(&round, "Who?", accept("Ada"));
        list["inputResponses"] = json!([]);
        assert_eq!(kind_of(&caller.ask("tools/call", list)), "invalid_params");
        let done = caller.ask("tools/call", retry(&round, "Who?", accept("Ada")));
        assert_eq!(text_of(&done), "hello Ada", "{backend}");
    }
}

#[test]
fn c_39_a_retry_may_order_its_arguments_otherwise() {
    let (gateway, _servers) = askers();
    for backend in ["hl", "sl", "hm", "sm"] {
        let caller = Modern::with(&gateway, &format!("/mcp/{backend}"), forms());
        let params =
            json!({"name": "ask", "arguments": {"message": "Who?", "pad": {"a": 1, "b": "x"}}});
        let round = caller.result("tools/call", params);
        assert_eq!(round["resultType"], "input_required", "{backend}: {round}");
        let mut again = retry(&round, "Who?", accept("Ada"));
        again["arguments"] = json!({"pad": {"b": "x", "a": 1}, "message": "Who?"});
        let done = caller.ask("tools/call", again.clone());
        // What a modern backend makes of another order is its own affair; the gateway lets it pass.
        assert_ne!(kind_of(&done), "bad_state", "{backend}: {done}");
        if backend.ends_with('l') {
            assert_eq!(text_of(&done), "hello Ada", "{backend}");
        }
    }
}

#[test]
fn p_s05_a_state_that_is_altered_moved_or_used_before_is_refused_and_nothing_runs() {
    let (gateway, _servers) = askers();
    for backend in BACKENDS {
        let path = format!("/mcp/{backend}");
        let caller = Modern::with(&gateway, &path, forms());
        let round = first_round(&caller, "Who?");
        let good = retry(&round, "Who?", accept("Ada"));
        let state = good["requestState"].as_str().expect("text").to_owned();

        let mut bad = Vec::new();
        for at in [0, state.len() / 2, state.len() - 1] {
            let mut altered = state.clone().into_bytes();
            altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
            bad.push(String::from_utf8(altered).expect("ASCII"));
        }
        bad.extend([
            state[..state.len() - 1].to_owned(),
            format!("{state}A"),
            String::new(),
        ]);
        let mut attempts: Vec<Value> = bad
            .into_iter()
            .map(|state| {
                let mut attempt = good.clone();
                attempt["requestState"] = json!(state);
                attempt
            })
            .collect();
        let mut other_arguments = good.clone();
        other_arguments["arguments"]["message"] = json!("Who else?");
        attempts.push(other_arguments);
        let mut other_tool = good.clone();
        other_tool["name"] = json!("ask_roots");
        attempts.push(other_tool);
        for attempt in attempts {
            let refused = caller.ask("tools/call", attempt.clone());
            assert_eq!(refused["error"]["code"], -32602, "{backend}: {attempt}");
            assert_eq!(
                kind_of(&refused),
                "bad_state",
                "the gateway refused: {refused}"
            );
        }
        // The same state at another endpoint is somebody else's.
        let elsewhere = if backend == "hl" { "/mcp" } else { "/mcp/hl" };
        let elsewhere = Modern::with(&gateway, elsewhere, forms());
        let refused = elsewhere.ask("tools/call", good.clone());
        assert_eq!(refused["error"]["code"], -32602, "{backend}: {refused}");

        // Nothing of this reached the call, which still waits.
        let done = caller.ask("tools/call", good.clone());
        assert_eq!(text_of(&done), "hello Ada", "{backend}");

        // A parked call is taken up once. What a modern backend accepts twice is its own affair.
        if backend.ends_with('l') {
            let twice = caller.ask("tools/call", good);
            assert_eq!(twice["error"]["code"], -32602, "{backend}: {twice}");
            assert_eq!(kind_of(&twice), "bad_state");
        }
    }
}

#[test]
fn c_2_a_caller_that_cannot_be_asked_is_told_so_in_its_own_words() {
    let (gateway, _servers) = askers();
    for backend in BACKENDS {
        let path = format!("/mcp/{backend}");
        let ask = tool("ask", json!({"message": "?"}));
        let modern = Modern::new(&gateway, &path);
        let answer = modern.send("tools/call", ask.clone()).finish();
        if backend.ends_with('m') {
            assert_eq!((answer.status, answer.code()), (400, -32021), "{backend}");
            let required = &answer.json()["error"]["data"]["requiredCapabilities"];
            assert_eq!(*required, json!({"elicitation": {"form": {}}}));
        } else {
            assert_eq!(answer.json()["result"]["isError"], true, "{backend}");
        }
        // Before 2025-06-18 there is no elicitation, whatever a client claims.
        for revision in ["2024-11-05", "2025-03-26", "2025-11-25"] {
            let capabilities = if revision == "2025-11-25" {
                json!({})
            } else {
                forms()
            };
            let legacy = Legacy::with(&gateway, &path, revision, capabilities);
            let answer = legacy.ask("tools/call", ask.clone());
            let refused = answer["result"]["isError"] == true || answer["error"]["code"] == -32603;
            assert!(refused, "{backend} {revision}: {answer}");
        }
    }
}

#[test]
fn c_39_a_caller_on_stdio_is_asked_too() {
    for era in ["legacy", "modern"] {
        let config = stdio_backend("one", &["--era", era], "isolation = \"caller\"");
        let legacy = Pipe::legacy(&config, "2025-11-25", forms());
        legacy.wait_for_tool("ask");
        let id = legacy.start("tools/call", tool("ask", json!({"message": "Who?"})));
        let question = legacy.line("a question", |line| line["method"] == "elicitation/create");
        let question: Value = serde_json::from_str(&question).expect("JSON");
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": accept("Ada")});
        legacy.write(&answer.to_string());
        assert_eq!(text_of(&legacy.answer(&id)), "hello Ada", "{era}");
        drop(legacy);

        let modern = Pipe::modern(&config, forms());
        modern.wait_for_tool("ask");
        let round = first_round(&modern, "Who?");
        let done = modern.ask("tools/call", retry(&round, "Who?", accept("Bob")));
        assert_eq!(text_of(&done), "hello Bob", "{era}");
    }
}

#[test]
fn c_39_a_question_whose_call_was_cancelled_is_nobodys() {
    let (gateway, _servers) = askers();
    for backend in ["hl", "sl"] {
        let caller = Legacy::with(&gateway, &format!("/mcp/{backend}"), "2025-11-25", forms());
        let ask = tool("ask", json!({"message": "?"}));
        let mut stream = caller.send(&request(&json!(77), "tools/call", ask)).head();
        let question = stream.json();
        caller.cancel(&json!(77));
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": accept("late")});
        assert_eq!(caller.post(&answer.to_string()).status, 202);
        let note = notification("notifications/unheard-of", json!({}));
        assert_eq!(caller.post(&note).status, 202);
        assert_eq!(
            caller.said("echo", json!({"text": "on"})),
            "on",
            "{backend}"
        );
    }
}

#[test]
fn decision_23_behind_a_question_that_was_put_off_others_hear_soon_what_they_wait_for() {
    let more =
        "interactive = \"serialize\"\ntimeout = 120\n[backends.circuit_breaker]\nthreshold = 2";
    let gateway = Gateway::ready(&stdio_backend("one", &["--era", "legacy"], more));
    let asked = Modern::with(&gateway, "/mcp", forms());
    let round = first_round(&asked, "Who?");
    let others: [Box<dyn Caller>; 2] = [
        Box::new(Legacy::newest(&gateway)),
        Box::new(Modern::new(&gateway, "/mcp")),
    ];
    let began = std::time::Instant::now();
    // More often than the circuit would let a failing server fail.
    for _ in 0..2 {
        for other in &others {
            let busy = other.call("echo", json!({"text": "x"}));
            assert_eq!(kind_of(&busy), "backend_busy", "{busy}");
            assert!(busy["error"]["data"]["retry_after_ms"].is_u64(), "{busy}");
            let text = busy["error"]["message"].as_str().expect("a text");
            assert!(text.contains("another caller's answer"), "{text}");
        }
    }
    assert!(
        began.elapsed().as_secs() < 60,
        "long before their time is over"
    );
    let done = asked.ask("tools/call", retry(&round, "Who?", accept("Ada")));
    assert_eq!(text_of(&done), "hello Ada");
    for other in &others {
        assert_eq!(other.said("echo", json!({"text": "x"})), "x");
    }
}

/// Two calls of `ask` a minute at a backend of each era.
fn limited_askers() -> (Gateway, [Server; 2]) {
    let servers = ["legacy", "modern"].map(|era| Server::start(&["--era", era]));
    let config = format!(
        "[rate_limits]\ndefault_rpm = 0\nburst = 2\n[rate_limits.per_tool]\n\"hl.ask\" = 1\n\"hm.ask\" = 1\n{}{}",
        http_backend("hl", &servers[0].address, ""),
        http_backend("hm", &servers[1].address, ""),
    );
    (Gateway::ready(&config), servers)
}

/// Decision 49: a call is charged once, however many rounds of questions it takes.
#[test]
fn issue_17_a_call_with_three_rounds_of_questions_is_charged_once_in_each_pairing_of_eras() {
    let (gateway, _servers) = limited_askers();
    // One caller for all, so what one pair uses up the next would miss: each backend has a bucket of its own.
    for (backend, times) in [("hl", 0), ("hm", 2)] {
        let path = format!("/mcp/{backend}");
        let asked = json!({"message": "Who?", "times": times});
        let legacy = Legacy::with(&gateway, &path, "2025-11-25", forms());
        let body = request(&json!("q"), "tools/call", tool("ask", asked.clone()));
        let mut stream = legacy.send(&body).head();
        let mut questions = 0;
        let done = loop {
            let message = stream.json();
            if message["method"] != "elicitation/create" {
                break message;
            }
            questions += 1;
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": accept("Ada")});
            assert_eq!(legacy.post(&answer.to_string()).status, 202);
        };
        assert_eq!(text_of(&done), "hello Ada", "{backend}: {done}");
        assert_eq!(questions, times + 1, "{backend}");

        // Two rounds without the answer, and one with it.
        let modern = Modern::with(&gateway, &path, forms());
        let mut round = first_round(&modern, "Again?");
        for _ in 0..2 {
            let mut empty = retry(&round, "Again?", accept("x"));
            empty["inputResponses"] = json!({});
            round = modern.result("tools/call", empty);
            assert_eq!(round["resultType"], "input_required", "{backend}: {round}");
        }
        let last = retry(&round, "Again?", accept("Bob"));
        assert_eq!(
            text_of(&modern.ask("tools/call", last.clone())),
            "hello Bob",
            "{backend}"
        );

        // Two calls, two tokens. A state that is sent again continues nothing: refused, or charged.
        let again = modern.ask("tools/call", last);
        let refusal = if backend == "hl" {
            "bad_state"
        } else {
            "rate_limited"
        };
        assert_eq!(kind_of(&again), refusal, "{backend}: {again}");
        let third = modern.call("ask", json!({"message": "Third?"}));
        assert_eq!(kind_of(&third), "rate_limited", "{backend}: {third}");
    }
}

/// A state is good for one continuation; each further use is a call of its own.
#[test]
fn issue_17_a_state_that_is_sent_again_and_again_is_charged_each_time() {
    let (gateway, _servers) = limited_askers();
    let caller = Modern::with(&gateway, "/mcp/hm", forms());
    let round = first_round(&caller, "Who?");
    let good = retry(&round, "Who?", accept("Ada"));
    let answers: Vec<Value> = (0..4)
        .map(|_| caller.ask("tools/call", good.clone()))
        .collect();
    assert_eq!(text_of(&answers[0]), "hello Ada", "continues its call");
    assert_eq!(text_of(&answers[1]), "hello Ada", "the second token");
    for answer in &answers[2..] {
        assert_eq!(kind_of(answer), "rate_limited", "{answer}");
    }
}
