//! Reads the segments of a lane, oldest first, whether its writer lives or not.
//!
//! Missing numbers are a gap: a torn or damaged frame, a segment truncated at the quota, a record
//! that could not be written.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sentinel_core::audit::{ANCHOR, Batch, Draft, Gathering, Record, UNKNOWN, chain};

use super::frame::{self, Found, Kind, Start};
use super::{segment, slate};

/// One read and one transaction of the store: some thousand records. A larger frame is read alone.
const CHUNK_BYTES: u64 = 1024 * 1024;

/// Missing records, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) lane: i64,
    pub(crate) from_seq: u64,
    pub(crate) to_seq: u64,
    /// The hash before the next record. Unknown after a torn or damaged frame, which alone held it.
    pub(crate) before: Option<[u8; 32]>,
}

/// A record's relation to an intent.
pub(crate) enum Step {
    /// It is one, with this number.
    Begun(u64, Box<Record>),
    /// It answers the one with this number.
    Ended(u64),
}

impl Step {
    fn of(seq: u64, draft: &Draft<'_>) -> Option<Self> {
        if draft.outcome == "intent" {
            Some(Self::Begun(seq, Box::new(draft.to_record())))
        } else if draft.intent != 0 && draft.outcome != UNKNOWN {
            // `unknown` completes an intent of another lane.
            Some(Self::Ended(draft.intent))
        } else {
            None
        }
    }
}

#[derive(Default)]
pub(crate) struct Chunk {
    pub(crate) records: Option<Batch>,
    /// Their intents and completions, in order.
    pub(crate) steps: Vec<Step>,
    /// Some of them are not anchors.
    pub(crate) beyond_anchors: bool,
    pub(crate) gaps: Vec<Gap>,
    /// Segments that were read to their end before these records.
    pub(crate) finished: Vec<u64>,
    /// There is more to read right now.
    pub(crate) more: bool,
}

pub(crate) struct Follower {
    folder: PathBuf,
    segment: u64,
    offset: u64,
    start: Option<Start>,
    expected: Option<u64>,
    /// The hash of the last record.
    hash: Option<[u8; 32]>,
}

