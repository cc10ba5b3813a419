//! Applies a new configuration to a running gateway: changes the differences, keeps everything else.
//!
//! Steps that can fail come first; then policy, so that nothing new is reachable under old rules; then the backends,
//! all at once. A replaced or removed backend ends after its last call. Calls in flight continue.

use std::sync::Arc;

use anyhow::bail;
use sentinel_backends::kind_of;
use sentinel_core::Backend;
use sentinel_core::Description;
use sentinel_core::catalog::{Plan, PlannedBackend};
use sentinel_surfaces::http::admin::reload::Reloaded;

use super::{
    Entrance, RememberedBackend, Running, allowed, enabled, governing, limits, listing, mounts,
    place, review_settings, start,
};
use crate::config::{self, Config, Reload, Section};
use crate::{audit, identity, logging};

/// A configuration compared with the one in force.
struct Difference {
    /// With the values that only a restart changes as they were at the start.
    next: Config,
    /// What applying it does.
    reloaded: Reloaded,
    /// The backends in their order, without the built-in one.
    wishes: Vec<PlannedBackend>,
}

impl Difference {
    fn has(&self, section: &str) -> bool {
        self.reloaded.changed.iter().any(|one| one == section)
    }
}

impl Running {
    /// What `apply` would do; nothing is done.
    pub(crate) fn plan(&self, next: Config) -> anyhow::Result<Reloaded> {
        let difference = self.compare(&self.current.lock(), next)?;
        Ok(difference.reloaded)
    }

