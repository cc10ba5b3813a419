use serde_json::{Value, json};

use super::super::statement::Column;
use super::*;

fn answer(returns: Returns, is_set: bool, class: Class, mime: Option<&str>) -> Answer {
    Answer {
        returns,
        is_set,
        class,
        mime: mime.map(str::to_owned),
    }
}

fn found(rows: &[&str]) -> Rows {
    Rows {
        rows: rows.iter().map(|row| (*row).to_owned()).collect(),
        ..Rows::default()
    }
}

fn value_of(reply: &Reply) -> Value {
    let Outcome::Result(result) = &reply.outcome else {
        panic!("a result");
    };
    serde_json::from_slice(result.as_bytes()).expect("JSON")
}

const VALUE: Returns = Returns::Value { is_bytes: false };

fn columns(names: &[&str]) -> Returns {
    let column = |name: &&str| Column {
        name: (*name).to_owned(),
        is_bytes: false,
    };
    Returns::Columns(names.iter().map(column).collect())
}

#[test]
fn structured_content_is_an_object_with_the_bytes_of_the_database() {
    let cut = Rows {
        is_cut: true,
        ..found(&["1", " [2.50] "])
    };
    let sent = Rows {
        sent: Some(12),
        ..Rows::default()
    };
    for (returns, is_set, rows, wanted) in [
        (VALUE, false, found(&["1.500e3"]), r#"{"result":1.500e3}"#),
        (
            VALUE,
            false,
            found(&[r#"{"a" : 1}"#]),
            r#"{"result":{"a" : 1}}"#,
        ),
        (VALUE, false, found(&[]), r#"{"result":null}"#),
        (
            Returns::Nothing,
            false,
            found(&["null"]),
            r#"{"result":null}"#,
        ),
        (
            columns(&["a", "b\""]),
            false,
            found(&[r#"{"a":1,"b\"":2}"#]),
            r#"{"a":1,"b\"":2}"#,
        ),
        (
            columns(&["a", "b\""]),
            false,
            found(&["null"]),
            r#"{"a":null,"b\"":null}"#,
        ),
        (columns(&[]), false, found(&["null"]), "{}"),
        (VALUE, true, found(&[]), r#"{"rows":[],"truncated":false}"#),
        (
            VALUE,
            true,
            cut,
            r#"{"rows":[1, [2.50] ],"truncated":true}"#,
        ),
        (
            VALUE,
            true,
            sent,
            r#"{"rows":[],"truncated":false,"count":12}"#,
        ),
    ] {
        let answer = answer(returns, is_set, Class::Other, None);
        assert_eq!(answer.structured(&rows), wanted);
        let told = value_of(&answer.tool(&rows));
        assert_eq!(told["content"][0]["text"], wanted);
        assert_eq!(
            (&told["isError"], &told["resultType"]),
            (&json!(false), &json!("complete"))
        );
    }
}

#[test]
fn resources_are_texts_or_bytes() {
    for (class, mime, row, wanted) in [
        (
            Class::Text,
            None,
            r#""é\n""#,
            json!({"mimeType": "text/plain", "text": "é\n"}),
        ),
        (
            Class::Text,
            Some("text/html"),
            r#""<b>""#,
            json!({"mimeType": "text/html", "text": "<b>"}),
        ),
        (
            Class::Xml,
            None,
            r#""<a/>""#,
            json!({"mimeType": "application/xml", "text": "<a/>"}),
        ),
        (
            Class::Bytes,
            None,
            r#""AP8=""#,
            json!({"mimeType": "application/octet-stream", "blob": "AP8="}),
        ),
        (
            Class::Json,
            None,
            r#"{"a" : 1.0}"#,
            json!({"mimeType": "application/json", "text": "{\"a\" : 1.0}"}),
        ),
        (
            Class::Integer,
            None,
            "5",
            json!({"mimeType": "application/json", "text": "5"}),
        ),
    ] {
        let read = answer(VALUE, false, class, mime).resource("x://y", &found(&[row]));
        let mut read = value_of(&read.expect("a resource"))["contents"][0].take();
        assert_eq!(read["uri"].take(), "x://y");
        read.as_object_mut().expect("an object").remove("uri");
        assert_eq!(read, wanted);
    }
    let set = answer(columns(&["a"]), true, Class::Record, None);
    let read = value_of(&set.resource("x://y", &found(&[])).expect("a resource"));
    assert_eq!(
        read["contents"][0]["text"],
        r#"{"rows":[],"truncated":false}"#
    );
    let missing = answer(VALUE, false, Class::Text, None).resource("x://y", &found(&["null"]));
    let Err(Failure::Refused(fault)) = missing else {
        panic!("no such resource");
    };
    assert_eq!(fault.kind, Kind::UnknownResource);
}

#[test]
fn prompts_are_messages_or_refused() {
    let message =
        |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
    let one_row = || columns(&["role", "content"]);
    for (returns, is_set, class, rows, wanted) in [
        (
            VALUE,
            false,
            Class::Text,
            &[r#""a \"b\"""#][..],
            Some(json!([message("user", "a \"b\"")])),
        ),
        (
            VALUE,
            true,
            Class::Text,
            &[r#""a""#, r#""b""#],
            Some(json!([message("user", "a"), message("user", "b")])),
        ),
        (VALUE, false, Class::Json, &["[]"], Some(json!([]))),
        (
            VALUE,
            false,
            Class::Json,
            &[r#"[{"role":"user","content":{"type":"image","data":""}}]"#],
            Some(json!([{"role": "user", "content": {"type": "image", "data": ""}}])),
        ),
        (
            one_row(),
            true,
            Class::Record,
            &[r#"{"role":"assistant","content":"x"}"#],
            Some(json!([message("assistant", "x")])),
        ),
        (
            columns(&["n"]),
            false,
            Class::Composite,
            &[r#"{"n":1}"#],
            Some(json!([message("user", "{\"n\":1}")])),
        ),
        (VALUE, false, Class::Text, &["null"], None),
        (VALUE, false, Class::Json, &["{}"], None),
        (VALUE, false, Class::Json, &["[1]"], None),
        (
            VALUE,
            false,
            Class::Json,
            &[r#"[{"role":"system","content":"x"}]"#],
            None,
        ),
        (VALUE, false, Class::Json, &[r#"[{"role":"user"}]"#], None),
        (
            VALUE,
            false,
            Class::Json,
            &[r#"[{"role":"user","content":{"text":"x"}}]"#],
            None,
        ),
        (
            one_row(),
            true,
            Class::Record,
            &[r#"{"role":"user","content":null}"#],
            None,
        ),
    ] {
        let reply = answer(returns, is_set, class, None).prompt("Told.", &found(rows));
        let messages = reply.ok().map(|reply| value_of(&reply)["messages"].take());
        assert_eq!(messages, wanted, "{rows:?}");
    }
    let reply = answer(VALUE, false, Class::Text, None).prompt("Told.", &found(&[r#""a""#]));
    assert_eq!(value_of(&reply.expect("messages"))["description"], "Told.");
}
