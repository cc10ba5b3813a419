//! What governs calls: who sees and calls what, what is switched off, how often, with which
//! arguments, and how many at once.
//!
//! One `Policy` per gateway. The walk asks it on the way of every call, surfaces ask it for lists;
//! both go through `grant`, so that what is listed and what can be called agree everywhere.
//!
//! Not here: who a caller is (surfaces), what codes refusals have (`surfaces::rescue`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::admission::Admission;
use crate::caller::Caller;
use crate::capabilities::CapabilitySet;
use crate::catalog::{Catalog, Filtered, Registry};
use crate::fault::{Fault, Kind};
use crate::identity::Identity;
use crate::invocation::View;
use crate::offer::ItemKind;
use crate::operation::Operation;
use crate::tags;

mod confirmations;
mod kill;
mod rates;
mod roles;
mod scopes;
mod shared;
mod sights;
mod visible;

pub(crate) use confirmations::Bound;
pub use confirmations::{ConfirmConfig, Confirmations};
pub(crate) use kill::disabled;
pub use kill::{CONFIGURED, KillSwitch, Killed, Kills, Scope};
pub use rates::{Limited, RateConfig, RateFigures, Rates};
pub use roles::{ADMIN, Grant, Role, Roles};
pub use shared::{Allowance, Said, SharedFigures, SharedRates, Unavailable};

pub use visible::{Visible, VisibleId};

use roles::Unlisted;
use sights::Sights;

/// What a policy is made of.
pub struct Settings {
    pub roles: Roles,
    pub kills: KillSwitch,
    pub rates: RateConfig,
    pub confirm: ConfirmConfig,
    /// `None`: limits are this gateway's own.
    pub shared_rates: Option<Arc<dyn SharedRates>>,
    /// `None`: nobody waits and nobody is refused.
    pub admission: Option<Arc<Admission>>,
    /// Nobody is asked who it is, so that every caller sees the same.
    pub is_open: bool,
}

impl Default for Settings {
    /// Roles that allow everything to `admin`, and no limits.
    fn default() -> Self {
        Self {
            roles: Roles::default(),
            kills: KillSwitch::open(Vec::new(), None),
            rates: RateConfig::default(),
            confirm: ConfirmConfig::default(),
            shared_rates: None,
            admission: None,
            is_open: true,
        }
    }
}

pub struct Policy {
    pub(crate) registry: Arc<Registry>,
    roles: ArcSwap<Roles>,
    role_changes: watch::Sender<()>,
    kills: KillSwitch,
    rates: Rates,
    confirmations: Confirmations,
    admission: Option<Arc<Admission>>,
    is_open: AtomicBool,
    /// What each role sees, by the scopes that narrow it; one entry for all roles that nobody configured.
    views: Mutex<HashMap<ViewKey, RoleView>>,
    sights: Sights,
}

/// A role, those scopes of a token that say something here, in order, the tags that are asked for, and what can be asked
/// for, where that matters.
type ViewKey = (
    Option<Arc<str>>,
    Vec<Arc<str>>,
    Option<tags::Wanted>,
    Option<CapabilitySet>,
);

/// Roles times sets of scopes and tags: issuers give out few sets and clients ask for few; whoever does not makes lists slower only.
const VIEWS_MAX: usize = 1024;

/// A role's view, and what it was made from.
struct RoleView {
    catalog: Arc<Catalog>,
    roles: Arc<Roles>,
    kills: Arc<Kills>,
    seen: Arc<Filtered>,
}

impl Policy {
    pub fn new(registry: Arc<Registry>, settings: Settings) -> Arc<Self> {
        let of_roles = settings.roles.confirm();
        Arc::new(Self {
            registry,
            confirmations: Confirmations::new(&settings.confirm, of_roles),
            roles: ArcSwap::from_pointee(settings.roles),
            role_changes: watch::Sender::new(()),
            kills: settings.kills,
            rates: Rates::new(settings.rates).shared_by(settings.shared_rates),
            admission: settings.admission,
            is_open: AtomicBool::new(settings.is_open),
            views: Mutex::default(),
            sights: Sights::default(),
        })
    }

    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// What a caller may do with an operation, before anything is switched off.
    pub fn grant(&self, caller: &Caller, operation: &Operation) -> Grant {
        let roles = self.roles.load();
        let role = roles.get(&caller.role);
        role.map_or(Grant::NONE, |role| self.granted(role, caller, operation))
    }

