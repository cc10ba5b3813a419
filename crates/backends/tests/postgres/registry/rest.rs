//! REST handlers: every kind of answer, who calls, and which transaction it is.

use sentinel_core::Kind;
use serde_json::json;

use super::deployment::{ISSUER, MARKER, deployment, deployment_with, known, nobody, until};

#[tokio::test]
async fn answers_of_rest_handlers_are_the_databases_own() {
    let d = deployment().await;
    let said = d.rest("GET", "/orders/5?x=1", &[]).await;
    assert_eq!(said.status, 200);
    assert_eq!(
        said.json(),
        json!({"url": "/orders/5?x=1", "method": "GET"})
    );
    for name in [
        "x-route-id",
        "x-execution-time-ms",
        "x-pgmi-catalog-version",
        "vary",
    ] {
        assert!(said.header(name).is_some(), "{name}: {said:?}");
    }
    assert_eq!(
        said.header("content-type"),
        Some("application/json; charset=utf-8")
    );
    assert_eq!(said.header("content-length"), None, "HTTP frames it");
    let picture = d.rest("GET", "/picture", &[]).await;
    assert_eq!(&picture.body[..], b"\x00\xff\r\n");
    assert_eq!(picture.header("content-type"), Some("image/png"));
    let head = d.rest("HEAD", "/picture", &[]).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some("4"));
    let gone = d.rest("DELETE", "/orders/5", &[]).await;
    assert_eq!((gone.status, gone.body.len()), (204, 0));
    let moved = d.rest("GET", "/moved", &[]).await;
    assert_eq!(
        (moved.status, moved.header("location")),
        (302, Some("/orders/1"))
    );
    assert_eq!(moved.header("x-bad"), None, "a line break in a header");
    let refused = d.rest("PATCH", "/orders/5", &[]).await;
    assert_eq!(
        (refused.status, refused.header("allow")),
        (405, Some("DELETE, GET"))
    );
    let long = format!("/orders/5?x={}", "y".repeat(8200));
    for (verb, url, headers, status) in [
        ("GET", &*long, &[][..], 414),
        ("GET", "/picture", &[("accept", "text/plain")], 406),
        ("GET", "/picture", &[("accept", "image/*;q=0.5")], 200),
        ("POST", "/echo", &[("content-type", "text/plain")], 415),
        ("POST", "/taken", &[], 409),
        // Declared read-only, and writes.
        ("GET", "/writing", &[], 500),
        ("GET", "/broken", &[], 500),
    ] {
        let said = d.rest(verb, url, headers).await;
        assert_eq!(said.status, status, "{verb} {url}: {said:?}");
        said.assert_clean();
        if status >= 400 {
            assert_eq!(
                said.header("content-type"),
                Some("application/problem+json")
            );
            assert_eq!(said.json()["status"], status);
            assert_eq!(said.header("x-error-sqlstate"), None);
        }
    }
    assert_eq!(d.routed("GET", "/nothing", &[]), None);
    let named = d.mcp(
        nobody(),
        sentinel_wire::Method::ToolsCall,
        json!({"name": "rest/orders_get"}),
    );
    assert_eq!(
        named.await.unwrap_err().kind,
        Kind::UnknownName,
        "by its route only"
    );
}

