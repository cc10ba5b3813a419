//! Schemas of a description as JSON Schema 2020-12, each complete in itself.
//!
//! References are replaced by what they refer to; what refers to itself becomes a local definition. Where that makes a schema too
//! large, every reference becomes a definition, and then the schema is cut at ever smaller depths: below, anything is allowed. Only
//! keywords with the kind of value that JSON Schema asks for are taken over, so what comes out compiles.
//!
//! Not here: which schema belongs to which argument (`operation`).

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use super::document::{Document, Version, flag, text};
use nullable::or_null;

mod nullable;

/// Larger ones are not compiled by the checker of arguments, and no model reads them.
const BYTES_MAX: usize = 128 * 1024;
/// A schema with everything in place may be as large as this; definitions are shorter and harder to read.
const INLINE_BYTES_MAX: usize = 32 * 1024;
/// Parts of one schema: the checker compiles 8000.
const PARTS_MAX: usize = 4000;
/// Values of one enumeration; nobody chooses among more.
const ENUM_MAX: usize = 1000;
/// Deepest nesting, and the depths at which a schema that is too large is cut.
const DEPTH_MAX: usize = 48;
const CUTS: [usize; 5] = [DEPTH_MAX, 10, 6, 4, 2];

/// Which way values of a schema go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Read-only members are not sent.
    Input,
    /// Write-only members do not come.
    Output,
}

/// Keywords whose value is one schema.
const ONE: [&str; 10] = [
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Whose value is a list of schemas, an object of schemas.
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const NAMED: [&str; 3] = ["dependentSchemas", "patternProperties", "properties"];
/// Whose value is a text, a count, a number.
const TEXT: [&str; 5] = [
    "contentEncoding",
    "contentMediaType",
    "description",
    "format",
    "title",
];
const COUNT: [&str; 8] = [
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
];
const NUMBER: [&str; 4] = ["exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"];
const TYPES: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

pub(super) struct Converter<'a> {
    document: &'a Document,
    /// Patterns that our checker does not understand are left out.
    patterns: bool,
    /// Parts that were converted so far.
    spent: Cell<usize>,
}

/// One conversion on its way.
struct Work<'a> {
    document: &'a Document,
    direction: Direction,
    inline: bool,
    patterns: bool,
    depth_max: usize,
    parts: usize,
    /// References being replaced right now.
    open: Vec<String>,
    /// Names of definitions, and those that are still to be written.
    names: HashMap<String, String>,
    taken: HashSet<String>,
    /// How often the same last part of a reference was met.
    alike: HashMap<String, usize>,
    waiting: VecDeque<String>,
}

impl<'a> Converter<'a> {
    pub(super) fn new(document: &'a Document) -> Self {
        Self {
            document,
            patterns: true,
            spent: Cell::new(0),
        }
    }

    pub(super) fn without_patterns(document: &'a Document) -> Self {
        Self {
            document,
            patterns: false,
            spent: Cell::new(0),
        }
    }

    /// What was converted so far, in parts of schemas: some microseconds each.
    pub(super) fn spent(&self) -> usize {
        self.spent.get()
    }

    /// A schema that stands alone, of a size that can be used.
    pub(super) fn convert(&self, schema: &Value, direction: Direction) -> Value {
        let attempts = [(true, DEPTH_MAX, INLINE_BYTES_MAX)].into_iter();
        let attempts = attempts.chain(CUTS.map(|depth| (false, depth, BYTES_MAX)));
        for (inline, depth_max, bytes_max) in attempts {
            let mut work = Work {
                document: self.document,
                direction,
                inline,
                patterns: self.patterns,
                depth_max,
                parts: 0,
                open: Vec::new(),
                names: HashMap::new(),
                taken: HashSet::new(),
                alike: HashMap::new(),
                waiting: VecDeque::new(),
            };
            let whole = work.whole(schema);
            self.spent.set(self.spent.get() + work.parts);
            if work.parts <= PARTS_MAX && whole.to_string().len() <= bytes_max {
                return whole;
            }
        }
        json!({})
    }
}

