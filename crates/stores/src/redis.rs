//! Redis as the keeper of rate limits that many gateways share.
//!
//! One bucket per caller and tool, which one script moves on by the server's own clock (`bucket.lua`). `Redis` is
//! asked from any thread; a task of its own holds the one connection (`connection`), and answers come back in the
//! order of the questions. While the server is away, or took too long once, nobody waits for it: the task tries again
//! by itself, and until then every question is answered at once with `Unavailable`.
//!
//! Not here: what holds in the meantime (`sentinel_core::policy`).

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
use sentinel_core::policy::{Allowance, Limited, Said, SharedFigures, SharedRates, Unavailable};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use connection::Job;
pub use connection::Trouble;
use resp::Reply;
pub use url::BadUrl;

/// A call waits no longer to hear whether it is one too many.
const ANSWER_MAX: Duration = Duration::from_millis(100);
/// Questions on their way at once. A server near enough to be asked for every call answers that many in some
/// milliseconds; who comes on top is answered by its own gateway.
const IN_FLIGHT_MAX: usize = 1024;
/// Whose keys they are.
const PREFIX: &str = "sentinel:rate:";
/// What a bucket may hold for the script to be exact: below 2^53 units.
const BURST_MAX: u32 = 150_000_000;

/// A handle on the server; dropping the last one ends its connection.
pub struct Redis {
    jobs: mpsc::Sender<Job>,
    state: Arc<State>,
}

/// What is known of the server.
struct State {
    /// Asked questions are answered, as far as anybody knows.
    is_up: AtomicBool,
    decided: AtomicU64,
    alone: AtomicU64,
}

impl Redis {
    /// Reads the URL; the connection is made on `home`, now and whenever it was lost.
    pub fn new(url: &str, home: &Handle) -> Result<Self, BadUrl> {
        let place = url::read(url)?;
        let (jobs, asked) = mpsc::channel(IN_FLIGHT_MAX);
        let state = Arc::new(State {
            // Calls that come before the first connection may wait for it.
            is_up: AtomicBool::new(true),
            decided: AtomicU64::new(0),
            alone: AtomicU64::new(0),
        });
        home.spawn(connection::run(place, asked, state.clone()));
        Ok(Self { jobs, state })
    }

    /// Whether `new` would take this URL.
    pub fn check(url: &str) -> Result<(), BadUrl> {
        url::read(url).map(drop)
    }

    /// Whether a server is there that lets us in and keeps a bucket; where it is, in any case.
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
    ) -> BoxFuture<'static, Said> {
        let (jobs, state) = (self.jobs.clone(), self.state.clone());
        let bucket = Bucket {
            key: key(subject, &tool.backend, &tool.own),
            rpm: allowance.rpm,
            burst: allowance.burst.min(BURST_MAX),
        };
        Box::pin(async move {
            let said = match state.is_up.load(Relaxed) {
                true => timeout(ANSWER_MAX, ask(&jobs, bucket)).await,
                false => Ok(Err(Unavailable)),
            };
            let said = said.unwrap_or(Err(Unavailable));
            let count = match said {
                Ok(_) => &state.decided,
                Err(Unavailable) => &state.alone,
            };
            count.fetch_add(1, Relaxed);
            said
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

/// What is asked of the script.
#[derive(Clone, Debug)]
struct Bucket {
    key: String,
    rpm: u32,
    burst: u32,
}

/// A key that says nothing of what callers send: it has one length, and only our own characters.
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

/// Asks by the script's hash, and once more with all of it where the server has forgotten it.
async fn ask(jobs: &mpsc::Sender<Job>, bucket: Bucket) -> Said {
    match question(jobs, bucket.clone(), false).await? {
        Reply::Error(_) => judge(&question(jobs, bucket, true).await?),
        reply => judge(&reply),
    }
}

async fn question(
    jobs: &mpsc::Sender<Job>,
    bucket: Bucket,
    whole: bool,
) -> Result<Reply, Unavailable> {
    let (reply, answer) = oneshot::channel();
    let job = Job {
        bucket,
        whole,
        reply,
    };
    jobs.try_send(job).map_err(|_| Unavailable)?;
    answer.await.map_err(|_| Unavailable)
}

fn judge(reply: &Reply) -> Said {
    match reply {
        Reply::Number(0) => Ok(Ok(())),
        Reply::Number(ms) if *ms > 0 => Ok(Err(Limited {
            retry_after_ms: ms.unsigned_abs(),
        })),
        _ => Err(Unavailable),
    }
}
