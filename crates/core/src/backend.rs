//! A backend as the core sees it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sentinel_wire::Revision;

use crate::caller::Caller;
use crate::capabilities::CapabilitySet;
use crate::fault::Fault;
use crate::offer::Offer;
use crate::reply::Reply;

mod call;
mod output;
mod stopped;

pub use call::{Call, Target};
pub use output::{OutputLine, OutputLog};
pub use stopped::StoppedBackend;

/// A backend's answer about a capability set; `None` if its offer equals the published one.
pub type OfferFor = BoxFuture<'static, Result<Option<Offer>, Fault>>;

/// One configured backend. Implementations keep themselves alive, discover their offer and publish it to the
/// `Registry`; the core only sends calls.
pub trait Backend: Send + Sync + 'static {
    /// The configured name.
    fn name(&self) -> &str;

    /// Its type and target, for operators; without secrets.
    fn describe(&self) -> Description {
        Description::default()
    }

    /// Runs one call to its end. Dropping the future cancels the call at the backend and frees everything it held.
    /// `call.target` is this backend.
    fn call(&self, call: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>>;

    /// Whether it is part of the gateway: readiness and metrics of external servers ignore it.
    fn is_builtin(&self) -> bool {
        false
    }

    /// The roots of a legacy caller changed; the server that serves this caller is told, if there is one.
    fn roots_changed(&self, _caller: &Caller) {}

    /// A key common to the callers that share a server with this one, where the backend runs several: notifications
    /// of that server are for these callers only.
    fn audience(&self, _caller: &Caller) -> Option<Arc<str>> {
        None
    }

    /// Whether the server that takes calls is the one whose notifications are received.
    fn is_heard(&self) -> bool {
        true
    }

    /// Reads its offer again and publishes it, starting it if it sleeps; bounded by its own time-outs. An error: the
    /// current offer is unknown.
    fn look(&self) -> BoxFuture<'static, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Restarts or reconnects it at once; returns when it answers or has failed, bounded by its own time-outs.
    fn restart(&self) -> BoxFuture<'static, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Reads its offer to callers of a capability set; `None` where that does not depend on the caller. Bounded by
    /// its own time-outs.
    fn offer_for(&self, _set: CapabilitySet) -> Option<OfferFor> {
        None
    }

    /// Why it takes no calls, while an operator keeps it down.
    fn stopped(&self) -> Option<Fault> {
        None
    }

    /// What its children write to standard error, if it has children.
    fn output(&self) -> Option<Arc<OutputLog>> {
        None
    }

    /// How it is doing, for operators.
    fn status(&self) -> Status;

    /// Ends it in order: calls in flight are answered or failed, then everything is released.
    fn stop(&self) -> BoxFuture<'static, ()>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The `type` of its configuration; `builtin` where it has none.
    pub kind: &'static str,
    /// A URL or a command line. Secrets are shown as the variables they come from.
    pub target: String,
}

impl Default for Description {
    fn default() -> Self {
        Self {
            kind: "builtin",
            target: String::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Being started or probed for the first time.
    Starting,
    /// Answers.
    Up,
    /// Stopped until the next call (`start = "lazy"`, `idle_stop`).
    Asleep,
    /// Restarting or failing pings, still listed.
    Failing,
    /// Out of the catalog until it recovers.
    Down,
    /// Kept down by an operator.
    Stopped,
}

impl Health {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Up => "up",
            Self::Asleep => "asleep",
            Self::Failing => "failing",
            Self::Down => "down",
            Self::Stopped => "stopped",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Status {
    pub health: Health,
    /// The revision spoken with it, once known.
    pub revision: Option<Revision>,
    /// From launch (or first connection) to the first usable answer.
    pub start_up: Option<Duration>,
    pub restarts: u32,
    /// Time until the next attempt, while it is out of the catalog and that is known.
    pub retry_in: Option<Duration>,
    /// The last failure, while it is relevant.
    pub problem: Option<String>,
    /// The last lines a child wrote to stderr.
    pub stderr: Vec<String>,
    /// What of it cannot be used, while the rest can.
    pub notices: Vec<String>,
}

impl Status {
    /// A status of which only the health is known.
    pub fn of(health: Health) -> Self {
        Self {
            health,
            revision: None,
            start_up: None,
            restarts: 0,
            retry_in: None,
            problem: None,
            stderr: Vec::new(),
            notices: Vec::new(),
        }
    }
}
