//! Texts of strangers in source code: as literals and as documentation, so that none of it becomes code.

use serde_json::Value;

use crate::commands::plain;

/// Of a longer description, the beginning is enough in an editor.
const DOC_CHARS_MAX: usize = 1000;

/// A string literal: everything but printable ASCII is escaped. The languages differ in how they write a character
/// `beyond` `\uffff`.
pub(super) fn quoted(text: &str, beyond: fn(u32) -> String) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match (c, u32::from(c)) {
            ('"' | '\\', _) => out.extend(['\\', c]),
            ('\n', _) => out.push_str("\\n"),
            (' '..='~', _) => out.push(c),
            (_, code @ ..=0xffff) => out.push_str(&format!("\\u{code:04x}")),
            (_, code) => out.push_str(&beyond(code)),
        }
    }
    out.push('"');
    out
}

/// A literal of a scalar.
pub(super) fn scalar(value: &Value, beyond: fn(u32) -> String) -> String {
    match value {
        Value::String(text) => quoted(text, beyond),
        other => other.to_string(),
    }
}

/// The lines of a description.
pub(super) fn doc_lines(text: &str) -> Vec<String> {
    let text = plain(text);
    let mut short: String = text.chars().take(DOC_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    let lines = short.trim().lines();
    lines
        .map(|line| line.trim_end().replace('\t', " "))
        .collect()
}

pub(super) fn is_python_keyword(name: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class",
        "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global",
        "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return",
        "try", "while", "with", "yield",
    ];
    KEYWORDS.contains(&name)
}
