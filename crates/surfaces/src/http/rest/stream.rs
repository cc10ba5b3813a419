//! A call as a stream of records: progress, log lines, rows of a set, and at last its result or error.
//!
//! Server-sent events and JSON Lines carry the same records, so that a row is never taken for anything else, and a set that
//! broke off never for a whole one. The record of the call is made before the last of them leaves.

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Payload, meta, sse};

use super::super::body::Body;
use super::super::operations::{Completed, Next, Running};
use super::super::reply;
use super::accept::Form;
use super::answer::json_body;
use super::next;
use crate::mcp::SILENCE_MAX;
use crate::rescue;

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The head of a stream with these records.
pub(super) fn respond(
    form: Form,
    records: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<Body> {
    let body = Body::stream(records);
    match form {
        Form::Lines => {
            let mut response = reply::with_type(StatusCode::OK, "application/jsonl", body);
            let headers = response.headers_mut();
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
            response
        }
        Form::Events | Form::Json => reply::events(body),
    }
}

/// The records of a call that runs; `first` is what it said first, and not its end.
pub(super) fn records(
    form: Form,
    method: Method,
    first: Next,
    running: Running,
) -> impl Stream<Item = Bytes> + Send {
    let state = (Some(first), Some(running), 0);
    stream::unfold(state, move |(first, running, bytes_before)| {
        let method = method.clone();
        async move {
            let mut running = running?;
            let mut out = Vec::new();
            let next = match first {
                Some(first) => Ok(first),
                None => tokio::time::timeout(SILENCE_MAX, running.next()).await,
            };
            match next {
                Err(_) => push_keep_alive(form, &mut out),
                Ok(Next::Notice(message)) => push_notice(form, &message, &mut out),
                Ok(Next::Rows(lines)) => push_rows(form, &lines, &mut out),
                Ok(Next::Done(completed)) => {
                    push_last(form, &method, &completed, &mut out);
                    completed.record(bytes_before + out.len());
                    return Some((out.into(), (None, None, 0)));
                }
            }
            let bytes = bytes_before + out.len();
            Some((out.into(), (None, Some(running), bytes)))
        }
    })
}

/// A stream that is its last record.
pub(super) fn only(form: Form, method: &Method, completed: Completed) -> Response<Body> {
    let mut out = Vec::new();
    push_last(form, method, &completed, &mut out);
    completed.record(out.len());
    let out = Bytes::from(out);
    respond(form, stream::once(async move { out }))
}

fn push_last(form: Form, method: &Method, completed: &Completed, out: &mut Vec<u8>) {
    match &completed.outcome {
        Ok(result) => {
            let body = json_body(method, result);
            let next = next::arguments_of(result);
            let next = next.map(|next| [br#","next":"#.as_slice(), &next].concat());
            let next = next.unwrap_or_default();
            push(form, "result", &[br#""result":"#, &body, &next], out);
        }
        Err(fault) => {
            let status = rescue::row(fault.kind).status();
            let problem = rescue::problem(fault, status, reply::logged(fault));
            push(form, "error", &[br#""error":"#, &problem], out);
        }
    }
}

/// Each row is a record. Backends write rows as lines, so they are copied as they are.
fn push_rows(form: Form, lines: &[u8], out: &mut Vec<u8>) {
    const BEFORE: &[u8] = br#"{"type":"row","row":"#;
    out.reserve(lines.len() * 2);
    let rows = lines.split(|byte| *byte == b'\n');
    for row in rows.filter(|row| !row.is_empty()) {
        let (before, after): (&[u8], &[u8]) = match form {
            Form::Lines => (b"", b"}\n"),
            Form::Events | Form::Json => (b"event: row\ndata: ", b"}\n\n"),
        };
        for part in [before, BEFORE, row, after] {
            out.extend_from_slice(part);
        }
    }
}

fn push_notice(form: Form, message: &[u8], out: &mut Vec<u8>) {
    if let Some((kind, object)) = notice(message) {
        let members = &object[1..object.len() - 1];
        push(form, kind, &[members], out);
    }
}

/// Progress and log lines: which of the two it is, and its members as an object. Other notifications are not for callers of
/// this surface.
pub(super) fn notice(message: &[u8]) -> Option<(&'static str, Vec<u8>)> {
    let message = Payload::parse(Bytes::copy_from_slice(message), Rules::backend()).ok()?;
    let kind = match message.string("method").as_deref() {
        Some("notifications/progress") => "progress",
        Some("notifications/message") => "log",
        _ => return None,
    };
    let params = Payload::parse(message.get_bytes("params")?, Rules::backend()).ok()?;
    let mut object = Vec::new();
    let left_out = [
        (meta::PROGRESS_TOKEN, None),
        ("_meta", None),
        ("type", None),
    ];
    params.as_raw().rewrite(&left_out, &mut object);
    Some((kind, object))
}

/// A record: its type, and further members.
fn push(form: Form, kind: &str, members: &[&[u8]], out: &mut Vec<u8>) {
    let mut record = format!(r#"{{"type":"{kind}""#).into_bytes();
    if members.iter().any(|part| !part.is_empty()) {
        record.push(b',');
    }
    for part in members {
        record.extend_from_slice(part);
    }
    record.push(b'}');
    let record = sse::one_line(record.into());
    match form {
        Form::Lines => {
            out.extend_from_slice(&record);
            out.push(b'\n');
        }
        Form::Events | Form::Json => sse::push_event(out, None, Some(kind), &record),
    }
}

/// A comment, or an empty line, which readers of JSON Lines skip.
fn push_keep_alive(form: Form, out: &mut Vec<u8>) {
    match form {
        Form::Lines => out.push(b'\n'),
        Form::Events | Form::Json => sse::push_keep_alive(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_records_like_all_others() {
        for form in [Form::Lines, Form::Events] {
            let (mut rows, mut records) = (Vec::new(), Vec::new());
            push_rows(form, b"{\"a\":1}\n[2]\n", &mut rows);
            for row in [&b"{\"a\":1}"[..], b"[2]"] {
                push(form, "row", &[br#""row":"#, row], &mut records);
            }
            assert_eq!(
                String::from_utf8_lossy(&rows),
                String::from_utf8_lossy(&records)
            );
        }
    }
}
