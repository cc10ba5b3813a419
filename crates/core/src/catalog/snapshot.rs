//! One immutable catalog, and how it differs from the one before.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use sentinel_wire::header::Param;
use sentinel_wire::json::Rules;
use sentinel_wire::template::Template;
use sentinel_wire::{Method, Params, Payload, Revision};

use super::lists::{List, ListItem};
use super::naming::Names;
use super::{Listing, Prefix};
use crate::call::View;
use crate::fault::{Fault, Kind};
use crate::offer::{Item, ItemKind, Offer, ServerCapabilities};

/// What callers are told about by a `list_changed`.
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

    /// The change that concerns a kind of item.
    pub fn of_kind(kind: ItemKind) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|change| change.kinds().contains(&kind))
    }

    /// The change that a backend's notification is about.
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

/// How often each list changed so far, per view. Listeners compare with what they saw last, so any
/// number of changes between two looks is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generations(Vec<[u64; 3]>);

impl Generations {
    pub(super) fn new(backends: usize) -> Self {
        Self(vec![[0; 3]; backends + 1])
    }

    /// The kinds of list in `view` that changed since `seen`.
    pub fn since<'a>(&'a self, seen: &'a Self, view: View) -> impl Iterator<Item = Change> + 'a {
        let at = place(view);
        Change::ALL
            .into_iter()
            .filter(move |c| self.0[at][*c as usize] != seen.0[at][*c as usize])
    }
}

fn place(view: View) -> usize {
    match view {
        View::Merged => 0,
        View::Only(index) => index + 1,
    }
}

/// Where an operation was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) index: usize,
    pub(super) own_name: Option<Arc<str>>,
    pub(super) mirrored: Option<Arc<[Param]>>,
}

impl Found {
    fn plain(index: usize) -> Self {
        Self {
            index,
            own_name: None,
            mirrored: None,
        }
    }
}

/// An exposed name's owner and what it is called there, if that differs.
type Owned = (usize, Option<Arc<str>>);

pub struct Catalog {
    tools: HashMap<Arc<str>, Owned>,
    prompts: HashMap<Arc<str>, Owned>,
    /// Tools with arguments that are repeated in headers, by backend and own name.
    mirrored: HashMap<(usize, String), Arc<[Param]>>,
    resources: HashMap<String, usize>,
    /// Most literal characters first, so that the first match is the best.
    templates: Vec<(Template, usize)>,
    /// What each backend offers while it is listed.
    offers: Vec<Option<Arc<Offer>>>,
    /// Configured to be shown, by backend.
    shown: Vec<Vec<bool>>,
    /// Per view, per kind.
    lists: Vec<[List; 4]>,
    capabilities: Vec<ServerCapabilities>,
    instructions: Vec<Option<String>>,
}

impl Catalog {
    pub(super) fn empty(backends: usize) -> Self {
        Self {
            tools: HashMap::new(),
            prompts: HashMap::new(),
            mirrored: HashMap::new(),
            resources: HashMap::new(),
            templates: Vec::new(),
            offers: vec![None; backends],
            shown: vec![Vec::new(); backends],
            lists: (0..=backends).map(|_| Default::default()).collect(),
            capabilities: vec![ServerCapabilities::UNKNOWN; backends + 1],
            instructions: vec![None; backends + 1],
        }
    }

    /// Builds the catalog of the given offers; `before` lends what is known of hidden backends.
    pub(super) fn merge(
        before: &Self,
        listings: &[&Listing],
        offers: Vec<Option<Arc<Offer>>>,
        names: &Names,
    ) -> Self {
        let mut next = Self::empty(offers.len());
        for (index, offer) in offers.iter().enumerate() {
            match offer {
                Some(offer) => next.add(index, listings[index], offer, names),
                // Out of the catalog for now, but not forgotten: what it can do has not changed.
                None => next.capabilities[index + 1] = before.capabilities[index + 1],
            }
        }
        next.templates
            .sort_by_key(|(template, _)| std::cmp::Reverse(template.literal_chars()));
        let union = next.capabilities[1..]
            .iter()
            .copied()
            .reduce(ServerCapabilities::union);
        next.capabilities[0] = union.unwrap_or_default();
        next.instructions[0] = merged_instructions(listings, &offers);
        next.offers = offers;
        next
    }

    fn add(&mut self, index: usize, listing: &Listing, offer: &Offer, names: &Names) {
        self.capabilities[index + 1] = offer.capabilities;
        self.instructions[index + 1] = offer.instructions.clone();
        self.shown[index] = offer
            .tools
            .iter()
            .map(|tool| listing.shows(&tool.key))
            .collect();
        for kind in ItemKind::ALL {
            for (at, item) in offer.items(kind).iter().enumerate() {
                if kind == ItemKind::Tool && !self.shown[index][at] {
                    continue;
                }
                self.add_item(index, kind, item, offer.revision, names);
            }
        }
    }

