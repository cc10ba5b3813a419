//! Checks a response while it streams: large results are forwarded before they are complete.
//!
//! `json::Scanner` needs the whole text. This parser takes pieces, split anywhere, and accepts exactly what
//! `Message::parse` accepts as the response to a request whose result is an object. It reports which part of each
//! piece belongs to the result, and keeps only the few members that classify the answer, and one bit for every open
//! container.
//!
//! Not here: when a result may be streamed (`translate::is_verbatim`, and the reader of the answer).

use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::envelope::Id;
use crate::json::{Error, Problem, decode_string, plain_run};

/// The longest name or value that is recognised, escapes included; longer ones are unknown to us.
const NOTE_BYTES_MAX: usize = 96;

/// The `resultType` of a result. With repeated keys the last one counts, as everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultType {
    #[default]
    Unsaid,
    Complete,
    /// `input_required` or `task`: the gateway must act on it.
    Unfinished,
    Other,
}

/// Members of an envelope, each allowed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Version,
    Id,
    Params,
    Result,
    Other,
    /// `resultType` of the result.
    Type,
    /// `isError` of the result.
    IsError,
}

/// The position in the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a value.
    Value,
    /// After `[`.
    FirstElement,
    /// After `{`.
    FirstKey,
    /// After a comma in an object.
    Key,
    Colon,
    /// After a value in a container.
    Behind,
    /// Inside a string; true for a key.
    Text(bool, Escape),
    /// Inside a literal, with the bytes of it read so far.
    Word(&'static [u8], usize),
    Number(Digits),
    /// After the whole value.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    None,
    Begun,
    /// Hexadecimal digits still to come.
    Digits(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl Digits {
    /// The next position; `None` if the byte does not belong to the number.
    fn next(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Minus, b'0') => Self::Zero,
            (Self::Minus | Self::Whole, b'0'..=b'9') => Self::Whole,
            (Self::Zero | Self::Whole, b'.') => Self::Point,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Zero | Self::Whole | Self::Fraction, b'e' | b'E') => Self::E,
            (Self::E, b'+' | b'-') => Self::Sign,
            (Self::E | Self::Sign | Self::Exponent, b'0'..=b'9') => Self::Exponent,
            _ => return None,
        })
    }

    fn may_end(self) -> bool {
        matches!(
            self,
            Self::Zero | Self::Whole | Self::Fraction | Self::Exponent
        )
    }
}

/// Stack of open containers: one bit each, set for objects.
#[derive(Default)]
struct Open {
    bits: Vec<u64>,
    len: usize,
}

impl Open {
    fn push(&mut self, object: bool) {
        let (word, bit) = (self.len / 64, self.len % 64);
        if word == self.bits.len() {
            self.bits.push(0);
        }
        self.bits[word] = self.bits[word] & !(1 << bit) | u64::from(object) << bit;
        self.len += 1;
    }

    fn is_object(&self) -> bool {
        let last = self.len.wrapping_sub(1);
        self.bits
            .get(last / 64)
            .is_some_and(|word| word >> (last % 64) & 1 == 1)
    }
}

/// An incomplete UTF-8 sequence at the end of a piece.
#[derive(Default)]
struct Cut {
    bytes: [u8; 4],
    len: usize,
}

impl Cut {
    /// Checks the next piece; the error is the position at which the text ceases to be UTF-8.
    fn take(&mut self, piece: &[u8]) -> Result<(), usize> {
        let mut text = piece;
        while self.len > 0
            && let Some((first, rest)) = text.split_first()
        {
            self.bytes[self.len] = *first;
            self.len += 1;
            text = rest;
            match std::str::from_utf8(&self.bytes[..self.len]) {
                Ok(_) => self.len = 0,
                Err(cut) if cut.error_len().is_none() => {}
                Err(_) => return Err(0),
            }
        }
        let before = piece.len() - text.len();
        match std::str::from_utf8(text) {
            Ok(_) => Ok(()),
            Err(cut) if cut.error_len().is_none() => {
                let rest = &text[cut.valid_up_to()..];
                self.bytes[..rest.len()].copy_from_slice(rest);
                self.len = rest.len();
                Ok(())
            }
            Err(bad) => Err(before + bad.valid_up_to()),
        }
    }
}

/// A recognised name or value in its JSON spelling, collected across pieces.
#[derive(Default)]
struct Note {
    text: SmallVec<[u8; NOTE_BYTES_MAX]>,
    taking: bool,
    too_long: bool,
}

impl Note {
    fn begin(&mut self, taking: bool) {
        self.text.clear();
        self.too_long = false;
        self.taking = taking;
    }

    fn take(&mut self, text: &[u8]) {
        if !self.taking || self.too_long {
            return;
        }
        self.too_long = self.text.len() + text.len() > NOTE_BYTES_MAX;
        if !self.too_long {
            self.text.extend_from_slice(text);
        }
    }

