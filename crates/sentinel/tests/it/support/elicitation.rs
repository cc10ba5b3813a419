//! The rounds of a call to the fixture's tool `ask`, which wants a form filled in.

use serde_json::{Value, json};

use crate::support::callers::{Caller, tool};

/// What a caller that can answer every question says of itself.
const FORMS: &str = r#"{"elicitation":{"form":{}},"sampling":{},"roots":{}}"#;

pub(crate) fn forms() -> Value {
    serde_json::from_str(FORMS).expect("JSON")
}

pub(crate) fn accept(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

/// Calls `ask` as a modern caller; the answer that wants input.
pub(crate) fn first_round(caller: &impl Caller, message: &str) -> Value {
    let result = caller.result("tools/call", tool("ask", json!({"message": message})));
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert!(result["requestState"].is_string(), "{result}");
    let requests = result["inputRequests"].as_object().expect("requests");
    assert_eq!(requests.len(), 1, "{result}");
    let question = requests.values().next().expect("one");
    assert_eq!(question["method"], "elicitation/create");
    // Signed with the backend's name, so that a person knows who asks.
    let asked = question["params"]["message"].as_str().expect("text");
    assert!(
        asked.starts_with('[') && asked.ends_with(&format!("] {message}")),
        "{asked}"
    );
    result
}

pub(crate) fn retry(round: &Value, message: &str, answer: Value) -> Value {
    let key = round["inputRequests"]
        .as_object()
        .and_then(|all| all.keys().next());
    json!({
        "name": "ask", "arguments": {"message": message},
        "inputResponses": {key.expect("a key"): answer},
        "requestState": round["requestState"],
    })
}
