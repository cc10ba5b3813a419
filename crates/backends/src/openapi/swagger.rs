//! Swagger 2.0 as OpenAPI 3.0: operations, their servers and security schemes. Schemas differ little and stay where they are.

use serde_json::{Map, Value, json};

use super::document::{Document, flag, text};

/// Members of a parameter that 3.0 keeps in its schema.
const SCHEMA_MEMBERS: [&str; 17] = [
    "default",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
    "type",
    "uniqueItems",
];

/// An operation whose parameters were collected and resolved.
pub(super) fn operation(document: &Document, operation: &Value, parameters: &[&Value]) -> Value {
    let mut out = operation.as_object().cloned().unwrap_or_default();
    let is_in = |place: &'static str| move |p: &&&Value| text(p, "in") == Some(place);
    let plain = |p: &&&Value| !is_in("body")(p) && !is_in("formData")(p);
    let converted = parameters.iter().filter(plain).map(|p| parameter(p));
    out.insert("parameters".to_owned(), converted.collect());
    let consumes = media(document, operation, "consumes");
    let fields: Vec<&Value> = parameters
        .iter()
        .filter(is_in("formData"))
        .copied()
        .collect();
    let body = parameters.iter().find(is_in("body"));
    if let Some(body) = body {
        let schema = body.get("schema").cloned().unwrap_or_default();
        let types = if consumes.is_empty() {
            vec!["application/json".to_owned()]
        } else {
            consumes
        };
        let content = types
            .into_iter()
            .map(|name| (name, json!({ "schema": schema })));
        let content: Map<String, Value> = content.collect();
        out.insert(
            "requestBody".to_owned(),
            json!({
                "description": text(body, "description").unwrap_or_default(),
                "required": flag(body, "required").unwrap_or(false),
                "content": content,
            }),
        );
    } else if !fields.is_empty() {
        out.insert("requestBody".to_owned(), form(&fields, &consumes));
    }
    let produces = media(document, operation, "produces");
    let responses = document.members(operation.get("responses"));
    let responses: Map<String, Value> = responses
        .map(|(status, response)| (status.to_owned(), self::response(response, &produces)))
        .collect();
    out.insert("responses".to_owned(), Value::Object(responses));
    Value::Object(out)
}

