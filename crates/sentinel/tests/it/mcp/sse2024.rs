//! C-39: callers that speak HTTP+SSE of 2024-11-05: one stream to them, POSTs from them.

use serde_json::{Value, json};

use crate::support::callers::{
    Caller, Modern, initialize_params, notification, request, text_of, tool,
};
use crate::support::house::{Gateway, Server, http_backend, stdio_backend, until};
use crate::support::http::{self, Answer, Stream, data_of, parse};

struct Old {
    address: String,
    endpoint: String,
    stream: Stream,
}

impl Old {
    #[track_caller]
    fn open(gateway: &Gateway, path: &str) -> Self {
        let headers = [("Accept", "text/event-stream")];
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
        let headers = [("Content-Type", "application/json")];
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
