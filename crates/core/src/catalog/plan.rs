//! Changes the configuration of a registry in use: slots for its backends, replaced at once.

use std::sync::Arc;
use std::time::Duration;

use super::{Known, Layout, Listing, Publisher, Registry, RunningBackend, Slot};
use crate::backend::Backend;
use crate::in_flight::InFlight;

impl Registry {
    /// Assigns slots to the backends of a new configuration. Nothing changes before `Plan::commit`; only one plan may
    /// exist at a time.
    pub fn plan(self: &Arc<Self>, wanted: Vec<PlannedBackend>) -> Plan {
        let layout = self.layout.load_full();
        let mut next = layout.slots.len();
        let place = |wanted: PlannedBackend| {
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
                    running: slot.running.clone(),
                },
                // Its previous offer stays listed until the successor publishes one.
                Some((_, slot)) => Slot {
                    running: RunningBackend::new(
                        &listing,
                        slot.running.facts.known.lock().successor(),
                    ),
                    listing,
                },
                // A backend added later does not make a ready gateway unready.
                None => Slot {
                    running: RunningBackend::new(
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
pub struct PlannedBackend {
    pub listing: Listing,
    /// The backend running under this name is kept.
    pub keep: bool,
}

/// Slots for the backends of a new configuration, in its order.
pub struct Plan {
    registry: Arc<Registry>,
    slots: Vec<(usize, Slot)>,
}

impl Plan {
    /// The slot of the nth backend.
    pub fn index(&self, n: usize) -> usize {
        self.slots[n].0
    }

    /// The publisher of the nth backend, if it is new.
    pub fn publisher(&self, n: usize) -> Publisher {
        let (index, slot) = &self.slots[n];
        self.registry.updates.grow(index + 1);
        self.registry.cache.grow(index + 1);
        Publisher {
            registry: self.registry.clone(),
            index: *index,
            facts: slot.running.facts.clone(),
            followers: self.registry.updates.of(*index, None),
        }
    }

    /// Puts the nth backend, a new one, in its slot.
    pub fn attach(&self, n: usize, backend: Arc<dyn Backend>) {
        let fresh = self.slots[n].1.running.backend.set(backend).is_ok();
        debug_assert!(fresh, "a backend is attached once");
    }

    /// Switches to these backends. Returns those that are not among them any more.
    pub fn commit(self) -> Vec<Retired> {
        let registry = self.registry;
        let mut inner = registry.inner.lock();
        let before = registry.layout.load_full();
        let mut slots = before.slots.clone();
        let mut order = Vec::with_capacity(self.slots.len());
        // Slots of new backends are at the end, in order.
        for (index, slot) in self.slots {
            order.push(index);
            match slots.get_mut(index) {
                Some(place) => {
                    if !place.listing.names_alike(&slot.listing) {
                        inner.names.release(index);
                    }
                    // Set before its definitions are compared below, so that no call slips through between the two.
                    slot.running.govern(&slot.listing);
                    *place = slot;
                }
                None => slots.push(slot),
            }
        }
        let mut retired = Vec::new();
        for (index, old) in before.in_use() {
            if !order.contains(&index) {
                inner.names.release(index);
                // The slot stays reserved for the name; the state of the old backend is dropped.
                slots[index].running = RunningBackend::new(&old.listing, Known::default());
                slots[index].running.calls.close();
            } else if Arc::ptr_eq(&old.running, &slots[index].running) {
                continue;
            }
            retired.extend(old.running.backend.get().map(|backend| Retired {
                backend: backend.clone(),
                calls: old.running.calls.clone(),
            }));
        }
        registry.updates.grow(slots.len());
        registry.cache.grow(slots.len());
        registry.layout.store(Arc::new(Layout { slots, order }));
        // Afterwards, so that refused calls find the new layout.
        registry.rebuild_in(&mut inner, None);
        drop(inner);
        for one in &retired {
            one.calls.close();
        }
        retired
    }
}

/// A backend that was removed from the configuration, or replaced.
pub struct Retired {
    backend: Arc<dyn Backend>,
    calls: Arc<InFlight>,
}

impl Retired {
    /// Stops it at once: its calls in flight are answered or failed.
    pub async fn end_now(self) {
        self.backend.stop().await;
        tracing::info!(backend = %self.backend.name(), "stopped");
    }

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
