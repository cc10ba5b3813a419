//! The catalog: an immutable snapshot of every operation, and the registry that makes new ones.
//!
//! Backends publish what they offer through a `Publisher`; the registry merges all offers into a
//! new `Catalog` and swaps it in. Readers never wait. Names are given out once and keep their owner
//! for the life of the process, so a blip can never re-route a name to somebody else.
//!
//! Not here: how an offer is read from a server (`backends::discover`).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use sentinel_wire::{Method, Params};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backend::Backend;
use crate::cache::Cache;
use crate::call::{Call, Target, View};
use crate::circuit::{self, Circuit};
use crate::fault::Fault;
use crate::offer::{ItemKind, Offer};
use crate::updates::{Hear, Ticket, Updates};

mod glob;
mod lists;
mod naming;
mod operation;
mod snapshot;
pub(crate) mod unknown;

pub use glob::Glob;
pub use naming::Prefix;
pub use operation::Operation;
pub(crate) use snapshot::Filtered;
pub use snapshot::{Catalog, Change, Generations};

use naming::Names;

/// On a cold start a bare name waits this long for backends configured earlier.
const COLD_WAIT: Duration = Duration::from_secs(2);
/// Complaints about names that are logged and kept for `doctor`; servers may make up any number.
const COMPLAINTS_MAX: usize = 1_000;

/// How one backend's operations appear in the catalog.
#[derive(Clone, Debug)]
pub struct Listing {
    pub name: String,
    pub prefix: Prefix,
    pub include: Vec<Glob>,
    pub exclude: Vec<Glob>,
    /// Own name to exposed name.
    pub rename: HashMap<String, String>,
    pub circuit: circuit::Config,
}

impl Listing {
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            prefix: Prefix::Collisions,
            include: Vec::new(),
            exclude: Vec::new(),
            rename: HashMap::new(),
            circuit: circuit::Config::default(),
        }
    }

    /// Whether the configuration shows this tool at all.
    fn shows(&self, own: &str) -> bool {
        (self.include.is_empty() || self.include.iter().any(|g| g.matches(own)))
            && !self.exclude.iter().any(|g| g.matches(own))
    }
}

struct Slot {
    listing: Listing,
    backend: OnceLock<Arc<dyn Backend>>,
    circuit: Arc<Circuit>,
}

/// What is known of one backend at the moment.
#[derive(Default)]
struct Known {
    offer: Option<Arc<Offer>>,
    /// Health keeps it in the catalog.
    listed: bool,
    /// It was reached, or failed, at least once.
    tried: bool,
    /// What it offered before the restart is known, and its names are reserved.
    remembered: bool,
}

struct Inner {
    known: Vec<Known>,
    names: Names,
    /// What was already complained about, so that each complaint is logged once.
    complained: HashSet<String>,
}

impl Inner {
    /// Whether a complaint is worth a line: each is made once, and there is an end to them.
    fn is_new(&mut self, complaint: &str) -> bool {
        self.complained.len() < COMPLAINTS_MAX && self.complained.insert(complaint.to_owned())
    }
}

/// Makes catalogs. One per gateway.
pub struct Registry {
    slots: Vec<Slot>,
    started: Instant,
    inner: Mutex<Inner>,
    catalog: ArcSwap<Catalog>,
    changes: watch::Sender<Arc<Generations>>,
    updates: Arc<Updates>,
    cache: Cache,
    /// Who we say we are, where that is not the gateway.
    introduction: OnceLock<Bytes>,
}

impl Registry {
    /// A registry with one place per configured backend, in configuration order.
    pub fn new(listings: Vec<Listing>) -> Arc<Self> {
        let known = listings.iter().map(|_| Known::default()).collect();
        let slots: Vec<Slot> = listings
            .into_iter()
            .map(|listing| Slot {
                circuit: Circuit::new(listing.circuit),
                listing,
                backend: OnceLock::new(),
            })
            .collect();
        let generations = Arc::new(Generations::new(slots.len()));
        let listings: Vec<&Listing> = slots.iter().map(|slot| &slot.listing).collect();
        let registry = Arc::new(Self {
            catalog: ArcSwap::from_pointee(Catalog::empty(&listings)),
            changes: watch::Sender::new(generations),
            inner: Mutex::new(Inner {
                known,
                names: Names::default(),
                complained: HashSet::new(),
            }),
            started: Instant::now(),
            updates: Updates::new(slots.len()),
            cache: Cache::new(slots.len()),
            introduction: OnceLock::new(),
            slots,
        });
        registry.rebuild(None);
        registry
    }

