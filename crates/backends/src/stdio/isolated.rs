//! Children that belong to one caller each.
//!
//! A caller's first call starts its child, which lives until it was idle for long, until its slot is needed for
//! another caller, or until the backend stops; a child whose caller follows a resource is not idle. Callers of
//! different capabilities never share one: a legacy server gets them once, in its handshake.
//!
//! Not here: which lists are shown (the shared child's, `super`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use futures_util::future::join_all;
use parking_lot::Mutex;
use sentinel_core::catalog::Publisher;
use sentinel_core::{Caller, Fault, Kind};
use sentinel_wire::{Era, Revision};
use tokio::time::Instant;

use super::keeper::Keeper;
use super::life::Plan;
use super::session::{CallMode, ChangedLists};
use super::supervisor::Policy;
use super::{Config, Isolation, OutputTail};
use crate::relay;

/// Enough to tell the sessions of a caller apart.
const SESSION_CHARS_SHOWN: usize = 8;

/// The key of a child: the callers that share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Owner {
    who: Arc<str>,
    declared: Bytes,
}

impl Owner {
    fn audience(&self) -> Arc<str> {
        let declared = String::from_utf8_lossy(&self.declared);
        format!("{}\0{declared}", self.who).into()
    }
}

struct OwnedChild {
    keeper: Arc<Keeper>,
    last_use: Instant,
}

pub(crate) struct Isolated {
    config: Arc<Config>,
    publisher: Publisher,
    changed: Arc<ChangedLists>,
    output_tail: OutputTail,
    era: Arc<Mutex<Option<Era>>>,
    /// At most `max_children`.
    kept: Mutex<HashMap<Owner, OwnedChild>>,
}

impl Isolated {
    /// Creates the set for the backend whose shared child has this plan.
    pub(crate) fn beside(plan: &Plan) -> Self {
        Self {
            config: plan.config.clone(),
            publisher: plan.publisher.clone(),
            changed: plan.changed.clone(),
            output_tail: plan.output_tail.clone(),
            era: plan.era.clone(),
            kept: Mutex::default(),
        }
    }

    fn owner(&self, caller: &Caller) -> Owner {
        let who = match (self.config.isolation, &caller.session) {
            (Isolation::Session, Some(session)) => session.clone(),
            // Modern callers have no session; their identity is used in its place.
            _ => caller.principal(),
        };
        Owner {
            who,
            declared: relay::declared(caller, Revision::NEWEST_LEGACY).into(),
        }
    }

    /// A key common to all callers that share this caller's child.
    pub(crate) fn audience(&self, caller: &Caller) -> Arc<str> {
        self.owner(caller).audience()
    }

    /// The child of this caller, if it has one.
    pub(crate) fn find(&self, caller: &Caller) -> Option<Arc<Keeper>> {
        let kept = self.kept.lock();
        kept.get(&self.owner(caller))
            .map(|kept| kept.keeper.clone())
    }

    /// The child of this caller, created if needed.
    pub(crate) fn of(&self, caller: &Caller) -> Result<Arc<Keeper>, Fault> {
        let owner = self.owner(caller);
        let mut kept = self.kept.lock();
        if let Some(kept) = kept.get_mut(&owner) {
            kept.last_use = Instant::now();
            return Ok(kept.keeper.clone());
        }
        if kept.len() >= self.config.max_children {
            self.make_room(&mut kept)?;
        }
        let keeper = Arc::new(self.begin(&owner, caller));
        let entry = OwnedChild {
            keeper: keeper.clone(),
            last_use: Instant::now(),
        };
        kept.insert(owner, entry);
        Ok(keeper)
    }

    /// Evicts the child that was idle longest; dropping its keeper ends it.
    fn make_room(&self, kept: &mut HashMap<Owner, OwnedChild>) -> Result<(), Fault> {
        // A call holds its keeper from here, under this lock, until its end, so a keeper in use is not evicted even
        // before it talks.
        let is_held = |kept: &OwnedChild| Arc::strong_count(&kept.keeper) > 1;
        let idle = kept
            .iter()
            .filter(|(_, kept)| !is_held(kept) && kept.keeper.is_idle());
        let oldest = idle
            .min_by_key(|(_, kept)| kept.last_use)
            .map(|(owner, _)| owner.clone());
        match oldest.and_then(|owner| kept.remove(&owner)) {
            Some(gone) => {
                drop(gone.keeper.stop());
                Ok(())
            }
            None => {
                let name = &self.config.name;
                let text = format!("backend `{name}` runs for as many callers as it may");
                let fault = Fault::new(Kind::BackendUnavailable, text).not_run();
                Err(fault.retry_after_ms(1000))
            }
        }
    }

    /// How operators are told whose child it is: the id of a session is as good as a credential to some servers, so only
    /// its beginning is shown.
    fn whose(&self, caller: &Caller) -> Arc<str> {
        match (self.config.isolation, &caller.session, &caller.tenant) {
            (Isolation::Session, Some(session), _) => {
                let begin: String = session.chars().take(SESSION_CHARS_SHOWN).collect();
                format!("session {begin}").into()
            }
            (_, _, Some(tenant)) => format!("{} ({tenant})", caller.subject).into(),
            (_, _, None) => caller.subject.clone(),
        }
    }

    fn begin(&self, owner: &Owner, caller: &Caller) -> Keeper {
        let nobody = owner.declared.as_ref() == b"{}";
        let plan = Plan {
            config: self.config.clone(),
            name: self.config.name.as_str().into(),
            declared: owner.declared.clone(),
            mode: if nobody {
                CallMode::Parallel
            } else {
                CallMode::Interactive
            },
            lists: false,
            publisher: self.publisher.for_audience(&owner.audience()),
            changed: self.changed.clone(),
            missed: AtomicBool::new(false),
            era: self.era.clone(),
            output_tail: self.output_tail.of(self.whose(caller)),
        };
        let policy = Policy {
            lazy: true,
            // The backend stays listed in any case, so a call starts the child again, with backoff.
            max_restarts: None,
            ..self.config.policy.clone()
        };
        Keeper::begin(Arc::new(plan), policy)
    }

    /// Ends every child; the next call of a caller starts a new one.
    pub(crate) fn restart(&self) {
        for (_, kept) in self.kept.lock().drain() {
            drop(kept.keeper.stop());
        }
    }

    pub(crate) async fn stop(&self) {
        let all: Vec<_> = self
            .kept
            .lock()
            .drain()
            .map(|(_, kept)| kept.keeper)
            .collect();
        join_all(all.iter().map(|keeper| keeper.stop())).await;
    }
}
