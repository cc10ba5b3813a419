//! How requests end, as records and metrics name it.

use sentinel_wire::Outcome;

use super::super::UNKNOWN;
use crate::fault::{Fault, Kind};
use crate::metrics::STATUSES;
use crate::reply::Reply;

/// All values of a record's `outcome`: the outcomes of requests, and two of `sync`, for a call that was begun and one
/// whose end is unknown.
pub const OUTCOMES: [&str; STATUSES.len() + 2] = {
    let mut all = ["intent"; STATUSES.len() + 2];
    all[STATUSES.len() + 1] = UNKNOWN;
    let mut at = 0;
    while at < STATUSES.len() {
        all[at] = STATUSES[at];
        at += 1;
    }
    all
};

/// The kind in records of answers that were sent again.
pub(super) const REPLAYED: &str = "replayed";

/// The outcome of a request.
#[derive(Clone, Copy)]
pub enum Ending {
    /// The gateway or the backend answered.
    Success,
    /// The backend's tool set `isError`, or the backend answered with an error of its own.
    BackendError,
    /// The caller is asked for input.
    InputRequired,
    /// The answer to an earlier request was sent again; no call was made.
    Replayed {
        /// That answer was an error.
        is_error: bool,
    },
    Refused(Kind),
}

impl Ending {
    pub fn of(outcome: &Result<Reply, Fault>) -> Self {
        match outcome {
            Err(fault) => Self::Refused(fault.kind),
            Ok(Reply {
                outcome: Outcome::Error(_),
                ..
            }) => Self::BackendError,
            Ok(Reply {
                outcome: Outcome::Result(result),
                ..
            }) => {
                if result.get("isError") == Some(b"true") {
                    Self::BackendError
                } else if result.get("resultType") == Some(br#""input_required""#) {
                    Self::InputRequired
                } else {
                    Self::Success
                }
            }
        }
    }

    /// Outcome and kind, as named in records and metrics.
    pub(super) fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::Success => ("success", ""),
            Self::BackendError => ("error", "backend_error"),
            Self::InputRequired => ("input_required", ""),
            Self::Replayed { is_error: false } => ("success", REPLAYED),
            Self::Replayed { is_error: true } => ("error", REPLAYED),
            Self::Refused(kind) => {
                let kind = kind.as_str();
                let outcome = match kind {
                    "unauthorized" | "forbidden" | "unknown_name" | "unknown_resource" => "denied",
                    "rate_limited" | "circuit_open" | "overloaded" | "cancelled" => kind,
                    "disabled" => "killed",
                    _ => "error",
                };
                (outcome, kind)
            }
        }
    }
}
