use serde_json::json;

use super::*;

fn applied(class: Class, base: Value, check: &str) -> Value {
    let Value::Object(mut schema) = base else {
        panic!("a schema is an object");
    };
    apply(&[check.to_owned()], class, &mut schema);
    Value::Object(schema)
}

/// The conditions are as PostgreSQL prints them.
#[test]
fn simple_conditions_become_keywords() {
    let text = || json!({ "type": "string" });
    let int = || json!({ "type": "integer", "minimum": -32768, "maximum": 32767 });
    let numeric = || json!({ "type": ["number", "string"] });
    for (class, base, check, wanted) in [
        (
            Class::Integer,
            int(),
            "CHECK ((VALUE > 0))",
            json!({"type": "integer", "exclusiveMinimum": 0, "maximum": 32767}),
        ),
        (
            Class::Integer,
            int(),
            "CHECK (((VALUE >= 1) AND (VALUE <= 10)))",
            json!({"type": "integer", "minimum": 1, "maximum": 10}),
        ),
        (
            Class::Integer,
            int(),
            "CHECK (((VALUE >= '-5'::integer) AND (VALUE < 10))) NOT VALID",
            json!({"type": "integer", "minimum": -5, "exclusiveMaximum": 10}),
        ),
        (Class::Integer, int(), "CHECK ((VALUE < 100000))", int()),
        (
            Class::Integer,
            int(),
            "CHECK ((VALUE = ANY (ARRAY[1, 2, 3])))",
            json!({"type": "integer", "minimum": -32768, "maximum": 32767, "enum": [1, 2, 3]}),
        ),
        (
            Class::Number,
            numeric(),
            "CHECK ((VALUE >= 0.5))",
            json!({"type": ["number", "string"], "minimum": 0.5}),
        ),
        (
            Class::Number,
            numeric(),
            "CHECK ((VALUE > (0)::numeric))",
            json!({"type": ["number", "string"], "exclusiveMinimum": 0}),
        ),
        (
            Class::Number,
            json!({}),
            "CHECK ((VALUE <= (1.5)::double precision))",
            json!({"maximum": 1.5}),
        ),
        (
            Class::Text,
            text(),
            "CHECK ((VALUE ~ '^[a-z0-9_.-]+$'::text))",
            json!({"type": "string", "pattern": "^[a-z0-9_.-]+$"}),
        ),
        (
            Class::Text,
            text(),
            "CHECK (((VALUE)::text ~ '^[A-Z]{2}-\\d+(a|b)?$'::text))",
            json!({"type": "string", "pattern": "^[A-Z]{2}-\\d+(a|b)?$"}),
        ),
        (
            Class::Text,
            text(),
            "CHECK ((VALUE ~ 'it''s, AND (more'::text))",
            json!({"type": "string", "description": "must satisfy VALUE ~ 'it''s, AND (more'::text"}),
        ),
        (
            Class::Text,
            text(),
            "CHECK ((length(VALUE) <= 10))",
            json!({"type": "string", "maxLength": 10}),
        ),
        (
            Class::Text,
            text(),
            "CHECK (((char_length((VALUE)::text) > 2) AND (length((VALUE)::text) < 9)))",
            json!({"type": "string", "minLength": 3, "maxLength": 8}),
        ),
        (
            Class::Text,
            json!({"type": "string", "maxLength": 5}),
            "CHECK ((length((VALUE)::text) = 7))",
            json!({"type": "string", "maxLength": 5, "minLength": 7}),
        ),
        (
            Class::Text,
            text(),
            "CHECK ((VALUE <> ''::text))",
            json!({"type": "string", "minLength": 1}),
        ),
        (
            Class::Text,
            text(),
            "CHECK (((VALUE IS NOT NULL) AND (VALUE <> ''::text)))",
            json!({"type": "string", "minLength": 1}),
        ),
        (
            Class::Text,
            text(),
            "CHECK ((VALUE = ANY (ARRAY['a, b'::text, 'c''d'::text])))",
            json!({"type": "string", "enum": ["a, b", "c'd"]}),
        ),
        (
            Class::Text,
            text(),
            "CHECK (((VALUE)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[])))",
            json!({"type": "string", "enum": ["a", "b"]}),
        ),
    ] {
        assert_eq!(applied(class, base, check), wanted, "{check}");
    }
}

#[test]
fn what_is_not_certain_is_described() {
    for (class, check) in [
        (Class::Integer, "CHECK (((VALUE % 2) = 0))"),
        (
            Class::Integer,
            "CHECK (((VALUE > 0) OR (VALUE < '-5'::integer)))",
        ),
        (Class::Integer, "CHECK ((VALUE <> 5))"),
        (Class::Integer, "CHECK ((abs(VALUE) > 5))"),
        (Class::Text, "CHECK ((VALUE ~* '^[a-z]+$'::text))"),
        (Class::Text, "CHECK ((VALUE !~ '^[a-z]+$'::text))"),
        (Class::Text, "CHECK ((VALUE ~ '^.+$'::text))"),
        (Class::Text, "CHECK ((VALUE ~ '^\\w+$'::text))"),
        (Class::Text, "CHECK ((VALUE ~ '(?i)abc'::text))"),
        (Class::Text, "CHECK ((VALUE ~ '***=abc'::text))"),
        (Class::Text, "CHECK ((VALUE ~ '^a+?$'::text))"),
        (Class::Text, "CHECK ((VALUE ~ '[[:alpha:]]'::text))"),
        (Class::Text, "CHECK ((VALUE ~ '[z-a]'::text))"),
        (Class::Text, "CHECK ((VALUE ~ '(a'::text))"),
        (Class::Text, "CHECK ((VALUE ~ 'a{3,2}'::text))"),
        (Class::Text, "CHECK ((VALUE ~ 'a$b'::text))"),
        (Class::Text, "CHECK ((VALUE ~ '((a{99}){99}){99}'::text))"),
        (Class::Text, "CHECK ((VALUE ~ other.pattern()))"),
        (Class::Text, "CHECK ((lower(VALUE) = VALUE))"),
        (Class::Text, "CHECK ((octet_length(VALUE) < 5))"),
        (Class::Other, "CHECK ((VALUE > '2020-01-01'::date))"),
        (Class::Number, "CHECK ((VALUE < 1234567890.123456789))"),
        (
            Class::Json,
            "CHECK ((jsonb_typeof(VALUE) = 'object'::text))",
        ),
    ] {
        let schema = applied(class, json!({}), check);
        let members = schema.as_object().expect("an object");
        let told = members.get("description").and_then(Value::as_str);
        assert!(
            told.is_some_and(|told| told.starts_with("must satisfy ")),
            "{check}: {schema}"
        );
        assert_eq!(members.len(), 1, "{check}: {schema}");
    }
    let long = format!("CHECK ((VALUE = '{}'::text))", "é".repeat(5000));
    let schema = applied(
        Class::Text,
        json!({"type": "string", "description": "a code"}),
        &long,
    );
    let told = schema["description"].as_str().expect("a text");
    assert!(told.starts_with("a code; must satisfy VALUE = 'é") && told.chars().count() < 350);
    // Of a conjunction, the part that is understood counts as well.
    let both = applied(
        Class::Integer,
        json!({"type": "integer"}),
        "CHECK (((VALUE > 0) AND ((VALUE % 2) = 0)))",
    );
    assert_eq!(both["exclusiveMinimum"], 0);
    assert_eq!(
        both["description"],
        "must satisfy (VALUE > 0) AND ((VALUE % 2) = 0)"
    );
}
