//! The kind `http`: how its settings become a running backend.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use sentinel_config::{HttpBackend as Settings, Secret};
use sentinel_core::Backend;
use sentinel_core::catalog::Glob;

use super::{Config, HttpBackend, TYPE};
use crate::kind::{BackendKind, Context, StartError, revision};

impl BackendKind for Settings {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    fn target(&self) -> String {
        format!("{:?}", self.url)
    }

    fn start(&self, context: Context) -> Result<Arc<dyn Backend>, StartError> {
        let header = |(name, value): &(String, Secret)| {
            let bad = |what: &str| StartError::new(&context.name, format!("{what} {name}"));
            let header: HeaderName = name.parse().map_err(|_| bad("header"))?;
            let mut value =
                HeaderValue::from_str(value.expose()).map_err(|_| bad("the value of header"))?;
            value.set_sensitive(true);
            Ok((header, value))
        };
        let config = Config {
            headers: self.headers.iter().map(header).collect::<Result<_, _>>()?,
            target: self.target(),
            url: self.url.expose().clone(),
            socket: None,
            public_only: false,
            revision: revision(self.revision),
            timeout: context.timeout,
            retries: self.retries,
            health_interval: context.health_interval,
            unhealthy_after: context.unhealthy_after,
            reply_bytes_max: context.limits.reply,
            event_bytes_max: context.limits.event,
            idempotent_tools: (context.idempotent_tools.into_iter())
                .map(Glob::new)
                .collect(),
            name: context.name,
        };
        let backend = HttpBackend::new(config, context.publisher)?;
        context.runtime.spawn(backend.clone().run());
        Ok(Arc::new(backend))
    }

    fn advice(&self, problem: &str, _stderr: &[String]) -> String {
        super::advice::advice(problem)
    }

    fn weakened(&self) -> Vec<String> {
        let url = self.url.expose();
        let host = url.host().unwrap_or_default();
        let readable = url.scheme_str() == Some("http") && !is_loopback(host);
        let text = "its url is plain http: arguments, results and credentials travel readable";
        readable.then(|| text.to_owned()).into_iter().collect()
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
