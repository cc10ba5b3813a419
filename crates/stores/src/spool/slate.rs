//! The slate: a small memory-mapped file with the newest frames of a lane, until they are in a segment.
//!
//! A store to the mapping survives the process like a `write`, without a system call. The same few pages are reused; mapping
//! the segments themselves would cost a page fault per new page, as much as writing its records.
//!
//! If the file system cannot back a mapped page, the process gets SIGBUS. So blocks are allocated before mapping, only file
//! systems that overwrite in place are used, and pages are checked with `MADV_POPULATE_WRITE` before use, which reports a
//! failed disk. Where that is not possible the slate is plain memory, and `FileLane` flushes it after each record.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use memmap2::{Advice, MmapMut};
use rustix::fs::{IFlags, OFlags};
use rustix::time::ClockId;

use super::frame::{self, Found, Kind};
use crate::private;

/// Some hundred records: enough to amortise the flush.
pub(super) const BYTES: usize = 64 * 1024;
/// How long a successful `MADV_POPULATE_WRITE` is trusted (plus a clock tick). A page fails only after write-back on a
/// failing disk.
const GOOD_FOR: Duration = Duration::from_millis(10);
const NAME: &str = "slate";

/// ext2, ext3 and ext4.
const EXT: u64 = 0xef53;
/// XFS and tmpfs.
const OVERWRITING: [u64; 2] = [0x5846_5342, 0x0102_1994];

pub(super) struct Slate {
    backing: Backing,
    used: usize,
    /// Time of the last successful check of the unused pages.
    asked: Option<Duration>,
}

enum Backing {
    /// Outlives the process.
    Shared(MmapMut),
    Own(Box<[u8]>),
}

impl Slate {
    /// A memory-mapped slate, where possible.
    pub(super) fn shared(folder: &Path) -> io::Result<Self> {
        Ok(map(folder)?.map_or_else(Self::plain, |map| Self::of(Backing::Shared(map))))
    }

    pub(super) fn plain() -> Self {
        Self::of(Backing::Own(vec![0; BYTES].into()))
    }

    fn of(backing: Backing) -> Self {
        Self {
            backing,
            used: 0,
            asked: None,
        }
    }

    /// Whether its frames survive the process.
    pub(super) fn outlives_us(&self) -> bool {
        matches!(self.backing, Backing::Shared(_))
    }

    /// Its size on disk.
    pub(super) fn on_disk(&self) -> u64 {
        if self.outlives_us() { BYTES as u64 } else { 0 }
    }

    /// Its frames, one after the other.
    pub(super) fn bytes(&self) -> &[u8] {
        let all = match &self.backing {
            Backing::Shared(map) => &map[..],
            Backing::Own(bytes) => bytes,
        };
        &all[..self.used]
    }

    /// Whether `len` more bytes fit, on checked pages.
    pub(super) fn takes(&mut self, len: usize) -> bool {
        self.used + len <= BYTES && self.is_good()
    }

    fn is_good(&mut self) -> bool {
        let Backing::Shared(map) = &self.backing else {
            return true;
        };
        let now = now();
        let fresh = |asked: Duration| now.saturating_sub(asked) <= GOOD_FOR;
        if !self.asked.is_some_and(fresh) {
            let free = map.advise_range(Advice::PopulateWrite, self.used, BYTES - self.used);
            self.asked = free.is_ok().then_some(now);
        }
        self.asked.is_some()
    }

    /// The next `len` bytes. Only after `takes`.
    pub(super) fn place(&mut self, len: usize) -> &mut [u8] {
        let all = match &mut self.backing {
            Backing::Shared(map) => &mut map[..],
            Backing::Own(bytes) => bytes,
        };
        let begin = self.used;
        self.used += len;
        &mut all[begin..self.used]
    }

    /// Empties it after a flush. The bytes stay until overwritten.
    pub(super) fn wipe(&mut self) {
        self.used = 0;
        self.asked = None;
    }
}

/// Read for every record, so the coarse clock, which ticks every few milliseconds.
fn now() -> Duration {
    let now = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// Creates and maps the file, where that is safe.
fn map(folder: &Path) -> io::Result<Option<MmapMut>> {
    let mut file = private::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(folder.join(NAME))?;
    if !overwrites(&file) {
        return Ok(None);
    }
    // Allocates the blocks while a full disk is still an error and not a signal.
    file.write_all(&[0; BYTES])?;
    #[expect(
        unsafe_code,
        reason = "the file is new, in a folder that is ours and locked: nobody changes it or makes it shorter"
    )]
    let map = unsafe { MmapMut::map_mut(&file) };
    // Older kernels lack `MADV_POPULATE_WRITE`.
    let good = |map: &MmapMut| map.advise(Advice::PopulateWrite).is_ok();
    Ok(map.ok().filter(good))
}

fn overwrites(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|system| match system.f_type as u64 {
        EXT => !journals_data(file),
        kind => OVERWRITING.contains(&kind),
    })
}

/// Whether ext4 journals the file's data: pages would then fail with the journal, five times a second. If unknown, the
/// page check must do.
fn journals_data(file: &File) -> bool {
    let flags = rustix::fs::ioctl_getflags(file);
    let by_flag = flags.is_ok_and(|flags| flags.contains(IFlags::JOURNALING));
    let by_mount = || {
        let device = rustix::fs::fstat(file).ok()?.st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let device = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let options = Path::new("/proc/fs/ext4")
            .join(device.file_name()?)
            .join("options");
        let options = fs::read_to_string(options).ok()?;
        Some(options.lines().any(|option| option == "data=journal"))
    };
    by_flag || by_mount() == Some(true)
}

/// The frames that a dead process left on its slate: those of this segment from number `from` on.
pub(super) fn left(folder: &Path, segment: u64, from: u64) -> Vec<u8> {
    let mut bytes = match read(folder) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::warn!("the newest records of a spool that was left cannot be read: {error}");
            return Vec::new();
        }
    };
    let Range { start, end } = present(&bytes, segment, from);
    bytes.truncate(end);
    bytes.drain(..start);
    bytes
}

/// Reads the file without following links or blocking on a FIFO.
fn read(folder: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(folder.join(NAME))?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::with_capacity(BYTES);
    file.take(BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Their byte range. Numbers rise; frames after a lower number are stale.
fn present(bytes: &[u8], segment: u64, from: u64) -> Range<usize> {
    let (mut start, mut end) = (0, 0);
    let mut last = 0;
    while let Found::Frame(found) = frame::look(&bytes[end..], segment) {
        if found.kind != Kind::Record || found.seq <= last {
            break;
        }
        last = found.seq;
        end += found.len;
        if found.seq < from {
            start = end;
        }
    }
    start..end
}
