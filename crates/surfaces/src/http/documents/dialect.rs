//! One schema object of any draft as OpenAPI 3.1 has it, which is JSON Schema 2020-12.
//!
//! Tools declare their schemas in the draft that their author knew. Keywords of older drafts become those of today;
//! keywords that are none, or have a value that the meta-schema refuses, are left out. So are names and references, which
//! the caller handles (`schemas`). Nothing is followed here: subschemas go through a function.

mod defaults;

use serde_json::{Map, Value, json};

use defaults::fits;

/// Where a subschema stands.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Property(&'a str),
    Items,
    /// A value of an object whose names are not known.
    Values,
    Alternative(usize),
    Other,
}

const TYPES: [&str; 7] = [
    "string", "number", "integer", "boolean", "array", "object", "null",
];

/// A failure of `rewrite`'s function, which ends it.
pub(super) type Rewritten<E> = Result<Value, E>;

/// Rewrites one schema, its subschemas by `each`. `$ref` is not looked at.
pub(super) fn rewrite<'s, E>(
    schema: &'s Value,
    each: &mut dyn FnMut(Place<'s>, &'s Value) -> Rewritten<E>,
) -> Rewritten<E> {
    let Some(object) = schema.as_object() else {
        let is_never = *schema == Value::Bool(false);
        // Some generators read no booleans where a schema is expected.
        return Ok(if is_never {
            json!({ "not": {} })
        } else {
            json!({})
        });
    };
    let mut out = Map::new();
    for (keyword, value) in object {
        if let Some((keyword, value)) = subschemas(object, keyword, value, each)? {
            out.insert(keyword, value);
        } else if let Some(value) = plain(object, keyword, value) {
            out.insert(keyword.clone(), value);
        }
    }
    split_dependencies(object, &mut out, each)?;
    allow_null(object, &mut out);
    Ok(Value::Object(out))
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// A keyword that holds schemas.
fn subschemas<'s, E>(
    object: &'s Map<String, Value>,
    keyword: &'s str,
    value: &'s Value,
    each: &mut dyn FnMut(Place<'s>, &'s Value) -> Rewritten<E>,
) -> Result<Option<(String, Value)>, E> {
    let tuple = object.get("items").is_some_and(Value::is_array);
    let (name, rewritten) = match (keyword, value) {
        ("properties" | "patternProperties" | "dependentSchemas", Value::Object(all)) => {
            let mut out = Map::new();
            for (name, schema) in all.iter().filter(|(_, schema)| is_schema(schema)) {
                let place = match keyword {
                    "properties" => Place::Property(name),
                    _ => Place::Other,
                };
                out.insert(name.clone(), each(place, schema)?);
            }
            (keyword, Value::Object(out))
        }
        ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(all)) => {
            (keyword, list(keyword, all, each)?)
        }
        ("items", Value::Array(all)) => ("prefixItems", list("prefixItems", all, each)?),
        ("additionalItems", schema) if tuple && is_schema(schema) => {
            ("items", each(Place::Other, schema)?)
        }
        ("items", schema) if is_schema(schema) => (keyword, each(Place::Items, schema)?),
        ("additionalProperties", Value::Bool(_)) => (keyword, value.clone()),
        ("additionalProperties", Value::Object(_)) => (keyword, each(Place::Values, value)?),
        (
            "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "contentSchema"
            | "unevaluatedItems"
            | "unevaluatedProperties",
            schema,
        ) if is_schema(schema) => (keyword, each(Place::Other, schema)?),
        _ => return Ok(None),
    };
    let is_empty_list = rewritten.as_array().is_some_and(Vec::is_empty);
    Ok((!is_empty_list).then(|| (name.to_owned(), rewritten)))
}

