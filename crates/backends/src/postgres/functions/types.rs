//! PostgreSQL's types as JSON Schema, and as SQL names.
//!
//! The schemas say how PostgreSQL's own JSON functions read and write values of a type; on both sides a value of any type may be
//! null. `bytea` is base64 where it is a parameter or a column, and PostgreSQL's hexadecimal form within other values.
//!
//! Not here: which types there are (`catalog`), what of a CHECK can be a keyword (`check`).

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::catalog::{Attribute, TypeKind, TypeRow};
use super::check;
use super::statement::quoted;

/// Deeper nesting of composite types and arrays is not described.
const DEPTH_MAX: usize = 12;
/// Attributes of the types of one function, together.
const ATTRIBUTES_MAX: usize = 2000;

/// Why values of a type cannot be passed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::postgres) enum Unsupported {
    #[error("has the pseudo-type {0}")]
    Pseudo(String),
    #[error("has a type that is nested too deep or has too many parts")]
    TooLarge,
    #[error("has a type that the catalog does not know")]
    Unknown,
}

/// What a scalar is to those who build statements and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) enum Class {
    Bool,
    /// int2, int4 and int8.
    Integer,
    Number,
    Text,
    Bytes,
    Json,
    Void,
    Record,
    Composite,
    Enum,
    Uuid,
    Xml,
    Other,
}

/// The types of a schema's functions.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Types(HashMap<u32, TypeRow>);

impl Types {
    pub(super) fn new(rows: HashMap<u32, TypeRow>) -> Self {
        Self(rows)
    }

    /// The qualified name, as SQL takes it.
    pub(in crate::postgres) fn sql(&self, oid: u32) -> Result<String, Unsupported> {
        let row = self.row(oid)?;
        match &row.kind {
            TypeKind::Pseudo => Err(Unsupported::Pseudo(row.name.clone())),
            _ => Ok(format!("{}.{}", quoted(&row.schema), quoted(&row.name))),
        }
    }

    /// What a type is, below its domains.
    pub(in crate::postgres) fn class(&self, oid: u32) -> Class {
        let Some(row) = self.0.get(&oid) else {
            return Class::Other;
        };
        match &row.kind {
            TypeKind::Domain { base, .. } => self.class(*base),
            TypeKind::Enum(_) => Class::Enum,
            TypeKind::Composite(_) => Class::Composite,
            TypeKind::Array(_) | TypeKind::Range => Class::Other,
            TypeKind::Pseudo | TypeKind::Base if row.schema != "pg_catalog" => Class::Other,
            TypeKind::Pseudo | TypeKind::Base => match row.name.as_str() {
                "bool" => Class::Bool,
                "int2" | "int4" | "int8" => Class::Integer,
                "numeric" | "float4" | "float8" => Class::Number,
                "text" | "varchar" | "bpchar" | "name" | "char" => Class::Text,
                "bytea" => Class::Bytes,
                "json" | "jsonb" => Class::Json,
                "uuid" => Class::Uuid,
                "xml" => Class::Xml,
                "void" => Class::Void,
                "record" => Class::Record,
                _ => Class::Other,
            },
        }
    }

    /// Whether it is a domain, whose null its checks may refuse or replace.
    pub(in crate::postgres) fn is_not_null(&self, oid: u32) -> bool {
        matches!(
            self.0.get(&oid),
            Some(TypeRow {
                kind: TypeKind::Domain {
                    is_not_null: true,
                    ..
                },
                ..
            })
        )
    }

    /// The columns of a composite type, or of a domain over one.
    pub(super) fn attributes(&self, oid: u32) -> &[Attribute] {
        match self.0.get(&oid).map(|row| &row.kind) {
            Some(TypeKind::Composite(attributes)) => attributes,
            Some(TypeKind::Domain { base, .. }) => self.attributes(*base),
            _ => &[],
        }
    }

    /// The schema of a parameter or a column; without null.
    pub(in crate::postgres) fn schema(
        &self,
        oid: u32,
        modifier: i32,
    ) -> Result<Value, Unsupported> {
        let mut left = ATTRIBUTES_MAX;
        let mut schema = self.within(oid, modifier, 0, &mut left)?;
        if self.class(oid) == Class::Bytes {
            schema.insert("contentEncoding".to_owned(), "base64".into());
            schema.shift_remove("description");
            self.describe(oid, &mut schema);
        }
        Ok(Value::Object(schema))
    }

    fn row(&self, oid: u32) -> Result<&TypeRow, Unsupported> {
        self.0.get(&oid).ok_or(Unsupported::Unknown)
    }

    fn describe(&self, oid: u32, schema: &mut Map<String, Value>) {
        // PostgreSQL's own types say how they are stored.
        let row = self.0.get(&oid).filter(|row| row.schema != "pg_catalog");
        if let Some(comment) = row.and_then(|row| row.comment.as_deref()) {
            describe(schema, comment);
        }
    }

