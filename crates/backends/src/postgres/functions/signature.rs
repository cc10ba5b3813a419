//! What a function takes and returns, as schemas and as its calls need it.

use serde_json::{Map, Value, json};

use super::catalog::{Argument, Function, Mode};
use super::comment::Comment;
use super::declare::Problem;
use super::statement::{Column, Form, Parameter, Returns};
use super::types::{Class, Types, allow, describe};

/// A parameter as callers see it.
pub(super) struct Shown {
    pub(super) name: String,
    pub(super) schema: Value,
    pub(super) description: Option<String>,
    pub(super) is_required: bool,
}

/// The schema of an object that has these members and no others.
pub(super) fn object(properties: Map<String, Value>, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema["additionalProperties"] = false.into();
    schema
}

pub(super) fn parameter(
    argument: &Argument,
    comment: &Comment,
    types: &Types,
) -> Result<Parameter, Problem> {
    if argument.name.is_empty() {
        return Err(Problem::Unnamed);
    }
    let sql = types.sql(argument.kind).map_err(|why| Problem::Parameter {
        name: argument.name.clone(),
        why,
    })?;
    Ok(Parameter {
        name: argument.name.clone(),
        sql,
        form: match types.class(argument.kind) {
            Class::Integer => Form::Whole,
            Class::Bytes => Form::Bytes,
            _ => Form::Plain,
        },
        has_default: argument.default.is_some(),
        is_variadic: argument.mode == Mode::Variadic,
        bound: comment.bound(&argument.name),
    })
}

/// What callers see of a parameter. Null is a value of it, unless the function is STRICT: that is not called then.
pub(super) fn show(
    argument: &Argument,
    parameter: &Parameter,
    is_strict: bool,
    comment: &Comment,
    types: &Types,
) -> Result<Shown, Problem> {
    let schema = types.schema(argument.kind, -1);
    let mut schema = schema.map_err(|why| Problem::Parameter {
        name: argument.name.clone(),
        why,
    })?;
    if let Some(members) = schema.as_object_mut() {
        if let Some(text) = comment
            .about(&argument.name)
            .filter(|text| !text.is_empty())
        {
            describe(members, text);
        }
        let default = argument.default.as_deref();
        let default = default.and_then(|default| constant(default, types.class(argument.kind)));
        if let Some(default) = default {
            members.insert("default".to_owned(), default);
        }
    }
    let description = schema
        .get("description")
        .and_then(Value::as_str)
        .map(str::to_owned);
    if !is_strict && !types.is_not_null(argument.kind) {
        allow(&mut schema, "null");
    }
    Ok(Shown {
        name: argument.name.clone(),
        schema,
        description,
        is_required: parameter.is_required(),
    })
}

/// The value of a DEFAULT that is a constant: a literal, or one with a cast.
fn constant(expression: &str, class: Class) -> Option<Value> {
    let (literal, cast) = expression.split_once("::").unwrap_or((expression, ""));
    let is_type = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | '_' | '"');
    if !cast.chars().all(is_type) {
        return None;
    }
    let text = || {
        let text = literal.strip_prefix('\'')?.strip_suffix('\'')?;
        (!text.contains('\'')).then_some(text)
    };
    let number = || {
        let negative = literal
            .strip_prefix('(')
            .and_then(|text| text.strip_suffix(')'));
        negative
            .or_else(text)
            .unwrap_or(literal)
            .parse::<i64>()
            .ok()
    };
    match class {
        Class::Bool => literal.parse::<bool>().ok().map(Value::from),
        Class::Integer | Class::Number => number().map(Value::from),
        Class::Text | Class::Enum | Class::Uuid => text().map(Value::from),
        _ => None,
    }
}

