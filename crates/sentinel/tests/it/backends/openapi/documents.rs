//! Public descriptions of real size: each operation is a tool, whose request arrives as its description says.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::backend;
use crate::support::callers::{Caller, Modern};
use crate::support::setup::{Gateway, Server, Setup};

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
/// Objects in arguments are written out so far, unless a member must be there.
const DEPTH_MAX: usize = 3;

fn package(path: &str) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../.build/node/node_modules")
        .join(path);
    assert!(
        file.is_file(),
        "{} is missing: run tests/setup",
        file.display()
    );
    file
}

/// Arguments that a schema allows: everything that must be there, and what else can be had easily.
fn sample(schema: &Value, root: &Value, depth: usize) -> Value {
    if let Some(name) = schema["$ref"].as_str() {
        let target = root.pointer(&name[1..]).expect("a definition");
        return sample(target, root, depth + 1);
    }
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str(),
        kind => kind.as_str(),
    };
    let parts = schema["allOf"].as_array().into_iter().flatten();
    if kind == Some("object") || kind.is_none() && schema["properties"].is_object() {
        let mut out = object(schema, root, depth);
        for part in parts {
            if let Value::Object(more) = sample(part, root, depth) {
                out.extend(more);
            }
        }
        return Value::Object(out);
    }
    let mut parts = parts.map(|part| sample(part, root, depth));
    if let Some(first) = parts.next() {
        return parts.fold(first, |all, part| match (all, part) {
            (Value::Object(mut all), Value::Object(part)) => {
                all.extend(part);
                Value::Object(all)
            }
            (all, _) => all,
        });
    }
    for name in ["oneOf", "anyOf"] {
        if let Some(first) = schema[name].get(0) {
            return sample(first, root, depth);
        }
    }
    let example = schema["examples"].get(0).or_else(|| schema.get("default"));
    match kind {
        Some("string") => match (schema.get("pattern"), example) {
            (Some(_), Some(example)) => example.clone(),
            _ => {
                let len = schema["minLength"].as_u64().unwrap_or(1).max(1) as usize;
                json!("v".repeat(len))
            }
        },
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("array") => {
            let n = schema["minItems"].as_u64().unwrap_or(1).max(1);
            let item = schema
                .get("items")
                .map(|items| sample(items, root, depth + 1));
            json!(
                (0..n)
                    .map(|_| item.clone().unwrap_or(json!("v")))
                    .collect::<Vec<_>>()
            )
        }
        Some("null") => Value::Null,
        _ => json!("v"),
    }
}

fn object(schema: &Value, root: &Value, depth: usize) -> Map<String, Value> {
    let must = schema["required"].as_array().into_iter().flatten();
    let must: HashSet<&str> = must.filter_map(Value::as_str).collect();
    let mut out = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        // A file is one of `data` and `text`.
        let is_text_of_file =
            name == "text" && schema["properties"]["data"]["contentEncoding"] == "base64";
        if must.contains(name.as_str()) || depth < DEPTH_MAX && !is_text_of_file {
            let value = match property["contentEncoding"].as_str() {
                Some("base64") => json!("QQ=="),
                _ => sample(property, root, depth + 1),
            };
            out.insert(name.clone(), value);
        }
    }
    for name in must {
        out.entry(name).or_insert(json!("v"));
    }
    if out.contains_key("data") && out.contains_key("content_type") {
        out.insert("content_type".to_owned(), json!("text/plain"));
    }
    out
}

/// The operations of a description: method and path, with the query parameters that must be there.
fn operations(description: &Value) -> HashMap<(String, String), Vec<String>> {
    let resolve = |value: &Value| match value["$ref"].as_str() {
        Some(reference) => description
            .pointer(&reference[1..])
            .expect("it is there")
            .clone(),
        None => value.clone(),
    };
    let mut found = HashMap::new();
    for (path, item) in description["paths"].as_object().expect("paths") {
        for method in METHODS {
            let Some(operation) = item.get(method) else {
                continue;
            };
            let lists = [&operation["parameters"], &item["parameters"]];
            let all = lists
                .into_iter()
                .flat_map(|list| list.as_array().into_iter().flatten())
                .map(resolve);
            let required = all.filter(|p| p["in"] == "query" && p["required"] == true);
            let names = required.map(|p| p["name"].as_str().expect("a name").to_owned());
            found.insert((method.to_uppercase(), path.clone()), names.collect());
        }
    }
    found
}

