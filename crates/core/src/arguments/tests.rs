//! What arguments a schema allows, and what the refusal says.

use sentinel_wire::Outcome;
use sentinel_wire::json::Rules;

use super::*;

fn schema(text: &'static str) -> Schema {
    Schema::new(Some(Bytes::from_static(text.as_bytes())))
}

impl Schema {
    /// What is wrong with these arguments, as text.
    pub(super) fn issues(&self, arguments: &[u8]) -> Vec<String> {
        let found = self.found(arguments);
        found.iter().map(ToString::to_string).collect()
    }

    fn found(&self, arguments: &[u8]) -> Vec<Issue> {
        let params = [&br#"{"arguments":"#[..], arguments, b"}"].concat();
        let params = Params::parse(params.into(), Rules::backend()).expect("json");
        match self.check("x", &params) {
            Checked::Good | Checked::Without(_) => Vec::new(),
            Checked::Wrong(issues) => issues,
        }
    }
}

#[test]
fn c_17_arguments_are_compared_with_the_schema() {
    let echo = schema(
        r#"{"type":"object","properties":{"text":{"type":"string","maxLength":3},"n":{"type":"integer"}},"required":["text"],"additionalProperties":false}"#,
    );
    assert!(echo.issues(br#"{"text":"abc","n":1}"#).is_empty());
    for (wrong, words) in [
        (&br#"{}"#[..], "text"),
        (br#"{"text":1}"#, "/text"),
        (br#"{"text":"abcd"}"#, "/text"),
        (br#"{"text":"a","n":1.5}"#, "/n"),
        (br#"{"text":"a","x":1}"#, "x"),
    ] {
        let issues = echo.issues(wrong);
        assert_eq!(issues.len(), 1, "{issues:?}");
        assert!(issues[0].contains(words), "{issues:?}");
    }
}

#[test]
fn c_17_null_is_an_argument_left_out_and_no_way_past_a_closed_schema() {
    let closed = schema(
        r#"{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"}},"required":["text"],"additionalProperties":false}"#,
    );
    assert!(closed.issues(br#"{"text":"a","n":null}"#).is_empty());
    for wrong in [
        &br#"{"text":"a","other":null}"#[..],
        br#"{"text":"a","n":null,"other":null}"#,
        br#"{"text":null}"#,
    ] {
        assert!(!closed.issues(wrong).is_empty());
    }
}

#[test]
fn a_schema_that_asks_for_nothing_costs_nothing() {
    for text in [
        r#"{"type":"object"}"#,
        "{}",
        r#"{"type":"object","properties":{},"required":[],"additionalProperties":true,"$schema":"x"}"#,
    ] {
        let schema = Schema::new(Some(Bytes::copy_from_slice(text.as_bytes())));
        assert!(schema.compiled("x", "inputSchema").is_none(), "{text}");
        // Not even decoded.
        assert!(schema.issues(b"[1e999999]").is_empty());
    }
}

#[test]
fn a_schema_that_cannot_be_used_checks_nothing_and_reaches_nowhere() {
    for text in [
        r#"{"$ref":"http://127.0.0.1:1/schema.json"}"#,
        r#"{"$ref":"file:///etc/passwd"}"#,
        r#"{"type":"objekt"}"#,
        r#"{"properties":{"a":{"pattern":"("}}}"#,
    ] {
        let schema = Schema::new(Some(Bytes::copy_from_slice(text.as_bytes())));
        assert_eq!(schema.unusable(), None, "nobody looked yet");
        assert!(schema.compiled("x", "inputSchema").is_none(), "{text}");
        assert!(schema.unusable().is_some(), "{text}");
        assert_eq!(schema.examine(), schema.unusable());
    }
    assert_eq!(schema(r#"{"required":["a"]}"#).examine(), None);
    let huge = format!(r#"{{"description":"{}"}}"#, "x".repeat(SCHEMA_BYTES_MAX));
    assert!(compile(huge.as_bytes()).is_err());
}

#[test]
fn references_within_the_schema_and_older_drafts_work() {
    let inner =
        schema(r##"{"$defs":{"n":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/n"}}}"##);
    assert!(inner.issues(br#"{"a":1}"#).is_empty());
    assert!(!inner.issues(br#"{"a":"1"}"#).is_empty());
    let old = schema(
        r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"type":"array","items":[{"type":"integer"}]}}}"#,
    );
    assert!(!old.issues(br#"{"a":["1"]}"#).is_empty());
}

#[test]
fn a_hostile_pattern_is_bounded() {
    let evil = schema(r#"{"properties":{"a":{"pattern":"^(a|aa)+(?=$)b"}}}"#);
    let began = tokio::time::Instant::now();
    let long = format!(r#"{{"a":"{}"}}"#, "a".repeat(5000));
    let _ = evil.issues(long.as_bytes());
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
}

#[test]
fn c_17_each_revision_hears_of_it_in_its_own_way() {
    let issues = schema(
        r#"{"properties":{"a":{"type":"array","items":{"type":"string"}}},"required":["b\"c"]}"#,
    )
    .found(br#"{"a":[1]}"#);
    let told = r#""issues":[{"pointer":"","message":"\"b\\\"c\" is a required property","keyword":"required"},{"pointer":"/a/0","message":"1 is not of type \"string\"","keyword":"type"}]"#;
    let text = "invalid arguments for echo:\n- arguments: \"b\\\"c\" is a required property\n- /a/0: 1 is not of type \"string\"";
    for (revision, refusals) in [
        (Revision::V2025_06_18, Refusals::ByRevision),
        (Revision::V2026_07_28, Refusals::Faults),
    ] {
        let fault = refusal("echo", None, &issues, revision, refusals).expect_err("an error");
        assert_eq!(fault.kind, Kind::InvalidArguments);
        assert_eq!(fault.data.as_deref(), Some(told));
        assert_eq!(fault.public, text);
    }
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let reply =
            refusal("echo", None, &issues, revision, Refusals::ByRevision).expect("a result");
        let Outcome::Result(result) = reply.outcome else {
            panic!("a result")
        };
        assert_eq!(result.get("structuredContent"), None);
        let problem = format!(r#"{{"code":"invalid_arguments",{told}}}"#);
        let meta = format!(r#"{{"sentinel-gateway/problem":{problem}}}"#);
        assert_eq!(result.get("_meta"), Some(meta.as_bytes()));
        assert_eq!(result.get("isError"), Some(&b"true"[..]));
        assert_eq!(result.get("resultType").is_some(), revision.is_modern());
    }
}
