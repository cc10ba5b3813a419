//! The file as a whole: one module for each section, in which everything about its keys stands.
//!
//! A key is declared once (`section!`): its rule for reloads, name, type, default, and a doc comment that is its
//! documentation in the schema and in `configs/example.toml`. Times are seconds and may have a fraction. An empty string
//! is an absent value. Checks that need two sections are called from `Builder::build`.

mod admission;
mod audit;
mod auth;
mod backends;
mod console;
mod gateway;
mod kill_switch;
mod limits;
mod listeners;
mod postgres;
mod rate_limits;
mod rbac;
mod redis;
mod review;
mod sqlite;
mod surfaces;
mod telemetry;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Overrides;
use crate::builder::{Builder, Exposure};
use crate::section::{Reload, Section};
use crate::tree::Path;

pub use admission::Admission;
pub use audit::{Audit, AuditArguments, Guarantee};
pub use auth::{Auth, KeySource};
pub use backends::*;
pub use console::{Connect, Console};
pub use gateway::{Gateway, LogFormat};
pub use kill_switch::KillSwitch;
pub use limits::Limits;
pub use listeners::{Listener, SurfaceName};
pub use postgres::Postgres;
pub use rate_limits::RateLimits;
pub use rbac::{Rbac, Role};
pub use redis::Redis;
pub use review::Review;
pub use sqlite::Sqlite;
pub use surfaces::Surfaces;
pub use telemetry::Telemetry;

pub(crate) use gateway::RawGateway;

/// The configuration of a Sentinel gateway. Every key has a default: an empty file is a working
/// gateway.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Sentinel configuration")]
#[schemars(rename = "Config")]
pub(crate) struct RawConfig {
    gateway: RawGateway,
    surfaces: Surfaces,
    /// Further addresses to listen on, each for everything or for one backend or some surfaces.
    listeners: Vec<listeners::RawListener>,
    auth: auth::RawAuth,
    postgres: postgres::RawPostgres,
    sqlite: sqlite::RawSqlite,
    redis: redis::RawRedis,
    /// The servers behind this gateway, in the order that decides who keeps a contested name.
    backends: Vec<RawBackend>,
    rbac: Rbac,
    rate_limits: RateLimits,
    kill_switch: KillSwitch,
    admission: admission::RawAdmission,
    audit: Audit,
    limits: Limits,
    review: review::RawReview,
    telemetry: telemetry::RawTelemetry,
    console: Console,
}

/// The whole configuration as the program needs it: every value decided, units in types.
///
/// Serialising gives the normalised file that `sentinel check` prints, with the names that users type;
/// credentials appear as the variable they came from.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    pub gateway: Gateway,
    pub surfaces: Surfaces,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<Listener>,
    /// None: local callers are trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// None: SQLite is the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postgres: Option<Postgres>,
    pub sqlite: Sqlite,
    /// None: rate limits are this process's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis: Option<Redis>,
    pub admission: Admission,
    pub rate_limits: RateLimits,
    pub kill_switch: KillSwitch,
    pub audit: Audit,
    pub limits: Limits,
    pub review: Review,
    pub telemetry: Telemetry,
    pub console: Console,
    pub rbac: Rbac,
    pub backends: Vec<Backend>,
    /// Warnings about a usable configuration: keys without effect, credentials in the file.
    #[serde(skip)]
    pub notices: Vec<String>,
}

/// Applies a macro to the names of all sections but `backends`, whose elements are compared one by one.
macro_rules! each_section {
    ($apply:ident) => {
        $apply!(gateway surfaces listeners auth postgres sqlite redis admission rate_limits kill_switch audit limits review telemetry console rbac)
    };
}

impl Config {
    /// The keys that differ from another configuration and have one of these rules, as `section.key`; those of
    /// backends are not among them.
    pub fn changed_keys(&self, other: &Self, rules: &[Reload]) -> Vec<String> {
        let mut keys = Vec::new();
        macro_rules! compare {
            ($($section:ident)*) => {$(
                let changed = self.$section.changed(&other.$section).into_iter();
                let changed = changed.filter(|key| rules.contains(&key.reload));
                keys.extend(changed.map(|key| format!("{}.{}", stringify!($section), key.name)));
            )*};
        }
        each_section!(compare);
        keys
    }

    /// Takes every value that only a restart changes from the configuration of the start, whatever the file says now.
    pub fn keep_startup_only_settings(mut self, first: &Self) -> Self {
        macro_rules! keep {
            ($($section:ident)*) => {$(self.$section.keep_startup_only(&first.$section);)*};
        }
        each_section!(keep);
        self
    }

    /// Every key outside backends and its rule.
    pub fn rules() -> Vec<(String, Reload)> {
        fn of<T: Section>(
            _: impl Fn(&Config) -> &T,
            section: &str,
            rules: &mut Vec<(String, Reload)>,
        ) {
            let keys = T::KEYS.iter();
            rules.extend(keys.map(|key| (format!("{section}.{}", key.name), key.reload)));
        }
        let mut rules = Vec::new();
        macro_rules! list {
            ($($section:ident)*) => {$(of(|config| &config.$section, stringify!($section), &mut rules);)*};
        }
        each_section!(list);
        rules
    }
}

impl Builder<'_> {
    pub(crate) fn build(&mut self, raw: RawConfig, overrides: &Overrides) -> Config {
        let has_auth = self.tree.has(&Path::dotted("auth"));
        let names: Vec<String> = raw.backends.iter().map(|b| b.name().to_owned()).collect();
        let exposure = match (has_auth, raw.gateway.allow_unauthenticated_network) {
            (true, _) => Exposure::Authenticated,
            (false, true) => Exposure::Allowed,
            (false, false) => Exposure::Refused,
        };
        self.check_role_names(&raw);
        self.check_rate_limits(&raw.rate_limits);
        self.check_kill_switch(&raw.kill_switch, &names);
        self.check_surfaces(&raw.surfaces);
        let gateway = self.gateway(&raw.gateway, exposure, overrides);
        Config {
            listeners: self.listeners(&raw.listeners, gateway.listen, exposure, &names),
            auth: has_auth.then(|| self.auth(&raw.auth)),
            postgres: self.postgres(&raw),
            sqlite: self.sqlite(&raw.sqlite, &gateway.data_dir),
            redis: self.redis(&raw),
            admission: self.admission(&raw.admission),
            surfaces: raw.surfaces,
            rate_limits: raw.rate_limits,
            kill_switch: raw.kill_switch,
            limits: self.limits(raw.limits),
            review: self.review(&raw.review, exposure),
            telemetry: self.telemetry(&raw.telemetry),
            console: raw.console,
            rbac: self.rbac(raw.rbac, &names),
            backends: self.backends(raw.backends, raw.audit.guarantee),
            audit: raw.audit,
            gateway,
            notices: Vec::new(),
        }
    }
}
