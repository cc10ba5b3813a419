//! One backend's offer: its lists, read completely and kept unchanged.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sentinel_wire::header::{self, Param};
use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Payload, Revision};
use serde::{Deserialize, Serialize};

use crate::arguments::Schema;
use crate::capabilities::CapabilitySets;
use crate::route::Route;
use crate::tags;

/// The kinds of operation in a catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ItemKind {
    Tool,
    Resource,
    Template,
    Prompt,
}

impl ItemKind {
    pub const ALL: [Self; 4] = [Self::Tool, Self::Resource, Self::Template, Self::Prompt];

    /// The method that lists this kind.
    pub fn list_method(self) -> Method {
        match self {
            Self::Tool => Method::ToolsList,
            Self::Resource => Method::ResourcesList,
            Self::Template => Method::ResourceTemplatesList,
            Self::Prompt => Method::PromptsList,
        }
    }

    /// The member of the list result that holds the items.
    pub fn list_member(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Resource => "resources",
            Self::Template => "resourceTemplates",
            Self::Prompt => "prompts",
        }
    }

    /// The member that identifies an item.
    pub fn key_member(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::Template => "uriTemplate",
        }
    }
}

/// How an operation is reached besides its backend's restrictions by capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// By its name, on every surface.
    #[default]
    ByName,
    /// By JSON-RPC only.
    ByRpc,
    /// By an HTTP route only.
    ByRoute,
}

/// One tool, resource, template or prompt: its key and its unchanged JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub key: String,
    pub raw: Bytes,
    /// Arguments that 2026-07-28 callers repeat in headers; tools only, usually none.
    pub mirrored: Arc<[Param]>,
    /// The input schema; tools only.
    pub schema: Arc<Schema>,
    /// What its structured results must look like, where it says so; tools only.
    pub output: Option<Arc<Schema>>,
    /// A 2025-11-25 tool that runs only as a task.
    pub needs_task: bool,
    /// A tool that declares itself read-only (`annotations.readOnlyHint`).
    pub is_read_only: bool,
    /// What a tool is tagged with.
    pub tags: Arc<[Box<str>]>,
    /// The callers that it is offered to, where the server distinguishes them.
    pub offered_to: CapabilitySets,
    pub reach: Reach,
}

impl Item {
    /// `None` when it is no object or lacks its key.
    pub fn parse(kind: ItemKind, raw: Bytes) -> Option<Self> {
        let payload = Payload::parse(raw.clone(), Rules::backend()).ok()?;
        let key = payload.string(kind.key_member())?.into_owned();
        let schema = payload
            .get("inputSchema")
            .filter(|_| kind == ItemKind::Tool);
        // Invalid annotations count as none; over HTTP such a tool is left out.
        let mirrored = schema
            .and_then(|schema| header::annotations(schema).ok())
            .unwrap_or_default();
        let schema = match kind {
            ItemKind::Tool => payload.get_bytes("inputSchema"),
            _ => None,
        };
        let output = payload
            .get_bytes("outputSchema")
            .filter(|_| kind == ItemKind::Tool);
        Some(Self {
            key,
            raw,
            mirrored: mirrored.into(),
            schema: Arc::new(Schema::new(schema)),
            output: output.map(|raw| Arc::new(Schema::new(Some(raw)))),
            needs_task: kind == ItemKind::Tool && needs_task(&payload),
            is_read_only: kind == ItemKind::Tool && is_read_only(&payload),
            tags: match kind {
                ItemKind::Tool => tags::of(&payload),
                _ => Arc::default(),
            },
            offered_to: CapabilitySets::ALL,
            reach: Reach::default(),
        })
    }
}

fn needs_task(tool: &Payload) -> bool {
    has_member(tool, "execution", "taskSupport", br#""required""#)
}

fn is_read_only(tool: &Payload) -> bool {
    has_member(tool, "annotations", "readOnlyHint", b"true")
}

/// Whether the object `outer` of a tool has a member with this value.
fn has_member(tool: &Payload, outer: &str, member: &str, value: &[u8]) -> bool {
    let object = tool.get_bytes(outer);
    let object = object.and_then(|raw| Payload::parse(raw, Rules::backend()).ok());
    object.is_some_and(|object| object.get(member) == Some(value))
}

/// Which features a server declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCapabilities {
    pub tools: bool,
    pub resources: bool,
    pub subscribe: bool,
    pub prompts: bool,
    pub completions: bool,
    pub logging: bool,
    /// Calls of tools may become tasks of 2025-11-25.
    #[serde(default)]
    pub tasks: bool,
}

impl ServerCapabilities {
    /// Assumed for a backend that was never discovered, so that no handshake has to wait for it.
    pub const UNKNOWN: Self = Self {
        tools: true,
        resources: true,
        subscribe: true,
        prompts: true,
        completions: true,
        logging: true,
        tasks: false,
    };

