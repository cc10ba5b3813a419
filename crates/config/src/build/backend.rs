//! One backend: which keys belong to its kind, and what they mean together.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::Builder;
use super::values::parse_url;
use crate::mistake::Mistake;
use crate::raw::{Guarantee, RawBackend};
use crate::raw_backend::{BackendType, Interactive, Isolation, RawValue};
use crate::secret::{Endpoint, Origin, Secret};
use crate::settings::{
    Backend, BackendKind, CircuitBreaker, HttpBackend, OpenapiBackend, PostgresBackend,
    StdioBackend,
};
use crate::template;
use crate::tree::Path;

/// Names that paths and tools of the gateway itself use.
const RESERVED: [&str; 3] = ["tools", "admin", "review"];

/// Keys that only some kinds have.
const OWN_KEYS: &[(&str, &[BackendType])] = {
    use BackendType::{Http, Openapi, Postgres, Stdio};
    &[
        ("url", &[Http]),
        ("url_env", &[Http, Postgres]),
        ("headers", &[Http, Openapi]),
        ("retries", &[Http]),
        ("command", &[Stdio]),
        ("args", &[Stdio]),
        ("env", &[Stdio]),
        ("cwd", &[Stdio]),
        ("inherit_env", &[Stdio]),
        ("pid_namespace", &[Stdio]),
        ("restart_on_exit", &[Stdio]),
        ("max_restarts", &[Stdio]),
        ("max_children", &[Stdio]),
        ("limits", &[Stdio]),
        ("start", &[Stdio]),
        ("idle_stop", &[Stdio]),
        ("isolation", &[Stdio]),
        ("interactive", &[Stdio]),
        ("schema", &[Postgres]),
        ("registry", &[Postgres]),
        ("statement_timeout", &[Postgres]),
        ("max_connections", &[Postgres]),
        ("spec", &[Openapi]),
        ("base_url", &[Openapi]),
    ]
};

/// Headers that the gateway itself decides.
pub const OWN_HEADERS: [&str; 13] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
];

