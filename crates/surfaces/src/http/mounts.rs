//! Where the surfaces are: which of them are served, at which paths, and what one listener narrows that to.
//!
//! The table of routes knows the paths of the default configuration. A request's path is rewritten to these before its
//! route is looked for, so nothing else knows that a surface may be elsewhere.
//!
//! Not here: the routes (`routes`).

use std::borrow::Cow;

/// A surface that can be switched off or moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurfaceName {
    Mcp,
    Rest,
    Rpc,
    Admin,
    Console,
}

/// What is served, and where: `None` is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounts {
    pub mcp: Option<String>,
    pub rest: Option<String>,
    pub rpc: Option<String>,
    /// The documents about the catalog that go with REST.
    pub documents: bool,
    /// The explorer, which reads those documents.
    pub explorer: bool,
    /// The admin API. The operator's socket has it in any case.
    pub admin: bool,
    /// The console, and the way to it from `/`.
    pub console: bool,
    /// Answers of REST and JSON-RPC say what took how long.
    pub tells_time: bool,
}

/// The backends whose routes may be at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoutesOf<'s> {
    All,
    Only(&'s str),
}

impl RoutesOf<'_> {
    pub(super) fn has(self, backend: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(name) => name == backend,
        }
    }
}

/// What one listener serves of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving {
    /// MCP with one backend.
    Backend(String),
    Surfaces(Vec<SurfaceName>),
}

/// The paths of the table of routes.
pub(super) const MCP: &str = "/mcp";
pub(super) const REST: &str = "/api";
pub(super) const RPC: &str = "/rpc";
const ADMIN: &str = "/admin";

/// What can be switched off at a fixed path.
#[derive(Clone, Copy)]
enum Part {
    /// Of its surface.
    Whole,
    Documents,
    Explorer,
}

/// Paths that cannot be moved, and the surface that they go with. What is not here and under no surface is served
/// everywhere: probes, metrics and the metadata of authorization.
const FIXED: [(&str, SurfaceName, Part); 11] = [
    ("/sse", SurfaceName::Mcp, Part::Whole),
    ("/messages", SurfaceName::Mcp, Part::Whole),
    ("/openapi.json", SurfaceName::Rest, Part::Documents),
    ("/openapi.yaml", SurfaceName::Rest, Part::Documents),
    ("/explorer", SurfaceName::Rest, Part::Explorer),
    ("/llms.txt", SurfaceName::Rest, Part::Documents),
    ("/llms-full.txt", SurfaceName::Rest, Part::Documents),
    (ADMIN, SurfaceName::Admin, Part::Whole),
    ("/", SurfaceName::Console, Part::Whole),
    ("/console", SurfaceName::Console, Part::Whole),
    ("/mcp-inspector", SurfaceName::Console, Part::Whole),
];

impl Default for Mounts {
    fn default() -> Self {
        Self {
            mcp: Some(MCP.to_owned()),
            rest: Some(REST.to_owned()),
            rpc: Some(RPC.to_owned()),
            documents: true,
            explorer: true,
            admin: true,
            console: true,
            tells_time: false,
        }
    }
}

