//! Parses an HTTP/1.1 answer: the head, and where its body ends (RFC 9112).
//!
//! `httparse` parses the head; this module derives the framing of the body from it. The caller reads into one buffer
//! and takes from it, so a body within the buffer is a slice of it.
//!
//! An answer with ambiguous length is rejected: a wrong guess would read one answer as the next.
//!
//! Not here: sockets, pooling, what was delivered (`sentinel-backends`).

use std::mem::MaybeUninit;

use bytes::{Buf, Bytes, BytesMut};
use smallvec::SmallVec;

use crate::json::Span;

/// Header fields of one answer; more is refused.
const FIELDS_MAX: usize = 100;
/// Longest chunk-size line, extensions included.
const SIZE_LINE_BYTES_MAX: usize = 4 * 1024;
/// Trailers after the last chunk; they are read and dropped.
const TRAILER_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("the answer is not HTTP: {0}")]
    Head(httparse::Error),
    #[error("the head of the answer is larger than {0} bytes")]
    HeadTooLarge(usize),
    #[error("the answer says `{0}`, which nobody asked for")]
    Upgrade(u16),
    #[error("the length of the answer is not clear")]
    Length,
    #[error("the answer comes in a transfer coding other than `chunked`")]
    Coding,
    #[error("a chunk of the answer is malformed")]
    Chunk,
    #[error("the answer ended before its end")]
    CutShort,
}

/// The head of an answer.
#[derive(Debug)]
pub struct Head {
    pub status: u16,
    /// The connection may be reused once the body was read.
    pub keeps_alive: bool,
    text: Bytes,
    fields: SmallVec<[(Span, Span); 12]>,
}

impl Head {
    /// Takes a whole head, and the framing of its body, from the front of `buffer`; `None` if it is incomplete.
    /// Interim answers (1xx) are skipped.
    pub fn take(buffer: &mut BytesMut, bytes_max: usize) -> Result<Option<(Self, Body)>, Problem> {
        loop {
            let Some(head) = Self::parse(buffer, bytes_max)? else {
                return Ok(None);
            };
            match head.status {
                // We never offer an upgrade.
                101 => return Err(Problem::Upgrade(101)),
                100..=199 => continue,
                _ => {
                    let body = head.body()?;
                    return Ok(Some((head, body)));
                }
            }
        }
    }

    fn parse(buffer: &mut BytesMut, bytes_max: usize) -> Result<Option<Self>, Problem> {
        let mut room = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut answer = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut answer,
            buffer,
            &mut room,
        );
        let len = match parsed.map_err(Problem::Head)? {
            httparse::Status::Complete(len) if len <= bytes_max => len,
            httparse::Status::Partial if buffer.len() <= bytes_max => return Ok(None),
            _ => return Err(Problem::HeadTooLarge(bytes_max)),
        };
        let base = buffer.as_ptr() as usize;
        let span = |part: &[u8]| {
            let start = part.as_ptr() as usize - base;
            Span::new(start, start + part.len())
        };
        let status = answer.code.unwrap_or_default();
        let version = answer.version.unwrap_or_default();
        let fields = answer
            .headers
            .iter()
            .map(|field| (span(field.name.as_bytes()), span(field.value)))
            .collect();
        let mut head = Self {
            status,
            keeps_alive: false,
            fields,
            text: buffer.split_to(len).freeze(),
        };
        // HTTP/1.1 connections persist by default.
        head.keeps_alive = match version {
            0 => head.has_token("connection", "keep-alive"),
            _ => !head.has_token("connection", "close"),
        };
        Ok(Some(head))
    }

    /// The first field of this name, which must be given in lower case.
    pub fn get(&self, name: &'static str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// Every field of this name, which must be given in lower case.
    pub fn all(&self, name: &'static str) -> impl Iterator<Item = &[u8]> {
        self.fields
            .iter()
            .filter(|(field, _)| field.of(&self.text).eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value.of(&self.text))
    }

    fn has_token(&self, name: &'static str, token: &str) -> bool {
        self.all(name)
            .flat_map(tokens)
            .any(|t| t.eq_ignore_ascii_case(token.as_bytes()))
    }

    /// How the body ends, by RFC 9112 section 6.3.
    fn body(&self) -> Result<Body, Problem> {
        if matches!(self.status, 204 | 304) {
            return Ok(Body::Left(0));
        }
        let mut codings = self.all("transfer-encoding").flat_map(tokens);
        if let Some(coding) = codings.next() {
            // `Content-Length` beside `Transfer-Encoding` enables request smuggling.
            if self.get("content-length").is_some() {
                return Err(Problem::Length);
            }
            return match coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none() {
                true => Ok(Body::Chunked(Chunked::Size)),
                false => Err(Problem::Coding),
            };
        }
        let mut lengths = self.all("content-length").flat_map(tokens);
        let Some(length) = lengths.next() else {
            return Ok(Body::UntilClose);
        };
        if lengths.any(|other| other != length) {
            return Err(Problem::Length);
        }
        decimal(length).map(Body::Left).ok_or(Problem::Length)
    }
}

