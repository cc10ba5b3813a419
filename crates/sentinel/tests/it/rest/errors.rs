//! The table of errors, row by row, over REST and JSON-RPC: status, code, headers and the members of a problem document.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Modern};
use crate::support::http::Answer;
use crate::support::setup::{Gateway, Server, http_backend, until};
use crate::support::tokens::token;
use crate::support::web::{JSON_BODY, Web};

/// Checks a problem document and what goes with it.
#[track_caller]
pub(super) fn check_problem(answer: &Answer, status: u16, code: &str) -> Value {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let problem = answer.json();
    assert_eq!(problem["code"], code, "{problem}");
    assert_eq!(problem["status"], status, "{problem}");
    assert_eq!(problem["type"], format!("/problems/{code}"), "{problem}");
    for member in ["title", "detail", "hint"] {
        let text = problem[member].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "{member}: {problem}");
    }
    assert!(problem["retryable"].is_boolean(), "{problem}");
    check_retry_after(answer, &problem);
    problem
}

/// Checks an error of JSON-RPC and what goes with it; its data.
#[track_caller]
pub(super) fn check_error(answer: &Answer, status: u16, number: i64, code: &str) -> Value {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/json");
    let body = answer.json();
    assert_eq!(body["jsonrpc"], "2.0");
    assert_eq!(body["error"]["code"], number, "{body}");
    let data = body["error"]["data"].clone();
    assert_eq!(data["code"], code, "{body}");
    assert_eq!(data["type"], format!("/problems/{code}"), "{body}");
    assert!(data["retryable"].is_boolean() && data["hint"].is_string());
    check_retry_after(answer, &data);
    data
}

#[track_caller]
fn check_retry_after(answer: &Answer, members: &Value) {
    let seconds = members["retry_after_ms"]
        .as_u64()
        .map(|ms| ms.div_ceil(1000));
    let waits = ["rate_limited", "overloaded", "circuit_open", "going_down"];
    let code = members["code"].as_str().unwrap_or_default();
    assert!(
        seconds.is_some() || !waits.contains(&code),
        "when to come back is missing: {members}"
    );
    let seconds = seconds.map_or(String::new(), |seconds| seconds.to_string());
    assert_eq!(answer.header("retry-after"), seconds, "{answer:?}");
}

/// What REST and JSON-RPC say of a resource and a prompt that nobody has.
#[test]
fn c_16_unknown_resources_and_prompts_have_the_code_of_invalid_params() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&http_backend("web", &server.address, ""));
    let web = Web::new(&gateway);
    let rest = web.get("/api/resources/nobody%3A%2F%2Fhas-it");
    check_problem(&rest, 404, "unknown_resource");
    let rpc = web.rpc("rpc.readResource", &json!({"uri": "nobody://has-it"}));
    check_error(&rpc, 404, -32602, "unknown_resource");
    let rest = web.post("/api/prompts/nothing", &json!({}));
    check_problem(&rest, 404, "unknown_name");
    let rpc = web.rpc("rpc.getPrompt", &json!({"name": "nothing"}));
    check_error(&rpc, 404, -32602, "unknown_name");

    // The documents name the same code.
    let discovered = web.rpc("rpc.discover", &json!({})).json();
    let kinds = &discovered["result"]["components"]["errors"]["E32602"]["data"];
    let kinds = kinds.as_array().expect("kinds of this code");
    assert!(kinds.iter().any(|kind| kind["code"] == "unknown_resource"));
    let page = web.get_as("/problems/unknown_resource", "application/json");
    assert_eq!(page.json()["rpcCode"], -32602, "{page:?}");
}

/// One call over both surfaces that must be refused for the same reason.
#[track_caller]
fn refused(web: &Web, tool: &str, arguments: &Value, status: u16, number: i64, code: &str) {
    let rest = web.post(&format!("/api/{tool}"), arguments);
    check_problem(&rest, status, code);
    check_error(&web.rpc(tool, arguments), status, number, code);
}

