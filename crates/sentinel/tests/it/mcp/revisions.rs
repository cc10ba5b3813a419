//! C-39, G-13, G-29, C-4: five revisions on one endpoint, told apart request by request.

use serde_json::{Value, json};

use crate::support::callers::{
    Caller, LEGACY, Legacy, MODERN, Modern, bare_post, initialize_params, introduced, kind_of,
    notification, request, tool,
};
use crate::support::http::{self, Answer};
use crate::support::pipe::Pipe;
use crate::support::setup::{Gateway, stdio_backend};

fn gateway() -> Gateway {
    Gateway::ready(&stdio_backend("one", &["--era", "legacy"], ""))
}

#[test]
fn c_39_all_five_revisions_call_on_one_endpoint() {
    let gateway = gateway();
    for revision in LEGACY {
        let caller = Legacy::connect(&gateway, "/mcp", revision);
        assert_eq!(caller.hello["protocolVersion"], revision);
        assert!(caller.hello["serverInfo"]["name"].is_string());
        assert_eq!(caller.said("echo", json!({"text": revision})), revision);
        assert_eq!(caller.result("ping", json!({})), json!({}));
        let completions = &caller.hello["capabilities"]["completions"];
        assert_eq!(
            completions.is_null(),
            revision == "2024-11-05",
            "{revision}"
        );
    }
    let caller = Modern::new(&gateway, "/mcp");
    assert_eq!(caller.said("echo", json!({"text": "modern"})), "modern");
    let found = caller.result("server/discover", json!({}));
    let versions = found["supportedVersions"].as_array().expect("versions");
    assert!(versions.contains(&json!(MODERN)), "{found}");
    assert!(found["capabilities"]["tools"].is_object(), "{found}");
}

#[test]
fn g_13_initialize_agrees_on_the_callers_revision_or_names_our_newest() {
    let gateway = gateway();
    for asked in ["1999-01-01", "2026-07-28", "2099-01-01", "", "latest"] {
        let params = initialize_params(asked, &json!({}));
        let answer = bare_post(&gateway, "/mcp", request(&json!(1), "initialize", params));
        assert_eq!(answer.status, 200, "{asked}");
        assert_eq!(
            answer.json()["result"]["protocolVersion"],
            "2025-11-25",
            "{asked}"
        );
    }
    for params in [json!({}), json!({"protocolVersion": 1, "capabilities": {}})] {
        let answer = bare_post(&gateway, "/mcp", request(&json!(1), "initialize", params));
        assert_eq!(answer.code(), -32602);
        assert_eq!(answer.header("mcp-session-id"), "");
    }
}

#[test]
fn g_33_only_what_some_backend_has_is_advertised() {
    let gateway = Gateway::start("");
    let caller = Legacy::newest(&gateway);
    assert_eq!(caller.hello["capabilities"], json!({}));
    assert_eq!(
        gateway.get("/ready").status,
        200,
        "nothing configured, nothing to wait for"
    );
    drop(gateway);
    let full = self::gateway();
    let caller = Legacy::newest(&full);
    let capabilities = caller.hello["capabilities"].as_object().expect("an object");
    for name in ["tools", "resources", "prompts", "completions", "logging"] {
        assert!(capabilities.contains_key(name), "{name}: {capabilities:?}");
    }
}

#[test]
fn c_4_g_16_ping_is_answered_before_initialize_and_nothing_else_is() {
    let gateway = gateway();
    let ping = bare_post(&gateway, "/mcp", request(&json!("p"), "ping", json!({})));
    assert_eq!((ping.status, &ping.json()["result"]), (200, &json!({})));
    for method in [
        "tools/list",
        "tools/call",
        "resources/list",
        "logging/setLevel",
    ] {
        let refused = bare_post(&gateway, "/mcp", request(&json!(5), method, json!({})));
        assert_eq!(
            (refused.status, refused.code()),
            (400, -32002),
            "G-29 {method}"
        );
        assert_eq!(kind_of(&refused.json()), "not_initialized");
        assert_eq!(refused.json()["id"], 5);
    }

    let pipe = Pipe::silent(&stdio_backend("one", &[], ""));
    assert_eq!(pipe.result("ping", json!({})), json!({}));
    assert_eq!(pipe.ask("tools/list", json!({}))["error"]["code"], -32002);
    let hello = pipe.result("initialize", initialize_params("2025-06-18", &json!({})));
    assert_eq!(hello["protocolVersion"], "2025-06-18");
    // G-31: only `initialized` opens the door on stdio.
    assert_eq!(pipe.ask("tools/list", json!({}))["error"]["code"], -32002);
    assert_eq!(pipe.result("ping", json!({})), json!({}));
    pipe.write(&notification("notifications/initialized", json!({})));
    assert!(pipe.ask("tools/list", json!({}))["result"]["tools"].is_array());
}

