//! Authentication from the configuration: the authenticator, its keys, and the identity on stdio.
//!
//! `keep_fresh` runs as long as the gateway. It reads the configured key source again after an interval, or sooner
//! when a token names an unknown key: a file at once, a URL at most once per pause. An unreadable set changes
//! nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use sentinel_backends::fetch;
use sentinel_core::Identity;
use sentinel_core::identity::{Authenticator, Config as Settings, KeySet, KeyStore, Reject, Rules};
use sentinel_core::state_file::Version;
use sentinel_surfaces::http::{Access, OAuth};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::config::{Auth, Config, KeySource, Origin};
use crate::file_watch;
use crate::key_file::{self, KeyFile};

/// Providers rotate keys over hours or days and publish a new one well before they use it.
const FETCH_INTERVAL: Duration = Duration::from_secs(300);
/// Interval after a failed fetch.
const FETCH_AGAIN: Duration = Duration::from_secs(30);
/// Minimum time between two fetches, since anybody can name an unknown key.
const FETCH_PAUSE: Duration = Duration::from_secs(5);
/// Advice for operators about unreadable keys.
const STAY: &str = "the keys read before stay good. Publish a set with the keys that should be, or take out auth.jwks and \
    reload to trust none";
/// Largest set of keys; real ones have a few kilobytes.
const FETCH_BYTES_MAX: usize = 1 << 20;
const FETCH_TIME_MAX: Duration = Duration::from_secs(10);
/// Polling interval of key files; streams of revoked keys end within it.
const LOOK: Duration = Duration::from_millis(500);

/// The admission rules for HTTP callers.
pub(crate) fn access(config: &Config, home: &Handle) -> anyhow::Result<Guard> {
    let Some(auth) = &config.auth else {
        tracing::warn!("no [auth]: every caller that reaches this port has the role admin");
        return Ok(Guard {
            access: Access::Trusted(Identity::local("admin")),
            keeping: None,
        });
    };
    let (authenticator, store) = build(auth, config)?;
    if store.is_some() {
        hear_of_keys(config, &authenticator);
    }
    let keeping = home.spawn(keep_fresh(authenticator.clone(), auth.jwks.clone(), store));
    Ok(Guard {
        access: Access::Guarded {
            authenticator,
            oauth: OAuth {
                resource: resource(auth).to_owned(),
                authorization_servers: auth.authorization_servers.clone(),
                required_scopes: auth.required_scopes.clone(),
            },
        },
        keeping: Some(KeyRefresh(keeping.abort_handle())),
    })
}

/// Streams and calls of revoked keys end at once where the kernel reports changed files.
fn hear_of_keys(config: &Config, authenticator: &Arc<Authenticator>) {
    let authenticator = Arc::downgrade(authenticator);
    let act = move || match authenticator.upgrade() {
        Some(authenticator) => {
            authenticator.look_again();
            true
        }
        None => false,
    };
    if let Err(error) = file_watch::watch(&config.gateway.data_dir, &[key_file::NAME], act) {
        tracing::debug!("revoked keys are noticed within {LOOK:?}: {error}");
    }
}

/// The admission rules, and the task that refreshes their keys.
pub(crate) struct Guard {
    pub(crate) access: Access,
    pub(crate) keeping: Option<KeyRefresh>,
}

/// Aborts the task when dropped.
pub(crate) struct KeyRefresh(AbortHandle);

