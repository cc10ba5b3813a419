//! Where the newest records of a lane lie until they are in a segment: a small file that is memory of this process.
//!
//! What is put there outlives the process as if it were written, and costs no system call. The same few pages serve
//! again and again, so that they are at hand; a map of the segments themselves would meet new pages all the time, and a
//! fault for each costs as much as writing its records does.
//!
//! Memory that is a file ends the process where the file system finds no place for it on a full disk. Some never look
//! for one, because they overwrite what they have; on any other, and where there are no maps, the desk is plain memory,
//! and whoever uses it writes each record to the segment at once.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use memmap2::MmapMut;

use super::frame::{self, Found};
use crate::private;

/// Some hundred records: enough that writing them to the segment is little for each.
pub(super) const BYTES: usize = 64 * 1024;
const NAME: &str = "desk";

/// ext2, ext3 and ext4; XFS; tmpfs.
const OVERWRITING: [u64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

pub(super) struct Desk {
    room: Room,
    used: usize,
}

enum Room {
    /// Outlives the process.
    Shared(MmapMut),
    Own(Box<[u8]>),
}

impl Desk {
    /// One that outlives the process, where that is possible.
    pub(super) fn shared(folder: &Path) -> io::Result<Self> {
        Ok(map(folder)?.map_or_else(Self::plain, |map| Self {
            room: Room::Shared(map),
            used: 0,
        }))
    }

    pub(super) fn plain() -> Self {
        Self {
            room: Room::Own(vec![0; BYTES].into()),
            used: 0,
        }
    }

    /// Whether what lies here survives the end of the process.
    pub(super) fn outlives_us(&self) -> bool {
        matches!(self.room, Room::Shared(_))
    }

    /// How much of the disk it takes.
    pub(super) fn on_disk(&self) -> u64 {
        if self.outlives_us() { BYTES as u64 } else { 0 }
    }

    /// What lies here, whole frames one after the other.
    pub(super) fn bytes(&self) -> &[u8] {
        let all = match &self.room {
            Room::Shared(map) => &map[..],
            Room::Own(bytes) => bytes,
        };
        &all[..self.used]
    }

    /// How much more has room here.
    pub(super) fn room(&self) -> usize {
        BYTES - self.used
    }

    /// Room for so much behind what lies here, if there is.
    pub(super) fn place(&mut self, len: usize) -> Option<&mut [u8]> {
        let all = match &mut self.room {
            Room::Shared(map) => &mut map[..],
            Room::Own(bytes) => bytes,
        };
        let place = all.get_mut(self.used..self.used + len)?;
        self.used += len;
        Some(place)
    }

    /// It is all in the segment. The bytes stay, until others take their place.
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }
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
    let Ok(map) = map else { return Ok(None) };
    // So that no call waits for a page to come back from the disk. If it is not allowed, one may.
    let _ = map.lock();
    Ok(Some(map))
}

fn overwrites(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|system| OVERWRITING.contains(&(system.f_type as u64)))
}

/// What a process left on the desk of a lane: frames of this segment that begin with the number `from`, and no others.
pub(super) fn left(folder: &Path, segment: u64, from: u64) -> io::Result<Vec<u8>> {
    let mut bytes = match fs::read(folder.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let Range { start, end } = present(&bytes, segment, from);
    bytes.truncate(end);
    bytes.drain(..start);
    Ok(bytes)
}

/// Where they lie. Their numbers rise; what lies behind them was there before.
fn present(bytes: &[u8], segment: u64, from: u64) -> Range<usize> {
    let (mut start, mut end) = (0, 0);
    let mut last = 0;
    while let Found::Frame(found) = frame::look(&bytes[end..], segment) {
        if found.seq <= last {
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
