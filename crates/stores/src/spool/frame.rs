//! The framing of records in a segment file.
//!
//! A frame is a header of 32 bytes, a payload, and padding to 8: magic, length, sequence, segment,
//! kind, the format of records, and a CRC-32C over header and payload. A segment begins with a `Start`
//! frame: node, lane and position in the chain. A reader skips invalid bytes up to the next valid frame.

use std::sync::Arc;

use sentinel_core::audit::{FORMAT, SEQ_MAX};

const MAGIC: u32 = u32::from_le_bytes(*b"SGA\x01");
pub(crate) const HEADER_LEN: usize = 32;
const CRC_AT: usize = 28;
/// Upper bound of a payload; arguments of records are truncated far below it.
const PAYLOAD_LEN_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Begins a segment.
    Segment = 1,
    /// A record and its hash.
    Record = 2,
}

/// Appends a frame.
pub(crate) fn put(out: &mut Vec<u8>, kind: Kind, seq: u64, segment: u64, payload: [&[u8]; 2]) {
    let begin = out.len();
    out.resize(begin + padded(payload), 0);
    write(&mut out[begin..], kind, seq, segment, payload);
}

/// Writes a frame into a buffer of exactly `padded` bytes.
pub(crate) fn write(place: &mut [u8], kind: Kind, seq: u64, segment: u64, payload: [&[u8]; 2]) {
    let [first, second] = payload;
    let payload_len = first.len() + second.len();
    let (header, body) = place.split_at_mut(HEADER_LEN);
    header[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[4..8].copy_from_slice(&(payload_len as u32).to_le_bytes());
    header[8..16].copy_from_slice(&seq.to_le_bytes());
    header[16..24].copy_from_slice(&segment.to_le_bytes());
    header[24] = kind as u8;
    header[25] = FORMAT;
    header[26..CRC_AT].fill(0);
    body[..first.len()].copy_from_slice(first);
    body[first.len()..payload_len].copy_from_slice(second);
    body[payload_len..].fill(0);
    let crc = checksum(header, &body[..payload_len]);
    header[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
}

/// The length of a frame with header and padding: frames are aligned to 8 bytes.
pub(crate) fn padded([first, second]: [&[u8]; 2]) -> usize {
    padded_len(first.len() + second.len())
}

fn padded_len(payload_len: usize) -> usize {
    (HEADER_LEN + payload_len).next_multiple_of(8)
}

fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..CRC_AT]), payload)
}

/// The number of complete frames of a segment at the start of a buffer.
pub(crate) fn count(mut bytes: &[u8], segment: u64) -> u64 {
    let mut frames = 0;
    while let Found::Frame(found) = look(bytes, segment) {
        bytes = &bytes[found.len..];
        frames += 1;
    }
    frames
}

/// A frame in a buffer.
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) seq: u64,
    pub(crate) payload: &'a [u8],
    /// With header and padding.
    pub(crate) len: usize,
}

/// The result of parsing the start of a buffer.
pub(crate) enum Found<'a> {
    Frame(Frame<'a>),
    /// May be a frame once more bytes are read.
    Incomplete,
    Nothing,
}

pub(crate) fn look(bytes: &[u8], segment: u64) -> Found<'_> {
    let Some(header) = bytes.get(..HEADER_LEN) else {
        return Found::Incomplete;
    };
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    let payload_len = word(4) as usize;
    let kind = match header[24] {
        1 => Kind::Segment,
        2 => Kind::Record,
        _ => return Found::Nothing,
    };
    if word(0) != MAGIC
        || header[25] != FORMAT
        || payload_len > PAYLOAD_LEN_MAX
        || number(8) > SEQ_MAX
        || number(16) != segment
    {
        return Found::Nothing;
    }
    let len = padded_len(payload_len);
    if bytes.len() < len {
        return Found::Incomplete;
    }
    let payload = &bytes[HEADER_LEN..HEADER_LEN + payload_len];
    if checksum(header, payload) != word(CRC_AT) {
        return Found::Nothing;
    }
    Found::Frame(Frame {
        kind,
        seq: number(8),
        payload,
        len,
    })
}

/// The payload of a segment's first frame.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) node: Arc<str>,
    pub(crate) lane: i64,
    /// The number of its first record.
    pub(crate) first_seq: u64,
    /// The hash before that record.
    pub(crate) before: [u8; 32],
}

impl Start {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lane.to_le_bytes());
        out.extend_from_slice(&self.first_seq.to_le_bytes());
        out.extend_from_slice(&self.before);
        out.extend_from_slice(self.node.as_bytes());
    }

    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let (lane, rest) = payload.split_first_chunk()?;
        let (first_seq, rest) = rest.split_first_chunk()?;
        let (before, node) = rest.split_first_chunk()?;
        Some(Self {
            node: std::str::from_utf8(node).ok()?.into(),
            lane: i64::from_le_bytes(*lane),
            first_seq: u64::from_le_bytes(*first_seq),
            before: *before,
        })
    }
}

/// Splits a record's payload into its length and the hash after it.
pub(crate) fn split_record(payload: &[u8]) -> Option<(usize, [u8; 32])> {
    let (record, hash) = payload.split_last_chunk()?;
    Some((record.len(), *hash))
}
