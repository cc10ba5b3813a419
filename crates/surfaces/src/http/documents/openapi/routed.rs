//! The routes of backends in the OpenAPI document: at their own paths, beside `/api/{operation}`.

use serde_json::{Map, Value, json};

use super::{CALLED, JSON, POSTED, Writer, answers, query, reference, result};
use crate::http::documents::answers::Asked;
use crate::http::documents::names::type_name;
use crate::http::documents::schemas::Parameter;
use crate::http::documents::shown::Tool;
use crate::http::documents::ways::PathWay;
use crate::http::rest::arguments::TextForm;

/// The verbs that an item of `paths` may have.
const VERBS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

impl Writer<'_> {
    pub(super) fn add_routes(&mut self, tool: &Tool) {
        let templates = tool.ways.paths.iter().filter(|way| way.is_template());
        for way in templates {
            for verb in &way.verbs {
                let verb = verb.to_ascii_lowercase();
                if VERBS.contains(&&*verb) {
                    self.add_route(tool, way, &verb);
                }
            }
        }
    }

    fn add_route(&mut self, tool: &Tool, way: &PathWay, verb: &str) {
        // A second path of this shape has other names for the same parameters.
        let path = self.shapes.entry(way.shape());
        let path = path.or_insert_with(|| way.path.clone()).clone();
        if self.is_taken(&path, verb) {
            return;
        }
        let shown = PathWay {
            path: path.clone(),
            verbs: Vec::new(),
            is_whole: way.is_whole,
        };
        let own = way.parameters().into_iter();
        let names: Vec<(&str, &str)> = own.zip(shown.parameters()).collect();
        let is_only_way =
            !tool.is_by_name && tool.ways.paths.len() == 1 && tool.ways.paths[0].verbs.len() == 1;
        let id = match is_only_way {
            true => tool.name.clone(),
            false => format!("{}_{verb}", tool.name),
        };
        let mut operation = self.operation(&id, &tool.name, &tool.backend, &tool.entry);
        if !tool.is_by_name
            && let Some(operation) = operation.as_object_mut()
        {
            operation.remove("x-mcp-name");
        }
        let has_body = !matches!(verb, "get" | "head" | "delete" | "options");
        match way.is_whole {
            true => self.describe_whole(tool, verb, &names, has_body, &mut operation),
            false => self.describe_call(tool, verb, &names, has_body, &mut operation),
        }
        self.insert(path, verb, operation);
    }

    /// A call by arguments.
    fn describe_call(
        &mut self,
        tool: &Tool,
        verb: &str,
        names: &[(&str, &str)],
        has_body: bool,
        operation: &mut Value,
    ) {
        let type_name = type_name(&tool.name);
        let schema = tool.entry.get("inputSchema");
        let input = self
            .components
            .add(&format!("{type_name}Input"), schema, true);
        let is_in_path = |name: &str| names.iter().any(|(own, _)| *own == name);
        let mut parameters = in_path(names, &input.parameters);
        if has_body {
            let rest = schema.and_then(|schema| without(schema, is_in_path));
            if names.is_empty() {
                operation["requestBody"] = self.body(&input, schema);
            } else if let Some(rest) = rest {
                let name = format!("{type_name}{}Body", capitalized(verb));
                let body = self.components.add(&name, Some(&rest), false);
                operation["requestBody"] = self.body(&body, Some(&rest));
            }
        } else {
            let others = input.parameters.iter();
            let others = others.filter(|parameter| !is_in_path(&parameter.name));
            parameters.extend(others.map(query));
        }
        let (further, headers, content): (&[&str], _, _) = match has_body {
            true => (&["IdempotencyKey", "Prefer"], POSTED, "Content"),
            false => (&[], CALLED, "ContentOfGet"),
        };
        let further = ["ConfirmationToken"].iter().chain(further);
        parameters.extend(
            further.map(|name| json!({ "$ref": format!("#/components/parameters/{name}") })),
        );
        operation["parameters"] = parameters.into();
        let ok = match self.output(tool) {
            Some(schema) => result("The tool's result.", &schema, headers),
            None => json!({ "$ref": format!("#/components/responses/{content}") }),
        };
        operation["responses"] = self.responses(asked(has_body), ok);
        if has_body {
            operation["responses"]["202"] = json!({ "$ref": "#/components/responses/Accepted" });
        }
    }

    /// A request that its backend answers itself.
    fn describe_whole(
        &mut self,
        tool: &Tool,
        verb: &str,
        names: &[(&str, &str)],
        has_body: bool,
        operation: &mut Value,
    ) {
        let mut parameters = in_path(names, &[]);
        parameters.push(json!({ "$ref": "#/components/parameters/ConfirmationToken" }));
        operation["parameters"] = parameters.into();
        if has_body {
            let schema = tool.entry.get("inputSchema");
            let properties = schema.and_then(|schema| schema.get("properties"));
            let is_told = properties
                .and_then(Value::as_object)
                .is_some_and(|all| !all.is_empty());
            operation["requestBody"] = match is_told {
                true => {
                    let name = format!("{}{}Body", type_name(&tool.name), capitalized(verb));
                    let body = self.components.add(&name, schema, false);
                    self.body(&body, schema)
                }
                false => json!({ "content": { "*/*": { "schema": {} } } }),
            };
        }
        let content = match self.output(tool) {
            Some(schema) => json!({ JSON: { "schema": schema } }),
            None => json!({ "*/*": { "schema": {} } }),
        };
        let ok = json!({
            "description": "The backend's own answer.", "content": content,
            "headers": answers::referred(&["RateLimit", "RateLimit-Policy"]),
        });
        operation["responses"] = self.responses(asked(has_body), ok);
    }

    /// A reference to the schema of the tool's results, where it has one.
    fn output(&mut self, tool: &Tool) -> Option<Value> {
        let schema = tool.entry.get("outputSchema");
        let schema = schema.filter(|schema| schema.is_object())?;
        let name = format!("{}Output", type_name(&tool.name));
        let output = self.components.add(&name, Some(schema), false);
        Some(reference(&output.name))
    }
}