#[test]
fn c_18_what_cannot_be_read_or_does_not_fit_is_told_by_its_place() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&http_backend("web", &server.address, ""));
    let web = Web::new(&gateway);
    let raw = |path: &str, body: &str| web.send("POST", path, &[JSON_BODY], body).finish();
    for body in ["{", "", "[1,2]", "\"x\"", "{\"text\":\"a\",\"text\":\"b\"}"] {
        let rest = raw("/api/echo", body);
        match body {
            // No body is no arguments.
            "" | "[1,2]" | "\"x\"" => drop(check_problem(&rest, 422, "invalid_arguments")),
            _ => drop(check_problem(&rest, 400, "parse_error")),
        }
    }
    check_error(&raw("/rpc", "{"), 400, -32700, "parse_error");
    let old = r#"{"jsonrpc":"1.0","id":1,"method":"echo","params":{}}"#;
    check_error(&raw("/rpc", old), 400, -32600, "invalid_request");
    let by_position = r#"{"jsonrpc":"2.0","id":1,"method":"echo","params":["x"]}"#;
    let positional = raw("/rpc", by_position);
    check_error(&positional, 400, -32602, "invalid_params");
    assert_eq!(positional.json()["id"], 1, "{positional:?}");

    let wrong = json!({"text": 7});
    let problem = check_problem(&web.post("/api/echo", &wrong), 422, "invalid_arguments");
    let issue = &problem["issues"][0];
    assert_eq!(
        (&issue["pointer"], &issue["keyword"]),
        (&json!("/text"), &json!("type")),
        "{problem}"
    );
    assert_eq!(
        problem["schema"]["properties"]["text"]["type"], "string",
        "{problem}"
    );
    let data = check_error(&web.rpc("echo", &wrong), 400, -32602, "invalid_arguments");
    assert_eq!(data["issues"], problem["issues"]);
    assert_eq!(data["schema"], problem["schema"]);
    let missing = check_problem(&web.post("/api/echo", &json!({})), 422, "invalid_arguments");
    assert_eq!(missing["issues"][0]["keyword"], "required", "{missing}");

    check_problem(&web.post("/api/nothing", &json!({})), 404, "unknown_name");
    check_error(
        &web.rpc("nothing", &json!({})),
        404,
        -32601,
        "method_not_found",
    );
}

#[test]
fn c_19_refusals_of_governance_have_their_statuses_and_headers() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&format!(
        "[auth]\n[admission]\nmax_concurrent = 1\nqueue_size = 0\n\
         [rate_limits]\ndefault_rpm = 0\n[rate_limits.per_tool]\nwhoami = 1\n\
         [kill_switch]\ndisabled_tools = [\"blob\"]\n\
         [rbac.roles.viewer]\npermissions = [\"tools.read\"]\n{}",
        http_backend("web", &server.address, "timeout = 30")
    ));
    let echo = json!({"text": "x"});
    let nobody = Web::new(&gateway);
    let problem = nobody.post("/api/echo", &echo);
    check_problem(&problem, 401, "unauthorized");
    assert!(problem.header("www-authenticate").starts_with("Bearer"));
    let error = nobody.rpc("echo", &echo);
    assert_eq!(
        (error.status, &error.json()["error"]["code"]),
        (401, &json!(-32001))
    );
    assert!(error.header("www-authenticate").starts_with("Bearer"));

    let viewer = Web::new(&gateway).bearing(&token(json!({"role": "viewer"})));
    refused(&viewer, "echo", &echo, 403, -32001, "forbidden");
    let admin = token(json!({"role": "admin"}));
    let web = Web::new(&gateway).bearing(&admin);
    refused(&web, "blob", &json!({"bytes": 1}), 503, -32000, "disabled");
    assert_eq!(web.post("/api/whoami", &json!({})).status, 200);
    refused(&web, "whoami", &json!({}), 429, -32000, "rate_limited");

    let waiting = web.send("POST", "/api/barrier", &[JSON_BODY], r#"{"name":"full"}"#);
    let other = Modern::at(&server.address, "/mcp", json!({}));
    until("the only place is taken", || {
        (other.said("waiting", json!({"name": "full"})) == "1").then_some(())
    });
    refused(&web, "echo", &echo, 503, -32001, "overloaded");
    let overload = web.post("/api/echo", &echo).json();
    assert_eq!(overload["detail"], "SERVER_OVERLOADED");
    assert_eq!(overload["max_concurrent"], 1, "{overload}");
    other.said("release", json!({"name": "full"}));
    assert_eq!(waiting.finish().status, 200);
}

