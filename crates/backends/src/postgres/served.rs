//! An operation as it is served: its declaration, its item in the catalog, and how many of its calls may run.

use std::cmp::Reverse;

use bytes::Bytes;
use sentinel_core::{Item, ItemKind};
use sentinel_wire::json;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::operation::Declared;
use super::path::Pattern;

pub(super) struct Served {
    pub(super) declared: Declared,
    pub(super) item: Item,
    permits: Semaphore,
    /// Of a resource template.
    pattern: Option<Pattern>,
}

impl Served {
    /// `None`, and a notice, if its definition cannot be used.
    pub(super) fn of(
        declared: Declared,
        permits: usize,
        notices: &mut Vec<String>,
    ) -> Option<Self> {
        let (kind, key) = (declared.kind, &declared.key);
        let Some(item) = Item::parse(kind, declared.definition.clone().into()) else {
            notices.push(format!("{key} is left out: its definition cannot be read"));
            return None;
        };
        let pattern = match kind {
            ItemKind::Template => match Pattern::parse(key) {
                Ok(pattern) => Some(pattern),
                Err(why) => {
                    notices.push(format!("{key} is left out: {why}"));
                    return None;
                }
            },
            _ => None,
        };
        let reach = declared.reach;
        Some(Self {
            declared,
            item: Item { reach, ..item },
            permits: Semaphore::new(permits),
            pattern,
        })
    }

    /// Sorts the most specific template first; equally specific ones by name.
    pub(super) fn precedence(&self) -> (Reverse<usize>, &str) {
        let literal = self.pattern.as_ref().map_or(0, Pattern::literal_len);
        (Reverse(literal), &self.item.key)
    }

    pub(super) fn values(&self, uri: &str) -> Option<Vec<(String, String)>> {
        self.pattern.as_ref()?.values(uri)
    }

    /// Bounds how many calls of the operation run.
    pub(super) async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        // Nothing closes the semaphore.
        self.permits.acquire().await.ok()
    }
}

/// A JSON object of texts.
pub(super) fn object(values: &[(String, String)]) -> Bytes {
    let mut out = vec![b'{'];
    for (name, value) in values {
        if out.len() > 1 {
            out.push(b',');
        }
        json::encode_string(name, &mut out);
        out.push(b':');
        json::encode_string(value, &mut out);
    }
    out.push(b'}');
    out.into()
}