impl Follower {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            segment: 0,
            offset: 0,
            start: None,
            expected: None,
            hash: None,
        }
    }

    pub(crate) fn segment(&self) -> u64 {
        self.segment
    }

    /// Reads up to `live` (the current segment and its length), or to the end of a dead lane. A chunk
    /// without records means that nothing more is there for now.
    pub(crate) fn read(&mut self, live: Option<(u64, u64)>) -> io::Result<Chunk> {
        let mut chunk = Chunk::default();
        loop {
            if self.segment == 0 && !self.advance()? {
                return Ok(chunk);
            }
            let sealed = live.is_none_or(|(current, _)| self.segment < current);
            let end = match live {
                Some((current, written)) if current == self.segment => written,
                _ => length(&segment::path(&self.folder, self.segment))?,
            };
            self.some(end, sealed, &mut chunk)?;
            if chunk.records.is_some() || !sealed {
                chunk.more = chunk.records.is_some() && (sealed || self.offset < end);
                return Ok(chunk);
            }
            chunk.finished.push(self.segment);
            if !self.advance()? {
                self.slate(&mut chunk);
                return Ok(chunk);
            }
        }
    }

    /// Reads the slate of a dead writer, after all segments.
    fn slate(&mut self, chunk: &mut Chunk) {
        let bytes = slate::left(&self.folder, self.segment, self.expected.unwrap_or(0));
        let mut records = Gathering::default();
        self.frames(&bytes, true, &mut records, chunk);
        if let Some(start) = self.start.as_ref().filter(|_| !records.is_empty()) {
            chunk.records = Some(records.over(bytes, start.node.clone(), start.lane));
        }
    }

    /// Moves to the next segment; `false` if there is none.
    fn advance(&mut self) -> io::Result<bool> {
        let next = segments(&self.folder)?
            .into_iter()
            .find(|number| *number > self.segment);
        let Some(next) = next else { return Ok(false) };
        self.segment = next;
        self.offset = 0;
        Ok(true)
    }

    /// Reads some records of the current segment.
    fn some(&mut self, end: u64, sealed: bool, chunk: &mut Chunk) -> io::Result<()> {
        let mut want = CHUNK_BYTES;
        while self.offset < end {
            let bytes = read_at(
                &segment::path(&self.folder, self.segment),
                self.offset,
                want.min(end - self.offset),
            )?;
            if bytes.is_empty() {
                // It was truncated meanwhile.
                return Ok(());
            }
            let whole = self.offset + bytes.len() as u64 >= end;
            let mut records = Gathering::default();
            let used = self.frames(&bytes, whole && sealed, &mut records, chunk);
            self.offset += used as u64;
            if let Some(start) = self.start.as_ref().filter(|_| !records.is_empty()) {
                chunk.records = Some(records.over(bytes, start.node.clone(), start.lane));
                return Ok(());
            }
            if used == 0 {
                if whole {
                    return Ok(());
                }
                want *= 2;
            }
        }
        Ok(())
    }

    /// Takes the frames of a buffer; returns the bytes consumed. `last`: nothing will follow, so an
    /// incomplete frame is torn.
    fn frames(
        &mut self,
        bytes: &[u8],
        last: bool,
        records: &mut Gathering,
        chunk: &mut Chunk,
    ) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            match frame::look(&bytes[at..], self.segment) {
                Found::Frame(found) => {
                    match found.kind {
                        Kind::Segment => self.started(Start::read(found.payload), chunk),
                        Kind::Record if self.start.is_some() => {
                            let begin = at + frame::HEADER_LEN;
                            let seq = found.seq;
                            if let Some((len, hash)) = frame::split_record(found.payload)
                                && let Ok(draft) = records.add(bytes, begin..begin + len, seq, hash)
                            {
                                chunk.steps.extend(Step::of(seq, &draft));
                                chunk.beyond_anchors |= draft.method != ANCHOR;
                                let encoded = &bytes[begin..begin + len];
                                // A record that was never written is not in the chain.
                                let last = self.hash;
                                let follows = |last: &[u8; 32]| chain(last, seq, encoded) == hash;
                                self.reach(seq, || last.filter(follows), chunk);
                                self.expected = Some(seq + 1);
                                self.hash = Some(hash);
                            }
                        }
                        Kind::Record => {}
                    }
                    at += found.len;
                }
                Found::Incomplete if !last => return at,
                // Frames begin at multiples of 8.
                Found::Incomplete | Found::Nothing => at += 8,
            }
        }
        bytes.len()
    }

    fn started(&mut self, start: Option<Start>, chunk: &mut Chunk) {
        let Some(start) = start else { return };
        let (first, before) = (start.first_seq, start.before);
        self.start = Some(start);
        self.reach(first, || Some(before), chunk);
        self.hash = Some(before);
    }

    /// Continues at `seq`; numbers expected before it are a gap. `before` is the hash it follows.
    fn reach(&mut self, seq: u64, before: impl FnOnce() -> Option<[u8; 32]>, chunk: &mut Chunk) {
        let lane = self.start.as_ref().map_or(0, |start| start.lane);
        if let Some(expected) = self.expected
            && seq > expected
        {
            match chunk.gaps.last_mut() {
                // Consecutive missing records are one gap, across segments.
                Some(gap) if gap.to_seq + 1 == expected => {
                    (gap.to_seq, gap.before) = (seq - 1, before());
                }
                _ => chunk.gaps.push(Gap {
                    lane,
                    from_seq: expected,
                    to_seq: seq - 1,
                    before: before(),
                }),
            }
        }
        self.expected = Some(self.expected.map_or(seq, |expected| expected.max(seq)));
    }
}

/// The numbers of the segments in a folder, in order.
pub(crate) fn segments(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".seg"));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The length of a segment's first frame.
pub(crate) fn read_start_bytes(path: &Path) -> io::Result<u64> {
    let mut header = [0; frame::HEADER_LEN];
    File::open(path)?.read_exact(&mut header)?;
    let payload = u32::from_le_bytes(header[4..8].try_into().expect("4 bytes"));
    Ok((frame::HEADER_LEN as u64 + u64::from(payload)).next_multiple_of(8))
}

fn length(path: &Path) -> io::Result<u64> {
    Ok(fs::metadata(path)?.len())
}

fn read_at(path: &Path, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::with_capacity(len as usize);
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}
