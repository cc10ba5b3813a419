//! The bytes of a record. One record has exactly one encoding, so a hash over the bytes can be
//! checked against what a store returns.
//!
//! The encoding is short because each byte is hashed, checksummed, written and read back for every
//! call. In order: a `u32` (`Flags`) with the lengths of the numbers, the guarantee and which
//! optional parts follow; the numbers without leading zero bytes; one code per enumerated text
//! (`words`); the digest; then texts with a length prefix: those that clients choose, enumerated
//! texts without a code, the arguments.

mod words;

use super::record::{Draft, Guarantee};
use words::WORDS;

/// Version of this encoding: in each frame of the spool and in each hash. Stored hashes depend on it.
pub const FORMAT: u8 = 2;

/// Longer texts are truncated: names are short, and anything longer only fills the disk.
const TEXT_LEN_MAX: usize = 4096;

/// PostgreSQL cannot store NUL. The substitute has the same length, so offsets stay as they are.
const NUL_SUBSTITUTE: u8 = 0x1a;

const NUMBERS: usize = 6;
const HEAD_LEN_MAX: usize = 4 + 8 * NUMBERS + WORDS.len();

/// Layout of `Flags`: four bits per number for its length in bytes, then these.
const GUARANTEE_SHIFT: usize = 4 * NUMBERS;
const HAS_DIGEST: u32 = 1 << (GUARANTEE_SHIFT + 2);
const HAS_ARGS: u32 = 1 << (GUARANTEE_SHIFT + 3);
const UNUSED_FLAGS: u32 = !0 << (GUARANTEE_SHIFT + 4);

/// The bytes are not a record.
#[derive(Debug, thiserror::Error)]
#[error("not an audit record")]
pub struct Corrupt;

/// Appends the bytes of a record.
pub fn encode(draft: &Draft<'_>, out: &mut Vec<u8>) {
    let mut head = [0; HEAD_LEN_MAX];
    let (mut at, mut flags) = (4, (draft.guarantee as u32) << GUARANTEE_SHIFT);
    for (index, number) in numbers(draft).into_iter().enumerate() {
        let len = 8 - number.leading_zeros() / 8;
        head[at..at + 8].copy_from_slice(&number.to_le_bytes());
        flags |= len << (4 * index);
        at += len as usize;
    }
    if draft.args_digest.is_some() {
        flags |= HAS_DIGEST;
    }
    if draft.args.is_some() {
        flags |= HAS_ARGS;
    }
    head[..4].copy_from_slice(&flags.to_le_bytes());
    let enumerated = enumerated(draft);
    let codes: [u8; WORDS.len()] =
        std::array::from_fn(|index| words::code(WORDS[index], enumerated[index]));
    head[at..at + codes.len()].copy_from_slice(&codes);
    out.extend_from_slice(&head[..at + codes.len()]);
    if let Some(digest) = &draft.args_digest {
        out.extend_from_slice(digest);
    }
    for text in free(draft) {
        put(text, out);
    }
    for (word, code) in enumerated.into_iter().zip(codes) {
        if code == words::NO_CODE {
            put(word, out);
        }
    }
    if let Some(args) = draft.args {
        out.extend_from_slice(&(args.len() as u32).to_le_bytes());
        out.extend_from_slice(args.as_bytes());
    }
}

/// Reads a record without copying its texts.
pub fn decode(bytes: &[u8]) -> Result<Draft<'_>, Corrupt> {
    let mut rest = Reader(bytes);
    let flags = u32::from_le_bytes(rest.array()?);
    let mut draft = Draft::default();
    let numbers = [
        &mut draft.at_ms,
        &mut draft.latency_us,
        &mut draft.bytes_in,
        &mut draft.bytes_out,
        &mut draft.policy_version,
        &mut draft.intent,
    ];
    for (index, number) in numbers.into_iter().enumerate() {
        *number = rest.number((flags >> (4 * index) & 0xf) as usize)?;
    }
    draft.guarantee = guarantee(flags >> GUARANTEE_SHIFT & 3)?;
    let codes: [u8; WORDS.len()] = rest.array()?;
    if flags & HAS_DIGEST != 0 {
        draft.args_digest = Some(rest.array()?);
    }
    let mut texts = Texts::of(rest);
    for text in [
        &mut draft.request_id,
        &mut draft.caller,
        &mut draft.role,
        &mut draft.tenant,
        &mut draft.backend,
        &mut draft.operation,
    ] {
        *text = texts.short()?;
    }
    let enumerated = [
        &mut draft.surface,
        &mut draft.revision,
        &mut draft.method,
        &mut draft.decision,
        &mut draft.outcome,
        &mut draft.kind,
    ];
    for (index, word) in enumerated.into_iter().enumerate() {
        *word = match codes[index] {
            words::NO_CODE => texts.short()?,
            code => words::word(WORDS[index], code).ok_or(Corrupt)?,
        };
    }
    if flags & HAS_ARGS != 0 {
        draft.args = Some(texts.long()?);
    }
    let complete = texts.rest.0.is_empty() && flags & UNUSED_FLAGS == 0;
    complete.then_some(draft).ok_or(Corrupt)
}