#[test]
fn c_19_failures_of_backends_have_their_statuses() {
    let (server, gone) = (Server::start(&[]), Server::start(&[]));
    let gateway = Gateway::ready(&format!(
        "{}{}",
        http_backend(
            "web",
            &server.address,
            "timeout = 0.3\ncircuit_breaker = { threshold = 0 }"
        ),
        http_backend(
            "gone",
            &gone.address,
            "prefix = \"always\"\nretries = 0\ncircuit_breaker = { threshold = 2, recovery = 60 }"
        ),
    ));
    let web = Web::new(&gateway);
    refused(&web, "never", &json!({}), 504, -32603, "backend_timeout");
    let port = gone.port().to_string();
    drop(gone);
    let echo = json!({"text": "x"});
    let answer = web.post("/api/gone__echo", &echo);
    let problem = check_problem(&answer, 502, "backend_unavailable");
    check_error(
        &web.rpc("gone__echo", &echo),
        502,
        -32603,
        "backend_unavailable",
    );
    refused(&web, "gone__echo", &echo, 503, -32000, "circuit_open");

    // What the system said of the connection is for the log only, where the answer's id finds it.
    assert!(!problem.to_string().contains("refused") && !problem.to_string().contains(&port));
    let instance = problem["instance"].as_str().expect("an id");
    let id = instance.strip_prefix("urn:uuid:").expect("a UUID");
    let log = gateway.setup.log();
    let line = log.lines().find(|line| line.contains(id)).expect("a line");
    assert!(
        line.contains("backend_unavailable") && line.contains("refused"),
        "{line}"
    );

    let failed = json!({"text": "the tool's own words"});
    let problem = check_problem(&web.post("/api/fail", &failed), 422, "tool_error");
    assert_eq!(problem["detail"], "the tool's own words");
    assert_eq!(problem["content"][0]["text"], "the tool's own words");
    check_error(&web.rpc("fail", &failed), 422, -32000, "tool_error");
    let own = json!({"code": -32050, "message": "its own error"});
    refused(&web, "rpc_error", &own, 500, -32603, "backend_error");
    assert_eq!(
        web.post("/api/rpc_error", &own).json()["detail"],
        "its own error"
    );

    // An error that a backend calls internal is for the log, where the answer's id finds it.
    let internal = json!({"code": -32603, "message": "at /srv/secret.py:7"});
    refused(&web, "rpc_error", &internal, 500, -32603, "backend_error");
    let rest = web.post("/api/rpc_error", &internal).json();
    let rpc = web.rpc("rpc_error", &internal).json()["error"]["data"].clone();
    for members in [rest, rpc] {
        assert!(!members.to_string().contains("secret"), "{members}");
        let instance = members["instance"].as_str().expect("an id");
        let id = instance.strip_prefix("urn:uuid:").expect("a UUID");
        let log = gateway.setup.log();
        let line = log.lines().find(|line| line.contains(id)).expect("a line");
        assert!(line.contains("/srv/secret.py:7"), "{line}");
    }
}

