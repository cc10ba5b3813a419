//! What a tool says of itself: its name, its words, its hints.

use std::collections::HashMap;

use http::Method;
use serde_json::{Value, json};

use super::{METHODS, Maker};
use crate::openapi::document::{Document, flag, text};
use crate::openapi::operation::Source;

/// Longest name of a tool and longest description: models are given all of them.
const NAME_CHARS_MAX: usize = 64;
const WORDS_CHARS_MAX: usize = 2000;
/// Links of an operation that its description mentions.
const LINKS_MAX: usize = 8;

impl Maker<'_> {
    /// The operation's own id, or its method and path; a number tells equal ones apart.
    pub(super) fn name(&self, source: &Source<'_>) -> String {
        let plain = |text: &str| {
            let mut out = String::new();
            for c in text.chars() {
                match c {
                    c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => out.push(c),
                    _ if !out.ends_with('_') => out.push('_'),
                    _ => {}
                }
            }
            out.trim_matches('_')
                .chars()
                .take(NAME_CHARS_MAX)
                .collect::<String>()
        };
        let method = source.method.as_str().to_ascii_lowercase();
        let own = text(source.operation, "operationId")
            .map(plain)
            .unwrap_or_default();
        let base = match own.is_empty() {
            true => plain(&format!("{method}_{}", source.path)),
            false => own,
        };
        let mut name = base.clone();
        for n in 2.. {
            if !self.names.contains_key(&name) {
                break;
            }
            let number = format!("_{n}");
            name = format!("{:.1$}{number}", base, NAME_CHARS_MAX - number.len());
        }
        name
    }

    /// What a model reads: what it does, and what can be called with its answer.
    pub(super) fn words(&self, source: &Source<'_>) -> String {
        let operation = source.operation;
        let mut parts: Vec<String> = Vec::new();
        let summary = text(operation, "summary").unwrap_or_default().trim();
        let long = text(operation, "description").unwrap_or_default().trim();
        let both = [summary, long]
            .into_iter()
            .filter(|words| !words.is_empty());
        let both = both.filter(|words| *words != summary || !long.starts_with(summary));
        parts.extend(both.map(str::to_owned));
        if parts.is_empty() {
            parts.push(format!("{} {}", source.method, source.path));
        }
        if flag(operation, "deprecated") == Some(true) {
            parts.push("Deprecated.".to_owned());
        }
        let mut words = shortened(&parts.join("\n\n"), WORDS_CHARS_MAX);
        for hint in self.hints(operation) {
            words.push_str("\n\n");
            words.push_str(&hint);
        }
        words
    }

    /// The links of good answers, in words.
    fn hints(&self, operation: &Value) -> Vec<String> {
        let responses = self.document.members(operation.get("responses"));
        let good = responses.filter(|(status, _)| status.starts_with('2'));
        let links = good.flat_map(|(_, response)| self.document.members(response.get("links")));
        let hint = |(_, link): (&str, &Value)| {
            let named = text(link, "operationId").map(str::to_owned);
            let to = named.or_else(|| self.links.get(text(link, "operationRef")?).cloned())?;
            let given = link
                .get("parameters")
                .and_then(Value::as_object)
                .into_iter()
                .flatten();
            let given: Vec<String> = given
                .map(|(name, from)| {
                    let from = from
                        .as_str()
                        .map_or_else(|| from.to_string(), str::to_owned);
                    format!("{name} = {}", from.replace("$response.body#", "answer"))
                })
                .collect();
            let given = if given.is_empty() {
                String::new()
            } else {
                format!(" with {}", given.join(", "))
            };
            let words =
                text(link, "description").map(|words| format!(": {}", shortened(words, 200)));
            Some(format!("Then: {to}{given}{}", words.unwrap_or_default()))
        };
        links.filter_map(hint).take(LINKS_MAX).collect()
    }
}

/// Operation ids by `#/paths/~1a/get`.
pub(super) fn links(document: &Document) -> HashMap<String, String> {
    let paths = document.root.get("paths").and_then(Value::as_object);
    let mut out = HashMap::new();
    for (path, item) in paths.into_iter().flatten() {
        for method in METHODS {
            if let Some(id) = item.get(method).and_then(|one| text(one, "operationId")) {
                let escaped = path.replace('~', "~0").replace('/', "~1");
                out.insert(format!("#/paths/{escaped}/{method}"), id.to_owned());
            }
        }
    }
    out
}

pub(super) fn annotations(method: &Method) -> Value {
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let mut hints = json!({ "readOnlyHint": reads, "openWorldHint": true });
    if reads || matches!(*method, Method::PUT | Method::DELETE) {
        hints["idempotentHint"] = json!(true);
    }
    if !reads {
        // What a PUT or a PATCH replaces is lost as well, which is what no hint means.
        match *method {
            Method::DELETE => hints["destructiveHint"] = json!(true),
            Method::POST => hints["destructiveHint"] = json!(false),
            _ => {}
        }
    }
    hints
}

pub(super) fn shortened(words: &str, chars_max: usize) -> String {
    match words.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words.to_owned(),
    }
}
