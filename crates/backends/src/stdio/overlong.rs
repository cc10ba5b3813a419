//! Finds the request id of a line that is too long to be kept.
//!
//! A line beyond the bound is skipped while it arrives, but its call should fail at once rather than at its deadline.
//! Servers write the id either before the result or after it, so the first and last few bytes of a line contain it.
//! Only the exact spelling of an envelope counts: `"id":7` somewhere inside a result is not an id.

use bytes::Bytes;
use sentinel_wire::lines::LineTooLong;

use super::pipe::Line;

/// Enough for an envelope around a result: `{"jsonrpc":"2.0","id":9007199254740991,`.
const KEPT: usize = 64;

/// The two ends of a line that spans several reads.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Ends {
    /// Remembers the ends of an unfinished line; `part` is its newest piece.
    pub(crate) fn keep(&mut self, part: &[u8]) {
        let missing = KEPT.saturating_sub(self.head.len());
        self.head
            .extend_from_slice(&part[..part.len().min(missing)]);
        self.tail
            .extend_from_slice(&part[part.len().saturating_sub(KEPT)..]);
        self.tail.drain(..self.tail.len().saturating_sub(KEPT));
    }

    /// Completes the line; `read` is its part in the newest read, line end included.
    pub(crate) fn judge(&mut self, line: Result<Bytes, LineTooLong>, read: &[u8]) -> Line {
        let judged = match line {
            Ok(line) => Line::Whole(line),
            Err(error) => {
                self.keep(read);
                let id = id_in_head(&self.head).or_else(|| id_in_tail(&self.tail));
                Line::TooLong { error, id }
            }
        };
        self.head.clear();
        self.tail.clear();
        judged
    }
}

/// `{"jsonrpc":"2.0","id":N,` or `{"id":N,`, with or without spaces.
fn id_in_head(head: &[u8]) -> Option<u64> {
    let text: Vec<u8> = spaceless(head);
    let rest = text.strip_prefix(b"{")?;
    let rest = rest.strip_prefix(br#""jsonrpc":"2.0","#).unwrap_or(rest);
    let rest = rest.strip_prefix(br#""id":"#)?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    (rest.get(digits) == Some(&b',')).then(|| number(&rest[..digits]))?
}

/// `,"id":N}` or `,"jsonrpc":"2.0","id":N}` or `,"id":N,"jsonrpc":"2.0"}` at the very end. A single closing brace
/// follows, so it belongs to the outermost object.
fn id_in_tail(tail: &[u8]) -> Option<u64> {
    let text = spaceless(tail);
    let text = text.strip_suffix(b"}")?;
    let text = text.strip_suffix(br#","jsonrpc":"2.0""#).unwrap_or(text);
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (before, digits) = text.split_at(text.len() - digits);
    before.ends_with(br#","id":"#).then(|| number(digits))?
}

fn spaceless(text: &[u8]) -> Vec<u8> {
    text.iter()
        .copied()
        .filter(|b| !b.is_ascii_whitespace())
        .collect()
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The id found in a line that is cut into pieces of `step` bytes.
    fn found(line: &str, step: usize) -> Option<u64> {
        let mut ends = Ends::default();
        let mut pieces: Vec<&[u8]> = line.as_bytes().chunks(step).collect();
        let last = pieces.pop().unwrap();
        for piece in pieces {
            ends.keep(piece);
        }
        let error = LineTooLong {
            len: line.len() as u64,
            max: 10,
        };
        match ends.judge(Err(error), last) {
            Line::TooLong { id, .. } => id,
            Line::Whole(_) => panic!("judged an error as a line"),
        }
    }

    #[test]
    fn the_id_is_found_before_or_after_the_result() {
        let fill = "x".repeat(500);
        for (line, id) in [
            (
                format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{fill}"}}}}"#),
                Some(7),
            ),
            (
                format!(r#"{{"jsonrpc": "2.0", "id": 7, "result": {{"a":"{fill}"}}}}"#),
                Some(7),
            ),
            (format!(r#"{{"id":7,"result":{{"a":"{fill}"}}}}"#), Some(7)),
            (
                format!(r#"{{"result":{{"a":"{fill}"}},"jsonrpc":"2.0","id":7}}"#),
                Some(7),
            ),
            (
                format!(r#"{{"result":{{"a":"{fill}"}},"id":7,"jsonrpc":"2.0"}}"#),
                Some(7),
            ),
            (format!(r#"{{"result":{{"a":"{fill}","id":7}}}}"#), None),
            (
                format!(r#"{{"result":{{"a":["{fill}",{{"b":1,"id":7}}]}}}}"#),
                None,
            ),
            (format!(r#"{{"result":"{fill},\"id\":7}}"#), None),
        ] {
            for step in [1, 3, 64, 1000] {
                assert_eq!(found(&format!("{line}\n"), step), id, "{line} by {step}");
            }
        }
    }
}
