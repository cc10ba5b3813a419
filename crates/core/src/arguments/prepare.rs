//! A schema before it is compiled: what would cost too much to compile is found, and what would cost nothing to visit
//! is made to cost something, so that the meter sees every step.

mod patterns;
mod unroll;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use self::patterns::{atoms, may_backtrack};
use self::unroll::Unroll;
use super::meter::{CostHints, Fractions};

/// Patterns are compiled all at once and keep their caches: how many, and how large together (atoms, repeats unrolled).
const PATTERNS_MAX: usize = 500;
const PATTERN_ATOMS_MAX: u64 = 20_000;
/// A pattern larger than this may look at each byte of a text many times.
const PLAIN_ATOMS_MAX: u64 = 500;
/// Each embedded resource multiplies the scopes that references are compiled in.
const EMBEDDED_MAX: usize = 8;
/// `unevaluated*` and discriminators follow references while they are compiled, along every way.
const UNROLLED_MAX: usize = 50_000;
/// How far the crate looks for what tells the branches of an `anyOf` apart.
const PINS_DEPTH_MAX: usize = 17;
const PINS_BRANCHES_MIN: usize = 3;
/// References that lead only to references are followed without a look at the arguments.
const CHAIN_MAX: usize = 64;
/// Each schema in a schema is compiled for itself.
const PLACES_MAX: usize = 8000;
/// Places are known by their pointers.
const POINTER_BYTES_MAX: usize = 2048;
/// How often references may lead to names that were not known before.
const ROUNDS_MAX: usize = 4;
/// Older dialects ask that options differ, and objects and arrays are compared slowly.
const LARGE_OPTIONS_MAX: usize = 1000;

const ONE: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const LIST: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
const NAMED: [&str; 6] = [
    "$defs",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "patternProperties",
    "properties",
];
const REFERENCES: [&str; 3] = ["$dynamicRef", "$recursiveRef", "$ref"];

/// Checks what the compiler would spend on a schema, and makes it one whose every visit is metered.
pub(super) fn prepare(schema: &mut Value) -> Result<CostHints, String> {
    let places = Places::find(schema)?;
    let hints = places.patterns(schema)?;
    places.check_unrolled(schema)?;
    places.check_chains(schema)?;
    let pointers: Vec<String> = places.known.into_keys().collect();
    for pointer in &pointers {
        if let Some(schema) = schema.pointer_mut(pointer) {
            meter(schema);
        }
    }
    Ok(hints)
}

/// A type comes before all other keywords, and is a look at the value: where none is asked for, any will do.
fn meter(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else {
        return;
    };
    members.entry("type").or_insert_with(any_type);
    for list in ["allOf", "anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = members.get_mut(list) else {
            continue;
        };
        for branch in branches {
            match branch {
                Value::Bool(true) => *branch = json!({"type": any_type()}),
                Value::Bool(false) => {
                    *branch = json!({"type": any_type(), "not": {"type": any_type()}});
                }
                _ => {}
            }
        }
    }
}

fn any_type() -> Value {
    json!(["array", "boolean", "null", "number", "object", "string"])
}

/// Where there are schemas in a schema: by keyword, and wherever a reference points.
#[derive(Default)]
struct Places {
    /// By pointer, with the pointers that its references may mean.
    known: BTreeMap<String, Vec<String>>,
    /// Those that are just true or false.
    plain: usize,
    /// Roots of resources: the schema itself and what has an id.
    resources: Vec<String>,
    anchors: HashMap<String, Vec<String>>,
}

impl Places {
    fn find(schema: &Value) -> Result<Self, String> {
        let mut places = Self::default();
        places.resources.push(String::new());
        places.walk(schema, String::new())?;
        for _ in 0..ROUNDS_MAX {
            if places.follow(schema)? {
                return Ok(places);
            }
        }
        Err("its references are too winding".to_owned())
    }

