//! G-43, G-47, C-37, C-25: one catalog of many backends, each still called by its own names.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, kind_of};
use crate::support::http::parse;
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend};

/// What a backend says of itself, called under this name.
fn pid(caller: &impl Caller, name: &str) -> Value {
    parse(&caller.said(name, json!({})))["pid"].clone()
}

#[test]
fn g_47_c_37_colliding_names_get_their_backends_prefix_in_configured_order() {
    let server = Server::start(&["--era", "legacy"]);
    let config = [
        stdio_backend("alpha", &["--tools", "1"], ""),
        http_backend("beta", &server.address, ""),
        stdio_backend("gamma", &["--era", "modern", "--tools", "2"], ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    let merged = Modern::new(&gateway, "/mcp");
    let tools = merged.tools();
    for name in [
        "echo",
        "beta__echo",
        "gamma__echo",
        "echo_1",
        "gamma__echo_1",
        "echo_2",
    ] {
        assert!(tools.contains(&name.to_owned()), "{name} in {tools:?}");
    }
    for name in ["alpha__echo", "beta__echo_1", "gamma__echo_2"] {
        assert!(!tools.contains(&name.to_owned()), "{name} in {tools:?}");
    }
    assert_eq!(merged.tools(), tools, "the same order each time");
    let log = gateway.setup.log();
    assert!(
        log.contains("beta__echo") && log.contains("WARN"),
        "a warning is logged"
    );

    // Each reaches its own backend, which is called by the name it gave.
    let names = ["whoami", "beta__whoami", "gamma__whoami"];
    let pids = names.map(|name| pid(&merged, name));
    for (backend, own) in ["alpha", "beta", "gamma"].iter().zip(&pids) {
        let alone = Modern::new(&gateway, &format!("/mcp/{backend}"));
        assert_eq!(&pid(&alone, "whoami"), own, "C-25 {backend}");
        assert!(alone.tools().contains(&"echo".to_owned()));
        assert!(alone.tools().iter().all(|name| !name.contains("__")));
        let prefixed = alone.call(&format!("{backend}__echo"), json!({"text": "x"}));
        assert_eq!(prefixed["error"]["code"], -32602, "its own names only");
    }
    assert_ne!(pids[0], pids[1]);
    assert_ne!(pids[1], pids[2]);
    assert_eq!(merged.said("beta__echo", json!({"text": "b"})), "b");
    assert_eq!(merged.said("gamma__echo_1", json!({"text": "g"})), "g");
}

#[test]
fn g_47_prompts_and_completions_follow_their_exposed_names() {
    let config = [
        stdio_backend("a", &[], ""),
        stdio_backend("b", &["--era", "legacy"], ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    let caller = Legacy::newest(&gateway);
    assert_eq!(
        caller.names("prompts/list", "prompts", "name"),
        ["greet", "plain", "b__greet", "b__plain"]
    );
    let prompt = caller.result(
        "prompts/get",
        json!({"name": "b__greet", "arguments": {"who": "Ada"}}),
    );
    assert_eq!(
        prompt["messages"][0]["content"]["text"],
        "Please greet Ada."
    );
    let params = json!({"ref": {"type": "ref/prompt", "name": "b__greet"}, "argument": {"name": "who", "value": "g"}});
    let done = caller.result("completion/complete", params);
    assert_eq!(done["completion"]["values"], json!(["grace"]));
    let unknown = caller.ask("prompts/get", json!({"name": "c__greet"}));
    assert_eq!(unknown["error"]["code"], -32602, "C-16");
    // Resources have no names of ours: the first backend that offers a URI serves it.
    assert_eq!(
        caller.names("resources/list", "resources", "uri"),
        ["test://static", "test://binary"]
    );
    let unowned = caller.ask("resources/read", json!({"uri": "nobody://x"}));
    assert_eq!(
        (kind_of(&unowned), &unowned["error"]["code"]),
        ("unknown_resource", &json!(-32002))
    );
    let unowned = Modern::new(&gateway, "/mcp").ask("resources/read", json!({"uri": "nobody://x"}));
    assert_eq!(unowned["error"]["code"], -32602, "C-3");
}

#[test]
fn c_37_prefixes_filters_and_new_names_are_as_configured() {
    let config = [
        stdio_backend(
            "all",
            &[],
            "prefix = \"always\"\ntools = { include = [\"e*\"], exclude = [\"exact\"] }",
        ),
        stdio_backend(
            "some",
            &[],
            "tools = { include = [\"echo\", \"fail\"], rename = { echo = \"repeat\" } }",
        ),
    ];
    let gateway = Gateway::ready(&config.concat());
    let caller = Modern::new(&gateway, "/mcp");
    let mut tools = caller.tools();
    tools.sort();
    assert_eq!(
        tools,
        ["all__echo", "all__env", "all__executed", "fail", "repeat"]
    );
    assert_eq!(caller.said("all__echo", json!({"text": "1"})), "1");
    assert_eq!(caller.said("repeat", json!({"text": "2"})), "2");
    // What is not listed cannot be called, on either endpoint.
    for (path, name) in [
        ("/mcp", "all__exact"),
        ("/mcp", "all__fail"),
        ("/mcp", "blob"),
        ("/mcp/all", "fail"),
        ("/mcp/some", "blob"),
    ] {
        let refused = Modern::new(&gateway, path).call(name, json!({}));
        assert_eq!(refused["error"]["code"], -32602, "{path} {name}: {refused}");
        assert_eq!(kind_of(&refused), "unknown_name", "{path} {name}");
    }
}

#[test]
fn g_43_a_backend_that_is_off_is_not_there() {
    let config = [
        stdio_backend("on", &[], ""),
        stdio_backend("off", &[], "enabled = false"),
    ];
    let gateway = Gateway::ready(&config.concat());
    let caller = Modern::new(&gateway, "/mcp");
    assert!(caller.tools().iter().all(|name| !name.contains("__")));
    let answer = crate::support::callers::bare_post(&gateway, "/mcp/off", "{}");
    assert_eq!(answer.status, 404);
    assert!(gateway.get("/ready").json()["backends"]["off"].is_null());
}
