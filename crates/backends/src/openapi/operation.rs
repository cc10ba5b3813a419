//! One operation of a description: what a request of it is made of, and what its answer is.
//!
//! Not here: how it looks as a tool (`tools`), how a request is written (`request`, `body`), how an answer is read (`answer`).

use http::{HeaderName, Method};
use serde_json::{Map, Value, json};

use super::auth::Credential;
use super::client::Place;
use super::document::{Document, Version, flag, text};
use super::schema::{Converter, Direction};
use super::style::Style;
use super::swagger;

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
const PARAMETERS_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum In {
    Path,
    Query,
    Header,
    Cookie,
}

impl In {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "path" => Self::Path,
            "query" => Self::Query,
            "header" => Self::Header,
            "cookie" => Self::Cookie,
            _ => return None,
        })
    }

    fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }
}

/// One parameter: the argument that it comes from, and how it is sent.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) argument: String,
    pub(super) name: String,
    pub(super) place: In,
    pub(super) style: Style,
    pub(super) explode: bool,
    pub(super) allow_reserved: bool,
    /// `content` in place of a schema: the value is one text of JSON.
    pub(super) is_json: bool,
    /// Its values are numbers or booleans, so a text of one is written without quotes as an argument.
    pub(super) is_bare: bool,
}

/// What an operation sends besides parameters.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) argument: String,
    pub(super) media_type: String,
    pub(super) form: Form,
}

#[derive(Clone, Debug)]
pub(super) enum Form {
    /// As the caller wrote it.
    Json,
    Urlencoded(Vec<Field>),
    Multipart(Vec<Field>),
    Text,
    Bytes,
}

/// How one member of a form is sent.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) content_type: Option<String>,
    /// Where the description says one.
    pub(super) style: Option<(Style, bool, bool)>,
    pub(super) is_file: bool,
}

/// Whether answers are structured content, by the operation's output schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// There is no schema.
    Free,
    /// The answer is an object.
    Object,
    /// The answer is something else, and is the member `result` of one.
    Wrapped,
}

pub(super) struct Operation {
    pub(super) tool: String,
    pub(super) method: Method,
    /// Where the API is; its target ends without a slash.
    pub(super) base: Place,
    pub(super) path: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) accept: String,
    pub(super) credentials: Vec<Credential>,
    pub(super) output: Output,
}

/// An operation, and what its tool shows of it.
pub(super) struct Described {
    pub(super) operation: Operation,
    pub(super) input: Value,
    pub(super) output: Option<Value>,
}

/// The parts of an operation that its path item may hold for it.
pub(super) struct Source<'a> {
    pub(super) document: &'a Document,
    pub(super) item: &'a Value,
    pub(super) operation: &'a Value,
    pub(super) method: Method,
    pub(super) path: &'a str,
}

impl Source<'_> {
    /// Its parameters and body as arguments. `Err` says why it cannot be called.
    pub(super) fn describe(
        &self,
        converter: &Converter<'_>,
        base: Place,
        output_schemas: bool,
    ) -> Result<Described, String> {
        if !self.path.starts_with('/') || self.path.contains('#') {
            return Err("its path is none".to_owned());
        }
        let given = self.parameters();
        let upgraded;
        let operation = match self.document.version {
            Version::V20 => {
                upgraded = swagger::operation(self.document, self.operation, &given);
                &upgraded
            }
            _ => self.operation,
        };
        let parameters: Vec<&Value> = match self.document.version {
            Version::V20 => operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .collect(),
            _ => given,
        };
        let mut input = Input::new(converter);
        for parameter in parameters {
            input.parameter(self.document, parameter)?;
        }
        input.undeclared(self.path);
        let body = match self.document.member(operation, "requestBody") {
            Some(body) => input.body(self.document, body)?,
            None => None,
        };
        let answers = Answers::of(self.document, operation);
        let (output, schema) = match output_schemas {
            true => answers.output(converter),
            false => (Output::Free, None),
        };
        let operation = Operation {
            tool: String::new(),
            method: self.method.clone(),
            base,
            path: self.path.to_owned(),
            parameters: input.parameters,
            body,
            accept: answers.accept,
            credentials: Vec::new(),
            output,
        };
        Ok(Described {
            operation,
            input: json!({
                "type": "object",
                "properties": input.properties,
                "required": input.required,
                "additionalProperties": false,
            }),
            output: schema,
        })
    }

    /// Those of the operation, and those of its path that it does not replace.
    fn parameters(&self) -> Vec<&Value> {
        let mut all: Vec<&Value> = Vec::new();
        for holder in [self.operation, self.item] {
            let list = holder
                .get("parameters")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            for parameter in list.filter_map(|p| self.document.resolve(p)) {
                let key = |p: &Value| {
                    (
                        text(p, "name").map(str::to_owned),
                        text(p, "in").map(str::to_owned),
                    )
                };
                if !all.iter().any(|known| key(known) == key(parameter)) {
                    all.push(parameter);
                }
            }
        }
        all
    }
}

