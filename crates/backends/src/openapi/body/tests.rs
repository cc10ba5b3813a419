use serde_json::{Value, json};

use super::*;

fn body(form: Form, media_type: &str) -> Body {
    Body {
        argument: "body".to_owned(),
        media_type: media_type.to_owned(),
        form,
    }
}

fn field(name: &str) -> Field {
    Field {
        name: name.to_owned(),
        content_type: None,
        style: None,
        is_file: false,
    }
}

fn text(body: &Body, value: &Value) -> (String, String) {
    let (kind, bytes) = encode(body, value.to_string().as_bytes()).expect("a body");
    (kind, String::from_utf8(bytes.to_vec()).expect("text"))
}

#[test]
fn o_6_json_is_sent_as_it_came() {
    let raw = br#"{ "n": 1.10, "big": 12345678901234567890 }"#;
    let (kind, bytes) = encode(&body(Form::Json, "application/vnd.a+json"), raw).expect("a body");
    assert_eq!(
        (kind.as_str(), &bytes[..]),
        ("application/vnd.a+json", &raw[..])
    );
    let plain = body(Form::Text, "text/plain");
    assert_eq!(
        text(&plain, &json!("a\nb")),
        ("text/plain".to_owned(), "a\nb".to_owned())
    );
}

#[test]
fn o_6_forms_are_encoded_as_the_description_says() {
    let kind = "application/x-www-form-urlencoded";
    let styled = |style, explode| Field {
        style: Some((style, explode, false)),
        ..field("f")
    };
    for (own, value, expected) in [
        (
            field("f"),
            json!({"a b": "c d&e=f~", "n": 1.5, "yes": true}),
            "a+b=c+d%26e%3Df%7E&n=1.5&yes=true",
        ),
        (field("f"), json!({"f": [1, "x"]}), "f=1&f=x"),
        (field("f"), json!({"f": {"a": 1}}), "f=%7B%22a%22%3A1%7D"),
        (field("f"), json!({"f": null}), ""),
        (styled(Style::Form, false), json!({"f": [1, 2]}), "f=1,2"),
        (styled(Style::Form, true), json!({"f": {"a": 1}}), "a=1"),
        (
            styled(Style::SpaceDelimited, false),
            json!({"f": [1, 2]}),
            "f=1%202",
        ),
        (
            styled(Style::DeepObject, true),
            json!({"f": {"a": 1}}),
            "f%5Ba%5D=1",
        ),
    ] {
        let body = body(Form::Urlencoded(vec![own]), kind);
        assert_eq!(
            text(&body, &value),
            (kind.to_owned(), expected.to_owned()),
            "{value}"
        );
    }
}

#[test]
fn o_6_multipart_has_a_part_for_each_value_and_file() {
    let file = Field {
        is_file: true,
        content_type: Some("image/png".to_owned()),
        ..field("file")
    };
    let body = body(
        Form::Multipart(vec![file, field("note")]),
        "multipart/form-data",
    );
    let value = json!({
        "note": "hello", "tags": ["a", "b"], "meta": {"k": 1}, "none": null,
        "file": {"data": "aGk=", "filename": "a\"b\r\n.png"},
    });
    let (kind, sent) = text(&body, &value);
    let boundary = kind.split_once("boundary=").expect("a boundary").1;
    let parts: Vec<&str> = sent.split(&format!("--{boundary}")).collect();
    assert_eq!(
        parts[1..],
        [
            "\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n",
            "\r\nContent-Disposition: form-data; name=\"tags\"\r\n\r\na\r\n",
            "\r\nContent-Disposition: form-data; name=\"tags\"\r\n\r\nb\r\n",
            "\r\nContent-Disposition: form-data; name=\"meta\"\r\nContent-Type: application/json\r\n\r\n{\"k\":1}\r\n",
            "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a%22b%0D%0A.png\"\r\nContent-Type: image/png\r\n\r\nhi\r\n",
            "--\r\n",
        ]
    );
}

#[test]
fn o_6_files_are_base64_or_text() {
    let bytes = body(Form::Bytes, "application/octet-stream");
    for (value, kind, sent) in [
        (
            json!({"data": "/+8"}),
            "application/octet-stream",
            &b"\xff\xef"[..],
        ),
        (json!({"data": "aG\nk="}), "application/octet-stream", b"hi"),
        (
            json!({"text": "hi", "content_type": "text/csv"}),
            "text/csv",
            b"hi",
        ),
        (json!("aGk="), "application/octet-stream", b"hi"),
    ] {
        let (found, body) = encode(&bytes, value.to_string().as_bytes()).expect("a body");
        assert_eq!((found.as_str(), &body[..]), (kind, sent), "{value}");
    }
    for wrong in [
        json!({}),
        json!({"data": "a", "text": "b"}),
        json!({"data": "%%%"}),
        json!({"text": "a", "content_type": "a\r\nX: y/z"}),
        json!(7),
    ] {
        assert!(
            encode(&bytes, wrong.to_string().as_bytes()).is_err(),
            "{wrong}"
        );
    }
}
