//! The first form: numbers as little-endian `u64`, then the digest, then each text with its length. Nothing new is
//! written in it; what was is read, and its hashes are checked.

use super::super::record::Draft;
use super::{
    Corrupt, NUMBERS, Reader, Texts, cut, guarantee, numbered, numbers, put_without_zeros,
};

pub(super) fn encode(draft: &Draft<'_>, out: &mut Vec<u8>) {
    for number in numbers(draft) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let flags = u8::from(draft.args_digest.is_some()) | u8::from(draft.args.is_some()) << 1;
    out.extend_from_slice(&[draft.guarantee as u8, flags]);
    out.extend(draft.args_digest.iter().flatten());
    for text in [
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
    ] {
        let text = cut(text);
        out.extend_from_slice(&(text.len() as u16).to_le_bytes());
        put_without_zeros(text, out);
    }
    if let Some(args) = draft.args {
        out.extend_from_slice(&(args.len() as u32).to_le_bytes());
        out.extend_from_slice(args.as_bytes());
    }
}

pub(super) fn read(bytes: &[u8]) -> Result<Draft<'_>, Corrupt> {
    let mut rest = Reader(bytes);
    let mut numbers = [0; NUMBERS];
    for number in &mut numbers {
        *number = rest.number(8)?;
    }
    let mut draft = numbered(numbers);
    draft.guarantee = guarantee(rest.byte()?)?;
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
        let len = u16::from_le_bytes(texts.rest.array()?);
        *text = texts.take(len.into())?;
    }
    if flags & 2 != 0 {
        draft.args = Some(texts.long()?);
    }
    texts.rest.0.is_empty().then_some(draft).ok_or(Corrupt)
}
