//! Servers of clients as backends that can be added to a configuration that is in use.
//!
//! What is written and what moves into variables is decided as for `sentinel import`; each server is checked alone, by
//! the parser of the configuration. Tables are added at the end of the file's backends, and nothing else in it changes.
//!
//! Not here: putting the new text in force (`reload`).

use std::path::Path;
use std::str::FromStr;

use clap::ValueEnum;
use sentinel_backends::kind_of;
use sentinel_core::{Fault, Kind};
use sentinel_surfaces::http::admin::config_file::ReplaceRequest;
use sentinel_surfaces::http::admin::import::{
    ClientFile, FoundServers, ImportAnswer, ImportRequest, ImportedServer, VariableNeeded,
};
use toml_edit::{DocumentMut, Item, Table, Value};

use crate::config::template::{self, Piece};
use crate::config::{self, BackendKind, Config, Environment, Overrides};
use crate::config_file;
use crate::import::convert::Converter;
use crate::import::read::{self, Server};
use crate::import::variables::Export;
use crate::import::write::{self, Entry, Setting, Transport};
use crate::import::{Client, Source, find};

/// Of one text or file. Clients become unusable with fewer.
const SERVERS_MAX: usize = 500;

/// What an import comes to, and the text that adds it.
pub(crate) struct Planned {
    pub(crate) answer: ImportAnswer,
    /// Without a meaning where nothing was to be added.
    pub(crate) replacement: ReplaceRequest,
}

/// The servers in the usual files of clients.
pub(crate) fn found(config: &Config) -> Result<FoundServers, Fault> {
    let environment = environment()?;
    let one = |source: Source| {
        let read = read::load_servers(&source, &environment);
        let read = read.map_err(|error| with_causes(&error));
        let (servers, problem) = match read.and_then(bounded) {
            Ok(servers) => (candidates(servers, config, &environment, false), None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        ClientFile {
            path: source.path.display().to_string(),
            client: word(source.client),
            problem,
            servers,
        }
    };
    let files = find(None, None, &environment).into_iter();
    Ok(FoundServers {
        files: files.map(one).collect(),
    })
}

/// The servers of a request, and the new text of the configuration if they are to be added. Blocks on the disk.
pub(crate) fn plan(
    request: &ImportRequest,
    config: &Config,
    path: Option<&Path>,
) -> Result<Planned, Fault> {
    let environment = environment()?;
    let servers = bounded(servers_of(request, &environment)?).map_err(invalid)?;
    let servers = candidates(servers, config, &environment, request.literals);
    let mut planned = Planned {
        answer: ImportAnswer {
            servers,
            added: Vec::new(),
            reloaded: None,
            backends: Vec::new(),
        },
        replacement: ReplaceRequest {
            text: String::new(),
            digest: String::new(),
        },
    };
    if !request.apply {
        return Ok(planned);
    }
    if !config.console.edit {
        let text = "console.edit is false: no backend is added from here";
        return Err(Fault::new(Kind::Forbidden, text));
    }
    let chosen = chosen(&planned.answer.servers, request.names.as_deref())?;
    let before = path.map(config_file::read).transpose();
    let before =
        before.map_err(|error| unprocessable(format!("the file cannot be read: {error}")))?;
    let before = before.flatten().unwrap_or_default();
    let digest = config_file::digest_of(&before);
    if request
        .digest
        .as_ref()
        .is_some_and(|known| *known != digest)
    {
        let text = "the configuration file is another by now: read it again";
        return Err(Fault::new(Kind::Conflict, text));
    }
    let tables: Vec<&str> = chosen.iter().map(|server| &*server.toml).collect();
    let text = added_to(&before, &tables).map_err(unprocessable)?;
    planned.answer.added = chosen.iter().map(|server| server.name.clone()).collect();
    planned.replacement = ReplaceRequest { text, digest };
    Ok(planned)
}

/// The servers to add: those that are named, or all that can be added and are not there yet.
fn chosen<'s>(
    servers: &'s [ImportedServer],
    names: Option<&[String]>,
) -> Result<Vec<&'s ImportedServer>, Fault> {
    let chosen: Vec<&ImportedServer> = match names {
        None => {
            let can = |server: &&ImportedServer| server.problem.is_none() && server.known.is_none();
            servers.iter().filter(can).collect()
        }
        Some(names) => {
            let named = |name: &String| {
                let server = servers.iter().find(|server| server.name == *name);
                let server = server.ok_or_else(|| format!("there is no server `{name}`"))?;
                match &server.problem {
                    Some(problem) => Err(format!("`{name}` cannot be added: {problem}")),
                    None => Ok(server),
                }
            };
            let named: Result<_, String> = names.iter().map(named).collect();
            named.map_err(unprocessable)?
        }
    };
    match chosen.is_empty() {
        true => {
            let problem = |server: &ImportedServer| {
                let problem = server.problem.as_ref()?;
                Some(format!("; `{}`: {problem}", server.name))
            };
            let why: String = servers.iter().filter_map(problem).collect();
            Err(unprocessable(format!("there is nothing to add{why}")))
        }
        false => Ok(chosen),
    }
}

