//! What a caller sees of the catalog, item by item: what documents about the catalog are made of.
//!
//! The parts are those of which lists are rendered, so a document holds what `Policy::list` lists. Not here: the documents.

use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::{Policy, Seen};
use crate::caller::Caller;
use crate::catalog::{Catalog, CatalogRoute, Filtered};
use crate::invocation::View;
use crate::offer::ItemKind;
use crate::operation::Operation;

/// The catalog as one caller sees it at one moment.
pub struct Visible(Seen);

/// Which `Visible` something was made from. Callers of one role share it, and every change of the catalog, the roles or
/// the kill switch makes another. It keeps nothing alive.
pub struct VisibleId(Made);

enum Made {
    OfAll(Weak<Catalog>),
    OfPart(Weak<Filtered>),
}

impl Policy {
    /// What this caller sees.
    pub fn visible(&self, caller: &Caller) -> Visible {
        Visible(self.seen(caller, View::Merged))
    }
}

impl Visible {
    pub fn id(&self) -> VisibleId {
        VisibleId(match &self.0 {
            Seen::Everything(catalog) => Made::OfAll(Arc::downgrade(catalog)),
            Seen::Part(part) => Made::OfPart(Arc::downgrade(part)),
        })
    }

    /// The entries of a list of the newest revision, and what they are about.
    pub fn items(&self, kind: ItemKind) -> Vec<(Bytes, Arc<Operation>)> {
        match &self.0 {
            Seen::Everything(catalog) => catalog.entries(kind),
            Seen::Part(part) => part.entries(kind),
        }
    }

    /// The routes to tools among `items`.
    pub fn routes(&self) -> &[CatalogRoute] {
        match &self.0 {
            Seen::Everything(catalog) => catalog.routes(),
            Seen::Part(part) => part.routes(),
        }
    }

    /// What a backend says about itself to those who see something of it.
    pub fn instructions(&self, index: usize) -> Option<&str> {
        match &self.0 {
            Seen::Everything(catalog) => catalog.instructions(View::Only(index)),
            Seen::Part(part) => part.instructions(View::Only(index)),
        }
    }
}

impl VisibleId {
    pub fn is_of(&self, visible: &Visible) -> bool {
        match (&self.0, &visible.0) {
            (Made::OfAll(made), Seen::Everything(catalog)) => {
                std::ptr::eq(made.as_ptr(), Arc::as_ptr(catalog))
            }
            (Made::OfPart(made), Seen::Part(part)) => {
                std::ptr::eq(made.as_ptr(), Arc::as_ptr(part))
            }
            _ => false,
        }
    }

    /// Nobody is shown this any more.
    pub fn is_past(&self) -> bool {
        match &self.0 {
            Made::OfAll(made) => made.strong_count() == 0,
            Made::OfPart(made) => made.strong_count() == 0,
        }
    }
}