    /// Follows all references, to wherever they lead; true if that was nothing new.
    fn follow(&mut self, schema: &Value) -> Result<bool, String> {
        let before = self.known.len();
        let mut todo: Vec<String> = self.known.keys().cloned().collect();
        while let Some(pointer) = todo.pop() {
            let targets = self.targets(schema, &pointer);
            for target in &targets {
                if !self.known.contains_key(target) {
                    self.check_is_no_value(target)?;
                    todo.extend(self.walk(schema, target.clone())?);
                }
            }
            self.known.insert(pointer, targets);
        }
        Ok(self.known.len() == before)
    }

    /// Notes a schema with all that are in it.
    fn walk(&mut self, root: &Value, from: String) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        let mut todo = vec![from];
        while let Some(pointer) = todo.pop() {
            let Some(Value::Object(schema)) = root.pointer(&pointer) else {
                self.plain += 1;
                continue;
            };
            if self.known.len() + self.plain > PLACES_MAX {
                return Err(format!("it holds more than {PLACES_MAX} schemas"));
            }
            if self.known.contains_key(&pointer) {
                continue;
            }
            if pointer.len() > POINTER_BYTES_MAX {
                return Err("its names are too long".to_owned());
            }
            check_alone(schema)?;
            self.note_names(schema, &pointer)?;
            todo.extend(children(schema, &pointer).map(|(_, child)| child));
            self.known.insert(pointer.clone(), Vec::new());
            found.push(pointer);
        }
        Ok(found)
    }

    fn note_names(&mut self, schema: &Map<String, Value>, pointer: &str) -> Result<(), String> {
        for keyword in ["$anchor", "$dynamicAnchor", "$id", "id"] {
            let Some(Value::String(name)) = schema.get(keyword) else {
                continue;
            };
            if keyword.ends_with("id") && !name.starts_with('#') {
                if !pointer.is_empty() {
                    self.resources.push(pointer.to_owned());
                }
                if self.resources.len() > EMBEDDED_MAX {
                    return Err(format!(
                        "it embeds more than {EMBEDDED_MAX} schemas with ids"
                    ));
                }
            } else {
                let name = name.trim_start_matches('#').to_owned();
                let places = self.anchors.entry(name).or_default();
                places.push(pointer.to_owned());
                // One in each resource, by anchor or by id.
                if places.len() > 2 * EMBEDDED_MAX {
                    return Err("one anchor names too many schemas".to_owned());
                }
            }
        }
        Ok(())
    }

    /// Every place that the references of this one could mean, whichever resource they are resolved in.
    fn targets(&self, root: &Value, pointer: &str) -> Vec<String> {
        let Some(schema) = root.pointer(pointer) else {
            return Vec::new();
        };
        let mut targets = Vec::new();
        for reference in REFERENCES.iter().filter_map(|name| schema.get(name)) {
            let reference = reference.as_str().unwrap_or_default();
            let fragment = reference.split_once('#').map_or("", |(_, after)| after);
            let fragment = decoded(fragment);
            if fragment.is_empty() || fragment.starts_with('/') {
                let all = self
                    .resources
                    .iter()
                    .map(|base| format!("{base}{fragment}"));
                targets.extend(all.filter(|target| root.pointer(target).is_some()));
            } else if let Some(named) = self.anchors.get(&fragment) {
                targets.extend(named.iter().cloned());
            }
        }
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// Nothing is added to a value that arguments are compared with.
    fn check_is_no_value(&self, target: &str) -> Result<(), String> {
        let holder = target
            .rmatch_indices('/')
            .map(|(at, _)| target.split_at(at))
            .find(|(before, _)| self.known.contains_key(*before));
        let Some((_, inside)) = holder else {
            return Ok(());
        };
        match inside.split('/').nth(1) {
            Some("const" | "enum") => Err("a reference leads into a value".to_owned()),
            _ => Ok(()),
        }
    }

    fn patterns(&self, root: &Value) -> Result<CostHints, String> {
        let mut hints = CostHints::default();
        let mut patterns = HashSet::new();
        for schema in self
            .known
            .keys()
            .filter_map(|pointer| root.pointer(pointer))
        {
            patterns.extend(schema.get("pattern").and_then(Value::as_str));
            if let Some(Value::Object(named)) = schema.get("patternProperties") {
                hints.name_patterns = hints.name_patterns.max(named.len() as u64);
                patterns.extend(named.keys().map(String::as_str));
            }
            if let Some(factor) = schema.get("multipleOf").and_then(Value::as_number) {
                hints.fractions = hints.fractions.max(Fractions::of(factor));
            }
            hints.prints |= schema.get("unevaluatedItems").is_some();
        }
        let sizes = patterns.iter().map(|pattern| atoms(pattern));
        let together = sizes.fold(0_u64, u64::saturating_add);
        if patterns.len() > PATTERNS_MAX || together > PATTERN_ATOMS_MAX {
            return Err("its patterns are too many or too large".to_owned());
        }
        hints.careful = patterns
            .iter()
            .any(|pattern| may_backtrack(pattern) || atoms(pattern) > PLAIN_ATOMS_MAX);
        Ok(hints)
    }

    fn check_unrolled(&self, root: &Value) -> Result<(), String> {
        let mut unroll = Unroll {
            places: self,
            root,
            left: UNROLLED_MAX,
            within: Vec::new(),
        };
        for pointer in self.known.keys() {
            let Some(Value::Object(schema)) = root.pointer(pointer) else {
                continue;
            };
            let unevaluated = ["unevaluatedItems", "unevaluatedProperties"];
            let mut enough = true;
            if unevaluated.iter().any(|name| schema.contains_key(*name)) {
                enough &= unroll.evaluated(pointer);
            }
            for list in ["anyOf", "oneOf"] {
                let branches = schema
                    .get(list)
                    .and_then(Value::as_array)
                    .map_or(0, Vec::len);
                if branches >= PINS_BRANCHES_MIN {
                    let mut all = (0..branches).map(|at| format!("{pointer}/{list}/{at}"));
                    enough &= all.all(|branch| unroll.pins(&branch, PINS_DEPTH_MAX));
                }
            }
            if !enough {
                return Err("its references multiply".to_owned());
            }
        }
        Ok(())
    }

    fn check_chains(&self, root: &Value) -> Result<(), String> {
        let leads_on = |pointer: &String| {
            let schema = root.pointer(pointer);
            schema.is_some_and(|schema| schema.get("$ref").is_some())
        };
        for start in self.known.keys().filter(|pointer| leads_on(pointer)) {
            let mut seen = vec![start];
            let mut next = &self.known[start];
            while let Some(target) = next.iter().find(|target| leads_on(target)) {
                if seen.contains(&target) {
                    break;
                }
                if seen.len() == CHAIN_MAX {
                    return Err("references lead to references for too long".to_owned());
                }
                seen.push(target);
                next = match self.known.get(target) {
                    Some(next) => next,
                    None => break,
                };
            }
        }
        Ok(())
    }
}

