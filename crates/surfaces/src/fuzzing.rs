//! Entry points of fuzz targets (`fuzz/`) to private readers. Nothing else calls them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::http::documents;
use crate::http::rest::arguments::coerce;
use crate::http::rest::headers::{Preferences, parse_key};
use crate::http::resume::{event_id, parse_id};

/// What each type of a form's members is coerced to.
const FORM: &str = r##"{"type":"object","properties":{"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},
    "s":{"type":"string"},"l":{"type":"array","items":{"$ref":"#/$defs/i"}},"o":{"type":"object"},
    "any":{"anyOf":[{"type":"null"},{"type":"integer"},{"type":"string"}]},"e":{"enum":[1,"x",true]}},
    "$defs":{"i":{"type":"integer"}}}"##;

/// A parsed event id names the same event when printed.
pub fn last_event_id(data: &[u8]) {
    let Ok(id) = std::str::from_utf8(data) else {
        return;
    };
    if let Some((stream, number)) = parse_id(id) {
        assert_eq!(parse_id(&event_id(stream, number)), Some((stream, number)));
    }
}

/// A key is short and printable, and the same in quotes.
pub fn idempotency_key(data: &[u8]) {
    let Ok(key) = parse_key(data) else { return };
    assert!((1..=255).contains(&key.len()));
    assert!(key.bytes().all(|b| (b' '..=b'~').contains(&b)));
    let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
    assert_eq!(parse_key(quoted.as_bytes()), Ok(key));
}

/// No client makes us wait for ever, and what comes before a value that cannot be read counts.
pub fn prefer(data: &[u8]) {
    let alone = Preferences::parse([data].into_iter());
    assert!(
        alone
            .wait
            .is_none_or(|wait| wait <= Duration::from_secs(60))
    );
    let first = Preferences::parse([&b"wait=3, respond-async"[..], data].into_iter());
    assert!(first.respond_async);
    assert_eq!(first.wait, Some(Duration::from_secs(3)));
}

/// The first line is a schema, the rest a query: it becomes JSON, or issues that are JSON.
pub fn query(data: &[u8]) {
    let mut lines = data.splitn(2, |b| *b == b'\n');
    let (schema, query) = (
        lines.next().unwrap_or_default(),
        lines.next().unwrap_or_default(),
    );
    coerced(query, Some(schema));
}

/// Every name of a form is a member once, and texts of members that no schema names stay texts.
pub fn form(data: &[u8]) {
    let Some(arguments) = coerced(data, Some(FORM.as_bytes())) else {
        return;
    };
    let named: BTreeSet<_> = form_urlencoded::parse(data)
        .map(|(name, _)| name.into_owned())
        .collect();
    // What is too large or too deep for this decoder is JSON all the same.
    let Ok(arguments) = serde_json::from_slice::<Value>(&arguments) else {
        return;
    };
    let members = arguments.as_object().expect("an object");
    assert_eq!(members.keys().cloned().collect::<BTreeSet<_>>(), named);
    for (_, value) in members.iter().filter(|(name, _)| name.starts_with("x")) {
        let texts = value
            .as_array()
            .map_or(std::slice::from_ref(value), Vec::as_slice);
        assert!(texts.iter().all(Value::is_string), "{value}");
    }
}

fn coerced(text: &[u8], schema: Option<&[u8]>) -> Option<Vec<u8>> {
    let is_json = |text: &[u8]| serde_json::from_slice::<&RawValue>(text).is_ok();
    match coerce(form_urlencoded::parse(text), schema) {
        Ok(arguments) => {
            assert!(is_json(&arguments));
            Some(arguments)
        }
        Err(fault) => {
            let data = fault.data.unwrap_or_default();
            assert!(is_json(format!("{{{data}}}").as_bytes()), "{data}");
            None
        }
    }
}

/// Whatever a tool's schema is, the document made of it refers to nothing that is not in it.
pub fn tool_schema(data: &[u8]) {
    if let Ok(schema) = serde_json::from_slice(data) {
        documents::check_schema(&schema);
    }
}
