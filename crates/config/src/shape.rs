//! Checks the shape of a file against the schema: known keys, types, words and ranges.
//!
//! What is wrong is reported and taken out of the tree, so that the rest can still be decoded and
//! checked further; the places taken out are remembered so that nobody reports them as missing.
//!
//! Not here: rules about the meaning of a value (`build`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::mistake::Mistake;
use super::schema::{resolve, schema};
use super::suggest::nearest;
use super::tree::{Path, Tree};

/// What the check found.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    pub(crate) mistakes: Vec<Mistake>,
    /// Values that were reported and taken out.
    pub(crate) removed: BTreeSet<Path>,
}

/// Checks the tree and takes out what is wrong.
pub(crate) fn check(tree: &mut Tree) -> Shape {
    let mut value = std::mem::take(&mut tree.value);
    let mut walk = Walk {
        tree,
        shape: Shape::default(),
        homes: &HOMES,
    };
    walk.check(schema(), &mut value, &Path::root());
    let shape = walk.shape;
    tree.value = value;
    shape
}

struct Walk<'a> {
    tree: &'a Tree,
    shape: Shape,
    /// Which sections have a key of this name.
    homes: &'a BTreeMap<String, Vec<String>>,
}

impl Walk<'_> {
    /// True if the value can stay.
    fn check(&mut self, schema: &Value, value: &mut Value, path: &Path) -> bool {
        let schema = resolve(schema);
        // Unusable, and reported when it was read.
        if value.is_null() {
            self.shape.removed.insert(path.clone());
            return false;
        }
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            let fitting = branches.iter().map(resolve).find(|b| type_fits(b, value));
            return match fitting {
                Some(branch) => self.check(branch, value, path),
                None => self.wrong_type(schema, value, path),
            };
        }
        if !type_fits(schema, value) {
            return self.wrong_type(schema, value, path);
        }
        match value {
            Value::Object(map) => self.table(schema, map, path),
            Value::Array(items) => self.array(schema, items, path),
            Value::String(word) => self.word(schema, word, path),
            Value::Number(_) => self.range(schema, value, path),
            _ => true,
        }
    }

    fn table(&mut self, schema: &Value, map: &mut Map<String, Value>, path: &Path) -> bool {
        let required = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for key in required
            .filter_map(Value::as_str)
            .filter(|key| !map.contains_key(*key))
        {
            self.shape.removed.insert(path.key(key));
            let span = self.tree.key_span(path);
            self.shape.mistakes.push(
                Mistake::new(span, format!("`{key}` is missing{}", of(path)))
                    .maybe_help(missing_help(key, map)),
            );
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").filter(|o| o.is_object());
        map.retain(|key, value| {
            let here = path.key(key);
            match properties.and_then(|p| p.get(key)).or(others) {
                Some(inner) => self.check(inner, value, &here),
                None => self.unknown(key, properties, path),
            }
        });
        true
    }

    /// An array with a wrong element is taken out whole: positions are addresses here.
    fn array(&mut self, schema: &Value, items: &mut [Value], path: &Path) -> bool {
        let mut good = true;
        for (index, item) in items.iter_mut().enumerate() {
            good &= self.check(&schema["items"], item, &path.index(index));
        }
        if !good {
            self.shape.removed.insert(path.clone());
        }
        good
    }

    fn word(&mut self, schema: &Value, word: &str, path: &Path) -> bool {
        let known = words(schema);
        if known.is_empty() || known.contains(&word) {
            return true;
        }
        let help = nearest(word, known.iter().copied()).map(|w| format!("did you mean \"{w}\"?"));
        let message = format!("`{}` cannot be \"{word}\"", last(path));
        self.wrong(path, message, expected(schema), help)
    }

    fn range(&mut self, schema: &Value, value: &Value, path: &Path) -> bool {
        let number = value.as_f64().unwrap_or(f64::NAN);
        let (low, high) = bounds(schema);
        if number >= low && number <= high {
            return true;
        }
        let message = format!("`{}` cannot be {value}", last(path));
        self.wrong(path, message, expected(schema), None)
    }

    fn wrong_type(&mut self, schema: &Value, value: &Value, path: &Path) -> bool {
        let message = format!("`{}` is {} here", last(path), kind(value));
        let help = match value {
            Value::String(text) if is_numeric(schema) => number_in(text),
            Value::Object(_) if schema["type"] == "array" && path.steps().len() == 1 => Some(
                format!("write [[{0}]], not [{0}]: there may be many", last(path)),
            ),
            Value::String(text) if schema["type"] == "array" => Some(format!("write [\"{text}\"]")),
            // `[rate_limits.per_tool]` with `n8n.run = 5`: to TOML a dot begins a table.
            Value::Object(inner) if is_numeric(schema) => inner.keys().next().map(|key| {
                let whole = format!("{}.{key}", last(path));
                format!("a name with a dot needs quotes: \"{whole}\"")
            }),
            _ => None,
        };
        self.wrong(path, message, expected(schema), help)
    }

    fn unknown(&mut self, key: &str, known: Option<&Map<String, Value>>, path: &Path) -> bool {
        let here = path.key(key);
        let known = known.into_iter().flatten().map(|(key, _)| key.as_str());
        let elsewhere = || {
            let homes = self.homes.get(key)?;
            Some(format!("`{key}` belongs in {}", homes.join(" or ")))
        };
        let slip = || {
            let (name, homes) = self
                .homes
                .get_key_value(nearest(key, self.homes.keys().map(String::as_str))?)?;
            Some(format!("did you mean `{name}` in {}?", homes.join(" or ")))
        };
        let near = nearest(key, known).map(|near| format!("did you mean `{near}`?"));
        let help = near.or_else(elsewhere).or_else(slip);
        let span = self.tree.key_span(&here);
        let message = format!("unknown key `{key}`{}", of(path));
        self.shape
            .mistakes
            .push(Mistake::new(span, message).maybe_help(help));
        self.shape.removed.insert(here);
        false
    }

    fn wrong(
        &mut self,
        path: &Path,
        message: String,
        expected: String,
        help: Option<String>,
    ) -> bool {
        let span = self.tree.value_span(path);
        let mistake = Mistake::new(span, message)
            .expected(expected)
            .maybe_help(help);
        self.shape.mistakes.push(mistake);
        self.shape.removed.insert(path.clone());
        false
    }
}

