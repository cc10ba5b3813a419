//! A consistent copy while others go on writing.
//!
//! The copy is made of the pages of one moment, a few at a time: each few are synced before the next, and
//! four times as long as that took nothing is done. So whoever writes waits for a few pages of ours at the most, now
//! and then, and never for the whole copy.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use sentinel_review::store::ReviewError;
use tokio::time::Instant;

use super::sql;
use crate::private;

/// Pages copied at once: what a disk takes in about the time of one more sync.
const STEP_PAGES: i32 = 64;
/// How long nothing is done after each step, as a multiple of what it took.
const REST: u32 = 4;
/// The longest rest, for a disk that stalls.
const REST_MAX: Duration = Duration::from_millis(50);

pub(super) fn backup(from: &Connection, to: &Path) -> Result<(), ReviewError> {
    let file = private::create_new(to).map_err(|error| failed(to, &error))?;
    let copied = copy(from, to, &file);
    if copied.is_err() {
        // Half a copy is none; what else the folder holds is not ours.
        let _ = std::fs::remove_file(to);
    }
    copied
}

fn copy(from: &Connection, to: &Path, file: &File) -> Result<(), ReviewError> {
    // All steps read the same moment: that of the first look.
    let reading = from.unchecked_transaction().map_err(sql)?;
    reading
        .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        .map_err(sql)?;
    let mut target = Connection::open(to).map_err(sql)?;
    // A copy that is not finished is thrown away: it needs no journal, and `file` is synced here.
    target
        .execute_batch(&format!(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = {STEP_PAGES};"
        ))
        .map_err(sql)?;
    let copying = Backup::new(&reading, &mut target).map_err(sql)?;
    loop {
        let began = Instant::now();
        let step = copying.step(STEP_PAGES).map_err(sql)?;
        file.sync_data().map_err(|error| failed(to, &error))?;
        if step == StepResult::Done {
            break;
        }
        std::thread::sleep((began.elapsed() * REST).min(REST_MAX));
    }
    drop(copying);
    target.close().map_err(|(_, error)| sql(error))?;
    // A backup that a power failure takes away is none; its name is the folder's.
    let folder = to.parent().unwrap_or(Path::new("."));
    file.sync_all()
        .and_then(|()| File::open(folder)?.sync_all())
        .map_err(|error| failed(to, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> ReviewError {
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull => "storage_full",
        _ => "io",
    };
    ReviewError::Store {
        kind,
        message: format!("{}: {error}", path.display()),
    }
}
