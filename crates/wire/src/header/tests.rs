//! The header codec: the tables of SEP-2243 and of the 2026-07-28 transport page, row by row.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::params::{ArgumentError, MismatchError, check, headers};
use super::*;

#[test]
fn values_are_encoded_as_the_specification_shows() {
    for (value, header) in [
        ("us-west1", "us-west1"),
        ("us west 1", "us west 1"),
        ("", ""),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        ("日本語", "=?base64?5pel5pys6Kqe?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        (" us-west1", "=?base64?IHVzLXdlc3Qx?="),
        ("us-west1 ", "=?base64?dXMtd2VzdDEg?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
        ("\tindented", "=?base64?CWluZGVudGVk?="),
        ("a\tb", "=?base64?YQli?="),
        ("\u{7f}", "=?base64?fw==?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        (
            "file:///projects/myapp/config.json",
            "file:///projects/myapp/config.json",
        ),
    ] {
        assert_eq!(encode(value), header, "{value:?}");
        assert_eq!(
            decode(header.as_bytes()).as_deref(),
            Ok(value),
            "{header:?}"
        );
    }
    assert_eq!(Scalar::Integer(-7).encode(), "-7");
    assert_eq!(Scalar::Boolean(true).encode(), "true");
    assert_eq!(Scalar::Boolean(false).encode(), "false");
}

#[test]
fn received_values_are_read_by_the_exact_rules() {
    for (header, expected) in [
        (&b"=?base64?SGVsbG8=?="[..], Ok("Hello")),
        (b"=?base64?SGVsbG8?=", Err(DecodeError::Base64)),
        (b"=?base64?SGVs!!!bG8=?=", Err(DecodeError::Base64)),
        (b"=?base64?SGVsbG9=?=", Err(DecodeError::Base64)),
        (b"=?base64?SGVs bG8=?=", Err(DecodeError::Base64)),
        (b"=?base64?SGVsbG8==?=", Err(DecodeError::Base64)),
        (b"=?base64?_-8=?=", Err(DecodeError::Base64)),
        (b"=?base64?/w==?=", Err(DecodeError::Utf8)),
        (b"=?base64??=", Ok("")),
        (b"SGVsbG8=", Ok("SGVsbG8=")),
        (b"=?base64?SGVsbG8=", Ok("=?base64?SGVsbG8=")),
        (b"=?BASE64?SGVsbG8=?=", Ok("=?BASE64?SGVsbG8=?=")),
        (b"=?base64?=", Ok("=?base64?=")),
        (b"  padded\t ", Ok("padded")),
        (b"a\tb", Ok("a\tb")),
        (b" \t ", Ok("")),
        (b"a\nb", Err(DecodeError::Character)),
        (b"a\r\n", Err(DecodeError::Character)),
        (b"a\0", Err(DecodeError::Character)),
        (b"\x7f", Err(DecodeError::Character)),
        ("é".as_bytes(), Err(DecodeError::Character)),
    ] {
        assert_eq!(
            decode(header).as_deref().map_err(|e| *e),
            expected,
            "{header:?}"
        );
    }
}

#[test]
fn integers_are_compared_as_numbers_and_strings_as_strings() {
    let agrees = |value: Scalar<'_>, header: &str| value.agrees_with(header.as_bytes());
    for header in ["42", "42.0", "4.2e1", "420E-1", "=?base64?NDI=?=", " 42 "] {
        assert_eq!(agrees(Scalar::Integer(42), header), Ok(true), "{header}");
    }
    for header in [
        "43",
        "42.00000000000000000001",
        "042",
        "+42",
        "42.",
        "",
        "0x2a",
        "4 2",
    ] {
        assert_eq!(agrees(Scalar::Integer(42), header), Ok(false), "{header}");
    }
    assert_eq!(agrees(Scalar::String("42"), "42.0"), Ok(false));
    assert_eq!(agrees(Scalar::String("eu"), "EU"), Ok(false));
    assert_eq!(agrees(Scalar::Boolean(true), "true"), Ok(true));
    assert_eq!(agrees(Scalar::Boolean(true), "True"), Ok(false));
    assert_eq!(agrees(Scalar::Boolean(false), "true"), Ok(false));
}

#[test]
fn integers_outside_the_safe_range_are_none() {
    for (text, expected) in [
        ("9007199254740991", Some(9_007_199_254_740_991)),
        ("-9007199254740991", Some(-9_007_199_254_740_991)),
        ("9007199254740992", None),
        ("9007199254740991.4", None),
        ("1e15", Some(1_000_000_000_000_000)),
        ("1e16", None),
        ("1e400", None),
        ("123456789012345678901234567890", None),
        ("0.00000000000000000000001e23", Some(1)),
        ("1e99999999999999999999", None),
        ("0", Some(0)),
        ("-0.00", Some(0)),
        ("0e5", Some(0)),
        ("0.5e1", Some(5)),
        ("100e-2", Some(1)),
        ("100e-3", None),
        ("1.5", None),
        ("-", None),
        (".5", None),
        ("1e", None),
        ("NaN", None),
    ] {
        assert_eq!(parse_integer(text), expected, "{text}");
    }
}

fn property(schema: &str) -> String {
    format!(r#"{{"type":"object","properties":{{"p":{schema}}}}}"#)
}

#[test]
fn annotations_are_found_along_properties() {
    let schema = br#"{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},
        "query":{"type":"string","default":{"x-mcp-header":1}},
        "x-mcp-header":{"type":"string","enum":["x-mcp-header"]},
        "where":{"type":"object","properties":{
            "shard":{"type":"integer","x-mcp-header":"Shard"},
            "dry/run":{"type":"boolean","x-mcp-header":"Dry-Run"}}}}}"#;
    let found = annotations(schema).expect("the schema is valid");
    let found: Vec<_> = found
        .iter()
        .map(|p| (p.path.join("."), p.header.as_str(), p.kind))
        .collect();
    assert_eq!(
        found,
        [
            ("region".into(), "Mcp-Param-Region", ParamType::String),
            ("where.shard".into(), "Mcp-Param-Shard", ParamType::Integer),
            (
                "where.dry/run".into(),
                "Mcp-Param-Dry-Run",
                ParamType::Boolean
            ),
        ]
    );
    assert_eq!(annotations(br#"{"type":"object"}"#), Ok(vec![]));
    assert_eq!(annotations(b"true"), Ok(vec![]));
}

#[test]
fn an_annotation_spelled_with_escapes_is_one_too() {
    let schema = property(r#"{"type":"number","\u0078-mcp-header":"X"}"#);
    let at = "/properties/p".to_owned();
    assert_eq!(
        annotations(schema.as_bytes()),
        Err(AnnotationError::Type { at })
    );
}

#[test]
fn invalid_annotations_are_named_with_their_place() {
    let at = || "/properties/p".to_owned();
    for (schema, expected) in [
        (
            r#"{"type":"string","x-mcp-header":""}"#,
            AnnotationError::NotAToken { at: at() },
        ),
        (
            r#"{"type":"string","x-mcp-header":"a b"}"#,
            AnnotationError::NotAToken { at: at() },
        ),
        (
            r#"{"type":"string","x-mcp-header":"a\r\nb"}"#,
            AnnotationError::NotAToken { at: at() },
        ),
        (
            r#"{"type":"string","x-mcp-header":"a:b"}"#,
            AnnotationError::NotAToken { at: at() },
        ),
        (
            r#"{"type":"string","x-mcp-header":"é"}"#,
            AnnotationError::NotAToken { at: at() },
        ),
        (
            r#"{"type":"string","x-mcp-header":5}"#,
            AnnotationError::NotAString { at: at() },
        ),
        (
            r#"{"type":"string","x-mcp-header":null}"#,
            AnnotationError::NotAString { at: at() },
        ),
        (
            r#"{"type":"number","x-mcp-header":"X"}"#,
            AnnotationError::Type { at: at() },
        ),
        (
            r#"{"type":"array","x-mcp-header":"X"}"#,
            AnnotationError::Type { at: at() },
        ),
        (
            r#"{"type":"object","x-mcp-header":"X"}"#,
            AnnotationError::Type { at: at() },
        ),
        (
            r#"{"type":"null","x-mcp-header":"X"}"#,
            AnnotationError::Type { at: at() },
        ),
        (
            r#"{"type":["string","null"],"x-mcp-header":"X"}"#,
            AnnotationError::Type { at: at() },
        ),
        (
            r##"{"$ref":"#/$defs/a","x-mcp-header":"X"}"##,
            AnnotationError::Type { at: at() },
        ),
    ] {
        assert_eq!(
            annotations(property(schema).as_bytes()),
            Err(expected),
            "{schema}"
        );
    }
    assert_eq!(
        annotations(b"{\"x-mcp-header\":"),
        Err(AnnotationError::NotJson)
    );
}

#[test]
fn an_annotation_out_of_reach_makes_the_tool_invalid() {
    let annotated = r#"{"type":"string","x-mcp-header":"X"}"#;
    for (schema, at) in [
        (annotated.to_owned(), ""),
        (format!(r#"{{"items":{annotated}}}"#), "/items"),
        (
            format!(r#"{{"prefixItems":[{annotated}]}}"#),
            "/prefixItems/0",
        ),
        (format!(r#"{{"oneOf":[true,{annotated}]}}"#), "/oneOf/1"),
        (
            format!(r#"{{"allOf":[{{"properties":{{"a":{annotated}}}}}]}}"#),
            "/allOf/0/properties/a",
        ),
        (format!(r#"{{"not":{annotated}}}"#), "/not"),
        (format!(r#"{{"if":{annotated}}}"#), "/if"),
        (format!(r#"{{"then":{annotated}}}"#), "/then"),
        (
            format!(r#"{{"$defs":{{"a/b":{annotated}}}}}"#),
            "/$defs/a~1b",
        ),
        (
            format!(r#"{{"additionalProperties":{annotated}}}"#),
            "/additionalProperties",
        ),
        (
            format!(r#"{{"patternProperties":{{"^a":{annotated}}}}}"#),
            "/patternProperties/^a",
        ),
    ] {
        let at = at.to_owned();
        let got = annotations(schema.as_bytes());
        assert_eq!(got, Err(AnnotationError::OutOfReach { at }), "{schema}");
    }
}

#[test]
fn header_names_are_unique_in_any_case() {
    let schema = br#"{"properties":{
        "a":{"type":"string","x-mcp-header":"Region"},
        "b":{"properties":{"c":{"type":"string","x-mcp-header":"REGION"}}}}}"#;
    assert_eq!(
        annotations(schema),
        Err(AnnotationError::Repeated {
            at: "/properties/b/properties/c".into(),
            name: "REGION".into()
        })
    );
}

fn params() -> Vec<Param> {
    annotations(
        br#"{"properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "dry":{"type":"boolean","x-mcp-header":"Dry"},
            "where":{"properties":{"shard":{"type":"integer","x-mcp-header":"Shard"}}}}}"#,
    )
    .expect("the schema is valid")
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("test arguments are JSON")
}

#[test]
fn present_arguments_become_headers_and_null_or_absent_ones_do_not() {
    let emit = |json: &str| {
        let arguments = raw(json);
        headers(&params(), Some(&arguments)).map(|list| {
            list.into_iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(
        emit(r#"{"where":{"shard":42.0},"region":"us-west1","dry":false,"q":[1]}"#),
        Ok(vec![
            "Mcp-Param-Region: us-west1".into(),
            "Mcp-Param-Dry: false".into(),
            "Mcp-Param-Shard: 42".into()
        ])
    );
    assert_eq!(emit(r#"{"region":null,"where":null}"#), Ok(vec![]));
    assert_eq!(emit(r#"{"where":{"shard":null}}"#), Ok(vec![]));
    assert_eq!(emit(r#"{"where":[1]}"#), Ok(vec![]));
    assert_eq!(emit("null"), Ok(vec![]));
    assert_eq!(
        emit(r#"{"re\u0067ion":"\u65e5本語"}"#),
        Ok(vec!["Mcp-Param-Region: =?base64?5pel5pys6Kqe?=".into()])
    );
    assert_eq!(emit("[]"), Err(ArgumentError::NotAnObject));
    let path = || "region".to_owned();
    for value in ["[]", "{}", "1.5", "9007199254740992", r#""\ud800""#] {
        let got = emit(&format!(r#"{{"region":{value}}}"#));
        assert_eq!(
            got,
            Err(ArgumentError::NotMirrorable { path: path() }),
            "{value}"
        );
    }
    assert_eq!(
        emit(r#"{"region":"a","re\u0067ion":"b"}"#),
        Err(ArgumentError::Repeated { path: path() })
    );
    assert_eq!(headers(&params(), None), Ok(vec![]));
}

#[test]
fn received_headers_must_agree_with_the_body() {
    let verdict = |json: &str, received: &[(&str, &str)]| {
        let arguments = raw(json);
        let received: Vec<_> = received.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        check(&params(), Some(&arguments), received)
    };
    let header = || "Mcp-Param-Region".to_owned();
    let body = r#"{"region":"Hello"}"#;
    assert_eq!(verdict(body, &[("mcp-param-region", "Hello")]), Ok(()));
    assert_eq!(
        verdict(body, &[("MCP-PARAM-REGION", "=?base64?SGVsbG8=?=")]),
        Ok(())
    );
    assert_eq!(
        verdict(body, &[]),
        Err(MismatchError::Missing { header: header() })
    );
    assert_eq!(
        verdict(body, &[("mcp-param-region", "hello")]),
        Err(MismatchError::Different { header: header() })
    );
    assert_eq!(
        verdict(body, &[("mcp-param-region", "=?base64?SGVsbG8?=")]),
        Err(MismatchError::Unreadable {
            header: header(),
            source: DecodeError::Base64
        })
    );
    assert_eq!(
        verdict(
            body,
            &[("mcp-param-region", "Hello"), ("Mcp-Param-Region", "Hello")]
        ),
        Err(MismatchError::Repeated { header: header() })
    );
    for absent in ["{}", r#"{"region":null}"#, "null"] {
        assert_eq!(
            verdict(absent, &[("x-other", "1"), ("mcp-param-unknown", "é")]),
            Ok(())
        );
        assert_eq!(
            verdict(absent, &[("mcp-param-region", "Hello")]),
            Err(MismatchError::NotInBody { header: header() })
        );
    }
    let nested = r#"{"where":{"shard":42}}"#;
    assert_eq!(verdict(nested, &[("mcp-param-shard", "42.0")]), Ok(()));
    assert_eq!(
        verdict(r#"{"region":""}"#, &[("mcp-param-region", "")]),
        Ok(())
    );
    assert!(matches!(
        verdict(r#"{"region":{}}"#, &[("mcp-param-region", "{}")]),
        Err(MismatchError::Argument(_))
    ));
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(value in prop_oneof![any::<String>(), "[ -~]{0,30}", "=\\?base64\\?[ -~]{0,9}\\?="]) {
        let header = encode(&value);
        prop_assert!(header.bytes().all(|b| (b' '..=b'~').contains(&b)));
        prop_assert_eq!(header.trim(), &header[..]);
        let back = decode(header.as_bytes());
        prop_assert_eq!(back.as_deref(), Ok(&value[..]));
        prop_assert_eq!(Scalar::String(&value).agrees_with(header.as_bytes()), Ok(true));
    }

    #[test]
    fn safe_integers_survive_every_spelling(value in -number::SAFE_MAX..=number::SAFE_MAX, zeros in 0usize..5) {
        let spellings = [
            Scalar::Integer(value).encode().into_owned(),
            format!("{value}.{}", "0".repeat(zeros + 1)),
            format!("{value}{}e-{zeros}", if value == 0 { String::new() } else { "0".repeat(zeros) }),
        ];
        for text in spellings {
            prop_assert_eq!(parse_integer(&text), Some(value), "{}", text);
        }
    }

    #[test]
    fn emitted_headers_always_pass_the_check(region in any::<String>(), shard in -1000i64..1000, dry in any::<bool>()) {
        let json = serde_json::json!({"region": region, "dry": dry, "where": {"shard": shard}});
        let arguments = raw(&json.to_string());
        let params = params();
        let sent = headers(&params, Some(&arguments)).expect("all values can be mirrored");
        prop_assert_eq!(sent.len(), 3);
        let received = sent.iter().map(|(name, value)| (*name, value.as_bytes()));
        prop_assert_eq!(check(&params, Some(&arguments), received), Ok(()));
    }
}
