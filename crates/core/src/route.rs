//! Ways to a tool besides its name: HTTP routes and JSON-RPC methods that a backend declares.
//!
//! A route leads to a tool of the same backend, and policy decides on that tool. Not here: how a request becomes its arguments
//! (surfaces).

use std::fmt;
use std::sync::Arc;

/// Decides which paths a route has.
pub trait RoutePattern: Send + Sync + fmt::Debug {
    /// The values of the path's parameters, if the pattern fits. `path` is as it was sent, without query.
    fn matches(&self, path: &str) -> Option<Vec<(String, String)>>;

    /// Whether it takes requests with these headers; `header` gives the value of one by its name in lower case.
    fn takes<'h>(&self, _header: &dyn Fn(&str) -> Option<&'h str>) -> bool {
        true
    }

    /// The pattern for people and documents: `/orders/{id}`, where it can be said like that.
    fn shown(&self) -> &str;
}

#[derive(Clone, Debug)]
pub enum RouteKind {
    /// Requests to these paths. No verbs: all of them.
    Http {
        pattern: Arc<dyn RoutePattern>,
        verbs: Arc<[Box<str>]>,
    },
    /// Requests with this JSON-RPC method.
    Rpc { method: Box<str> },
}

#[derive(Clone, Debug)]
pub struct Route {
    pub kind: RouteKind,
    /// The tool, by its backend's own name.
    pub tool: Arc<str>,
    /// The backend takes the request as a whole (`HttpCall`), and not the tool's arguments. It answers itself for verbs that
    /// none of its routes has.
    pub is_whole: bool,
}

impl PartialEq for Route {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.kind, &other.kind) {
            (
                RouteKind::Http { pattern, verbs },
                RouteKind::Http {
                    pattern: others,
                    verbs: other_verbs,
                },
            ) => pattern.shown() == others.shown() && verbs == other_verbs,
            (RouteKind::Rpc { method }, RouteKind::Rpc { method: other }) => method == other,
            _ => false,
        };
        same && self.tool == other.tool && self.is_whole == other.is_whole
    }
}

impl Eq for Route {}
