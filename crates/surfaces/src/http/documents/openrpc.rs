//! The OpenRPC document of the catalog: what `rpc.discover` answers.
//!
//! Not here: the surface itself (`http::rpc`).

use std::collections::BTreeMap;

use sentinel_core::Kind;
use serde_json::{Map, Value, json};

use super::answers;
use super::content;
use super::names::type_name;
use super::schemas::{Components, Parameter, reference};
use super::shown::{Shown, Tool};
use crate::rescue;

const VERSION: &str = "1.3.2";
/// Methods of the surface's own begin so.
const RESERVED: &str = "rpc.";

const ABOUT: &str = "Every tool that you see is a method, its arguments are the params, by name. The result is the \
    tool's structured content, or else its content blocks. `error.data` has the members of a problem document; its \
    `code` is explained at `/problems/{code}`.";

/// The document.
pub(super) fn document(shown: &Shown) -> Value {
    let mut components = Components::default();
    answers::add_schemas(&mut components);
    content::add_schemas(&mut components);
    let mut methods = own_methods();
    let callable = shown
        .tools
        .iter()
        .filter(|tool| tool.is_by_name && !tool.name.starts_with(RESERVED));
    methods.extend(callable.map(|tool| method(tool, &tool.name, false, &mut components)));
    for tool in &shown.tools {
        let declared = tool.ways.methods.iter();
        methods
            .extend(declared.map(|way| method(tool, &way.method, way.is_whole, &mut components)));
    }
    json!({
        "openrpc": VERSION,
        "info": {
            "title": "Sentinel Gateway: the catalog",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
        },
        "methods": methods,
        "components": { "schemas": components.into_schemas(), "errors": errors() },
    })
}

/// A method that calls a tool. `is_whole`: its backend answers itself.
fn method(tool: &Tool, name: &str, is_whole: bool, components: &mut Components) -> Value {
    let (entry, type_name) = (&tool.entry, type_name(&tool.name));
    let input = components.add(&format!("{type_name}Input"), entry.get("inputSchema"), true);
    let output = entry
        .get("outputSchema")
        .filter(|schema| schema.is_object());
    let result = match output {
        Some(schema) => reference(
            &components
                .add(&format!("{type_name}Output"), Some(schema), false)
                .name,
        ),
        None if is_whole => json!({}),
        None => reference("ContentResult"),
    };
    let named = input
        .parameters
        .iter()
        .filter(|parameter| !parameter.name.is_empty());
    let mut method = described(name, named.map(param).collect(), &result);
    method["tags"] = json!([{ "name": &*tool.backend }]);
    for (member, from) in [("summary", "title"), ("description", "description")] {
        if let Some(text) = entry.get(from).filter(|text| text.is_string()) {
            method[member] = text.clone();
        }
    }
    method
}

fn param(parameter: &Parameter) -> Value {
    let mut param = json!({
        "name": parameter.name, "required": parameter.is_required, "schema": parameter.schema,
    });
    if let Some(text) = &parameter.description {
        param["description"] = text.clone();
    }
    param
}

fn described(name: &str, params: Vec<Value>, result: &Value) -> Value {
    let errors = by_code()
        .into_keys()
        .map(|code| json!({ "$ref": format!("#/components/errors/{}", error_name(code)) }));
    json!({
        "name": name,
        "paramStructure": "by-name",
        "params": params,
        "result": { "name": "result", "schema": result },
        "errors": errors.collect::<Vec<Value>>(),
    })
}

fn own_methods() -> Vec<Value> {
    let param = |name: &str, required: bool, schema: Value| json!({ "name": name, "required": required, "schema": schema });
    let text = || json!({ "type": "string" });
    let object = || json!({ "type": "object", "additionalProperties": true });
    let anything = json!({});
    let own = |name: &str, summary: &str, params: Vec<Value>, result: &Value| {
        let mut method = described(name, params, result);
        method["summary"] = summary.into();
        method
    };
    vec![
        own("rpc.discover", "This document", Vec::new(), &object()),
        own(
            "rpc.readResource",
            "Reads a resource",
            vec![param("uri", true, text())],
            &reference("ResourceResult"),
        ),
        own(
            "rpc.getPrompt",
            "Renders a prompt",
            vec![
                param("name", true, text()),
                param("arguments", false, object()),
            ],
            &reference("PromptResult"),
        ),
        own(
            "rpc.continue",
            "Continues a call that asked for input",
            vec![
                param("method", true, text()),
                param("params", false, object()),
                param("requestState", true, text()),
                param("inputResponses", false, object()),
            ],
            &anything,
        ),
    ]
}

/// The kinds of fault of a call, by the code that they have here.
fn by_code() -> BTreeMap<i32, Vec<Kind>> {
    let mut all: BTreeMap<i32, Vec<Kind>> = BTreeMap::new();
    for kind in answers::of_calls() {
        all.entry(rescue::rpc_code(kind)).or_default().push(kind);
    }
    all
}

fn error_name(code: i32) -> String {
    format!("E{}", code.unsigned_abs())
}

fn errors() -> Map<String, Value> {
    let one = |(code, kinds): (i32, Vec<Kind>)| {
        let titles: Vec<&str> = kinds.iter().map(|kind| rescue::title(*kind)).collect();
        let data = |kind: &Kind| json!({ "code": kind.as_str(), "retryable": rescue::is_retryable(*kind), "hint": rescue::hint(*kind) });
        let data: Vec<Value> = kinds.iter().map(data).collect();
        (
            error_name(code),
            json!({ "code": code, "message": titles.join(" / "), "data": data }),
        )
    };
    by_code().into_iter().map(one).collect()
}
