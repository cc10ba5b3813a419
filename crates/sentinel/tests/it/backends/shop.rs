//! The guide of docs/postgres.md: the example of `sentinel pg init` behind configs/postgres.toml, with two organisations.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Modern, text_of};
use crate::support::http::{self, Answer};
use crate::support::postgres::Cluster;
use crate::support::setup::{Gateway, Setup, until};
use crate::support::tokens::{JSON_BODY, token};

const CONFIG: &str = include_str!("../../../../../configs/postgres.toml");
const GUIDE: &str = include_str!("../../../../../docs/postgres.md");

/// A gateway as the guide starts it, but for the port, the data directory and the time of the catalog's refresh: never, unless the
/// database says so.
fn shop() -> (Cluster, Gateway) {
    let cluster = Cluster::start();
    let operator = Setup::with_env("", &[("DATABASE_URL", &cluster.url())]);
    let init = ["pg", "init", "--apply", "DATABASE_URL", "--event-trigger"];
    let (code, line, err) = operator.sentinel(&init);
    assert_eq!(code, 0, "{err}");
    let url = line.trim_end().strip_prefix("export SHOP_DATABASE_URL='");
    let url = url.and_then(|url| url.strip_suffix('\'')).expect("a URL");
    let setup = Setup::with_env("", &[("SHOP_DATABASE_URL", url)]);
    let here = format!("listen = \"127.0.0.1:0\"\ndata_dir = {:?}", setup.data());
    let config = CONFIG
        .replace("listen = \"127.0.0.1:9200\"", &here)
        .replace(
            "schema = \"shop_api\"",
            "schema = \"shop_api\"\nrefresh = 0",
        );
    assert!(config.contains("refresh = 0") && config.contains("data_dir"));
    setup.overwrite(&config);
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    (cluster, gateway)
}

/// A token of a member of an organisation.
fn member(name: &str, tenant: &str, role: &str) -> String {
    token(json!({"sub": name, "tenant_id": tenant, "role": role}))
}

fn post(gateway: &Gateway, path: &str, credential: &str, body: Value) -> Answer {
    let bearer = format!("Bearer {credential}");
    let headers = [JSON_BODY, ("Authorization", &*bearer)];
    http::send(&gateway.address, "POST", path, &headers, body.to_string()).finish()
}

/// What a call answers over MCP, REST and JSON-RPC, as text.
fn everywhere(gateway: &Gateway, credential: &str, tool: &str, arguments: &Value) -> [String; 3] {
    let mcp = Modern::new(gateway, "/mcp").bearing(credential);
    let rest = post(
        gateway,
        &format!("/api/{tool}"),
        credential,
        arguments.clone(),
    );
    let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": tool, "params": arguments});
    [
        mcp.call(tool, arguments.clone()).to_string(),
        rest.text,
        post(gateway, "/rpc", credential, rpc).text,
    ]
}

#[test]
fn each_organisation_sees_its_own_rows_on_every_surface() {
    let (_cluster, gateway) = shop();
    let alice = member("alice", "acme", "buyer");
    let hank = member("hank", "globex", "buyer");
    for (credential, own, other) in [
        (&alice, "for the cliff", "for the moon"),
        (&hank, "for the moon", "for the cliff"),
        (&alice, "Rocket skates", "for the moon"),
    ] {
        for answer in everywhere(&gateway, credential, "list_orders", &json!({})) {
            assert!(answer.contains(own) && !answer.contains(other), "{answer}");
        }
    }
    // Somebody of no organisation, and of one that does not exist.
    for tenant in [Value::Null, json!("nobody"), json!("' OR true --")] {
        let stray = token(json!({"sub": "x", "tenant_id": tenant, "role": "buyer"}));
        for answer in everywhere(&gateway, &stray, "list_orders", &json!({})) {
            assert!(!answer.contains("for the"), "{tenant}: {answer}");
            assert!(answer.contains("rows"), "{tenant}: {answer}");
        }
    }
    let bare = http::send(
        &gateway.address,
        "POST",
        "/api/list_orders",
        &[JSON_BODY],
        "{}",
    );
    assert_eq!(bare.finish().status, 401);
}