#[test]
fn a_7_requests_that_http_itself_refuses() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&format!(
        "[limits]\nbody_mb = 1\n{}",
        http_backend("web", &server.address, "")
    ));
    let web = Web::new(&gateway);
    let allow = |verb: &str, path: &str| {
        let answer = web.send(verb, path, &[JSON_BODY], "{}").finish();
        check_problem(&answer, 405, "method_not_allowed");
        answer.header("allow").to_owned()
    };
    assert_eq!(allow("PUT", "/api/echo"), "POST, GET, HEAD");
    assert_eq!(
        allow("GET", "/api/count"),
        "POST",
        "a tool that may change something"
    );
    assert_eq!(allow("PUT", "/api/count"), "POST");
    for verb in ["DELETE", "POST"] {
        assert_eq!(allow(verb, "/api/catalog"), "GET, HEAD", "{verb} at a list");
    }
    for (path, verbs) in [
        ("/api/echo", "POST, GET, HEAD"),
        ("/api/count", "POST"),
        ("/api/resources", "GET, HEAD"),
        ("/api/no_such_tool", "POST, GET, HEAD"),
    ] {
        let options = web.send("OPTIONS", path, &[], "").finish();
        let told = (options.status, options.header("allow"));
        assert_eq!(told, (204, verbs), "{path}");
    }
    let wrong = web.send("PUT", "/rpc", &[JSON_BODY], "{}").finish();
    assert_eq!((wrong.status, wrong.header("allow")), (405, "POST"));

    let post = |headers: &[(&str, &str)], body: &str| {
        web.send("POST", "/api/echo", headers, body).finish()
    };
    let xml = [("Content-Type", "text/xml")];
    check_problem(&post(&xml, "<a/>"), 415, "unsupported_media_type");
    let picky = [
        JSON_BODY,
        ("Accept", "application/pdf;q=0, text/event-stream;q=0"),
    ];
    check_problem(&post(&picky, r#"{"text":"x"}"#), 406, "not_acceptable");
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(1 << 20));
    check_problem(&post(&[JSON_BODY], &large), 413, "too_large");
    let long = web
        .send("GET", &format!("/api/{}", "n".repeat(9000)), &[], "")
        .finish();
    check_problem(&long, 414, "uri_too_long");
    let long = web.get(&format!("/api/echo?text={}", "n".repeat(9000)));
    check_problem(&long, 414, "uri_too_long");
    check_problem(&web.get("/api/%ff"), 400, "invalid_parameter");
    check_problem(&web.get("/nowhere"), 404, "not_found");
    let beyond = [("Range", "bytes=99999-")];
    let beyond = web
        .send("GET", "/api/resources/test%3A%2F%2Fstatic", &beyond, "")
        .finish();
    check_problem(&beyond, 416, "range_not_satisfiable");
    assert!(
        beyond.header("content-range").starts_with("bytes */"),
        "{beyond:?}"
    );
    let head = web.send("HEAD", "/api/catalog", &[], "").finish();
    assert_eq!((head.status, &*head.text), (200, ""));
    assert_ne!(head.header("content-length"), "0");
}

#[test]
fn a_7_pages_of_other_sites_call_nothing_and_allowed_ones_read_the_headers() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&http_backend("web", &server.address, ""));
    let web = Web::new(&gateway);
    let get = |headers: &[(&str, &str)]| web.send("GET", "/api/echo?text=x", headers, "").finish();
    let embedded = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "no-cors"),
    ];
    check_problem(&get(&embedded), 403, "forbidden");
    check_problem(
        &get(&[("Origin", "https://evil.example")]),
        403,
        "forbidden",
    );
    let form = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Origin", "https://evil.example"),
    ];
    let posted = web.send("POST", "/api/count", &form, "key=csrf").finish();
    check_problem(&posted, 403, "forbidden");
    let executed = web.post("/api/executed", &json!({"key": "csrf"})).json();
    assert_eq!(executed["content"][0]["text"], "0");

    let local = [
        ("Origin", "http://localhost:3000"),
        ("Sec-Fetch-Site", "cross-site"),
    ];
    let read = get(&local);
    assert_eq!(
        (read.status, read.header("access-control-allow-origin")),
        (200, "http://localhost:3000")
    );
    let exposed = read.header("access-control-expose-headers");
    for name in ["Retry-After", "RateLimit", "ETag", "Location"] {
        assert!(exposed.contains(name), "{name} in {exposed}");
    }
    let asks = [
        ("Origin", "http://localhost:3000"),
        ("Access-Control-Request-Method", "POST"),
        (
            "Access-Control-Request-Headers",
            "content-type, idempotency-key",
        ),
    ];
    let preflight = web.send("OPTIONS", "/api/echo", &asks, "").finish();
    assert_eq!(preflight.status, 204);
    assert_eq!(
        preflight.header("access-control-allow-methods"),
        "POST, GET, HEAD"
    );
    assert_eq!(
        preflight.header("access-control-allow-headers"),
        "content-type, idempotency-key"
    );
    let direct = get(&[("Sec-Fetch-Site", "none")]);
    assert_eq!(direct.status, 200, "typed into the address bar");
}

