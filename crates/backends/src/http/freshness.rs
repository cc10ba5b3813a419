//! Whether what is known of a server's tools may no longer be so.
//!
//! It may be another server by now (a session is forgotten, its stream or a connection broke, one was refused), or it said
//! itself that its tools changed. Each of these raises a doubt; reading the lists settles those that were raised before
//! it began. Where pins are enforced no call of a tool goes out while there is one: the call reads the lists itself,
//! one for all that wait, and is then confirmed by what they say.

use std::sync::atomic::{AtomicU64, Ordering};

use sentinel_core::{Call, Fault};

use super::Inner;
use super::keep::Reread;
use crate::discover;

/// A session may be forgotten again while the lists are read; no server in order does that so often.
const ATTEMPTS_MAX: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Doubt {
    raised: AtomicU64,
    settled: AtomicU64,
    /// Held from the reading of the lists to their publication: what was read first must not be published last. Taken
    /// before `renewing`.
    pub(super) looking: tokio::sync::Mutex<()>,
}

impl Doubt {
    pub(super) fn raise(&self) {
        self.raised.fetch_add(1, Ordering::SeqCst);
    }

    /// How many there were so far.
    pub(super) fn raised(&self) -> u64 {
        self.raised.load(Ordering::SeqCst)
    }

    /// The lists were read, and published, after so many.
    pub(super) fn settle(&self, upto: u64) {
        self.settled.fetch_max(upto, Ordering::SeqCst);
    }

    fn is_settled(&self) -> bool {
        self.settled.load(Ordering::SeqCst) >= self.raised()
    }
}

impl Inner {
    /// Looks at a call of a pinned tool once more, directly before it is sent. One that may have run before was not
    /// turned back: then it ends as it was `lost`.
    pub(super) async fn confirm(&self, call: &Call, lost: &mut Option<Fault>) -> Result<(), Fault> {
        // On a new connection there may be another server.
        if !self.post.is_unbroken().await {
            self.doubt.raise();
        }
        self.be_sure().await?;
        let turned_back = |held| call.turned_back(held);
        let looked = self.publisher.confirm(call);
        looked.map_err(|held| lost.take().unwrap_or_else(|| turned_back(held)))
    }

    /// Reads the lists again if there is a doubt, or waits for whoever does.
    pub(super) async fn be_sure(&self) -> Result<(), Fault> {
        for _ in 0..ATTEMPTS_MAX {
            if self.doubt.is_settled() {
                return Ok(());
            }
            let ready = self.ready().await?;
            let _one_at_a_time = self.doubt.looking.lock().await;
            if self.doubt.is_settled() {
                return Ok(());
            }
            match self.reread(&ready).await? {
                Reread::Published => return Ok(()),
                Reread::Refused(why) => {
                    return Err(discover::keeps_its_tools(&self.config.name, why));
                }
                Reread::Renewed => {}
            }
        }
        Err(self.unavailable())
    }
}
