//! P-S11, G-3, C-36: who may knock, and what the door says of itself.

use serde_json::json;

use crate::callers::request;
use crate::house::{Gateway, Server, http_backend};
use crate::http;

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
    for method in ["PUT", "PATCH", "OPTIONS", "HEAD"] {
        let answer = http::send(&gateway.address, method, "/mcp", &[], "").head();
        assert_eq!(answer.status, 405, "{method}");
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
