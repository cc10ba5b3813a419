//! Detects what a server speaks and what it offers, over any transport.
//!
//! An unknown server is probed with `server/discover`; one that does not answer like a modern server is legacy and
//! gets `initialize`. Then its lists are read page by page. A failing list does not affect the others.
//!
//! Not here: when to do this (`http`, `stdio`), merging the lists (`core::catalog`).

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use sentinel_core::{Fault, Freshness, Item, ItemKind, Kind, Offer, ServerCapabilities};
use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Method, Outcome, Payload, Revision, meta};

use crate::relay;

/// Pages read of one list: more than any real server has, and a bound for endless ones.
const PAGES_MAX: usize = 1_000;
/// Items kept of one list.
const ITEMS_MAX: usize = 100_000;

/// Sends requests to one server. Implementations own ids, framing, deadlines and headers.
pub trait Peer: Send + Sync {
    fn request(
        &self,
        method: Method,
        params: Vec<u8>,
    ) -> impl Future<Output = Result<Outcome, PeerError>> + Send;

    fn notify(
        &self,
        method: Method,
        params: Vec<u8>,
    ) -> impl Future<Output = Result<(), PeerError>> + Send;
}

#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The server refused or hung up in a way that shows it does not know the method. During the probe that means
    /// legacy.
    #[error("the server did not understand")]
    NotSpoken(#[source] Fault),
    /// The server could not be reached or did not answer: its era stays unknown.
    #[error("the server did not answer")]
    Failed(#[source] Fault),
}

impl From<PeerError> for Fault {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::NotSpoken(fault) | PeerError::Failed(fault) => fault,
        }
    }
}

/// What the probe found.
#[derive(Debug)]
pub enum Probe {
    Modern(Greeting),
    Legacy,
}

/// How a server introduced itself, by `initialize` or by `server/discover`.
#[derive(Clone, Debug)]
pub struct Greeting {
    pub revision: Revision,
    pub capabilities: ServerCapabilities,
    pub extensions: Option<Bytes>,
    pub server_info: Option<Bytes>,
    pub instructions: Option<String>,
    /// The capabilities declared for reading the lists; a legacy server got them in its handshake.
    pub declared: Bytes,
    /// Legacy revisions that a modern server names beside its own. An empty list proves nothing: naming them is
    /// optional.
    pub legacy: Vec<Revision>,
}

/// Params of one of the gateway's own requests, in the form of the revision.
pub fn own_params(revision: Revision, members: &str) -> Vec<u8> {
    params_declaring("{}", revision, members)
}