/// The members of a comma-separated list, empty ones included: callers must reject those.
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(|t| t.trim_ascii())
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all_digits.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

/// The unread part of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// A known number of bytes.
    Left(u64),
    Chunked(Chunked),
    /// Everything until the server closes the connection.
    UntilClose,
}

/// The position within a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunked {
    /// Before the size of a chunk.
    Size,
    /// Bytes of the chunk that are still to come.
    Data(u64),
    /// Before the line end after a chunk.
    DataEnd,
    /// After the last chunk; the bytes of trailers dropped so far.
    Trailer(usize),
    End,
}

/// The next part of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    Data(Bytes),
    /// The buffer is too short.
    Missing,
    End,
}

impl Body {
    /// Takes the available part from the front of `buffer`.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Piece, Problem> {
        match self {
            Self::Left(0) => Ok(Piece::End),
            Self::Left(left) => Ok(take(left, buffer)),
            Self::UntilClose => Ok(take(&mut { u64::MAX }, buffer)),
            Self::Chunked(at) => at.next(buffer),
        }
    }

    /// The server closed the connection and the buffer is used up.
    pub fn close(&mut self) -> Result<(), Problem> {
        match self {
            Self::UntilClose => {
                *self = Self::Left(0);
                Ok(())
            }
            whole if whole.is_over() => Ok(()),
            _ => Err(Problem::CutShort),
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self, Self::Left(0) | Self::Chunked(Chunked::End))
    }

    /// Bytes still to come, if known.
    pub fn left(&self) -> Option<u64> {
        match self {
            Self::Left(left) => Some(*left),
            Self::Chunked(_) | Self::UntilClose => None,
        }
    }
}

fn take(left: &mut u64, buffer: &mut BytesMut) -> Piece {
    if buffer.is_empty() {
        return Piece::Missing;
    }
    let len = usize::try_from(*left).map_or(buffer.len(), |left| left.min(buffer.len()));
    *left -= len as u64;
    Piece::Data(buffer.split_to(len).freeze())
}

impl Chunked {
    fn next(&mut self, buffer: &mut BytesMut) -> Result<Piece, Problem> {
        loop {
            *self = match self {
                Self::Size => {
                    let Some(line) = line(buffer, SIZE_LINE_BYTES_MAX)? else {
                        return Ok(Piece::Missing);
                    };
                    match size(&line)? {
                        0 => Self::Trailer(0),
                        size => Self::Data(size),
                    }
                }
                Self::Data(0) => Self::DataEnd,
                Self::Data(left) => return Ok(take(left, buffer)),
                Self::DataEnd => match buffer.first_chunk() {
                    Some(b"\r\n") => {
                        buffer.advance(2);
                        Self::Size
                    }
                    None if matches!(**buffer, [] | [b'\r']) => return Ok(Piece::Missing),
                    _ => return Err(Problem::Chunk),
                },
                Self::Trailer(dropped) => {
                    let Some(line) = line(buffer, TRAILER_BYTES_MAX - *dropped)? else {
                        return Ok(Piece::Missing);
                    };
                    match line.len() {
                        0 => Self::End,
                        len => Self::Trailer((*dropped + len + 2).min(TRAILER_BYTES_MAX)),
                    }
                }
                Self::End => return Ok(Piece::End),
            };
        }
    }
}

/// Takes one line without its end; `None` if it is incomplete.
fn line(buffer: &mut BytesMut, bytes_max: usize) -> Result<Option<BytesMut>, Problem> {
    match memchr::memchr(b'\n', buffer) {
        Some(at) if at > bytes_max => Err(Problem::Chunk),
        None if buffer.len() > bytes_max => Err(Problem::Chunk),
        None => Ok(None),
        Some(at) => {
            let mut line = buffer.split_to(at + 1);
            match line.ends_with(b"\r\n") {
                true => line.truncate(at - 1),
                false => return Err(Problem::Chunk),
            }
            Ok(Some(line))
        }
    }
}

/// The size at the beginning of a chunk. Extensions are ignored.
fn size(line: &[u8]) -> Result<u64, Problem> {
    let end = line.iter().position(|b| !b.is_ascii_hexdigit());
    let (digits, rest) = line.split_at(end.unwrap_or(line.len()));
    let is_clean = matches!(rest.trim_ascii_start(), [] | [b';', ..]);
    if digits.is_empty() || digits.len() > 15 || !is_clean {
        return Err(Problem::Chunk);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| Problem::Chunk)?;
    u64::from_str_radix(digits, 16).map_err(|_| Problem::Chunk)
}

#[cfg(test)]
mod tests;
