//! Decisions 1 to 3: what is hidden answers like what does not exist, byte for byte, however it is spelt; and rules are
//! about every kind of operation.

use serde_json::{Value, json};

use crate::support::callers::{
    Caller, Legacy, Modern, initialize_params, introduced, kind_of, request,
};
use crate::support::http;
use crate::support::records::export;
use crate::support::setup::{Gateway, Server, http_backend};
use crate::support::tokens::{PING, token};

/// Other ways to write `test://static`, `test://items/7` and `test://reads`, which is in no list.
const SPELLINGS: &[&str] = &[
    "test://static",
    "TEST://static",
    "Test://Static",
    "test://STATIC",
    "test://static/",
    "test://static//",
    "test://static/.",
    "test://./static",
    "test:///static",
    "test://items/../static",
    "test://items/%2e%2e/static",
    "test://%73tatic",
    "test://%2573tatic",
    "test:%2F%2Fstatic",
    "test:\\\\static",
    "test://static#top",
    "test://static?",
    "test://me@static",
    "test://static:",
    " test://static",
    "test://sta\ttic",
    "test://items/7",
    "test://items/%37",
    "test://items/%2537",
    "TEST://items/7",
    "test://ITEMS/7",
    "test://items/./7",
    "test://items//7",
    "test://items/7/",
    "test://items/x/../7",
    "test://items/7#x",
    "test://reads",
    "test://read%73",
    "TEST://reads",
];

fn params(method: &str, uri: &str) -> Value {
    match method {
        "completion/complete" => {
            json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "id", "value": "1"}})
        }
        _ => json!({"uri": uri}),
    }
}

/// The whole answer, with the URI and the id taken out.
fn said(caller: &dyn Caller, method: &str, uri: &str) -> String {
    let mut answer = caller.ask(method, params(method, uri));
    answer["id"] = Value::Null;
    let as_json = json!(uri).to_string();
    let text = answer.to_string();
    text.replace(&as_json[1..as_json.len() - 1], "<uri>")
}

/// Whether a modern caller's wish to follow a resource is granted.
fn follows(caller: &Modern, uri: &str) -> bool {
    let wanted = json!({"notifications": {"resourceSubscriptions": [uri]}});
    let mut stream = caller.send("subscriptions/listen", wanted).head();
    let first = stream.json();
    !first["params"]["notifications"]["resourceSubscriptions"].is_null()
}

#[test]
fn decision_1_a_hidden_resource_answers_like_an_unknown_one_in_every_spelling() {
    let mut cells = 0;
    for era in ["legacy", "modern"] {
        let server = Server::start(&["--era", era]);
        let open = Gateway::ready(&http_backend("alpha", &server.address, ""));
        for denied in [
            r#"["alpha.test://static", "alpha.test://items/7", "alpha.test://reads"]"#,
            // The same by the names that callers use, and by the template that makes one of them.
            r#"["TEST://static", "test://items/{id}", "test://read*"]"#,
        ] {
            let config = format!(
                "[rbac.roles.admin]\npermissions = [\"*\"]\ndenied_tools = {denied}\n{}",
                http_backend("alpha", &server.address, "")
            );
            let gateway = Gateway::ready(&config);
            for path in ["/mcp", "/mcp/alpha"] {
                let old = Legacy::connect(&gateway, path, "2025-11-25");
                let new = Modern::new(&gateway, path);
                let methods: &[(&dyn Caller, &str)] = &[
                    (&old, "resources/read"),
                    (&new, "resources/read"),
                    (&old, "resources/subscribe"),
                    (&old, "resources/unsubscribe"),
                    (&old, "completion/complete"),
                    (&new, "completion/complete"),
                ];
                for (caller, method) in methods {
                    let unknown = said(*caller, method, "test://nowhere");
                    assert!(unknown.contains("unknown resource: <uri>"), "{unknown}");
                    // A header repeats a modern caller's URI, and these callers do not encode it.
                    let blank = |uri: &str| caller.is_modern() && uri.contains([' ', '\t']);
                    for uri in SPELLINGS.iter().filter(|uri| !blank(uri)) {
                        let answer = said(*caller, method, uri);
                        assert_eq!(answer, unknown, "{method} {uri:?} at {path}, {denied}");
                        cells += 1;
                    }
                }
                for uri in SPELLINGS.iter().step_by(4) {
                    assert!(!follows(&new, uri), "{uri}");
                }
                let binary = json!({"uri": "test://binary"});
                assert!(new.ask("resources/read", binary)["result"].is_object());
            }
            // What a backend's own error says of a visible template passes the veil alike.
            let other = Legacy::connect(&gateway, "/mcp/alpha", "2025-11-25");
            let miss = said(&other, "resources/read", "test://items/a/b");
            assert_eq!(miss, said(&other, "resources/read", "test://nowhere"));
            let mut gateway = gateway;
            gateway.process.signal("TERM");
            gateway.process.wait();
            let reached = export(&gateway.setup).into_iter().filter(|record| {
                let of = record["operation"].as_str().unwrap_or_default();
                SPELLINGS.contains(&of) && record["decision"] == "allow"
            });
            let reached: Vec<_> = reached.map(|record| record["operation"].clone()).collect();
            assert!(reached.is_empty(), "the backend saw {reached:?}");
        }
        // Whoever sees everything hears the backend's own words.
        let all = Legacy::connect(&open, "/mcp/alpha", "2025-11-25");
        let own = said(&all, "resources/read", "test://nowhere");
        assert!(own.contains("resource not found"), "{own}");
    }
    println!("decision 1: {cells} answers about hidden resources, all alike");
}

