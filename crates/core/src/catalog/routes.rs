//! The routes that backends declare, as requests find them.
//!
//! Not here: how a request becomes a call (surfaces).

use std::sync::Arc;

use super::{Catalog, Registry};
use crate::operation::Operation;
use crate::route::{Route, RouteKind};

/// A route of a backend to one of its tools.
#[derive(Debug)]
pub struct CatalogRoute {
    pub route: Route,
    pub operation: Arc<Operation>,
}

/// A route that fits a request.
#[derive(Debug)]
pub struct FoundRoute {
    pub operation: Arc<Operation>,
    /// The backend takes the request as a whole.
    pub is_whole: bool,
    /// The parameters of the path.
    pub parameters: Vec<(String, String)>,
}

/// The routes that fit a path.
#[derive(Debug)]
pub enum PathMatch {
    Found(FoundRoute),
    /// Others of the path have these verbs.
    OtherVerbs(Vec<Box<str>>),
    Unknown,
}

impl CatalogRoute {
    pub(super) fn new(route: &Route, operation: &Arc<Operation>) -> Self {
        Self {
            route: route.clone(),
            operation: operation.clone(),
        }
    }

    fn found(&self, parameters: Vec<(String, String)>) -> FoundRoute {
        FoundRoute {
            operation: self.operation.clone(),
            is_whole: self.route.is_whole,
            parameters,
        }
    }
}

impl Catalog {
    /// The first route of a verb and a path. HEAD is a GET.
    fn route_of(&self, verb: &str, path: &str) -> PathMatch {
        let mut others = Vec::new();
        let verb = if verb == "HEAD" { "GET" } else { verb };
        for known in self.routes() {
            let RouteKind::Http { pattern, verbs } = &known.route.kind else {
                continue;
            };
            let Some(parameters) = pattern.matches(path) else {
                continue;
            };
            if verbs.is_empty() || verbs.iter().any(|one| **one == *verb) {
                return PathMatch::Found(known.found(parameters));
            }
            others.extend(verbs.iter().cloned());
        }
        match others.is_empty() {
            true => PathMatch::Unknown,
            false => {
                others.sort_unstable();
                others.dedup();
                PathMatch::OtherVerbs(others)
            }
        }
    }

    fn rpc_route(&self, wanted: &str) -> Option<FoundRoute> {
        let is_it = |known: &&CatalogRoute| matches!(&known.route.kind, RouteKind::Rpc { method } if **method == *wanted);
        let known = self.routes().iter().find(is_it)?;
        Some(known.found(Vec::new()))
    }
}

impl Registry {
    /// Whether any backend has routes of its own.
    pub fn has_routes(&self) -> bool {
        !self.catalog.load().routes().is_empty()
    }

    /// The route of a backend that a request takes.
    pub fn http_route(&self, verb: &str, path: &str) -> PathMatch {
        self.catalog.load().route_of(verb, path)
    }

    /// The route of a backend that a JSON-RPC method takes.
    pub fn rpc_route(&self, method: &str) -> Option<FoundRoute> {
        let catalog = self.catalog.load();
        // The method of nearly every gateway's calls is the name of a tool.
        match catalog.routes().is_empty() {
            true => None,
            false => catalog.rpc_route(method),
        }
    }
}
