use super::*;

fn types(rows: Vec<(u32, &str, &str, TypeKind)>) -> Types {
    let row = |(oid, schema, name, kind): (u32, &str, &str, TypeKind)| {
        let row = TypeRow {
            schema: schema.to_owned(),
            name: name.to_owned(),
            kind,
            comment: None,
            is_cast_to_json: name == "hstore",
        };
        (oid, row)
    };
    Types::new(rows.into_iter().map(row).collect())
}

#[test]
fn base_types_have_schemas() {
    for (name, modifier, wanted) in [
        ("bool", -1, json!({"type": "boolean"})),
        (
            "int2",
            -1,
            json!({"type": "integer", "minimum": -32768, "maximum": 32767}),
        ),
        (
            "numeric",
            -1,
            json!({"type": ["number", "string"], "description": "exact decimal; long ones and NaN as strings"}),
        ),
        (
            "numeric",
            ((10 << 16) | 2) + 4,
            json!({"type": ["number", "string"], "description": "exact decimal of 10 digits, 2 after the point; long ones and NaN as strings"}),
        ),
        (
            "numeric",
            ((3 << 16) | (2048 - 2)) + 4,
            json!({"type": ["number", "string"], "description": "exact decimal of 3 digits; long ones and NaN as strings"}),
        ),
        (
            "float8",
            -1,
            json!({"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}),
        ),
        ("varchar", 14, json!({"type": "string", "maxLength": 10})),
        ("bpchar", -1, json!({"type": "string"})),
        (
            "bytea",
            -1,
            json!({"type": "string", "contentEncoding": "base64"}),
        ),
        ("json", -1, json!({})),
        ("uuid", -1, json!({"type": "string", "format": "uuid"})),
        (
            "timestamptz",
            -1,
            json!({"type": "string", "format": "date-time"}),
        ),
        (
            "tsvector",
            -1,
            json!({"type": "string", "description": "as PostgreSQL writes the type tsvector"}),
        ),
    ] {
        let types = types(vec![(1, "pg_catalog", name, TypeKind::Base)]);
        assert_eq!(types.schema(1, modifier), Ok(wanted), "{name} {modifier}");
    }
    // A type of the same name elsewhere is another type.
    let types = types(vec![
        (1, "public", "bool", TypeKind::Base),
        (2, "public", "hstore", TypeKind::Base),
    ]);
    assert_eq!(
        types.schema(1, -1),
        Ok(json!({"type": "string", "description": "as PostgreSQL writes the type bool"}))
    );
    assert_eq!(types.schema(2, -1), Ok(json!({})));
    assert_eq!(types.class(1), Class::Other);
}

#[test]
fn composed_types_have_the_schemas_of_their_parts() {
    let attribute = |name: &str, kind| Attribute {
        name: name.to_owned(),
        kind,
        modifier: -1,
        comment: (name == "c").then(|| "a comment".to_owned()),
    };
    let domain = |base, is_not_null| TypeKind::Domain {
        base,
        modifier: -1,
        is_not_null,
        checks: vec![],
    };
    let types = types(vec![
        (1, "pg_catalog", "text", TypeKind::Base),
        (
            2,
            "x",
            "mood",
            TypeKind::Enum(vec!["a".to_owned(), "b".to_owned()]),
        ),
        (3, "x", "_mood", TypeKind::Array(2)),
        (4, "x", "needed", domain(1, true)),
        (
            5,
            "x",
            "pair",
            TypeKind::Composite(vec![attribute("c", 4), attribute("d", 3)]),
        ),
        (6, "x", "of_pair", domain(5, false)),
        (7, "pg_catalog", "anyelement", TypeKind::Pseudo),
        (8, "x", "odd", TypeKind::Composite(vec![attribute("c", 7)])),
        (9, "x", "circle", TypeKind::Array(9)),
        (10, "pg_catalog", "bytea", TypeKind::Base),
        (
            11,
            "x",
            "with_bytes",
            TypeKind::Composite(vec![attribute("b", 10)]),
        ),
        (12, "x\"y", "z", domain(10, false)),
    ]);
    let moods = json!({"type": "array", "items": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "array"}, {"type": "null"}]}});
    assert_eq!(types.schema(3, -1), Ok(moods.clone()));
    let mut nullable = moods;
    nullable["type"] = json!(["array", "null"]);
    let pair = json!({"type": "object", "properties": {
        "c": {"type": "string", "description": "a comment"}, "d": nullable,
    }, "additionalProperties": false});
    assert_eq!(types.schema(5, -1), Ok(pair.clone()));
    assert_eq!(types.schema(6, -1), Ok(pair));
    assert_eq!(
        (types.class(6), types.attributes(6).len()),
        (Class::Composite, 2)
    );
    assert_eq!(
        types.schema(7, -1),
        Err(Unsupported::Pseudo("anyelement".to_owned()))
    );
    assert_eq!(
        types.schema(8, -1),
        Err(Unsupported::Pseudo("anyelement".to_owned()))
    );
    assert_eq!(types.schema(9, -1), Err(Unsupported::TooLarge));
    assert_eq!(types.schema(99, -1), Err(Unsupported::Unknown));
    let inner = &types.schema(11, -1).expect("a schema")["properties"]["b"];
    assert_eq!(
        inner["description"],
        "bytes in hexadecimal, such as \\x0a1b"
    );
    assert_eq!(
        types.schema(12, -1),
        Ok(json!({"type": "string", "contentEncoding": "base64"}))
    );
    assert_eq!(types.sql(12), Ok("\"x\"\"y\".\"z\"".to_owned()));
    assert!(types.is_not_null(4) && !types.is_not_null(1));
}
