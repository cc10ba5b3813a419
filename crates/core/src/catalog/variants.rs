//! Offers that depend on client capabilities.
//!
//! Some servers list a tool only to clients that declare sampling, elicitation or roots, and a backend is discovered
//! with none of these. When callers of a capability set first request a list, each backend is asked once more with
//! that set (`Backend::offer_for`). Only the difference is kept, per backend and set. The catalog holds the
//! operations of all sets; `Operation::offered_to` names the sets, and `Policy::grant` hides an operation from all
//! others, like one that a role may not see. Where no offer differs, this costs a list or a call one atomic load.
//!
//! Not here: how a server is asked (`backends`).

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use super::{BackendState, Known, Publisher, Registry, Slot};
use crate::capabilities::{CapabilitySet, CapabilitySets};
use crate::fault::Fault;
use crate::invocation::View;
use crate::offer::{Item, ItemKind, Offer};

/// Pause before a list asks a backend again that could not be asked.
const RETRY: Duration = Duration::from_secs(30);
/// Backoff between two readings without a change: a server may announce a change for every new session, and each
/// reading opens one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The difference between the offer to a capability set and the published one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfferDifference {
    extra: Vec<(ItemKind, Item)>,
    missing: HashSet<(ItemKind, String)>,
}

impl OfferDifference {
    fn between(published: &Offer, offered: &Offer) -> Self {
        let keys = |offer: &Offer| -> HashSet<(ItemKind, String)> {
            let keys =
                |kind: ItemKind| offer.items(kind).iter().map(move |i| (kind, i.key.clone()));
            ItemKind::ALL.into_iter().flat_map(keys).collect()
        };
        let (published, all) = (keys(published), keys(offered));
        let items = ItemKind::ALL
            .into_iter()
            .flat_map(|kind| offered.items(kind).iter().map(move |item| (kind, item)));
        let is_extra =
            |(kind, item): &(ItemKind, &Item)| !published.contains(&(*kind, item.key.clone()));
        Self {
            extra: items
                .filter(is_extra)
                .map(|(kind, item)| (kind, item.clone()))
                .collect(),
            missing: published.difference(&all).cloned().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.extra.is_empty() && self.missing.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Running,
    Scheduled,
    Done,
    Failed,
}

/// One backend's offer to callers of one capability set.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    reading: Reading,
    asked_at: Instant,
    /// Invalidated by a publication while it was read.
    is_stale: bool,
    pause: Duration,
    difference: OfferDifference,
}

pub(super) type Variants = BTreeMap<CapabilitySet, Variant>;

impl Known {
    /// Combines the published offer with those to single capability sets.
    pub(super) fn combine(&mut self) {
        self.shown = self.offer.clone();
        let differ = |variant: &&Variant| !variant.difference.is_empty();
        let (Some(offer), true) = (&self.offer, self.variants.values().any(|v| differ(&v))) else {
            return;
        };
        let mut all = (**offer).clone();
        for (set, variant) in &self.variants {
            for kind in ItemKind::ALL {
                for item in all.items_mut(kind) {
                    // `missing` names published items; an extra item starts with its own sets only.
                    if variant
                        .difference
                        .missing
                        .contains(&(kind, item.key.clone()))
                    {
                        item.offered_to = item.offered_to.without(*set);
                    }
                }
            }
        }
        for (set, variant) in &self.variants {
            for (kind, extra) in &variant.difference.extra {
                let items = all.items_mut(*kind);
                match items.iter_mut().find(|item| item.key == extra.key) {
                    Some(item) => item.offered_to = item.offered_to.with(*set),
                    None => items.push(Item {
                        offered_to: CapabilitySets::NONE.with(*set),
                        ..extra.clone()
                    }),
                }
            }
        }
        self.shown = Some(Arc::new(all));
    }

