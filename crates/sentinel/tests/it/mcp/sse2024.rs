//! C-39: callers that speak HTTP+SSE of 2024-11-05: one stream to them, POSTs from them.

use serde_json::{Value, json};

use crate::support::callers::{
    Caller, Modern, initialize_params, notification, request, text_of, tool,
};
use crate::support::http::{self, Answer, Stream, data_of, parse};
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend, until};
use crate::support::tokens::{JSON_BODY, now, token};

struct Old {
    address: String,
    endpoint: String,
    stream: Stream,
}

impl Old {
    #[track_caller]
    fn open(gateway: &Gateway, path: &str) -> Self {
        Self::open_as(gateway, path, &[])
    }

    #[track_caller]
    fn open_as(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> Self {
        let headers = [&[("Accept", "text/event-stream")], headers].concat();
        let mut stream = http::send(&gateway.address, "GET", path, &headers, "").head();
        assert_eq!(stream.status, 200);
        let first = stream.event().expect("a first event");
        assert!(first.starts_with("event: endpoint\n"), "{first}");
        let endpoint = data_of(&first);
        assert!(endpoint.starts_with("/messages?session="), "{endpoint}");
        Self {
            address: gateway.address.clone(),
            endpoint,
            stream,
        }
    }

    /// The same with the handshake done.
    #[track_caller]
    fn connect(gateway: &Gateway, path: &str, capabilities: Value) -> Self {
        let mut this = Self::open(gateway, path);
        let hello = initialize_params("2024-11-05", &capabilities);
        let hello = this.ask("initialize", hello);
        assert_eq!(hello["result"]["protocolVersion"], "2024-11-05", "{hello}");
        this.post(&notification("notifications/initialized", json!({})));
        this
    }

    fn send(&self, body: &str) -> Answer {
        self.send_as(body, &[])
    }

    fn send_as(&self, body: &str, headers: &[(&str, &str)]) -> Answer {
        let headers = [&[JSON_BODY], headers].concat();
        http::send(&self.address, "POST", &self.endpoint, &headers, body).finish()
    }

    #[track_caller]
    fn post(&self, body: &str) {
        let answer = self.send(body);
        assert_eq!((answer.status, answer.text.as_str()), (202, ""));
    }

    #[track_caller]
    fn next(&mut self) -> Value {
        let event = self.stream.event().expect("another event");
        assert!(event.starts_with("event: message\n"), "{event}");
        parse(&data_of(&event))
    }

    #[track_caller]
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.post(&request(&json!("q"), method, params));
        let answer = self.next();
        assert_eq!(answer["id"], "q", "{answer}");
        answer
    }

    fn tools(&mut self) -> String {
        self.ask("tools/list", json!({}))["result"]["tools"].to_string()
    }
}

#[test]
fn c_39_an_old_caller_lists_and_calls_over_its_two_endpoints() {
    let server = Server::start(&["--era", "modern"]);
    let config = [
        stdio_backend("one", &["--era", "legacy", "--tools", "1"], ""),
        http_backend("two", &server.address, ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    let mut merged = Old::connect(&gateway, "/sse", json!({}));
    let mut single = Old::connect(&gateway, "/sse/two", json!({}));
    assert!(merged.tools().contains("\"echo_1\""));
    assert!(!single.tools().contains("\"echo_1\""), "one backend only");
    for caller in [&mut merged, &mut single] {
        // Line ends between tokens are no ends of messages.
        let call = tool("echo", json!({"text": "a\nb"}));
        let body = json!({"jsonrpc": "2.0", "id": "q", "method": "tools/call", "params": call});
        caller.post(&serde_json::to_string_pretty(&body).expect("JSON"));
        assert_eq!(text_of(&caller.next()), "a\nb");
        assert_eq!(caller.ask("ping", json!({}))["result"], json!({}));
    }
    let large = tool("blob", json!({"bytes": 300_000}));
    assert_eq!(text_of(&single.ask("tools/call", large)).len(), 300_000);
}

#[test]
fn c_39_an_old_caller_is_asked_on_its_own_stream() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], "isolation = \"session\""));
    let mut callers: Vec<_> = (0..3)
        .map(|_| Old::connect(&gateway, "/sse", json!({"sampling": {}})))
        .collect();
    for caller in &mut callers {
        let call = tool("ask_sampling", json!({"prompt": "2+2"}));
        caller.post(&request(&json!(1), "tools/call", call));
    }
    for (n, caller) in callers.iter_mut().enumerate() {
        let question = caller.next();
        assert_eq!(question["method"], "sampling/createMessage", "{question}");
        let said = json!({"role": "assistant", "model": "m",
            "content": {"type": "text", "text": format!("{n}")}});
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": said});
        caller.post(&answer.to_string());
    }
    for (n, caller) in callers.iter_mut().enumerate() {
        let want = format!("the model said: {n}");
        assert_eq!(text_of(&caller.next()), want);
    }
}

