//! Audit: one record for each request, whoever refused or answered it.
//!
//! A surface opens an `Entry` when it has read a request and finishes it with the answer in hand,
//! before the answer leaves. An entry that is dropped unfinished is a cancelled request, so every
//! request ends in exactly one record. The walk notes on the entry's `Trail` where the call went.
//! `Auditor` counts the request and hands the record to a `Sink`, which keeps it.
//!
//! Not here: files and tables (`sentinel_stores`), and requests that are not audited: health,
//! metrics, notifications.

mod batch;
mod codec;
mod doorstep;
mod entry;
pub mod moment;
mod record;
mod redact;
mod shown;
mod store;

#[cfg(test)]
mod tests;

pub use batch::{Batch, Entered, Gathering};
pub use codec::{Corrupt, FORMAT, decode, encode};
pub use entry::{Auditor, Ending, Entry, Keeps, OUTCOMES, Request, Trail};
pub use record::{Draft, Guarantee, Key, Record, SEQ_MAX, Stored, Surface, chain, genesis, link};
pub use redact::Arguments;
pub use store::{AuditStore, Broken, Cut, Query, StoreFailure};

use futures_util::future::BoxFuture;

/// Keeps records. Never fails a request: what cannot be kept is counted and announced by a gap.
pub trait Sink: Send + Sync + 'static {
    /// Keeps one record as its guarantee says, before this returns.
    fn append(&self, draft: &Draft<'_>);

    /// Puts an intent on disk, fsynced, before the backend sees the call; gives its number. An error
    /// means that the call must not be made.
    fn intend(&self, draft: &Draft<'_>) -> BoxFuture<'static, Result<u64, NotKept>>;
}

/// The intent could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the audit record could not be written: {0}")]
pub struct NotKept(pub String);
