//! Cache of which backends an identity sees: computed once per role, scopes and catalog, since every request to a
//! backend's own endpoint asks.
//!
//! Readers do not allocate, and wait only for the first computation. The cache belongs to one catalog and one set of
//! roles, and is dropped with either.
//!
//! Not here: what seeing a backend means (`Policy::sees_backend`).

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use super::roles::Roles;
use crate::catalog::Catalog;
use crate::identity::Identity;
use crate::map::Map;

/// Bound on cached combinations of roles and scopes; issuers use few. Beyond it the answer is computed each time.
const ENTRIES_MAX: usize = 1024;

#[derive(Default)]
pub(super) struct BackendVisibility(ArcSwapOption<Known>);

/// By backend; empty where not computed.
type Seen = Arc<[OnceLock<bool>]>;
type ByScopes = Map<Arc<[Arc<str>]>, Seen>;

struct Known {
    catalog: Arc<Catalog>,
    roles: Arc<Roles>,
    /// By role and scopes.
    seen: Map<Arc<str>, ByScopes>,
}

impl Known {
    fn is_of(&self, catalog: &Arc<Catalog>, roles: &Arc<Roles>) -> bool {
        Arc::ptr_eq(&self.catalog, catalog) && Arc::ptr_eq(&self.roles, roles)
    }
}

impl BackendVisibility {
    /// Whether this identity sees a backend; computed by `look` if unknown.
    pub(super) fn sees(
        &self,
        (catalog, roles): (&Arc<Catalog>, &Arc<Roles>),
        identity: &Identity,
        index: usize,
        look: impl FnOnce() -> bool,
    ) -> bool {
        let known = self.0.load();
        let known = known.as_ref().filter(|known| known.is_of(catalog, roles));
        let of_role = known.and_then(|known| known.seen.get(&identity.role));
        let found = of_role.and_then(|by_scopes| by_scopes.get(&*identity.scopes));
        let seen = match found {
            Some(seen) => seen,
            None => &self.note(catalog, roles, identity),
        };
        match seen.get(index) {
            Some(known) => *known.get_or_init(look),
            None => look(),
        }
    }

    /// Adds an entry for an identity. Of two concurrent additions one is lost and repeated later.
    fn note(&self, catalog: &Arc<Catalog>, roles: &Arc<Roles>, identity: &Identity) -> Seen {
        let seen: Seen = (0..catalog.places()).map(|_| OnceLock::new()).collect();
        let before = self.0.load_full();
        let before = before.filter(|known| known.is_of(catalog, roles));
        let len = |known: &Arc<Known>| known.seen.values().map(Map::len).sum::<usize>();
        let before = before.filter(|known| len(known) < ENTRIES_MAX);
        let mut all = before.map_or_else(Map::default, |known| known.seen.clone());
        let by_scopes = all.entry(identity.role.clone()).or_default();
        by_scopes.insert(identity.scopes.clone(), seen.clone());
        self.0.store(Some(Arc::new(Known {
            catalog: catalog.clone(),
            roles: roles.clone(),
            seen: all,
        })));
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Registry;

    /// Each backend is looked at once, until the catalog or the roles are others.
    #[test]
    fn what_was_found_out_is_a_lookup_until_something_changes() {
        let listing = |name: &str| crate::catalog::Listing::new(name);
        let registry = Registry::new(vec![listing("a"), listing("b")]);
        let catalog = registry.catalog();
        let other = Registry::new(vec![listing("a"), listing("b")]).catalog();
        let (roles, others) = (Arc::new(Roles::default()), Arc::new(Roles::default()));
        let visibility = BackendVisibility::default();
        let looked = std::cell::Cell::new(0);
        let see = |made_from, role: &str, index| {
            let look = || {
                looked.set(looked.get() + 1);
                index == 0
            };
            let seen = visibility.sees(made_from, &Identity::local(role), index, look);
            (seen, looked.get())
        };
        for _ in 0..3 {
            assert_eq!(see((&catalog, &roles), "x", 0), (true, 1));
        }
        assert_eq!(see((&catalog, &roles), "x", 1), (false, 2));
        assert_eq!(see((&catalog, &roles), "y", 0), (true, 3));
        assert_eq!(see((&catalog, &roles), "x", 1), (false, 3));
        assert_eq!(see((&catalog, &others), "x", 1), (false, 4));
        assert_eq!(see((&other, &others), "x", 1), (false, 5));
        assert_eq!(see((&other, &others), "x", 1), (false, 5));
        // A place that this catalog does not know of yet is looked at each time.
        assert_eq!(see((&other, &others), "x", 2), (false, 6));
        assert_eq!(see((&other, &others), "x", 2), (false, 7));
    }

    #[test]
    fn a_crowd_of_scopes_is_bounded() {
        let registry = Registry::new(vec![crate::catalog::Listing::new("a")]);
        let (catalog, roles) = (registry.catalog(), Arc::new(Roles::default()));
        let visibility = BackendVisibility::default();
        for n in 0..2 * ENTRIES_MAX {
            let scope: Arc<str> = format!("a.{n}").into();
            let identity = Identity {
                subject: "x".into(),
                role: "x".into(),
                tenant: None,
                scopes: [scope].into_iter().collect(),
                proof: crate::identity::Proof::None,
                account: None,
            };
            assert!(visibility.sees((&catalog, &roles), &identity, 0, || true));
            let known = visibility.0.load_full().expect("something is known");
            assert!(known.seen["x"].len() <= ENTRIES_MAX);
        }
    }
}
