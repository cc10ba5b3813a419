//! Whether a schema's default is a value of the schema.

use serde_json::{Map, Value};

/// Whether a default is one that the schema itself allows, as far as its own keywords tell: validators refuse others.
pub(super) fn fits(value: &Value, schema: &Map<String, Value>) -> bool {
    let is_of = |name: &str| match name {
        "string" => value.is_string(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null() || schema.get("nullable") == Some(&Value::Bool(true)),
        _ => true,
    };
    let is_nullable = schema.get("nullable") == Some(&Value::Bool(true)) && value.is_null();
    let of_type = match schema.get("type") {
        Some(Value::String(name)) => is_of(name) || is_nullable,
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).any(is_of) || is_nullable,
        _ => true,
    };
    let listed = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
    let in_enum = listed("enum").is_none_or(|all| all.contains(value) || is_nullable);
    let is_const = schema.get("const").is_none_or(|only| only == value);
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let in_bounds = value.as_f64().is_none_or(|n| {
        bound("minimum").is_none_or(|min| n >= min)
            && bound("maximum").is_none_or(|max| n <= max)
            && bound("exclusiveMinimum").is_none_or(|min| n > min)
            && bound("exclusiveMaximum").is_none_or(|max| n < max)
    });
    let count = match value {
        Value::String(text) => Some(("minLength", "maxLength", text.chars().count())),
        Value::Array(all) => Some(("minItems", "maxItems", all.len())),
        _ => None,
    };
    let counted = count.is_none_or(|(min, max, count)| {
        let count = count as f64;
        bound(min).is_none_or(|min| count >= min) && bound(max).is_none_or(|max| count <= max)
    });
    let complete = value.as_object().is_none_or(|object| {
        let required = listed("required").into_iter().flatten();
        required
            .filter_map(Value::as_str)
            .all(|name| object.contains_key(name))
    });
    of_type && in_enum && is_const && in_bounds && counted && complete
}
