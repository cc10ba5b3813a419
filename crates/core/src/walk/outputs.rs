//! Compares a tool's structured result with its output schema (requirements A-10, A-12, C-38).
//!
//! The result of a proxied backend passes as it came: what does not fit is counted, and logged ever more rarely. A built-in
//! tool that breaks its own promise is refused, for that is a mistake of the gateway.
//!
//! Not here: how a schema is compiled and what a check may cost (`arguments`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sentinel_wire::{Method, Outcome as Answer, Payload};

use super::{CallContext, Outcome, Rest, Shared};
use crate::arguments::{Fit, Issue};
use crate::fault::{Fault, Kind};
use crate::operation::Operation;
use crate::reply::Reply;

/// Larger results are not decoded for a check: they would hold up the other calls of the worker.
const RESULT_BYTES_MAX: usize = 256 * 1024;

pub(super) async fn step(ctx: CallContext, mut rest: impl Rest) -> Outcome {
    let target = ctx.call.target();
    // Where rows or an HTTP answer went to the caller, the result only says so.
    let is_elsewhere = ctx.call.extra.rows.is_some() || ctx.call.extra.http.is_some();
    if target.operation.output.is_none() || ctx.call.method != Method::ToolsCall || is_elsewhere {
        return rest.call(ctx).await;
    }
    let check = Check {
        shared: ctx.shared.clone(),
        operation: target.operation.clone(),
        is_builtin: target.backend.is_builtin(),
    };
    check.pass(rest.call(ctx).await?)
}

/// What is needed of a call to judge its result.
struct Check {
    shared: Arc<Shared>,
    operation: Arc<Operation>,
    is_builtin: bool,
}

impl Check {
    fn pass(&self, reply: Reply) -> Outcome {
        let Answer::Result(result) = &reply.outcome else {
            return Ok(reply);
        };
        match self.judge(result) {
            Fit::Good => Ok(reply),
            Fit::Unknown => {
                let Operation { backend, own, .. } = &*self.operation;
                let counted = self.shared.auditor.metrics.tool(backend, own);
                counted.output_unchecked.fetch_add(1, Ordering::Relaxed);
                Ok(reply)
            }
            Fit::Wrong(issues) => {
                self.report(&issues);
                match self.is_builtin {
                    true => Err(self.refusal(&issues)),
                    false => Ok(reply),
                }
            }
        }
    }

    fn judge(&self, result: &Payload) -> Fit {
        let Some(schema) = &self.operation.output else {
            return Fit::Good;
        };
        if !is_final(result) {
            return Fit::Good;
        }
        match result.get("structuredContent") {
            // Of a reply that was streamed nothing is left but whether it is an error.
            None if result.get("content").is_none() => Fit::Unknown,
            None => Fit::Wrong(vec![Issue::whole("there is no structuredContent")]),
            Some(content) if content.len() > RESULT_BYTES_MAX => Fit::Unknown,
            Some(content) => schema.judge(&self.operation.exposed, content),
        }
    }

    /// Counts a mismatch, and logs it if the tool has twice as many as at the last line: a tool that never fits has few
    /// lines, and one that begins to misbehave has one at once.
    fn report(&self, issues: &[Issue]) {
        let Operation { backend, own, .. } = &*self.operation;
        let counted = self.shared.auditor.metrics.tool(backend, own);
        let count = 1 + counted.output_mismatches.fetch_add(1, Ordering::Relaxed);
        if count.is_power_of_two() {
            let wrong = places(issues);
            tracing::warn!(
                backend = &**backend,
                tool = &**own,
                count,
                wrong,
                "a result does not fit the tool's outputSchema"
            );
        }
    }

    fn refusal(&self, issues: &[Issue]) -> Fault {
        let text = "the tool's result is not what it promises";
        let why = format!("{}: {}", self.operation.own, places(issues));
        Fault::new(Kind::Internal, text).because(why)
    }
}

/// Whether it is the result itself: not an error, a question or a task in its place.
fn is_final(result: &Payload) -> bool {
    let is_complete = |kind: &[u8]| kind == br#""complete""#;
    result.get("isError") != Some(b"true") && result.get("resultType").is_none_or(is_complete)
}

/// Where a result is wrong and by which keyword, without what it holds: results may be confidential.
fn places(issues: &[Issue]) -> String {
    let place = |issue: &Issue| match &issue.keyword {
        Some(keyword) => format!("`{}` ({keyword})", issue.pointer),
        None => issue.message.clone(),
    };
    issues.iter().map(place).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
