//! Backends that an operator keeps down: another takes their place in the registry, which refuses every call.
//!
//! Kept until the backend is started again, its configuration is removed, or the gateway ends.

use std::sync::Arc;

use anyhow::anyhow;
use sentinel_core::backend::StoppedBackend;
use sentinel_core::catalog::{Listing, Plan, PlannedBackend, Retired};

use super::{Running, enabled, listing};
use crate::config;

impl Running {
    /// Puts a stand-in into the backend's place. Returns what is to be ended: nothing, if it was stopped before.
    pub(crate) fn stop_backend(&self, name: &str, reason: &str) -> anyhow::Result<Option<Retired>> {
        let current = self.current.lock();
        let (wanted, at) = place_of(&current, name)?;
        let running = self.gateway.registry.running(name);
        let running = running.ok_or_else(|| unknown(name))?;
        let is_stopped = running.stopped().is_some();
        let stopped = Arc::new(StoppedBackend::of(&*running, reason));
        self.stopped.lock().insert(name.to_owned(), stopped.clone());
        let plan = self.plan_with(&wanted, at);
        // Out of the lists before calls are refused.
        plan.publisher(at).withdraw();
        plan.attach(at, stopped);
        let retired = plan.commit().pop();
        Ok(retired.filter(|_| !is_stopped))
    }

    /// Starts a backend that is kept down; another one is left alone.
    pub(crate) fn start_backend(&self, name: &str) -> anyhow::Result<()> {
        let current = self.current.lock();
        let (wanted, at) = place_of(&current, name)?;
        if self.kept_down(name).is_none() {
            return Ok(());
        }
        let plan = self.plan_with(&wanted, at);
        let (_, remembering) = self.start_one(&current, wanted[at], &plan, at)?;
        self.stopped.lock().remove(name);
        // The stand-in has nothing to end.
        drop(plan.commit());
        self.places.put(remembering);
        Ok(())
    }

    /// The stand-in of a backend that is kept down.
    pub(super) fn kept_down(&self, name: &str) -> Option<Arc<StoppedBackend>> {
        self.stopped.lock().get(name).cloned()
    }

    /// A plan that keeps every backend but the one at this place.
    fn plan_with(&self, wanted: &[&config::Backend], at: usize) -> Plan {
        let keep = |(n, backend): (usize, &&config::Backend)| PlannedBackend {
            listing: listing(backend),
            keep: n != at,
        };
        let (plan, _) = self.plan_of(wanted.iter().enumerate().map(keep).collect());
        plan
    }

    /// A plan of these backends and the built-in one, which stays last; and how many that are.
    pub(super) fn plan_of(&self, mut wishes: Vec<PlannedBackend>) -> (Plan, usize) {
        let registry = &self.gateway.registry;
        let builtin = registry.index_of(sentinel_review::tools::NAME);
        wishes.extend(builtin.map(|_| PlannedBackend {
            listing: Listing::new(sentinel_review::tools::NAME),
            keep: true,
        }));
        let count = wishes.len();
        (registry.plan(wishes), count)
    }
}

/// The enabled backends, and the place of one among them.
fn place_of<'c>(
    current: &'c config::Config,
    name: &str,
) -> anyhow::Result<(Vec<&'c config::Backend>, usize)> {
    let wanted = enabled(current);
    let at = wanted.iter().position(|backend| backend.name == name);
    let at = at.ok_or_else(|| unknown(name))?;
    Ok((wanted, at))
}

fn unknown(name: &str) -> anyhow::Error {
    anyhow!("there is no backend `{name}`")
}
