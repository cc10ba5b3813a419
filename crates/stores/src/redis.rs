//! Redis as the store of rate limits that several gateways share.
//!
//! One bucket per caller and tool, updated by one script with the server's clock (`bucket.lua`). `Redis` is called
//! from any thread; a task of its own owns the single connection (`connection`), and answers arrive in the order of
//! requests. While the server is unreachable or too slow no call waits for it: the task reconnects, and until then
//! every request is answered at once with `Decision::Unavailable`.
//!
//! Not here: the limits that apply in the meantime (`sentinel_core::policy`).

mod connection;
pub(crate) mod resp;
mod url;

#[cfg(test)]
pub(crate) mod server;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::BoxFuture;
use ring::digest;
use sentinel_core::operation::Operation;
use sentinel_core::policy::{Allowance, Decision, Limited, SharedFigures, SharedRates};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use connection::Job;
pub use connection::Trouble;
use resp::Reply;
pub use url::BadUrl;

/// Longest wait of a call for a decision.
const ANSWER_MAX: Duration = Duration::from_millis(100);
/// Bound on pending requests. A server close enough to be asked for every call answers that many in some
/// milliseconds; further calls are decided by the gateway itself.
const IN_FLIGHT_MAX: usize = 1024;
/// Prefix of our keys.
const PREFIX: &str = "sentinel:rate:";
/// Largest burst for which the script is exact: below 2^53 units.
const BURST_MAX: u32 = 150_000_000;

/// A handle on the server; dropping the last one closes the connection.
pub struct Redis {
    jobs: mpsc::Sender<Job>,
    state: Arc<State>,
}

/// The observed state of the server.
struct State {
    /// Requests are currently answered.
    is_up: AtomicBool,
    decided: AtomicU64,
    alone: AtomicU64,
}

impl Redis {
    /// Parses the URL; the connection is made on `home`, now and after each loss.
    pub fn new(url: &str, home: &Handle) -> Result<Self, BadUrl> {
        let place = url::read(url)?;
        let (jobs, asked) = mpsc::channel(IN_FLIGHT_MAX);
        let state = Arc::new(State {
            // Calls before the first connection may wait for it.
            is_up: AtomicBool::new(true),
            decided: AtomicU64::new(0),
            alone: AtomicU64::new(0),
        });
        home.spawn(connection::run(place, asked, state.clone()));
        Ok(Self { jobs, state })
    }

    /// Whether `new` would accept this URL.
    pub fn check(url: &str) -> Result<(), BadUrl> {
        url::read(url).map(drop)
    }

    /// Checks that a server accepts our login and runs the script; also returns its address.
    pub async fn probe(url: &str) -> Result<(String, Result<(), Trouble>), BadUrl> {
        let place = url::read(url)?;
        let found = connection::connect(&place).await.map(drop);
        Ok((place.to_string(), found))
    }
}

impl SharedRates for Redis {
    fn take(
        &self,
        subject: &str,
        tool: &Operation,
        allowance: Allowance,
    ) -> BoxFuture<'static, Decision> {
        let (jobs, state) = (self.jobs.clone(), self.state.clone());
        let bucket = Bucket {
            key: key(subject, &tool.backend, &tool.own),
            rpm: allowance.rpm,
            burst: allowance.burst.min(BURST_MAX),
        };
        Box::pin(async move {
            let decision = match state.is_up.load(Relaxed) {
                true => timeout(ANSWER_MAX, ask(&jobs, bucket)).await.ok(),
                false => None,
            };
            let decision = decision.unwrap_or(Decision::Unavailable);
            let count = match decision {
                Decision::Unavailable => &state.alone,
                _ => &state.decided,
            };
            count.fetch_add(1, Relaxed);
            decision
        })
    }

    fn figures(&self) -> SharedFigures {
        SharedFigures {
            is_up: self.state.is_up.load(Relaxed),
            decided: self.state.decided.load(Relaxed),
            alone: self.state.alone.load(Relaxed),
        }
    }
}

/// Arguments of the script.
#[derive(Clone, Debug)]
struct Bucket {
    key: String,
    rpm: u32,
    burst: u32,
}

/// A fixed-length digest, so that a key contains no text of callers.
fn key(subject: &str, backend: &str, tool: &str) -> String {
    let mut hash = digest::Context::new(&digest::SHA256);
    for part in [subject, backend, tool] {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut key = String::with_capacity(PREFIX.len() + 64);
    key.push_str(PREFIX);
    for byte in hash.finish().as_ref() {
        let _ = write!(key, "{byte:02x}");
    }
    key
}

/// Calls the script by its hash, and with its source if the server has forgotten it.
async fn ask(jobs: &mpsc::Sender<Job>, bucket: Bucket) -> Decision {
    let reply = match question(jobs, bucket.clone(), false).await {
        Some(Reply::Error(_)) => question(jobs, bucket, true).await,
        reply => reply,
    };
    reply.map_or(Decision::Unavailable, |reply| decision(&reply))
}

async fn question(jobs: &mpsc::Sender<Job>, bucket: Bucket, whole: bool) -> Option<Reply> {
    let (reply, answer) = oneshot::channel();
    let job = Job {
        bucket,
        whole,
        reply,
    };
    jobs.try_send(job).ok()?;
    answer.await.ok()
}

fn decision(reply: &Reply) -> Decision {
    match reply {
        Reply::Number(0) => Decision::Allowed,
        Reply::Number(ms) if *ms > 0 => Decision::Limited(Limited {
            retry_after_ms: ms.unsigned_abs(),
        }),
        _ => Decision::Unavailable,
    }
}
