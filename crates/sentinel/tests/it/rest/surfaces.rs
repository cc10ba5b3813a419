//! `[surfaces]`: what is switched off or moved is not there any more, and a reload applies it.

use serde_json::json;

use crate::support::callers::{Caller, Modern};
use crate::support::setup::{Gateway, Server, http_backend, until};
use crate::support::web::Web;

fn status(web: &Web, verb: &str, path: &str) -> u16 {
    let headers = [("Content-Type", "application/json")];
    web.send(verb, path, &headers, "{}").finish().status
}

#[test]
fn issue_18_a_surface_is_switched_off_and_moved_by_a_reload() {
    let server = Server::start(&[]);
    let backend = http_backend("web", &server.address, "");
    let gateway = Gateway::ready(&backend);
    let web = Web::new(&gateway);
    let echo = json!({"text": "x"});
    assert_eq!(web.post("/api/echo", &echo).status, 200);
    let there = web.get("/nothing").json()["detail"].clone();
    let text =
        "there is nothing at this path; MCP is at /mcp; REST is at /api; JSON-RPC is at /rpc";
    assert_eq!(there, text);

    let moved = "[surfaces]\nmcp_path = \"/agents/mcp\"\nrest_path = \"/tools\"\nrpc = false\n";
    gateway.setup.rewrite(&format!("{moved}{backend}"));
    gateway.process.signal("HUP");
    until("REST is at its new path", || {
        (web.post("/tools/echo", &echo).status == 200).then_some(())
    });
    for (verb, path) in [
        ("POST", "/api/echo"),
        ("GET", "/api/catalog"),
        ("POST", "/mcp"),
        ("POST", "/rpc"),
    ] {
        assert_eq!(status(&web, verb, path), 404, "{verb} {path}");
    }
    assert_eq!(status(&web, "PUT", "/tools/echo"), 405);
    let document = web.get("/openapi.json").json();
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.contains_key("/tools/echo"), "{:?}", paths.keys());
    let text = document["info"]["description"].as_str().expect("a text");
    assert!(
        text.contains("MCP at `/agents/mcp`") && !text.contains("JSON-RPC"),
        "{text}"
    );
    assert!(web.get("/llms.txt").text.contains("(/tools/echo)"));
    assert_eq!(
        Modern::new(&gateway, "/agents/mcp").said("echo", echo.clone()),
        "x"
    );
    assert_eq!(
        Modern::new(&gateway, "/agents/mcp/web").said("echo", echo.clone()),
        "x"
    );
    let text = "there is nothing at this path; MCP is at /agents/mcp; REST is at /tools";
    assert_eq!(web.get("/nothing").json()["detail"], text);

    let off = "[surfaces]\nmcp = false\nrest = false\n";
    gateway.setup.rewrite(&format!("{off}{backend}"));
    gateway.process.signal("HUP");
    until("JSON-RPC is back", || {
        (web.rpc("echo", &echo).status == 200).then_some(())
    });
    for (verb, path) in [
        ("POST", "/api/echo"),
        ("POST", "/mcp"),
        ("GET", "/sse"),
        ("GET", "/openapi.json"),
        ("GET", "/explorer"),
    ] {
        assert_eq!(status(&web, verb, path), 404, "{verb} {path}");
    }
    assert_eq!(status(&web, "GET", "/health"), 200);
}

#[test]
fn issue_18_documents_explorer_and_admin_api_are_switched_off_by_a_reload() {
    let server = Server::start(&[]);
    let backend = http_backend("web", &server.address, "");
    let gateway = Gateway::ready(&backend);
    let web = Web::new(&gateway);
    let statuses = || {
        let paths = [
            "/openapi.json",
            "/llms.txt",
            "/explorer",
            "/admin/api/status",
            "/api/catalog",
        ];
        paths.map(|path| web.get(path).status)
    };
    assert_eq!(statuses(), [200; 5]);
    for (off, want) in [
        ("explorer = false", [200, 200, 404, 200, 200]),
        ("documents = false", [404, 404, 404, 200, 200]),
        ("admin = false", [200, 200, 200, 404, 200]),
        ("rest = false", [404, 404, 404, 200, 404]),
        // The operator's socket brings it back.
        ("rest = true", [200; 5]),
    ] {
        gateway
            .setup
            .rewrite(&format!("[surfaces]\n{off}\n{backend}"));
        let (exit, _, wrong) = gateway.setup.sentinel(&["reload"]);
        assert_eq!(exit, 0, "{off}: {wrong}");
        assert_eq!(statuses(), want, "{off}");
    }
}
