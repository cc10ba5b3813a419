//! `type = "http"`: an MCP server over HTTP.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::entries::{RawEntry, pairs};
use super::{Kind, Revision, Site};
use crate::builder::Builder;
use crate::builder::values::parse_url;
use crate::credentials;
use crate::secret::{Endpoint, Secret};
use crate::section::section;

section! {
    /// An MCP server over HTTP.
    RawHttp => HttpBackend {
        /// The server's URL; "/mcp" is added when there is no path.
        #[schemars(example = &"http://127.0.0.1:3000")]
        Replace url: String = String::new();
        /// Environment variable with the URL, for URLs that contain a credential.
        #[schemars(example = &"N8N_URL", extend("x-off" = true))]
        Replace url_env (url): String = String::new();
        /// Request headers. `Name_ENV = "VAR"` takes the value from the variable VAR, any other name is literal.
        #[schemars(example = json!({ "Authorization_ENV": "N8N_TOKEN", "X-Client": "sentinel" }))]
        Replace headers: BTreeMap<String, RawEntry> = BTreeMap::new();
        /// How often a request that was not delivered is tried again.
        #[schemars(range(min = 0, max = 10))]
        Replace retries: u32 = 3;
        /// The MCP revision that is spoken with it. Auto: what the server offers, in the era of each caller.
        Replace revision: Revision = Revision::Auto;
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HttpBackend {
    pub url: Endpoint,
    pub retries: u32,
    pub revision: Revision,
    #[serde(serialize_with = "pairs")]
    pub headers: Vec<(String, Secret)>,
}

impl Kind for RawHttp {
    type Built = HttpBackend;
    const NEEDS: &'static [&'static str] = &["url", "url_env"];

    fn build(&self, builder: &mut Builder<'_>, site: &Site<'_>) -> Option<HttpBackend> {
        let headers = builder.headers(site, &self.headers);
        Some(HttpBackend {
            url: builder.http_url(site, self)?,
            retries: self.retries,
            revision: self.revision,
            headers,
        })
    }
}

impl Builder<'_> {
    fn http_url(&mut self, site: &Site<'_>, raw: &RawHttp) -> Option<Endpoint> {
        let variable_path = site.path.key("url_env");
        if raw.url_env.is_empty() {
            self.needs(site, "url", "\"http://127.0.0.1:3000\"", &raw.url)
                .then_some(())?;
            if credentials::url_credential(&raw.url) {
                self.credential_in_file(site.name, "url", "url_env");
            }
            let uri = self.web_url(&site.path.key("url"), &raw.url)?;
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
        let value = self.backend_variable(&variable_path, &raw.url_env, site.enabled)?;
        let stand_in = "http://127.0.0.1/";
        let text = if site.enabled {
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
