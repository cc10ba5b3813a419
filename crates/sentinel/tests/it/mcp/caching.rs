//! What a backend of 2026-07-28 allows to be kept is kept, for as long and for whom it says.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, tool};
use crate::support::setup::{Gateway, Server, http_backend, until};

/// How often the backend says that this resource was read.
fn reads(caller: &dyn Caller) -> String {
    let result = caller.result("resources/read", json!({"uri": "test://reads"}));
    let text = result["contents"][0]["text"].as_str();
    text.expect("a text").to_owned()
}

fn hints(caller: &dyn Caller, method: &str) -> (Value, Value) {
    let result = caller.result(method, json!({}));
    (result["ttlMs"].clone(), result["cacheScope"].clone())
}

#[test]
fn c_39_a_read_is_answered_from_what_is_kept_until_it_expires_or_changes() {
    let server = Server::start(&["--era", "modern", "--ttl-ms", "4000"]);
    let gateway = Gateway::ready(&http_backend("m", &server.address, ""));
    let modern = Modern::new(&gateway, "/mcp/m");
    let legacy = Legacy::connect(&gateway, "/mcp/m", "2025-11-25");
    assert_eq!(reads(&modern), "1");
    assert_eq!(reads(&modern), "1");
    assert_eq!(reads(&legacy), "1", "public: for every caller");
    let uri = "test://reads";
    let wanted = json!({"notifications": {"resourceSubscriptions": [uri]}});
    let mut stream = modern.send("subscriptions/listen", wanted).head();
    stream.json();
    // The subscription may have its stream opened anew, which ends what is kept as well.
    let before: u64 = reads(&modern).parse().expect("a number");
    modern.ask("tools/call", tool("touch", json!({"uri": uri})));
    until("the notice ends what is kept", || {
        (reads(&modern).parse::<u64>().expect("a number") > before).then_some(())
    });
    let now: u64 = reads(&modern).parse().expect("a number");
    std::thread::sleep(Duration::from_millis(4100));
    assert_eq!(reads(&modern), (now + 1).to_string(), "its time is over");
}

#[test]
fn c_39_the_hints_of_a_merged_list_are_the_strictest_of_its_parts() {
    let long = Server::start(&["--era", "modern", "--ttl-ms", "90000"]);
    let short = Server::start(&["--era", "modern", "--ttl-ms", "3000", "--private"]);
    let config = [
        http_backend("long", &long.address, ""),
        http_backend("short", &short.address, ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    let at = |path: &str| hints(&Modern::new(&gateway, path), "tools/list");
    assert_eq!(at("/mcp/long"), (json!(90_000), json!("public")));
    assert_eq!(at("/mcp/short"), (json!(3000), json!("private")));
    assert_eq!(at("/mcp"), (json!(3000), json!("private")));
}

#[test]
fn c_39_a_list_that_not_everybody_sees_is_private() {
    let server = Server::start(&["--era", "modern", "--ttl-ms", "9000"]);
    let kill = "\n[kill_switch]\ndisabled_tools = [\"echo\"]\n";
    let config = format!("{}{kill}", http_backend("m", &server.address, ""));
    let gateway = Gateway::ready(&config);
    let modern = Modern::new(&gateway, "/mcp/m");
    assert_eq!(
        hints(&modern, "tools/list"),
        (json!(9000), json!("private"))
    );
}
