//! The data directory: made for its owner alone, for records, reviews and catalogs are nobody else's.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Makes the directory where it is missing. One that is there keeps its permissions: whoever made it may
/// have had reasons, and `doctor` says what they mean.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Whether other users of this machine can look into it.
pub(crate) fn is_open_to_others(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}
