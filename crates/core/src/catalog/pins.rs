//! Pins: the definition of each tool when it was first seen or last approved.
//!
//! A trusted server can change what it tells models (a rug pull). So the digest of every definition is kept in the
//! data directory; one that differs is reported, and where pins are enforced the tool is held back until it is
//! approved. On first contact the whole offer of a backend is pinned. Where pins are enforced, a tool added later
//! needs approval too: a new name with a new description does the same harm.
//!
//! A pin covers what models read (title, description and annotations: `words`) and what callers send (the two
//! schemas: `shape`). Names are the key.

mod definitions;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use parking_lot::Mutex;
use ring::digest::{Context, SHA256};
use schemars::JsonSchema;
use sentinel_wire::Payload;
use sentinel_wire::json::Rules;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::identity::now;
use crate::offer::{Item, Offer};
use crate::operation::Difference;
use crate::state_file::{StateFile, Version};

use definitions::Definitions;

/// Bound on the pins of one backend: as many as one list has tools. When it is reached existing pins stay, so a
/// backend cannot flood them away.
const PINS_MAX: usize = 100_000;
/// Bound on reported definitions; beyond it they may be reported again.
const REPORTED_MAX: usize = 10_000;

/// Definitions with deeper nesting are compared byte by byte.
const DEPTH_MAX: u32 = 100;

/// How a definition that differs from its pin is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    #[default]
    Off,
    Warn,
    Enforce,
}

/// One pinned definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Digest of what models read.
    words: String,
    /// Digest of the schemas.
    shape: String,
    /// Seconds since 1970 of its first sight or approval.
    pub at: u64,
    #[serde(default)]
    pub approved: bool,
}

impl Pin {
    pub(super) fn of(item: &Item) -> Self {
        let definition = definition(&item.raw);
        let digest = |members: &[&str]| {
            let mut context = Context::new(&SHA256);
            match &definition {
                Some(definition) => {
                    for member in members {
                        let mut text = String::new();
                        canonical(&definition[*member], &mut text);
                        context.update(text.as_bytes());
                        context.update(b"\n");
                    }
                }
                None => context.update(&item.raw),
            }
            let bytes = context.finish();
            bytes.as_ref().iter().map(|b| format!("{b:02x}")).collect()
        };
        Self {
            words: digest(&["title", "description", "annotations"]),
            shape: digest(&["inputSchema", "outputSchema"]),
            at: now(),
            approved: false,
        }
    }

    /// Whether both are of one definition.
    fn is_same(&self, other: &Self) -> bool {
        self.differs(other).is_none()
    }

    /// How another definition differs, if it does.
    fn differs(&self, other: &Self) -> Option<Difference> {
        match (self.words == other.words, self.shape == other.shape) {
            (true, true) => None,
            (false, true) => Some(Difference::Words),
            (true, false) => Some(Difference::Shape),
            (false, false) => Some(Difference::Both),
        }
    }
}

/// The decoded definition, if all readers agree on it. It is passed to callers unchanged, so where readers may differ
/// (repeated members, numbers or texts beyond our range, depth) every byte counts.
fn definition(raw: &Bytes) -> Option<Value> {
    let rules = Rules::caller(DEPTH_MAX);
    Payload::parse(raw.clone(), rules).ok()?;
    serde_json::from_slice(raw).ok()
}

/// Members sorted by name, so that equal definitions have equal texts.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            out.push('{');
            for (key, value) in members.iter().collect::<BTreeMap<_, _>>() {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

/// One server's current definitions of its tools, by own name.
#[derive(Debug, Default)]
pub struct ToolDefinitions(HashMap<String, Pin>);

impl ToolDefinitions {
    pub fn of(tools: &[Item]) -> Self {
        let one = |item: &Item| (item.key.clone(), Pin::of(item));
        Self(tools.iter().map(one).collect())
    }

    pub(super) fn of_tool(&self, own: &str) -> Option<&Pin> {
        self.0.get(own)
    }
}

/// Pins by backend and own name.
type All = BTreeMap<String, BTreeMap<String, Pin>>;

/// The file. Unknown members make it invalid, since it may not mean what it seems to.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    #[serde(default)]
    backends: All,
}

/// A definition that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    pin: Pin,
    raw: Bytes,
    difference: Difference,
    held: bool,
}

