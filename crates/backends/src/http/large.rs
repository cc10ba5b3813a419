//! Passes on a JSON answer while it is still being received.
//!
//! The beginning of every answer is buffered, and nearly all answers are complete by then. The beginning of a longer
//! one must show our id, that it is a result, and from a modern server a `resultType` that needs no further work
//! here; then the rest streams from the server's connection to the caller's, checked on the way. Other answers are
//! buffered to the end, so the caller sees none of an answer that turns out to be invalid.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use sentinel_core::{Call, Fault, Kind};
use sentinel_wire::json::Rules;
use sentinel_wire::passing::ResultType;
use sentinel_wire::{Outcome, Passing, Payload, Revision};

use super::Inner;
use super::wire::Wire;
use crate::relay;

/// The expected answer.
#[derive(Clone, Copy)]
pub(super) struct ExpectedAnswer {
    pub(super) id: u64,
    pub(super) revision: Revision,
    /// How long a piece of it may wait for the caller.
    pub(super) patience: Duration,
}

/// An answer that is passed on while it arrives.
pub(super) struct LargeAnswer {
    pub(super) wire: Wire,
    pub(super) first: Bytes,
    pub(super) begun: Box<AnswerHead>,
}

/// What the beginning of an answer shows.
pub(super) struct AnswerHead {
    passing: Passing,
    /// The part of the result that the beginning contains.
    part: Range<usize>,
    patience: Duration,
}

impl ExpectedAnswer {
    /// Inspects the beginning of an answer; `None` if the answer must be buffered. Boxed to keep the futures of small
    /// calls small.
    pub(super) fn judge(self, beginning: &[u8]) -> Option<Box<AnswerHead>> {
        let mut passing = Passing::default();
        let part = passing.take(beginning).ok()?;
        let is_complete = match self.revision.is_modern() {
            true => passing.result_type() == ResultType::Complete,
            // `resultType` has no meaning in older revisions, but some results are not allowed there.
            false => passing.result_type() != ResultType::Unfinished,
        };
        let passes = passing.id() == Some(self.id) && passing.is_in_result() && is_complete;
        passes.then(|| {
            Box::new(AnswerHead {
                passing,
                part,
                patience: self.patience,
            })
        })
    }
}

/// Streams the answer piece by piece; returns the members that the gateway itself evaluates.
pub(super) async fn pass(inner: &Inner, call: &Call, large: LargeAnswer) -> Result<Outcome, Fault> {
    let LargeAnswer {
        mut wire,
        first,
        begun,
    } = large;
    let AnswerHead {
        mut passing,
        part,
        patience,
    } = *begun;
    let feed = call.line.begin(first.slice(part), patience);
    drop(first);
    loop {
        // The call's deadline covers the beginning; from here on each piece has that long.
        let next = tokio::time::timeout(inner.config.timeout, wire.chunk());
        let next = tokio::select! {
            biased;
            left = feed.unwanted() => return Err(left),
            next = next => next.map_err(|_| inner.timed_out())?,
        };
        let Some(piece) = next.map_err(cut_off)? else {
            break;
        };
        if passing.len() + piece.len() > inner.config.reply_bytes_max {
            return Err(too_large(inner.config.reply_bytes_max));
        }
        let part = passing.take(&piece).map_err(relay::bad_reply)?;
        if passing.result_type() == ResultType::Unfinished {
            return Err(relay::bad_reply("it turned into something else"));
        }
        feed.give(piece.slice(part)).await?;
    }
    passing.end().map_err(relay::bad_reply)?;
    inner.post.give_back(wire);
    Ok(Outcome::Result(evaluated_members(&passing)))
}

/// The members of a streamed result that later steps evaluate.
fn evaluated_members(passing: &Passing) -> Payload {
    let text: &'static [u8] = match passing.is_error() {
        true => br#"{"isError":true}"#,
        false => b"{}",
    };
    Payload::parse(Bytes::from_static(text), Rules::backend()).expect("what we wrote is JSON")
}

pub(super) fn too_large(bytes_max: usize) -> Fault {
    let text = format!(
        "the backend's answer is larger than the {bytes_max} bytes allowed (limits.reply_mb)"
    );
    Fault::new(Kind::BackendBadReply, text)
}

fn cut_off(error: std::io::Error) -> Fault {
    let text = "the connection to the backend was lost during its answer; the call has run";
    Fault::new(Kind::BackendUnavailable, text).because(error)
}
