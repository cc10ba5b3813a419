use serde_json::{Value, json};

use super::*;
use crate::openapi::client::Place;
use crate::openapi::document::Document;
use crate::openapi::operation::Source;
use crate::openapi::schema::Converter;

/// The request of one operation with these arguments.
fn build(path: &str, operation: Value, arguments: Value) -> Result<Outgoing, Unsendable> {
    let document = Document::new(json!({ "openapi": "3.1.0" })).expect("a description");
    let source = Source {
        document: &document,
        item: &Value::Null,
        operation: &operation,
        method: http::Method::POST,
        path,
    };
    let mut base = Place::of("https://api.example/v1").expect("a URL");
    base.target = "/v1".to_owned();
    let described = source
        .describe(&Converter::new(&document), base, true)
        .expect("an operation");
    let arguments = Payload::parse(
        arguments.to_string().into(),
        sentinel_wire::json::Rules::backend(),
    );
    super::build(&described.operation, &arguments.expect("JSON"), &[], true)
}

fn parameter(name: &str, place: &str, more: Value) -> Value {
    let mut out = json!({ "name": name, "in": place, "schema": {} });
    for (name, value) in more.as_object().into_iter().flatten() {
        out[name] = value.clone();
    }
    out
}

#[track_caller]
fn target(path: &str, parameters: Value, arguments: Value) -> String {
    let built = build(path, json!({ "parameters": parameters }), arguments);
    built.expect("a request").place.target
}

#[test]
fn o_2_parameters_go_to_their_places() {
    let parameters = json!([
        parameter("id", "path", json!({})),
        parameter("q", "query", json!({})),
        parameter("filter[name]", "query", json!({"style": "deepObject"})),
        parameter("raw", "query", json!({"allowReserved": true})),
        {"name": "json", "in": "query", "content": {"application/json": {"schema": {}}}},
        parameter("X-Trace", "header", json!({})),
        parameter("Authorization", "header", json!({})),
        parameter("sid", "cookie", json!({})),
        parameter("id", "query", json!({})),
    ]);
    let arguments = json!({
        "id": 7, "q": ["a b", "ü"], "filter_name": {"x": 1}, "raw": "/a?b", "json": {"k": [1]},
        "X-Trace": "t, 1", "sid": "a;b", "id_query": "second", "Authorization": "Bearer stolen",
    });
    let built =
        build("/pets/{id}", json!({ "parameters": parameters }), arguments).expect("a request");
    assert_eq!(
        built.place.url(),
        "https://api.example/v1/pets/7?q=a%20b&q=%C3%BC&filter%5Bname%5D%5Bx%5D=1&raw=/a?b&json=%7B%22k%22%3A%5B1%5D%7D&id=second"
    );
    let fields = String::from_utf8(built.fields).expect("text");
    assert_eq!(fields, "x-trace: t, 1\r\ncookie: sid=a%3Bb\r\n");
}

#[test]
fn o_9_no_value_leaves_its_segment() {
    let id = json!([parameter("id", "path", json!({}))]);
    for (value, expected) in [
        ("a/b", "/v1/pets/a%2Fb/toys"),
        ("a?b#c", "/v1/pets/a%3Fb%23c/toys"),
        ("%2e%2e", "/v1/pets/%252e%252e/toys"),
        ("...", "/v1/pets/.../toys"),
        ("@evil.example", "/v1/pets/%40evil.example/toys"),
        ("\r\nHost: evil", "/v1/pets/%0D%0AHost%3A%20evil/toys"),
    ] {
        assert_eq!(
            target("/pets/{id}/toys", id.clone(), json!({ "id": value })),
            expected
        );
    }
    for value in ["..", ".", "", "../x", "a/../b", "..\\x", "a/.."] {
        let built = build(
            "/pets/{id}/toys",
            json!({ "parameters": id }),
            json!({ "id": value }),
        );
        assert!(built.is_err(), "{value}");
    }
    // Two values that are harmless alone.
    let both = json!([
        parameter("a", "path", json!({})),
        parameter("b", "path", json!({}))
    ]);
    assert!(
        build(
            "/x/{a}{b}/y",
            json!({ "parameters": both }),
            json!({"a": ".", "b": "."})
        )
        .is_err()
    );
    let reserved = json!([parameter("id", "path", json!({"allowReserved": true}))]);
    assert_eq!(
        target("/pets/{id}", reserved, json!({"id": "a/b"})),
        "/v1/pets/a%2Fb"
    );
    assert_eq!(target("/a b/{id}", id, json!({"id": 1})), "/v1/a%20b/1");
}

#[test]
fn o_9_no_value_ends_a_header() {
    let header = json!({ "parameters": [parameter("X-Note", "header", json!({}))] });
    for value in ["a\r\nX-Admin: 1", "a\nb", "a\u{0}b", "ü", "a\tb"] {
        let built = build("/x", header.clone(), json!({ "X-Note": value }));
        assert!(built.is_err(), "{value:?}");
    }
    let long = build(
        "/x",
        json!({"parameters": [parameter("q", "query", json!({}))]}),
        json!({"q": "x".repeat(70_000)}),
    );
    assert!(long.is_err());
}

#[test]
fn o_5_a_credential_takes_the_place_of_what_the_caller_sends_under_its_name() {
    let mut pairs = ["api_key=mine", "q=1", "api_key=again", "api_keys=2"]
        .map(str::to_owned)
        .to_vec();
    replace(&mut pairs, "api_key", "configured");
    assert_eq!(pairs, ["q=1", "api_keys=2", "api_key=configured"]);
    let raw = json!([parameter("raw", "query", json!({"allowReserved": true}))]);
    let target = target("/x", raw, json!({"raw": "1&api_key=mine"}));
    assert_eq!(target, "/v1/x?raw=1%26api_key=mine");
}
