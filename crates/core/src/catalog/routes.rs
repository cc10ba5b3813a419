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

/// What of a request decides about its route.
#[derive(Clone, Copy)]
pub struct RouteRequest<'a, 'h> {
    pub verb: &'a str,
    /// As it was sent, without query.
    pub path: &'a str,
    /// The value of a header, by its name in lower case.
    pub header: &'a dyn Fn(&str) -> Option<&'h str>,
}

/// The first route of a request among those whose tools `sees` lets through: others are not there. A GET serves HEAD, too.
fn route_of(
    routes: &[CatalogRoute],
    request: RouteRequest<'_, '_>,
    sees: impl Fn(&Operation) -> bool,
) -> PathMatch {
    let RouteRequest { verb, path, header } = request;
    let mut others = Vec::new();
    // Its backend says what is wrong with the verb.
    let mut whole = None;
    let serves = |one: &str| one == verb || (verb == "HEAD" && one == "GET");
    for known in routes {
        let RouteKind::Http { pattern, verbs } = &known.route.kind else {
            continue;
        };
        let Some(parameters) = pattern.matches(path) else {
            continue;
        };
        if !pattern.takes(header) {
            continue;
        }
        let is_served = verbs.is_empty() || verbs.iter().any(|one| serves(one));
        match (sees(&known.operation), is_served, known.route.is_whole) {
            (true, true, _) => return PathMatch::Found(known.found(parameters)),
            // Its backend routes such a request by itself, to the tool that this caller may not see.
            (false, true, true) => return PathMatch::Unknown,
            (false, ..) => {}
            (true, false, true) => whole = whole.or_else(|| Some(known.found(parameters))),
            (true, false, false) => others.extend(verbs.iter().cloned()),
        }
    }
    match whole {
        Some(found) => PathMatch::Found(found),
        None if others.is_empty() => PathMatch::Unknown,
        None => {
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
        request: RouteRequest<'_, '_>,
        sees: impl Fn(&Operation) -> bool,
    ) -> PathMatch {
        route_of(self.catalog.load().routes(), request, sees)
    }

    /// The route that a JSON-RPC method takes, among those to operations that its caller sees.
    pub fn rpc_route(&self, method: &str, sees: impl Fn(&Operation) -> bool) -> Option<FoundRoute> {
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

    /// A path, the last segment of which may be anything, and a version, if it is not empty.
    #[derive(Debug)]
    struct Below(&'static str, &'static str);

    impl RoutePattern for Below {
        fn matches(&self, path: &str) -> Option<Vec<(String, String)>> {
            let rest = path.strip_prefix(self.0)?;
            Some(vec![("rest".to_owned(), rest.to_owned())])
        }

        fn takes<'h>(&self, header: &dyn Fn(&str) -> Option<&'h str>) -> bool {
            self.1.is_empty() || header("accept-version") == Some(self.1)
        }

        fn shown(&self) -> &str {
            self.0
        }
    }

    fn route(tool: &str, path: &'static str, verbs: &[&str]) -> CatalogRoute {
        versioned(tool, path, verbs, "")
    }

    fn versioned(
        tool: &str,
        path: &'static str,
        verbs: &[&str],
        version: &'static str,
    ) -> CatalogRoute {
        let kind = RouteKind::Http {
            pattern: Arc::new(Below(path, version)),
            verbs: verbs.iter().map(|verb| (*verb).into()).collect(),
        };
        let route = Route {
            kind,
            tool: tool.into(),
            is_whole: tool.starts_with("whole"),
        };
        let operation = Operation::unlisted(Some(ItemKind::Tool), 0, &"pg".into(), tool);
        CatalogRoute::new(&route, &Arc::new(operation))
    }

    fn found(routes: &[CatalogRoute], verb: &str, path: &str, hidden: &str) -> String {
        // `GET 2` is a GET with a version.
        let (verb, version) = verb.split_once(' ').unwrap_or((verb, ""));
        let header = |name: &str| (name == "accept-version").then_some(version);
        let request = RouteRequest {
            verb,
            path,
            header: &header,
        };
        match route_of(routes, request, |operation| *operation.own != *hidden) {
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
        let request = RouteRequest {
            verb: "PATCH",
            path: "/orders/5",
            header: &|_| None,
        };
        let none = route_of(&routes[..2], request, |_: &Operation| false);
        assert!(matches!(none, PathMatch::Unknown));
    }

    #[test]
    fn a_backend_that_takes_whole_requests_routes_them_by_itself() {
        let routes = [
            versioned("whole second", "/orders/", &["GET"], "2"),
            route("whole first", "/orders/", &["GET"]),
            route("whole change", "/orders/", &["PUT"]),
            route("other", "/orders/", &["PATCH", "GET"]),
        ];
        for (verb, hidden, want) in [
            ("GET", "", "whole first 5"),
            ("GET 2", "", "whole second 5"),
            ("PATCH", "", "other 5"),
            // It answers 405 itself.
            ("DELETE", "", "whole first 5"),
            ("DELETE", "whole first", "whole change 5"),
            // It would serve a tool that the caller may not see.
            ("GET", "whole first", "404"),
            ("GET 2", "whole second", "404"),
        ] {
            assert_eq!(
                found(&routes, verb, "/orders/5", hidden),
                want,
                "{verb} without {hidden}"
            );
        }
    }
}
