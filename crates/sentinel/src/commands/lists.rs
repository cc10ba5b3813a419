//! What `tools`, `resources` and `prompts` share: ask, group by backend, align.

use std::io::IsTerminal;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use sentinel_core::ItemKind;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{EXIT_UNREACHABLE, one_line, plain, print, say, warn};
use crate::cli::{Global, List};
use crate::client::{self, Client, Listed, Wish};
use crate::progress;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
/// Names longer than this do not push everybody's description to the right.
const KEY_WIDTH_MAX: usize = 44;
/// A description says no more than this, wherever it goes.
const TEXT_MAX: usize = 160;

/// A kind of item and how one is shown.
pub(super) struct Section {
    pub(super) kind: ItemKind,
    pub(super) row: fn(&Value) -> Row,
}

/// What is said of an item beside its name.
#[derive(Default)]
pub(super) struct Row {
    pub(super) mark: Mark,
    pub(super) text: String,
}

/// A word worth seeing at a glance.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mark {
    #[default]
    None,
    ReadOnly,
    Destructive,
    Template,
}

impl Mark {
    fn word(self) -> &'static str {
        match self {
            Self::None => "",
            Self::ReadOnly => "read-only",
            Self::Destructive => "destructive",
            Self::Template => "template",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::None | Self::Template => DIM,
            Self::ReadOnly => AnsiColor::Green.on_default(),
            Self::Destructive => AnsiColor::Red.on_default(),
        }
    }
}

/// One item, ready to be laid out.
struct Shown<'a> {
    backend: Option<&'a str>,
    key: String,
    row: Row,
}

pub(super) fn run(
    global: &Global,
    args: &List,
    noun: &str,
    sections: &[Section],
) -> anyhow::Result<ExitCode> {
    let wish = Wish {
        backend: args.backend.as_deref(),
        tool: None,
    };
    client::with_client(global, &args.target, wish, async |client| {
        let mut lists = Vec::new();
        for section in sections {
            lists.push((section, client.list(section.kind)?));
        }
        complain(client, wish, noun);
        let text = match global.json {
            true => format!("{}\n", as_json(&lists)),
            false => grouped(client, noun, &lists, columns()),
        };
        if text.is_empty() {
            say(&format!("no {noun}s"));
        }
        let printed = print(&text)?;
        // What is remembered and built in is shown, but nothing that was asked for answers.
        Ok(match client.unreachable(wish) {
            Some(_) => ExitCode::from(EXIT_UNREACHABLE),
            None => printed,
        })
    })
}

/// Says which backends' items are not here.
pub(super) fn complain(client: &Client, wish: Wish<'_>, noun: &str) {
    let of_interest = |name: &str| wish.backend.is_none_or(|wanted| wanted == name);
    let troubles = client.troubles.iter().filter(|t| of_interest(&t.backend));
    for trouble in troubles {
        warn(&format!(
            "{}; its {noun}s may be missing (`sentinel doctor` says more)",
            cut(&trouble.words(), TEXT_MAX)
        ));
    }
}

/// Every item as it was sent, in the member that MCP names for it.
fn as_json(lists: &[(&Section, Vec<Listed>)]) -> String {
    let members: Vec<String> = lists
        .iter()
        .map(|(section, list)| {
            let items: Vec<&str> = list.iter().map(|item| item.raw.get()).collect();
            format!("\"{}\":[{}]", section.kind.list_member(), items.join(","))
        })
        .collect();
    indented(&format!("{{{}}}", members.join(",")))
}

fn grouped(
    client: &Client,
    noun: &str,
    lists: &[(&Section, Vec<Listed>)],
    columns: usize,
) -> String {
    let shown: Vec<Shown<'_>> = lists
        .iter()
        .flat_map(|(section, list)| list.iter().map(move |item| (section, item)))
        .map(|(section, item)| Shown {
            backend: item.backend.as_deref(),
            key: one_line(&item.key),
            row: (section.row)(&item.fields),
        })
        .collect();
    let keys = shown.iter().map(|item| item.key.chars().count()).max();
    let keys = keys.unwrap_or(0).min(KEY_WIDTH_MAX);
    let marks = shown.iter().map(|item| item.row.mark.word().len()).max();
    let marks = marks.unwrap_or(0);
    let mut out = String::new();
    let owners = client.backends().map(Some).chain([None]);
    for owner in owners {
        let own: Vec<_> = shown.iter().filter(|item| item.backend == owner).collect();
        if own.is_empty() {
            continue;
        }
        if let Some(name) = owner {
            let plural = if own.len() == 1 { "" } else { "s" };
            let count = format!("{} {noun}{plural}", own.len());
            out.push_str(&format!("{BOLD}{name}{BOLD:#}  {DIM}{count}{DIM:#}\n"));
        }
        for item in own {
            out.push_str(&line(&item.key, &item.row, keys, marks, columns));
        }
    }
    out
}

