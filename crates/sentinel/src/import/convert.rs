//! One server of a client becomes one backend of ours; credentials become variables.
//!
//! A credential is a value that its name or its shape gives away (`config::credentials`). It leaves the
//! configuration entirely: the backend names a variable, and the value goes into the export lines.

mod arguments;
mod users;

use std::path::Path;

use serde_json::{Map, Value};

use self::users::{has_user, without_user};
use super::read::Server;
use super::variables::{Export, Exports, variable_name};
use super::write::{Entry, Setting, Transport};
use crate::config::template::{Piece, Template, parse_with, variable};
use crate::config::{Environment, OWN_HEADERS, backend_name, command_line, credentials};

/// Keys of clients that have no counterpart here and need none.
const IGNORED: [&str; 12] = [
    "alwaysAllow",
    "autoApprove",
    "description",
    "dev",
    "disabled",
    "enabled",
    "gallery",
    "icon",
    "name",
    "timeout",
    "transport",
    "version",
];

/// Keys that are taken over.
const KNOWN: [&str; 10] = [
    "args",
    "command",
    "cwd",
    "env",
    "headers",
    "httpUrl",
    "serverUrl",
    "transportType",
    "type",
    "url",
];

/// Names that say nothing without the server's name before them.
const GENERIC: [&str; 12] = [
    "ACCESS_TOKEN",
    "API_KEY",
    "API_TOKEN",
    "APIKEY",
    "AUTH",
    "AUTHORIZATION",
    "AUTH_TOKEN",
    "KEY",
    "PASSWORD",
    "SECRET",
    "TOKEN",
    "URL",
];

/// Collects backends, variables and warnings.
pub(crate) struct Converter<'a> {
    environment: &'a Environment<'a>,
    /// Definitions already taken over, under the names they had.
    seen: Vec<(String, Map<String, Value>)>,
    /// Names that no backend may get.
    taken: Vec<String>,
    /// Credentials stay where they stand.
    literals: bool,
    done: Converted,
}

/// Everything that was converted.
#[derive(Default)]
pub(crate) struct Converted {
    pub(crate) backends: Vec<Entry>,
    pub(crate) exports: Exports,
    pub(crate) warnings: Vec<String>,
}

/// A server while it is converted.
struct Context<'s> {
    server: &'s Server,
    /// Its name as the beginning of a variable's.
    variable: String,
}

impl<'a> Converter<'a> {
    pub(crate) fn new(environment: &'a Environment<'a>) -> Self {
        Self {
            environment,
            seen: Vec::new(),
            taken: Vec::new(),
            literals: false,
            done: Converted::default(),
        }
    }

    /// For a configuration that has backends of these names.
    pub(crate) fn beside(self, taken: Vec<String>) -> Self {
        Self { taken, ..self }
    }

    /// Leaves credentials in the configuration, if `literals`.
    pub(crate) fn with_literals(self, literals: bool) -> Self {
        Self { literals, ..self }
    }

    /// Converts one server; returns its backend, if it can be one, and what is to be said about it.
    pub(crate) fn convert(&mut self, server: Server) -> (Option<Entry>, Vec<String>) {
        let (backends, warnings) = (self.done.backends.len(), self.done.warnings.len());
        self.add(server);
        let entry = self.done.backends.get(backends).cloned();
        (entry, self.done.warnings[warnings..].to_vec())
    }

    pub(crate) fn exports(&self) -> &Exports {
        &self.done.exports
    }

    pub(crate) fn finish(self) -> Converted {
        self.done
    }