    /// The predicate itself: what both the role and the token's scopes let through.
    fn granted(&self, role: &Role, caller: &Caller, operation: &Operation) -> Grant {
        let set = || caller.capability_set();
        if !operation.offered_to.contain(set) {
            return Grant::NONE;
        }
        if let Some(wanted) = &caller.tags
            && operation.kind == Some(ItemKind::Tool)
            && !wanted.shows(&operation.tags)
        {
            return Grant::NONE;
        }
        self.allowed(role, &caller.scopes, operation)
    }

    fn allowed(&self, role: &Role, scopes: &[Arc<str>], operation: &Operation) -> Grant {
        let of_role = role.grant(operation);
        match scopes.is_empty() {
            true => of_role,
            false => of_role.and(scopes::grant(scopes, operation)),
        }
    }

    /// Whether there is anything of this backend for somebody to see, switched off or not. For whoever sees nothing of
    /// it there is no such backend. While nobody knows what it offers, what it offered before counts, and rules that
    /// are about all of it.
    pub fn sees_backend(&self, identity: &Identity, index: usize) -> bool {
        let roles = self.roles.load();
        let Some(role) = roles.get(&identity.role) else {
            return false;
        };
        if role.is_full() && identity.scopes.is_empty() {
            return true;
        }
        let catalog = self.registry.catalog();
        let look = || self.looks_for(role, &identity.scopes, &catalog, index);
        let made_from = (&catalog, &*roles);
        self.sights.sees(made_from, identity, index, look)
    }

    /// Looks whether there is something.
    fn looks_for(&self, role: &Role, scopes: &[Arc<str>], catalog: &Catalog, index: usize) -> bool {
        // It was added this moment.
        if index >= catalog.places() {
            return false;
        }
        let sees = |operation: &Operation| self.allowed(role, scopes, operation).see;
        let mut listed = catalog.operations(index).peekable();
        let is_listed = listed.peek().is_some();
        if listed.any(|operation| sees(operation)) {
            return true;
        }
        let before = match is_listed {
            true => Vec::new(),
            false => self.registry.tools_given(index),
        };
        if before.iter().any(sees) {
            return true;
        }
        // What is in no list can be granted by its name: a URI, a method of the backend's own.
        let is_known = is_listed || !before.is_empty();
        let unlisted = match catalog.capabilities(View::Only(index)).resources {
            _ if !is_known || catalog.defers(index) => Unlisted::Anything,
            true => Unlisted::Resources,
            false => Unlisted::Methods,
        };
        let name = self.registry.name_of(index);
        name.is_some_and(|backend| {
            role.may_see(&backend, unlisted) && scopes::may_see(scopes, &backend, unlisted)
        })
    }

    /// Whether there is nothing that this caller may not use at the moment.
    pub(crate) fn permits_all(&self, caller: &Caller) -> bool {
        let roles = self.roles.load();
        roles.get(&caller.role).is_some_and(|role| role.is_full())
            && caller.scopes.is_empty()
            && caller.tags.is_none()
            && self.kills.now().is_empty()
    }

    /// Whether somebody may know of everything there is: all figures, and so the names in them, are for such.
    pub fn sees_everything(&self, identity: &Identity) -> bool {
        let roles = self.roles.load();
        let Some(role) = roles.get(&identity.role) else {
            return false;
        };
        let narrowed = identity.scopes.iter().any(|scope| scopes::is_ours(scope));
        !narrowed && (role.is_admin() || role.sees_all())
    }

