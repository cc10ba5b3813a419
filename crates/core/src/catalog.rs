//! The catalog: an immutable snapshot of every operation, and the registry that makes new ones.
//!
//! Backends publish what they offer through a `Publisher`; the registry merges all offers into a
//! new `Catalog` and swaps it in. Readers never wait. Names are given out once and keep their owner
//! for the life of the process, so a blip can never re-route a name to somebody else.
//!
//! Not here: how an offer is read from a server (`backends::discover`).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Params, Payload};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::attribution;
use crate::backend::{Backend, Call, Target};
use crate::cache::Cache;

use crate::caller::Caller;
use crate::circuit::{self, Circuit};
use crate::fault::Fault;
use crate::in_flight::InFlight;
use crate::invocation::View;
use crate::offer::{ItemKind, Offer};
use crate::operation::Operation;
use crate::operation::unknown::unknown_method;
use crate::updates::{Followers, Hear, HearTask, Ticket, Updates};

mod cold_start;
mod confirm;
mod glob;
mod lists;
mod naming;
mod pins;
mod plan;
mod snapshot;
mod variants;

pub use glob::Glob;
pub use naming::Prefix;
pub use pins::{Pin, Pinned, Pinning, Pins, Said};
pub use plan::{Plan, Retired, Wanted};
pub(crate) use snapshot::Filtered;
pub use snapshot::{Catalog, Change, Generations};

use cold_start::{FIRST_ANSWER_WAIT, visible_offers};
use naming::Names;
use snapshot::Offers;
use variants::Variants;

/// Complaints about names that are logged and kept for `doctor`; servers may make up any number.
const COMPLAINTS_MAX: usize = 1_000;
/// Of the resources that count as changed after a gap, so many are told at once, and then the next after a pause: less than
/// a listener may leave unread.
const MISSED_AT_ONCE: usize = 32;
const MISSED_PAUSE: Duration = Duration::from_millis(20);

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
    pub pin: Pinning,
    /// It is a gateway that judges itself what may be called: what it does not list is called all the same, at
    /// its own endpoint.
    pub defers: bool,
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
            pin: Pinning::Off,
            defers: false,
        }
    }

    /// Whether operations are called the same under both.
    fn names_alike(&self, other: &Self) -> bool {
        (self.prefix, &self.rename) == (other.prefix, &other.rename)
    }

    /// Whether the configuration shows this tool at all.
    fn shows(&self, own: &str) -> bool {
        (self.include.is_empty() || self.include.iter().any(|g| g.matches(own)))
            && !self.exclude.iter().any(|g| g.matches(own))
    }
}

/// A running backend, from its start to its end.
struct Tenant {
    backend: OnceLock<Arc<dyn Backend>>,
    facts: Arc<Facts>,
    calls: Arc<InFlight>,
}

/// What a backend says about itself. Apart from the tenant, because the backend itself holds it.
struct Facts {
    circuit: Arc<Circuit>,
    /// Its pins are enforced: see `confirm`. The listing says so too, but calls are not to look there.
    enforced: AtomicBool,
    /// When it was first asked what it offers.
    asked_at: Instant,
    /// Locked after `Inner`, never before.
    known: Mutex<Known>,
}

impl Tenant {
    fn new(listing: &Listing, known: Known) -> Arc<Self> {
        let tenant = Self {
            backend: OnceLock::new(),
            facts: Arc::new(Facts {
                circuit: Circuit::new(listing.circuit),
                enforced: AtomicBool::default(),
                asked_at: Instant::now(),
                known: Mutex::new(known),
            }),
            calls: Arc::default(),
        };
        tenant.govern(listing);
        Arc::new(tenant)
    }

    /// Takes up what a new listing says of a backend that stays.
    fn govern(&self, listing: &Listing) {
        let enforced = listing.pin == Pinning::Enforce;
        self.facts.enforced.store(enforced, Ordering::Relaxed);
    }
}

/// A backend's place. It belongs to a name for the life of the process: sessions, limits and names
/// that were given out refer to it.
#[derive(Clone)]
struct Slot {
    listing: Arc<Listing>,
    tenant: Arc<Tenant>,
}

/// All places, immutable; a reload makes a new one.
#[derive(Default)]
struct Layout {
    slots: Vec<Slot>,
    /// The places in use, in the order of the configuration.
    order: Vec<usize>,
}

