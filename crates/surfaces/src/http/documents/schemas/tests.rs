use super::source::DEPTH_MAX;
use super::*;

fn added(schemas: &[(&str, Value)]) -> (Vec<String>, Value) {
    let mut components = Components::default();
    let names = schemas
        .iter()
        .map(|(name, schema)| components.add(name, Some(schema), false).name);
    let names = names.collect();
    (names, Value::Object(components.into_schemas()))
}

/// Every reference in a document leads to a component.
fn all_resolve(value: &Value, root: &Value) {
    match value {
        Value::Object(all) => {
            if let Some(Value::String(target)) = all.get("$ref") {
                let name = target
                    .strip_prefix("#/components/schemas/")
                    .expect("a component");
                assert!(root.get(name).is_some(), "{target}");
            }
            all.values().for_each(|inner| all_resolve(inner, root));
        }
        Value::Array(all) => all.iter().for_each(|inner| all_resolve(inner, root)),
        _ => {}
    }
}

#[test]
fn equal_schemas_have_one_name_however_they_are_written() {
    let inline = json!({"type": "object", "required": ["a", "b"], "properties": {
        "a": {"type": "object", "properties": {"x": {"type": "integer"}}}, "b": {"type": "string"}}});
    let by_reference = json!({"$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"b": {"type": "string"}, "a": {"$ref": "#/definitions/A%20b"}}, "required": ["b", "a"],
        "type": "object", "definitions": {"A b": {"properties": {"x": {"type": "integer"}}, "type": "object"}}});
    let whole = json!({"$ref": "#/$defs/T", "$defs": {"T": inline}});
    let other = json!({"type": "object", "properties": {"b": {"type": "string"}}});
    let (names, all) = added(&[
        ("one", inline),
        ("two", by_reference),
        ("three", whole),
        ("four", other),
    ]);
    assert_eq!(names, ["One", "One", "One", "Four"]);
    assert_eq!(
        all.as_object()
            .expect("an object")
            .keys()
            .collect::<Vec<_>>(),
        ["Four", "One", "OneA"]
    );
    all_resolve(&all, &all);
}

#[test]
fn a_definition_of_a_taken_name_gets_another() {
    let with = |inner: &str| {
        json!({"type": "object", "properties": {"f": {"$ref": "#/$defs/Filter"}},
            "$defs": {"Filter": {"type": "object", "properties": {"x": {"type": inner}}}}})
    };
    let (names, all) = added(&[
        ("a", with("string")),
        ("b", with("integer")),
        ("c", with("string")),
    ]);
    assert_eq!(names, ["A", "B", "A"]);
    assert_eq!(all["A"]["properties"]["f"], reference("Filter"));
    assert_eq!(all["B"]["properties"]["f"], reference("BFFilter"));
    all_resolve(&all, &all);
}

#[test]
fn recursive_schemas_refer_to_themselves() {
    let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}, "value": {"type": "string"}}});
    let list = |name: &str| {
        json!({"type": "object", "properties": {"head": {"$ref": format!("#/$defs/{name}")}},
            "$defs": {name: {"type": "object", "properties": {"next": {"$ref": format!("#/$defs/{name}")}}}}})
    };
    let (names, all) = added(&[
        ("tree", tree),
        ("list", list("Node")),
        ("other", list("Knot")),
    ]);
    assert_eq!(names, ["Tree", "List", "List"]);
    assert_eq!(all["Tree"]["properties"]["left"], reference("Tree"));
    assert_eq!(all["Node"]["properties"]["next"], reference("Node"));
    all_resolve(&all, &all);
}

#[test]
fn references_that_lead_nowhere_stand_for_anything() {
    let (_, all) = added(&[(
        "a",
        json!({"type": "object", "properties": {
        "gone": {"$ref": "#/$defs/none"}, "far": {"$ref": "https://example.com/x.json"},
        "round": {"$ref": "#/properties/round"}, "words": {"$ref": "#/properties/far/$ref"},
        "to_yes": {"$ref": "#/$defs/yes"}, "to_no": {"$ref": "#/$defs/no"}}, "$defs": {"yes": true, "no": false}}),
    )]);
    for property in ["gone", "far", "round", "words", "to_yes"] {
        assert_eq!(all["A"]["properties"][property], json!({}), "{property}");
    }
}

