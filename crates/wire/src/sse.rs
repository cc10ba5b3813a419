//! Server-sent events, read and written.
//!
//! `Decoder` follows the WHATWG event-stream rules and works on chunks as they arrive: it keeps only the unfinished
//! line and the fields of the unfinished event, both within one bound. A payload within one chunk is a slice of that
//! chunk; to keep it for long (in a cache), copy it, or the whole chunk stays in memory.
//!
//! Two differences from a browser, both for MCP: an event without data is reported when it has an `id` or a `retry`
//! (the priming event of 2025-11-25), and bytes are not converted to UTF-8, since the JSON parser checks that.
//!
//! Not here: reconnecting and `Last-Event-ID` (`sentinel-backends`), which stream gets a message
//! (`sentinel-surfaces`).

use bytes::{Buf, Bytes};

use crate::framing::push_bounded;

mod write;

pub use write::{
    DATA_END, DATA_START, one_line, push_event, push_keep_alive, push_message, push_priming,
    push_retry,
};

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One event of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The `event` field, if there was one.
    pub event: Option<Bytes>,
    /// The `data` lines joined by LF; empty when there was none.
    pub data: Bytes,
    /// The `id` that this event set; `Some("")` resets the last one.
    pub id: Option<Bytes>,
    /// Milliseconds to wait before reconnecting.
    pub retry: Option<u64>,
}

impl Event {
    /// Whether this is a message: MCP names it `message` or not at all.
    pub fn is_message(&self) -> bool {
        match self.event.as_deref() {
            None => true,
            Some(name) => name.is_empty() || name == b"message",
        }
    }
}

/// An event exceeded the bound; it was skipped, and the next one is read as usual.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than the {max} bytes allowed")]
pub struct SseError {
    pub max: usize,
}

/// Splits a byte stream into events.
#[derive(Debug)]
pub struct Decoder {
    max_event: usize,
    /// The beginning of an unfinished line.
    partial: Vec<u8>,
    /// The last byte taken was a CR; a following LF belongs to it.
    after_cr: bool,
    /// Only the first line of a stream can begin with a byte order mark.
    first_line: bool,
    skipping: Skipping,
    fields: Fields,
}

/// Whether the rest of an oversized event is being skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skipping {
    No,
    /// At the beginning of a line: an empty line ends the event.
    AtLineStart,
    /// Within a line, which is therefore not empty.
    WithinLine,
}

/// The fields of the event that is being read.
#[derive(Debug, Default)]
struct Fields {
    event: Option<Bytes>,
    data: Data,
    id: Option<Bytes>,
    retry: Option<u64>,
    /// Bytes of the lines kept so far; this is bounded.
    size: usize,
}

#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    /// The common case: a slice of its chunk.
    One(Bytes),
    Joined(Vec<u8>),
}

impl Decoder {
    /// `max_event` bounds the lines of one event, field names included, line ends apart.
    pub fn new(max_event: usize) -> Self {
        Self {
            max_event,
            partial: Vec::new(),
            after_cr: false,
            first_line: true,
            skipping: Skipping::No,
            fields: Fields::default(),
        }
    }

    /// Takes the next event off the front of `input`; `None` once all of `input` is consumed.
    ///
    /// At the end of the stream an unfinished event is dropped with the decoder, as WHATWG requires.
    pub fn next(&mut self, input: &mut Bytes) -> Option<Result<Event, SseError>> {
        loop {
            if self.after_cr && !input.is_empty() {
                self.after_cr = false;
                if input[0] == b'\n' {
                    input.advance(1);
                }
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', input) else {
                return self.keep(input);
            };
            self.after_cr = input[end] == b'\r';
            let outcome = self.end_line(input, end);
            input.advance(end + 1);
            if outcome.is_some() {
                return outcome;
            }
        }
    }

    /// Whether the stream, ending here, would cut an event.
    pub fn is_mid_event(&self) -> bool {
        !self.partial.is_empty() || self.fields.size > 0 || self.skipping != Skipping::No
    }

