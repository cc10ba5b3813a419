//! G-1, C-39: callers of either era use backends of either era, over HTTP and stdio, as if
//! they were of one; the specification's own table says half of these pairs fail without a gateway.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, kind_of};
use crate::support::http::parse;
use crate::support::pipe::Pipe;
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend};

/// Two of everything: each era over HTTP and as a child, lists in pages of two.
const BACKENDS: [&str; 4] = ["hl", "hm", "sl", "sm"];

/// A gateway before all four, and the two servers that it needs.
fn all_four() -> (Gateway, [Server; 2]) {
    let legacy = Server::start(&["--era", "legacy", "--page", "2"]);
    let modern = Server::start(&["--era", "modern", "--page", "2", "--sse"]);
    let config = [
        http_backend("hl", &legacy.address, ""),
        http_backend("hm", &modern.address, ""),
        stdio_backend("sl", &["--era", "legacy", "--page", "2"], ""),
        stdio_backend("sm", &["--era", "modern", "--page", "2"], ""),
    ];
    (Gateway::ready(&config.concat()), [legacy, modern])
}

/// Runs a check for every pair of caller and backend.
fn each_pair(check: impl Fn(&dyn Caller, &str)) {
    let (gateway, _servers) = all_four();
    for backend in BACKENDS {
        let path = format!("/mcp/{backend}");
        check(&Legacy::connect(&gateway, &path, "2025-11-25"), backend);
        check(&Modern::new(&gateway, &path), backend);
    }
    drop(gateway);
    let config = [
        stdio_backend("one", &["--era", "legacy", "--page", "2"], ""),
        stdio_backend("one", &["--era", "modern", "--page", "2"], ""),
    ];
    for (config, backend) in config.iter().zip(["sl", "sm"]) {
        let legacy = Pipe::legacy(config, "2025-11-25", json!({}));
        legacy.wait_for_tool("echo");
        check(&legacy, backend);
        drop(legacy);
        let modern = Pipe::modern(config, json!({}));
        modern.wait_for_tool("echo");
        check(&modern, backend);
    }
}

fn complete(caller: &dyn Caller, result: &Value) {
    let want = if caller.is_modern() {
        json!("complete")
    } else {
        Value::Null
    };
    assert_eq!(result["resultType"], want, "{result}");
}

#[test]
fn g_1_c_39_calls_and_errors_pass_between_the_eras() {
    each_pair(|caller, backend| {
        let answer = caller.call("echo", json!({"text": "héllo \u{1F600}"}));
        assert_eq!(
            answer["result"]["content"],
            json!([{"type": "text", "text": "héllo \u{1F600}"}]),
            "{backend}"
        );
        complete(caller, &answer["result"]);

        let failed = caller.call("fail", json!({"text": "as told"}));
        assert_eq!(failed["result"]["isError"], true, "{backend}: {failed}");
        complete(caller, &failed["result"]);

        let refused = caller.call(
            "rpc_error",
            json!({"code": 4711, "message": "said the tool"}),
        );
        assert_eq!(
            refused["error"],
            json!({"code": 4711, "message": "said the tool"}),
            "{backend}"
        );

        let unknown = caller.call("no_such_tool", json!({}));
        assert_eq!(unknown["error"]["code"], -32602, "C-16 {backend}");
        assert_eq!(kind_of(&unknown), "unknown_name");
    });
}

#[test]
fn g_32_resources_prompts_and_completions_pass_between_the_eras() {
    each_pair(|caller, backend| {
        let read = caller.result("resources/read", json!({"uri": "test://static"}));
        assert_eq!(read["contents"][0]["text"], "a short text", "{backend}");
        complete(caller, &read);
        assert_eq!(caller.is_modern(), read["ttlMs"].is_u64(), "{read}");
        assert_eq!(caller.is_modern(), read["cacheScope"].is_string(), "{read}");

        let item = caller.result("resources/read", json!({"uri": "test://items/7"}));
        assert_eq!(item["contents"][0]["uri"], "test://items/7", "by template");

        let missing = caller.ask("resources/read", json!({"uri": "test://items/a/b"}));
        // A modern backend's -32602 may mean anything, so a legacy caller gets it as it is.
        let from_legacy = backend.ends_with('l');
        let legacy_code = if from_legacy { -32002 } else { -32602 };
        let code = if caller.is_modern() {
            -32602
        } else {
            legacy_code
        };
        assert_eq!(missing["error"]["code"], code, "C-3 {backend}: {missing}");
        assert_eq!(missing["error"]["data"]["uri"], "test://items/a/b");

        let params = json!({"name": "greet", "arguments": {"who": "Ada"}});
        let prompt = caller.result("prompts/get", params);
        assert_eq!(
            prompt["messages"][0]["content"]["text"], "Please greet Ada.",
            "{backend}"
        );
        complete(caller, &prompt);

        for (reference, name, value, want) in [
            (
                json!({"type": "ref/prompt", "name": "greet"}),
                "who",
                "a",
                json!(["ada", "alan"]),
            ),
            (
                json!({"type": "ref/resource", "uri": "test://items/{id}"}),
                "id",
                "1",
                json!(["1", "10"]),
            ),
        ] {
            let params = json!({"ref": reference, "argument": {"name": name, "value": value}});
            let done = caller.result("completion/complete", params);
            assert_eq!(done["completion"]["values"], want, "{backend}");
            complete(caller, &done);
        }
    });
}