#[derive(Default)]
struct State {
    pinned: All,
    /// Definitions that differ now.
    waiting: BTreeMap<(String, String), Waiting>,
    /// Pins since the file was last written.
    unsaved: BTreeSet<(String, String)>,
    /// Definitions that were reported.
    reported: HashSet<(String, String, String, String)>,
    version: Version,
    /// The file is unreadable: no definition counts as first contact.
    broken: bool,
}

#[derive(Default)]
pub struct Pins {
    /// `None`: pins are not stored.
    file: Option<StateFile<Saved>>,
    definitions: Definitions,
    /// Locked after the registry's own lock, never before.
    state: Mutex<State>,
}

/// A definition that waits for approval, and the one that is pinned.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedDefinition {
    pub backend: String,
    pub tool: String,
    /// `None` of a new tool, and where the definition was not kept.
    pub approved: Option<Value>,
    pub offered: Option<Value>,
}

/// One tool, for operators.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Pinned {
    pub backend: String,
    pub tool: String,
    /// `None`: it equals its pin.
    pub difference: Option<Difference>,
    /// Unusable until it is approved.
    pub held: bool,
    pub at: u64,
    pub approved: bool,
}

impl Pins {
    pub fn open(path: PathBuf) -> Self {
        let definitions = Definitions::open(path.with_extension("d"));
        let file = StateFile::new(path);
        let mut state = State::default();
        match file.read() {
            Ok((version, Saved { backends })) => {
                (state.version, state.pinned) = (version, backends);
            }
            Err(error) => {
                tracing::error!(
                    "the pins cannot be read; where they are enforced tools wait for `sentinel pin approve`: {error}"
                );
                state.broken = true;
            }
        }
        Self {
            file: Some(file),
            definitions,
            state: Mutex::new(state),
        }
    }

    /// Compares an offer with the pins; returns the tools to hold back, and why.
    pub(super) fn inspect(
        &self,
        backend: &str,
        pinning: Pinning,
        offer: &Offer,
        shows: impl Fn(&str) -> bool,
    ) -> HashMap<String, Difference> {
        let mut state = self.state.lock();
        state.waiting.retain(|(of, _), _| of != backend);
        if pinning == Pinning::Off {
            return HashMap::new();
        }
        let first_contact = !state.broken && !state.pinned.contains_key(backend);
        let notes_all = self.definitions.wants(backend) && !offer.tools.is_empty();
        let mut held = HashMap::new();
        for item in offer.tools.iter().filter(|item| shows(&item.key)) {
            let now = Pin::of(item);
            let known = state.pinned.get(backend).and_then(|all| all.get(&item.key));
            let difference = match known {
                Some(pin) => pin.differs(&now),
                None if state.broken => Some(Difference::Unknown),
                None if (first_contact || pinning == Pinning::Warn) && state.has_room(backend) => {
                    self.definitions.note(backend, &item.key, &now, &item.raw);
                    state.pin(backend, &item.key, now);
                    continue;
                }
                None => Some(Difference::New),
            };
            let Some(difference) = difference else {
                if notes_all {
                    self.definitions.note(backend, &item.key, &now, &item.raw);
                }
                continue;
            };
            let holds = pinning == Pinning::Enforce;
            state.report(backend, &item.key, difference, &now, holds);
            if holds {
                held.insert(item.key.clone(), difference);
            }
            let waiting = Waiting {
                pin: now,
                raw: item.raw.clone(),
                difference,
                held: holds,
            };
            let key = (backend.to_owned(), item.key.clone());
            state.waiting.insert(key, waiting);
        }
        if notes_all {
            self.definitions.are_noted(backend);
        }
        held
    }

    /// How a definition differs from its pin, if it does. Pins nothing.
    pub(super) fn difference(&self, backend: &str, tool: &str, now: &Pin) -> Option<Difference> {
        let state = self.state.lock();
        match state.pinned.get(backend).and_then(|all| all.get(tool)) {
            Some(pin) => pin.differs(now),
            None if state.broken => Some(Difference::Unknown),
            None => Some(Difference::New),
        }
    }

    /// Reports a definition that only the child of one caller has.
    pub(super) fn report_own(&self, backend: &str, tool: &str, how: Difference, now: &Pin) {
        if self.state.lock().is_unreported(backend, tool, now) {
            tracing::warn!(
                backend,
                tool,
                "the child of a caller describes it otherwise than was approved: {}; refused there. If its program was \
                 replaced, restart the gateway and `sentinel pin approve {backend} {tool}`; if it tells every caller \
                 something else, it cannot be pinned: pin = \"warn\"",
                how.words()
            );
        }
    }

