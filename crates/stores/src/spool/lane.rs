//! A lane of the guarantees `spool` and `sync`: segments of frames, appended under one lock.
//!
//! The thread that finishes a call appends its record to the slate before the reply is sent, so every answered call has a
//! record that survives the process. The slate is flushed to the segment when it is full, read or fsynced. A full segment
//! is sealed; once the store has its records, its file is recycled or removed. At the quota `AtQuota` decides which
//! records are dropped, and ingestion announces the gap.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use sentinel_core::audit::{Draft, Surface, genesis, link};
use sentinel_core::metrics::Metrics;
use tokio::sync::Notify;

use super::complaints::Complaints;
use super::frame::{self, Kind, Start};
use super::orphans;
use super::segment::{self, Segment, ShortWrite};
use super::slate::Slate;
use crate::private;

/// A segment is an eighth of the quota, clamped to this range: small enough for the page cache, large enough that
/// switching segments is rare.
const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 64 * 1024..=1024 * 1024;
/// Files kept for recycling: as many as fill up at a high rate before the store has the first.
const SPARES_MAX: usize = 4;

/// What is dropped when a lane has reached its quota. The record of a denied call never displaces another record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtQuota {
    /// The oldest segment is truncated to its first frame.
    Oldest,
    /// Nothing that the store lacks: new intents are refused (`is_full`), and those in progress complete beyond the
    /// quota, up to `BEYOND` times of it.
    Nothing,
}

/// Room for the records of calls in flight when the lane becomes full.
const BEYOND: u64 = 2;

pub struct FileLane {
    pub(crate) node: Arc<str>,
    pub(crate) lane: i64,
    pub(crate) folder: PathBuf,
    /// The folder, opened for fsync: renames of segments must be durable too.
    names: Arc<File>,
    /// Held until the process ends.
    _lock: File,
    inner: Mutex<Inner>,
    metrics: Arc<Metrics>,
    complaints: Arc<Complaints>,
    /// Notified when nearly half of the quota is used, so that ingestion does not wait.
    crowded: Arc<Notify>,
    quota: u64,
    at_quota: AtQuota,
    segment_max: u64,
}

struct Inner {
    segment: Segment,
    seq: u64,
    hash: [u8; 32],
    first_seq: u64,
    /// Numbers from `first_seq` on whose records were lost.
    lost: u64,
    /// Frames that are in no segment yet, and their number.
    slate: Slate,
    slate_len: u64,
    scratch: Vec<u8>,
    /// Oldest first.
    sealed: VecDeque<Sealed>,
    sealed_bytes: u64,
    /// Numbers of files kept for recycling.
    spares: Vec<u64>,
    /// This lane's part of the metric `spool_bytes`.
    reported: u64,
    /// The reader's segment; neither it nor the next one is truncated.
    reading: u64,
    /// Records were dropped, and none reached the store since.
    overflowing: bool,
    /// A write failed: the file takes no more frames.
    spoilt: bool,
    /// The last record was lost, so no later number reveals it yet.
    loose_end: bool,
    /// Sealed since the last fsync.
    unsynced: Vec<Arc<File>>,
    dirty: bool,
}

impl Inner {
    /// Bytes of all segments and the slate.
    fn bytes(&self) -> u64 {
        self.sealed_bytes + self.in_segment()
    }

    /// Bytes of the current segment and the slate.
    fn in_segment(&self) -> u64 {
        self.segment.written + self.slate.bytes().len() as u64
    }
}

struct Sealed {
    number: u64,
    bytes: u64,
    records: u64,
    cut: bool,
    /// A write to it failed: its file is not recycled.
    spoilt: bool,
    /// The store has its records; kept because of an intent without completion.
    stored: bool,
}