impl Work<'_> {
    fn whole(&mut self, schema: &Value) -> Value {
        let mut whole = self.schema(schema, 0);
        let mut definitions = Map::new();
        while let Some(reference) = self.waiting.pop_front() {
            let name = self.names[&reference].clone();
            let target = self
                .document
                .target(&reference)
                .cloned()
                .unwrap_or_default();
            self.open = vec![reference];
            let depth = if self.depth_max < DEPTH_MAX { 2 } else { 1 };
            definitions.insert(name, self.schema(&target, depth));
        }
        self.open.clear();
        if !definitions.is_empty() {
            let members = match whole {
                Value::Object(ref mut members) => members,
                _ => return json!({}),
            };
            members.insert("$defs".to_owned(), Value::Object(definitions));
        }
        whole
    }

    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        self.parts += 1;
        // Counting on would cost as much as the whole; the attempt has failed.
        if depth > self.depth_max || self.parts > PARTS_MAX {
            return json!({});
        }
        let Some(members) = schema.as_object() else {
            return match schema {
                Value::Bool(_) => schema.clone(),
                _ => json!({}),
            };
        };
        if let Some(reference) = text(schema, "$ref") {
            return self.reference(reference, members, depth);
        }
        self.object(members, depth)
    }

    fn reference(&mut self, reference: &str, beside: &Map<String, Value>, depth: usize) -> Value {
        let target = self.document.target(reference);
        let Some(target) = target.filter(|target| self.document.resolve(target).is_some()) else {
            return json!({});
        };
        let circular = self.open.iter().any(|open| open == reference);
        let mut converted = if !self.inline || circular || self.names.contains_key(reference) {
            let name = self.definition(reference);
            json!({ "$ref": format!("#/$defs/{name}") })
        } else {
            self.open.push(reference.to_owned());
            let converted = self.schema(target, depth);
            self.open.pop();
            converted
        };
        // 3.1 allows anything beside a reference; before, people wrote a description or `nullable` there all the same.
        if self.document.version == Version::V31 && beside.len() > 1 {
            let mut own = beside.clone();
            own.shift_remove("$ref");
            let own = self.object(&own, depth);
            if own.as_object().is_some_and(|own| !own.is_empty()) {
                converted = json!({ "allOf": [converted, own] });
            }
        } else if let Some(words) = beside.get("description").filter(|words| words.is_string())
            && let Some(members) = converted.as_object_mut()
        {
            members.insert("description".to_owned(), words.clone());
        }
        match flag(&Value::Object(beside.clone()), "nullable") {
            Some(true) if self.document.version != Version::V31 => or_null(converted),
            _ => converted,
        }
    }

    /// The name of a definition that is written in the end.
    fn definition(&mut self, reference: &str) -> String {
        if let Some(known) = self.names.get(reference) {
            return known.clone();
        }
        let last = reference.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let base: String = last
            .chars()
            .map(|c| if plain(c) { c } else { '_' })
            .take(60)
            .collect();
        let number = self.alike.entry(base.clone()).or_default();
        let mut name = base.clone();
        loop {
            *number += 1;
            if *number > 1 {
                name = format!("{base}_{number}");
            }
            if self.taken.insert(name.clone()) {
                break;
            }
        }
        self.names.insert(reference.to_owned(), name.clone());
        self.waiting.push_back(reference.to_owned());
        name
    }

    fn object(&mut self, members: &Map<String, Value>, depth: usize) -> Value {
        let mut out = Map::new();
        for (keyword, value) in members {
            if let Some(value) = self.keyword(keyword, value, depth) {
                out.insert(keyword.clone(), value);
            }
        }
        self.drop_hidden(members, &mut out);
        if self.document.version != Version::V31 {
            self.modernise(members, &mut out);
        }
        if let Some(example) = members.get("example")
            && !out.contains_key("examples")
        {
            out.insert("examples".to_owned(), json!([example]));
        }
        let nullable = self.document.version != Version::V31
            && ["nullable", "x-nullable"]
                .iter()
                .any(|name| members.get(*name) == Some(&json!(true)));
        match nullable {
            true => or_null(Value::Object(out)),
            false => Value::Object(out),
        }
    }

    fn keyword(&mut self, keyword: &str, value: &Value, depth: usize) -> Option<Value> {
        let next = depth + 1;
        let is_schema = |value: &Value| value.is_object() || value.is_boolean();
        Some(match (keyword, value) {
            ("type", _) => self.types(value)?,
            (name, _) if ONE.contains(&name) && is_schema(value) => self.schema(value, next),
            (name, Value::Array(items)) if LIST.contains(&name) && !items.is_empty() => {
                items.iter().map(|item| self.schema(item, next)).collect()
            }
            (name, Value::Object(named)) if NAMED.contains(&name) => {
                let patterns = self.patterns || name != "patternProperties";
                let named = named.iter().filter(|_| patterns);
                let named = named.map(|(name, one)| (name.clone(), self.schema(one, next)));
                Value::Object(named.collect())
            }
            // Words help to choose values; on members deep down there are many of them.
            (name, Value::String(_)) if TEXT.contains(&name) => value.clone(),
            (name, Value::Number(n)) if COUNT.contains(&name) && n.as_u64().is_some() => {
                value.clone()
            }
            (name, Value::Number(_)) if NUMBER.contains(&name) => value.clone(),
            ("multipleOf", Value::Number(n)) if n.as_f64().is_some_and(|n| n > 0.0) => {
                value.clone()
            }
            ("pattern", Value::String(_)) if self.patterns => value.clone(),
            ("uniqueItems" | "deprecated", Value::Bool(_)) => value.clone(),
            ("default" | "const", _) => value.clone(),
            ("enum", Value::Array(values)) if (1..=ENUM_MAX).contains(&values.len()) => {
                let mut distinct: Vec<Value> = Vec::with_capacity(values.len());
                for value in values {
                    if !distinct.contains(value) {
                        distinct.push(value.clone());
                    }
                }
                Value::Array(distinct)
            }
            ("examples", Value::Array(_)) => value.clone(),
            ("required", Value::Array(names)) => {
                let mut met = HashSet::new();
                let names = names.iter().filter_map(Value::as_str);
                names.filter(|name| met.insert(*name)).collect()
            }
            ("dependentRequired", Value::Object(_)) if self.document.version == Version::V31 => {
                value.clone()
            }
            _ => return None,
        })
    }

    fn types(&self, value: &Value) -> Option<Value> {
        let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
        match value {
            Value::String(name) if name == "file" => Some(json!("string")),
            Value::String(_) => known(value).then(|| value.clone()),
            Value::Array(names) => {
                let mut names: Vec<_> = names.iter().filter(|name| known(name)).cloned().collect();
                names.dedup();
                (!names.is_empty()).then_some(Value::Array(names))
            }
            _ => None,
        }
    }

    /// Members of an object that go the other way only.
    fn drop_hidden(&self, members: &Map<String, Value>, out: &mut Map<String, Value>) {
        let mark = match self.direction {
            Direction::Input => "readOnly",
            Direction::Output => "writeOnly",
        };
        let named = members.get("properties").and_then(Value::as_object);
        let hidden: Vec<&String> = named
            .into_iter()
            .flatten()
            .filter(|(_, one)| {
                let own = flag(one, mark) == Some(true);
                own || self
                    .document
                    .resolve(one)
                    .is_some_and(|one| flag(one, mark) == Some(true))
            })
            .map(|(name, _)| name)
            .collect();
        if let Some(Value::Object(properties)) = out.get_mut("properties") {
            properties.retain(|name, _| !hidden.contains(&name));
        }
        if let Some(Value::Array(required)) = out.get_mut("required") {
            required.retain(|name| !hidden.iter().any(|hidden| name == hidden.as_str()));
            if required.is_empty() {
                out.shift_remove("required");
            }
        }
    }

    /// What older schemas said differently.
    fn modernise(&self, members: &Map<String, Value>, out: &mut Map<String, Value>) {
        for (exclusive, inclusive) in [
            ("exclusiveMinimum", "minimum"),
            ("exclusiveMaximum", "maximum"),
        ] {
            if members.get(exclusive) == Some(&json!(true))
                && let Some(bound) = out.shift_remove(inclusive)
            {
                out.insert(exclusive.to_owned(), bound);
            }
        }
        // `format: binary` of 3.0 is what 3.1 says with a media type; base64 has a keyword of its own.
        if out.get("format") == Some(&json!("byte")) {
            out.shift_remove("format");
            out.insert("contentEncoding".to_owned(), json!("base64"));
        }
    }
}

#[cfg(test)]
mod tests;
