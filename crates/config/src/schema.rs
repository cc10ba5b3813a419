//! The JSON Schema of the configuration file, generated from the types that decode it.

use std::sync::LazyLock;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform, transform_subschemas};
use serde_json::Value;

use crate::section::Reload;
use crate::sections::{Config, RawConfig};

/// Marks sections and keys that the example file shows switched off; no business of editors.
pub(crate) const OFF: &str = "x-off";

/// The schema, for editors and for the shape check.
pub fn schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let mut schema = Schema::try_from(annotated().clone()).unwrap_or_default();
        RecursiveTransform(|part: &mut Schema| drop(part.remove(OFF))).transform(&mut schema);
        schema.to_value()
    });
    &SCHEMA
}

/// The schema with the marks for the example file.
pub(crate) fn annotated() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let mut schema = settings()
            .into_generator()
            .into_root_schema_for::<RawConfig>()
            .to_value();
        for (key, rule) in Config::rules() {
            if rule == Reload::Restart {
                say_restart(&mut schema, &key);
            }
        }
        schema
    });
    &SCHEMA
}

pub(crate) fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12()
        .with_transform(RecursiveTransform(drop_null))
        .with_transform(RecursiveTransform(join_lines))
        .with_transform(PlainReferences)
}

/// Follows a reference. What stands beside it (a range, a description) is not needed of sections.
pub(crate) fn resolve(part: &Value) -> &Value {
    match part.get("$ref").and_then(Value::as_str) {
        Some(pointer) => annotated()
            .pointer(pointer.trim_start_matches('#'))
            .unwrap_or(part),
        None => part,
    }
}

fn say_restart(schema: &mut Value, key: &str) {
    let (section, key) = key.split_once('.').expect("a key of a section");
    let section = &schema["properties"][section];
    let definition = section["$ref"]
        .as_str()
        .or(section["items"]["$ref"].as_str());
    let definition = definition.expect("sections are definitions").to_owned();
    let definition = schema.pointer_mut(definition.trim_start_matches('#'));
    let key = &mut definition.expect("it is there")["properties"][key];
    let text = key["description"].as_str().unwrap_or_default();
    key["description"] = format!("{text} Needs a restart.").into();
}

/// TOML has no null: an absent key is absent.
fn drop_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if let Some(Value::Array(branches)) = object.get_mut("anyOf") {
        branches.retain(|branch| branch["type"] != "null");
        if let [only] = branches.as_slice()
            && only.get("$ref").is_some()
        {
            let only = only["$ref"].clone();
            object.remove("anyOf");
            object.insert("$ref".into(), only);
        }
    }
}

/// Line breaks of a doc comment are ours, not the reader's.
fn join_lines(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// A reference to a section says nothing that the section does not.
#[derive(Clone)]
struct PlainReferences;

impl Transform for PlainReferences {
    fn transform(&mut self, schema: &mut Schema) {
        // Defaults of whole sections repeat those of their keys.
        if schema.get("$ref").is_some() && schema.get("default").is_some_and(Value::is_object) {
            schema.remove("default");
        }
        transform_subschemas(self, schema);
    }
}
