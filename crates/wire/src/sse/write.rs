//! Writes events to a buffer that the caller flushes.
//!
//! Every payload is put on one `data` line, which all MCP clients read.

use bytes::Bytes;

use crate::framing;

/// Written before and after a payload that is sent as a piece of its own; see [`one_line`].
pub const DATA_START: &[u8] = b"data: ";
pub const DATA_END: &[u8] = b"\n\n";

/// Appends one JSON-RPC message as an event without id or name.
pub fn push_message(out: &mut Vec<u8>, json: &[u8]) {
    push_event(out, None, None, json);
}

/// Appends one JSON-RPC message with an event id (legacy, resumable streams) or an event name.
pub fn push_event(out: &mut Vec<u8>, id: Option<&str>, event: Option<&str>, json: &[u8]) {
    if let Some(event) = event {
        push_field(out, b"event: ", event);
    }
    if let Some(id) = id {
        push_field(out, b"id: ", id);
    }
    out.reserve(DATA_START.len() + json.len() + DATA_END.len());
    out.extend_from_slice(DATA_START);
    framing::push_one_line(out, json);
    out.extend_from_slice(DATA_END);
}

/// Appends the event of 2025-11-25 that lets a client reconnect before any message came: an id and
/// empty data.
pub fn push_priming(out: &mut Vec<u8>, id: &str, retry_ms: Option<u64>) {
    push_field(out, b"id: ", id);
    if let Some(ms) = retry_ms {
        push_field(out, b"retry: ", itoa::Buffer::new().format(ms));
    }
    out.extend_from_slice(DATA_START);
    out.extend_from_slice(DATA_END);
}

/// Appends the reconnection delay for the client, sent before we close a stream.
pub fn push_retry(out: &mut Vec<u8>, retry_ms: u64) {
    push_field(out, b"retry: ", itoa::Buffer::new().format(retry_ms));
    out.push(b'\n');
}

/// Appends a comment, which keeps proxies from closing a quiet stream and is not an event.
pub fn push_keep_alive(out: &mut Vec<u8>) {
    out.extend_from_slice(b":\n\n");
}

/// Puts a payload on one line for use between [`DATA_START`] and [`DATA_END`], without a copy if it is one already.
pub fn one_line(json: Bytes) -> Bytes {
    framing::one_line(json)
}

/// Ids and names come from us, but a line end in one would forge a field, and a NUL would void an id: such bytes are
/// removed.
fn push_field(out: &mut Vec<u8>, name: &[u8], value: &str) {
    out.extend_from_slice(name);
    for part in value.split(['\r', '\n', '\0']) {
        out.extend_from_slice(part.as_bytes());
    }
    out.push(b'\n');
}
