use bytes::BytesMut;
use sentinel_wire::http1::Head;

use super::*;
use crate::openapi::client::Place;

fn operation(output: Output) -> Operation {
    let parameter = |name: &str, is_bare| crate::openapi::operation::Parameter {
        argument: name.to_owned(),
        name: name.to_owned(),
        place: crate::openapi::operation::In::Query,
        style: crate::openapi::style::Style::Form,
        explode: true,
        allow_reserved: false,
        is_json: false,
        is_bare,
    };
    let credential = crate::openapi::auth::Credential::Query("key".to_owned(), "s3cret".to_owned());
    Operation {
        method: http::Method::GET,
        base: Place::of("https://api.example/").expect("a URL"),
        path: "/x".to_owned(),
        parameters: vec![parameter("page", true), parameter("cursor", false)],
        body: None,
        accept: "*/*".to_owned(),
        credentials: vec![credential],
        output,
    }
}

/// The result for an answer with this head and body.
fn result(output: Output, head: &str, body: &[u8]) -> Value {
    let head = format!("HTTP/1.1 {}\r\n\r\n", head.replace('\n', "\r\n"));
    let (head, _) = Head::take(&mut BytesMut::from(head.as_bytes()), 10_000)
        .expect("a head")
        .expect("whole");
    let response = Response {
        head,
        body: body.to_vec().into(),
        is_cut: false,
        place: Place::of("https://api.example/x?key=s3cret").expect("a URL"),
    };
    let arguments = Payload::parse(r#"{"page":1}"#.into(), Rules::backend()).expect("JSON");
    let reply = reply(&operation(output), &arguments, &response);
    let Outcome::Result(result) = reply.outcome else {
        panic!("a result")
    };
    serde_json::from_slice(result.as_bytes()).expect("JSON")
}

const JSON: &str = "200 OK\ncontent-type: application/json; charset=utf-8";

#[test]
fn o_7_json_is_structured_by_the_output_schema() {
    for (output, body, structured) in [
        (Output::Object, r#"{"a":1.10}"#, json!({"a": 1.10})),
        (Output::Free, r#"{"a":1}"#, json!({"a": 1})),
        (Output::Free, "[1]", json!({"result": [1]})),
        (Output::Wrapped, "[1]", json!({"result": [1]})),
        (Output::Wrapped, r#"{"a":1}"#, json!({"result": {"a": 1}})),
    ] {
        let result = result(output, JSON, body.as_bytes());
        assert_eq!(result["structuredContent"], structured, "{output:?} {body}");
        assert_eq!(result["content"][0]["text"], body);
        assert_eq!(result["isError"], false);
        assert_eq!(result["_meta"][META]["status"], 200);
    }
    // What its tool promises does not come.
    for (output, head, body) in [
        (Output::Object, JSON, "[1]"),
        (Output::Object, JSON, "no json"),
        (Output::Wrapped, "204 No Content", ""),
    ] {
        let result = result(output, head, body.as_bytes());
        assert_eq!(result["isError"], true, "{result}");
        assert!(result["structuredContent"].is_null());
        assert!(
            result["content"][0]["text"]
                .as_str()
                .expect("text")
                .contains("was carried out")
        );
    }
}

#[test]
fn o_7_other_content_keeps_its_kind() {
    let of = |kind: &str, body: &[u8]| {
        result(Output::Free, &format!("200 OK\ncontent-type: {kind}"), body)["content"][0].clone()
    };
    assert_eq!(
        of("text/plain", b"hi"),
        json!({"type": "text", "text": "hi"})
    );
    assert_eq!(
        of("application/xml", b"<a/>"),
        json!({"type": "text", "text": "<a/>"})
    );
    assert_eq!(
        of("image/png", b"\x89"),
        json!({"type": "image", "data": "iQ==", "mimeType": "image/png"})
    );
    assert_eq!(
        of("audio/wav; x=1", b"R"),
        json!({"type": "audio", "data": "Ug==", "mimeType": "audio/wav"})
    );
    assert_eq!(
        of("application/pdf", b"%"),
        json!({"type": "resource", "resource": {"uri": "https://api.example/x", "mimeType": "application/pdf", "blob": "JQ=="}})
    );
    assert_eq!(of("text/plain", b"\xff")["type"], "resource");
    let empty = result(Output::Free, "204 No Content", b"");
    assert_eq!(empty["content"][0]["text"], "HTTP 204: no content");
}

#[test]
fn o_7_errors_are_results_with_status_and_body() {
    let head = "503 Service Unavailable\ncontent-type: application/problem+json\nretry-after: 7";
    let body = br#"{"type":"about:blank","status":503}"#;
    let free = result(Output::Free, head, body);
    assert_eq!(free["isError"], true);
    assert_eq!(
        free["content"][0]["text"],
        "HTTP 503 Service Unavailable: try again after 7 seconds"
    );
    assert_eq!(free["_meta"][META]["retryAfterMs"], 7000);
    assert_eq!(free["_meta"][META]["problem"]["status"], 503);
    assert_eq!(free["structuredContent"]["status"], 503);
    let promised = result(Output::Object, head, body);
    assert!(promised["structuredContent"].is_null());
    assert_eq!(promised["_meta"][META]["problem"]["status"], 503);
    let html = result(
        Output::Object,
        "404 Not Found\ncontent-type: text/html",
        b"<p>no",
    );
    assert_eq!(html["content"][1]["text"], "<p>no");
    let moved = result(
        Output::Free,
        "307 Temporary Redirect\nlocation: https://other/",
        b"",
    );
    assert!(
        moved["content"][0]["text"]
            .as_str()
            .expect("text")
            .contains("https://other/")
    );
}

#[test]
fn o_7_the_next_page_is_told_as_arguments() {
    let link = "200 OK\ncontent-type: application/json\nlink: </x?page=2&key=s3cret>; rel=\"next\"";
    let linked = result(Output::Free, link, b"[]");
    let told = &linked["_meta"][META]["next"];
    assert_eq!(
        *told,
        json!({"url": "https://api.example/x?page=2", "arguments": {"page": 2}})
    );
    assert!(
        linked["content"][1]["text"]
            .as_str()
            .expect("text")
            .contains(r#"{"page":2}"#)
    );
    for (body, arguments) in [
        (r#"{"meta":{"next_cursor":"c="}}"#, json!({"cursor": "c="})),
        (r#"{"nextCursor":"c"}"#, json!({"cursor": "c"})),
        (r#"{"next_page":3}"#, json!({"page": 3})),
        (
            r#"{"links":{"next":"/x?cursor=d%3D&other=1"}}"#,
            json!({"cursor": "d="}),
        ),
        (
            r#"{"_links":{"next":{"href":"?page=9"}}}"#,
            json!({"page": 9}),
        ),
    ] {
        let result = result(Output::Free, JSON, body.as_bytes());
        assert_eq!(
            result["_meta"][META]["next"]["arguments"], arguments,
            "{body}"
        );
    }
    for body in [
        r#"{"next_cursor":null}"#,
        r#"{"cursor":"same"}"#,
        r#"{"next":"soon"}"#,
        "[]",
    ] {
        let result = result(Output::Free, JSON, body.as_bytes());
        assert!(result["_meta"][META]["next"].is_null(), "{body}");
    }
}
