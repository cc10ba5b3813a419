//! Standby servers: which calls go there, and which of these the primary takes.
//!
//! If none can be reached, one call finds that out and the others do not wait for it: `watch` looks in the background whether there is
//! one again. A call that a standby cannot carry out yet, because it is behind its primary, is made on the primary. One whose
//! connection breaks is not: what ends a standby would end the primary as well.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sentinel_pg::{Pool, Session};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::failure::Failure;
use super::mode::{Isolation, Mode};
use crate::causes::with_causes;

/// The pause between attempts to reach one again.
const RETRY: Duration = Duration::from_secs(1);

pub(super) struct Standby {
    pub(super) pool: Pool,
    /// None can be reached.
    is_lost: AtomicBool,
    lost: Notify,
}

impl Standby {
    pub(super) fn new(pool: Pool) -> Self {
        Self {
            pool,
            is_lost: AtomicBool::new(false),
            lost: Notify::new(),
        }
    }

    /// A standby has no serializable transactions.
    pub(super) fn takes(&self, mode: Mode) -> bool {
        mode.is_read_only
            && mode.isolation != Some(Isolation::Serializable)
            && !self.is_lost.load(Ordering::Relaxed)
    }

    /// Has the primary take the calls, after a failure to connect.
    pub(super) fn lose(&self, backend: &str, failure: &Failure) {
        if !self.is_lost.swap(true, Ordering::Relaxed) {
            let why = with_causes(failure);
            tracing::warn!(%backend, "no standby server can be used, so the primary takes the calls: {why}");
            self.lost.notify_one();
        }
    }

    /// Looks for a standby while there is none. Does not end.
    pub(super) async fn watch(&self, backend: &str) {
        loop {
            self.lost.notified().await;
            loop {
                sleep(RETRY).await;
                let reached = self.pool.run(async |_: &mut Session| ()).await;
                match reached {
                    Ok(()) => break,
                    Err(error) => {
                        tracing::debug!(%backend, "no standby server: {}", with_causes(&error))
                    }
                }
            }
            self.is_lost.store(false, Ordering::Relaxed);
            tracing::info!(%backend, "a standby server takes calls again");
        }
    }
}
