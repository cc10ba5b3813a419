//! Files that nobody else may read: what callers do is between them and the operator.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

/// Makes a folder, and those above it, for its owner only. One that is there keeps its mode: somebody
/// chose it.
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}

/// The same for a folder that is ours alone, whoever made it.
pub(crate) fn own_folder(path: &Path) -> io::Result<()> {
    make_folder(path)?;
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    if mode != FOLDER {
        fs::set_permissions(path, fs::Permissions::from_mode(FOLDER))?;
    }
    Ok(())
}

/// How to open files; new ones are for their owner only.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE);
    options
}

/// A file that was not there.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    options().write(true).create_new(true).open(path)
}

/// A new file, or an emptied one.
pub fn create(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Makes a file if there is none, so that a library that opens it later does not choose its mode.
pub(crate) fn touch(path: &Path) -> io::Result<()> {
    options().append(true).create(true).open(path).map(drop)
}
