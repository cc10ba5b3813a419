//! One schema of a tool: where its references lead, and the hash of its canonical form with all of them followed.
//!
//! Equal hashes are equal schemas, however they are written. A place that leads back to itself is hashed as the way back, so
//! what is found there depends on where the walk began and is not remembered.

use std::collections::HashMap;

use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};

use super::super::dialect;

/// Subschemas in one schema, counting those behind references each time; beyond it the schema is shown as any object.
const STEPS_MAX: usize = 5_000;
/// Subschemas inside one another. Each costs stack.
pub(super) const DEPTH_MAX: usize = 64;
/// References that lead to references.
const CHAIN_MAX: usize = 16;

pub(super) type Hash = [u8; 32];

/// The schema is beyond the bounds.
#[derive(Debug)]
pub(super) struct TooLarge;

/// One schema of a tool, and what was found out about it.
pub(super) struct Source<'s> {
    pub(super) root: &'s Value,
    /// By address; only what does not depend on where the walk began.
    hashes: HashMap<*const Value, Hash>,
    stack: Vec<*const Value>,
    pub(super) steps: usize,
    steps_max: usize,
}

impl<'s> Source<'s> {
    pub(super) fn new(root: &'s Value, steps_max: usize) -> Self {
        Self {
            root,
            hashes: HashMap::new(),
            stack: Vec::new(),
            steps: 0,
            steps_max: steps_max.min(STEPS_MAX),
        }
    }

    /// What a schema refers to, past references to references, and the name that it has there.
    pub(super) fn target(&self, schema: &'s Value) -> Option<(&'s Value, &'s str)> {
        let (mut at, mut name) = self.step(schema)?;
        for _ in 0..CHAIN_MAX {
            let is_only_reference = at.as_object().is_some_and(|object| object.len() == 1);
            match self.step(at) {
                Some(next) if is_only_reference => (at, name) = next,
                _ => return Some((at, name)),
            }
        }
        None
    }

    fn step(&self, schema: &'s Value) -> Option<(&'s Value, &'s str)> {
        let keywords = ["$ref", "$dynamicRef", "$recursiveRef"];
        let found = keywords.iter().find_map(|keyword| schema.get(*keyword));
        let fragment = found?.as_str()?.strip_prefix('#')?;
        if fragment.is_empty() {
            return Some((self.root, "Root"));
        }
        let target = match fragment.starts_with('/') {
            true => {
                let pointer = percent_encoding::percent_decode_str(fragment)
                    .decode_utf8()
                    .ok()?;
                self.root.pointer(&pointer)?
            }
            false => self.anchor(fragment)?,
        };
        let name = fragment.rsplit('/').next().unwrap_or_default();
        (target.is_object() || target.is_boolean()).then_some((target, name))
    }

    /// Anchors are looked for where definitions are.
    fn anchor(&self, name: &str) -> Option<&'s Value> {
        let of = |keyword: &str| self.root.get(keyword).and_then(Value::as_object);
        let mut all = ["$defs", "definitions"]
            .into_iter()
            .filter_map(of)
            .flat_map(Map::values)
            .chain([self.root]);
        all.find(|schema| {
            let is = |keyword: &str| schema.get(keyword).and_then(Value::as_str) == Some(name);
            is("$anchor") || is("$dynamicAnchor")
        })
    }

    pub(super) fn refers(schema: &Value) -> bool {
        ["$ref", "$dynamicRef", "$recursiveRef"]
            .iter()
            .any(|keyword| schema.get(*keyword).is_some())
    }

    pub(super) fn hash(&mut self, schema: &'s Value) -> Result<Hash, TooLarge> {
        Ok(self.hash_at(schema)?.0)
    }

    /// The hash, and the lowest place of the stack on which it depends.
    fn hash_at(&mut self, schema: &'s Value) -> Result<(Hash, usize), TooLarge> {
        let address = std::ptr::from_ref(schema);
        if let Some(known) = self.hashes.get(&address) {
            return Ok((*known, usize::MAX));
        }
        if let Some(place) = self.stack.iter().position(|other| *other == address) {
            let back = self.stack.len() - place;
            return Ok((sha256(format!("back {back}").as_bytes()), place));
        }
        self.steps += 1;
        if self.steps > self.steps_max || self.stack.len() >= DEPTH_MAX {
            return Err(TooLarge);
        }
        let own = self.stack.len();
        self.stack.push(address);
        let mut lowest = usize::MAX;
        let rewritten = dialect::rewrite(schema, &mut |_, inner| {
            let (hash, place) = self.hash_at(inner)?;
            lowest = lowest.min(place);
            Ok(hex(&hash))
        });
        let mut rewritten = rewritten?;
        let mut hash = None;
        if let Some((target, _)) = self.target(schema) {
            let (of_target, place) = self.hash_at(target)?;
            lowest = lowest.min(place);
            match rewritten
                .as_object_mut()
                .filter(|object| !object.is_empty())
            {
                None => hash = Some(of_target),
                Some(object) => {
                    object.insert("$ref".to_owned(), hex(&of_target));
                }
            }
        }
        self.stack.pop();
        let hash = hash.unwrap_or_else(|| sha256(canonical(&rewritten).as_bytes()));
        if lowest >= own {
            self.hashes.insert(address, hash);
            lowest = usize::MAX;
        }
        Ok((hash, lowest))
    }
}

fn sha256(bytes: &[u8]) -> Hash {
    let hash = digest(&SHA256, bytes);
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn hex(hash: &Hash) -> Value {
    hash.iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .into()
}

/// Compact JSON with the members of every object in order of their names; of required members the order says nothing.
fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(all) => {
                let mut members: Vec<(&String, &Value)> = all.iter().collect();
                members.sort_by_key(|(name, _)| *name);
                let member = |(name, value): (&String, &Value)| {
                    let mut value = sorted(value);
                    if let (true, Value::Array(names)) = (name == "required", &mut value) {
                        names.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
                    }
                    (name.clone(), value)
                };
                members.into_iter().map(member).collect()
            }
            Value::Array(all) => all.iter().map(sorted).collect(),
            other => other.clone(),
        }
    }
    sorted(value).to_string()
}
