//! MCP servers as supervised child processes.
//!
//! A [`Stdio`] backend has one shared child whose lists it publishes. With `isolation = "shared"` that child also
//! takes every call; otherwise each caller gets a child of its own, and the shared one only lists. Subscriptions to
//! resources belong to the caller's own child; when a child announces a changed list, the list is read again from the
//! shared child. A [`Keeper`](keeper::Keeper) owns each child; nothing here outlives [`Stdio::stop`] or the process
//! itself.
//!
//! | part | says |
//! | --- | --- |
//! | `supervisor` | when a child is started, restarted, pinged, stopped (pure) |
//! | `keeper` | does what the supervisor says; what calls hold |
//! | `life` | one process from start to end: greet, list, serve |
//! | `session` | the conversation: calls, notices, questions |
//! | `session::doubt` | whether its tools may be others by now |
//! | `pipe` | ids, the queue to the child, lines from it |
//!
//! Not here: starting processes (`crate::child`), finding out what a server is (`crate::discover`).

mod advice;
mod isolated;
mod keeper;
mod kind;
mod life;
mod offers;
mod overlong;
mod pipe;
mod session;
mod stderr;
pub mod supervisor;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sentinel_core::backend::{OfferFor, OutputLog};
use sentinel_core::catalog::Publisher;
use sentinel_core::{Backend, Call, Caller, CapabilitySet, Description, Fault, Reply, Status};
use sentinel_wire::Revision;
use tokio::time::Instant;

use crate::child::{Command, StopTimeouts};
use isolated::Isolated;
use keeper::Keeper;
use life::Plan;
use offers::Offers;
use pipe::Closed;
pub use sentinel_config::{Interactive, Isolation};
use session::CallMode;
pub use stderr::OutputTail;
use supervisor::Policy;

/// The `type` of these backends in the configuration.
pub const TYPE: &str = "stdio";

/// All capabilities a caller may have; questions that the actual caller cannot answer are refused.
const EVERYTHING: &[u8] =
    br#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}"#;

/// One `[[backends]]` entry of type `stdio`.
#[derive(Debug, Clone)]
pub struct Config {
    pub name: String,
    /// The command line without secrets, for operators.
    pub target: String,
    pub command: Command,
    pub policy: Policy,
    /// Deadline of one call, and of each request of the handshake.
    pub timeout: Duration,
    /// Longest line read from the child, in bytes.
    pub line_max: usize,
    pub isolation: Isolation,
    pub interactive: Interactive,
    /// Most children that belong to callers at a time.
    pub max_children: usize,
    /// The configured revision; `None` detects it.
    pub revision: Option<Revision>,
    pub timeouts: StopTimeouts,
}

/// A running backend.
pub struct Stdio {
    config: Arc<Config>,
    shared: Arc<Keeper>,
    isolated: Option<Arc<Isolated>>,
    offers: Arc<Offers>,
}

impl Config {
    /// Starts the backend in the current tokio runtime, which its children then belong to.
    pub fn build(self, publisher: Publisher) -> Arc<Stdio> {
        let config = Arc::new(self);
        let serialize =
            config.interactive == Interactive::Serialize && config.isolation == Isolation::Shared;
        let plan = Arc::new(Plan {
            config: config.clone(),
            name: config.name.as_str().into(),
            declared: Bytes::from_static(if serialize { EVERYTHING } else { b"{}" }),
            mode: if serialize {
                CallMode::Interactive
            } else {
                CallMode::Parallel
            },
            lists: true,
            publisher,
            changed: Arc::default(),
            missed: AtomicBool::new(false),
            era: Arc::default(),
            output_tail: OutputTail::default(),
        });
        let isolated =
            (config.isolation != Isolation::Shared).then(|| Arc::new(Isolated::beside(&plan)));
        let offers = Offers::new(plan.clone(), isolated.is_some());
        let shared = Arc::new(Keeper::begin(plan, config.policy.clone()));
        Arc::new(Stdio {
            config,
            shared,
            isolated,
            offers,
        })
    }
}

impl Backend for Stdio {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn describe(&self) -> Description {
        Description {
            kind: TYPE,
            target: self.config.target.clone(),
        }
    }

    fn call(&self, call: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        let keeper = match &self.isolated {
            None => Ok(self.shared.clone()),
            Some(isolated) => isolated.of(&call.caller),
        };
        let deadline = Instant::now() + self.config.timeout;
        async move {
            let keeper = keeper?;
            let session = keeper.session(deadline).await?;
            match session.call(&call, deadline).await {
                Ok(reply) => reply,
                // The child was stopped or died between the two steps; nothing was sent, so a second attempt is safe.
                Err(Closed) => {
                    call.trail.retried();
                    let session = keeper.session(deadline).await?;
                    session
                        .call(&call, deadline)
                        .await
                        .unwrap_or_else(|Closed| Err(keeper.ending()))
                }
            }
        }
        .boxed()
    }

    fn roots_changed(&self, caller: &Caller) {
        let keeper = self.isolated.as_ref().and_then(|all| all.find(caller));
        if let Some(keeper) = keeper {
            keeper.tell_roots_changed();
        }
    }

    fn audience(&self, caller: &Caller) -> Option<Arc<str>> {
        let isolated = self.isolated.as_ref()?;
        Some(isolated.audience(caller))
    }

    fn is_heard(&self) -> bool {
        // Tasks are followed at the shared child, which takes no calls where each caller has its own.
        self.isolated.is_none()
    }

    fn look(&self) -> BoxFuture<'static, Result<(), Fault>> {
        // The published lists are those of the shared child.
        let keeper = self.shared.clone();
        let deadline = Instant::now() + self.config.timeout;
        async move { keeper.session(deadline).await?.look(deadline).await }.boxed()
    }

    fn restart(&self) -> BoxFuture<'static, Result<(), Fault>> {
        if let Some(isolated) = &self.isolated {
            isolated.restart();
        }
        self.shared.restart()
    }

    fn offer_for(&self, set: CapabilitySet) -> Option<OfferFor> {
        self.offers.of(set, &self.shared)
    }

    fn output(&self) -> Option<Arc<OutputLog>> {
        Some(self.shared.output())
    }

    fn status(&self) -> Status {
        self.shared.status()
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let shared = self.shared.stop();
        let isolated = self.isolated.clone();
        async move {
            let others = async {
                if let Some(isolated) = isolated {
                    isolated.stop().await;
                }
            };
            tokio::join!(shared, others);
        }
        .boxed()
    }
}
