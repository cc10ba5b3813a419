//! Lanes whose process has died.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::root;

/// Suffix of a lane's folder while it is being removed.
const GONE: &str = "-gone";

/// An adopted folder, locked by this process.
pub(crate) struct Orphan {
    pub(crate) folder: PathBuf,
    _lock: File,
}

impl Orphan {
    pub(crate) fn remove(self) {
        if let Err(error) = remove(&self.folder) {
            tracing::warn!("an adopted spool could not be removed: {error}");
        }
    }
}

/// Removes a lane whose records are all in the store. Renamed first, so that an interrupted removal is not adopted.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    let name = folder.file_name().unwrap_or_default();
    let aside = folder.with_file_name(format!(".{}{GONE}", name.to_string_lossy()));
    fs::rename(folder, &aside)?;
    match fs::remove_dir_all(aside) {
        // Another process that adopts may have removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Whether the name is that of a partly removed lane.
fn is_gone(name: &str) -> bool {
    let lane = name
        .strip_prefix('.')
        .and_then(|name| name.strip_suffix(GONE));
    lane.is_some_and(is_lane)
}

fn is_lane(name: &str) -> bool {
    lane_of(name).is_some()
}

/// The folder of a lane.
pub(super) fn folder_of(root: &Path, lane: i64) -> PathBuf {
    root.join(lane.to_string())
}

/// The lane that a folder of this name holds.
fn lane_of(name: &str) -> Option<i64> {
    name.parse().ok()
}

/// The lanes in the spool, of all processes.
pub(crate) fn lanes(data_dir: &Path) -> Vec<i64> {
    let entries = fs::read_dir(root(data_dir)).into_iter().flatten().flatten();
    let lane = |entry: fs::DirEntry| lane_of(entry.file_name().to_str()?);
    entries.filter_map(lane).collect()
}

/// Whether there is anything to adopt.
pub fn has_orphans(data_dir: &Path) -> bool {
    adopt(data_dir).is_ok_and(|orphans| !orphans.is_empty())
}

/// Locks and returns the folders that no process holds.
pub(crate) fn adopt(data_dir: &Path) -> io::Result<Vec<Orphan>> {
    let entries = match fs::read_dir(root(data_dir)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut orphans = Vec::new();
    for entry in entries {
        let folder = entry?.path();
        let name = folder.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or_default();
        if is_gone(name) {
            // Its removal was interrupted, or is under way.
            let _ = fs::remove_dir_all(&folder);
        }
        if !is_lane(name) {
            continue;
        }
        // Removed by another process in the meantime.
        let Ok(lock) = File::open(folder.join("lock")) else {
            continue;
        };
        if lock.try_lock().is_ok() && folder.join("lock").exists() {
            orphans.push(Orphan {
                folder,
                _lock: lock,
            });
        }
    }
    orphans.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(orphans)
}