    /// Empty if it was too long to be one that we know.
    fn end(&mut self) -> &[u8] {
        self.taking = false;
        match self.too_long {
            true => b"",
            false => &self.text,
        }
    }
}

/// The parser of one response.
pub struct Passing {
    at: usize,
    state: State,
    open: Open,
    cut: Cut,
    note: Note,
    /// The member whose value is next or being read.
    member: Member,
    seen: [bool; 4],
    version: bool,
    id: Option<Id>,
    /// Between the beginning and the end of the result.
    in_result: bool,
    result_type: ResultType,
    is_error: bool,
}

impl Default for Passing {
    fn default() -> Self {
        Self {
            at: 0,
            state: State::Value,
            open: Open::default(),
            cut: Cut::default(),
            note: Note::default(),
            member: Member::Other,
            seen: [false; 4],
            version: false,
            id: None,
            in_result: false,
            result_type: ResultType::Unsaid,
            is_error: false,
        }
    }
}

impl Passing {
    /// Bytes taken so far.
    pub fn len(&self) -> usize {
        self.at
    }

    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// The id, once read, if it is one of ours.
    pub fn id(&self) -> Option<u64> {
        self.id.as_ref().and_then(Id::as_u64)
    }

    /// The result has begun and has not ended.
    pub fn is_in_result(&self) -> bool {
        self.in_result
    }

    pub fn result_type(&self) -> ResultType {
        self.result_type
    }

    /// The result says `isError`.
    pub fn is_error(&self) -> bool {
        self.is_error
    }

    /// Takes the next piece and returns the part of it that belongs to the result.
    pub fn take(&mut self, piece: &[u8]) -> Result<Range<usize>, Error> {
        if let Err(at) = self.cut.take(piece) {
            return Err(Error {
                problem: Problem::NotUtf8,
                at: self.at + at,
            });
        }
        let mut part = match self.in_result {
            true => 0..piece.len(),
            false => piece.len()..piece.len(),
        };
        let mut i = 0;
        while i < piece.len() {
            let was_in_result = self.in_result;
            if let State::Text(_, Escape::None) = self.state {
                let plain = plain_run(&piece[i..]);
                self.note.take(&piece[i..i + plain]);
                i += plain;
                if i == piece.len() {
                    break;
                }
            }
            // The byte that ends a number belongs to the next token.
            if let State::Number(digits) = self.state
                && digits.next(piece[i]).is_none()
            {
                if !digits.may_end() {
                    return self.fail(i, "expected a digit");
                }
                self.value_ended();
            }
            self.byte(piece[i]).or_else(|what| self.fail(i, what))?;
            i += 1;
            match (was_in_result, self.in_result) {
                (false, true) => part.start = i - 1,
                (true, false) => part.end = i,
                _ => {}
            }
        }
        self.at += piece.len();
        Ok(part)
    }

    /// Ends the text.
    pub fn end(&self) -> Result<(), Error> {
        match self.state {
            State::End if self.cut.len > 0 => self.fail(0, "the text ends inside a character"),
            State::End if !self.version => self.fail(0, r#"jsonrpc must be "2.0""#),
            State::End if !self.seen[Member::Result as usize] => self.fail(0, "no result"),
            State::End => Ok(()),
            _ => self.fail(0, "the text ends before the message does"),
        }
    }

    fn fail<T>(&self, behind: usize, what: &'static str) -> Result<T, Error> {
        Err(Error {
            problem: Problem::Syntax(what),
            at: self.at + behind,
        })
    }

    fn byte(&mut self, byte: u8) -> Result<(), &'static str> {
        let is_space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        match self.state {
            State::Text(key, escape) => return self.text(key, escape, byte),
            State::Word(word, read) if word.get(read) == Some(&byte) => {
                self.note.take(&[byte]);
                match read + 1 == word.len() {
                    true => self.value_ended(),
                    false => self.state = State::Word(word, read + 1),
                }
            }
            State::Word(..) => return Err("expected a value"),
            State::Number(digits) => {
                let next = digits.next(byte).ok_or("expected a digit")?;
                self.note.take(&[byte]);
                self.state = State::Number(next);
            }
            _ if is_space => {}
            State::FirstElement if byte == b']' => self.container_ended(),
            State::Value | State::FirstElement => return self.value_begins(byte),
            State::FirstKey if byte == b'}' => self.container_ended(),
            State::FirstKey | State::Key if byte == b'"' => {
                let named = self.open.len == 1 || (self.open.len == 2 && self.in_result);
                self.note.begin(named);
                self.state = State::Text(true, Escape::None);
            }
            State::FirstKey | State::Key => return Err("expected a string"),
            State::Colon if byte == b':' => self.state = State::Value,
            State::Colon => return Err("expected ':'"),
            State::Behind => match (byte, self.open.is_object()) {
                (b',', true) => self.state = State::Key,
                (b',', false) => self.state = State::Value,
                (b'}', true) | (b']', false) => self.container_ended(),
                _ => return Err("expected ',' or the end of the container"),
            },
            State::End => return Err("unexpected text after the end"),
        }
        Ok(())
    }

