//! `[auth]`: who callers are.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::builder::Builder;
use crate::mistake::Mistake;
use crate::secret::Secret;
use crate::section::{seconds, section};
use crate::tree::Path;

/// Shorter HS256 secrets can be guessed from one token (RFC 7518, section 3.2).
const HS256_SECRET_BYTES_MIN: usize = 32;

section! {
    /// Who callers are. Absent: local callers are trusted, and the gateway listens on loopback only.
    #[schemars(rename = "Auth", extend("x-off" = true))]
    RawAuth => Auth {
        /// Environment variable with the secret of HS256 tokens.
        Live jwt_secret_env (jwt_secret): String = "JWT_SECRET_KEY".into();
        /// Issuer that a token must name.
        Live jwt_issuer: String = "sentinel-gateway".into();
        /// Audience that a token must name.
        Live jwt_audience: String = "sentinel-api".into();
        /// Public keys of tokens: a file or an https URL.
        Live jwks: String = String::new();
        /// Accept API keys that this gateway issued.
        Live api_keys: bool = true;
        /// This gateway's canonical URI, for OAuth metadata.
        Live resource: String = String::new();
        /// OAuth authorization servers that the metadata names.
        Live authorization_servers: Vec<String> = Vec::new();
        /// Scopes that every token must have, whatever it is used for. Tokens without them get 403.
        Live required_scopes: Vec<String> = Vec::new();
        /// Claim that holds the role.
        Live role_claim: String = "role".into();
        /// Role of a token without that claim. Empty refuses such tokens.
        Live default_role: String = String::new();
        /// Claim that holds the tenant.
        Live tenant_claim: String = "tenant_id".into();
        /// Seconds of clock difference that are tolerated.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0, max = 600))]
        Live leeway: Duration = Duration::from_secs(60);
        /// Environment variable with a token for the caller on stdio, checked once at start.
        Restart stdio_token_env (stdio_token): String = String::new();
        /// Role of a caller without credentials. Empty refuses such callers.
        Live anonymous_role: String = String::new();
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Auth {
    /// None: no HS256 tokens.
    #[serde(rename = "jwt_secret_env", skip_serializing_if = "Option::is_none")]
    pub jwt_secret: Option<Secret>,
    pub jwt_issuer: String,
    pub jwt_audience: String,
    pub jwks: KeySource,
    pub api_keys: bool,
    pub resource: String,
    pub authorization_servers: Vec<String>,
    pub required_scopes: Vec<String>,
    pub role_claim: String,
    /// Empty refuses tokens without a role.
    pub default_role: String,
    pub tenant_claim: String,
    #[serde(with = "seconds")]
    pub leeway: Duration,
    /// None: the caller on stdio has `gateway.stdio_role`.
    #[serde(rename = "stdio_token_env", skip_serializing_if = "Option::is_none")]
    pub stdio_token: Option<Secret>,
    /// Empty refuses callers without credentials.
    pub anonymous_role: String,
}

/// Where the public keys of tokens are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    None,
    File(PathBuf),
    Url(http::Uri),
}

impl Serialize for KeySource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str(""),
            Self::File(path) => path.serialize(serializer),
            Self::Url(url) => serializer.collect_str(url),
        }
    }
}

impl Builder<'_> {
    pub(crate) fn auth(&mut self, raw: &RawAuth) -> Auth {
        let at = |key: &str| Path::dotted("auth").key(key);
        let named = self.tree.has(&at("jwt_secret_env"));
        let jwt_secret = match raw.jwt_secret_env.as_str() {
            "" => None,
            // The default name counts only where the variable exists.
            name if !named && self.environment.variable(name).is_none() => None,
            name => self.variable(&at("jwt_secret_env"), name),
        };
        if jwt_secret.is_none() && !named && raw.jwks.is_empty() && !raw.api_keys {
            let span = self.tree.key_span(&Path::dotted("auth"));
            let mistake = Mistake::new(span, "[auth] leaves no way to authenticate");
            let help = "set jwt_secret_env or jwks, or allow api_keys";
            self.mistakes.push(mistake.help(help));
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
            // A short secret can be found by brute force from one of its tokens.
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
            leeway: raw.leeway,
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
            let message = "keys cannot be trusted over http";
            self.wrong(path, message, "a file or an https URL");
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
}