/// A rule that gives resources gives them as they are written, and nothing that somebody could read as another one.
#[test]
fn decision_2_a_rule_that_grants_resources_grants_no_way_out_of_them() {
    let server = Server::start(&[]);
    let config = format!(
        "[rbac.roles.admin]\npermissions = [\"alpha.test://items/*\"]\n{}",
        http_backend("alpha", &server.address, "")
    );
    let gateway = Gateway::ready(&config);
    let caller = Legacy::connect(&gateway, "/mcp/alpha", "2025-11-25");
    let read = |uri: &str| caller.ask("resources/read", json!({"uri": uri}))["result"].is_object();
    assert!(read("test://items/7"));
    for uri in [
        "test://items/../static",
        "test://items/%2e%2e/static",
        "test://items/..%2fstatic",
        "test://static",
        "TEST://items/7",
    ] {
        let answer = said(&caller, "resources/read", uri);
        assert_eq!(
            answer,
            said(&caller, "resources/read", "test://nowhere"),
            "{uri}"
        );
    }
}

#[test]
fn decision_3_plain_patterns_and_switches_are_about_every_kind_of_operation() {
    let server = Server::start(&[]);
    let backends = format!(
        "{}{}",
        http_backend("alpha", &server.address, ""),
        http_backend("beta", &server.address, "prefix = \"always\"")
    );
    let verdicts = |caller: &dyn Caller, prefix: &str| {
        let kind = |method: &str, params: Value| {
            let answer = caller.ask(method, params);
            let kind = answer["error"]["data"]["kind"].as_str();
            kind.unwrap_or("ok").to_owned()
        };
        let names = |method: &str, list: &str, key: &str| caller.names(method, list, key);
        let plain = format!("{prefix}plain");
        let listed = names("prompts/list", "prompts", "name").contains(&plain);
        let resources = names("resources/list", "resources", "uri");
        (
            (listed, kind("prompts/get", json!({"name": plain}))),
            (
                resources.contains(&"test://static".to_owned()),
                kind("resources/read", json!({"uri": "test://static"})),
            ),
        )
    };
    let (seen, gone) = ((true, "ok".to_owned()), |kind: &str| {
        (false, kind.to_owned())
    });
    let role = |denied: &str| {
        format!("[rbac.roles.admin]\npermissions = [\"*\"]\ndenied_tools = {denied}\n{backends}")
    };
    let gateway = Gateway::ready(&role(r#"["plain", "test://static"]"#));
    let caller = Legacy::newest(&gateway);
    let (no_name, no_uri) = (gone("unknown_name"), gone("unknown_resource"));
    assert_eq!(verdicts(&caller, ""), (no_name, no_uri));
    // Merged names: beta's prompt is another one.
    assert_eq!(verdicts(&caller, "beta__").0, seen);
    let gateway = Gateway::ready(&backends);
    let caller = Legacy::newest(&gateway);
    assert_eq!(verdicts(&caller, ""), (seen.clone(), seen.clone()));
    for name in ["plain", "test://static"] {
        let output = gateway
            .setup
            .command("kill")
            .args(["tool", name])
            .output()
            .expect("the program runs");
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(verdicts(&caller, ""), (gone("disabled"), gone("disabled")));
    assert_eq!(verdicts(&caller, "beta__").0, seen);
}

/// A request: verb, further headers, body.
type Knock = (&'static str, Vec<(&'static str, &'static str)>, String);

/// Everything that can be sent to an endpoint.
fn knocks() -> Vec<Knock> {
    const JSON: (&str, &str) = ("Content-Type", "application/json");
    const MODERN: (&str, &str) = ("MCP-Protocol-Version", "2026-07-28");
    let posts = [
        request(
            &json!(1),
            "initialize",
            initialize_params("2025-11-25", &json!({})),
        ),
        PING.to_owned(),
        format!("[{PING}]"),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string(),
        "nonsense".to_owned(),
    ];
    let mut all: Vec<_> = posts.map(|body| ("POST", vec![JSON], body)).into();
    for method in ["server/discover", "tools/list", "tools/call", "own/method"] {
        let params = introduced(json!({"name": "echo"}), &json!({}));
        let headers = vec![
            JSON,
            MODERN,
            ("Mcp-Method", method),
            ("Mcp-Name", "echo"),
            ("Mcp-Session-Id", "x"),
        ];
        all.push(("POST", headers, request(&json!(1), method, params)));
    }
    all.push(("POST", vec![("Content-Type", "text/plain")], String::new()));
    for verb in ["GET", "DELETE", "PUT", "PATCH", "OPTIONS"] {
        all.push((verb, vec![("Accept", "text/event-stream")], String::new()));
    }
    all
}

#[test]
fn decision_1_a_hidden_backend_answers_like_an_unknown_one() {
    let server = Server::start(&[]);
    let backends = format!(
        "{}{}",
        http_backend("alpha", &server.address, ""),
        http_backend("beta", &server.address, "prefix = \"always\"")
    );
    let role = |name: &str, permissions: &str, denied: &str| {
        format!("[rbac.roles.{name}]\npermissions = {permissions}\ndenied_tools = {denied}\n")
    };
    let answer = |gateway: &Gateway, credential: &str, path: &str, knock: usize| {
        let (verb, mut headers, body) = knocks().swap_remove(knock);
        let bearer = format!("Bearer {credential}");
        headers.push(("Authorization", &bearer));
        let address = &gateway.address;
        let answer = http::send(address, verb, path, &headers, body).finish();
        let dated = |(name, _): &(String, String)| name != "date";
        let headers: Vec<_> = answer.headers.into_iter().filter(dated).collect();
        (answer.status, headers, answer.text)
    };
    let is_there = |gateway: &Gateway, credential: &str, path: &str| {
        answer(gateway, credential, path, 0).0 == 200
    };
    let check_hidden = |gateway: &Gateway, credential: &str, who: &str| {
        for base in ["/mcp", "/sse"] {
            let at = |name: &str| format!("{base}/{name}");
            for knock in 0..knocks().len() {
                let hidden = answer(gateway, credential, &at("alpha"), knock);
                let unknown = answer(gateway, credential, &at("nobody"), knock);
                assert_eq!(hidden, unknown, "{who}: {base} {:?}", knocks()[knock]);
                assert_eq!(hidden.0, 404, "{who}: {base} {:?}", knocks()[knock]);
            }
        }
    };
    let hidden = [
        ("none", "[]", "[]"),
        ("other", r#"["beta.*"]"#, "[]"),
        ("names", r#"["tool:beta__*", "admin"]"#, "[]"),
        ("denied", r#"["*"]"#, r#"["alpha.*"]"#),
        ("overruled", r#"["alpha.echo", "tools.read"]"#, r#"["*"]"#),
        ("mistaken", r#"["alpha.zzz"]"#, "[]"),
    ];
    let seen = [
        ("one", r#"["alpha.echo"]"#, "[]"),
        ("named", r#"["tool:echo"]"#, "[]"),
        ("reader", r#"["tools.read"]"#, r#"["alpha.e*"]"#),
        // In no list, and granted all the same.
        ("unlisted", r#"["alpha.own/method"]"#, "[]"),
        ("uris", r#"["alpha.docs:///zzz"]"#, "[]"),
    ];
    let roles: String = hidden
        .iter()
        .chain(&seen)
        .map(|(name, permissions, denied)| role(name, permissions, denied))
        .collect();
    let gateway = Gateway::ready(&format!("[auth]\n{roles}{backends}"));
    let of = |role: &str| token(json!({"role": role}));
    for (role, ..) in hidden.iter().chain(&[("unheard-of", "", "")]) {
        check_hidden(&gateway, &of(role), role);
    }
    let scoped = |scope: &str| token(json!({"role": "admin", "scope": scope}));
    check_hidden(&gateway, &scoped("beta.*"), "a scope");
    check_hidden(&gateway, &scoped("alpha.zzz"), "a scope that means nothing");
    assert!(is_there(&gateway, &scoped("alpha.echo"), "/mcp/alpha"));
    for (role, ..) in &seen {
        assert!(is_there(&gateway, &of(role), "/mcp/alpha"), "{role}");
    }
    // Switched off is not hidden.
    let (code, ..) = gateway.setup.sentinel(&["kill", "backend", "alpha"]);
    assert_eq!(code, 0);
    assert!(is_there(&gateway, &of("one"), "/mcp/alpha"));
    check_hidden(&gateway, &of("other"), "other");

    let open = Gateway::ready(&format!(
        "{}{backends}",
        role("admin", r#"["beta.*"]"#, "[]")
    ));
    check_hidden(&open, "", "nobody is asked who it is");
    assert!(is_there(&open, "", "/mcp/beta"));
}

#[test]
fn decision_2_errors_at_a_backends_endpoint_use_its_own_names() {
    let server = Server::start(&[]);
    let backend = http_backend("beta", &server.address, "prefix = \"always\"");
    let config = format!(
        "[rbac.roles.admin]\npermissions = [\"tools.read\", \"beta.e*\", \"beta.count\", \"beta.fail\"]\n\
         [rate_limits]\ndefault_rpm = 0\n[rate_limits.per_tool]\nbeta__count = 1\n{backend}"
    );
    let gateway = Gateway::ready(&config);
    let (code, ..) = gateway.setup.sentinel(&["kill", "tool", "beta__fail"]);
    assert_eq!(code, 0);
    for (path, prefix) in [("/mcp/beta", ""), ("/mcp", "beta__")] {
        let callers: [Box<dyn Caller>; 2] = [
            Box::new(Legacy::connect(&gateway, path, "2025-06-18")),
            Box::new(Modern::new(&gateway, path)),
        ];
        for caller in callers {
            // The last place of this minute, or none is left.
            caller.call(&format!("{prefix}count"), json!({"to": 1}));
            for (own, arguments, kind) in [
                ("echo", json!({"text": 5}), "invalid_arguments"),
                ("blob", json!({}), "forbidden"),
                ("count", json!({"to": 1}), "rate_limited"),
                ("fail", json!({}), "disabled"),
                ("nonesuch", json!({}), "unknown_name"),
            ] {
                let answer = caller.call(&format!("{prefix}{own}"), arguments);
                let said = answer.to_string();
                let told = matches!(kind_of(&answer), "" if kind == "invalid_arguments");
                assert!(told || kind_of(&answer) == kind, "{path} {own}: {said}");
                let [mine, merged] = [own, &format!("beta__{own}")].map(|name| said.contains(name));
                assert!(mine, "{path}: {said}");
                assert_eq!(merged, !prefix.is_empty(), "{path}: {said}");
            }
        }
    }
}
