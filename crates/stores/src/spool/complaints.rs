//! Rate-limited log lines about a spool that cannot be written: thousands of records may fail per second.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::now_ms;

/// Interval between two log lines.
const EVERY_MS: u64 = 10_000;

#[derive(Default)]
pub struct Complaints {
    last_ms: AtomicU64,
}

impl Complaints {
    pub(crate) fn about(&self, error: &io::Error) {
        let now = now_ms();
        let before = self.last_ms.load(Relaxed);
        if now.saturating_sub(before) >= EVERY_MS {
            self.last_ms.store(now, Relaxed);
            tracing::error!("an audit record could not be written to the spool: {error}");
        }
    }
}