fn type_fits(schema: &Value, value: &Value) -> bool {
    let schema = resolve(schema);
    let Some(wanted) = schema.get("type").and_then(Value::as_str) else {
        return words(schema).is_empty() || value.is_string();
    };
    match wanted {
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}

/// The words that an enumeration permits; empty if it is none.
pub(crate) fn words(schema: &Value) -> Vec<&str> {
    let listed = schema
        .get("enum")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let described = schema
        .get("oneOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    listed
        .chain(described.filter_map(|v| v.get("const")))
        .filter_map(Value::as_str)
        .collect()
}

fn bounds(schema: &Value) -> (f64, f64) {
    let (low, high) = match schema.get("format").and_then(Value::as_str) {
        Some("uint32") => (0.0, f64::from(u32::MAX)),
        Some("int32") => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => (f64::MIN, f64::MAX),
    };
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    (
        bound("minimum").unwrap_or(low),
        bound("maximum").unwrap_or(high),
    )
}

fn is_numeric(schema: &Value) -> bool {
    matches!(schema["type"].as_str(), Some("integer" | "number"))
}

fn expected(schema: &Value) -> String {
    let known = words(schema);
    if !known.is_empty() {
        let known: Vec<_> = known.iter().map(|w| format!("\"{w}\"")).collect();
        return format!("one of {}", known.join(", "));
    }
    if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
        return branches
            .iter()
            .map(|b| expected(resolve(b)))
            .collect::<Vec<_>>()
            .join(" or ");
    }
    let range = || {
        let low = schema.get("minimum")?;
        let high = schema.get("maximum")?;
        Some(format!(" from {low} to {high}"))
    };
    match schema["type"].as_str().unwrap_or("table") {
        "string" => "a string".into(),
        "integer" => format!("a whole number{}", range().unwrap_or_default()),
        "number" => format!("a number{}", range().unwrap_or_default()),
        "boolean" => "true or false".into(),
        "array" => format!("an array of {}", plural(resolve(&schema["items"]))),
        _ => "a table".into(),
    }
}

fn plural(schema: &Value) -> &'static str {
    if schema["type"] == "object" {
        "tables"
    } else {
        "strings"
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Number(n) if n.is_f64() => "a number with a fraction",
        Value::Number(_) => "a number",
        Value::Bool(_) => "true or false",
        Value::Array(_) => "an array",
        Value::Object(_) => "a table",
        Value::Null => "nothing",
    }
}

/// The number that someone put in quotes or gave a unit.
fn number_in(text: &str) -> Option<String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    digits.parse::<f64>().ok()?;
    if digits == text {
        return Some(format!("write it without quotes: {digits}"));
    }
    Some(format!(
        "write a plain number without a unit, such as {digits}; the key says the unit"
    ))
}

fn missing_help(key: &str, map: &Map<String, Value>) -> Option<String> {
    let guess = if map.contains_key("command") {
        "stdio"
    } else {
        "http"
    };
    (key == "type").then(|| format!("write type = \"{guess}\""))
}

fn last(path: &Path) -> &str {
    // The name of an array is more telling than the position in it.
    let named = path
        .steps()
        .iter()
        .rev()
        .find(|step| step.parse::<usize>().is_err());
    named.map_or("", String::as_str)
}

/// " in [section]", or nothing at the top.
fn of(path: &Path) -> String {
    match section(path.steps()) {
        section if section.is_empty() => String::new(),
        section => format!(" in {section}"),
    }
}

/// A section as it is written in the file.
fn section(steps: &[String]) -> String {
    match steps {
        [] => String::new(),
        [one, index] if index.parse::<usize>().is_ok() => format!("[[{one}]]"),
        many => {
            let named: Vec<&str> = many
                .iter()
                .filter(|s| s.parse::<usize>().is_err())
                .map(String::as_str)
                .collect();
            format!("[{}]", named.join("."))
        }
    }
}

static HOMES: LazyLock<BTreeMap<String, Vec<String>>> = LazyLock::new(homes);

/// Which sections have a key of this name, by walking the schema once.
fn homes() -> BTreeMap<String, Vec<String>> {
    fn walk(part: &Value, steps: &[String], homes: &mut BTreeMap<String, Vec<String>>) {
        let part = resolve(part);
        let at = |step: &str| [steps, &[step.to_owned()]].concat();
        for (key, inner) in part
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            if !steps.is_empty() {
                homes.entry(key.clone()).or_default().push(section(steps));
            }
            walk(inner, &at(key), homes);
        }
        if let Some(items) = part.get("items") {
            walk(items, &at("0"), homes);
        }
        if let Some(inner) = part
            .get("additionalProperties")
            .filter(|inner| inner.is_object())
        {
            walk(inner, &at("<name>"), homes);
        }
    }
    let mut homes = BTreeMap::new();
    walk(schema(), &[], &mut homes);
    // `value` of a literal is no section's key.
    homes.remove("value");
    homes
}
