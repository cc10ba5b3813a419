//! The JSON Schema of the configuration file, generated from the types that decode it.

use std::sync::LazyLock;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform, transform_subschemas};
use serde_json::Value;

use super::raw::RawConfig;

/// The schema, for editors and for the shape check.
pub fn schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        SchemaSettings::draft2020_12()
            .with_transform(RecursiveTransform(drop_null))
            .with_transform(RecursiveTransform(join_lines))
            .with_transform(PlainReferences)
            .into_generator()
            .into_root_schema_for::<RawConfig>()
            .to_value()
    });
    &SCHEMA
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
