//! `type = "openapi"`: an HTTP API described by OpenAPI.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::entries::{RawEntry, pairs};
use super::{Kind, Site};
use crate::builder::Builder;
use crate::secret::Secret;
use crate::section::{Mebibytes, seconds, section, shown_or_empty};

section! {
    /// An HTTP API described by OpenAPI.
    RawOpenapi => OpenapiBackend {
        /// The description, a file or a URL: OpenAPI 3.0, 3.1 or Swagger 2.0, as JSON or YAML.
        #[schemars(example = &"petstore.json")]
        Replace spec: String = String::new();
        /// Where the API is. Empty: as the description says.
        Replace base_url: String = String::new();
        /// Values for the variables in the description's server URLs; otherwise their defaults.
        #[schemars(example = json!({ "region": "eu" }))]
        Replace server_variables: BTreeMap<String, String> = BTreeMap::new();
        /// Request headers, as for type "http".
        Replace headers: BTreeMap<String, RawEntry> = BTreeMap::new();
        /// Credentials for the security schemes of the description.
        #[schemars(example = json!({ "bearer_env": "PETSTORE_TOKEN" }))]
        Replace auth: RawAuth = RawAuth::default();
        /// Operations that become tools: "tag:NAME", "METHOD", "/path/*", "METHOD /path/*" or an operation's id. Empty: all.
        #[schemars(example = json!(["tag:pets", "GET /store/*"]))]
        Replace include: Vec<String> = Vec::new();
        /// Operations that do not although included, in the same words.
        #[schemars(example = json!(["DELETE"]))]
        Replace exclude: Vec<String> = Vec::new();
        /// Largest number of tools that are made.
        #[schemars(range(min = 1, max = 20_000))]
        Replace max_operations: u32 = 1000;
        /// Largest description, in MiB.
        #[schemars(range(min = 1, max = 256))]
        Replace max_document_mb: Mebibytes = Mebibytes(32);
        /// Seconds after which the description is read again; 0 is only at the start.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 0, max = 604_800))]
        Replace refresh: Duration = Duration::from_secs(3600);
        /// Whether tools have output schemas. False for an API that does not keep to its own description.
        Replace output_schemas: bool = true;
        /// Whether servers that the description, a redirect or a reference names may have private addresses.
        Replace allow_private: bool = false;
    }
}

section! {
    /// Credentials for the security schemes of the description.
    #[schemars(rename = "ApiAuth")]
    RawAuth => ApiAuth {
        /// Environment variable with the token for schemes of type bearer, oauth2 and openIdConnect.
        #[schemars(example = &"PETSTORE_TOKEN")]
        Replace bearer_env (bearer): String = String::new();
        /// Environment variable with "user:password" for schemes of type basic.
        #[schemars(example = &"PETSTORE_USER")]
        Replace basic_env (basic): String = String::new();
        /// Environment variable with the key for schemes of type apiKey.
        #[schemars(example = &"PETSTORE_KEY")]
        Replace api_key_env (api_key): String = String::new();
        /// Environment variables for single schemes, by the scheme's name.
        #[schemars(example = json!({ "partner": "PARTNER_KEY" }))]
        Replace schemes: BTreeMap<String, String> = BTreeMap::new();
    }
}

/// Shown as the configuration has it: the names of the variables.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ApiAuth {
    #[serde(rename = "bearer_env")]
    pub bearer: Option<Secret>,
    #[serde(rename = "basic_env")]
    pub basic: Option<Secret>,
    #[serde(rename = "api_key_env")]
    pub api_key: Option<Secret>,
    pub schemes: BTreeMap<String, Secret>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenapiBackend {
    /// A path or a URL.
    pub spec: String,
    /// None: as the description says.
    #[serde(serialize_with = "shown_or_empty")]
    pub base_url: Option<http::Uri>,
    pub server_variables: BTreeMap<String, String>,
    #[serde(serialize_with = "pairs")]
    pub headers: Vec<(String, Secret)>,
    /// Boxed: the other kinds are a third as large.
    pub auth: Box<ApiAuth>,
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    pub max_operations: u32,
    pub max_document_mb: Mebibytes,
    /// Zero: only at the start.
    #[serde(with = "seconds")]
    pub refresh: Duration,
    pub output_schemas: bool,
    pub allow_private: bool,
}

impl Kind for RawOpenapi {
    type Built = OpenapiBackend;
    const NEEDS: &'static [&'static str] = &["spec"];

    fn build(&self, builder: &mut Builder<'_>, site: &Site<'_>) -> Option<OpenapiBackend> {
        let headers = builder.headers(site, &self.headers);
        let auth = builder.api_auth(site, &self.auth);
        let base_url = builder.optional_url(&site.path.key("base_url"), &self.base_url);
        for (key, rules) in [("include", &self.include), ("exclude", &self.exclude)] {
            for (index, rule) in rules.iter().enumerate() {
                if rule.trim().is_empty() || rule == "tag:" {
                    let expected = "\"tag:NAME\", \"METHOD\", \"/path/*\", \"METHOD /path/*\" or an operation's id";
                    builder.wrong(
                        &site.path.key(key).index(index),
                        "this chooses nothing",
                        expected,
                    );
                }
            }
        }
        builder
            .needs(site, "spec", "\"petstore.json\"", &self.spec)
            .then_some(())?;
        let path = site.path.key("spec");
        let spec = if self.spec.contains("://") {
            builder.web_url(&path, &self.spec)?.to_string()
        } else {
            builder.path(&path, &self.spec).to_str()?.to_owned()
        };
        Some(OpenapiBackend {
            spec,
            base_url,
            server_variables: self.server_variables.clone(),
            headers,
            auth: Box::new(auth),
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            max_operations: self.max_operations,
            max_document_mb: self.max_document_mb,
            refresh: self.refresh,
            output_schemas: self.output_schemas,
            allow_private: self.allow_private,
        })
    }
}

impl Builder<'_> {
    fn api_auth(&mut self, site: &Site<'_>, raw: &RawAuth) -> ApiAuth {
        let here = site.path.key("auth");
        let mut one = |key: &str, name: &str| match name {
            "" => None,
            _ => self.backend_variable(&here.key(key), name, site.enabled),
        };
        let [bearer, basic, api_key] = [
            ("bearer_env", &raw.bearer_env),
            ("basic_env", &raw.basic_env),
            ("api_key_env", &raw.api_key_env),
        ]
        .map(|(key, name)| one(key, name));
        let schemes = raw.schemes.iter().filter_map(|(scheme, name)| {
            let path = here.key("schemes").key(scheme);
            Some((
                scheme.clone(),
                self.backend_variable(&path, name, site.enabled)?,
            ))
        });
        let schemes = schemes.collect();
        ApiAuth {
            bearer,
            basic,
            api_key,
            schemes,
        }
    }
}
