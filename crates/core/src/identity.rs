//! Authentication: turns credentials into an `Identity` or a `Reject`. No sockets, no files.
//!
//! All surfaces share one `Authenticator`. It holds the keys for checking tokens, caches verified tokens, and asks
//! the `KeyStore` about API keys. The component that fetches public keys calls `replace_public_keys` and waits on
//! `keys_wanted`; a token can trigger a fetch but neither its URL nor its rate: requests made while the fetcher
//! pauses are one request.
//!
//! Verification uses `ring` directly, which is also used for sealing and TLS: existing crates decode the header into
//! types that drop unknown and repeated members, and let the token's own `alg` choose among the algorithms of a key.
//! Here each key has exactly one algorithm.
//!
//! Not here: headers and statuses (`surfaces::http::auth`), what a role may do, fetching and files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};

pub mod api_key;
pub mod claims;
pub mod jwk;
pub mod jws;
pub mod mint;
mod remembered;

pub use api_key::{KeyRecord, KeyStore, StoreProblem};
pub use claims::Rules;
pub use jwk::{Key, KeySet};

use remembered::Remembered;

use crate::digest::sha256;

/// Longer credentials are rejected unread; real tokens have one or two kilobytes.
pub const CREDENTIAL_BYTES_MAX: usize = 16 * 1024;
/// How long a request waits for the keys it asked for.
const ASK_PATIENCE: Duration = Duration::from_secs(3);
/// Longest sleep until a credential expires: the wall clock may be changed.
const EXPIRY_LOOK: Duration = Duration::from_secs(60);

/// The subject of every caller without authentication.
pub const LOCAL: &str = "local";
/// The subject of callers without credentials where those are allowed.
pub const ANONYMOUS: &str = "anonymous";
/// Prefix of the subject of callers with an API key.
pub const KEY_PREFIX: &str = "key:";

/// Who vouches for the subject of an API key.
const API_KEY_PROVIDER: &str = "sentinel";

/// An authenticated caller, or one that needs no credential.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    pub subject: Arc<str>,
    pub role: Arc<str>,
    pub tenant: Option<Arc<str>>,
    /// From the token; empty for API keys and local callers.
    pub scopes: Arc<[Arc<str>]>,
    /// The credential behind it, so that its validity can be checked again.
    pub proof: Proof,
    /// What the credential says beyond that.
    pub account: Option<Arc<Account>>,
}

/// What a credential says about its holder that only backends of the gateway's own ask for.
#[derive(Debug, PartialEq, Eq)]
pub struct Account {
    /// Who vouches for the subject: the issuer of a token.
    pub provider: Box<str>,
    pub email: Option<Box<str>>,
    pub credential: Credential,
}

/// A credential as it was sent. It is never printed.
#[derive(PartialEq, Eq)]
pub struct Credential(Box<str>);

