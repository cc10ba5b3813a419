//! One operation as policy knows it: whose it is and what it is called, whatever name a caller used.

use std::sync::Arc;

use schemars::JsonSchema;
use sentinel_wire::header::Param;
use sentinel_wire::template::Template;
use serde::{Deserialize, Serialize};

use crate::arguments::Schema;
use crate::capabilities::CapabilitySets;
use crate::invocation::View;
use crate::offer::{Item, ItemKind};

pub(crate) mod unknown;
pub(crate) mod uri;

use uri::{Forms, Reading, Spellings, begun_like};

#[derive(Clone, Debug)]
pub struct Operation {
    /// `None` for a method that only one backend knows (`/mcp/<backend>`).
    pub kind: Option<ItemKind>,
    /// The backend's place in the registry.
    pub index: usize,
    pub backend: Arc<str>,
    /// The backend's own name for it, or the URI.
    pub own: Arc<str>,
    /// Its name in the merged catalog; the own name where it has none there.
    pub exposed: Arc<str>,
    /// The listed template that a URI was found by, however it is read.
    pub template: Option<Arc<str>>,
    /// A URI's normal forms, where it is not written in them: what is granted must be so in all of them.
    pub forms: Forms,
    /// Whatever else a URI may be taken for, and the templates it may have been made by: what is denied is so in
    /// any of these.
    pub also: Vec<Arc<str>>,
    /// What a tool's arguments must look like.
    pub schema: Option<Arc<Schema>>,
    /// Arguments to repeat in headers, where the backend wants that.
    pub mirrored: Option<Arc<[Param]>>,
    /// A tool of 2025-11-25 that runs as a task only.
    pub needs_task: bool,
    /// A tool that says it changes nothing.
    pub is_read_only: bool,
    /// What a tool is tagged with.
    pub tags: Arc<[Box<str>]>,
    /// The callers that it is offered to; it does not exist for others.
    pub offered_to: CapabilitySets,
    /// Its definition is not the one that was pinned: hidden, and not to be used until it is approved.
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
        let own: Arc<str> = item.key.as_str().into();
        Self {
            kind: Some(kind),
            index,
            backend: backend.clone(),
            exposed: exposed.unwrap_or_else(|| own.clone()),
            own,
            template: None,
            forms: Forms::default(),
            also: Vec::new(),
            schema: (kind == ItemKind::Tool).then(|| item.schema.clone()),
            mirrored: (!item.mirrored.is_empty()).then(|| item.mirrored.clone()),
            needs_task: false,
            is_read_only: item.is_read_only,
            tags: item.tags.clone(),
            offered_to: item.offered_to,
            held: None,
        }
    }

    /// Something that is in no list: a URI, or a method of the backend's own.
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
            mirrored: None,
            needs_task: false,
            is_read_only: false,
            tags: Arc::default(),
            offered_to: CapabilitySets::ALL,
            held: None,
        }
    }

    /// Knows what a URI may be taken for, and which of its backend's templates may have made it; the best
    /// first.
    pub fn spelt_out<'t>(
        mut self,
        templates: impl Iterator<Item = (&'t Template, &'t Arc<str>)>,
    ) -> Self {
        let Spellings { forms, slashed } = Spellings::of(&self.own);
        for (template, name) in templates {
            let made = |uri: &str| template.matches(uri);
            // To whoever reads all of it as one path.
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

    /// What callers of an endpoint call it.
    pub fn name_in(&self, view: View) -> &str {
        match view {
            View::Merged => &self.exposed,
            View::Only(_) => &self.own,
        }
    }

    /// Every name that denies it. What must be granted is its own name, and each form to those who read it so.
    pub(crate) fn any_name(&self) -> impl Iterator<Item = &str> {
        let further = self.forms.iter().chain(&self.also);
        further.chain([&self.own]).map(|name| &**name)
    }
}

/// How a definition is not what was pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Difference {
    /// What models read.
    Words,
    /// A schema.
    Shape,
    Both,
    /// It was not there when its backend was pinned.
    New,
    /// What was pinned cannot be read.
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
