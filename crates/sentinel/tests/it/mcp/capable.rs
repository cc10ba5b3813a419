//! Tools that a server lists only to clients that can be asked, through the gateway.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, kind_of};
use crate::support::pipe::Pipe;
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend, until};

const ASKING: [&str; 3] = ["ask", "ask_sampling", "ask_roots"];
const LEGACY: [&str; 3] = ["--choosy", "--era", "legacy"];
const MODERN: [&str; 3] = ["--choosy", "--era", "modern"];

fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}})
}

/// Which of the tools that ask a caller is shown.
#[track_caller]
fn asking(caller: &impl Caller) -> Vec<String> {
    let mut tools = caller.tools();
    assert!(tools.iter().any(|name| name.ends_with("echo")), "{tools:?}");
    tools.retain(|name| ASKING.iter().any(|asks| name == asks));
    tools
}

/// What each pair of callers, legacy and modern, is shown of a backend.
#[track_caller]
fn check(gateway: &Gateway, backend: &str, capabilities: &Value, expected: &[&str]) {
    let path = format!("/mcp/{backend}");
    let modern = Modern::with(gateway, &path, capabilities.clone());
    assert_eq!(asking(&modern), expected, "{backend} {capabilities}");
    let legacy = Legacy::with(gateway, &path, "2025-11-25", capabilities.clone());
    assert_eq!(asking(&legacy), expected, "{backend} {capabilities}");
}

#[test]
fn issue_17_6_tools_for_capable_callers_are_listed_to_those_and_to_nobody_else() {
    let (legacy, modern) = (Server::start(&LEGACY), Server::start(&MODERN));
    let both = Server::start(&["--choosy"]);
    let config = [
        http_backend("hl", &legacy.address, ""),
        http_backend("hm", &modern.address, ""),
        http_backend("hb", &both.address, ""),
        stdio_backend("sl", &LEGACY, "isolation = \"caller\""),
        stdio_backend("sm", &MODERN, ""),
        stdio_backend("ss", &LEGACY, "interactive = \"serialize\""),
        stdio_backend("silent", &LEGACY, ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    for backend in ["hl", "hm", "hb", "sl", "sm", "ss"] {
        check(&gateway, backend, &json!({}), &[]);
        check(&gateway, backend, &everything(), &ASKING);
        check(
            &gateway,
            backend,
            &json!({"sampling": {}}),
            &["ask_sampling"],
        );
        check(&gateway, backend, &json!({"roots": {}}), &["ask_roots"]);
        check(&gateway, backend, &json!({}), &[]);
        let old = Legacy::with(
            &gateway,
            &format!("/mcp/{backend}"),
            "2025-03-26",
            everything(),
        );
        assert_eq!(asking(&old), ["ask_sampling", "ask_roots"], "{backend}");
    }
    // A shared legacy child that may ask nobody is told so, whoever lists.
    check(&gateway, "silent", &everything(), &[]);
}

#[test]
fn issue_17_6_capable_callers_call_what_is_unknown_to_others_word_for_word() {
    let server = Server::start(&LEGACY);
    let config = [
        http_backend("one", &server.address, ""),
        stdio_backend(
            "two",
            &LEGACY,
            "isolation = \"caller\"\nprefix = \"always\"",
        ),
    ];
    let gateway = Gateway::ready(&config.concat());
    for (name, unknown) in [
        ("ask_roots", "ask_rootz"),
        ("two__ask_roots", "two__ask_rootz"),
    ] {
        // Without a list before it, too.
        let capable = Modern::with(&gateway, "/mcp", json!({"roots": {}}));
        let asked = capable.call(name, json!({}));
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let other = Modern::new(&gateway, "/mcp");
        let hidden = other.call(name, json!({}));
        let missing = other.call(unknown, json!({}));
        assert_eq!(kind_of(&hidden), "unknown_name", "{hidden}");
        let same = missing.to_string().replace(unknown, name);
        assert_eq!(
            hidden["error"].to_string(),
            serde_json::from_str::<Value>(&same).expect("JSON")["error"].to_string()
        );
        assert!(!other.tools().contains(&name.to_owned()));
        assert!(capable.tools().contains(&name.to_owned()));
    }
}

#[test]
fn issue_17_6_on_pipes_and_with_roles_the_same_holds() {
    let server = Server::start(&MODERN);
    let backend = http_backend("one", &server.address, "");
    assert_eq!(asking(&Pipe::modern(&backend, everything())), ASKING);
    assert_eq!(asking(&Pipe::modern(&backend, json!({}))), [""; 0]);
    assert_eq!(
        asking(&Pipe::legacy(&backend, "2025-11-25", everything())),
        ASKING
    );
    let killed = format!("{backend}[kill_switch]\ndisabled_tools = [\"ask_roots\"]\n");
    let gateway = Gateway::ready(&killed);
    let capable = Modern::with(&gateway, "/mcp", everything());
    assert_eq!(asking(&capable), ["ask", "ask_sampling"]);
    assert_eq!(kind_of(&capable.call("ask_roots", json!({}))), "disabled");
    let other = Modern::new(&gateway, "/mcp");
    assert_eq!(kind_of(&other.call("ask_roots", json!({}))), "unknown_name");
}

#[test]
fn issue_17_6_what_a_server_adds_is_listed_to_capable_callers_as_well() {
    let server = Server::start(&LEGACY);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    let capable = Modern::with(&gateway, "/mcp", everything());
    assert_eq!(asking(&capable), ASKING);
    capable.said("grow", json!({}));
    until("it is listed", || {
        let tools = capable.tools();
        let grown = tools.len() > 3 && tools.iter().any(|name| name.starts_with("grown"));
        grown.then_some(())
    });
    assert_eq!(asking(&capable), ASKING);
}

#[test]
fn issue_17_6_lists_that_depend_on_capabilities_are_private_and_others_stay_public() {
    let choosy = Server::start(&["--choosy", "--era", "modern", "--ttl-ms", "90000"]);
    let plain = Server::start(&["--era", "modern", "--ttl-ms", "90000"]);
    let config = [
        http_backend("choosy", &choosy.address, ""),
        http_backend("plain", &plain.address, ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    let scope = |path: &str| {
        let caller = Modern::with(&gateway, path, everything());
        caller.result("tools/list", json!({}))["cacheScope"].clone()
    };
    assert_eq!(scope("/mcp/choosy"), "private");
    assert_eq!(scope("/mcp/plain"), "public");
    assert_eq!(scope("/mcp"), "private");
}