    /// Puts the running backend in its place. Once per index, before the first call.
    pub fn attach(&self, index: usize, backend: Arc<dyn Backend>) {
        let fresh = self.slots[index].backend.set(backend).is_ok();
        debug_assert!(fresh, "a backend is attached once");
    }

    pub fn publisher(self: &Arc<Self>, index: usize) -> Publisher {
        Publisher {
            registry: self.clone(),
            index,
        }
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Wakes when a list may look different; compare generations to see which.
    pub fn changes(&self) -> watch::Receiver<Arc<Generations>> {
        self.changes.subscribe()
    }

    pub fn backends(&self) -> impl Iterator<Item = (usize, &Arc<dyn Backend>)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(i, slot)| Some((i, slot.backend.get()?)))
    }

    /// How many backends are configured.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.listing.name == name)
    }

    pub fn name_of(&self, index: usize) -> &str {
        &self.slots[index].listing.name
    }

    /// Callers are told this `serverInfo` in place of the gateway's. Once, before the first call.
    pub fn introduce_as(&self, server_info: Bytes) {
        let _ = self.introduction.set(server_info);
    }

    pub fn introduction(&self) -> Option<&Bytes> {
        self.introduction.get()
    }

    /// Every backend was tried once, so the catalog is as full as it gets for now.
    pub fn all_tried(&self) -> bool {
        self.inner.lock().known.iter().all(|k| k.tried)
    }

    /// Finds where a call goes.
    pub fn resolve(&self, call: &Call) -> Result<Target, Fault> {
        let found = self
            .catalog
            .load()
            .resolve(call.view, &call.method, &call.params)?;
        let slot = &self.slots[found.operation.index];
        let backend = slot
            .backend
            .get()
            .expect("backends are attached before the first call");
        Ok(Target {
            backend: backend.clone(),
            index: found.operation.index,
            own_name: found.own_name,
            circuit: slot.circuit.clone(),
            mirrored: found.operation.mirrored.clone(),
            operation: found.operation,
        })
    }

    /// Whose operation a request names.
    pub fn owner(&self, view: View, method: &Method, params: &Params) -> Option<usize> {
        self.catalog
            .load()
            .resolve(view, method, params)
            .ok()
            .map(|found| found.operation.index)
    }

    /// The tool of this name in a view.
    pub fn tool(&self, view: View, name: &str) -> Option<Arc<Operation>> {
        self.catalog.load().tool(view, name).cloned()
    }

    /// Tells everybody that lists may look different, although no backend changed: policy did.
    pub fn announce(&self) {
        let _in_order = self.inner.lock();
        self.changes.send_modify(|current| {
            let mut next = (**current).clone();
            next.bump();
            *current = Arc::new(next);
        });
    }

    /// Listens for changes of a resource; `None` if nobody owns it, or too many listen.
    pub fn listen(&self, view: View, uri: &str, hear: Hear) -> Option<Ticket> {
        let owner = self.catalog.load().owner(view, uri)?;
        self.updates.listen(owner, uri, hear)
    }

    /// Forgets the wait for earlier backends; the owner calls it once `COLD_WAIT` is over.
    pub async fn end_cold_start(self: Arc<Self>) {
        tokio::time::sleep_until(self.started + COLD_WAIT).await;
        self.rebuild(None);
    }

    fn update(&self, index: usize, change: impl FnOnce(&mut Known)) {
        change(&mut self.inner.lock().known[index]);
        self.rebuild(None);
    }

    /// Merges all offers into a new catalog and swaps it in. What a backend announced is announced
    /// on, even where the list looks the same.
    fn rebuild(&self, announced: Option<(usize, &[Change])>) {
        let mut inner = self.inner.lock();
        let visible = self.visible_offers(&inner.known);
        for (index, offer) in visible.iter().enumerate() {
            if let Some(offer) = offer {
                self.name_items(index, offer, &mut inner);
            }
        }
        let listings: Vec<&Listing> = self.slots.iter().map(|slot| &slot.listing).collect();
        let before = self.catalog.load_full();
        let next = Catalog::merge(&before, &listings, visible, &inner.names);
        for (backend, complaint) in next.contested_uris() {
            if inner.is_new(&complaint) {
                tracing::warn!(backend, "{complaint}");
            }
        }
        let generations = next.generations(&before, &self.changes.borrow(), announced);
        self.catalog.store(Arc::new(next));
        // Under the lock, so that generations only grow.
        self.changes.send_if_modified(|current| {
            let changed = **current != generations;
            if changed {
                *current = Arc::new(generations);
            }
            changed
        });
    }

    /// What is shown now. Bare names go by configuration order, not by who was faster: on a cold start a
    /// backend shows nothing while an earlier one is untried, not even at its own endpoint, for rules go by
    /// the name that it does not have yet. What has a prefix, or was remembered, takes nobody's name.
    fn visible_offers(&self, known: &[Known]) -> Vec<Option<Arc<Offer>>> {
        let cold = self.started.elapsed() < COLD_WAIT;
        let mut waiting = false;
        let mut visible = Vec::with_capacity(known.len());
        for (slot, k) in self.slots.iter().zip(known) {
            let in_doubt = !k.remembered && slot.listing.prefix != Prefix::Always;
            let shown = k.listed && !(cold && waiting && in_doubt);
            visible.push(k.offer.clone().filter(|_| shown));
            waiting |= !k.tried && k.offer.is_none();
        }
        visible
    }

    /// Gives each tool and prompt of an offer its exposed name, if it has none yet.
    fn name_items(&self, index: usize, offer: &Offer, inner: &mut Inner) {
        let listing = &self.slots[index].listing;
        for kind in [ItemKind::Tool, ItemKind::Prompt] {
            for item in offer.items(kind) {
                if kind == ItemKind::Tool && !listing.shows(&item.key) {
                    continue;
                }
                if let Some(complaint) = inner.names.assign(kind, index, listing, &item.key)
                    && inner.is_new(&complaint)
                {
                    if listing.prefix == Prefix::Never {
                        tracing::error!(backend = %listing.name, "{complaint}");
                    } else {
                        tracing::warn!(backend = %listing.name, "{complaint}");
                    }
                }
            }
        }
    }

    /// What was wrong with names so far, for `doctor`.
    pub fn complaints(&self) -> Vec<String> {
        let mut all: Vec<String> = self.inner.lock().complained.iter().cloned().collect();
        all.sort();
        all
    }
}