    /// Whether the server itself published its offer; a remembered one cannot be compared.
    fn is_reached(&self) -> bool {
        self.answered && self.listed && self.offer.is_some()
    }
}

/// A backend's state for a capability set.
enum Progress {
    Done,
    Running {
        since: Instant,
    },
    /// It cannot be asked now.
    Later,
}

impl Registry {
    /// Waits until the lists of a view are complete for callers of a capability set, bounded by
    /// `set_first_answer_wait`.
    pub async fn lists_ready(self: &Arc<Self>, view: View, set: CapabilitySet) {
        self.first_answers(view).await;
        self.variants_ready(view, set).await;
    }

    /// Whether `lists_ready` may wait.
    pub fn awaits_lists(&self, view: View, set: CapabilitySet) -> bool {
        self.awaits_first_answers(view) || !self.knows_variants(set)
    }

    /// Whether every backend was asked for this set.
    pub(crate) fn knows_variants(&self, set: CapabilitySet) -> bool {
        CapabilitySets::of_bits(self.known_sets.load(Ordering::Relaxed)).contains(set)
    }

    /// Waits until the backends of a view have answered for a capability set.
    pub(crate) async fn variants_ready(self: &Arc<Self>, view: View, set: CapabilitySet) {
        let wanted = CapabilitySets::NONE.with(set).bits();
        self.wanted_sets.fetch_or(wanted, Ordering::Relaxed);
        while !self.knows_variants(set) {
            let mut answered = pin!(self.answered.notified());
            answered.as_mut().enable();
            let Some(deadline) = self.ask_backends(view, set) else {
                return;
            };
            tokio::select! {
                () = answered => {}
                () = sleep_until(deadline) => {}
            }
        }
    }

    /// Asks the backends of a view that were not asked for this set; returns the time until which to wait.
    fn ask_backends(self: &Arc<Self>, view: View, set: CapabilitySet) -> Option<Instant> {
        let (now, wait) = (Instant::now(), *self.first_answer_wait.lock());
        let layout = self.layout.load();
        let (mut latest, mut all_done) = (None, view == View::Merged);
        for (index, slot) in layout.in_use() {
            if !matches!(view, View::Only(only) if only != index) {
                match self.ask_backend(slot, set) {
                    Progress::Done => {}
                    Progress::Later => all_done = false,
                    Progress::Running { since } => {
                        all_done = false;
                        latest = latest.max(Some(since + wait).filter(|due| *due > now));
                    }
                }
            }
        }
        if all_done {
            let bits = CapabilitySets::NONE.with(set).bits();
            self.known_sets.fetch_or(bits, Ordering::Relaxed);
        }
        latest
    }

    fn ask_backend(self: &Arc<Self>, slot: &Slot, set: CapabilitySet) -> Progress {
        let facts = &slot.running.facts;
        let now = Instant::now();
        {
            let known = facts.known.lock();
            if !known.is_reached() || slot.running.backend.get().is_none() {
                return Progress::Later;
            }
            match known.variants.get(&set) {
                None => {}
                Some(variant) => match variant.reading {
                    Reading::Done | Reading::Scheduled => return Progress::Done,
                    Reading::Running => {
                        return Progress::Running {
                            since: variant.asked_at,
                        };
                    }
                    Reading::Failed if now < variant.asked_at + RETRY => return Progress::Later,
                    Reading::Failed => {}
                },
            }
        }
        match self.read_variant(slot, set) {
            true => Progress::Running { since: now },
            false => Progress::Done,
        }
    }

