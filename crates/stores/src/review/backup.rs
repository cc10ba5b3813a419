//! A consistent copy of the database while others write.
//!
//! All pages are read in one snapshot, `STEP_PAGES` at a time. Each step is synced and followed by a pause of four times
//! its duration, so that writers wait for one step at most.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use sentinel_review::store::ReviewError;
use tokio::time::Instant;

use super::sql;
use crate::private;

/// Pages per step: about as long to write as one sync.
const STEP_PAGES: i32 = 64;
/// The pause after each step, as a multiple of its duration.
const REST: u32 = 4;
/// Upper bound of the pause, for a disk that stalls.
const REST_MAX: Duration = Duration::from_millis(50);

pub(super) fn backup(from: &Connection, to: &Path) -> Result<(), ReviewError> {
    let file = private::create_new(to).map_err(|error| failed(to, &error))?;
    let copied = copy(from, to, &file);
    if copied.is_err() {
        // A partial copy is useless; other files in the folder are not ours.
        let _ = std::fs::remove_file(to);
    }
    copied
}

fn copy(from: &Connection, to: &Path, file: &File) -> Result<(), ReviewError> {
    // The first read starts the snapshot for all steps.
    let reading = from.unchecked_transaction().map_err(sql)?;
    reading
        .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        .map_err(sql)?;
    let mut target = Connection::open(to).map_err(sql)?;
    // An unfinished copy is deleted, so it needs no journal; `file` is synced here.
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
    // Survives a power failure only if the folder entry is synced too.
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
