//! What a store of audit records can do. SQLite and PostgreSQL do it (`sentinel_stores`).

use std::error::Error;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::batch::Batch;
use super::record::{Key, Stored};

/// Why a store did not do it.
pub type StoreFailure = Box<dyn Error + Send + Sync>;

/// What to look for; empty members match everything.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub caller: Option<String>,
    /// The operation as the caller named it.
    pub operation: Option<String>,
    pub backend: Option<String>,
    pub outcome: Option<String>,
    /// From here on, inclusive.
    pub since_ms: Option<u64>,
    /// Before this.
    pub until_ms: Option<u64>,
    /// Newest first.
    pub newest: bool,
    /// Only what comes after this record, in the order that was asked for.
    pub after: Option<(u64, Key)>,
    pub limit: usize,
    /// How long the store may look. What matches seldom makes it read everything.
    pub within: Option<Duration>,
}

/// Where retention cut a lane: everything up to `key` is gone, and its hash was this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub key: Key,
    pub hash: [u8; 32],
}

/// The first record that cannot be what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub key: Key,
    pub reason: String,
}

pub trait AuditStore: Send + Sync + 'static {
    /// Keeps records; those that are there already are left alone.
    fn insert(&self, batch: Batch) -> BoxFuture<'_, Result<(), StoreFailure>>;

    /// Records in the order of time, then of keys.
    fn find(&self, query: Query) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>>;

    /// The records of all lanes after a key, in the order of keys.
    fn page(
        &self,
        after: Option<Key>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>>;

    /// Where retention cut.
    fn cuts(&self) -> BoxFuture<'_, Result<Vec<Cut>, StoreFailure>>;

    /// Drops whole stretches of lanes that are older than this, up to an anchor; gives how many
    /// records went.
    fn retain(&self, since_ms: u64) -> BoxFuture<'_, Result<u64, StoreFailure>>;
}