    pub fn parse(raw: &[u8]) -> Self {
        let Ok(all) = Payload::parse(Bytes::copy_from_slice(raw), Rules::backend()) else {
            return Self::default();
        };
        let within = |outer: Option<Payload>, name: &str| {
            let inner = outer?.get_bytes(name)?;
            Payload::parse(inner, Rules::backend()).ok()
        };
        let tasks = ["tasks", "requests", "tools", "call"];
        let tasks = tasks.into_iter().fold(Some(all.clone()), within);
        let subscribe = all.get_bytes("resources").is_some_and(|resources| {
            Payload::parse(resources, Rules::backend())
                .is_ok_and(|r| r.get("subscribe") == Some(b"true"))
        });
        Self {
            tools: all.get("tools").is_some(),
            resources: all.get("resources").is_some(),
            subscribe,
            prompts: all.get("prompts").is_some(),
            completions: all.get("completions").is_some(),
            logging: all.get("logging").is_some(),
            tasks: tasks.is_some(),
        }
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            tools: self.tools | other.tools,
            resources: self.resources | other.resources,
            subscribe: self.subscribe | other.subscribe,
            prompts: self.prompts | other.prompts,
            completions: self.completions | other.completions,
            logging: self.logging | other.logging,
            tasks: self.tasks | other.tasks,
        }
    }
}

/// How long an answer stays fresh, and whether it is the same for all callers: the caching hints of 2026-07-28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    pub ttl: Duration,
    /// `public`: caches may serve it to any user.
    pub shared: bool,
}

impl Default for Freshness {
    /// The meaning of absent hints.
    fn default() -> Self {
        Self {
            ttl: Duration::ZERO,
            shared: false,
        }
    }
}

impl Freshness {
    /// Longer times are capped at a day, as in the SDKs.
    const TTL_MAX: Duration = Duration::from_secs(24 * 3600);
    /// Unchanging and the same for all callers.
    pub const LASTING: Self = Self {
        ttl: Self::TTL_MAX,
        shared: true,
    };

    /// The hints of a result; absent and invalid ones count as none.
    pub fn of(result: &Payload) -> Self {
        let ttl = result.get("ttlMs").and_then(|raw| {
            let ms: f64 = std::str::from_utf8(raw).ok()?.parse().ok()?;
            Some(Duration::from_millis(ms.max(0.0) as u64))
        });
        Self {
            ttl: ttl.unwrap_or_default().min(Self::TTL_MAX),
            shared: result.get("cacheScope") == Some(br#""public""#),
        }
    }

    /// The stricter hints of two parts of one answer.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            ttl: self.ttl.min(other.ttl),
            shared: self.shared && other.shared,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The revision the lists were read at.
    pub revision: Revision,
    /// How long each list stays fresh, in the order of `ItemKind::ALL`.
    pub freshness: [Freshness; 4],
    /// Why a list was not read to its end, in the same order.
    pub cut: [Option<String>; 4],
    pub capabilities: ServerCapabilities,
    /// `capabilities.extensions` as declared.
    pub extensions: Option<Bytes>,
    pub server_info: Option<Bytes>,
    pub instructions: Option<String>,
    pub tools: Vec<Item>,
    pub resources: Vec<Item>,
    pub templates: Vec<Item>,
    pub prompts: Vec<Item>,
    /// Further ways to its tools, in the order in which they are tried.
    pub routes: Vec<Route>,
}

impl Offer {
    /// The offer of a server without operations.
    pub fn empty(revision: Revision) -> Self {
        Self {
            revision,
            freshness: Default::default(),
            cut: Default::default(),
            capabilities: ServerCapabilities::default(),
            extensions: None,
            server_info: None,
            instructions: None,
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            routes: Vec::new(),
        }
    }

    pub fn items(&self, kind: ItemKind) -> &[Item] {
        match kind {
            ItemKind::Tool => &self.tools,
            ItemKind::Resource => &self.resources,
            ItemKind::Template => &self.templates,
            ItemKind::Prompt => &self.prompts,
        }
    }

    /// The hints of one of its lists, if it has that kind of operation.
    pub(crate) fn fresh(&self, kind: ItemKind) -> Option<Freshness> {
        let has = match kind {
            ItemKind::Tool => self.capabilities.tools,
            ItemKind::Resource | ItemKind::Template => self.capabilities.resources,
            ItemKind::Prompt => self.capabilities.prompts,
        };
        has.then(|| self.freshness[kind as usize])
    }

    pub fn items_mut(&mut self, kind: ItemKind) -> &mut Vec<Item> {
        match kind {
            ItemKind::Tool => &mut self.tools,
            ItemKind::Resource => &mut self.resources,
            ItemKind::Template => &mut self.templates,
            ItemKind::Prompt => &mut self.prompts,
        }
    }
}
