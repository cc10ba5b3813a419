//! What the configuration file says: one type per section, one field per key.
//!
//! These definitions feed three things, so that they cannot differ: the shape check that reports
//! mistakes (`shape`), the JSON Schema for editors (`schema`) and the decoding itself. The doc comment
//! of a field is its description in the schema; a range attribute is checked; the `Default` is the
//! value of an absent key.
//!
//! Times are seconds and may have a fraction. An empty string is an absent value.
//!
//! Not here: units in types and rules that look at two keys at once (`build`), backends
//! (`raw_backend`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use super::raw_backend::RawBackend;

/// The configuration of a Sentinel gateway. Every key has a default: an empty file is a working
/// gateway.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Sentinel configuration")]
#[schemars(rename = "Config")]
pub(crate) struct RawConfig {
    pub(crate) gateway: RawGateway,
    pub(crate) auth: RawAuth,
    pub(crate) postgres: RawPostgres,
    pub(crate) sqlite: RawSqlite,
    pub(crate) redis: RawRedis,
    /// The servers behind this gateway, in the order that decides who keeps a contested name.
    pub(crate) backends: Vec<RawBackend>,
    pub(crate) rbac: RawRbac,
    pub(crate) rate_limits: RawRateLimits,
    pub(crate) kill_switch: RawKillSwitch,
    pub(crate) admission: RawAdmission,
    pub(crate) audit: RawAudit,
    pub(crate) limits: RawLimits,
    pub(crate) review: RawReview,
    pub(crate) telemetry: RawTelemetry,
    pub(crate) console: RawConsole,
}

/// Where the gateway listens and how it behaves as a program.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Gateway")]
pub(crate) struct RawGateway {
    /// Address and port of the HTTP listener, or "off" for none.
    pub(crate) listen: String,
    /// Permit listening beyond loopback although no `[auth]` is configured: whoever reaches the port
    /// may then call every tool.
    pub(crate) allow_unauthenticated_network: bool,
    /// error, warn, info, debug, off, or directives as in RUST_LOG.
    pub(crate) log_level: String,
    /// How log lines look.
    pub(crate) log_format: LogFormat,
    /// Write one audit record per request.
    pub(crate) audit_enabled: bool,
    /// Where the gateway keeps its files. Also --data-dir and SENTINEL_DATA_DIR, which win. Empty:
    /// $XDG_DATA_HOME/sentinel or ~/.local/share/sentinel.
    pub(crate) data_dir: String,
    /// Role of the caller on stdio.
    pub(crate) stdio_role: String,
    /// Seconds that calls in flight have to finish after a stop was asked for.
    #[schemars(range(min = 0, max = 3600))]
    pub(crate) drain_timeout: f64,
    /// Host names accepted besides loopback names and the listen address.
    pub(crate) allowed_hosts: Vec<String>,
    /// Browser origins accepted besides loopback, such as "https://app.example.com".
    pub(crate) allowed_origins: Vec<String>,
    /// A second listener for /health, /ready and /metrics. Empty: they are on the main one.
    pub(crate) health_listen: String,
}

impl Default for RawGateway {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:9200".into(),
            allow_unauthenticated_network: false,
            log_level: "info".into(),
            log_format: LogFormat::Auto,
            audit_enabled: true,
            data_dir: String::new(),
            stdio_role: "admin".into(),
            drain_timeout: 30.0,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            health_listen: String::new(),
        }
    }
}

/// Who callers are. Absent: local callers are trusted, and the gateway listens on loopback only.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Auth")]
pub(crate) struct RawAuth {
    /// Environment variable with the secret of HS256 tokens.
    pub(crate) jwt_secret_env: String,
    /// Issuer that a token must name.
    pub(crate) jwt_issuer: String,
    /// Audience that a token must name.
    pub(crate) jwt_audience: String,
    /// Public keys of tokens: a file or an https URL.
    pub(crate) jwks: String,
    /// Accept API keys that this gateway issued.
    pub(crate) api_keys: bool,
    /// This gateway's canonical URI, for OAuth metadata.
    pub(crate) resource: String,
    /// OAuth authorization servers that the metadata names.
    pub(crate) authorization_servers: Vec<String>,
    /// Scopes that every token must have, whatever it is used for. Tokens without them get 403.
    pub(crate) required_scopes: Vec<String>,
    /// Claim that holds the role.
    pub(crate) role_claim: String,
    /// Role of a token without that claim. Empty refuses such tokens.
    pub(crate) default_role: String,
    /// Claim that holds the tenant.
    pub(crate) tenant_claim: String,
    /// Seconds of clock difference that are tolerated.
    #[schemars(range(min = 0, max = 600))]
    pub(crate) leeway: f64,
    /// Environment variable with a token for the caller on stdio, checked once at start.
    pub(crate) stdio_token_env: String,
    /// Role of a caller without credentials. Empty refuses such callers.
    pub(crate) anonymous_role: String,
}

