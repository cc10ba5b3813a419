//! MCP servers as supervised child processes.
//!
//! A [`Stdio`] backend keeps one child whose lists it publishes. With `isolation = "shared"` that child also
//! takes every call; otherwise each caller gets a child of its own, and the shared one only lists. Whoever follows a
//! resource does so at its own child and hears of nobody else's; a list that one of them says has changed is read anew
//! at the shared one. A
//! [`Keeper`](keeper::Keeper) owns each child; nothing here outlives [`Stdio::stop`] or the process itself.
//!
//! | part | says |
//! | --- | --- |
//! | `supervisor` | when a child is started, restarted, pinged, stopped (pure) |
//! | `keeper` | does what the supervisor says; what calls hold |
//! | `life` | one process from start to end: greet, list, serve |
//! | `talk` | the conversation: calls, notices, questions |
//! | `talk::doubt` | whether its tools may be others by now |
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
mod stderr;
pub mod supervisor;
mod talk;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sentinel_core::backend::OfferFor;
use sentinel_core::catalog::Publisher;
use sentinel_core::{Backend, Call, Caller, CapabilitySet, Description, Fault, Reply, Status};
use sentinel_wire::Revision;
use tokio::time::Instant;

use crate::child::{Command, Patience};
use isolated::Isolated;
use keeper::Keeper;
use life::Plan;
use offers::Offers;
use pipe::Closed;
pub use sentinel_config::{Interactive, Isolation};
pub use stderr::LastWords;
use supervisor::Policy;
use talk::Manner;

/// The `type` of these backends in the configuration.
pub const TYPE: &str = "stdio";

/// All that a caller may ever be asked for; who cannot answer is not asked.
const EVERYTHING: &[u8] =
    br#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}"#;

/// One `[[backends]]` entry of type `stdio`.
#[derive(Debug, Clone)]
pub struct Config {
    pub name: String,
    /// The command line as operators may see it.
    pub target: String,
    pub command: Command,
    pub policy: Policy,
    /// For one call, and for each request of the handshake.
    pub timeout: Duration,
    /// Longest line read from the child, in bytes.
    pub line_max: usize,
    pub isolation: Isolation,
    pub interactive: Interactive,
    /// Most children of callers at a time.
    pub max_children: usize,
    /// Spoken with it whatever else it speaks; `None` finds out.
    pub revision: Option<Revision>,
    pub patience: Patience,
}

/// A running backend.
pub struct Stdio {
    config: Arc<Config>,
    shared: Arc<Keeper>,
    isolated: Option<Arc<Isolated>>,
    offers: Arc<Offers>,
}

impl Config {
    /// Begins to run the backend in the present tokio runtime, which its children then belong to.
    pub fn build(self, publisher: Publisher) -> Arc<Stdio> {
        let config = Arc::new(self);
        let serialize =
            config.interactive == Interactive::Serialize && config.isolation == Isolation::Shared;
        let plan = Arc::new(Plan {
            config: config.clone(),
            name: config.name.as_str().into(),
            declared: Bytes::from_static(if serialize { EVERYTHING } else { b"{}" }),
            manner: if serialize {
                Manner::Interactive
            } else {
                Manner::Silent
            },
            lists: true,
            publisher,
            changed: Arc::default(),
            missed: AtomicBool::new(false),
            era: Arc::default(),
            words: LastWords::default(),
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
            let talk = keeper.talk(deadline).await?;
            match talk.call(&call, deadline).await {
                Ok(reply) => reply,
                // It was put to sleep, or died, between the two; nothing was sent, so once more is safe.
                Err(Closed) => {
                    let talk = keeper.talk(deadline).await?;
                    talk.call(&call, deadline)
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
        // Who listens for a task does so at the shared child, which takes no calls where each caller has its own.
        self.isolated.is_none()
    }

    fn look(&self) -> BoxFuture<'static, Result<(), Fault>> {
        // What is listed is what the shared child says.
        let keeper = self.shared.clone();
        let deadline = Instant::now() + self.config.timeout;
        async move { keeper.talk(deadline).await?.look(deadline).await }.boxed()
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
