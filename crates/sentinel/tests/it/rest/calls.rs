//! One catalog, every surface: the same operations with the same payloads, rights, records and charges, whatever backend
//! they come from and whatever a caller speaks.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::support::callers::{Caller, Legacy, Modern};
use crate::support::http::Answer;
use crate::support::old_server::OldServer;
use crate::support::records::export;
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend};
use crate::support::tokens::token;
use crate::support::web::Web;

/// Own names of the fixture's tools with arguments to which the answer is the same each time.
fn rows() -> Vec<(&'static str, Value)> {
    vec![
        ("echo", json!({"text": "\u{e9} \"quoted\" \u{1f600}\n"})),
        ("blob", json!({"bytes": 4000})),
        ("slow", json!({"ms": 1})),
        ("executed", json!({"key": "nobody"})),
        ("structured", json!({"city": "Bern"})),
        ("exact", json!({})),
    ]
}

/// An API with one operation, whose answer is the same each time.
fn description(api: &Server) -> Value {
    let n = json!({"name": "n", "in": "query", "schema": {"type": "integer"}});
    json!({
        "openapi": "3.1.0",
        "info": {"title": "An API", "version": "1"},
        "servers": [{"url": format!("http://{}", api.address)}],
        "paths": {"/bytes/text/plain": {"get": {"operationId": "letters", "parameters": [n],
            "responses": {"200": {"description": "Letters"}}}}},
    })
}

/// Every kind of backend behind one gateway, each with its name in front of its tools.
pub(super) struct Catalog {
    pub(super) gateway: Gateway,
    _servers: [Server; 3],
    _spec: NamedTempFile,
}

impl Catalog {
    pub(super) fn start(more: &str) -> Self {
        let legacy = Server::start(&["--era", "legacy"]);
        let modern = Server::start(&["--era", "modern"]);
        let oldest = OldServer::start("A server of HTTP+SSE");
        let api = Server::api(&[]);
        let spec = NamedTempFile::with_suffix(".json").expect("a file");
        std::fs::write(spec.path(), description(&api).to_string()).expect("written");
        let prefix = "prefix = \"always\"";
        let described = format!(
            "[[backends]]\nname = \"api\"\ntype = \"openapi\"\nspec = {:?}\nbase_url = \"http://{}\"\n{prefix}\n",
            spec.path(),
            api.address
        );
        let backends = [
            http_backend("old", &legacy.address, prefix),
            http_backend("new", &modern.address, prefix),
            stdio_backend("child", &[], prefix),
            http_backend("oldest", &oldest.address, prefix),
            described,
        ];
        let gateway = Gateway::ready(&format!(
            "[auth]\n[review]\nenabled = true\n\
             [rbac.roles.agent]\npermissions = [\"tools.read\", \"tools.execute\"]\n\
             denied_tools = [\"new.blob\", \"new.static\", \"old.greet\"]\n\
             [rbac.roles.viewer]\npermissions = [\"tools.read\"]\n{more}\n{}",
            backends.concat()
        ));
        Self {
            gateway,
            _servers: [legacy, modern, api],
            _spec: spec,
        }
    }
}

/// One role's callers, one for each surface.
pub(super) struct Callers {
    pub(super) legacy: Legacy,
    pub(super) modern: Modern,
    pub(super) web: Web,
}

impl Callers {
    pub(super) fn new(gateway: &Gateway, role: &str) -> Self {
        let token = token(json!({"role": role, "sub": role}));
        Self {
            legacy: Legacy::bearing(gateway, &token),
            modern: Modern::new(gateway, "/mcp").bearing(&token),
            web: Web::new(gateway).bearing(&token),
        }
    }

    /// The texts of a tool's payload on each surface.
    pub(super) fn payloads(&self, tool: &str, arguments: &Value) -> BTreeMap<&'static str, String> {
        let mcp = |caller: &dyn Caller| {
            let params = json!({"name": tool, "arguments": arguments});
            let messages = caller.exchange("tools/call", params);
            of_result(member(messages.last().expect("an answer"), "result"))
        };
        let rest = self.web.post(&format!("/api/{tool}"), arguments);
        let rpc = self.web.rpc(tool, arguments);
        assert_eq!((rest.status, rpc.status), (200, 200), "{rest:?} {rpc:?}");
        BTreeMap::from([
            ("legacy", mcp(&self.legacy)),
            ("modern", mcp(&self.modern)),
            ("rest", rest.text),
            ("rpc", member(&rpc.text, "result").to_owned()),
        ])
    }
}

