//! One operation as policy sees it: its backend and names, independent of the name a caller used.

use std::sync::Arc;

use schemars::JsonSchema;
use sentinel_wire::header::Param;
use sentinel_wire::template::Template;
use serde::{Deserialize, Serialize};

use crate::arguments::Schema;
use crate::caller::Caller;
use crate::capabilities::CapabilitySets;
use crate::invocation::View;
use crate::offer::{Item, ItemKind, Reach};

pub(crate) mod unknown;
pub(crate) mod uri;

use uri::{Forms, Reading, Spellings, begun_like};

#[derive(Clone, Debug)]
pub struct Operation {
    /// `None` for a method that only one backend knows (`/mcp/<backend>`).
    pub kind: Option<ItemKind>,
    /// The backend's slot in the registry.
    pub index: usize,
    pub backend: Arc<str>,
    /// The backend's own name for it, or the URI.
    pub own: Arc<str>,
    /// Its name in the merged catalog; the own name where it has none there.
    pub exposed: Arc<str>,
    /// The listed template that matched the URI, in any reading.
    pub template: Option<Arc<str>>,
    /// A URI's normal forms that differ from its spelling: a grant must cover all of them.
    pub forms: Forms,
    /// All other readings of a URI, and the templates that may have produced it: a denial of any of them denies the
    /// operation.
    pub also: Vec<Arc<str>>,
    /// The input schema.
    pub schema: Option<Arc<Schema>>,
    /// What a tool's structured results are compared with, if they are.
    pub output: Option<Arc<Schema>>,
    /// Arguments repeated in headers, where the backend requires that.
    pub mirrored: Option<Arc<[Param]>>,
    /// A 2025-11-25 tool that runs only as a task.
    pub needs_task: bool,
    /// A tool that declares itself read-only.
    pub is_read_only: bool,
    /// What a tool is tagged with.
    pub tags: Arc<[Box<str>]>,
    /// The callers that it is offered to; unknown to others.
    pub offered_to: CapabilitySets,
    /// How it is reached; unknown by other ways.
    pub reach: Reach,
    /// Its definition differs from the pinned one: hidden and unusable until it is approved.
    pub held: Option<Difference>,
}

impl Operation {
    pub(crate) fn listed(
        kind: ItemKind,
        index: usize,
        backend: &Arc<str>,
        item: &Item,
        exposed: Option<Arc<str>>,
    ) -> Self {
        let unlisted = Self::unlisted(Some(kind), index, backend, &item.key);
        Self {
            exposed: exposed.unwrap_or_else(|| unlisted.own.clone()),
            schema: (kind == ItemKind::Tool).then(|| item.schema.clone()),
            output: item.output.clone(),
            mirrored: (!item.mirrored.is_empty()).then(|| item.mirrored.clone()),
            is_read_only: item.is_read_only,
            tags: item.tags.clone(),
            offered_to: item.offered_to,
            reach: item.reach,
            ..unlisted
        }
    }

    /// Whether callers with this caller's capabilities and addressing are offered it. Nearly all operations are offered to
    /// all.
    pub(crate) fn is_offered_to(&self, caller: &Caller) -> bool {
        caller.addressing.reaches(self.reach)
            && (self.offered_to == CapabilitySets::ALL
                || self.offered_to.contains(caller.capability_set()))
    }

    /// Whether some callers are not offered it, whatever their rights.
    pub(crate) fn is_offered_to_all(&self) -> bool {
        self.offered_to == CapabilitySets::ALL && self.reach == Reach::ByName
    }

    /// An operation that is in no list: a URI, or a backend's own method.
    pub fn unlisted(kind: Option<ItemKind>, index: usize, backend: &Arc<str>, name: &str) -> Self {
        let name: Arc<str> = name.into();
        Self {
            kind,
            index,
            backend: backend.clone(),
            own: name.clone(),
            exposed: name,
            template: None,
            forms: Forms::default(),
            also: Vec::new(),
            schema: None,
            output: None,
            mirrored: None,
            needs_task: false,
            is_read_only: false,
            tags: Arc::default(),
            offered_to: CapabilitySets::ALL,
            reach: Reach::default(),
            held: None,
        }
    }

    /// Determines the readings of a URI, and which of the backend's templates may have produced it; best match first.
    pub fn spelt_out<'t>(
        mut self,
        templates: impl Iterator<Item = (&'t Template, &'t Arc<str>)>,
    ) -> Self {
        let Spellings { forms, slashed } = Spellings::of(&self.own);
        for (template, name) in templates {
            let made = |uri: &str| template.matches(uri);
            // For readers that take all of it as one path.
            let made_by_path =
                |uri: &str| made(uri) || begun_like(uri, name).is_some_and(|uri| made(&uri));
            let slashed = slashed.iter().map(String::as_str);
            let mut any = forms.iter().chain([&self.own]).map(|uri| &**uri);
            if any.any(made_by_path) || slashed.into_iter().any(made_by_path) {
                self.also.push(name.clone());
                let made_for = |reading: &Reading| match reading.readers.know_hosts() {
                    true => made(&reading.text),
                    false => made_by_path(&reading.text),
                };
                if self.template.is_none()
                    && !forms.is_unclear
                    && made(&self.own)
                    && forms.readings.iter().all(made_for)
                {
                    self.template = Some(name.clone());
                }
            }
        }
        self.forms = forms;
        self.also.extend(slashed.into_iter().map(Arc::from));
        self
    }

    /// Its name at the caller's endpoint.
    pub fn name_in(&self, view: View) -> &str {
        match view {
            View::Merged => &self.exposed,
            View::Only(_) => &self.own,
        }
    }

    /// All names by which it can be denied. A grant must cover its own name and each normal form.
    pub(crate) fn any_name(&self) -> impl Iterator<Item = &str> {
        let further = self.forms.iter().chain(&self.also);
        further.chain([&self.own]).map(|name| &**name)
    }
}

/// How a definition differs from the pinned one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Difference {
    /// The text that models read.
    Words,
    /// A schema.
    Shape,
    Both,
    /// A new tool of a pinned backend.
    New,
    /// The stored pins cannot be read.
    Unknown,
}

impl Difference {
    pub fn words(self) -> &'static str {
        match self {
            Self::Words => "its description changed",
            Self::Shape => "its schema changed",
            Self::Both => "its description and its schema changed",
            Self::New => "it is new",
            Self::Unknown => "what was approved cannot be read",
        }
    }
}
