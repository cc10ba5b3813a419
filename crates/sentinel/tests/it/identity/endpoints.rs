//! P-S11, G-3, C-36: who may knock, and what the door says of itself.

use serde_json::json;

use crate::support::callers::request;
use crate::support::http;
use crate::support::setup::{Gateway, Server, http_backend};

const JSON_BODY: (&str, &str) = ("Content-Type", "application/json");
const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");

#[test]
fn p_s11_foreign_hosts_and_origins_are_refused_each_on_its_own() {
    let gateway = Gateway::start(
        "allowed_hosts = [\"gate.example\"]\nallowed_origins = [\"https://page.example\"]\n",
    );
    let ping = request(&json!(1), "ping", json!({}));
    let post = |headers: &[(&str, &str)]| {
        let headers: Vec<_> = [JSON_BODY, ACCEPT].iter().chain(headers).copied().collect();
        http::send(&gateway.address, "POST", "/mcp", &headers, &ping)
            .finish()
            .status
    };
    for headers in [
        &[][..],
        &[("Host", "localhost")],
        &[("Host", "gate.example")],
        &[("Origin", "http://localhost:3000")],
        &[("Origin", "https://page.example")],
        &[("Host", "[::1]:9"), ("Origin", "http://127.0.0.1")],
    ] {
        assert_eq!(post(headers), 200, "{headers:?}");
    }
    for headers in [
        &[("Host", "evil.example")][..],
        &[("Host", "127.0.0.1.evil.example")],
        &[("Host", "evil.example"), ("Origin", "http://localhost")],
        &[("Origin", "https://evil.example")],
        &[("Origin", "null")],
        &[("Origin", "http://localhost.evil.example")],
        &[
            ("Origin", "http://localhost"),
            ("Origin", "http://evil.example"),
        ],
        &[("X-Forwarded-Host", "localhost"), ("Host", "evil.example")],
    ] {
        assert_eq!(post(headers), 403, "{headers:?}");
    }
    // Probes come from anywhere.
    for path in ["/health", "/ready"] {
        let headers = [("Host", "10.0.0.7:9200")];
        let answer = http::send(&gateway.address, "GET", path, &headers, "").finish();
        assert_eq!(answer.status, 200, "{path}");
    }
}

#[test]
fn p_s11_a_url_in_the_request_line_is_looked_at_like_the_host() {
    let gateway = Gateway::start("");
    let status = |target: &str| {
        let ping = request(&json!(1), "ping", json!({}));
        http::send(
            &gateway.address,
            "POST",
            target,
            &[JSON_BODY, ACCEPT],
            &ping,
        )
        .head()
        .status
    };
    assert_eq!(status(&format!("http://{}/mcp", gateway.address)), 200);
    assert_eq!(status("http://evil.example/mcp"), 403);
    assert_eq!(status("http://127.0.0.1@evil.example/mcp"), 403);
}

#[test]
fn p_s11_browsers_are_told_that_allowed_pages_may_use_the_gateway_and_others_not() {
    let gateway = Gateway::start("allowed_origins = [\"https://page.example\"]\n");
    let preflight = |origin: &str| {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
            (
                "Access-Control-Request-Headers",
                "content-type,mcp-param-region",
            ),
        ];
        http::send(&gateway.address, "OPTIONS", "/mcp", &headers, "").finish()
    };
    let said = preflight("https://page.example");
    assert_eq!(said.status, 204);
    let header = |answer: &http::Answer, name: &str| {
        let mut all = answer.headers.iter().filter(|(n, _)| n == name);
        all.next().map(|(_, value)| value.clone())
    };
    for (name, value) in [
        ("access-control-allow-origin", "https://page.example"),
        ("access-control-allow-methods", "POST, GET, DELETE"),
        (
            "access-control-allow-headers",
            "content-type,mcp-param-region",
        ),
        ("vary", "Origin"),
    ] {
        assert_eq!(header(&said, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(header(&said, "access-control-allow-credentials"), None);
    let foreign = preflight("https://evil.example");
    assert_eq!(foreign.status, 403);
    assert_eq!(header(&foreign, "access-control-allow-origin"), None);

    let greeting = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}});
    let hello = request(&json!(1), "initialize", greeting);
    let headers = [JSON_BODY, ACCEPT, ("Origin", "http://localhost:6274")];
    let answer = http::send(&gateway.address, "POST", "/mcp", &headers, hello).finish();
    assert_eq!(answer.status, 200);
    let origin = header(&answer, "access-control-allow-origin");
    assert_eq!(origin.as_deref(), Some("http://localhost:6274"));
    let exposed = header(&answer, "access-control-expose-headers").unwrap_or_default();
    assert!(exposed.contains("Mcp-Session-Id"), "{exposed}");
}

#[test]
fn g_3_bodies_are_json_and_answers_are_accepted() {
    let gateway = Gateway::start("");
    let ping = request(&json!(1), "ping", json!({}));
    let post = |headers: &[(&str, &str)]| {
        http::send(&gateway.address, "POST", "/mcp", headers, &ping)
            .finish()
            .status
    };
    assert_eq!(
        post(&[("Content-Type", "application/json; charset=utf-8"), ACCEPT]),
        200
    );
    assert_eq!(post(&[JSON_BODY, ("Accept", "*/*")]), 200);
    assert_eq!(post(&[ACCEPT]), 415);
    assert_eq!(post(&[("Content-Type", "text/plain"), ACCEPT]), 415);
    assert_eq!(post(&[JSON_BODY, ("Accept", "text/html")]), 406);
    for (method, status) in [
        ("PUT", 405),
        ("PATCH", 405),
        ("HEAD", 405),
        ("OPTIONS", 204),
    ] {
        let answer = http::send(&gateway.address, method, "/mcp", &[], "").head();
        assert_eq!(answer.status, status, "{method}");
        let allow = answer.headers.iter().find(|(name, _)| name == "allow");
        let allow = allow.map(|(_, verbs)| verbs.as_str());
        assert_eq!(allow, Some("POST, GET, DELETE"), "{method}");
    }
}

