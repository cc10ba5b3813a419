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

pub use super::settings_backend::*;

/// The whole configuration.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    pub gateway: Gateway,
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
    /// What was understood but deserves a word: unenforced keys, credentials in the file.
    #[serde(skip)]
    pub notices: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Gateway {
    /// None: no HTTP listener.
    #[serde(serialize_with = "address_or_off")]
    pub listen: Option<SocketAddr>,
    pub allow_unauthenticated_network: bool,
    pub log_level: String,
    pub log_format: LogFormat,
    pub audit_enabled: bool,
    pub data_dir: PathBuf,
    pub stdio_role: String,
    #[serde(serialize_with = "seconds")]
    pub drain_timeout: Duration,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    /// None: health is on the main listener.
    #[serde(serialize_with = "address_or_empty")]
    pub health_listen: Option<SocketAddr>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Auth {
    /// None: no HS256 tokens.
    #[serde(rename = "jwt_secret_env", skip_serializing_if = "Option::is_none")]
    pub jwt_secret: Option<Secret>,
    pub jwt_issuer: String,
    pub jwt_audience: String,
    pub jwks: KeySource,
    pub api_keys: bool,
    pub resource: String,
    pub authorization_servers: Vec<String>,
    pub required_scopes: Vec<String>,
    pub role_claim: String,
    /// Empty refuses tokens without a role.
    pub default_role: String,
    pub tenant_claim: String,
    #[serde(serialize_with = "seconds")]
    pub leeway: Duration,
    /// None: the caller on stdio has `gateway.stdio_role`.
    #[serde(rename = "stdio_token_env", skip_serializing_if = "Option::is_none")]
    pub stdio_token: Option<Secret>,
    /// Empty refuses callers without credentials.
    pub anonymous_role: String,
}

/// Where the public keys of tokens are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
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
pub struct Postgres {
    #[serde(rename = "url_env")]
    pub url: Secret,
    pub max_connections: u32,
}

#[derive(Debug, Clone, Serialize)]
pub struct Sqlite {
    pub path: PathBuf,
}

#[derive(Debug, Clone, Serialize)]
pub struct Redis {
    #[serde(rename = "url_env")]
    pub url: Secret,
}

#[derive(Debug, Clone, Serialize)]
pub struct Rbac {
    pub roles: BTreeMap<String, RawRole>,
}

#[derive(Debug, Clone, Serialize)]
pub struct RateLimits {
    /// 0 is no limit.
    pub default_rpm: u32,
    /// 0 is the minute's allowance.
    pub burst: u32,
    pub per_tool: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, Serialize)]
pub struct KillSwitch {
    pub disabled_tools: Vec<String>,
    pub disabled_backends: Vec<String>,
    pub disabled_callers: Vec<String>,
    pub everything: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct Admission {
    pub max_concurrent: u32,
    pub queue_size: u32,
    #[serde(serialize_with = "seconds")]
    pub queue_timeout: Duration,
    pub overload_error_code: i32,
    /// None: nobody is told.
    #[serde(serialize_with = "url_or_empty")]
    pub on_overload: Option<http::Uri>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Audit {
    pub guarantee: Guarantee,
    #[serde(rename = "spool_max_mb", serialize_with = "mebibytes")]
    pub spool_max: u64,
    #[serde(rename = "buffer")]
    pub buffer_records: u32,
    /// 0 keeps records.
    pub retention_days: u32,
    pub arguments: AuditArguments,
}

/// Sizes in bytes.
#[derive(Debug, Clone, Serialize)]
pub struct Limits {
    #[serde(rename = "body_mb", serialize_with = "mebibytes")]
    pub body: u64,
    #[serde(rename = "line_mb", serialize_with = "mebibytes")]
    pub line: u64,
    #[serde(rename = "reply_mb", serialize_with = "mebibytes")]
    pub reply: u64,
    #[serde(rename = "event_mb", serialize_with = "mebibytes")]
    pub event: u64,
    pub json_depth: u32,
    #[serde(rename = "header_kb", serialize_with = "kibibytes")]
    pub header: u64,
    pub header_fields: u32,
    #[serde(serialize_with = "seconds")]
    pub first_byte_timeout: Duration,
    #[serde(serialize_with = "seconds")]
    pub head_timeout: Duration,
    #[serde(rename = "body_min_kb_per_s", serialize_with = "kibibytes")]
    pub body_min_per_s: u64,
    #[serde(rename = "stream_buffer_kb", serialize_with = "kibibytes")]
    pub stream_buffer: u64,
    pub sessions: u32,
    #[serde(serialize_with = "seconds")]
    pub session_idle: Duration,
    pub streams: u32,
    #[serde(serialize_with = "seconds")]
    pub park_ttl: Duration,
}

#[derive(Debug, Clone, Serialize)]
pub struct Review {
    pub enabled: bool,
    #[serde(serialize_with = "seconds")]
    pub claim_timeout: Duration,
    pub extended_tools: bool,
    pub enforce_roles: bool,
    #[serde(serialize_with = "address_or_off")]
    pub listen: Option<SocketAddr>,
    /// `sentinel review serve`: callers meet the broker, not a gateway.
    #[serde(skip)]
    pub alone: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct Telemetry {
    pub metrics: bool,
    /// None: traces are not sent.
    #[serde(serialize_with = "url_or_empty")]
    pub otlp_endpoint: Option<http::Uri>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Console {
    pub enabled: bool,
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