    /// Pins a backend's current offer, one tool or all; returns the tools that were not pinned so. Blocks on the
    /// disk.
    pub(super) fn approve(&self, backend: &str, tool: Option<&str>) -> io::Result<Vec<String>> {
        let chosen: Vec<(String, Pin)> = {
            let state = self.state.lock();
            let waiting = state.waiting.iter();
            waiting
                .filter(|((of, name), _)| of == backend && tool.is_none_or(|tool| tool == name))
                .map(|((_, name), waiting)| {
                    let pin = Pin {
                        at: now(),
                        approved: true,
                        ..waiting.pin.clone()
                    };
                    (name.clone(), pin)
                })
                .collect()
        };
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(file) = &self.file {
            file.rewrite(|read| {
                let mut saved = read.unwrap_or_default();
                self.state.lock().fill(&mut saved.backends);
                let all = saved.backends.entry(backend.to_owned()).or_default();
                all.extend(chosen.iter().cloned());
                Ok((saved, ()))
            })?;
        }
        let mut state = self.state.lock();
        for (name, pin) in &chosen {
            let key = (backend.to_owned(), name.clone());
            if let Some(waiting) = state.waiting.get(&key).filter(|now| now.pin.is_same(pin)) {
                self.definitions.note(backend, name, pin, &waiting.raw);
            }
            let all = state.pinned.entry(backend.to_owned()).or_default();
            all.insert(name.clone(), pin.clone());
        }
        state.broken &= self.file.is_none();
        state.version = self
            .file
            .as_ref()
            .map(StateFile::version)
            .unwrap_or_default();
        Ok(chosen.into_iter().map(|(name, _)| name).collect())
    }

    /// Saves new pins and loads those of other processes; true if lists may change. Blocks on the disk.
    pub(super) fn keep(&self) -> bool {
        let is_changed = self.keep_digests();
        self.definitions.keep(|backend, tool| {
            let state = self.state.lock();
            state.pinned.get(backend)?.get(tool).cloned()
        });
        is_changed
    }