/// Whether encoding the record loses nothing: no text is truncated or holds NUL. True of every
/// decoded record.
pub(super) fn is_lossless(draft: &Draft<'_>) -> bool {
    let fits = |text: &str| text.len() <= TEXT_LEN_MAX && !text.contains('\0');
    let mut texts = enumerated(draft).into_iter().chain(free(draft));
    texts.all(fits)
}

fn numbers(draft: &Draft<'_>) -> [u64; NUMBERS] {
    [
        draft.at_ms,
        draft.latency_us,
        draft.bytes_in,
        draft.bytes_out,
        draft.policy_version,
        draft.intent,
    ]
}

/// Texts that are mostly the gateway's own, in the order of `WORDS`.
fn enumerated<'a>(draft: &Draft<'a>) -> [&'a str; WORDS.len()] {
    [
        draft.surface,
        draft.revision,
        draft.method,
        draft.decision,
        draft.outcome,
        draft.kind,
    ]
}

/// Texts chosen by clients, backends and the configuration.
fn free<'a>(draft: &Draft<'a>) -> [&'a str; 6] {
    [
        draft.request_id,
        draft.caller,
        draft.role,
        draft.tenant,
        draft.backend,
        draft.operation,
    ]
}

fn guarantee(number: u32) -> Result<Guarantee, Corrupt> {
    match number {
        0 => Ok(Guarantee::Memory),
        1 => Ok(Guarantee::Spool),
        2 => Ok(Guarantee::Sync),
        _ => Err(Corrupt),
    }
}

/// Appends a text after its length: one byte below 128, two otherwise.
fn put(text: &str, out: &mut Vec<u8>) {
    let text = &text[..text.floor_char_boundary(TEXT_LEN_MAX)];
    match text.len() {
        len @ 0..0x80 => out.push(len as u8),
        len => out.extend_from_slice(&[len as u8 | 0x80, (len >> 7) as u8]),
    }
    let begin = out.len();
    out.extend_from_slice(text.as_bytes());
    if text.as_bytes().contains(&0) {
        replace_nuls(&mut out[begin..]);
    }
}

#[cold]
fn replace_nuls(text: &mut [u8]) {
    for byte in text.iter_mut().filter(|byte| **byte == 0) {
        *byte = NUL_SUBSTITUTE;
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Corrupt> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Corrupt)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Corrupt)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Corrupt> {
        Ok(self.array::<1>()?[0])
    }

    /// A little-endian number of `len` bytes.
    fn number(&mut self, len: usize) -> Result<u64, Corrupt> {
        let mut bytes = [0; 8];
        let room = bytes.get_mut(..len).ok_or(Corrupt)?;
        room.copy_from_slice(self.take(len)?);
        Ok(u64::from_le_bytes(bytes))
    }
}

/// The length-prefixed texts of a record.
struct Texts<'a> {
    rest: Reader<'a>,
    /// All of it as one text, if it is UTF-8, which it is unless a length byte is 128 or more:
    /// validated once, not once per text.
    whole: Option<&'a str>,
}

impl<'a> Texts<'a> {
    fn of(rest: Reader<'a>) -> Self {
        let whole = std::str::from_utf8(rest.0).ok();
        Self { rest, whole }
    }

    /// A text after a length of one or two bytes.
    fn short(&mut self) -> Result<&'a str, Corrupt> {
        let len = match self.rest.byte()? {
            len @ 0..0x80 => len.into(),
            low => usize::from(low & 0x7f) | usize::from(self.rest.byte()?) << 7,
        };
        self.take(len)
    }

    /// A text after a length of four bytes.
    fn long(&mut self) -> Result<&'a str, Corrupt> {
        let len = u32::from_le_bytes(self.rest.array()?);
        self.take(len as usize)
    }

    fn take(&mut self, len: usize) -> Result<&'a str, Corrupt> {
        let left = self.rest.0.len();
        let taken = self.rest.take(len)?;
        let text = match self.whole {
            Some(whole) => whole
                .get(whole.len() - left..)
                .and_then(|rest| rest.get(..len)),
            None => std::str::from_utf8(taken).ok(),
        };
        text.ok_or(Corrupt)
    }
}
