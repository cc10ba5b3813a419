//! Arguments as text (query parameters, forms) made JSON by the operation's input schema.
//!
//! Pure. A text becomes what its property's schema asks for; where a schema allows several types, a text is the most
//! special of them that it can be. Numbers keep their digits. Whether the arguments are valid is decided later, with
//! those of every other surface.

use std::borrow::Cow;

use sentinel_core::{Fault, Kind};
use sentinel_wire::json::{self, Kind as JsonKind, Object, Rules};
use serde_json::Value;

/// References that are followed one after another.
const REFERENCES_MAX: usize = 8;
/// Schemas that are looked at for the types of one parameter: alternatives of alternatives multiply.
const ALTERNATIVES_MAX: usize = 256;
/// Parameters of one request.
const PARAMETERS_MAX: usize = 1000;

/// The JSON object that these parameters stand for.
pub(crate) fn coerce<'t>(
    parameters: impl Iterator<Item = (Cow<'t, str>, Cow<'t, str>)>,
    schema: Option<&[u8]>,
) -> Result<Vec<u8>, Fault> {
    let schema: Value = schema
        .and_then(|raw| serde_json::from_slice(raw).ok())
        .unwrap_or_default();
    let mut given: Vec<(Cow<'_, str>, Vec<Cow<'_, str>>)> = Vec::new();
    for (count, (name, value)) in parameters.enumerate() {
        if count >= PARAMETERS_MAX {
            let text = format!("more than {PARAMETERS_MAX} parameters; send them as JSON");
            return Err(Fault::new(Kind::InvalidParameter, text));
        }
        match given.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => given.push((name, vec![value])),
        }
    }
    let mut out = vec![b'{'];
    let mut issues = Vec::new();
    for (name, values) in &given {
        if out.len() > 1 {
            out.push(b',');
        }
        json::encode_string(name, &mut out);
        out.push(b':');
        if let Err(why) = write(&schema, property(&schema, name), values, &mut out) {
            out.extend_from_slice(b"null");
            issues.push(issue(name, &why));
        }
    }
    out.push(b'}');
    if issues.is_empty() {
        return Ok(out);
    }
    let text = "some parameters do not have the type that the operation asks for";
    let issues = format!(r#""issues":[{}]"#, issues.join(","));
    Err(Fault::new(Kind::InvalidParameter, text).with_data(issues))
}

fn issue(name: &str, why: &str) -> String {
    let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    serde_json::json!({ "pointer": pointer, "message": why, "keyword": "type" }).to_string()
}

/// The schema of a property, `null` where there is none.
fn property<'s>(schema: &'s Value, name: &str) -> &'s Value {
    let found = schema.get("properties").and_then(|all| all.get(name));
    found.map_or(&Value::Null, |found| resolve(schema, found))
}

/// Follows references within the document.
fn resolve<'s>(root: &'s Value, mut schema: &'s Value) -> &'s Value {
    for _ in 0..REFERENCES_MAX {
        let target = schema.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|target| root.pointer(target.strip_prefix('#')?));
        match target {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// Every type that a schema allows by its own word or by its alternatives.
fn types<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s str> {
    let (mut left, mut found) = (ALTERNATIVES_MAX, Vec::new());
    collect_types(root, schema, &mut left, &mut found);
    found
}

/// `left`: how many schemas may still be looked at, however they refer to each other.
fn collect_types<'s>(
    root: &'s Value,
    schema: &'s Value,
    left: &mut usize,
    found: &mut Vec<&'s str>,
) {
    let Some(rest) = left.checked_sub(1) else {
        return;
    };
    *left = rest;
    let (schema, before) = (resolve(root, schema), found.len());
    match schema.get("type") {
        Some(Value::String(one)) => found.push(one),
        Some(Value::Array(several)) => found.extend(several.iter().filter_map(Value::as_str)),
        _ => {}
    }
    if found.len() > before {
        return;
    }
    for keyword in ["anyOf", "oneOf"] {
        let alternatives = schema.get(keyword).and_then(Value::as_array);
        for one in alternatives.into_iter().flatten() {
            collect_types(root, one, left, found);
        }
    }
    if found.len() == before {
        let constants = schema.get("enum").and_then(Value::as_array);
        let of = |value: &'s Value| -> &'s str { type_of(value) };
        found.extend(constants.into_iter().flatten().map(of));
        found.extend(schema.get("const").map(of));
    }
}

/// How a property is given as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) enum TextForm {
    /// As it is.
    Scalar,
    /// Each of its items as it is.
    List,
    /// As JSON.
    Json,
    /// As it is, and only values of these types.
    Only(Vec<String>),
}