/// What a function returns, and the schema of its structured content.
pub(super) fn returns(function: &Function, types: &Types) -> Result<(Returns, Value), Problem> {
    let outputs: Vec<&Argument> = function
        .arguments
        .iter()
        .filter(|one| one.mode.is_output())
        .collect();
    let class = types.class(function.returns);
    let columns: Option<Vec<(String, u32, i32)>> = match (&outputs[..], class) {
        // A single column of a composite type is its columns.
        ([] | [_], Class::Composite) => {
            let attributes = types.attributes(function.returns).iter();
            Some(
                attributes
                    .map(|one| (one.name.clone(), one.kind, one.modifier))
                    .collect(),
            )
        }
        ([], Class::Record) => return Err(Problem::Record),
        ([one], _) if one.name.is_empty() => None,
        ([], _) => None,
        (several, _) => {
            let named = several
                .iter()
                .enumerate()
                .map(|(at, one)| match one.name.as_str() {
                    "" => (format!("column{}", at + 1), one.kind, -1),
                    name => (name.to_owned(), one.kind, -1),
                });
            Some(named.collect())
        }
    };
    let nullable = |kind: u32, modifier: i32| {
        let mut schema = types.schema(kind, modifier).map_err(Problem::Result)?;
        if !types.is_not_null(kind) {
            allow(&mut schema, "null");
        }
        Ok(schema)
    };
    let is_bytes = |kind: u32| types.class(kind) == Class::Bytes;
    let (returns, one) = match columns {
        Some(columns) => {
            let mut properties = Map::new();
            for (name, kind, modifier) in &columns {
                properties.insert(name.clone(), nullable(*kind, *modifier)?);
            }
            let required: Vec<&str> = columns.iter().map(|(name, ..)| name.as_str()).collect();
            let schema = object(properties, &required);
            let column = |(name, kind, _): &(String, u32, i32)| Column {
                name: name.clone(),
                is_bytes: is_bytes(*kind),
            };
            let mut named: Vec<Column> = columns.iter().map(column).collect();
            match outputs.len() == 1 && class != Class::Composite {
                true => (Returns::Single(named.remove(0)), schema),
                false => (Returns::Columns(named), schema),
            }
        }
        None if class == Class::Void => (Returns::Nothing, json!({ "type": "null" })),
        None => {
            let is_bytes = is_bytes(function.returns);
            (Returns::Value { is_bytes }, nullable(function.returns, -1)?)
        }
    };
    let mut properties = Map::new();
    let schema = match (function.returns_set, &returns) {
        (true, _) => {
            properties.insert("rows".to_owned(), json!({ "type": "array", "items": one }));
            let text = "there are more rows than are shown";
            let truncated = json!({ "type": "boolean", "description": text });
            properties.insert("truncated".to_owned(), truncated);
            object(properties, &["rows", "truncated"])
        }
        (false, Returns::Value { .. } | Returns::Nothing) => {
            properties.insert("result".to_owned(), one);
            object(properties, &["result"])
        }
        (false, _) => one,
    };
    Ok((returns, schema))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_shown_where_they_are_constants() {
        for (class, expression, wanted) in [
            (Class::Bool, "true", Some(json!(true))),
            (Class::Integer, "10", Some(json!(10))),
            (Class::Integer, "'-5'::integer", Some(json!(-5))),
            (Class::Integer, "(-5)", Some(json!(-5))),
            (Class::Integer, "'5'::bigint", Some(json!(5))),
            (Class::Number, "1", Some(json!(1))),
            (Class::Number, "1.5", None),
            (Class::Text, "'a b'::text", Some(json!("a b"))),
            (Class::Text, "''::character varying", Some(json!(""))),
            (Class::Enum, "'m'::api.size", Some(json!("m"))),
            (Class::Text, "'it''s'::text", None),
            (Class::Text, "'a::b'::text", None),
            (Class::Text, "NULL::text", None),
            (Class::Text, "CURRENT_USER", None),
            (Class::Text, "('a'::text || 'b'::text)", None),
            (Class::Text, "'a'::text || 'b'::text", None),
            (Class::Integer, "nextval('s'::regclass)", None),
            (Class::Integer, "1 + 1", None),
            (Class::Integer, "length('5'::text)", None),
            (Class::Other, "now()", None),
        ] {
            assert_eq!(constant(expression, class), wanted, "{expression}");
        }
    }
}