    fn value_begins(&mut self, byte: u8) -> Result<(), &'static str> {
        if self.open.len == 0 && byte != b'{' {
            return Err("a message must be a JSON object");
        }
        if self.member == Member::Result {
            if byte != b'{' {
                return Err("its result is no object");
            }
            self.in_result = true;
            self.member = Member::Other;
        }
        if self.member == Member::Params && byte == b'{' {
            self.seen[Member::Params as usize] = true;
        }
        self.note
            .begin(!matches!(self.member, Member::Other) && !matches!(byte, b'{' | b'['));
        self.note.take(&[byte]);
        if matches!(byte, b'{' | b'[') {
            self.settle(SmallVec::new());
        }
        self.state = match byte {
            b'{' => {
                self.open.push(true);
                State::FirstKey
            }
            b'[' => {
                self.open.push(false);
                State::FirstElement
            }
            b'"' => State::Text(false, Escape::None),
            b't' => State::Word(b"true", 1),
            b'f' => State::Word(b"false", 1),
            b'n' => State::Word(b"null", 1),
            b'-' => State::Number(Digits::Minus),
            b'0' => State::Number(Digits::Zero),
            b'1'..=b'9' => State::Number(Digits::Whole),
            _ => return Err("expected a value"),
        };
        Ok(())
    }

    fn text(&mut self, key: bool, escape: Escape, byte: u8) -> Result<(), &'static str> {
        let next = match (escape, byte) {
            (Escape::None, b'"') => {
                if key {
                    self.state = State::Colon;
                    return self.named();
                }
                self.note.take(b"\"");
                self.value_ended();
                return Ok(());
            }
            (Escape::None, b'\\') => Escape::Begun,
            (Escape::None, _) => return Err("control character in a string"),
            (Escape::Begun, b'u') => Escape::Digits(4),
            (Escape::Begun, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Escape::None,
            (Escape::Begun, _) => return Err("bad escape"),
            (Escape::Digits(left), byte) if byte.is_ascii_hexdigit() => match left {
                1 => Escape::None,
                left => Escape::Digits(left - 1),
            },
            (Escape::Digits(_), _) => return Err("bad \\u escape"),
        };
        self.note.take(&[byte]);
        self.state = State::Text(key, next);
        Ok(())
    }

    /// Handles the end of a key of the envelope or of the result; other keys are ignored.
    fn named(&mut self) -> Result<(), &'static str> {
        if !self.note.taking {
            return Ok(());
        }
        let raw = self.note.end();
        let quoted = [b"\"", raw, b"\""].concat();
        let name = decode_string(&quoted).unwrap_or_default();
        if self.open.len == 2 {
            self.member = match &*name {
                "resultType" => Member::Type,
                "isError" => Member::IsError,
                _ => Member::Other,
            };
            return Ok(());
        }
        self.member = match &*name {
            "jsonrpc" => Member::Version,
            "id" => Member::Id,
            "params" => Member::Params,
            "result" => Member::Result,
            "error" => return Err("an error, and no result alone"),
            "method" => return Err("a message is either a request or a response"),
            _ => Member::Other,
        };
        let Some(seen) = self.seen.get_mut(self.member as usize) else {
            return Ok(());
        };
        // `params` of a response mean nothing; they count if they could.
        match std::mem::replace(seen, *seen || self.member != Member::Params) {
            true => Err("the envelope repeats a name"),
            false => Ok(()),
        }
    }

    fn value_ended(&mut self) {
        self.state = match self.open.len {
            0 => State::End,
            _ => State::Behind,
        };
        if self.note.taking {
            let raw = SmallVec::from_slice(self.note.end());
            self.settle(raw);
        }
    }

    /// Records the current member's value; none of the recorded members is a container.
    fn settle(&mut self, raw: SmallVec<[u8; NOTE_BYTES_MAX]>) {
        match (self.member, &raw[..]) {
            (Member::Version, raw) => self.version = raw == br#""2.0""#,
            (Member::Id, raw) => self.id = Id::from_raw(Bytes::copy_from_slice(raw)),
            (Member::IsError, raw) => self.is_error = raw == b"true",
            (Member::Type, br#""complete""#) => self.result_type = ResultType::Complete,
            (Member::Type, br#""input_required""# | br#""task""#) => {
                self.result_type = ResultType::Unfinished;
            }
            (Member::Type, _) => self.result_type = ResultType::Other,
            _ => {}
        }
        self.member = Member::Other;
    }

    fn container_ended(&mut self) {
        self.open.len -= 1;
        if self.open.len == 1 {
            self.in_result = false;
        }
        self.value_ended();
    }
}

#[cfg(test)]
mod tests;
