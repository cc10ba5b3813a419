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

impl Reply {
    /// A tool error with one text, written by the gateway for a model to read.
    pub fn tool_error(text: &str, revision: Revision) -> Self {
        let mut out = Vec::with_capacity(text.len() + 128);
        out.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
        json::encode_string(text, &mut out);
        out.extend_from_slice(br#"}],"isError":true"#);
        if revision.is_modern() {
            out.extend_from_slice(br#","resultType":"complete""#);
        }
        out.push(b'}');
        let result = Payload::parse(out.into(), Rules::backend()).expect("what we wrote is JSON");
        Self {
            revision,
            outcome: Outcome::Result(result),
        }
    }
}