fn servers_of(
    request: &ImportRequest,
    environment: &Environment<'_>,
) -> Result<Vec<Server>, Fault> {
    let read = match (&request.text, &request.file) {
        (Some(text), None) => read::servers_of_text(text, &environment.cwd),
        (None, Some(file)) => {
            // No other file is read: this is no way to look at what the gateway's user may read.
            let mut found = find(None, None, environment).into_iter();
            let source = found.find(|source| source.path == Path::new(file));
            let none = || invalid(format!("{file} is no client's file of this machine"));
            read::load_servers(&source.ok_or_else(none)?, environment)
        }
        _ => return Err(invalid("`text` or `file` says which servers")),
    };
    read.map_err(|error| invalid(with_causes(&error)))
}

fn bounded(servers: Vec<Server>) -> Result<Vec<Server>, String> {
    match servers.len() > SERVERS_MAX {
        true => Err(format!("it has more than {SERVERS_MAX} servers")),
        false => Ok(servers),
    }
}

/// Each server as a backend beside those of a configuration.
fn candidates(
    servers: Vec<Server>,
    config: &Config,
    environment: &Environment<'_>,
    literals: bool,
) -> Vec<ImportedServer> {
    let names = config.backends.iter().map(|backend| backend.name.clone());
    let taken = names.chain([sentinel_review::tools::NAME.to_owned()]);
    let mut converter = Converter::new(environment)
        .beside(taken.collect())
        .with_literals(literals);
    for server in &servers {
        converter.refer(server);
    }
    let one = |server: Server| {
        let original = server.name.clone();
        let (entry, mut warnings) = converter.convert(server);
        let Some(entry) = entry else {
            let problem = match warnings.is_empty() {
                true => "it is there twice".to_owned(),
                false => warnings.join("; "),
            };
            return ImportedServer {
                name: original.clone(),
                original,
                summary: String::new(),
                toml: String::new(),
                problem: Some(problem),
                known: None,
                variables: Vec::new(),
                warnings: Vec::new(),
            };
        };
        if !entry.enabled {
            warnings.push("it is switched off in the client's file, and here as well".to_owned());
        }
        let toml = write::one(&entry);
        let checked = checked(&toml, environment);
        let kind = checked.as_ref().ok().map(|parsed| &parsed.backends[0].kind);
        if let Ok(parsed) = &checked {
            warnings.extend(parsed.notices.iter().cloned());
        }
        let variable = |name: String| VariableNeeded {
            set: environment.variable(&name).is_some(),
            literal: matches!(converter.exports().find(&name), Some(Export::Literal(_))),
            name,
        };
        ImportedServer {
            summary: kind.map_or_else(|| summary(&entry), |kind| kind_of(kind).target()),
            known: kind.and_then(|kind| same_server(kind, config)),
            variables: variables(&entry).into_iter().map(variable).collect(),
            problem: checked.err(),
            name: entry.name,
            original,
            toml,
            warnings,
        }
    };
    servers.into_iter().map(one).collect()
}

/// One backend's table as a configuration of its own, or what is wrong with it.
fn checked(toml: &str, environment: &Environment<'_>) -> Result<Config, String> {
    let (name, base) = ("the server", &environment.cwd);
    let overrides = Overrides::default();
    let parsed = config::parse(name, toml, base, &overrides, environment);
    parsed.map_err(|mistakes| {
        let messages = mistakes.placed().map(|mistake| match mistake.help {
            Some(help) => format!("{} ({help})", mistake.message),
            None => mistake.message.to_owned(),
        });
        messages.collect::<Vec<_>>().join("; ")
    })
}

