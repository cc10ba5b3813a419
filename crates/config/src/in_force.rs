//! Every key of a configuration in force: its value, its line in the file, the variable it comes from, its reload rule.
//!
//! Keys are those of the normalised configuration, so values are shown as it shows them: credentials as `<hidden>`
//! or as the variable that they come from.

use serde_json::{Map, Value};

use crate::mistake::line_of;
use crate::normalised;
use crate::section::Reload;
use crate::sections::Config;
use crate::template;
use crate::tree::{Path, Tree};

/// One key and what it has.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyInForce {
    /// `limits.body_mb`, `backends.<name>.command`, `rbac.roles.<name>.permissions`.
    pub key: String,
    pub value: Value,
    /// Where the file sets it, from 1; `None`: it does not.
    pub line: Option<usize>,
    /// The environment variable that the value comes from.
    pub variable: Option<String>,
    /// `None`: a key of a backend, which a reload puts in force.
    pub reload: Option<Reload>,
}

impl Config {
    /// Every key in the order of the normalised configuration; `text` is the file.
    pub fn keys(&self, text: &str) -> Vec<KeyInForce> {
        let (tree, _) = Tree::parse(text);
        let rules = Self::rules();
        let mut keys = Vec::new();
        let mut walk = Walk {
            tree: &tree,
            text,
            rules: &rules,
            keys: &mut keys,
        };
        if let Value::Object(sections) = normalised(self) {
            walk.table(&sections, &Path::root(), "");
        }
        keys
    }
}

struct Walk<'a> {
    tree: &'a Tree,
    text: &'a str,
    rules: &'a [(String, Reload)],
    keys: &'a mut Vec<KeyInForce>,
}

impl Walk<'_> {
    fn table(&mut self, table: &Map<String, Value>, path: &Path, name: &str) {
        for (key, value) in table {
            let shown = shown_key(key);
            let name = match name {
                "" => shown,
                _ => format!("{name}.{shown}"),
            };
            self.value(value, &path.key(key), &name);
        }
    }

    fn value(&mut self, value: &Value, path: &Path, name: &str) {
        match value {
            Value::Object(table) if !table.is_empty() => self.table(table, path, name),
            Value::Array(items) if items.iter().any(Value::is_object) => {
                for (index, item) in items.iter().enumerate() {
                    let own = item["name"].as_str().map(shown_key);
                    let own = own.unwrap_or_else(|| index.to_string());
                    self.value(item, &path.index(index), &format!("{name}.{own}"));
                }
            }
            _ => self.leaf(value, path, name),
        }
    }

    fn leaf(&mut self, value: &Value, path: &Path, name: &str) {
        let rule = self.rules.iter().find(|(rule, _)| {
            let rest = name.strip_prefix(rule.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        let section = name.split('.').next().unwrap_or_default();
        let of_section = || {
            let begins = |rule: &str| rule.split('.').next() == Some(section);
            self.rules.iter().find(|(rule, _)| begins(rule))
        };
        // Tables of one kind have names or numbers before their keys; one rule is for all of them.
        let rule = rule.or_else(of_section).filter(|_| section != "backends");
        let literal = self.tree.at(path).and_then(Value::as_str);
        let variable = value.as_str().filter(|shown| literal != Some(shown));
        self.keys.push(KeyInForce {
            key: name.to_owned(),
            value: value.clone(),
            line: self.span(path).map(|span| line_of(self.text, &span)),
            variable: variable.and_then(variable_of),
            reload: rule.map(|(_, reload)| *reload),
        });
    }

    /// Where the file says it: under its own name, or under the name that takes a variable.
    fn span(&self, path: &Path) -> Option<std::ops::Range<usize>> {
        self.tree.key_span(path).or_else(|| {
            let (last, before) = path.steps().split_last()?;
            let before = before
                .iter()
                .fold(Path::root(), |path, step| path.key(step));
            let named = ["_ENV", "_env"].map(|end| before.key(&format!("{last}{end}")));
            named.iter().find_map(|path| self.tree.key_span(path))
        })
    }
}

/// The variable in what is shown of a value that comes from one.
fn variable_of(shown: &str) -> Option<String> {
    let name = shown.strip_prefix("<from ")?.strip_suffix('>')?;
    template::is_name(name).then(|| name.to_owned())
}

/// A key as TOML writes it.
fn shown_key(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !key.is_empty() && key.chars().all(is_bare) {
        true => key.to_owned(),
        false => Value::from(key).to_string(),
    }
}

/// A path as it is shown, with the names of tables in place of their numbers.
pub(crate) fn shown_path(tree: &Tree, path: &Path) -> String {
    let mut here = &tree.value;
    let mut shown: Vec<String> = Vec::new();
    for step in path.steps() {
        let (name, next) = match here {
            Value::Array(items) => {
                let item = step.parse().ok().and_then(|at: usize| items.get(at));
                let name = item.and_then(|item| item["name"].as_str());
                (name.map_or_else(|| step.clone(), shown_key), item)
            }
            _ => (shown_key(step), here.get(step)),
        };
        shown.push(name);
        here = next.unwrap_or(&Value::Null);
    }
    shown.join(".")
}