/// Params of `subscriptions/listen`: changes of lists, and the resources and tasks that callers follow.
pub fn wishes(revision: Revision, uris: &[Arc<str>], tasks: &[Arc<str>]) -> Vec<u8> {
    let uris = relay::json_strings(uris);
    let (capabilities, tasks) = match tasks {
        [] => ("{}", String::new()),
        tasks => (
            r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
            format!(r#","taskIds":{}"#, relay::json_strings(tasks)),
        ),
    };
    let wanted = format!(
        r#""notifications":{{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":{uris}{tasks}}}"#
    );
    params_declaring(capabilities, revision, &wanted)
}

fn params_declaring(capabilities: &str, revision: Revision, members: &str) -> Vec<u8> {
    if !revision.is_modern() {
        return format!("{{{members}}}").into_bytes();
    }
    let comma = if members.is_empty() { "" } else { "," };
    let client = String::from_utf8_lossy(relay::client_info());
    format!(
        r#"{{{members}{comma}"_meta":{{"{}":"{revision}","{}":{capabilities},"{}":{client}}}}}"#,
        meta::PROTOCOL_VERSION,
        meta::CLIENT_CAPABILITIES,
        meta::CLIENT_INFO,
    )
    .into_bytes()
}

/// Asks a fresh server whether it is modern.
pub async fn probe(peer: &impl Peer) -> Result<Probe, Fault> {
    let params = own_params(Revision::NEWEST, "");
    match peer.request(Method::Discover, params).await {
        Ok(Outcome::Result(result)) => Ok(read_discovery(&result)),
        Ok(Outcome::Error(error)) => judge_refusal(&error),
        Err(PeerError::NotSpoken(_)) => Ok(Probe::Legacy),
        Err(PeerError::Failed(fault)) => Err(fault),
    }
}

/// A discovery result without a revision that we support is taken as an advertisement of its legacy revisions.
fn read_discovery(result: &Payload) -> Probe {
    let versions = result
        .get("supportedVersions")
        .map(strings)
        .unwrap_or_default();
    if !versions.iter().any(|v| v == Revision::NEWEST.as_str()) {
        return Probe::Legacy;
    }
    let server_info = result
        .get_bytes("_meta")
        .and_then(|m| Payload::parse(m, Rules::backend()).ok())
        .and_then(|m| m.get_bytes(meta::SERVER_INFO));
    let legacy = versions.iter().filter_map(|v| Revision::parse(v));
    Probe::Modern(Greeting {
        legacy: legacy.filter(|r| !r.is_modern()).collect(),
        ..greeting(Revision::NEWEST, result, server_info)
    })
}

/// Only the error codes that 2026-07-28 defines indicate a modern server; legacy servers refuse in many ways.
fn judge_refusal(error: &Payload) -> Result<Probe, Fault> {
    let code = error.get("code").unwrap_or_default();
    if code != b"-32022" {
        let modern = code == b"-32020" || code == b"-32021";
        return if modern {
            Err(refused(error))
        } else {
            Ok(Probe::Legacy)
        };
    }
    let supported = error
        .get_bytes("data")
        .and_then(|data| Payload::parse(data, Rules::backend()).ok())
        .and_then(|data| data.get("supported").map(strings))
        .unwrap_or_default();
    let legacy = |v: &String| Revision::parse(v).is_some_and(|r| !r.is_modern());
    if supported.iter().any(legacy) {
        Ok(Probe::Legacy)
    } else {
        Err(refused(error))
    }
}

/// Initializes a legacy server at its newest revision, declaring `capabilities` on behalf of its callers.
pub async fn initialize(peer: &impl Peer, capabilities: &[u8]) -> Result<Greeting, PeerError> {
    initialize_at(peer, Revision::NEWEST_LEGACY, capabilities).await
}

/// Like [`initialize`], asking for a given revision; the server may answer with another.
pub async fn initialize_at(
    peer: &impl Peer,
    asked: Revision,
    capabilities: &[u8],
) -> Result<Greeting, PeerError> {
    let params = format!(
        r#"{{"protocolVersion":"{asked}","capabilities":{},"clientInfo":{}}}"#,
        String::from_utf8_lossy(capabilities),
        String::from_utf8_lossy(relay::client_info()),
    );
    let result = match peer
        .request(Method::Initialize, params.into_bytes())
        .await?
    {
        Outcome::Result(result) => result,
        Outcome::Error(error) => return Err(PeerError::NotSpoken(refused(&error))),
    };
    let version = result
        .string("protocolVersion")
        .unwrap_or_default()
        .into_owned();
    let Some(revision) = Revision::parse(&version).filter(|r| !r.is_modern()) else {
        let text = format!("the backend speaks MCP {version:?}, which this gateway does not");
        let fault = Fault::new(Kind::BackendUnavailable, text);
        return Err(PeerError::NotSpoken(fault));
    };
    peer.notify(Method::Initialized, Vec::new()).await?;
    let server_info = result.get_bytes("serverInfo");
    Ok(Greeting {
        declared: Bytes::copy_from_slice(capabilities),
        ..greeting(revision, &result, server_info)
    })
}

fn greeting(revision: Revision, result: &Payload, server_info: Option<Bytes>) -> Greeting {
    let raw = result
        .get_bytes("capabilities")
        .unwrap_or_else(|| Bytes::from_static(b"{}"));
    let mut capabilities = ServerCapabilities::parse(&raw);
    // The first revision has completion but no flag for it.
    capabilities.completions |= revision == Revision::V2024_11_05;
    let extensions = Payload::parse(raw, Rules::backend())
        .ok()
        .and_then(|c| c.get_bytes("extensions"));
    Greeting {
        revision,
        capabilities,
        extensions,
        server_info,
        instructions: result.string("instructions").map(|text| text.into_owned()),
        declared: Bytes::from_static(b"{}"),
        legacy: Vec::new(),
    }
}

/// Everything a server lists.
#[derive(Debug)]
pub struct Lists {
    pub offer: Offer,
    /// Why the server refused its list of tools, if it did; the previous list is used then.
    pub tools_refused: Option<String>,
}

/// Reads all lists of the server. A list that it fails to give is taken over from `before`, its previous offer.
pub async fn read_lists(
    peer: &impl Peer,
    greeting: &Greeting,
    name: &str,
    before: Option<&Offer>,
) -> Result<Lists, Fault> {
    let mut tools_refused = None;
    let mut offer = Offer {
        capabilities: greeting.capabilities,
        extensions: greeting.extensions.clone(),
        server_info: greeting.server_info.clone(),
        instructions: greeting.instructions.clone(),
        ..Offer::empty(greeting.revision)
    };
    let has = |kind: ItemKind| match kind {
        ItemKind::Tool => greeting.capabilities.tools,
        ItemKind::Resource | ItemKind::Template => greeting.capabilities.resources,
        ItemKind::Prompt => greeting.capabilities.prompts,
    };
    for kind in ItemKind::ALL.into_iter().filter(|kind| has(*kind)) {
        let before = before.map(|offer| offer.items(kind)).unwrap_or_default();
        let asked_with = (greeting.revision, &greeting.declared[..]);
        let mut list = read_list_with(peer, asked_with, kind, name, before).await?;
        if kind == ItemKind::Tool {
            tools_refused = list.refused.take();
        }
        list.put_into(&mut offer, kind);
    }
    Ok(Lists {
        offer,
        tools_refused,
    })
}

/// One list as a server gives it.
#[derive(Debug)]
pub struct List {
    pub items: Vec<Item>,
    /// Why the server refused it, if it did; these are the previous items then.
    pub refused: Option<String>,
    fresh: Freshness,
    /// Why reading stopped before the end.
    cut: Option<String>,
}

impl List {
    /// Replaces what the server offered of this kind.
    pub fn put_into(self, offer: &mut Offer, kind: ItemKind) {
        *offer.items_mut(kind) = self.items;
        offer.freshness[kind as usize] = self.fresh;
        offer.cut[kind as usize] = self.cut;
    }
}

/// Reads one list to its end. A server that does not know the method has an empty list; one that refuses for another
/// reason keeps its previous list; one that does not answer is failing.
pub async fn read_list(
    peer: &impl Peer,
    revision: Revision,
    kind: ItemKind,
    name: &str,
    before: &[Item],
) -> Result<List, Fault> {
    read_list_with(peer, (revision, b"{}"), kind, name, before).await
}

/// Like [`read_list`], with capabilities declared.
async fn read_list_with(
    peer: &impl Peer,
    (revision, declared): (Revision, &[u8]),
    kind: ItemKind,
    name: &str,
    before: &[Item],
) -> Result<List, Fault> {
    let declared = String::from_utf8_lossy(declared);
    let mut items = Vec::new();
    let mut fresh = Freshness::LASTING;
    let mut cut = Some(format!("{PAGES_MAX} pages"));
    let (mut keys, mut seen) = (HashSet::new(), HashSet::new());
    let mut cursor: Option<Bytes> = None;
    for _ in 0..PAGES_MAX {
        let members = cursor
            .as_ref()
            .map(|c| format!(r#""cursor":{}"#, String::from_utf8_lossy(c)));
        let members = members.as_deref().unwrap_or_default();
        let params = params_declaring(&declared, revision, members);
        let page = match peer.request(kind.list_method(), params).await? {
            Outcome::Result(page) => page,
            Outcome::Error(error) => {
                let why = error.string("message").unwrap_or_default();
                tracing::debug!(backend = name, list = kind.list_member(), "refused: {why}");
                let unknown = error.get("code") == Some(b"-32601");
                let items = if unknown { Vec::new() } else { before.to_vec() };
                return Ok(List {
                    items,
                    refused: (!unknown).then(|| why.into_owned()),
                    fresh: Freshness::default(),
                    cut: None,
                });
            }
        };
        take_page(kind, &page, &mut items, &mut keys, name);
        fresh = fresh.and(Freshness::of(&page));
        cursor = page
            .get_bytes("nextCursor")
            .filter(|c| json::decode_string(c).is_some());
        match &cursor {
            None => {
                cut = None;
                break;
            }
            Some(_) if items.len() >= ITEMS_MAX => {
                cut = Some(format!("{ITEMS_MAX} items"));
                break;
            }
            Some(next) if !seen.insert(next.clone()) => {
                tracing::warn!(
                    backend = name,
                    list = kind.list_member(),
                    "its pages go in a circle"
                );
                cut = None;
                break;
            }
            Some(_) => {}
        }
    }
    let cut = cut.map(|limit| {
        let (n, list) = (items.len(), kind.list_member());
        format!("its {list} did not end within the {limit} that are read: {n} were taken")
    });
    Ok(List {
        items,
        refused: None,
        fresh,
        cut,
    })
}

/// Takes the valid entries of a page. Strict clients reject a merged list as a whole, so one invalid entry would take
/// away the tools of all other servers.
fn take_page(
    kind: ItemKind,
    page: &Payload,
    items: &mut Vec<Item>,
    keys: &mut HashSet<String>,
    name: &str,
) {
    let Some(list) = page.get_bytes(kind.list_member()) else {
        return;
    };
    let skip = |why: &str| {
        tracing::warn!(
            backend = name,
            list = kind.list_member(),
            "skipped an entry: {why}"
        );
    };
    for span in json::elements(&list, Rules::backend()).unwrap_or_default() {
        // Copied, so that one kept item does not hold the whole page in memory.
        let raw = Bytes::copy_from_slice(span.of(&list));
        let lacks = lacks(kind, &raw);
        match Item::parse(kind, raw) {
            None => skip(&format!("it is no object with a {}", kind.key_member())),
            Some(item) if item.key.is_empty() => {
                skip(&format!("its {} is empty", kind.key_member()));
            }
            Some(item) if lacks.is_some() => {
                skip(&format!(
                    "`{}` has no {}",
                    item.key,
                    lacks.unwrap_or_default()
                ));
            }
            Some(item) if !keys.insert(item.key.clone()) => {
                skip(&format!("`{}` is listed twice", item.key));
            }
            Some(item) => items.push(item),
        }
    }
}

/// The member that every revision requires of such an entry, if it is missing.
fn lacks(kind: ItemKind, raw: &Bytes) -> Option<&'static str> {
    let entry = Payload::parse(raw.clone(), Rules::backend()).ok()?;
    match kind {
        ItemKind::Tool => {
            let schema = entry
                .get_bytes("inputSchema")
                .and_then(|schema| Payload::parse(schema, Rules::backend()).ok());
            let of_object = schema.is_some_and(|s| s.string("type").as_deref() == Some("object"));
            (!of_object).then_some("inputSchema of type \"object\"")
        }
        ItemKind::Resource | ItemKind::Template => entry.string("name").is_none().then_some("name"),
        ItemKind::Prompt => None,
    }
}

fn strings(array: &[u8]) -> Vec<String> {
    let spans = json::elements(array, Rules::backend()).unwrap_or_default();
    spans
        .iter()
        .filter_map(|s| json::decode_string(s.of(array)))
        .map(|s| s.into_owned())
        .collect()
}

/// Tools of this server are pinned, and it does not list them.
pub(crate) fn tools_refused(backend: &str, why: String) -> Fault {
    let text = format!(
        "backend `{backend}` does not give its list of tools, so they cannot be compared with the approved ones; try again later"
    );
    Fault::new(Kind::BackendUnavailable, text).because(why)
}

/// The server does not support the configured revision.
pub(crate) fn does_not_speak(revision: Revision) -> Fault {
    let text = format!("the backend does not speak MCP {revision}, which `revision` asks for");
    Fault::new(Kind::BackendUnavailable, text)
}

fn refused(error: &Payload) -> Fault {
    let why = error.string("message").unwrap_or_default().into_owned();
    Fault::new(Kind::BackendUnavailable, "the backend refused to begin").because(why)
}

#[cfg(test)]
mod tests;
