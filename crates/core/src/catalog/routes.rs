//! The routes that backends declare, as requests find them.
//!
//! Not here: how a request becomes a call (surfaces).

use std::sync::Arc;

use super::Registry;
use crate::operation::Operation;
use crate::route::{Route, RouteKind};

/// A route of a backend to one of its tools.
#[derive(Clone, Debug)]
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

/// The first route of a verb and a path among those whose tools `sees` lets through: others are not there. A GET serves
/// HEAD, too.
fn route_of(
    routes: &[CatalogRoute],
    verb: &str,
    path: &str,
    sees: impl Fn(&Operation) -> bool,
) -> PathMatch {
    let mut others = Vec::new();
    let serves = |one: &str| one == verb || (verb == "HEAD" && one == "GET");
    for known in routes {
        let RouteKind::Http { pattern, verbs } = &known.route.kind else {
            continue;
        };
        let Some(parameters) = pattern.matches(path) else {
            continue;
        };
        if !sees(&known.operation) {
            continue;
        }
        if verbs.is_empty() || verbs.iter().any(|one| serves(one)) {
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

impl Registry {
    /// Whether any backend has routes of its own.
    pub fn has_routes(&self) -> bool {
        !self.catalog.load().routes().is_empty()
    }

    /// The route that a request takes, among those to operations that its caller sees.
    pub fn http_route(
        &self,
        verb: &str,
        path: &str,
        sees: impl Fn(&Operation) -> bool,
    ) -> PathMatch {
        route_of(self.catalog.load().routes(), verb, path, sees)
    }

    /// The route that a JSON-RPC method takes, among those to operations that its caller sees.
    pub fn rpc_route(
        &self,
        method: &str,
        sees: impl Fn(&Operation) -> bool,
    ) -> Option<FoundRoute> {
        let catalog = self.catalog.load();
        let is_it = |known: &&CatalogRoute| match &known.route.kind {
            RouteKind::Rpc { method: one } => **one == *method && sees(&known.operation),
            RouteKind::Http { .. } => false,
        };
        let known = catalog.routes().iter().find(is_it)?;
        Some(known.found(Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offer::ItemKind;
    use crate::route::RoutePattern;

    /// A path, the last segment of which may be anything.
    #[derive(Debug)]
    struct Below(&'static str);

    impl RoutePattern for Below {
        fn matches(&self, path: &str) -> Option<Vec<(String, String)>> {
            let rest = path.strip_prefix(self.0)?;
            Some(vec![("rest".to_owned(), rest.to_owned())])
        }

        fn shown(&self) -> &str {
            self.0
        }
    }

    fn route(tool: &str, path: &'static str, verbs: &[&str]) -> CatalogRoute {
        let kind = RouteKind::Http {
            pattern: Arc::new(Below(path)),
            verbs: verbs.iter().map(|verb| (*verb).into()).collect(),
        };
        let route = Route {
            kind,
            tool: tool.into(),
            is_whole: false,
        };
        let operation = Operation::unlisted(Some(ItemKind::Tool), 0, &"pg".into(), tool);
        CatalogRoute::new(&route, &Arc::new(operation))
    }

    fn found(routes: &[CatalogRoute], verb: &str, path: &str, hidden: &str) -> String {
        match route_of(routes, verb, path, |operation| *operation.own != *hidden) {
            PathMatch::Found(found) => {
                let (_, rest) = &found.parameters[0];
                format!("{} {rest}", found.operation.own)
            }
            PathMatch::OtherVerbs(verbs) => format!("405 {}", verbs.join(", ")),
            PathMatch::Unknown => "404".to_owned(),
        }
    }

    #[test]
    fn the_first_route_that_fits_and_is_seen_is_taken() {
        let routes = [
            route("read", "/orders/", &["GET"]),
            route("change", "/orders/", &["PUT", "DELETE"]),
            route("anything", "/orders/x/", &[]),
            route("later", "/orders/", &["GET"]),
        ];
        for (verb, path, hidden, want) in [
            ("GET", "/orders/5", "", "read 5"),
            ("HEAD", "/orders/5", "", "read 5"),
            ("PUT", "/orders/5", "", "change 5"),
            ("PATCH", "/orders/5", "", "405 DELETE, GET, PUT"),
            ("PATCH", "/orders/x/y", "", "anything y"),
            ("GET", "/order", "", "404"),
            // What is hidden has neither routes nor verbs.
            ("GET", "/orders/5", "read", "later 5"),
            ("PUT", "/orders/5", "change", "405 GET"),
        ] {
            assert_eq!(found(&routes, verb, path, hidden), want, "{verb} {path}");
        }
        let hidden = |_: &Operation| false;
        let none = route_of(&routes[..2], "PATCH", "/orders/5", hidden);
        assert!(matches!(none, PathMatch::Unknown));
    }
}
