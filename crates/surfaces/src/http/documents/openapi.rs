//! The OpenAPI 3.1 document of the catalog: what the REST surface takes and answers, for one caller.
//!
//! Each tool and prompt has a path of its own, because a generator makes one function of each. Not here: schemas of tools
//! (`schemas`), refusals (`answers`), JSON and caching (`http::documents`).

mod routed;
mod shared;
mod tasks;

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::answers::{self, Asked};
use super::content;
use super::names::{Names, identifier, type_name};
use super::schemas::{Components, Named, reference};
use super::shown::{Prompt, Shown, Tool};
pub(super) use shared::query;
use shared::{CALLED, PLAIN, POSTED, accepted, example, parameters, result};

pub(super) const VERSION: &str = "3.1.0";
/// The tag of what is not one backend's; no backend can have this name.
const GATEWAY: &str = "Gateway";
const JSON: &str = "application/json";
/// All but what RFC 3986 leaves as it is in every part of a URI.
pub(in crate::http) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const ABOUT: &str = "Every tool, prompt and resource of the catalog that you see, over HTTP.";
const ANSWERS: &str = "The result of a tool is its structured content, or else its content blocks. With `Accept: text/event-stream` or \
    `application/jsonl` a call is told as a stream; a result that is one text, image, sound or file comes as bytes if \
    `Accept` prefers its media type. A POST with an `Idempotency-Key` can be sent again safely; with `Prefer: respond-async` a call \
    is answered `202` and seen at the path in `Location`. Paths outside of these are declared by backends. Refusals are problem documents (RFC 9457), explained at `/problems`.";

struct Writer<'a> {
    shown: &'a Shown,
    components: Components,
    ids: Names,
    paths: Map<String, Value>,
    /// The paths of backends' routes, by their shape.
    shapes: BTreeMap<String, String>,
}

/// The document.
pub(super) fn document(shown: &Shown) -> Value {
    let mut components = Components::default();
    answers::add_schemas(&mut components);
    content::add_schemas(&mut components);
    let mut writer = Writer {
        shown,
        components,
        ids: Names::default(),
        paths: Map::new(),
        shapes: BTreeMap::new(),
    };
    writer.add_gateway();
    for tool in shown.tools.iter().filter(|tool| tool.is_by_name) {
        writer.add_tool(tool);
    }
    for tool in &shown.tools {
        writer.add_routes(tool);
    }
    for prompt in &shown.prompts {
        writer.add_prompt(prompt);
    }
    let Writer {
        components, paths, ..
    } = writer;
    let asked = [
        Asked::Call,
        Asked::Query,
        Asked::Continue,
        Asked::Task,
        Asked::TaskEnd,
        Asked::TaskContinue,
        Asked::Prompt,
        Asked::Resource,
        Asked::List,
    ];
    let mut responses = answers::responses(&asked);
    responses.insert(
        "Content".to_owned(),
        result("The tool's content.", &reference("ContentResult"), POSTED),
    );
    responses.insert(
        "ContentOfGet".to_owned(),
        result("The tool's content.", &reference("ContentResult"), CALLED),
    );
    responses.insert("Accepted".to_owned(), accepted());
    finish(Parts {
        title: "Sentinel Gateway: the catalog",
        about: about(shown),
        tags: tags(shown),
        paths,
        components: json!({
            "schemas": components.into_schemas(),
            "responses": responses,
            "headers": answers::own_headers(),
            "parameters": parameters(),
        }),
        is_guarded: shown.is_guarded,
    })
}

/// What documents differ in.
pub(super) struct Parts {
    pub(super) title: &'static str,
    pub(super) about: String,
    pub(super) tags: Value,
    pub(super) paths: Map<String, Value>,
    pub(super) components: Value,
    pub(super) is_guarded: bool,
}

pub(super) fn finish(parts: Parts) -> Value {
    let mut document = json!({
        "openapi": VERSION,
        "info": {
            "title": parts.title,
            "version": env!("CARGO_PKG_VERSION"),
            "description": parts.about,
        },
        "servers": [{ "url": "/" }],
        "tags": parts.tags,
        "paths": parts.paths,
        "components": parts.components,
    });
    if parts.is_guarded {
        document["components"]["securitySchemes"] = json!({ "bearer": {
            "type": "http", "scheme": "bearer",
            "description": "An API key of this gateway, or an access token (JWT) of the issuer that it trusts.",
        }});
        document["security"] = json!([{ "bearer": [] }]);
    }
    document
}

