//! The member of `_meta` that relates a message to a task of 2025-11-25.

use bytes::Bytes;
use sentinel_wire::Payload;
use sentinel_wire::json::Rules;
use sentinel_wire::meta::RELATED_TASK;

/// The object without the relation to a task in its `_meta`, and that relation; `None` if it has none.
pub(crate) fn unrelated(object: &Payload) -> Option<(Payload, Bytes)> {
    let meta = Payload::parse(object.get_bytes("_meta")?, Rules::backend()).ok()?;
    let relation = meta.get_bytes(RELATED_TASK)?;
    let rest = edited(&meta, &[(RELATED_TASK, None)]).to_bytes();
    let rest = (rest != "{}").then_some(rest);
    Some((edited(object, &[("_meta", rest.as_deref())]), relation))
}

/// An answer to a question of a task, related to it as the question was.
pub(crate) fn related(answer: Bytes, relation: &[u8]) -> Bytes {
    let Ok(result) = Payload::parse(answer.clone(), Rules::backend()) else {
        return answer;
    };
    let meta = result.get_bytes("_meta").unwrap_or_else(|| "{}".into());
    let Ok(meta) = Payload::parse(meta, Rules::backend()) else {
        return answer;
    };
    let meta = edited(&meta, &[(RELATED_TASK, Some(relation))]);
    edited(&result, &[("_meta", Some(meta.as_bytes()))]).to_bytes()
}

/// The object with some members changed or removed.
pub(crate) fn edited(object: &Payload, edits: &[(&str, Option<&[u8]>)]) -> Payload {
    let mut out = Vec::with_capacity(object.as_bytes().len() + 64);
    object.as_raw().rewrite(edits, &mut out);
    Payload::parse(out.into(), Rules::backend()).expect("what we wrote is JSON")
}
