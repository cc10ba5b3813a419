//! API keys. The file that holds them may be shared: other gateways of the data directory see a change at their next
//! request.

use schemars::JsonSchema;
use sentinel_core::identity::{self, KeyRecord, KeyStore, StoreProblem};
use sentinel_core::{Fault, Kind};
use serde::{Deserialize, Serialize};

use super::{Endpoint, Exchange, Json, blocking, control, invalid};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct KeyList {
    pub keys: Vec<Key>,
}

/// A key without its secret.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    pub id: String,
    pub name: String,
    pub role: String,
    pub state: KeyState,
    /// In seconds since 1970.
    pub created_at: u64,
    pub expires_at: Option<u64>,
    pub revoked_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyState {
    Good,
    Expired,
    Revoked,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// Tells it from all other good keys.
    pub name: String,
    pub role: String,
    /// Seconds until it expires; absent: never.
    #[serde(default)]
    pub expires_in_s: Option<u64>,
}

/// A key that was just made.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CreatedKey {
    #[serde(flatten)]
    pub shown: Key,
    /// The text to hand out; it cannot be shown again.
    pub key: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyId {
    pub id: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RevokedKey {
    pub id: String,
    pub revoked: bool,
}

impl Key {
    fn of(record: &KeyRecord, now: u64) -> Self {
        let state = match record {
            _ if record.revoked_at.is_some() => KeyState::Revoked,
            _ if !record.is_good(now) => KeyState::Expired,
            _ => KeyState::Good,
        };
        Self {
            id: record.id.clone(),
            name: record.name.clone(),
            role: record.role.clone(),
            state,
            created_at: record.created_at,
            expires_at: record.expires_at,
            revoked_at: record.revoked_at,
        }
    }
}

impl KeyState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

pub fn list(store: &dyn KeyStore) -> Result<KeyList, Fault> {
    let (now, keys) = (identity::now(), store.list().map_err(unusable)?);
    let keys = keys.iter().map(|key| Key::of(key, now)).collect();
    Ok(KeyList { keys })
}

pub fn create(store: &dyn KeyStore, new: &NewKey) -> Result<CreatedKey, Fault> {
    let now = identity::now();
    check_name(store, &new.name, now)?;
    let expires_at = new.expires_in_s.map(|time| now.saturating_add(time));
    let (record, key) = KeyRecord::create(&new.name, &new.role, now, expires_at);
    let shown = Key::of(&record, now);
    store.add(record).map_err(unusable)?;
    Ok(CreatedKey { shown, key })
}

pub fn revoke(store: &dyn KeyStore, id: &str) -> Result<RevokedKey, Fault> {
    if !store.revoke(id, identity::now()).map_err(unusable)? {
        return Err(invalid(format!(
            "there is no key {id:?} that could be revoked"
        )));
    }
    let (id, revoked) = (id.to_owned(), true);
    Ok(RevokedKey { id, revoked })
}

/// A name must tell one key from all others that are good.
fn check_name(store: &dyn KeyStore, name: &str, now: u64) -> Result<(), Fault> {
    if name.trim().is_empty() || name.contains(char::is_control) {
        return Err(invalid("a key needs a name of visible characters"));
    }
    if name.starts_with("key:") {
        return Err(invalid("\"key:\" begins the names of callers, not of keys"));
    }
    let keys = store.list().map_err(unusable)?;
    let is_taken = |key: &&KeyRecord| key.is_good(now) && (key.name == name || key.id == name);
    match keys.iter().find(is_taken) {
        None => Ok(()),
        Some(KeyRecord { id, name, .. }) => Err(invalid(format!(
            "the key {id} is called {name:?} already; revoke it, or choose another name"
        ))),
    }
}

fn unusable(problem: StoreProblem) -> Fault {
    tracing::error!("{problem}");
    Fault::new(Kind::Internal, problem.what.clone()).because(problem)
}

pub(crate) struct List;

impl Endpoint for List {
    type Input = ();
    type Output = KeyList;

    async fn handle(exchange: &Exchange<'_>, (): ()) -> Result<KeyList, Fault> {
        let store = control(exchange.server)?.key_store();
        blocking(move || list(&*store)).await
    }
}

pub(crate) struct Create;

impl Endpoint for Create {
    type Input = Json<NewKey>;
    type Output = CreatedKey;

    async fn handle(exchange: &Exchange<'_>, Json(new): Json<NewKey>) -> Result<CreatedKey, Fault> {
        exchange.about(new.name.clone());
        let store = control(exchange.server)?.key_store();
        let created = blocking(move || create(&*store, &new)).await?;
        let Key { id, name, role, .. } = &created.shown;
        tracing::warn!(id, name, role, "an API key was made");
        Ok(created)
    }
}

pub(crate) struct Revoke;

impl Endpoint for Revoke {
    type Input = Json<KeyId>;
    type Output = RevokedKey;

    async fn handle(
        exchange: &Exchange<'_>,
        Json(KeyId { id }): Json<KeyId>,
    ) -> Result<RevokedKey, Fault> {
        exchange.about(id.clone());
        let store = control(exchange.server)?.key_store();
        let revoked = blocking(move || revoke(&*store, &id)).await?;
        tracing::warn!(id = revoked.id, "an API key was revoked");
        Ok(revoked)
    }
}
