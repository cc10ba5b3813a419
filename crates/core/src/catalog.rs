//! The catalog: an immutable snapshot of every operation, and the registry that makes new ones.
//!
//! Backends publish their offers through a `Publisher`; the registry merges all offers into a new `Catalog` and swaps
//! it in. Readers never wait. Names are assigned once and keep their owner for the life of the process, so a short
//! failure never re-routes a name to another backend.
//!
//! Not here: how an offer is read from a server (`backends::discover`).

use std::collections::{HashMap, HashSet};
use std::pin::pin;
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
use crate::circuit::{self, Circuit, CircuitFigures};
use crate::fault::Fault;
use crate::in_flight::InFlight;
use crate::invocation::View;
use crate::offer::{ItemKind, Offer};
use crate::operation::Operation;
use crate::operation::unknown::unknown_method;
use crate::updates::{Followers, OnTask, OnUpdate, Ticket, Updates};

mod cold_start;
mod confirm;
mod glob;
mod lists;
mod naming;
mod pins;
mod plan;
mod routes;
mod snapshot;
mod variants;

pub use glob::Glob;
pub use naming::Prefix;
pub use pins::{ChangedDefinition, Pin, Pinned, Pinning, Pins, ToolDefinitions};
pub use plan::{Plan, PlannedBackend, Retired};
pub use routes::{CatalogRoute, FoundRoute, PathMatch, RouteRequest};
pub(crate) use snapshot::Filtered;
pub use snapshot::{Catalog, Change, Generations};

use cold_start::{FIRST_ANSWER_WAIT, visible_offers};
use naming::Names;
use snapshot::Offers;
use variants::Variants;

/// Name conflicts that are logged and kept for `doctor`; bounded, since servers may invent names without end.
const COMPLAINTS_MAX: usize = 1_000;
/// Resources reported as changed at once after a gap; then a pause follows. Less than a listener's queue holds.
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
    /// Structured results of its tools are compared with their output schemas.
    pub checks_outputs: bool,
    /// It is a gateway that decides itself what may be called: at its own endpoint, names that it does not list are
    /// called as well.
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
            checks_outputs: true,
            defers: false,
        }
    }

    /// Whether both give operations the same names.
    fn names_alike(&self, other: &Self) -> bool {
        (self.prefix, &self.rename) == (other.prefix, &other.rename)
    }

    /// Whether the configuration exposes this tool.
    fn shows(&self, own: &str) -> bool {
        (self.include.is_empty() || self.include.iter().any(|g| g.matches(own)))
            && !self.exclude.iter().any(|g| g.matches(own))
    }
}

/// A running backend, from its start to its end.
struct RunningBackend {
    backend: OnceLock<Arc<dyn Backend>>,
    facts: Arc<BackendState>,
    calls: Arc<InFlight>,
}

/// The state that a backend reports. Separate from the tenant, because the backend itself holds it.
struct BackendState {
    circuit: Arc<Circuit>,
    /// Its pins are enforced (see `confirm`). Copied from the listing, so that calls need not lock it.
    enforced: AtomicBool,
    /// When it was first asked for its offer.
    asked_at: Instant,
    /// Locked after `Inner`, never before.
    known: Mutex<Known>,
}

impl RunningBackend {
    fn new(listing: &Listing, known: Known) -> Arc<Self> {
        let running = Self {
            backend: OnceLock::new(),
            facts: Arc::new(BackendState {
                circuit: Circuit::new(listing.circuit),
                enforced: AtomicBool::default(),
                asked_at: Instant::now(),
                known: Mutex::new(known),
            }),
            calls: Arc::default(),
        };
        running.govern(listing);
        Arc::new(running)
    }

    /// Applies a new listing to a backend that stays.
    fn govern(&self, listing: &Listing) {
        let enforced = listing.pin == Pinning::Enforce;
        self.facts.enforced.store(enforced, Ordering::Relaxed);
    }
}

/// A backend's slot. It belongs to a name for the life of the process: sessions, limits and assigned names refer to
/// it.
#[derive(Clone)]
struct Slot {
    listing: Arc<Listing>,
    running: Arc<RunningBackend>,
}

/// All slots, immutable; a reload makes a new layout.
#[derive(Default)]
struct Layout {
    slots: Vec<Slot>,
    /// The slots in use, in the order of the configuration.
    order: Vec<usize>,
}

impl Layout {
    fn in_use(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.order.iter().map(|index| (*index, &self.slots[*index]))
    }
}

/// The current knowledge about one backend.
#[derive(Clone, Default)]
struct Known {
    offer: Option<Arc<Offer>>,
    /// The published offer with the operations that only certain callers are offered (`variants`).
    shown: Option<Arc<Offer>>,
    variants: Variants,
    /// Its health keeps it in the catalog.
    listed: bool,
    /// It was reached, or failed, at least once; or neither readiness nor names wait for it.
    tried: bool,
    /// Its first answer or first failure came.
    answered: bool,
    /// Its offer before the restart is remembered, and its names are reserved.
    remembered: bool,
}

