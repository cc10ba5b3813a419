//! A remote gateway: its endpoints are HTTP backends of a local registry.
//!
//! The first slot is the requested endpoint. The others are the endpoints of a Sentinel's single backends, if a list
//! is wanted: they tell the owner of each item.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Uri};
use sentinel_backends::http::{Config, HttpBackend, get};
use sentinel_core::catalog::{Listing, Prefix, Registry};
use sentinel_core::policy::{Policy, Settings};
use sentinel_core::{Health, View};
use sentinel_surfaces::{Gateway, Limits};
use serde::Deserialize;
use tokio::time::Instant;

use super::{BUILT_IN, Client, START_MAX, Trouble, Wish, position};
use crate::audit::Audit;
use crate::commands::{Misuse, Unreachable, plain};
use crate::progress::{self, Progress};

/// The gateway's own limits are shorter; this one only detects a dead gateway.
const CALL_MAX: Duration = Duration::from_secs(3600);
/// Bound on all waiting together: for readiness, then for answers of backends.
const ASKED_MAX: Duration = Duration::from_secs(15);
const READY_BYTES_MAX: usize = 1 << 20;
const REPLY_BYTES_MAX: usize = 64 << 20;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The address of a gateway.
pub(crate) struct GatewayAddress<'a> {
    pub(crate) endpoint: Uri,
    /// Its operator socket, on this machine.
    pub(crate) socket: Option<PathBuf>,
    pub(crate) token: Option<&'a str>,
}

/// The answer of `/ready`.
#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    /// Each backend's health, in configuration order.
    pub(crate) backends: serde_json::Map<String, serde_json::Value>,
}

/// An MCP endpoint; `/mcp` is added when there is no path.
pub(crate) fn endpoint(url: &str) -> anyhow::Result<Uri> {
    let mut full = url.to_owned();
    if !full.contains("://") {
        full.insert_str(0, "http://");
    }
    let wrong = |why: &str| Misuse(format!("{} {why}", plain(url)));
    let uri: Uri = full
        .parse()
        .map_err(|error| wrong(&format!("is no URL: {error}")))?;
    let Some(authority) = uri.authority() else {
        return Err(wrong("is no http or https URL").into());
    };
    if authority.as_str().contains('@') {
        let text = "a URL with a name or a password in it is not used: --token or SENTINEL_TOKEN says who you are";
        return Err(Misuse(text.to_owned()).into());
    }
    if !matches!(uri.scheme_str(), Some("http" | "https")) || authority.host().is_empty() {
        return Err(wrong("is no http or https URL").into());
    }
    // The text after the host must be a port.
    if authority.host().len() < authority.as_str().len() && uri.port_u16().is_none() {
        return Err(wrong("is no URL: its port is no number from 1 to 65535").into());
    }
    match uri.path() {
        "" | "/" => with_path(&uri, "/mcp"),
        _ => Ok(uri),
    }
}

fn with_path(uri: &Uri, path: &str) -> anyhow::Result<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path.parse()?);
    Ok(Uri::from_parts(parts)?)
}

/// Requests a Sentinel's `/ready` beside the endpoint; `None` if there is none.
pub(crate) async fn ready_of(endpoint: &Uri, socket: Option<&Path>) -> Option<Ready> {
    let path = endpoint.path().trim_end_matches('/');
    let beside = match path.rfind("/mcp") {
        Some(at) => &path[..at],
        None => return None,
    };
    let url = with_path(endpoint, &format!("{beside}/ready")).ok()?;
    let (_, body) = get(&url, socket, READY_BYTES_MAX).await.ok()?;
    serde_json::from_slice(&body).ok()
}

pub(super) async fn connect(way: &GatewayAddress<'_>, wish: Wish<'_>) -> anyhow::Result<Client> {
    let endpoint = &way.endpoint;
    let ready = wait(way).await;
    // Readiness does not report built-in tools. If they are switched off or hidden, the list is empty.
    let names: Vec<&str> = ready
        .iter()
        .flat_map(|r| r.backends.keys().map(String::as_str).chain([BUILT_IN]))
        .collect();
    let one = |name: &str| {
        with_path(
            endpoint,
            &format!("{}/{name}", endpoint.path().trim_end_matches('/')),
        )
    };
    let mut places = Vec::new();
    let mut parts = Vec::new();
    match wish.backend {
        Some(name) => {
            if ready.is_some() {
                position(name, &names)?;
            }
            places.push(one(name)?);
            parts.push((name.to_owned(), View::Only(0)));
        }
        None => {
            places.push(endpoint.clone());
            // The endpoint of a single backend knows no others.
            let listing =
                wish.tool.is_none() && endpoint.path().trim_end_matches('/').ends_with("/mcp");
            for name in names.iter().filter(|_| listing) {
                parts.push(((*name).to_owned(), View::Only(places.len())));
                places.push(one(name)?);
            }
        }
    }
    let client = Client {
        gateway: begin(&places, way)?,
        view: View::Only(0),
        parts,
        troubles: troubles(ready.as_ref()),
        // The remote gateway records the call.
        audit: Audit::off(),
    };
    client.wait(Wish::default()).await;
    client.reached(&places[0])?;
    Ok(client)
}