impl Default for RawAuth {
    fn default() -> Self {
        Self {
            jwt_secret_env: "JWT_SECRET_KEY".into(),
            jwt_issuer: "sentinel-gateway".into(),
            jwt_audience: "sentinel-api".into(),
            jwks: String::new(),
            api_keys: true,
            resource: String::new(),
            authorization_servers: Vec::new(),
            required_scopes: Vec::new(),
            role_claim: "role".into(),
            default_role: String::new(),
            tenant_claim: "tenant_id".into(),
            leeway: 60.0,
            stdio_token_env: String::new(),
            anonymous_role: String::new(),
        }
    }
}

/// Present: PostgreSQL is the store.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Postgres")]
pub(crate) struct RawPostgres {
    /// Environment variable with the connection URL.
    pub(crate) url_env: String,
    /// Largest number of connections.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) max_connections: u32,
}

impl Default for RawPostgres {
    fn default() -> Self {
        Self {
            url_env: "DATABASE_URL".into(),
            max_connections: 10,
        }
    }
}

/// The default store.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Sqlite")]
pub(crate) struct RawSqlite {
    /// The database file. Empty: `sentinel.db` in the data directory.
    pub(crate) path: String,
}

/// Present: rate limits are shared by many gateways.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Redis")]
pub(crate) struct RawRedis {
    /// Environment variable with the connection URL.
    pub(crate) url_env: String,
}

impl Default for RawRedis {
    fn default() -> Self {
        Self {
            url_env: "REDIS_URL".into(),
        }
    }
}

/// What each role may see and call.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Rbac")]
pub(crate) struct RawRbac {
    /// Roles by name. `admin` exists without being written.
    pub(crate) roles: BTreeMap<String, RawRole>,
}

/// One role.
#[derive(Debug, Default, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Role")]
pub struct RawRole {
    /// "*", "admin", "tools.read", "tools.execute", "<backend>.*" or "tool:<glob>".
    pub permissions: Vec<String>,
    /// Tools that this role neither sees nor calls, whatever its permissions; globs are allowed.
    pub denied_tools: Vec<String>,
}

/// How often a caller may call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "RateLimits")]
pub(crate) struct RawRateLimits {
    /// Calls in a minute per caller and tool; 0 is no limit.
    pub(crate) default_rpm: u32,
    /// Calls that may come at once; 0 is the minute's allowance.
    pub(crate) burst: u32,
    /// Calls in a minute for single tools: by name, by "<backend>.<own name>", or by a pattern with `*`.
    pub(crate) per_tool: BTreeMap<String, u32>,
}

impl Default for RawRateLimits {
    fn default() -> Self {
        Self {
            default_rpm: 1000,
            burst: 0,
            per_tool: BTreeMap::new(),
        }
    }
}

/// What is switched off.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "KillSwitch")]
pub(crate) struct RawKillSwitch {
    /// Tools that nobody may call.
    pub(crate) disabled_tools: Vec<String>,
    /// Backends whose operations nobody may call.
    pub(crate) disabled_backends: Vec<String>,
    /// Callers who may call nothing, by subject.
    pub(crate) disabled_callers: Vec<String>,
    /// Nobody may call anything.
    pub(crate) everything: bool,
}

/// How much work is admitted at once.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Admission")]
pub(crate) struct RawAdmission {
    /// Calls that run at the same time.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) max_concurrent: u32,
    /// Calls that wait for a slot; 0 refuses at once.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(crate) queue_size: u32,
    /// Seconds that a call waits for a slot.
    #[schemars(range(min = 0, max = 3600))]
    pub(crate) queue_timeout: f64,
    /// JSON-RPC code of the overload error, for revisions before 2026-07-28.
    pub(crate) overload_error_code: i32,
    /// URL that is told about an overload. Empty: none.
    pub(crate) on_overload: String,
}

impl Default for RawAdmission {
    fn default() -> Self {
        Self {
            max_concurrent: 256,
            queue_size: 256,
            queue_timeout: 30.0,
            overload_error_code: -32001,
            on_overload: String::new(),
        }
    }
}

/// What the audit log keeps and how surely.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Audit")]
pub(crate) struct RawAudit {
    /// How surely a record survives.
    pub(crate) guarantee: Guarantee,
    /// Largest size of the spool, in MiB.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub(crate) spool_max_mb: u32,
    /// Records kept in memory with the guarantee "memory".
    #[schemars(range(min = 1, max = 16_777_216))]
    pub(crate) buffer: u32,
    /// Days after which records are deleted; 0 keeps them.
    #[schemars(range(min = 0, max = 36_500))]
    pub(crate) retention_days: u32,
    /// What of a call's arguments is recorded.
    pub(crate) arguments: AuditArguments,
}

impl Default for RawAudit {
    fn default() -> Self {
        Self {
            guarantee: Guarantee::Spool,
            spool_max_mb: 256,
            buffer: 65_536,
            retention_days: 30,
            arguments: AuditArguments::Digest,
        }
    }
}

