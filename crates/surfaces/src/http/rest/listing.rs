//! Lists of the catalog as the caller sees it: of tools also whose they are and by which ways they are called.
//!
//! Not here: the lists of MCP, whose entries these are (`core::catalog`).

use std::borrow::Cow;

use futures_util::FutureExt;
use http::Response;
use hyper::body::Incoming;
use sentinel_core::audit::{Ending, Surface};
use sentinel_core::catalog::CatalogRoute;
use sentinel_core::{Addressing, Fault, ItemKind, Kind, Reach, View};
use sentinel_wire::json::{self, Rules};
use sentinel_wire::{Params, Payload};

use super::super::body::Body;
use super::super::documents::ways::{PathWay, Ways};
use super::super::exchange::Exchange;
use super::super::operations;
use super::super::post::arrival_at;
use super::super::routes::Handled;
use super::accept::{self, Accept};
use super::{Content, visible_tool};
use crate::exchange::OperationExchange;

/// `GET /api/catalog`.
pub(in super::super) fn catalog<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    listed(exchange, &ItemKind::ALL).boxed()
}

/// `GET /api/resources`.
pub(in super::super) fn resources<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    listed(exchange, &[ItemKind::Resource, ItemKind::Template]).boxed()
}

/// The lists of these kinds, as the caller sees them. On record like a list of MCP.
async fn listed(exchange: &Exchange<'_>, kinds: &[ItemKind]) -> Result<Response<Body>, Fault> {
    if !Accept::of(exchange.headers()).takes("application/json") {
        return Err(accept::not_acceptable("application/json"));
    }
    let method = kinds[0].list_method();
    let (server, identity) = (exchange.server, exchange.identity());
    let arrival = arrival_at(Surface::Rest, server, identity, exchange.headers());
    let params = Params::default();
    let record = OperationExchange::open(&arrival, None, &method, &params, 0);
    let caller = operations::caller_by(exchange, Addressing::Document);
    let (policy, set) = (&server.gateway.policy, caller.capability_set());
    policy.registry().lists_ready(View::Merged, set).await;
    let visible = policy.visible(&caller);
    let mut out = vec![b'{'];
    for kind in kinds {
        if out.len() > 1 {
            out.push(b',');
        }
        json::encode_string(kind.list_member(), &mut out);
        out.extend_from_slice(b":[");
        let mut cursor = None;
        let mut is_first = true;
        loop {
            let page = policy.list(&caller, View::Merged, *kind, cursor.as_deref())?;
            let page = Payload::parse(page, Rules::backend()).map_err(|error| {
                Fault::new(Kind::Internal, "a list cannot be read").because(error)
            })?;
            for item in operations::elements(&page, kind.list_member()) {
                if !is_first {
                    out.push(b',');
                }
                is_first = false;
                push_item(exchange, visible.routes(), *kind, &item, &mut out);
            }
            cursor = page.string("nextCursor").map(Cow::into_owned);
            if cursor.is_none() {
                break;
            }
        }
        out.push(b']');
    }
    out.push(b'}');
    let response = Content::json(out).respond_to(exchange.headers());
    let bytes_out = http_body::Body::size_hint(response.body()).lower();
    record.end(&Ending::Success, bytes_out as usize);
    Ok(response)
}

/// An item of a list; of a tool also whose it is, and how it is called.
fn push_item(
    exchange: &Exchange<'_>,
    routes: &[CatalogRoute],
    kind: ItemKind,
    item: &Payload,
    out: &mut Vec<u8>,
) {
    let registry = &exchange.server.gateway.registry;
    let name = item.string("name").unwrap_or_default();
    let tool = match kind {
        ItemKind::Tool => registry.tool(View::Merged, &name),
        _ => None,
    };
    let Some(tool) = tool else {
        out.extend_from_slice(item.as_bytes());
        return;
    };
    let mut backend = Vec::new();
    json::encode_string(&tool.backend, &mut backend);
    let verbs: &[u8] = match tool.is_read_only {
        true => br#"["GET","POST"]"#,
        false => br#"["POST"]"#,
    };
    let verbs = (tool.reach == Reach::ByName).then_some(verbs);
    let mounts = &exchange.server.entrance.load().mounts;
    let is_name = |name: &str| visible_tool(exchange, name, Addressing::Name).is_some();
    let Ways { paths, methods } = Ways::to(&tool, routes, mounts, is_name);
    let path = |way: &PathWay| serde_json::json!({ "method": way.verbs, "path": way.path });
    let paths: Vec<_> = paths.iter().map(path).collect();
    let methods: Vec<_> = methods.iter().map(|way| &*way.method).collect();
    let paths = (!paths.is_empty()).then(|| serde_json::json!(paths).to_string());
    let methods = (!methods.is_empty()).then(|| serde_json::json!(methods).to_string());
    let members = [
        ("backend", Some(&backend[..])),
        ("method", verbs),
        ("routes", paths.as_deref().map(str::as_bytes)),
        ("rpcMethods", methods.as_deref().map(str::as_bytes)),
    ];
    item.as_raw().rewrite(&members, out);
}
