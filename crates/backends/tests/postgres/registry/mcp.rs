//! MCP handlers: results, the error object of a failed authentication, failures of tools, resources and prompts.

use sentinel_core::Kind;
use sentinel_wire::Method;
use serde_json::{Value, json};

use super::deployment::{ISSUER, MARKER, deployment, known, nobody};

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn tools_of_a_registry_answer_as_the_database_does() {
    let d = deployment().await;
    let call = async |caller, name: &str| {
        let who = r#"'; DROP TABLE api.handler; -- ""#;
        let params = json!({"name": name, "arguments": {"who": who}});
        d.mcp(caller, Method::ToolsCall, params).await
    };
    let said = call(nobody(), "greet").await.unwrap().unwrap();
    assert!(
        text(&said).starts_with(r#"Hello '; DROP TABLE api.handler; -- ""#),
        "{said}"
    );
    assert!(text(&said).contains(r#""read_only": "on""#), "{said}");
    // Surfaces send it as an error object, with HTTP 200 and the code of the caller's era.
    let refused = call(nobody(), "mine").await.unwrap_err();
    assert_eq!(refused.kind, Kind::Unauthorized);
    let said = call(known("alice", "acme"), "mine").await.unwrap().unwrap();
    let who: Value = serde_json::from_str(text(&said)).unwrap();
    assert_eq!(who["user"], format!("{ISSUER}|alice"));
    assert_eq!(
        (&who["tenant"], &who["email"]),
        (&json!("acme"), &json!("alice@example.com"))
    );
    let failed = call(nobody(), "broken").await.unwrap().unwrap();
    assert_eq!(
        (&failed["isError"], text(&failed)),
        (&json!(true), "Tool execution failed")
    );
    let lost = call(nobody(), "lost").await.unwrap().unwrap_err();
    assert_eq!(
        (&lost["code"], &lost["data"]["attempts"]),
        (&json!(-32603), &json!(3))
    );
    assert_eq!(lost["data"]["code"], "pgmi.transaction_retryable");
    for said in [&failed, &lost] {
        assert!(!said.to_string().contains(MARKER), "{said}");
    }
    let silent = call(nobody(), "silent").await.unwrap().unwrap();
    assert_eq!(silent["isError"], true);
    assert!(text(&silent).contains("is no answer"), "{silent}");
    assert_eq!(
        call(nobody(), "rpc/orders.list").await.unwrap_err().kind,
        Kind::UnknownName
    );
    assert_ne!(d.cluster.ask("SELECT count(*) FROM api.handler"), "0");
}

#[tokio::test]
async fn resources_and_prompts_of_a_registry_answer_as_the_database_does() {
    let d = deployment().await;
    let read = async |uri: &str| {
        d.mcp(nobody(), Method::ResourcesRead, json!({"uri": uri}))
            .await
    };
    for (uri, wanted) in [
        ("shop://about", "about"),
        ("shop://orders/5", "order"),
        ("shop://orders/'%20OR%201=1", "order"),
    ] {
        let said = read(uri).await.unwrap().unwrap();
        assert_eq!(said["contents"][0]["text"], wanted);
        assert_eq!(said["contents"][0]["uri"], uri);
    }
    assert_eq!(
        read("shop://secret").await.unwrap_err().kind,
        Kind::Unauthorized
    );
    let failed = read("shop://bad").await.unwrap().unwrap_err();
    assert_eq!(
        (&failed["code"], &failed["message"]),
        (&json!(-32603), &json!("Internal error"))
    );
    assert!(!failed.to_string().contains(MARKER));
    assert_eq!(
        read("shop://orders/5/6").await.unwrap_err().kind,
        Kind::UnknownResource
    );
    let get = async |name: &str| {
        let params = json!({"name": name, "arguments": {"who": "a'b"}});
        d.mcp(nobody(), Method::PromptsGet, params).await
    };
    let said = get("hello").await.unwrap().unwrap();
    assert_eq!(said["messages"][0]["content"]["text"], "Hello a'b");
    assert_eq!(get("closed").await.unwrap_err().kind, Kind::Unauthorized);
    let failed = get("bad_prompt").await.unwrap();
    assert_eq!(failed.unwrap_err()["code"], -32603);
}
