//! The arguments of an operation's tool: a name and a schema for each parameter and for the body.

use http::HeaderName;
use serde_json::{Map, Value, json};

use super::forms::{fields, file_schema};
use super::{Body, Form, In, Parameter, names_in};
use crate::openapi::document::{Document, flag, text};
use crate::openapi::media::{is_json, preference};
use crate::openapi::schema::{Converter, Direction};
use crate::openapi::style::Style;

/// Headers that the gateway decides, or that say how a message is framed.
const OWN_HEADERS: [&str; 12] = [
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];
/// Parameters of one operation; real ones have some dozens.
pub(super) const PARAMETERS_MAX: usize = 256;

/// The arguments of a tool while they are collected.
pub(super) struct Input<'a> {
    converter: &'a Converter<'a>,
    pub(super) parameters: Vec<Parameter>,
    properties: Map<String, Value>,
    /// Of all arguments: references lead to the root of the tool's schema.
    definitions: Map<String, Value>,
    required: Vec<String>,
}

impl<'a> Input<'a> {
    pub(super) fn new(converter: &'a Converter<'a>) -> Self {
        Self {
            converter,
            parameters: Vec::new(),
            properties: Map::new(),
            definitions: Map::new(),
            required: Vec::new(),
        }
    }

    /// A name for an argument that models and checkers take, and that no other argument has.
    fn argument(&self, name: &str, otherwise: &str) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let base: String = name
            .chars()
            .map(|c| if plain(c) { c } else { '_' })
            .collect();
        let base = base.trim_matches('_');
        let base = if base.is_empty() { otherwise } else { base };
        let mut base: String = base.chars().take(64).collect();
        if self.properties.contains_key(&base) {
            base = format!("{:.50}_{otherwise}", base);
        }
        let mut argument = base.clone();
        for n in 2.. {
            if !self.properties.contains_key(&argument) {
                break;
            }
            argument = format!("{base}_{n}");
        }
        argument
    }

    fn add(&mut self, argument: String, mut schema: Value, required: bool) {
        self.hoist(&argument, &mut schema);
        if required {
            self.required.push(argument.clone());
        }
        self.properties.insert(argument, schema);
    }

    /// Takes the definitions out of an argument's schema. Where another argument has one of the same name that differs, all
    /// are named after their argument.
    fn hoist(&mut self, argument: &str, schema: &mut Value) {
        let own = schema
            .as_object_mut()
            .and_then(|members| members.shift_remove("$defs"));
        let Some(Value::Object(own)) = own else {
            return;
        };
        let differs = |(name, one): (&String, &Value)| {
            self.definitions.get(name).is_some_and(|known| known != one)
        };
        let clash = own.iter().any(differs);
        if clash {
            rename(schema, argument);
        }
        for (name, mut one) in own {
            if clash {
                rename(&mut one, argument);
                self.definitions.insert(format!("{argument}.{name}"), one);
            } else {
                self.definitions.insert(name, one);
            }
        }
    }

    /// The whole input schema.
    pub(super) fn schema(&mut self) -> Value {
        let mut schema = json!({
            "type": "object",
            "properties": std::mem::take(&mut self.properties),
            "required": std::mem::take(&mut self.required),
            "additionalProperties": false,
        });
        if !self.definitions.is_empty() {
            schema["$defs"] = Value::Object(std::mem::take(&mut self.definitions));
        }
        schema
    }

    pub(super) fn parameter(
        &mut self,
        document: &Document,
        parameter: &Value,
    ) -> Result<(), String> {
        let name = text(parameter, "name").unwrap_or_default();
        let place = text(parameter, "in").and_then(In::of);
        let Some(place) = place.filter(|_| !name.is_empty()) else {
            return match flag(parameter, "required") {
                Some(true) => Err(format!("its parameter `{name}` has no place that is known")),
                _ => Ok(()),
            };
        };
        if place == In::Header {
            let header: Result<HeaderName, _> = name.parse();
            match header {
                Ok(header) if OWN_HEADERS.contains(&header.as_str()) => return Ok(()),
                Ok(_) => {}
                Err(_) => return Err(format!("its header `{name}` cannot be one")),
            }
        }
        if self.parameters.len() >= PARAMETERS_MAX {
            return Err(format!("it has more than {PARAMETERS_MAX} parameters"));
        }
        let content = document.members(parameter.get("content")).next();
        let schema =
            content.map_or_else(|| parameter.get("schema"), |(_, media)| media.get("schema"));
        let empty = json!({});
        let mut schema = self
            .converter
            .convert(schema.unwrap_or(&empty), Direction::Input);
        describe(&mut schema, text(parameter, "description"));
        example(&mut schema, parameter);
        let style = text(parameter, "style")
            .and_then(Style::of)
            .unwrap_or(match place {
                In::Path | In::Header => Style::Simple,
                In::Query | In::Cookie => Style::Form,
            });
        let explode = flag(parameter, "explode");
        let argument = self.argument(name, place.word());
        let required = place == In::Path || flag(parameter, "required") == Some(true);
        self.parameters.push(Parameter {
            argument: argument.clone(),
            name: name.to_owned(),
            place,
            style,
            explode: explode.unwrap_or(matches!(style, Style::Form | Style::DeepObject)),
            allow_reserved: flag(parameter, "allowReserved") == Some(true),
            is_json: content.is_some_and(|(media, _)| is_json(media)),
            is_bare: matches!(
                text(&schema, "type"),
                Some("integer" | "number" | "boolean")
            ),
        });
        self.add(argument, schema, required);
        Ok(())
    }

    /// Places in the path that no parameter is declared for: people forget them.
    pub(super) fn undeclared(&mut self, path: &str) {
        for name in names_in(path) {
            let known = |p: &Parameter| p.place == In::Path && p.name == name;
            if self.parameters.iter().any(known) {
                continue;
            }
            let argument = self.argument(name, "path");
            self.parameters.push(Parameter {
                argument: argument.clone(),
                name: name.to_owned(),
                place: In::Path,
                style: Style::Simple,
                explode: false,
                allow_reserved: false,
                is_json: false,
                is_bare: false,
            });
            self.add(argument, json!({ "type": "string" }), true);
        }
    }

    pub(super) fn body(
        &mut self,
        document: &Document,
        body: &Value,
    ) -> Result<Option<Body>, String> {
        let contents: Vec<(&str, &Value)> = document.members(body.get("content")).collect();
        let Some((name, media)) = contents.iter().min_by_key(|(name, _)| preference(name)) else {
            return Ok(None);
        };
        let required = flag(body, "required") == Some(true);
        let empty = json!({});
        let given = media.get("schema").unwrap_or(&empty);
        let resolved = document.resolve(given).unwrap_or(&empty);
        let mut schema = self.converter.convert(given, Direction::Input);
        let form = match preference(name) {
            0 => Form::Json,
            1 => Form::Urlencoded(fields(document, media, resolved, &mut schema, false)),
            2 => Form::Multipart(fields(document, media, resolved, &mut schema, true)),
            3 => {
                schema = json!({ "type": "string" });
                Form::Text
            }
            _ => {
                schema = file_schema();
                Form::Bytes
            }
        };
        describe(&mut schema, text(body, "description"));
        if !matches!(form, Form::Bytes) {
            example(&mut schema, media);
        }
        let argument = match self.properties.contains_key("body") {
            true => self.argument("request_body", "body"),
            false => "body".to_owned(),
        };
        self.add(argument.clone(), schema, required);
        // A range such as `image/*` is no type; what the caller names counts for bytes.
        let concrete = |name: &str| !name.contains('*');
        let media_type = match (&form, concrete(name)) {
            (_, true) => (*name).to_owned(),
            (Form::Json, _) => "application/json".to_owned(),
            (Form::Text, _) => "text/plain".to_owned(),
            _ => "application/octet-stream".to_owned(),
        };
        Ok(Some(Body {
            argument,
            media_type,
            form,
        }))
    }
}

/// Puts the name of an argument before the names of the definitions that a schema refers to.
fn rename(schema: &mut Value, argument: &str) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, argument)),
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(reference) if name == "$ref" => {
                        if let Some(last) = reference.strip_prefix("#/$defs/") {
                            *reference = format!("#/$defs/{argument}.{last}");
                        }
                    }
                    _ => rename(value, argument),
                }
            }
        }
        _ => {}
    }
}

pub(super) fn describe(schema: &mut Value, words: Option<&str>) {
    if let (Some(members), Some(words)) = (schema.as_object_mut(), words.filter(|w| !w.is_empty()))
    {
        members.insert("description".to_owned(), words.into());
    }
}

/// A parameter's or a body's own example, where its schema has none.
fn example(schema: &mut Value, holder: &Value) {
    let named = holder.get("examples").and_then(Value::as_object);
    let first = named.and_then(|named| named.values().next()?.get("value"));
    if let (Some(members), Some(example)) =
        (schema.as_object_mut(), holder.get("example").or(first))
        && !members.contains_key("examples")
        && !members.contains_key("$ref")
    {
        members.insert("examples".to_owned(), json!([example]));
    }
}
