//! RPC handlers: results, failures of authentication, errors, and lost transactions.

use serde_json::json;

use super::deployment::{ISSUER, deployment, known, nobody};

#[tokio::test]
async fn answers_of_rpc_handlers_are_the_databases_own() {
    let d = deployment().await;
    let body = r#"{"jsonrpc":"2.0","id":"a\"b","method":"orders.list","params":{}}"#;
    let said = d.rpc(nobody(), "orders.list", body).await;
    assert_eq!((said.status, &said.json()["id"]), (200, &json!("a\"b")));
    assert_eq!(
        said.json()["result"]["user"],
        "",
        "a header that a client sent"
    );
    assert_eq!(said.header("x-rpc-method"), Some("orders.list"));
    let said = d
        .rpc(nobody(), "orders.mine", r#"{"jsonrpc":"2.0","id":7}"#)
        .await;
    assert_eq!(
        (said.status, &said.json()["error"]["code"]),
        (401, &json!(-32001))
    );
    assert_eq!(said.json()["id"], 7);
    assert!(said.header("www-authenticate").is_some());
    let said = d
        .rpc(known("alice", "acme"), "orders.mine", r#"{"id":7}"#)
        .await;
    assert_eq!(said.json()["result"]["user"], format!("{ISSUER}|alice"));
    let said = d.rpc(nobody(), "orders.broken", r#"{"id":7}"#).await;
    assert_eq!(
        (said.status, &said.json()["error"]["code"]),
        (500, &json!(-32603))
    );
    said.assert_clean();
    let said = d.rpc(nobody(), "orders.list", "{").await;
    assert_eq!(
        (said.status, &said.json()["error"]["code"]),
        (400, &json!(-32700))
    );
    let said = d.rpc(nobody(), "orders.lost", r#"{"id":8}"#).await;
    assert_eq!((said.status, said.header("retry-after")), (409, Some("1")));
    let error = &said.json()["error"];
    assert_eq!(
        (&error["code"], &said.json()["id"]),
        (&json!(-32603), &json!(8))
    );
    let data = json!({"code": "pgmi.transaction_retryable", "sqlstate": "40001", "attempts": 3});
    assert_eq!(error["data"], data);
    said.assert_clean();
    assert!(d.registry.rpc_route("orders.unknown", |_| true).is_none());
}
