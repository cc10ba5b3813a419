//! Imports the servers of an MCP client's configuration.
//!
//! The walk: `find` the files, `read` their JSON into servers, `convert` each server into a backend while
//! credentials move into named environment variables, `write` the TOML and the export lines. Nothing here
//! touches the file system except `find` and `read`, and nothing starts a server.
//!
//! Not here: what the command prints and which files it writes (`commands::import`).

pub(crate) mod convert;
pub(crate) mod find;
pub(crate) mod read;
#[cfg(test)]
mod tests;
pub(crate) mod variables;
pub(crate) mod write;

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::config::Environment;

pub(crate) use find::{Source, find};
pub(crate) use read::ReadError;

/// An MCP client whose configuration can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// .mcp.json and ~/.claude.json
    ClaudeCode,
    /// claude_desktop_config.json
    ClaudeDesktop,
    /// .cursor/mcp.json
    Cursor,
    /// .vscode/mcp.json
    Vscode,
    /// Any JSON with `mcpServers`
    Generic,
}

/// The result of an import.
#[derive(Debug)]
pub(crate) struct Imported {
    /// The configuration file, without credentials.
    pub(crate) toml: String,
    /// Shell lines that set the variables named in the configuration, with the credentials.
    pub(crate) exports: String,
    /// Names of the backends, in order.
    pub(crate) backends: Vec<String>,
    /// Names of the variables.
    pub(crate) variables: Vec<String>,
    /// Settings that could not be imported unchanged.
    pub(crate) warnings: Vec<String>,
}

/// Reads the sources and converts their servers.
pub(crate) fn import(
    sources: &[Source],
    environment: &Environment<'_>,
) -> Result<Imported, ReadError> {
    let mut servers = Vec::new();
    for source in sources {
        servers.extend(read::load_servers(source, environment)?);
    }
    Ok(convert_all(sources, servers, environment))
}

fn convert_all(
    sources: &[Source],
    servers: Vec<read::Server>,
    environment: &Environment<'_>,
) -> Imported {
    let mut converter = convert::Converter::new(environment);
    for server in &servers {
        converter.refer(server);
    }
    for server in servers {
        converter.add(server);
    }
    let convert::Converted {
        backends,
        exports,
        warnings,
    } = converter.finish();
    Imported {
        toml: write::toml(sources, &backends),
        variables: exports.names(),
        exports: exports.shell(),
        backends: backends.into_iter().map(|backend| backend.name).collect(),
        warnings,
    }
}

/// The client that a file belongs to, by its name and place.
fn client_of(path: &Path) -> Client {
    let name = |path: Option<&Path>| {
        path.and_then(|p| p.file_name())
            .and_then(|n| n.to_str())
            .unwrap_or("")
            .to_owned()
    };
    match (name(path.parent()).as_str(), name(Some(path)).as_str()) {
        (".vscode" | "User", _) => Client::Vscode,
        (".cursor", _) => Client::Cursor,
        (_, ".mcp.json" | ".claude.json") => Client::ClaudeCode,
        (_, "claude_desktop_config.json") => Client::ClaudeDesktop,
        _ => Client::Generic,
    }
}

/// Where `${workspaceFolder}` is for a file.
fn workspace_of(path: &Path) -> PathBuf {
    let directory = path.parent().unwrap_or(Path::new(""));
    match directory.file_name().and_then(|name| name.to_str()) {
        Some(".vscode" | ".cursor") => directory.parent().unwrap_or(directory).to_owned(),
        _ => directory.to_owned(),
    }
}
