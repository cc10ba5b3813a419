//! The pinned definitions as they were written, so that operators can compare them with what is offered now.
//!
//! Pins are digests in one file that every gateway of the data directory reads whenever it changes; the definitions would
//! make it large. So they are in a folder of their own, one file for each backend, which is read only when somebody asks.
//! They decide nothing: one that does not fit its pin is not shown.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Pin;
use crate::offer::{Item, ItemKind};
use crate::state_file::StateFile;

/// Larger definitions are not kept: no model is given one.
const DEFINITION_BYTES_MAX: usize = 256 * 1024;
/// Of all definitions of one backend; those of thousands of tools fit.
const BACKEND_BYTES_MAX: usize = 32 << 20;

/// One backend's file: definitions by the tools' own names.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Saved {
    tools: BTreeMap<String, String>,
}

#[derive(Default)]
pub(super) struct Definitions {
    /// `None`: they are not stored.
    folder: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that may not be in a file yet, by backend.
    fresh: BTreeMap<String, Fresh>,
    /// Backends whose pinned definitions were noted since the start.
    noted: HashSet<String>,
}

type Fresh = BTreeMap<String, (Pin, Bytes)>;

impl Definitions {
    pub(super) fn open(folder: PathBuf) -> Self {
        Self {
            folder: Some(folder),
            state: Mutex::default(),
        }
    }

    /// Whether the definitions of this backend are to be noted: once in a process, for those that were pinned by an
    /// earlier version.
    pub(super) fn wants(&self, backend: &str) -> bool {
        self.folder.is_some() && !self.state.lock().noted.contains(backend)
    }

    pub(super) fn are_noted(&self, backend: &str) {
        self.state.lock().noted.insert(backend.to_owned());
    }

    /// A definition that has this pin.
    pub(super) fn note(&self, backend: &str, tool: &str, pin: &Pin, raw: &Bytes) {
        if self.folder.is_none() || raw.len() > DEFINITION_BYTES_MAX {
            return;
        }
        let mut state = self.state.lock();
        let fresh = state.fresh.entry(backend.to_owned()).or_default();
        fresh.insert(tool.to_owned(), (pin.clone(), raw.clone()));
    }

    /// Writes what was noted, as far as it is pinned. Blocks on the disk.
    pub(super) fn keep(&self, pinned: impl Fn(&str, &str) -> Option<Pin>) {
        let fresh = std::mem::take(&mut self.state.lock().fresh);
        for (backend, fresh) in fresh {
            let Some(file) = self.file(&backend) else {
                return;
            };
            let is_pinned = |tool: &str, pin: &Pin| {
                pinned(&backend, tool).is_some_and(|pinned| pinned.is_same(pin))
            };
            let texts = fresh.into_iter().filter_map(|(tool, (pin, raw))| {
                let text = String::from_utf8(raw.into()).ok()?;
                is_pinned(&tool, &pin).then_some((tool, text))
            });
            let texts: BTreeMap<String, String> = texts.collect();
            let known = file.read().map(|(_, saved)| saved.tools);
            let is_new = |(tool, text): (&String, &String)| match &known {
                Ok(known) => known.get(tool) != Some(text),
                Err(_) => true,
            };
            if !texts.iter().any(is_new) {
                continue;
            }
            let kept = file.rewrite(|read| {
                let mut saved = read.unwrap_or_default();
                saved
                    .tools
                    .retain(|tool, _| pinned(&backend, tool).is_some());
                let mut bytes: usize = saved.tools.values().map(String::len).sum();
                for (tool, text) in texts {
                    let before = saved.tools.get(&tool).map_or(0, String::len);
                    if bytes - before + text.len() <= BACKEND_BYTES_MAX {
                        bytes = bytes - before + text.len();
                        saved.tools.insert(tool, text);
                    }
                }
                Ok((saved, ()))
            });
            if let Err(error) = kept {
                tracing::warn!(backend, "pinned definitions could not be saved: {error}");
            }
        }
    }

    /// The definitions of a backend's tools that fit these pins. Blocks on the disk.
    pub(super) fn of(&self, backend: &str, pins: &HashMap<String, Pin>) -> HashMap<String, Bytes> {
        let saved = self.file(backend).map(|file| file.read());
        let Some(Ok((_, saved))) = saved else {
            return HashMap::new();
        };
        let fitting = |(tool, text): (String, String)| {
            let raw = Bytes::from(text);
            let item = Item::parse(ItemKind::Tool, raw.clone())?;
            let pin = pins.get(&tool)?;
            Pin::of(&item).is_same(pin).then_some((tool, raw))
        };
        let asked = saved.tools.into_iter();
        let asked = asked.filter(|(tool, _)| pins.contains_key(tool));
        asked.filter_map(fitting).collect()
    }

    fn file(&self, backend: &str) -> Option<StateFile<Saved>> {
        let folder = self.folder.as_ref()?;
        Some(StateFile::new(folder.join(format!("{backend}.json"))))
    }
}
