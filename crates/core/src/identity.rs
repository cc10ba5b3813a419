//! Who a caller is: credentials in, an `Identity` or a `Reject` out. No sockets, no files.
//!
//! `Authenticator` is shared by all doors. It holds the keys that tokens are checked with, remembers
//! tokens that were good, and asks the `KeyStore` about API keys. Whoever fetches public keys calls
//! `replace_public_keys` and waits on `keys_wanted`; a token can ask for fresh keys but never says where
//! they are, nor how often they are fetched: what is asked while the fetcher rests is one wish.
//!
//! Verification stands directly on `ring`, which seals and speaks TLS here already: the ready-made
//! crates read the header into types that drop unknown and repeated members, and let the token's own
//! `alg` choose among what a key could do. Here each key has exactly one algorithm.
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

/// Longest credential that is looked at; real tokens are one or two kilobytes.
pub const CREDENTIAL_BYTES_MAX: usize = 16 * 1024;
/// How long a request waits for the keys it asked for.
const ASK_PATIENCE: Duration = Duration::from_secs(3);
/// Nobody sleeps longer until a credential expires: the wall clock may be set.
const EXPIRY_LOOK: Duration = Duration::from_secs(60);

/// The subject of every caller while nobody is asked to prove anything.
pub const LOCAL: &str = "local";
/// The subject of callers without credentials where those are allowed.
pub const ANONYMOUS: &str = "anonymous";
/// Begins the subject of callers with an API key.
pub const KEY_PREFIX: &str = "key:";

/// A caller whose credential was checked, or who needs none.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    pub subject: Arc<str>,
    pub role: Arc<str>,
    pub tenant: Option<Arc<str>>,
    /// From the token; empty for API keys and local callers.
    pub scopes: Arc<[Arc<str>]>,
    /// What it rests on, so that it can be asked again whether it still holds.
    pub proof: Proof,
}

/// What an identity rests on.
#[derive(Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nothing: local or anonymous.
    None,
    /// A token, good until this second, checked with this key.
    Token { until: u64, key: jwk::Thumbprint },
    /// The API key of this id.
    ApiKey { id: Box<str> },
}

impl Identity {
    /// The trusted local caller.
    pub fn local(role: &str) -> Arc<Self> {
        Arc::new(Self::unproved(LOCAL, role))
    }

    fn unproved(subject: &str, role: &str) -> Self {
        Self {
            subject: subject.into(),
            role: role.into(),
            tenant: None,
            scopes: Arc::default(),
            proof: Proof::None,
        }
    }
}

/// Why a credential is not accepted. The words go to the caller and say nothing secret.
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
    /// Whether somebody fetches public keys.
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
    /// Whoever fetches keys does so as soon as it is asked, or is at it.
    is_fetcher_ready: AtomicBool,
    /// Counts fetches that ended, well or not.
    fetched: watch::Sender<u64>,
    /// Counts what may have ended identities: keys replaced, API keys changed.
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

    /// Who callers without credentials are, if there may be any.
    pub fn anonymous(&self) -> Option<Arc<Identity>> {
        self.anonymous.clone()
    }

    /// Checks a token or an API key against everything known at this moment.
    pub fn verify(&self, credential: &str) -> Result<Arc<Identity>, Reject> {
        self.verify_at(credential, now())
    }

    fn verify_at(&self, credential: &str, now: u64) -> Result<Arc<Identity>, Reject> {
        if credential.len() > CREDENTIAL_BYTES_MAX {
            return Err(Reject::TooLong);
        }
        // No token begins like that: its first byte would have to be a brace.
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
        });
        self.remembered
            .put(digest, identity.clone(), claims.until, now);
        // Keys that were replaced meanwhile cleared the memory, perhaps just before this entry.
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
        }))
    }

    /// Whether an identity that was given out is still good (P-S07).
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

    /// Whether what an identity rests on was taken back. An expiry is no such thing: what began in time
    /// may end.
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

    /// Resolves when an identity was taken back.
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

    /// Resolves when an identity no longer holds.
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

    /// How long an identity has until it may expire; `None` if it rests on nothing.
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

    /// Tells everybody who holds an identity to look again: API keys were changed.
    pub fn look_again(&self) {
        self.changed.send_modify(|n| *n += 1);
    }

    /// Takes fresh public keys; tokens of keys that are gone are refused from now on.
    pub fn replace_public_keys(&self, public: KeySet) {
        let keys = self.secret.iter().cloned().chain(public.into_keys());
        self.keys.store(Arc::new(KeySet::new(keys.collect())));
        self.remembered.clear();
        self.look_again();
    }

    /// Says that a fetch ended, well or not, to those who wait for it.
    pub fn fetch_ended(&self) {
        self.fetched.send_modify(|n| *n += 1);
    }

    /// Resolves when a token named a key we do not know, now or since the last time.
    pub async fn keys_wanted(&self) {
        self.wanted.notified().await;
    }

    /// Whether keys are fetched as soon as a token asks for them. Whoever asks while they are not is not kept waiting.
    pub fn set_fetcher_ready(&self, ready: bool) {
        self.is_fetcher_ready.store(ready, Ordering::Relaxed);
    }

    /// Asks for fresh keys and waits for them. `false`: nothing new can be expected at the moment.
    pub async fn ask_for_keys(&self) -> bool {
        let mut fetched = self.fetched.subscribe();
        self.wanted.notify_one();
        if !self.is_fetcher_ready.load(Ordering::Relaxed) {
            return false;
        }
        let waited = tokio::time::timeout(ASK_PATIENCE, fetched.changed());
        matches!(waited.await, Ok(Ok(())))
    }

    /// Tokens that are remembered at the moment.
    pub fn remembered_len(&self) -> usize {
        self.remembered.len()
    }
}

/// Seconds since 1970, by the wall clock: that is what tokens are dated in.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
