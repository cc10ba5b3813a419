//! The file as a tree of values in which every value knows where it was written.
//!
//! TOML is read leniently: after a syntax error the rest is still read, so that one missing quote does
//! not hide the other mistakes. Values are held as JSON because the shape check walks them beside a
//! JSON Schema.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::Mistake;

/// The way to a value: keys, and decimal indexes into arrays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Path(Vec<String>);

impl Path {
    pub(crate) fn root() -> Self {
        Self::default()
    }

    /// A path written with dots; for keys that have none themselves.
    pub(crate) fn dotted(path: &str) -> Self {
        Self(path.split('.').map(str::to_owned).collect())
    }

    pub(crate) fn key(&self, key: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(key.to_owned());
        Self(steps)
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        self.key(&index.to_string())
    }

    pub(crate) fn steps(&self) -> &[String] {
        &self.0
    }
}

/// Where a value and its key were written.
#[derive(Debug, Clone)]
struct Spans {
    key: Range<usize>,
    value: Range<usize>,
}

/// The values of a file and their places.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) value: Value,
    spans: HashMap<Path, Spans>,
}

impl Tree {
    /// Reads as much as can be read; the mistakes are about syntax.
    pub(crate) fn parse(text: &str) -> (Self, Vec<Mistake>) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut mistakes: Vec<Mistake> = errors
            .iter()
            .map(|e| {
                let line = e.message().lines().collect::<Vec<_>>().join("; ");
                Mistake::new(e.span().or(Some(0..0)), format!("this is not TOML: {line}"))
            })
            .collect();
        let mut tree = Self::default();
        let value = tree.table(table.get_ref(), &Path::root(), &mut mistakes);
        tree.value = value;
        (tree, mistakes)
    }

    pub(crate) fn value_span(&self, path: &Path) -> Option<Range<usize>> {
        self.spans.get(path).map(|s| s.value.clone())
    }

    /// Where the key of this value was written; for array elements the element itself.
    pub(crate) fn key_span(&self, path: &Path) -> Option<Range<usize>> {
        self.spans.get(path).map(|s| s.key.clone())
    }

    /// What the file says here.
    pub(crate) fn at(&self, path: &Path) -> Option<&Value> {
        path.steps()
            .iter()
            .try_fold(&self.value, |here, step| match here {
                Value::Array(items) => items.get(step.parse::<usize>().ok()?),
                _ => here.get(step),
            })
    }

    /// The innermost value whose key or text is at this byte.
    pub(crate) fn path_at(&self, at: usize) -> Option<&Path> {
        let covers = |span: &Range<usize>| span.start <= at && at <= span.end;
        let here = self.spans.iter();
        let here = here.filter(|(_, spans)| covers(&spans.key) || covers(&spans.value));
        // Tables of a dotted header have the span of the header alone; the deepest one is meant.
        here.map(|(path, _)| path)
            .max_by_key(|path| (path.steps().len(), *path))
    }

    /// Whether the file says anything here.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.spans.contains_key(path)
    }

    fn table(&mut self, table: &DeTable<'_>, path: &Path, mistakes: &mut Vec<Mistake>) -> Value {
        let mut map = Map::new();
        for (key, value) in table {
            let here = path.key(key.get_ref());
            let spans = Spans {
                key: key.span(),
                value: value.span(),
            };
            self.spans.insert(here.clone(), spans);
            map.insert(
                key.get_ref().to_string(),
                self.value(value, &here, mistakes),
            );
        }
        Value::Object(map)
    }

    fn value(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        path: &Path,
        mistakes: &mut Vec<Mistake>,
    ) -> Value {
        match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => number.into(),
                    Err(_) => unusable(value, "this integer is too large", mistakes),
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => number.into(),
                _ => unusable(value, "this number is not finite", mistakes),
            },
            DeValue::Datetime(_) => unusable(value, "no key takes a date or time", mistakes),
            DeValue::Array(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let here = path.index(index);
                    self.spans.insert(
                        here.clone(),
                        Spans {
                            key: item.span(),
                            value: item.span(),
                        },
                    );
                    list.push(self.value(item, &here, mistakes));
                }
                Value::Array(list)
            }
            DeValue::Table(table) => self.table(table, path, mistakes),
        }
    }
}

/// A value that JSON cannot hold: reported here, and null to the shape check, which passes over it.
fn unusable(value: &Spanned<DeValue<'_>>, why: &str, mistakes: &mut Vec<Mistake>) -> Value {
    mistakes.push(Mistake::new(Some(value.span()), why));
    Value::Null
}