fn list<'s, E>(
    keyword: &str,
    all: &'s [Value],
    each: &mut dyn FnMut(Place<'s>, &'s Value) -> Rewritten<E>,
) -> Rewritten<E> {
    let mut out = Vec::with_capacity(all.len());
    for (at, schema) in all
        .iter()
        .enumerate()
        .filter(|(_, schema)| is_schema(schema))
    {
        let place = match keyword {
            "anyOf" | "oneOf" => Place::Alternative(at),
            _ => Place::Other,
        };
        out.push(each(place, schema)?);
    }
    Ok(Value::Array(out))
}

/// A keyword without schemas in it; `None` where it is not one of today's, or not with this value.
fn plain(object: &Map<String, Value>, keyword: &str, value: &Value) -> Option<Value> {
    let keep = |fits: bool| fits.then(|| value.clone());
    match keyword {
        "type" => types(value),
        "enum" => {
            keep(value.as_array().is_some_and(|all| !all.is_empty()) && !has_reference(value))
        }
        "const" => keep(!has_reference(value)),
        "default" => keep(!has_reference(value) && fits(value, object)),
        "examples" => keep(value.is_array() && !has_reference(value)),
        "example" if !object.contains_key("examples") => keep(!has_reference(value)),
        "required" => names(value),
        "dependentRequired" => keep(
            value
                .as_object()
                .is_some_and(|all| all.values().all(|each| names(each).as_ref() == Some(each))),
        ),
        "title" | "description" | "pattern" | "format" | "contentEncoding" | "contentMediaType" => {
            keep(value.is_string())
        }
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => keep(value.is_u64()),
        "multipleOf" => keep(value.as_f64().is_some_and(|number| number > 0.0)),
        // Until draft 4 the exclusive bounds were marks on the others.
        "minimum" => {
            keep(value.is_number() && object.get("exclusiveMinimum") != Some(&Value::Bool(true)))
        }
        "maximum" => {
            keep(value.is_number() && object.get("exclusiveMaximum") != Some(&Value::Bool(true)))
        }
        "exclusiveMinimum" => exclusive(value, object.get("minimum")),
        "exclusiveMaximum" => exclusive(value, object.get("maximum")),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => keep(value.is_boolean()),
        extension => keep(extension.starts_with("x-") && !has_reference(value)),
    }
}

fn types(value: &Value) -> Option<Value> {
    let known = |value: &&Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::String(_) => known(&value).then(|| value.clone()),
        Value::Array(all) => {
            let mut found: Vec<Value> = Vec::new();
            for one in all.iter().filter(known) {
                if !found.contains(one) {
                    found.push(one.clone());
                }
            }
            match found.len() {
                0 => None,
                1 => found.pop(),
                _ => Some(Value::Array(found)),
            }
        }
        _ => None,
    }
}

/// A list of names, each once.
fn names(value: &Value) -> Option<Value> {
    let all = value.as_array()?;
    let mut found: Vec<Value> = Vec::new();
    for name in all.iter().filter(|name| name.is_string()) {
        if !found.contains(name) {
            found.push(name.clone());
        }
    }
    Some(Value::Array(found))
}

fn exclusive(value: &Value, bound: Option<&Value>) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::Bool(true) => bound.filter(|bound| bound.is_number()).cloned(),
        _ => None,
    }
}

/// Whether a value of the author's holds what readers of the document would follow.
pub(super) fn has_reference(value: &Value) -> bool {
    match value {
        Value::Object(all) => all.contains_key("$ref") || all.values().any(has_reference),
        Value::Array(all) => all.iter().any(has_reference),
        _ => false,
    }
}

/// `dependencies` of the older drafts are two keywords today.
fn split_dependencies<'s, E>(
    object: &'s Map<String, Value>,
    out: &mut Map<String, Value>,
    each: &mut dyn FnMut(Place<'s>, &'s Value) -> Rewritten<E>,
) -> Result<(), E> {
    let Some(all) = object.get("dependencies").and_then(Value::as_object) else {
        return Ok(());
    };
    for (name, depends_on) in all {
        let (keyword, value) = match depends_on {
            Value::Array(_) => match names(depends_on) {
                Some(names) => ("dependentRequired", names),
                None => continue,
            },
            schema if is_schema(schema) => ("dependentSchemas", each(Place::Other, schema)?),
            _ => continue,
        };
        let all = out
            .entry(keyword)
            .or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(all) = all {
            all.entry(name.clone()).or_insert(value);
        }
    }
    Ok(())
}

