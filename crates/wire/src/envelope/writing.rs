//! Envelopes as text, spliced around values that are kept as they are.

use super::Id;
use crate::json;
use crate::revision::Revision;

/// `{"jsonrpc":"2.0","id":ID,"result":RESULT}`
pub fn write_result(id: &Id, result: &[u8], out: &mut Vec<u8>) {
    out.reserve(40 + id.as_bytes().len() + result.len());
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","result":"#);
    out.extend_from_slice(result);
    out.push(b'}');
}

/// An error response around a serialized error object. Where no id could be read, older peers need `"id":null`
/// (JSON-RPC 2.0); the schemas from 2025-11-25 on require it absent.
pub fn write_error_object(id: Option<&Id>, revision: Revision, error: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    let id = id
        .map(Id::as_bytes)
        .or((revision < Revision::V2025_11_25).then_some(b"null"));
    if let Some(id) = id {
        out.extend_from_slice(br#""id":"#);
        out.extend_from_slice(id);
        out.push(b',');
    }
    out.extend_from_slice(br#""error":"#);
    out.extend_from_slice(error);
    out.push(b'}');
}

/// `{"code":CODE,"message":MESSAGE,"data":DATA}`
pub fn error_object(code: i64, message: &str, data: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::with_capacity(48 + message.len() + data.map_or(0, <[u8]>::len));
    out.extend_from_slice(br#"{"code":"#);
    out.extend_from_slice(itoa::Buffer::new().format(code).as_bytes());
    out.extend_from_slice(br#","message":"#);
    json::encode_string(message, &mut out);
    if let Some(data) = data {
        out.extend_from_slice(br#","data":"#);
        out.extend_from_slice(data);
    }
    out.push(b'}');
    out
}

/// The beginning of a request up to its params; the caller appends the params and `}`.
pub fn begin_request(id: &[u8], method: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id);
    out.extend_from_slice(br#","method":"#);
    json::encode_string(method, out);
    out.extend_from_slice(br#","params":"#);
}

/// A whole request.
pub fn write_request(id: &[u8], method: &str, params: &[u8], out: &mut Vec<u8>) {
    begin_request(id, method, out);
    out.extend_from_slice(params);
    out.push(b'}');
}

/// A whole notification; empty params are left out.
pub fn write_notification(method: &str, params: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"#);
    json::encode_string(method, out);
    if !params.is_empty() {
        out.extend_from_slice(br#","params":"#);
        out.extend_from_slice(params);
    }
    out.push(b'}');
}
