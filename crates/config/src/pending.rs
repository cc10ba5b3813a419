//! Keys that this version understands but does not act on yet.
//!
//! A gateway that starts without a protection its file asks for is unsafe, so those keys are mistakes;
//! the others are notices. Work that builds a feature deletes its rows.

use serde_json::Value;

use super::mistake::Mistake;
use super::tree::{Path, Tree};

/// When a row applies.
enum When {
    /// The file says anything here.
    Present,
    /// It says this word.
    Is(&'static str),
}

use When::{Is, Present};

/// Protections: starting without them would be unsafe. `*` stands for every element of an array.
const REFUSED: &[(&str, When, &str)] = &[
    ("backends.*.type", Is("postgres"), "PostgreSQL backends"),
    ("backends.*.type", Is("openapi"), "OpenAPI backends"),
];

/// The rest: worth a word, not worth a refusal.
const NOTICED: &[(&str, When)] = &[("console", Present)];

/// Mistakes about protections that this version lacks.
pub(crate) fn refused(tree: &Tree) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (pattern, when, feature) in REFUSED {
        for path in found(tree, pattern, when) {
            let message = format!("this version does not have {feature} yet");
            mistakes.push(
                Mistake::new(tree.key_span(&path), message)
                    .help("starting without it would leave out what the file asks for: remove it or wait for a later version"),
            );
        }
    }
    mistakes
}

/// Notices about the other keys.
pub(crate) fn noticed(tree: &Tree) -> Vec<String> {
    let mut notices = Vec::new();
    for (pattern, when) in NOTICED {
        if !found(tree, pattern, when).is_empty() {
            let shown = pattern.replace("backends.*.", "backends.");
            notices.push(format!(
                "`{shown}` is understood but has no effect in this version"
            ));
        }
    }
    notices
}

fn found(tree: &Tree, pattern: &str, when: &When) -> Vec<Path> {
    let mut paths = vec![(Path::root(), &tree.value)];
    for step in pattern.split('.') {
        paths = paths
            .into_iter()
            .flat_map(|(path, value)| match (step, value) {
                ("*", Value::Array(items)) => items
                    .iter()
                    .enumerate()
                    .map(|(i, item)| (path.index(i), item))
                    .collect(),
                _ => value
                    .get(step)
                    .map(|inner| (path.key(step), inner))
                    .into_iter()
                    .collect::<Vec<_>>(),
            })
            .collect();
    }
    paths.retain(|(_, value)| match when {
        Present => true,
        Is(word) => value == word,
    });
    paths.into_iter().map(|(path, _)| path).collect()
}