/// The operation's own media types, or the document's.
fn media(document: &Document, operation: &Value, member: &str) -> Vec<String> {
    let list = operation.get(member).or_else(|| document.root.get(member));
    let names = list.and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn schema_of(parameter: &Value) -> Map<String, Value> {
    let members = parameter.as_object().into_iter().flatten();
    let members = members.filter(|(name, _)| SCHEMA_MEMBERS.contains(&name.as_str()));
    members
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// `style` and `explode` of a collection format.
fn format(parameter: &Value, place: &str) -> (&'static str, bool) {
    let plain = if matches!(place, "path" | "header") {
        "simple"
    } else {
        "form"
    };
    match text(parameter, "collectionFormat") {
        Some("multi") => (plain, true),
        Some("ssv") => ("spaceDelimited", false),
        Some("pipes") => ("pipeDelimited", false),
        Some("tsv") => ("tabDelimited", false),
        _ => (plain, false),
    }
}

fn parameter(parameter: &Value) -> Value {
    let place = text(parameter, "in").unwrap_or_default();
    let (style, explode) = format(parameter, place);
    let mut out = json!({
        "name": parameter.get("name"), "in": place, "schema": schema_of(parameter),
        "required": flag(parameter, "required").unwrap_or(false), "style": style, "explode": explode,
    });
    if let Some(words) = parameter.get("description") {
        out["description"] = words.clone();
    }
    out
}

fn form(fields: &[&Value], consumes: &[String]) -> Value {
    let is_file = |field: &&Value| text(field, "type") == Some("file");
    let multipart = fields.iter().any(is_file)
        || consumes.iter().any(|name| name == "multipart/form-data")
            && !consumes
                .iter()
                .any(|name| name == "application/x-www-form-urlencoded");
    let (mut properties, mut encoding) = (Map::new(), Map::new());
    let mut required = Vec::new();
    for field in fields {
        let Some(name) = text(field, "name") else {
            continue;
        };
        let mut schema = match is_file(field) {
            true => Map::from_iter([
                ("type".to_owned(), json!("string")),
                ("format".to_owned(), json!("binary")),
            ]),
            false => schema_of(field),
        };
        if let Some(words) = field.get("description") {
            schema.insert("description".to_owned(), words.clone());
        }
        if text(field, "type") == Some("array") {
            let (style, explode) = format(field, "formData");
            encoding.insert(
                name.to_owned(),
                json!({ "style": style, "explode": explode }),
            );
        }
        if flag(field, "required") == Some(true) {
            required.push(name);
        }
        properties.insert(name.to_owned(), Value::Object(schema));
    }
    let name = if multipart {
        "multipart/form-data"
    } else {
        "application/x-www-form-urlencoded"
    };
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    json!({
        "required": !required.is_empty(),
        "content": { name: { "schema": schema, "encoding": encoding } },
    })
}

fn response(response: &Value, produces: &[String]) -> Value {
    let mut out = response.clone();
    let Some(schema) = response.get("schema") else {
        return out;
    };
    let json_only = ["application/json".to_owned()];
    let types = if produces.is_empty() {
        &json_only
    } else {
        produces
    };
    let content = types
        .iter()
        .map(|name| (name.clone(), json!({ "schema": schema })));
    out["content"] = Value::Object(content.collect());
    out
}

/// The one server of the document; an empty URL where it names no host, which means the host of the document itself.
pub(super) fn servers(root: &Value) -> Value {
    let base = text(root, "basePath").unwrap_or("/");
    let schemes: Vec<&str> = root
        .get("schemes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let scheme = match schemes.as_slice() {
        names if names.contains(&"https") => Some("https"),
        names => names.first().copied(),
    };
    let url = match (text(root, "host"), scheme) {
        (Some(host), Some(scheme)) => format!("{scheme}://{host}{base}"),
        // The scheme of the document's own URL.
        (Some(host), None) => format!("//{host}{base}"),
        (None, _) => base.to_owned(),
    };
    json!([{ "url": url }])
}

/// A security scheme in the words of 3.0.
pub(super) fn scheme(scheme: &Value) -> Value {
    match text(scheme, "type") {
        Some("basic") => json!({ "type": "http", "scheme": "basic" }),
        _ => scheme.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_1_operations_of_swagger_2_become_those_of_3() {
        let document = Document::new(json!({
            "swagger": "2.0", "host": "api.example.com", "basePath": "/v1", "schemes": ["http", "https"],
            "consumes": ["application/json"], "produces": ["application/json"],
        }))
        .expect("a description");
        let given =
            json!({ "operationId": "x", "responses": {"200": {"schema": {"type": "array"}}} });
        let list = json!({"name": "ids", "in": "query", "type": "array", "collectionFormat": "pipes", "items": {"type": "integer"}});
        let body =
            json!({"name": "pet", "in": "body", "required": true, "schema": {"type": "object"}});
        let upgraded = operation(&document, &given, &[&list, &body]);
        assert_eq!(
            upgraded["parameters"],
            json!([{"name": "ids", "in": "query", "required": false, "style": "pipeDelimited", "explode": false,
                "schema": {"type": "array", "items": {"type": "integer"}}}])
        );
        assert_eq!(
            upgraded["requestBody"]["content"]["application/json"]["schema"]["type"],
            "object"
        );
        assert_eq!(
            upgraded["responses"]["200"]["content"]["application/json"]["schema"]["type"],
            "array"
        );
        assert_eq!(
            servers(&document.root),
            json!([{"url": "https://api.example.com/v1"}])
        );
        let file = json!({"name": "f", "in": "formData", "type": "file", "required": true});
        let tags =
            json!({"name": "t", "in": "formData", "type": "array", "collectionFormat": "multi"});
        let upgraded = operation(&document, &given, &[&file, &tags]);
        let form = &upgraded["requestBody"]["content"]["multipart/form-data"];
        assert_eq!(
            form["schema"]["properties"]["f"],
            json!({"type": "string", "format": "binary"})
        );
        assert_eq!(
            form["encoding"]["t"],
            json!({"style": "form", "explode": true})
        );
    }
}
