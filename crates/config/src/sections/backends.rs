//! `[[backends]]`: the servers behind the gateway. The keys that every kind has are here; each kind has a module with its own.
//!
//! A kind is one module and one line of `kinds!`. In the file a backend is one flat table; the schema is put together
//! from the kinds, and a key of another kind is reported with the kinds that it belongs to.

mod entries;
mod http;
mod openapi;
mod postgres;
mod stdio;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::Guarantee;
use crate::builder::Builder;
use crate::mistake::Mistake;
use crate::section::{Key, Reload, Section, seconds, section, words};
use crate::tree::Path;

pub use entries::OWN_HEADERS;
pub use http::HttpBackend;
pub use openapi::{ApiAuth, OpenapiBackend};
pub use postgres::{Expose, PostgresBackend, Registry, Token};
pub use stdio::{ChildLimits, Interactive, Isolation, Start, StdioBackend, command_line};

/// Names that paths and tools of the gateway itself use.
const RESERVED: [&str; 3] = ["tools", "admin", "review"];

section! {
    /// One server behind the gateway.
    RawCommon => Backend {
        /// Its name: lower-case letters, digits and hyphens, at most 32; not tools, admin or review.
        #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9-]{0,31}$"))]
        Live name: String = String::new();
        /// How it is reached.
        Replace r#type (kind): BackendType = BackendType::Http;
        /// False: known, but neither started nor listed.
        Replace enabled: bool = true;
        /// Seconds for one call.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0.1, max = 86_400))]
        Replace timeout: Duration = Duration::from_secs(60);
        /// Seconds between two health checks; 0 is none.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0, max = 86_400))]
        Replace health_interval: Duration = Duration::from_secs(300);
        /// Failed health checks in a row before it leaves the catalog.
        #[schemars(range(min = 1, max = 1000))]
        Replace unhealthy_after: u32 = 3;
        /// When its names are written with its name in front.
        Live prefix: Prefix = Prefix::Collisions;
        /// What happens when a tool's definition changes after it was first seen.
        Live pin: Pin = Pin::Warn;
        /// Compare structured results with the tools' output schemas; what does not fit is counted, logged and passed on.
        Live check_outputs: bool = true;
        /// Audit guarantee for its calls. Absent: that of `[audit]`.
        #[schemars(example = Guarantee::Spool)]
        Live guarantee: Option<Guarantee> = None;
        /// Tools that may be called again after a request was delivered, by their own names; globs are allowed.
        Replace idempotent_tools: Vec<String> = Vec::new();
        /// Which of its tools are offered, and under which names.
        Live tools: ToolFilter = ToolFilter::default();
        /// Its own bounds, besides the global ones.
        Live admission: BackendAdmission = BackendAdmission::default();
        /// When calls to it are refused at once.
        Replace circuit_breaker: CircuitBreaker = CircuitBreaker::default();
    }
}

/// A server behind the gateway, as the program needs it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Backend {
    pub name: String,
    #[serde(flatten)]
    pub kind: BackendKind,
    pub enabled: bool,
    #[serde(with = "seconds")]
    pub timeout: Duration,
    /// Zero: no health checks.
    #[serde(with = "seconds")]
    pub health_interval: Duration,
    pub unhealthy_after: u32,
    pub prefix: Prefix,
    pub pin: Pin,
    pub check_outputs: bool,
    pub guarantee: Guarantee,
    pub idempotent_tools: Vec<String>,
    pub tools: ToolFilter,
    pub admission: BackendAdmission,
    pub circuit_breaker: CircuitBreaker,
}

impl Backend {
    /// Whether the one that runs can stay as it is; the catalog, policy and audit apply the other keys themselves.
    pub fn runs_like(&self, other: &Self) -> bool {
        let mut changed = self.changed(other).into_iter();
        changed.all(|key| key.reload == Reload::Live)
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

/// The MCP revision that is spoken with a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
pub enum Revision {
    #[default]
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "2024-11-05")]
    V2024_11_05,
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
}

