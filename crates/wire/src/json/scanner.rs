//! The scanner: one pass over JSON text, without recursion.

use std::collections::HashSet;

use smallvec::SmallVec;

use super::{Error, Key, Kind, Problem, Rules, Span};

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