impl Builder<'_> {
    pub(super) fn backends(&mut self, raw: Vec<RawBackend>, guarantee: Guarantee) -> Vec<Backend> {
        let mut first: HashMap<String, usize> = HashMap::new();
        let mut built = Vec::with_capacity(raw.len());
        for (index, backend) in raw.into_iter().enumerate() {
            let here = Path::dotted("backends").index(index);
            self.name(&here.key("name"), &backend.name);
            if let Some(earlier) = first.insert(backend.name.clone(), index)
                && !backend.name.is_empty()
            {
                let message = format!(
                    "the name \"{}\" is taken by backend number {}",
                    backend.name,
                    earlier + 1
                );
                self.wrong(
                    &here.key("name"),
                    message,
                    "a name of its own for every backend",
                );
            }
            built.extend(self.backend(&here, backend, guarantee));
        }
        built
    }

    fn name(&mut self, path: &Path, name: &str) {
        if self.removed.contains(path) {
            return;
        }
        if RESERVED.contains(&name) {
            let message = format!("the name \"{name}\" is the gateway's own");
            return self.wrong(path, message, "a name other than tools, admin and review");
        }
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let good = name.starts_with(letter)
            && name.len() <= 32
            && name.chars().all(|c| letter(c) || c == '-');
        if !good {
            let repaired = backend_name(name);
            let mistake = Mistake::new(
                self.tree.value_span(path),
                format!("\"{name}\" cannot be a backend's name"),
            )
            .expected("1 to 32 lower-case letters, digits and hyphens, the first no hyphen")
            .maybe_help(repaired.map(|name| format!("write \"{name}\"")));
            self.mistakes.push(mistake);
        }
    }

    fn backend(&mut self, here: &Path, raw: RawBackend, guarantee: Guarantee) -> Option<Backend> {
        // Without its type nothing can be said about its other keys.
        if self.removed.contains(&here.key("type")) {
            return None;
        }
        self.foreign_keys(here, raw.kind);
        self.tools(here, &raw);
        let kind = match raw.kind {
            BackendType::Http => self.http(here, &raw).map(BackendKind::Http),
            BackendType::Stdio => self.stdio(here, &raw).map(BackendKind::Stdio),
            BackendType::Postgres => self.postgres_backend(here, &raw).map(BackendKind::Postgres),
            BackendType::Openapi => self.openapi(here, &raw).map(BackendKind::Openapi),
        };
        Some(Backend {
            name: raw.name,
            kind: kind?,
            enabled: raw.enabled,
            timeout: Duration::from_secs_f64(raw.timeout),
            health_interval: Duration::from_secs_f64(raw.health_interval),
            unhealthy_after: raw.unhealthy_after,
            prefix: raw.prefix,
            pin: raw.pin,
            guarantee: raw.guarantee.unwrap_or(guarantee),
            idempotent_tools: raw.idempotent_tools,
            tools: raw.tools,
            admission: raw.admission,
            circuit_breaker: CircuitBreaker {
                threshold: raw.circuit_breaker.threshold,
                recovery: Duration::from_secs_f64(raw.circuit_breaker.recovery),
            },
        })
    }

    fn foreign_keys(&mut self, here: &Path, kind: BackendType) {
        for (key, kinds) in OWN_KEYS {
            let path = here.key(key);
            if self.tree.has(&path) && !kinds.contains(&kind) {
                let kinds: Vec<_> = kinds.iter().map(|k| word(*k)).collect();
                let message = format!(
                    "`{key}` has no meaning for a backend of type \"{}\"",
                    word(kind)
                );
                let mistake = Mistake::new(self.tree.key_span(&path), message)
                    .help(format!("it belongs to type \"{}\"", kinds.join("\" or \"")));
                self.mistakes.push(mistake);
            }
        }
    }

    /// Whether a key that this kind needs is there; reports it if not.
    fn needs(
        &mut self,
        here: &Path,
        kind: BackendType,
        key: &str,
        example: &str,
        given: &str,
    ) -> bool {
        let path = here.key(key);
        if !given.is_empty() {
            return true;
        }
        if self.tree.has(&path) && !self.removed.contains(&path) {
            self.wrong(&path, format!("`{key}` is empty"), example);
        } else if !self.removed.contains(&path) && !self.incomplete {
            let message = format!("a backend of type \"{}\" needs `{key}`", word(kind));
            let mistake = Mistake::new(self.tree.key_span(here), message)
                .help(format!("write {key} = {example}"));
            self.mistakes.push(mistake);
        }
        false
    }

    fn http(&mut self, here: &Path, raw: &RawBackend) -> Option<HttpBackend> {
        let headers = self.headers(here, raw);
        let url = self.http_url(here, raw)?;
        Some(HttpBackend {
            url,
            retries: raw.retries,
            headers,
        })
    }

    fn http_url(&mut self, here: &Path, raw: &RawBackend) -> Option<Endpoint> {
        let variable_path = here.key("url_env");
        if raw.url_env.is_empty() {
            self.needs(
                here,
                BackendType::Http,
                "url",
                "\"http://127.0.0.1:3000\"",
                &raw.url,
            )
            .then_some(())?;
            if crate::credentials::url_credential(&raw.url) {
                self.credential_in_file(&raw.name, "url", "url_env");
            }
            let uri = self.web_url(&here.key("url"), &raw.url)?;
            return Some(Endpoint::new(with_path(uri), None));
        }
        if !raw.url.is_empty() {
            self.wrong(
                &variable_path,
                "`url` and `url_env` are both given",
                "one of them",
            );
            return None;
        }
        let value = self.backend_variable(&variable_path, &raw.url_env, raw.enabled)?;
        let stand_in = "http://127.0.0.1/";
        let text = if raw.enabled {
            value.expose()
        } else {
            stand_in
        };
        match parse_url(text) {
            Ok(uri) => Some(Endpoint::new(with_path(uri), Some(raw.url_env.clone()))),
            Err(problem) => {
                let message = format!("the value of {}: {}", raw.url_env, problem.message);
                self.wrong(
                    &variable_path,
                    message,
                    "a URL such as https://example.com/mcp",
                );
                None
            }
        }
    }

    fn stdio(&mut self, here: &Path, raw: &RawBackend) -> Option<StdioBackend> {
        let env = self.env(here, raw);
        let args = self.args(here, raw);
        let cwd = (!raw.cwd.is_empty()).then(|| self.path(&here.key("cwd"), &raw.cwd));
        if raw.interactive == Interactive::Serialize && raw.isolation != Isolation::Shared {
            self.wrong(
                &here.key("interactive"),
                "`interactive` is for a shared child",
                "isolation = \"shared\", or leave it out",
            );
        }
        self.needs(here, BackendType::Stdio, "command", "\"npx\"", &raw.command)
            .then_some(())?;
        let command = self.command(here, &raw.command)?;
        Some(StdioBackend {
            command,
            args,
            env,
            cwd,
            inherit_env: raw.inherit_env,
            pid_namespace: raw.pid_namespace,
            restart_on_exit: raw.restart_on_exit,
            max_restarts: raw.max_restarts,
            max_children: raw.max_children,
            limits: raw.limits.clone(),
            start: raw.start,
            idle_stop: Duration::from_secs_f64(raw.idle_stop),
            isolation: raw.isolation,
            interactive: raw.interactive,
        })
    }

    /// A bare name is looked for in PATH later; anything with a slash is a path of the file.
    fn command(&mut self, here: &Path, command: &str) -> Option<String> {
        let path = here.key("command");
        if let Some((program, rest)) = command_line(command) {
            let args: Vec<_> = rest
                .split_whitespace()
                .map(|arg| format!("\"{arg}\""))
                .collect();
            let mistake = Mistake::new(
                self.tree.value_span(&path),
                "`command` is one program; there is no shell",
            )
            .help(format!(
                "write command = \"{program}\", args = [{}]",
                args.join(", ")
            ));
            self.mistakes.push(mistake);
        } else if command.contains('/') || command.starts_with('~') {
            return self.path(&path, command).to_str().map(str::to_owned);
        }
        Some(command.to_owned())
    }

    fn args(&mut self, here: &Path, raw: &RawBackend) -> Vec<Secret> {
        let mut args = Vec::with_capacity(raw.args.len());
        let mut before = "";
        for (index, arg) in raw.args.iter().enumerate() {
            let template = template::parse(arg);
            if template.is_plain() {
                let secret = Secret::from_file(before.trim_matches('-'), &template.text());
                if *secret.origin() == Origin::FileHidden {
                    self.credential_in_file(&raw.name, "args", "${VAR} in the argument");
                }
                args.push(secret);
            } else {
                let path = here.key("args").index(index);
                let environment = self.environment;
                let filled = template.fill(|name| environment.variable(name).and_then(Result::ok));
                for name in filled.missing.iter().filter(|_| raw.enabled) {
                    let mistake = Mistake::new(
                        self.tree.value_span(&path),
                        format!("the environment variable {name} is not set"),
                    )
                    .help(format!(
                        "export {name}=…, or write $${{{name}}} if the text is meant as it stands"
                    ));
                    self.mistakes.push(mistake);
                }
                args.push(Secret::from_template(arg, &filled.text));
            }
            before = if arg.starts_with('-') { arg } else { "" };
        }
        args
    }

    fn env(&mut self, here: &Path, raw: &RawBackend) -> Vec<(String, Secret)> {
        let mut env = BTreeMap::new();
        for (key, value) in &raw.env {
            let path = here.key("env").key(key);
            let (name, secret) = match (key.strip_suffix("_ENV"), value) {
                (Some(name), RawValue::Plain(variable)) => {
                    (name, self.env_variable(&path, key, variable, raw.enabled))
                }
                (_, RawValue::Plain(text)) => (
                    key.as_str(),
                    Some(self.literal(&raw.name, "env", key, text)),
                ),
                (_, RawValue::Literal(literal)) => (
                    key.as_str(),
                    Some(self.literal(&raw.name, "env", key, &literal.value)),
                ),
            };
            if name.is_empty() || name.contains(['=', '\0']) {
                self.wrong(
                    &path,
                    format!("`{key}` cannot name a variable"),
                    "a name such as API_KEY",
                );
            } else if let Some(secret) = secret
                && env.insert(name.to_owned(), secret).is_some()
            {
                self.wrong(&path, format!("the variable {name} is given twice"), "");
            }
        }
        env.into_iter().collect()
    }

    /// `NODE_ENV = "production"` means the variable `production`, which is rarely what was meant.
    fn env_variable(
        &mut self,
        path: &Path,
        key: &str,
        variable: &str,
        enabled: bool,
    ) -> Option<Secret> {
        let mistakes = self.mistakes.len();
        let secret = self.backend_variable(path, variable, enabled);
        let lower = variable.chars().any(|c| c.is_ascii_lowercase());
        if let Some(mistake) = self.mistakes.get_mut(mistakes)
            && lower
        {
            let help = format!(
                "if {key} is the variable's own name, write {key} = {{ value = \"{variable}\" }}"
            );
            *mistake = mistake.clone().help(help);
        }
        secret
    }

    fn headers(&mut self, here: &Path, raw: &RawBackend) -> Vec<(String, Secret)> {
        let mut headers: BTreeMap<String, Secret> = BTreeMap::new();
        for (key, value) in &raw.headers {
            let path = here.key("headers").key(key);
            let (name, secret) = match (strip_env_suffix(key), value) {
                (Some(name), RawValue::Plain(variable)) => {
                    (name, self.backend_variable(&path, variable, raw.enabled))
                }
                (_, RawValue::Plain(text)) => (
                    key.as_str(),
                    Some(self.literal(&raw.name, "headers", key, text)),
                ),
                (_, RawValue::Literal(literal)) => (
                    key.as_str(),
                    Some(self.literal(&raw.name, "headers", key, &literal.value)),
                ),
            };
            let Ok(header) = name.parse::<HeaderName>() else {
                self.wrong(
                    &path,
                    format!("`{name}` cannot name a header"),
                    "a name such as Authorization",
                );
                continue;
            };
            if OWN_HEADERS.contains(&header.as_str()) {
                self.wrong(
                    &path,
                    format!("the header {name} is set by the gateway"),
                    "",
                );
            }
            let Some(secret) = secret else { continue };
            let text = secret.expose();
            if raw.enabled && (text.is_empty() || HeaderValue::from_str(text).is_err()) {
                self.mistakes.push(
                    Mistake::new(
                        self.tree.value_span(&path),
                        format!("the value of {name} cannot be sent in a header"),
                    )
                    .expected("visible characters, without a line break at the end")
                    .hide_line(),
                );
            }
            if headers.keys().any(|known| known.eq_ignore_ascii_case(name)) {
                self.wrong(&path, format!("the header {name} is given twice"), "");
            }
            headers.insert(name.to_owned(), secret);
        }
        headers.into_iter().collect()
    }

    /// A backend that is switched off may lack its variables.
    fn backend_variable(&mut self, path: &Path, name: &str, enabled: bool) -> Option<Secret> {
        if !enabled && self.environment.variable(name).is_none() {
            return self
                .check_variable_name(path, name)
                .then(|| Secret::from_variable(name, ""));
        }
        self.variable(path, name)
    }

    fn literal(&mut self, backend: &str, table: &str, key: &str, text: &str) -> Secret {
        let secret = Secret::from_file(key, text);
        if *secret.origin() == Origin::FileHidden {
            self.credential_in_file(backend, &format!("{table}.{key}"), &format!("{key}_ENV"));
        }
        secret
    }

    fn credential_in_file(&mut self, backend: &str, key: &str, instead: &str) {
        self.notices.push(format!(
            "backend `{backend}`: `{key}` looks like a credential written in the file; use {instead}"
        ));
    }

    fn tools(&mut self, here: &Path, raw: &RawBackend) {
        let mut taken: HashMap<&str, &str> = HashMap::new();
        for (theirs, ours) in &raw.tools.rename {
            let path = here.key("tools").key("rename").key(theirs);
            let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            if ours.is_empty() || ours.len() > 128 || !ours.chars().all(good) {
                let expected = "1 to 128 letters, digits, underscores, hyphens and dots";
                self.wrong(
                    &path,
                    format!("\"{ours}\" cannot be a tool's name"),
                    expected,
                );
            }
            if let Some(other) = taken.insert(ours, theirs) {
                self.wrong(
                    &path,
                    format!("\"{other}\" is renamed to \"{ours}\" too"),
                    "",
                );
            }
        }
    }

    fn postgres_backend(&mut self, here: &Path, raw: &RawBackend) -> Option<PostgresBackend> {
        self.needs(
            here,
            BackendType::Postgres,
            "url_env",
            "\"SHOP_DATABASE_URL\"",
            &raw.url_env,
        )
        .then_some(())?;
        Some(PostgresBackend {
            url: self.backend_variable(&here.key("url_env"), &raw.url_env, raw.enabled)?,
            schema: raw.schema.clone(),
            registry: raw.registry,
            statement_timeout: Duration::from_secs_f64(raw.statement_timeout),
            max_connections: raw.max_connections,
        })
    }

    fn openapi(&mut self, here: &Path, raw: &RawBackend) -> Option<OpenapiBackend> {
        let headers = self.headers(here, raw);
        let base_url = self.optional_url(&here.key("base_url"), &raw.base_url);
        self.needs(
            here,
            BackendType::Openapi,
            "spec",
            "\"petstore.json\"",
            &raw.spec,
        )
        .then_some(())?;
        let spec = if raw.spec.contains("://") {
            self.web_url(&here.key("spec"), &raw.spec)?.to_string()
        } else {
            self.path(&here.key("spec"), &raw.spec).to_str()?.to_owned()
        };
        Some(OpenapiBackend {
            spec,
            base_url,
            headers,
        })
    }
}

