//! Calls that have to be confirmed: by a token over REST and JSON-RPC, by a question over MCP where the caller can be asked,
//! and by the token in a result where it cannot.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern};
use crate::support::setup::{Gateway, Server, http_backend};
use crate::support::tokens::token;
use crate::support::web::Web;

const HEADER: &str = "X-Confirmation-Token";

struct Guarded {
    gateway: Gateway,
    server: Server,
}

impl Guarded {
    fn start() -> Self {
        let server = Server::start(&[]);
        let gateway = Gateway::ready(&format!(
            "[auth]\n[surfaces]\nconfirm = [\"cou*\"]\n\
             [rbac.roles.careful]\npermissions = [\"*\"]\nconfirm = [\"web.echo\"]\n{}",
            http_backend("web", &server.address, "")
        ));
        Self { gateway, server }
    }

    fn web(&self, subject: &str, role: &str) -> Web {
        Web::new(&self.gateway).bearing(&token(json!({"sub": subject, "role": role})))
    }

    /// How often the tool ran.
    fn executed(&self, key: &str) -> String {
        let direct = Modern::at(&self.server.address, "/mcp", json!({}));
        direct.said("executed", json!({"key": key}))
    }
}

/// The token in a refusal.
#[track_caller]
fn refused(web: &Web, arguments: &Value, headers: &[(&str, &str)], code: &str) -> String {
    let answer = web.post_with("/api/count", arguments, headers);
    let problem = answer.json();
    assert_eq!(
        (answer.status, &problem["code"]),
        (409, &json!(code)),
        "{problem}"
    );
    let token = problem["confirmationToken"].as_str();
    token.expect("a token").to_owned()
}

#[test]
fn e_4_a_confirmation_is_used_once_by_its_caller_for_exactly_its_call() {
    let guarded = Guarded::start();
    let (alice, bob) = (guarded.web("alice", "admin"), guarded.web("bob", "admin"));
    let call = json!({"key": "k"});
    let token = refused(&alice, &call, &[], "confirmation_required");
    let with = [(HEADER, &*token)];
    refused(&bob, &call, &with, "confirmation_invalid");
    // It confirms nothing else, and stays good for its own call.
    let other = json!({"key": "other"});
    refused(&alice, &other, &with, "confirmation_invalid");
    assert_eq!(guarded.executed("k"), "0");
    let answer = alice.post_with("/api/count", &call, &[(HEADER, &*token)]);
    assert_eq!(answer.status, 200, "{answer:?}");
    refused(&alice, &call, &[(HEADER, &*token)], "confirmation_invalid");
    assert_eq!(guarded.executed("k"), "1");

    let unguarded = alice.post("/api/echo", &json!({"text": "x"}));
    assert_eq!(unguarded.status, 200, "no pattern names it");
    let careful = guarded.web("carol", "careful");
    let answer = careful.post("/api/echo", &json!({"text": "x"}));
    assert_eq!(answer.status, 409, "its role has to confirm it: {answer:?}");

    let error = alice.rpc("count", &call);
    assert_eq!(error.status, 409);
    let token = error.json()["error"]["data"]["confirmationToken"].clone();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "count", "params": call});
    let token = token.as_str().expect("a token");
    let confirmed = alice.post_with("/rpc", &body, &[(HEADER, token)]);
    assert_eq!(confirmed.status, 200, "{confirmed:?}");
    assert_eq!(guarded.executed("k"), "2");
}

/// Every element of a batch comes with the header of its request.
#[test]
fn e_4_a_token_confirms_its_element_of_a_batch_wherever_that_is() {
    let guarded = Guarded::start();
    let alice = guarded.web("alice", "admin");
    let count = |id: u32, key: &str| json!({"jsonrpc": "2.0", "id": id, "method": "count", "params": {"key": key}});
    let token = refused(&alice, &json!({"key": "b"}), &[], "confirmation_required");
    let batch = json!([count(1, "a"), count(2, "b"), count(3, "c"), count(4, "b")]);
    let answers = alice.post_with("/rpc", &batch, &[(HEADER, &*token)]).json();
    let code = |place: usize| answers[place]["error"]["data"]["code"].clone();
    for place in [0, 2] {
        assert_eq!(code(place), "confirmation_invalid", "{place}: {answers}");
    }
    let ran = [1, 3].map(|place: usize| answers[place]["result"].is_object());
    assert_ne!(ran[0], ran[1], "one of two that are the same: {answers}");
    let executed = ["a", "b", "c"].map(|key| guarded.executed(key));
    assert_eq!(executed, ["0", "1", "0"]);
}

#[test]
fn e_4_callers_of_mcp_are_asked_where_they_can_be() {
    let guarded = Guarded::start();
    let (gateway, call) = (
        &guarded.gateway,
        json!({"name": "count", "arguments": {"key": "m"}}),
    );
    let credential = token(json!({"role": "admin"}));
    let asked = Modern::with(gateway, "/mcp", json!({"elicitation": {"form": {}}}));
    let asked = asked.bearing(&credential);
    let question = asked.result("tools/call", call.clone());
    assert_eq!(question["resultType"], "input_required", "{question}");
    let (id, wanted) = question["inputRequests"]
        .as_object()
        .and_then(|all| all.iter().next())
        .expect("a question");
    let message = wanted["params"]["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("`count`") && message.contains(r#"{"key":"m"}"#),
        "{message}"
    );
    let answered = |content: Value| {
        let mut params = call.clone();
        params["requestState"] = question["requestState"].clone();
        params["inputResponses"] = json!({ id: content });
        asked.result("tools/call", params)
    };
    let declined = answered(json!({"action": "decline"}));
    assert_eq!(declined["isError"], true, "{declined}");
    assert_eq!(guarded.executed("m"), "0");
    let question = asked.result("tools/call", call.clone());
    let id = question["inputRequests"]
        .as_object()
        .expect("questions")
        .keys()
        .next();
    let mut params = call.clone();
    params["requestState"] = question["requestState"].clone();
    params["inputResponses"] =
        json!({ id.expect("one"): {"action": "accept", "content": {"confirm": true}} });
    let done = asked.result("tools/call", params);
    assert_eq!(done["content"][0]["text"], "1", "{done}");

    let unasked = Modern::new(gateway, "/mcp").bearing(&credential);
    let legacy = Legacy::bearing(gateway, &credential);
    for (caller, want) in [(&unasked as &dyn Caller, "2"), (&legacy, "3")] {
        let refused = caller.result("tools/call", call.clone());
        assert_eq!(refused["isError"], true, "{refused}");
        let meta = &refused["_meta"];
        let problem = &meta["sentinel-gateway/problem"];
        assert_eq!(problem["code"], "confirmation_required", "{refused}");
        let token = meta["sentinel-gateway/confirmation"].as_str();
        let token = token.expect("the token");
        // A model reads it in the text.
        let text = refused["content"][0]["text"].as_str().expect("a text");
        assert_eq!(text.split('"').nth(3), Some(token), "{text}");
        let mut params = call.clone();
        params["_meta"] = json!({"sentinel-gateway/confirmation": token});
        let done = caller.result("tools/call", params);
        assert_eq!(done["content"][0]["text"], want, "{done}");
    }
}
