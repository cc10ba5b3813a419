//! Declared paths and methods in the documents.

use serde_json::{Value, json};

use crate::site::Site;

fn names(all: &Value) -> Vec<&str> {
    let all = all.as_array().expect("a list");
    all.iter().filter_map(|one| one["name"].as_str()).collect()
}

#[tokio::test]
async fn routes_are_in_openapi_at_their_own_paths() {
    let site = Site::of("admin");
    let document = site.get("GET /openapi.json").await.json();
    let paths = document["paths"].as_object().expect("paths");
    let orders = &paths["/orders/{id}"];
    let get = &orders["get"];
    assert_eq!(get["tags"], json!(["shop"]));
    assert_eq!(get["operationId"], "get_order_get");
    assert_eq!(names(&get["parameters"]), ["id", "verbose"]);
    assert_eq!(get["parameters"][0]["in"], "path");
    assert_eq!(get["parameters"][0]["schema"]["type"], "integer");
    // The other name of the same parameter would make it another path.
    let put = &orders["put"];
    assert_eq!(put["parameters"][0]["name"], "id");
    assert!(!paths.contains_key("/orders/{order}"));
    let post = &paths["/changes/{id}"]["post"];
    let body = &post["requestBody"]["content"]["application/json"]["schema"]["$ref"];
    let name = body.as_str().and_then(|text| text.rsplit('/').next());
    let schema = &document["components"]["schemas"][name.expect("a name")];
    let properties = schema["properties"].as_object().expect("properties");
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["name"]);
    let delete = &paths["/changes/{id}"]["delete"];
    assert_eq!(names(&delete["parameters"]), ["id", "name"]);
    assert!(delete.get("requestBody").is_none());
    for missing in [
        "/page/*",
        "/api/change_order",
        "/api/sum",
        "/api/{operation}",
    ] {
        let is_there = paths
            .get(missing)
            .is_some_and(|item| item.get("get").is_some());
        assert_eq!(is_there, missing == "/page/*", "{missing}");
    }
    assert_eq!(paths["/secret"]["get"]["operationId"], "secret");
    let viewer = Site::of("viewer").get("GET /openapi.json").await.json();
    assert!(viewer["paths"].get("/secret").is_none());
    assert!(viewer["paths"].get("/orders/{id}").is_some());
}

#[tokio::test]
async fn methods_are_in_openrpc_and_everything_in_the_catalog() {
    let site = Site::of("admin");
    let discover = r#"{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}"#;
    let document = site.json("POST /rpc", discover).await.json();
    let methods = &document["result"]["methods"];
    let own = [
        "rpc.discover",
        "rpc.readResource",
        "rpc.getPrompt",
        "rpc.continue",
    ];
    let mut listed = names(methods);
    listed.retain(|name| !own.contains(name));
    listed.sort_unstable();
    let want = ["get_order", "list", "math.sum", "orders.get", "whoami"];
    assert_eq!(listed, want);
    let catalog = site.get("GET /api/catalog").await.json();
    let of = |name: &str| {
        let all = catalog["tools"].as_array().expect("tools").clone();
        let found = all.into_iter().find(|tool| tool["name"] == name);
        found.unwrap_or_else(|| panic!("{name} in {catalog}"))
    };
    let order = of("get_order");
    assert_eq!(order["method"], json!(["GET", "POST"]));
    assert_eq!(
        order["routes"],
        json!([{ "method": ["GET"], "path": "/orders/{id}" }])
    );
    assert_eq!(order["rpcMethods"], json!(["orders.get"]));
    assert!(of("change_order").get("method").is_none());
    assert_eq!(of("sum")["rpcMethods"], json!(["math.sum"]));
    let full = site.get("GET /llms-full.txt").await.body;
    assert!(full.contains("PUT or PATCH /orders/{order}"), "{full}");
    assert!(full.contains("JSON-RPC method math.sum"), "{full}");
    assert!(full.contains("POST or GET /api/get_order, GET /orders/{id}"));
}

/// What is reached by a route or by JSON-RPC alone is no tool of MCP.
#[tokio::test]
async fn mcp_lists_what_has_a_name() {
    let site = Site::of("admin");
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let headers = [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/list",
    ];
    let answer = site.send("POST /mcp", &headers, list).await;
    let tools = answer.json()["result"]["tools"].clone();
    assert_eq!(names(&tools), ["get_order", "list", "whoami"]);
}