/// The backend that runs the same program, or is at the same address.
fn same_server(kind: &BackendKind, config: &Config) -> Option<String> {
    let is_same = |other: &BackendKind| match (kind, other) {
        (BackendKind::Http(one), BackendKind::Http(other)) => {
            one.url.expose() == other.url.expose()
        }
        (BackendKind::Stdio(one), BackendKind::Stdio(other)) => {
            let args = |of: &config::StdioBackend| -> Vec<String> {
                of.args.iter().map(|arg| arg.expose().to_owned()).collect()
            };
            (&one.command, args(one), &one.cwd) == (&other.command, args(other), &other.cwd)
        }
        _ => false,
    };
    let mut backends = config.backends.iter();
    let same = backends.find(|backend| is_same(&backend.kind))?;
    Some(same.name.clone())
}

/// What it is, where it cannot be read as a configuration.
fn summary(entry: &Entry) -> String {
    match &entry.transport {
        Transport::Stdio { command, .. } => command.clone(),
        Transport::Http { url, .. } => match url {
            Setting::Literal(url) => url.clone(),
            Setting::Variable(name) => format!("<from {name}>"),
        },
    }
}

/// The variables that a backend reads, each once.
fn variables(entry: &Entry) -> Vec<String> {
    let of_setting = |setting: &Setting| match setting {
        Setting::Variable(name) => Some(name.clone()),
        Setting::Literal(_) => None,
    };
    let of_pairs = |pairs: &[(String, Setting)]| -> Vec<String> {
        let settings = pairs.iter().map(|(_, setting)| setting);
        settings.filter_map(of_setting).collect()
    };
    let mut names = match &entry.transport {
        Transport::Http { url, headers } => {
            let mut names: Vec<String> = of_setting(url).into_iter().collect();
            names.extend(of_pairs(headers));
            names
        }
        Transport::Stdio { args, env, .. } => {
            let pieces = args.iter().flat_map(|arg| template::parse(arg).pieces);
            let of_args = pieces.filter_map(|piece| match piece {
                Piece::Variable {
                    name,
                    default: None,
                } => Some(name),
                _ => None,
            });
            of_args.chain(of_pairs(env)).collect()
        }
    };
    let mut seen = Vec::new();
    names.retain(|name| {
        let is_new = !seen.contains(name);
        seen.push(name.clone());
        is_new
    });
    names
}

/// A configuration with further tables of backends after those that it has.
fn added_to(text: &str, tables: &[&str]) -> Result<String, String> {
    let read = |text: &str| {
        DocumentMut::from_str(text).map_err(|error| format!("the file is not TOML: {error}"))
    };
    let count = |document: &DocumentMut| {
        let backends = document.get("backends");
        let backends = backends.and_then(Item::as_array_of_tables);
        backends.map_or(0, |all| all.len())
    };
    let mut document = read(text)?;
    let before = count(&document);
    let mut fresh: Vec<Table> = Vec::new();
    for table in tables {
        let mut parsed = read(table)?;
        let backends = parsed.get_mut("backends");
        let backends = backends.and_then(Item::as_array_of_tables_mut);
        let one = backends.and_then(|all| all.get_mut(0)).cloned();
        fresh.push(one.ok_or("a backend is a table")?);
    }
    match document.get_mut("backends") {
        // An inline list takes inline tables.
        Some(Item::Value(Value::Array(list))) => {
            for table in fresh {
                list.push(table.into_inline_table());
            }
            Ok(document.to_string())
        }
        None | Some(Item::ArrayOfTables(_)) => {
            // Written at the end: tables that are pushed in the middle would take comments of others as theirs.
            let mut out = text.to_owned();
            if !out.is_empty() && !out.ends_with('\n') {
                out.push('\n');
            }
            out.extend(tables.iter().copied());
            match read(&out) {
                Ok(document) if count(&document) == before + tables.len() => Ok(out),
                _ => Err("the file ends in a way that no backend can be added to".to_owned()),
            }
        }
        Some(_) => Err("`backends` is no list in this file".to_owned()),
    }
}

/// As on the command line.
fn word(client: Client) -> String {
    let value = client.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn environment() -> Result<Environment<'static>, Fault> {
    config::environment().map_err(|error| unprocessable(format!("no environment: {error}")))
}

/// An error and what caused it, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(&format!(": {next}"));
        cause = next.source();
    }
    text
}

fn invalid(text: impl Into<String>) -> Fault {
    Fault::new(Kind::InvalidParams, text.into())
}

fn unprocessable(text: impl Into<String>) -> Fault {
    Fault::new(Kind::Unprocessable, text.into())
}

#[cfg(test)]
mod tests;
