//! The usual places of clients' configurations.

use std::path::{Path, PathBuf};

use super::{Client, client_of};
use crate::config::Environment;

/// A file to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) client: Client,
}

/// The named file, or those of the usual places that exist.
pub(crate) fn find(
    path: Option<&Path>,
    from: Option<Client>,
    environment: &Environment<'_>,
) -> Vec<Source> {
    if let Some(path) = path {
        let path = environment.cwd.join(path);
        let client = from.unwrap_or_else(|| client_of(&path));
        return vec![Source { path, client }];
    }
    let mut found = places(from, environment);
    found.retain(|source| source.path.is_file());
    found
}

/// Every place that is looked at, nearest first: the project's files before the user's.
pub(crate) fn places(from: Option<Client>, environment: &Environment<'_>) -> Vec<Source> {
    use Client::{ClaudeCode, ClaudeDesktop, Cursor, Generic, Vscode};
    const PROJECT: &[(Client, &str)] = &[
        (ClaudeCode, ".mcp.json"),
        (Cursor, ".cursor/mcp.json"),
        (Vscode, ".vscode/mcp.json"),
        (Generic, "mcp.json"),
    ];
    const HOME: &[(Client, &str)] = &[
        (ClaudeCode, ".claude.json"),
        (ClaudeDesktop, ".config/Claude/claude_desktop_config.json"),
        (
            ClaudeDesktop,
            "Library/Application Support/Claude/claude_desktop_config.json",
        ),
        (Cursor, ".cursor/mcp.json"),
        (Vscode, ".config/Code/User/mcp.json"),
        (Vscode, "Library/Application Support/Code/User/mcp.json"),
    ];
    let at = |directory: PathBuf, list: &[(Client, &str)]| -> Vec<Source> {
        list.iter()
            .map(|(client, name)| Source {
                path: directory.join(name),
                client: *client,
            })
            .collect()
    };
    let mut places = at(environment.cwd.clone(), PROJECT);
    places.extend(
        environment
            .home()
            .into_iter()
            .flat_map(|home| at(home, HOME)),
    );
    places.retain(|source| from.is_none_or(|client| client == source.client));
    // In the home directory a file is both the project's and the user's.
    let mut seen = Vec::new();
    places.retain(|source| {
        !seen.contains(&source.path) && {
            seen.push(source.path.clone());
            true
        }
    });
    places
}
