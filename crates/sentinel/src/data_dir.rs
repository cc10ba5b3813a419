//! The data directory: made for its owner alone, for records, reviews and catalogs are nobody else's.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A directory that is there keeps its permissions; `doctor` says what they mean.
pub(crate) use sentinel_stores::make_folder as make;

/// A file in it: for its owner alone, like everything there.
pub(crate) use sentinel_stores::create_file as create;

/// Whether other users of this machine can look into it.
pub(crate) fn is_open_to_others(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}