#[tokio::test]
async fn the_gateway_alone_says_who_calls_a_rest_handler() {
    // One connection, so that whatever stayed of one caller would meet the next.
    let d = deployment_with("", |settings| settings.max_connections = 1).await;
    let spoofed = [
        ("x-user-id", "https://idp.example|alice"),
        ("x-user-email", "alice@example.com"),
        ("x-tenant-id", "acme"),
        ("authorization", "Bearer stolen"),
    ];
    let nobodys = json!({"user": "", "email": "", "tenant": "", "token": "",
        "isolation": "read committed", "read_only": "off", "deferrable": "off"});
    for headers in [&[][..], &spoofed] {
        let said = d.rest("GET", "/whoami", headers).await;
        assert_eq!(said.status, 401, "{said:?}");
        assert_eq!(said.json()["title"], "Unauthorized");
        assert_eq!(said.header("www-authenticate"), Some("X-User-Id"));
        assert_eq!(said.header("cache-control"), Some("private, no-store"));
        assert_eq!(d.rest("GET", "/anyone", headers).await.json(), nobodys);
    }
    let theirs = [
        ("x-user-id", "https://idp.example|root"),
        ("x-tenant-id", "other"),
    ];
    for (subject, tenant) in [("alice", "acme"), ("bob", "bolt")] {
        let caller = known(subject, tenant);
        let digest = caller.account.as_ref().unwrap().credential.digest();
        let said = d.get_as(caller, "/whoami", &theirs).await;
        assert_eq!(said.status, 200, "{said:?}");
        let who = said.json();
        assert_eq!(who["user"], format!("{ISSUER}|{subject}"));
        assert_eq!(who["email"], format!("{subject}@example.com"));
        assert_eq!(
            (&who["tenant"], &who["token"]),
            (&tenant.into(), &digest.into())
        );
        assert_eq!(d.rest("GET", "/anyone", &spoofed).await.json(), nobodys);
    }
    d.cluster
        .ask("UPDATE membership.user_identity SET is_active = false WHERE subject = 'bob'");
    assert_eq!(
        d.get_as(known("bob", "bolt"), "/whoami", &[]).await.status,
        401
    );
}

#[tokio::test]
async fn what_a_request_says_stays_data() {
    let d = deployment().await;
    let nasty = r#"'; DROP TABLE api.handler; -- " => \ {a,b} NULL $1 ü"#;
    let url = "/echo?q=';%20DROP%20SCHEMA%20api%20CASCADE;--&a=%00";
    let headers = [
        ("content-type", "application/json"),
        ("x-nasty", nasty),
        ("x\"=>\"y", nasty),
    ];
    let said = d
        .try_rest(nobody(), "POST", url, &headers, nasty.as_bytes())
        .await
        .unwrap();
    assert_eq!(said.status, 201, "{said:?}");
    let echoed = said.json();
    assert_eq!(echoed["headers"]["x-nasty"], nasty);
    assert_eq!(echoed["headers"]["x\"=>\"y"], nasty);
    assert_eq!(echoed["url"], url);
    assert!(echoed["body"].as_str().unwrap().contains("DROP TABLE"));
    assert_ne!(d.cluster.ask("SELECT count(*) FROM api.handler"), "0");
    // A path of another spelling is the same route to both, or none.
    assert_eq!(
        d.routed("GET", "/picture/../%70icture", &[]),
        Some("rest/picture".into())
    );
    assert_eq!(d.routed("GET", "/PICTURE", &[]), None);
}

#[tokio::test]
async fn the_transaction_is_as_the_handler_needs_it_and_its_caller_may_ask_for_more() {
    let d = deployment().await;
    const HEADER: &str = "x-pgmi-transaction-isolation";
    for (url, asked, isolation, read_only, deferrable) in [
        ("/anyone", None, "read committed", "off", "off"),
        (
            "/anyone",
            Some("Repeatable-Read"),
            "repeatable read",
            "off",
            "off",
        ),
        (
            "/anyone",
            Some("serializable"),
            "serializable",
            "off",
            "off",
        ),
        ("/report", None, "serializable", "on", "on"),
        (
            "/report",
            Some("read committed"),
            "serializable",
            "on",
            "on",
        ),
    ] {
        let headers: Vec<_> = asked.map(|asked| (HEADER, asked)).into_iter().collect();
        let who = d.rest("GET", url, &headers).await.json();
        let mode = [&who["isolation"], &who["read_only"], &who["deferrable"]];
        assert_eq!(mode, [isolation, read_only, deferrable], "{url} {asked:?}");
    }
    let said = d.rest("GET", "/anyone", &[(HEADER, "chaos")]).await;
    assert_eq!(said.status, 400);
    assert_eq!(
        said.json()["code"],
        "pgmi.transaction_isolation_unsupported"
    );
    let old = d
        .rest("GET", "/versions", &[("accept-version", "1.0")])
        .await;
    let new = d
        .rest(
            "GET",
            "/versions",
            &[("x-api-version", "2.1"), ("accept-version", "1")],
        )
        .await;
    assert_eq!((old.json(), new.json()), (json!("any"), json!("2")));
}

