//! What must hold for any comment of a function and any CHECK of a domain, for `fuzz/`.

use sentinel_core::arguments::Schema;
use serde_json::{Map, Value, json};

use super::check;
use super::comment::{Comment, is_name};
use super::types::Class;

/// A comment is read or refused. What is read names operations as clients take them, and its description has no annotations.
pub(in crate::postgres) fn comment(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let comment = match Comment::parse(text) {
        Ok(comment) => comment,
        Err(why) => return assert!(!why.to_string().is_empty()),
    };
    let resource = comment
        .resource
        .iter()
        .filter_map(|(_, name)| name.as_ref());
    let given = comment
        .tool
        .iter()
        .chain(&comment.prompt)
        .flatten()
        .chain(resource);
    for name in given {
        assert!(is_name(name), "{name:?}");
    }
    let is_annotation = |line: &str| line.trim_start().starts_with('@');
    assert!(!comment.description.lines().any(is_annotation));
    let again = Comment::parse(&comment.description).expect("it has no annotations");
    assert_eq!(again.description, comment.description);
    assert!(!again.has_annotations);
}

/// Whatever a CHECK says, the schema made of it is one, and says something about it.
pub(in crate::postgres) fn domain_check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let bases = [
        (Class::Text, json!({ "type": "string" })),
        (
            Class::Integer,
            json!({ "type": "integer", "minimum": -32768, "maximum": 32767 }),
        ),
        (Class::Number, json!({ "type": ["number", "string"] })),
        (Class::Other, json!({})),
    ];
    for (class, base) in bases {
        let mut schema: Map<String, Value> = base.as_object().cloned().unwrap_or_default();
        check::apply(&[text.to_owned()], class, &mut schema);
        let raw = Value::Object(schema).to_string();
        let schema = Schema::new(Some(raw.clone().into()));
        assert_eq!(schema.examine(), None, "{raw}");
    }
}
