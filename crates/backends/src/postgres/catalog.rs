//! What a reading of the database comes to: the operations that calls find, and the offer that the gateway's catalog is made of.
//!
//! Not here: how they are read (`functions`, `tables`, `registry`) and carried out (`served`).

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use sentinel_core::{
    Call, Fault, Freshness, ItemKind, Kind, Offer, Route, RouteKind, ServerCapabilities,
};
use sentinel_wire::{Method, Revision};

use super::operation::Found;
use super::path::Pattern;
use super::served::{self, Served};
use super::settings::Fixed;

/// What calls find.
pub(super) struct Catalog {
    pub(super) operations: HashMap<(ItemKind, String), Arc<Served>>,
    /// The most specific first.
    templates: Vec<Arc<Served>>,
    pub(super) fixed: Fixed,
}

impl Catalog {
    pub(super) fn of(served: Vec<Arc<Served>>, fixed: Fixed) -> Self {
        let is_template = |one: &&Arc<Served>| one.declared.kind == ItemKind::Template;
        let mut templates: Vec<_> = served.iter().filter(is_template).cloned().collect();
        templates.sort_by(|one, other| one.precedence().cmp(&other.precedence()));
        let by_name = |one: Arc<Served>| ((one.declared.kind, one.declared.key.clone()), one);
        Self {
            operations: served.into_iter().map(by_name).collect(),
            templates,
            fixed,
        }
    }

    /// The operation that a call is for, and its arguments as a JSON object.
    pub(super) fn find(&self, call: &Call) -> Result<(Arc<Served>, Bytes), Fault> {
        let params = &call.params;
        let by_name = |kind: ItemKind| {
            let own = call
                .target
                .as_ref()
                .and_then(|target| target.own_name.as_deref());
            let name = match own {
                Some(own) => own.to_owned(),
                None => params.string("name").unwrap_or_default().into_owned(),
            };
            let found = self.operations.get(&(kind, name)).cloned();
            let found = found
                .ok_or_else(|| Fault::new(Kind::UnknownName, "this operation no longer exists"))?;
            let arguments = params.get_bytes("arguments");
            Ok((
                found,
                arguments.unwrap_or_else(|| Bytes::from_static(b"{}")),
            ))
        };
        match call.method {
            Method::ToolsCall => by_name(ItemKind::Tool),
            Method::PromptsGet => by_name(ItemKind::Prompt),
            Method::ResourcesRead => {
                let uri = params.string("uri").unwrap_or_default();
                let exact = self.operations.get(&(ItemKind::Resource, uri.to_string()));
                if let Some(served) = exact {
                    return Ok((served.clone(), Bytes::from_static(b"{}")));
                }
                let mut fitting = self
                    .templates
                    .iter()
                    .filter_map(|one| Some((one, one.values(&uri)?)));
                let (served, values) = fitting.next().ok_or_else(unknown_resource)?;
                Ok((served.clone(), served::object(&values)))
            }
            _ => {
                let text = format!("unknown method: {}", call.method.as_str());
                Err(Fault::new(Kind::MethodNotFound, text))
            }
        }
    }
}

fn unknown_resource() -> Fault {
    Fault::new(Kind::UnknownResource, "no resource has this URI")
}

/// What can be served of what was found: the first operation of a kind and a name.
pub(super) fn serve(found: Found, permits: usize) -> (Vec<Arc<Served>>, Vec<String>) {
    let mut notices = found.notices;
    let mut names = HashSet::new();
    let mut served = Vec::with_capacity(found.operations.len());
    for declared in found.operations {
        if !names.insert((declared.kind, declared.key.clone())) {
            let key = &declared.key;
            notices.push(format!("a second operation named {key} is left out"));
            continue;
        }
        served.extend(Served::of(declared, permits, &mut notices).map(Arc::new));
    }
    (served, notices)
}

pub(super) fn offer(served: &[Arc<Served>]) -> Offer {
    let has = |kind: ItemKind| served.iter().any(|one| one.declared.kind == kind);
    let mut offer = Offer {
        capabilities: ServerCapabilities {
            tools: has(ItemKind::Tool),
            resources: has(ItemKind::Resource) || has(ItemKind::Template),
            prompts: has(ItemKind::Prompt),
            ..ServerCapabilities::default()
        },
        freshness: [Freshness::default(); 4],
        ..Offer::empty(Revision::NEWEST)
    };
    for one in served {
        offer.items_mut(one.declared.kind).push(one.item.clone());
        offer.routes.extend(one.declared.routes.iter().cloned());
    }
    offer
        .routes
        .sort_by_key(|route| Reverse(literal_len(route)));
    offer
}

/// Of two paths that fit, the one with more text of its own is meant. Routes of whole requests keep their order.
fn literal_len(route: &Route) -> usize {
    match &route.kind {
        RouteKind::Http { pattern, .. } if !route.is_whole => {
            Pattern::parse(pattern.shown()).map_or(0, |pattern| pattern.literal_len())
        }
        _ => 0,
    }
}
