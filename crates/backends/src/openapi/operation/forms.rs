//! Forms and files in a body's schema.

use serde_json::{Value, json};

use super::Field;
use super::input::describe;
use crate::openapi::document::{Document, flag, text};
use crate::openapi::media::{is_json, is_text};
use crate::openapi::style::Style;

/// What a caller says of a file: base64, or a text.
pub(super) fn file_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "data": { "type": "string", "contentEncoding": "base64", "description": "The bytes, as base64." },
            "text": { "type": "string", "description": "The content as text, in place of `data`." },
            "filename": { "type": "string" },
            "content_type": { "type": "string", "description": "Its media type." },
        },
        "additionalProperties": false,
    })
}

/// How the members of a form are sent; files become objects in its schema.
pub(super) fn fields(
    document: &Document,
    media: &Value,
    schema: &Value,
    converted: &mut Value,
    multipart: bool,
) -> Vec<Field> {
    let encodings = media.get("encoding");
    let mut out = Vec::new();
    for (name, property) in properties(document, schema) {
        let encoding = encodings.and_then(|all| document.member(all, &name));
        let content_type = encoding.and_then(|e| text(e, "contentType"));
        let list = document
            .member(property, "items")
            .filter(|_| text(property, "type") == Some("array"));
        let is_file = multipart && is_binary(list.unwrap_or(property), content_type);
        if is_file
            && let Some(place) = converted
                .pointer_mut("/properties")
                .and_then(|p| p.get_mut(&name))
        {
            let mut file = file_schema();
            describe(&mut file, text(place, "description"));
            *place = match list {
                Some(_) => json!({ "type": "array", "items": file }),
                None => file,
            };
        }
        let style = encoding.and_then(|e| {
            let any = ["style", "explode", "allowReserved"]
                .iter()
                .any(|key| e.get(*key).is_some());
            let style = text(e, "style").and_then(Style::of).unwrap_or(Style::Form);
            let explode = flag(e, "explode").unwrap_or(style == Style::Form);
            any.then_some((style, explode, flag(e, "allowReserved") == Some(true)))
        });
        let one = content_type
            .and_then(|all| all.split(',').next())
            .map(str::trim);
        let content_type = one.filter(|one| !one.contains('*')).map(str::to_owned);
        out.push(Field {
            name,
            content_type,
            style,
            is_file,
        });
    }
    out
}

/// The members of an object schema, also of one that is put together by `allOf`.
fn properties<'a>(document: &'a Document, schema: &'a Value) -> Vec<(String, &'a Value)> {
    let parts = schema
        .get("allOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let parts = parts.filter_map(|part| document.resolve(part));
    let all = [schema].into_iter().chain(parts);
    all.flat_map(|part| document.members(part.get("properties")))
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// 3.0 says `format: binary`; 3.1 a media type without an encoding, or nothing at all.
fn is_binary(schema: &Value, content_type: Option<&str>) -> bool {
    if text(schema, "format") == Some("binary") {
        return true;
    }
    if schema.get("contentEncoding").is_some() {
        return false;
    }
    let bytes = |name: &str| !is_json(name) && !is_text(name);
    let untyped = schema.get("type").is_none() && schema.get("properties").is_none();
    schema
        .get("contentMediaType")
        .and_then(Value::as_str)
        .is_some_and(bytes)
        || untyped && content_type.is_some_and(bytes)
}
