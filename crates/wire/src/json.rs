//! One pass over JSON text that checks grammar, depth and repeated keys, and locates members.
//!
//! The gateway forwards bytes, so it needs spans, not values. `serde_json`'s `RawValue` would give spans but accepts
//! any depth and nested duplicate keys, and checking those in a second pass costs more than the parse; hence one
//! hand-written scanner for all checks. It never recurses, so hostile nesting costs memory in proportion to the input
//! and no stack.
//!
//! Not here: what the members mean (`envelope`), decoding into types (`serde_json`, off the path).

mod canonical;
mod scanner;

pub use canonical::canonical;
pub use scanner::Scanner;
pub(crate) use scanner::plain_run;

use std::borrow::Cow;
use std::fmt;

/// A half-open byte range inside the scanned text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(start: usize, end: usize) -> Self {
        // Lossless: `Scanner::new` refuses texts that do not fit.
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    pub fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..self.end as usize]
    }

    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// Limits on a text beyond the grammar.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Deepest nesting allowed; the outermost container is level 1.
    pub depth_max: u32,
    /// Refuse an object that names a key twice, at any depth.
    pub unique_keys: bool,
}

impl Rules {
    /// For messages of callers: parser differences between us and a backend would allow bypassing checks.
    pub fn caller(depth_max: u32) -> Self {
        Self {
            depth_max,
            unique_keys: true,
        }
    }

    /// For messages of backends: any JSON passes unchanged.
    pub fn backend() -> Self {
        Self {
            depth_max: u32::MAX,
            unique_keys: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    NotUtf8,
    TooLong,
    Syntax(&'static str),
    TooDeep(u32),
    Duplicate(String),
}

/// Why a text was rejected, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub problem: Problem,
    pub at: usize,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::NotUtf8 => write!(f, "not UTF-8 at byte {}", self.at),
            Problem::TooLong => write!(f, "longer than 4 GiB"),
            Problem::Syntax(what) => write!(f, "{what} at byte {}", self.at),
            Problem::TooDeep(max) => {
                write!(f, "nested deeper than {max} levels at byte {}", self.at)
            }
            Problem::Duplicate(key) => {
                write!(
                    f,
                    "the key {key:?} appears twice in one object, at byte {}",
                    self.at
                )
            }
        }
    }
}

impl std::error::Error for Error {}

/// A member's name as spelled in the text, without the quotes.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub span: Span,
    escaped: bool,
}

impl Key {
    pub fn decode(self, text: &[u8]) -> Cow<'_, str> {
        decode_contents(self.span.of(text), self.escaped)
    }

    /// The name's bytes, decoded only where it holds escapes.
    pub fn name(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self.escaped {
            false => Cow::Borrowed(self.span.of(text)),
            true => Cow::Owned(self.decode(text).into_owned().into_bytes()),
        }
    }

    pub fn is(self, text: &[u8], name: &str) -> bool {
        match self.escaped {
            false => self.span.of(text) == name.as_bytes(),
            true => self.decode(text) == name,
        }
    }
}

/// The types of JSON value, recognised by their first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

impl Kind {
    /// Type of a value that was scanned before; `None` only for empty input.
    pub fn of(value: &[u8]) -> Option<Self> {
        Some(match value.first()? {
            b'{' => Self::Object,
            b'[' => Self::Array,
            b'"' => Self::String,
            b't' | b'f' => Self::Bool,
            b'n' => Self::Null,
            _ => Self::Number,
        })
    }
}

/// One member of an object: the key and the span of its value.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub key: Key,
    pub value: Span,
}

/// A shallow view of one object: its span and its members in order.
#[derive(Clone, Debug, Default)]
pub struct Object {
    pub span: Span,
    pub members: Vec<Member>,
}

impl Object {
    /// The span of the value of `name`. With repeated keys (backends only) the last one counts, as in the parsers
    /// that callers use.
    pub fn get(&self, text: &[u8], name: &str) -> Option<Span> {
        self.members
            .iter()
            .rev()
            .find(|m| m.key.is(text, name))
            .map(|m| m.value)
    }

    /// Reads the members of the object that is the whole of `text`.
    pub fn parse(text: &[u8], rules: Rules) -> Result<Self, Error> {
        let mut scanner = Scanner::new(text, rules)?;
        let mut members = Vec::with_capacity(8);
        let span = scanner.object(|s, key| {
            members.push(Member {
                key,
                value: s.value()?,
            });
            Ok(())
        })?;
        scanner.end()?;
        Ok(Self { span, members })
    }
}

/// Reads the elements of the array that is the whole of `text`.
pub fn elements(text: &[u8], rules: Rules) -> Result<Vec<Span>, Error> {
    let mut scanner = Scanner::new(text, rules)?;
    let mut spans = Vec::new();
    scanner.array(|s| {
        spans.push(s.value()?);
        Ok(())
    })?;
    scanner.end()?;
    Ok(spans)
}

/// The decoded text of a JSON string that was scanned before; `value` includes the quotes.
pub fn decode_string(value: &[u8]) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(decode_contents(
        inner,
        memchr::memchr(b'\\', inner).is_some(),
    ))
}

/// Appends `text` as a JSON string, quotes included.
pub fn encode_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing to a Vec cannot fail");
}

fn decode_contents(inner: &[u8], escaped: bool) -> Cow<'_, str> {
    if !escaped {
        return text(inner);
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.push_str(&text(&rest[..at]));
        rest = decode_escape(&rest[at + 1..], &mut out);
    }
    out.push_str(&text(rest));
    Cow::Owned(out)
}

/// The scanner has accepted it as UTF-8, so this never replaces a character.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// Decodes one escape after its backslash; a lone surrogate becomes U+FFFD.
fn decode_escape<'t>(rest: &'t [u8], out: &mut String) -> &'t [u8] {
    let Some((&kind, tail)) = rest.split_first() else {
        return rest;
    };
    let plain = match kind {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return decode_unicode(tail, out),
        other => other as char,
    };
    out.push(plain);
    tail
}

fn decode_unicode<'t>(tail: &'t [u8], out: &mut String) -> &'t [u8] {
    let hex = |t: &[u8]| {
        t.get(..4)
            .and_then(|h| std::str::from_utf8(h).ok())
            .and_then(|h| u16::from_str_radix(h, 16).ok())
    };
    let Some(first) = hex(tail) else { return tail };
    let tail = &tail[4..];
    let second = tail.strip_prefix(b"\\u").and_then(hex);
    match (char::decode_utf16([first]).next(), second) {
        (Some(Ok(c)), _) => {
            out.push(c);
            tail
        }
        (_, Some(low)) => match char::decode_utf16([first, low]).next() {
            Some(Ok(c)) => {
                out.push(c);
                &tail[6..]
            }
            _ => {
                out.push(char::REPLACEMENT_CHARACTER);
                tail
            }
        },
        _ => {
            out.push(char::REPLACEMENT_CHARACTER);
            tail
        }
    }
}

#[cfg(test)]
mod tests;
