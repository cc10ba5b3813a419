//! Identity from the configuration: the authenticator, its keys kept fresh, and who is on stdio.
//!
//! `keep_fresh` runs as long as the gateway. It reads the configured key source again after an interval, or
//! sooner when a token names a key that is unknown; a set that cannot be read changes nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use sentinel_backends::fetch;
use sentinel_core::Identity;
use sentinel_core::identity::{Authenticator, Config as Settings, KeySet, KeyStore, Reject, Rules};
use sentinel_surfaces::http::{Access, OAuth};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::config::{Auth, Config, KeySource, Origin};
use crate::key_file::{self, KeyFile};
use crate::neighbours;

/// Providers rotate keys over hours or days and publish a new one well before they use it.
const FETCH_INTERVAL: Duration = Duration::from_secs(300);
/// After a fetch that failed.
const FETCH_AGAIN: Duration = Duration::from_secs(30);
/// A set of keys is a few kilobytes.
const FETCH_BYTES_MAX: usize = 1 << 20;
const FETCH_TIME_MAX: Duration = Duration::from_secs(10);
/// How often the files of keys are looked at; bearers of revoked keys lose their streams within this.
const LOOK: Duration = Duration::from_millis(500);

/// Who may come in by HTTP, and as whom.
pub(crate) fn access(config: &Config, home: &Handle) -> anyhow::Result<Guard> {
    let Some(auth) = &config.auth else {
        tracing::warn!(
            "there is no [auth]: whoever reaches this port is trusted with the role admin"
        );
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
        keeping: Some(Keeping(keeping.abort_handle())),
    })
}

/// Bearers of revoked keys lose their streams and calls at once where the system tells of the changed file.
fn hear_of_keys(config: &Config, authenticator: &Arc<Authenticator>) {
    let authenticator = Arc::downgrade(authenticator);
    let act = move || match authenticator.upgrade() {
        Some(authenticator) => {
            authenticator.look_again();
            true
        }
        None => false,
    };
    if let Err(error) = neighbours::watch(&config.gateway.data_dir, &[key_file::NAME], act) {
        tracing::debug!("revoked keys are noticed within {LOOK:?}: {error}");
    }
}

/// Who may come in, and the task that keeps the keys for it fresh.
pub(crate) struct Guard {
    pub(crate) access: Access,
    pub(crate) keeping: Option<Keeping>,
}

/// Ended when dropped.
pub(crate) struct Keeping(AbortHandle);

impl Drop for Keeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Who the caller on stdio is: settled once, at the start (C-6).
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

/// The canonical URI has no slash at its end.
fn resource(auth: &Auth) -> &str {
    auth.resource.trim_end_matches('/')
}

fn build(
    auth: &Auth,
    config: &Config,
) -> anyhow::Result<(Arc<Authenticator>, Option<Arc<KeyFile>>)> {
    let mut audiences = vec![auth.jwt_audience.clone()];
    // Tokens of OAuth name the resource they are for; with or without its slash it is this gateway.
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
            tokio::join!(files, fetch_again_and_again(&authenticator, url));
        }
        KeySource::None | KeySource::File(_) => files.await,
    }
}

/// Looks whether the files of API keys and public keys were replaced.
async fn watch_files(
    authenticator: &Authenticator,
    source: &KeySource,
    store: Option<Arc<KeyFile>>,
) {
    let changed_at = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|m| m.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let public = match source {
        KeySource::File(path) => Some(path),
        _ => None,
    };
    let mut public_at = public.map(|path| changed_at(path));
    let mut version = store.as_ref().map(|store| store.version());
    loop {
        tokio::time::sleep(LOOK).await;
        let current = store.as_ref().map(|store| store.version());
        if current != version {
            version = current;
            authenticator.look_again();
        }
        let Some(path) = public else { continue };
        let at = Some(changed_at(path));
        if at != public_at {
            public_at = at;
            match read_keys(path) {
                Ok(keys) => {
                    tracing::info!(keys = keys.len(), "auth.jwks was read again");
                    authenticator.replace_public_keys(keys);
                }
                Err(error) => {
                    tracing::warn!("auth.jwks cannot be read, the keys stay as they are: {error:#}")
                }
            }
        }
    }
}

/// One fetch at a time: at the start, after each interval, and when a token asks for it.
async fn fetch_again_and_again(authenticator: &Authenticator, url: &http::Uri) {
    loop {
        let pause = match fetch_keys(url).await {
            Ok(keys) => {
                tracing::debug!(keys = keys.len(), "fetched auth.jwks");
                authenticator.replace_public_keys(keys);
                FETCH_INTERVAL
            }
            Err(error) => {
                tracing::warn!("auth.jwks cannot be fetched, the keys stay as they are: {error:#}");
                FETCH_AGAIN
            }
        };
        authenticator.fetch_ended();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
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