    /// Applies a configuration, or leaves everything as it is.
    pub(crate) fn apply(&self, next: Config) -> anyhow::Result<Reloaded> {
        let mut current = self.current.lock();
        let mut difference = self.compare(&current, next)?;
        let wishes = std::mem::take(&mut difference.wishes);
        let next = &difference.next;
        let guard = match difference.has("auth") {
            true => Some(identity::access(next, &(self.home)(0))?),
            false => None,
        };
        let wanted = enabled(next);
        let (plan, count) = self.plan_of(wishes);
        let kept = &difference.reloaded.kept;
        let fresh = |backend: &config::Backend| !kept.contains(&backend.name);
        let started = self.start_new(next, &wanted, &plan, fresh)?;

        // From here on nothing fails.
        let places: Vec<usize> = (0..count).map(|n| plan.index(n)).collect();
        self.govern(&difference, &wanted, &places);
        self.bound(&difference);
        if let Some(entrance) = &mut *self.entrance.lock() {
            entrance.set_access(&current, next, guard);
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
        let is_wanted = |name: &String| wanted.iter().any(|new| new.name == *name);
        self.stopped.lock().retain(|name, _| is_wanted(name));
        *current = difference.next;
        Ok(difference.reloaded)
    }

    /// Compares a configuration with the one in force; an error says why it cannot be applied.
    fn compare(&self, current: &Config, next: Config) -> anyhow::Result<Difference> {
        let mut reloaded = Reloaded {
            restart_needed: next.changed_keys(&self.first, &[Reload::Restart]),
            notices: next.notices.clone(),
            ..Reloaded::default()
        };
        let mut next = next.keep_startup_only_settings(&self.first);
        let is_entered = self.entrance.lock().is_some();
        if !is_entered {
            // Without an HTTP listener the only caller was identified at the start.
            let auth = next.auth.changed(&self.first.auth).into_iter();
            let auth = auth.filter(|key| key.reload != Reload::Restart);
            reloaded
                .restart_needed
                .extend(auth.map(|key| format!("auth.{}", key.name)));
            next.auth.clone_from(&self.first.auth);
        }
        // A truncated file looks like this, and the listening address does not change.
        if is_entered && current.auth.is_some() && next.auth.is_none() {
            bail!("[auth] was removed: restart to run without authentication");
        }
        let wanted = enabled(&next);
        let wishes = compare_backends(current, &next, &wanted, &mut reloaded);
        let gone = enabled(current).into_iter().map(|old| &old.name);
        reloaded.removed = gone
            .filter(|name| wanted.iter().all(|new| new.name != **name))
            .cloned()
            .collect();
        let sections = changed_sections(current, &next);
        reloaded.changed.extend(sections.map(str::to_owned));
        Ok(Difference {
            next,
            reloaded,
            wishes,
        })
    }

    /// Starts the backends that are `fresh`, or none. Those that an operator keeps down stay so.
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
            if let Some(stopped) = self.kept_down(&backend.name) {
                let kind = kind_of(&backend.kind);
                let described = Description {
                    kind: kind.type_name(),
                    target: kind.target(),
                };
                let stopped = Arc::new(stopped.described(described));
                plan.publisher(n).withdraw();
                plan.attach(n, stopped);
                continue;
            }
            match self.start_one(next, backend, plan, n) {
                Ok(one) => started.push(one),
                Err(error) => {
                    self.give_up(started.into_iter().map(|(backend, _)| backend));
                    return Err(error);
                }
            }
        }
        Ok(started)
    }

    /// Starts the nth backend of a plan.
    pub(super) fn start_one(
        &self,
        config: &Config,
        backend: &config::Backend,
        plan: &Plan,
        n: usize,
    ) -> anyhow::Result<(Arc<dyn Backend>, RememberedBackend)> {
        let publisher = plan.publisher(n);
        let place = place(&self.first, backend);
        if publisher.offer().is_none()
            && let Some(offer) = place.load()
        {
            publisher.remember(offer);
        }
        let home = (self.home)(plan.index(n));
        let running = start(backend, config, publisher.clone(), &home, false)?;
        plan.attach(n, running.clone());
        Ok((running, RememberedBackend::new(publisher, place)))
    }

    /// Stops what was started for a configuration that is rejected.
    fn give_up(&self, started: impl Iterator<Item = Arc<dyn Backend>>) {
        for backend in started {
            (self.home)(0).spawn(backend.stop());
        }
    }

    /// Bounds on callers, claims, and log level.
    fn bound(&self, difference: &Difference) {
        let next = &difference.next;
        if difference.has("limits") || difference.has("console") {
            self.gateway.set_limits(limits(next));
        }
        if difference.has("review")
            && let Some(service) = &self.reviews
        {
            service.follow(review_settings(next));
        }
        if difference.has("gateway") {
            logging::follow(next);
            let wait = next.gateway.first_list_timeout;
            self.gateway.registry.set_first_answer_wait(wait);
        }
    }

    /// Roles, limits and kills; equal ones are not replaced, so that no change of lists is announced.
    fn govern(&self, difference: &Difference, wanted: &[&config::Backend], places: &[usize]) {
        let (policy, next) = (&self.gateway.policy, &difference.next);
        policy.set_open(next.auth.is_none());
        if difference.has("rbac") {
            policy.set_roles(governing::roles(next));
        }
        if difference.has("surfaces") {
            policy.reconfigure_confirmations(&governing::confirmations(next));
        }
        if difference.has("kill_switch") {
            policy.reconfigure_kills(governing::configured_kills(next));
        }
        if difference.has("rate_limits") {
            policy.rates().reconfigure(governing::rates(next));
        }
        if let Some(admission) = policy.admission() {
            let hook = governing::overload_hook(next, &(self.home)(0));
            admission.reconfigure(&governing::admission_config(next, wanted), places, hook);
        }
        let mut guarantees = vec![None; places.iter().max().map_or(0, |last| last + 1)];
        for (backend, place) in wanted.iter().zip(places) {
            guarantees[*place] = Some(audit::guarantee(backend.guarantee));
        }
        let auditor = &self.gateway.auditor;
        auditor.reconfigure(audit::settings(next, guarantees));
        self.gateway.auditor.governed_by(governing::version(next));
    }
}

impl Entrance {
    fn set_access(&mut self, current: &Config, next: &Config, guard: Option<identity::Guard>) {
        let rules = |config: &Config| (allowed(config, &self.addresses), mounts(config));
        let then = rules(next);
        if guard.is_none() && rules(current) == then {
            return;
        }
        let access = guard.map(|guard| {
            self._keeping = guard.keeping;
            guard.access
        });
        let (allowed, mounts) = then;
        self.server.set_access(allowed, mounts, access);
    }
}

/// The sections that differ, in the order in which they are applied.
fn changed_sections(current: &Config, next: &Config) -> impl Iterator<Item = &'static str> {
    let sections = [
        ("rbac", current.rbac != next.rbac),
        ("surfaces", current.surfaces != next.surfaces),
        ("kill_switch", current.kill_switch != next.kill_switch),
        ("rate_limits", current.rate_limits != next.rate_limits),
        ("admission", current.admission != next.admission),
        ("audit", current.audit != next.audit),
        ("limits", current.limits != next.limits),
        ("review", current.review != next.review),
        ("gateway", current.gateway != next.gateway),
        ("console", current.console != next.console),
        ("auth", current.auth != next.auth),
    ];
    let changed = sections.into_iter().filter(|(_, differs)| *differs);
    changed.map(|(section, _)| section)
}

/// The backends of the next configuration in its order; notes in `applied` how each differs.
fn compare_backends(
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
