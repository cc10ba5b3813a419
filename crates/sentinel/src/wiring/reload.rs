//! Applies a new configuration to a running gateway: changes the differences, keeps everything else.
//!
//! Steps that can fail come first; then policy, so that nothing new is reachable under old rules; then the backends,
//! all at once. A replaced or removed backend ends after its last call. Calls in flight continue.

use std::sync::Arc;

use anyhow::bail;
use sentinel_core::Backend;
use sentinel_core::catalog::{Listing, Plan, PlannedBackend};
use sentinel_surfaces::http::admin::reload::Reloaded;

use super::{
    Entrance, RememberedBackend, Running, allowed, enabled, governing, limits, listing, mounts,
    place, review_settings, start,
};
use crate::config::{self, Config, Reload, Section};
use crate::{audit, identity, logging};

impl Running {
    /// Applies a configuration, or leaves everything as it is.
    pub(crate) fn apply(&self, next: Config) -> anyhow::Result<Reloaded> {
        let mut current = self.current.lock();
        let mut applied = Reloaded {
            restart_needed: next.changed_keys(&self.first, &[Reload::Restart]),
            notices: next.notices.clone(),
            ..Reloaded::default()
        };
        let mut next = next.keep_startup_only_settings(&self.first);
        if self.entrance.lock().is_none() {
            // Without an HTTP listener the only caller was identified at the start.
            let auth = next.auth.changed(&self.first.auth).into_iter();
            let auth = auth.filter(|key| key.reload != Reload::Restart);
            applied
                .restart_needed
                .extend(auth.map(|key| format!("auth.{}", key.name)));
            next.auth.clone_from(&self.first.auth);
        }
        let guard = self.new_guard(&current, &next)?;

        let wanted = enabled(&next);
        let registry = &self.gateway.registry;
        let mut wishes = compare(&current, &next, &wanted, &mut applied);
        // The built-in backend stays last.
        let builtin = registry.index_of(sentinel_review::tools::NAME);
        wishes.extend(builtin.map(|_| PlannedBackend {
            listing: Listing::new(sentinel_review::tools::NAME),
            keep: true,
        }));
        let plan = registry.plan(wishes);
        let fresh = |backend: &config::Backend| !applied.kept.contains(&backend.name);
        let started = self.start_new(&next, &wanted, &plan, fresh)?;

        // From here on nothing fails.
        let places: Vec<usize> = (0..wanted.len() + usize::from(builtin.is_some()))
            .map(|n| plan.index(n))
            .collect();
        self.govern(&current, &next, &wanted, &places, &mut applied);
        self.bound(&current, &next, &mut applied);
        if let Some(entrance) = &mut *self.entrance.lock() {
            entrance.set_access(&current, &next, guard, &mut applied);
        }
        for retired in plan.commit() {
            (self.home)(0).spawn(retired.end(next.gateway.drain_timeout));
        }
        for (_, remembering) in started {
            self.places.put(remembering);
        }
        let files: Vec<_> = wanted.iter().map(|b| place(&self.first, b)).collect();
        self.places
            .retain(|file| files.iter().any(|place| place.file() == file));
        let gone = enabled(&current).into_iter().map(|old| &old.name);
        applied.removed = gone
            .filter(|name| wanted.iter().all(|new| new.name != **name))
            .cloned()
            .collect();
        *current = next;
        Ok(applied)
    }

    /// The new admission rules, if they differ.
    fn new_guard(
        &self,
        current: &Config,
        next: &Config,
    ) -> anyhow::Result<Option<identity::Guard>> {
        if self.entrance.lock().is_none() || current.auth == next.auth {
            return Ok(None);
        }
        // A truncated file looks like this, and the listening address does not change.
        if next.auth.is_none() {
            bail!("[auth] was removed: restart to run without authentication");
        }
        identity::access(next, &(self.home)(0)).map(Some)
    }

    /// Starts the backends that are `fresh`, or none.
    fn start_new(
        &self,
        next: &Config,
        wanted: &[&config::Backend],
        plan: &Plan,
        fresh: impl Fn(&config::Backend) -> bool,
    ) -> anyhow::Result<Vec<(Arc<dyn Backend>, RememberedBackend)>> {
        let mut started = Vec::new();
        for (n, backend) in wanted
            .iter()
            .enumerate()
            .filter(|(_, backend)| fresh(backend))
        {
            let publisher = plan.publisher(n);
            let place = place(&self.first, backend);
            if publisher.offer().is_none()
                && let Some(offer) = place.load()
            {
                publisher.remember(offer);
            }
            match start(
                backend,
                next,
                publisher.clone(),
                &(self.home)(plan.index(n)),
                false,
            ) {
                Ok(running) => {
                    plan.attach(n, running.clone());
                    started.push((running, RememberedBackend::new(publisher, place)));
                }
                Err(error) => {
                    self.give_up(started.into_iter().map(|(backend, _)| backend));
                    return Err(error);
                }
            }
        }
        Ok(started)
    }