#[test]
fn c_39_batches_are_of_2025_03_26_alone() {
    let gateway = gateway();
    let echo = |id: u32| {
        request(
            &json!(id),
            "tools/call",
            tool("echo", json!({"text": id.to_string()})),
        )
    };
    let note = notification("notifications/whatever", json!({}));
    let batch = format!(
        "[{},{note},{},{}]",
        echo(1),
        echo(2),
        request(&json!(3), "ping", json!({}))
    );
    for revision in LEGACY {
        let caller = Legacy::connect(&gateway, "/mcp", revision);
        let answer = caller.post(&batch);
        if revision != "2025-03-26" {
            assert_eq!((answer.status, answer.code()), (400, -32600), "{revision}");
            continue;
        }
        let mut ids: Vec<_> = answer
            .json()
            .as_array()
            .expect("an array")
            .iter()
            .inspect(|answer| assert!(answer["result"].is_object(), "{answer}"))
            .map(|answer| answer["id"].as_u64().expect("a number"))
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3]);
        assert_eq!(caller.post(&format!("[{note},{note}]")).status, 202);

        let bad = format!(
            "[{},{{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}},7]",
            echo(4)
        );
        let answers = caller.post(&bad).json();
        let answers = answers.as_array().expect("an array");
        let codes: Vec<_> = answers
            .iter()
            .filter_map(|a| a["error"]["code"].as_i64())
            .collect();
        assert_eq!(
            (answers.len(), codes.as_slice()),
            (3, &[-32600, -32600][..])
        );

        let hello = request(
            &json!(9),
            "initialize",
            initialize_params(revision, &json!({})),
        );
        let answers = caller.post(&format!("[{hello}]")).json();
        assert_eq!(answers[0]["error"]["code"], -32600, "never in a batch");
        assert_eq!(caller.post("[]").code(), -32600);
    }
    let bare = bare_post(&gateway, "/mcp", &batch);
    assert_eq!((bare.status, bare.code()), (400, -32600));
    let modern = Modern::new(&gateway, "/mcp");
    let headers = [
        ("MCP-Protocol-Version", MODERN),
        ("Mcp-Method", "tools/call"),
    ];
    let refused = modern.send_raw(&batch, &headers).finish();
    assert_eq!((refused.status, refused.code()), (400, -32600));
}

#[test]
fn c_39_batches_work_on_stdio_too() {
    let config = stdio_backend("one", &[], "");
    let pipe = Pipe::legacy(&config, "2025-03-26", json!({}));
    pipe.wait_for_tool("echo");
    let call = request(
        &json!("a"),
        "tools/call",
        tool("echo", json!({"text": "x"})),
    );
    pipe.write(&format!(
        "[{call},{}]",
        request(&json!("b"), "ping", json!({}))
    ));
    // One by one or as an array: both are answers.
    for id in ["a", "b"] {
        let found = |line: &Value| {
            let mine = |one: &Value| one["id"] == id && one["result"].is_object();
            mine(line) || line.as_array().is_some_and(|all| all.iter().any(mine))
        };
        pipe.line(id, found);
    }
    drop(pipe);
    let pipe = Pipe::legacy(&config, "2025-11-25", json!({}));
    pipe.write(&format!("[{}]", request(&json!("b"), "ping", json!({}))));
    let refused = pipe.line("a refusal", |line| line["error"]["code"] == -32600);
    assert!(!refused.contains("result"));
}

fn modern_post(gateway: &Gateway, body: &Value, headers: &[(&str, &str)]) -> Answer {
    Modern::new(gateway, "/mcp")
        .send_raw(&body.to_string(), headers)
        .finish()
}

fn modern_call(id: u32) -> Value {
    let params = introduced(tool("echo", json!({"text": "x"})), &json!({}));
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[test]
fn c_39_headers_of_2026_07_28_must_agree_with_the_body() {
    let gateway = gateway();
    let version = ("MCP-Protocol-Version", MODERN);
    let method = ("Mcp-Method", "tools/call");
    let name = ("Mcp-Name", "echo");
    let good = modern_post(&gateway, &modern_call(1), &[version, method, name]);
    assert_eq!(good.status, 200, "{good:?}");
    // Header names in any case, and the coded form of a value.
    let coded = [
        ("mcp-protocol-VERSION", MODERN),
        ("MCP-METHOD", "tools/call"),
        ("mcp-name", "=?base64?ZWNobw==?="),
    ];
    assert_eq!(modern_post(&gateway, &modern_call(1), &coded).status, 200);
    let wrong: [&[(&str, &str)]; 9] = [
        &[method, name],
        &[version, name],
        &[version, method],
        &[("MCP-Protocol-Version", "2025-11-25"), method, name],
        &[version, ("Mcp-Method", "tools/list"), name],
        &[version, ("Mcp-Method", "Tools/call"), name],
        &[version, method, ("Mcp-Name", "fail")],
        &[version, method, ("Mcp-Name", "=?base64?ZWNo!?=")],
        &[version, method, name, ("Mcp-Name", "echo")],
    ];
    for headers in wrong {
        let refused = modern_post(&gateway, &modern_call(7), headers);
        assert_eq!(
            (refused.status, refused.code()),
            (400, -32020),
            "{headers:?}"
        );
        assert_eq!(refused.json()["id"], 7);
        assert_eq!(
            refused.json()["error"]["data"]["kind"],
            "header_mismatch",
            "c_1"
        );
    }
}

#[test]
fn c_39_an_unknown_version_is_named_together_with_ours() {
    let gateway = gateway();
    for version in ["2027-01-01", "2025-11-25"] {
        let mut body = modern_call(1);
        body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(version);
        let headers = [
            ("MCP-Protocol-Version", version),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "echo"),
        ];
        let refused = modern_post(&gateway, &body, &headers);
        assert_eq!((refused.status, refused.code()), (400, -32022), "{version}");
        let data = &refused.json()["error"]["data"];
        assert_eq!(data["requested"], version);
        let supported = data["supported"].as_array().expect("versions");
        assert!(supported.contains(&json!(MODERN)), "{data}");
    }
    // `_meta` is looked at first, then headers, then the version.
    for key in ["protocolVersion", "clientCapabilities"] {
        let mut body = modern_call(3);
        let meta = body["params"]["_meta"].as_object_mut().expect("an object");
        meta.remove(&format!("io.modelcontextprotocol/{key}"));
        let refused = modern_post(&gateway, &body, &[("MCP-Protocol-Version", MODERN)]);
        assert_eq!((refused.status, refused.code()), (400, -32602), "{key}");
        assert_eq!(refused.json()["error"]["data"]["kind"], "invalid_params");
    }
    // A later revision may not know our `_meta` at all; its header says enough.
    let mut body = modern_call(4);
    body["params"]["_meta"] = json!({});
    let refused = modern_post(&gateway, &body, &[("MCP-Protocol-Version", "2027-01-01")]);
    assert_eq!((refused.status, refused.code()), (400, -32022));
    let data = &refused.json()["error"]["data"];
    assert_eq!(data["requested"], "2027-01-01");
    assert_eq!(data["kind"], "unsupported_version", "c_1");
}