impl Known {
    /// Records its first answer or failure.
    fn settle(&mut self) {
        (self.tried, self.answered) = (true, true);
    }

    /// The initial state of the backend that replaces it; its offers per capability set are dropped.
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
    /// Conflicts that were logged already; each is logged once.
    complained: HashSet<String>,
    /// Bare names no longer wait for backends configured earlier.
    names_settled: bool,
}

impl Inner {
    /// Whether a conflict has not been logged; bounded by `COMPLAINTS_MAX`.
    fn is_new(&mut self, complaint: &str) -> bool {
        self.complained.len() < COMPLAINTS_MAX && self.complained.insert(complaint.to_owned())
    }
}

/// Makes catalogs. One per gateway.
pub struct Registry {
    layout: ArcSwap<Layout>,
    started: Instant,
    first_answer_wait: Mutex<Duration>,
    /// A backend is being asked for the first time. While this is false, lists skip the check of backends.
    awaits_any: AtomicBool,
    /// Capability sets that every backend was asked for, and those in use by callers.
    known_sets: AtomicU32,
    wanted_sets: AtomicU32,
    /// Wakes lists that wait for backends.
    answered: Notify,
    inner: Mutex<Inner>,
    catalog: ArcSwap<Catalog>,
    changes: watch::Sender<Arc<Generations>>,
    updates: Arc<Updates>,
    cache: Cache,
    pins: Pins,
    /// The `serverInfo` for callers, where it is not the gateway's own.
    introduction: OnceLock<Bytes>,
}

impl Registry {
    /// A registry with one slot per configured backend, in configuration order.
    pub fn new(listings: Vec<Listing>) -> Arc<Self> {
        Self::with_pins(listings, Pins::default())
    }

