//! The spool: an audit record is in a file before its reply is sent.
//!
//! A *lane* is an append-only log with its own hash chain and one writer. A process has one `FileLane` per worker thread
//! in `spool/<lane>/` of the data directory (fewer if the quota is small), one for `sync` intents and gap records, and one
//! `MemoryLane` (guarantee `memory`). `Recorder` chooses the lane and runs the fsync thread. A lane is a series of
//! *segments* (files) of *frames* (records); its newest frames are in a memory-mapped buffer, the *slate*.
//! `audit::Ingest` reads the lanes and inserts their records into the store.
//!
//! A lane's folder is locked by its process. After a crash the lock is free, and another process of the same data
//! directory adopts the folder (`orphans`).
//!
//! Not here: the fields of a record (`sentinel_core::audit`), tables (`audit`).

mod complaints;
pub(crate) mod follow;
pub(crate) mod frame;
mod lane;
mod memory;
mod node;
pub(crate) mod orphans;
mod recorder;
mod segment;
mod slate;

#[cfg(test)]
mod tests;

pub use lane::{AtQuota, FileLane};
pub use memory::MemoryLane;
pub(crate) use node::known as known_node;
pub use node::node_id;
pub use orphans::has_orphans;
pub(crate) use orphans::lanes;
pub(crate) use recorder::now_ms;
pub use recorder::{Limits, Recorder};

use std::path::{Path, PathBuf};

/// The folder of all lanes of a data directory.
pub(crate) fn root(data_dir: &Path) -> PathBuf {
    data_dir.join("spool")
}
