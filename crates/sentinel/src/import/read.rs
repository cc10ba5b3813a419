//! Reads a client's file into servers, whatever it calls them.
//!
//! The files are JSON as editors write it: comments and trailing commas are fine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::find::Source;
use super::{Client, workspace_of};
use crate::config::Environment;

/// Larger files are not configurations.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A server as a client's file has it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) definition: Map<String, Value>,
    /// What `${input:…}` asks for, by id.
    pub(crate) inputs: BTreeMap<String, String>,
    pub(crate) workspace: PathBuf,
}

/// A file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("cannot read {path}")]
    Io {
        path: String,
        source: std::io::Error,
    },
    #[error("{path} is too large for a configuration")]
    TooLarge { path: String },
    #[error("{path} is not JSON")]
    Json {
        path: String,
        source: serde_json::Error,
    },
    #[error("{path} holds no servers: neither `mcpServers` nor `servers` is in it")]
    NoServers { path: String },
}

/// Every server of a file.
pub(crate) fn load_servers(
    source: &Source,
    environment: &Environment<'_>,
) -> Result<Vec<Server>, ReadError> {
    let path = source.path.display().to_string();
    let io = |source| ReadError::Io {
        path: path.clone(),
        source,
    };
    if std::fs::metadata(&source.path).map_err(io)?.len() > FILE_BYTES_MAX {
        return Err(ReadError::TooLarge { path });
    }
    let text = std::fs::read_to_string(&source.path).map_err(io)?;
    let value = parse_lenient(&text).map_err(|source| ReadError::Json {
        path: path.clone(),
        source,
    })?;
    parse_servers(&value, source, &environment.cwd).ok_or(ReadError::NoServers { path })
}

/// The servers of a text that somebody copied from documentation or from a client's file: a whole file, the map of servers,
/// one server under its name, or one server without.
pub(crate) fn servers_of_text(text: &str, cwd: &Path) -> Result<Vec<Server>, ReadError> {
    let path = || "the text".to_owned();
    let whole = parse_lenient(text);
    // What was copied out of a map has no braces around it.
    let value = match whole {
        Ok(value @ Value::Object(_)) => value,
        Ok(_) => return Err(ReadError::NoServers { path: path() }),
        Err(source) => {
            let inner = text.trim().trim_end_matches(',');
            let wrapped = parse_lenient(&format!("{{{inner}}}"));
            wrapped.map_err(|_| ReadError::Json {
                path: path(),
                source,
            })?
        }
    };
    let source = Source {
        path: cwd.join("pasted.json"),
        client: Client::Generic,
    };
    if let Some(servers) = parse_servers(&value, &source, cwd) {
        return Ok(servers);
    }
    let is_server = |value: &Value| {
        let has = |key: &&str| value.get(key).is_some_and(Value::is_string);
        ["command", "url", "httpUrl", "serverUrl"].iter().any(has)
    };
    let map = value.as_object().cloned().unwrap_or_default();
    let servers = if is_server(&value) {
        let name = value.get("name").and_then(Value::as_str);
        let name = name.unwrap_or("server").to_owned();
        Map::from_iter([(name, value)])
    } else {
        map
    };
    if servers.is_empty() || !servers.values().any(is_server) {
        return Err(ReadError::NoServers { path: path() });
    }
    let value = Value::Object(Map::from_iter([(
        "mcpServers".to_owned(),
        Value::Object(servers),
    )]));
    Ok(parse_servers(&value, &source, cwd).unwrap_or_default())
}

/// The servers of a parsed file; none if it has no place for servers at all.
pub(crate) fn parse_servers(value: &Value, source: &Source, cwd: &Path) -> Option<Vec<Server>> {
    let workspace = workspace_of(&source.path);
    let inputs = inputs(value);
    let servers = |map: &Map<String, Value>, workspace: &Path| -> Vec<Server> {
        let one = |(name, definition): (&String, &Value)| Server {
            name: name.clone(),
            definition: definition.as_object().cloned().unwrap_or_default(),
            inputs: inputs.clone(),
            workspace: workspace.to_owned(),
        };
        map.iter().map(one).collect()
    };
    let table = |key: &str| value.get(key).and_then(Value::as_object);
    // VS Code's own key comes first in its files; elsewhere `mcpServers` does. `mcp.servers` is VS Code's
    // settings file.
    let keys: [&str; 2] = match source.client {
        Client::Vscode => ["servers", "mcpServers"],
        _ => ["mcpServers", "servers"],
    };
    let nested = || {
        value
            .get("mcp")
            .and_then(|mcp| mcp.get("servers"))
            .and_then(Value::as_object)
    };
    let top = keys.iter().find_map(|key| table(key)).or_else(nested);
    let projects = table("projects");
    if top.is_none() && projects.is_none() {
        return None;
    }
    let mut found = top.map(|map| servers(map, &workspace)).unwrap_or_default();
    // The project one stands in first, then the others.
    let mut projects: Vec<_> = projects.into_iter().flatten().collect();
    projects.sort_by_key(|(directory, _)| Path::new(directory.as_str()) != cwd);
    for (directory, project) in projects {
        if let Some(map) = project.get("mcpServers").and_then(Value::as_object) {
            found.extend(servers(map, Path::new(directory)));
        }
    }
    Some(found)
}

/// The questions that VS Code asks its user, by id.
fn inputs(value: &Value) -> BTreeMap<String, String> {
    let list = value
        .get("inputs")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    list.filter_map(|input| {
        let id = input.get("id")?.as_str()?;
        let description = input
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or(id);
        Some((id.to_owned(), description.to_owned()))
    })
    .collect()
}

/// JSON with comments and trailing commas.
pub(crate) fn parse_lenient(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&strip_comments(text.trim_start_matches('\u{feff}')))
}

/// Replaces comments and trailing commas by spaces, so that positions in error messages stay true.
fn strip_comments(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    // Where the last comma stands if nothing but space and comments followed it.
    let mut comma = None;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = match rest {
            [b'"', ..] => string_length(rest),
            [b'/', b'/', ..] => rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => find(&rest[2..], b"*/").map_or(rest.len(), |end| end + 4),
            _ => 1,
        };
        let piece = &rest[..length];
        match rest[0] {
            b'/' if length > 1 => {
                out.extend(piece.iter().map(|b| if *b == b'\n' { b'\n' } else { b' ' }))
            }
            other => {
                if let (b']' | b'}', Some(comma)) = (other, comma) {
                    out[comma] = b' ';
                }
                if !other.is_ascii_whitespace() {
                    comma = (other == b',').then_some(out.len());
                }
                out.extend_from_slice(piece);
            }
        }
        at += length;
    }
    String::from_utf8(out).expect("whole characters were copied or whole comments replaced")
}

/// The length of the string literal that begins here, quotes included.
fn string_length(bytes: &[u8]) -> usize {
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    bytes.len()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}
