//! One list of the catalog, rendered once per revision and then served as ready bytes.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use sentinel_wire::{Revision, translate};

use super::Operation;
use crate::offer::{Freshness, ItemKind};

/// An item as its backend sent it (but for its exposed name), and the revision it came in.
#[derive(Clone, Debug)]
pub(super) struct ListItem {
    pub(super) revision: Revision,
    pub(super) raw: Bytes,
    pub(super) operation: Arc<Operation>,
}

impl PartialEq for ListItem {
    /// Whether callers would see the same.
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision
            && self.raw == other.raw
            && self.operation.held == other.operation.held
    }
}

#[derive(Default)]
pub(super) struct List {
    items: Vec<ListItem>,
    /// The hints of all that is in it; none yet while nothing is.
    fresh: Option<Freshness>,
    /// Per revision, and once more for modern callers whose lists are not everybody's.
    rendered: [OnceLock<Bytes>; Revision::ALL.len() + 1],
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl List {
    /// Something in it stays fresh only for as long as this says.
    pub(super) fn limit(&mut self, fresh: Freshness) {
        self.fresh = Some(self.fresh.map_or(fresh, |known| known.and(fresh)));
    }

    pub(super) fn push(&mut self, item: ListItem) {
        self.items.push(item);
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn operations(&self) -> impl Iterator<Item = &Arc<Operation>> {
        self.items.iter().map(|item| &item.operation)
    }

    /// The part of it that `sees` lets through.
    pub(super) fn filtered(&self, sees: &impl Fn(&Operation) -> bool) -> Self {
        Self {
            items: self
                .items
                .iter()
                .filter(|item| sees(&item.operation))
                .cloned()
                .collect(),
            fresh: self.fresh,
            rendered: Default::default(),
        }
    }

    /// Ready bytes. `shared`: every caller sees the same list.
    pub(super) fn render(&self, kind: ItemKind, revision: Revision, shared: bool) -> Bytes {
        let at = match shared || !revision.is_modern() {
            true => revision as usize,
            false => Revision::ALL.len(),
        };
        self.rendered[at]
            .get_or_init(|| self.write(kind, revision, shared))
            .clone()
    }

    fn write(&self, kind: ItemKind, revision: Revision, shared: bool) -> Bytes {
        let bytes: usize = self.items.iter().map(|item| item.raw.len() + 1).sum();
        let mut out = Vec::with_capacity(bytes + 128);
        out.push(b'{');
        if revision.is_modern() {
            let fresh = self.fresh.unwrap_or_default();
            let scope = match shared && fresh.shared {
                true => "public",
                false => "private",
            };
            let ttl_ms = fresh.ttl.as_millis();
            let hints =
                format!(r#""resultType":"complete","ttlMs":{ttl_ms},"cacheScope":"{scope}","#);
            out.extend_from_slice(hints.as_bytes());
        }
        out.push(b'"');
        out.extend_from_slice(kind.list_member().as_bytes());
        out.extend_from_slice(b"\":[");
        for (i, item) in self.items.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            match kind {
                ItemKind::Tool => {
                    out.extend_from_slice(&translate::tool(&item.raw, item.revision, revision));
                }
                _ => out.extend_from_slice(&item.raw),
            }
        }
        out.extend_from_slice(b"]}");
        out.into()
    }
}
