//! One immutable catalog, and its differences from the previous one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sentinel_wire::json::{Object, Rules};
use sentinel_wire::template::Template;
use sentinel_wire::{Method, Params, Payload, Revision};

use super::lists::{List, ListItem};
use super::naming::Names;
use super::routes::CatalogRoute;
use super::{Listing, Prefix};
use crate::backend::Call;
use crate::fault::{Fault, Kind};
use crate::invocation::View;
use crate::map::Map;
use crate::offer::{Freshness, Item, ItemKind, Offer, ServerCapabilities};
use crate::operation::unknown::{required, unknown_method, unknown_name, unknown_resource};
use crate::operation::{Difference, Operation};

const UI: &str = "io.modelcontextprotocol/ui";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A kind of list, as in `list_changed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Tools,
    Resources,
    Prompts,
}

impl Change {
    pub const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];

    fn kinds(self) -> &'static [ItemKind] {
        match self {
            Self::Tools => &[ItemKind::Tool],
            Self::Resources => &[ItemKind::Resource, ItemKind::Template],
            Self::Prompts => &[ItemKind::Prompt],
        }
    }

    /// The list that contains a kind of item.
    pub fn of_kind(kind: ItemKind) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|change| change.kinds().contains(&kind))
    }

    /// The list that a notification is about.
    pub fn of(method: &Method) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|change| change.method() == *method)
    }

    pub fn method(self) -> Method {
        match self {
            Self::Tools => Method::ToolsChanged,
            Self::Resources => Method::ResourcesChanged,
            Self::Prompts => Method::PromptsChanged,
        }
    }
}

/// Bound on the instructions of all backends together; models pay for every byte.
const INSTRUCTIONS_LEN_MAX: usize = 16 * 1024;

/// Number of changes of each list so far, per view. Listeners compare with the last state they saw, so any number of
/// changes in between is reported once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generations(Vec<[u64; 3]>);

impl Generations {
    pub(super) fn new(backends: usize) -> Self {
        Self(vec![[0; 3]; backends + 1])
    }

    /// Counts a change of every list.
    pub(super) fn bump(&mut self) {
        self.0.as_flattened_mut().iter_mut().for_each(|n| *n += 1);
    }

    /// A slot that did not exist yet has no changes.
    fn count(&self, at: usize, change: Change) -> u64 {
        self.0.get(at).map_or(0, |counts| counts[change as usize])
    }

    /// The kinds of list in `view` that changed since `seen`.
    pub fn since<'a>(&'a self, seen: &'a Self, view: View) -> impl Iterator<Item = Change> + 'a {
        let at = place(view);
        Change::ALL
            .into_iter()
            .filter(move |c| self.count(at, *c) != seen.count(at, *c))
    }
}

fn place(view: View) -> usize {
    match view {
        View::Merged => 0,
        View::Only(index) => index + 1,
    }
}

/// The location of an operation.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) operation: Arc<Operation>,
    /// The own name, where the caller used another.
    pub(super) own_name: Option<Arc<str>>,
}

/// Each backend's offer, by slot.
pub(super) type Offers = Vec<Option<Arc<Offer>>>;

/// Operations by a name.
type ByName = Map<Arc<str>, Arc<Operation>>;

pub struct Catalog {
    /// Tools and prompts by exposed name.
    exposed: [ByName; 2],
    /// The same operations by backend and own name.
    own: Vec<[ByName; 2]>,
    resources: HashMap<String, usize>,
    /// Most literal characters first, so that the first match is the best.
    templates: Vec<(Template, Arc<Operation>)>,
    /// The offers of listed backends.
    offers: Offers,
    /// The offers of unlisted backends: their names resolve, so that calls are told when the backend is back.
    withdrawn: Offers,
    /// The backends' names.
    backends: Vec<Arc<str>>,
    /// The slots in use, in configuration order.
    order: Vec<usize>,
    prefixed: Vec<bool>,
    /// See `Listing::defers`.
    defers: Vec<bool>,
    /// Per view, per kind.
    lists: Vec<[List; 4]>,
    capabilities: Vec<ServerCapabilities>,
    instructions: Vec<Option<String>>,
    /// Whether operations are held back; see `Operation::held`.
    has_held: bool,
    /// Per view: whether operations are offered to certain callers only; see `Operation::offered_to`.
    varies: Vec<bool>,
    routes: Vec<CatalogRoute>,
}

/// Context for adding the operations of one backend.
struct With<'a> {
    listing: &'a Listing,
    /// False: resolvable by name, but not listed.
    listed: bool,
    offer: &'a Offer,
    names: &'a Names,
    held: &'a HashMap<String, Difference>,
    /// Best match first.
    templates: Vec<(Template, Arc<str>)>,
}

fn parsed_templates(offer: &Offer) -> Vec<(Template, Arc<str>)> {
    let parse = |item: &Item| Some((Template::parse(&item.key).ok()?, item.key.as_str().into()));
    let mut all: Vec<_> = offer.templates.iter().filter_map(parse).collect();
    all.sort_by_key(|(template, _)| std::cmp::Reverse(template.literal_chars()));
    all
}

/// Index into a pair of tables for tools and prompts.
fn table(kind: ItemKind) -> usize {
    usize::from(kind == ItemKind::Prompt)
}

impl Catalog {
    pub(super) fn empty(listings: &[&Listing]) -> Self {
        let backends = listings.len();
        Self {
            exposed: Default::default(),
            own: (0..backends).map(|_| Default::default()).collect(),
            resources: HashMap::new(),
            templates: Vec::new(),
            offers: vec![None; backends],
            withdrawn: vec![None; backends],
            backends: listings.iter().map(|l| l.name.as_str().into()).collect(),
            order: (0..backends).collect(),
            prefixed: listings
                .iter()
                .map(|l| l.prefix == Prefix::Always)
                .collect(),
            defers: listings.iter().map(|l| l.defers).collect(),
            lists: (0..=backends).map(|_| Default::default()).collect(),
            capabilities: vec![ServerCapabilities::UNKNOWN; backends + 1],
            instructions: vec![None; backends + 1],
            has_held: false,
            varies: vec![false; backends + 1],
            routes: Vec::new(),
        }
    }

    /// Builds the catalog from listed and withdrawn offers; `before` provides the capabilities of hidden backends.
    pub(super) fn merge(
        before: &Self,
        listings: &[&Listing],
        order: &[usize],
        (offers, withdrawn): (Offers, Offers),
        names: &Names,
        held: impl Fn(usize, &Offer) -> HashMap<String, Difference>,
    ) -> Self {
        let mut next = Self::empty(listings);
        // Slots of removed backends have no capabilities.
        next.capabilities = vec![ServerCapabilities::default(); listings.len() + 1];
        let add = |next: &mut Self, index: usize, offer: &Arc<Offer>, listed: bool| {
            let held = held(index, offer);
            next.has_held |= !held.is_empty();
            let with = With {
                listing: listings[index],
                listed,
                offer,
                names,
                held: &held,
                templates: parsed_templates(offer),
            };
            next.add(index, &with);
        };
        for &index in order {
            match &offers[index] {
                Some(offer) => add(&mut next, index, offer, true),
                // Unlisted for now, but its capabilities have not changed. It may come back at any time, so no list
                // stays fresh for long.
                None => {
                    let known = before.capabilities.get(index + 1).copied();
                    next.capabilities[index + 1] = known
                        .filter(|_| before.order.contains(&index))
                        .unwrap_or(ServerCapabilities::UNKNOWN);
                    for list in &mut next.lists[0] {
                        list.limit(Freshness {
                            ttl: Duration::ZERO,
                            shared: true,
                        });
                    }
                }
            }
        }
        // Added last: a URI that a listed backend has as well is routed there.
        for &index in order {
            if let Some(offer) = &withdrawn[index] {
                add(&mut next, index, offer, false);
            }
        }
        next.order = order.to_vec();
        next.templates
            .sort_by_key(|(template, _)| std::cmp::Reverse(template.literal_chars()));
        let union = order
            .iter()
            .map(|index| next.capabilities[index + 1])
            .reduce(ServerCapabilities::union);
        next.capabilities[0] = union.unwrap_or_default();
        (next.offers, next.withdrawn) = (offers, withdrawn);
        next.instructions[0] = next.merged_instructions(|_| true);
        next.routes = next.collected_routes();
        next
    }

    fn add(&mut self, index: usize, with: &With<'_>) {
        let With { offer, listing, .. } = *with;
        self.capabilities[index + 1] = offer.capabilities;
        if with.listed {
            self.instructions[index + 1] = offer.instructions.clone();
        }
        for kind in ItemKind::ALL {
            if let Some(fresh) = offer.fresh(kind).filter(|_| with.listed) {
                self.lists[0][kind as usize].limit(fresh);
                self.lists[index + 1][kind as usize].limit(fresh);
            }
            for item in offer.items(kind) {
                if kind != ItemKind::Tool || listing.shows(&item.key) {
                    self.add_item(index, kind, item, with);
                }
            }
        }
    }

    fn add_item(&mut self, index: usize, kind: ItemKind, item: &Item, with: &With<'_>) {
        let exposed = match kind {
            ItemKind::Tool | ItemKind::Prompt => with.names.exposed(kind, index, &item.key),
            ItemKind::Resource | ItemKind::Template => None,
        };
        let backend = &self.backends[index];
        let has_tasks = self.capabilities[index + 1].tasks;
        let revision = with.offer.revision;
        let operation = Operation {
            held: with
                .held
                .get(&item.key)
                .copied()
                .filter(|_| kind == ItemKind::Tool),
            needs_task: has_tasks && item.needs_task && !revision.is_modern(),
            output: item.output.clone().filter(|_| with.listing.checks_outputs),
            ..Operation::listed(kind, index, backend, item, exposed.clone())
        };
        if !operation.is_offered_to_all() {
            self.varies[0] = true;
            self.varies[index + 1] = true;
        }
        let operation = Arc::new(match kind {
            ItemKind::Tool | ItemKind::Prompt => operation,
            ItemKind::Resource => operation.spelt_out(with.templates.iter().map(|(t, n)| (t, n))),
            ItemKind::Template => operation.spelt_out(std::iter::empty()),
        });
        let listed = |raw: Bytes| ListItem {
            revision,
            raw,
            operation: operation.clone(),
        };
        // To callers it is an ordinary tool: the gateway decides whether it becomes a task.
        let raw = match operation.needs_task {
            true => edited(&item.raw, &[("execution", None)]),
            false => item.raw.clone(),
        };
        if with.listed {
            self.lists[index + 1][kind as usize].push(listed(raw.clone()));
        }
        let merged = match kind {
            ItemKind::Tool | ItemKind::Prompt => {
                let own = &mut self.own[index][table(kind)];
                own.entry(operation.own.clone())
                    .or_insert_with(|| operation.clone());
                let Some(exposed) = exposed else {
                    return;
                };
                let raw = if *exposed != item.key {
                    renamed(&raw, &exposed)
                } else {
                    raw
                };
                self.exposed[table(kind)].insert(exposed, operation.clone());
                raw
            }
            ItemKind::Resource => {
                // A duplicate URI belongs to the first backend in the configuration.
                if self.resources.contains_key(&item.key) {
                    return;
                }
                self.resources.insert(item.key.clone(), index);
                item.raw.clone()
            }
            ItemKind::Template => {
                if let Ok(template) = Template::parse(&item.key) {
                    self.templates.push((template, operation.clone()));
                }
                item.raw.clone()
            }
        };
        if with.listed {
            self.lists[0][kind as usize].push(listed(merged));
        }
    }

    /// The routes of every backend to its tools, in configuration order. They stay while a backend is withdrawn, so that
    /// their paths do not become unknown.
    fn collected_routes(&self) -> Vec<CatalogRoute> {
        let of_backend = |&index: &usize| {
            let routes = self.known(index).map_or(&[][..], |offer| &offer.routes);
            routes.iter().filter_map(move |route| {
                let operation = self.own_tool(index, &route.tool)?;
                let named = self.named(View::Merged, ItemKind::Tool, &operation.exposed);
                let is_reachable = named.is_some_and(|named| Arc::ptr_eq(named, operation));
                is_reachable.then(|| CatalogRoute::new(route, operation))
            })
        };
        self.order.iter().flat_map(of_backend).collect()
    }

    pub fn routes(&self) -> &[CatalogRoute] {
        &self.routes
    }

    /// Resources that an earlier backend lists as well, with that backend.
    pub(super) fn contested_uris(&self) -> impl Iterator<Item = (&str, String)> {
        let offers = self.offers.iter().enumerate();
        let all = offers.flat_map(|(i, offer)| offer.iter().map(move |offer| (i, offer)));
        let all = all.flat_map(|(i, offer)| offer.resources.iter().map(move |item| (i, item)));
        all.filter_map(|(index, item)| {
            let owner = *self.resources.get(&item.key)?;
            let text = format!("`{}` is read from `{}`", item.key, self.backends[owner]);
            (owner != index).then(|| {
                let own = &*self.backends[index];
                (
                    own,
                    format!("{text}, which lists it too and comes before `{own}`"),
                )
            })
        })
    }

    /// The part of this catalog visible by `sees`.
    pub(crate) fn filtered(&self, sees: impl Fn(&Operation) -> bool) -> Filtered {
        let lists: Vec<[List; 4]> = self
            .lists
            .iter()
            .map(|kinds| std::array::from_fn(|kind| kinds[kind].filtered(&sees)))
            .collect();
        // A backend's instructions are for callers who see one of its operations.
        let shows = |index: usize| lists[index + 1].iter().any(|list| list.len() > 0);
        let own = |index: usize| {
            self.instructions[index + 1]
                .clone()
                .filter(|_| shows(index))
        };
        let mut instructions = vec![self.merged_instructions(shows)];
        instructions.extend((0..self.offers.len()).map(own));
        let routes = self.routes.iter();
        Filtered {
            routes: routes
                .filter(|known| sees(&known.operation))
                .cloned()
                .collect(),
            lists,
            instructions,
        }
    }

    /// The instructions of each backend in `shows`, under a heading of its own.
    fn merged_instructions(&self, shows: impl Fn(usize) -> bool) -> Option<String> {
        let mut all = String::new();
        for index in self.order.iter().copied().filter(|i| shows(*i)) {
            let name = &self.backends[index];
            let Some(text) = &self.instructions[index + 1] else {
                continue;
            };
            let prefix = if self.prefixed[index] {
                " (names begin with it)"
            } else {
                ""
            };
            let section = format!("## {name}{prefix}\n\n{}\n\n", text.trim());
            if all.len() + section.len() <= INSTRUCTIONS_LEN_MAX {
                all.push_str(&section);
            }
        }
        let all = all.trim_end();
        (!all.is_empty()).then(|| all.to_owned())
    }

    pub(crate) fn has_held(&self) -> bool {
        self.has_held
    }

    /// Whether the lists of a view depend on client capabilities.
    pub(crate) fn varies(&self, view: View) -> bool {
        self.varies[place(view)]
    }

    /// Every listed operation, in configuration order.
    pub fn all_operations(&self) -> impl Iterator<Item = &Arc<Operation>> {
        let order = self.order.iter();
        order.flat_map(|index| self.operations(*index))
    }

    /// Every listed operation of one backend.
    pub fn operations(&self, index: usize) -> impl Iterator<Item = &Arc<Operation>> {
        self.lists[index + 1].iter().flat_map(List::operations)
    }

    /// The complete result of a list method, rendered for a revision. `shared`: every caller sees the same.
    pub fn pages(&self, view: View, kind: ItemKind, revision: Revision, shared: bool) -> &[Bytes] {
        self.lists[place(view)][kind as usize].pages(kind, revision, shared)
    }

    /// The page of a cursor, the first one without.
    pub(crate) fn page(
        &self,
        view: View,
        kind: ItemKind,
        (revision, shared): (Revision, bool),
        cursor: Option<&str>,
    ) -> Option<Bytes> {
        self.lists[place(view)][kind as usize].page(kind, (revision, shared), cursor)
    }

    /// Every entry of a merged list.
    pub(crate) fn entries(&self, kind: ItemKind) -> Vec<(Bytes, Arc<Operation>)> {
        self.lists[place(View::Merged)][kind as usize].entries(kind)
    }

    /// Every listed operation in configuration order, with its definition as the newest revision has it, by the name that
    /// it has in the merged catalog.
    pub fn definitions(&self) -> Vec<(Bytes, Arc<Operation>)> {
        let mut merged: Map<*const Operation, Bytes> = ItemKind::ALL
            .into_iter()
            .flat_map(|kind| self.entries(kind))
            .map(|(raw, operation)| (Arc::as_ptr(&operation), raw))
            .collect();
        let lists = self.order.iter().map(|index| &self.lists[index + 1]);
        let own = lists.flat_map(|lists| {
            let kinds = ItemKind::ALL.into_iter();
            kinds.flat_map(|kind| lists[kind as usize].entries(kind))
        });
        own.map(|(raw, operation)| {
            let named = merged.remove(&Arc::as_ptr(&operation));
            (named.unwrap_or(raw), operation)
        })
        .collect()
    }

    /// How many operations of a kind a view lists.
    pub fn count(&self, view: View, kind: ItemKind) -> usize {
        self.lists[place(view)][kind as usize].len()
    }

    pub fn capabilities(&self, view: View) -> ServerCapabilities {
        self.capabilities[place(view)]
    }

    /// The extensions that a caller of this revision can use, as the backends declare them: tasks between modern
    /// peers, apps in both eras, and on one backend's own endpoint all of its extensions.
    pub fn extensions(&self, view: View, revision: Revision) -> Vec<(String, Bytes)> {
        let mut found: Vec<(String, Bytes)> = Vec::new();
        let chosen = self.order.iter().filter(|i| match view {
            View::Merged => true,
            View::Only(index) => index == **i,
        });
        for offer in chosen.filter_map(|i| self.offers[*i].as_ref()) {
            // Tasks of 2025-11-25 are translated to the extension.
            if revision.is_modern()
                && !offer.revision.is_modern()
                && offer.capabilities.tasks
                && offer.tools.iter().any(|tool| tool.needs_task)
                && found.iter().all(|(known, _)| known != TASKS)
            {
                found.push((TASKS.to_owned(), Bytes::from_static(b"{}")));
            }
            let Some(raw) = &offer.extensions else {
                continue;
            };
            let Ok(object) = Object::parse(raw, Rules::backend()) else {
                continue;
            };
            for member in &object.members {
                let name = member.key.decode(raw).into_owned();
                let carried = match &*name {
                    UI => true,
                    TASKS => revision.is_modern() && offer.revision.is_modern(),
                    _ => revision == offer.revision && matches!(view, View::Only(_)),
                };
                if carried && found.iter().all(|(known, _)| *known != name) {
                    found.push((name, raw.slice(member.value.range())));
                }
            }
        }
        found
    }

    /// Whether a backend can report the progress of its tasks.
    pub(super) fn tells_of_tasks(&self, index: usize) -> bool {
        let offer = self.offers.get(index).and_then(Option::as_ref);
        offer.is_some_and(|offer| {
            let has = |raw: &Bytes| {
                Object::parse(raw, Rules::backend()).is_ok_and(|all| all.get(raw, TASKS).is_some())
            };
            offer.revision.is_modern() && offer.extensions.as_ref().is_some_and(has)
        })
    }

    pub fn instructions(&self, view: View) -> Option<&str> {
        self.instructions[place(view)].as_deref()
    }

    /// Number of slots, in use or not.
    pub(crate) fn places(&self) -> usize {
        self.offers.len()
    }

    /// Whether a backend may be called by unlisted names; see `Listing::defers`.
    pub(crate) fn defers(&self, index: usize) -> bool {
        self.defers[index]
    }

    /// Whether a backend is currently listed.
    pub fn is_listed(&self, index: usize) -> bool {
        self.offers[index].is_some()
    }

    /// A backend's offer, listed or not.
    fn known(&self, index: usize) -> Option<&Arc<Offer>> {
        let listed = self.offers[index].as_ref();
        listed.or(self.withdrawn[index].as_ref())
    }

    /// A tool by its name in a view.
    pub(super) fn tool(&self, view: View, name: &str) -> Option<&Arc<Operation>> {
        self.named(view, ItemKind::Tool, name)
    }

    /// A tool by its backend and its own name.
    pub(super) fn own_tool(&self, index: usize, own: &str) -> Option<&Arc<Operation>> {
        self.own.get(index)?[table(ItemKind::Tool)].get(own)
    }

    fn named(&self, view: View, kind: ItemKind, name: &str) -> Option<&Arc<Operation>> {
        match view {
            View::Merged => self.exposed[table(kind)].get(name),
            View::Only(index) => self.own[index][table(kind)].get(name),
        }
    }

    pub(super) fn generations(
        &self,
        before: &Self,
        seen: &Generations,
        announced: Option<(usize, &[Change])>,
    ) -> Generations {
        let mut next = seen.clone();
        next.0.resize(self.lists.len(), [0; 3]);
        let none = <[List; 4]>::default();
        for (at, counts) in next.0.iter_mut().enumerate() {
            let old = before.lists.get(at).unwrap_or(&none);
            for change in Change::ALL {
                let differs =
                    |kind: &ItemKind| self.lists[at][*kind as usize] != old[*kind as usize];
                let said = announced.is_some_and(|(index, changes)| {
                    (at == 0 || at == index + 1) && changes.contains(&change)
                });
                counts[change as usize] += u64::from(said || change.kinds().iter().any(differs));
            }
        }
        next
    }

    /// The backend that owns a resource.
    pub(super) fn owner(&self, view: View, uri: &str) -> Option<usize> {
        self.by_uri(view, uri)
            .ok()
            .map(|found| found.operation.index)
    }

    pub(super) fn resolve(
        &self,
        view: View,
        method: &Method,
        params: &Params,
    ) -> Result<Found, Fault> {
        match method {
            Method::ToolsCall => self.by_name(view, ItemKind::Tool, &required(params, "name")?),
            Method::PromptsGet => self.by_name(view, ItemKind::Prompt, &required(params, "name")?),
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                self.by_uri(view, &required(params, "uri")?)
            }
            Method::Complete => self.by_reference(view, params),
            // In the merged view a vendor's method has no owner; on one backend's endpoint it goes to that backend.
            other => match view {
                View::Only(index) => Ok(self.unlisted(index, None, other.as_str())),
                View::Merged => Err(unknown_method(other)),
            },
        }
    }

    /// Resolves a call; one about a task resolves to the tool that became it, while that exists.
    pub(super) fn resolve_call(&self, call: &Call) -> Result<Found, Fault> {
        let tool = match (&call.about, call.view) {
            (Some(about), View::Only(index)) => {
                self.own[index][table(ItemKind::Tool)].get(&about.tool)
            }
            _ => None,
        };
        match tool {
            Some(tool) => Ok(Found {
                operation: tool.clone(),
                own_name: None,
            }),
            None => self.resolve(call.view, &call.method, &call.params),
        }
    }

    fn by_name(&self, view: View, kind: ItemKind, name: &str) -> Result<Found, Fault> {
        let Some(operation) = self.named(view, kind, name) else {
            return match view {
                View::Only(index) if self.defers[index] => {
                    Ok(self.unlisted(index, Some(kind), name))
                }
                _ => Err(unknown_name(kind, name)),
            };
        };
        Ok(Found {
            own_name: (*operation.own != *name).then(|| operation.own.clone()),
            operation: operation.clone(),
        })
    }

    fn unlisted(&self, index: usize, kind: Option<ItemKind>, name: &str) -> Found {
        let backend = &self.backends[index];
        Found {
            operation: Arc::new(Operation::unlisted(kind, index, backend, name)),
            own_name: None,
        }
    }

    fn by_uri(&self, view: View, uri: &str) -> Result<Found, Fault> {
        let template = self.templates.iter().find(|(template, operation)| {
            let here = match view {
                View::Merged => true,
                View::Only(index) => operation.index == index,
            };
            here && template.matches(uri)
        });
        let template = template.map(|(_, operation)| operation);
        let index = match view {
            // Readable resources need not be listed; with a single backend the owner is clear.
            View::Only(index) => Some(index).filter(|index| self.known(*index).is_some()),
            View::Merged => self.resources.get(uri).copied().or_else(|| {
                template
                    .map(|operation| operation.index)
                    .or_else(|| self.only_with_resources())
            }),
        };
        let index = index.ok_or_else(|| unknown_resource(uri))?;
        Ok(self.unlisted_uri(index, ItemKind::Resource, uri))
    }

    /// A backend's URI, listed or not.
    fn unlisted_uri(&self, index: usize, kind: ItemKind, uri: &str) -> Found {
        let backend = &self.backends[index];
        let templates = self.templates.iter().filter(|(_, of)| of.index == index);
        let templates = templates.map(|(template, of)| (template, &of.own));
        let operation = Operation::unlisted(Some(kind), index, backend, uri);
        Found {
            operation: Arc::new(operation.spelt_out(templates)),
            own_name: None,
        }
    }

    /// Whether a backend lists this URI, or this template.
    pub(super) fn lists_uri(&self, operation: &Operation) -> bool {
        let offer = self.offers.get(operation.index).and_then(Option::as_ref);
        offer.is_some_and(|offer| {
            let all = offer.resources.iter().chain(&offer.templates);
            all.into_iter().any(|item| *item.key == *operation.own)
        })
    }

    /// The only backend with resources may have more than it lists.
    fn only_with_resources(&self) -> Option<usize> {
        let mut with_resources = (0..self.offers.len())
            .filter(|i| self.is_listed(*i) && self.capabilities[i + 1].resources);
        with_resources
            .next()
            .filter(|_| with_resources.next().is_none())
    }

    fn by_reference(&self, view: View, params: &Params) -> Result<Found, Fault> {
        let bad = || {
            Fault::new(
                Kind::InvalidParams,
                "`ref` must be a ref/prompt or a ref/resource",
            )
        };
        let raw = params.get_bytes("ref").ok_or_else(bad)?;
        let reference = Payload::parse(raw, Rules::backend()).map_err(|_| bad())?;
        match &*reference.string("type").ok_or_else(bad)? {
            "ref/prompt" => self.by_name(
                view,
                ItemKind::Prompt,
                &reference.string("name").ok_or_else(bad)?,
            ),
            "ref/resource" => {
                let uri = reference.string("uri").ok_or_else(bad)?;
                let template = |offer: &Arc<Offer>| offer.templates.iter().any(|t| t.key == uri);
                let owner = match view {
                    View::Merged => self
                        .order
                        .iter()
                        .copied()
                        .find(|i| self.known(*i).is_some_and(template)),
                    View::Only(index) => Some(index),
                };
                match owner {
                    Some(index) => Ok(self.unlisted_uri(index, ItemKind::Template, &uri)),
                    None => self.by_uri(view, &uri),
                }
            }
            _ => Err(bad()),
        }
    }
}

/// The item with its exposed name.
fn renamed(raw: &Bytes, exposed: &str) -> Bytes {
    let mut name = Vec::new();
    sentinel_wire::json::encode_string(exposed, &mut name);
    edited(raw, &[("name", Some(&name))])
}

fn edited(raw: &Bytes, edits: &[(&str, Option<&[u8]>)]) -> Bytes {
    let Ok(item) = Payload::parse(raw.clone(), Rules::backend()) else {
        return raw.clone();
    };
    let mut out = Vec::with_capacity(raw.len() + 64);
    item.as_raw().rewrite(edits, &mut out);
    out.into()
}

/// A catalog as one kind of caller sees it, rendered.
pub(crate) struct Filtered {
    lists: Vec<[List; 4]>,
    instructions: Vec<Option<String>>,
    routes: Vec<CatalogRoute>,
}

impl Filtered {
    pub(crate) fn page(
        &self,
        view: View,
        kind: ItemKind,
        revision: Revision,
        cursor: Option<&str>,
    ) -> Option<Bytes> {
        self.lists[place(view)][kind as usize].page(kind, (revision, false), cursor)
    }

    /// Every entry of a merged list.
    pub(crate) fn entries(&self, kind: ItemKind) -> Vec<(Bytes, Arc<Operation>)> {
        self.lists[place(View::Merged)][kind as usize].entries(kind)
    }

    pub(crate) fn instructions(&self, view: View) -> Option<&str> {
        self.instructions[place(view)].as_deref()
    }

    pub(crate) fn routes(&self) -> &[CatalogRoute] {
        &self.routes
    }
}
