//! A record as bytes: the same record always gives the same bytes, so that a hash over them can be
//! checked against what a store returns.
//!
//! New records have the second form. Records of the first are in stores, and in spools that a gateway of then left.

mod first;
mod second;
mod words;

use super::record::{Draft, Guarantee};

/// Texts are cut here: names are short, and what is longer is a caller's attempt to fill the disk.
const TEXT_LEN_MAX: usize = 4096;

/// PostgreSQL cannot keep a zero character. The substitute is as long, so the text has the same end.
const INSTEAD_OF_ZERO: u8 = 0x1a;

/// The bytes are no record.
#[derive(Debug, thiserror::Error)]
#[error("not an audit record")]
pub struct Corrupt;

/// How the bytes of a record are laid out; what carries them says which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    First = 1,
    Second = 2,
}

impl Form {
    /// Of what is written now.
    pub const NEW: Self = Self::Second;
    /// The newest first.
    pub(super) const ALL: [Self; 2] = [Self::Second, Self::First];

    pub fn numbered(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|form| *form as u8 == number)
    }

    /// Appends the bytes of a record in this form.
    pub fn encode(self, draft: &Draft<'_>, out: &mut Vec<u8>) {
        match self {
            Self::First => first::encode(draft, out),
            Self::Second => second::encode(draft, out),
        }
    }

    /// Reads a record where it lies.
    pub fn read(self, bytes: &[u8]) -> Result<Draft<'_>, Corrupt> {
        match self {
            Self::First => first::read(bytes),
            Self::Second => second::read(bytes),
        }
    }
}

const NUMBERS: usize = 6;

/// The numbers of a record, in the order in which they lie.
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

/// A record of which only these are known.
fn numbered<'a>(numbers: [u64; NUMBERS]) -> Draft<'a> {
    let [
        at_ms,
        latency_us,
        bytes_in,
        bytes_out,
        policy_version,
        intent,
    ] = numbers;
    Draft {
        at_ms,
        latency_us,
        bytes_in,
        bytes_out,
        policy_version,
        intent,
        ..Draft::default()
    }
}

fn put_without_zeros(text: &str, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(text.as_bytes());
    if text.as_bytes().contains(&0) {
        replace_zeros(&mut out[begin..]);
    }
}

#[cold]
fn replace_zeros(text: &mut [u8]) {
    for byte in text.iter_mut().filter(|byte| **byte == 0) {
        *byte = INSTEAD_OF_ZERO;
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_LEN_MAX)]
}

/// Whether its bytes say all of a record, and say it as it is. What was read from them is whole.
pub(super) fn is_whole(draft: &Draft<'_>) -> bool {
    let is_whole = |text: &str| text.len() <= TEXT_LEN_MAX && !text.contains('\0');
    second::texts(draft).all(is_whole)
}

fn guarantee(number: u8) -> Result<Guarantee, Corrupt> {
    match number {
        0 => Ok(Guarantee::Memory),
        1 => Ok(Guarantee::Spool),
        2 => Ok(Guarantee::Sync),
        _ => Err(Corrupt),
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

    /// A number of so many bytes.
    fn number(&mut self, len: usize) -> Result<u64, Corrupt> {
        let mut bytes = [0; 8];
        let room = bytes.get_mut(..len).ok_or(Corrupt)?;
        room.copy_from_slice(self.take(len)?);
        Ok(u64::from_le_bytes(bytes))
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