section! {
    /// Which of a backend's tools are offered, and under which names.
    #[schemars(rename = "Tools")]
    ToolFilter {
        /// Offered tools; globs are allowed.
        Live include: Vec<String> = vec!["*".into()];
        /// Tools that are not offered although included; globs are allowed.
        Live exclude: Vec<String> = Vec::new();
        /// New names: `theirs = "ours"`.
        Live rename: BTreeMap<String, String> = BTreeMap::new();
    }
}
section! {
    /// A backend's own bounds, besides the global ones.
    BackendAdmission {
        /// Calls to this backend that run at the same time.
        #[schemars(range(min = 1, max = 1_000_000))]
        Live max_concurrent: u32 = 64;
        /// Calls that wait for a slot of this backend; 0 refuses at once.
        #[schemars(range(min = 0, max = 1_000_000))]
        Live queue_size: u32 = 64;
    }
}
section! {
    /// When calls to a backend are refused at once.
    CircuitBreaker {
        /// Failures in a row that open the circuit; 0 never opens it.
        #[schemars(range(min = 0, max = 1_000_000))]
        Replace threshold: u32 = 5;
        /// Seconds until one call is let through again.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0.1, max = 86_400))]
        Replace recovery: Duration = Duration::from_secs(30);
    }
}

/// What a kind of backend adds to the file.
trait Kind: Sized {
    type Built;
    /// Of these keys one must be there.
    const NEEDS: &'static [&'static str];

    fn build(&self, builder: &mut Builder<'_>, site: &Site<'_>) -> Option<Self::Built>;
}

/// Where a kind's keys are in the file, and whose they are.
struct Site<'a> {
    path: Path,
    name: &'a str,
    enabled: bool,
    word: &'static str,
}

/// A kind as the schema and the check of foreign keys know it.
struct KindKeys {
    word: &'static str,
    keys: &'static [Key],
    needs: &'static [&'static str],
    schema: fn(&mut SchemaGenerator) -> Schema,
}

