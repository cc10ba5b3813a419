//! The ways to a tool that its backend declares, as documents describe them.
//!
//! Only those that can be taken: a path of the gateway's own comes before a route, a tool's name before a JSON-RPC method.

use sentinel_core::catalog::CatalogRoute;
use sentinel_core::{Operation, RouteKind};

use crate::http::mounts::Mounts;
use crate::http::rest::is_shadowed;

/// The verbs of a route that takes all of them.
const ALL: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// Ways besides the tool's name.
#[derive(Debug, Default)]
pub(in crate::http) struct Ways {
    pub(in crate::http) paths: Vec<PathWay>,
    pub(in crate::http) methods: Vec<MethodWay>,
}

/// Requests to a path.
#[derive(Debug)]
pub(in crate::http) struct PathWay {
    /// As its backend writes it.
    pub(in crate::http) path: String,
    pub(in crate::http) verbs: Vec<String>,
    pub(in crate::http) is_whole: bool,
}

/// A method of JSON-RPC.
#[derive(Debug)]
pub(in crate::http) struct MethodWay {
    pub(in crate::http) method: String,
    pub(in crate::http) is_whole: bool,
}

impl Ways {
    /// The ways to one tool. `is_name`: whether the caller sees a tool of that name.
    pub(in crate::http) fn to(
        operation: &Operation,
        routes: &[CatalogRoute],
        mounts: &Mounts,
        is_name: impl Fn(&str) -> bool,
    ) -> Self {
        let mut ways = Self::default();
        let has_paths = mounts.routes_of(None).is_some();
        let its = |known: &&CatalogRoute| {
            known.operation.index == operation.index && known.operation.own == operation.own
        };
        for known in routes.iter().filter(its) {
            let is_whole = known.route.is_whole;
            match &known.route.kind {
                RouteKind::Http { pattern, verbs } => {
                    let path = pattern.shown();
                    if !has_paths || is_shadowed(mounts, path) {
                        continue;
                    }
                    ways.paths.push(PathWay {
                        path: path.to_owned(),
                        verbs: match verbs.is_empty() {
                            true => ALL.map(str::to_owned).to_vec(),
                            false => verbs.iter().map(|verb| verb.to_string()).collect(),
                        },
                        is_whole,
                    });
                }
                RouteKind::Rpc { method } => {
                    let is_taken = method.starts_with("rpc.") || is_name(method);
                    if mounts.rpc.is_some() && !is_taken {
                        let method = method.to_string();
                        ways.methods.push(MethodWay { method, is_whole });
                    }
                }
            }
        }
        ways
    }
}

impl PathWay {
    /// Verbs and path in one text.
    pub(super) fn to_text(&self) -> String {
        format!("{} {}", self.verbs.join(" or "), self.path)
    }

    /// Whether its path is a template of OpenAPI. Patterns of other kinds cannot be shown there.
    pub(super) fn is_template(&self) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@%/".contains(c);
        let mut rest = &*self.path;
        if !rest.starts_with('/') {
            return false;
        }
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, behind)) = after.split_once('}') else {
                return false;
            };
            let is_name = !name.is_empty() && !name.contains(['{', '/']);
            if !is_name || !before.chars().all(is_plain) {
                return false;
            }
            rest = behind;
        }
        rest.chars().all(is_plain)
    }

    /// The names of its parameters.
    pub(super) fn parameters(&self) -> Vec<&str> {
        let parts = self.path.split('{').skip(1);
        parts
            .filter_map(|part| Some(part.split_once('}')?.0))
            .collect()
    }

    /// Its path without the names of its parameters: OpenAPI takes two paths of one shape for the same.
    pub(super) fn shape(&self) -> String {
        let mut parts = self.path.split('{');
        let mut shape = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            shape.push_str("{}");
            shape.push_str(part.split_once('}').map_or("", |(_, behind)| behind));
        }
        shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(path: &str) -> PathWay {
        PathWay {
            path: path.to_owned(),
            verbs: vec!["GET".to_owned()],
            is_whole: false,
        }
    }

    #[test]
    fn templates_are_told_from_other_patterns() {
        for (path, is_template, shape) in [
            ("/orders", true, "/orders"),
            ("/orders/{id}/items/{item}", true, "/orders/{}/items/{}"),
            ("/a-{b}.txt", true, "/a-{}.txt"),
            ("^/orders/[0-9]+$", false, ""),
            ("/orders/[0-9]+", false, ""),
            ("/orders/{id", false, ""),
            ("/orders/{}", false, ""),
            ("orders", false, ""),
        ] {
            assert_eq!(way(path).is_template(), is_template, "{path}");
            if is_template {
                assert_eq!(way(path).shape(), shape);
            }
        }
        assert_eq!(way("/a/{b}/{c}").parameters(), ["b", "c"]);
    }
}
