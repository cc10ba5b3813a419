//! Children that belong to one caller each.
//!
//! A child of its own is started by its caller's first call and lives until it is idle for long, until its
//! place is needed for another caller, or until the backend stops; it is not idle while its caller follows a resource. Callers of different capabilities never
//! share one: a legacy server hears them once, at its handshake.
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
use super::supervisor::Policy;
use super::talk::{Changed, Manner};
use super::{Config, Isolation, LastWords};
use crate::relay;

/// Whose a child is.
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

struct Kept {
    keeper: Arc<Keeper>,
    last_use: Instant,
}

pub(crate) struct Isolated {
    config: Arc<Config>,
    publisher: Publisher,
    changed: Arc<Changed>,
    words: LastWords,
    era: Arc<Mutex<Option<Era>>>,
    /// At most `max_children`.
    kept: Mutex<HashMap<Owner, Kept>>,
}

impl Isolated {
    /// Beside the child that `plan` is for.
    pub(crate) fn beside(plan: &Plan) -> Self {
        Self {
            config: plan.config.clone(),
            publisher: plan.publisher.clone(),
            changed: plan.changed.clone(),
            words: plan.words.clone(),
            era: plan.era.clone(),
            kept: Mutex::default(),
        }
    }

    fn owner(&self, caller: &Caller) -> Owner {
        let who = match (self.config.isolation, &caller.session) {
            (Isolation::Session, Some(session)) => session.clone(),
            // Modern callers have no session; who they are stands for it.
            _ => caller.principal(),
        };
        Owner {
            who,
            declared: relay::declared(caller, Revision::NEWEST_LEGACY).into(),
        }
    }

    /// A name for all who have this caller's child.
    pub(crate) fn audience(&self, caller: &Caller) -> Arc<str> {
        self.owner(caller).audience()
    }

    /// The child of this caller, if it has one.
    pub(crate) fn find(&self, caller: &Caller) -> Option<Arc<Keeper>> {
        let kept = self.kept.lock();
        kept.get(&self.owner(caller))
            .map(|kept| kept.keeper.clone())
    }

    /// The child of this caller, to be started if it is new.
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
        let keeper = Arc::new(self.begin(&owner));
        let entry = Kept {
            keeper: keeper.clone(),
            last_use: Instant::now(),
        };
        kept.insert(owner, entry);
        Ok(keeper)
    }

    /// Lets go of the child that was idle longest; its keeper's end ends it.
    fn make_room(&self, kept: &mut HashMap<Owner, Kept>) -> Result<(), Fault> {
        // A call has its keeper from here, under this lock, until its end: it may not have begun to talk yet.
        let is_held = |kept: &Kept| Arc::strong_count(&kept.keeper) > 1;
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
                Err(Fault::new(Kind::BackendUnavailable, text).retry_after_ms(1000))
            }
        }
    }

    fn begin(&self, owner: &Owner) -> Keeper {
        let nobody = owner.declared.as_ref() == b"{}";
        let plan = Plan {
            config: self.config.clone(),
            name: self.config.name.as_str().into(),
            declared: owner.declared.clone(),
            manner: if nobody {
                Manner::Silent
            } else {
                Manner::Interactive
            },
            lists: false,
            publisher: self.publisher.for_audience(&owner.audience()),
            changed: self.changed.clone(),
            missed: AtomicBool::new(false),
            era: self.era.clone(),
            words: self.words.clone(),
        };
        let policy = Policy {
            lazy: true,
            // Its backend stays listed whatever becomes of it, so a call starts it again, with backoff.
            max_restarts: None,
            ..self.config.policy.clone()
        };
        Keeper::begin(Arc::new(plan), policy)
    }

    /// Ends every child; the next call of its caller starts a new one.
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