impl Drop for KeyRefresh {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The identity of the caller on stdio, fixed at the start (C-6).
pub(crate) async fn of_stdio(config: &Config) -> anyhow::Result<Arc<Identity>> {
    let checked = config
        .auth
        .as_ref()
        .and_then(|auth| Some((auth, auth.stdio_token.as_ref()?)));
    let Some((auth, token)) = checked else {
        return Ok(Identity::local(&config.gateway.stdio_role));
    };
    let (authenticator, _) = build(auth, config)?;
    let token_text = token.expose().trim();
    let mut verdict = authenticator.verify(token_text);
    if let (Err(Reject::UnknownKey), KeySource::Url(url)) = (&verdict, &auth.jwks) {
        let keys = fetch_keys(url)
            .await
            .with_context(|| format!("fetching auth.jwks from {url}"))?;
        authenticator.replace_public_keys(keys);
        verdict = authenticator.verify(token_text);
    }
    verdict.map_err(|why| {
        let variable = match token.origin() {
            Origin::Variable(name) => name.as_str(),
            _ => "the variable",
        };
        anyhow::anyhow!("auth.stdio_token_env: the token in {variable} is not accepted: {why}")
    })
}

/// The canonical URI, without a trailing slash.
fn resource(auth: &Auth) -> &str {
    auth.resource.trim_end_matches('/')
}

/// Whether a gateway with this configuration accepts a token.
pub(crate) fn judge(
    auth: &Auth,
    config: &Config,
    token: &str,
) -> anyhow::Result<Result<(), Reject>> {
    let (authenticator, _) = build(auth, config)?;
    Ok(authenticator.verify(token).map(drop))
}

fn build(
    auth: &Auth,
    config: &Config,
) -> anyhow::Result<(Arc<Authenticator>, Option<Arc<KeyFile>>)> {
    let mut audiences = vec![auth.jwt_audience.clone()];
    // OAuth tokens name their resource; a trailing slash makes no difference here.
    if !auth.resource.is_empty() {
        audiences.push(resource(auth).to_owned());
        audiences.push(format!("{}/", resource(auth)));
    }
    let store = auth
        .api_keys
        .then(|| Arc::new(KeyFile::new(&config.gateway.data_dir)));
    let authenticator = Authenticator::new(Settings {
        secret: auth
            .jwt_secret
            .as_ref()
            .map(|secret| secret.expose().as_bytes().to_vec()),
        rules: Rules {
            issuer: auth.jwt_issuer.clone(),
            audiences,
            role_claim: auth.role_claim.clone(),
            default_role: auth.default_role.clone(),
            tenant_claim: auth.tenant_claim.clone(),
            leeway: auth.leeway.as_secs(),
        },
        api_keys: store.clone().map(|store| store as Arc<dyn KeyStore>),
        anonymous_role: auth.anonymous_role.clone(),
        has_key_source: !matches!(auth.jwks, KeySource::None),
    });
    if let KeySource::File(path) = &auth.jwks {
        let keys = read_keys(path).with_context(|| format!("auth.jwks: {}", path.display()))?;
        authenticator.replace_public_keys(keys);
    }
    Ok((authenticator, store))
}

async fn keep_fresh(
    authenticator: Arc<Authenticator>,
    source: KeySource,
    store: Option<Arc<KeyFile>>,
) {
    let files = watch_files(&authenticator, &source, store);
    match &source {
        KeySource::Url(url) => {
            tokio::join!(
                files,
                fetch_again_and_again(&authenticator, || fetch_keys(url))
            );
        }
        KeySource::None | KeySource::File(_) => files.await,
    }
}

/// Checks whether the files of API keys and public keys were replaced: at an interval, and at once for a token of an
/// unknown key, which costs one look at the folder.
async fn watch_files(
    authenticator: &Authenticator,
    source: &KeySource,
    store: Option<Arc<KeyFile>>,
) {
    let mut public = match source {
        KeySource::File(path) => Some((path, Version::at(path))),
        _ => None,
    };
    let mut version = store.as_ref().map(|store| store.version());
    loop {
        let is_wanted = tokio::select! {
            () = tokio::time::sleep(LOOK) => false,
            () = authenticator.keys_wanted(), if public.is_some() => true,
        };
        let current = store.as_ref().map(|store| store.version());
        if current != version {
            version = current;
            authenticator.look_again();
        }
        let Some((path, known)) = &mut public else {
            continue;
        };
        let found = Version::at(path);
        if found != *known {
            *known = found;
            take_keys(authenticator, path);
        }
        // A request made during a periodic check gets a check of its own.
        if is_wanted {
            authenticator.fetch_ended();
        }
    }
}

/// Reads the file of public keys again.
fn take_keys(authenticator: &Authenticator, path: &Path) {
    match read_keys(path) {
        Ok(keys) => {
            tracing::info!(keys = keys.len(), "auth.jwks was read again");
            authenticator.replace_public_keys(keys);
        }
        Err(error) => {
            let file = path.display();
            tracing::warn!("auth.jwks: {file} cannot be used: {error:#}: {STAY}");
        }
    }
}

/// Fetches at the start, after each interval, and when a token requires it; one at a time, with a pause in between.
async fn fetch_again_and_again<F>(authenticator: &Authenticator, fetch: impl Fn() -> F)
where
    F: Future<Output = anyhow::Result<KeySet>>,
{
    loop {
        let interval = match fetch().await {
            Ok(keys) => {
                tracing::debug!(keys = keys.len(), "fetched auth.jwks");
                authenticator.replace_public_keys(keys);
                FETCH_INTERVAL
            }
            Err(error) => {
                tracing::warn!("auth.jwks cannot be fetched: {error:#}: {STAY}");
                FETCH_AGAIN
            }
        };
        authenticator.set_fetcher_ready(false);
        authenticator.fetch_ended();
        tokio::time::sleep(FETCH_PAUSE).await;
        authenticator.set_fetcher_ready(true);
        tokio::select! {
            () = tokio::time::sleep(interval - FETCH_PAUSE) => {}
            () = authenticator.keys_wanted() => {}
        }
    }
}

async fn fetch_keys(url: &http::Uri) -> anyhow::Result<KeySet> {
    let text = fetch::get(url, FETCH_BYTES_MAX, FETCH_TIME_MAX).await?;
    parse_keys(&text)
}

fn read_keys(path: &Path) -> anyhow::Result<KeySet> {
    parse_keys(&std::fs::read(path)?)
}

fn parse_keys(text: &[u8]) -> anyhow::Result<KeySet> {
    let (keys, skipped) = KeySet::public(text)?;
    for (n, why) in skipped {
        tracing::debug!("auth.jwks: key {n} is not used: {why}");
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    fn authenticator() -> Arc<Authenticator> {
        Authenticator::new(Settings {
            secret: None,
            rules: Rules {
                issuer: String::new(),
                audiences: Vec::new(),
                role_claim: String::new(),
                default_role: String::new(),
                tenant_claim: String::new(),
                leeway: 0,
            },
            api_keys: None,
            anonymous_role: String::new(),
            has_key_source: true,
        })
    }

    /// P-S07: a key that was just put into the file is known to whoever asks for it, without waiting for the next look, and
    /// however many asked before.
    #[tokio::test(start_paused = true)]
    async fn p_s07_a_file_of_keys_is_looked_at_when_a_token_asks() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("set.json");
        let publish = |kid: &str| {
            let x = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";
            let key = format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"{kid}","x":"{x}"}}"#);
            std::fs::write(&path, format!(r#"{{"keys":[{key}]}}"#)).expect("written");
        };
        publish("first");
        let authenticator = authenticator();
        let (asked, source) = (authenticator.clone(), KeySource::File(path.clone()));
        let keeper = tokio::spawn(async move { watch_files(&asked, &source, None).await });
        let mut changes = authenticator.changes();
        let began = tokio::time::Instant::now();
        for kid in ["the-next", "the-one-after"] {
            for _ in 0..3 {
                assert!(authenticator.ask_for_keys().await);
            }
            assert!(!changes.has_changed().expect("it is there"));
            publish(kid);
            assert!(authenticator.ask_for_keys().await);
            assert!(changes.has_changed().expect("it is there"));
            changes.mark_unchanged();
        }
        assert!(began.elapsed().is_zero(), "nobody waited for the clock");
        keeper.abort();
    }

    /// P-S03: however many tokens name keys that nobody has, they cause one fetch in a pause; and none who names a key
    /// that was published meanwhile waits longer than that.
    #[tokio::test(start_paused = true)]
    async fn p_s03_unknown_keys_cause_one_fetch_in_a_pause() {
        let authenticator = authenticator();
        let fetches = Arc::new(AtomicU64::new(0));
        let (asked, counted) = (authenticator.clone(), fetches.clone());
        let keeper = tokio::spawn(async move {
            let fetch = || {
                counted.fetch_add(1, Relaxed);
                std::future::ready(Ok(KeySet::default()))
            };
            fetch_again_and_again(&asked, fetch).await;
        });
        let began = tokio::time::Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            authenticator.ask_for_keys().await;
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
        let made = fetches.load(Relaxed);
        assert!((12..=13).contains(&made), "{made} fetches in a minute");
        keeper.abort();
    }
}