    fn keep_digests(&self) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        let (unsaved, version, broken) = {
            let mut state = self.state.lock();
            let unsaved = std::mem::take(&mut state.unsaved);
            (unsaved, state.version, state.broken)
        };
        if !unsaved.is_empty() && !broken {
            let ours = self.state.lock().pinned.clone();
            let kept = file.change(|saved| {
                for (backend, tool) in &unsaved {
                    // The first pin wins: another gateway may have seen another definition.
                    if let Some(pin) = ours.get(backend).and_then(|all| all.get(tool)) {
                        let all = saved.backends.entry(backend.clone()).or_default();
                        all.entry(tool.clone()).or_insert_with(|| pin.clone());
                    }
                }
                Ok(())
            });
            if let Err(error) = kept {
                tracing::warn!("the pins could not be saved: {error}");
                self.state.lock().unsaved.extend(unsaved);
                return false;
            }
        }
        if file.version() == version {
            return false;
        }
        match file.read() {
            // A missing or empty file starts afresh only when the gateway starts; until then the pins in memory
            // count.
            Ok((version, Saved { mut backends })) => {
                let mut state = self.state.lock();
                state.version = version;
                state.broken &= backends.is_empty();
                let lost = state.fill(&mut backends);
                if lost.iter().any(|pin| !state.unsaved.contains(pin)) {
                    tracing::error!(
                        "pins are gone from {}: they are written down again",
                        file.path().display()
                    );
                }
                state.unsaved.extend(lost);
                let before = std::mem::replace(&mut state.pinned, backends);
                let late: Vec<_> = state.unsaved.iter().cloned().collect();
                for (backend, tool) in late {
                    if let Some(pin) = before.get(&backend).and_then(|all| all.get(&tool)) {
                        let all = state.pinned.entry(backend).or_default();
                        all.entry(tool).or_insert_with(|| pin.clone());
                    }
                }
                state.pinned != before
            }
            Err(error) => {
                let mut state = self.state.lock();
                state.version = file.version();
                tracing::error!("the pins cannot be read and stay as they are: {error}");
                false
            }
        }
    }

    /// The number of definitions that wait for approval.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// The definitions that wait for approval, each with the one that is pinned, as long as they fit into so many bytes.
    /// Blocks on the disk.
    pub fn changed(&self, bytes_max: usize) -> Vec<ChangedDefinition> {
        let (waiting, pinned) = {
            let state = self.state.lock();
            let mut pinned: BTreeMap<String, HashMap<String, Pin>> = BTreeMap::new();
            for (backend, tool) in state.waiting.keys() {
                let pin = state.pinned.get(backend).and_then(|all| all.get(tool));
                if let Some(pin) = pin {
                    let of_backend = pinned.entry(backend.clone()).or_default();
                    of_backend.insert(tool.clone(), pin.clone());
                }
            }
            (state.waiting.clone(), pinned)
        };
        let mut definitions: HashMap<String, HashMap<String, Bytes>> = pinned
            .into_iter()
            .map(|(backend, pins)| {
                let of_backend = self.definitions.of(&backend, &pins);
                (backend, of_backend)
            })
            .collect();
        let mut left = bytes_max;
        let mut changed = Vec::new();
        for ((backend, tool), waiting) in waiting {
            let approved = definitions
                .get_mut(&backend)
                .and_then(|all| all.remove(&tool));
            let bytes = waiting.raw.len() + approved.as_ref().map_or(0, Bytes::len);
            let Some(rest) = left.checked_sub(bytes) else {
                break;
            };
            left = rest;
            let value = |raw: &Bytes| serde_json::from_slice(raw).ok();
            changed.push(ChangedDefinition {
                approved: approved.as_ref().and_then(value),
                offered: value(&waiting.raw),
                backend,
                tool,
            });
        }
        changed
    }

    /// Every pin and every definition that waits for approval.
    pub fn list(&self) -> Vec<Pinned> {
        let state = self.state.lock();
        let waiting = |backend: &str, tool: &str| {
            let key = (backend.to_owned(), tool.to_owned());
            state.waiting.get(&key)
        };
        let line = |backend: &str, tool: &str, pin: &Pin| {
            let waiting = waiting(backend, tool);
            Pinned {
                backend: backend.to_owned(),
                tool: tool.to_owned(),
                difference: waiting.map(|w| w.difference),
                held: waiting.is_some_and(|w| w.held),
                at: pin.at,
                approved: pin.approved,
            }
        };
        let mut all: Vec<Pinned> = Vec::new();
        for (backend, tools) in &state.pinned {
            all.extend(tools.iter().map(|(tool, pin)| line(backend, tool, pin)));
        }
        for ((backend, tool), waiting) in &state.waiting {
            let known = state.pinned.get(backend);
            if !known.is_some_and(|tools| tools.contains_key(tool)) {
                all.push(line(backend, tool, &waiting.pin));
            }
        }
        all
    }
}

impl State {
    fn has_room(&self, backend: &str) -> bool {
        self.pinned
            .get(backend)
            .is_none_or(|all| all.len() < PINS_MAX)
    }

    /// Adds to a file's content the backends that have pins in memory and none in the file: they were removed there,
    /// and only a start of the gateway trusts anew. Returns the added ones.
    fn fill(&self, saved: &mut All) -> Vec<(String, String)> {
        let mut put = Vec::new();
        for (backend, pins) in &self.pinned {
            let all = saved.entry(backend.clone()).or_default();
            if all.is_empty() {
                all.clone_from(pins);
                put.extend(pins.keys().map(|tool| (backend.clone(), tool.clone())));
            }
        }
        put
    }

    fn pin(&mut self, backend: &str, tool: &str, pin: Pin) {
        let all = self.pinned.entry(backend.to_owned()).or_default();
        all.insert(tool.to_owned(), pin);
        self.unsaved.insert((backend.to_owned(), tool.to_owned()));
    }

    /// Each definition is reported once.
    fn is_unreported(&mut self, backend: &str, tool: &str, pin: &Pin) -> bool {
        let seen = (
            backend.to_owned(),
            tool.to_owned(),
            pin.words.clone(),
            pin.shape.clone(),
        );
        if self.reported.len() >= REPORTED_MAX {
            self.reported.clear();
        }
        self.reported.insert(seen)
    }

    fn report(&mut self, backend: &str, tool: &str, how: Difference, pin: &Pin, held: bool) {
        if !self.is_unreported(backend, tool, pin) {
            return;
        }
        let what = match held {
            true => "held back until `sentinel pin approve`",
            false => "still usable: pin = \"warn\"",
        };
        tracing::warn!(
            backend,
            tool,
            "not the definition that was pinned: {}; {what}",
            how.words()
        );
    }
}

#[cfg(test)]
#[path = "pins/tests.rs"]
mod tests;
