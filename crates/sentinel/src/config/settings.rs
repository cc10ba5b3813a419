//! What the program needs: every value decided, units in types.
//!
//! Serialising gives the normalised file that `sentinel check` prints, with the names that users type;
//! credentials appear as the variable they came from.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::raw::{AuditArguments, Guarantee, LogFormat, RawRole};
use super::secret::Secret;

pub(crate) use super::settings_backend::*;

/// The whole configuration.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Config {
    pub(crate) gateway: Gateway,
    /// None: local callers are trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) auth: Option<Auth>,
    /// None: SQLite is the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) postgres: Option<Postgres>,
    pub(crate) sqlite: Sqlite,
    /// None: rate limits are this process's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) redis: Option<Redis>,
    pub(crate) admission: Admission,
    pub(crate) rate_limits: RateLimits,
    pub(crate) kill_switch: KillSwitch,
    pub(crate) audit: Audit,
    pub(crate) limits: Limits,
    pub(crate) review: Review,
    pub(crate) telemetry: Telemetry,
    pub(crate) console: Console,
    pub(crate) rbac: Rbac,
    pub(crate) backends: Vec<Backend>,
    /// What was understood but deserves a word: unenforced keys, credentials in the file.
    #[serde(skip)]
    pub(crate) notices: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Gateway {
    /// None: no HTTP listener.
    #[serde(serialize_with = "address_or_off")]
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) allow_unauthenticated_network: bool,
    pub(crate) log_level: String,
    pub(crate) log_format: LogFormat,
    pub(crate) audit_enabled: bool,
    pub(crate) data_dir: PathBuf,
    pub(crate) stdio_role: String,
    #[serde(serialize_with = "seconds")]
    pub(crate) drain_timeout: Duration,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    /// None: health is on the main listener.
    #[serde(serialize_with = "address_or_empty")]
    pub(crate) health_listen: Option<SocketAddr>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Auth {
    /// None: no HS256 tokens.
    #[serde(rename = "jwt_secret_env", skip_serializing_if = "Option::is_none")]
    pub(crate) jwt_secret: Option<Secret>,
    pub(crate) jwt_issuer: String,
    pub(crate) jwt_audience: String,
    pub(crate) jwks: KeySource,
    pub(crate) api_keys: bool,
    pub(crate) resource: String,
    pub(crate) authorization_servers: Vec<String>,
    pub(crate) required_scopes: Vec<String>,
    pub(crate) role_claim: String,
    /// Empty refuses tokens without a role.
    pub(crate) default_role: String,
    pub(crate) tenant_claim: String,
    #[serde(serialize_with = "seconds")]
    pub(crate) leeway: Duration,
    /// None: the caller on stdio has `gateway.stdio_role`.
    #[serde(rename = "stdio_token_env", skip_serializing_if = "Option::is_none")]
    pub(crate) stdio_token: Option<Secret>,
    /// Empty refuses callers without credentials.
    pub(crate) anonymous_role: String,
}

/// Where the public keys of tokens are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeySource {
    None,
    File(PathBuf),
    Url(http::Uri),
}

impl Serialize for KeySource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str(""),
            Self::File(path) => path.serialize(serializer),
            Self::Url(url) => serializer.collect_str(url),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Postgres {
    #[serde(rename = "url_env")]
    pub(crate) url: Secret,
    pub(crate) max_connections: u32,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sqlite {
    pub(crate) path: PathBuf,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Redis {
    #[serde(rename = "url_env")]
    pub(crate) url: Secret,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Rbac {
    pub(crate) roles: BTreeMap<String, RawRole>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct RateLimits {
    /// 0 is no limit.
    pub(crate) default_rpm: u32,
    /// 0 is the minute's allowance.
    pub(crate) burst: u32,
    pub(crate) per_tool: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct KillSwitch {
    pub(crate) disabled_tools: Vec<String>,
    pub(crate) disabled_backends: Vec<String>,
    pub(crate) disabled_callers: Vec<String>,
    pub(crate) everything: bool,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Admission {
    pub(crate) max_concurrent: u32,
    pub(crate) queue_size: u32,
    #[serde(serialize_with = "seconds")]
    pub(crate) queue_timeout: Duration,
    pub(crate) overload_error_code: i32,
    /// None: nobody is told.
    #[serde(serialize_with = "url_or_empty")]
    pub(crate) on_overload: Option<http::Uri>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Audit {
    pub(crate) guarantee: Guarantee,
    #[serde(rename = "spool_max_mb", serialize_with = "mebibytes")]
    pub(crate) spool_max: u64,
    #[serde(rename = "buffer")]
    pub(crate) buffer_records: u32,
    /// 0 keeps records.
    pub(crate) retention_days: u32,
    pub(crate) arguments: AuditArguments,
}

/// Sizes in bytes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Limits {
    #[serde(rename = "body_mb", serialize_with = "mebibytes")]
    pub(crate) body: u64,
    #[serde(rename = "line_mb", serialize_with = "mebibytes")]
    pub(crate) line: u64,
    #[serde(rename = "reply_mb", serialize_with = "mebibytes")]
    pub(crate) reply: u64,
    #[serde(rename = "event_mb", serialize_with = "mebibytes")]
    pub(crate) event: u64,
    pub(crate) json_depth: u32,
    #[serde(rename = "header_kb", serialize_with = "kibibytes")]
    pub(crate) header: u64,
    pub(crate) header_fields: u32,
    #[serde(serialize_with = "seconds")]
    pub(crate) first_byte_timeout: Duration,
    #[serde(serialize_with = "seconds")]
    pub(crate) head_timeout: Duration,
    #[serde(rename = "body_min_kb_per_s", serialize_with = "kibibytes")]
    pub(crate) body_min_per_s: u64,
    #[serde(rename = "stream_buffer_kb", serialize_with = "kibibytes")]
    pub(crate) stream_buffer: u64,
    pub(crate) sessions: u32,
    #[serde(serialize_with = "seconds")]
    pub(crate) session_idle: Duration,
    pub(crate) streams: u32,
    #[serde(serialize_with = "seconds")]
    pub(crate) park_ttl: Duration,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Review {
    pub(crate) enabled: bool,
    #[serde(serialize_with = "seconds")]
    pub(crate) claim_timeout: Duration,
    pub(crate) extended_tools: bool,
    pub(crate) enforce_roles: bool,
    #[serde(serialize_with = "address_or_off")]
    pub(crate) listen: Option<SocketAddr>,
    /// `sentinel review serve`: callers meet the broker, not a gateway.
    #[serde(skip)]
    pub(crate) alone: bool,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Telemetry {
    pub(crate) metrics: bool,
    /// None: traces are not sent.
    #[serde(serialize_with = "url_or_empty")]
    pub(crate) otlp_endpoint: Option<http::Uri>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Console {
    pub(crate) enabled: bool,
}

pub(super) fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    if time.subsec_nanos() == 0 {
        serializer.serialize_u64(time.as_secs())
    } else {
        serializer.serialize_f64(time.as_secs_f64())
    }
}

fn mebibytes<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(bytes >> 20)
}

fn kibibytes<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(bytes >> 10)
}

fn address_or_off<S: Serializer>(
    at: &Option<SocketAddr>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_str("off"),
    }
}

fn address_or_empty<S: Serializer>(
    at: &Option<SocketAddr>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_str(""),
    }
}

pub(super) fn url_or_empty<S: Serializer>(
    url: &Option<http::Uri>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match url {
        Some(url) => serializer.collect_str(url),
        None => serializer.serialize_str(""),
    }
}