/// The arguments of a tool while they are collected.
struct Input<'a> {
    converter: &'a Converter<'a>,
    parameters: Vec<Parameter>,
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl<'a> Input<'a> {
    fn new(converter: &'a Converter<'a>) -> Self {
        Self {
            converter,
            parameters: Vec::new(),
            properties: Map::new(),
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

    fn add(&mut self, argument: String, schema: Value, required: bool) {
        if required {
            self.required.push(argument.clone());
        }
        self.properties.insert(argument, schema);
    }

    fn parameter(&mut self, document: &Document, parameter: &Value) -> Result<(), String> {
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
    fn undeclared(&mut self, path: &str) {
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

    fn body(&mut self, document: &Document, body: &Value) -> Result<Option<Body>, String> {
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

/// JSON before forms, forms before texts, bytes last.
fn preference(media_type: &str) -> u8 {
    let bare = bare(media_type);
    match bare.as_str() {
        "application/x-www-form-urlencoded" => 1,
        "multipart/form-data" => 2,
        "*/*" | "application/*" => 0,
        name if is_json(name) => 0,
        name if is_text(name) => 3,
        _ => 4,
    }
}

/// A media type without its parameters.
pub(super) fn bare(media_type: &str) -> String {
    media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

pub(super) fn is_json(media_type: &str) -> bool {
    let bare = bare(media_type);
    bare == "application/json" || bare == "text/json" || bare.ends_with("+json")
}

pub(super) fn is_text(media_type: &str) -> bool {
    let bare = bare(media_type);
    bare.starts_with("text/")
        || bare.ends_with("+xml")
        || bare.ends_with("+yaml")
        || [
            "xml",
            "yaml",
            "x-yaml",
            "javascript",
            "x-ndjson",
            "jsonl",
            "x-www-form-urlencoded",
            "graphql",
            "sql",
            "toml",
        ]
        .iter()
        .any(|name| bare.strip_prefix("application/") == Some(name))
}

/// The names in braces, each within one segment.
pub(super) fn names_in(path: &str) -> impl Iterator<Item = &str> {
    let names = path
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}').map(|(name, _)| name));
    names.filter(|name| !name.contains(['/', '?']))
}

fn describe(schema: &mut Value, words: Option<&str>) {
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

/// What a caller says of a file: base64, or a text.
fn file_schema() -> Value {
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
fn fields(
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

/// What an operation answers when all is well.
struct Answers<'a> {
    accept: String,
    /// The schemas of JSON answers; `None` where an answer is something else.
    schemas: Vec<Option<&'a Value>>,
    document: &'a Document,
}

impl<'a> Answers<'a> {
    fn of(document: &'a Document, operation: &'a Value) -> Self {
        let all: Vec<_> = document.members(operation.get("responses")).collect();
        let good = |status: &str| status.starts_with('2');
        let some_good = all.iter().any(|(status, _)| good(status));
        let mut accept: Vec<String> = Vec::new();
        let mut schemas = Vec::new();
        for (status, response) in all {
            // `default` is usually the error.
            if !good(status) && (some_good || status != "default") {
                continue;
            }
            let contents: Vec<_> = document.members(response.get("content")).collect();
            accept.extend(contents.iter().map(|(name, _)| bare(name)));
            let json = contents.iter().find(|(name, _)| is_json(name));
            schemas.push(json.and_then(|(_, media)| media.get("schema")));
        }
        accept.sort_by_key(|name| !is_json(name));
        accept.dedup();
        accept.truncate(8);
        accept.retain(|name| name.bytes().all(|b| b.is_ascii_graphic() && b != b','));
        if !accept.iter().any(|name| name == "*/*") {
            accept.push(
                if accept.is_empty() {
                    "application/json, */*;q=0.5"
                } else {
                    "*/*;q=0.1"
                }
                .to_owned(),
            );
        }
        Self {
            accept: accept.join(", "),
            schemas,
            document,
        }
    }

    /// A schema only if every good answer is JSON of a known form: clients refuse results that differ.
    fn output(&self, converter: &Converter<'_>) -> (Output, Option<Value>) {
        let all: Option<Vec<&Value>> = self.schemas.iter().copied().collect();
        let Some(all) = all.filter(|all| !all.is_empty()) else {
            return (Output::Free, None);
        };
        let objects = all.iter().all(|schema| self.is_object(schema, 0));
        let mut converted: Vec<Value> = Vec::new();
        for schema in all {
            let schema = converter.convert(schema, Direction::Output);
            if !converted.contains(&schema) {
                converted.push(schema);
            }
        }
        let schema = match (converted.len(), converted.pop()) {
            (1, Some(one)) => one,
            // Definitions are found from the root of a schema only.
            _ => json!({}),
        };
        if objects {
            let mut schema = match schema {
                Value::Object(members) => members,
                _ => Map::new(),
            };
            // As MCP wants it: a reference or `allOf` alone does not say so.
            schema.insert("type".to_owned(), json!("object"));
            return (Output::Object, Some(Value::Object(schema)));
        }
        let mut inner = schema;
        let definitions = inner
            .as_object_mut()
            .and_then(|inner| inner.shift_remove("$defs"));
        let mut outer = json!({
            "type": "object", "properties": { "result": inner }, "required": ["result"],
        });
        if let Some(definitions) = definitions {
            outer["$defs"] = definitions;
        }
        (Output::Wrapped, Some(outer))
    }

    /// Whether a schema allows objects only.
    fn is_object(&self, schema: &Value, depth: usize) -> bool {
        let Some(schema) = self.document.resolve(schema).filter(|_| depth < 16) else {
            return false;
        };
        let nullable = flag(schema, "nullable") == Some(true);
        if let Some(kind) = schema.get("type") {
            return kind == "object" && !nullable;
        }
        let list = |name: &str| {
            schema
                .get(name)
                .and_then(Value::as_array)
                .filter(|all| !all.is_empty())
        };
        let inner = |one: &Value| self.is_object(one, depth + 1);
        schema.get("properties").is_some()
            || list("allOf").is_some_and(|all| all.iter().any(inner))
            || ["oneOf", "anyOf"]
                .iter()
                .filter_map(|name| list(name))
                .any(|all| all.iter().all(inner))
    }
}
