//! C-39: a server over HTTP that speaks both eras is spoken to in the era of whoever calls, so that
//! nothing has to be translated.

use serde_json::{Value, json};

use crate::support::callers::{Caller, LEGACY, Legacy, MODERN, Modern, request, text_of, tool};
use crate::support::http::parse;
use crate::support::setup::{Gateway, Server, http_backend, until};

fn who(caller: &dyn Caller) -> Value {
    parse(&caller.said("whoami", json!({})))
}

#[test]
fn c_39_a_server_of_both_eras_is_spoken_to_in_the_era_and_revision_of_its_caller() {
    // Whether or not it says in its discovery that it is legacy as well.
    for more in [&[][..], &["--reticent"]] {
        let server = Server::start(more);
        let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
        for revision in LEGACY {
            let caller = Legacy::connect(&gateway, "/mcp", revision);
            let known = who(&caller);
            assert_eq!(known["revision"], revision, "{known}");
            assert!(known["session"].is_string(), "{known}");
            let meta = known["_meta"].to_string();
            assert!(!meta.contains("modelcontextprotocol"), "{meta}");
        }
        let modern = who(&Modern::new(&gateway, "/mcp"));
        assert_eq!(modern["revision"], MODERN, "{modern}");
        assert!(modern["session"].is_null(), "{modern}");
        // Callers who cannot be asked share a session; who can be has its own.
        let [a, b] = [(); 2].map(|()| who(&Legacy::newest(&gateway))["session"].clone());
        assert_eq!(a, b);
        let able = json!({"elicitation": {}});
        let own = who(&Legacy::with(&gateway, "/mcp", "2025-11-25", able));
        assert_ne!(own["session"], a);
        assert!(own["capabilities"]["elicitation"].is_object(), "{own}");
    }
}

#[test]
fn c_39_a_server_that_knows_only_older_revisions_is_spoken_to_in_the_newest_of_them() {
    for more in [
        &["--revision", "2025-06-18"][..],
        &["--revision", "2025-06-18", "--reticent"],
    ] {
        let server = Server::start(more);
        let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
        assert_eq!(who(&Legacy::newest(&gateway))["revision"], "2025-06-18");
        let older = Legacy::connect(&gateway, "/mcp", "2025-03-26");
        assert_eq!(who(&older)["revision"], "2025-03-26");
    }
}

#[test]
fn c_39_a_server_without_the_callers_era_is_tried_once_and_then_translated_for() {
    let server = Server::start(&["--era", "modern"]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    for _ in 0..3 {
        let caller = Legacy::newest(&gateway);
        assert_eq!(who(&caller)["revision"], MODERN);
    }
    let log = gateway.setup.log();
    assert_eq!(log.matches("no legacy session").count(), 1, "{log}");
}

#[test]
fn c_39_questions_and_lost_sessions_at_a_server_of_both_eras_are_those_of_the_callers_era() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    let able = json!({"elicitation": {}, "roots": {"listChanged": true}});
    let caller = Legacy::with(&gateway, "/mcp", "2025-11-25", able);
    let ask = |id: &str| {
        let ask = tool("ask", json!({"message": "Who?"}));
        let mut stream = caller.send(&request(&json!(id), "tools/call", ask)).head();
        let question = stream.json();
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let name = json!({"action": "accept", "content": {"name": "Ada"}});
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": name});
        assert_eq!(caller.post(&answer.to_string()).status, 202);
        assert_eq!(text_of(&stream.json()), "hello Ada");
    };
    ask("first");
    let before = who(&caller)["session"].clone();
    caller.said("forget_sessions", json!({}));
    ask("again");
    let after = who(&caller);
    assert_ne!(after["session"], before);
    assert_eq!(after["era"], "legacy", "{after}");
}

