//! APIs described by OpenAPI as tools: what arrives at a real API, and what becomes of its answers.
//!
//! The fixture's `api` shows what it was sent. `documents` does the same with public descriptions.

mod documents;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::callers::{Caller, Legacy, Modern, kind_of, tool};
use crate::support::http;
use crate::support::setup::{Gateway, Server, Setup, until};
use crate::support::tokens::token;

/// A description in a file of its own folder.
struct Spec {
    folder: TempDir,
}

impl Spec {
    fn new(description: &Value) -> Self {
        let spec = Self {
            folder: TempDir::new().expect("a folder"),
        };
        spec.write(&description.to_string());
        spec
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("api.json")
    }

    /// The whole file at once: it may be read at any moment.
    fn write(&self, text: &str) {
        let fresh = self.folder.path().join("fresh");
        fs::write(&fresh, text).expect("written");
        fs::rename(fresh, self.path()).expect("ours");
    }
}

fn backend(spec: &str, more: &str) -> String {
    format!("[[backends]]\nname = \"api\"\ntype = \"openapi\"\nspec = {spec:?}\n{more}\n")
}

/// A gateway with one API: this description, at this server.
fn gateway(spec: &Spec, server: &Server, more: &str) -> Gateway {
    let base = format!("base_url = \"http://{}\"\n{more}", server.address);
    Gateway::ready(&backend(spec.path().to_str().expect("text"), &base))
}

/// One operation of a description.
fn describe(paths: &Value) -> Value {
    json!({ "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths })
}

/// The echo of what a call sent.
#[track_caller]
fn echo(caller: &impl Caller, name: &str, arguments: Value) -> Value {
    let answer = caller.call(name, arguments);
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    answer["result"]["structuredContent"].clone()
}

/// A header of an echo.
fn header<'a>(echo: &'a Value, name: &str) -> Option<&'a str> {
    let all = echo["headers"].as_array().expect("headers").iter();
    let mut found = all
        .filter(|pair| pair[0] == name)
        .map(|pair| pair[1].as_str().expect("text"));
    let first = found.next();
    assert!(found.next().is_none(), "{name} twice: {echo}");
    first
}

fn parameter(name: &str, place: &str, more: Value) -> Value {
    let mut out = json!({ "name": name, "in": place, "schema": {} });
    out.as_object_mut()
        .expect("an object")
        .extend(more.as_object().expect("an object").clone());
    out
}

