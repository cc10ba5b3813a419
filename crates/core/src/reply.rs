//! A backend's final answer.

use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Outcome, Payload, Revision};

/// The member of a result's `_meta` with what the HTTP API behind a tool said besides its body: `status`, `next`,
/// `retryAfterMs`, `problem`.
pub const HTTP_META: &str = "sentinel-gateway/http";

/// The unchanged answer, and its revision.
#[derive(Clone, Debug)]
pub struct Reply {
    pub revision: Revision,
    pub outcome: Outcome,
}

/// The member of a result's `_meta` with what a program is told of an error that the gateway wrote: `code`, `issues`.
pub(crate) const PROBLEM_META: &str = "sentinel-gateway/problem";

impl Reply {
    /// A tool error with one text, written by the gateway for a model to read.
    pub fn tool_error(text: &str, revision: Revision) -> Self {
        Self::tool_error_with(text, "", revision)
    }

    /// The same with members of `_meta` for programs, as JSON members without braces. There they are no `structuredContent`,
    /// which clients compare with the tool's output schema.
    pub(crate) fn tool_error_with(text: &str, meta: &str, revision: Revision) -> Self {
        let mut out = Vec::with_capacity(text.len() + 128);
        out.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
        json::encode_string(text, &mut out);
        out.extend_from_slice(br#"}],"isError":true"#);
        if revision.is_modern() {
            out.extend_from_slice(br#","resultType":"complete""#);
        }
        if !meta.is_empty() {
            out.extend_from_slice(br#","_meta":{"#);
            out.extend_from_slice(meta.as_bytes());
            out.push(b'}');
        }
        out.push(b'}');
        let result = Payload::parse(out.into(), Rules::backend()).expect("what we wrote is JSON");
        Self {
            revision,
            outcome: Outcome::Result(result),
        }
    }
}
