//! Who is called what. A name once given stays with its owner.

use std::collections::HashMap;
use std::sync::Arc;

use super::Listing;
use crate::offer::ItemKind;

/// When a backend's name is put before its operations' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    Collisions,
    Always,
    Never,
}

/// Longest name the specification recommends; longer ones are cut with a hash at the end.
const NAME_LEN_MAX: usize = 128;

type Owner = (usize, Arc<str>);

/// All names given out so far. Tools and prompts are separate worlds.
#[derive(Default)]
pub(super) struct Names {
    owners: HashMap<(ItemKind, Arc<str>), Owner>,
    exposed: HashMap<(ItemKind, Owner), Arc<str>>,
}

impl Names {
    /// Finds a name for an operation, once; a complaint where it could not have its own.
    pub(super) fn assign(
        &mut self,
        kind: ItemKind,
        index: usize,
        listing: &Listing,
        own: &str,
    ) -> Option<String> {
        let owner: Owner = (index, own.into());
        if self.exposed.contains_key(&(kind, owner.clone())) {
            return None;
        }
        let renamed = listing.rename.get(own).filter(|_| kind == ItemKind::Tool);
        let bare = renamed.map_or(own, String::as_str);
        let prefixed = || shorten(format!("{}__{bare}", listing.name));
        let wanted = if listing.prefix == Prefix::Always {
            prefixed()
        } else {
            bare.to_owned()
        };
        if self.take(kind, &wanted, &owner) {
            return None;
        }
        if listing.prefix == Prefix::Never {
            return Some(format!(
                "`{wanted}` is taken by another backend and prefix = \"never\": not exposed"
            ));
        }
        let fallback = prefixed();
        let given = if self.take(kind, &fallback, &owner) {
            fallback
        } else {
            // Somebody else really has a tool called like our prefixed name.
            let distinct = shorten(format!("{}__{bare}__{:08x}", listing.name, hash(own)));
            if !self.take(kind, &distinct, &owner) {
                return Some(format!("no free name for `{wanted}`: not exposed"));
            }
            distinct
        };
        Some(format!(
            "`{wanted}` is taken by an earlier backend; exposed as `{given}`"
        ))
    }

    /// Forgets the names of a backend that is gone, or is to be named anew.
    pub(super) fn release(&mut self, index: usize) {
        self.owners.retain(|_, owner| owner.0 != index);
        self.exposed.retain(|(_, owner), _| owner.0 != index);
    }

    fn take(&mut self, kind: ItemKind, name: &str, owner: &Owner) -> bool {
        let name: Arc<str> = name.into();
        if self.owners.contains_key(&(kind, name.clone())) {
            return false;
        }
        self.owners.insert((kind, name.clone()), owner.clone());
        self.exposed.insert((kind, owner.clone()), name);
        true
    }

    pub(super) fn exposed(&self, kind: ItemKind, index: usize, own: &str) -> Option<Arc<str>> {
        self.exposed.get(&(kind, (index, own.into()))).cloned()
    }
}

fn shorten(name: String) -> String {
    if name.len() <= NAME_LEN_MAX {
        return name;
    }
    let mut cut = NAME_LEN_MAX - 9;
    while !name.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}_{:08x}", &name[..cut], hash(&name))
}

/// FNV-1a: stable across runs and machines, which names must be.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    })
}
