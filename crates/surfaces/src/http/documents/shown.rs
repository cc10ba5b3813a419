//! The catalog as one caller sees it, read for documents.

use std::collections::HashSet;
use std::sync::Arc;

use sentinel_core::policy::Visible;
use sentinel_core::{ItemKind, Operation, Reach};
use serde_json::Value;

use super::ways::Ways;
use crate::http::mounts::{self, Mounts};

/// What is said of a backend is its first paragraph, at most so long.
const DESCRIPTION_CHARS_MAX: usize = 600;

pub(super) struct Shown {
    pub(super) tools: Vec<Tool>,
    pub(super) prompts: Vec<Prompt>,
    pub(super) resources: Vec<Value>,
    pub(super) templates: Vec<Value>,
    /// Those of the tools and prompts.
    pub(super) backends: Vec<Backend>,
    /// Callers have to authenticate.
    pub(super) is_guarded: bool,
    pub(super) mounts: Mounts,
}

pub(super) struct Tool {
    pub(super) name: String,
    pub(super) backend: Arc<str>,
    pub(super) is_read_only: bool,
    /// It has a path and a method of its name.
    pub(super) is_by_name: bool,
    /// Further ways to it.
    pub(super) ways: Ways,
    /// As it is listed.
    pub(super) entry: Value,
}

pub(super) struct Prompt {
    pub(super) name: String,
    pub(super) backend: Arc<str>,
    pub(super) entry: Value,
}

pub(super) struct Backend {
    pub(super) name: Arc<str>,
    pub(super) description: String,
}

impl Shown {
    pub(super) fn read(visible: &Visible, is_guarded: bool, mounts: Mounts) -> Self {
        let read = |kind: ItemKind| {
            let items = visible.items(kind).into_iter();
            items.map(move |(raw, operation)| (entry(kind, &raw, &operation), operation))
        };
        let mut backends: Vec<Backend> = Vec::new();
        let mut note = |operation: &Operation| {
            if backends.iter().all(|known| known.name != operation.backend) {
                backends.push(Backend::of(visible, operation));
            }
        };
        let mut tools = Vec::new();
        let names: HashSet<Arc<str>> = match visible.routes().is_empty() {
            true => HashSet::new(),
            false => {
                let all = visible.items(ItemKind::Tool).into_iter();
                let named = all.filter(|(_, operation)| operation.reach == Reach::ByName);
                named
                    .map(|(_, operation)| operation.exposed.clone())
                    .collect()
            }
        };
        for (entry, operation) in read(ItemKind::Tool) {
            note(&operation);
            let is_name = |method: &str| names.contains(method);
            tools.push(Tool {
                is_by_name: operation.reach == Reach::ByName,
                ways: Ways::to(&operation, visible.routes(), &mounts, is_name),
                name: operation.exposed.to_string(),
                backend: operation.backend.clone(),
                is_read_only: operation.is_read_only,
                entry,
            });
        }
        let mut prompts = Vec::new();
        for (entry, operation) in read(ItemKind::Prompt) {
            note(&operation);
            prompts.push(Prompt {
                name: operation.exposed.to_string(),
                backend: operation.backend.clone(),
                entry,
            });
        }
        Self {
            tools,
            prompts,
            resources: read(ItemKind::Resource).map(|(entry, _)| entry).collect(),
            templates: read(ItemKind::Template).map(|(entry, _)| entry).collect(),
            backends,
            is_guarded,
            mounts,
        }
    }

    /// A path of REST, where REST is.
    pub(super) fn rest(&self, below: &str) -> String {
        let at = self.mounts.rest.as_deref().unwrap_or(mounts::REST);
        format!("{at}{below}")
    }

    /// Where else the operations are, in a few words.
    pub(super) fn elsewhere(&self) -> String {
        let places = [("MCP", &self.mounts.mcp), ("JSON-RPC", &self.mounts.rpc)];
        let places = places
            .iter()
            .filter_map(|(name, at)| Some(format!("{name} at `{}`", at.as_ref()?)));
        places.collect::<Vec<_>>().join(" and ")
    }
}

/// An entry of a list; its name alone where the entry is deeper than can be read.
fn entry(kind: ItemKind, raw: &[u8], operation: &Operation) -> Value {
    serde_json::from_slice(raw)
        .unwrap_or_else(|_| serde_json::json!({ kind.key_member(): &*operation.exposed }))
}

impl Backend {
    fn of(visible: &Visible, operation: &Operation) -> Self {
        let name = operation.backend.clone();
        let words = visible.instructions(operation.index).unwrap_or_default();
        // Instructions are often a page of Markdown with a title, which a line of a document cannot hold.
        let mut paragraphs = words.split("\n\n").map(str::trim);
        let is_text = |text: &&str| !text.is_empty() && !text.starts_with('#');
        let first = paragraphs.find(is_text).unwrap_or_default();
        let description = match first.is_empty() {
            true => format!("What the backend `{name}` offers."),
            false => first.chars().take(DESCRIPTION_CHARS_MAX).collect(),
        };
        Self { name, description }
    }
}
