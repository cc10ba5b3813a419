//! Whether the known list of a server's tools may be outdated.
//!
//! The server may have been replaced (a session is unknown, its stream or a connection broke, a connection was
//! refused), or it announced changed tools. Each of these is an invalidation; reading the lists covers the
//! invalidations made before the read began. Where pins are enforced, no call of a tool is sent while an invalidation
//! is open: the call reads the lists itself, once for all waiting calls, and is then checked against them.

use std::sync::atomic::{AtomicU64, Ordering};

use sentinel_core::{Call, Fault};

use super::Inner;
use super::keep::Reread;
use crate::discover;

/// The session may be lost again while the lists are read; a working server does not do that repeatedly.
const ATTEMPTS_MAX: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Freshness {
    invalidations: AtomicU64,
    covered: AtomicU64,
    /// Held from reading the lists to publishing them, so that an older reading is never published last. Locked
    /// before `renewing`.
    pub(super) reading: tokio::sync::Mutex<()>,
}

impl Freshness {
    pub(super) fn invalidate(&self) {
        self.invalidations.fetch_add(1, Ordering::SeqCst);
    }

    /// Number of invalidations so far.
    pub(super) fn invalidations(&self) -> u64 {
        self.invalidations.load(Ordering::SeqCst)
    }

    /// The lists were read and published after `upto` invalidations.
    pub(super) fn cover(&self, upto: u64) {
        self.covered.fetch_max(upto, Ordering::SeqCst);
    }

    fn is_fresh(&self) -> bool {
        self.covered.load(Ordering::SeqCst) >= self.invalidations()
    }
}

impl Inner {
    /// Checks a call of a pinned tool again, directly before it is sent. If an earlier attempt may have run, the call
    /// must not be reported as refused: it ends with `lost`.
    pub(super) async fn confirm(&self, call: &Call, lost: &mut Option<Fault>) -> Result<(), Fault> {
        // A new connection may lead to another server.
        if !self.post.is_unbroken().await {
            self.freshness.invalidate();
        }
        self.ensure_fresh().await?;
        let turned_back = |held| call.turned_back(held);
        let looked = self.publisher.confirm(call);
        looked.map_err(|held| lost.take().unwrap_or_else(|| turned_back(held)))
    }

    /// Reads the lists again if they are invalid, or waits for the call that is reading them.
    pub(super) async fn ensure_fresh(&self) -> Result<(), Fault> {
        for _ in 0..ATTEMPTS_MAX {
            if self.freshness.is_fresh() {
                return Ok(());
            }
            let ready = self.ready().await?;
            let _one_at_a_time = self.freshness.reading.lock().await;
            if self.freshness.is_fresh() {
                return Ok(());
            }
            match self.reread(&ready).await? {
                Reread::Published => return Ok(()),
                Reread::Refused(why) => {
                    return Err(discover::tools_refused(&self.config.name, why));
                }
                Reread::Renewed => {}
            }
        }
        Err(self.unavailable())
    }
}