#[test]
fn a_7_parameters_of_a_query_and_of_a_form_become_what_the_schema_asks_for() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&http_backend("web", &server.address, ""));
    let web = Web::new(&gateway);
    let blob = web.get("/api/blob?bytes=3").json();
    assert_eq!(
        blob["content"][0]["text"].as_str().map(str::len),
        Some(3),
        "{blob}"
    );
    let problem = check_problem(&web.get("/api/blob?bytes=three"), 400, "invalid_parameter");
    assert_eq!(problem["issues"][0]["pointer"], "/bytes", "{problem}");
    check_problem(&web.get("/api/blob"), 400, "invalid_arguments");
    check_problem(&web.get("/api/blob?bytes=-1"), 400, "invalid_arguments");
    check_problem(
        &web.get("/api/blob?bytes=1&bytes=2"),
        400,
        "invalid_parameter",
    );
    let text = web.get("/api/echo?text=7%20%26%20true");
    assert_eq!(
        text.json()["content"][0]["text"],
        "7 & true",
        "a text stays one"
    );
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let counted = web.send("POST", "/api/count", &form, "key=a+b").finish();
    assert_eq!(counted.json()["content"][0]["text"], "1", "{counted:?}");
    let executed = web.get("/api/executed?key=a%20b").json();
    assert_eq!(executed["content"][0]["text"], "1", "{executed}");

    // A GET has an entity tag, and its answer can be known already.
    let first = web.get("/api/echo?text=x");
    let tag = first.header("etag").to_owned();
    assert!(!tag.is_empty(), "{first:?}");
    let again = web
        .send("GET", "/api/echo?text=x", &[("If-None-Match", &tag)], "")
        .finish();
    assert_eq!((again.status, &*again.text), (304, ""));
    let part = [("Range", "bytes=0-3")];
    let part = web
        .send("GET", "/api/resources/test%3A%2F%2Fstatic", &part, "")
        .finish();
    assert_eq!((part.status, part.text.len()), (206, 4), "{part:?}");
    let tag = part.header("etag").to_owned();
    for (name, value, status) in [
        ("If-Range", &*tag, 206),
        ("If-Range", "\"other\"", 200),
        ("If-None-Match", &tag, 304),
    ] {
        let headers = [("Range", "bytes=0-3"), (name, value)];
        let answer = web
            .send("GET", "/api/resources/test%3A%2F%2Fstatic", &headers, "")
            .finish();
        assert_eq!(answer.status, status, "{name}: {value}");
    }
    // Bytes of a backend's choice are no page of the gateway's origin.
    assert_eq!(part.header("x-content-type-options"), "nosniff");
    assert!(
        part.header("content-security-policy")
            .starts_with("sandbox"),
        "{part:?}"
    );
    let image = web
        .send("HEAD", "/api/resources/test%3A%2F%2Fbinary", &[], "")
        .finish();
    assert_eq!(
        (image.status, image.header("content-type")),
        (200, "image/png")
    );
}
