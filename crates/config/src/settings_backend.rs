//! One backend as the program needs it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::raw::Guarantee;
use super::raw_backend::{
    Interactive, Isolation, Pin, Prefix, RawBackendAdmission as BackendAdmission,
    RawChildLimits as ChildLimits, RawTools as ToolFilter, Registry, Start,
};
use super::secret::{Endpoint, Secret};
use super::settings::{seconds, url_or_empty};

/// A server behind the gateway.
#[derive(Debug, Clone, Serialize)]
pub struct Backend {
    pub name: String,
    #[serde(flatten)]
    pub kind: BackendKind,
    pub enabled: bool,
    #[serde(serialize_with = "seconds")]
    pub timeout: Duration,
    /// Zero: no health checks.
    #[serde(serialize_with = "seconds")]
    pub health_interval: Duration,
    pub unhealthy_after: u32,
    pub prefix: Prefix,
    pub pin: Pin,
    pub guarantee: Guarantee,
    pub idempotent_tools: Vec<String>,
    pub tools: ToolFilter,
    pub admission: BackendAdmission,
    pub circuit_breaker: CircuitBreaker,
}

impl Backend {
    /// Whether the one that runs can stay as it is. What the catalog, policy and audit do with it is theirs.
    pub fn runs_like(&self, other: &Self) -> bool {
        let of = |b: &Self| (b.enabled, b.timeout, b.health_interval, b.unhealthy_after);
        of(self) == of(other)
            && self.kind == other.kind
            && self.idempotent_tools == other.idempotent_tools
            && self.circuit_breaker == other.circuit_breaker
    }
}

/// How a backend is reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum BackendKind {
    Http(HttpBackend),
    Stdio(StdioBackend),
    Postgres(PostgresBackend),
    Openapi(OpenapiBackend),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HttpBackend {
    pub url: Endpoint,
    pub retries: u32,
    #[serde(serialize_with = "pairs")]
    pub headers: Vec<(String, Secret)>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StdioBackend {
    pub command: String,
    /// An argument may hold a variable's value.
    pub args: Vec<Secret>,
    /// None: the gateway's own directory.
    #[serde(serialize_with = "path_or_empty")]
    pub cwd: Option<PathBuf>,
    pub inherit_env: bool,
    pub pid_namespace: bool,
    pub restart_on_exit: bool,
    /// 0 is no limit.
    pub max_restarts: u32,
    pub max_children: u32,
    pub start: Start,
    /// Zero: never.
    #[serde(serialize_with = "seconds")]
    pub idle_stop: Duration,
    pub isolation: Isolation,
    pub interactive: Interactive,
    #[serde(serialize_with = "pairs")]
    pub env: Vec<(String, Secret)>,
    pub limits: ChildLimits,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PostgresBackend {
    #[serde(rename = "url_env")]
    pub url: Secret,
    pub schema: String,
    pub registry: Registry,
    #[serde(serialize_with = "seconds")]
    pub statement_timeout: Duration,
    pub max_connections: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenapiBackend {
    /// A path or a URL.
    pub spec: String,
    /// None: as the description says.
    #[serde(serialize_with = "url_or_empty")]
    pub base_url: Option<http::Uri>,
    #[serde(serialize_with = "pairs")]
    pub headers: Vec<(String, Secret)>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CircuitBreaker {
    /// 0 never opens it.
    pub threshold: u32,
    #[serde(serialize_with = "seconds")]
    pub recovery: Duration,
}

/// A literal under a name that would be read as the name of a variable says that it is one.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown<'a> {
    Plain(&'a Secret),
    Literal { value: &'a Secret },
}

fn pairs<S: Serializer>(pairs: &[(String, Secret)], serializer: S) -> Result<S::Ok, S::Error> {
    let sorted: BTreeMap<&str, Shown<'_>> = pairs
        .iter()
        .map(
            |(name, value)| match name.to_ascii_uppercase().ends_with("_ENV") {
                true => (name.as_str(), Shown::Literal { value }),
                false => (name.as_str(), Shown::Plain(value)),
            },
        )
        .collect();
    serializer.collect_map(sorted)
}

fn path_or_empty<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => path.serialize(serializer),
        None => serializer.serialize_str(""),
    }
}