#[test]
fn an_order_is_its_callers_own_and_errors_for_callers_arrive() {
    let (_cluster, gateway) = shop();
    let alice = member("alice", "acme", "buyer");
    let hank = member("hank", "globex", "buyer");
    let order = json!({"product_id": 3, "quantity": 2, "note": "größer"});
    let placed = post(&gateway, "/api/place_order", &alice, order);
    assert_eq!(placed.status, 200, "{}", placed.text);
    let id = placed.json()["id"].clone();
    assert!(id.is_u64(), "{}", placed.text);

    let own = post(&gateway, "/api/get_order", &alice, json!({"id": id}));
    assert_eq!((own.status, own.json()), (200, placed.json()));
    for (member, value) in [
        ("product", json!("Giant magnet")),
        ("quantity", json!(2)),
        ("placed_by", json!("alice")),
        ("note", json!("größer")),
    ] {
        assert_eq!(own.json()[member], value, "{}", own.text);
    }
    let foreign = post(&gateway, "/api/get_order", &hank, json!({"id": id}));
    assert_eq!(foreign.status, 404, "{}", foreign.text);
    let words = format!("your organisation has no order {id}");
    assert!(foreign.text.contains(&words), "{}", foreign.text);
    let mcp = Modern::new(&gateway, "/mcp").bearing(&hank);
    let told = mcp.call("get_order", json!({"id": id}));
    assert_eq!(told["result"]["isError"], true, "{told}");
    assert!(text_of(&told).contains(&words), "{told}");

    // The tool has no argument for who ordered, and the domain's bounds are in its schema.
    let tools = mcp.result("tools/list", json!({}));
    let tools = tools["tools"].as_array().expect("tools");
    let tool = tools
        .iter()
        .find(|tool| tool["name"] == "place_order")
        .expect("it is listed");
    let properties = &tool["inputSchema"]["properties"];
    assert_eq!(properties["placed_by"], Value::Null, "{tool}");
    assert_eq!(properties["quantity"]["maximum"], 100, "{tool}");
    for (body, status) in [
        (
            json!({"product_id": 3, "quantity": 2, "placed_by": "bob"}),
            422,
        ),
        (json!({"product_id": 3, "quantity": 101}), 422),
        (json!({"product_id": 2, "quantity": 99}), 422),
    ] {
        let refused = post(&gateway, "/api/place_order", &alice, body.clone());
        assert_eq!(refused.status, status, "{body}: {}", refused.text);
    }
    let auditor = member("ann", "acme", "auditor");
    let refused = post(
        &gateway,
        "/api/place_order",
        &auditor,
        json!({"product_id": 1, "quantity": 1}),
    );
    assert_eq!(refused.status, 404, "{}", refused.text);
}

#[test]
fn the_example_has_paths_of_its_own() {
    let (_cluster, gateway) = shop();
    let alice = format!("Bearer {}", member("alice", "acme", "buyer"));
    let ask = |verb: &str, path: &str, accept: &str, body: &str| {
        let headers = [JSON_BODY, ("Authorization", &*alice), ("Accept", accept)];
        http::send(&gateway.address, verb, path, &headers, body).finish()
    };
    let json = "application/json";
    let all = ask("GET", "/shop/orders", json, "");
    assert_eq!(
        all.json()["rows"].as_array().map(Vec::len),
        Some(2),
        "{}",
        all.text
    );
    let own = ask("GET", "/shop/orders/1", json, "");
    assert_eq!((own.status, &own.json()["product"]), (200, &json!("Anvil")));
    let foreign = ask("GET", "/shop/orders/3", json, "");
    assert_eq!(foreign.status, 404, "{}", foreign.text);
    assert!(foreign.text.contains("has no order 3"), "{}", foreign.text);
    let placed = ask(
        "POST",
        "/shop/orders",
        json,
        r#"{"product_id":1,"quantity":3}"#,
    );
    assert_eq!(
        (placed.status, &placed.json()["placed_by"]),
        (200, &json!("alice"))
    );
    let wrong = ask("DELETE", "/shop/orders/1", json, "");
    assert_eq!((wrong.status, wrong.header("allow")), (405, "GET, HEAD"));
    assert_eq!(ask("GET", "/shop/nothing", json, "").status, 404);
    let found = ask("GET", "/shop/products?query=skates&max_price=400", json, "");
    assert_eq!(
        found.json()["rows"][0]["price"].to_string(),
        "349.5",
        "{}",
        found.text
    );

    let lines = ask("GET", "/shop/products", "application/x-ndjson", "").text;
    let records: Vec<Value> = lines.lines().map(http::parse).collect();
    let rows = records.iter().filter(|record| record["type"] == "row");
    let names: Vec<&str> = rows
        .filter_map(|record| record["row"]["name"].as_str())
        .collect();
    assert_eq!(names, ["Anvil", "Giant magnet", "Rocket skates"], "{lines}");
    let document = ask("GET", "/openapi.json", json, "").json();
    assert!(
        document["paths"]["/shop/orders/{id}"]["get"].is_object(),
        "{}",
        document["paths"]
    );
}

