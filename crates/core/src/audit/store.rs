//! The store of audit records, implemented by SQLite and PostgreSQL (`sentinel_stores`).

use std::error::Error;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::batch::Batch;
use super::figures::{Tallies, TallyQuery};
use super::record::{RecordKey, Stored};

/// Why a store failed.
pub type StoreFailure = Box<dyn Error + Send + Sync>;

/// Which records; empty members match everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub caller: Option<String>,
    /// The operation as the caller named it.
    pub operation: Option<String>,
    pub backend: Option<String>,
    pub outcome: Option<String>,
    pub kind: Option<String>,
    pub surface: Option<String>,
    pub method: Option<String>,
    pub role: Option<String>,
    pub tenant: Option<String>,
    /// As it was sent: JSON.
    pub request_id: Option<String>,
    /// A part of the operation, the caller, the request id or the recorded arguments. The case of ASCII letters does not
    /// matter, and what stands for redacted text is not matched.
    pub text: Option<String>,
    /// At least so long.
    pub latency_us_min: Option<u64>,
    /// Requests that were refused or failed only; callers that left did neither.
    pub failed: bool,
    /// Inclusive start.
    pub since_ms: Option<u64>,
    /// Exclusive end.
    pub until_ms: Option<u64>,
}

/// A search.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub filter: Filter,
    /// Only records of these; of all lanes if there are none.
    pub runs: Vec<Run>,
    /// Newest first.
    pub newest: bool,
    /// Continues after this record, in the requested order.
    pub after: Option<(u64, RecordKey)>,
    pub limit: usize,
    /// Time limit of the search. A rare match makes it read everything.
    pub within: Option<Duration>,
}

/// Records of one lane that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub node: String,
    pub lane: i64,
    /// Exclusive start.
    pub after_seq: u64,
    /// Inclusive end.
    pub to_seq: u64,
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

    /// How many records `find` would return without a limit.
    fn count(&self, query: Query) -> BoxFuture<'_, Result<u64, StoreFailure>>;

    /// The last record of each lane. A lane's records are inserted in their order, so what comes later is behind it.
    fn ends(&self) -> BoxFuture<'_, Result<Vec<RecordKey>, StoreFailure>>;

    /// The records of all lanes after a key, in the order of keys.
    fn page(
        &self,
        after: Option<RecordKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>>;

    /// Figures of calls: of records whose method takes the walk (`figures::CALLS`), intents excluded.
    fn tally(&self, query: TallyQuery) -> BoxFuture<'_, Result<Tallies, StoreFailure>>;

    /// The retention cuts.
    fn cuts(&self) -> BoxFuture<'_, Result<Vec<Cut>, StoreFailure>>;

    /// Deletes runs of records older than this, up to an anchor; returns their number.
    fn retain(&self, since_ms: u64) -> BoxFuture<'_, Result<u64, StoreFailure>>;
}