/// The text of one member, as it was sent.
fn member<'t>(text: &'t str, name: &str) -> &'t str {
    let object: BTreeMap<&str, &'t serde_json::value::RawValue> =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let found = object.get(name);
    found.unwrap_or_else(|| panic!("no {name}: {text}")).get()
}

/// What REST and JSON-RPC make of a result of MCP.
fn of_result(result: &str) -> String {
    match result.contains("\"structuredContent\"") {
        true => member(result, "structuredContent").to_owned(),
        false => format!(r#"{{"content":{}}}"#, member(result, "content")),
    }
}

#[test]
fn a_2_every_tool_is_called_on_every_surface_with_equal_payloads() {
    let catalog = Catalog::start("");
    let callers = Callers::new(&catalog.gateway, "admin");
    let listed = callers.modern.tools();
    let shown = callers.web.get("/api/catalog").json();
    let shown: Vec<&str> = shown["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(shown, listed);
    for backend in ["old", "new", "child"] {
        for (tool, arguments) in rows() {
            let name = format!("{backend}__{tool}");
            assert!(listed.contains(&name), "{name} in {listed:?}");
            let payloads = callers.payloads(&name, &arguments);
            let first = &payloads["legacy"];
            for (surface, payload) in &payloads {
                assert_eq!(payload, first, "{name} on {surface}");
            }
        }
    }
    for (name, arguments) in [
        ("api__letters", json!({"n": 5})),
        ("oldest__echo", json!({"text": "x"})),
    ] {
        let payloads = callers.payloads(name, &arguments);
        for (surface, payload) in &payloads {
            assert_eq!(payload, &payloads["legacy"], "{name} on {surface}");
        }
    }
    let proposal = json!({"intent": "one", "agent_type": "a", "phase": "1",
        "diff": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"});
    let submitted = callers.web.post("/api/submit_proposal", &proposal);
    assert_eq!(submitted.status, 200, "{submitted:?}");
    let id = &submitted.json()["review_id"];
    let payloads = callers.payloads("get_proposal", &json!({"review_id": id}));
    for (surface, payload) in &payloads {
        assert_eq!(payload, &payloads["rest"], "get_proposal on {surface}");
    }
}

#[test]
fn a_2_resources_and_prompts_are_the_same_on_every_surface() {
    let catalog = Catalog::start("");
    let Callers { modern, web, .. } = &Callers::new(&catalog.gateway, "admin");
    let uri = "test://static";
    let over_mcp = modern.result("resources/read", json!({"uri": uri}));
    let path = "/api/resources/test%3A%2F%2Fstatic";
    let as_json = web.get_as(path, "application/json").json();
    assert_eq!(as_json["contents"], over_mcp["contents"]);
    let over_rpc = web.rpc("rpc.readResource", &json!({"uri": uri})).json();
    assert_eq!(over_rpc["result"]["contents"], over_mcp["contents"]);
    let plain = web.get(path);
    assert_eq!(
        (plain.header("content-type"), &*plain.text),
        (
            "text/plain; charset=utf-8",
            over_mcp["contents"][0]["text"].as_str().expect("a text")
        )
    );
    let arguments = json!({"who": "Ada"});
    let prompt = "old__greet";
    let over_mcp = modern.result(
        "prompts/get",
        json!({"name": prompt, "arguments": arguments}),
    );
    let over_rest = web.post(&format!("/api/prompts/{prompt}"), &arguments);
    assert_eq!(over_rest.json()["messages"], over_mcp["messages"]);
    let params = json!({"name": prompt, "arguments": arguments});
    let over_rpc = web.rpc("rpc.getPrompt", &params).json();
    assert_eq!(over_rpc["result"]["messages"], over_mcp["messages"]);
    let listed = web.get("/api/resources").json();
    let uris = modern.names("resources/list", "resources", "uri");
    let shown = listed["resources"].as_array().expect("resources");
    assert_eq!(shown.len(), uris.len());
    assert!(
        !listed["resourceTemplates"]
            .as_array()
            .expect("templates")
            .is_empty()
    );
}

/// An answer without what names the occurrence and the operation.
pub(super) fn anonymous(answer: &Answer, name: &str) -> Value {
    let mut body = answer.json();
    for pointer in ["/instance", "/error/data/instance"] {
        if let Some(instance) = body.pointer_mut(pointer) {
            *instance = json!("");
        }
    }
    let text = body.to_string().replace(name, "<name>");
    json!([answer.status, text])
}

#[test]
fn decision_1_what_is_hidden_is_hidden_and_refused_alike_on_every_surface() {
    let catalog = Catalog::start("");
    let Callers { modern, web, .. } = &Callers::new(&catalog.gateway, "agent");
    let (hidden, unknown) = ("new__blob", "new__nothing");
    assert!(!modern.tools().iter().any(|name| name == hidden));
    assert!(!web.get("/api/catalog").text.contains(hidden));
    let arguments = json!({"bytes": 3});
    let mcp = |name: &str| {
        let mut answer = modern.call(name, arguments.clone());
        answer["id"] = Value::Null;
        answer.to_string().replace(name, "<name>")
    };
    assert_eq!(mcp(hidden), mcp(unknown));
    let post = |name: &str| anonymous(&web.post(&format!("/api/{name}"), &arguments), name);
    assert_eq!(post(hidden), post(unknown));
    assert_eq!(post(hidden)[0], 404);
    let get = |name: &str| anonymous(&web.get(&format!("/api/{name}?bytes=3")), name);
    assert_eq!(get(hidden), get(unknown));
    let rpc = |name: &str| anonymous(&web.rpc(name, &arguments), name);
    assert_eq!(rpc(hidden), rpc(unknown));
    assert_eq!(rpc(hidden)[0], 404);
    let resource = |uri: &str| anonymous(&web.get(&format!("/api/resources/{uri}")), uri);
    assert_eq!(resource("x:hidden")[0], 404);

    let viewer = Callers::new(&catalog.gateway, "viewer");
    let refused = viewer.web.post("/api/new__blob", &arguments);
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (403, &json!("forbidden")),
        "seen, not callable"
    );
    let refused = viewer.web.rpc("new__blob", &arguments);
    assert_eq!(refused.status, 403);
    assert_eq!(refused.json()["error"]["data"]["code"], "forbidden");
}

#[test]
fn g_36_each_call_leaves_one_record_that_names_its_surface() {
    let catalog = Catalog::start("");
    let callers = Callers::new(&catalog.gateway, "admin");
    let mut called: Vec<String> = Vec::new();
    for backend in ["old", "new", "child"] {
        for (tool, arguments) in rows() {
            let name = format!("{backend}__{tool}");
            callers.payloads(&name, &arguments);
            called.push(name);
        }
    }
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "old__echo", "params": {"text": "a"}},
        {"jsonrpc": "2.0", "method": "old__echo", "params": {"text": "b"}},
    ]);
    assert_eq!(callers.web.post("/rpc", &batch).status, 200);
    let records = export(&catalog.gateway.end());
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let text = |record: &Value, member: &str| record[member].as_str().unwrap_or("").to_owned();
    for record in records.iter().filter(|r| r["method"] == "tools/call") {
        *counts
            .entry((text(record, "surface"), text(record, "operation")))
            .or_default() += 1;
        assert_eq!(record["outcome"], "success", "{record}");
    }
    for operation in &called {
        for (surface, mut want) in [("http", 2), ("rest", 1), ("rpc", 1)] {
            if surface == "rpc" && operation == "old__echo" {
                want += 2;
            }
            let count = counts.get(&(surface.to_owned(), operation.clone()));
            assert_eq!(count, Some(&want), "{operation} over {surface}: {counts:?}");
        }
    }
}

