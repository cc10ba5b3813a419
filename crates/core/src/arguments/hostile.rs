//! C-17: arguments are checked before any backend sees them, and neither a schema nor arguments make that cost more
//! than a bounded number of looks.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;

/// Long enough for an unoptimized build on a busy machine, and nothing to what these would take unbounded.
const PATIENCE: Duration = Duration::from_secs(60);

fn compiled(schema: &Value) -> Result<Compiled, String> {
    compile(schema.to_string().as_bytes()).map(|compiled| compiled.expect("asks for something"))
}

/// Issues, cost and allowance.
fn judged(schema: &Value, arguments: &Value) -> (Vec<Issue>, u64, u64) {
    let bytes = arguments.to_string().len() as u64;
    let (verdict, cost) = compiled(schema).expect("compiles").check(arguments, bytes);
    (
        verdict.err().unwrap_or_default(),
        cost,
        LOOKS_MAX + bytes * LOOKS_PER_BYTE,
    )
}

fn with_x(x: Value, defs: Value) -> Value {
    json!({"type": "object", "properties": {"x": x}, "$defs": defs})
}

/// Each definition uses the next twice.
fn doubling(keyword: &str, last: Value) -> Value {
    let mut defs = serde_json::Map::new();
    for at in 0..30 {
        let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
        defs.insert(format!("a{at}"), json!({keyword: [next, next]}));
    }
    defs.insert("a30".to_owned(), last);
    with_x(json!({"$ref": "#/$defs/a0"}), Value::Object(defs))
}

/// Each level may be one of two things that want the same of what is below.
fn two_kinds() -> Value {
    let kind = |name: &str| json!({"type": "object", "properties": {"c": {"$ref": "#/$defs/n"}}, "required": [name]});
    let n = json!({"anyOf": [kind("zz"), kind("yy"), {"type": "null"}]});
    with_x(json!({"$ref": "#/$defs/n"}), json!({"n": n}))
}

/// As above, where only one of many definitions is remembered by the crate.
fn long_way_round() -> Value {
    let mut defs = serde_json::Map::new();
    for at in 0..20 {
        let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
        defs.insert(format!("a{at}"), json!({"anyOf": [next, next]}));
    }
    let last =
        json!({"type": "object", "properties": {"c": {"$ref": "#/$defs/a0"}}, "required": ["zz"]});
    defs.insert("a20".to_owned(), last);
    with_x(json!({"$ref": "#/$defs/a0"}), Value::Object(defs))
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::Null, |inner, _| json!({"c": inner}))
}

/// `unevaluatedProperties` of each level asks all levels below once more.
fn unevaluated(levels: usize) -> Value {
    let innermost = json!({"properties": {"c": true}});
    (0..levels).fold(
        innermost,
        |inner, _| json!({"allOf": [inner], "unevaluatedProperties": {"type": "null"}}),
    )
}

fn chain(length: usize, link: impl Fn(Value) -> Value) -> Value {
    let mut defs = serde_json::Map::new();
    for at in 0..length {
        let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
        defs.insert(format!("a{at}"), link(next));
    }
    defs.insert(format!("a{length}"), json!({"type": "string"}));
    with_x(json!({"$ref": "#/$defs/a0"}), Value::Object(defs))
}

/// Distinct values that simple hashes take for one: numbers in binary, whose digits are empty.
fn empty_arrays() -> Vec<Value> {
    let digits = |n: u32| {
        (0..15).map(move |bit| {
            if n >> bit & 1 == 0 {
                json!([])
            } else {
                json!([[]])
            }
        })
    };
    (0..20_000).map(|n| digits(n).collect()).collect()
}

fn is_too_costly(issues: &[Issue]) -> bool {
    issues.len() == 1 && issues[0].message.contains(TOO_COSTLY)
}

