//! What the file says about one backend.
//!
//! One flat type for all kinds: which keys belong to which kind is a table in `build::backend`, so
//! that a key of another kind is reported with the kind that it belongs to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::raw::{Guarantee, words};

/// One server behind the gateway.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend(
    "required" = ["name", "type"],
    "allOf" = [
        {
            "if": { "properties": { "type": { "const": "http" } }, "required": ["type"] },
            "then": { "anyOf": [{ "required": ["url"] }, { "required": ["url_env"] }] }
        },
        {
            "if": { "properties": { "type": { "const": "stdio" } }, "required": ["type"] },
            "then": { "required": ["command"] }
        },
        {
            "if": { "properties": { "type": { "const": "postgres" } }, "required": ["type"] },
            "then": { "required": ["url_env"] }
        },
        {
            "if": { "properties": { "type": { "const": "openapi" } }, "required": ["type"] },
            "then": { "required": ["spec"] }
        }
    ]
))]
#[schemars(rename = "Backend")]
pub(crate) struct RawBackend {
    /// Its name: lower-case letters, digits and hyphens, at most 32; not tools, admin or review.
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9-]{0,31}$"))]
    pub(crate) name: String,
    /// How it is reached.
    #[serde(rename = "type")]
    pub(crate) kind: BackendType,
    /// False: known, but neither started nor listed.
    pub(crate) enabled: bool,

    /// http: the server's URL; "/mcp" is added when there is no path.
    pub(crate) url: String,
    /// http, postgres: environment variable with the URL, for URLs that contain a credential.
    pub(crate) url_env: String,
    /// http, openapi: request headers. `Name_ENV = "VAR"` takes the value from the variable VAR, any
    /// other name is literal.
    pub(crate) headers: BTreeMap<String, RawValue>,
    /// http: how often a request that was not delivered is tried again.
    #[schemars(range(min = 0, max = 10))]
    pub(crate) retries: u32,

    /// stdio: the program.
    pub(crate) command: String,
    /// stdio: its arguments. `${VAR}` and `${VAR:-default}` are replaced from the gateway's
    /// environment; write `$${VAR}` for a literal one.
    pub(crate) args: Vec<String>,
    /// stdio: its environment. `NAME_ENV = "VAR"` passes the value of VAR as NAME, any other name is
    /// literal. For a literal variable whose own name ends in _ENV: `NODE_ENV = { value = "x" }`.
    pub(crate) env: BTreeMap<String, RawValue>,
    /// stdio: its working directory. Empty: the gateway's.
    pub(crate) cwd: String,
    /// stdio: pass the gateway's whole environment, not only PATH, HOME, the locale and `env`.
    pub(crate) inherit_env: bool,
    /// stdio: run it as the first process of a PID namespace, where the system allows it. Everything in it
    /// ends with it, and it sees no other process; some programs notice.
    pub(crate) pid_namespace: bool,
    /// stdio: start it again when it ends.
    pub(crate) restart_on_exit: bool,
    /// stdio: restarts in a row before it is given up; 0 is no limit.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(crate) max_restarts: u32,
    /// stdio: most children at the same time, with isolation.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) max_children: u32,
    /// stdio: what each of its processes may use.
    pub(crate) limits: RawChildLimits,
    /// stdio: when it is started.
    pub(crate) start: Start,
    /// stdio: seconds without a call after which the child is stopped; 0 never.
    #[schemars(range(min = 0, max = 2_592_000))]
    pub(crate) idle_stop: f64,
    /// stdio: who shares a child.
    pub(crate) isolation: Isolation,
    /// stdio: whether a shared child may ask its callers.
    pub(crate) interactive: Interactive,

    /// postgres: the schema whose marked functions are operations.
    pub(crate) schema: String,
    /// postgres: whether the gateway functions and route tables are used.
    pub(crate) registry: Registry,
    /// postgres: seconds for one statement.
    #[schemars(range(min = 0.1, max = 86_400))]
    pub(crate) statement_timeout: f64,
    /// postgres: largest number of connections.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) max_connections: u32,

    /// openapi: the description, a file or a URL.
    pub(crate) spec: String,
    /// openapi: where the API is. Empty: as the description says.
    pub(crate) base_url: String,

    /// Seconds for one call.
    #[schemars(range(min = 0.1, max = 86_400))]
    pub(crate) timeout: f64,
    /// Seconds between two health checks; 0 is none.
    #[schemars(range(min = 0, max = 86_400))]
    pub(crate) health_interval: f64,
    /// Failed health checks in a row before it leaves the catalog.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) unhealthy_after: u32,
    /// When its names are written with its name in front.
    pub(crate) prefix: Prefix,
    /// What happens when a tool's definition changes after it was first seen.
    pub(crate) pin: Pin,
    /// Audit guarantee for its calls. Absent: that of `[audit]`.
    pub(crate) guarantee: Option<Guarantee>,
    /// Tools that may be called again after a request was delivered; globs are allowed.
    pub(crate) idempotent_tools: Vec<String>,
    /// Which of its tools are offered, and under which names.
    pub(crate) tools: RawTools,
    /// Its own bounds, besides the global ones.
    pub(crate) admission: RawBackendAdmission,
    /// When calls to it are refused at once.
    pub(crate) circuit_breaker: RawCircuitBreaker,
}

