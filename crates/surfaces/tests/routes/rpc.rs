//! JSON-RPC methods that a backend declares.

use serde_json::{Value, json};

use crate::site::Site;

const SUM: &str = r#"{"jsonrpc":"2.0","id":"a","method":"math.sum","params":[1,2,3]}"#;

#[tokio::test]
async fn a_backend_answers_its_methods_itself() {
    let site = Site::of("admin");
    let answer = site.json("POST /rpc", SUM).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body, r#"{"jsonrpc":"2.0","id":"a","result":6}"#);
    assert_eq!(answer.header("x-rpc-method"), Some("math.sum"));
    let kept = site.records();
    assert_eq!(
        (&*kept[0].surface, &*kept[0].operation, kept[0].bytes_in),
        ("rpc", "sum", SUM.len() as u64)
    );
    let wrong = r#"{"jsonrpc":"2.0","id":1,"method":"math.sum","params":{}}"#;
    let answer = site.json("POST /rpc", wrong).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["message"], "nothing to add");
    assert_eq!(site.records()[0].outcome, "error");
    let note = r#"{"jsonrpc":"2.0","method":"math.sum","params":[1]}"#;
    let answer = site.json("POST /rpc", note).await;
    assert_eq!((answer.status, &*answer.body), (204, ""));
}

#[tokio::test]
async fn methods_by_arguments_and_by_name_stand_side_by_side_in_a_batch() {
    let site = Site::of("admin");
    let named = |id: u32, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let batch = json!([
        named(1, "orders.get", json!({ "id": 5 })),
        named(2, "math.sum", json!([4, 5])),
        named(3, "get_order", json!({ "id": 6 })),
        named(4, "nothing", json!({})),
        named(5, "nothing", json!([])),
        { "jsonrpc": "2.0", "method": "math.sum", "params": [1] },
    ]);
    let answer = site.json("POST /rpc", &batch.to_string()).await;
    assert_eq!(answer.status, 200);
    let all = answer.json();
    let all = all.as_array().expect("a batch");
    let of = |id: u32| all.iter().find(|one| one["id"] == id).expect("an answer");
    assert_eq!(of(1)["result"]["got"], json!({ "id": 5 }));
    assert_eq!(of(2)["result"], 9);
    assert_eq!(of(3)["result"]["got"], json!({ "id": 6 }));
    assert_eq!(of(4)["error"]["code"], -32601);
    assert_eq!(of(5)["error"]["code"], -32602);
    assert_eq!(all.len(), 5);
}

#[tokio::test]
async fn the_name_of_a_tool_comes_before_a_method() {
    let site = Site::of("admin");
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"list","params":{}}"#;
    let answer = site.json("POST /rpc", call).await;
    assert!(answer.json()["result"]["rows"].is_array(), "{answer:?}");
    let wrong = r#"{"jsonrpc":"2.0","id":1,"method":"orders.get","params":{"id":"x"}}"#;
    let answer = site.json("POST /rpc", wrong).await;
    assert_eq!(answer.json()["error"]["code"], -32602);
    // Methods of those who see nothing are unknown.
    let site = Site::of("nobody");
    let (hidden, missing) = (
        site.json("POST /rpc", SUM).await,
        site.json("POST /rpc", &SUM.replace("math.sum", "math.xyz"))
            .await,
    );
    assert_eq!(hidden.status, missing.status);
    assert_eq!(hidden.body, missing.body);
}