#[test]
fn a_schema_beyond_the_bounds_is_any_object_and_leaves_nothing_behind() {
    let mut deep = json!({"type": "string"});
    for _ in 0..2 * DEPTH_MAX {
        deep = json!({"type": "object", "properties": {"x": deep}});
    }
    let chain = |n: usize| json!({"type": "object", "properties": {"x": {"$ref": format!("#/$defs/d{}", n + 1)}}});
    let defs: Map<String, Value> = (0..2 * DEPTH_MAX)
        .map(|n| (format!("d{n}"), chain(n)))
        .collect();
    let chained =
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs});
    // Every definition refers to every other: what they hash to depends on where one begins.
    let names: Vec<String> = (0..12).map(|n| format!("d{n}")).collect();
    let node: Map<String, Value> = names
        .iter()
        .map(|n| (n.clone(), json!({"$ref": format!("#/$defs/{n}")})))
        .collect();
    let defs: Map<String, Value> = names
        .iter()
        .map(|n| (n.clone(), json!({"type": "object", "properties": node})))
        .collect();
    let clique = json!({"type": "object", "properties": node, "$defs": defs});
    let (names, all) = added(&[("deep", deep), ("chained", chained), ("clique", clique)]);
    assert_eq!(names, ["AnyObject"; 3]);
    assert_eq!(all.as_object().map(Map::len), Some(1));
    all_resolve(&all, &all);
}

#[test]
fn objects_and_enumerations_inside_of_others_have_names() {
    let (_, all) = added(&[(
        "find",
        json!({"type": "object", "properties": {
        "filter": {"type": "object", "properties": {"by": {"type": "string", "enum": ["name", "age"]}}},
        "sorts": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
        "free": {"type": "object"}}}),
    )]);
    assert_eq!(all["Find"]["properties"]["filter"], reference("FindFilter"));
    assert_eq!(
        all["Find"]["properties"]["sorts"]["items"],
        reference("FindSortsItem")
    );
    assert_eq!(
        all["FindFilter"]["properties"]["by"],
        reference("FindFilterBy")
    );
    assert_eq!(all["Find"]["properties"]["free"], json!({"type": "object"}));
}

#[test]
fn alternatives_with_constants_have_a_discriminator() {
    let shape = |kind: &str| json!({"type": "object", "required": ["kind"], "properties": {"kind": {"const": kind}}});
    let (_, all) = added(&[(
        "draw",
        json!({"type": "object", "properties": {
        "shape": {"oneOf": [shape("circle"), shape("square")]}, "same": {"oneOf": [shape("a"), shape("a")]}}}),
    )]);
    let discriminator = &all["Draw"]["properties"]["shape"]["discriminator"];
    assert_eq!(discriminator["propertyName"], "kind");
    assert_eq!(
        discriminator["mapping"]["square"],
        "#/components/schemas/DrawShapeOption2"
    );
    assert_eq!(all["Draw"]["properties"]["same"].get("discriminator"), None);
}

#[test]
fn many_ways_through_a_schema_are_walked_once() {
    let way = |n: usize| {
        let next = json!({"$ref": format!("#/$defs/way{}", n + 1)});
        (
            format!("way{n}"),
            json!({"required": ["a"], "allOf": [next, next]}),
        )
    };
    let mut defs: Map<String, Value> = (0..30).map(way).collect();
    defs.insert("way30".to_owned(), json!({"type": "string"}));
    let (_, all) = added(&[(
        "maze",
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/way0"}}, "$defs": defs}),
    )]);
    assert_eq!(all.as_object().map(Map::len), Some(32));
    all_resolve(&all, &all);
}
