//! `nullable: true` of OpenAPI 3.0 in JSON Schema.

use serde_json::{Value, json};

/// The schema, or null.
pub(super) fn or_null(schema: Value) -> Value {
    let Value::Object(mut members) = schema else {
        return schema;
    };
    if let Some(Value::Array(values)) = members.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    const HARMLESS: [&str; 5] = ["default", "description", "enum", "examples", "title"];
    let with_null = match members.get("type") {
        Some(Value::String(name)) if name != "null" => json!([name, "null"]),
        Some(Value::Array(names)) if !names.contains(&json!("null")) => {
            let null = json!("null");
            names.iter().chain([&null]).cloned().collect()
        }
        Some(_) => return Value::Object(members),
        // Without anything that could refuse null, it is allowed already.
        None if members
            .keys()
            .all(|keyword| HARMLESS.contains(&keyword.as_str())) =>
        {
            return Value::Object(members);
        }
        None => return json!({ "anyOf": [members, { "type": "null" }] }),
    };
    members.insert("type".to_owned(), with_null);
    Value::Object(members)
}
