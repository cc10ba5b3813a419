//! The kind `openapi`: how its settings become a running backend.

use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use sentinel_config::{OpenapiBackend as Settings, Secret};
use sentinel_core::Backend;

use super::client::{Client, Origin, Place};
use super::select::Selection;
use super::source::Location;
use super::tools::Wishes;
use super::{Config, OpenapiBackend, TYPE};
use crate::http::wire::written;
use crate::kind::{BackendKind, Context, StartError};

impl BackendKind for Settings {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    fn target(&self) -> String {
        let spec = self.spec.split('?').next().unwrap_or_default();
        match &self.base_url {
            Some(base) => format!("{base} ({spec})"),
            None => spec.to_owned(),
        }
    }

    fn start(&self, context: Context) -> Result<Arc<dyn Backend>, StartError> {
        let bad = |what: &str| StartError::new(&context.name, what.to_owned());
        let header = |(name, value): &(String, Secret)| {
            let header: HeaderName = name
                .parse()
                .map_err(|_| bad("a header has no usable name"))?;
            let mut value = HeaderValue::from_str(value.expose())
                .map_err(|_| bad(&format!("the value of header {name}")))?;
            value.set_sensitive(true);
            Ok((header, value))
        };
        let headers: Vec<_> = self.headers.iter().map(header).collect::<Result<_, _>>()?;
        let location = match self.spec.contains("://") {
            true => {
                Location::Url(Place::of(&self.spec).ok_or_else(|| bad("`spec` is no usable URL"))?)
            }
            false => Location::File(PathBuf::from(&self.spec)),
        };
        let base = match &self.base_url {
            Some(url) => Some(base_of(url).ok_or_else(|| bad("`base_url` is no usable URL"))?),
            None => None,
        };
        let at: Option<&Origin> = match &location {
            Location::Url(place) => Some(&place.origin),
            Location::File(_) => None,
        };
        let trusted = at.into_iter().chain(base.iter().map(|base| &base.origin));
        let client = Client::new(trusted, self.allow_private);
        // A description that the API itself serves may want the same credentials.
        let same = base.as_ref().is_some_and(|base| at == Some(&base.origin));
        let document_fields = match same {
            true => written(&headers.iter().cloned().collect::<HeaderMap>()),
            false => Vec::new(),
        };
        let config = Config {
            target: self.target(),
            location,
            is_placed: base.is_some(),
            headers,
            document_fields,
            document_bytes_max: self.max_document_mb.bytes() as usize,
            timeout: context.timeout,
            refresh: self.refresh,
            unhealthy_after: context.unhealthy_after,
            reply_bytes_max: context.limits.reply,
            wishes: Arc::new(Wishes {
                base,
                variables: self.server_variables.clone(),
                auth: (*self.auth).clone(),
                selection: Selection::new(&self.include, &self.exclude),
                operations_max: self.max_operations as usize,
                output_schemas: self.output_schemas,
            }),
            name: context.name,
        };
        let backend = OpenapiBackend::new(config, client, context.publisher);
        context.runtime.spawn(backend.clone().run());
        Ok(Arc::new(backend))
    }

    fn advice(&self, problem: &str, _stderr: &[String]) -> String {
        advice(problem).to_owned()
    }

    fn weakened(&self) -> Vec<String> {
        let mut found = Vec::new();
        let plain = |url: &str| url.starts_with("http://") && !is_loopback(url);
        if self
            .base_url
            .as_ref()
            .is_some_and(|url| plain(&url.to_string()))
        {
            found.push(
                "its base_url is plain http: arguments, results and credentials travel readable"
                    .to_owned(),
            );
        }
        if plain(&self.spec) {
            found.push("its description comes over plain http: whoever is on the way decides where calls go".to_owned());
        }
        if self.allow_private {
            found.push("allow_private: its description and redirects may name servers of the private network".to_owned());
        }
        found
    }
}

/// The target ends without a slash, because every path of a description begins with one.
fn base_of(url: &http::Uri) -> Option<Place> {
    let mut place = Place::of(&url.to_string())?;
    let path = place.target.split('?').next().unwrap_or_default();
    place.target = path.trim_end_matches('/').to_owned();
    Some(place)
}

fn is_loopback(url: &str) -> bool {
    let host = Place::of(url)
        .map(|place| place.origin.host().to_owned())
        .unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

fn advice(problem: &str) -> &'static str {
    let has = |words: &str| problem.contains(words);
    if has("not public") {
        "name that server in `base_url`, or set `allow_private = true` if the description may lead into your network"
    } else if has("No such file") {
        "correct `spec`: relative paths start at the configuration file"
    } else if has("cannot be fetched") || has("not read within") {
        "look whether the URL of `spec` answers from this machine; a file works as well"
    } else if has("no JSON") || has("no YAML") || has("neither `openapi") {
        "correct the description: OpenAPI 3.0 or 3.1, or Swagger 2.0, as JSON or YAML"
    } else if has("max_document_mb") {
        "raise `max_document_mb`"
    } else {
        "`--log-level debug` shows what is exchanged"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_problems_get_their_own_advice() {
        for (problem, words) in [
            (
                "`x.json` cannot be read: No such file or directory (os error 2)",
                "correct `spec`",
            ),
            (
                "`https://x/` cannot be fetched: the server answered 404",
                "answers from this machine",
            ),
            (
                "the description is larger than the 1 bytes allowed (max_document_mb)",
                "raise",
            ),
            (
                "x has the address 127.0.0.1, which is not public",
                "base_url",
            ),
        ] {
            assert!(advice(problem).contains(words), "{problem}");
        }
    }
}
