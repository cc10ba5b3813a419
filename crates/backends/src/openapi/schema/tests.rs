use super::*;

/// A document with these schemas, by version.
fn document(version: &str, schemas: Value) -> Document {
    let root = json!({ "openapi": version, "components": { "schemas": schemas } });
    Document::new(root).expect("a description")
}

#[track_caller]
fn check(version: &str, schema: Value, expected: Value) {
    let document = document(version, json!({}));
    let converted = Converter::new(&document).convert(&schema, Direction::Input);
    assert_eq!(converted, expected, "{version}: {schema}");
}

#[test]
fn o_3_schemas_of_3_0_become_2020_12() {
    for (old, new) in [
        (
            json!({"type": "string", "nullable": true}),
            json!({"type": ["string", "null"]}),
        ),
        (
            json!({"type": "string", "nullable": true, "enum": ["a"]}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
        ),
        (
            json!({"nullable": true, "allOf": [{"type": "object"}]}),
            json!({"anyOf": [{"allOf": [{"type": "object"}]}, {"type": "null"}]}),
        ),
        (json!({"nullable": true}), json!({})),
        (
            json!({"nullable": false, "type": "string"}),
            json!({"type": "string"}),
        ),
        (
            json!({"type": "number", "minimum": 1, "exclusiveMinimum": true}),
            json!({"type": "number", "exclusiveMinimum": 1}),
        ),
        (
            json!({"type": "number", "maximum": 9, "exclusiveMaximum": false}),
            json!({"type": "number", "maximum": 9}),
        ),
        (json!({"exclusiveMaximum": true}), json!({})),
        (
            json!({"type": "string", "example": "x"}),
            json!({"type": "string", "examples": ["x"]}),
        ),
        (
            json!({"type": "string", "format": "byte"}),
            json!({"type": "string", "contentEncoding": "base64"}),
        ),
        (
            json!({"oneOf": [{"type": "string"}, {}], "discriminator": {"propertyName": "a"}, "xml": {}, "x-y": 1}),
            json!({"oneOf": [{"type": "string"}, {}]}),
        ),
        (json!({"type": "file"}), json!({"type": "string"})),
    ] {
        check("3.0.3", old, new);
    }
}

#[test]
fn o_3_schemas_of_3_1_stay() {
    for schema in [
        json!({"type": ["string", "null"], "examples": ["a"]}),
        json!({"exclusiveMinimum": 1, "const": 2}),
        json!({"type": "array", "prefixItems": [{"type": "string"}], "items": false}),
        json!({"if": {"type": "string"}, "then": {"minLength": 1}}),
    ] {
        check("3.1.0", schema.clone(), schema);
    }
}

#[test]
fn o_3_what_would_not_compile_is_left_out() {
    for (bad, good) in [
        (json!({"type": "objekt", "required": true}), json!({})),
        (
            json!({"type": "string", "maxLength": "5", "minLength": -1}),
            json!({"type": "string"}),
        ),
        (
            json!({"multipleOf": 0, "enum": [], "allOf": [], "properties": []}),
            json!({}),
        ),
        (
            json!({"enum": [1, 1], "required": ["a", "a", 1]}),
            json!({"enum": [1], "required": ["a"]}),
        ),
        (json!({"$ref": "#/nowhere"}), json!({})),
        (
            json!({"$id": "http://x/", "$schema": "http://y/", "$dynamicRef": "#z"}),
            json!({}),
        ),
    ] {
        check("3.1.0", bad, good);
    }
}

#[test]
fn o_3_members_that_go_the_other_way_are_left_out() {
    let schemas = json!({ "Id": { "type": "integer", "readOnly": true } });
    let document = document("3.0.3", schemas);
    let schema = json!({
        "type": "object",
        "required": ["id", "secret", "own"],
        "properties": {
            "id": { "$ref": "#/components/schemas/Id" },
            "own": { "type": "string", "readOnly": true },
            "secret": { "type": "string", "writeOnly": true },
        },
    });
    let of = |direction| Converter::new(&document).convert(&schema, direction);
    assert_eq!(
        of(Direction::Input),
        json!({"type": "object", "required": ["secret"], "properties": {"secret": {"type": "string"}}})
    );
    let output = of(Direction::Output);
    assert_eq!(output["required"], json!(["id", "own"]));
    assert_eq!(output["properties"]["id"], json!({"type": "integer"}));
}

#[test]
fn o_3_references_are_replaced_and_circles_become_definitions() {
    let schemas = json!({
        "Leaf": { "type": "string" },
        "Tree": {
            "type": "object",
            "properties": {
                "leaf": { "$ref": "#/components/schemas/Leaf" },
                "children": { "type": "array", "items": { "$ref": "#/components/schemas/Tree" } },
            },
        },
        "Loop": { "$ref": "#/components/schemas/Loop" },
    });
    let document = document("3.0.3", schemas);
    let of = |name: &str| {
        let schema = json!({ "$ref": format!("#/components/schemas/{name}"), "description": "d" });
        Converter::new(&document).convert(&schema, Direction::Input)
    };
    assert_eq!(of("Leaf"), json!({"type": "string", "description": "d"}));
    let children = json!({"type": "array", "items": {"$ref": "#/$defs/Tree"}});
    assert_eq!(
        of("Tree"),
        json!({
            "type": "object",
            "properties": {"leaf": {"type": "string"}, "children": children},
            "description": "d",
            "$defs": {"Tree": {"type": "object", "properties": {"leaf": {"type": "string"}, "children": children}}},
        })
    );
    assert_eq!(of("Loop"), json!({}));
}

#[test]
fn o_9_schemas_that_explode_are_cut() {
    // Each refers to the next one ten times: 10^30 parts if written out.
    let mut schemas = Map::new();
    for n in 0..30 {
        let next = json!({ "$ref": format!("#/components/schemas/S{}", n + 1) });
        let members: Map<String, Value> =
            (0..10).map(|m| (format!("m{m}"), next.clone())).collect();
        schemas.insert(
            format!("S{n}"),
            json!({ "type": "object", "properties": members }),
        );
    }
    schemas.insert("S30".into(), json!({ "type": "string" }));
    let document = document("3.0.3", Value::Object(schemas));
    let schema = json!({ "$ref": "#/components/schemas/S0" });
    let converted = Converter::new(&document).convert(&schema, Direction::Input);
    assert!(converted.to_string().len() < BYTES_MAX);
    assert_eq!(
        converted["$defs"].as_object().expect("definitions").len(),
        31
    );
    // Wide: thousands of different ones.
    let wide: Map<String, Value> = (0..20_000)
        .map(|n| (format!("p{n}"), json!({ "type": "string" })))
        .collect();
    let wide = json!({ "type": "object", "properties": { "a": { "properties": wide } } });
    let converted = Converter::new(&document).convert(&wide, Direction::Input);
    assert!(converted.to_string().len() < BYTES_MAX);
}
