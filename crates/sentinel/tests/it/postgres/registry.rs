//! A deployment with a registry of handlers, through the whole gateway: statuses and headers as the database answers them.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern};
use crate::support::http::Answer;
use crate::support::postgres::Cluster;
use crate::support::setup::until;
use crate::support::shop::{AUTH, gateway_of, member};
use crate::support::web::Web;

/// Written from the contract of such deployments.
const REGISTRY: [&str; 4] = [
    include_str!("../../../../backends/tests/postgres/registry/1-schema.sql"),
    include_str!("../../../../backends/tests/postgres/registry/2-http.sql"),
    include_str!("../../../../backends/tests/postgres/registry/3-mcp.sql"),
    include_str!("../../../../backends/tests/postgres/registry/4-handlers.sql"),
];
const MARKER: &str = "SECRET-MARKER";

fn status_and(answer: &Answer, header: &str) -> (u16, String) {
    (answer.status, answer.header(header).to_owned())
}

/// D-14 to D-18: success, a missing identity and an error over REST, JSON-RPC and MCP, and what HTTP adds.
#[test]
fn d_14_to_d_18_a_deployment_with_a_registry_answers_as_it_does_by_itself() {
    let cluster = Cluster::start();
    REGISTRY.iter().for_each(|script| cluster.run(script));
    let url = format!(
        "postgres://registry_customer@{}/postgres",
        cluster.address()
    );
    let gateway = gateway_of(&url, AUTH, "provider = \"idp\"");
    let web = Web::new(&gateway);
    let known = Web::new(&gateway).bearing(&member("alice", "acme"));

    // REST
    let read = web.get("/orders/5?x=1");
    assert_eq!(
        (read.status, read.json()),
        (200, json!({"url": "/orders/5?x=1", "method": "GET"}))
    );
    assert!(
        !read.header("x-route-id").is_empty() && !read.header("x-pgmi-catalog-version").is_empty(),
        "{read:?}"
    );
    let head = web.send("HEAD", "/orders/5", &[], "").finish();
    assert_eq!((head.status, head.text.as_str()), (200, ""), "{head:?}");
    assert_ne!(
        head.header("content-length"),
        "0",
        "as long as that of GET: {head:?}"
    );
    let gone = web.send("DELETE", "/orders/5", &[], "").finish();
    assert_eq!(gone.status, 204, "{gone:?}");
    let moved = web.get("/moved");
    assert_eq!(
        status_and(&moved, "location"),
        (302, "/orders/1".to_owned()),
        "{moved:?}"
    );
    let verb = web.send("PATCH", "/orders/5", &[], "").finish();
    assert_eq!(
        status_and(&verb, "allow"),
        (405, "DELETE, GET".to_owned()),
        "{verb:?}"
    );
    assert_eq!(web.get_as("/picture", "text/plain").status, 406);
    let form = [("Content-Type", "text/plain")];
    assert_eq!(web.send("POST", "/echo", &form, "x").finish().status, 415);
    let forged = [("x-user-id", "idp|alice"), ("X-Tenant-Id", "acme")];
    let nobody = web.send("GET", "/whoami", &forged, "").finish();
    assert_eq!(
        status_and(&nobody, "www-authenticate"),
        (401, "X-User-Id".to_owned()),
        "{nobody:?}"
    );
    assert_eq!(nobody.json()["title"], "Unauthorized");
    let who = known.send("GET", "/whoami", &forged, "").finish();
    assert_eq!(
        (who.status, &who.json()["user"]),
        (200, &json!("idp|alice")),
        "{who:?}"
    );
    let lost = web.get("/lost");
    assert_eq!(
        status_and(&lost, "retry-after"),
        (409, "1".to_owned()),
        "{lost:?}"
    );
    let broken = web.get("/broken");
    assert_eq!(broken.status, 500, "{broken:?}");
    assert_eq!(web.get("/nothing").status, 404);
    let weaker = [("X-PGMI-Transaction-Isolation", "chaos")];
    assert_eq!(web.send("GET", "/anyone", &weaker, "").finish().status, 400);

    // A handler that asks for more than the gateway knows of: the database's own answer, until it is read again.
    cluster.ask(
        "UPDATE api.handler SET read_only = true, min_transaction_isolation = 'repeatable read' \
         WHERE handler_function_name = 'anyone'",
    );
    let weak = web.get("/anyone");
    assert_eq!(weak.status, 428, "{weak:?}");
    assert_eq!(weak.json()["code"], "pgmi.transaction_isolation_too_weak");
    until("the handler is read again", || {
        (web.get("/anyone").status == 200).then_some(())
    });

    // JSON-RPC
    let listed = web.rpc("orders.list", &json!({}));
    assert_eq!(
        (listed.status, &listed.json()["id"]),
        (200, &json!(1)),
        "{listed:?}"
    );
    let mine = web.rpc("orders.mine", &json!({}));
    assert_eq!((mine.status, mine.code()), (401, -32001), "{mine:?}");
    assert_eq!(
        known.rpc("orders.mine", &json!({})).json()["result"]["user"],
        "idp|alice"
    );
    let failed = web.rpc("orders.broken", &json!({}));
    assert_eq!((failed.status, failed.code()), (500, -32603), "{failed:?}");
    assert_eq!(web.rpc("orders.nothing", &json!({})).status, 404);
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "orders.list", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "method": "orders.mine", "params": {}},
        {"jsonrpc": "2.0", "id": 3, "method": "greet", "params": {"who": "you"}},
    ]);
    let batch = web.post("/rpc", &batch);
    let ids: Vec<Value> = batch
        .json()
        .as_array()
        .expect("answers")
        .iter()
        .map(|one| one["id"].clone())
        .collect();
    assert_eq!(
        (batch.status, ids),
        (200, vec![json!(1), json!(2), json!(3)]),
        "{batch:?}"
    );

    // MCP
    let (modern, legacy) = (Modern::new(&gateway, "/mcp"), Legacy::newest(&gateway));
    let greet = json!({"name": "greet", "arguments": {"who": "you"}});
    let callers: [&dyn Caller; 2] = [&modern, &legacy];
    let mut said = Vec::new();
    for caller in callers {
        let names = caller.tools();
        assert!(names.contains(&"greet".to_owned()), "{names:?}");
        assert!(
            !names.iter().any(|name| name.contains('/')),
            "REST and RPC handlers are no tools: {names:?}"
        );
        let greeted = caller.result("tools/call", greet.clone());
        let text = greeted["content"][0]["text"].as_str().expect("a text");
        assert!(text.starts_with("Hello you"), "{text}");
        let mine = caller.call("mine", json!({}));
        let code = if caller.is_modern() { -31401 } else { -32001 };
        assert_eq!(mine["error"]["code"], code, "{mine}");
        let broken = caller.call("broken", json!({}));
        assert_eq!(broken["result"]["isError"], true, "{broken}");
        let read = caller.result("resources/read", json!({"uri": "shop://orders/7"}));
        assert_eq!(read["contents"][0]["text"], "order");
        let prompt = caller.result(
            "prompts/get",
            json!({"name": "hello", "arguments": {"who": "you"}}),
        );
        assert_eq!(prompt["messages"][0]["content"]["text"], "Hello you");
        said.push(broken.to_string());
        said.push(
            caller
                .ask("resources/read", json!({"uri": "shop://bad"}))
                .to_string(),
        );
        said.push(
            caller
                .ask("prompts/get", json!({"name": "bad_prompt"}))
                .to_string(),
        );
    }
    let unasked = modern
        .send("tools/call", json!({"name": "mine", "arguments": {}}))
        .finish();
    assert_eq!(unasked.status, 200, "an error of a handler: {unasked:?}");
    said.extend([
        format!("{broken:?}"),
        format!("{lost:?}"),
        format!("{failed:?}"),
    ]);
    for text in said {
        assert!(!text.contains(MARKER), "{text}");
    }
}
