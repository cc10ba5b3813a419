//! Finds the owner of listed items.
//!
//! The callers' list does not contain it; the backends' own lists do. An item is matched by its prefixed name, then
//! by its own name, then (if it was renamed) by everything but its name.

use sentinel_core::ItemKind;
use serde_json::Value;
use serde_json::value::RawValue;

/// One item of a list.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) key: String,
    /// The unchanged JSON.
    pub(crate) raw: Box<RawValue>,
    pub(crate) fields: Value,
    pub(crate) backend: Option<String>,
}

/// A backend's own item that is not yet matched.
struct Own<'a> {
    backend: &'a str,
    key: String,
    rest: Value,
    taken: bool,
}

/// Joins each item with its owner.
pub(super) fn tell(
    kind: ItemKind,
    merged: Vec<Box<RawValue>>,
    parts: &[(&str, Vec<Box<RawValue>>)],
) -> anyhow::Result<Vec<Listed>> {
    let mut listed = Vec::with_capacity(merged.len());
    let mut rests = Vec::with_capacity(merged.len());
    for raw in merged {
        let fields: Value = serde_json::from_str(raw.get())?;
        let (key, rest) = split(kind, fields.clone());
        rests.push(rest);
        listed.push(Listed {
            key,
            raw,
            fields,
            backend: None,
        });
    }
    let mut owns = Vec::new();
    for (backend, items) in parts {
        for raw in items {
            let (key, rest) = split(kind, serde_json::from_str(raw.get())?);
            owns.push(Own {
                backend,
                key,
                rest,
                taken: false,
            });
        }
    }
    // Prefixed names first: otherwise a bare name could match a backend whose own name is prefixed.
    let ways: [fn(&str, &Own<'_>) -> bool; 3] = [
        |key, own| {
            key.strip_prefix(own.backend)
                .and_then(|rest| rest.strip_prefix("__"))
                == Some(own.key.as_str())
        },
        |key, own| key == own.key,
        |_, _| true,
    ];
    for way in ways {
        for (item, rest) in listed.iter_mut().zip(&rests) {
            if item.backend.is_some() {
                continue;
            }
            let mut free = owns.iter_mut().filter(|own| !own.taken);
            if let Some(own) = free.find(|own| way(&item.key, own) && own.rest == *rest) {
                own.taken = true;
                item.backend = Some(own.backend.to_owned());
            }
        }
    }
    Ok(listed)
}

/// An item's key, and the item without its name.
fn split(kind: ItemKind, mut item: Value) -> (String, Value) {
    let key = item
        .as_object_mut()
        .and_then(|members| members.remove(kind.key_member()))
        .and_then(|key| key.as_str().map(str::to_owned));
    (key.unwrap_or_default(), item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixed_own_and_renamed_items_find_their_backends() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
        let parts = [
            ("a", vec![raw(r#"{"name":"x"}"#)]),
            (
                "b",
                vec![raw(r#"{"name":"x"}"#), raw(r#"{"name":"y","d":1}"#)],
            ),
        ];
        let merged = vec![
            raw(r#"{"name":"x"}"#),
            raw(r#"{"name":"a__x"}"#),
            raw(r#"{"name":"why","d":1}"#),
            raw(r#"{"name":"stranger","d":2}"#),
        ];
        let told = tell(ItemKind::Tool, merged, &parts).expect("JSON");
        let owners: Vec<_> = told.iter().map(|item| item.backend.as_deref()).collect();
        assert_eq!(owners, [Some("b"), Some("a"), Some("b"), None]);
    }
}