#[test]
fn c_39_an_old_caller_that_leaves_takes_its_calls_and_its_endpoint_with_it() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], ""));
    let caller = Old::connect(&gateway, "/sse", json!({}));
    let call = tool("barrier", json!({"name": "b"}));
    caller.post(&request(&json!(1), "tools/call", call));
    let watcher = Modern::new(&gateway, "/mcp");
    let waiting = || watcher.said("waiting", json!({"name": "b"}));
    until("the call waits", || (waiting() == "1").then_some(()));
    let Old {
        address,
        endpoint,
        stream,
    } = caller;
    stream.hang_up();
    until("the call is cancelled", || (waiting() == "0").then_some(()));
    let headers = [("Content-Type", "application/json")];
    let post = |path: &str| http::send(&address, "POST", path, &headers, "{}").finish();
    assert_eq!(post(&endpoint).status, 404);
    assert_eq!(post("/messages?session=made-up").status, 404);
    assert_eq!(post("/messages").status, 404);
    assert_eq!(post("/sse").status, 405, "how a newer client finds out");
    assert_eq!(gateway.get("/sse/nobody").status, 404);
}

#[test]
fn p_s11_the_old_paths_are_guarded_like_the_new_one() {
    let gateway = Gateway::start("");
    let foreign = [
        ("Origin", "https://evil.example"),
        ("Accept", "text/event-stream"),
    ];
    let answer = http::send(&gateway.address, "GET", "/sse", &foreign, "").finish();
    assert_eq!(answer.status, 403);
}

#[test]
fn issue_17_2_an_sse_session_acts_only_for_the_rights_it_was_opened_with() {
    let gateway = Gateway::ready(&format!("[auth]\n{}", stdio_backend("one", &[], "")));
    let rights = |changes: Value| {
        let mut claims = json!({"tenant_id": "acme", "scope": "read write"});
        for (name, value) in changes.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        format!("Bearer {}", token(claims))
    };
    let others = [
        ("another subject", rights(json!({"sub": "bob"}))),
        ("another role", rights(json!({"role": "viewer"}))),
        ("another tenant", rights(json!({"tenant_id": "umbrella"}))),
        ("no tenant", rights(json!({"tenant_id": null}))),
        ("fewer scopes", rights(json!({"scope": "read"}))),
        ("more scopes", rights(json!({"scope": "read write more"}))),
    ];
    let opener = rights(json!({}));
    let mut session = Old::open_as(&gateway, "/sse", &[("Authorization", &opener)]);
    let hello = initialize_params("2024-11-05", &json!({}));
    let hello = request(&json!(1), "initialize", hello);
    let call = request(&json!(2), "tools/call", tool("echo", json!({"text": "a"})));
    let refused = |session: &Old, body: &str| {
        let accepted = others.iter().filter(|(_, authorization)| {
            let answer = session.send_as(body, &[("Authorization", authorization)]);
            answer.status != 404
        });
        let accepted: Vec<_> = accepted.map(|(what, _)| what).collect();
        assert!(accepted.is_empty(), "accepted: {accepted:?}");
    };
    refused(&session, &hello);
    // A renewed token with the same rights is fine.
    let renewed = rights(json!({"exp": now() + 1200}));
    for (authorization, body) in [(&opener, &hello), (&renewed, &call)] {
        let answer = session.send_as(body, &[("Authorization", authorization)]);
        assert_eq!(answer.status, 202);
        let answer = session.next();
        assert!(answer["result"].is_object(), "{answer}");
    }
    refused(&session, &call);
}
