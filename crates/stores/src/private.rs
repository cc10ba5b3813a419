//! Files and folders with owner-only modes: they hold what callers did.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

/// Creates a folder and its parents with mode 0700. An existing folder keeps its mode, which the operator may have
/// chosen.
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}

/// The same for a folder that only the gateway uses: its mode is corrected.
pub(crate) fn own_folder(path: &Path) -> io::Result<()> {
    make_folder(path)?;
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    if mode != FOLDER {
        fs::set_permissions(path, fs::Permissions::from_mode(FOLDER))?;
    }
    Ok(())
}

/// Options for opening files; new ones get mode 0600.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE);
    options
}

/// Creates a file; fails if it exists.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    options().write(true).create_new(true).open(path)
}

/// Creates or truncates a file.
pub fn create(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Creates a file if there is none, so that a library that opens it later does not choose its mode.
pub(crate) fn touch(path: &Path) -> io::Result<()> {
    options().append(true).create(true).open(path).map(drop)
}
