//! `[limits]`: bounds on what one peer may make the gateway hold.

use std::time::Duration;

use crate::builder::Builder;
use crate::section::{Kibibytes, Mebibytes, seconds, section};
use crate::tree::Path;

section! {
    /// Bounds on what one peer may make the gateway hold.
    Limits {
        /// Largest request body, in MiB.
        #[schemars(range(min = 1, max = 1024))]
        Live body_mb: Mebibytes = Mebibytes(4);
        /// Longest line from a stdio peer, in MiB.
        #[schemars(range(min = 1, max = 1024))]
        Restart line_mb: Mebibytes = Mebibytes(16);
        /// Largest reply of a backend, in MiB. Replies above 256 KiB are streamed where nothing in them changes.
        #[schemars(range(min = 1, max = 1024))]
        Restart reply_mb: Mebibytes = Mebibytes(64);
        /// Largest event of a backend's stream that is not a reply, in MiB.
        #[schemars(range(min = 1, max = 1024))]
        Restart event_mb: Mebibytes = Mebibytes(4);
        /// Deepest nesting of JSON that a caller may send.
        #[schemars(range(min = 8, max = 512))]
        Live json_depth: u32 = 64;
        /// Largest block of request headers, in KiB.
        #[schemars(range(min = 8, max = 1024))]
        Live header_kb: Kibibytes = Kibibytes(32);
        /// Largest number of request header fields.
        #[schemars(range(min = 16, max = 1000))]
        Live header_fields: u32 = 100;
        /// Seconds for a new connection's first byte.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0.1, max = 600))]
        Live first_byte_timeout: Duration = Duration::from_secs(5);
        /// Seconds for a whole request head.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0.1, max = 600))]
        Live head_timeout: Duration = Duration::from_secs(5);
        /// Slowest request body that is waited for, in KiB a second.
        #[schemars(range(min = 0, max = 1_048_576))]
        Live body_min_kb_per_s: Kibibytes = Kibibytes(1);
        /// Output held for one slow reader of a stream, in KiB.
        #[schemars(range(min = 16, max = 1_048_576))]
        Restart stream_buffer_kb: Kibibytes = Kibibytes(256);
        /// Sessions at the same time.
        #[schemars(range(min = 1, max = 10_000_000))]
        Live sessions: u32 = 10_000;
        /// Seconds without a request after which a session ends.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 1, max = 2_592_000))]
        Live session_idle: Duration = Duration::from_secs(1800);
        /// Open event streams at the same time.
        #[schemars(range(min = 1, max = 10_000_000))]
        Live streams: u32 = 20_000;
        /// Event streams that one caller may hold open; 0 is a sixteenth of `streams`, at least 64.
        #[schemars(range(min = 0, max = 10_000_000))]
        Live streams_per_caller: u32 = 0;
        /// Seconds a call waits for its caller to answer a backend's question.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 1, max = 86_400))]
        Live park_ttl: Duration = Duration::from_secs(600);
        /// Answers that are kept for requests with an `Idempotency-Key`; the oldest give way.
        #[schemars(range(min = 1, max = 10_000_000))]
        Live idempotency_keys: u32 = 10_000;
        /// Memory for them, in MiB.
        #[schemars(range(min = 1, max = 65_536))]
        Live idempotency_mb: Mebibytes = Mebibytes(64);
        /// Seconds for which such an answer is kept.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 1, max = 2_592_000))]
        Live idempotency_ttl: Duration = Duration::from_secs(86_400);
    }
}

/// Few enough that one caller cannot take most streams, many enough for an agent with many sessions.
const STREAMS_PER_CALLER_MIN: u32 = 64;

impl Builder<'_> {
    pub(crate) fn limits(&mut self, raw: Limits) -> Limits {
        let streams_per_caller = match raw.streams_per_caller {
            0 => (raw.streams / 16)
                .max(STREAMS_PER_CALLER_MIN)
                .min(raw.streams),
            n => n,
        };
        if streams_per_caller > raw.streams {
            self.wrong(
                &Path::dotted("limits.streams_per_caller"),
                format!(
                    "one caller cannot have more streams than all ({})",
                    raw.streams
                ),
                "at most `streams`",
            );
        }
        Limits {
            streams_per_caller,
            ..raw
        }
    }
}