impl FileLane {
    /// Creates and locks the folder of a new lane, and starts its first segment.
    pub fn create(
        root: &Path,
        node: Arc<str>,
        (quota, at_quota): (u64, AtQuota),
        metrics: Arc<Metrics>,
        complaints: Arc<Complaints>,
        crowded: Arc<Notify>,
    ) -> io::Result<Self> {
        private::own_folder(root)?;
        let (lane, folder, lock) = claim_folder(root)?;
        let hash = genesis(&node, lane);
        let start = Start {
            node: node.clone(),
            lane,
            first_seq: 1,
            before: hash,
        };
        let segment = Segment::create(&folder, 1, &start)?;
        let slate = match at_quota {
            AtQuota::Oldest => Slate::shared(&folder)?,
            AtQuota::Nothing => Slate::plain(),
        };
        let names = Arc::new(File::open(&folder)?);
        let quota = quota.saturating_sub(slate.on_disk());
        let segment_max = (quota / 8).clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end());
        Ok(Self {
            node,
            lane,
            folder,
            names,
            _lock: lock,
            inner: Mutex::new(Inner {
                segment,
                seq: 0,
                hash,
                first_seq: 1,
                lost: 0,
                slate,
                slate_len: 0,
                scratch: Vec::new(),
                sealed: VecDeque::new(),
                sealed_bytes: 0,
                spares: Vec::new(),
                reported: 0,
                reading: 1,
                overflowing: false,
                spoilt: false,
                loose_end: false,
                unsynced: Vec::new(),
                dirty: true,
            }),
            metrics,
            complaints,
            crowded,
            quota,
            at_quota,
            segment_max,
        })
    }

    pub fn lane(&self) -> i64 {
        self.lane
    }

    /// Appends a record so that it survives the process; returns its number.
    pub(crate) fn append(&self, draft: &Draft<'_>) -> io::Result<u64> {
        self.metrics.audit.records.fetch_add(1, Relaxed);
        let mut inner = self.inner.lock();
        let seq = self.add(&mut inner, draft)?;
        if !inner.slate.outlives_us() {
            self.write(&mut inner)?;
        }
        Ok(seq)
    }

    /// Numbers and hashes a record, and writes it to the slate.
    fn add(&self, inner: &mut Inner, draft: &Draft<'_>) -> io::Result<u64> {
        let seq = inner.seq + 1;
        let mut scratch = std::mem::take(&mut inner.scratch);
        let (hash, record) = link(&inner.hash, seq, draft, &mut scratch);
        let payload = [record, &hash];
        let laid = self
            .make_room(inner, draft, frame::padded(payload))
            .and_then(|()| self.lay(inner, seq, payload));
        if laid.is_ok() {
            inner.hash = hash;
        }
        inner.scratch = scratch;
        laid.map(|()| seq)
    }

    /// Makes room for a frame of this length, in a new segment if needed.
    fn make_room(&self, inner: &mut Inner, draft: &Draft<'_>, len: usize) -> io::Result<()> {
        if !inner.slate.takes(len) {
            // Lost records are counted; the new segment's start reveals them.
            self.write_or_complain(inner);
        }
        let next = inner.spoilt || inner.in_segment() >= self.segment_max;
        if self.has_no_room_for(draft, inner, next) {
            self.lose(inner);
            return Err(io::Error::other("the spool is full (audit.spool_max_mb)"));
        }
        if next {
            self.write_or_complain(inner);
            self.next_segment(inner)?;
            // Leave room for what arrives before ingestion reads.
            if inner.sealed_bytes + 2 * self.segment_max > self.quota / 2 {
                self.crowded.notify_one();
            }
            // The audit's own records are few and displace none.
            if draft.surface != Surface::Gateway.as_str() {
                self.keep_quota(inner);
            }
            self.report(inner);
        }
        Ok(())
    }

    fn lay(&self, inner: &mut Inner, seq: u64, payload: [&[u8]; 2]) -> io::Result<()> {
        let number = inner.segment.number;
        inner.seq = seq;
        inner.dirty = true;
        inner.loose_end = false;
        let len = frame::padded(payload);
        // A non-empty slate was checked a moment ago, and frames must stay in order: not checked again.
        if !inner.slate.bytes().is_empty() || inner.slate.takes(len) {
            let place = inner.slate.place(len);
            frame::write(place, Kind::Record, seq, number, payload);
            inner.slate_len += 1;
            return Ok(());
        }
        // Larger than the slate, or its pages have failed; the slate is empty.
        let mut bytes = Vec::new();
        frame::put(&mut bytes, Kind::Record, seq, number, payload);
        let written = inner.segment.append(&bytes);
        written.map_err(|torn| self.spoil(inner, 1, torn))
    }

    /// Flushes the slate to the segment with one `write`.
    fn write(&self, inner: &mut Inner) -> io::Result<()> {
        let records = std::mem::take(&mut inner.slate_len);
        if records == 0 {
            return Ok(());
        }
        let written = inner.segment.append(inner.slate.bytes());
        inner.slate.wipe();
        written.map_err(|torn| self.spoil(inner, records, torn))
    }

    /// A write of `records` records was short.
    fn spoil(&self, inner: &mut Inner, records: u64, torn: ShortWrite) -> io::Error {
        inner.spoilt = true;
        self.lost(inner, records - torn.whole);
        torn.error
    }

    fn write_or_complain(&self, inner: &mut Inner) {
        if let Err(error) = self.write(inner) {
            self.complaints.about(&error);
        }
    }

    fn next_segment(&self, inner: &mut Inner) -> io::Result<()> {
        let start = Start {
            node: self.node.clone(),
            lane: self.lane,
            first_seq: inner.seq + 1,
            before: inner.hash,
        };
        let next = match self.begin_segment(inner, &start) {
            Ok(next) => next,
            Err(error) => {
                self.lose(inner);
                inner.spoilt = true;
                return Err(error);
            }
        };
        let full = std::mem::replace(&mut inner.segment, next);
        inner.unsynced.extend([full.file, self.names.clone()]);
        inner.sealed.push_back(Sealed {
            number: full.number,
            bytes: full.written,
            records: inner.seq + 1 - inner.first_seq - std::mem::take(&mut inner.lost),
            cut: false,
            spoilt: inner.spoilt,
            stored: false,
        });
        inner.sealed_bytes += full.written;
        inner.first_seq = inner.seq + 1;
        inner.spoilt = false;
        Ok(())
    }

    /// Starts the next segment, in a recycled file if there is one.
    fn begin_segment(&self, inner: &mut Inner, start: &Start) -> io::Result<Segment> {
        let number = inner.segment.number + 1;
        while let Some(spare) = inner.spares.pop() {
            match Segment::reuse(&self.folder, spare, number, start) {
                Ok(segment) => return Ok(segment),
                Err(error) => tracing::debug!("a spool segment could not be used again: {error}"),
            }
        }
        Segment::create(&self.folder, number, start)
    }

    /// Updates the metric `spool_bytes`.
    fn report(&self, inner: &mut Inner) {
        let (now, before) = (inner.sealed_bytes + inner.segment.written, inner.reported);
        let spool_bytes = &self.metrics.audit.spool_bytes;
        spool_bytes.fetch_add(now.wrapping_sub(before), Relaxed);
        inner.reported = now;
    }

    /// Whether this record is dropped rather than displacing others. `next`: it needs a new segment.
    fn has_no_room_for(&self, draft: &Draft<'_>, inner: &Inner, next: bool) -> bool {
        let full = |quota| next && inner.bytes() + self.segment_max > quota;
        match self.at_quota {
            // Room freed by dropping records is not for denied calls either.
            AtQuota::Oldest => draft.decision == "deny" && (inner.overflowing || full(self.quota)),
            // The audit's own records are few, and would not be repeated.
            AtQuota::Nothing => {
                draft.surface != Surface::Gateway.as_str() && full(BEYOND * self.quota)
            }
        }
    }

    /// Counts a record that is not written.
    fn lose(&self, inner: &mut Inner) {
        inner.seq += 1;
        self.lost(inner, 1);
    }

    /// Marks the last `records` numbers as lost. They stay used, so that the reader finds the gap.
    fn lost(&self, inner: &mut Inner, records: u64) {
        self.metrics.audit.dropped.fetch_add(records, Relaxed);
        inner.lost += records;
        inner.loose_end = true;
    }

    /// Truncates the oldest segments until there is room for one more, as far as allowed.
    fn keep_quota(&self, inner: &mut Inner) {
        let reading = inner.reading;
        // The reader may have moved on to the next one.
        let next = inner
            .sealed
            .iter()
            .find(|s| s.number > reading && !s.cut)
            .map(|s| s.number);
        let is_read = |s: &Sealed| s.number == reading || Some(s.number) == next;
        let gives_way = |s: &Sealed| s.stored || self.at_quota == AtQuota::Oldest;
        while inner.sealed_bytes + self.segment_max > self.quota {
            let oldest = inner
                .sealed
                .iter_mut()
                .find(|sealed| !sealed.cut && !is_read(sealed) && gives_way(sealed));
            let Some(sealed) = oldest else { return };
            let kept = segment::cut(&self.folder, sealed.number).unwrap_or(sealed.bytes);
            sealed.cut = true;
            inner.sealed_bytes -= sealed.bytes.saturating_sub(kept);
            sealed.bytes = kept;
            if !sealed.stored {
                let dropped = &self.metrics.audit.dropped;
                dropped.fetch_add(sealed.records, Relaxed);
                inner.overflowing = true;
            }
        }
    }

    /// Whether the quota is used up, so that no new intent is accepted.
    pub(crate) fn is_full(&self) -> bool {
        let inner = self.inner.lock();
        let stored = inner.sealed.iter().filter(|sealed| sealed.stored);
        let stored: u64 = stored.map(|sealed| sealed.bytes).sum();
        inner.bytes() >= self.quota + stored
    }

    /// Records were lost after the last one written, so no reader can know of them yet.
    pub(crate) fn has_loose_end(&self) -> bool {
        self.inner.lock().loose_end
    }

    /// How far the reader may read: the current segment and its length.
    pub(crate) fn end(&self, reading: u64) -> (u64, u64) {
        let mut inner = self.inner.lock();
        // A reader that has not started will start with the first.
        inner.reading = reading.max(1);
        self.write_or_complain(&mut inner);
        (inner.segment.number, inner.segment.written)
    }

    /// The store has every record up to the end of this segment.
    pub(crate) fn forget(&self, number: u64) {
        let mut inner = self.inner.lock();
        let Some(at) = inner.sealed.iter().position(|s| s.number == number) else {
            return;
        };
        let Some(gone) = inner.sealed.remove(at) else {
            return;
        };
        inner.sealed_bytes -= gone.bytes;
        let reused = inner.spares.len() < SPARES_MAX && !gone.cut && !gone.spoilt;
        // Without the lock: workers append meanwhile.
        drop(inner);
        let done = match reused {
            true => segment::put_aside(&self.folder, number),
            false => segment::remove(&self.folder, number),
        };
        match done {
            Ok(()) if reused => self.inner.lock().spares.push(number),
            Ok(()) => {}
            Err(error) => tracing::warn!("a spool segment could not be removed: {error}"),
        }
    }

    /// Records of this lane reached the store.
    pub(crate) fn progressed(&self) {
        self.inner.lock().overflowing = false;
    }

    /// The store has this segment, but an intent in it or before it has no completion yet.
    pub(crate) fn stored(&self, number: u64) {
        let mut inner = self.inner.lock();
        let sealed = inner.sealed.iter_mut().find(|s| s.number == number);
        sealed.into_iter().for_each(|sealed| sealed.stored = true);
    }

    /// Makes everything appended before durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let (files, dirty) = {
            let mut inner = self.inner.lock();
            self.write_or_complain(&mut inner);
            let mut files = std::mem::take(&mut inner.unsynced);
            let dirty = std::mem::take(&mut inner.dirty);
            files.push(inner.segment.file.clone());
            (files, dirty)
        };
        if !dirty && files.len() == 1 {
            return Ok(());
        }
        for file in files {
            if let Err(error) = file.sync_data() {
                // After a failed fsync the file's state is unknown: continue in a new file.
                let mut inner = self.inner.lock();
                inner.spoilt = true;
                inner.dirty = true;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes an ended lane whose records are all in the store.
    pub(crate) fn remove(&self) {
        if let Err(error) = orphans::remove(&self.folder) {
            tracing::debug!("the spool could not be removed: {error}");
        }
    }
}

/// A lane is named by its start time in microseconds; on a collision the later one counts up.
fn claim_folder(root: &Path) -> io::Result<(i64, PathBuf, File)> {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    // Even: the odd number beside it is the memory lane's.
    let mut lane = (since.as_micros() as i64) & !1;
    loop {
        // Locked before the rename, so that no process adopts it.
        let aside = root.join(format!(".{lane}-{}", std::process::id()));
        private::own_folder(&aside)?;
        let lock = private::create(&aside.join("lock"))?;
        lock.lock()?;
        let folder = orphans::folder_of(root, lane);
        match fs::rename(&aside, &folder) {
            Ok(()) => return Ok((lane, folder, lock)),
            Err(_) if folder.exists() => {
                fs::remove_dir_all(&aside)?;
                lane += 2;
            }
            Err(error) => return Err(error),
        }
    }
}