#[test]
fn c_17_what_multiplies_without_end_is_refused_within_the_allowance() {
    let branches: Vec<Value> = (1..2000)
        .map(|n| json!({"type": "string", "minLength": n}))
        .collect();
    let false_branches = vec![json!(false); 3000];
    let wide = |item: Value| with_x(json!({"type": "array", "contains": item}), json!({}));
    let names: Vec<String> = (0..2000).map(|n| format!("n{n}")).collect();
    let optional: Vec<Value> = names
        .iter()
        .map(|name| json!({"not": {"required": [name]}}))
        .collect();
    let cases = [
        (
            "allOf",
            doubling("allOf", json!({"type": ["string", "number"]})),
            json!({"x": 1}),
        ),
        (
            "anyOf of nothing",
            doubling("anyOf", json!(false)),
            json!({"x": 1}),
        ),
        (
            "allOf of anything",
            doubling("allOf", json!(true)),
            json!({"x": 1}),
        ),
        (
            "oneOf of anything",
            doubling("oneOf", json!({})),
            json!({"x": 1}),
        ),
        (
            "not",
            doubling("allOf", json!({"not": false})),
            json!({"x": 1}),
        ),
        (
            "names",
            with_x(
                json!({"propertyNames": {"$ref": "#/$defs/a0"}}),
                doubling("allOf", json!(true))["$defs"].clone(),
            ),
            json!({"x": {"a": 1}}),
        ),
        (
            "a long way round",
            long_way_round(),
            json!({"x": nested(3)}),
        ),
        (
            "unevaluated",
            with_x(unevaluated(25), json!({})),
            json!({"x": {"c": 1, "d": null}}),
        ),
        (
            "many branches",
            wide(json!({"anyOf": branches})),
            json!({"x": vec![""; 20_000]}),
        ),
        (
            "many false branches",
            wide(json!({"anyOf": false_branches})),
            json!({"x": vec![1; 20_000]}),
        ),
        (
            "many names",
            wide(json!({"not": {"allOf": optional}})),
            json!({"x": vec![json!({"a": 1}); 5000]}),
        ),
    ];
    let began = Instant::now();
    for (name, schema, arguments) in cases {
        let (issues, cost, allowance) = judged(&schema, &arguments);
        assert!(is_too_costly(&issues), "{name}: {issues:?}");
        assert!(cost <= allowance, "{name}: {cost} of {allowance}");
    }
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn c_17_patterns_that_go_back_are_bounded_together() {
    let began = Instant::now();
    let evil = json!({"pattern": "^(a|aa)+(?=$)b"});
    let texts: Vec<String> = (0..2000).map(|n| "a".repeat(300 + n)).collect();
    let (issues, ..) = judged(
        &with_x(json!({"items": evil}), json!({})),
        &json!({"x": texts}),
    );
    assert!(!issues.is_empty());
    let many: Vec<Value> = (0..400)
        .map(|n| json!({"pattern": format!("^(a|aa|a{n})+(?=$)b")}))
        .collect();
    let (issues, ..) = judged(
        &with_x(json!({"allOf": many}), json!({})),
        &json!({"x": "a".repeat(100_000)}),
    );
    assert!(is_too_costly(&issues), "{issues:?}");
    let large = json!({"pattern": "[ab]*a[ab]{600}c"});
    let (issues, ..) = judged(
        &with_x(large, json!({})),
        &json!({"x": "ab".repeat(500_000)}),
    );
    assert!(is_too_costly(&issues), "{issues:?}");
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn c_17_fractions_are_priced_by_their_length() {
    let multiples = |of: f64| with_x(json!({"items": {"multipleOf": of}}), json!({}));
    let cost = |of: f64, number: f64| judged(&multiples(of), &json!({"x": vec![number; 1000]})).1;
    assert!(cost(1e-300, 1e300) > 10 * cost(0.5, 2.0));
    assert!(cost(0.5, 1e300) > 5 * cost(0.5, 2.0));
    let prices: Vec<f64> = (0..100_000).map(|n| f64::from(n) / 4.0).collect();
    let (issues, ..) = judged(&multiples(0.25), &json!({"x": prices}));
    assert!(issues.is_empty(), "{issues:?}");
}

#[test]
fn c_17_finding_out_what_is_wrong_is_bounded_too() {
    let (issues, cost, _) = judged(&two_kinds(), &json!({"x": nested(100)}));
    let whole = Issue::whole(format!("arguments: {NO_DETAILS}"));
    assert_eq!(issues, [whole]);
    // Wrong it is all the same, which was found at once.
    assert!(cost < 1000, "{cost}");
    // Where everything is wrong, the first thing is told.
    let numbers: Vec<u32> = (0..200_000).collect();
    let texts = with_x(json!({"items": {"type": "string"}}), json!({}));
    let (issues, ..) = judged(&texts, &json!({"x": numbers}));
    assert!(issues[0].to_string().starts_with("/x/0: "), "{issues:?}");
}

#[test]
fn c_17_large_arguments_to_plain_schemas_pass() {
    let unique = json!({"uniqueItems": true});
    let number = json!({"items": {"type": "number"}});
    let numbers: Vec<u32> = (0..200_000).collect();
    let arrays: Vec<Value> = (0..200_000).map(|n| json!([n])).collect();
    let objects: Vec<Value> = (0..60_000).map(|n| json!({"a": n})).collect();
    let text = json!({"type": "string", "pattern": "^a+$", "maxLength": 2_000_000});
    let password = json!({"items": {"pattern": "^(?=.*[A-Z])(?=.*[0-9]).{8,}$"}});
    let tree = with_x(
        json!({"$ref": "#/$defs/n"}),
        json!({"n": {"type": "object", "properties": {"c": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}}}),
    );
    for (schema, x) in [
        (with_x(number, json!({})), json!(numbers)),
        (with_x(unique.clone(), json!({})), json!(numbers)),
        (with_x(unique.clone(), json!({})), json!(arrays)),
        (with_x(unique, json!({})), json!(objects)),
        (with_x(text, json!({})), json!("a".repeat(1 << 20))),
        (
            with_x(password, json!({})),
            json!(vec!["Passw0rd-Passw0rd"; 20]),
        ),
        (tree, nested(100)),
    ] {
        let (issues, cost, allowance) = judged(&schema, &json!({"x": x}));
        assert!(issues.is_empty(), "{schema}: {issues:?}");
        assert!(cost < allowance, "{schema}: {cost} of {allowance}");
    }
}

#[test]
fn c_17_trees_whose_kinds_share_names_pass() {
    let kinds: Vec<Value> = (0..10)
        .map(|kind| {
            let children = json!({"type": "array", "items": {"$ref": "#/$defs/n"}});
            json!({"type": "object", "properties": {"children": children, "kind": {"const": format!("k{kind}")}}, "required": ["kind"]})
        })
        .collect();
    let schema = with_x(json!({"$ref": "#/$defs/n"}), json!({"n": {"oneOf": kinds}}));
    let tree = (0..20).fold(
        json!({"kind": "k9"}),
        |inner, at| json!({"kind": format!("k{}", at % 10), "children": [inner, {"kind": "k3"}]}),
    );
    let (issues, cost, _) = judged(&schema, &json!({"x": tree}));
    assert!(issues.is_empty(), "{issues:?}");
    assert!(cost < LOOKS_MAX / 10, "{cost}");
}

#[test]
fn c_17_duplicates_are_found_whatever_their_hashes() {
    let unique = with_x(json!({"uniqueItems": true}), json!({}));
    let alike: Vec<u64> = (0..100_000).map(|n| (1 << 63) + n).collect();
    for (items, duplicates) in [
        (json!([1, 2, 1.0]), true),
        (json!([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]), true),
        (json!([[], [[]], [[], []], null, "", 0, false, {}]), false),
        (json!((0..20).chain([7]).collect::<Vec<_>>()), true),
        (
            json!((0..20).map(f64::from).chain([-0.0]).collect::<Vec<_>>()),
            true,
        ),
        (
            json!(
                (0..20)
                    .map(|n| json!({"a": n, "b": 1}))
                    .chain([json!({"b": 1.0, "a": 3})])
                    .collect::<Vec<_>>()
            ),
            true,
        ),
        (
            json!((0..20).map(|n| json!({"a": n, "b": 1})).collect::<Vec<_>>()),
            false,
        ),
        (json!(alike), false),
    ] {
        let (issues, ..) = judged(&unique, &json!({"x": items}));
        assert_eq!(!issues.is_empty(), duplicates);
        assert!(!is_too_costly(&issues));
    }
    let began = Instant::now();
    let (issues, ..) = judged(&unique, &json!({"x": empty_arrays()}));
    assert!(issues.is_empty(), "{issues:?}");
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn c_17_what_compiling_would_multiply_is_not_compiled() {
    let large: Vec<Value> = (0..300)
        .map(|n| json!({"pattern": format!("^(a{{1,50}}){{1,20}}{n}$")}))
        .collect();
    let mut unevaluated = doubling("allOf", json!(true));
    unevaluated["properties"]["x"]["unevaluatedProperties"] = json!(false);
    let ten = vec![json!({"$ref": "#/$defs/a"}); 10];
    let pins = with_x(
        json!({"oneOf": vec![json!({"$ref": "#/$defs/a"}); 3]}),
        json!({"a": {"allOf": ten}}),
    );
    let ids: serde_json::Map<String, Value> = (0..20)
        .map(|n| {
            (
                format!("r{n}"),
                json!({"$id": format!("https://a/{n}"), "type": "string"}),
            )
        })
        .collect();
    let scopes = with_x(json!({"$ref": "https://a/1"}), Value::Object(ids));
    let into_value =
        json!({"properties": {"x": {"const": {"a": 1}}, "y": {"$ref": "#/properties/x/const/a"}}});
    let began = Instant::now();
    let places = vec![json!({"minLength": 1}); 10_000];
    let anchor = |at: u32| (format!("p{at}"), json!({"$anchor": "q", "$ref": "#q"}));
    let anchors: serde_json::Map<String, Value> = (0..2000).map(anchor).collect();
    for (name, schema) in [
        ("anchors", json!({"properties": anchors})),
        ("places", with_x(json!({"allOf": places}), json!({}))),
        ("patterns", with_x(json!({"allOf": large}), json!({}))),
        ("unevaluated", unevaluated),
        ("pins", pins),
        ("scopes", scopes),
        ("chain", chain(4000, |next| next)),
        ("a value", into_value),
        (
            "a name",
            json!({"properties": {"x".repeat(10_000): {"type": "string"}}}),
        ),
        (
            "a dialect",
            json!({"$vocabulary": {}, "type": "object", "properties": {"a": false}}),
        ),
    ] {
        assert!(compiled(&schema).is_err(), "{name}");
    }
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn c_17_circles_end() {
    let began = Instant::now();
    let circle = json!({"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}});
    let itself = json!({"a": {"allOf": [{"$ref": "#/$defs/a"}]}});
    let twice = json!({"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}});
    let dynamic =
        json!({"a": {"$dynamicAnchor": "n", "anyOf": [{"$dynamicRef": "#n"}, {"type": "string"}]}});
    let nest = (0..100).fold(
        json!({"$ref": "#/$defs/a"}),
        |inner, _| json!({"not": inner}),
    );
    let nest = json!({"a": {"properties": {"y": nest}}});
    for defs in [circle, itself, twice, dynamic, nest] {
        let schema = with_x(json!({"$ref": "#/$defs/a"}), defs);
        let old = json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": schema["$defs"]});
        for schema in [schema, old] {
            if let Ok(compiled) = compiled(&schema) {
                let (_, cost) = compiled.check(&json!({"x": 1}), 7);
                assert!(cost < LOOKS_MAX, "{schema}");
            }
        }
    }
    assert!(began.elapsed() < PATIENCE);
}

/// Compiling nests as deep as definitions do, several of them within each other.
#[test]
fn c_17_depth_does_not_overflow_the_stack() {
    let defs: serde_json::Map<String, Value> = (0..20)
        .map(|at| {
            let next = json!({"$ref": format!("#/$defs/a{}", (at + 1) % 20)});
            let deep = (0..118).fold(next, |inner, _| json!({"not": inner}));
            (format!("a{at}"), deep)
        })
        .collect();
    let schema = with_x(json!({"$ref": "#/$defs/a0"}), Value::Object(defs));
    let (issues, cost, allowance) = judged(&schema, &json!({"x": nested(100)}));
    assert!(cost <= allowance, "{issues:?}");
    // Where there is room for it or not is for the build to say: it ends, and with a number for a text not well.
    let schema = chain(3000, |next| json!({"allOf": [next]}));
    let (issues, cost, allowance) = judged(&schema, &json!({"x": 1}));
    assert!(!issues.is_empty() && cost <= allowance);
}

/// What the crate says without us.
fn plain(schema: &Value, arguments: &Value) -> Option<bool> {
    let validator = jsonschema::options().offline().build(schema).ok()?;
    Some(validator.is_valid(arguments))
}

fn small_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..4i32).prop_map(Value::from),
        (-3..4i32).prop_map(|n| json!(f64::from(n) / 2.0)),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[abc]", inner, 0..3).prop_map(|members| json!(members)),
        ]
    })
}

fn small_schema() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec![
        "array", "boolean", "integer", "null", "number", "object", "string",
    ]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        Just(json!({})),
        kind.prop_map(|kind| json!({"type": kind})),
        small_value().prop_map(|value| json!({"const": value})),
        prop::collection::vec(small_value(), 1..4).prop_map(|options| json!({"enum": options})),
        prop::sample::select(vec!["[ab]", "a+b", "^(?!b)"])
            .prop_map(|pattern| json!({"pattern": pattern})),
        (0..3u32).prop_map(|n| json!({"minLength": n, "maxItems": n + 1, "minimum": n})),
        Just(json!({"uniqueItems": true})),
        Just(json!({"required": ["a"], "minProperties": 1})),
        prop::sample::select(vec!["#", "#/$defs/d", "#/$defs/e", "#here"])
            .prop_map(|to| json!({"$ref": to})),
        Just(json!({"$dynamicRef": "#here"})),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        let three = (inner.clone(), inner.clone(), inner.clone());
        prop_oneof![
            (prop::sample::select(vec!["allOf", "anyOf", "oneOf"]), list.clone())
                .prop_map(|(keyword, list)| json!({keyword: list})),
            inner.clone().prop_map(|inner| json!({"not": inner})),
            three.clone().prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            three.clone().prop_map(|(a, b, c)| json!({"properties": {"a": a, "b": b}, "additionalProperties": c})),
            three.clone().prop_map(|(a, b, c)| json!({"properties": {"a": a}, "allOf": [b], "unevaluatedProperties": c})),
            three.clone().prop_map(|(a, b, c)| json!({"patternProperties": {"^a": a}, "propertyNames": b, "dependentSchemas": {"a": c}})),
            three.prop_map(|(a, b, c)| json!({"prefixItems": [a], "contains": b, "unevaluatedItems": c})),
            (list, inner).prop_map(|(list, items)| json!({"prefixItems": list, "items": items})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn c_17_counting_changes_no_verdict(
        x in small_schema(),
        d in small_schema(),
        e in small_schema(),
        value in small_value(),
    ) {
        let e = match e {
            Value::Object(mut members) => {
                members.insert("$anchor".to_owned(), json!("here"));
                Value::Object(members)
            }
            _ => json!({"$anchor": "here"}),
        };
        let schema = json!({"properties": {"x": x}, "required": ["x"], "$defs": {"d": d, "e": e}});
        let arguments = json!({"x": value});
        let expected = plain(&schema, &arguments);
        match compiled(&schema) {
            Ok(compiled) => {
                let (verdict, _) = compiled.check(&arguments, 0);
                prop_assert_eq!(Some(verdict.is_ok()), expected);
                prop_assert!(!is_too_costly(&verdict.err().unwrap_or_default()));
            }
            Err(why) => prop_assert!(expected.is_none(), "{}", why),
        }
    }
}
