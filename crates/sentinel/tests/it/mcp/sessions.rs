//! G-22: sessions of legacy callers over HTTP, and how callers of either era hear of changes.

use serde_json::json;

use crate::support::callers::{Caller, Legacy, Modern, bare_post, request};
use crate::support::http::{self, parse};
use crate::support::pipe::Pipe;
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend, until};

fn two() -> Gateway {
    let config = [stdio_backend("one", &[], ""), stdio_backend("two", &[], "")];
    Gateway::ready(&config.concat())
}

#[test]
fn g_22_a_session_is_known_at_its_own_endpoint_until_it_ends() {
    let gateway = two();
    let caller = Legacy::newest(&gateway);
    assert!(caller.session.len() >= 32, "hard to guess");
    assert!(caller.session.bytes().all(|b| (0x21..=0x7e).contains(&b)));
    let other = Legacy::newest(&gateway);
    assert_ne!(caller.session, other.session);

    let list = request(&json!(1), "tools/list", json!({}));
    let post = |path: &str, session: &str, method: &str| {
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Mcp-Session-Id", session),
        ];
        let body = if method == "POST" { list.as_str() } else { "" };
        http::send(&gateway.address, method, path, &headers, body).finish()
    };
    assert_eq!(post("/mcp", &caller.session, "POST").status, 200);
    for method in ["POST", "GET", "DELETE"] {
        assert_eq!(post("/mcp", "made-up", method).status, 404, "{method}");
        assert_eq!(
            post("/mcp/one", &caller.session, method).status,
            404,
            "{method}"
        );
    }
    assert_eq!(
        post("/mcp", &caller.session, "POST").status,
        200,
        "still there"
    );
    assert_eq!(post("/mcp", &caller.session, "DELETE").status, 200);
    for method in ["POST", "GET", "DELETE"] {
        assert_eq!(
            post("/mcp", &caller.session, method).status,
            404,
            "{method}"
        );
    }
    assert_eq!(other.said("echo", json!({"text": "mine"})), "mine");
}

#[test]
fn g_22_without_a_session_get_and_delete_are_not_methods() {
    let gateway = two();
    for method in ["GET", "DELETE"] {
        let headers = [("Accept", "text/event-stream")];
        let answer = http::send(&gateway.address, method, "/mcp", &headers, "").finish();
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.header("allow").contains("POST"));
    }
    assert_eq!(bare_post(&gateway, "/mcp/nobody", "{}").status, 404);
    assert_eq!(gateway.get("/elsewhere").status, 404);
}

