//! Looking at other MCP servers through the gateway.

use serde_json::{Value, json};

use crate::support::callers::{introduced, request, tool};
use crate::support::http::{self, Answer};
use crate::support::setup::{Gateway, Server, stdio_backend};
use crate::support::tokens::JSON_BODY;

fn send(gateway: &Gateway, method: &str, path: &str, body: &str) -> Answer {
    let headers = [
        JSON_BODY,
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
    ];
    http::send(&gateway.address, method, path, &headers, body).finish()
}

fn visit(gateway: &Gateway, url: &str) -> Answer {
    let body = json!({ "url": url }).to_string();
    send(gateway, "POST", "/admin/api/visits", &body)
}

fn gateway(connect: &str) -> Gateway {
    let console = format!("[console]\nconnect = \"{connect}\"\n");
    Gateway::ready(&format!("{console}{}", stdio_backend("alpha", &[], "")))
}

/// an operator looks at a server that is in no catalog, and calls it.
#[test]
fn a_18_a_visited_server_is_called_and_is_in_no_catalog() {
    let server = Server::start(&[]);
    let gateway = gateway("any");
    let url = format!("http://{}/mcp", server.address);
    let began = visit(&gateway, &url);
    assert_eq!(began.status, 200, "{began:?}");
    let began = began.json();
    assert_eq!(began["health"], "up", "{began}");
    let endpoint = began["endpoint"].as_str().expect("a path").to_owned();

    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                       "clientInfo": {"name": "it", "version": "1"}});
    let headers = [JSON_BODY, ("Accept", "application/json, text/event-stream")];
    let hello = request(&json!(1), "initialize", hello);
    let hello = http::send(&gateway.address, "POST", &endpoint, &headers, hello).finish();
    assert_eq!(hello.status, 200, "{hello:?}");
    let session = hello.header("mcp-session-id");
    let headers = [headers[0], headers[1], ("Mcp-Session-Id", session)];
    let call = request(
        &json!(2),
        "tools/call",
        tool("echo", json!({"text": "hello"})),
    );
    let called = http::send(&gateway.address, "POST", &endpoint, &headers, call).finish();
    let text = &called.json()["result"]["content"][0]["text"];
    assert!(
        text.as_str().is_some_and(|text| text.contains("hello")),
        "{called:?}"
    );

    let list = request(&json!(3), "tools/list", introduced(json!({}), &json!({})));
    let merged = http::send(
        &gateway.address,
        "POST",
        "/mcp",
        &[
            JSON_BODY,
            ("Accept", "application/json"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/list"),
        ],
        list,
    );
    let tools = merged.finish().json();
    let named = |name: &str| {
        let tools = tools["result"]["tools"].as_array().expect("tools");
        tools.iter().filter(|tool| tool["name"] == name).count()
    };
    assert_eq!(
        named("echo"),
        1,
        "the visited server's tools are its own: {tools}"
    );

    let id = json!({ "id": began["id"] }).to_string();
    let ended = send(&gateway, "POST", "/admin/api/visits/end", &id).json();
    assert_eq!(ended["ended"], true);
    let listed = send(&gateway, "GET", "/admin/api/visits", "").json();
    assert_eq!(listed["visits"], json!([]));
    assert_eq!(send(&gateway, "POST", &endpoint, "{}").status, 404);
}

/// nothing is connected to unless it is allowed, and then only what is public.
#[test]
fn a_18_private_addresses_are_refused_in_every_spelling() {
    let server = Server::start(&[]);
    let port = server.address.rsplit(':').next().expect("a port");
    let off = visit(&gateway("off"), &format!("http://127.0.0.1:{port}/mcp"));
    assert_eq!(off.status, 403, "{off:?}");
    let public = gateway("public");
    for host in [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
    ] {
        let answer = visit(&public, &format!("http://{host}:{port}/mcp"));
        assert_eq!(answer.status, 200, "{host}: {answer:?}");
        let answer = answer.json();
        assert_ne!(answer["health"], "up", "{host}: {answer}");
        let problem = answer["problem"].as_str().unwrap_or_default();
        assert!(problem.contains("not public"), "{host}: {answer}");
    }
    for wrong in [
        "file:///etc/passwd",
        "ftp://example.com",
        "http://user:secret@example.com/mcp",
        "nonsense",
        "",
    ] {
        let answer = visit(&public, wrong);
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
    }
    let none: Value = send(&public, "GET", "/admin/api/visits", "").json();
    assert_eq!(none["visits"].as_array().map(Vec::len), Some(8));
}