    /// Starts reading a backend's offer to a capability set; false if there is none to read.
    fn read_variant(self: &Arc<Self>, slot: &Slot, set: CapabilitySet) -> bool {
        let facts = slot.running.facts.clone();
        {
            let mut known = facts.known.lock();
            let fresh = Variant {
                reading: Reading::Done,
                asked_at: Instant::now(),
                is_stale: false,
                pause: Duration::ZERO,
                difference: OfferDifference::default(),
            };
            let variant = known.variants.entry(set).or_insert(fresh);
            if variant.reading == Reading::Running {
                return true;
            }
            variant.reading = Reading::Running;
            variant.asked_at = Instant::now();
        }
        let backend = slot.running.backend.get();
        // Outside the lock: a backend may read its own published offer.
        match backend.and_then(|backend| backend.offer_for(set)) {
            Some(offer) => {
                let (registry, name) = (self.clone(), slot.listing.name.clone());
                tokio::spawn(async move {
                    let offered = offer.await;
                    if let Err(fault) = &offered {
                        tracing::warn!(backend = %name, "could not read what it offers to {set}: {fault}");
                    }
                    registry.note_variant(&facts, set, offered);
                });
                true
            }
            None => {
                self.note_variant(&facts, set, Ok(None));
                false
            }
        }
    }

    fn note_variant(
        self: &Arc<Self>,
        facts: &Arc<BackendState>,
        set: CapabilitySet,
        offered: Result<Option<Offer>, Fault>,
    ) {
        let mut inner = self.inner.lock();
        let (changed, is_stale) = {
            let mut known = facts.known.lock();
            let published = known.offer.clone();
            let Some(variant) = known.variants.get_mut(&set) else {
                return;
            };
            let found = match (offered, published) {
                (Ok(Some(offered)), Some(published)) => {
                    Some(OfferDifference::between(&published, &offered))
                }
                (Ok(_), _) => Some(OfferDifference::default()),
                (Err(_), _) => None,
            };
            variant.reading = match found {
                Some(_) => Reading::Done,
                None => Reading::Failed,
            };
            let changed = found.is_some_and(|found| {
                let changed = found != variant.difference;
                variant.difference = found;
                changed
            });
            variant.pause = match changed {
                true => PAUSE_MIN,
                false => (variant.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX),
            };
            let is_stale = std::mem::take(&mut variant.is_stale);
            known.combine();
            (changed, is_stale)
        };
        match changed {
            true => self.rebuild_in(&mut inner, None),
            false => self.answered.notify_waiters(),
        }
        drop(inner);
        if is_stale {
            self.refresh_variant(facts, set);
        }
    }

    /// Reads a variant again after its pause.
    fn refresh_variant(self: &Arc<Self>, facts: &Arc<BackendState>, set: CapabilitySet) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let due = {
            let mut known = facts.known.lock();
            let Some(variant) = known.variants.get_mut(&set) else {
                return;
            };
            match variant.reading {
                Reading::Running => {
                    variant.is_stale = true;
                    return;
                }
                Reading::Scheduled => return,
                Reading::Done | Reading::Failed => {}
            }
            variant.reading = Reading::Scheduled;
            variant.asked_at + variant.pause
        };
        let (registry, facts) = (self.clone(), facts.clone());
        runtime.spawn(async move {
            sleep_until(due).await;
            let layout = registry.layout.load_full();
            let mut slots = layout.in_use();
            // A replaced backend is not asked any more.
            if let Some((_, slot)) = slots.find(|(_, s)| Arc::ptr_eq(&s.running.facts, &facts)) {
                registry.read_variant(slot, set);
            }
        });
    }
}

impl Publisher {
    /// Offers to capability sets may have changed: those in use are read again.
    pub(super) fn variants_changed(&self) {
        let registry = &self.registry;
        registry.known_sets.store(0, Ordering::Relaxed);
        let wanted = CapabilitySets::of_bits(registry.wanted_sets.load(Ordering::Relaxed));
        for set in wanted.iter() {
            let is_known = self.facts.known.lock().variants.contains_key(&set);
            if is_known {
                registry.refresh_variant(&self.facts, set);
            } else if Handle::try_current().is_ok() {
                let layout = registry.layout.load();
                let slot = &layout.slots[self.index];
                if Arc::ptr_eq(&slot.running.facts, &self.facts) {
                    registry.ask_backend(slot, set);
                }
            }
        }
    }
}
