//! `[telemetry]`: what the gateway tells about itself.

use serde::Serialize;

use crate::builder::Builder;
use crate::section::{section, shown_or_empty};
use crate::tree::Path;

section! {
    /// What the gateway tells about itself.
    #[schemars(rename = "Telemetry")]
    RawTelemetry => Telemetry {
        /// Serve /metrics.
        Restart metrics: bool = true;
        /// Where traces are sent. Empty: nowhere.
        Restart otlp_endpoint: String = String::new();
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Telemetry {
    pub metrics: bool,
    /// None: traces are not sent.
    #[serde(serialize_with = "shown_or_empty")]
    pub otlp_endpoint: Option<http::Uri>,
}

impl Builder<'_> {
    pub(crate) fn telemetry(&mut self, raw: &RawTelemetry) -> Telemetry {
        Telemetry {
            metrics: raw.metrics,
            otlp_endpoint: self
                .optional_url(&Path::dotted("telemetry.otlp_endpoint"), &raw.otlp_endpoint),
        }
    }
}
