//! The second form, made to be short: each byte is hashed, checked, written and read again for every call.
//!
//! Words that the gateway chooses are one byte (`words`), and numbers are as long as they must be. In order: a `u32` with
//! the lengths of the numbers, the guarantee and what else there is; the numbers; the words; the digest; then
//! texts behind their lengths: those that others choose, words that have no number, the arguments.

use super::super::record::Draft;
use super::words::{self, WORDS};
use super::{
    Corrupt, NUMBERS, Reader, Texts, cut, guarantee, numbered, numbers, put_without_zeros,
};

/// What every record has.
const HEAD_LEN_MAX: usize = 4 + 8 * NUMBERS + WORDS.len();

/// What the first four bytes say besides: behind four bits for the length of each number.
const GUARANTEE_AT: usize = 4 * NUMBERS;
const HAS_DIGEST: u32 = 1 << (GUARANTEE_AT + 2);
const HAS_ARGS: u32 = 1 << (GUARANTEE_AT + 3);
const NOT_USED: u32 = !0 << (GUARANTEE_AT + 4);

pub(super) fn encode(draft: &Draft<'_>, out: &mut Vec<u8>) {
    let mut head = [0; HEAD_LEN_MAX];
    let (mut at, mut said) = (4, (draft.guarantee as u32) << GUARANTEE_AT);
    for (place, number) in numbers(draft).into_iter().enumerate() {
        let len = 8 - number.leading_zeros() / 8;
        head[at..at + 8].copy_from_slice(&number.to_le_bytes());
        said |= len << (4 * place);
        at += len as usize;
    }
    if draft.args_digest.is_some() {
        said |= HAS_DIGEST;
    }
    if draft.args.is_some() {
        said |= HAS_ARGS;
    }
    head[..4].copy_from_slice(&said.to_le_bytes());
    let chosen = chosen(draft);
    let codes: [u8; WORDS.len()] =
        std::array::from_fn(|place| words::code(WORDS[place], chosen[place]));
    head[at..at + codes.len()].copy_from_slice(&codes);
    out.extend_from_slice(&head[..at + codes.len()]);
    if let Some(digest) = &draft.args_digest {
        out.extend_from_slice(digest);
    }
    for text in free(draft) {
        put(text, out);
    }
    for (word, code) in chosen.into_iter().zip(codes) {
        if code == words::SPELT {
            put(word, out);
        }
    }
    if let Some(args) = draft.args {
        out.extend_from_slice(&(args.len() as u32).to_le_bytes());
        out.extend_from_slice(args.as_bytes());
    }
}

/// Texts that are mostly the gateway's own words, in the order of `WORDS`.
fn chosen<'a>(draft: &Draft<'a>) -> [&'a str; WORDS.len()] {
    [
        draft.surface,
        draft.revision,
        draft.method,
        draft.decision,
        draft.outcome,
        draft.kind,
    ]
}

/// Texts that others choose.
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

pub(super) fn texts<'a>(draft: &Draft<'a>) -> impl Iterator<Item = &'a str> {
    chosen(draft).into_iter().chain(free(draft))
}

/// Appends a text behind its length, which is one byte below 128 and two otherwise.
fn put(text: &str, out: &mut Vec<u8>) {
    let text = cut(text);
    match text.len() {
        len @ 0..0x80 => out.push(len as u8),
        len => out.extend_from_slice(&[len as u8 | 0x80, (len >> 7) as u8]),
    }
    put_without_zeros(text, out);
}

pub(super) fn read(bytes: &[u8]) -> Result<Draft<'_>, Corrupt> {
    let mut rest = Reader(bytes);
    let said = u32::from_le_bytes(rest.array()?);
    let mut numbers = [0; NUMBERS];
    for (place, number) in numbers.iter_mut().enumerate() {
        *number = rest.number((said >> (4 * place) & 0xf) as usize)?;
    }
    let mut draft = numbered(numbers);
    draft.guarantee = guarantee((said >> GUARANTEE_AT & 3) as u8)?;
    let codes: [u8; WORDS.len()] = rest.array()?;
    if said & HAS_DIGEST != 0 {
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
        *text = short(&mut texts)?;
    }
    let chosen = [
        &mut draft.surface,
        &mut draft.revision,
        &mut draft.method,
        &mut draft.decision,
        &mut draft.outcome,
        &mut draft.kind,
    ];
    for (place, word) in chosen.into_iter().enumerate() {
        *word = match codes[place] {
            words::SPELT => short(&mut texts)?,
            code => words::word(WORDS[place], code).ok_or(Corrupt)?,
        };
    }
    if said & HAS_ARGS != 0 {
        draft.args = Some(texts.long()?);
    }
    let is_all = texts.rest.0.is_empty() && said & NOT_USED == 0;
    is_all.then_some(draft).ok_or(Corrupt)
}

/// A text behind a length of one or two bytes.
fn short<'a>(texts: &mut Texts<'a>) -> Result<&'a str, Corrupt> {
    let len = match texts.rest.byte()? {
        len @ 0..0x80 => len.into(),
        low => usize::from(low & 0x7f) | usize::from(texts.rest.byte()?) << 7,
    };
    texts.take(len)
}
