//! `[admission]`: how much work is admitted at once.

use std::time::Duration;

use serde::Serialize;

use crate::builder::Builder;
use crate::section::{seconds, section, shown_or_empty};
use crate::tree::Path;

section! {
    /// How much work is admitted at once.
    #[schemars(rename = "Admission")]
    RawAdmission => Admission {
        /// Calls that run at the same time.
        #[schemars(range(min = 1, max = 1_000_000))]
        Live max_concurrent: u32 = 256;
        /// Calls that wait for a slot; 0 refuses at once.
        #[schemars(range(min = 0, max = 1_000_000))]
        Live queue_size: u32 = 256;
        /// Seconds that a call waits for a slot.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0, max = 3600))]
        Live queue_timeout: Duration = Duration::from_secs(30);
        /// JSON-RPC code of the overload error, for revisions before 2026-07-28.
        Live overload_error_code: i32 = -32001;
        /// Webhook URL for overload notices. Empty: none.
        Live on_overload: String = String::new();
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Admission {
    pub max_concurrent: u32,
    pub queue_size: u32,
    #[serde(with = "seconds")]
    pub queue_timeout: Duration,
    pub overload_error_code: i32,
    /// None: no webhook.
    #[serde(serialize_with = "shown_or_empty")]
    pub on_overload: Option<http::Uri>,
}

impl Builder<'_> {
    pub(crate) fn admission(&mut self, raw: &RawAdmission) -> Admission {
        self.check_overload_code(raw);
        Admission {
            max_concurrent: raw.max_concurrent,
            queue_size: raw.queue_size,
            queue_timeout: raw.queue_timeout,
            overload_error_code: raw.overload_error_code,
            on_overload: self
                .optional_url(&Path::dotted("admission.on_overload"), &raw.on_overload),
        }
    }

    /// Codes that MCP or JSON-RPC define for something else would mislead a caller.
    fn check_overload_code(&mut self, raw: &RawAdmission) {
        let code = raw.overload_error_code;
        if (-32768..=-32100).contains(&code) || (-32099..=-32020).contains(&code) {
            let path = Path::dotted("admission.overload_error_code");
            let message = format!("the code {code} is reserved by JSON-RPC or MCP");
            let expected = "a code from -32019 to -32000, or outside -32768 to -32000";
            self.wrong(&path, message, expected);
        }
    }
}