impl Mounts {
    /// Whose routes a listener serves at a path that is not one of the gateway's own. They go with REST.
    pub(super) fn routes_of<'s>(&self, serving: Option<&'s Serving>) -> Option<RoutesOf<'s>> {
        self.rest.as_ref()?;
        match serving {
            None => Some(RoutesOf::All),
            Some(Serving::Backend(name)) => Some(RoutesOf::Only(name)),
            Some(Serving::Surfaces(names)) => {
                names.contains(&SurfaceName::Rest).then_some(RoutesOf::All)
            }
        }
    }

    /// The path as the table of routes has it; `None`: nothing is served there.
    pub(super) fn resolve<'p>(
        &self,
        path: &'p str,
        serving: Option<&Serving>,
    ) -> Option<Cow<'p, str>> {
        // The path of nearly every request, before anything is compared with a table.
        if path == MCP && serving.is_none() && self.mcp.as_deref() == Some(MCP) {
            return Some(Cow::Borrowed(path));
        }
        let Some((surface, resolved)) = self.find(path) else {
            return Some(Cow::Borrowed(path)).filter(|_| !is_under_any(path));
        };
        match serving {
            None => Some(resolved),
            Some(Serving::Surfaces(names)) => names.contains(&surface).then_some(resolved),
            Some(Serving::Backend(name)) if surface == SurfaceName::Mcp => {
                let resolved = resolved.trim_end_matches('/');
                match resolved {
                    MCP | "/sse" => Some(Cow::Owned(format!("{resolved}/{name}"))),
                    "/messages" => Some(Cow::Owned(resolved.to_owned())),
                    _ => None,
                }
            }
            Some(Serving::Backend(_)) => None,
        }
    }

    /// The surface that a path belongs to, if it is served, and the path as the table of routes has it.
    fn find<'p>(&self, path: &'p str) -> Option<(SurfaceName, Cow<'p, str>)> {
        for (surface, at, canonical) in [
            (SurfaceName::Mcp, &self.mcp, MCP),
            (SurfaceName::Rest, &self.rest, REST),
            (SurfaceName::Rpc, &self.rpc, RPC),
        ] {
            let Some(at) = at else { continue };
            if let Some(rest) = below(path, at) {
                let resolved = match at == canonical {
                    true => Cow::Borrowed(path),
                    false => Cow::Owned(format!("{canonical}{rest}")),
                };
                return Some((surface, resolved));
            }
        }
        let (_, surface, part) = FIXED.iter().find(|(at, ..)| below(path, at).is_some())?;
        (self.serves(*surface) && self.has(*part)).then_some((*surface, Cow::Borrowed(path)))
    }

    fn serves(&self, surface: SurfaceName) -> bool {
        match surface {
            SurfaceName::Mcp => self.mcp.is_some(),
            SurfaceName::Rest => self.rest.is_some(),
            SurfaceName::Rpc => self.rpc.is_some(),
            SurfaceName::Admin => self.admin,
            SurfaceName::Console => self.console,
        }
    }

    fn has(&self, part: Part) -> bool {
        match part {
            Part::Whole => true,
            Part::Documents => self.documents,
            Part::Explorer => self.documents && self.explorer,
        }
    }

    /// What is where at a listener, for the answer to a path at which there is nothing.
    pub(super) fn describe(&self, serving: Option<&Serving>) -> String {
        let is_served = |surface: SurfaceName| match serving {
            None => true,
            Some(Serving::Surfaces(names)) => names.contains(&surface),
            Some(Serving::Backend(_)) => surface == SurfaceName::Mcp,
        };
        let mut text = String::from("there is nothing at this path");
        for (surface, name, at) in [
            (SurfaceName::Mcp, "MCP", &self.mcp),
            (SurfaceName::Rest, "REST", &self.rest),
            (SurfaceName::Rpc, "JSON-RPC", &self.rpc),
        ] {
            if let Some(at) = at.as_ref().filter(|_| is_served(surface)) {
                text.push_str(&format!("; {name} is at {at}"));
            }
        }
        text
    }
}

/// Whether the table of routes has a surface at this path, which is then switched off or moved away.
fn is_under_any(path: &str) -> bool {
    let fixed = FIXED.iter().map(|(at, ..)| *at);
    [MCP, REST, RPC]
        .into_iter()
        .chain(fixed)
        .any(|at| below(path, at).is_some())
}

