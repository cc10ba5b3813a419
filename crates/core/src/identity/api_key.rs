//! API keys: `sk_<id>_<secret>`. The secret is shown once; only its hash is stored.
//!
//! The secret has 256 random bits, so a plain hash protects it against guessing.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use super::KEY_PREFIX;

pub const PREFIX: &str = "sk_";

/// The stored form of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    pub id: String,
    /// A name for people.
    pub name: String,
    pub role: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// SHA-256 of the secret, in hexadecimal digits.
    pub sha256: String,
    pub created_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<u64>,
}

impl KeyRecord {
    /// Creates a key: the record to store, and the text to hand out once.
    pub fn create(name: &str, role: &str, now: u64, expires_at: Option<u64>) -> (Self, String) {
        let mut random = [0; 6 + 32];
        SystemRandom::new()
            .fill(&mut random)
            .expect("the system has randomness");
        let id = hex(&random[..6]);
        let secret = URL_SAFE_NO_PAD.encode(&random[6..]);
        let record = Self {
            sha256: hash(&secret),
            name: name.to_owned(),
            role: role.to_owned(),
            tenant: None,
            created_at: now,
            expires_at,
            revoked_at: None,
            id: id.clone(),
        };
        (record, format!("{PREFIX}{id}_{secret}"))
    }

    /// Whether this is the key's secret, in constant time.
    pub fn matches(&self, secret: &str) -> bool {
        let (ours, theirs) = (self.sha256.as_bytes(), hash(secret));
        ours.len() == theirs.len()
            && ours
                .iter()
                .zip(theirs.as_bytes())
                .fold(0, |odd, (a, b)| odd | (a ^ b))
                == 0
    }

    pub fn is_good(&self, now: u64) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|until| now < until)
    }
}

/// The subject of callers with this key.
pub fn subject(id: &str) -> String {
    format!("{KEY_PREFIX}{id}")
}

/// The subjects of the keys that a name refers to: a key's name, its id, or its subject.
pub fn subjects<'k>(keys: impl IntoIterator<Item = &'k KeyRecord>, name: &str) -> Vec<String> {
    let id = name.strip_prefix(KEY_PREFIX).unwrap_or(name);
    let meant = keys
        .into_iter()
        .filter(|key| key.id == id || key.name == name);
    meant.map(|key| subject(&key.id)).collect()
}

/// The id and the secret in a credential.
pub fn split(credential: &str) -> Option<(&str, &str)> {
    let (id, secret) = credential.strip_prefix(PREFIX)?.split_once('_')?;
    (!id.is_empty() && !secret.is_empty()).then_some((id, secret))
}

/// The store could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct StoreProblem {
    pub what: String,
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The storage of API keys.
pub trait KeyStore: Send + Sync {
    /// Called for every request with an API key: must be fast, and must see a revocation at once. An unreadable store
    /// contains no keys.
    fn find(&self, id: &str) -> Option<KeyRecord>;
    fn list(&self) -> Result<Vec<KeyRecord>, StoreProblem>;
    fn add(&self, record: KeyRecord) -> Result<(), StoreProblem>;
    /// `false`: there is no such key, or it was revoked before.
    fn revoke(&self, id: &str, now: u64) -> Result<bool, StoreProblem>;
}

fn hash(secret: &str) -> String {
    hex(digest(&SHA256, secret.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
