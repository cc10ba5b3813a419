//! `type = "openapi"`: an HTTP API described by OpenAPI.

use std::collections::BTreeMap;

use serde::Serialize;

use super::entries::{RawEntry, pairs};
use super::{Kind, Site};
use crate::builder::Builder;
use crate::secret::Secret;
use crate::section::{section, shown_or_empty};

section! {
    /// An HTTP API described by OpenAPI.
    RawOpenapi => OpenapiBackend {
        /// The description, a file or a URL.
        #[schemars(example = &"petstore.json")]
        Replace spec: String = String::new();
        /// Where the API is. Empty: as the description says.
        Replace base_url: String = String::new();
        /// Request headers, as for type "http".
        Replace headers: BTreeMap<String, RawEntry> = BTreeMap::new();
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenapiBackend {
    /// A path or a URL.
    pub spec: String,
    /// None: as the description says.
    #[serde(serialize_with = "shown_or_empty")]
    pub base_url: Option<http::Uri>,
    #[serde(serialize_with = "pairs")]
    pub headers: Vec<(String, Secret)>,
}

impl Kind for RawOpenapi {
    type Built = OpenapiBackend;
    const NEEDS: &'static [&'static str] = &["spec"];
    const PENDING: Option<&'static str> = Some("OpenAPI backends");

    fn build(&self, builder: &mut Builder<'_>, site: &Site<'_>) -> Option<OpenapiBackend> {
        let headers = builder.headers(site, &self.headers);
        let base_url = builder.optional_url(&site.path.key("base_url"), &self.base_url);
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
            headers,
        })
    }
}