impl Credential {
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// SHA-256 in hexadecimal.
    pub fn digest(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |four: u8| char::from(DIGITS[usize::from(four)]);
        let digest = sha256(self.0.as_bytes());
        digest
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
            .collect()
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// The credential behind an identity.
#[derive(Debug, PartialEq, Eq)]
pub enum Proof {
    /// None: local or anonymous.
    None,
    /// A token with its expiry in seconds and its key.
    Token { until: u64, key: jwk::Thumbprint },
    /// The API key with this id.
    ApiKey { id: Box<str> },
}

impl Identity {
    /// The trusted local caller.
    pub fn local(role: &str) -> Arc<Self> {
        Arc::new(Self::unproved(LOCAL, role))
    }

    /// Who its credential says it is for: who vouches for the subject, and an address.
    pub fn holder(&self) -> Option<(&str, Option<&str>)> {
        let account = self.account.as_ref()?;
        Some((&account.provider, account.email.as_deref()))
    }

    fn unproved(subject: &str, role: &str) -> Self {
        Self {
            subject: subject.into(),
            role: role.into(),
            tenant: None,
            scopes: Arc::default(),
            proof: Proof::None,
            account: None,
        }
    }
}

/// Why a credential is rejected. The message goes to the caller and must contain no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    #[error("the credential is longer than {CREDENTIAL_BYTES_MAX} bytes")]
    TooLong,
    #[error("this is no signed token")]
    Shape,
    #[error("the token's header is not acceptable: {0}")]
    Header(&'static str),
    #[error("the token names no key that is trusted here")]
    UnknownKey,
    #[error("the token's algorithm is not the one of its key")]
    Algorithm,
    #[error("the token's signature does not match")]
    Signature,
    #[error("the token's claims are not acceptable: {0}")]
    Claims(&'static str),
    #[error("the token is expired")]
    Expired,
    #[error("the token is not valid yet")]
    TooEarly,
    #[error("the token is from another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token names no role")]
    NoRole,
    #[error("the API key is unknown, expired or revoked")]
    ApiKey,
}

pub struct Config {
    /// For HS256; `None` accepts no such tokens.
    pub secret: Option<Vec<u8>>,
    pub rules: Rules,
    /// `None` accepts no API keys.
    pub api_keys: Option<Arc<dyn KeyStore>>,
    /// Empty refuses callers without credentials.
    pub anonymous_role: String,
    /// Whether public keys are fetched.
    pub has_key_source: bool,
}

pub struct Authenticator {
    rules: Rules,
    secret: Option<Key>,
    keys: ArcSwap<KeySet>,
    remembered: Remembered,
    api_keys: Option<Arc<dyn KeyStore>>,
    anonymous: Option<Arc<Identity>>,
    wanted: Notify,
    /// Keys are fetched as soon as one is requested, or a fetch is under way.
    is_fetcher_ready: AtomicBool,
    /// Counts completed fetches, successful or not.
    fetched: watch::Sender<u64>,
    /// Counts events that may have ended identities: replaced keys, changed API keys.
    changed: watch::Sender<u64>,
}

impl Authenticator {
    pub fn new(config: Config) -> Arc<Self> {
        let secret = config.secret.as_deref().map(Key::hs256);
        let anonymous = (!config.anonymous_role.is_empty())
            .then(|| Arc::new(Identity::unproved(ANONYMOUS, &config.anonymous_role)));
        Arc::new(Self {
            rules: config.rules,
            keys: ArcSwap::from_pointee(KeySet::new(secret.iter().cloned().collect())),
            secret,
            remembered: Remembered::default(),
            api_keys: config.api_keys,
            anonymous,
            wanted: Notify::new(),
            is_fetcher_ready: AtomicBool::new(config.has_key_source),
            fetched: watch::Sender::new(0),
            changed: watch::Sender::new(0),
        })
    }

    /// The identity of callers without credentials, if allowed.
    pub fn anonymous(&self) -> Option<Arc<Identity>> {
        self.anonymous.clone()
    }

    /// Checks a token or an API key with the current keys.
    pub fn verify(&self, credential: &str) -> Result<Arc<Identity>, Reject> {
        self.verify_at(credential, now())
    }

    fn verify_at(&self, credential: &str, now: u64) -> Result<Arc<Identity>, Reject> {
        if credential.len() > CREDENTIAL_BYTES_MAX {
            return Err(Reject::TooLong);
        }
        // No token begins like that: its header would not be JSON.
        if credential.starts_with(api_key::PREFIX) {
            return self.api_key(credential, now);
        }
        let digest = sha256(credential.as_bytes());
        if let Some(identity) = self.remembered.get(&digest, now) {
            return Ok(identity);
        }
        let keys = self.keys.load();
        let signed = jws::verify(credential, &keys)?;
        let claims = self.rules.read(&signed, now)?;
        let identity = Arc::new(Identity {
            subject: claims.subject,
            role: claims.role,
            tenant: claims.tenant,
            scopes: claims.scopes,
            proof: Proof::Token {
                until: claims.until,
                key: signed.key,
            },
            account: Some(Arc::new(Account {
                provider: self.rules.issuer.as_str().into(),
                email: claims.email,
                credential: Credential(credential.into()),
            })),
        });
        self.remembered
            .put(digest, identity.clone(), claims.until, now);
        // Replaced keys cleared the cache, possibly just before this insertion.
        if !self.keys.load().has(&signed.key) {
            self.remembered.clear();
            return Err(Reject::UnknownKey);
        }
        Ok(identity)
    }

    fn api_key(&self, credential: &str, now: u64) -> Result<Arc<Identity>, Reject> {
        let store = self.api_keys.as_ref().ok_or(Reject::ApiKey)?;
        let (id, secret) = api_key::split(credential).ok_or(Reject::ApiKey)?;
        let record = store.find(id).ok_or(Reject::ApiKey)?;
        if !record.matches(secret) || !record.is_good(now) {
            return Err(Reject::ApiKey);
        }
        Ok(Arc::new(Identity {
            subject: api_key::subject(id).into(),
            role: record.role.as_str().into(),
            tenant: record.tenant.as_deref().map(Into::into),
            scopes: Arc::default(),
            proof: Proof::ApiKey { id: id.into() },
            account: Some(Arc::new(Account {
                provider: API_KEY_PROVIDER.into(),
                email: None,
                credential: Credential(credential.into()),
            })),
        }))
    }

    /// Whether an identity is still valid (P-S07).
    pub fn holds(&self, identity: &Identity) -> bool {
        match &identity.proof {
            Proof::None => true,
            Proof::Token { until, key } => now() < *until && self.keys.load().has(key),
            Proof::ApiKey { id } => self
                .api_keys
                .as_ref()
                .and_then(|store| store.find(id))
                .is_some_and(|record| record.is_good(now()) && *record.role == *identity.role),
        }
    }

    /// Whether the credential behind an identity was revoked. Expiry does not count: a stream that began in time may
    /// end.
    pub fn is_revoked(&self, identity: &Identity) -> bool {
        match &identity.proof {
            Proof::None => false,
            Proof::Token { key, .. } => !self.keys.load().has(key),
            Proof::ApiKey { id } => {
                let record = self.api_keys.as_ref().and_then(|store| store.find(id));
                record.is_none_or(|r| r.revoked_at.is_some() || *r.role != *identity.role)
            }
        }
    }

    /// Resolves when an identity was revoked.
    pub async fn revoked(&self, identity: &Identity) {
        let mut changed = self.changed.subscribe();
        while !self.is_revoked(identity) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Wakes when identities may have ended: keys were replaced or revoked.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Resolves when an identity is no longer valid.
    pub async fn ended(&self, identity: &Identity) {
        let mut changed = self.changed.subscribe();
        loop {
            if !self.holds(identity) {
                return;
            }
            let Some(left) = self.left(identity) else {
                return std::future::pending().await;
            };
            tokio::select! {
                told = changed.changed() => if told.is_err() { return },
                () = tokio::time::sleep(left.min(EXPIRY_LOOK)) => {}
            }
        }
    }

    /// Time until an identity may expire; `None` without a credential.
    fn left(&self, identity: &Identity) -> Option<Duration> {
        let until = match &identity.proof {
            Proof::None => return None,
            Proof::Token { until, .. } => Some(*until),
            Proof::ApiKey { id } => {
                let record = self.api_keys.as_ref().and_then(|store| store.find(id));
                record.and_then(|record| record.expires_at)
            }
        };
        let left = |until: u64| Duration::from_secs(until.saturating_sub(now()));
        Some(until.map_or(EXPIRY_LOOK, left))
    }

    /// API keys were changed: identities must be checked again.
    pub fn look_again(&self) {
        self.changed.send_modify(|n| *n += 1);
    }

    /// Replaces the public keys; tokens of removed keys are rejected from now on.
    pub fn replace_public_keys(&self, public: KeySet) {
        let keys = self.secret.iter().cloned().chain(public.into_keys());
        self.keys.store(Arc::new(KeySet::new(keys.collect())));
        self.remembered.clear();
        self.look_again();
    }

    /// Reports the end of a fetch, successful or not, to requests that wait for it.
    pub fn fetch_ended(&self) {
        self.fetched.send_modify(|n| *n += 1);
    }

    /// Resolves when a token named an unknown key, now or since the last time.
    pub async fn keys_wanted(&self) {
        self.wanted.notified().await;
    }

    /// Whether keys are fetched as soon as a token asks for them. If not, requests do not wait for a fetch.
    pub fn set_fetcher_ready(&self, ready: bool) {
        self.is_fetcher_ready.store(ready, Ordering::Relaxed);
    }

    /// Requests a fetch and waits for it. `false`: no new keys can be expected now.
    pub async fn ask_for_keys(&self) -> bool {
        let mut fetched = self.fetched.subscribe();
        self.wanted.notify_one();
        if !self.is_fetcher_ready.load(Ordering::Relaxed) {
            return false;
        }
        let waited = tokio::time::timeout(ASK_PATIENCE, fetched.changed());
        matches!(waited.await, Ok(Ok(())))
    }

    /// Number of cached tokens.
    pub fn remembered_len(&self) -> usize {
        self.remembered.len()
    }
}

/// Seconds since 1970 by the wall clock, the unit of dates in tokens.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