/// Waits until a Sentinel has tried its backends.
async fn wait(way: &GatewayAddress<'_>) -> Option<Ready> {
    let mut progress = Progress::begin();
    let began = Instant::now();
    loop {
        let ready = ready_of(&way.endpoint, way.socket.as_deref()).await?;
        let all = ready.backends.iter();
        let waiting: Vec<&str> = all
            .filter(|(_, health)| *health == Health::Starting.as_str())
            .map(|(name, _)| name.as_str())
            .collect();
        if waiting.is_empty() || began.elapsed() >= START_MAX {
            return Some(ready);
        }
        progress.show(&progress::starting(&waiting, ready.backends.len()));
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn troubles(ready: Option<&Ready>) -> Vec<Trouble> {
    let all = ready.into_iter().flat_map(|ready| &ready.backends);
    all.filter_map(|(name, health)| Some((name, health.as_str()?)))
        .filter(|(_, health)| ![Health::Up.as_str(), Health::Asleep.as_str()].contains(health))
        .map(|(name, health)| Trouble {
            backend: name.clone(),
            health: health.to_owned(),
            problem: None,
        })
        .collect()
}

fn begin(places: &[Uri], way: &GatewayAddress<'_>) -> anyhow::Result<Arc<Gateway>> {
    let mut headers = Vec::new();
    if let Some(token) = way.token {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .ok()
            .context("the token has characters that a header cannot carry")?;
        value.set_sensitive(true);
        headers.push((AUTHORIZATION, value));
    }
    let listing = |place: &Uri| Listing {
        // Equal names do not conflict here: the operations are the same.
        prefix: Prefix::Always,
        // Switched-off operations are in no list; the gateway itself reports them.
        defers: true,
        ..Listing::new(place.to_string())
    };
    let registry = Registry::new(places.iter().map(listing).collect());
    for (n, place) in places.iter().enumerate() {
        let config = Config {
            name: place.to_string(),
            target: place.to_string(),
            url: place.clone(),
            socket: way.socket.clone(),
            public_only: false,
            revision: None,
            headers: headers.clone(),
            timeout: CALL_MAX,
            retries: 1,
            health_interval: CALL_MAX,
            unhealthy_after: 1,
            reply_bytes_max: REPLY_BYTES_MAX,
            event_bytes_max: REPLY_BYTES_MAX,
            idempotent_tools: Vec::new(),
        };
        let backend = HttpBackend::new(config, registry.publisher(n))?;
        tokio::spawn(backend.clone().run());
        registry.attach(n, Arc::new(backend));
    }
    tokio::spawn(registry.clone().end_cold_start());
    let policy = Policy::new(registry, Settings::default());
    let auditor = sentinel_core::Auditor::off();
    Ok(Gateway::new(policy, Limits::default(), auditor))
}

impl Client {
    fn reached(&self, endpoint: &Uri) -> anyhow::Result<()> {
        let (_, status) = self.statuses().swap_remove(0);
        if status.health == Health::Up {
            return Ok(());
        }
        let problem = status
            .problem
            .unwrap_or_else(|| format!("it did not answer within {} s", ASKED_MAX.as_secs()));
        let help = if problem.contains("401") || problem.contains("403") {
            "name a token with --token or SENTINEL_TOKEN"
        } else {
            "`sentinel serve` starts a gateway, --url names another one"
        };
        Err(Unreachable(format!(
            "{endpoint} cannot be asked: {}; {help}",
            plain(&problem)
        ))
        .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_may_be_written_short() {
        let of = |text: &str| endpoint(text).map(|uri| uri.to_string()).ok();
        assert_eq!(
            of("127.0.0.1:9200").as_deref(),
            Some("http://127.0.0.1:9200/mcp")
        );
        assert_eq!(
            of("https://x.example/").as_deref(),
            Some("https://x.example/mcp")
        );
        assert_eq!(
            of("https://x.example/a/mcp").as_deref(),
            Some("https://x.example/a/mcp")
        );
        assert_eq!(of("ftp://x.example"), None);
        assert_eq!(of("http://"), None);
        assert_eq!(of("[::1]:9200").as_deref(), Some("http://[::1]:9200/mcp"));
    }

    #[test]
    fn what_cannot_be_meant_is_a_mistake_and_a_password_is_not_said_again() {
        for url in [
            "",
            "http://",
            "ftp://x.example",
            "http://[::1/mcp",
            "http://127.0.0.1:99999/mcp",
            "http://127.0.0.1:/mcp",
            "http://name:secret@127.0.0.1:9200/mcp",
            "name:secret@127.0.0.1:9200",
        ] {
            let error = endpoint(url).expect_err(url);
            assert!(error.is::<Misuse>(), "{url}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let error = endpoint("http://name@127.0.0.1").expect_err("a name");
        assert!(error.to_string().contains("--token"), "{error}");
    }
}
