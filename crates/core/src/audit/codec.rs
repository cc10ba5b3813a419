//! A record as bytes: the same record always gives the same bytes, so that a hash over them can be
//! checked against what a store returns.
//!
//! Version 1: numbers as little-endian `u64`, then the digest, then each text with its length. The
//! version is in the frame that carries it.

use super::record::{Draft, Guarantee, Record};

/// Texts are cut here: names are short, and what is longer is a caller's attempt to fill the disk.
const TEXT_LEN_MAX: usize = 4096;

/// PostgreSQL cannot keep a zero character. The substitute is as long, so the text has the same end.
const INSTEAD_OF_ZERO: &str = "\u{1a}";

/// The bytes are no record.
#[derive(Debug, thiserror::Error)]
#[error("not an audit record")]
pub struct Corrupt;

/// Numbers, guarantee and flags: what every record has.
const HEAD_LEN: usize = 6 * 8 + 2;

/// Appends the bytes of a record.
pub fn encode(draft: &Draft<'_>, out: &mut Vec<u8>) {
    let mut texts = texts(draft).map(cut);
    let without_zeros;
    if texts.iter().any(|text| text.as_bytes().contains(&0)) {
        without_zeros = texts.map(|text| text.replace('\0', INSTEAD_OF_ZERO));
        texts = without_zeros.each_ref().map(String::as_str);
    }
    let digest_len = draft.args_digest.map_or(0, |digest| digest.len());
    let texts_len: usize = texts.iter().map(|text| 2 + text.len()).sum();
    let args_len = draft.args.map_or(0, |args| 4 + args.len());
    // Made room for once: this is on the way of every call.
    let begin = out.len();
    out.resize(begin + HEAD_LEN + digest_len + texts_len + args_len, 0);
    let mut room = Writer(&mut out[begin..]);
    for number in [
        draft.at_ms,
        draft.latency_us,
        draft.bytes_in,
        draft.bytes_out,
        draft.policy_version,
        draft.intent,
    ] {
        room.array(number.to_le_bytes());
    }
    let flags = u8::from(draft.args_digest.is_some()) | u8::from(draft.args.is_some()) << 1;
    room.array([draft.guarantee as u8, flags]);
    if let Some(digest) = draft.args_digest {
        room.array(digest);
    }
    for text in texts {
        room.array((text.len() as u16).to_le_bytes());
        room.bytes(text.as_bytes());
    }
    if let Some(args) = draft.args {
        room.array((args.len() as u32).to_le_bytes());
        room.bytes(args.as_bytes());
    }
}

/// All that is not a number, in the order in which it lies.
fn texts<'a>(draft: &Draft<'a>) -> [&'a str; 12] {
    [
        draft.request_id,
        draft.surface,
        draft.revision,
        draft.caller,
        draft.role,
        draft.tenant,
        draft.method,
        draft.backend,
        draft.operation,
        draft.decision,
        draft.outcome,
        draft.kind,
    ]
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_LEN_MAX)]
}

/// Whether its bytes say all of a record, and say it as it is. What was read from them is whole.
pub(super) fn is_whole(draft: &Draft<'_>) -> bool {
    let is_whole = |text: &str| text.len() <= TEXT_LEN_MAX && !text.contains('\0');
    texts(draft).into_iter().all(is_whole)
}

/// The room that is left.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn array<const N: usize>(&mut self, bytes: [u8; N]) {
        let (here, rest) = std::mem::take(&mut self.0)
            .split_first_chunk_mut()
            .expect("room was made for it");
        *here = bytes;
        self.0 = rest;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let (here, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        here.copy_from_slice(bytes);
        self.0 = rest;
    }
}

/// Reads a record where it lies.
pub fn read(bytes: &[u8]) -> Result<Draft<'_>, Corrupt> {
    let mut rest = Reader(bytes);
    let mut draft = Draft {
        at_ms: rest.number()?,
        latency_us: rest.number()?,
        bytes_in: rest.number()?,
        bytes_out: rest.number()?,
        policy_version: rest.number()?,
        intent: rest.number()?,
        guarantee: match rest.byte()? {
            0 => Guarantee::Memory,
            1 => Guarantee::Spool,
            2 => Guarantee::Sync,
            _ => return Err(Corrupt),
        },
        ..Draft::default()
    };
    let flags = rest.byte()?;
    if flags & 1 != 0 {
        draft.args_digest = Some(rest.array()?);
    }
    let mut texts = Texts::of(rest);
    for text in [
        &mut draft.request_id,
        &mut draft.surface,
        &mut draft.revision,
        &mut draft.caller,
        &mut draft.role,
        &mut draft.tenant,
        &mut draft.method,
        &mut draft.backend,
        &mut draft.operation,
        &mut draft.decision,
        &mut draft.outcome,
        &mut draft.kind,
    ] {
        *text = texts.short()?;
    }
    if flags & 2 != 0 {
        draft.args = Some(texts.long()?);
    }
    texts.rest.0.is_empty().then_some(draft).ok_or(Corrupt)
}

pub fn decode(bytes: &[u8]) -> Result<Record, Corrupt> {
    Ok(read(bytes)?.to_record())
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

    fn number(&mut self) -> Result<u64, Corrupt> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}

/// The texts of a record, each behind its length.
struct Texts<'a> {
    rest: Reader<'a>,
    /// All of it as one text, which it is as long as the lengths are: looked at once, not for each.
    whole: Option<&'a str>,
}

impl<'a> Texts<'a> {
    fn of(rest: Reader<'a>) -> Self {
        let whole = std::str::from_utf8(rest.0).ok();
        Self { rest, whole }
    }

    fn short(&mut self) -> Result<&'a str, Corrupt> {
        let len = u16::from_le_bytes(self.rest.array()?);
        self.take(len.into())
    }

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