    fn within(
        &self,
        oid: u32,
        modifier: i32,
        depth: usize,
        left: &mut usize,
    ) -> Result<Map<String, Value>, Unsupported> {
        if depth > DEPTH_MAX {
            return Err(Unsupported::TooLarge);
        }
        let row = self.row(oid)?;
        let mut schema = match &row.kind {
            TypeKind::Pseudo => return Err(Unsupported::Pseudo(row.name.clone())),
            TypeKind::Base if row.schema == "pg_catalog" => base(&row.name, modifier),
            TypeKind::Base if row.is_cast_to_json => Map::new(),
            TypeKind::Base => as_written(&row.name),
            TypeKind::Range => as_written(&row.name),
            TypeKind::Enum(labels) => object(json!({ "type": "string", "enum": labels })),
            TypeKind::Array(element) => {
                let mut element =
                    Value::Object(self.within(*element, modifier, depth + 1, left)?);
                // The type does not say how many dimensions there are.
                allow(&mut element, "array");
                allow(&mut element, "null");
                object(json!({ "type": "array", "items": element }))
            }
            TypeKind::Domain {
                base,
                modifier,
                checks,
                ..
            } => {
                let mut schema = self.within(*base, *modifier, depth + 1, left)?;
                check::apply(checks, self.class(*base), &mut schema);
                schema
            }
            TypeKind::Composite(attributes) => {
                let mut properties = Map::new();
                for attribute in attributes {
                    *left = left.checked_sub(1).ok_or(Unsupported::TooLarge)?;
                    let (kind, modifier) = (attribute.kind, attribute.modifier);
                    let mut schema = self.within(kind, modifier, depth + 1, left)?;
                    if let Some(comment) = &attribute.comment {
                        describe(&mut schema, comment);
                    }
                    let mut schema = Value::Object(schema);
                    if !self.is_not_null(kind) {
                        allow(&mut schema, "null");
                    }
                    properties.insert(attribute.name.clone(), schema);
                }
                object(json!({
                    "type": "object", "properties": properties, "additionalProperties": false,
                }))
            }
        };
        self.describe(oid, &mut schema);
        Ok(schema)
    }
}

/// Puts a text before the description that there is.
pub(in crate::postgres) fn describe(schema: &mut Map<String, Value>, text: &str) {
    let text = match schema.get("description").and_then(Value::as_str) {
        Some(note) if !text.is_empty() => format!("{text} ({note})"),
        Some(_) => return,
        None => text.to_owned(),
    };
    schema.insert("description".to_owned(), text.into());
}

/// Lets a schema allow values of one more type.
pub(in crate::postgres) fn allow(schema: &mut Value, kind: &str) {
    let Some(members) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(alternatives)) = members.get_mut("anyOf") {
        alternatives.push(json!({ "type": kind }));
        return;
    }
    if let Some(labels) = members.get_mut("enum") {
        match (kind, labels) {
            ("null", Value::Array(labels)) => labels.push(Value::Null),
            _ => {
                let description = members.shift_remove("description");
                let alternatives = [
                    Value::Object(std::mem::take(members)),
                    json!({ "type": kind }),
                ];
                members.insert("anyOf".to_owned(), Value::Array(alternatives.into()));
                members.extend(description.map(|text| ("description".to_owned(), text)));
                return;
            }
        }
    }
    match members.get_mut("type") {
        Some(Value::Array(kinds)) if !kinds.contains(&kind.into()) => kinds.push(kind.into()),
        Some(one @ Value::String(_)) if one != kind => *one = json!([one.take(), kind]),
        _ => {}
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn as_written(name: &str) -> Map<String, Value> {
    let text = format!("as PostgreSQL writes the type {name}");
    object(json!({ "type": "string", "description": text }))
}

/// A type of PostgreSQL's own.
fn base(name: &str, modifier: i32) -> Map<String, Value> {
    let limit = (modifier >= 4).then(|| modifier - 4);
    let mut schema = object(match name {
        "bool" => json!({ "type": "boolean" }),
        "int2" => json!({ "type": "integer", "minimum": i16::MIN, "maximum": i16::MAX }),
        "int4" => json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX }),
        "int8" => json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX }),
        "numeric" => {
            json!({ "type": ["number", "string"], "description": precision(modifier) })
        }
        "float4" | "float8" => json!({
            "anyOf": [{ "type": "number" }, { "enum": ["NaN", "Infinity", "-Infinity"] }]
        }),
        "text" | "varchar" | "bpchar" | "name" => json!({ "type": "string" }),
        "char" => json!({ "type": "string", "maxLength": 1 }),
        "bytea" => {
            json!({ "type": "string", "description": "bytes in hexadecimal, such as \\x0a1b" })
        }
        "json" | "jsonb" => json!({}),
        "uuid" => json!({ "type": "string", "format": "uuid" }),
        "date" => json!({ "type": "string", "format": "date" }),
        "timestamptz" => json!({ "type": "string", "format": "date-time" }),
        "timestamp" => json!({
            "type": "string", "description": "date and time without time zone, such as 2026-01-31T14:30:00"
        }),
        "time" => json!({ "type": "string", "description": "time of day, such as 14:30:00" }),
        "timetz" => json!({ "type": "string", "description": "time of day, such as 14:30:00+01" }),
        "interval" => {
            json!({ "type": "string", "description": "interval, such as P1DT2H or 1 day 02:00:00" })
        }
        "inet" => {
            json!({ "type": "string", "description": "IP address, or one with a prefix length" })
        }
        "cidr" => json!({ "type": "string", "description": "IP network, such as 10.0.0.0/8" }),
        "xml" => json!({ "type": "string", "contentMediaType": "application/xml" }),
        other => return as_written(other),
    });
    if let (Some(limit), "varchar" | "bpchar") = (limit, name) {
        schema.insert("maxLength".to_owned(), limit.into());
    }
    schema
}

/// What a modifier says about the digits of a number. A number of JSON may lose digits on its way, and cannot be NaN.
fn precision(modifier: i32) -> String {
    if modifier < 4 {
        return "exact decimal; long ones and NaN as strings".to_owned();
    }
    let digits = ((modifier - 4) >> 16) & 0xffff;
    // Eleven bits with a sign.
    let scale = (((modifier - 4) & 0x7ff) ^ 1024) - 1024;
    match scale {
        1.. => format!(
            "exact decimal of {digits} digits, {scale} after the point; long ones and NaN as strings"
        ),
        _ => format!("exact decimal of {digits} digits; long ones and NaN as strings"),
    }
}

#[cfg(test)]
mod tests;
