//! Policy: visibility and permission, the kill switch, rate limits, and admission.
//!
//! One `Policy` per gateway. The walk asks it for every call, surfaces ask it for lists; both use `grant`, so a
//! listed operation is callable exactly as far as it is granted.
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
use crate::caller::{Addressing, Caller};
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
mod visibility;
mod visible;

pub(crate) use confirmations::Bound;
pub use confirmations::{ConfirmConfig, Confirmations};
pub(crate) use kill::disabled;
pub use kill::{CONFIGURED, KillSwitch, Killed, KilledBy, Kills, Scope};
pub use rates::{BucketFigures, Limited, RateConfig, RateFigures, Rates, UsedBucket};
pub use roles::{ADMIN, Grant, Role, Roles, Ruling};
pub use shared::{Allowance, Decision, SharedFigures, SharedRates};

pub use visible::{Visible, VisibleId};

use roles::Unlisted;
use visibility::BackendVisibility;

/// The parts of a policy.
pub struct Settings {
    pub roles: Roles,
    pub kills: KillSwitch,
    pub rates: RateConfig,
    pub confirm: ConfirmConfig,
    /// `None`: limits are local to this gateway.
    pub shared_rates: Option<Arc<dyn SharedRates>>,
    /// `None`: no admission control.
    pub admission: Option<Arc<Admission>>,
    /// No authentication, so that every caller sees the same.
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
    /// The view of each role by scopes; all unconfigured roles share one entry.
    views: Mutex<HashMap<ViewKey, RoleView>>,
    visibility: BackendVisibility,
}

/// A role, the relevant scopes of a token in order, the tag filter, and the capability set and addressing where lists depend
/// on them.
type ViewKey = (
    Option<Arc<str>>,
    Vec<Arc<str>>,
    Option<tags::TagFilter>,
    Option<(CapabilitySet, Addressing)>,
);

/// Bound on cached views. Issuers use few sets of scopes and clients few filters; beyond the bound lists are computed
/// each time.
const VIEWS_MAX: usize = 1024;