    fn add_item(
        &mut self,
        index: usize,
        kind: ItemKind,
        item: &Item,
        revision: Revision,
        names: &Names,
    ) {
        if !item.mirrored.is_empty() {
            self.mirrored
                .insert((index, item.key.clone()), item.mirrored.clone());
        }
        self.lists[index + 1][kind as usize].push(ListItem {
            revision,
            raw: item.raw.clone(),
        });
        let merged = match kind {
            ItemKind::Tool | ItemKind::Prompt => {
                let Some(exposed) = names.exposed(kind, index, &item.key) else {
                    return;
                };
                let own = (*exposed != item.key).then(|| Arc::from(item.key.as_str()));
                let raw = if own.is_some() {
                    renamed(&item.raw, &exposed)
                } else {
                    item.raw.clone()
                };
                let table = if kind == ItemKind::Tool {
                    &mut self.tools
                } else {
                    &mut self.prompts
                };
                table.insert(exposed, (index, own));
                raw
            }
            ItemKind::Resource => {
                // A duplicate URI stays with the first backend by configuration.
                if self.resources.contains_key(&item.key) {
                    return;
                }
                self.resources.insert(item.key.clone(), index);
                item.raw.clone()
            }
            ItemKind::Template => {
                if let Ok(template) = Template::parse(&item.key) {
                    self.templates.push((template, index));
                }
                item.raw.clone()
            }
        };
        self.lists[0][kind as usize].push(ListItem {
            revision,
            raw: merged,
        });
    }

    /// The complete result of a list method, ready to be sent to a caller of this revision.
    pub fn list(&self, view: View, kind: ItemKind, revision: Revision) -> Bytes {
        self.lists[place(view)][kind as usize].render(kind, revision)
    }

    /// How many operations of a kind a view lists.
    pub fn count(&self, view: View, kind: ItemKind) -> usize {
        self.lists[place(view)][kind as usize].len()
    }

    pub fn capabilities(&self, view: View) -> ServerCapabilities {
        self.capabilities[place(view)]
    }

    pub fn instructions(&self, view: View) -> Option<&str> {
        self.instructions[place(view)].as_deref()
    }

    /// Whether a backend is listed at the moment.
    pub fn is_listed(&self, index: usize) -> bool {
        self.offers[index].is_some()
    }

    pub(super) fn mirrored(&self, view: View, tool: &str) -> Option<Arc<[Param]>> {
        if self.mirrored.is_empty() {
            return None;
        }
        self.by_name(view, ItemKind::Tool, tool.into())
            .ok()?
            .mirrored
    }

    /// The arguments of a backend's own tool that are repeated in headers.
    fn mirrored_of(&self, index: usize, own: &str) -> Option<Arc<[Param]>> {
        if self.mirrored.is_empty() {
            return None;
        }
        self.mirrored.get(&(index, own.to_owned())).cloned()
    }

    pub(super) fn generations(
        &self,
        before: &Self,
        seen: &Generations,
        announced: Option<(usize, &[Change])>,
    ) -> Generations {
        let mut next = seen.clone();
        for (at, counts) in next.0.iter_mut().enumerate() {
            for change in Change::ALL {
                let differs = |kind: &ItemKind| {
                    self.lists[at][*kind as usize] != before.lists[at][*kind as usize]
                };
                let said = announced.is_some_and(|(index, changes)| {
                    (at == 0 || at == index + 1) && changes.contains(&change)
                });
                counts[change as usize] += u64::from(said || change.kinds().iter().any(differs));
            }
        }
        next
    }

    /// Whose resource this is.
    pub(super) fn owner(&self, view: View, uri: &str) -> Option<usize> {
        self.by_uri(view, uri).ok().map(|found| found.index)
    }