/// `nullable` of OpenAPI 3.0 is a type today.
fn allow_null(object: &Map<String, Value>, out: &mut Map<String, Value>) {
    if object.get("nullable") != Some(&Value::Bool(true)) {
        return;
    }
    let null = Value::from("null");
    match out.get_mut("type") {
        Some(Value::Array(all)) if !all.contains(&null) => all.push(null),
        Some(one @ Value::String(_)) if *one != null => {
            let one_of_two = vec![one.take(), null];
            *one = Value::Array(one_of_two);
        }
        _ => return,
    }
    if let Some(Value::Array(all)) = out.get_mut("enum")
        && !all.contains(&Value::Null)
    {
        all.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(schema: &Value) -> Value {
        fn each<'s>(_: Place<'s>, schema: &'s Value) -> Rewritten<()> {
            rewrite(schema, &mut each)
        }
        each(Place::Other, schema).expect("it cannot fail")
    }

    #[test]
    fn older_drafts_become_2020_12() {
        for (old, new) in [
            (
                json!({"$schema": "x", "$id": "y", "type": "string"}),
                json!({"type": "string"}),
            ),
            (
                json!({"items": [{"type": "string"}], "additionalItems": false}),
                json!({"prefixItems": [{"type": "string"}], "items": {"not": {}}}),
            ),
            (
                json!({"minimum": 1, "exclusiveMinimum": true}),
                json!({"exclusiveMinimum": 1}),
            ),
            (
                json!({"minimum": 1, "exclusiveMinimum": false}),
                json!({"minimum": 1}),
            ),
            (
                json!({"type": "string", "nullable": true}),
                json!({"type": ["string", "null"]}),
            ),
            (
                json!({"dependencies": {"a": ["b"], "c": {"type": "object"}}}),
                json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"type": "object"}}}),
            ),
            (
                json!({"type": ["any", "string"]}),
                json!({"type": "string"}),
            ),
            (json!(true), json!({})),
            (json!(false), json!({"not": {}})),
            (
                json!({"properties": {"type": {"type": "file"}}}),
                json!({"properties": {"type": {}}}),
            ),
        ] {
            assert_eq!(rewritten(&old), new, "{old}");
        }
    }

    #[test]
    fn what_the_meta_schema_refuses_is_left_out() {
        for bad in [
            json!({"required": true}),
            json!({"examples": "x"}),
            json!({"minLength": -1}),
            json!({"allOf": []}),
            json!({"enum": {}}),
            json!({"type": "strin"}),
            json!({"properties": []}),
            json!({"default": {"$ref": "#/x"}}),
            json!({"discriminator": "kind"}),
            json!({"unknown": 1}),
        ] {
            assert_eq!(rewritten(&bad), json!({}), "{bad}");
        }
    }

    #[test]
    fn a_default_that_its_schema_refuses_is_left_out() {
        for (schema, stays) in [
            (json!({"type": "integer", "default": 5}), true),
            (json!({"type": "integer", "default": 5.0}), true),
            (json!({"type": "integer", "default": "5"}), false),
            (json!({"type": "string", "default": null}), false),
            (
                json!({"type": "string", "nullable": true, "default": null}),
                true,
            ),
            (json!({"enum": ["a"], "default": "b"}), false),
            (json!({"maximum": 3, "default": 4}), false),
            (json!({"minItems": 1, "default": []}), false),
            (json!({"required": ["a"], "default": {}}), false),
        ] {
            assert_eq!(
                rewritten(&schema).get("default").is_some(),
                stays,
                "{schema}"
            );
        }
    }
}
