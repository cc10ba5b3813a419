//! One file of a lane: frames, possibly followed by stale frames of an earlier segment.
//!
//! A file whose records are in the store is recycled as a later segment: overwriting pages in the page cache costs half of
//! allocating new ones. Stale frames are ignored because each frame names its segment.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::follow::read_start_bytes;
use super::frame::{self, Kind, Start};
use crate::private;

pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.seg"))
}

/// The name of a file that waits to be recycled.
fn spare_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.spare"))
}

/// The segment being written.
pub(super) struct Segment {
    pub(super) file: Arc<File>,
    pub(super) number: u64,
    pub(super) written: u64,
}

impl Segment {
    /// Starts a segment in a new file.
    pub(super) fn create(folder: &Path, number: u64, start: &Start) -> io::Result<Self> {
        let path = path(folder, number);
        let file = private::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        // A failed attempt may have left bytes.
        file.set_len(0)?;
        Self::begin(file, number, start)
    }

    /// Starts a segment in the recycled file `spare`.
    pub(super) fn reuse(folder: &Path, spare: u64, number: u64, start: &Start) -> io::Result<Self> {
        let path = path(folder, number);
        fs::rename(spare_path(folder, spare), &path)?;
        let file = OpenOptions::new().write(true).open(path)?;
        Self::begin(file, number, start)
    }

    fn begin(file: File, number: u64, start: &Start) -> io::Result<Self> {
        let mut payload = Vec::new();
        start.write(&mut payload);
        let mut bytes = Vec::new();
        let before = start.first_seq - 1;
        frame::put(&mut bytes, Kind::Segment, before, number, [&payload, &[]]);
        file.write_all_at(&bytes, 0)?;
        Ok(Self {
            file: Arc::new(file),
            number,
            written: bytes.len() as u64,
        })
    }

    /// Appends frames.
    pub(super) fn append(&mut self, frames: &[u8]) -> Result<(), ShortWrite> {
        let (len, error) = match self.file.write_at(frames, self.written) {
            Ok(len) => (len, io::ErrorKind::StorageFull.into()),
            Err(error) => (0, error),
        };
        self.written += len as u64;
        if len == frames.len() {
            return Ok(());
        }
        let whole = frame::count(&frames[..len], self.number);
        Err(ShortWrite { whole, error })
    }
}

/// A short write: only the first `whole` frames were written.
pub(super) struct ShortWrite {
    pub(super) whole: u64,
    pub(super) error: io::Error,
}

/// Marks a segment's file for recycling.
pub(super) fn put_aside(folder: &Path, number: u64) -> io::Result<()> {
    fs::rename(path(folder, number), spare_path(folder, number))
}

pub(super) fn remove(folder: &Path, number: u64) -> io::Result<()> {
    fs::remove_file(path(folder, number))
}

/// Truncates a segment to its first frame, so that readers see a gap; returns the new length.
pub(super) fn cut(folder: &Path, number: u64) -> io::Result<u64> {
    let path = path(folder, number);
    let bytes = read_start_bytes(&path)?;
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(bytes)?;
    Ok(bytes)
}