/// What of a path follows a prefix of whole segments.
fn below<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(prefix)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mounts: &Mounts, serving: Option<&Serving>, rows: &[(&str, Option<&str>)]) {
        for (path, want) in rows {
            let resolved = mounts.resolve(path, serving);
            assert_eq!(resolved.as_deref(), *want, "{path} with {serving:?}");
        }
    }

    #[test]
    fn by_default_every_path_is_its_own() {
        let paths = [
            "/mcp",
            "/mcp/x",
            "/api/a%2Fb",
            "/rpc",
            "/sse",
            "/admin/api/keys",
            "/health",
            "/mcpx",
            "/",
        ];
        let rows = paths.map(|path| (path, Some(path)));
        check(&Mounts::default(), None, &rows);
    }

    #[test]
    fn a_surface_that_is_off_or_elsewhere_has_no_path_of_the_default() {
        let mounts = Mounts {
            mcp: Some("/agents/mcp".to_owned()),
            rest: None,
            ..Mounts::default()
        };
        let rows = [
            ("/agents/mcp", Some("/mcp")),
            ("/agents/mcp/web", Some("/mcp/web")),
            ("/agents/mcpx", Some("/agents/mcpx")),
            ("/mcp", None),
            ("/mcp/web", None),
            ("/api/echo", None),
            ("/openapi.json", None),
            ("/explorer/x", None),
            ("/rpc", Some("/rpc")),
            ("/sse", Some("/sse")),
            ("/ready", Some("/ready")),
        ];
        check(&mounts, None, &rows);
        let text = "there is nothing at this path; MCP is at /agents/mcp; JSON-RPC is at /rpc";
        assert_eq!(mounts.describe(None), text);
    }

    #[test]
    fn documents_explorer_and_admin_api_are_switched_off_alone() {
        let on = Mounts::default();
        let without_explorer = Mounts {
            explorer: false,
            ..on.clone()
        };
        let rows = [
            ("/explorer", None),
            ("/explorer/explorer.js", None),
            ("/openapi.json", Some("/openapi.json")),
            ("/api/echo", Some("/api/echo")),
        ];
        check(&without_explorer, None, &rows);
        // The explorer would have nothing to show.
        let without_documents = Mounts {
            documents: false,
            ..on.clone()
        };
        let rows = [
            ("/openapi.json", None),
            ("/openapi.yaml", None),
            ("/llms.txt", None),
            ("/llms-full.txt", None),
            ("/explorer", None),
            ("/api/catalog", Some("/api/catalog")),
            ("/admin/openapi.json", Some("/admin/openapi.json")),
        ];
        check(&without_documents, None, &rows);
        let without_admin = Mounts { admin: false, ..on };
        let rows = [
            ("/admin/api/keys", None),
            ("/admin/openapi.json", None),
            ("/explorer", Some("/explorer")),
        ];
        check(&without_admin, None, &rows);
        let admin = Serving::Surfaces(vec![SurfaceName::Admin]);
        check(&without_admin, Some(&admin), &[("/admin/api/keys", None)]);
    }

    #[test]
    fn a_listener_serves_one_backend_or_some_surfaces() {
        let review = Serving::Backend("review".to_owned());
        let rows = [
            ("/mcp", Some("/mcp/review")),
            ("/mcp/", Some("/mcp/review")),
            ("/sse", Some("/sse/review")),
            ("/messages", Some("/messages")),
            ("/mcp/review", None),
            ("/mcp/other", None),
            ("/api/echo", None),
            ("/admin/api/keys", None),
            ("/health", Some("/health")),
        ];
        check(&Mounts::default(), Some(&review), &rows);
        let text = Mounts::default().describe(Some(&review));
        assert_eq!(text, "there is nothing at this path; MCP is at /mcp");
        let rest = Serving::Surfaces(vec![SurfaceName::Rest]);
        let rows = [
            ("/api/echo", Some("/api/echo")),
            ("/llms.txt", Some("/llms.txt")),
            ("/mcp", None),
            ("/rpc", None),
            ("/admin/api/keys", None),
            ("/metrics", Some("/metrics")),
        ];
        check(&Mounts::default(), Some(&rest), &rows);
    }

    #[test]
    fn routes_of_backends_go_with_rest() {
        let (on, off) = (
            Mounts::default(),
            Mounts {
                rest: None,
                ..Mounts::default()
            },
        );
        let one = Serving::Backend("pg".to_owned());
        let (rest, rpc) = (
            Serving::Surfaces(vec![SurfaceName::Rest]),
            Serving::Surfaces(vec![SurfaceName::Rpc]),
        );
        for (mounts, serving, want) in [
            (&on, None, Some(RoutesOf::All)),
            (&on, Some(&one), Some(RoutesOf::Only("pg"))),
            (&on, Some(&rest), Some(RoutesOf::All)),
            (&on, Some(&rpc), None),
            (&off, None, None),
            (&off, Some(&one), None),
        ] {
            assert_eq!(mounts.routes_of(serving), want, "{serving:?}");
        }
        assert!(RoutesOf::Only("pg").has("pg") && !RoutesOf::Only("pg").has("other"));
    }
}
