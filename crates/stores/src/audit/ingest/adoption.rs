//! Records that dead processes left in the spool.

use std::io;
use std::path::Path;

use sentinel_core::audit::{AuditStore, Sink, StoreFailure, UNKNOWN};

use super::super::heads::{self, Head};
use super::gaps::announce;
use super::intents::Intents;
use crate::spool::follow::{Follower, Gap};
use crate::spool::{Recorder, orphans};

/// What was adopted from dead processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    pub records: u64,
    /// Calls with an intent and no completion: their outcome is unknown.
    pub unknown: u64,
}

/// Moves the records of dead processes into the store. Gap records and unknown outcomes go to the lanes of `recorder`. A
/// lane that fails is left for the next time and does not block the others.
pub async fn adopt_all(
    data_dir: &Path,
    store: &dyn AuditStore,
    recorder: &Recorder,
) -> Result<Adopted, StoreFailure> {
    adopt(data_dir, store, recorder, async |_| {}).await
}

/// The gaps in the lane of a dead process.
fn gaps_of(folder: &Path) -> io::Result<Vec<Gap>> {
    let mut follower = Follower::new(folder.to_owned());
    let mut gaps = Vec::new();
    loop {
        let chunk = follower.read(None)?;
        gaps.extend(chunk.gaps);
        if chunk.records.is_none() {
            return Ok(gaps);
        }
    }
}

/// `say_first` ingests gap records up to a number of the last lane, before the records after the gap.
pub(super) async fn adopt(
    data_dir: &Path,
    store: &dyn AuditStore,
    recorder: &Recorder,
    mut say_first: impl AsyncFnMut(u64),
) -> Result<Adopted, StoreFailure> {
    let mut adopted = Adopted::default();
    let mut unread = None;
    'orphans: for orphan in orphans::adopt(data_dir)? {
        let mut follower = Follower::new(orphan.folder.clone());
        let mut intents = Intents::default();
        let mut head = None;
        // A read error shows below; the gaps are announced once the lane can be read.
        let gaps = gaps_of(&orphan.folder).unwrap_or_default();
        if let Some(said) = announce(recorder, &gaps, "crash") {
            say_first(said).await;
        }
        loop {
            let chunk = match follower.read(None) {
                Ok(chunk) => chunk,
                Err(error) => {
                    unread = Some(error);
                    continue 'orphans;
                }
            };
            let Some(records) = chunk.records else {
                break;
            };
            intents.note(&records, chunk.steps);
            adopted.records += records.len() as u64;
            head = Head::of(&records);
            store.insert(records).await?;
        }
        for (seq, record) in &intents.open {
            adopted.unknown += 1;
            let mut draft = record.draft();
            draft.outcome = UNKNOWN;
            draft.kind = "crash";
            draft.intent = *seq;
            recorder.append(&draft);
        }
        if let Some(head) = head {
            heads::write(data_dir, &head)?;
        }
        orphan.remove();
    }
    match unread {
        Some(error) => Err(error.into()),
        None => Ok(adopted),
    }
}
