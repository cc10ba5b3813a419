//! Shared by the two framings (SSE, stdio lines): a payload on one line, and a buffer with a hard capacity bound.
//!
//! Not here: where a frame begins and ends (`sse`, `lines`).

use bytes::Bytes;

/// Appends a JSON text on one line.
///
/// In valid JSON a raw CR or LF occurs only between tokens, so each run of them becomes one space. A space and not
/// nothing, so that invalid JSON does not turn into other tokens.
pub(crate) fn push_one_line(out: &mut Vec<u8>, json: &[u8]) {
    out.reserve(json.len());
    let mut rest = json;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        out.extend_from_slice(&rest[..at]);
        out.push(b' ');
        let run = rest[at..].iter().take_while(|b| is_newline(**b)).count();
        rest = &rest[at + run..];
    }
    out.extend_from_slice(rest);
}

/// Like [`push_one_line`] for a payload in a `Bytes`: returned unchanged when it is one line, so that a large reply
/// can be sent between a prefix and a suffix without a copy.
pub(crate) fn one_line(json: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &json).is_none() {
        return json;
    }
    let mut out = Vec::new();
    push_one_line(&mut out, &json);
    Bytes::from(out)
}

/// Appends to a buffer whose length never passes `max`, and whose capacity does not either:
/// plain doubling would take up to twice the bound.
pub(crate) fn push_bounded(buf: &mut Vec<u8>, bytes: &[u8], max: usize) {
    let needed = buf.len() + bytes.len();
    debug_assert!(needed <= max, "the caller checks the bound first");
    if needed > buf.capacity() {
        let target = needed.max((buf.capacity() * 2).min(max));
        buf.reserve_exact(target - buf.len());
    }
    buf.extend_from_slice(bytes);
}

fn is_newline(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_between_tokens_become_one_space() {
        let mut out = Vec::new();
        push_one_line(&mut out, b"{\r\n\"a\":\n\n1,\r\"b\":\"x\\ny\"}\n");
        assert_eq!(&out[..], b"{ \"a\": 1, \"b\":\"x\\ny\"} ");
    }

    #[test]
    fn a_payload_on_one_line_is_not_copied() {
        let json = Bytes::from_static(b"{\"a\":1}");
        let at = json.as_ptr();
        assert_eq!(one_line(json).as_ptr(), at);
        assert_eq!(&one_line(Bytes::from_static(b"[1,\n2]"))[..], b"[1, 2]");
    }

    #[test]
    fn a_bounded_buffer_never_takes_more_capacity_than_its_bound() {
        let mut buf = Vec::new();
        for _ in 0..100 {
            push_bounded(&mut buf, &[b'x'; 10], 1000);
            assert!(buf.capacity() <= 1000, "{}", buf.capacity());
        }
        assert_eq!(buf.len(), 1000);
    }
}