/// One backend's way to the registry.
#[derive(Clone)]
pub struct Publisher {
    registry: Arc<Registry>,
    index: usize,
}

impl Publisher {
    /// This is what the backend offers now.
    pub fn publish(&self, offer: Offer) {
        // Whatever was said while nobody listened was not heard.
        self.registry.cache.all_changed(self.index);
        self.registry.slots[self.index].circuit.reset();
        self.registry.update(self.index, |known| {
            known.offer = Some(Arc::new(offer));
            known.listed = true;
            known.tried = true;
        });
    }

    /// The same, after the backend itself said that these lists changed.
    pub fn publish_changed(&self, offer: Offer, changed: &[Change]) {
        let registry = &self.registry;
        if changed.contains(&Change::Resources) {
            registry.cache.all_changed(self.index);
        }
        registry.inner.lock().known[self.index].offer = Some(Arc::new(offer));
        registry.rebuild(Some((self.index, changed)));
    }

    /// A resource of the backend changed.
    pub fn updated(&self, uri: &str) {
        self.registry.cache.changed(self.index, uri);
        self.registry.updates.tell(self.index, uri);
    }

    /// It may have said something that nobody heard.
    pub fn missed(&self) {
        self.registry.cache.all_changed(self.index);
    }

    /// The resources whose changes somebody wants to hear of.
    pub fn wanted(&self) -> Vec<Arc<str>> {
        self.registry.updates.wanted(self.index)
    }

    /// Wakes when `wanted` changed.
    pub fn wanted_changes(&self) -> watch::Receiver<u64> {
        self.registry.updates.changes(self.index)
    }

    /// This is what it offered before the restart: listed until we know better.
    pub fn remember(&self, offer: Offer) {
        self.registry.update(self.index, |known| {
            known.offer = Some(Arc::new(offer));
            known.listed = true;
            known.remembered = true;
        });
    }

    /// It was tried and is not usable for now; what it offered before stays listed.
    pub fn tried(&self) {
        self.registry.update(self.index, |known| known.tried = true);
    }

    /// Out of the catalog until it recovers.
    pub fn withdraw(&self) {
        self.registry.update(self.index, |known| {
            known.listed = false;
            known.tried = true;
        });
    }

    /// It recovered and offers what it offered before.
    pub fn restore(&self) {
        self.registry.slots[self.index].circuit.reset();
        self.registry
            .update(self.index, |known| known.listed = true);
    }

    /// What was last published, if anything.
    pub fn offer(&self) -> Option<Arc<Offer>> {
        self.registry.inner.lock().known[self.index].offer.clone()
    }
}

#[cfg(test)]
mod tests;
