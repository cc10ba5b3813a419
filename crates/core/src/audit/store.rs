//! The store of audit records, implemented by SQLite and PostgreSQL (`sentinel_stores`).

use std::error::Error;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::batch::Batch;
use super::record::{RecordKey, Stored};

/// Why a store failed.
pub type StoreFailure = Box<dyn Error + Send + Sync>;

/// A search; empty members match everything.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub caller: Option<String>,
    /// The operation as the caller named it.
    pub operation: Option<String>,
    pub backend: Option<String>,
    pub outcome: Option<String>,
    /// Inclusive start.
    pub since_ms: Option<u64>,
    /// Exclusive end.
    pub until_ms: Option<u64>,
    /// Newest first.
    pub newest: bool,
    /// Continues after this record, in the requested order.
    pub after: Option<(u64, RecordKey)>,
    pub limit: usize,
    /// Time limit of the search. A rare match makes it read everything.
    pub within: Option<Duration>,
}

/// A retention cut in a lane: everything up to `key` was deleted, and its hash was this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub key: RecordKey,
    pub hash: [u8; 32],
}

/// The first record that was altered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub key: RecordKey,
    pub reason: String,
}

pub trait AuditStore: Send + Sync + 'static {
    /// Inserts records; existing ones are left alone.
    fn insert(&self, batch: Batch) -> BoxFuture<'_, Result<(), StoreFailure>>;

    /// Records in the order of time, then of keys.
    fn find(&self, query: Query) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>>;

    /// The records of all lanes after a key, in the order of keys.
    fn page(
        &self,
        after: Option<RecordKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>>;

    /// The retention cuts.
    fn cuts(&self) -> BoxFuture<'_, Result<Vec<Cut>, StoreFailure>>;

    /// Deletes runs of records older than this, up to an anchor; returns their number.
    fn retain(&self, since_ms: u64) -> BoxFuture<'_, Result<u64, StoreFailure>>;
}