    /// Whether some resource of this backend may be hidden from this caller.
    pub(crate) fn hides_resources(&self, caller: &Caller, backend: &str) -> bool {
        let roles = self.roles.load();
        let role = roles.get(&caller.role);
        !caller.scopes.is_empty() || !role.is_some_and(|role| role.sees_all_resources(backend))
    }

    /// Whether a caller may use the admin API.
    pub fn is_admin(&self, caller: &Caller) -> bool {
        let roles = self.roles.load();
        let role = roles.get(&caller.role);
        role.is_some_and(|role| role.is_admin()) && scopes::leave_admin(&caller.scopes)
    }

    /// Resolves when there are new roles without this one.
    pub async fn role_removed(&self, role: &str) {
        let mut changes = self.role_changes.subscribe();
        while changes.changed().await.is_ok() {
            if !self.has_role(role) {
                return;
            }
        }
    }

    /// Sees every later change of the roles.
    pub fn role_changes(&self) -> watch::Receiver<()> {
        self.role_changes.subscribe()
    }

    pub fn has_role(&self, role: &str) -> bool {
        self.roles.load().get(role).is_some()
    }

    /// New roles, in force for every call that begins after this.
    pub fn set_roles(&self, roles: Roles) {
        self.confirmations.roles_changed(roles.confirm());
        self.roles.store(Arc::new(roles));
        self.role_changes.send_replace(());
        self.registry.announce();
    }