/// A role's view, and the catalog it was made from.
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
            visibility: BackendVisibility::default(),
        })
    }

    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The caller's grant for an operation, before the kill switch.
    pub fn grant(&self, caller: &Caller, operation: &Operation) -> Grant {
        let roles = self.roles.load();
        let role = roles.get(&caller.role);
        role.map_or(Grant::NONE, |role| self.granted(role, caller, operation))
    }

    /// The predicate itself: allowed by both the role and the token's scopes.
    fn granted(&self, role: &Role, caller: &Caller, operation: &Operation) -> Grant {
        if !operation.is_offered_to(caller) {
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

    /// Whether the identity sees any operation of this backend, killed or not. To callers that see none, the backend
    /// does not exist. While its offer is unknown, the remembered offer counts, and rules about the whole backend.
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
        self.visibility.sees(made_from, identity, index, look)
    }

    /// Computes the answer of `sees_backend`.
    fn looks_for(&self, role: &Role, scopes: &[Arc<str>], catalog: &Catalog, index: usize) -> bool {
        // It was added after this catalog was built.
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
        // Unlisted operations can be granted by name: a URI, a backend's own method.
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

    /// Whether this caller may currently use every operation.
    pub(crate) fn permits_all(&self, caller: &Caller) -> bool {
        let roles = self.roles.load();
        roles.get(&caller.role).is_some_and(|role| role.is_full())
            && caller.scopes.is_empty()
            && caller.tags.is_none()
            && self.kills.now().is_empty()
    }

    /// Whether the identity may see all operations: required for complete figures, which contain their names.
    pub fn sees_everything(&self, identity: &Identity) -> bool {
        let roles = self.roles.load();
        let Some(role) = roles.get(&identity.role) else {
            return false;
        };
        let narrowed = identity.scopes.iter().any(|scope| scopes::is_ours(scope));
        !narrowed && (role.is_admin() || role.sees_all())
    }

    /// Whether a resource of this backend may be hidden from this caller.
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

    /// Resolves when the roles are replaced by a set without this one.
    pub async fn role_removed(&self, role: &str) {
        let mut changes = self.role_changes.subscribe();
        while changes.changed().await.is_ok() {
            if !self.has_role(role) {
                return;
            }
        }
    }

    /// Signals every later change of the roles.
    pub fn role_changes(&self) -> watch::Receiver<()> {
        self.role_changes.subscribe()
    }

    /// The roles in force.
    pub fn roles(&self) -> Arc<Roles> {
        self.roles.load_full()
    }

    pub fn has_role(&self, role: &str) -> bool {
        self.roles.load().get(role).is_some()
    }

    /// Replaces the roles, for every call that begins after this.
    pub fn set_roles(&self, roles: Roles) {
        self.confirmations.roles_changed(roles.confirm());
        self.roles.store(Arc::new(roles));
        self.role_changes.send_replace(());
        self.registry.announce();
    }

    /// Sets whether callers are distinguished, for every list from now on.
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

    /// Replaces the configuration's own kill list, after a reload.
    pub fn reconfigure_kills(&self, configured: Vec<Killed>) {
        self.kills.reconfigure(configured);
        self.registry.announce();
    }

    /// Number of operations that a kill would hit now; `None` where it is not about operations.
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

    /// Loads kills of other processes. Blocks on the disk.
    pub fn look_at_kills(&self) {
        if self.kills.look_again() {
            self.registry.announce();
        }
    }

    /// Revokes a kill. Blocks on the disk.
    pub fn revive(&self, scope: Scope, name: &str) -> std::io::Result<bool> {
        let revived = self.kills.revive(scope, name)?;
        self.registry.announce();
        Ok(revived)
    }

    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Replaces the patterns of confirmed tools; issued tokens stay valid.
    pub fn reconfigure_confirmations(&self, config: &ConfirmConfig) {
        let of_roles = self.roles.load().confirm();
        self.confirmations.reconfigure(config, of_roles);
    }

    pub(crate) fn confirmations(&self) -> &Confirmations {
        &self.confirmations
    }

    /// Whether any tool requires confirmation.
    pub(crate) fn uses_confirmations(&self) -> bool {
        self.confirmations.is_used()
    }

    /// Whether this caller has to confirm calls of this tool.
    pub fn must_confirm(&self, caller: &Caller, tool: &Operation) -> bool {
        self.confirmed_by(caller, tool).is_some()
    }

    /// The setting by which this caller has to confirm calls of this tool.
    pub(crate) fn confirmed_by(&self, caller: &Caller, tool: &Operation) -> Option<String> {
        if !self.uses_confirmations() {
            return None;
        }
        let of_role = || {
            let roles = self.roles.load();
            let pattern = roles.get(&caller.role)?.must_confirm(tool)?;
            Some(format!("rbac.roles.{}.confirm: {pattern}", caller.role))
        };
        let of_all = self.confirmations.naming(tool);
        of_all
            .map(|pattern| format!("surfaces.confirm: {pattern}"))
            .or_else(of_role)
    }

    pub fn admission(&self) -> Option<&Arc<Admission>> {
        self.admission.as_ref()
    }

    /// The result of a list method for this caller: the first page, or that of a cursor.
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

    /// The instructions of the backends that this caller sees.
    pub fn instructions(&self, caller: &Caller, view: View) -> Option<String> {
        match self.seen(caller, view) {
            Seen::Everything(catalog) => catalog.instructions(view).map(str::to_owned),
            Seen::Part(seen) => seen.instructions(view).map(str::to_owned),
        }
    }

    /// A tool by its name in a view, if this caller may call it.
    pub fn callable_tool(&self, caller: &Caller, view: View, name: &str) -> Option<Arc<Operation>> {
        let tool = self.registry.tool(view, name)?;
        self.grant(caller, &tool).call.then_some(tool)
    }

    /// The scopes that narrow the caller's view.
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
            .then(|| (caller.capability_set(), caller.addressing));
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
        // Drops the views of roles that a reload removed.
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

/// Whether a name in a denial or limit refers to this operation.
pub fn means(name: &str, operation: &Operation) -> bool {
    roles::Pattern::new(name).matches(operation)
}

enum Seen {
    Everything(Arc<Catalog>),
    Part(Arc<Filtered>),
}