#[test]
fn g_22_ending_a_session_ends_its_calls_and_its_stream() {
    let server = Server::start(&["--era", "legacy"]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    let caller = Legacy::newest(&gateway);
    let watcher = Modern::new(&gateway, "/mcp");
    let mut stream = caller.verb("GET").head();
    assert_eq!(stream.status, 200);
    let call = crate::support::callers::tool("barrier", json!({"name": "gate"}));
    let waiting = caller.send(&request(&json!(1), "tools/call", call));
    until("the call waits at the backend", || {
        (watcher.said("waiting", json!({"name": "gate"})) == "1").then_some(())
    });
    assert_eq!(caller.verb("DELETE").finish().status, 200);
    assert_eq!(stream.message(), None);
    let answer = waiting.finish();
    assert!(!answer.text.contains("result"), "{answer:?}");
    until("the backend hears of it", || {
        (watcher.said("waiting", json!({"name": "gate"})) == "0").then_some(())
    });
}

/// Adds a tool to a backend, perhaps before the gateway listens to it: that is a moment after it has read its lists.
fn grow(gateway: &Gateway) {
    let caller = Modern::new(gateway, "/mcp");
    assert_eq!(caller.said("grow", json!({})), "grown_1");
    until("a new tool is listed", || {
        caller.tools().contains(&"grown_1".to_owned()).then_some(())
    });
    assert_eq!(caller.said("grown_1", json!({"text": "new"})), "new");
}

#[test]
fn c_10_a_get_stream_hears_that_tools_changed_at_a_backend_of_any_kind() {
    for era in ["legacy", "modern"] {
        let server = Server::start(&["--era", era]);
        for config in [
            http_backend("one", &server.address, ""),
            stdio_backend("one", &["--era", era], ""),
        ] {
            let gateway = Gateway::ready(&config);
            let caller = Legacy::newest(&gateway);
            let mut stream = caller.verb("GET").head();
            assert_eq!(stream.status, 200);
            grow(&gateway);
            assert_eq!(stream.json()["method"], "notifications/tools/list_changed");
        }
    }
}

#[test]
fn c_10_a_modern_listen_hears_what_it_asked_for_and_nothing_else() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], ""));
    let caller = Modern::new(&gateway, "/mcp");
    let filter = |filter| json!({"notifications": filter});
    let mut tools = caller
        .send_as(
            &json!("sub-1"),
            "subscriptions/listen",
            filter(json!({"toolsListChanged": true})),
        )
        .head();
    let mut prompts = caller
        .send_as(
            &json!(2),
            "subscriptions/listen",
            filter(json!({"promptsListChanged": true})),
        )
        .head();
    let agreed = tools.json();
    assert_eq!(agreed["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        agreed["params"]["notifications"],
        json!({"toolsListChanged": true})
    );
    let id = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(agreed["params"]["_meta"][id], "sub-1");
    assert_eq!(
        prompts.json()["params"]["_meta"][id],
        2,
        "the id keeps its type"
    );
    grow(&gateway);
    let heard = tools.json();
    assert_eq!(heard["method"], "notifications/tools/list_changed");
    assert_eq!(heard["params"]["_meta"][id], "sub-1");
    // The gateway's end is a result; whoever asked for prompts heard nothing before it.
    gateway.process.signal("TERM");
    let last = prompts.json();
    assert_eq!(
        (&last["id"], &last["result"]["resultType"]),
        (&json!(2), &json!("complete"))
    );
    assert_eq!(last["result"]["_meta"][id], 2);
    let last = std::iter::from_fn(|| tools.message())
        .last()
        .expect("a result");
    assert_eq!(parse(&last)["id"], "sub-1");
}

#[test]
fn c_10_callers_on_stdio_hear_of_changes() {
    let config = stdio_backend("one", &[], "");
    let legacy = Pipe::legacy(&config, "2025-11-25", json!({}));
    let changed = |line: &serde_json::Value| line["method"] == "notifications/tools/list_changed";
    legacy.wait_for_tool("grow");
    assert_eq!(legacy.said("grow", json!({})), "grown_1");
    legacy.line("a tool came", changed);
    legacy.wait_for_tool("grown_1");
    drop(legacy);

    let modern = Pipe::modern(&config, json!({}));
    modern.wait_for_tool("grow");
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let id = modern.start("subscriptions/listen", filter);
    modern.line("agreed", |line| {
        line["method"] == "notifications/subscriptions/acknowledged"
    });
    assert_eq!(modern.said("grow", json!({})), "grown_1");
    let heard = parse(&modern.line("a change", changed));
    assert_eq!(
        heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        id
    );
}

#[test]
fn g_22_the_longest_unused_session_makes_room() {
    let gateway = Gateway::start("[limits]\nsessions = 2\n");
    let first = Legacy::newest(&gateway);
    let second = Legacy::newest(&gateway);
    let _stream = first.verb("GET").head();
    let third = Legacy::newest(&gateway);
    let list = request(&json!(1), "tools/list", json!({}));
    assert_eq!(second.post(&list).status, 404, "idle");
    assert_eq!(first.post(&list).status, 200, "it listens");
    assert_eq!(third.post(&list).status, 200);
}

#[test]
fn g_22_a_session_that_nobody_uses_ends_and_one_that_listens_does_not() {
    let gateway = Gateway::start("[limits]\nsession_idle = 3\n");
    let idle = Legacy::newest(&gateway);
    let listening = Legacy::newest(&gateway);
    let _stream = listening.verb("GET").head();
    let used = Legacy::newest(&gateway);
    let list = request(&json!(1), "tools/list", json!({}));
    // A look keeps a session alive, so the idle one is looked at by its calls' absence only.
    until("one of three ended", || {
        assert_eq!(used.post(&list).status, 200);
        let metrics = gateway.get("/metrics").text;
        let open = metrics
            .lines()
            .find_map(|line| line.strip_prefix("sentinel_sessions "));
        (open == Some("2")).then_some(())
    });
    assert_eq!(idle.post(&list).status, 404);
    assert_eq!(listening.post(&list).status, 200);
}
