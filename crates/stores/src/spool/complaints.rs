//! What is said in the log when the spool cannot be written: not for each record, there are thousands a second.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::now_ms;

/// At most this often.
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