fn check_alone(schema: &Map<String, Value>) -> Result<(), String> {
    if schema.contains_key("$vocabulary") {
        return Err("it is a dialect, not a schema".to_owned());
    }
    let options = schema.get("enum").and_then(Value::as_array);
    let large = options.into_iter().flatten();
    let large = large.filter(|option| option.is_array() || option.is_object());
    if large.count() > LARGE_OPTIONS_MAX {
        return Err("it has too many large options".to_owned());
    }
    Ok(())
}

/// The schemas directly in a schema: keyword and pointer.
fn children<'a>(
    schema: &'a Map<String, Value>,
    pointer: &'a str,
) -> impl Iterator<Item = (&'a str, String)> {
    schema.iter().flat_map(move |(keyword, value)| {
        let keyword = keyword.as_str();
        let within: Vec<String> = match value {
            Value::Object(_) if ONE.contains(&keyword) => vec![format!("{pointer}/{keyword}")],
            Value::Array(list) if LIST.contains(&keyword) => {
                let all = 0..list.len();
                all.map(|at| format!("{pointer}/{keyword}/{at}")).collect()
            }
            Value::Object(named) if NAMED.contains(&keyword) => {
                let names = named.keys().map(|name| escaped(name));
                names
                    .map(|name| format!("{pointer}/{keyword}/{name}"))
                    .collect()
            }
            _ => Vec::new(),
        };
        within.into_iter().map(move |child| (keyword, child))
    })
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn decoded(fragment: &str) -> String {
    let bytes = fragment.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
