use super::*;

fn map(rows: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in rows {
        map.append(*name, HeaderValue::from_static(value));
    }
    map
}

#[test]
fn credentials_identities_and_the_connection_stay_here() {
    let sent = map(&[
        ("host", "h"),
        ("authorization", "Bearer x"),
        ("cookie", "a=b"),
        ("connection", "close, X-Hop"),
        ("x-hop", "1"),
        ("x-user-id", "google|root"),
        ("x-user-email", "root@example.com"),
        ("x-tenant-id", "t"),
        ("transfer-encoding", "chunked"),
        ("accept", "text/plain"),
        ("accept", "*/*"),
        ("x-own", "1"),
    ]);
    let passed = passed_on(&sent).expect("text");
    let mut passed: Vec<String> = passed.iter().map(|(n, v)| format!("{n}: {v}")).collect();
    passed.sort();
    assert_eq!(
        passed,
        ["accept: */*", "accept: text/plain", "host: h", "x-own: 1"]
    );
    let mut binary = HeaderMap::new();
    let value = HeaderValue::from_bytes(b"\xff").expect("a value");
    binary.insert("x-own", value);
    assert_eq!(
        passed_on(&binary).expect_err("no text").kind,
        Kind::InvalidRequest
    );
}

fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> WholeAnswer {
    WholeAnswer {
        status: StatusCode::from_u16(status).expect("a status"),
        headers: map(headers),
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

fn headers_of(response: &Response<Body>) -> Vec<String> {
    let headers = response.headers().iter();
    let mut all: Vec<String> = headers
        .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
        .collect();
    all.sort();
    all
}

#[test]
fn an_answer_keeps_its_headers_but_those_of_the_gateway() {
    let given = answer(
        201,
        &[
            ("content-type", "application/json"),
            ("content-length", "99"),
            ("location", "/orders/5"),
            ("link", "a"),
            ("link", "b"),
            ("set-cookie", "a=b"),
            ("access-control-allow-origin", "*"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
        ],
        "{}",
    );
    let response = respond(&given, false);
    assert_eq!(response.status(), 201);
    assert_eq!(
        headers_of(&response),
        [
            "content-type: application/json",
            "link: a",
            "link: b",
            "location: /orders/5",
            "x-content-type-options: nosniff",
        ]
    );
    assert_eq!(response.body().ready().expect("whole"), "{}");
}

#[test]
fn a_head_says_how_long_a_get_would_be_and_has_no_body() {
    for (headers, body, len) in [
        (&[("content-length", "12")][..], "", Some("12")),
        (&[("content-length", "12")], "body", Some("4")),
        (&[("content-length", "twelve")], "", None),
        (&[], "", None),
    ] {
        let response = respond(&answer(200, headers, body), true);
        let said = response.headers().get(CONTENT_LENGTH);
        assert_eq!(said.map(|len| len.to_str().expect("text")), len);
        assert!(response.body().ready().expect("whole").is_empty());
    }
    let none = respond(&answer(204, &[("content-length", "3")], "abc"), false);
    assert!(none.headers().is_empty() && none.body().ready().expect("whole").is_empty());
}

#[test]
fn a_page_runs_nothing_unless_its_backend_says_what() {
    let html = ("content-type", "text/html; charset=utf-8");
    let of = |headers: &[(&'static str, &'static str)]| {
        let response = respond(&answer(200, headers, "x"), false);
        let policy = response.headers().get(CONTENT_SECURITY_POLICY).cloned();
        policy.map(|policy| policy.to_str().expect("text").to_owned())
    };
    assert_eq!(of(&[html]).as_deref(), INERT.to_str().ok());
    let own = ("content-security-policy", "default-src 'self'");
    assert_eq!(of(&[html, own]).as_deref(), Some("default-src 'self'"));
    assert_eq!(of(&[("content-type", "application/problem+json")]), None);
}

#[test]
fn what_is_no_answer_is_told_apart() {
    let call = || HttpCall::new("GET", "/", Vec::new(), Bytes::new());
    let give = |status, headers: &[(&str, &str)]| {
        let call = call();
        let headers = headers
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        call.answer(sentinel_core::HttpAnswer {
            status,
            headers: headers.collect(),
            body: Bytes::new(),
        });
        read_answer(&call).map(|answer| answer.status.as_u16())
    };
    assert!(read_answer(&call()).is_err());
    assert_eq!(give(299, &[]), Ok(299));
    assert!(give(101, &[]).is_err() && give(600, &[]).is_err() && give(0, &[]).is_err());
    assert!(give(200, &[("x", "a\r\nset-cookie: b")]).is_err());
    assert!(give(200, &[("a b", "x")]).is_err());
}

#[test]
fn the_record_shows_what_was_asked_and_a_digest_of_the_body() {
    let shown = |path, query, body: &str| {
        let shown = shown("POST", path, query, body.as_bytes());
        String::from_utf8(shown).expect("text")
    };
    assert_eq!(
        shown("/a%20b", Some("token=x&n=1&n=2"), ""),
        r#"{"method":"POST","path":"/a b","query":{"token":["x"],"n":["1","2"]}}"#
    );
    let one = shown("/a", None, "1");
    assert!(one.contains(r#""sha256":"6b86b273ff34fce1"#), "{one}");
    assert_ne!(one, shown("/a", None, "2"));
}
