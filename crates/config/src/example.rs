//! `configs/example.toml`, made from the schema: every key with its documentation and its default.
//!
//! Keys whose default says little have an `example` in their section, which is shown in its place. Sections and keys
//! that exclude others, or whose presence means something, are marked as off and written behind a `#`.

use serde_json::Value;

use crate::schema::{OFF, annotated, resolve, settings};
use crate::sections::kinds;
use crate::shape::words;

const HEAD: &str = "\
# Every key of Sentinel's configuration, made from its declarations (crates/config) by `sentinel example`.
#
# Values are the defaults; names, addresses, commands and roles are examples. Lines that begin with `#` directly before a
# key or a bracket are switched off: sections whose presence means something, and keys that exclude one another.
#
# Times are seconds. Names ending in `_env` hold the name of an environment variable, never a secret. Relative paths start
# at this file's directory; `~` is the home directory. A reload applies every key but those that need a restart.
";
/// Comments are wrapped at this column.
const WIDTH: usize = 110;
/// Names of the backends of the example, one for each kind.
const NAMES: &[(&str, &str)] = &[
    ("http", "n8n"),
    ("stdio", "context7"),
    ("postgres", "shop"),
    ("openapi", "petstore"),
];

/// Keys with their schemas, in the order of their declarations.
type Keys = Vec<(String, Value)>;

/// The text of the example file.
pub fn example() -> String {
    let mut out = String::from(HEAD);
    for (name, section) in properties(annotated()) {
        if name == "backends" {
            backends(&mut out);
        } else if section["type"] == "array" {
            let each = resolve(&section["items"]);
            comment(&mut out, "\n", &text_of(&section));
            line(&mut out, is_off(each), &format!("[[{name}]]"));
            body(&mut out, &name, properties(each), is_off(each));
        } else {
            let section = resolve(&section).clone();
            let off = is_off(&section);
            comment(&mut out, "\n", &text_of(&section));
            table(&mut out, &name, properties(&section), off);
        }
    }
    out
}

fn backends(out: &mut String) {
    let all = properties(resolve(&annotated()["properties"]["backends"]["items"]));
    let mut generator = settings().into_generator();
    let kinds: Vec<_> = kinds(&mut generator)
        .into_iter()
        .map(|(word, own)| (word, own.to_value()))
        .collect();
    let is_own = |key: &str| {
        kinds
            .iter()
            .any(|(_, own)| own["properties"].get(key).is_some())
    };
    for (n, (word, own)) in kinds.iter().enumerate() {
        let name = NAMES.iter().find(|(kind, _)| kind == word);
        let mut keys: Keys = Vec::new();
        for (key, mut part) in all.iter().filter(|(key, _)| !is_own(key)).cloned() {
            let value = match key.as_str() {
                "name" => name.map_or(*word, |(_, name)| name),
                "type" => word,
                // Keys of every kind are shown once.
                _ if n > 0 => continue,
                _ => {
                    keys.push((key, part));
                    continue;
                }
            };
            if n > 0 {
                part = Value::Object(serde_json::Map::new());
            }
            part["examples"] = vec![value].into();
            keys.push((key, part));
        }
        // Its own keys follow the name and the type.
        keys.splice(2..2, properties(own));
        comment(out, "\n", &text_of(own));
        line(out, false, "[[backends]]");
        body(out, "backends", keys, false);
    }
}

/// A table with its keys; tables in it follow.
fn table(out: &mut String, name: &str, keys: Keys, off: bool) {
    // A section of tables only needs no header of its own.
    if keys.iter().any(|(_, part)| tables_in(part).is_none()) {
        line(out, off, &format!("[{name}]"));
    }
    body(out, name, keys, off);
}

fn body(out: &mut String, name: &str, keys: Keys, off: bool) {
    let (tables, plain): (Vec<_>, Vec<_>) = keys
        .into_iter()
        .partition(|(_, part)| tables_in(part).is_some());
    for (key, part) in plain {
        comment(out, "", &text_of(&part));
        let value = toml::Value::try_from(value_of(&part))
            .map_or_else(|e| e.to_string(), |v| v.to_string());
        line(out, off || is_off(&part), &format!("{key} = {value}"));
    }
    for (key, part) in tables {
        comment(out, "", &text_of(&part));
        for (inner, keys) in tables_in(&part).unwrap_or_default() {
            let name = [name, &key, &inner].map(str::to_owned);
            let name: Vec<_> = name.into_iter().filter(|step| !step.is_empty()).collect();
            table(out, &name.join("."), keys, off || is_off(&part));
        }
    }
}

/// The tables that a key holds, with their keys: one without a name, or those of its example.
fn tables_in(part: &Value) -> Option<Vec<(String, Keys)>> {
    let whole = resolve(part);
    if whole.get("properties").is_some() {
        return Some(vec![(String::new(), properties(whole))]);
    }
    let each = resolve(whole.get("additionalProperties")?);
    each.get("properties")?;
    let shown = value_of(part);
    let one = |(n, (name, values)): (usize, (&String, &Value))| {
        let mut keys = properties(each);
        for (key, part) in &mut keys {
            if let Some(value) = values.get(&*key) {
                part["examples"] = vec![value.clone()].into();
            }
            // The keys are explained once.
            if n > 0 {
                part["description"] = Value::Null;
            }
        }
        (name.clone(), keys)
    };
    Some(shown.as_object()?.iter().enumerate().map(one).collect())
}

fn properties(part: &Value) -> Keys {
    let properties = part["properties"].as_object().cloned();
    properties.unwrap_or_default().into_iter().collect()
}

fn value_of(part: &Value) -> Value {
    let example = part["examples"].get(0).or_else(|| part.get("default"));
    example.cloned().unwrap_or_default()
}

/// What is said about a key: its doc comment, and the words that it may have.
fn text_of(part: &Value) -> String {
    let text = part["description"].as_str().unwrap_or_default();
    match words(resolve(part)).join(", ") {
        words if words.is_empty() || text.is_empty() => text.to_owned(),
        words => format!("{text} One of {words}."),
    }
}

fn is_off(part: &Value) -> bool {
    part.get(OFF).is_some()
}

fn line(out: &mut String, off: bool, text: &str) {
    out.push_str(if off { "#" } else { "" });
    out.push_str(text);
    out.push('\n');
}

fn comment(out: &mut String, before: &str, text: &str) {
    out.push_str(before);
    let mut width = usize::MAX - WIDTH;
    for word in text.split_whitespace() {
        let fits = width + 1 + word.len() <= WIDTH;
        if fits {
            out.push(' ');
            width += 1;
        } else {
            if width <= WIDTH {
                out.push('\n');
            }
            out.push_str("# ");
            width = 2;
        }
        out.push_str(word);
        width += word.len();
    }
    if !text.is_empty() {
        out.push('\n');
    }
}
