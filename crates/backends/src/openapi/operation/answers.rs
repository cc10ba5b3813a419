//! What an operation answers when all is well: the media types, and one schema for all of them.

use serde_json::{Map, Value, json};

use super::Output;
use crate::openapi::document::{Document, flag};
use crate::openapi::media::{bare, is_json};
use crate::openapi::schema::{Converter, Direction};

/// What an operation answers when all is well.
pub(super) struct Answers<'a> {
    pub(super) accept: String,
    /// The schemas of JSON answers; `None` where an answer is something else.
    schemas: Vec<Option<&'a Value>>,
    document: &'a Document,
}

impl<'a> Answers<'a> {
    pub(super) fn of(document: &'a Document, operation: &'a Value) -> Self {
        let all: Vec<_> = document.members(operation.get("responses")).collect();
        let good = |status: &str| status.starts_with('2');
        let some_good = all.iter().any(|(status, _)| good(status));
        let mut accept: Vec<String> = Vec::new();
        let mut schemas = Vec::new();
        for (status, response) in all {
            // `default` is usually the error.
            if !good(status) && (some_good || status != "default") {
                continue;
            }
            let contents: Vec<_> = document.members(response.get("content")).collect();
            accept.extend(contents.iter().map(|(name, _)| bare(name)));
            let json = contents.iter().find(|(name, _)| is_json(name));
            schemas.push(json.and_then(|(_, media)| media.get("schema")));
        }
        accept.sort_by_key(|name| !is_json(name));
        accept.dedup();
        accept.truncate(8);
        accept.retain(|name| name.bytes().all(|b| b.is_ascii_graphic() && b != b','));
        if !accept.iter().any(|name| name == "*/*") {
            accept.push(
                if accept.is_empty() {
                    "application/json, */*;q=0.5"
                } else {
                    "*/*;q=0.1"
                }
                .to_owned(),
            );
        }
        Self {
            accept: accept.join(", "),
            schemas,
            document,
        }
    }

    /// A schema only if every good answer is JSON of a known form: clients refuse results that differ.
    pub(super) fn output(&self, converter: &Converter<'_>) -> (Output, Option<Value>) {
        let all: Option<Vec<&Value>> = self.schemas.iter().copied().collect();
        let Some(all) = all.filter(|all| !all.is_empty()) else {
            return (Output::Free, None);
        };
        let objects = all.iter().all(|schema| self.is_object(schema, 0));
        let mut converted: Vec<Value> = Vec::new();
        for schema in all {
            let schema = converter.convert(schema, Direction::Output);
            if !converted.contains(&schema) {
                converted.push(schema);
            }
        }
        let schema = match (converted.len(), converted.pop()) {
            (1, Some(one)) => one,
            // Definitions are found from the root of a schema only.
            _ => json!({}),
        };
        if objects {
            let mut schema = match schema {
                Value::Object(members) => members,
                _ => Map::new(),
            };
            // As MCP wants it: a reference or `allOf` alone does not say so.
            schema.insert("type".to_owned(), json!("object"));
            return (Output::Object, Some(Value::Object(schema)));
        }
        let mut inner = schema;
        let definitions = inner
            .as_object_mut()
            .and_then(|inner| inner.shift_remove("$defs"));
        let mut outer = json!({
            "type": "object", "properties": { "result": inner }, "required": ["result"],
        });
        if let Some(definitions) = definitions {
            outer["$defs"] = definitions;
        }
        (Output::Wrapped, Some(outer))
    }

    /// Whether a schema allows objects only.
    fn is_object(&self, schema: &Value, depth: usize) -> bool {
        let Some(schema) = self.document.resolve(schema).filter(|_| depth < 16) else {
            return false;
        };
        let nullable = flag(schema, "nullable") == Some(true);
        if let Some(kind) = schema.get("type") {
            return kind == "object" && !nullable;
        }
        let list = |name: &str| {
            schema
                .get(name)
                .and_then(Value::as_array)
                .filter(|all| !all.is_empty())
        };
        let inner = |one: &Value| self.is_object(one, depth + 1);
        schema.get("properties").is_some()
            || list("allOf").is_some_and(|all| all.iter().any(inner))
            || ["oneOf", "anyOf"]
                .iter()
                .filter_map(|name| list(name))
                .any(|all| all.iter().all(inner))
    }
}
