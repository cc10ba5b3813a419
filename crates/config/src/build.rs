//! From what the file says to what the program needs.
//!
//! Nothing here stops at the first mistake: a value that cannot be used is reported, a stand-in takes
//! its place, and the stand-in is never seen because a configuration with mistakes is not returned.
//!
//! Not here: the shape of the file (`shape`), one backend (`build::backend`), words about addresses,
//! URLs and paths (`build::values`).

pub(crate) mod backend;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use super::mistake::Mistake;
use super::raw::{
    RawAdmission, RawAudit, RawAuth, RawConfig, RawGateway, RawKillSwitch, RawLimits,
    RawRateLimits, RawRbac, RawReview, RawTelemetry,
};
use super::secret::Secret;
use super::settings::{
    Admission, Audit, Auth, Config, Console, Gateway, KeySource, KillSwitch, Limits, Postgres,
    RateLimits, Rbac, Redis, Review, Sqlite, Telemetry,
};
use super::suggest::nearest;
use super::tree::{Path, Tree};
use super::{Environment, Overrides, pending};

/// Shorter HS256 secrets can be guessed from one token (RFC 7518, section 3.2).
const HS256_SECRET_BYTES_MIN: usize = 32;

/// Whether an address that the network reaches may be listened on (P-S15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exposure {
    /// Callers are authenticated.
    Authenticated,
    /// They are not, and the file says in words that this is meant.
    Allowed,
    /// They are not.
    Refused,
}

/// Builds the configuration, or says everything that is wrong with it.
pub(crate) struct Builder<'a> {
    pub(crate) tree: &'a Tree,
    /// Reported and taken out by the shape check.
    pub(crate) removed: &'a BTreeSet<Path>,
    pub(crate) environment: &'a Environment<'a>,
    /// Relative paths of the file start here.
    pub(crate) base: &'a FilePath,
    /// The file has syntax errors: what seems missing may be what could not be read.
    pub(crate) incomplete: bool,
    pub(crate) mistakes: Vec<Mistake>,
    pub(crate) notices: Vec<String>,
}

