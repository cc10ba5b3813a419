//! The catalog for models: `llms.txt`, in the format of llmstxt.org, and `llms-full.txt` with every definition.
//!
//! What backends say of their operations stands in quotes or on one line, so that nothing of it is taken for a heading.

use std::fmt::Write;

use percent_encoding::utf8_percent_encode;
use sentinel_core::cost::tokens;
use serde_json::Value;

use super::openapi::{SEGMENT, segment};
use super::shown::{Shown, Tool};
use super::ways::PathWay;

/// Of a description in `llms.txt`.
const SUMMARY_CHARS_MAX: usize = 160;

/// One definition.
struct Entry<'a> {
    name: &'a str,
    link: String,
    /// Verb and path.
    call: String,
    entry: &'a Value,
}

/// Definitions under one heading.
struct Section<'a> {
    heading: String,
    entries: Vec<Entry<'a>>,
}

fn sections(shown: &Shown) -> Vec<Section<'_>> {
    let mut all: Vec<Section<'_>> = Vec::new();
    for backend in &shown.backends {
        let tools = shown
            .tools
            .iter()
            .filter(|tool| tool.backend == backend.name);
        let entry = |tool: &'_ Tool| {
            let path = shown.rest(&format!("/{}", segment(&tool.name)));
            let verbs = if tool.is_read_only {
                "POST or GET"
            } else {
                "POST"
            };
            let by_name = tool.is_by_name.then(|| format!("{verbs} {path}"));
            let paths = tool.ways.paths.iter().map(PathWay::to_text);
            let methods = tool.ways.methods.iter();
            let methods = methods.map(|way| format!("JSON-RPC method {}", way.method));
            let ways: Vec<String> = by_name.into_iter().chain(paths).chain(methods).collect();
            let link = match (tool.is_by_name, tool.ways.paths.first()) {
                (false, Some(way)) => way.path.clone(),
                (false, None) => shown.mounts.rpc.clone().unwrap_or(path),
                (true, _) => path,
            };
            (ways.join(", "), link)
        };
        let entries: Vec<Entry<'_>> = tools
            .map(|tool| {
                let (call, link) = entry(tool);
                Entry {
                    name: &tool.name,
                    link,
                    call,
                    entry: &tool.entry,
                }
            })
            .collect();
        let heading = format!("Tools of {}", backend.name);
        all.push(Section { heading, entries });
    }
    let prompts = shown.prompts.iter().map(|prompt| {
        let path = shown.rest(&format!("/prompts/{}", segment(&prompt.name)));
        Entry {
            name: &prompt.name,
            call: format!("POST {path}"),
            link: path,
            entry: &prompt.entry,
        }
    });
    all.push(Section {
        heading: "Prompts".to_owned(),
        entries: prompts.collect(),
    });
    let read = |entry: &'_ Value, uri: &str| {
        let path = shown.rest(&format!("/resources/{}", utf8_percent_encode(uri, SEGMENT)));
        (
            format!("GET {path}"),
            path,
            entry.get("name").and_then(Value::as_str).map(str::to_owned),
        )
    };
    let resources = shown.resources.iter().filter_map(|entry| {
        let uri = entry.get("uri")?.as_str()?;
        let (call, link, _) = read(entry, uri);
        Some(Entry {
            name: uri,
            link,
            call,
            entry,
        })
    });
    all.push(Section {
        heading: "Resources".to_owned(),
        entries: resources.collect(),
    });
    let templates = shown.templates.iter().filter_map(|entry| {
        let template = entry.get("uriTemplate")?.as_str()?;
        let path = shown.rest("/resources/{uri}");
        let call = format!("GET {path}, the URI made by the template and percent-encoded");
        Some(Entry {
            name: template,
            link: shown.rest("/resources"),
            call,
            entry,
        })
    });
    all.push(Section {
        heading: "Resource templates".to_owned(),
        entries: templates.collect(),
    });
    all.retain(|section| !section.entries.is_empty());
    all
}