    fn end_line(&mut self, input: &Bytes, end: usize) -> Option<Result<Event, SseError>> {
        match self.skipping {
            Skipping::No => {}
            Skipping::AtLineStart if end == 0 => {
                self.skipping = Skipping::No;
                return None;
            }
            Skipping::AtLineStart | Skipping::WithinLine => {
                self.skipping = Skipping::AtLineStart;
                return None;
            }
        }
        if !self.fits(end) {
            return self.too_large(Skipping::AtLineStart);
        }
        if self.partial.is_empty() {
            return self.line(input, &input[..end]);
        }
        push_bounded(&mut self.partial, &input[..end], self.max_event);
        let line = Bytes::from(std::mem::take(&mut self.partial));
        self.line(&line, &line)
    }

    /// Keeps the part of an unfinished line that is in `input`.
    fn keep(&mut self, input: &mut Bytes) -> Option<Result<Event, SseError>> {
        let rest = std::mem::take(input);
        if rest.is_empty() {
            return None;
        }
        if self.skipping != Skipping::No {
            self.skipping = Skipping::WithinLine;
            return None;
        }
        if !self.fits(rest.len()) {
            return self.too_large(Skipping::WithinLine);
        }
        push_bounded(&mut self.partial, &rest, self.max_event);
        None
    }

    fn fits(&self, more: usize) -> bool {
        self.fields.size + self.partial.len() + more <= self.max_event
    }

    fn too_large(&mut self, skipping: Skipping) -> Option<Result<Event, SseError>> {
        self.skipping = skipping;
        self.first_line = false;
        self.partial = Vec::new();
        self.fields = Fields::default();
        Some(Err(SseError {
            max: self.max_event,
        }))
    }

    /// One complete line, a part of `source`.
    fn line(&mut self, source: &Bytes, mut line: &[u8]) -> Option<Result<Event, SseError>> {
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            return std::mem::take(&mut self.fields).dispatch().map(Ok);
        }
        self.fields.take_line(source, line, self.max_event);
        None
    }
}

impl Fields {
    fn take_line(&mut self, source: &Bytes, line: &[u8], max: usize) {
        let (name, value) = split_field(line);
        match name {
            b"data" => self.data.push(source, value, max),
            b"event" => self.event = Some(source.slice_ref(value)),
            b"id" if memchr::memchr(0, value).is_none() => self.id = Some(source.slice_ref(value)),
            b"retry" => {
                self.retry = parse_millis(value).or(self.retry);
                return;
            }
            // A comment has an empty name. Neither comments nor unknown fields are kept, so keep-alives do not count
            // toward the bound.
            _ => return,
        }
        self.size += line.len();
    }

    fn dispatch(self) -> Option<Event> {
        if matches!(self.data, Data::None) && self.id.is_none() && self.retry.is_none() {
            return None;
        }
        Some(Event {
            event: self.event,
            data: self.data.into_bytes(),
            id: self.id,
            retry: self.retry,
        })
    }
}

impl Data {
    /// The joined text is shorter than its lines, so their bound covers it.
    fn push(&mut self, source: &Bytes, value: &[u8], max: usize) {
        let mut joined = match std::mem::take(self) {
            Data::None => {
                *self = Data::One(source.slice_ref(value));
                return;
            }
            Data::One(first) => first.to_vec(),
            Data::Joined(joined) => joined,
        };
        push_bounded(&mut joined, b"\n", max);
        push_bounded(&mut joined, value, max);
        *self = Data::Joined(joined);
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Data::None => Bytes::new(),
            Data::One(data) => data,
            Data::Joined(data) => Bytes::from(data),
        }
    }
}

/// Name and value of a line; one space after the colon is not part of the value.
fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    let Some(colon) = memchr::memchr(b':', line) else {
        return (line, &[]);
    };
    let value = &line[colon + 1..];
    (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
}

/// Digits only; other values, and those beyond 64 bits, are ignored.
fn parse_millis(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