impl Builder<'_> {
    pub(crate) fn build(&mut self, raw: RawConfig, overrides: &Overrides) -> Config {
        self.mistakes.extend(pending::refused(self.tree));
        self.notices.extend(pending::noticed(self.tree));

        let has_auth = self.tree.has(&Path::dotted("auth"));
        let names: Vec<String> = raw.backends.iter().map(|b| b.name.clone()).collect();
        self.roles(&raw);
        self.check_overload_code(&raw.admission);
        let exposure = match (has_auth, raw.gateway.allow_unauthenticated_network) {
            (true, _) => Exposure::Authenticated,
            (false, true) => Exposure::Allowed,
            (false, false) => Exposure::Refused,
        };
        let gateway = self.gateway(&raw.gateway, exposure, overrides);
        let sqlite_path = match raw.sqlite.path.as_str() {
            "" => gateway.data_dir.join("sentinel.db"),
            path => self.path(&Path::dotted("sqlite.path"), path),
        };
        Config {
            auth: has_auth.then(|| self.auth(&raw.auth)),
            postgres: self.postgres(&raw),
            sqlite: Sqlite { path: sqlite_path },
            redis: self.redis(&raw),
            admission: self.admission(&raw.admission),
            rate_limits: self.rate_limits(raw.rate_limits),
            kill_switch: self.kill_switch(raw.kill_switch, &names),
            audit: audit(&raw.audit),
            limits: limits(&raw.limits),
            review: self.review(&raw.review, exposure),
            telemetry: self.telemetry(&raw.telemetry),
            console: Console {
                enabled: raw.console.enabled,
            },
            rbac: self.rbac(raw.rbac, &names),
            backends: self.backends(raw.backends, raw.audit.guarantee),
            gateway,
            notices: Vec::new(),
        }
    }

    fn gateway(&mut self, raw: &RawGateway, exposure: Exposure, overrides: &Overrides) -> Gateway {
        let at = |key: &str| Path::dotted("gateway").key(key);
        let listen = match &overrides.listen {
            Some(listen) => self.address(&Path::dotted("--listen"), listen, exposure),
            None => self.address(&at("listen"), &raw.listen, exposure),
        };
        let health_listen = self.address(&at("health_listen"), &raw.health_listen, exposure);
        if listen.is_some_and(|l| l.port() != 0) && listen == health_listen {
            let span = self.tree.value_span(&at("health_listen"));
            self.mistakes.push(
                Mistake::new(span, "`health_listen` is the address of `listen`")
                    .help("use another port"),
            );
        }
        Gateway {
            listen,
            health_listen,
            allow_unauthenticated_network: raw.allow_unauthenticated_network,
            log_level: self.log_level(raw, overrides),
            log_format: raw.log_format,
            audit_enabled: raw.audit_enabled,
            data_dir: self.data_dir(raw, overrides),
            stdio_role: raw.stdio_role.clone(),
            drain_timeout: Duration::from_secs_f64(raw.drain_timeout),
            allowed_hosts: self.hosts(&at("allowed_hosts"), &raw.allowed_hosts),
            allowed_origins: self.origins(&at("allowed_origins"), &raw.allowed_origins),
        }
    }

    /// --data-dir, SENTINEL_DATA_DIR, the file, then the user's data directory.
    fn data_dir(&mut self, raw: &RawGateway, overrides: &Overrides) -> PathBuf {
        let here = Path::dotted("gateway.data_dir");
        if let Some(dir) = &overrides.data_dir {
            return self.environment.cwd.join(dir);
        }
        if !raw.data_dir.is_empty() {
            return self.path(&here, &raw.data_dir);
        }
        if let Some(dir) = self.environment.directory("XDG_DATA_HOME") {
            return dir.join("sentinel");
        }
        match self.environment.home() {
            Some(home) => home.join(".local/share/sentinel"),
            None => {
                let mistake = Mistake::new(
                    None,
                    "there is no place for data: neither HOME nor XDG_DATA_HOME is set",
                );
                self.mistakes
                    .push(mistake.help("set gateway.data_dir or pass --data-dir"));
                PathBuf::new()
            }
        }
    }

    /// Roles that other keys name must exist.
    fn roles(&mut self, raw: &RawConfig) {
        let mut known: Vec<&str> = raw.rbac.roles.keys().map(String::as_str).collect();
        known.push("admin");
        for (path, role, may_be_empty) in [
            ("gateway.stdio_role", &raw.gateway.stdio_role, false),
            ("auth.default_role", &raw.auth.default_role, true),
            ("auth.anonymous_role", &raw.auth.anonymous_role, true),
        ] {
            if known.contains(&role.as_str()) || (role.is_empty() && may_be_empty) {
                continue;
            }
            let help = nearest(role, known.iter().copied())
                .map(|near| format!("did you mean \"{near}\"?"));
            let mistake = Mistake::new(
                self.tree.value_span(&Path::dotted(path)),
                format!("there is no role \"{role}\""),
            )
            .expected("admin, or a role of [rbac.roles]")
            .maybe_help(help);
            self.mistakes.push(mistake);
        }
    }

    fn auth(&mut self, raw: &RawAuth) -> Auth {
        let at = |key: &str| Path::dotted("auth").key(key);
        let named = self.tree.has(&at("jwt_secret_env"));
        let jwt_secret = match raw.jwt_secret_env.as_str() {
            "" => None,
            // The default name counts only where the variable exists.
            name if !named && self.environment.variable(name).is_none() => None,
            name => self.variable(&at("jwt_secret_env"), name),
        };
        if jwt_secret.is_none() && !named && raw.jwks.is_empty() && !raw.api_keys {
            let mistake = Mistake::new(
                self.tree.key_span(&Path::dotted("auth")),
                "[auth] leaves no way to authenticate",
            );
            self.mistakes
                .push(mistake.help("set jwt_secret_env or jwks, or allow api_keys"));
        }
        for (key, value) in [
            ("jwt_issuer", &raw.jwt_issuer),
            ("jwt_audience", &raw.jwt_audience),
            ("role_claim", &raw.role_claim),
        ] {
            if value.is_empty() {
                let message = format!("`{key}` must not be empty");
                self.wrong(&at(key), message, "");
            }
        }
        if let Some(secret) = &jwt_secret
            && secret.expose().len() < HS256_SECRET_BYTES_MIN
        {
            // Whoever has one token of a short secret can try all secrets until one fits.
            let span = self.tree.value_span(&at("jwt_secret_env"));
            let span = span.or_else(|| self.tree.key_span(&Path::dotted("auth")));
            let name = &raw.jwt_secret_env;
            let message = format!(
                "the secret in {name} has {} bytes: it can be guessed",
                secret.expose().len()
            );
            let mistake = Mistake::new(span, message)
                .expected(format!("at least {HS256_SECRET_BYTES_MIN} bytes"));
            let help = format!("export {name}=\"$(openssl rand -base64 48)\"");
            self.mistakes.push(mistake.help(help));
        }
        for (index, scope) in raw.required_scopes.iter().enumerate() {
            // RFC 6749 3.3: visible characters without quotes.
            let odd = |b: u8| !b.is_ascii_graphic() || matches!(b, b'"' | b'\\');
            if scope.is_empty() || scope.bytes().any(odd) {
                let place = at("required_scopes").index(index);
                self.wrong(&place, format!("\"{scope}\" is no scope"), "one word");
            }
        }
        for (index, server) in raw.authorization_servers.iter().enumerate() {
            self.web_url(&at("authorization_servers").index(index), server);
        }
        if !raw.resource.is_empty() {
            self.web_url(&at("resource"), &raw.resource);
        }
        Auth {
            jwt_secret,
            jwt_issuer: raw.jwt_issuer.clone(),
            jwt_audience: raw.jwt_audience.clone(),
            jwks: self.key_source(&at("jwks"), &raw.jwks),
            api_keys: raw.api_keys,
            resource: raw.resource.clone(),
            authorization_servers: raw.authorization_servers.clone(),
            required_scopes: raw.required_scopes.clone(),
            role_claim: raw.role_claim.clone(),
            default_role: raw.default_role.clone(),
            tenant_claim: raw.tenant_claim.clone(),
            leeway: Duration::from_secs_f64(raw.leeway),
            stdio_token: match raw.stdio_token_env.as_str() {
                "" => None,
                name => self.variable(&at("stdio_token_env"), name),
            },
            anonymous_role: raw.anonymous_role.clone(),
        }
    }

    fn key_source(&mut self, path: &Path, text: &str) -> KeySource {
        if text.is_empty() {
            return KeySource::None;
        }
        if !text.contains("://") {
            let file = self.path(path, text);
            self.check_keys(path, &file);
            return KeySource::File(file);
        }
        if text.starts_with("http://") {
            let span = self.tree.value_span(path);
            self.mistakes.push(
                Mistake::new(span, "keys cannot be trusted over http")
                    .expected("a file or an https URL"),
            );
        }
        self.web_url(path, text)
            .map_or(KeySource::None, KeySource::Url)
    }

    /// Looked at here, so that `check` and a reload tell of it, too, and not only a start that fails.
    fn check_keys(&mut self, path: &Path, file: &std::path::Path) {
        let why = match std::fs::read(file) {
            Ok(text) => (self.environment.validators.key_set)(&text).err(),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = why {
            let message = format!("the keys in {} cannot be used: {why}", file.display());
            self.wrong(
                path,
                message,
                "a file with a JSON Web Key Set, or an https URL of one",
            );
        }
    }

    fn postgres(&mut self, raw: &RawConfig) -> Option<Postgres> {
        let here = Path::dotted("postgres");
        if !self.tree.has(&here) {
            return None;
        }
        let url = self.variable_in(&here, "url_env", &raw.postgres.url_env)?;
        if let Err(why) = (self.environment.validators.postgres_url)(url.expose()) {
            let span = self.tree.value_span(&here.key("url_env"));
            let span = span.or_else(|| self.tree.key_span(&here));
            let message = format!("{}: {why}", raw.postgres.url_env);
            self.mistakes.push(
                Mistake::new(span, message).expected("postgres://user:password@host/database"),
            );
        }
        Some(Postgres {
            url,
            max_connections: raw.postgres.max_connections,
        })
    }

    fn redis(&mut self, raw: &RawConfig) -> Option<Redis> {
        let here = Path::dotted("redis");
        if !self.tree.has(&here) {
            return None;
        }
        let url = self.variable_in(&here, "url_env", &raw.redis.url_env)?;
        if let Err(why) = (self.environment.validators.redis_url)(url.expose()) {
            let span = self.tree.value_span(&here.key("url_env"));
            let span = span.or_else(|| self.tree.key_span(&here));
            let message = format!("{}: {why}", raw.redis.url_env);
            self.mistakes
                .push(Mistake::new(span, message).expected("redis://user:password@host/database"));
        }
        Some(Redis { url })
    }

    /// A variable named by a key of a section, or by that key's default.
    fn variable_in(&mut self, section: &Path, key: &str, name: &str) -> Option<Secret> {
        let named = section.key(key);
        let place = if self.tree.has(&named) {
            named
        } else {
            section.clone()
        };
        self.variable(&place, name)
    }

    /// Codes that MCP or JSON-RPC define for something else would mislead a caller.
    fn check_overload_code(&mut self, raw: &RawAdmission) {
        let code = raw.overload_error_code;
        if (-32768..=-32100).contains(&code) || (-32099..=-32020).contains(&code) {
            let span = self
                .tree
                .value_span(&Path::dotted("admission.overload_error_code"));
            let mistake = Mistake::new(
                span,
                format!("the code {code} is reserved by JSON-RPC or MCP"),
            );
            self.mistakes.push(
                mistake.expected("a code from -32019 to -32000, or outside -32768 to -32000"),
            );
        }
    }

    fn admission(&mut self, raw: &RawAdmission) -> Admission {
        Admission {
            max_concurrent: raw.max_concurrent,
            queue_size: raw.queue_size,
            queue_timeout: Duration::from_secs_f64(raw.queue_timeout),
            overload_error_code: raw.overload_error_code,
            on_overload: self
                .optional_url(&Path::dotted("admission.on_overload"), &raw.on_overload),
        }
    }

    fn rate_limits(&mut self, raw: RawRateLimits) -> RateLimits {
        if raw.per_tool.contains_key("") {
            let here = Path::dotted("rate_limits.per_tool").key("");
            self.wrong(&here, "no tool has an empty name", "a tool, or a pattern");
        }
        RateLimits {
            default_rpm: raw.default_rpm,
            burst: raw.burst,
            per_tool: raw.per_tool,
        }
    }

    fn kill_switch(&mut self, raw: RawKillSwitch, names: &[String]) -> KillSwitch {
        let here = Path::dotted("kill_switch.disabled_backends");
        for (index, name) in raw.disabled_backends.iter().enumerate() {
            self.known_backend(&here.index(index), name, names);
        }
        let here = Path::dotted("kill_switch.disabled_callers");
        for (index, name) in raw.disabled_callers.iter().enumerate() {
            if name.is_empty() {
                self.wrong(
                    &here.index(index),
                    "no caller has an empty name",
                    "a subject",
                );
            }
        }
        KillSwitch {
            disabled_tools: raw.disabled_tools,
            disabled_backends: raw.disabled_backends,
            disabled_callers: raw.disabled_callers,
            everything: raw.everything,
        }
    }

    fn known_backend(&mut self, path: &Path, name: &str, names: &[String]) {
        // The built-in broker can be switched off like a backend.
        if name == "review" || names.iter().any(|known| known == name) {
            return;
        }
        let help = nearest(name, names.iter().map(String::as_str))
            .map(|near| format!("did you mean \"{near}\"?"));
        let mistake = Mistake::new(
            self.tree.value_span(path),
            format!("there is no backend \"{name}\""),
        )
        .maybe_help(help);
        self.mistakes.push(mistake);
    }

    fn rbac(&mut self, raw: RawRbac, names: &[String]) -> Rbac {
        for (role, rules) in &raw.roles {
            let here = Path::dotted("rbac.roles").key(role);
            if role.is_empty() {
                let span = self.tree.key_span(&here);
                self.mistakes
                    .push(Mistake::new(span, "a role needs a name"));
            }
            let here = here.key("permissions");
            for (index, permission) in rules.permissions.iter().enumerate() {
                self.permission(&here.index(index), permission, names);
            }
        }
        let mut roles: BTreeMap<_, _> = raw.roles;
        roles
            .entry("admin".into())
            .or_insert_with(|| super::raw::RawRole {
                permissions: vec!["*".into()],
                denied_tools: Vec::new(),
            });
        Rbac { roles }
    }

    fn permission(&mut self, path: &Path, text: &str, names: &[String]) {
        const WORDS: [&str; 4] = ["*", "admin", "tools.read", "tools.execute"];
        if WORDS.contains(&text)
            || text
                .strip_prefix("tool:")
                .is_some_and(|glob| !glob.is_empty())
        {
            return;
        }
        let slip = nearest(text, WORDS);
        if let (None, Some((backend, rest))) = (slip, text.split_once('.'))
            && !rest.is_empty()
        {
            return self.known_backend(path, backend, names);
        }
        let mistake = Mistake::new(self.tree.value_span(path), format!("\"{text}\" is no permission"))
            .expected("\"*\", \"admin\", \"tools.read\", \"tools.execute\", \"<backend>.*\" or \"tool:<glob>\"")
            .maybe_help(slip.map(|near| format!("did you mean \"{near}\"?")));
        self.mistakes.push(mistake);
    }

    fn review(&mut self, raw: &RawReview, exposure: Exposure) -> Review {
        let listen = self.address(&Path::dotted("review.listen"), &raw.listen, exposure);
        Review {
            enabled: raw.enabled,
            claim_timeout: Duration::from_secs_f64(raw.claim_timeout),
            extended_tools: raw.extended_tools,
            enforce_roles: raw.enforce_roles,
            listen,
            alone: false,
        }
    }

    fn telemetry(&mut self, raw: &RawTelemetry) -> Telemetry {
        Telemetry {
            metrics: raw.metrics,
            otlp_endpoint: self
                .optional_url(&Path::dotted("telemetry.otlp_endpoint"), &raw.otlp_endpoint),
        }
    }
}

