//! One pass over JSON text that checks grammar, depth and repeated keys, and locates members.
//!
//! The gateway forwards bytes, so it needs spans, not values. `serde_json`'s `RawValue` would give spans but accepts
//! any depth and nested duplicate keys, and checking those in a second pass costs more than the parse; hence one
//! hand-written scanner for all checks. It never recurses, so hostile nesting costs memory in proportion to the input
//! and no stack.
//!
//! Not here: what the members mean (`envelope`), decoding into types (`serde_json`, off the path).

mod canonical;

pub use canonical::canonical;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use smallvec::SmallVec;

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

/// An object that is being read.
#[derive(Clone, Copy)]
enum Frame {
    Array,
    /// Index into `Scanner::keys` of this object's first key.
    Object(usize),
}

/// Inline capacities that most messages fit in, so that scanning one allocates nothing.
const KEYS_USUAL: usize = 16;
const DEPTH_USUAL: usize = 8;

pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
    rules: Rules,
    /// Keys of all open objects, innermost last.
    keys: SmallVec<[Key; KEYS_USUAL]>,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a [u8], rules: Rules) -> Result<Self, Error> {
        if text.len() > u32::MAX as usize {
            return Err(Error {
                problem: Problem::TooLong,
                at: 0,
            });
        }
        if let Err(bad) = std::str::from_utf8(text) {
            return Err(Error {
                problem: Problem::NotUtf8,
                at: bad.valid_up_to(),
            });
        }
        Ok(Self {
            text,
            at: 0,
            depth: 0,
            rules,
            keys: SmallVec::new(),
        })
    }

    /// The type of the next value.
    pub fn peek(&mut self) -> Option<Kind> {
        self.space();
        Kind::of(&self.text[self.at..])
    }

    /// Reads an object, handing each key to `member`, which must consume the value.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Key) -> Result<(), Error>,
    ) -> Result<Span, Error> {
        self.space();
        let start = self.at;
        self.expect(b'{', "expected an object")?;
        self.descend()?;
        let base = self.keys.len();
        if !self.closes(b'}') {
            loop {
                let key = self.key()?;
                member(self, key)?;
                if !self.comma_or(b'}')? {
                    break;
                }
            }
        }
        self.ascend_object(base)?;
        Ok(Span::new(start, self.at))
    }

    /// Reads an array, calling `element` once for each; it must consume the value.
    pub fn array(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<Span, Error> {
        self.space();
        let start = self.at;
        self.expect(b'[', "expected an array")?;
        self.descend()?;
        if !self.closes(b']') {
            loop {
                element(self)?;
                if !self.comma_or(b']')? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(Span::new(start, self.at))
    }

    /// Reads one value of any kind, checking everything inside it.
    pub fn value(&mut self) -> Result<Span, Error> {
        self.space();
        let start = self.at;
        let mut open: SmallVec<[Frame; DEPTH_USUAL]> = SmallVec::new();
        loop {
            self.space();
            match self.text.get(self.at) {
                Some(b'{') => {
                    self.at += 1;
                    self.descend()?;
                    let base = self.keys.len();
                    if self.closes(b'}') {
                        self.depth -= 1;
                    } else {
                        open.push(Frame::Object(base));
                        self.key()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    self.descend()?;
                    if self.closes(b']') {
                        self.depth -= 1;
                    } else {
                        open.push(Frame::Array);
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            // A value ended: close the containers that end here, then stand before the next value.
            loop {
                match open.last().copied() {
                    None => return Ok(Span::new(start, self.at)),
                    Some(Frame::Array) if self.comma_or(b']')? => break,
                    Some(Frame::Array) => self.depth -= 1,
                    Some(Frame::Object(_)) if self.comma_or(b'}')? => {
                        self.key()?;
                        break;
                    }
                    Some(Frame::Object(base)) => self.ascend_object(base)?,
                }
                open.pop();
            }
        }
    }

    /// Only white space may remain.
    pub fn end(&mut self) -> Result<(), Error> {
        self.space();
        if self.at == self.text.len() {
            Ok(())
        } else {
            self.fail("unexpected text after the end")
        }
    }

    fn scalar(&mut self) -> Result<(), Error> {
        match self.text.get(self.at) {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(_) => self.fail("expected a value"),
            None => self.fail("the text ends where a value should be"),
        }
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), Error> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            self.fail("expected a value")
        }
    }

    fn number(&mut self) -> Result<(), Error> {
        if self.text.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.text.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return self.fail("expected a digit"),
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Error> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
        }
        if self.at == start {
            self.fail("expected a digit")
        } else {
            Ok(())
        }
    }

    /// Reads a string and returns the span of its contents and whether it holds escapes.
    fn string(&mut self) -> Result<Key, Error> {
        self.expect(b'"', "expected a string")?;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_run(&self.text[self.at..]);
            match self.text.get(self.at) {
                Some(b'"') => {
                    let span = Span::new(start, self.at);
                    self.at += 1;
                    return Ok(Key { span, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.fail("control character in a string"),
                None => return self.fail("the text ends inside a string"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Error> {
        self.at += 1;
        match self.text.get(self.at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    match self.text.get(self.at) {
                        Some(c) if c.is_ascii_hexdigit() => self.at += 1,
                        _ => return self.fail("bad \\u escape"),
                    }
                }
            }
            _ => return self.fail("bad escape"),
        }
        Ok(())
    }

    /// Reads `"key" :` and remembers the key for the duplicate check.
    fn key(&mut self) -> Result<Key, Error> {
        self.space();
        let key = self.string()?;
        self.space();
        self.expect(b':', "expected ':'")?;
        if self.rules.unique_keys {
            self.keys.push(key);
        }
        Ok(key)
    }

    fn descend(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > self.rules.depth_max {
            return Err(Error {
                problem: Problem::TooDeep(self.rules.depth_max),
                at: self.at,
            });
        }
        Ok(())
    }

    /// Leaves an object and checks that its keys differ.
    fn ascend_object(&mut self, base: usize) -> Result<(), Error> {
        self.depth -= 1;
        if !self.rules.unique_keys {
            return Ok(());
        }
        if let Some(key) = first_duplicate(self.text, &self.keys[base..]) {
            let problem = Problem::Duplicate(key.decode(self.text).into_owned());
            return Err(Error {
                problem,
                at: key.span.start as usize,
            });
        }
        self.keys.truncate(base);
        Ok(())
    }

    /// After a value: `,` (true) or the closing byte (false).
    fn comma_or(&mut self, close: u8) -> Result<bool, Error> {
        self.space();
        match self.text.get(self.at) {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(&c) if c == close => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => self.fail("expected ',' or the end of the container"),
            None => self.fail("the text ends inside a container"),
        }
    }

    fn closes(&mut self, close: u8) -> bool {
        self.space();
        let yes = self.text.get(self.at) == Some(&close);
        self.at += usize::from(yes);
        yes
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Error> {
        if self.text.get(self.at) == Some(&byte) {
            self.at += 1;
            Ok(())
        } else {
            self.fail(what)
        }
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, Error> {
        Err(Error {
            problem: Problem::Syntax(what),
            at: self.at,
        })
    }
}

/// Length of the prefix without quote, backslash or control character. Eight bytes at a time, because most bytes of
/// large results are string contents.
pub(crate) fn plain_run(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let equals = |word: u64, byte: u8| {
        let x = word ^ (ONES * u64::from(byte));
        x.wrapping_sub(ONES) & !x
    };
    let mut done = 0;
    for chunk in text.chunks_exact(8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
        let below_space = word.wrapping_sub(ONES * 0x20) & !word;
        let hits = (below_space | equals(word, b'"') | equals(word, b'\\')) & HIGH;
        if hits != 0 {
            return done + (hits.trailing_zeros() / 8) as usize;
        }
        done += 8;
    }
    let rest = &text[done..];
    done + rest
        .iter()
        .position(|&c| c == b'"' || c == b'\\' || c < 0x20)
        .unwrap_or(rest.len())
}

/// Small objects are compared pairwise; large ones go through a keyed hash set, so that crafted keys cannot make this
/// quadratic.
fn first_duplicate(text: &[u8], keys: &[Key]) -> Option<Key> {
    const PAIRWISE_MAX: usize = 16;
    if keys.len() <= PAIRWISE_MAX {
        return keys.iter().enumerate().find_map(|(i, a)| {
            keys[..i]
                .iter()
                .any(|b| same_key(text, *a, *b))
                .then_some(*a)
        });
    }
    let mut seen = HashSet::with_capacity(keys.len());
    keys.iter()
        .find(|key| !seen.insert(key.decode(text)))
        .copied()
}

fn same_key(text: &[u8], a: Key, b: Key) -> bool {
    match a.escaped || b.escaped {
        false => a.span.of(text) == b.span.of(text),
        true => a.decode(text) == b.decode(text),
    }
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