macro_rules! kinds {
    ($($(#[$meta:meta])* $kind:ident = $word:literal: $raw:ty => $built:ty;)*) => {
        words! {
            /// How a backend is reached.
            BackendType { $($(#[$meta])* $kind),* }
        }

        /// What the file says with the keys of one kind.
        #[derive(Debug, Clone)]
        enum RawKind { $($kind($raw)),* }

        /// How a backend is reached, with the settings of its kind.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(tag = "type", rename_all = "lowercase")]
        pub enum BackendKind { $($kind($built)),* }

        const KINDS: &[KindKeys] = &[$(KindKeys {
            word: $word,
            keys: <$built as Section>::KEYS,
            needs: <$raw as Kind>::NEEDS,
            schema: <$raw as JsonSchema>::json_schema,
        }),*];

        impl RawKind {
            fn decode(kind: BackendType, own: Value) -> serde_json::Result<Self> {
                match kind { $(BackendType::$kind => serde_json::from_value(own).map(Self::$kind)),* }
            }

            fn build(&self, builder: &mut Builder<'_>, site: &Site<'_>) -> Option<BackendKind> {
                match self { $(Self::$kind(raw) => raw.build(builder, site).map(BackendKind::$kind)),* }
            }
        }
    };
}

kinds! {
    /// MCP over HTTP.
    #[default]
    Http = "http": http::RawHttp => HttpBackend;
    /// A program that the gateway starts, MCP on its standard streams.
    Stdio = "stdio": stdio::RawStdio => StdioBackend;
    /// Functions of a PostgreSQL database.
    Postgres = "postgres": postgres::RawPostgres => PostgresBackend;
    /// An HTTP API described by OpenAPI.
    Openapi = "openapi": openapi::RawOpenapi => OpenapiBackend;
}

impl BackendType {
    fn keys(self) -> &'static KindKeys {
        &KINDS[self as usize]
    }
}

/// One backend as the file has it: the keys of every kind, and those of its own.
#[derive(Debug, Clone)]
pub(crate) struct RawBackend {
    common: RawCommon,
    own: RawKind,
}

impl RawBackend {
    pub(crate) fn name(&self) -> &str {
        &self.common.name
    }
}

impl<'de> Deserialize<'de> for RawBackend {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let has = |keys: &[Key], name: &str| keys.iter().any(|key| key.name == name);
        let all = Map::<String, Value>::deserialize(from)?;
        let (common, mut own): (Map<_, _>, Map<_, _>) = all
            .into_iter()
            .partition(|(key, _)| has(Backend::KEYS, key));
        let common: RawCommon =
            serde_json::from_value(Value::Object(common)).map_err(D::Error::custom)?;
        // Keys of other kinds are reported by `foreign_keys`.
        own.retain(|key, _| has(common.r#type.keys().keys, key));
        let own = RawKind::decode(common.r#type, Value::Object(own)).map_err(D::Error::custom)?;
        Ok(Self { common, own })
    }
}

impl JsonSchema for RawBackend {
    fn schema_name() -> Cow<'static, str> {
        "Backend".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut own: Vec<(String, Value, Vec<&str>)> = Vec::new();
        let mut conditions = Vec::new();
        for kind in KINDS {
            let mut of_kind = (kind.schema)(generator);
            let properties = of_kind.remove("properties").unwrap_or_default();
            for (key, value) in properties.as_object().cloned().unwrap_or_default() {
                match own.iter_mut().find(|(known, ..)| *known == key) {
                    Some((_, _, words)) => words.push(kind.word),
                    None => own.push((key, value, vec![kind.word])),
                }
            }
            let needs = kind.needs.iter().map(|key| json!({ "required": [key] }));
            conditions.push(json!({
                "if": { "properties": { "type": { "const": kind.word } }, "required": ["type"] },
                "then": { "anyOf": needs.collect::<Vec<_>>() },
            }));
        }
        let mut schema = RawCommon::json_schema(generator);
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            for (key, mut value, words) in own {
                let text = value["description"].as_str().unwrap_or_default();
                value["description"] = format!("{}: {text}", words.join(", ")).into();
                properties.insert(key, value);
            }
        }
        schema.insert("required".into(), json!(["name", "type"]));
        schema.insert("allOf".into(), conditions.into());
        schema
    }
}

/// Each kind's word and the schema of its own keys, for the example file.
pub(crate) fn kinds(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
    let one = |kind: &KindKeys| (kind.word, (kind.schema)(generator));
    KINDS.iter().map(one).collect()
}

impl Builder<'_> {
    pub(crate) fn backends(&mut self, raw: Vec<RawBackend>, guarantee: Guarantee) -> Vec<Backend> {
        let mut first: HashMap<String, usize> = HashMap::new();
        let mut built = Vec::with_capacity(raw.len());
        for (index, backend) in raw.into_iter().enumerate() {
            let here = Path::dotted("backends").index(index);
            let name = backend.name().to_owned();
            self.check_backend_name(&here.key("name"), &name);
            if let Some(earlier) = first.insert(name.clone(), index)
                && !name.is_empty()
            {
                let number = earlier + 1;
                let message = format!("the name \"{name}\" is taken by backend number {number}");
                self.wrong(
                    &here.key("name"),
                    message,
                    "a name of its own for every backend",
                );
            }
            built.extend(self.backend(here, backend, guarantee));
        }
        built
    }

    fn check_backend_name(&mut self, path: &Path, name: &str) {
        if self.removed.contains(path) {
            return;
        }
        if RESERVED.contains(&name) {
            let message = format!("the name \"{name}\" is the gateway's own");
            return self.wrong(path, message, "a name other than tools, admin and review");
        }
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let good = name.starts_with(letter)
            && name.len() <= 32
            && name.chars().all(|c| letter(c) || c == '-');
        if !good {
            let repaired = backend_name(name);
            let message = format!("\"{name}\" cannot be a backend's name");
            self.report(path, message, |m| {
                m.expected("1 to 32 lower-case letters, digits and hyphens, the first no hyphen")
                    .maybe_help(repaired.map(|name| format!("write \"{name}\"")))
            });
        }
    }

    fn backend(&mut self, path: Path, raw: RawBackend, guarantee: Guarantee) -> Option<Backend> {
        let RawBackend { common: raw, own } = raw;
        // Without its type nothing can be said about its other keys.
        if self.removed.contains(&path.key("type")) {
            return None;
        }
        self.check_kind(&path, raw.r#type);
        self.check_renames(&path, &raw.tools);
        let site = Site {
            path,
            name: &raw.name,
            enabled: raw.enabled,
            word: raw.r#type.keys().word,
        };
        let kind = own.build(self, &site)?;
        Some(Backend {
            kind,
            enabled: raw.enabled,
            timeout: raw.timeout,
            health_interval: raw.health_interval,
            unhealthy_after: raw.unhealthy_after,
            prefix: raw.prefix,
            pin: raw.pin,
            check_outputs: raw.check_outputs,
            guarantee: raw.guarantee.unwrap_or(guarantee),
            idempotent_tools: raw.idempotent_tools,
            tools: raw.tools,
            admission: raw.admission,
            circuit_breaker: raw.circuit_breaker,
            name: raw.name,
        })
    }

    /// Reports keys that belong to other kinds.
    fn check_kind(&mut self, path: &Path, kind: BackendType) {
        let kind = kind.keys();
        let has = |kind: &KindKeys, name: &str| kind.keys.iter().any(|key| key.name == name);
        let mut seen = Vec::new();
        for key in KINDS.iter().flat_map(|kind| kind.keys).map(|key| key.name) {
            let here = path.key(key);
            if !self.tree.has(&here) || has(kind, key) || seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let owners = KINDS.iter().filter(|kind| has(kind, key));
            let owners: Vec<_> = owners.map(|kind| kind.word).collect();
            let message = format!(
                "`{key}` has no meaning for a backend of type \"{}\"",
                kind.word
            );
            let mistake = Mistake::new(self.tree.key_span(&here), message).help(format!(
                "it belongs to type \"{}\"",
                owners.join("\" or \"")
            ));
            self.mistakes.push(mistake);
        }
    }

    /// Whether a key that this kind needs is there; reports it if not.
    fn needs(&mut self, site: &Site<'_>, key: &str, example: &str, given: &str) -> bool {
        let path = site.path.key(key);
        if !given.is_empty() {
            return true;
        }
        if self.tree.has(&path) && !self.removed.contains(&path) {
            self.wrong(&path, format!("`{key}` is empty"), example);
        } else if !self.removed.contains(&path) && !self.incomplete {
            let message = format!("a backend of type \"{}\" needs `{key}`", site.word);
            let mistake = Mistake::new(self.tree.key_span(&site.path), message)
                .help(format!("write {key} = {example}"));
            self.mistakes.push(mistake);
        }
        false
    }

    fn check_renames(&mut self, here: &Path, tools: &ToolFilter) {
        let mut taken: HashMap<&str, &str> = HashMap::new();
        for (theirs, ours) in &tools.rename {
            let path = here.key("tools").key("rename").key(theirs);
            let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            if ours.is_empty() || ours.len() > 128 || !ours.chars().all(good) {
                let expected = "1 to 128 letters, digits, underscores, hyphens and dots";
                self.wrong(
                    &path,
                    format!("\"{ours}\" cannot be a tool's name"),
                    expected,
                );
            }
            if let Some(other) = taken.insert(ours, theirs) {
                self.wrong(
                    &path,
                    format!("\"{other}\" is renamed to \"{ours}\" too"),
                    "",
                );
            }
        }
    }
}

/// A name made of what a backend's name may have: `My Server!` becomes `my-server`.
pub fn backend_name(name: &str) -> Option<String> {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(32);
    let out = out.trim_end_matches('-');
    match out {
        "" => None,
        "tools" | "admin" | "review" => Some(format!("{out}-server")),
        _ => Some(out.to_owned()),
    }
}
