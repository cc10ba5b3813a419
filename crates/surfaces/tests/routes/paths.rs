//! Requests at declared paths.

use sentinel_core::Identity;
use sentinel_surfaces::Limits;
use sentinel_surfaces::http::{Access, Mounts, Serving, SurfaceName};
use serde_json::json;

use crate::site::{Kept, Site};

#[tokio::test]
async fn a_get_takes_its_arguments_from_path_and_query() {
    let site = Site::of("admin");
    let answer = site.get("GET /orders/5?verbose=true").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let want = json!({ "tool": "get_order", "got": { "id": 5, "verbose": true } });
    assert_eq!(answer.json(), want);
    assert!(answer.header("etag").is_some());
    let known = format!("If-None-Match: {}", answer.header("etag").expect("a tag"));
    let again = site.send("GET /orders/5?verbose=true", &[&known], "").await;
    assert_eq!((again.status, &*again.body), (304, ""));
    let head = site.get("HEAD /orders/5?verbose=true").await;
    assert_eq!((head.status, &*head.body), (200, ""));
    let len = answer.body.len().to_string();
    assert_eq!(head.header("content-length"), Some(&*len));
    // The same value twice is no contradiction.
    assert_eq!(site.get("GET /orders/5?id=5").await.status, 200);
    for (line, status, code) in [
        ("GET /orders/5?id=6", 400, "invalid_parameter"),
        ("GET /orders/five", 400, "invalid_parameter"),
        ("GET /orders/5?colour=red", 400, "invalid_arguments"),
        ("GET /orders/5/items", 404, "not_found"),
        ("GET /orders/", 404, "not_found"),
    ] {
        let answer = site.get(line).await;
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (status, Some(code)),
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_body_and_the_path_are_the_arguments_together() {
    let site = Site::of("admin");
    for (line, body, got) in [
        (
            "POST /changes/5",
            r#"{"name":"x"}"#,
            json!({ "id": 5, "name": "x" }),
        ),
        (
            "POST /changes/5?name=x",
            r#"{"id":5}"#,
            json!({ "id": 5, "name": "x" }),
        ),
        (
            "DELETE /changes/5?name=x",
            "",
            json!({ "id": 5, "name": "x" }),
        ),
    ] {
        let answer = site.json(line, body).await;
        assert_eq!(answer.status, 200, "{line} {answer:?}");
        assert_eq!(answer.json()["got"], got, "{line}");
    }
    let form = ["Content-Type: application/x-www-form-urlencoded"];
    let answer = site.send("POST /changes/5", &form, "name=a+b").await;
    assert_eq!(answer.json()["got"], json!({ "id": 5, "name": "a b" }));
    for (body, status, code) in [
        (r#"{"id":6}"#, 400, "invalid_parameter"),
        (r#"{"name":1}"#, 422, "invalid_arguments"),
        (r#"{"name":"x","name":"y"}"#, 400, "parse_error"),
        ("[1]", 422, "invalid_arguments"),
        ("{", 400, "parse_error"),
    ] {
        let answer = site.json("POST /changes/5", body).await;
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (status, Some(code)),
            "{body}"
        );
    }
    let text = site
        .send("POST /changes/5", &["Content-Type: text/plain"], "x")
        .await;
    assert_eq!(text.status, 415);
    let html = ["Content-Type: application/json", "Accept: text/html"];
    assert_eq!(site.send("POST /changes/5", &html, "{}").await.status, 406);
}

#[tokio::test]
async fn other_verbs_of_a_path_are_told_and_head_and_options_are_there() {
    let site = Site::of("admin");
    let answer = site.get("DELETE /orders/5").await;
    assert_eq!(answer.status, 405);
    assert_eq!(answer.header("allow"), Some("GET, PATCH, PUT, HEAD"));
    let answer = site.get("OPTIONS /orders/5").await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("allow"), Some("GET, PATCH, PUT, HEAD"));
    let ask = [
        "Origin: http://localhost:3000",
        "Access-Control-Request-Method: PUT",
    ];
    let of = |line| site.send(line, &ask, "");
    let (known, unknown) = (of("OPTIONS /secret").await, of("OPTIONS /nowhere").await);
    let verbs = Some("GET, HEAD, POST, PUT, PATCH, DELETE");
    assert_eq!(known.header("access-control-allow-methods"), verbs);
    assert_eq!(unknown.header("access-control-allow-methods"), verbs);
    let page = site
        .send("GET /orders/5", &["Origin: http://localhost:3000"], "")
        .await;
    assert_eq!(
        page.header("access-control-allow-origin"),
        Some("http://localhost:3000")
    );
    let embedded = ["Sec-Fetch-Site: cross-site"];
    assert_eq!(site.send("GET /orders/5", &embedded, "").await.status, 403);
    let foreign = ["Origin: https://elsewhere.example"];
    assert_eq!(site.send("GET /orders/5", &foreign, "").await.status, 403);
}

#[tokio::test]
async fn a_request_taken_as_a_whole_is_answered_by_its_backend() {
    let site = Site::of("admin");
    let headers = [
        "Content-Type: text/csv",
        "Authorization: Bearer x",
        "Cookie: a=b",
        "X-User-Id: google|root",
        "X-Own: 1",
        "Idempotency-Key: k",
    ];
    let answer = site
        .send("PATCH /page/a%20b/echo?x=1&y", &headers, "a,b")
        .await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let seen = answer.json();
    assert_eq!(seen["method"], "PATCH");
    assert_eq!(seen["url"], "/page/a%20b/echo?x=1&y");
    assert_eq!(seen["body"], "a,b");
    let want = json!([
        "host: localhost",
        "content-type: text/csv",
        "x-own: 1",
        "idempotency-key: k"
    ]);
    assert_eq!(seen["headers"], want);
    assert_eq!(answer.header("x-execution-time-ms"), Some("3"));
    assert_eq!(answer.header("set-cookie"), None);
    let len = answer.body.len();
    assert_eq!(answer.header("content-length"), Some(&*len.to_string()));
    let kept = Kept {
        surface: "rest".to_owned(),
        operation: "page".to_owned(),
        outcome: "success".to_owned(),
        kind: String::new(),
        bytes_in: 3,
        bytes_out: len as u64,
    };
    assert_eq!(site.records(), [kept]);
}

#[tokio::test]
async fn what_a_backend_answers_is_its_own_and_what_it_cannot_is_a_problem() {
    let site = Site::of("admin");
    let gone = site.get("GET /page/gone").await;
    assert_eq!((gone.status, &*gone.body), (410, r#"{"status":410}"#));
    let kept = site.records();
    assert_eq!(
        (&*kept[0].outcome, &*kept[0].kind),
        ("error", "backend_error")
    );
    let html = site.get("GET /page/html").await;
    assert_eq!(html.header("content-type"), Some("text/html"));
    let policy = html.header("content-security-policy");
    assert!(policy.expect("a policy").starts_with("sandbox"));
    let head = site.get("HEAD /page/head").await;
    assert_eq!((head.status, &*head.body), (200, ""));
    assert_eq!(head.header("content-length"), Some("12"));
    for (line, code) in [
        ("GET /page/nothing", "backend_bad_reply"),
        ("GET /page/failed", "backend_unavailable"),
    ] {
        let answer = site.get(line).await;
        assert_eq!(answer.status, 502, "{line}");
        assert_eq!(answer.json()["code"], code, "{line}");
    }
    let limits = Limits {
        body_bytes_max: 10,
        ..Limits::default()
    };
    let access = Access::Trusted(Identity::local("admin"));
    let small = Site::with(access, Mounts::default(), limits);
    let answer = small.send("POST /page/echo", &[], "more than ten").await;
    assert_eq!(answer.status, 413);
}

/// A route whose tool the caller does not see is answered like a path at which there is nothing.
#[tokio::test]
async fn a_hidden_route_is_not_there() {
    let site = Site::of("admin");
    assert_eq!(site.get("GET /secret").await.status, 200);
    let site = Site::of("viewer");
    for verb in ["GET", "HEAD", "POST", "OPTIONS", "DELETE"] {
        let (hidden, missing) = (
            site.get(&format!("{verb} /secret")).await,
            site.get(&format!("{verb} /nowhere")).await,
        );
        let of = |answer: &crate::site::Answer| {
            let mut headers = answer.headers.clone();
            headers.remove("date");
            (answer.status, headers, answer.body.clone())
        };
        assert_eq!(of(&hidden), of(&missing), "{verb}");
        assert_eq!(hidden.status, 404);
    }
    let nobody = Site::of("nobody");
    assert_eq!(nobody.get("GET /orders/5").await.status, 404);
}

#[tokio::test]
async fn a_tool_that_is_reached_by_its_route_has_no_name() {
    let site = Site::of("admin");
    let answer = site.json("POST /api/change_order", r#"{"id":1}"#).await;
    assert_eq!(answer.status, 404);
    let answer = site.json("POST /api/nothing", "{}").await;
    assert_eq!(answer.json()["code"], "unknown_name");
    assert_eq!(site.json("POST /api/sum", "{}").await.status, 404);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"change_order","params":{"id":1}}"#;
    assert_eq!(site.json("POST /rpc", call).await.status, 404);
}

#[tokio::test]
async fn the_gateways_own_paths_come_first() {
    let site = Site::of("admin");
    // A row of the table: an operation of that name.
    assert_eq!(
        site.get("GET /api/page").await.json()["code"],
        "unknown_name"
    );
    let status = site.get("GET /admin/api/status").await.json();
    let shadowed = status["shadowed"].as_array().expect("a list");
    assert_eq!(shadowed.len(), 1, "{status}");
    let text = shadowed[0].as_str().expect("a text");
    assert!(text.contains("/api/{operation}") && text.contains("`hidden_by_table`"));
    // Where REST is elsewhere, the path is free.
    let mounts = Mounts {
        rest: Some("/tools".to_owned()),
        ..Mounts::default()
    };
    let access = Access::Trusted(Identity::local("admin"));
    let site = Site::with(access, mounts, Limits::default());
    let answer = site.get("GET /api/page").await;
    assert_eq!(answer.status, 400, "{answer:?}");
    let status = site.get("GET /admin/api/status").await.json();
    assert_eq!(status["shadowed"], json!([]));
}

#[tokio::test]
async fn listeners_serve_the_routes_that_fit() {
    let site = Site::of("admin");
    let surfaces = |name| Some(Serving::Surfaces(vec![name]));
    for (serving, path, status) in [
        (surfaces(SurfaceName::Rest), "/orders/5", 200),
        (surfaces(SurfaceName::Mcp), "/orders/5", 404),
        (Some(Serving::Backend("shop".to_owned())), "/orders/5", 200),
        (Some(Serving::Backend("other".to_owned())), "/orders/5", 404),
        (surfaces(SurfaceName::Rest), "/admin/api/status", 404),
    ] {
        let line = format!("GET {path}");
        let answer = site.send_to(serving.clone(), &line, &[], "").await;
        assert_eq!(answer.status, status, "{serving:?} {path}");
    }
    let mounts = Mounts {
        rest: None,
        ..Mounts::default()
    };
    let access = Access::Trusted(Identity::local("admin"));
    let off = Site::with(access, mounts, Limits::default());
    assert_eq!(off.get("GET /orders/5").await.status, 404);
}

#[tokio::test]
async fn a_route_is_made_once_by_its_key_and_answered_later_where_it_is_preferred() {
    let site = Site::of("admin");
    let once = ["Content-Type: application/json", "Idempotency-Key: \"k\""];
    let first = site.send("POST /changes/5", &once, r#"{"name":"x"}"#).await;
    let again = site.send("POST /changes/5", &once, r#"{"name":"x"}"#).await;
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let other = site.send("POST /changes/6", &once, r#"{"name":"x"}"#).await;
    assert_eq!(other.status, 422);
    let later = ["Content-Type: application/json", "Prefer: respond-async"];
    let held = site.hold().await;
    let begun = site.send("POST /changes/5", &later, "{}").await;
    drop(held);
    assert_eq!(begun.status, 202);
    let place = begun.header("location").expect("a place");
    assert!(place.starts_with("/api/tasks/"), "{place}");
    let done = site
        .send(&format!("GET {place}"), &["Prefer: wait=5"], "")
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(done.json()["got"], json!({ "id": 5 }));
    let one = Some(Serving::Backend("shop".to_owned()));
    let there = site.send_to(one, "POST /changes/5", &later, "{}").await;
    assert_eq!(there.status, 200, "tasks are not served there");
}

#[tokio::test]
async fn a_confirmation_is_for_one_request_as_a_whole() {
    let site = Site::of("viewer");
    let asked = site.send("POST /page/echo", &[], "a").await;
    assert_eq!(asked.status, 409);
    let token = asked.json()["confirmationToken"].clone();
    let token = format!("X-Confirmation-Token: {}", token.as_str().expect("text"));
    let other = site.send("POST /page/echo", &[&token], "b").await;
    assert_eq!(other.json()["code"], "confirmation_invalid");
    let asked = site.send("POST /page/echo", &[], "a").await;
    let token = asked.json()["confirmationToken"].clone();
    let token = format!("X-Confirmation-Token: {}", token.as_str().expect("text"));
    assert_eq!(
        site.send("POST /page/echo", &[&token], "a").await.status,
        201
    );
}

#[tokio::test]
async fn answers_tell_their_time_where_that_is_on() {
    let mounts = Mounts {
        tells_time: true,
        ..Mounts::default()
    };
    let access = Access::Trusted(Identity::local("admin"));
    let site = Site::with(access, mounts, Limits::default());
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"list"}"#;
    for answer in [
        site.get("GET /orders/5").await,
        site.json("POST /api/list", "{}").await,
        site.json("POST /rpc", call).await,
        site.send("POST /page/echo", &[], "x").await,
    ] {
        let told = answer.header("server-timing").expect("it is told");
        let names: Vec<&str> = told
            .split(", ")
            .filter_map(|stage| Some(stage.split_once(";dur=")?.0))
            .collect();
        assert_eq!(names, ["auth", "policy", "backend", "total"], "{told}");
    }
    let refused = site.get("GET /nowhere").await;
    let told = refused.header("server-timing").expect("it is told");
    assert!(!told.contains("policy") && told.contains("total"), "{told}");
    let plain = Site::of("admin").get("GET /orders/5").await;
    assert_eq!(plain.header("server-timing"), None);
}
