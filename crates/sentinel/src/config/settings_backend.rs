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
pub(crate) struct Backend {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) kind: BackendKind,
    pub(crate) enabled: bool,
    #[serde(serialize_with = "seconds")]
    pub(crate) timeout: Duration,
    /// Zero: no health checks.
    #[serde(serialize_with = "seconds")]
    pub(crate) health_interval: Duration,
    pub(crate) unhealthy_after: u32,
    pub(crate) prefix: Prefix,
    pub(crate) pin: Pin,
    pub(crate) guarantee: Guarantee,
    pub(crate) idempotent_tools: Vec<String>,
    pub(crate) tools: ToolFilter,
    pub(crate) admission: BackendAdmission,
    pub(crate) circuit_breaker: CircuitBreaker,
}

impl Backend {
    /// Whether the one that runs can stay as it is. What the catalog, policy and audit do with it is theirs.
    pub(crate) fn runs_like(&self, other: &Self) -> bool {
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
pub(crate) enum BackendKind {
    Http(HttpBackend),
    Stdio(StdioBackend),
    Postgres(PostgresBackend),
    Openapi(OpenapiBackend),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct HttpBackend {
    pub(crate) url: Endpoint,
    pub(crate) retries: u32,
    #[serde(serialize_with = "pairs")]
    pub(crate) headers: Vec<(String, Secret)>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StdioBackend {
    pub(crate) command: String,
    /// An argument may hold a variable's value.
    pub(crate) args: Vec<Secret>,
    /// None: the gateway's own directory.
    #[serde(serialize_with = "path_or_empty")]
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) inherit_env: bool,
    pub(crate) pid_namespace: bool,
    pub(crate) restart_on_exit: bool,
    /// 0 is no limit.
    pub(crate) max_restarts: u32,
    pub(crate) max_children: u32,
    pub(crate) start: Start,
    /// Zero: never.
    #[serde(serialize_with = "seconds")]
    pub(crate) idle_stop: Duration,
    pub(crate) isolation: Isolation,
    pub(crate) interactive: Interactive,
    #[serde(serialize_with = "pairs")]
    pub(crate) env: Vec<(String, Secret)>,
    pub(crate) limits: ChildLimits,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PostgresBackend {
    #[serde(rename = "url_env")]
    pub(crate) url: Secret,
    pub(crate) schema: String,
    pub(crate) registry: Registry,
    #[serde(serialize_with = "seconds")]
    pub(crate) statement_timeout: Duration,
    pub(crate) max_connections: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct OpenapiBackend {
    /// A path or a URL.
    pub(crate) spec: String,
    /// None: as the description says.
    #[serde(serialize_with = "url_or_empty")]
    pub(crate) base_url: Option<http::Uri>,
    #[serde(serialize_with = "pairs")]
    pub(crate) headers: Vec<(String, Secret)>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CircuitBreaker {
    /// 0 never opens it.
    pub(crate) threshold: u32,
    #[serde(serialize_with = "seconds")]
    pub(crate) recovery: Duration,
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
