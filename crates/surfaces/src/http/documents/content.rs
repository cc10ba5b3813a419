//! The schemas that every OpenAPI document of the catalog has: content of results, streams, lists.

use serde_json::{Value, json};

use super::schemas::{Components, reference};

/// How a call is told as a stream; also in the description of the document.
const STREAM: &str = "The call as a stream of records (`StreamRecord`): progress, log lines, and at last its result or error.";

/// What problem documents hold as well.
pub(super) fn add_blocks(components: &mut Components) {
    let text = || json!({ "type": "string" });
    let base64 = || json!({ "type": "string", "contentEncoding": "base64" });
    components.own("ContentBlock", json!({
        "type": "object",
        "description": "A piece of a result: text, an image, sound, a link to a resource, or a resource itself.",
        "required": ["type"],
        "properties": {
            "type": { "type": "string", "examples": ["text"] },
            "text": text(),
            "data": base64(),
            "mimeType": text(),
            "uri": text(),
            "name": text(),
            "resource": reference("ResourceContent"),
        },
        "additionalProperties": true,
    }));
    components.own(
        "ResourceContent",
        json!({
            "type": "object",
            "description": "What is in a resource: text or bytes.",
            "required": ["uri"],
            "properties": { "uri": text(), "mimeType": text(), "text": text(), "blob": base64() },
            "additionalProperties": true,
        }),
    );
}

pub(super) fn add_schemas(components: &mut Components) {
    add_blocks(components);
    let text = || json!({ "type": "string" });
    components.own(
        "ContentResult",
        json!({
            "type": "object",
            "description": "The result of a tool that declares no form of it: content, or structured content with members of its own.",
            "properties": { "content": { "type": "array", "items": reference("ContentBlock") } },
        }),
    );
    components.own(
        "PromptMessage",
        json!({
            "type": "object",
            "required": ["role", "content"],
            "properties": { "role": text(), "content": reference("ContentBlock") },
            "additionalProperties": true,
        }),
    );
    components.own(
        "PromptResult",
        json!({
            "type": "object",
            "description": "A rendered prompt.",
            "required": ["messages"],
            "properties": {
                "description": text(),
                "messages": { "type": "array", "items": reference("PromptMessage") },
            },
        }),
    );
    components.own("ResourceResult", json!({
        "type": "object",
        "required": ["contents"],
        "properties": { "contents": { "type": "array", "items": reference("ResourceContent") } },
    }));
    components.own("Continuation", json!({
        "type": "object",
        "description": "The same call again, with answers to what it asked.",
        "required": ["requestState"],
        "properties": {
            "arguments": { "type": "object", "additionalProperties": true, "description": "As they were in the first call." },
            "requestState": { "type": "string", "description": "From the answer that asked." },
            "inputResponses": { "type": "object", "additionalProperties": true, "description": "The answers, by the names in `inputRequests`." },
        },
    }));
    components.own("Task", json!({
        "type": "object",
        "description": "A call that is answered later, while it runs.",
        "required": ["id", "operation", "state", "created_at_ms"],
        "properties": {
            "id": text(),
            "operation": text(),
            "state": { "type": "string", "enum": ["working"] },
            "created_at_ms": { "type": "integer", "description": "Milliseconds since 1970." },
            "progress": { "type": "object", "additionalProperties": true, "description": "The last progress that was told." },
            "log": { "type": "object", "additionalProperties": true, "description": "The last log line that was told." },
        },
    }));
    components.own("TaskAnswers", json!({
        "type": "object",
        "description": "Answers to what a call asked that is answered later.",
        "properties": {
            "inputResponses": { "type": "object", "additionalProperties": true, "description": "The answers, by the names in `inputRequests`." },
        },
    }));
    components.own("StreamRecord", json!({
        "type": "object",
        "description": "One record of a stream. The last one is of the type `result` or `error`.",
        "required": ["type"],
        "properties": {
            "type": { "type": "string", "enum": ["progress", "log", "result", "error"] },
            "progress": { "type": "number" },
            "total": { "type": "number" },
            "message": text(),
            "level": text(),
            "logger": text(),
            "data": { "description": "What is logged." },
            "result": { "description": "What the operation answers as JSON." },
            "next": { "type": "object", "additionalProperties": true, "description": "What to put over the arguments for the next page of the result." },
            "error": reference("Problem"),
        },
        "additionalProperties": true,
    }));
    components.own("EventStream", json!({
        "type": "string",
        "contentMediaType": "text/event-stream",
        "description": format!("{STREAM} Each is an event of the type that it names, its data in one line."),
    }));
    components.own(
        "JsonLines",
        json!({
            "type": "string",
            "contentMediaType": "application/jsonl",
            "description": format!("{STREAM} Each is a line; empty lines mean nothing."),
        }),
    );
    add_lists(components);
}

fn add_lists(components: &mut Components) {
    let text = || json!({ "type": "string" });
    let item = |about: &str, required: &[&str], further: Value| {
        let mut properties = json!({ "name": text(), "title": text(), "description": text() });
        if let (Value::Object(all), Value::Object(further)) = (&mut properties, further) {
            all.extend(further);
        }
        json!({
            "type": "object", "description": about, "required": required, "properties": properties,
            "additionalProperties": true,
        })
    };
    let object = || json!({ "type": "object", "additionalProperties": true });
    components.own("ToolEntry", item("A tool, as MCP lists it.", &["name", "inputSchema"], json!({
        "inputSchema": object(), "outputSchema": object(), "annotations": object(),
        "backend": { "type": "string", "description": "Whose it is." },
        "method": { "type": "array", "items": text(), "description": "The methods of HTTP that call it." },
    })));
    components.own(
        "ResourceEntry",
        item(
            "A resource, as MCP lists it.",
            &["name", "uri"],
            json!({
                "uri": text(), "mimeType": text(), "size": { "type": "integer" },
            }),
        ),
    );
    components.own(
        "TemplateEntry",
        item(
            "A template of resources, as MCP lists it.",
            &["name", "uriTemplate"],
            json!({
                "uriTemplate": text(), "mimeType": text(),
            }),
        ),
    );
    components.own(
        "PromptEntry",
        item(
            "A prompt, as MCP lists it.",
            &["name"],
            json!({
                "arguments": { "type": "array", "items": object() },
            }),
        ),
    );
    let lists = |members: &[(&str, &str)]| {
        let one = |(member, of): &(&str, &str)| {
            let list = json!({ "type": "array", "items": reference(of) });
            ((*member).to_owned(), list)
        };
        let properties: serde_json::Map<_, _> = members.iter().map(one).collect();
        let required: Vec<&str> = members.iter().map(|(member, _)| *member).collect();
        json!({ "type": "object", "required": required, "properties": properties })
    };
    let resources = [
        ("resources", "ResourceEntry"),
        ("resourceTemplates", "TemplateEntry"),
    ];
    components.own("ResourceList", lists(&resources));
    let all = [
        ("tools", "ToolEntry"),
        resources[0],
        resources[1],
        ("prompts", "PromptEntry"),
    ];
    components.own("Catalog", lists(&all));
}