#[test]
fn c_39_a_tool_that_is_a_task_in_the_callers_era_is_an_ordinary_slow_call_all_the_same() {
    let server = Server::start(&["--tasks"]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    let able = json!({"elicitation": {}});
    let caller = Legacy::with(&gateway, "/mcp", "2025-11-25", able);
    assert_eq!(caller.said("dig", json!({"ms": 30})), "dug ");
    let ask = tool("dig", json!({"question": "Why?"}));
    let mut stream = caller.send(&request(&json!("q"), "tools/call", ask)).head();
    let question = stream.json();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let because = json!({"action": "accept", "content": {"why": "because"}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": because});
    assert_eq!(caller.post(&answer.to_string()).status, 202);
    let said = text_of(&stream.json());
    assert!(said.contains("because"), "{said}");
    assert_eq!(who(&caller)["era"], "legacy");
}

#[test]
fn c_39_resources_of_a_server_of_both_eras_are_followed_in_one_of_them_for_all_callers() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    let legacy = Legacy::newest(&gateway);
    let mut stream = legacy.verb("GET").head();
    let uri = json!({"uri": "test://static"});
    legacy.result("resources/subscribe", uri.clone());
    legacy.said("touch", uri.clone());
    let told = stream.json();
    assert_eq!(told["method"], "notifications/resources/updated", "{told}");
    legacy.result("resources/unsubscribe", uri);
    // A list that changed is read once, in the era of the catalog.
    legacy.said("grow", json!({}));
    until("it is listed", || {
        let listed = legacy.tools().contains(&"grown_1".to_owned());
        listed.then_some(())
    });
    assert_eq!(stream.json()["method"], "notifications/tools/list_changed");
}

#[test]
fn c_39_log_lines_on_the_sessions_own_stream_reach_the_caller_who_wants_them() {
    for era in ["both", "legacy"] {
        let server = Server::start(&["--era", era]);
        let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
        let caller = Legacy::newest(&gateway);
        caller.result("logging/setLevel", json!({"level": "info"}));
        // The server writes its lines and its answer to different connections; half a second orders them.
        let lines = tool("chatty", json!({"n": 2, "ms": 500, "aside": true}));
        let messages = caller.exchange("tools/call", lines);
        let first = parse(&messages[0]);
        assert_eq!(first["params"]["data"]["line"], 1, "{era}: {first}");
        let last = parse(messages.last().expect("an answer"));
        assert_eq!(text_of(&last), "said 2");
    }
}

#[test]
fn c_39_a_stream_that_can_be_taken_up_again_is_one_for_the_caller_too() {
    let server = Server::start(&["--sse", "--primed"]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    let echo = request(&json!(1), "tools/call", tool("echo", json!({"text": "x"})));
    let answer = Legacy::newest(&gateway).post(&echo);
    assert_eq!(answer.header("content-type"), "text/event-stream");
    assert!(answer.text.starts_with("id: "), "{answer:?}");
    assert!(answer.text.contains("\nretry: "), "{answer:?}");
    // Who cannot come back for the rest gets the answer, as ever.
    let older = Legacy::connect(&gateway, "/mcp", "2025-06-18").post(&echo);
    assert_eq!(older.header("content-type"), "application/json");
}

#[test]
fn issue_17_9_a_configured_revision_is_the_only_one_that_is_spoken_to_a_server_over_http() {
    let able = || json!({"elicitation": {"form": {}}});
    for revision in ["2025-06-18", MODERN] {
        let server = Server::start(&[]);
        let key = format!("revision = \"{revision}\"");
        let gateway = Gateway::ready(&http_backend("one", &server.address, &key));
        // Callers of each era, who can be asked and who cannot.
        let callers: [Box<dyn Caller>; 4] = [
            Box::new(Legacy::newest(&gateway)),
            Box::new(Legacy::with(&gateway, "/mcp", "2025-11-25", able())),
            Box::new(Modern::new(&gateway, "/mcp")),
            Box::new(Modern::with(&gateway, "/mcp", able())),
        ];
        for caller in &callers {
            assert_eq!(
                who(&**caller)["revision"],
                revision,
                "{}",
                caller.is_modern()
            );
        }
        assert!(!gateway.setup.log().contains("no legacy session"));
    }
    for (era, revision) in [("legacy", MODERN), ("modern", "2025-06-18")] {
        let server = Server::start(&["--era", era]);
        let key = format!("revision = \"{revision}\"");
        let gateway = Gateway::start(&http_backend("one", &server.address, &key));
        until("it is given up for now", || {
            (gateway.health("one") == "down").then_some(())
        });
        let (code, _, said) = gateway.setup.sentinel(&["restart", "one"]);
        assert!(code == 3 && said.contains(revision), "{era}: {said}");
    }
}
