//! `[surfaces]`: what is served over HTTP and at which paths, and which calls have to be confirmed.

use std::time::Duration;

use crate::builder::Builder;
use crate::section::{seconds, section};
use crate::tree::Path;

/// First segments of paths that have another meaning.
const TAKEN: [&str; 15] = [
    ".well-known",
    "admin",
    "console",
    "explorer",
    "health",
    "llms-full.txt",
    "llms.txt",
    "mcp-inspector",
    "messages",
    "metrics",
    "openapi.json",
    "openapi.yaml",
    "problems",
    "ready",
    "sse",
];

section! {
    /// What is served over HTTP and at which paths, and which calls have to be confirmed.
    Surfaces {
        /// Serve MCP, over Streamable HTTP and HTTP+SSE.
        Live mcp: bool = true;
        /// Serve REST.
        Live rest: bool = true;
        /// Serve JSON-RPC 2.0.
        Live rpc: bool = true;
        /// Serve the documents about REST: /openapi.json, /openapi.yaml, /llms.txt, /llms-full.txt. They go with REST.
        Live documents: bool = true;
        /// Serve /explorer, a page to try REST with. It reads the documents, and is off without them.
        Live explorer: bool = true;
        /// Serve the admin API. The commands of `sentinel` do not need it: they have a socket of their own.
        Live admin: bool = true;
        /// Serve the console at /console. It reads the other surfaces, and the admin API for operators.
        Live console: bool = true;
        /// Where MCP is; one backend is at `<mcp_path>/<backend>`.
        Live mcp_path: String = "/mcp".into();
        /// Where REST is: an operation is at `<rest_path>/<operation>`.
        Live rest_path: String = "/api".into();
        /// Where JSON-RPC is.
        Live rpc_path: String = "/rpc".into();
        /// Answers of REST and JSON-RPC say in `Server-Timing` how long authentication, policy, the backend and everything took. For
        /// development: it tells callers how much work their requests cause.
        Live server_timing: bool = false;
        /// Tools whose calls have to be confirmed, such as "delete_*": by name, by "<backend>.<own name>", or by a pattern with `*`. Roles may
        /// name further ones. See docs/rest.md.
        Live confirm: Vec<String> = Vec::new();
        /// Seconds in which a call can be confirmed.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 1, max = 86_400))]
        Live confirm_ttl: Duration = Duration::from_secs(300);
    }
}

impl Surfaces {
    fn paths(&self) -> [(&'static str, &str); 3] {
        [
            ("mcp_path", &self.mcp_path),
            ("rest_path", &self.rest_path),
            ("rpc_path", &self.rpc_path),
        ]
    }
}

impl Builder<'_> {
    pub(crate) fn check_surfaces(&mut self, surfaces: &Surfaces) {
        let here = Path::dotted("surfaces");
        let paths = surfaces.paths();
        for (n, (key, path)) in paths.iter().enumerate() {
            let at = here.key(key);
            if !is_plain_path(path) {
                let expected = "a path such as \"/tools\": letters, digits, `-`, `_` and `.`, without a slash at the end";
                self.wrong(&at, format!("\"{path}\" cannot be a path"), expected);
                continue;
            }
            if let Some(taken) = TAKEN.iter().find(|taken| is_below(path, taken)) {
                let message = format!("/{taken} is a path of the gateway's own");
                self.wrong(&at, message, "another path");
            }
            let overlaps = |other: &str| {
                is_plain_path(other) && (is_below(path, &other[1..]) || is_below(other, &path[1..]))
            };
            if let Some((other, _)) = paths[..n].iter().find(|(_, other)| overlaps(other)) {
                let message =
                    format!("`{key}` and `{other}` are one path, or one is below the other");
                self.wrong(&at, message, "paths of which none begins with another");
            }
        }
        for (index, tool) in surfaces.confirm.iter().enumerate() {
            if tool.is_empty() {
                let at = here.key("confirm").index(index);
                self.wrong(&at, "no tool has an empty name", "a tool, or a pattern");
            }
        }
    }
}

fn is_plain_path(path: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let segment = |segment: &str| {
        !segment.is_empty() && segment.chars().all(good) && !matches!(segment, "." | "..")
    };
    path.strip_prefix('/')
        .is_some_and(|path| path.split('/').all(segment))
}

/// Whether a path is this one, written without its first slash, or below it.
fn is_below(path: &str, base: &str) -> bool {
    let rest = path.strip_prefix('/').and_then(|p| p.strip_prefix(base));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
