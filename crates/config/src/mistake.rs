//! Mistakes in a configuration, and how they are shown.
//!
//! A mistake says what is wrong, where, what was expected and what to write instead. All mistakes of a
//! file travel together; nothing here decides what a mistake is.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::credentials;
use super::in_force::shown_path;
use super::tree::Tree;

/// Process exit code for a configuration that cannot be used.
pub const EXIT_CODE: u8 = 2;

const RED: Style = AnsiColor::Red.on_default().bold();
const BLUE: Style = AnsiColor::Blue.on_default().bold();
const BOLD: Style = Style::new().bold();

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    span: Option<Range<usize>>,
    message: String,
    expected: Option<String>,
    help: Option<String>,
    /// The line may hold a credential and is not repeated.
    hide_line: bool,
}

impl Mistake {
    pub fn new(span: Option<Range<usize>>, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
            expected: None,
            help: None,
            hide_line: false,
        }
    }

    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// Whether both point to the same line of the text.
    pub fn shares_line(&self, other: &Self, text: &str) -> bool {
        let line = |mistake: &Self| {
            mistake
                .span
                .as_ref()
                .map(|span| TextPosition::of(text, span).line)
        };
        line(self).is_some() && line(self) == line(other)
    }

    pub fn hide_line(mut self) -> Self {
        self.hide_line = true;
        self
    }
}

/// Every mistake of one file, in the order of the file.
#[derive(Debug)]
pub struct Mistakes {
    /// How the file is called, as the user wrote it.
    name: String,
    text: String,
    list: Vec<Mistake>,
    /// Where the gateway would keep its files: enough to find one that runs.
    data_dir: Option<PathBuf>,
}

impl Mistakes {
    pub fn new(name: impl Into<String>, text: impl Into<String>, mut list: Vec<Mistake>) -> Self {
        list.sort_by_key(|m| m.span.as_ref().map_or(0, |s| s.start));
        list.dedup();
        Self {
            name: name.into(),
            text: text.into(),
            list,
            data_dir: None,
        }
    }

    pub fn with_data_dir(self, data_dir: PathBuf) -> Self {
        Self {
            data_dir: Some(data_dir),
            ..self
        }
    }

    pub fn data_dir(&self) -> Option<&PathBuf> {
        self.data_dir.as_ref()
    }

    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// For people, with colours; the stream that prints it removes them where they do not belong.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for mistake in &self.list {
            self.render_one(&mut out, mistake)
                .expect("writing to a string cannot fail");
        }
        let count = match self.count() {
            1 => "1 mistake".to_owned(),
            n => format!("{n} mistakes"),
        };
        let _ = writeln!(
            out,
            "{RED}error{RED:#}{BOLD}: {count} in {}{BOLD:#}",
            self.name
        );
        out
    }

    fn render_one(&self, out: &mut String, mistake: &Mistake) -> fmt::Result {
        writeln!(out, "{RED}error{RED:#}{BOLD}: {}{BOLD:#}", mistake.message)?;
        let mut margin = String::new();
        if let Some(span) = &mistake.span {
            let place = TextPosition::of(&self.text, span);
            margin = " ".repeat(place.line.to_string().len());
            writeln!(
                out,
                "{margin}{BLUE}-->{BLUE:#} {}:{}:{}",
                self.name, place.line, place.column
            )?;
            writeln!(out, "{margin} {BLUE}|{BLUE:#}")?;
            if mistake.hide_line || credentials::line_has_secret(&place.text) {
                writeln!(
                    out,
                    "{BLUE}{} |{BLUE:#} (not shown: it may hold a credential)",
                    place.line
                )?;
            } else {
                writeln!(out, "{BLUE}{} |{BLUE:#} {}", place.line, place.text)?;
                let indent = " ".repeat(place.column - 1);
                let carets = "^".repeat(place.width);
                writeln!(out, "{margin} {BLUE}|{BLUE:#} {indent}{RED}{carets}{RED:#}")?;
            }
        } else {
            writeln!(out, "{BLUE}-->{BLUE:#} {}", self.name)?;
        }
        for (word, text) in [("expected", &mistake.expected), ("help", &mistake.help)] {
            if let Some(text) = text {
                writeln!(out, "{margin} {BLUE}={BLUE:#} {BOLD}{word}{BOLD:#}: {text}")?;
            }
        }
        writeln!(out)
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let one = |mistake: PlacedMistake<'_>| {
            json!({
                "file": self.name,
                "key": mistake.key,
                "line": mistake.line,
                "column": mistake.column,
                "message": mistake.message,
                "expected": mistake.expected,
                "help": mistake.help,
            })
        };
        Value::Array(self.placed().map(one).collect())
    }

    /// Each mistake with its place in the text.
    pub fn placed(&self) -> impl Iterator<Item = PlacedMistake<'_>> {
        let (tree, _) = Tree::parse(&self.text);
        self.list.iter().map(move |mistake| {
            let span = mistake.span.as_ref();
            let place = span.map(|span| TextPosition::of(&self.text, span));
            let path = span.and_then(|span| tree.path_at(span.start));
            PlacedMistake {
                message: &mistake.message,
                expected: mistake.expected.as_deref(),
                help: mistake.help.as_deref(),
                key: path.map(|path| shown_path(&tree, path)),
                line: place.as_ref().map(|place| place.line),
                column: place.as_ref().map(|place| place.column),
            }
        })
    }
}

/// A mistake and its place.
#[derive(Debug)]
pub struct PlacedMistake<'m> {
    pub message: &'m str,
    pub expected: Option<&'m str>,
    pub help: Option<&'m str>,
    /// As `backends.<name>.command`.
    pub key: Option<String>,
    /// From 1.
    pub line: Option<usize>,
    pub column: Option<usize>,
}

/// The line of a span, from 1.
pub(crate) fn line_of(text: &str, span: &Range<usize>) -> usize {
    TextPosition::of(text, span).line
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&anstream::adapter::strip_str(&self.render()).to_string())
    }
}

impl std::error::Error for Mistakes {}

/// A span as people count: lines and columns from one, in characters.
struct TextPosition {
    line: usize,
    column: usize,
    width: usize,
    text: String,
}

impl TextPosition {
    fn of(text: &str, span: &Range<usize>) -> Self {
        let floor = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (start, end) = (floor(span.start), floor(span.end.max(span.start)));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let shown = text[line_start..line_end].trim_end_matches('\r');
        let width = text[start..end.min(line_end).max(start)].chars().count();
        Self {
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            width: width.max(1),
            // A tab would move the carets.
            text: shown.replace('\t', " "),
        }
    }
}
