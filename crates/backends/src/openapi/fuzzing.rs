//! What must hold for any description, for `fuzz/`.

use http::{HeaderName, HeaderValue};
use sentinel_config::ApiAuth;
use sentinel_wire::Payload;
use sentinel_wire::json::Rules;
use serde_json::{Map, Value, json};

use super::body::encode;
use super::client::Place;
use super::document::parse;
use super::operation::{Body, Field, Form};
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

/// Any object becomes a multipart body that a reader takes apart into as many parts, each with the names and bytes that it was made
/// of. Members are plain values, but `file`, which is a file, and `meta`, which is JSON.
pub fn multipart(data: &[u8]) {
    let Ok(sent) = serde_json::from_slice::<Map<String, Value>>(data) else {
        return;
    };
    let field = |name: &str, content_type: Option<&str>, is_file| Field {
        name: name.to_owned(),
        content_type: content_type.map(str::to_owned),
        style: None,
        is_file,
    };
    let body = Body {
        argument: "body".to_owned(),
        media_type: "multipart/form-data".to_owned(),
        form: Form::Multipart(vec![
            field("file", None, true),
            field("meta", Some("application/json"), false),
        ]),
    };
    let raw = Value::Object(sent.clone()).to_string();
    let Ok((media_type, bytes)) = encode(&body, raw.as_bytes()) else {
        return;
    };
    let boundary = media_type
        .strip_prefix("multipart/form-data; boundary=")
        .expect("the type names the boundary");
    let listed = |value: &Value| match value {
        Value::Array(items) => items.iter().filter(|item| !item.is_null()).count(),
        Value::Null => 0,
        _ => 1,
    };
    let wanted: usize = sent.values().map(listed).sum();
    let parts = parts_of(&bytes, boundary);
    assert_eq!(parts.len(), wanted, "{raw}");
    for (head, content) in parts {
        let lines: Vec<&str> = head.split("\r\n").collect();
        assert!(matches!(lines.len(), 1 | 2), "{head:?}");
        let name = lines[0]
            .strip_prefix("Content-Disposition: form-data; name=\"")
            .and_then(|rest| rest.split('"').next())
            .expect("a name");
        assert!(!name.contains(['\r', '\n']), "{name:?}");
        assert!(
            lines
                .get(1)
                .is_none_or(|line| line.starts_with("Content-Type: ")),
            "{head:?}"
        );
        let is_file = lines[0].contains("; filename=\"");
        assert_eq!(is_file, name == "file", "{head:?}");
        if let Some(Value::String(text)) = sent.get(name).filter(|_| !is_file && name != "meta") {
            assert_eq!(content, text.as_bytes(), "{name}");
        }
    }
}

/// The head and the content of each part, by the boundary alone.
fn parts_of<'b>(body: &'b [u8], boundary: &str) -> Vec<(&'b str, &'b [u8])> {
    let line = format!("--{boundary}");
    let find = |from: usize, what: &[u8]| {
        let left = &body[from..];
        left.windows(what.len())
            .position(|part| part == what)
            .map(|at| from + at)
    };
    let mut parts = Vec::new();
    let mut at = line.len();
    assert!(
        body.starts_with(line.as_bytes()),
        "it begins with the boundary"
    );
    while !body[at..].starts_with(b"--\r\n") {
        assert!(body[at..].starts_with(b"\r\n"), "a boundary is a line");
        let begin = at + 2;
        let end = find(begin, b"\r\n\r\n").expect("a head ends");
        let next = find(end + 4, format!("\r\n{line}").as_bytes()).expect("a part ends");
        let head = std::str::from_utf8(&body[begin..end]).expect("heads are text");
        parts.push((head, &body[end + 4..next]));
        at = next + 2 + line.len();
    }
    assert_eq!(at + 4, body.len(), "nothing follows");
    parts
}
