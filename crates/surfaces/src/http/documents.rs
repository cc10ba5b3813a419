//! Documents about the catalog, as each caller sees it: OpenAPI, OpenRPC, and texts for models.
//!
//! A document is made once for all callers of one view and served as ready bytes until the catalog, the roles or the kill
//! switch change. Large ones take a moment to make, so that is done on a thread that serves nobody, one at a time.
//!
//! Not here: what stands in a document (the modules below), the pages about problems (`problems`).

mod admin;
mod answers;
mod content;
mod dialect;
mod llms;
mod names;
mod openapi;
mod openrpc;
mod schemas;
mod shown;
pub(super) mod ways;
mod yaml;

use std::future::ready;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use futures_util::FutureExt;
use http::HeaderMap;
use http::header::{CACHE_CONTROL, HeaderValue, VARY};
use hyper::body::Incoming;
use parking_lot::Mutex;
use sentinel_core::audit::{Ending, Surface};
use sentinel_core::policy::{Visible, VisibleId};
use sentinel_core::{Addressing, Fault, ItemKind, Kind, View};
use sentinel_wire::{Id, Params};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::Entrance;
use super::exchange::Exchange;
use super::mounts::Mounts;
use super::operations;
use super::post::arrival_at;
use super::rest::{Content, entity_tag};
use super::routes::Handled;
use crate::exchange::OperationExchange;
pub(super) use openapi::SEGMENT;
use shown::Shown;

/// Documents that are kept; the one that was not asked for longest gives way.
const KEPT_MAX: usize = 64;
/// Bytes of all of them. A document of 5,000 tools has about 20 MB; one alone is kept whatever its size.
const KEPT_BYTES_MAX: usize = 96 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Document {
    OpenApiJson,
    OpenApiYaml,
    OpenRpc,
    Llms,
    LlmsFull,
}

impl Document {
    fn media_type(self) -> &'static str {
        match self {
            Self::OpenApiJson | Self::OpenRpc => "application/json",
            Self::OpenApiYaml => "application/yaml",
            // The names end in .txt, and that is how browsers are to show them.
            Self::Llms | Self::LlmsFull => "text/plain; charset=utf-8",
        }
    }

    fn write(self, shown: &Shown) -> Vec<u8> {
        match self {
            Self::OpenApiJson => json(&openapi::document(shown)),
            Self::OpenApiYaml => yaml::write(&openapi::document(shown)),
            Self::OpenRpc => json(&openrpc::document(shown)),
            Self::Llms => llms::index(shown).into_bytes(),
            Self::LlmsFull => llms::full(shown).into_bytes(),
        }
    }
}

fn json(document: &Value) -> Vec<u8> {
    serde_json::to_vec(document).expect("a document has texts for names")
}

/// A document, and what it was made from.
struct Kept {
    of: VisibleId,
    is_guarded: bool,
    mounts: Mounts,
    document: Document,
    ready: Ready,
}

#[derive(Clone)]
struct Ready {
    content: Content,
    tag: String,
}

/// The documents of one server.
pub(super) struct Documents {
    /// Those asked for last come last.
    kept: Mutex<Vec<Kept>>,
    /// Held while one is made, also when nobody waits for it any more.
    making: Arc<Semaphore>,
}

impl Default for Documents {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            making: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Documents {
    fn find(&self, visible: &Visible, entrance: &Entrance, document: Document) -> Option<Ready> {
        let mut kept = self.kept.lock();
        let is_it = |one: &Kept| {
            one.document == document
                && one.is_guarded == entrance.epoch.access.is_guarded()
                && one.mounts == entrance.mounts
                && one.of.is_of(visible)
        };
        let place = kept.iter().position(is_it)?;
        let found = kept.remove(place);
        let ready = found.ready.clone();
        kept.push(found);
        Some(ready)
    }