/// A program and its arguments in one string, as a shell would have it; a path may have spaces.
pub fn command_line(command: &str) -> Option<(&str, &str)> {
    command
        .split_once(' ')
        .filter(|(program, _)| !program.is_empty() && !program.contains(['/', '\\', '~']))
}

/// A name made of what a backend's name may have: `My Server!` becomes `my-server`.
pub fn backend_name(name: &str) -> Option<String> {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(32);
    let out = out.trim_end_matches('-');
    match out {
        "" => None,
        "tools" | "admin" | "review" => Some(format!("{out}-server")),
        _ => Some(out.to_owned()),
    }
}

/// Header names know no case, so neither does their suffix.
fn strip_env_suffix(key: &str) -> Option<&str> {
    let cut = key.len().checked_sub("_ENV".len())?;
    key.get(cut..)?
        .eq_ignore_ascii_case("_ENV")
        .then(|| &key[..cut])
}

/// "/mcp" where nothing was said.
fn with_path(uri: http::Uri) -> http::Uri {
    if !matches!(uri.path(), "" | "/") {
        return uri;
    }
    let query = uri
        .query()
        .map_or(String::new(), |query| format!("?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("/mcp{query}").parse().ok();
    http::Uri::from_parts(parts).unwrap_or(uri)
}

fn word(kind: BackendType) -> &'static str {
    match kind {
        BackendType::Http => "http",
        BackendType::Stdio => "stdio",
        BackendType::Postgres => "postgres",
        BackendType::Openapi => "openapi",
    }
}
