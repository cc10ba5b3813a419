//! Names of generated code: made of what operations are called, valid in both languages, and each used once.

use std::collections::BTreeSet;

use super::text;

/// Longer ones are cut: nobody reads them.
const NAME_CHARS_MAX: usize = 80;

/// The names that are taken in one scope.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// A scope in which these mean something already.
    pub(super) fn new<'a>(reserved: impl IntoIterator<Item = &'a str>) -> Self {
        Self(reserved.into_iter().map(str::to_owned).collect())
    }

    /// A name of a type, `LikeThis`.
    pub(super) fn of_type(&mut self, wanted: &str) -> String {
        let mut name = String::new();
        for word in words(wanted) {
            let mut chars = word.chars();
            name.extend(chars.next().map(|first| first.to_ascii_uppercase()));
            name.push_str(chars.as_str());
        }
        self.take(started(name, "T"))
    }

    /// A name of a member, `like_this`: what was called is recognised in it.
    pub(super) fn of_member(&mut self, wanted: &str) -> String {
        let valid = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = wanted.chars().map(valid).collect();
        // Two underscores in front have a meaning of their own in Python.
        let name = name.trim_start_matches('_').to_owned();
        let name = started(name, "t_");
        match text::is_python_keyword(&name) {
            true => self.take(format!("{name}_")),
            false => self.take(name),
        }
    }

    fn take(&mut self, mut name: String) -> String {
        name.truncate(NAME_CHARS_MAX);
        let mut free = name.clone();
        let mut number = 2;
        while !self.0.insert(free.clone()) {
            free = format!("{name}_{number}");
            number += 1;
        }
        free
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty())
}

/// Begins it with a letter.
fn started(name: String, prefix: &str) -> String {
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => name,
        _ => format!("{prefix}{name}"),
    }
}