#[test]
fn o_2_parameters_arrive_in_their_places_and_styles() {
    let server = Server::api(&[]);
    let spec = Spec::new(&describe(&json!({
        "/echo/{id}/{list}{matrix}": { "get": { "operationId": "all", "parameters": [
            parameter("id", "path", json!({})),
            parameter("list", "path", json!({"style": "label", "explode": true})),
            parameter("matrix", "path", json!({"style": "matrix"})),
            parameter("tags", "query", json!({})),
            parameter("csv", "query", json!({"explode": false})),
            parameter("space", "query", json!({"style": "spaceDelimited", "explode": false})),
            parameter("pipe", "query", json!({"style": "pipeDelimited", "explode": false})),
            parameter("deep", "query", json!({"style": "deepObject"})),
            parameter("path", "query", json!({"allowReserved": true})),
            {"name": "filter", "in": "query", "content": {"application/json": {"schema": {}}}},
            parameter("X-List", "header", json!({})),
            parameter("theme", "cookie", json!({})),
            parameter("Host", "header", json!({})),
        ]}},
    })));
    let gateway = gateway(&spec, &server, "");
    let caller = Modern::new(&gateway, "/mcp");
    let echo = echo(
        &caller,
        "all",
        json!({
            "id": "a/b é", "list": ["x", "y"], "matrix": {"k": 1}, "tags": ["1", "2"], "csv": [1, 2.5],
            "space": ["a", "b"], "pipe": ["a", "b"], "deep": {"from": 1}, "path": "/a/b", "filter": {"q": [1]},
            "X-List": ["p", "q"], "theme": "dark blue",
        }),
    );
    assert_eq!(echo["method"], "GET");
    assert_eq!(echo["path"], "/echo/a%2Fb%20%C3%A9/.x.y;matrix=k,1");
    assert_eq!(
        echo["query"],
        "tags=1&tags=2&csv=1,2.5&space=a%20b&pipe=a%7Cb&deep%5Bfrom%5D=1&path=/a/b&filter=%7B%22q%22%3A%5B1%5D%7D"
    );
    assert_eq!(header(&echo, "x-list"), Some("p,q"));
    assert_eq!(header(&echo, "cookie"), Some("theme=dark%20blue"));
    assert_eq!(header(&echo, "host"), Some(&*server.address));
    let text = |answer: &Value| {
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    for (wrong, words) in [
        (json!({"id": "..", "list": [], "matrix": {}}), "`.` or `..`"),
        (
            json!({"id": "a/../b", "list": [], "matrix": {}}),
            "may not hold",
        ),
        (
            json!({"id": "a", "list": [], "matrix": {}, "X-List": "a\r\nX-Admin: 1"}),
            "cannot be sent in a header",
        ),
        (json!({"id": "a", "list": []}), "matrix"),
        (
            json!({"id": "a", "list": [], "matrix": {}, "Host": "evil.example"}),
            "Host",
        ),
    ] {
        let answer = caller.call("all", wrong);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(text(&answer).contains(words), "{answer}");
    }
}

#[test]
fn o_6_bodies_arrive_in_their_encodings() {
    let server = Server::api(&[]);
    let body = |media: &str, content: Value| json!({ "post": { "requestBody": { "required": true, "content": { media: content } } } });
    let object = json!({ "schema": { "type": "object" } });
    let files = json!({ "schema": { "type": "object", "properties": {
        "file": {"type": "string", "format": "binary"}, "note": {"type": "string"}, "meta": {"type": "object"},
    }}});
    let spec = Spec::new(&describe(&json!({
        "/echo/json": body("application/json", object.clone()),
        "/echo/form": body("application/x-www-form-urlencoded", object),
        "/echo/files": body("multipart/form-data", files),
        "/echo/text": body("text/plain", json!({})),
        "/echo/bytes": body("application/octet-stream", json!({})),
    })));
    let gateway = gateway(&spec, &server, "");
    let caller = Modern::new(&gateway, "/mcp");
    let sent = |name: &str, body: Value| echo(&caller, name, json!({ "body": body }));
    let json = sent("post_echo_json", json!({"n": 1.0, "s": "é"}));
    assert_eq!(
        (&json["body"], header(&json, "content-type")),
        (&json!(r#"{"n":1.0,"s":"é"}"#), Some("application/json"))
    );
    let form = sent("post_echo_form", json!({"a b": "c&d", "l": [1, 2]}));
    assert_eq!(form["body"], "a+b=c%26d&l=1&l=2");
    let files = sent(
        "post_echo_files",
        json!({
            "file": {"data": "/+8=", "filename": "a.bin"}, "note": "hi", "meta": {"k": 1},
        }),
    );
    assert_eq!(
        files["parts"],
        json!([
            {"head": ["Content-Disposition: form-data; name=\"file\"; filename=\"a.bin\"", "Content-Type: application/octet-stream"], "body": {"bytes": [255, 239]}},
            {"head": ["Content-Disposition: form-data; name=\"note\""], "body": "hi"},
            {"head": ["Content-Disposition: form-data; name=\"meta\"", "Content-Type: application/json"], "body": "{\"k\":1}"},
        ])
    );
    assert_eq!(sent("post_echo_text", json!("plain"))["body"], "plain");
    assert_eq!(
        sent("post_echo_bytes", json!({"data": "/+8="}))["body"],
        json!({"bytes": [255, 239]})
    );
    let wrong = caller.call("post_echo_bytes", json!({"body": {"data": "%"}}));
    assert_eq!(wrong["result"]["isError"], true, "{wrong}");
}

#[test]
fn o_5_the_gateways_credentials_are_sent_and_the_callers_are_not() {
    let (server, other) = (Server::api(&[]), Server::api(&[]));
    let mut description = describe(&json!({
        "/echo/key": { "get": { "operationId": "key", "security": [{"key": []}] } },
        "/echo/bearer": { "get": { "operationId": "bearer", "security": [{"oauth": []}] } },
        "/echo/basic": { "get": { "operationId": "basic", "security": [{"basic": []}] } },
        "/echo/both": { "get": { "operationId": "both", "security": [{"cookie": [], "query": []}] } },
        "/echo/open": { "get": { "operationId": "open", "security": [] } },
        "/redirect/302": { "get": { "operationId": "away", "security": [{"oauth": []}],
            "parameters": [parameter("to", "query", json!({})), parameter("X-Own", "header", json!({}))] } },
    }));
    description["components"] = json!({ "securitySchemes": {
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "query": {"type": "apiKey", "in": "query", "name": "k"},
        "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
        "oauth": {"type": "oauth2", "flows": {}},
        "basic": {"type": "http", "scheme": "basic"},
    }});
    let spec = Spec::new(&description);
    let more = format!(
        "base_url = \"http://{}\"\nallow_private = true\nheaders = {{ X-Static = \"always\" }}\n\
         auth = {{ bearer_env = \"TOKEN\", basic_env = \"PAIR\", api_key_env = \"KEY\", schemes = {{ cookie = \"COOKIE\" }} }}",
        server.address
    );
    let config = format!(
        "[auth]\n{}",
        backend(spec.path().to_str().expect("text"), &more)
    );
    let env = [
        ("TOKEN", "tok-en"),
        ("PAIR", "me:pw"),
        ("KEY", "k&y"),
        ("COOKIE", "c00kie"),
    ];
    let gateway = Gateway::start_in(Setup::with_env(&config, &env));
    gateway.wait_ready();
    let credential = token(json!({"role": "admin"}));
    let caller = Modern::new(&gateway, "/mcp").bearing(&credential);
    let sent = |name: &str| echo(&caller, name, json!({}));
    assert_eq!(header(&sent("key"), "x-key"), Some("k&y"));
    assert_eq!(
        header(&sent("bearer"), "authorization"),
        Some("Bearer tok-en")
    );
    assert_eq!(
        header(&sent("basic"), "authorization"),
        Some("Basic bWU6cHc=")
    );
    let both = sent("both");
    assert_eq!(
        (&both["query"], header(&both, "cookie")),
        (&json!("k=k%26y"), Some("sid=c00kie"))
    );
    let open = sent("open");
    assert_eq!(
        (header(&open, "authorization"), header(&open, "x-static")),
        (None, Some("always"))
    );
    // To another place nothing goes along.
    for (address, expected) in [
        (&server.address, Some("Bearer tok-en")),
        (&other.address, None),
    ] {
        let away = json!({"to": format!("http://{address}/echo/away"), "X-Own": "mine"});
        let away = echo(&caller, "away", away);
        assert_eq!(header(&away, "host"), Some(&**address));
        assert_eq!(header(&away, "authorization"), expected);
        assert_eq!(header(&away, "x-own").is_some(), expected.is_some());
        assert_eq!(header(&away, "x-static").is_some(), expected.is_some());
        assert!(!away.to_string().contains(&credential));
    }
    let everything = format!("{}{}", gateway.setup.log(), gateway.get("/ready").text);
    for (_, secret) in env {
        assert!(!everything.contains(secret));
    }
}

#[test]
fn o_8_descriptions_and_redirects_lead_to_no_private_address() {
    let other = Server::api(&[]);
    let port = other.port();
    let away = [
        format!("http://127.0.0.1:{port}"),
        format!("http://localhost:{port}"),
        format!("http://[::1]:{port}"),
        format!("http://2130706433:{port}"),
        format!("http://[::ffff:127.0.0.1]:{port}"),
        format!("http://0.0.0.0:{port}"),
        "http://169.254.169.254".to_owned(),
        "http://10.0.0.1".to_owned(),
    ];
    let to = |server: &str| json!({ "get": { "servers": [{ "url": server }] } });
    let mut paths = json!({
        "/redirect/307": { "get": { "operationId": "redirect", "parameters": [parameter("to", "query", json!({}))] } },
        "/echo/here": { "get": { "operationId": "here" } },
    });
    for (n, server) in away.iter().enumerate() {
        paths[format!("/echo/{n}")] = to(server);
    }
    let mut description = describe(&paths);
    let folder = Spec::new(&description);
    let served = Server::api(&["--document", folder.path().to_str().expect("text")]);
    // The place that the configuration names is trusted, although its address is private.
    description["servers"] = json!([{ "url": "/" }]);
    folder.write(&description.to_string());
    let config = |more: &str| backend(&format!("http://{}/document", served.address), more);
    let gateway = Gateway::ready(&config("circuit_breaker = { threshold = 0 }"));
    let caller = Modern::new(&gateway, "/mcp");
    assert_eq!(echo(&caller, "here", json!({}))["path"], "/echo/here");
    let inside = json!({"to": "/echo/redirected"});
    assert_eq!(
        echo(&caller, "redirect", inside)["path"],
        "/echo/redirected"
    );
    for (n, place) in away.iter().enumerate() {
        let refused = caller.call(&format!("get_echo_{n}"), json!({}));
        assert_eq!(
            kind_of(&refused),
            "backend_unavailable",
            "{place}: {refused}"
        );
    }
    for place in &away {
        let refused = caller.call("redirect", json!({"to": format!("{place}/echo/x")}));
        assert_eq!(
            kind_of(&refused),
            "backend_unavailable",
            "{place}: {refused}"
        );
        assert!(
            refused.to_string().contains("not public") || place.contains('['),
            "{place}: {refused}"
        );
    }
    drop(gateway);
    let gateway = Gateway::ready(&config("allow_private = true"));
    let caller = Modern::new(&gateway, "/mcp");
    assert_eq!(echo(&caller, "get_echo_1", json!({}))["path"], "/echo/1");
    drop(gateway);
    // The description itself: a redirect, and a reference to another document.
    let led_away = format!(
        "http://{}/redirect/302?to={}/document",
        served.address, away[1]
    );
    description["components"] = json!({ "$ref": format!("{}/document", away[1]) });
    folder.write(&description.to_string());
    for spec in [led_away, format!("http://{}/document", served.address)] {
        let gateway = Gateway::start(&backend(&spec, ""));
        until("it is refused", || {
            gateway.setup.log().contains("is not public").then_some(())
        });
        assert_ne!(gateway.health("api"), "up");
    }
}

#[test]
fn o_7_answers_become_results_of_their_kind() {
    let server = Server::api(&[]);
    let spec = Spec::new(&describe(&json!({
        "/status/{code}": { "delete": { "operationId": "status" } },
        "/bytes/{kind}/{sub}": { "get": { "operationId": "bytes", "parameters": [parameter("n", "query", json!({}))] } },
        "/pages": { "get": { "operationId": "pages", "parameters": [parameter("page", "query", json!({"schema": {"type": "integer"}}))] } },
        "/cursor": { "get": { "operationId": "cursor", "parameters": [parameter("cursor", "query", json!({}))] } },
        "/echo/head": { "head": { "operationId": "head" } },
        "/empty": { "put": { "operationId": "empty" } },
        "/cut": { "get": { "operationId": "cut" } },
        "/redirect/307": { "post": { "operationId": "moved", "parameters": [parameter("to", "query", json!({}))] } },
    })));
    let gateway = gateway(&spec, &server, "[limits]\nreply_mb = 1");
    for caller in [
        &Modern::new(&gateway, "/mcp") as &dyn Caller,
        &Legacy::newest(&gateway),
    ] {
        let result = |name: &str, arguments: Value| caller.call(name, arguments)["result"].clone();
        let busy = result("status", json!({"code": "503"}));
        assert_eq!(busy["isError"], true);
        assert_eq!(
            busy["content"][0]["text"],
            "HTTP 503 Service Unavailable: try again after 7 seconds"
        );
        assert_eq!(busy["structuredContent"]["body"]["trace"], "t-1");
        let meta = &busy["_meta"]["sentinel-gateway/http"];
        assert_eq!(
            (&meta["retryAfterMs"], &meta["problem"]["status"]),
            (&json!(7000), &json!(503))
        );
        let image = result("bytes", json!({"kind": "image", "sub": "png", "n": 3}));
        assert_eq!(
            image["content"][0],
            json!({"type": "image", "data": "gIGC", "mimeType": "image/png"})
        );
        let blob = result(
            "bytes",
            json!({"kind": "application", "sub": "zip", "n": 1}),
        );
        assert_eq!(blob["content"][0]["resource"]["blob"], "gA==");
        let long = 1_100_000;
        let text = result("bytes", json!({"kind": "text", "sub": "plain", "n": long}));
        assert_eq!(
            text["content"][0]["text"].as_str().map(str::len),
            Some(1 << 20)
        );
        assert!(
            text["content"][1]["text"]
                .as_str()
                .expect("text")
                .contains("cut here")
        );
        let json = caller.call(
            "bytes",
            json!({"kind": "application", "sub": "json", "n": long}),
        );
        assert_eq!(kind_of(&json), "backend_bad_reply", "{json:.300}");
        assert_eq!(
            kind_of(&caller.call("cut", json!({}))),
            "backend_unavailable"
        );
        assert_eq!(result("head", json!({}))["isError"], false);
        assert_eq!(
            result("empty", json!({}))["content"][0]["text"],
            "HTTP 204: no content"
        );
        let moved = result("moved", json!({"to": "/echo/x"}));
        assert!(
            moved["content"][0]["text"]
                .as_str()
                .expect("text")
                .contains("was not sent again"),
            "{moved}"
        );
        // From page to page by what is told.
        for (name, pages) in [("pages", 3), ("cursor", 2)] {
            let (mut arguments, mut seen) = (json!({}), 0);
            loop {
                let page = result(name, arguments.clone());
                seen += 1;
                let next = page["_meta"]["sentinel-gateway/http"]["next"]["arguments"].clone();
                if next.is_null() {
                    break;
                }
                assert!(
                    page["content"][1]["text"]
                        .as_str()
                        .expect("a hint")
                        .contains(&next.to_string())
                );
                arguments = next;
            }
            assert_eq!(seen, pages, "{name}");
        }
    }
}

#[test]
fn o_7_calls_end_at_their_deadline_and_with_their_caller() {
    let server = Server::api(&[]);
    let hang = describe(&json!({ "/hang": { "get": { "operationId": "hang" } } }));
    let spec = Spec::new(&hang);
    let hanging = |n: u64| {
        until("so many calls wait at the API", || {
            let answer = http::send(&server.address, "GET", "/hanging", &[], "").finish();
            (answer.json()["n"] == n).then_some(())
        });
    };
    let gateway = gateway(&spec, &server, "timeout = 1");
    let late = Modern::new(&gateway, "/mcp").call("hang", json!({}));
    assert_eq!(kind_of(&late), "backend_timeout", "{late}");
    hanging(0);
    drop(gateway);
    let gateway = self::gateway(&spec, &server, "");
    let modern = Modern::new(&gateway, "/mcp");
    let call = modern.send("tools/call", tool("hang", json!({})));
    hanging(1);
    call.hang_up();
    hanging(0);
    let legacy = Legacy::newest(&gateway);
    let id = json!(77);
    let call = legacy.send(&crate::support::callers::request(
        &id,
        "tools/call",
        tool("hang", json!({})),
    ));
    hanging(1);
    legacy.cancel(&id);
    hanging(0);
    call.hang_up();
}

#[test]
fn o_1_a_description_is_read_again_and_a_bad_one_changes_nothing() {
    let with = |name: &str| {
        describe(&json!({ "/echo/x": { "get": { "operationId": name } } })).to_string()
    };
    let spec = Spec::new(&json!({}));
    spec.write("openapi: [");
    let server = Server::api(&["--document", spec.path().to_str().expect("text")]);
    let url = format!("http://{}/document", server.address);
    let gateway = Gateway::start(&backend(&url, "refresh = 0.1\nhealth_interval = 1"));
    until("the bad one is named", || {
        gateway.setup.log().contains("no YAML").then_some(())
    });
    let caller = Modern::new(&gateway, "/mcp");
    spec.write(&with("first"));
    until("it is read", || (caller.tools() == ["first"]).then_some(()));
    let legacy = Legacy::newest(&gateway);
    let mut stream = legacy.verb("GET").head();
    spec.write(&with("second"));
    while stream.json()["method"] != "notifications/tools/list_changed" {}
    assert_eq!(caller.tools(), ["second"]);
    assert_eq!(echo(&caller, "second", json!({}))["path"], "/echo/x");
    for (bad, words) in [
        ("{\"openapi\":", "no JSON"),
        ("openapi: 9.9.9", "neither"),
        ("openapi: [", "no YAML"),
    ] {
        let before = gateway.setup.log().len();
        spec.write(bad);
        until("it is read and refused", || {
            gateway.setup.log()[before..].contains(words).then_some(())
        });
        assert_eq!(caller.tools(), ["second"]);
        assert_eq!(gateway.health("api"), "up");
    }
    spec.write(&with("third"));
    until("the next good one is read", || {
        (caller.tools() == ["third"]).then_some(())
    });
}

#[test]
fn o_4_doctor_names_what_was_left_out() {
    let server = Server::api(&[]);
    let mut description = describe(&json!({
        "/echo/good": { "get": { "operationId": "good", "tags": ["a"] } },
        "/echo/odd": { "get": { "operationId": "odd", "parameters": [{"name": "x", "in": "nowhere", "required": true}] } },
        "/echo/other": { "get": { "operationId": "other", "tags": ["b"] }, "delete": { "operationId": "drop" } },
    }));
    description["security"] = json!([{ "key": [] }]);
    let spec = Spec::new(&description);
    let more = format!(
        "base_url = \"http://{}\"\nexclude = [\"tag:b\", \"DELETE\"]",
        server.address
    );
    let setup = Setup::new(&backend(spec.path().to_str().expect("text"), &more));
    let (code, out, _) = setup.sentinel(&["doctor"]);
    assert_eq!(code, 0, "{out}");
    for words in [
        "left out: its parameter `x`",
        "`good` is called without a credential",
    ] {
        assert!(out.contains(words), "{out}");
    }
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    assert_eq!(Modern::new(&gateway, "/mcp").tools(), ["good"]);
}
