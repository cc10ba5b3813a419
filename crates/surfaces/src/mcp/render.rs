//! Renders messages to callers in their revision.

use sentinel_core::{Fault, LogLevel, Notice, Reply};
use sentinel_wire::envelope::{write_error_object, write_notification, write_result};
use sentinel_wire::{Id, Method, Outcome, Revision, meta, translate};

use crate::rescue;

/// The response to a request.
pub(crate) fn outcome_message(
    id: &Id,
    method: &Method,
    revision: Revision,
    outcome: &Result<Reply, Fault>,
) -> Vec<u8> {
    let mut out = Vec::new();
    match outcome {
        Ok(Reply {
            revision: from,
            outcome: Outcome::Result(result),
        }) => {
            write_result(
                id,
                &translate::result(method, result, *from, revision),
                &mut out,
            );
        }
        Ok(Reply {
            outcome: Outcome::Error(error),
            ..
        }) => {
            write_error_object(
                Some(id),
                revision,
                &translate::error(error, revision),
                &mut out,
            );
        }
        Err(fault) => return fault_message(Some(id), revision, fault),
    }
    out
}

pub(crate) fn fault_message(id: Option<&Id>, revision: Revision, fault: &Fault) -> Vec<u8> {
    if fault.side() != sentinel_core::Side::Caller {
        tracing::debug!(kind = fault.kind.as_str(), cause = ?std::error::Error::source(fault), "{fault}");
    }
    let mut out = Vec::new();
    write_error_object(id, revision, &rescue::error(fault, revision), &mut out);
    out
}

/// A notice as a notification; `None` if the caller did not request it. `token` is the caller's progress token,
/// `level` the least urgent log level it wants.
pub(crate) fn notice_message(
    notice: &Notice,
    token: Option<&[u8]>,
    level: Option<u8>,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match notice {
        Notice::Progress(progress) => {
            let mut params = Vec::new();
            progress
                .as_raw()
                .rewrite(&[(meta::PROGRESS_TOKEN, Some(token?))], &mut params);
            write_notification(Method::Progress.as_str(), &params, &mut out);
        }
        Notice::Log(line) => {
            let urgent = line
                .get("level")
                .and_then(LogLevel::rank)
                .unwrap_or(u8::MAX)
                >= level?;
            if !urgent {
                return None;
            }
            write_notification(Method::LogMessage.as_str(), line.as_bytes(), &mut out);
        }
        Notice::Elicited(done) => {
            let method = Method::ElicitationComplete.as_str();
            write_notification(method, done.as_bytes(), &mut out);
        }
        // Internal: only resumable streams use it.
        Notice::Primed | Notice::Pause => return None,
    }
    Some(out)
}
