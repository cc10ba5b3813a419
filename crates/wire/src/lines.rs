//! stdio framing: one JSON-RPC message per line.
//!
//! `LineDecoder` reads from the caller's chunk and keeps only the unfinished line, so its memory stays within the
//! bound, whatever the child writes. A line that is too long is reported as one error and skipped up to its newline.
//!
//! Not here: reading and writing (`sentinel-backends`, `sentinel-surfaces`), what a line means
//! (`envelope`).

use bytes::Bytes;

use crate::framing::{push_bounded, push_one_line};

/// A line exceeded the bound; it was skipped, and the next one is read as usual.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a line of {len} bytes is longer than the {max} allowed")]
pub struct LineTooLong {
    /// Length of the line without its line end.
    pub len: u64,
    pub max: usize,
}

/// Splits a byte stream into lines.
#[derive(Debug)]
pub struct LineDecoder {
    max_line: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The beginning of an unfinished line.
    Keeping(Vec<u8>),
    /// Within a line beyond the bound: counted, not kept.
    Skipping { len: u64, last: u8 },
}

impl LineDecoder {
    /// `max_line` bounds a line without its line end.
    pub fn new(max_line: usize) -> Self {
        Self {
            max_line,
            state: State::Keeping(Vec::new()),
        }
    }

    /// Takes the next line off the front of `input`; `None` once all of `input` is consumed.
    ///
    /// Blank lines are skipped, and CRLF ends a line as LF does.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<Result<Bytes, LineTooLong>> {
        while let Some(end) = memchr::memchr(b'\n', input) {
            let head = &input[..end];
            *input = &input[end + 1..];
            if let Some(line) = self.end_line(head) {
                return Some(line);
            }
        }
        self.keep(input);
        *input = &[];
        None
    }

    /// Ends the stream: a last line without a newline counts as a line.
    pub fn finish(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        self.end_line(&[])
    }

    /// Bytes skipped so far of a line beyond the bound. Such a line is reported at its newline; this shows one that
    /// never ends.
    pub fn skipping(&self) -> Option<u64> {
        match self.state {
            State::Keeping(_) => None,
            State::Skipping { len, .. } => Some(len),
        }
    }

    fn end_line(&mut self, head: &[u8]) -> Option<Result<Bytes, LineTooLong>> {
        if let State::Keeping(kept) = &self.state
            && kept.is_empty()
        {
            return self.whole_line(head);
        }
        self.keep(head);
        match std::mem::replace(&mut self.state, State::Keeping(Vec::new())) {
            State::Keeping(mut line) => {
                line.truncate(without_cr(&line).len());
                let verdict = self.judge(&line)?;
                Some(verdict.map(|()| Bytes::from(line)))
            }
            State::Skipping { len, last } => Some(Err(LineTooLong {
                len: len - u64::from(last == b'\r'),
                max: self.max_line,
            })),
        }
    }

    /// The common case: the line lies in one chunk and is copied once.
    fn whole_line(&self, line: &[u8]) -> Option<Result<Bytes, LineTooLong>> {
        let line = without_cr(line);
        let verdict = self.judge(line)?;
        Some(verdict.map(|()| Bytes::copy_from_slice(line)))
    }

    /// `None` for a blank line, which is neither a message nor an error.
    fn judge(&self, line: &[u8]) -> Option<Result<(), LineTooLong>> {
        if line.len() > self.max_line {
            return Some(Err(LineTooLong {
                len: line.len() as u64,
                max: self.max_line,
            }));
        }
        (!is_blank(line)).then_some(Ok(()))
    }

    fn keep(&mut self, bytes: &[u8]) {
        let Some(&newest) = bytes.last() else { return };
        match &mut self.state {
            State::Skipping { len, last } => {
                *len += bytes.len() as u64;
                *last = newest;
            }
            State::Keeping(line) => {
                let len = line.len() + bytes.len();
                // One more byte may be the CR of a CRLF.
                let with_cr = self.max_line.saturating_add(1);
                if len <= self.max_line || (len == with_cr && newest == b'\r') {
                    push_bounded(line, bytes, with_cr);
                } else {
                    self.state = State::Skipping {
                        len: len as u64,
                        last: newest,
                    };
                }
            }
        }
    }
}

/// Appends one message as one line.
pub fn push_line(out: &mut Vec<u8>, json: &[u8]) {
    out.reserve(json.len() + 1);
    push_one_line(out, json);
    out.push(b'\n');
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests;