#[test]
fn g_45_paged_lists_are_drained_and_a_structured_result_arrives() {
    each_pair(|caller, backend| {
        let tools = caller.result("tools/list", json!({}));
        assert!(tools["nextCursor"].is_null());
        complete(caller, &tools);
        let tools = tools["tools"].as_array().expect("tools");
        assert_eq!(tools.len(), 28, "every page of {backend}");
        let find = |name: &str| {
            let mut all = tools.iter();
            all.find(|tool| tool["name"] == name).expect("the tool")
        };
        assert_eq!(
            find("echo")["_meta"],
            json!({"example.com/kept": {"b": 1, "a": [2, 3]}}),
            "{backend}"
        );
        assert_eq!(find("structured")["outputSchema"]["type"], "object");
        assert_eq!(caller.names("resources/list", "resources", "uri").len(), 2);
        assert_eq!(
            caller.names(
                "resources/templates/list",
                "resourceTemplates",
                "uriTemplate"
            ),
            ["test://items/{id}"]
        );
        assert_eq!(
            caller.names("prompts/list", "prompts", "name"),
            ["greet", "plain"]
        );

        let params = json!({"name": "structured", "arguments": {"city": "Uri"}});
        let result = caller.result("tools/call", params);
        assert_eq!(
            result["structuredContent"],
            json!({"city": "Uri", "degrees": 21.5}),
            "{backend}"
        );

        let bad = caller.ask("tools/list", json!({"cursor": "never given"}));
        assert_eq!(bad["error"]["code"], -32602);
    });
}

/// What `exact` answers, up to the member that only one era has.
const EXACT: [&str; 2] = [
    r#"{"zeta":{"unknown":[true,null]},  "isError":false, "#,
    concat!(
        r#""structuredContent":{"big":12345678901234567890123,"one":1.0,"minus":-0,"huge":1e400,"E":1E+2,"tiny":1e-400,"b":1,"a":2,"":"empty key","esc":"\u00e9\/\ud83d\ude00"},"#,
        r#""content":[{"text":"ex\u0061ct","type":"text","vendor":{"k":0.10}}],"alpha":[ 1 , 2 ]}"#
    ),
];

#[test]
fn c_40_numbers_keys_and_escapes_of_a_result_arrive_byte_for_byte() {
    each_pair(|caller, backend| {
        let params = json!({"name": "exact", "arguments": {}});
        let answer = caller.exchange("tools/call", params).pop().expect("one");
        let (_, result) = answer.split_once(r#""result":"#).expect("a result");
        let result = result.strip_suffix('}').expect("an object");
        let kind = r#""resultType": "complete", "#;
        let from_modern = backend.ends_with('m');
        match (caller.is_modern(), from_modern) {
            (true, true) => assert_eq!(result, [EXACT[0], kind, EXACT[1]].concat()),
            (false, false) => assert_eq!(result, EXACT.concat()),
            // Only the one member goes or comes; of the rest, blanks between members may go.
            (modern, _) => {
                let kind = r#""resultType":"complete""#;
                assert_eq!(result.matches("resultType").count(), usize::from(modern));
                let without = result
                    .replace(&format!(",{kind}"), "")
                    .replace(&format!("{kind},"), "");
                let squeezed = |text: &str| text.replace(' ', "");
                assert_eq!(squeezed(&without), squeezed(&EXACT.concat()), "{backend}");
                assert!(without.contains(EXACT[1]), "{backend}: {without}");
            }
        }
    });
}

#[test]
fn c_39_progress_comes_with_the_callers_own_token() {
    each_pair(|caller, backend| {
        for token in [json!("tok-é"), json!(17)] {
            let params = json!({"name": "chatty", "arguments": {"n": 3},
                                "_meta": {"progressToken": token}});
            let messages = caller.exchange("tools/call", params);
            let progress: Vec<Value> = messages
                .iter()
                .map(|message| parse(message))
                .filter(|message| message["method"] == "notifications/progress")
                .collect();
            let seen: Vec<_> = progress
                .iter()
                .map(|note| {
                    (
                        &note["params"]["progressToken"],
                        &note["params"]["progress"],
                    )
                })
                .collect();
            let want = [json!(1), json!(2), json!(3)];
            let want: Vec<_> = want.iter().map(|n| (&token, n)).collect();
            assert_eq!(seen, want, "{backend}");
            let last = parse(messages.last().expect("an answer"));
            assert_eq!(last["result"]["content"][0]["text"], "said 3");
        }
        // Without a token nothing is said before the answer, unless it is a log line.
        let params = json!({"name": "chatty", "arguments": {"n": 3}});
        for message in caller.exchange("tools/call", params) {
            assert_ne!(
                parse(&message)["method"],
                "notifications/progress",
                "{backend}"
            );
        }
    });
}

#[test]
fn g_50_a_backend_knows_its_own_session_and_revision() {
    each_pair(|caller, backend| {
        let who = parse(&caller.said("whoami", json!({})));
        let era = if backend.ends_with('m') {
            "modern"
        } else {
            "legacy"
        };
        assert_eq!(who["era"], era, "{backend}: {who}");
        if backend == "hl" {
            assert!(who["session"].is_string(), "{who}");
        }
    });
}
