//! Connecting to an MCP server that an operator named, to look at it.
//!
//! The server's address does not come from the configuration, so it is connected to only as `console.connect` allows.

use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Uri};
use sentinel_backends::http::{Config as HttpConfig, HttpBackend};
use sentinel_core::catalog::{Listing, Registry};
use sentinel_core::policy::Settings;
use sentinel_core::{Fault, Kind, Policy};
use sentinel_surfaces::Gateway;
use tokio::runtime::Handle;

use crate::config::{Config, Connect};

/// The name of the server in records.
const NAME: &str = "visited";
const TIMEOUT: Duration = Duration::from_secs(60);
const HEALTH_INTERVAL: Duration = Duration::from_secs(60);

/// A gateway with this one server behind it.
pub(crate) fn open(
    config: &Config,
    around: &Gateway,
    home: &Handle,
    url: &str,
    bearer: Option<&str>,
) -> Result<Arc<Gateway>, Fault> {
    let public_only = match config.console.connect {
        Connect::Off => {
            let text = "looking at other servers is switched off: set console.connect to \"public\", or to \"any\" for servers of your own network";
            return Err(Fault::new(Kind::Forbidden, text));
        }
        Connect::Public => true,
        Connect::Any => false,
    };
    let uri = parse(url)?;
    let mut headers = Vec::new();
    if let Some(token) = bearer {
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| invalid("a bearer token is visible ASCII characters"))?;
        value.set_sensitive(true);
        headers.push((AUTHORIZATION, value));
    }
    let registry = Registry::new(vec![Listing::new(NAME)]);
    let settings = HttpConfig {
        name: NAME.to_owned(),
        target: url.to_owned(),
        url: uri,
        socket: None,
        public_only,
        revision: None,
        headers,
        timeout: TIMEOUT,
        retries: 0,
        health_interval: HEALTH_INTERVAL,
        unhealthy_after: 3,
        reply_bytes_max: config.limits.reply_mb.bytes() as usize,
        event_bytes_max: config.limits.event_mb.bytes() as usize,
        idempotent_tools: Vec::new(),
    };
    let backend = HttpBackend::new(settings, registry.publisher(0));
    let backend = backend.map_err(|error| invalid(error.to_string()))?;
    home.spawn(backend.clone().run());
    registry.attach(0, Arc::new(backend));
    let policy = Policy::new(registry, Settings::default());
    let limits = around.limits().as_ref().clone();
    Ok(Gateway::new(policy, limits, around.auditor.clone()))
}

fn parse(url: &str) -> Result<Uri, Fault> {
    let uri: Uri = url
        .parse()
        .map_err(|_| invalid("this is no URL such as https://example.com/mcp"))?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().map(|authority| authority.as_str());
    match authority {
        Some(authority) if is_web && !authority.contains('@') => Ok(uri),
        Some(_) if is_web => Err(invalid(
            "credentials do not belong into the URL: send them as the bearer token",
        )),
        _ => Err(invalid("the URL must begin with http:// or https://")),
    }
}

fn invalid(text: impl Into<String>) -> Fault {
    Fault::new(Kind::InvalidParams, text.into())
}