#[test]
fn c_16_unknown_methods_are_404_for_modern_callers_and_ping_is_one() {
    let gateway = gateway();
    let modern = Modern::new(&gateway, "/mcp");
    for method in ["ping", "no/such", "logging/setLevel", "resources/subscribe"] {
        let answer = modern.send(method, json!({})).finish();
        assert_eq!((answer.status, answer.code()), (404, -32601), "{method}");
    }
    // Tasks are an extension that this caller did not declare.
    let task = json!({"taskId": "x"});
    let answer = modern.send("tasks/get", task).finish();
    assert_eq!((answer.status, answer.code()), (400, -32021));
    let legacy = Legacy::newest(&gateway);
    for method in ["no/such", "server/discover", "subscriptions/listen"] {
        let answer = legacy.post(&request(&json!(1), method, json!({})));
        assert_eq!((answer.status, answer.code()), (200, -32601), "{method}");
    }
    // `initialize` inside a modern envelope is no handshake.
    let answer = modern
        .send("initialize", initialize_params("2025-11-25", &json!({})))
        .finish();
    assert_eq!((answer.status, answer.code()), (404, -32601));
}

#[test]
fn c_39_the_version_header_of_a_session_may_be_missing_but_not_unknown() {
    let gateway = gateway();
    let caller = Legacy::newest(&gateway);
    let body = request(&json!(1), "tools/list", json!({}));
    let post = |headers: &[(&str, &str)]| {
        let base = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Mcp-Session-Id", caller.session.as_str()),
        ];
        let headers: Vec<_> = base.iter().chain(headers).copied().collect();
        http::send(&gateway.address, "POST", "/mcp", &headers, &body).finish()
    };
    assert_eq!(post(&[]).status, 200);
    assert_eq!(post(&[("MCP-Protocol-Version", "2025-11-25")]).status, 200);
    assert_eq!(post(&[("MCP-Protocol-Version", "1999-01-01")]).status, 400);
    assert_eq!(post(&[("MCP-Protocol-Version", "nonsense")]).status, 400);
}

#[test]
fn c_39_a_modern_caller_shares_stdio_with_the_handshake_era() {
    let pipe = Pipe::modern(&stdio_backend("one", &[], ""), json!({}));
    let found = pipe.result("server/discover", json!({}));
    assert_eq!(found["resultType"], "complete");
    assert!(found["_meta"]["io.modelcontextprotocol/serverInfo"].is_object());
    assert_eq!(pipe.ask("ping", json!({}))["error"]["code"], -32601);
    assert_eq!(pipe.ask("no/such", json!({}))["error"]["code"], -32601);
    pipe.wait_for_tool("echo");
    assert_eq!(pipe.said("echo", json!({"text": "hi"})), "hi");
    // The other era on the same pipe.
    pipe.write(&request(
        &json!("l"),
        "initialize",
        initialize_params("2025-06-18", &json!({})),
    ));
    assert_eq!(
        pipe.answer(&json!("l"))["result"]["protocolVersion"],
        "2025-06-18"
    );
    pipe.write(&notification("notifications/initialized", json!({})));
    pipe.write(&request(
        &json!("m"),
        "tools/call",
        tool("echo", json!({"text": "old"})),
    ));
    let answer = pipe.answer(&json!("m"));
    assert!(answer["result"]["resultType"].is_null(), "{answer}");
}
