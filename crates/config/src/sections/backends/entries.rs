//! Entries of `env` and `headers`: values that are literal or come from a variable.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::Site;
use crate::builder::Builder;
use crate::secret::{Origin, Secret};
use crate::tree::Path;

/// Headers that the gateway itself decides.
#[rustfmt::skip]
pub const OWN_HEADERS: [&str; 13] = [
    "accept", "accept-encoding", "connection", "content-length", "content-type", "host",
    "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "te",
    "transfer-encoding",
];

/// A value of `env` or `headers`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Value")]
pub(crate) enum RawEntry {
    /// Literal, or the name of a variable where the key ends in _ENV.
    Plain(String),
    /// Literal whatever the key ends in.
    Literal(RawLiteral),
}

/// A value that is literal whatever its key ends in.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Literal")]
pub(crate) struct RawLiteral {
    /// The value.
    pub(crate) value: String,
}

/// A literal under a name that would be read as the name of a variable says that it is one.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown<'a> {
    Plain(&'a Secret),
    Literal { value: &'a Secret },
}

pub(super) fn pairs<S: Serializer>(pairs: &[(String, Secret)], to: S) -> Result<S::Ok, S::Error> {
    let sorted: BTreeMap<&str, Shown<'_>> = pairs
        .iter()
        .map(
            |(name, value)| match name.to_ascii_uppercase().ends_with("_ENV") {
                true => (name.as_str(), Shown::Literal { value }),
                false => (name.as_str(), Shown::Plain(value)),
            },
        )
        .collect();
    to.collect_map(sorted)
}

impl Builder<'_> {
    pub(super) fn headers(
        &mut self,
        site: &Site<'_>,
        raw: &BTreeMap<String, RawEntry>,
    ) -> Vec<(String, Secret)> {
        let mut headers: BTreeMap<String, Secret> = BTreeMap::new();
        for (key, value) in raw {
            let path = site.path.key("headers").key(key);
            let (name, secret) = match (strip_env_suffix(key), value) {
                (Some(name), RawEntry::Plain(variable)) => {
                    (name, self.backend_variable(&path, variable, site.enabled))
                }
                (_, RawEntry::Plain(text)) => (
                    key.as_str(),
                    Some(self.literal(site.name, "headers", key, text)),
                ),
                (_, RawEntry::Literal(literal)) => (
                    key.as_str(),
                    Some(self.literal(site.name, "headers", key, &literal.value)),
                ),
            };
            let Ok(header) = name.parse::<HeaderName>() else {
                let message = format!("`{name}` cannot name a header");
                self.wrong(&path, message, "a name such as Authorization");
                continue;
            };
            if OWN_HEADERS.contains(&header.as_str()) {
                let message = format!("the header {name} is set by the gateway");
                self.wrong(&path, message, "");
            }
            let Some(secret) = secret else { continue };
            let text = secret.expose();
            if site.enabled && (text.is_empty() || HeaderValue::from_str(text).is_err()) {
                let message = format!("the value of {name} cannot be sent in a header");
                let expected = "visible characters, without a line break at the end";
                self.report(&path, message, |m| m.expected(expected).hide_line());
            }
            if headers.keys().any(|known| known.eq_ignore_ascii_case(name)) {
                self.wrong(&path, format!("the header {name} is given twice"), "");
            }
            headers.insert(name.to_owned(), secret);
        }
        headers.into_iter().collect()
    }

    /// A backend that is switched off may lack its variables.
    pub(super) fn backend_variable(
        &mut self,
        path: &Path,
        name: &str,
        enabled: bool,
    ) -> Option<Secret> {
        if !enabled && self.environment.variable(name).is_none() {
            return self
                .check_variable_name(path, name)
                .then(|| Secret::from_variable(name, ""));
        }
        self.variable(path, name)
    }

    pub(super) fn literal(&mut self, backend: &str, table: &str, key: &str, text: &str) -> Secret {
        let secret = Secret::from_file(key, text);
        if *secret.origin() == Origin::FileHidden {
            self.credential_in_file(backend, &format!("{table}.{key}"), &format!("{key}_ENV"));
        }
        secret
    }

    pub(super) fn credential_in_file(&mut self, backend: &str, key: &str, instead: &str) {
        self.notices.push(format!(
            "backend `{backend}`: `{key}` looks like a credential written in the file; use {instead}"
        ));
    }
}

/// Header names know no case, so neither does their suffix.
fn strip_env_suffix(key: &str) -> Option<&str> {
    let cut = key.len().checked_sub("_ENV".len())?;
    key.get(cut..)?
        .eq_ignore_ascii_case("_ENV")
        .then(|| &key[..cut])
}