    /// Stops what was started for a configuration that is rejected.
    fn give_up(&self, started: impl Iterator<Item = Arc<dyn Backend>>) {
        for backend in started {
            (self.home)(0).spawn(backend.stop());
        }
    }

    /// Bounds on callers, claims, and log level.
    fn bound(&self, current: &Config, next: &Config, applied: &mut Reloaded) {
        if limits(current) != limits(next) {
            self.gateway.set_limits(limits(next));
        }
        if current.limits != next.limits {
            applied.changed.push("limits".to_owned());
        }
        if current.console != next.console {
            applied.changed.push("console".to_owned());
        }
        if current.review != next.review {
            if let Some(service) = &self.reviews {
                service.follow(review_settings(next));
            }
            applied.changed.push("review".to_owned());
        }
        if current.gateway != next.gateway {
            logging::follow(next);
            let wait = next.gateway.first_list_timeout;
            self.gateway.registry.set_first_answer_wait(wait);
            applied.changed.push("gateway".to_owned());
        }
    }

    /// Roles, limits and kills; equal ones are not replaced, so that no change of lists is announced.
    fn govern(
        &self,
        current: &Config,
        next: &Config,
        wanted: &[&config::Backend],
        places: &[usize],
        applied: &mut Reloaded,
    ) {
        let policy = &self.gateway.policy;
        policy.set_open(next.auth.is_none());
        if current.rbac != next.rbac {
            policy.set_roles(governing::roles(next));
            applied.changed.push("rbac".to_owned());
        }
        if current.surfaces != next.surfaces {
            policy.reconfigure_confirmations(&governing::confirmations(next));
            applied.changed.push("surfaces".to_owned());
        }
        if current.kill_switch != next.kill_switch {
            policy.reconfigure_kills(governing::configured_kills(next));
            applied.changed.push("kill_switch".to_owned());
        }
        if current.rate_limits != next.rate_limits {
            policy.rates().reconfigure(governing::rates(next));
            applied.changed.push("rate_limits".to_owned());
        }
        if let Some(admission) = policy.admission() {
            let hook = governing::overload_hook(next, &(self.home)(0));
            admission.reconfigure(&governing::admission_config(next, wanted), places, hook);
        }
        if current.admission != next.admission {
            applied.changed.push("admission".to_owned());
        }
        let mut guarantees = vec![None; places.iter().max().map_or(0, |last| last + 1)];
        for (backend, place) in wanted.iter().zip(places) {
            guarantees[*place] = Some(audit::guarantee(backend.guarantee));
        }
        let auditor = &self.gateway.auditor;
        auditor.reconfigure(audit::settings(next, guarantees));
        if current.audit != next.audit {
            applied.changed.push("audit".to_owned());
        }
        self.gateway.auditor.governed_by(governing::version(next));
    }
}

impl Entrance {
    fn set_access(
        &mut self,
        current: &Config,
        next: &Config,
        guard: Option<identity::Guard>,
        applied: &mut Reloaded,
    ) {
        let rules = |config: &Config| (allowed(config, &self.addresses), mounts(config));
        let then = rules(next);
        if guard.is_none() && rules(current) == then {
            return;
        }
        let access = guard.map(|guard| {
            applied.changed.push("auth".to_owned());
            self._keeping = guard.keeping;
            guard.access
        });
        let (allowed, mounts) = then;
        self.server.set_access(allowed, mounts, access);
    }
}

/// The backends of the next configuration in its order; notes in `applied` how each differs.
fn compare(
    current: &Config,
    next: &Config,
    wanted: &[&config::Backend],
    applied: &mut Reloaded,
) -> Vec<PlannedBackend> {
    let of_now = |name: &str| {
        let mut all = current.backends.iter();
        all.find(|old| old.enabled && old.name == name)
    };
    let mut wishes = Vec::with_capacity(wanted.len() + 1);
    for backend in wanted {
        let old = of_now(&backend.name);
        let keep = old.is_some_and(|old| old.runs_like(backend));
        let list = match (old, keep) {
            (None, _) => &mut applied.added,
            (_, true) => &mut applied.kept,
            (_, false) => &mut applied.replaced,
        };
        list.push(backend.name.clone());
        let was = |old: &config::Backend| {
            // An inherited value is a change of [audit].
            let inherits = old.guarantee == current.audit.guarantee
                && backend.guarantee == next.audit.guarantee;
            config::Backend {
                guarantee: if inherits {
                    backend.guarantee
                } else {
                    old.guarantee
                },
                ..old.clone()
            }
        };
        if old.is_some_and(|old| keep && was(old) != **backend) {
            applied.changed.push(format!("backends.{}", backend.name));
        }
        let listing = listing(backend);
        wishes.push(PlannedBackend { listing, keep });
    }
    wishes
}