/// The form in which `coerce` takes a property of this schema.
pub(in crate::http) fn text_form(root: &Value, schema: &Value) -> TextForm {
    let is_nested = |name: &str| matches!(name, "array" | "object");
    let types = types(root, schema);
    let (nested, flat): (Vec<&str>, Vec<&str>) = types
        .iter()
        .filter(|name| **name != "null")
        .partition(|name| is_nested(name));
    match (
        nested.contains(&"object"),
        nested.is_empty(),
        flat.is_empty(),
    ) {
        (_, true, true) => TextForm::Only(vec!["string".to_owned()]),
        (_, true, false) => TextForm::Scalar,
        (_, false, false) => TextForm::Only(flat.into_iter().map(str::to_owned).collect()),
        (true, false, true) => TextForm::Json,
        (false, false, true) => {
            let items = resolve(root, schema).get("items").unwrap_or(&Value::Null);
            let types = self::types(root, items);
            match types.is_empty() || types.iter().any(|name| is_nested(name)) {
                true => TextForm::Json,
                false => TextForm::List,
            }
        }
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Writes one property; the error says why its text cannot be what the schema asks for.
fn write(
    root: &Value,
    schema: &Value,
    values: &[Cow<'_, str>],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let types = types(root, schema);
    let is_list = types.contains(&"array");
    if let [one] = values
        && (!is_list || is_json(one, JsonKind::Array))
    {
        return scalar(&types, one, out);
    }
    if !is_list && !types.is_empty() {
        return Err("is given more than once, and is no array".to_owned());
    }
    let items = schema.get("items").unwrap_or(&Value::Null);
    let types = self::types(root, items);
    let mut list = vec![b'['];
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            list.push(b',');
        }
        scalar(&types, value, &mut list).map_err(|why| format!("item {at} {why}"))?;
    }
    list.push(b']');
    out.extend_from_slice(&list);
    Ok(())
}

/// One text as the most special of these types.
fn scalar(types: &[&str], text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let allows = |name: &str| types.contains(&name);
    let is_raw = (allows("integer") || allows("number")) && is_json(text, JsonKind::Number)
        || allows("boolean") && matches!(text, "true" | "false")
        || allows("object") && is_json(text, JsonKind::Object)
        || allows("array") && is_json(text, JsonKind::Array)
        || allows("null") && text == "null" && !allows("string");
    if is_raw {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    if types.is_empty() || allows("string") {
        json::encode_string(text, out);
        return Ok(());
    }
    if allows("null") && text.is_empty() {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    Err(format!("must be {}", types.join(" or ")))
}

/// Whether a text is one JSON value of this kind, without space around it.
fn is_json(text: &str, kind: JsonKind) -> bool {
    let bytes = text.as_bytes();
    if JsonKind::of(bytes) != Some(kind) || bytes.trim_ascii().len() != bytes.len() {
        return false;
    }
    match kind {
        JsonKind::Object => Object::parse(bytes, Rules::backend()).is_ok(),
        _ => serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r##"{
        "type": "object",
        "properties": {
            "text": {"type": "string"}, "count": {"type": "integer"}, "ratio": {"type": "number"},
            "deep": {"type": "boolean"}, "tags": {"type": "array", "items": {"type": "string"}},
            "sizes": {"type": "array", "items": {"type": "integer"}}, "maybe": {"type": ["integer", "null"]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "by_ref": {"$ref": "#/$defs/n"},
            "loop": {"$ref": "#/properties/loop"}, "filter": {"type": "object"}, "level": {"enum": [1, 2]}
        },
        "$defs": {"n": {"type": "integer"}}
    }"##;

    fn coerced(query: &str) -> Result<String, Fault> {
        let pairs = form_urlencoded::parse(query.as_bytes());
        let out = coerce(pairs, Some(SCHEMA.as_bytes()))?;
        Ok(String::from_utf8(out).expect("text"))
    }

    #[test]
    fn texts_become_what_the_schema_asks_for() {
        for (query, json) in [
            ("", "{}"),
            ("text=5", r#"{"text":"5"}"#),
            ("text=a%20%22b+c", r#"{"text":"a \"b c"}"#),
            ("count=5&ratio=1.50", r#"{"count":5,"ratio":1.50}"#),
            (
                "count=123456789012345678901234567890",
                r#"{"count":123456789012345678901234567890}"#,
            ),
            ("deep=true", r#"{"deep":true}"#),
            ("tags=a", r#"{"tags":["a"]}"#),
            ("tags=a&tags=b", r#"{"tags":["a","b"]}"#),
            ("tags=[%22x%22]", r#"{"tags":["x"]}"#),
            ("sizes=1&sizes=2", r#"{"sizes":[1,2]}"#),
            ("maybe=null", r#"{"maybe":null}"#),
            ("maybe=", r#"{"maybe":null}"#),
            ("either=7", r#"{"either":7}"#),
            ("either=x", r#"{"either":"x"}"#),
            ("by_ref=3", r#"{"by_ref":3}"#),
            ("loop=3", r#"{"loop":"3"}"#),
            ("filter=%7B%22a%22:1%7D", r#"{"filter":{"a":1}}"#),
            ("level=2", r#"{"level":2}"#),
            ("unknown=1", r#"{"unknown":"1"}"#),
        ] {
            assert_eq!(coerced(query).expect(query), json, "{query}");
        }
    }

    /// A backend's schema must not make a request cost more than a glance.
    #[test]
    fn alternatives_that_refer_to_each_other_are_followed_only_so_far() {
        let same = [r##"{"$ref":"#/properties/a"}"##; 100].join(",");
        let schema = format!(r#"{{"properties":{{"a":{{"anyOf":[{same}]}}}}}}"#);
        let parameters = form_urlencoded::parse(b"a=1");
        let out = coerce(parameters, Some(schema.as_bytes())).expect("coerced");
        assert_eq!(out, br#"{"a":"1"}"#);
    }

    #[test]
    fn the_form_of_a_property_is_the_one_that_is_read() {
        let root: Value = serde_json::from_str(SCHEMA).expect("JSON");
        let only = |name: &str| TextForm::Only(vec![name.to_owned()]);
        for (name, form) in [
            ("text", TextForm::Scalar),
            ("maybe", TextForm::Scalar),
            ("either", TextForm::Scalar),
            ("by_ref", TextForm::Scalar),
            ("level", TextForm::Scalar),
            ("tags", TextForm::List),
            ("filter", TextForm::Json),
            ("loop", only("string")),
        ] {
            assert_eq!(text_form(&root, &root["properties"][name]), form, "{name}");
        }
        for (schema, form) in [
            (r#"{"type":["object","integer"]}"#, only("integer")),
            (
                r#"{"type":"array","items":{"type":"object"}}"#,
                TextForm::Json,
            ),
            (r#"{"type":"array"}"#, TextForm::Json),
            ("true", only("string")),
        ] {
            let schema: Value = serde_json::from_str(schema).expect("JSON");
            assert_eq!(text_form(&root, &schema), form, "{schema}");
        }
    }

    #[test]
    fn a_text_that_cannot_be_of_its_type_is_an_issue_with_its_place() {
        for (query, pointer) in [
            ("count=x", "/count"),
            ("count=1&count=2", "/count"),
            ("count=0x10", "/count"),
            ("count=+1", "/count"),
            ("deep=yes", "/deep"),
            ("sizes=1&sizes=x", "/sizes"),
            ("filter=%7B", "/filter"),
            ("filter=%7B%7D%7D", "/filter"),
        ] {
            let fault = coerced(query).expect_err(query);
            assert_eq!(fault.kind, Kind::InvalidParameter, "{query}");
            let data = fault.data.expect("issues");
            assert!(
                data.contains(&format!(r#""pointer":"{pointer}""#)),
                "{data}"
            );
        }
        let many = vec!["a=1"; PARAMETERS_MAX + 1].join("&");
        assert!(coerced(&many).is_err());
    }
}
