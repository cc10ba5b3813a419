//! The OpenAPI 3.1 document of the admin API, from the table of routes and the types of its endpoints.

use std::collections::HashMap;

use http::Method as Verb;
use serde_json::{Map, Value, json};

use super::answers::{self, Asked};
use super::content;
use super::names::{Names, identifier, type_name};
use super::openapi::{Parts, finish, query};
use super::schemas::{Components, reference};
use crate::http::routes::{Answers, Described, describe};

const PREFIX: &str = "/admin/api/";
const TAG: &str = "admin";

/// The document.
pub(super) fn document(is_guarded: bool) -> Value {
    let mut components = Components::default();
    answers::add_schemas(&mut components);
    content::add_blocks(&mut components);
    let mut ids = Names::default();
    let mut paths: HashMap<&str, Map<String, Value>> = HashMap::new();
    let mut order = Vec::new();
    for endpoint in describe() {
        let verb = endpoint.verb.as_str().to_ascii_lowercase();
        let operation = operation(&endpoint, is_guarded, &mut components, &mut ids);
        let item = paths.entry(endpoint.path).or_insert_with(|| {
            order.push(endpoint.path);
            Map::new()
        });
        item.insert(verb, operation);
    }
    let items = order.into_iter().filter_map(|path| {
        let item = paths.remove(path)?;
        Some((path.to_owned(), Value::Object(item)))
    });
    finish(Parts {
        title: "Sentinel Gateway: the admin API",
        about: "What an operator asks and switches. The caller needs the role `admin`.".to_owned(),
        tags: json!([{ "name": TAG, "description": "Operating the gateway." }]),
        paths: items.collect(),
        components: json!({
            "schemas": components.into_schemas(),
            "responses": answers::responses(&[Asked::Admin]),
            "headers": answers::own_headers(),
        }),
        is_guarded,
    })
}

fn operation(
    endpoint: &Described,
    is_guarded: bool,
    components: &mut Components,
    ids: &mut Names,
) -> Value {
    let noun = endpoint.path.strip_prefix(PREFIX).unwrap_or(endpoint.path);
    let name = format!("{} {noun}", endpoint.verb.as_str().to_ascii_lowercase());
    let (noun, description) = match endpoint.answers {
        Answers::Json => ("Answer", "Done."),
        Answers::Events => (
            "Event",
            "Server-sent events, of which the schema shows one: its name, and its data as JSON.",
        ),
        Answers::Lines => ("Line", "JSON Lines, of which the schema shows one."),
    };
    let output = components.add(
        &format!("{}{noun}", type_name(&name)),
        Some(endpoint.output.as_value()),
        false,
    );
    let media_type = endpoint.answers.media_type();
    let content = json!({ media_type: { "schema": reference(&output.name) } });
    let mut responses = Map::from_iter([(
        "200".to_owned(),
        json!({ "description": description, "content": content }),
    )]);
    Asked::Admin.add_errors(is_guarded, &mut responses);
    let mut operation = json!({
        "tags": [TAG],
        "operationId": ids.unique(&identifier(&name), &name),
        "summary": endpoint.summary,
    });
    let is_post = endpoint.verb == Verb::POST;
    if let Some(input) = &endpoint.input {
        let input = components.add(
            &format!("{}Request", type_name(&name)),
            Some(input.as_value()),
            true,
        );
        match is_post {
            true => {
                let content = json!({ "application/json": { "schema": reference(&input.name) } });
                operation["requestBody"] = json!({ "required": true, "content": content });
            }
            false => operation["parameters"] = input.parameters.iter().map(query).collect(),
        }
    } else if is_post {
        operation["requestBody"] = json!({
            "required": true,
            "description": "Nothing is read from it; its type keeps other web pages out.",
            "content": { "application/json": { "schema": { "type": "object" } } },
        });
    }
    operation["responses"] = Value::Object(responses);
    operation
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The types of the console are generated from this file, so a changed type breaks its build.
    #[test]
    fn the_consoles_copy_of_the_document_is_the_one_that_is_served() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console/admin.openapi.json");
        let served = serde_json::to_string_pretty(&document(true)).expect("it is JSON") + "\n";
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(&file, &served).expect("it can be written");
        }
        let copy = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            copy == served,
            "{} differs: run `UPDATE_OPENAPI=1 cargo test -p sentinel-surfaces consoles_copy`",
            file.display()
        );
    }
}
