//! `[rate_limits]`: how often a caller may call.

use std::collections::BTreeMap;

use serde_json::json;

use crate::builder::Builder;
use crate::section::section;
use crate::tree::Path;

section! {
    /// How often a caller may call.
    RateLimits {
        /// Calls in a minute per caller and tool; 0 is no limit.
        Live default_rpm: u32 = 1000;
        /// Calls that may come at once; 0 is the minute's allowance.
        Live burst: u32 = 0;
        /// Calls in a minute for single tools: by name, by "<backend>.<own name>", or by a pattern with `*`.
        #[schemars(example = json!({ "execute_workflow": 10 }))]
        Live per_tool: BTreeMap<String, u32> = BTreeMap::new();
    }
}

impl Builder<'_> {
    pub(crate) fn check_rate_limits(&mut self, limits: &RateLimits) {
        if limits.per_tool.contains_key("") {
            let here = Path::dotted("rate_limits.per_tool").key("");
            self.wrong(&here, "no tool has an empty name", "a tool, or a pattern");
        }
    }
}