impl Default for RawBackend {
    fn default() -> Self {
        Self {
            name: String::new(),
            kind: BackendType::Http,
            enabled: true,
            url: String::new(),
            url_env: String::new(),
            headers: BTreeMap::new(),
            retries: 3,
            command: String::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: String::new(),
            inherit_env: false,
            pid_namespace: false,
            restart_on_exit: true,
            max_restarts: 5,
            max_children: 32,
            limits: RawChildLimits::default(),
            start: Start::Eager,
            idle_stop: 0.0,
            isolation: Isolation::Shared,
            interactive: Interactive::Off,
            schema: "api".into(),
            registry: Registry::Auto,
            statement_timeout: 30.0,
            max_connections: 10,
            spec: String::new(),
            base_url: String::new(),
            timeout: 60.0,
            health_interval: 300.0,
            unhealthy_after: 3,
            prefix: Prefix::Collisions,
            pin: Pin::Warn,
            guarantee: None,
            idempotent_tools: Vec::new(),
            tools: RawTools::default(),
            admission: RawBackendAdmission::default(),
            circuit_breaker: RawCircuitBreaker::default(),
        }
    }
}

/// A value of `env` or `headers`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Value")]
pub(crate) enum RawValue {
    /// Literal, or the name of a variable where the key ends in _ENV.
    Plain(String),
    /// Literal whatever the key ends in.
    Literal(RawLiteral),
}

/// A value that is literal whatever its key ends in.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Literal")]
pub(crate) struct RawLiteral {
    /// The value.
    pub(crate) value: String,
}

/// Which of a backend's tools are offered, and under which names.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Tools")]
pub struct RawTools {
    /// Offered tools; globs are allowed.
    pub include: Vec<String>,
    /// Tools that are not offered although included; globs are allowed.
    pub exclude: Vec<String>,
    /// New names: `theirs = "ours"`.
    pub rename: BTreeMap<String, String>,
}

impl Default for RawTools {
    fn default() -> Self {
        Self {
            include: vec!["*".into()],
            exclude: Vec::new(),
            rename: BTreeMap::new(),
        }
    }
}

/// A backend's own bounds.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "BackendAdmission")]
pub struct RawBackendAdmission {
    /// Calls to this backend that run at the same time.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_concurrent: u32,
    /// Calls that wait for a slot of this backend; 0 refuses at once.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub queue_size: u32,
}

impl Default for RawBackendAdmission {
    fn default() -> Self {
        Self {
            max_concurrent: 64,
            queue_size: 64,
        }
    }
}

/// What each process of a stdio backend may use; 0 is no limit.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ChildLimits")]
pub struct RawChildLimits {
    /// Memory of its own, in MiB (RLIMIT_DATA).
    #[schemars(range(min = 0, max = 16_777_216))]
    pub memory_mb: u32,
    /// Address space, in MiB (RLIMIT_AS). Node.js reserves many gigabytes and does not start with less.
    #[schemars(range(min = 0, max = 16_777_216))]
    pub address_space_mb: u32,
    /// Processes and threads of the user it runs as, whoever started them (RLIMIT_NPROC).
    #[schemars(range(min = 0, max = 4_194_304))]
    pub processes: u32,
    /// Open files (RLIMIT_NOFILE).
    #[schemars(range(min = 0, max = 1_048_576))]
    pub open_files: u32,
    /// Seconds of computing after which it is killed (RLIMIT_CPU).
    #[schemars(range(min = 0, max = 31_536_000))]
    pub cpu_seconds: u32,
}

/// When calls to a backend are refused at once.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "CircuitBreaker")]
pub(crate) struct RawCircuitBreaker {
    /// Failures in a row that open the circuit; 0 never opens it.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(crate) threshold: u32,
    /// Seconds until one call is let through again.
    #[schemars(range(min = 0.1, max = 86_400))]
    pub(crate) recovery: f64,
}

impl Default for RawCircuitBreaker {
    fn default() -> Self {
        Self {
            threshold: 5,
            recovery: 30.0,
        }
    }
}

words! {
    /// How a backend is reached.
    BackendType {
        /// MCP over HTTP.
        #[default] Http,
        /// A program that the gateway starts, MCP on its standard streams.
        Stdio,
        /// Functions of a PostgreSQL database.
        Postgres,
        /// An HTTP API described by OpenAPI.
        Openapi,
    }
}
words! {
    /// When a backend's names are written with its name in front.
    Prefix {
        /// When an earlier backend has the same name.
        #[default] Collisions,
        /// Always.
        Always,
        /// Never: a tool whose name is taken is not offered.
        Never,
    }
}
words! {
    /// What happens when a tool's definition changes after it was first seen.
    Pin {
        /// Nothing.
        Off,
        /// It is logged.
        #[default] Warn,
        /// The tool is withheld until the change is approved.
        Enforce,
    }
}
words! {
    /// When a stdio backend is started.
    Start {
        /// With the gateway.
        #[default] Eager,
        /// At the first call; until then its remembered catalog is listed.
        Lazy,
    }
}
words! {
    /// Who shares a stdio child.
    Isolation {
        /// Everybody.
        #[default] Shared,
        /// One child for each session.
        Session,
        /// One child for each caller.
        Caller,
    }
}
words! {
    /// Whether a shared child may ask its callers (elicitation, sampling, roots).
    Interactive {
        /// It may not.
        #[default] Off,
        /// It may; its calls run one at a time so that the question finds its caller.
        Serialize,
    }
}
words! {
    /// Whether a PostgreSQL backend's gateway functions and route tables are used.
    Registry {
        /// When they exist.
        #[default] Auto,
        /// They must exist.
        On,
        /// They are ignored.
        Off,
    }
}
