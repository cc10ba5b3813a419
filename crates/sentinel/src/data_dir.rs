//! The data directory, created for its owner only, since it holds records, reviews and catalogs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// An existing directory keeps its permissions; `doctor` explains them.
pub(crate) use sentinel_stores::make_folder as make;

/// Creates a file in it for its owner only.
pub(crate) use sentinel_stores::create_file as create;

/// Whether other users of this machine can read it.
pub(crate) fn is_open_to_others(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}
