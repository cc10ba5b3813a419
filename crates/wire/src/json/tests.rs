//! The scanner against `serde_json` and against the rules serde has no notion of.

use super::*;
use proptest::prelude::*;

fn scan(text: &[u8], rules: Rules) -> Result<Span, Error> {
    let mut scanner = Scanner::new(text, rules)?;
    let span = scanner.value()?;
    scanner.end()?;
    Ok(span)
}

#[track_caller]
fn check(text: &str, good: bool) {
    assert_eq!(
        scan(text.as_bytes(), Rules::backend()).is_ok(),
        good,
        "{text}"
    );
}

#[test]
fn well_formed_texts_pass_and_others_do_not() {
    for good in [
        "0",
        "-0",
        "1.5e+3",
        "[]",
        "{}",
        r#""""#,
        r#"[1,[2,{"a":[]}]]"#,
        " [ 1 , 2 ] ",
        r#""\ud800""#,
    ] {
        check(good, true);
    }
    for bad in [
        "",
        " ",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "[1,]",
        "{,}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        "[1 2]",
        "nul",
        "[",
        "{",
        "\"",
        "\"\u{1}\"",
        r#""\x""#,
        r#""\u12G4""#,
        "1 2",
        "\u{feff}1",
        "]",
    ] {
        check(bad, false);
    }
}

#[test]
fn depth_is_counted_from_the_outermost_container() {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(scan(nested(64).as_bytes(), Rules::caller(64)).is_ok());
    let refused = scan(nested(65).as_bytes(), Rules::caller(64)).expect_err("too deep");
    assert_eq!(refused.problem, Problem::TooDeep(64));
    assert!(scan(nested(100_000).as_bytes(), Rules::backend()).is_ok());
}

#[test]
fn duplicate_keys_are_refused_at_any_depth_however_they_are_spelled() {
    for text in [
        r#"{"a":1,"a":2}"#,
        r#"{"x":[{"a":1,"\u0061":2}]}"#,
        r#"{"x":{"b":{"c":1,"c":1}}}"#,
    ] {
        let refused = scan(text.as_bytes(), Rules::caller(64)).expect_err(text);
        assert!(matches!(refused.problem, Problem::Duplicate(_)), "{text}");
        assert!(scan(text.as_bytes(), Rules::backend()).is_ok(), "{text}");
    }
    let many: Vec<String> = (0..40).map(|i| format!("\"k{}\":{i}", i % 39)).collect();
    assert!(
        scan(
            format!("{{{}}}", many.join(",")).as_bytes(),
            Rules::caller(64)
        )
        .is_err()
    );
    // The same key in sibling or nested objects is no duplicate.
    assert!(scan(br#"{"a":{"a":[{"a":1},{"a":2}]}}"#, Rules::caller(64)).is_ok());
}

#[test]
fn members_are_found_where_they_lie() {
    let text = br#" {"a" : [1, 2] , "\u0062":"x"} "#;
    let object = Object::parse(text, Rules::caller(8)).expect("an object");
    assert_eq!(
        object.get(text, "a").map(|s| s.of(text)),
        Some(&b"[1, 2]"[..])
    );
    assert_eq!(
        object.get(text, "b").map(|s| s.of(text)),
        Some(&br#""x""#[..])
    );
    assert_eq!(object.get(text, "c"), None);
}

#[test]
fn strings_decode_like_serde_decodes_them() {
    for text in [r#""plain""#, r#""a\n\t\"\\\/""#, r#""\u00e9\ud83d\ude00é""#] {
        let ours = decode_string(text.as_bytes()).expect("a string");
        assert_eq!(ours, serde_json::from_str::<String>(text).expect("valid"));
    }
    assert_eq!(
        decode_string(br#""\ud800x""#).expect("a string"),
        "\u{fffd}x"
    );
}

/// JSON values with awkward strings and numbers.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(Into::into),
        ".{0,24}".prop_map(serde_json::Value::String),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            proptest::collection::btree_map(".{0,10}", inner, 0..24)
                .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_serde_writes_we_accept(value in any_json()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).expect("json")] {
            let span = scan(text.as_bytes(), Rules::caller(64));
            prop_assert_eq!(span, Ok(Span::new(0, text.len())));
        }
    }

    #[test]
    fn we_agree_with_serde_on_damaged_text(value in any_json(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = value.to_string().into_bytes();
        let i = at.index(text.len());
        text[i] = byte;
        // `IgnoredAny` checks the grammar without building numbers, so 1e400 is fine for both.
        let theirs = std::str::from_utf8(&text).is_ok()
            && serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok();
        let ours = scan(&text, Rules::backend()).is_ok();
        prop_assert_eq!(ours, theirs, "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn arbitrary_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = scan(&text, Rules::caller(16));
        let _ = decode_string(&text);
    }
}