fn asked(has_body: bool) -> Asked {
    match has_body {
        true => Asked::Call,
        false => Asked::Query,
    }
}

/// The parameters of a path: each by its own name, and by the one that the document has for it.
fn in_path(names: &[(&str, &str)], known: &[Parameter]) -> Vec<Value> {
    let one = |(own, shown): &(&str, &str)| {
        let text = json!({ "type": "string" });
        let parameter = known.iter().find(|parameter| parameter.name == *own);
        let schema = match parameter.map(|parameter| (&parameter.form, &parameter.schema)) {
            Some((TextForm::Scalar, schema)) => schema.clone(),
            Some((TextForm::Only(types), _)) => json!({ "type": types }),
            _ => text,
        };
        let mut out = json!({ "name": shown, "in": "path", "required": true, "schema": schema });
        if let Some(words) = parameter.and_then(|parameter| parameter.description.clone()) {
            out["description"] = words;
        }
        out
    };
    names.iter().map(one).collect()
}

/// An object's schema without some of its properties; `None` where nothing is left to be given.
fn without(schema: &Value, is_left_out: impl Fn(&str) -> bool) -> Option<Value> {
    let mut schema = schema.clone();
    let properties = schema
        .get_mut("properties")
        .and_then(Value::as_object_mut)?;
    let kept: Map<String, Value> = std::mem::take(properties)
        .into_iter()
        .filter(|(name, _)| !is_left_out(name))
        .collect();
    let is_empty = kept.is_empty();
    *properties = kept;
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(&is_left_out));
    }
    (!is_empty).then_some(schema)
}

fn capitalized(verb: &str) -> String {
    let (first, rest) = verb.split_at(verb.len().min(1));
    first.to_ascii_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_what_is_not_in_the_path() {
        let schema = json!({
            "type": "object", "required": ["id", "name"],
            "properties": { "id": { "type": "integer" }, "name": { "type": "string" } },
        });
        let rest = without(&schema, |name| name == "id").expect("something is left");
        assert_eq!(
            rest,
            json!({ "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } })
        );
        assert_eq!(without(&schema, |_| true), None);
    }
}
