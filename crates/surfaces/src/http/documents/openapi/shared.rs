//! What the operations of the document share: results, request headers, query parameters and examples.

use serde_json::{Map, Value, json};

use super::super::answers;
use super::super::dialect::has_reference;
use super::super::schemas::{Parameter, reference};
use super::JSON;
use crate::http::rest::arguments::TextForm;

/// Of an example whose parts come from the schemas of properties; a larger one helps nobody.
const EXAMPLE_MEMBERS_MAX: usize = 50;

/// An `Idempotency-Key`: a string of structured fields, or a bare word.
const KEY: &str = r#"^("([ !#-\[\]-~]|\\["\\]){1,255}"|[!#-+\--:<-\[\]-~]{1,255})$"#;

/// Headers of a result that is no call's, of a call by GET, and of one by POST.
pub(super) const PLAIN: &[&str] = &[];
pub(super) const CALLED: &[&str] = &[
    "RateLimit",
    "RateLimit-Policy",
    "Link",
    "Next-Arguments",
    "ETag",
];
pub(super) const POSTED: &[&str] = &[
    "RateLimit",
    "RateLimit-Policy",
    "Link",
    "Next-Arguments",
    "Idempotency-Replayed",
];

/// The 200 of an operation; a call can also be told as a stream.
pub(super) fn result(description: &str, schema: &Value, headers: &[&str]) -> Value {
    let mut content = json!({ JSON: { "schema": schema } });
    if !headers.is_empty() {
        content["text/event-stream"] = json!({ "schema": reference("EventStream") });
        content["application/jsonl"] = json!({ "schema": reference("JsonLines") });
    }
    json!({ "description": description, "headers": answers::referred(headers), "content": content })
}

/// The 202 of a call. Its body is left out: the result of every generated function would be one of two types.
pub(super) fn accepted() -> Value {
    let headers = [
        "Location",
        "Preference-Applied",
        "Retry-After",
        "Idempotency-Replayed",
    ];
    json!({
        "description": "With `Prefer: respond-async`: the call runs, and is seen at the path in `Location`. The body is a `Task`.",
        "headers": answers::referred(&headers),
    })
}

/// Request headers of calls.
pub(super) fn parameters() -> Value {
    json!({
        "ConfirmationToken": {
            "name": "X-Confirmation-Token", "in": "header", "schema": { "type": "string" },
            "description": "Confirms a call that was answered with `confirmation_required`.",
        },
        "IdempotencyKey": {
            "name": "Idempotency-Key", "in": "header",
            "schema": { "type": "string", "pattern": KEY, "maxLength": 512 },
            "description": "A text in quotes, or a word, of at most 255 characters: the call is made once, however often it is sent with this key.",
        },
        "Prefer": {
            "name": "Prefer", "in": "header", "schema": { "type": "string" },
            "description": "`respond-async`: the answer may come later, at the path in `Location`; `wait=10`: after so many seconds.",
        },
    })
}

/// A property as a query parameter, in the form in which the surface reads it.
pub(in crate::http::documents) fn query(parameter: &Parameter) -> Value {
    let mut out =
        json!({ "name": parameter.name, "in": "query", "required": parameter.is_required });
    if let Some(text) = &parameter.description {
        out["description"] = text.clone();
    }
    match &parameter.form {
        TextForm::Scalar | TextForm::List => out["schema"] = parameter.schema.clone(),
        TextForm::Json => out["content"] = json!({ JSON: { "schema": parameter.schema } }),
        TextForm::Only(types) => out["schema"] = json!({ "type": types }),
    }
    out
}

/// The example that a schema gives for the whole, or that its properties give together.
pub(super) fn example(schema: &Value) -> Option<Value> {
    let first = |schema: &Value| {
        let examples = schema.get("examples").and_then(Value::as_array);
        let given = examples
            .and_then(|all| all.first())
            .or(schema.get("example"));
        given.filter(|given| !has_reference(given)).cloned()
    };
    if let Some(whole) = first(schema).filter(Value::is_object) {
        return Some(whole);
    }
    let properties = schema.get("properties")?.as_object()?;
    let of_property = |schema: &Value| first(schema).or(schema.get("const").cloned());
    let given = properties
        .iter()
        .filter_map(|(name, schema)| Some((name.clone(), of_property(schema)?)));
    let mut given: Map<String, Value> = given.take(EXAMPLE_MEMBERS_MAX).collect();
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !given.contains_key(name) {
            let default = properties.get(name)?.get("default")?;
            given.insert(name.to_owned(), default.clone());
        }
    }
    (!given.is_empty()).then_some(Value::Object(given))
}