    pub(super) fn resolve(
        &self,
        view: View,
        method: &Method,
        params: &Params,
    ) -> Result<Found, Fault> {
        match method {
            Method::ToolsCall => self.by_name(view, ItemKind::Tool, required(params, "name")?),
            Method::PromptsGet => self.by_name(view, ItemKind::Prompt, required(params, "name")?),
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                self.by_uri(view, &required(params, "uri")?)
            }
            Method::Complete => self.by_reference(view, params),
            // Nobody owns a vendor's method in an aggregate; one backend alone may know it.
            other => match view {
                View::Only(index) => Ok(Found::plain(index)),
                View::Merged => Err(unknown_method(other)),
            },
        }
    }

    fn by_name(
        &self,
        view: View,
        kind: ItemKind,
        name: std::borrow::Cow<'_, str>,
    ) -> Result<Found, Fault> {
        let noun = if kind == ItemKind::Tool {
            "tool"
        } else {
            "prompt"
        };
        let unknown = || Fault::new(Kind::UnknownName, format!("unknown {noun}: {name}"));
        match view {
            View::Merged => {
                let table = if kind == ItemKind::Tool {
                    &self.tools
                } else {
                    &self.prompts
                };
                let (index, own_name) = table.get(&*name).ok_or_else(unknown)?;
                let own = own_name.as_deref().unwrap_or(&name);
                let mirrored = self
                    .mirrored_of(*index, own)
                    .filter(|_| kind == ItemKind::Tool);
                Ok(Found {
                    index: *index,
                    own_name: own_name.clone(),
                    mirrored,
                })
            }
            View::Only(index) => {
                let offer = self.offers[index].as_ref().ok_or_else(unknown)?;
                let at = offer.items(kind).iter().position(|item| item.key == *name);
                let shown = |at: usize| kind == ItemKind::Prompt || self.shown[index][at];
                at.filter(|at| shown(*at)).ok_or_else(unknown)?;
                let mirrored = self
                    .mirrored_of(index, &name)
                    .filter(|_| kind == ItemKind::Tool);
                Ok(Found {
                    index,
                    own_name: None,
                    mirrored,
                })
            }
        }
    }

    fn by_uri(&self, view: View, uri: &str) -> Result<Found, Fault> {
        let index = match view {
            // Resources need not be listed to be readable; with one backend there is no doubt.
            View::Only(index) => Some(index).filter(|index| self.is_listed(*index)),
            View::Merged => self.owner_of(uri),
        };
        let index = index.ok_or_else(|| {
            let mut data = br#""uri":"#.to_vec();
            sentinel_wire::json::encode_string(uri, &mut data);
            let data = String::from_utf8(data).expect("JSON is UTF-8");
            Fault::new(Kind::UnknownResource, format!("unknown resource: {uri}")).with_data(data)
        })?;
        Ok(Found::plain(index))
    }

    fn owner_of(&self, uri: &str) -> Option<usize> {
        let exact = self.resources.get(uri).copied();
        let by_template = || {
            self.templates
                .iter()
                .find(|(t, _)| t.matches(uri))
                .map(|(_, i)| *i)
        };
        exact.or_else(by_template).or_else(|| {
            // The only backend with resources may know more than it lists.
            let mut with_resources = (0..self.offers.len())
                .filter(|i| self.is_listed(*i) && self.capabilities[i + 1].resources);
            with_resources
                .next()
                .filter(|_| with_resources.next().is_none())
        })
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
                reference.string("name").ok_or_else(bad)?,
            ),
            "ref/resource" => {
                let uri = reference.string("uri").ok_or_else(bad)?;
                let template = |offer: &Arc<Offer>| offer.templates.iter().any(|t| t.key == uri);
                let owner = match view {
                    View::Merged => self
                        .offers
                        .iter()
                        .position(|o| o.as_ref().is_some_and(template)),
                    View::Only(index) => Some(index),
                };
                owner.map_or_else(|| self.by_uri(view, &uri), |index| Ok(Found::plain(index)))
            }
            _ => Err(bad()),
        }
    }
}

fn required<'p>(params: &'p Params, name: &str) -> Result<std::borrow::Cow<'p, str>, Fault> {
    params.string(name).ok_or_else(|| {
        Fault::new(
            Kind::InvalidParams,
            format!("`{name}` is missing or no string"),
        )
    })
}

fn unknown_method(method: &Method) -> Fault {
    Fault::new(
        Kind::MethodNotFound,
        format!("unknown method: {}", method.as_str()),
    )
}

/// The item with its exposed name in place of its own.
fn renamed(raw: &Bytes, exposed: &str) -> Bytes {
    let Ok(item) = Payload::parse(raw.clone(), Rules::backend()) else {
        return raw.clone();
    };
    let mut name = Vec::new();
    sentinel_wire::json::encode_string(exposed, &mut name);
    let mut out = Vec::with_capacity(raw.len() + exposed.len());
    item.as_raw().rewrite(&[("name", Some(&name))], &mut out);
    out.into()
}

/// Longest instructions taken from all backends together; models pay for every byte of them.
const INSTRUCTIONS_LEN_MAX: usize = 16 * 1024;

/// Each backend's instructions under a heading of its own.
fn merged_instructions(listings: &[&Listing], offers: &[Option<Arc<Offer>>]) -> Option<String> {
    let mut all = String::new();
    for (listing, offer) in listings.iter().zip(offers) {
        let Some(text) = offer.as_ref().and_then(|o| o.instructions.as_deref()) else {
            continue;
        };
        let prefix = if listing.prefix == Prefix::Always {
            " (names begin with it)"
        } else {
            ""
        };
        let section = format!("## {}{prefix}\n\n{}\n\n", listing.name, text.trim());
        if all.len() + section.len() <= INSTRUCTIONS_LEN_MAX {
            all.push_str(&section);
        }
    }
    let all = all.trim_end();
    (!all.is_empty()).then(|| all.to_owned())
}