    /// Notes the variables that a server refers to, before any is named for a credential.
    pub(crate) fn refer(&mut self, server: &Server) {
        let mut values: Vec<&Value> = server.definition.values().collect();
        while let Some(value) = values.pop() {
            match value {
                Value::Array(items) => values.extend(items),
                Value::Object(map) => values.extend(map.values()),
                Value::String(text) => {
                    for piece in read_template(text, server, self.environment).pieces {
                        if let Piece::Variable { name, .. } = piece {
                            self.done.exports.refer(name);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    pub(crate) fn add(&mut self, server: Server) {
        // The same server in two files is one server.
        let twin = (server.name.clone(), server.definition.clone());
        if self.seen.contains(&twin) {
            return;
        }
        self.seen.push(twin);
        let name = self.unique_name(&server.name);
        let context = Context {
            variable: variable_name(&name),
            server: &server,
        };
        let mut comments = Vec::new();
        if name != server.name {
            comments.push(format!("\"{}\" in the original", server.name));
        }
        let mut enabled = flag(&server.definition, "disabled") != Some(true);
        enabled &= flag(&server.definition, "enabled") != Some(false);
        let Some(transport) = self.transport(&context) else {
            return;
        };
        self.unknown_keys(&server);
        self.done.backends.push(Entry {
            name,
            enabled,
            comments,
            transport,
        });
    }

    fn transport(&mut self, context: &Context<'_>) -> Option<Transport> {
        let definition = &context.server.definition;
        let text = |key: &str| {
            definition
                .get(key)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        let url = ["url", "httpUrl", "serverUrl"].into_iter().find_map(text);
        let said = ["type", "transportType", "transport"]
            .into_iter()
            .find_map(text);
        let kind = said.unwrap_or(if text("command").is_some() {
            "stdio"
        } else {
            "http"
        });
        match (kind, text("command"), url) {
            ("stdio", Some(command), _) => Some(self.stdio(context, command)),
            (
                "http" | "streamable-http" | "streamableHttp" | "streamable_http" | "sse",
                _,
                Some(url),
            ) => Some(self.http(context, url)),
            ("stdio", None, _) => self.skip(context, "it has no command"),
            (
                "http" | "streamable-http" | "streamableHttp" | "streamable_http" | "sse",
                _,
                None,
            ) => self.skip(context, "it has neither a command nor a URL"),
            _ => self.skip(context, &format!("its type \"{kind}\" is unknown")),
        }
    }

    fn stdio(&mut self, context: &Context<'_>, command: &str) -> Transport {
        let definition = &context.server.definition;
        let command = self.expanded(context, "command", command);
        let (command, mut args) = match command_line(&command) {
            Some((program, rest)) => (
                program.to_owned(),
                rest.split_whitespace().map(str::to_owned).collect(),
            ),
            None => (command, Vec::new()),
        };
        args.extend(self.strings(context, "args"));
        let args = self.args(context, &args);
        let cwd = definition
            .get("cwd")
            .and_then(Value::as_str)
            .filter(|cwd| !cwd.is_empty());
        let cwd = cwd.map(|cwd| {
            let cwd = self.expanded(context, "cwd", cwd);
            if cwd.starts_with('~') {
                cwd
            } else {
                context.server.workspace.join(cwd).display().to_string()
            }
        });
        let mut env = Vec::new();
        for (key, value) in self.scalars(context, "env") {
            if key.is_empty() || key.contains(['=', '\0']) {
                self.warn(
                    context,
                    &format!("the variable `{key}` cannot be set and is left out"),
                );
                continue;
            }
            let wanted = if GENERIC.contains(&key.to_ascii_uppercase().as_str()) {
                format!("{}_{}", context.variable, variable_name(&key))
            } else {
                variable_name(&key)
            };
            let setting = self.setting(context, &key, &value, &wanted);
            env.push((key, setting));
        }
        Transport::Stdio {
            command,
            args,
            cwd,
            env,
        }
    }

    fn http(&mut self, context: &Context<'_>, url: &str) -> Transport {
        let mut template = self.template(context, url);
        let mut given = self.scalars(context, "headers");
        if let Some((bare, basic)) = without_user(&template) {
            template = Template {
                pieces: vec![Piece::Text(bare)],
            };
            let own = |(key, _): &(String, String)| key.eq_ignore_ascii_case("authorization");
            if !given.iter().any(own) {
                given.push(("Authorization".to_owned(), basic));
            }
        } else if has_user(&template.text()) {
            self.warn(context, "its URL has a user in it, which cannot be used; write the credential into `headers` by hand");
        }
        let url = if template.is_plain() && !credentials::url_credential(&template.text()) {
            Setting::Literal(template.text())
        } else {
            let name = format!("{}_URL", context.variable);
            self.moved(context, template, &name)
        };
        let mut headers = Vec::new();
        for (key, value) in given {
            let own = OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(&key));
            if own || key.parse::<http::HeaderName>().is_err() {
                self.warn(
                    context,
                    &format!("the header `{key}` is the gateway's business and is left out"),
                );
                continue;
            }
            let wanted = format!("{}_{}", context.variable, variable_name(&key));
            let setting = self.setting(context, &key, value.trim(), &wanted);
            headers.push((key, setting));
        }
        Transport::Http { url, headers }
    }

    /// A value of `env` or `headers`.
    fn setting(&mut self, context: &Context<'_>, key: &str, value: &str, wanted: &str) -> Setting {
        let template = self.template(context, value);
        match template.pieces.as_slice() {
            [
                Piece::Variable {
                    name,
                    default: None,
                },
            ] => Setting::Variable(name.clone()),
            _ if template.is_plain() && !credentials::looks_secret(key, &template.text()) => {
                Setting::Literal(template.text())
            }
            _ => self.moved(context, template, wanted),
        }
    }

    /// Moves a value into a variable of its own.
    fn moved(&mut self, context: &Context<'_>, template: Template, wanted: &str) -> Setting {
        if self.literals {
            let environment = self.environment;
            let value = |name: &str| environment.variable(name).and_then(Result::ok);
            let filled = template.fill(value);
            if filled.missing.is_empty() {
                return Setting::Literal(filled.text);
            }
        }
        let export = if template.is_plain() {
            Export::Literal(template.text())
        } else {
            Export::Template(template)
        };
        let longer = match wanted.strip_prefix(&context.variable) {
            Some(_) => wanted.to_owned(),
            None => format!("{}_{wanted}", context.variable),
        };
        Setting::Variable(self.done.exports.name(wanted, &longer, export))
    }

    fn template(&mut self, context: &Context<'_>, text: &str) -> Template {
        self.ask_for_inputs(context.server, text);
        read_template(text, context.server, self.environment)
    }

    /// A variable that stands for a question gets a line that the user can fill in.
    fn ask_for_inputs(&mut self, server: &Server, text: &str) {
        for (id, description) in &server.inputs {
            if text.contains(&format!("${{input:{id}}}")) {
                let name = variable_name(id);
                self.done
                    .exports
                    .name(&name, &name, Export::Ask(description.clone()));
            }
        }
    }

    /// `command` and `cwd` have no variables here: what is known now is filled in.
    fn expanded(&mut self, context: &Context<'_>, key: &str, text: &str) -> String {
        let environment = self.environment;
        let filled = self
            .template(context, text)
            .fill(|name| environment.variable(name).and_then(Result::ok));
        for name in &filled.missing {
            self.warn(
                context,
                &format!("`{key}` uses the variable {name}, which is not set; correct it by hand"),
            );
        }
        filled.text
    }

    fn strings(&mut self, context: &Context<'_>, key: &str) -> Vec<String> {
        match context.server.definition.get(key) {
            Some(Value::Array(items)) => items.iter().filter_map(scalar).collect(),
            None | Some(Value::Null) => Vec::new(),
            Some(_) => {
                self.warn(context, &format!("`{key}` is not an array and is left out"));
                Vec::new()
            }
        }
    }

    fn scalars(&mut self, context: &Context<'_>, key: &str) -> Vec<(String, String)> {
        match context.server.definition.get(key) {
            Some(Value::Object(map)) => map
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), scalar(value)?)))
                .collect(),
            None | Some(Value::Null) => Vec::new(),
            Some(_) => {
                self.warn(
                    context,
                    &format!("`{key}` is not an object and is left out"),
                );
                Vec::new()
            }
        }
    }

    fn unknown_keys(&mut self, server: &Server) {
        let known = |key: &String| IGNORED.contains(&key.as_str()) || KNOWN.contains(&key.as_str());
        for key in server.definition.keys().filter(|key| !known(key)) {
            self.done.warnings.push(format!(
                "{}: `{key}` has no counterpart and is left out",
                server.name
            ));
        }
    }

    fn unique_name(&self, original: &str) -> String {
        let name = backend_name(original).unwrap_or_else(|| "server".into());
        let taken = |name: &str| {
            self.done
                .backends
                .iter()
                .any(|backend| backend.name == name)
                || self.taken.iter().any(|taken| taken == name)
        };
        if !taken(&name) {
            return name;
        }
        let numbered = (2..).map(|n| {
            let suffix = format!("-{n}");
            let stem: String = name.chars().take(32 - suffix.len()).collect();
            format!("{}{suffix}", stem.trim_end_matches('-'))
        });
        numbered
            .into_iter()
            .find(|name| !taken(name))
            .expect("the numbers do not end")
    }

    fn warn(&mut self, context: &Context<'_>, text: &str) {
        self.done
            .warnings
            .push(format!("{}: {text}", context.server.name));
    }

    fn skip(&mut self, context: &Context<'_>, why: &str) -> Option<Transport> {
        self.warn(context, &format!("{why}; it is left out"));
        None
    }
}

/// Reads the variables that clients know: `${VAR}`, `${VAR:-x}`, `${env:VAR}`, `${input:x}`, and the
/// folders, which are known now.
fn read_template(text: &str, server: &Server, environment: &Environment<'_>) -> Template {
    let folder = |path: &Path| Some(Piece::Text(path.display().to_string()));
    parse_with(text, |inside| match inside {
        "workspaceFolder" => folder(&server.workspace),
        "workspaceFolderBasename" => folder(Path::new(server.workspace.file_name()?)),
        "userHome" => folder(&environment.home()?),
        "pathSeparator" | "/" => Some(Piece::Text("/".into())),
        _ => {
            if let Some(id) = inside.strip_prefix("input:") {
                return Some(Piece::Variable {
                    name: variable_name(id),
                    default: None,
                });
            }
            variable(inside.strip_prefix("env:").unwrap_or(inside))
        }
    })
}

fn flag(definition: &Map<String, Value>, key: &str) -> Option<bool> {
    definition.get(key).and_then(Value::as_bool)
}

/// Clients write numbers and booleans where strings are meant.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}
