//! A JSON answer that is handed on before it has come to its end.
//!
//! The beginning of every answer is gathered, and nearly all are over by then. Of a longer one the beginning must show that
//! it is ours (its id), that it is a result, and from a modern server that there is nothing left to do for it
//! (`resultType`); then the rest passes from the server's connection to the caller's, checked on its way. An answer whose
//! beginning does not show all that is gathered as before, so nothing of it reaches the caller unless all of it is good.

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

/// The answer that is waited for.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) id: u64,
    pub(super) revision: Revision,
    /// How long a piece of it may wait for the caller.
    pub(super) patience: Duration,
}

/// One that may be handed on.
pub(super) struct Large {
    pub(super) wire: Wire,
    pub(super) first: Bytes,
    pub(super) begun: Box<Begun>,
}

/// What its beginning shows.
pub(super) struct Begun {
    passing: Passing,
    /// The part of the beginning that belongs to the result.
    part: Range<usize>,
    patience: Duration,
}

impl Wanted {
    /// Looks at the beginning of an answer; nothing if the answer must be gathered. Boxed, for the futures of small calls
    /// have room for it.
    pub(super) fn judge(self, beginning: &[u8]) -> Option<Box<Begun>> {
        let mut passing = Passing::default();
        let part = passing.take(beginning).ok()?;
        let is_complete = match self.revision.is_modern() {
            true => passing.result_type() == ResultType::Complete,
            // Nothing that an older server says by that name means anything, but what it must not say does.
            false => passing.result_type() != ResultType::Unfinished,
        };
        let passes = passing.id() == Some(self.id) && passing.is_in_result() && is_complete;
        passes.then(|| {
            Box::new(Begun {
                passing,
                part,
                patience: self.patience,
            })
        })
    }
}

/// Hands the answer on, piece by piece, and says in the end what of it matters to us.
pub(super) async fn pass(inner: &Inner, call: &Call, large: Large) -> Result<Outcome, Fault> {
    let Large {
        mut wire,
        first,
        begun,
    } = large;
    let Begun {
        mut passing,
        part,
        patience,
    } = *begun;
    let feed = call.line.begin(first.slice(part), patience);
    drop(first);
    loop {
        // The call's deadline was for the beginning; from there on the server has that long for each piece.
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
    Ok(Outcome::Result(what_matters(&passing)))
}

/// The members of a result that has gone by which somebody still goes.
fn what_matters(passing: &Passing) -> Payload {
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