#[test]
fn g_74_c_36_health_is_alive_and_ready_says_what_is_missing() {
    let server = Server::start(&["--hang"]);
    let gateway = Gateway::start(&http_backend("stuck", &server.address, ""));
    let health = gateway.get("/health");
    assert_eq!(
        (health.status, &health.json()["status"]),
        (200, &json!("ok"))
    );
    let ready = gateway.get("/ready");
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json()["backends"]["stuck"], "starting");
}

#[test]
fn p_s13_a_body_in_chunks_is_read_up_to_the_limit() {
    use std::io::{Read, Write};
    let gateway = Gateway::start("[limits]\nbody_mb = 1\n");
    let post = |chunks: &[&[u8]]| {
        let mut socket = std::net::TcpStream::connect(&gateway.address).expect("it listens");
        socket
            .set_read_timeout(Some(crate::support::setup::PATIENCE))
            .expect("a time-out");
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: */*\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
            gateway.address
        );
        socket.write_all(head.as_bytes()).expect("a head is taken");
        for chunk in chunks.iter().copied().chain([&b""[..]]) {
            // It may be refused before its end.
            let _ = write!(socket, "{:x}\r\n", chunk.len());
            let _ = socket
                .write_all(chunk)
                .and_then(|()| socket.write_all(b"\r\n"));
        }
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let ping = request(&json!(1), "ping", json!({})).into_bytes();
    let (first, rest) = ping.split_at(7);
    let answer = post(&[first, rest]);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let large = vec![b' '; 300 << 10];
    let answer = post(&[&large, &large, &large, &large, &ping]);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[test]
fn p_s13_a_head_beyond_the_limit_is_refused() {
    let gateway = Gateway::start("");
    let long = "x".repeat(100 << 10);
    let answer = http::send(&gateway.address, "GET", "/health", &[("X-Long", &long)], "").head();
    assert_eq!(answer.status, 431);
    assert_eq!(gateway.get("/health").status, 200);
}

/// Writes these bytes on one connection; what came back, and whether the connection was closed then.
fn exchange(gateway: &Gateway, bytes: &str) -> String {
    use std::io::{Read, Write};
    let mut socket = std::net::TcpStream::connect(&gateway.address).expect("it listens");
    let limit = Some(crate::support::setup::PATIENCE);
    socket.set_read_timeout(limit).expect("a time-out");
    socket.write_all(bytes.as_bytes()).expect("it is taken");
    let mut answer = Vec::new();
    // Ends when the gateway closes, and is an error if it does not.
    let ended = socket.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(ended.is_ok(), "not closed after {text}");
    text
}

/// A proxy before us and we must agree on what a request is, and where it ends (RFC 9110 8.4, 10.1.1; RFC 9112 3.2, 6.1).
#[test]
fn p_s13_what_we_would_read_differently_is_refused() {
    let gateway = Gateway::start("");
    let ping = request(&json!(1), "ping", json!({}));
    let post = |headers: &[(&str, &str)]| {
        let headers: Vec<_> = [JSON_BODY, ACCEPT].iter().chain(headers).copied().collect();
        let sent = http::send(&gateway.address, "POST", "/mcp", &headers, &ping);
        sent.finish().status
    };
    assert_eq!(post(&[("Content-Encoding", "identity")]), 200);
    assert_eq!(post(&[("Expect", "100-Continue")]), 100);
    assert_eq!(post(&[("Content-Encoding", "gzip")]), 415);
    assert_eq!(post(&[("Expect", "the-worst")]), 417);
    assert_eq!(
        post(&[("Accept", "text/html")]),
        200,
        "one of two is enough"
    );

    let host = format!("Host: {}\r\n", gateway.address);
    let kinds = "Content-Type: application/json\r\nAccept: */*\r\n";
    let chunked = format!("{:x}\r\n{ping}\r\n0\r\n\r\n", ping.len());
    let sent = |host: &str, framing: &str| {
        let next = format!("GET /health HTTP/1.1\r\n{host}\r\n");
        let head = format!("POST /mcp HTTP/1.1\r\n{host}{kinds}{framing}\r\n");
        exchange(&gateway, &format!("{head}{chunked}{next}"))
    };
    for (framing, status) in [
        ("Transfer-Encoding: gzip, chunked\r\n", "501"),
        (
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
            "501",
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "501",
        ),
        ("Transfer-Encoding: gzip\r\n", "400"),
        ("Transfer-Encoding: chunked, gzip\r\n", "400"),
        // Goes by the chunks, as hyper does; the connection is not trusted any further.
        ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "200"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "200"),
        ("Content-Length: 4\r\nContent-Length: 5\r\n", "400"),
    ] {
        let answer = sent(&host, framing);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{framing}: {answer}"
        );
        let answers = answer.matches("HTTP/1.1 ").count();
        assert_eq!(answers, 1, "what follows is not read: {framing}: {answer}");
    }
    let bare = format!(
        "POST /mcp HTTP/1.1\r\n{kinds}Connection: close\r\nContent-Length: {}\r\n\r\n{ping}",
        ping.len()
    );
    let answer = exchange(&gateway, &bare);
    assert!(answer.starts_with("HTTP/1.1 400"), "no Host: {answer}");
}
