//! Users sent to web pages, and forms for clients of older revisions: the same question in the words of
//! each era.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, request, text_of, tool};
use crate::support::setup::{Gateway, Server, http_backend};

const PAGE: &str = "https://shop.example/connect?id=1";

fn servers() -> (Gateway, [Server; 2]) {
    let legacy = Server::start(&["--era", "legacy"]);
    let modern = Server::start(&["--era", "modern"]);
    let config = [
        http_backend("l", &legacy.address, ""),
        http_backend("m", &modern.address, ""),
    ];
    (Gateway::ready(&config.concat()), [legacy, modern])
}

fn both_modes() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}})
}

fn ask_url() -> Value {
    tool("ask", json!({"message": "Connect", "url": PAGE}))
}

/// An error of 2025-11-25 that sends the user somewhere first.
fn refusal() -> Value {
    let one = json!({"mode": "url", "elicitationId": "e1", "url": PAGE, "message": "Connect"});
    let data = json!({"elicitations": [one]});
    tool(
        "rpc_error",
        json!({"code": -32042, "message": "first connect", "data": data}),
    )
}

#[test]
fn c_39_a_legacy_caller_is_sent_to_a_page_with_an_id_and_hears_that_it_is_done() {
    let (gateway, _servers) = servers();
    for backend in ["l", "m"] {
        let path = format!("/mcp/{backend}");
        let caller = Legacy::with(&gateway, &path, "2025-11-25", both_modes());
        let mut stream = caller
            .send(&request(&json!("q"), "tools/call", ask_url()))
            .head();
        let question = stream.json();
        let params = &question["params"];
        assert_eq!(
            (&params["mode"], &params["url"]),
            (&json!("url"), &json!(PAGE))
        );
        assert_eq!(params["message"], format!("[{backend}] Connect"));
        let id = params["elicitationId"]
            .as_str()
            .expect("2025-11-25 wants one");
        assert_eq!(
            backend == "l",
            id == "of-the-server",
            "only a modern server has none: {id}"
        );
        let went = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
        assert_eq!(caller.post(&went.to_string()).status, 202);
        let mut next = stream.json();
        if backend == "l" {
            assert_eq!(next["method"], "notifications/elicitation/complete");
            assert_eq!(next["params"]["elicitationId"], id);
            next = stream.json();
        }
        assert_eq!(text_of(&next), "the user went");
    }
}

#[test]
fn c_39_a_modern_caller_is_sent_to_a_page_without_an_id() {
    let (gateway, _servers) = servers();
    for backend in ["l", "m"] {
        let caller = Modern::with(&gateway, &format!("/mcp/{backend}"), both_modes());
        let asked = caller.result("tools/call", ask_url());
        let requests = asked["inputRequests"].as_object().expect("questions");
        let (key, question) = requests.iter().next().expect("one");
        assert_eq!(question["params"]["url"], PAGE);
        assert!(question["params"]["elicitationId"].is_null());
        let mut retry = ask_url();
        retry["inputResponses"] = json!({key: {"action": "accept"}});
        retry["requestState"] = asked["requestState"].clone();
        let done = caller.result("tools/call", retry);
        assert_eq!(done["content"][0]["text"], "the user went");
    }
}