    fn keep(&self, one: Kept) {
        let mut kept = self.kept.lock();
        kept.retain(|known| !known.of.is_past());
        kept.push(one);
        let bytes = |kept: &[Kept]| {
            kept.iter()
                .map(|one| one.ready.content.bytes.len())
                .sum::<usize>()
        };
        while kept.len() > 1 && (kept.len() > KEPT_MAX || bytes(&kept) > KEPT_BYTES_MAX) {
            kept.remove(0);
        }
    }
}

/// The document for whoever asks, made now if it is not there.
async fn made(exchange: &Exchange<'_>, document: Document) -> Result<Ready, Fault> {
    let server = exchange.server;
    let caller = operations::caller_by(exchange, Addressing::Document);
    let (policy, set) = (&server.gateway.policy, caller.capability_set());
    policy.registry().lists_ready(View::Merged, set).await;
    let entrance = server.entrance.load_full();
    let visible = policy.visible(&caller);
    let find = |visible: &Visible| server.documents.find(visible, &entrance, document);
    if let Some(found) = find(&visible) {
        return Ok(found);
    }
    let making = server.documents.making.clone().acquire_owned().await;
    let making = making.map_err(|_| failed())?;
    // Who waited for the same one finds it now; what was to be seen may be no more.
    let visible = policy.visible(&caller);
    if let Some(found) = find(&visible) {
        return Ok(found);
    }
    let server = server.clone();
    let made = tokio::task::spawn_blocking(move || {
        let is_guarded = entrance.epoch.access.is_guarded();
        let shown = Shown::read(&visible, is_guarded, entrance.mounts.clone());
        let bytes: Bytes = document.write(&shown).into();
        let ready = Ready {
            tag: entity_tag(&bytes),
            content: Content {
                media_type: HeaderValue::from_static(document.media_type()),
                bytes,
            },
        };
        server.documents.keep(Kept {
            of: visible.id(),
            is_guarded,
            mounts: shown.mounts,
            document,
            ready: ready.clone(),
        });
        drop(making);
        ready
    });
    made.await.map_err(|_| failed())
}

fn failed() -> Fault {
    Fault::new(
        Kind::Internal,
        "the document could not be made: see the log",
    )
}

fn respond<'a>(exchange: &'a Exchange<'a>, document: Document) -> Handled<'a> {
    async move {
        let Ready { content, tag } = made(exchange, document).await?;
        let mut response = content.respond_tagged(exchange.headers(), tag);
        private(response.headers_mut());
        Ok(response)
    }
    .boxed()
}

/// Kept by the caller alone, and asked for again each time: a document changes with the catalog.
fn private(headers: &mut HeaderMap) {
    headers.insert(VARY, HeaderValue::from_static("Authorization"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
}

/// `GET /openapi.json`.
pub(super) fn openapi_json<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    respond(exchange, Document::OpenApiJson)
}

/// `GET /openapi.yaml`.
pub(super) fn openapi_yaml<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    respond(exchange, Document::OpenApiYaml)
}

/// `GET /llms.txt`.
pub(super) fn llms<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    respond(exchange, Document::Llms)
}

/// `GET /llms-full.txt`.
pub(super) fn llms_full<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    respond(exchange, Document::LlmsFull)
}

/// `GET /admin/openapi.json`. It depends on nothing but whether callers authenticate.
pub(super) fn admin_openapi<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    static WRITTEN: [LazyLock<Bytes>; 2] = [
        LazyLock::new(|| json(&admin::document(false)).into()),
        LazyLock::new(|| json(&admin::document(true)).into()),
    ];
    let is_guarded = exchange.server.entrance.load().epoch.access.is_guarded();
    let content = Content::json(WRITTEN[usize::from(is_guarded)].clone());
    let mut response = content.respond_to(exchange.headers());
    private(response.headers_mut());
    ready(Ok(response)).boxed()
}

/// The document that `rpc.discover` answers, on record like a list of MCP.
pub(super) async fn discovered(exchange: &Exchange<'_>, id: Option<&Id>) -> Result<Bytes, Fault> {
    let headers = exchange.headers();
    let arrival = arrival_at(Surface::Rpc, exchange.server, exchange.identity(), headers);
    let (method, params) = (ItemKind::Tool.list_method(), Params::default());
    let record = OperationExchange::open(&arrival, id, &method, &params, 0);
    let document = made(exchange, Document::OpenRpc).await;
    let (ending, bytes) = match &document {
        Ok(document) => (Ending::Success, document.content.bytes.len()),
        Err(fault) => (Ending::Refused(fault.kind), 0),
    };
    record.end(&ending, bytes);
    Ok(document?.content.bytes)
}

/// For fuzzing: adds a schema to a document, twice, and follows every reference.
pub(crate) fn check_schema(schema: &Value) {
    let mut components = schemas::Components::default();
    let first = components.add("fuzzed", Some(schema), true);
    let second = components.add("again", Some(schema), true);
    assert_eq!(first.name, second.name, "equal schemas have one name");
    let all = Value::Object(components.into_schemas());
    follow(&all, &all);
    for parameter in &first.parameters {
        follow(&parameter.schema, &all);
    }
}

fn follow(value: &Value, root: &Value) {
    match value {
        Value::Object(all) => {
            if let Some(target) = all.get("$ref").and_then(Value::as_str) {
                let name = target.strip_prefix("#/components/schemas/");
                let found = name.and_then(|name| root.get(name));
                assert!(found.is_some(), "{target} is not in the document");
            }
            all.values().for_each(|inner| follow(inner, root));
        }
        Value::Array(all) => all.iter().for_each(|inner| follow(inner, root)),
        _ => {}
    }
}