/// Bounds on what one peer may make the gateway hold.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub(crate) struct RawLimits {
    /// Largest request body, in MiB.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) body_mb: u32,
    /// Longest line from a stdio peer, in MiB.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) line_mb: u32,
    /// Largest reply of a backend, in MiB. Replies above 256 KiB pass while they come, where nothing in them changes.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) reply_mb: u32,
    /// Largest event of a backend's stream that is not a reply, in MiB.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) event_mb: u32,
    /// Deepest nesting of JSON that a caller may send.
    #[schemars(range(min = 8, max = 512))]
    pub(crate) json_depth: u32,
    /// Largest block of request headers, in KiB.
    #[schemars(range(min = 8, max = 1024))]
    pub(crate) header_kb: u32,
    /// Largest number of request header fields.
    #[schemars(range(min = 16, max = 1000))]
    pub(crate) header_fields: u32,
    /// Seconds for a new connection's first byte.
    #[schemars(range(min = 0.1, max = 600))]
    pub(crate) first_byte_timeout: f64,
    /// Seconds for a whole request head.
    #[schemars(range(min = 0.1, max = 600))]
    pub(crate) head_timeout: f64,
    /// Slowest request body that is waited for, in KiB a second.
    #[schemars(range(min = 0, max = 1_048_576))]
    pub(crate) body_min_kb_per_s: u32,
    /// Output held for one slow reader of a stream, in KiB.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub(crate) stream_buffer_kb: u32,
    /// Sessions at the same time.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(crate) sessions: u32,
    /// Seconds without a request after which a session ends.
    #[schemars(range(min = 1, max = 2_592_000))]
    pub(crate) session_idle: f64,
    /// Open streams at the same time.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(crate) streams: u32,
    /// Seconds a call waits for its caller to answer a backend's question.
    #[schemars(range(min = 1, max = 86_400))]
    pub(crate) park_ttl: f64,
}

impl Default for RawLimits {
    fn default() -> Self {
        Self {
            body_mb: 4,
            line_mb: 16,
            reply_mb: 64,
            event_mb: 4,
            json_depth: 64,
            header_kb: 32,
            header_fields: 100,
            first_byte_timeout: 5.0,
            head_timeout: 5.0,
            body_min_kb_per_s: 1,
            stream_buffer_kb: 256,
            sessions: 10_000,
            session_idle: 1800.0,
            streams: 20_000,
            park_ttl: 600.0,
        }
    }
}

/// The built-in review broker.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Review")]
pub(crate) struct RawReview {
    /// Offer the review tools.
    pub(crate) enabled: bool,
    /// Seconds after which a claim without activity ends.
    #[schemars(range(min = 1, max = 2_592_000))]
    pub(crate) claim_timeout: f64,
    /// Offer the less common review tools as well.
    pub(crate) extended_tools: bool,
    /// Let each side do only what is its own: reviewers claim and judge, proposers close and follow up. Without it
    /// roles are for attribution.
    pub(crate) enforce_roles: bool,
    /// Address of `sentinel review serve`.
    pub(crate) listen: String,
}

impl Default for RawReview {
    fn default() -> Self {
        Self {
            enabled: true,
            claim_timeout: 1200.0,
            extended_tools: false,
            enforce_roles: false,
            listen: "127.0.0.1:8321".into(),
        }
    }
}

/// What the gateway tells about itself.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Telemetry")]
pub(crate) struct RawTelemetry {
    /// Serve /metrics.
    pub(crate) metrics: bool,
    /// Where traces are sent. Empty: nowhere.
    pub(crate) otlp_endpoint: String,
}

impl Default for RawTelemetry {
    fn default() -> Self {
        Self {
            metrics: true,
            otlp_endpoint: String::new(),
        }
    }
}

/// The web console.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Console")]
pub(crate) struct RawConsole {
    /// Serve /console.
    pub(crate) enabled: bool,
}

impl Default for RawConsole {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Defines a word that the file may say, the same for the file and for the program.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum $name { $($(#[$doc])* $variant),+ }
    };
}
pub(crate) use words;

words! {
    /// How log lines look.
    LogFormat {
        /// Pretty on a terminal, JSON elsewhere.
        #[default] Auto,
        /// For people.
        Pretty,
        /// One JSON object a line.
        Json,
    }
}
words! {
    /// How surely an audit record survives.
    Guarantee {
        /// Kept in memory until written; lost when the process dies.
        Memory,
        /// In a local file before the answer leaves; survives the process.
        #[default] Spool,
        /// On disk before the answer leaves; may delay or refuse a call.
        Sync,
    }
}
words! {
    /// What of a call's arguments is recorded.
    AuditArguments {
        /// A digest.
        #[default] Digest,
        /// The arguments, with what looks like a credential taken out.
        Redacted,
        /// The arguments as they came.
        Full,
        /// Nothing.
        Off,
    }
}
