//! Audit: one record per request, however it ended.
//!
//! A surface opens an `Entry` when it has read a request and finishes it with the answer, before the answer is sent.
//! An entry dropped unfinished records a cancelled request, so every request ends in exactly one record. The walk
//! notes the call's target on the entry's `AuditTrail`. `Auditor` counts the request and passes the record to a
//! `Sink`, which stores it.
//!
//! Not here: files and tables (`sentinel_stores`), and requests that are not audited: health,
//! metrics, notifications.

mod batch;
mod codec;
mod entry;
pub mod figures;
pub mod moment;
mod record;
mod redact;
mod rejections;
mod shown;
mod store;
pub mod story;

#[cfg(test)]
mod tests;

pub use batch::{Batch, Entered, Gathering};
pub use codec::{Corrupt, FORMAT, decode, encode};
pub use entry::{AuditSettings, AuditTrail, Auditor, Ending, Entry, OUTCOMES, Request};
pub use record::{
    Draft, Guarantee, Record, RecordKey, SEQ_MAX, Stored, Surface, chain, genesis, link,
};
pub use redact::{Arguments, REDACTED};
pub use store::{AuditStore, Broken, Cut, Filter, Query, Run, StoreFailure};

use futures_util::future::BoxFuture;

/// The method of anchors; retention cuts a lane after one.
pub const ANCHOR: &str = "audit/anchor";
/// The method of gap records.
pub const GAP: &str = "audit/gap";
/// The outcome of a call whose process died.
pub const UNKNOWN: &str = "unknown";

/// Stores records. Never fails a request: lost records are counted and announced by a gap.
pub trait Sink: Send + Sync + 'static {
    /// Stores one record as its guarantee requires, before this returns.
    fn append(&self, draft: &Draft<'_>);

    /// Writes an intent with fsync before the backend sees the call; returns its number. On an error the call must
    /// not be made.
    fn intend(&self, draft: &Draft<'_>) -> BoxFuture<'static, Result<u64, NotKept>>;
}

/// The intent could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the audit record could not be written: {0}")]
pub struct NotKept(pub String);
