//! One list of the catalog, rendered once per revision and served as ready bytes: one page, since some clients never
//! request a second, unless it would exceed what clients accept.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use ring::digest::{Context, SHA256};
use sentinel_wire::{Revision, translate};

use crate::offer::{Freshness, ItemKind};
use crate::operation::Operation;

/// Largest page, except for a larger single item. Some clients reject messages above a megabyte.
const PAGE_BYTES_MAX: usize = 768 * 1024;

/// An item as its backend sent it, with its exposed name, and the revision it came in.
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
            && self.operation.held.is_some() == other.operation.held.is_some()
            && self.operation.offered_to == other.operation.offered_to
            && self.operation.reach == other.operation.reach
    }
}

#[derive(Default)]
pub(super) struct List {
    items: Vec<ListItem>,
    /// The combined caching hints; none for an empty list.
    fresh: Option<Freshness>,
    /// The pages per revision, and separately for modern callers whose lists are private.
    rendered: [OnceLock<Vec<Bytes>>; Revision::ALL.len() + 1],
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl List {
    /// Applies the caching hints of a part.
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

    /// Every entry as the newest revision has it, and what it is about.
    pub(super) fn entries(&self, kind: ItemKind) -> Vec<(Bytes, Arc<Operation>)> {
        let entry = |item: &ListItem| {
            let raw = match kind {
                ItemKind::Tool => translate::tool(&item.raw, item.revision, Revision::NEWEST),
                _ => Cow::Borrowed(&item.raw[..]),
            };
            let raw = match raw {
                Cow::Borrowed(_) => item.raw.clone(),
                Cow::Owned(raw) => raw.into(),
            };
            (raw, item.operation.clone())
        };
        self.items.iter().map(entry).collect()
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

    /// The page of a cursor, the first one without; `None` if the cursor is not ours or its list has changed.
    /// `shared`: every caller sees the same list.
    pub(super) fn page(
        &self,
        kind: ItemKind,
        (revision, shared): (Revision, bool),
        cursor: Option<&str>,
    ) -> Option<Bytes> {
        let pages = self.pages(kind, revision, shared);
        match cursor {
            None => pages.first().cloned(),
            Some(cursor) => {
                let (mark, number) = cursor.split_once('.')?;
                let number: usize = number.parse().ok()?;
                let ours = number > 0 && mark == self.mark();
                ours.then(|| pages.get(number).cloned())?
            }
        }
    }

    /// Rendered pages, at least one.
    pub(super) fn pages(&self, kind: ItemKind, revision: Revision, shared: bool) -> &[Bytes] {
        let at = match shared || !revision.is_modern() {
            true => revision as usize,
            false => Revision::ALL.len(),
        };
        self.rendered[at].get_or_init(|| self.write(kind, revision, shared))
    }

    /// A digest of the items, equal in every gateway.
    fn mark(&self) -> String {
        let mut digest = Context::new(&SHA256);
        for item in &self.items {
            digest.update(&item.raw);
            digest.update(b"\n");
        }
        URL_SAFE_NO_PAD.encode(&digest.finish().as_ref()[..12])
    }

    fn write(&self, kind: ItemKind, revision: Revision, shared: bool) -> Vec<Bytes> {
        let bytes: usize = self.items.iter().map(|item| item.raw.len() + 1).sum();
        let mut pages = Vec::with_capacity(1);
        let mut out = Vec::with_capacity(bytes.min(PAGE_BYTES_MAX) + 128);
        let begin = |out: &mut Vec<u8>| self.begin_page(kind, revision, shared, out);
        begin(&mut out);
        let mut empty = true;
        for item in &self.items {
            let item = match kind {
                ItemKind::Tool => &translate::tool(&item.raw, item.revision, revision)[..],
                _ => &item.raw,
            };
            if !empty && out.len() + item.len() > PAGE_BYTES_MAX {
                let next = format!(r#"],"nextCursor":"{}.{}"}}"#, self.mark(), pages.len() + 1);
                out.extend_from_slice(next.as_bytes());
                pages.push(std::mem::take(&mut out).into());
                begin(&mut out);
                empty = true;
            }
            if !empty {
                out.push(b',');
            }
            out.extend_from_slice(item);
            empty = false;
        }
        out.extend_from_slice(b"]}");
        pages.push(out.into());
        pages
    }

    fn begin_page(&self, kind: ItemKind, revision: Revision, shared: bool, out: &mut Vec<u8>) {
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
    }
}