fn audit(raw: &RawAudit) -> Audit {
    Audit {
        guarantee: raw.guarantee,
        spool_max: u64::from(raw.spool_max_mb) << 20,
        buffer_records: raw.buffer,
        retention_days: raw.retention_days,
        arguments: raw.arguments,
    }
}

fn limits(raw: &RawLimits) -> Limits {
    let mebibytes = |n: u32| u64::from(n) << 20;
    let kibibytes = |n: u32| u64::from(n) << 10;
    Limits {
        body: mebibytes(raw.body_mb),
        line: mebibytes(raw.line_mb),
        reply: mebibytes(raw.reply_mb),
        event: mebibytes(raw.event_mb),
        json_depth: raw.json_depth,
        header: kibibytes(raw.header_kb),
        header_fields: raw.header_fields,
        first_byte_timeout: Duration::from_secs_f64(raw.first_byte_timeout),
        head_timeout: Duration::from_secs_f64(raw.head_timeout),
        body_min_per_s: kibibytes(raw.body_min_kb_per_s),
        stream_buffer: kibibytes(raw.stream_buffer_kb),
        sessions: raw.sessions,
        session_idle: Duration::from_secs_f64(raw.session_idle),
        streams: raw.streams,
        park_ttl: Duration::from_secs_f64(raw.park_ttl),
    }
}
