//! Another configuration for a registry that is in use: places for its backends, taken all at once.

use std::sync::Arc;
use std::time::Duration;

use super::{Known, Layout, Listing, Publisher, Registry, Slot, Tenant};
use crate::backend::Backend;
use crate::in_flight::InFlight;

impl Registry {
    /// Finds places for the backends of a new configuration. Nothing changes before `Plan::commit`; the
    /// plan must be the only one.
    pub fn plan(self: &Arc<Self>, wanted: Vec<Wanted>) -> Plan {
        let layout = self.layout.load_full();
        let mut next = layout.slots.len();
        let place = |wanted: Wanted| {
            let old = layout.slots.iter();
            let old = old
                .enumerate()
                .find(|(_, s)| s.listing.name == wanted.listing.name);
            let index = old.map_or(next, |(index, _)| index);
            next += usize::from(old.is_none());
            let old = old.filter(|(index, _)| layout.order.contains(index));
            let listing = Arc::new(wanted.listing);
            let slot = match old {
                Some((_, slot)) if wanted.keep => Slot {
                    listing,
                    tenant: slot.tenant.clone(),
                },
                // What it offered stays listed until its successor knows better.
                Some((_, slot)) => Slot {
                    tenant: Tenant::new(&listing, slot.tenant.facts.known.lock().successor()),
                    listing,
                },
                // Whoever comes late does not make a gateway unready that was ready.
                None => Slot {
                    tenant: Tenant::new(
                        &listing,
                        Known {
                            tried: true,
                            ..Known::default()
                        },
                    ),
                    listing,
                },
            };
            (index, slot)
        };
        Plan {
            slots: wanted.into_iter().map(place).collect(),
            registry: self.clone(),
        }
    }
}

/// A backend of a new configuration.
pub struct Wanted {
    pub listing: Listing,
    /// The one that runs under this name is the one that is wanted.
    pub keep: bool,
}

/// Places for the backends of a new configuration, in its order.
pub struct Plan {
    registry: Arc<Registry>,
    slots: Vec<(usize, Slot)>,
}

impl Plan {
    /// The place of the nth backend.
    pub fn index(&self, n: usize) -> usize {
        self.slots[n].0
    }

    /// For the nth backend, if it is a new one.
    pub fn publisher(&self, n: usize) -> Publisher {
        let (index, slot) = &self.slots[n];
        self.registry.updates.grow(index + 1);
        self.registry.cache.grow(index + 1);
        Publisher {
            registry: self.registry.clone(),
            index: *index,
            facts: slot.tenant.facts.clone(),
            followers: self.registry.updates.of(*index, None),
        }
    }

    /// Puts the nth backend, a new one, in its place.
    pub fn attach(&self, n: usize, backend: Arc<dyn Backend>) {
        let fresh = self.slots[n].1.tenant.backend.set(backend).is_ok();
        debug_assert!(fresh, "a backend is attached once");
    }

    /// From now on these are the backends. Returns those that are not among them any more.
    pub fn commit(self) -> Vec<Retired> {
        let registry = self.registry;
        let mut inner = registry.inner.lock();
        let before = registry.layout.load_full();
        let mut slots = before.slots.clone();
        let mut order = Vec::with_capacity(self.slots.len());
        // Places of new backends are at the end, in order.
        for (index, slot) in self.slots {
            order.push(index);
            match slots.get_mut(index) {
                Some(place) => {
                    if !place.listing.names_alike(&slot.listing) {
                        inner.names.release(index);
                    }
                    // Before its definitions are compared, which follows: no call slips through between the two.
                    slot.tenant.govern(&slot.listing);
                    *place = slot;
                }
                None => slots.push(slot),
            }
        }
        let mut retired = Vec::new();
        for (index, old) in before.in_use() {
            if !order.contains(&index) {
                inner.names.release(index);
                // The place stays, for whoever comes back under this name; nothing of the old one does.
                slots[index].tenant = Tenant::new(&old.listing, Known::default());
                slots[index].tenant.calls.close();
            } else if Arc::ptr_eq(&old.tenant, &slots[index].tenant) {
                continue;
            }
            retired.extend(old.tenant.backend.get().map(|backend| Retired {
                backend: backend.clone(),
                calls: old.tenant.calls.clone(),
            }));
        }
        registry.updates.grow(slots.len());
        registry.cache.grow(slots.len());
        registry.layout.store(Arc::new(Layout { slots, order }));
        // After that: whoever is turned away finds the new layout.
        registry.rebuild_in(&mut inner, None);
        drop(inner);
        for one in &retired {
            one.calls.close();
        }
        retired
    }
}

/// A backend that was taken out of the configuration, or replaced.
pub struct Retired {
    backend: Arc<dyn Backend>,
    calls: Arc<InFlight>,
}

impl Retired {
    /// Stops it after its last call, or after `limit`.
    pub async fn end(self, limit: Duration) {
        if tokio::time::timeout(limit, self.calls.ended())
            .await
            .is_err()
        {
            tracing::warn!(backend = %self.backend.name(), "gateway.drain_timeout is over: ending the calls of a backend that was taken out");
        }
        self.backend.stop().await;
        tracing::info!(backend = %self.backend.name(), "ended: the configuration has another, or none");
    }
}