fn line(key: &str, row: &Row, keys: usize, marks: usize, columns: usize) -> String {
    let mut out = format!("  {key:keys$}");
    let mut used = 2 + key.chars().count().max(keys);
    if marks > 0 {
        let (word, style) = (row.mark.word(), row.mark.style());
        out.push_str(&format!("  {style}{word:marks$}{style:#}"));
        used += 2 + marks;
    }
    let room = columns.saturating_sub(used + 2).min(TEXT_MAX);
    let text = cut(&row.text, room.max(20));
    if !text.is_empty() {
        out.push_str(&format!("  {text}"));
    }
    format!("{}\n", out.trim_end())
}

/// On a terminal a row stays on its line; elsewhere nobody counts columns.
fn columns() -> usize {
    let out = std::io::stdout();
    if out.is_terminal() {
        progress::width(out)
    } else {
        usize::MAX
    }
}

/// At most so many characters, with a mark where something is missing.
fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(max.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// An item's description up to the end of its first sentence, else its title.
pub(super) fn summary(item: &Value) -> String {
    let member = |name: &str| item[name].as_str().filter(|text| !text.trim().is_empty());
    let text = member("description")
        .or_else(|| member("title"))
        .unwrap_or_default();
    first_sentence(&plain(text))
}

fn first_sentence(text: &str) -> String {
    let paragraph = text.trim().split("\n\n").next().unwrap_or_default();
    let joined = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    // "e.g. this" does not end a sentence; a capital letter after the stop begins the next one.
    let end = joined.match_indices(". ").find(|(at, _)| {
        let next = joined[at + 2..].chars().next();
        next.is_some_and(char::is_uppercase)
    });
    match end {
        Some((at, _)) => joined[..at].to_owned(),
        None => joined.trim_end_matches('.').to_owned(),
    }
}

/// JSON with line ends and indentation, every value byte for byte as it was.
pub(super) fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    let mut previous = ' ';
    let newline = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    for c in json.chars() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        if c.is_whitespace() {
            continue;
        }
        if matches!(c, '}' | ']') {
            depth = depth.saturating_sub(1);
            if !matches!(previous, '{' | '[') {
                newline(&mut out, depth);
            }
        } else if matches!(previous, '{' | '[') {
            newline(&mut out, depth);
        }
        out.push(c);
        match c {
            '"' => in_string = true,
            '{' | '[' => depth += 1,
            ',' => newline(&mut out, depth),
            ':' => out.push(' '),
            _ => {}
        }
        previous = c;
    }
    out
}

/// The same for a value that was kept as it was sent.
pub(super) fn indented_raw(raw: &RawValue) -> String {
    indented(raw.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_is_enough() {
        let check = |text: &str, first: &str| assert_eq!(first_sentence(text), first);
        check("Reads a file. Then more.", "Reads a file");
        check(
            "Uses e.g. curl\nto fetch.  Fast. ",
            "Uses e.g. curl to fetch",
        );
        check("One paragraph\n\nanother", "One paragraph");
        check("", "");
    }

    #[test]
    fn indenting_changes_no_value() {
        let json = r#"{"a":[1.0,12345678901234567890123,{}],"s":"x: {\"y\", \\","e":[]}"#;
        let shown = indented(json);
        insta::assert_snapshot!(shown, @r#"
        {
          "a": [
            1.0,
            12345678901234567890123,
            {}
          ],
          "s": "x: {\"y\", \\",
          "e": []
        }
        "#);
        assert_eq!(indented(&shown), shown);
    }

    #[test]
    fn a_line_is_cut_where_the_terminal_ends() {
        let row = Row {
            mark: Mark::ReadOnly,
            text: "a long description of what it does".into(),
        };
        let shown = anstream::adapter::strip_str(&line("key", &row, 5, 9, 40)).to_string();
        assert_eq!(shown, "  key    read-only  a long description…\n");
    }
}
