//! Assigns exposed names. A name once assigned stays with its owner.

use std::collections::HashMap;
use std::sync::Arc;

use super::Listing;
use crate::offer::ItemKind;

/// Whether a backend's name is put before its operations' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    Collisions,
    Always,
    Never,
}

/// Longest name that the specification recommends; longer ones are cut, with a hash at the end.
const NAME_LEN_MAX: usize = 128;

type Owner = (usize, Arc<str>);

/// Names that a backend no longer offers and that stay reserved for it. Beyond this number, those not offered for
/// longest are released.
const GONE_MAX: usize = 10_000;

/// All assigned names. Tools and prompts have separate name spaces.
#[derive(Default)]
pub(super) struct Names {
    owners: HashMap<(ItemKind, Arc<str>), Owner>,
    exposed: HashMap<(ItemKind, Owner), AssignedName>,
    /// Number of names per backend.
    counts: HashMap<usize, usize>,
    round: u64,
}

struct AssignedName {
    name: Arc<str>,
    /// The round in which its owner last offered it.
    round: u64,
}

impl Names {
    /// Begins a backend's offer, which consists of all names assigned until `end`.
    pub(super) fn begin(&mut self) {
        self.round += 1;
    }

    /// Ends the offer.
    pub(super) fn end(&mut self, index: usize) {
        let round = self.round;
        if self.counts.get(&index).is_none_or(|all| *all <= GONE_MAX) {
            return;
        }
        let of_it = self
            .exposed
            .iter()
            .filter(|((_, owner), _)| owner.0 == index);
        let gone = of_it.filter(|(_, given)| given.round < round);
        let mut gone: Vec<(u64, ItemKind, Owner)> = gone
            .map(|((kind, owner), given)| (given.round, *kind, owner.clone()))
            .collect();
        if gone.len() <= GONE_MAX {
            return;
        }
        gone.sort_unstable_by_key(|(round, ..)| *round);
        // Removes a few more than needed, so that the next new name does not cause another search.
        let least = gone.len() - GONE_MAX + GONE_MAX / 10;
        for (_, kind, owner) in gone.drain(..least) {
            if let Some(given) = self.exposed.remove(&(kind, owner)) {
                self.owners.remove(&(kind, given.name));
            }
        }
        if let Some(count) = self.counts.get_mut(&index) {
            *count -= least;
        }
    }

    /// The name of an operation, assigned at the first call; a message if its own name was taken.
    pub(super) fn assign(
        &mut self,
        kind: ItemKind,
        index: usize,
        listing: &Listing,
        own: &str,
    ) -> Option<String> {
        let owner: Owner = (index, own.into());
        if let Some(given) = self.exposed.get_mut(&(kind, owner.clone())) {
            given.round = self.round;
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
            // Another backend has a tool with the prefixed name.
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

    /// Releases the names of a backend that was removed or is to be renamed.
    pub(super) fn release(&mut self, index: usize) {
        self.owners.retain(|_, owner| owner.0 != index);
        self.exposed.retain(|(_, owner), _| owner.0 != index);
        self.counts.remove(&index);
    }

    fn take(&mut self, kind: ItemKind, name: &str, owner: &Owner) -> bool {
        let name: Arc<str> = name.into();
        if self.owners.contains_key(&(kind, name.clone())) {
            return false;
        }
        self.owners.insert((kind, name.clone()), owner.clone());
        let round = self.round;
        let given = AssignedName { name, round };
        self.exposed.insert((kind, owner.clone()), given);
        *self.counts.entry(owner.0).or_default() += 1;
        true
    }

    /// All names of a backend: own names and exposed ones.
    pub(super) fn given(
        &self,
        kind: ItemKind,
        index: usize,
    ) -> impl Iterator<Item = (&str, &Arc<str>)> {
        let all = self.exposed.iter();
        all.filter(move |((of, owner), _)| *of == kind && owner.0 == index)
            .map(|((_, owner), given)| (&*owner.1, &given.name))
    }

    pub(super) fn exposed(&self, kind: ItemKind, index: usize, own: &str) -> Option<Arc<str>> {
        let given = self.exposed.get(&(kind, (index, own.into())));
        given.map(|given| given.name.clone())
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

/// FNV-1a: stable across runs and machines, as names must be.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(names: &mut Names, index: usize, own: impl IntoIterator<Item = String>) {
        let listing = Listing::new(format!("b{index}"));
        names.begin();
        for own in own {
            names.assign(ItemKind::Tool, index, &listing, &own);
        }
        names.end(index);
    }

    /// G-08: a name keeps its owner while the bound allows, and what is offered keeps it in any case.
    #[test]
    fn a_backend_that_thinks_of_new_names_for_ever_holds_only_so_many() {
        let mut names = Names::default();
        for round in 0..50 {
            let fresh = (0..1000).map(|n| format!("t{round}-{n}"));
            offer(&mut names, 0, fresh.chain(["stays".to_owned()]));
            assert!(names.exposed.len() <= GONE_MAX + 1001, "{round}");
        }
        assert_eq!(names.owners.len(), names.exposed.len());
        assert_eq!(names.counts[&0], names.exposed.len());
        offer(
            &mut names,
            1,
            ["stays", "t49-1", "t45-1", "t0-1"].map(str::to_owned),
        );
        let given = |own: &str| names.exposed(ItemKind::Tool, 1, own);
        assert_eq!(given("stays").as_deref(), Some("b1__stays"));
        assert_eq!(
            given("t49-1").as_deref(),
            Some("b1__t49-1"),
            "it is offered"
        );
        assert_eq!(
            given("t45-1").as_deref(),
            Some("b1__t45-1"),
            "it was lately"
        );
        assert_eq!(given("t0-1").as_deref(), Some("t0-1"), "long ago");
    }
}