#[test]
fn g_40_a_call_is_charged_once_whatever_surface_it_comes_by() {
    let limit = "[rate_limits]\nburst = 4\n[rate_limits.per_tool]\n\"*echo\" = 1\n";
    let catalog = Catalog::start(limit);
    let callers = Callers::new(&catalog.gateway, "admin");
    let arguments = json!({"text": "a"});
    callers.payloads("old__echo", &arguments);
    let refused = callers.web.post("/api/old__echo", &arguments);
    assert_eq!(refused.status, 429, "the fifth of four: {refused:?}");
    assert_eq!(refused.json()["code"], "rate_limited");
    let seconds: u64 = refused.header("retry-after").parse().expect("seconds");
    assert!((1..=60).contains(&seconds), "{seconds}");
    let policy = refused.header("ratelimit-policy");
    assert_eq!(policy, r#""calls";q=1;w=60"#);
    assert!(
        refused.header("ratelimit").starts_with(r#""calls";r=0;t="#),
        "{refused:?}"
    );
    let refused = callers.web.rpc("old__echo", &arguments);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("ratelimit-policy"), policy);
    assert!(refused.header("ratelimit").starts_with(r#""calls";r=0;t="#));
    for caller in [&callers.legacy as &dyn Caller, &callers.modern] {
        let answer = caller.call("old__echo", arguments.clone());
        assert_eq!(answer["error"]["data"]["kind"], "rate_limited", "{answer}");
    }
    let other = callers.web.post("/api/new__echo", &arguments);
    assert_eq!(other.status, 200, "another tool has its own allowance");
}
