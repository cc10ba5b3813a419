//! What must hold for any description, for `fuzz/`.

use http::{HeaderName, HeaderValue};
use sentinel_config::ApiAuth;
use sentinel_wire::Payload;
use sentinel_wire::json::Rules;
use serde_json::{Map, Value, json};

use super::client::Place;
use super::document::parse;
use super::request;
use super::select::Selection;
use super::source::Location;
use super::tools::{Wishes, api};

/// Words that stand for every text in arguments: they try to get out of where they are put.
const HOSTILE: [&str; 4] = [
    "x",
    "..",
    "../..//a?b#c&d=e;f\r\nX: y%2e%2e",
    "/a?b#c&d=e;f\r\nX: y%2e%2e",
];

/// A text becomes tools or an error. Every tool's input schema compiles, and a request by it stays on its host and below its path.
pub fn description(data: &[u8]) {
    let Ok(root) = parse(data) else {
        return;
    };
    let base = Place::of("https://api.example/v1").expect("a URL");
    let wishes = Wishes {
        base: Some(Place {
            target: "/v1".to_owned(),
            ..base.clone()
        }),
        variables: Default::default(),
        auth: ApiAuth::default(),
        selection: Selection::new(&[], &[]),
        operations_max: 50,
        output_schemas: true,
    };
    let Ok(api) = api(root, &Location::Url(base.clone()), &wishes) else {
        return;
    };
    let headers: [(HeaderName, HeaderValue); 0] = [];
    for tool in &api.offer.tools {
        assert_eq!(tool.schema.examine(), None, "the schema of {}", tool.key);
        let operation = &api.operations[&tool.key];
        for word in HOSTILE {
            let mut arguments = Map::new();
            for parameter in &operation.parameters {
                arguments.insert(parameter.argument.clone(), word.into());
            }
            if let Some(body) = &operation.body {
                arguments.insert(body.argument.clone(), json!({ "data": "QQ==", "a": word }));
            }
            let text = Value::Object(arguments).to_string();
            let arguments = Payload::parse(text.into(), Rules::backend()).expect("JSON");
            let Ok(built) = request::build(operation, &arguments, &headers, true) else {
                continue;
            };
            assert_eq!(built.place.origin, base.origin);
            let path = built.place.target.split('?').next().unwrap_or_default();
            assert!(path.starts_with("/v1/"), "{path}");
            let dots = |step: &str| {
                matches!(
                    step.to_ascii_lowercase().replace("%2e", ".").as_str(),
                    "." | ".."
                )
            };
            assert!(!path.split('/').any(dots), "{path}");
            let steps = |path: &str| path.matches('/').count();
            let template = operation.path.split('?').next().unwrap_or_default();
            assert_eq!(
                steps(path),
                steps("/v1") + steps(template),
                "{path} of {template}"
            );
            assert!(!built.fields.windows(5).any(|part| part == b"\nX: y"));
        }
    }
}