/// Whether a path is one of a template; how many of its segments are the template's own words. Some descriptions tell
/// operations apart by a query behind their path.
fn fit(path: &str, query: &str, template: &str) -> Option<usize> {
    let (template, fixed) = template.split_once('?').unwrap_or((template, ""));
    let all = fixed.split('&').filter(|pair| !pair.is_empty());
    if !all
        .clone()
        .all(|pair| query.split('&').any(|sent| sent == pair))
    {
        return None;
    }
    let (path, template): (Vec<_>, Vec<_>) =
        (path.split('/').collect(), template.split('/').collect());
    (path.len() == template.len()).then_some(())?;
    let mut own = all.count();
    for (step, pattern) in path.iter().zip(template) {
        match pattern.split_once('{') {
            None if *step == pattern => own += 1,
            Some((before, _)) if step.starts_with(before) && !step.is_empty() => {}
            _ => return None,
        }
    }
    Some(own)
}

/// Every tool is called once. Returns how many there are.
fn every_request_is_built(file: &str, expected: usize) {
    let server = Server::api(&[]);
    let spec = package(file);
    let more = format!(
        "base_url = \"http://{}/echo\"\noutput_schemas = false",
        server.address
    );
    let config = backend(spec.to_str().expect("text"), &more);
    let setup = Setup::new(&config);
    let (code, out, _) = setup.sentinel(&["doctor"]);
    assert_eq!(code, 0, "{out}");
    assert!(!out.contains("inputSchema cannot be used"), "{out}");
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    let caller = Modern::new(&gateway, "/mcp");
    let tools = caller.result("tools/list", json!({}))["tools"]
        .as_array()
        .expect("tools")
        .clone();
    assert_eq!(tools.len(), expected, "{file}");
    let text = std::fs::read_to_string(&spec).expect("a description");
    let description: Option<Value> = serde_json::from_str(&text).ok();
    let mut open = description.as_ref().map(operations).unwrap_or_default();
    for tool in &tools {
        let (name, schema) = (tool["name"].as_str().expect("a name"), &tool["inputSchema"]);
        let arguments = sample(schema, schema, 0);
        let answer = caller.call(name, arguments.clone());
        let echo = &answer["result"]["structuredContent"];
        assert_eq!(
            answer["result"]["isError"], false,
            "{file}: {name}: {arguments}: {answer}"
        );
        let reads = tool["annotations"]["readOnlyHint"] == true;
        let method = echo["method"].as_str().unwrap_or("HEAD");
        assert_eq!(
            reads,
            matches!(method, "GET" | "HEAD" | "OPTIONS"),
            "{name}"
        );
        let path = echo["path"]
            .as_str()
            .unwrap_or_default()
            .strip_prefix("/echo");
        let path = path.unwrap_or_default();
        assert!(!path.contains(['{', '}']), "{file}: {name}: {path}");
        if description.is_none() {
            continue;
        }
        let query = echo["query"].as_str().unwrap_or_default();
        let of_it = open.keys().filter(|(verb, _)| verb == method);
        let of_it = of_it.filter_map(|key| Some((fit(path, query, &key.1)?, key)));
        let (_, key) = of_it
            .max_by_key(|(own, _)| *own)
            .unwrap_or_else(|| panic!("{file}: {name}: no operation is {method} {path}"));
        let key = key.clone();
        for required in open.remove(&key).expect("it is open") {
            let written: String = required
                .replace('[', "%5B")
                .replace(']', "%5D")
                .replace('$', "%24");
            assert!(
                query.split('&').any(|pair| pair.starts_with(&written)),
                "{name}: {required} in {query}"
            );
        }
    }
    assert!(open.is_empty(), "{file}: nobody called {open:?}");
}

#[test]
fn o_10_netlify_by_swagger_2() {
    every_request_is_built("@netlify/open-api/dist/swagger.json", 181);
}

#[test]
fn o_10_okta_by_swagger_2() {
    every_request_is_built("@okta/openapi/dist/spec.json", 340);
}

#[test]
fn o_10_directus_by_openapi_3_0() {
    every_request_is_built("@directus/specs/dist/openapi.json", 136);
}

#[test]
fn o_10_figma_by_openapi_3_1_in_yaml() {
    every_request_is_built("@figma/rest-api-spec/openapi/openapi.yaml", 54);
}