    /// Whether callers are told apart, for every list from now on.
    pub fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
    }

    pub fn kills(&self) -> &KillSwitch {
        &self.kills
    }

    /// Switches something off; see `KillSwitch::kill`. Blocks on the disk.
    pub fn kill(&self, one: Killed) -> std::io::Result<()> {
        let saved = self.kills.kill(one);
        self.registry.announce();
        saved
    }

    /// What the configuration itself switches off, after a reload.
    pub fn reconfigure_kills(&self, configured: Vec<Killed>) {
        self.kills.reconfigure(configured);
        self.registry.announce();
    }

    /// How many operations something would switch off at the moment; `None` where that is no question
    /// of operations.
    pub fn hits(&self, one: &Killed) -> Option<usize> {
        if matches!(one.scope, Scope::Caller | Scope::All) {
            return None;
        }
        let alone = Kills::only(one);
        let catalog = self.registry.catalog();
        let all = catalog.all_operations();
        Some(
            all.filter(|operation| alone.hits_operation(operation))
                .count(),
        )
    }

    /// Takes up what another process switched off or on. Blocks on the disk.
    pub fn look_at_kills(&self) {
        if self.kills.look_again() {
            self.registry.announce();
        }
    }

    /// Switches something on again. Blocks on the disk.
    pub fn revive(&self, scope: Scope, name: &str) -> std::io::Result<bool> {
        let revived = self.kills.revive(scope, name)?;
        self.registry.announce();
        Ok(revived)
    }

    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// New tools that need a confirmation; tokens that were given out hold on.
    pub fn reconfigure_confirmations(&self, config: &ConfirmConfig) {
        let of_roles = self.roles.load().confirm();
        self.confirmations.reconfigure(config, of_roles);
    }

    pub(crate) fn confirmations(&self) -> &Confirmations {
        &self.confirmations
    }

    /// Whether anything at all needs a confirmation.
    pub(crate) fn uses_confirmations(&self) -> bool {
        self.confirmations.is_used()
    }

    /// Whether this caller has to confirm calls of this tool.
    pub fn must_confirm(&self, caller: &Caller, tool: &Operation) -> bool {
        let of_role = || {
            let roles = self.roles.load();
            let role = roles.get(&caller.role);
            role.is_some_and(|role| role.must_confirm(tool))
        };
        self.uses_confirmations() && (self.confirmations.name(tool) || of_role())
    }

    pub fn admission(&self) -> Option<&Arc<Admission>> {
        self.admission.as_ref()
    }

    /// The result of a list method for this caller: one page, or the one that a cursor leads to.
    pub fn list(
        &self,
        caller: &Caller,
        view: View,
        kind: ItemKind,
        cursor: Option<&str>,
    ) -> Result<Bytes, Fault> {
        let revision = caller.revision;
        let page = match self.seen(caller, view) {
            Seen::Everything(catalog) => {
                let is_open = self.is_open.load(Ordering::Relaxed);
                catalog.page(view, kind, (revision, is_open), cursor)
            }
            Seen::Part(seen) => seen.page(view, kind, revision, cursor),
        };
        page.ok_or_else(|| {
            let text = "unknown cursor: the list may have changed; begin again without one";
            Fault::new(Kind::InvalidParams, text)
        })
    }

    /// What the backends that this caller sees say about themselves.
    pub fn instructions(&self, caller: &Caller, view: View) -> Option<String> {
        match self.seen(caller, view) {
            Seen::Everything(catalog) => catalog.instructions(view).map(str::to_owned),
            Seen::Part(seen) => seen.instructions(view).map(str::to_owned),
        }
    }

    /// A tool by the name it has in a view, if this caller may call it.
    pub fn callable_tool(&self, caller: &Caller, view: View, name: &str) -> Option<Arc<Operation>> {
        let tool = self.registry.tool(view, name)?;
        self.grant(caller, &tool).call.then_some(tool)
    }

    /// The scopes that narrow what a caller sees.
    fn scopes_of(&self, caller: &Caller) -> Vec<Arc<str>> {
        let ours = caller.scopes.iter();
        let mut ours: Vec<Arc<str>> = ours
            .filter(|scope| scopes::is_ours(scope))
            .cloned()
            .collect();
        ours.sort();
        ours.dedup();
        ours
    }

    fn seen(&self, caller: &Caller, view: View) -> Seen {
        let (catalog, roles, kills) = (
            self.registry.catalog(),
            self.roles.load_full(),
            self.kills.now(),
        );
        let role = roles.get(&caller.role).cloned();
        let nothing_off = kills.is_empty() && !catalog.has_held() && !catalog.varies(view);
        let scopes = self.scopes_of(caller);
        let full = role.as_ref().is_some_and(|role| role.is_full());
        if nothing_off && full && scopes.is_empty() && caller.tags.is_none() {
            return Seen::Everything(catalog);
        }
        if kills.hits_caller(&caller.subject) {
            return Seen::Part(Arc::new(catalog.filtered(|_| false)));
        }
        let role_name = role.as_ref().map(|_| caller.role.clone());
        // The filtered catalog holds all views.
        let set = catalog
            .varies(View::Merged)
            .then(|| caller.capability_set());
        let key = (role_name, scopes, caller.tags.clone(), set);
        let mut views = self.views.lock();
        if let Some(known) = views.get(&key)
            && Arc::ptr_eq(&known.catalog, &catalog)
            && Arc::ptr_eq(&known.roles, &roles)
            && Arc::ptr_eq(&known.kills, &kills)
        {
            return Seen::Part(known.seen.clone());
        }
        let sees = |operation: &Operation| {
            let granted = |role: &Arc<Role>| self.granted(role, caller, operation);
            role.as_ref().is_some_and(|role| granted(role).see)
                && !kills.hits_operation(operation)
                && operation.held.is_none()
        };
        let seen = Arc::new(catalog.filtered(sees));
        if caller.tags.as_ref().is_some_and(|tags| !tags.is_usual()) {
            return Seen::Part(seen);
        }
        // Roles that a reload took away are forgotten with their views.
        views.retain(|(role, ..), _| role.as_ref().is_none_or(|role| roles.get(role).is_some()));
        if views.len() >= VIEWS_MAX {
            views.clear();
        }
        let view = RoleView {
            seen: seen.clone(),
            catalog,
            roles,
            kills,
        };
        views.insert(key, view);
        Seen::Part(seen)
    }
}

/// Whether a name in a rule that takes away or limits means this operation.
pub fn means(name: &str, operation: &Operation) -> bool {
    roles::Pattern::new(name).matches(operation)
}

enum Seen {
    Everything(Arc<Catalog>),
    Part(Arc<Filtered>),
}
