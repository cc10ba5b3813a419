//! Further rows of the table of errors: those that need a gateway in a state of its own.

use serde_json::json;

use super::errors::{check_error, check_problem};
use crate::support::callers::{Caller, Modern};
use crate::support::http::status;
use crate::support::setup::{Gateway, Server, http_backend, until};
use crate::support::web::{JSON_BODY, Web};

#[test]
fn c_19_a_stream_without_a_place_is_refused_and_the_call_is_cancelled() {
    let server = Server::start(&[]);
    let backend = http_backend("web", &server.address, "");
    let gateway = Gateway::ready(&format!("[limits]\nstreams = 1\n{backend}"));
    let web = Web::new(&gateway);
    let streamed = |body: &str| {
        let headers = [JSON_BODY, ("Accept", "text/event-stream")];
        web.send("POST", "/api/chatty", &headers, body)
    };
    let first = streamed(r#"{"n": 1000, "ms": 100}"#).head();
    assert_eq!(first.status, 200);
    let second = streamed(r#"{"n": 2, "ms": 100}"#).finish();
    let problem = check_problem(&second, 503, "too_many_streams");
    assert_eq!(problem["retryable"], true, "{problem}");
    assert_eq!(second.header("retry-after"), "1");
    // What says nothing on the way needs no place.
    let plain = web.post("/api/echo", &json!({"text": "x"}));
    assert_eq!(plain.status, 200, "{plain:?}");
    drop(first);
    until("the place is free", || {
        (streamed(r#"{"n": 1}"#).finish().status == 200).then_some(())
    });
}

#[test]
fn c_19_a_gateway_that_shuts_down_says_when_to_come_back() {
    let server = Server::start(&[]);
    let mut gateway = Gateway::ready(&http_backend("web", &server.address, ""));
    let web = Web::new(&gateway);
    let held = web.send("POST", "/api/barrier", &[JSON_BODY], r#"{"name":"b"}"#);
    let direct = Modern::at(&server.address, "/mcp", json!({}));
    until("the call waits", || {
        (direct.said("waiting", json!({"name": "b"})) == "1").then_some(())
    });
    gateway.process.signal("TERM");
    until("readiness turns 503", || {
        (status(&gateway.address, "/ready")? == 503).then_some(())
    });
    let echo = json!({"text": "x"});
    let rest = web.post("/api/echo", &echo);
    check_problem(&rest, 503, "going_down");
    let listed = web.get("/api/catalog");
    check_problem(&listed, 503, "going_down");
    let rpc = web.rpc("echo", &echo);
    check_error(&rpc, 503, -32000, "going_down");
    for answer in [rest, listed, rpc] {
        assert_eq!(answer.header("retry-after"), "1", "{answer:?}");
    }
    direct.said("release", json!({"name": "b"}));
    assert_eq!(held.finish().status, 200);
    assert!(gateway.process.wait().success());
}

#[test]
fn a_7_requests_that_http_itself_refuses_at_the_rpc_surface() {
    let server = Server::start(&[]);
    let backend = http_backend("web", &server.address, "");
    let gateway = Gateway::ready(&format!("[limits]\nbody_mb = 1\n{backend}"));
    let web = Web::new(&gateway);
    let post =
        |headers: &[(&str, &str)], body: &str| web.send("POST", "/rpc", headers, body).finish();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"x"}}"#;
    let xml = post(&[("Content-Type", "text/xml")], call);
    check_error(&xml, 415, -32600, "unsupported_media_type");
    let text = "x".repeat(1 << 20);
    let large = call.replace("\"x\"", &format!("\"{text}\""));
    check_error(&post(&[JSON_BODY], &large), 413, -32600, "too_large");
    let many = vec![call; 101].join(",");
    let many = post(&[JSON_BODY], &format!("[{many}]"));
    check_error(&many, 413, -32600, "too_large");
    let options = web.send("OPTIONS", "/rpc", &[], "").finish();
    assert_eq!((options.status, options.header("allow")), (204, "POST"));
    let get = web.get("/rpc");
    assert_eq!(get.header("allow"), "POST");
    check_error(&get, 405, -32600, "method_not_allowed");
    let long = web.send(
        "POST",
        &format!("/rpc?{}", "n".repeat(9000)),
        &[JSON_BODY],
        call,
    );
    check_error(&long.finish(), 414, -32600, "uri_too_long");
}