#[tokio::test]
async fn transactions_that_lose_are_tried_again_and_then_said_to_be_lost() {
    let d = deployment().await;
    let (one, other) = tokio::join!(d.rest("POST", "/bump", &[]), d.rest("POST", "/bump", &[]));
    let mut counts = [one.json(), other.json()].map(|n| n.as_u64().unwrap());
    counts.sort_unstable();
    assert_eq!(counts, [1, 2], "both took effect: {one:?} {other:?}");
    let said = d.rest("POST", "/lost", &[]).await;
    assert_eq!((said.status, said.header("retry-after")), (409, Some("1")));
    let problem = said.json();
    assert_eq!(problem["code"], "pgmi.transaction_retryable");
    assert_eq!(
        (&problem["sqlstate"], &problem["attempts"]),
        (&"40001".into(), &3.into())
    );
    said.assert_clean();
}

#[tokio::test]
async fn what_changed_since_the_registry_was_read_is_noticed() {
    let d = deployment().await;
    assert_eq!(d.rest("GET", "/anyone", &[]).await.status, 200);
    d.cluster.ask(
        "UPDATE api.handler SET read_only = true, min_transaction_isolation = 'repeatable read' \
         WHERE handler_function_name = 'anyone'",
    );
    let said = d.rest("GET", "/anyone", &[]).await;
    assert_eq!(said.status, 428, "the database's answer, as it is");
    assert_eq!(said.json()["code"], "pgmi.transaction_isolation_too_weak");
    until("the handler is read again", async || {
        d.rest("GET", "/anyone", &[]).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn no_other_handler_runs_than_the_one_that_was_decided_on() {
    let d = deployment().await;
    assert_eq!(
        d.routed("GET", "/peculiar", &[]),
        Some("rest/peculiar".into())
    );
    let refused = d.try_rest(nobody(), "GET", "/peculiar", &[], b"").await;
    assert_eq!(refused.unwrap_err().kind, Kind::BackendUnavailable);
    let steps = "SELECT n FROM internal.counter WHERE name = 'steps'";
    assert_eq!(d.cluster.ask(steps), "0", "it was rolled back");
    let notices = d.backend.status().notices;
    assert!(
        notices.iter().any(|notice| notice.contains("(?")),
        "{notices:?}"
    );
}

#[tokio::test]
async fn deployments_that_tell_errors_are_silenced() {
    let tells = "ALTER ROLE registry_customer SET registry.tells_errors = 'on'";
    let d = deployment_with(tells, |_| {}).await;
    let direct = "SET ROLE registry_customer; SET registry.tells_errors = 'on'; \
        SELECT convert_from((api.rest_invoke('GET', '/broken', '', NULL::bytea)).content, 'UTF8')";
    assert!(
        d.cluster.ask(direct).contains(MARKER),
        "the deployment tells it"
    );
    let said = d.rest("GET", "/broken", &[]).await;
    said.assert_clean();
    assert!(said.json()["reference"].is_string());
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"orders.broken"}"#;
    let said = d.rpc(nobody(), "orders.broken", body).await;
    said.assert_clean();
    assert_eq!(said.json()["error"]["code"], -32603);
    let params = json!({"name": "broken", "arguments": {}});
    let said = d
        .mcp(nobody(), sentinel_wire::Method::ToolsCall, params)
        .await
        .unwrap();
    let error = said.unwrap_err();
    assert_eq!(error["message"], "Internal error");
    assert!(!error.to_string().contains(MARKER));
}
