//! One catalog with every kind of backend: what each surface lists of it, and what a call of each kind leaves behind.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::calls::{Callers, Catalog, anonymous};
use crate::support::callers::Caller;
use crate::support::records::export;

/// One tool of each kind of backend.
fn kinds() -> [(&'static str, Value); 6] {
    [
        ("old__echo", json!({"text": "x"})),
        ("new__echo", json!({"text": "x"})),
        ("child__echo", json!({"text": "x"})),
        ("oldest__echo", json!({"text": "x"})),
        ("api__letters", json!({"n": 3})),
        ("list_reviews", json!({})),
    ]
}

fn names(list: &Value, member: &str) -> BTreeSet<String> {
    let all = list.as_array().expect("a list").iter();
    all.map(|item| item[member].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn a_2_every_surface_lists_the_same_of_every_kind_of_backend() {
    let catalog = Catalog::start("");
    for role in ["admin", "agent"] {
        let Callers {
            legacy,
            modern,
            web,
        } = &Callers::new(&catalog.gateway, role);
        let listed: BTreeSet<String> = modern.tools().into_iter().collect();
        for (tool, _) in kinds() {
            assert!(listed.contains(tool), "{tool} in {listed:?}");
        }
        assert_eq!(listed, legacy.tools().into_iter().collect());
        let shown = web.get("/api/catalog").json();
        assert_eq!(listed, names(&shown["tools"], "name"));
        let openapi = web.get("/openapi.json").json();
        let paths = openapi["paths"].as_object().expect("paths");
        let is_tool =
            |path: &&str| !path.contains('/') && !matches!(*path, "catalog" | "resources");
        let described = paths.keys().filter_map(|path| path.strip_prefix("/api/"));
        let described: BTreeSet<String> = described.filter(is_tool).map(str::to_owned).collect();
        assert_eq!(listed, described);
        let methods = web.rpc("rpc.discover", &json!({})).json();
        let mut methods = names(&methods["result"]["methods"], "name");
        methods.retain(|name| !name.starts_with("rpc."));
        assert_eq!(listed, methods);

        let prompts: BTreeSet<String> = modern
            .names("prompts/list", "prompts", "name")
            .into_iter()
            .collect();
        assert_eq!(prompts, names(&shown["prompts"], "name"));
        let of_paths = paths
            .keys()
            .filter_map(|path| path.strip_prefix("/api/prompts/"));
        assert_eq!(prompts, of_paths.map(str::to_owned).collect());
        let uris: BTreeSet<String> = modern
            .names("resources/list", "resources", "uri")
            .into_iter()
            .collect();
        assert_eq!(uris, names(&shown["resources"], "uri"));
    }
}

#[test]
fn g_40_a_call_of_each_kind_of_backend_is_charged_once_on_each_surface() {
    let catalog = Catalog::start("[rate_limits]\nburst = 4\n[rate_limits.per_tool]\n\"*\" = 1\n");
    let callers = Callers::new(&catalog.gateway, "admin");
    for (tool, arguments) in kinds() {
        callers.payloads(tool, &arguments);
        let refused = callers.web.post(&format!("/api/{tool}"), &arguments);
        assert_eq!(
            refused.status, 429,
            "the fifth of four of {tool}: {refused:?}"
        );
    }
}

#[test]
fn g_36_a_call_a_read_and_a_prompt_of_each_kind_leave_one_record_for_each_surface() {
    let catalog = Catalog::start("");
    let callers = Callers::new(&catalog.gateway, "admin");
    for (tool, arguments) in kinds() {
        callers.payloads(tool, &arguments);
    }
    let (uri, prompt) = ("test://static", "old__greet");
    let greet = json!({"name": prompt, "arguments": {"who": "Ada"}});
    for caller in [&callers.legacy as &dyn Caller, &callers.modern] {
        caller.result("resources/read", json!({"uri": uri}));
        caller.result("prompts/get", greet.clone());
    }
    let web = &callers.web;
    for answer in [
        web.get("/api/resources/test%3A%2F%2Fstatic"),
        web.post(&format!("/api/prompts/{prompt}"), &json!({"who": "Ada"})),
        web.rpc("rpc.readResource", &json!({"uri": uri})),
        web.rpc("rpc.getPrompt", &greet),
    ] {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let records = export(&catalog.gateway.end());
    let mut counts: BTreeMap<[String; 3], usize> = BTreeMap::new();
    for record in &records {
        let key = ["method", "surface", "operation"];
        let key = key.map(|member| record[member].as_str().unwrap_or_default().to_owned());
        *counts.entry(key).or_default() += 1;
    }
    let tools = kinds().map(|(tool, _)| ("tools/call", tool));
    let others = [("resources/read", uri), ("prompts/get", prompt)];
    for (method, operation) in tools.into_iter().chain(others) {
        for (surface, want) in [("http", 2), ("rest", 1), ("rpc", 1)] {
            let key = [method, surface, operation].map(str::to_owned);
            assert_eq!(counts.get(&key), Some(&want), "{key:?}: {counts:?}");
        }
    }
}

#[test]
fn decision_1_a_hidden_prompt_is_refused_like_an_unknown_one_on_every_surface() {
    let catalog = Catalog::start("");
    let Callers {
        legacy,
        modern,
        web,
    } = &Callers::new(&catalog.gateway, "agent");
    let (hidden, unknown) = ("old__greet", "old__nothing");
    assert!(!web.get("/api/catalog").text.contains(hidden));
    for caller in [legacy as &dyn Caller, modern] {
        let mcp = |name: &str| {
            let params = json!({"name": name, "arguments": {"who": "Ada"}});
            let mut answer = caller.ask("prompts/get", params);
            answer["id"] = Value::Null;
            answer.to_string().replace(name, "<name>")
        };
        assert_eq!(mcp(hidden), mcp(unknown));
    }
    let rest = |name: &str| {
        let answer = web.post(&format!("/api/prompts/{name}"), &json!({"who": "Ada"}));
        anonymous(&answer, name)
    };
    assert_eq!(rest(hidden), rest(unknown));
    assert_eq!(rest(hidden)[0], 404);
    let rpc = |name: &str| {
        let params = json!({"name": name, "arguments": {"who": "Ada"}});
        anonymous(&web.rpc("rpc.getPrompt", &params), name)
    };
    assert_eq!(rpc(hidden), rpc(unknown));
    assert_eq!(rpc(hidden)[0], 404);
}
