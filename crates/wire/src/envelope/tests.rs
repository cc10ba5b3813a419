//! Envelopes: ids byte for byte, rejections with the right code, splicing without side effects.

use super::*;

fn parse(text: &str) -> Result<Message, Refusal> {
    Message::parse(Bytes::copy_from_slice(text.as_bytes()), Rules::caller(64))
}

#[track_caller]
fn refused(text: &str, code: i32) -> Refusal {
    let refusal = parse(text).expect_err(text);
    assert_eq!(refusal.code, code, "{text}: {}", refusal.message);
    refusal
}

#[test]
fn g_4_ids_of_any_legal_form_come_back_byte_for_byte() {
    for id in [
        "0",
        "-7",
        "1.50",
        "12345678901234567890123",
        "1e3",
        r#""a\u0062""#,
        r#""""#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let Ok(Message::Request(request)) = parse(&text) else {
            panic!("{text}")
        };
        assert_eq!(request.id.as_bytes(), id.as_bytes());
        let mut out = Vec::new();
        write_result(&request.id, b"{}", &mut out);
        assert_eq!(
            out,
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).into_bytes()
        );
    }
}

#[test]
fn ids_that_are_no_ids_are_refused_and_never_read_as_notifications() {
    for id in ["null", "true", "{}", "[1]"] {
        let refusal = refused(
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#),
            INVALID_REQUEST,
        );
        assert!(refusal.id.is_none());
    }
}

#[test]
fn g_4_malformed_envelopes_get_the_right_code() {
    refused("{", PARSE_ERROR);
    refused("[]x", PARSE_ERROR);
    refused("1", INVALID_REQUEST);
    refused(r#""x""#, INVALID_REQUEST);
    refused(r#"{"id":1,"method":"ping"}"#, INVALID_REQUEST);
    refused(
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        INVALID_REQUEST,
    );
    refused(r#"{"jsonrpc":"2.0","id":1}"#, INVALID_REQUEST);
    refused(r#"{"jsonrpc":"2.0","id":1,"method":3}"#, INVALID_REQUEST);
    refused(
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#,
        INVALID_REQUEST,
    );
    refused(
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        INVALID_REQUEST,
    );
    refused(
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#,
        INVALID_REQUEST,
    );
    refused(
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"b":1,"b":2}}}"#,
        INVALID_REQUEST,
    );
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}{}}}}}"#,
        "[".repeat(70),
        "]".repeat(70)
    );
    refused(&deep, PARSE_ERROR);
}

#[test]
fn duplicate_envelope_keys_are_refused_from_backends_too() {
    let text = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#);
    assert!(Message::parse(text, Rules::backend()).is_err());
    let nested = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}"#);
    assert!(Message::parse(nested, Rules::backend()).is_ok());
}

#[test]
fn the_id_of_a_refused_request_is_echoed_where_it_can_be_read() {
    let refusal = refused(
        r#"{"jsonrpc":"2.0","id":"x","method":"ping","params":3}"#,
        INVALID_REQUEST,
    );
    assert_eq!(refusal.id.expect("readable").as_bytes(), br#""x""#);
}

#[test]
fn batches_are_split_and_judged_one_by_one() {
    let text = br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0"},3]"#;
    let Ok(Incoming::Batch(items)) = Incoming::parse(Bytes::from_static(text), Rules::caller(8))
    else {
        panic!()
    };
    assert_eq!(
        items.iter().map(Result::is_ok).collect::<Vec<_>>(),
        [true, false, false]
    );
    assert_eq!(
        Incoming::parse(Bytes::from_static(b"[]"), Rules::caller(8))
            .expect_err("empty")
            .code,
        INVALID_REQUEST
    );
    assert_eq!(
        Incoming::parse(Bytes::from_static(b"[1,"), Rules::caller(8))
            .expect_err("cut")
            .code,
        PARSE_ERROR
    );
}

#[test]
fn a_rewrite_changes_what_it_names_and_nothing_else() {
    let text = Bytes::from_static(
        br#"{ "z": 1.0, "name" : "gamma__echo", "big":12345678901234567890123, "gone":[1] }"#,
    );
    let params = Params::parse(text, Rules::caller(8)).expect("params");
    let mut out = Vec::new();
    params.as_raw().rewrite(
        &[
            ("name", Some(br#""echo""#)),
            ("gone", None),
            ("new", Some(b"true")),
        ],
        &mut out,
    );
    assert_eq!(
        out,
        br#"{"z":1.0,"name":"echo","big":12345678901234567890123,"new":true}"#
    );
    let empty = Params::parse(Bytes::from_static(b"{}"), Rules::caller(8)).expect("params");
    let mut out = Vec::new();
    empty.as_raw().rewrite(&[("x", None)], &mut out);
    assert_eq!(out, b"{}");
}

#[test]
fn meta_is_read_in_the_same_pass() {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":"t","x/y":[1]}}}"#;
    let Ok(Message::Request(request)) = parse(text) else {
        panic!()
    };
    assert_eq!(request.method, Method::ToolsCall);
    assert_eq!(request.params.meta("progressToken"), Some(&br#""t""#[..]));
    assert_eq!(request.params.string("name").as_deref(), Some("a"));
}