impl Layout {
    fn in_use(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.order.iter().map(|index| (*index, &self.slots[*index]))
    }
}

/// What is known of one backend at the moment.
#[derive(Clone, Default)]
struct Known {
    offer: Option<Arc<Offer>>,
    /// The same with what only certain callers are offered (`variants`).
    shown: Option<Arc<Offer>>,
    variants: Variants,
    /// Health keeps it in the catalog.
    listed: bool,
    /// It was reached, or failed, at least once; or neither readiness nor names wait for it.
    tried: bool,
    /// Its first answer came, or its first failure.
    answered: bool,
    /// What it offered before the restart is known, and its names are reserved.
    remembered: bool,
}

impl Known {
    /// Its first answer or failure is there.
    fn settle(&mut self) {
        (self.tried, self.answered) = (true, true);
    }

    /// What the next backend of this name begins with; its offers per capability set are unknown.
    fn successor(&self) -> Self {
        let mut next = Self {
            variants: Variants::default(),
            ..self.clone()
        };
        next.combine();
        next
    }
}

struct Inner {
    names: Names,
    /// What was already complained about, so that each complaint is logged once.
    complained: HashSet<String>,
    /// Bare names no longer wait for backends configured earlier.
    names_settled: bool,
}

impl Inner {
    /// Whether a complaint is worth a line: each is made once, and there is an end to them.
    fn is_new(&mut self, complaint: &str) -> bool {
        self.complained.len() < COMPLAINTS_MAX && self.complained.insert(complaint.to_owned())
    }
}

/// Makes catalogs. One per gateway.
pub struct Registry {
    layout: ArcSwap<Layout>,
    started: Instant,
    first_answer_wait: Mutex<Duration>,
    /// Some backend is being asked for the first time. While none is, lists do not look at backends.
    awaits_any: AtomicBool,
    /// Capability sets that every backend was asked for, and those that callers have.
    known_sets: AtomicU32,
    wanted_sets: AtomicU32,
    /// Wakes lists that wait for answers of backends.
    answered: Notify,
    inner: Mutex<Inner>,
    catalog: ArcSwap<Catalog>,
    changes: watch::Sender<Arc<Generations>>,
    updates: Arc<Updates>,
    cache: Cache,
    pins: Pins,
    /// Who we say we are, where that is not the gateway.
    introduction: OnceLock<Bytes>,
}

impl Registry {
    /// A registry with one place per configured backend, in configuration order.
    pub fn new(listings: Vec<Listing>) -> Arc<Self> {
        Self::with_pins(listings, Pins::default())
    }

    /// The same, with the definitions that were pinned before.
    pub fn with_pins(listings: Vec<Listing>, pins: Pins) -> Arc<Self> {
        let slots: Vec<Slot> = listings
            .into_iter()
            .map(|listing| Slot {
                tenant: Tenant::new(&listing, Known::default()),
                listing: Arc::new(listing),
            })
            .collect();
        let generations = Arc::new(Generations::new(slots.len()));
        let listings: Vec<&Listing> = slots.iter().map(|slot| &*slot.listing).collect();
        let registry = Arc::new(Self {
            catalog: ArcSwap::from_pointee(Catalog::empty(&listings)),
            changes: watch::Sender::new(generations),
            inner: Mutex::new(Inner {
                names: Names::default(),
                complained: HashSet::new(),
                names_settled: false,
            }),
            started: Instant::now(),
            first_answer_wait: Mutex::new(FIRST_ANSWER_WAIT),
            awaits_any: AtomicBool::default(),
            known_sets: AtomicU32::default(),
            wanted_sets: AtomicU32::default(),
            answered: Notify::new(),
            updates: Updates::new(slots.len()),
            cache: Cache::new(slots.len()),
            introduction: OnceLock::new(),
            pins,
            layout: ArcSwap::from_pointee(Layout {
                order: (0..slots.len()).collect(),
                slots,
            }),
        });
        registry.rebuild(None);
        registry
    }

    /// Puts the running backend in its place. Once per index, before the first call.
    pub fn attach(&self, index: usize, backend: Arc<dyn Backend>) {
        let layout = self.layout.load();
        let fresh = layout.slots[index].tenant.backend.set(backend).is_ok();
        debug_assert!(fresh, "a backend is attached once");
    }