/// `llms.txt`.
pub(super) fn index(shown: &Shown) -> String {
    let sections = sections(shown);
    let mut out = head(shown, &sections);
    for section in &sections {
        let _ = writeln!(out, "\n## {}\n", line(&section.heading, usize::MAX));
        for Entry {
            name, link, entry, ..
        } in &section.entries
        {
            let summary = summary(entry);
            let colon = if summary.is_empty() { "" } else { ": " };
            let name = line(name, usize::MAX)
                .replace('[', "\\[")
                .replace(']', "\\]");
            let _ = writeln!(
                out,
                "- [{name}]({link}){colon}{summary} ({} tokens)",
                tokens(entry)
            );
        }
    }
    out.push_str("\n## Optional\n\n");
    for (name, link, about) in [
        (
            "Every definition",
            "/llms-full.txt",
            "descriptions and schemas",
        ),
        (
            "OpenAPI 3.1",
            "/openapi.json",
            "the same for generated clients",
        ),
        (
            "Problems",
            "/problems",
            "what refusals mean and what to do about them",
        ),
    ] {
        let _ = writeln!(out, "- [{name}]({link}): {about}");
    }
    out
}

/// `llms-full.txt`.
pub(super) fn full(shown: &Shown) -> String {
    let sections = sections(shown);
    let mut out = head(shown, &sections);
    for section in &sections {
        let _ = writeln!(out, "\n## {}", line(&section.heading, usize::MAX));
        for Entry {
            name, call, entry, ..
        } in &section.entries
        {
            let _ = writeln!(out, "\n### {}\n", line(name, usize::MAX));
            if let Some(text) = entry.get("description").and_then(Value::as_str) {
                push_quoted(text, &mut out);
                out.push('\n');
            }
            let _ = writeln!(out, "{call} ({} tokens)", tokens(entry));
            let _ = writeln!(out, "\n```json\n{entry}\n```");
        }
    }
    out
}

fn head(shown: &Shown, sections: &[Section<'_>]) -> String {
    let entries = || sections.iter().flat_map(|section| &section.entries);
    let (count, total) = (
        entries().count(),
        entries().map(|one| tokens(one.entry)).sum::<usize>(),
    );
    let elsewhere = match &*shown.elsewhere() {
        "" => String::new(),
        places => format!("They are offered over {places}, too. "),
    };
    format!(
        "# Sentinel Gateway\n\n> The tools, prompts and resources that this gateway offers you: {count} definitions, \
         {total} tokens in all.\n\n{elsewhere}Over HTTP, send the arguments of a tool as a JSON object; \
         its answer is JSON. A refusal is a problem document whose `hint` says what to do. The tokens of a definition are \
         a fourth of the characters of its entry in the list of MCP.\n"
    )
}

/// Appends a text as a quote. Every character that some reader takes for the end of a line ends one here, so that no part of
/// the text leaves the quote.
fn push_quoted(text: &str, out: &mut String) {
    let ends = [
        '\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}',
    ];
    for line in text.trim().split(ends) {
        let line: String = line.chars().filter(|c| !c.is_control()).collect();
        let _ = writeln!(out, "{}", format!("> {line}").trim_end());
    }
}

/// A description up to the end of its first sentence.
fn summary(entry: &Value) -> String {
    let member = |name: &str| entry.get(name).and_then(Value::as_str);
    let text = member("description")
        .or_else(|| member("title"))
        .unwrap_or_default();
    let text = line(text, usize::MAX);
    let first = text.split(". ").next().unwrap_or_default();
    line(first.trim_end_matches('.'), SUMMARY_CHARS_MAX)
}

/// A text on one line, of so many characters.
fn line(text: &str, max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let joined = words.join(" ");
    match joined.chars().count() > max {
        true => joined
            .chars()
            .take(max.saturating_sub(3))
            .chain("...".chars())
            .collect(),
        false => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_stays_in_its_quote_whatever_ends_its_lines() {
        let mut out = String::new();
        push_quoted(
            "one\r## two\r\n# three\u{2028}four\u{1b}[1m\n\nfive",
            &mut out,
        );
        assert_eq!(out, "> one\n> ## two\n>\n> # three\n> four[1m\n>\n> five\n");
    }
}
