//! The spool: audit records in a file before their replies leave.
//!
//! A process writes several lanes of records: a `FileLane` in `spool/<lane>/` of the data directory for each
//! thread that answers calls (fewer where the quota is small), one more for what `sync` promises and for
//! what is said of records that are missing, and a `MemoryLane` (guarantee `memory`). `Recorder` is the sink that
//! chooses. One thread fsyncs; `Ingest` (in `audit`) reads both and fills the store.
//!
//! A folder belongs to whoever holds its lock. When a process dies its lock goes with it, and another
//! process of the same data directory adopts what it left (`orphans`).
//!
//! Not here: what a record says (`sentinel_core::audit`), tables (`audit`).

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

/// Where the spools of all processes of a data directory are.
pub(crate) fn root(data_dir: &Path) -> PathBuf {
    data_dir.join("spool")
}
