//! Where the newest records of a lane are until they are in a segment: a small file that is memory of this process.
//!
//! What is put there outlives the process as if it were written. The same few pages serve again and again, so that they
//! are at hand; a map of the segments themselves would meet new pages all the time, and a fault for each costs as much
//! as writing its records does.
//!
//! A file system that cannot take what is put into a mapped page ends the process. So the disk has room for the file
//! before it is mapped, only file systems that overwrite what they have are trusted with one, and they are asked for the
//! pages again and again, before these are used: a disk that failed says so then. Where any of that is not to be had
//! the slate is plain memory, and whoever uses it writes to the segment at once.

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

/// Some hundred records: enough that writing them to the segment is little for each.
pub(super) const BYTES: usize = 64 * 1024;
/// For so long, and a tick of the clock, pages are believed to be good. One goes bad when it was written back, which is
/// rare, and the disk failed then.
const GOOD_FOR: Duration = Duration::from_millis(10);
const NAME: &str = "slate";

/// ext2, ext3 and ext4.
const EXT: u64 = 0xef53;
/// XFS and tmpfs.
const OVERWRITING: [u64; 2] = [0x5846_5342, 0x0102_1994];

pub(super) struct Slate {
    room: Room,
    used: usize,
    /// When all pages that are not used yet were good.
    asked: Option<Duration>,
}

enum Room {
    /// Outlives the process.
    Shared(MmapMut),
    Own(Box<[u8]>),
}

impl Slate {
    /// One that outlives the process, where that is possible.
    pub(super) fn shared(folder: &Path) -> io::Result<Self> {
        Ok(map(folder)?.map_or_else(Self::plain, |map| Self::of(Room::Shared(map))))
    }

    pub(super) fn plain() -> Self {
        Self::of(Room::Own(vec![0; BYTES].into()))
    }

    fn of(room: Room) -> Self {
        Self {
            room,
            used: 0,
            asked: None,
        }
    }

    /// Whether what is on it survives the end of the process.
    pub(super) fn outlives_us(&self) -> bool {
        matches!(self.room, Room::Shared(_))
    }

    /// How much of the disk it takes.
    pub(super) fn on_disk(&self) -> u64 {
        if self.outlives_us() { BYTES as u64 } else { 0 }
    }

    /// What is on it, whole frames one after the other.
    pub(super) fn bytes(&self) -> &[u8] {
        let all = match &self.room {
            Room::Shared(map) => &map[..],
            Room::Own(bytes) => bytes,
        };
        &all[..self.used]
    }

    /// Whether there is room for so much more, on pages that are good.
    pub(super) fn takes(&mut self, len: usize) -> bool {
        self.used + len <= BYTES && self.is_good()
    }

    fn is_good(&mut self) -> bool {
        let Room::Shared(map) = &self.room else {
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

    /// Room for so much behind what is on it. Only for what it takes.
    pub(super) fn place(&mut self, len: usize) -> &mut [u8] {
        let all = match &mut self.room {
            Room::Shared(map) => &mut map[..],
            Room::Own(bytes) => bytes,
        };
        let begin = self.used;
        self.used += len;
        &mut all[begin..self.used]
    }

    /// It is all in the segment. The bytes stay, until others take their place.
    pub(super) fn wipe(&mut self) {
        self.used = 0;
        self.asked = None;
    }
}

/// For every record, so by the clock that is cheapest to read; it moves on every few milliseconds.
fn now() -> Duration {
    let now = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// A new file as memory, where that is safe.
fn map(folder: &Path) -> io::Result<Option<MmapMut>> {
    let mut file = private::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(folder.join(NAME))?;
    if !overwrites(&file) {
        return Ok(None);
    }
    // Its place on the disk is taken now, when that can still be refused.
    file.write_all(&[0; BYTES])?;
    #[expect(
        unsafe_code,
        reason = "the file is new, in a folder that is ours and locked: nobody changes it or makes it shorter"
    )]
    let map = unsafe { MmapMut::map_mut(&file) };
    // An older system cannot be asked for pages.
    let good = |map: &MmapMut| map.advise(Advice::PopulateWrite).is_ok();
    Ok(map.ok().filter(good))
}

fn overwrites(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|system| match system.f_type as u64 {
        EXT => !journals_data(file),
        kind => OVERWRITING.contains(&kind),
    })
}

/// Whether ext4 writes what is in the file into its journal first: pages go bad with the journal then, five times a
/// second. Where the system does not say, asking for them must do.
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

/// What a process left on the slate of a lane: frames of this segment that begin with the number `from`, and no others.
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

/// Whatever has its name: nothing is followed or waited for.
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

/// Where they lie. Their numbers rise; what lies behind them was there before.
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