#[test]
fn c_39_an_error_that_asks_for_a_visit_is_a_question_to_modern_callers() {
    let (gateway, _servers) = servers();
    let caller = Modern::with(&gateway, "/mcp/l", both_modes());
    let asked = caller.result("tools/call", refusal());
    assert_eq!(asked["resultType"], "input_required");
    let question = &asked["inputRequests"]["visit-1"];
    assert_eq!(question["method"], "elicitation/create");
    let want = json!({"mode": "url", "url": PAGE, "message": "[l] Connect"});
    assert_eq!(question["params"], want);
    // The retry is the call itself, anew; this backend still wants the same.
    let mut retry = refusal();
    retry["inputResponses"] = json!({"visit-1": {"action": "accept"}});
    retry["requestState"] = asked["requestState"].clone();
    assert_eq!(
        caller.result("tools/call", retry.clone())["resultType"],
        "input_required"
    );
    retry["arguments"]["message"] = json!("another call");
    assert_eq!(caller.ask("tools/call", retry)["error"]["code"], -32602);
    // Whoever cannot open pages is told what is missing.
    let plain = Modern::with(&gateway, "/mcp/l", json!({"elicitation": {"form": {}}}));
    let missing = plain.ask("tools/call", refusal());
    assert_eq!(missing["error"]["code"], -32021, "{missing}");
    let required = &missing["error"]["data"]["requiredCapabilities"];
    assert_eq!(required, &json!({"elicitation": {"url": {}}}));
}

#[test]
fn c_39_an_error_that_asks_for_a_visit_reaches_legacy_callers_in_their_words() {
    let (gateway, _servers) = servers();
    let newest = Legacy::connect(&gateway, "/mcp/l", "2025-11-25");
    let error = newest.ask("tools/call", refusal())["error"].clone();
    assert_eq!(error["code"], -32042);
    let one = &error["data"]["elicitations"][0];
    assert_eq!(
        (&one["elicitationId"], &one["message"]),
        (&json!("e1"), &json!("[l] Connect"))
    );
    let older = Legacy::connect(&gateway, "/mcp/l", "2025-06-18");
    let error = older.ask("tools/call", refusal())["error"].clone();
    assert_eq!(error["code"], -32603);
    assert!(
        error["message"].as_str().expect("words").contains(PAGE),
        "{error}"
    );
}

#[test]
fn c_39_a_form_is_asked_in_the_words_of_the_callers_revision() {
    let (gateway, _servers) = servers();
    let ask = || tool("ask", json!({"message": "Colour?", "choices": true}));
    for backend in ["l", "m"] {
        let path = format!("/mcp/{backend}");
        let older = Legacy::with(&gateway, &path, "2025-06-18", json!({"elicitation": {}}));
        let mut stream = older
            .send(&request(&json!("q"), "tools/call", ask()))
            .head();
        let question = stream.json();
        let name = &question["params"]["requestedSchema"]["properties"]["name"];
        let want = json!({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]});
        assert_eq!(name, &want, "{backend}");
        let chosen = json!({"action": "accept", "content": {"name": "g"}});
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": chosen});
        assert_eq!(older.post(&answer.to_string()).status, 202);
        assert_eq!(text_of(&stream.json()), "hello g");
        // Before 2025-06-18 nobody could be asked, whatever they declare.
        let oldest = Legacy::with(&gateway, &path, "2025-03-26", json!({"elicitation": {}}));
        let refused = oldest.ask("tools/call", ask());
        let told = refused["error"].is_object() || refused["result"]["isError"] == true;
        assert!(told, "{refused}");
    }
}

/// A modern server wants input again until the user is done at the page; `accept` only means that the user went.
#[test]
fn c_39_a_user_who_is_at_a_page_is_asked_once_and_the_backend_is_looked_at_again() {
    let (gateway, _servers) = servers();
    let caller = Legacy::with(&gateway, "/mcp/m", "2025-11-25", both_modes());
    let ask = tool(
        "ask",
        json!({"message": "Connect", "url": PAGE, "times": 2}),
    );
    let mut stream = caller.send(&request(&json!("q"), "tools/call", ask)).head();
    let question = stream.json();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let began = std::time::Instant::now();
    let went = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
    assert_eq!(caller.post(&went.to_string()).status, 202);
    let done = stream.json();
    assert_eq!(
        text_of(&done),
        "the user went",
        "nothing else is asked: {done}"
    );
    let took = began.elapsed().as_millis();
    assert!(took >= 3000, "a second, then two: {took} ms");
    let answers = Modern::new(&gateway, "/mcp/m").said("executed", json!({"key": "answers"}));
    assert_eq!(answers, "3");
}