    pub fn publisher(self: &Arc<Self>, index: usize) -> Publisher {
        Publisher {
            registry: self.clone(),
            index,
            facts: self.layout.load().slots[index].tenant.facts.clone(),
            followers: self.updates.of(index, None),
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

    /// The running backends, in the order of the configuration.
    pub fn backends(&self) -> Vec<(usize, Arc<dyn Backend>)> {
        let layout = self.layout.load();
        let running = layout.in_use();
        running
            .filter_map(|(index, slot)| Some((index, slot.tenant.backend.get()?.clone())))
            .collect()
    }

    /// The running backend of this name, if the configuration has one.
    pub fn running(&self, name: &str) -> Option<Arc<dyn Backend>> {
        let index = self.index_of(name)?;
        self.layout.load().slots[index]
            .tenant
            .backend
            .get()
            .cloned()
    }

    /// The place of the backend of this name, if the configuration has one.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        let layout = self.layout.load();
        let mut all = layout.in_use();
        all.find(|(_, slot)| slot.listing.name == name)
            .map(|(index, _)| index)
    }

    /// The name of the backend in a place, while the configuration has it.
    pub(crate) fn name_of(&self, index: usize) -> Option<String> {
        let layout = self.layout.load();
        let mut all = layout.in_use();
        let found = all.find(|(place, _)| *place == index);
        found.map(|(_, slot)| slot.listing.name.clone())
    }

    /// The tools of a backend as they are remembered, whether or not it is listed at the moment.
    pub(crate) fn tools_given(&self, index: usize) -> Vec<Operation> {
        let Some(backend) = self.name_of(index).map(Arc::from) else {
            return Vec::new();
        };
        let inner = self.inner.lock();
        let given = inner.names.given(ItemKind::Tool, index);
        given
            .map(|(own, exposed)| Operation {
                exposed: exposed.clone(),
                ..Operation::unlisted(Some(ItemKind::Tool), index, &backend, own)
            })
            .collect()
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
        let layout = self.layout.load();
        let mut all = layout.in_use();
        all.all(|(_, slot)| slot.tenant.facts.known.lock().tried)
    }

    /// Finds where a call goes.
    pub fn resolve(&self, call: &Call) -> Result<Target, Fault> {
        loop {
            let found = self.catalog.load().resolve_call(call)?;
            let layout = self.layout.load();
            let tenant = &layout.slots[found.operation.index].tenant;
            let Some(hold) = tenant.calls.hold() else {
                if !layout.order.contains(&found.operation.index) {
                    return Err(unknown_method(&call.method));
                }
                // It was replaced this moment: look again, its successor is there.
                continue;
            };
            let backend = tenant.backend.get();
            return Ok(Target {
                backend: backend
                    .expect("backends are attached before the first call")
                    .clone(),
                index: found.operation.index,
                own_name: found.own_name,
                circuit: tenant.facts.circuit.clone(),
                mirrored: found.operation.mirrored.clone(),
                operation: found.operation,
                hold,
            });
        }
    }

    /// The operation that a request names.
    pub fn operation(
        &self,
        view: View,
        method: &Method,
        params: &Params,
    ) -> Option<Arc<Operation>> {
        let catalog = self.catalog.load();
        let found = catalog.resolve(view, method, params).ok()?;
        Some(found.operation)
    }

    /// Whether a backend names this URI itself: in a list, or by a template.
    pub(crate) fn names_uri(&self, operation: &Operation) -> bool {
        self.catalog.load().lists_uri(operation) || operation.template.is_some()
    }

    /// Whether it is in a list.
    pub(crate) fn lists_uri(&self, operation: &Operation) -> bool {
        self.catalog.load().lists_uri(operation)
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
    pub fn listen(&self, view: View, caller: &Caller, uri: &str, hear: Hear) -> Option<Ticket> {
        let owner = self.catalog.load().owner(view, uri)?;
        let layout = self.layout.load();
        let backend = layout.slots[owner].tenant.backend.get();
        let audience = backend.and_then(|backend| backend.audience(caller));
        self.updates.of(owner, audience.as_ref()).listen(uri, hear)
    }

    /// Tells the backends of a view that the roots of a legacy caller changed.
    pub fn roots_changed(&self, view: View, caller: &Caller) {
        let layout = self.layout.load();
        let of_view = |index: &usize| match view {
            View::Merged => true,
            View::Only(only) => only == *index,
        };
        for (index, slot) in layout.in_use() {
            if let Some(backend) = slot.tenant.backend.get().filter(|_| of_view(&index)) {
                backend.roots_changed(caller);
            }
        }
    }

    /// Listens for how a task of a backend goes on; `None` if it does not tell, or too many listen.
    pub fn follow(&self, owner: usize, task: &str, hear: HearTask) -> Option<Ticket> {
        let layout = self.layout.load();
        let backend = layout.slots[owner].tenant.backend.get()?;
        let tells = backend.is_heard() && self.catalog.load().tells_of_tasks(owner);
        tells
            .then(|| self.updates.of(owner, None).follow(task, hear))
            .flatten()
    }

    /// Waits until a backend was told what callers want to hear of.
    pub async fn are_told(&self, owner: usize) {
        self.updates.of(owner, None).are_told().await;
    }

    /// Merges all offers into a new catalog and swaps it in. What a backend announced is announced
    /// on, even where the list looks the same.
    fn rebuild(&self, announced: Option<(usize, &[Change])>) {
        let mut inner = self.inner.lock();
        self.rebuild_in(&mut inner, announced);
    }

    fn rebuild_in(&self, inner: &mut Inner, announced: Option<(usize, &[Change])>) {
        let cold = self.is_cold(inner);
        let layout = self.layout.load();
        let visible = visible_offers(&layout, cold);
        let withdrawn = withdrawn_offers(&layout);
        for &index in &layout.order {
            if let Some(offer) = &visible[index] {
                name_items(index, &layout.slots[index].listing, offer, inner);
                note_cuts(&layout.slots[index].listing.name, offer, inner);
            }
        }
        let listings: Vec<&Listing> = layout.slots.iter().map(|slot| &*slot.listing).collect();
        // Before anybody can see it: a definition that must be held back is never usable.
        let held = |index: usize, offer: &Offer| {
            let listing = listings[index];
            let shows = |own: &str| listing.shows(own);
            self.pins.inspect(&listing.name, listing.pin, offer, shows)
        };
        let before = self.catalog.load_full();
        let next = Catalog::merge(
            &before,
            &listings,
            &layout.order,
            (visible, withdrawn),
            &inner.names,
            held,
        );
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
        self.note_answers(&layout);
    }

    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Takes a backend's tools, or one of them, as they are now; says which were not before. Blocks on
    /// the disk.
    pub fn approve(&self, backend: &str, tool: Option<&str>) -> std::io::Result<Vec<String>> {
        let approved = self.pins.approve(backend, tool)?;
        self.rebuild(None);
        Ok(approved)
    }

    /// Writes new pins down, and takes up what another process approved. Blocks on the disk.
    pub fn keep_pins(&self) {
        if self.pins.keep() {
            self.rebuild(None);
        }
    }

    /// What was wrong with names so far, for `doctor`.
    pub fn complaints(&self) -> Vec<String> {
        let mut all: Vec<String> = self.inner.lock().complained.iter().cloned().collect();
        all.sort();
        all
    }
}

/// Gives each tool and prompt of an offer its exposed name, if it has none yet.
fn name_items(index: usize, listing: &Listing, offer: &Offer, inner: &mut Inner) {
    inner.names.begin();
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
    inner.names.end(index);
}

/// Says which lists are not whole.
fn note_cuts(backend: &str, offer: &Offer, inner: &mut Inner) {
    for cut in offer.cut.iter().flatten() {
        let complaint = format!("backend `{backend}`: {cut}");
        if inner.is_new(&complaint) {
            tracing::warn!(backend, "{cut}");
        }
    }
}

/// What backends offered that health keeps out of the lists. Their names stay theirs, so that calls reach the backend
/// and are told when it is back.
fn withdrawn_offers(layout: &Layout) -> Offers {
    let mut withdrawn = vec![None; layout.slots.len()];
    for (index, slot) in layout.in_use() {
        let known = slot.tenant.facts.known.lock();
        withdrawn[index] = known.shown.clone().filter(|_| !known.listed);
    }
    withdrawn
}

/// One backend's way to the registry.
#[derive(Clone)]
pub struct Publisher {
    registry: Arc<Registry>,
    index: usize,
    /// What a backend says after it was replaced concerns nobody.
    facts: Arc<Facts>,
    /// Who hears what it says.
    followers: Arc<Followers>,
}

impl Publisher {
    /// For a server that the backend keeps for these callers only: they alone hear its news.
    pub fn for_audience(&self, audience: &Arc<str>) -> Self {
        Self {
            followers: self.registry.updates.of(self.index, Some(audience)),
            ..self.clone()
        }
    }

    fn update(&self, change: impl FnOnce(&mut Known)) {
        {
            let mut known = self.facts.known.lock();
            change(&mut known);
            known.combine();
        }
        self.registry.rebuild(None);
    }

    /// This is what the backend offers now.
    pub fn publish(&self, offer: Offer) {
        // Whatever was said while nobody listened was not heard.
        self.registry.cache.all_changed(self.index);
        self.facts.circuit.reset();
        self.update(|known| {
            known.offer = Some(Arc::new(offer));
            known.listed = true;
            known.settle();
        });
        self.variants_changed();
    }

    /// The same after its lists were read again; the backend itself said that these changed.
    pub fn publish_changed(&self, offer: Offer, changed: &[Change]) {
        if changed.contains(&Change::Resources) {
            self.registry.cache.all_changed(self.index);
        }
        // Many are read again and again only to see that they are as they were.
        if changed.is_empty() && self.offer().is_some_and(|known| *known == offer) {
            return;
        }
        {
            let mut known = self.facts.known.lock();
            known.offer = Some(Arc::new(offer));
            known.combine();
        }
        self.registry.rebuild(Some((self.index, changed)));
        self.variants_changed();
    }

    /// A resource of the backend changed.
    pub fn updated(&self, uri: &str) {
        self.registry.cache.changed(self.index, uri);
        self.followers.tell(uri);
    }

    /// A task of the backend changed: this is how it is now.
    pub fn task_changed(&self, task: &Params) {
        let raw = Bytes::copy_from_slice(task.as_bytes());
        if let (Some(id), Ok(now)) = (task.string("taskId"), Payload::parse(raw, Rules::backend()))
        {
            let layout = self.registry.layout.load();
            let asker = &layout.slots[self.index].listing.name;
            let now = attribution::sign_task(now, asker);
            self.followers.tell_task(&id, &now);
        }
    }

    /// The tasks that somebody wants to hear of.
    pub fn wanted_tasks(&self) -> Vec<Arc<str>> {
        self.followers.wanted_tasks()
    }

    /// The backend knows what was wanted after so many of `wanted_changes`.
    pub fn told(&self, changes: u64) {
        self.followers.told(changes);
    }

    /// Waits until it does, within a bound.
    pub async fn are_told(&self) {
        self.followers.are_told().await;
    }

    /// It may have said something that nobody heard.
    pub fn missed(&self) {
        self.registry.cache.all_changed(self.index);
        self.followers.missed();
    }

    /// News of the resources that somebody follows may have been lost, so each of them counts as changed: its
    /// followers read it again, and see what became of it. A few at a time, for whoever follows many must keep up.
    pub async fn missed_resources(&self) {
        for (n, uri) in self.wanted().iter().enumerate() {
            if n % MISSED_AT_ONCE == MISSED_AT_ONCE - 1 {
                tokio::time::sleep(MISSED_PAUSE).await;
            }
            self.registry.cache.changed(self.index, uri);
            self.followers.tell_followers(uri);
        }
    }

    /// The resources whose changes somebody wants to hear of.
    pub fn wanted(&self) -> Vec<Arc<str>> {
        self.followers.wanted()
    }

    /// Wakes when `wanted` changed.
    pub fn wanted_changes(&self) -> watch::Receiver<u64> {
        self.followers.changes()
    }

    /// This is what it offered before the restart: listed until we know better.
    pub fn remember(&self, offer: Offer) {
        self.update(|known| {
            known.offer = Some(Arc::new(offer));
            known.listed = true;
            known.remembered = true;
        });
    }

    /// It was tried and is not usable for now; what it offered before stays listed.
    pub fn tried(&self) {
        self.update(Known::settle);
    }

    /// Out of the lists until it recovers.
    pub fn withdraw(&self) {
        self.update(|known| {
            known.listed = false;
            known.settle();
        });
    }

    /// It recovered and offers what it offered before.
    pub fn restore(&self) {
        self.facts.circuit.reset();
        self.update(|known| known.listed = true);
    }

    /// What was last published, if anything.
    pub fn offer(&self) -> Option<Arc<Offer>> {
        self.facts.known.lock().offer.clone()
    }
}

#[cfg(test)]
mod tests;