    /// Like [`Registry::new`], with the stored pins.
    pub fn with_pins(listings: Vec<Listing>, pins: Pins) -> Arc<Self> {
        let slots: Vec<Slot> = listings
            .into_iter()
            .map(|listing| Slot {
                running: RunningBackend::new(&listing, Known::default()),
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

    /// Puts the running backend in its slot. Once per index, before the first call.
    pub fn attach(&self, index: usize, backend: Arc<dyn Backend>) {
        let layout = self.layout.load();
        let fresh = layout.slots[index].running.backend.set(backend).is_ok();
        debug_assert!(fresh, "a backend is attached once");
    }

    pub fn publisher(self: &Arc<Self>, index: usize) -> Publisher {
        Publisher {
            registry: self.clone(),
            index,
            facts: self.layout.load().slots[index].running.facts.clone(),
            followers: self.updates.of(index, None),
        }
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Wakes when a list may have changed; compare generations to see which.
    pub fn changes(&self) -> watch::Receiver<Arc<Generations>> {
        self.changes.subscribe()
    }

    /// The running backends, in configuration order.
    pub fn backends(&self) -> Vec<(usize, Arc<dyn Backend>)> {
        let layout = self.layout.load();
        let running = layout.in_use();
        running
            .filter_map(|(index, slot)| Some((index, slot.running.backend.get()?.clone())))
            .collect()
    }

    /// The running backend of this name, if configured.
    pub fn running(&self, name: &str) -> Option<Arc<dyn Backend>> {
        let index = self.index_of(name)?;
        self.layout.load().slots[index]
            .running
            .backend
            .get()
            .cloned()
    }

    /// The circuit breakers of the configured backends, by name.
    pub fn circuits(&self) -> Vec<(String, CircuitFigures)> {
        let layout = self.layout.load();
        let one = |(_, slot): (usize, &Slot)| {
            let figures = slot.running.facts.circuit.figures();
            (slot.listing.name.clone(), figures)
        };
        layout.in_use().map(one).collect()
    }

    /// The name in the merged catalog of a backend's tool, while it has it.
    pub fn exposed_name(&self, index: usize, own: &str) -> Option<Arc<str>> {
        let catalog = self.catalog.load();
        Some(catalog.own_tool(index, own)?.exposed.clone())
    }

    /// The slot of the backend of this name, if configured.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        let layout = self.layout.load();
        let mut all = layout.in_use();
        all.find(|(_, slot)| slot.listing.name == name)
            .map(|(index, _)| index)
    }

    /// The name of the backend in a slot, while it is configured.
    pub fn name_of(&self, index: usize) -> Option<String> {
        let layout = self.layout.load();
        let mut all = layout.in_use();
        let found = all.find(|(place, _)| *place == index);
        found.map(|(_, slot)| slot.listing.name.clone())
    }

    /// The remembered tools of a backend, listed or not.
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

    /// Replaces the gateway's `serverInfo` for callers. Once, before the first call.
    pub fn introduce_as(&self, server_info: Bytes) {
        let _ = self.introduction.set(server_info);
    }

    pub fn introduction(&self) -> Option<&Bytes> {
        self.introduction.get()
    }

    /// Every backend was tried once, so the catalog is as complete as possible for now.
    pub fn all_tried(&self) -> bool {
        let layout = self.layout.load();
        let mut all = layout.in_use();
        all.all(|(_, slot)| slot.running.facts.known.lock().tried)
    }

    /// Waits until the backend of this name has answered or failed once since it was last replaced, or is not configured.
    pub async fn answered(&self, name: &str) {
        loop {
            let mut changed = pin!(self.answered.notified());
            changed.as_mut().enable();
            let is_awaited = {
                let layout = self.layout.load();
                let mut all = layout.in_use();
                let slot = all.find(|(_, slot)| slot.listing.name == name);
                slot.is_some_and(|(_, slot)| !slot.running.facts.known.lock().answered)
            };
            if !is_awaited {
                return;
            }
            changed.await;
        }
    }

    /// Resolves a call to its target.
    pub fn resolve(&self, call: &Call) -> Result<Target, Fault> {
        loop {
            let found = self.catalog.load().resolve_call(call)?;
            let layout = self.layout.load();
            let running = &layout.slots[found.operation.index].running;
            let Some(hold) = running.calls.hold() else {
                if !layout.order.contains(&found.operation.index) {
                    return Err(unknown_method(&call.method));
                }
                // It was replaced just now: resolve again, which finds its successor.
                continue;
            };
            let backend = running.backend.get();
            return Ok(Target {
                backend: backend
                    .expect("backends are attached before the first call")
                    .clone(),
                index: found.operation.index,
                own_name: found.own_name,
                circuit: running.facts.circuit.clone(),
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

    /// Whether a backend names this URI itself, in a list or by a template.
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

    /// Announces changed lists after a change of policy.
    pub fn announce(&self) {
        let _in_order = self.inner.lock();
        self.changes.send_modify(|current| {
            let mut next = (**current).clone();
            next.bump();
            *current = Arc::new(next);
        });
    }

    /// Listens for changes of a resource; `None` if it has no owner, or too many listeners.
    pub fn listen(
        &self,
        view: View,
        caller: &Caller,
        uri: &str,
        on_update: OnUpdate,
    ) -> Option<Ticket> {
        let owner = self.catalog.load().owner(view, uri)?;
        let layout = self.layout.load();
        let backend = layout.slots[owner].running.backend.get();
        let audience = backend.and_then(|backend| backend.audience(caller));
        self.updates
            .of(owner, audience.as_ref())
            .listen(uri, on_update)
    }

    /// Tells the backends of a view that the roots of a legacy caller changed.
    pub fn roots_changed(&self, view: View, caller: &Caller) {
        let layout = self.layout.load();
        let of_view = |index: &usize| match view {
            View::Merged => true,
            View::Only(only) => only == *index,
        };
        for (index, slot) in layout.in_use() {
            if let Some(backend) = slot.running.backend.get().filter(|_| of_view(&index)) {
                backend.roots_changed(caller);
            }
        }
    }

    /// Listens for the progress of a backend's task; `None` if the backend does not report it, or there are too many
    /// listeners.
    pub fn follow(&self, owner: usize, task: &str, on_update: OnTask) -> Option<Ticket> {
        let layout = self.layout.load();
        let backend = layout.slots[owner].running.backend.get()?;
        let tells = backend.is_heard() && self.catalog.load().tells_of_tasks(owner);
        tells
            .then(|| self.updates.of(owner, None).follow(task, on_update))
            .flatten()
    }

    /// Waits until a backend knows the current subscriptions.
    pub async fn are_told(&self, owner: usize) {
        self.updates.of(owner, None).are_told().await;
    }

    /// Merges all offers into a new catalog and swaps it in. A change that a backend announced is announced to
    /// callers even if its list looks the same.
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
        // Before the catalog is visible, so that a held definition is never usable.
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

    /// Pins a backend's current tools, or one of them; returns those that were not pinned so. Blocks on the disk.
    pub fn approve(&self, backend: &str, tool: Option<&str>) -> std::io::Result<Vec<String>> {
        let approved = self.pins.approve(backend, tool)?;
        self.rebuild(None);
        Ok(approved)
    }

    /// Saves new pins and loads approvals of other processes. Blocks on the disk.
    pub fn keep_pins(&self) {
        if self.pins.keep() {
            self.rebuild(None);
        }
    }

    /// The name conflicts so far, for `doctor`.
    pub fn complaints(&self) -> Vec<String> {
        let mut all: Vec<String> = self.inner.lock().complained.iter().cloned().collect();
        all.sort();
        all
    }
}

/// Assigns an exposed name to each new tool and prompt of an offer.
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

/// Logs which lists are incomplete.
fn note_cuts(backend: &str, offer: &Offer, inner: &mut Inner) {
    for cut in offer.cut.iter().flatten() {
        let complaint = format!("backend `{backend}`: {cut}");
        if inner.is_new(&complaint) {
            tracing::warn!(backend, "{cut}");
        }
    }
}

/// Offers of unhealthy backends. Their names stay reserved, so that calls reach the backend and are told when it is
/// back.
fn withdrawn_offers(layout: &Layout) -> Offers {
    let mut withdrawn = vec![None; layout.slots.len()];
    for (index, slot) in layout.in_use() {
        let known = slot.running.facts.known.lock();
        withdrawn[index] = known.shown.clone().filter(|_| !known.listed);
    }
    withdrawn
}

/// One backend's access to the registry.
#[derive(Clone)]
pub struct Publisher {
    registry: Arc<Registry>,
    index: usize,
    /// Publications of a replaced backend are ignored.
    facts: Arc<BackendState>,
    /// Receivers of its notifications.
    followers: Arc<Followers>,
}

impl Publisher {
    /// For a server that the backend runs for these callers only: only they get its notifications.
    pub fn for_audience(&self, audience: &Arc<str>) -> Self {
        Self {
            followers: self.registry.updates.of(self.index, Some(audience)),
            ..self.clone()
        }
    }

    /// Changes what is known of the backend, and the catalog with it. Both happen under one lock: a list that sees the
    /// answer for which it waited takes that lock next (`Registry::settle_names`), and then finds it in the catalog.
    fn update(&self, change: impl FnOnce(&mut Known)) {
        let mut inner = self.registry.inner.lock();
        {
            let mut known = self.facts.known.lock();
            change(&mut known);
            known.combine();
        }
        self.registry.rebuild_in(&mut inner, None);
    }

    /// Publishes the backend's offer.
    pub fn publish(&self, offer: Offer) {
        // Notifications before the first publication were missed.
        self.registry.cache.all_changed(self.index);
        self.facts.circuit.reset();
        self.update(|known| {
            known.offer = Some(Arc::new(offer));
            known.listed = true;
            known.settle();
        });
        self.variants_changed();
    }

    /// Publishes the offer of a new reading; `changed` are the lists that the backend announced as changed.
    pub fn publish_changed(&self, offer: Offer, changed: &[Change]) {
        if changed.contains(&Change::Resources) {
            self.registry.cache.all_changed(self.index);
        }
        // Repeated readings usually find no change.
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

    /// A task of the backend changed to this state.
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

    /// The tasks that callers follow.
    pub fn wanted_tasks(&self) -> Vec<Arc<str>> {
        self.followers.wanted_tasks()
    }

    /// The backend knows the subscriptions as of this value of `wanted_changes`.
    pub fn told(&self, changes: u64) {
        self.followers.told(changes);
    }

    /// Waits for that, within a bound.
    pub async fn are_told(&self) {
        self.followers.are_told().await;
    }

    /// Notifications may have been missed.
    pub fn missed(&self) {
        self.registry.cache.all_changed(self.index);
        self.followers.missed();
    }

    /// Updates of followed resources may have been missed, so each is reported as changed and its followers read it
    /// again. A few at a time, since a caller that follows many must keep up.
    pub async fn missed_resources(&self) {
        for (n, uri) in self.wanted().iter().enumerate() {
            if n % MISSED_AT_ONCE == MISSED_AT_ONCE - 1 {
                tokio::time::sleep(MISSED_PAUSE).await;
            }
            self.registry.cache.changed(self.index, uri);
            self.followers.tell_followers(uri);
        }
    }

    /// The resources that callers follow.
    pub fn wanted(&self) -> Vec<Arc<str>> {
        self.followers.wanted()
    }

    /// Wakes when `wanted` changed.
    pub fn wanted_changes(&self) -> watch::Receiver<u64> {
        self.followers.changes()
    }

    /// The offer before the restart: listed until the backend publishes its own.
    pub fn remember(&self, offer: Offer) {
        self.update(|known| {
            known.offer = Some(Arc::new(offer));
            known.listed = true;
            known.remembered = true;
        });
    }

    /// It was tried and is unusable for now; its previous offer stays listed.
    pub fn tried(&self) {
        self.update(Known::settle);
    }

    /// Removes it from the lists until it recovers.
    pub fn withdraw(&self) {
        self.update(|known| {
            known.listed = false;
            known.settle();
        });
    }

    /// It recovered with its previous offer.
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
