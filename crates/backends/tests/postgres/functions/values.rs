//! Values of every type, from JSON to PostgreSQL and back.

use sentinel_config::Expose;
use sentinel_core::Kind;

use crate::gateway::gateway;

const TYPES: &str = r#"
CREATE TYPE api.mood AS ENUM ('sad', 'so-so', 'glücklich');
CREATE TYPE api.point3 AS (x int, y numeric(6,2), "z z" text);
CREATE TYPE api.line AS (name text, points api.point3[], "from" api.point3, raw bytea);
CREATE DOMAIN api.percent AS int CHECK (VALUE BETWEEN 0 AND 100);
CREATE DOMAIN api.code AS varchar(8) NOT NULL CHECK (VALUE ~ '^[A-Z]{2}-\d+$');
CREATE DOMAIN api.even AS int CHECK (VALUE % 2 = 0);
CREATE DOMAIN api.key AS bytea;
"#;

/// A type, a value as it is sent, and as it comes back.
const ROUND_TRIPS: &[(&str, &str, &str)] = &[
    ("bool", "true", "true"),
    ("bool", "null", "null"),
    ("int2", "-32768", "-32768"),
    ("int4", "2147483647", "2147483647"),
    ("int4", "5.0", "5"),
    ("int4", "2e2", "200"),
    ("int8", "-9223372036854775808", "-9223372036854775808"),
    ("int8", "9223372036854775807", "9223372036854775807"),
    (
        "numeric",
        "1234567890123456789012345678901234567890",
        "1234567890123456789012345678901234567890",
    ),
    (
        "numeric",
        "0.1234567890123456789012345678901234567890",
        "0.1234567890123456789012345678901234567890",
    ),
    ("numeric", "\"0.10\"", "0.10"),
    ("numeric", "\"NaN\"", "\"NaN\""),
    ("numeric", "\"-Infinity\"", "\"-Infinity\""),
    ("float4", "1.5", "1.5"),
    (
        "float8",
        "2.2250738585072014e-308",
        "2.2250738585072014e-308",
    ),
    ("float8", "\"NaN\"", "\"NaN\""),
    ("float8", "\"Infinity\"", "\"Infinity\""),
    (
        "text",
        r#""é 漢字 😀 \"\\ \n\t<>&""#,
        r#""é 漢字 😀 \"\\ \n\t<>&""#,
    ),
    ("text", r#""\u00e9\u2028""#, "\"é\u{2028}\""),
    ("text", "\"\"", "\"\""),
    ("varchar", "\"x\"", "\"x\""),
    ("bpchar", "\"ab \"", "\"ab \""),
    ("\"char\"", "\"c\"", "\"c\""),
    ("name", "\"n\"", "\"n\""),
    ("bytea", "\"AP8BAg==\"", "\"AP8BAg==\""),
    ("bytea", "\"\"", "\"\""),
    ("bytea", "null", "null"),
    ("api.key", "\"AAE=\"", "\"AAE=\""),
    (
        "uuid",
        "\"7F1C1F46-8c5e-4a6a-9d0c-3f1f6a0e8a11\"",
        "\"7f1c1f46-8c5e-4a6a-9d0c-3f1f6a0e8a11\"",
    ),
    ("date", "\"2026-02-28\"", "\"2026-02-28\""),
    ("date", "\"infinity\"", "\"infinity\""),
    (
        "timestamp",
        "\"2026-02-28 10:00\"",
        "\"2026-02-28T10:00:00\"",
    ),
    ("timestamp", "\"-infinity\"", "\"-infinity\""),
    (
        "timestamptz",
        "\"2026-02-28T10:00:00.123456+02:00\"",
        "\"2026-02-28T08:00:00.123456+00:00\"",
    ),
    ("time", "\"24:00:00\"", "\"24:00:00\""),
    ("timetz", "\"10:00:00+01\"", "\"10:00:00+01\""),
    ("interval", "\"P1DT2H\"", "\"1 day 02:00:00\""),
    (
        "json",
        r#"{"b" : 1.0, "a":[1e40, null]}"#,
        r#"{"b" : 1.0, "a":[1e40, null]}"#,
    ),
    ("json", "\"text\"", "\"text\""),
    (
        "jsonb",
        r#"{"b":1.50,"a":null}"#,
        r#"{"a": null, "b": 1.50}"#,
    ),
    ("jsonb", "[]", "[]"),
    ("api.mood", "\"glücklich\"", "\"glücklich\""),
    ("api.mood", "null", "null"),
    ("api.percent", "100", "100"),
    ("api.code", "\"AB-12\"", "\"AB-12\""),
    ("int4[]", "[]", "[]"),
    ("int4[]", "[1,null,3]", "[1,null,3]"),
    ("int4[]", "[[1,2],[3,4]]", "[[1,2],[3,4]]"),
    (
        "text[]",
        r#"["a,b","","{}","\"","null",null]"#,
        r#"["a,b","","{}","\"","null",null]"#,
    ),
    ("api.mood[]", r#"["sad"]"#, r#"["sad"]"#),
    ("bytea[]", r#"["\\x00ff"]"#, r#"["\\x00ff"]"#),
    (
        "api.point3[]",
        r#"[{"x":1,"y":2.5,"z z":"é"},null]"#,
        r#"[{"x":1,"y":2.50,"z z":"é"},null]"#,
    ),
    ("int4range", "\"[1,5]\"", "\"[1,6)\""),
    ("int4multirange", "\"{[1,2],[4,5]}\"", "\"{[1,3),[4,6)}\""),
    ("inet", "\"10.0.0.1/8\"", "\"10.0.0.1/8\""),
    ("cidr", "\"10.0.0.0/8\"", "\"10.0.0.0/8\""),
    ("macaddr", "\"08:00:2b:01:02:03\"", "\"08:00:2b:01:02:03\""),
    ("xml", "\"<a>é</a>\"", "\"<a>é</a>\""),
    ("bit", "\"101\"", "\"101\""),
    ("oid", "\"26\"", "\"26\""),
    ("money", "\"$1.50\"", "\"$1.50\""),
    ("point", "\"(1,2)\"", "\"(1,2)\""),
    ("tsvector", "\"'a' 'b'\"", "\"'a' 'b'\""),
];

/// A type, a value that the gateway or the database must refuse, and how.
const REFUSED: &[(&str, &str, Kind)] = &[
    ("int2", "32768", Kind::InvalidArguments),
    ("int4", "5.5", Kind::InvalidArguments),
    ("int4", "\"5\"", Kind::InvalidArguments),
    ("int8", "9223372036854775808", Kind::InvalidArguments),
    ("bool", "\"true\"", Kind::InvalidArguments),
    ("numeric", "\"twelve\"", Kind::InvalidParams),
    ("uuid", "\"x\"", Kind::InvalidParams),
    ("date", "\"2026-02-30\"", Kind::Unprocessable),
    ("text", r#""\u0000""#, Kind::InvalidParams),
    ("bytea", "\"*\"", Kind::InvalidParams),
    ("api.mood", "\"angry\"", Kind::InvalidArguments),
    ("api.percent", "101", Kind::InvalidArguments),
    ("api.code", "\"ab\"", Kind::InvalidArguments),
    ("api.code", "\"ABCDE-1234\"", Kind::InvalidArguments),
    ("api.code", "null", Kind::InvalidArguments),
    ("api.even", "3", Kind::Unprocessable),
    ("int4[]", "[\"a\"]", Kind::InvalidArguments),
    ("int4[]", "[[1],[2,3]]", Kind::InvalidParams),
    ("int4range", "\"[5\"", Kind::InvalidParams),
    ("int4range", "\"[5,1)\"", Kind::Unprocessable),
    (
        "tstzrange",
        "\"[2026-02-02,2026-01-01]\"",
        Kind::Unprocessable,
    ),
    ("int4multirange", "\"{[5,1)}\"", Kind::Unprocessable),
    ("int4[]", "\"[2:1]={1,2}\"", Kind::InvalidArguments),
    ("bit", "\"102\"", Kind::InvalidParams),
    ("xml", "\"<a>\"", Kind::InvalidParams),
    ("interval", "\"P99999999999Y\"", Kind::Unprocessable),
    (
        "timestamptz",
        "\"2026-01-01T00:00:00+99\"",
        Kind::Unprocessable,
    ),
];

/// Values that fit few types or none.
const HOSTILE: &[&str] = &[
    "\"\"",
    "\"x\"",
    "\"[5,1)\"",
    "\"{[5,1)}\"",
    "\"[2:1]={1,2}\"",
    "\"{1,{2}}\"",
    "\"1e999999\"",
    "\"-1\"",
    "\"99999999999999999999999999999\"",
    "\"2026-13-45\"",
    "\"999999-01-01\"",
    "\"2026-01-01T00:00:00+99\"",
    "\"2026-01-01 Nowhere/Town\"",
    "\"25:61:61\"",
    "\"P99999999999Y\"",
    "\"99999999999999 years\"",
    "\"<a>\"",
    "\"<?xml version='9'?><a/>\"",
    "\"((\"",
    "\"(1e999,0)\"",
    "\"a & | b\"",
    "\"'\"",
    "\"\\\\x0\"",
    "\"\\\\\"",
    "\"300.0.0.1/99\"",
    "\"$1,0\"",
    "\"\\ud800\"",
    "true",
    "-1",
    "1e400",
    "99999999999999999999999999999",
    "0.5",
    "{}",
    "{\"x\": {}}",
    "[]",
    "[{}]",
    "[[[[[[[1]]]]]]]",
    "[[1],[2,3]]",
    "[[1],2]",
];

#[tokio::test]
async fn a_value_that_does_not_fit_is_the_fault_of_its_caller() {
    let mut kinds: Vec<&str> = ROUND_TRIPS.iter().map(|(kind, ..)| *kind).collect();
    kinds.extend([
        "varbit",
        "tstzrange",
        "tstzmultirange",
        "datemultirange",
        "numrange",
        "box",
        "lseg",
        "path",
        "polygon",
        "circle",
        "line",
    ]);
    kinds.extend([
        "macaddr8",
        "pg_lsn",
        "xid8",
        "timestamptz[]",
        "int4range[]",
        "xml[]",
        "bytea[][]",
    ]);
    kinds.extend(["tsquery", "jsonpath"]);
    kinds.sort_unstable();
    kinds.dedup();
    let mut sql = TYPES.to_owned();
    for (at, kind) in kinds.iter().enumerate() {
        sql.push_str(&format!(
            "CREATE FUNCTION api.take_{at}(v {kind}) RETURNS text LANGUAGE sql STABLE AS 'SELECT v::text';"
        ));
    }
    let gateway = gateway(&sql, |settings| settings.expose = Expose::All).await;
    assert_eq!(gateway.backend.status().notices, [""; 0]);
    let mut wrong = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        for sent in HOSTILE {
            let answer = gateway
                .call(&format!("take_{at}"), &format!(r#"{{"v": {sent}}}"#))
                .await;
            let fits = [
                Kind::InvalidArguments,
                Kind::InvalidParams,
                Kind::Unprocessable,
            ];
            if let Err(fault) = answer
                && !fits.contains(&fault.kind)
            {
                wrong.push(format!(
                    "{kind} {sent}: {:?} {fault} {:?}",
                    fault.kind, fault.data
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn values_of_every_type_go_both_ways() {
    let mut kinds: Vec<&str> = ROUND_TRIPS.iter().map(|(kind, ..)| *kind).collect();
    kinds.extend(REFUSED.iter().map(|(kind, ..)| *kind));
    kinds.sort_unstable();
    kinds.dedup();
    let mut sql = TYPES.to_owned();
    let name = |kind: &str| {
        let at = kinds.iter().position(|known| *known == kind).unwrap();
        format!("echo_{at}")
    };
    for kind in &kinds {
        let name = name(kind);
        sql.push_str(&format!(
            "CREATE FUNCTION api.{name}(v {kind}) RETURNS {kind} LANGUAGE sql STABLE AS 'SELECT v';
             CREATE FUNCTION api.{name}_rows(v {kind}) RETURNS SETOF {kind} LANGUAGE sql STABLE AS 'SELECT v UNION ALL SELECT v';
             CREATE FUNCTION api.{name}_columns(INOUT v {kind}, OUT n int) LANGUAGE sql STABLE AS 'SELECT v, 1';"
        ));
    }
    let gateway = gateway(&sql, |settings| settings.expose = Expose::All).await;
    let mut wrong = Vec::new();
    for (kind, sent, returned) in ROUND_TRIPS {
        let (name, arguments) = (name(kind), format!(r#"{{"v": {sent}}}"#));
        for (tool, wanted) in [
            (name.clone(), format!(r#"{{"result":{returned}}}"#)),
            (
                format!("{name}_rows"),
                format!(r#"{{"rows":[{returned},{returned}],"truncated":false}}"#),
            ),
            (
                format!("{name}_columns"),
                format!(r#"{{"v":{returned},"n":1}}"#),
            ),
        ] {
            let before = gateway.misfits(&tool);
            let answer = gateway.call(&tool, &arguments).await;
            let answer = answer.unwrap_or_else(|fault| format!("{:?} {fault}", fault.kind));
            if answer != wanted {
                wrong.push(format!("{kind} {sent}: {answer}, not {wanted}"));
            }
            if gateway.misfits(&tool) > before {
                wrong.push(format!(
                    "{kind} {sent}: {answer} does not fit the output schema"
                ));
            }
        }
    }
    for kind in kinds.iter().filter(|kind| **kind != "api.code") {
        let (name, arguments) = (name(kind), r#"{"v": null}"#);
        for (tool, wanted) in [
            (name.clone(), r#"{"result":null}"#),
            (
                format!("{name}_rows"),
                r#"{"rows":[null,null],"truncated":false}"#,
            ),
            (format!("{name}_columns"), r#"{"v":null,"n":1}"#),
        ] {
            let answer = gateway.call(&tool, arguments).await;
            let answer = answer.unwrap_or_else(|fault| format!("{:?} {fault}", fault.kind));
            if answer != wanted || gateway.misfits(&tool) > 0 {
                wrong.push(format!("{kind} null: {answer}, not {wanted}"));
            }
        }
    }
    for (kind, sent, wanted) in REFUSED {
        let outcome = gateway
            .call(&name(kind), &format!(r#"{{"v": {sent}}}"#))
            .await;
        let kind_of = outcome.map_err(|fault| fault.kind);
        if kind_of != Err(*wanted) {
            wrong.push(format!("{kind} {sent}: {kind_of:?}, not {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn composites_are_objects_at_any_depth() {
    let sql = format!(
        "{TYPES}
        CREATE FUNCTION api.line(v api.line) RETURNS api.line LANGUAGE sql STABLE AS 'SELECT v';
        CREATE FUNCTION api.lines(v api.line) RETURNS SETOF api.line LANGUAGE sql STABLE AS 'SELECT v';
        CREATE FUNCTION api.no_line() RETURNS api.line LANGUAGE sql STABLE AS 'SELECT NULL::api.line';
        CREATE FUNCTION api.point() RETURNS api.point3 LANGUAGE sql STABLE AS 'SELECT NULL::api.point3';"
    );
    let gateway = gateway(&sql, |settings| settings.expose = Expose::All).await;
    let line = r#"{"name":"é","points":[{"x":1,"y":1.25,"z z":"a"}],"from":{"x":null,"y":-0.5},"raw":"AP8="}"#;
    let back = r#"{"name":"é","points":[{"x":1,"y":1.25,"z z":"a"}],"from":{"x":null,"y":-0.50,"z z":null},"raw":"AP8="}"#;
    // Bytes within a composite are PostgreSQL's own hexadecimal form.
    let sent = line.replace("AP8=", r"\\x00ff");
    let arguments = format!(r#"{{"v":{sent}}}"#);
    assert_eq!(gateway.call("line", &arguments).await.unwrap(), back);
    let rows = format!(r#"{{"rows":[{back}],"truncated":false}}"#);
    assert_eq!(gateway.call("lines", &arguments).await.unwrap(), rows);
    let nothing = r#"{"name":null,"points":null,"from":null,"raw":null}"#;
    assert_eq!(gateway.call("no_line", "{}").await.unwrap(), nothing);
    assert_eq!(
        gateway.call("point", "{}").await.unwrap(),
        r#"{"x":null,"y":null,"z z":null}"#
    );
    for tool in ["line", "lines", "no_line", "point"] {
        assert_eq!(gateway.misfits(tool), 0, "{tool}");
    }
    for wrong in [
        r#"{"v":{"nme":"a"}}"#,
        r#"{"v":{"from":{"x":1.5}}}"#,
        r#"{"v":[]}"#,
    ] {
        assert_eq!(
            gateway.refusal("line", wrong).await,
            Kind::InvalidArguments,
            "{wrong}"
        );
    }
}