fn about(shown: &Shown) -> String {
    match &*shown.elsewhere() {
        "" => format!("{ABOUT}\n\n{ANSWERS}"),
        places => format!("{ABOUT} The same operations are available over {places}.\n\n{ANSWERS}"),
    }
}

fn tags(shown: &Shown) -> Value {
    let of_backend = |backend: &super::shown::Backend| json!({ "name": &*backend.name, "description": backend.description });
    let mut all: Vec<Value> = shown.backends.iter().map(of_backend).collect();
    all.push(json!({ "name": GATEWAY, "description": "The catalog itself, resources, and calls that asked for input." }));
    all.into()
}

pub(super) fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

impl Writer<'_> {
    fn insert(&mut self, path: String, verb: &str, operation: Value) {
        let item = self.paths.entry(path).or_insert_with(|| json!({}));
        item[verb] = operation;
    }

    fn responses(&self, asked: Asked, ok: Value) -> Value {
        let mut all = Map::from_iter([("200".to_owned(), ok)]);
        asked.add_errors(self.shown.is_guarded, &mut all);
        Value::Object(all)
    }

    fn add_gateway(&mut self) {
        let tagged = json!([GATEWAY]);
        for (path, id, summary, schema) in [
            (
                "/catalog",
                "list_catalog",
                "Lists every operation that you see",
                "Catalog",
            ),
            (
                "/resources",
                "list_resources",
                "Lists resources and templates of resources",
                "ResourceList",
            ),
        ] {
            let mut ok = result("The list.", &reference(schema), PLAIN);
            ok["headers"] = answers::referred(&["ETag"]);
            let operation = json!({
                "tags": tagged, "operationId": self.ids.unique(id, path), "summary": summary,
                "responses": self.responses(Asked::List, ok),
            });
            self.insert(self.shown.rest(path), "get", operation);
        }
        let mut ok = result(
            "The resource: its bytes in their own media type, or JSON if `Accept` prefers that.",
            &reference("ResourceResult"),
            PLAIN,
        );
        ok["headers"] = answers::referred(&["ETag"]);
        ok["content"]["*/*"] = json!({ "schema": { "type": "string", "format": "binary" } });
        let mut responses = self.responses(Asked::Resource, ok.clone());
        ok["description"] = "The range of bytes that `Range` asks for.".into();
        responses["206"] = ok;
        let operation = json!({
            "tags": tagged, "operationId": self.ids.unique("read_resource", ""), "summary": "Reads a resource",
            "description": "The URI is one percent-encoded segment of the path.",
            "parameters": [{ "name": "uri", "in": "path", "required": true, "schema": { "type": "string" } }],
            "responses": responses,
        });
        self.insert(self.shown.rest("/resources/{uri}"), "get", operation);
        let ok = result("The result of the operation.", &json!({}), PLAIN);
        let operation = json!({
            "tags": tagged, "operationId": self.ids.unique("continue_call", ""),
            "summary": "Continues a call that asked for input",
            "description": "A call that is answered with `input_required` goes on with the answers.",
            "parameters": [{ "name": "operation", "in": "path", "required": true, "schema": { "type": "string" } }],
            "requestBody": { "required": true, "content": { JSON: { "schema": reference("Continuation") } } },
            "responses": self.responses(Asked::Continue, ok),
        });
        self.insert(self.shown.rest("/{operation}/continue"), "post", operation);
        self.add_tasks();
    }

    fn add_tool(&mut self, tool: &Tool) {
        let name = &*tool.name;
        let path = self.shown.rest(&format!("/{}", segment(name)));
        let input_schema = tool.entry.get("inputSchema");
        let input = self
            .components
            .add(&format!("{}Input", type_name(name)), input_schema, true);
        let output = tool
            .entry
            .get("outputSchema")
            .filter(|schema| schema.is_object());
        let output = output.map(|schema| {
            let name = format!("{}Output", type_name(name));
            self.components.add(&name, Some(schema), false).name
        });
        let ok = |headers, content| match &output {
            Some(name) => result("The tool's result.", &reference(name), headers),
            None => json!({ "$ref": format!("#/components/responses/{content}") }),
        };
        let mut operation = self.operation(name, name, &tool.backend, &tool.entry);
        let referred = |name| json!({ "$ref": format!("#/components/parameters/{name}") });
        operation["parameters"] = ["ConfirmationToken", "IdempotencyKey", "Prefer"]
            .map(referred)
            .to_vec()
            .into();
        operation["requestBody"] = self.body(&input, input_schema);
        operation["responses"] = self.responses(Asked::Call, ok(POSTED, "Content"));
        operation["responses"]["202"] = json!({ "$ref": "#/components/responses/Accepted" });
        self.insert(path.clone(), "post", operation);
        // The list of the catalog has this path.
        if tool.is_read_only && !self.is_taken(&path, "get") {
            let mut operation =
                self.operation(&format!("get_{name}"), name, &tool.backend, &tool.entry);
            let mut parameters: Vec<Value> = input.parameters.iter().map(query).collect();
            parameters.push(referred("ConfirmationToken"));
            operation["parameters"] = parameters.into();
            operation["responses"] = self.responses(Asked::Query, ok(CALLED, "ContentOfGet"));
            self.insert(path, "get", operation);
        }
    }

    fn is_taken(&self, path: &str, verb: &str) -> bool {
        self.paths
            .get(path)
            .is_some_and(|item| item.get(verb).is_some())
    }

    fn add_prompt(&mut self, prompt: &Prompt) {
        let name = &*prompt.name;
        let named =
            |argument: &Value| Some((argument.get("name")?.as_str()?.to_owned(), argument.clone()));
        let arguments = prompt.entry.get("arguments").and_then(Value::as_array);
        let arguments: Vec<(String, Value)> =
            arguments.into_iter().flatten().filter_map(named).collect();
        let property = |(name, argument): &(String, Value)| {
            let mut schema = json!({ "type": "string" });
            if let Some(text) = argument.get("description").filter(|text| text.is_string()) {
                schema["description"] = text.clone();
            }
            (name.clone(), schema)
        };
        let properties: Map<String, Value> = arguments.iter().map(property).collect();
        let is_required =
            |(_, argument): &&(String, Value)| argument.get("required") == Some(&Value::Bool(true));
        let required: Vec<&String> = arguments
            .iter()
            .filter(is_required)
            .map(|(name, _)| name)
            .collect();
        let schema = json!({
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": { "type": "string" },
        });
        let input = self
            .components
            .add(&format!("{}Prompt", type_name(name)), Some(&schema), true);
        let mut operation = self.operation(
            &format!("prompt_{name}"),
            name,
            &prompt.backend,
            &prompt.entry,
        );
        operation["requestBody"] = self.body(&input, Some(&schema));
        let ok = result("The rendered prompt.", &reference("PromptResult"), PLAIN);
        operation["responses"] = self.responses(Asked::Prompt, ok);
        let path = self.shown.rest(&format!("/prompts/{}", segment(name)));
        self.insert(path, "post", operation);
    }

    /// What operations have in common; `id` becomes the id as far as it can.
    fn operation(&mut self, id: &str, name: &str, backend: &str, entry: &Value) -> Value {
        let id = self.ids.unique(&identifier(id), id);
        let text = |value: Option<&Value>| {
            let text = value?.as_str()?.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let title = text(entry.get("title")).or_else(|| text(entry.pointer("/annotations/title")));
        let mut operation = json!({ "tags": [backend] });
        if id != name {
            operation["x-mcp-name"] = name.into();
        }
        operation["operationId"] = id.into();
        operation["summary"] = title.unwrap_or_else(|| name.to_owned()).into();
        if let Some(description) = text(entry.get("description")) {
            operation["description"] = description.into();
        }
        operation
    }

    /// Arguments as JSON. That they may be a form is left out: generators make a second, ambiguous body of it.
    fn body(&self, input: &Named, schema: Option<&Value>) -> Value {
        let mut media = json!({ "schema": reference(&input.name) });
        if let Some(example) = schema.and_then(example) {
            media["example"] = example;
        }
        let component = self.components.get(&input.name);
        let required = component.and_then(|schema| schema.get("required")?.as_array());
        let is_required = required.is_some_and(|names| !names.is_empty());
        json!({ "required": is_required, "content": { JSON: media } })
    }
}
