//! What a small catalog with every kind of schema is written as. The runtimes are the same in every file and are
//! checked by the suite `rest`, with the compilers of both languages.

use serde_json::json;

use super::*;

/// A catalog with what generated code can stumble over: in schemas, in names and in what strangers say.
fn api() -> Api {
    let search = json!({
        "name": "search", "description": "Finds things.\nEvil: */ alert(1) /* \"\"\" \\ \u{202e}",
        "annotations": {"readOnlyHint": true},
        "inputSchema": {
            "type": "object", "required": ["query", "filter"],
            "properties": {
                "query": {"type": "string", "description": "What to look for"},
                "limit": {"type": "integer", "default": 10},
                "filter": {"$ref": "#/$defs/Filter"},
                "order": {"enum": ["asc", "desc", null]},
                "page-size": {"type": ["number", "null"]},
                "class": {"const": true},
                "box": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "minItems": 1},
                "labels": {"type": "object", "additionalProperties": {"type": "array", "items": {"enum": [1, 2.5]}}},
            },
            "$defs": {
                "Filter": {"oneOf": [
                    {"type": "object", "required": ["and"], "properties": {"and": {"type": "array", "items": {"$ref": "#/$defs/Filter"}}}},
                    {"type": "object", "properties": {"not": {"$ref": "#/$defs/Filter"}, "self": {"$ref": "#"}}},
                    {"type": "string"},
                ]},
            },
        },
        "outputSchema": {
            "allOf": [
                {"type": "object", "required": ["total"], "properties": {"total": {"type": "integer"}}},
                {"$ref": "#/definitions/Base"},
            ],
            "definitions": {"Base": {"type": "object", "properties": {"next": {"type": "string", "nullable": true}}}},
        },
    });
    let odd = json!({
        "name": "n8n__größe 😀\"\n", "annotations": {"destructiveHint": true},
        "inputSchema": {"type": "object"},
    });
    let same = json!({"name": "search!", "inputSchema": {"type": "object", "properties": {}}});
    let number = json!({"name": "2fa", "inputSchema": {
        "type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": {"type": "string"},
    }});
    let prompt = json!({"name": "greet", "description": "Greets", "arguments": [
        {"name": "who", "required": true, "description": "Whom"}, {"name": "from"},
    ]});
    Api::new(&[search, odd, same, number], &[prompt])
}

#[test]
fn a_15_types_in_typescript() {
    let mut out = String::new();
    typescript::types(&api(), &mut out);
    insta::assert_snapshot!(out);
}

#[test]
fn a_15_types_in_python() {
    let (mut out, mut namespaces) = (String::new(), String::new());
    python::types(&api(), &mut out, &mut namespaces);
    insta::assert_snapshot!(format!("{out}{namespaces}"));
}

#[test]
fn a_15_equal_catalogs_give_equal_files_without_an_address() {
    let forward = [
        json!({"name": "a", "inputSchema": {}}),
        json!({"name": "b", "inputSchema": {}}),
    ];
    let backward = [forward[1].clone(), forward[0].clone()];
    for language in [Language::Typescript, Language::Python] {
        let text = Api::new(&forward, &[]).write(language);
        assert_eq!(text, Api::new(&backward, &[]).write(language));
        assert!(
            !text.contains("://127.0.0.1")
                && text.lines().next().is_some_and(|line| line.contains(MARK))
        );
        let url = Some("https://gateway.example.com".to_owned());
        let text = Api::new(&forward, &[]).with_base_url(url).write(language);
        assert!(text.contains("\"https://gateway.example.com\""));
    }
}

#[test]
fn a_reference_to_itself_alone_is_any_value() {
    let schema = json!({
        "$ref": "#/$defs/a",
        "$defs": {
            "a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "string"}]},
            "b": {"allOf": [{"$ref": "#/$defs/a"}]},
            "c": {"$ref": "https://elsewhere.example/schema"},
        },
    });
    let declared = schema::declare(&schema, "Root", &mut names::Names::default());
    let of: Vec<_> = declared
        .iter()
        .map(|one| (one.name.as_str(), &one.of))
        .collect();
    assert_eq!(of[0], ("Root", &Type::Named("RootA".to_owned())));
    assert_eq!(of[1], ("RootA", &Type::Any));
    assert_eq!(of[2], ("RootB", &Type::Any));
}

#[test]
fn combinations_that_contain_themselves_end() {
    let schema = json!({
        "type": "object",
        "properties": {"child": {"allOf": [{"$ref": "#"}, {"type": "object", "properties": {"more": {"type": "string"}}}]}},
    });
    let tool = json!({"name": "deep", "inputSchema": schema});
    let (mut out, mut namespaces) = (String::new(), String::new());
    python::types(&Api::new(&[tool], &[]), &mut out, &mut namespaces);
    assert_eq!(out.matches("class DeepInput").count(), 2, "{out}");
}

/// Each level doubles what the one above combines.
#[test]
fn combinations_do_not_explode() {
    let mut schema = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}});
    for at in 0..30 {
        let next = json!({"$ref": format!("#/$defs/d{}", at + 1)});
        let other = json!({"type": "object", "properties": {format!("p{at}"): {"type": "string"}}});
        schema["$defs"][format!("d{at}")] = json!({"allOf": [
            {"oneOf": [next, other]}, {"oneOf": [next, {"type": "object", "properties": {"q": next}}]},
        ]});
    }
    let tool = json!({"name": "maze", "inputSchema": schema});
    let api = Api::new(&[tool], &[]);
    let (mut out, mut namespaces) = (String::new(), String::new());
    python::types(&api, &mut out, &mut namespaces);
    typescript::types(&api, &mut out);
    assert!(out.len() < 2_000_000, "{}", out.len());
}
