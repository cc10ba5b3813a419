//! One list of the catalog, rendered once per revision and then served as ready bytes.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use sentinel_wire::{Revision, translate};

use super::Operation;
use crate::offer::ItemKind;

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
    rendered: [OnceLock<Bytes>; Revision::ALL.len()],
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl List {
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
            rendered: Default::default(),
        }
    }

    pub(super) fn render(&self, kind: ItemKind, revision: Revision) -> Bytes {
        self.rendered[revision as usize]
            .get_or_init(|| self.write(kind, revision))
            .clone()
    }

    fn write(&self, kind: ItemKind, revision: Revision) -> Bytes {
        let bytes: usize = self.items.iter().map(|item| item.raw.len() + 1).sum();
        let mut out = Vec::with_capacity(bytes + 128);
        out.push(b'{');
        if revision.is_modern() {
            // The list follows its backends, and views may differ by caller: never cached outside.
            out.extend_from_slice(br#""resultType":"complete","ttlMs":0,"cacheScope":"private","#);
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