#[test]
fn the_example_has_a_resource_and_a_prompt() {
    let (_cluster, gateway) = shop();
    let alice = Modern::new(&gateway, "/mcp").bearing(&member("alice", "acme", "buyer"));
    let stock = alice.result("resources/read", json!({"uri": "shop://stock"}));
    let text = stock["contents"][0]["text"].as_str().expect("text");
    let stock: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(stock["Anvil"], 12, "{text}");
    let asked = alice.result(
        "prompts/get",
        json!({"name": "restock", "arguments": {"product": "Anvil"}}),
    );
    let words = asked["messages"][0]["content"]["text"]
        .as_str()
        .expect("text");
    assert!(words.contains("We have 12 of 'Anvil'"), "{asked}");
}

#[test]
fn the_event_trigger_tells_the_gateway_of_new_changed_and_dropped_functions() {
    let (cluster, gateway) = shop();
    let alice = Modern::new(&gateway, "/mcp").bearing(&member("alice", "acme", "buyer"));
    let has = |name: &str| alice.tools().iter().any(|tool| tool == name);
    assert!(!has("greet"));
    cluster.ask("CREATE FUNCTION shop_api.greet() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'good morning' $$");
    cluster.ask("GRANT EXECUTE ON FUNCTION shop_api.greet() TO shop_gateway");
    cluster.ask("COMMENT ON FUNCTION shop_api.greet() IS '@tool'");
    until("the new function is a tool", || has("greet").then_some(()));
    assert!(alice.said("greet", json!({})).contains("good morning"));
    cluster.ask("COMMENT ON FUNCTION shop_api.greet() IS '@tool welcome'");
    until("it has its other name", || {
        (has("welcome") && !has("greet")).then_some(())
    });
    cluster.ask("DROP FUNCTION shop_api.greet()");
    until("it is gone", || (!has("welcome")).then_some(()));
}

/// A function may make temporary tables at each call: no reason to read the catalog each time.
#[test]
fn temporary_tables_are_no_change_of_the_catalog() {
    let (cluster, _gateway) = shop();
    let is_told = |change: &str| {
        let said = cluster.ask(&format!("LISTEN sentinel_catalog; {change}"));
        said.contains("notification \"sentinel_catalog\"")
    };
    assert!(!is_told("CREATE TEMP TABLE t (n int) ON COMMIT DROP"));
    for change in [
        "CREATE TABLE public.t (n int)",
        "GRANT SELECT ON public.t TO shop_gateway",
        "COMMENT ON TABLE public.t IS 'numbers'",
        "DROP TABLE public.t",
    ] {
        assert!(is_told(change), "{change}");
    }
}

#[test]
fn the_guide_shows_the_configuration_that_is_tested() {
    let shown = CONFIG.split_once("\n\n").expect("a comment first").1;
    assert!(
        GUIDE.contains(shown),
        "docs/postgres.md shows another configuration"
    );
}
