//! The table from a fault to its answer: JSON-RPC codes of both eras, HTTP status, and whether MCP over HTTP shows that
//! status. Nothing maps back.

mod advice;

pub use advice::{Advice, advice, hint, is_retryable, title};

use Shown::{Always, InMessage, Modern};
use http::StatusCode;
use sentinel_core::{CallId, Fault, Kind};
use sentinel_wire::envelope::{METHOD_NOT_FOUND, error_object};
use sentinel_wire::{Payload, Revision, json};

/// A code of 2026-07-28: the backend needs a capability that the caller did not declare.
const MISSING_CAPABILITY: i32 = -32021;

/// How one kind of fault looks outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// For callers up to 2025-11-25.
    pub legacy: i32,
    /// For callers of 2026-07-28, which leaves -32000 to -32019 alone.
    pub modern: i32,
    status: u16,
    shown: Shown,
}

/// Whether the answer to an MCP request over HTTP has the row's status. A fault that no MCP request can be blamed for
/// has it always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// 200: the error is in the message only.
    InMessage,
    /// In 2026-07-28; 200 before.
    Modern,
    Always,
}

impl Row {
    /// The status over plain HTTP.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).expect("the table holds valid statuses")
    }

    /// The status of the answer to an MCP request over HTTP (decisions 7 to 10).
    pub fn mcp_status(&self, revision: Revision) -> StatusCode {
        match self.shown {
            Always => self.status(),
            Modern if revision.is_modern() => self.status(),
            Modern | InMessage => StatusCode::OK,
        }
    }
}

const fn of(legacy: i32, modern: i32, status: u16, shown: Shown) -> Row {
    Row {
        legacy,
        modern,
        status,
        shown,
    }
}

/// The table. A legacy code in -32000 to -32019 becomes -31000 minus the status in 2026-07-28 (decision 7).
#[rustfmt::skip] // a table has columns
pub fn row(kind: Kind) -> Row {
    match kind {
        Kind::ParseError =>           of(-32700, -32700, 400, InMessage),
        Kind::InvalidRequest =>       of(-32600, -32600, 400, InMessage),
        Kind::MethodNotFound =>       of(-32601, -32601, 404, Modern),
        Kind::UnknownName =>          of(-32602, -32602, 404, InMessage),
        // "Resource not found" had a code of its own until 2026-07-28.
        Kind::UnknownResource =>      of(-32002, -32602, 404, InMessage),
        Kind::InvalidParams =>        of(-32602, -32602, 400, InMessage),
        Kind::InvalidMeta =>          of(-32602, -32602, 400, Always),
        Kind::InvalidArguments =>     of(-32602, -32602, 400, InMessage),
        Kind::InvalidParameter =>     of(-32602, -32602, 400, InMessage),
        Kind::ToolError =>            of(-32000, -31422, 422, InMessage),
        Kind::InputRequired =>        of(-32000, -31409, 409, InMessage),
        Kind::ConfirmationRequired => of(-32000, -31409, 409, InMessage),
        Kind::ConfirmationInvalid =>  of(-32000, -31409, 409, InMessage),
        Kind::IdempotencyInProgress =>of(-32000, -31409, 409, InMessage),
        Kind::IdempotencyMismatch =>  of(-32000, -31422, 422, InMessage),
        Kind::AnswerLost =>           of(-32000, -31422, 422, InMessage),
        Kind::HeaderMismatch =>       of(-32600, -32020, 400, Always),
        Kind::UnsupportedVersion =>   of(-32600, -32022, 400, Always),
        Kind::BadState =>             of(-32602, -32602, 400, InMessage),
        Kind::NotInitialized =>       of(-32002, -32600, 400, Always),
        Kind::UnknownSession =>       of(-32600, -32600, 404, Always),
        Kind::Unauthorized =>         of(-32001, -31401, 401, InMessage),
        Kind::Forbidden =>            of(-32001, -31403, 403, InMessage),
        Kind::Disabled =>             of(-32000, -31503, 503, InMessage),
        Kind::RateLimited =>          of(-32000, -31429, 429, InMessage),
        // The legacy code is configurable: `Fault::legacy_code`.
        Kind::Overloaded =>           of(-32001, -31503, 503, InMessage),
        Kind::CircuitOpen =>          of(-32000, -31503, 503, InMessage),
        Kind::BackendUnavailable =>   of(-32603, -32603, 502, InMessage),
        Kind::BackendBusy =>          of(-32000, -31503, 503, InMessage),
        Kind::BackendTimeout =>       of(-32603, -32603, 504, InMessage),
        Kind::BackendBadReply =>      of(-32603, -32603, 502, InMessage),
        Kind::BackendError =>         of(-32603, -32603, 500, InMessage),
        Kind::MissingCapability =>    of(-32603, -32021, 400, Modern),
        Kind::Cancelled =>            of(-32603, -32603, 500, InMessage),
        Kind::AuditUnavailable =>     of(-32603, -32603, 503, InMessage),
        Kind::Internal =>             of(-32603, -32603, 500, InMessage),
        Kind::NotFound =>             of(-32600, -32600, 404, Always),
        Kind::MethodNotAllowed =>     of(-32600, -32600, 405, Always),
        Kind::NotAcceptable =>        of(-32600, -32600, 406, Always),
        Kind::RequestTimeout =>       of(-32600, -32600, 408, Always),
        Kind::TooLarge =>             of(-32600, -32600, 413, Always),
        Kind::UriTooLong =>           of(-32600, -32600, 414, Always),
        Kind::RangeNotSatisfiable =>  of(-32600, -32600, 416, Always),
        Kind::UnsupportedMediaType => of(-32600, -32600, 415, Always),
        Kind::ExpectationFailed =>    of(-32600, -32600, 417, Always),
        Kind::Unprocessable =>        of(-32602, -32602, 422, Always),
        Kind::Conflict =>             of(-32000, -31409, 409, InMessage),
        Kind::TransactionConflict =>  of(-32603, -32603, 409, InMessage),
        Kind::UnsupportedCoding =>    of(-32600, -32600, 501, Always),
        Kind::TooManySessions =>      of(-32000, -31503, 503, Always),
        Kind::TooManyStreams =>       of(-32000, -31503, 503, Always),
        Kind::Unavailable =>          of(-32000, -31503, 503, Always),
        Kind::GoingDown =>            of(-32000, -31503, 503, Always),
    }
}

/// The status of a backend's own error to a caller of 2026-07-28, which gives two codes a status of their own.
pub(crate) fn status_of_backend_error(error: &Payload) -> StatusCode {
    let code = error
        .get("code")
        .and_then(|code| std::str::from_utf8(code).ok());
    match code.and_then(|code| code.parse().ok()) {
        Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(MISSING_CAPABILITY) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The status of a REST answer. A body that the operation's schema does not allow is well-formed and cannot be
/// processed; a query parameter is part of the request line (requirement C-17).
pub(crate) fn rest_status(kind: Kind, input: RestInput) -> StatusCode {
    match (kind, input) {
        (Kind::InvalidArguments, RestInput::Body) => StatusCode::UNPROCESSABLE_ENTITY,
        (kind, _) => row(kind).status(),
    }
}

/// The code of a fault on the RPC surface. `-32002` is the resource code of the handshake era of MCP only.
pub(crate) fn rpc_code(kind: Kind) -> i32 {
    match kind {
        Kind::UnknownResource => row(kind).modern,
        kind => row(kind).legacy,
    }
}

/// Where a REST call has its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestInput {
    Query,
    Body,
}

/// The problem document (RFC 9457) for clients that speak no JSON-RPC. `instance` names this occurrence in the log.
pub(crate) fn problem(fault: &Fault, status: StatusCode, instance: Option<CallId>) -> Vec<u8> {
    let code = fault.kind.as_str();
    let mut out = format!(r#"{{"type":"/problems/{code}","title":"#).into_bytes();
    json::encode_string(title(fault.kind), &mut out);
    out.extend_from_slice(format!(r#","status":{},"detail":"#, status.as_u16()).as_bytes());
    json::encode_string(&fault.public, &mut out);
    if let Some(id) = instance {
        out.extend_from_slice(format!(r#","instance":"urn:uuid:{id}""#).as_bytes());
    }
    out.extend_from_slice(format!(r#","code":"{code}","#).as_bytes());
    push_advice(fault, &mut out);
    out.push(b',');
    push_members(fault, &mut out);
    out.push(b'}');
    out
}

/// The JSON-RPC error object of the RPC surface, whose data has the members of a problem document.
pub(crate) fn rpc_error(fault: &Fault, instance: Option<CallId>) -> Vec<u8> {
    let code = fault.legacy_code.unwrap_or(rpc_code(fault.kind));
    let code_word = fault.kind.as_str();
    let mut data =
        format!(r#"{{"type":"/problems/{code_word}","code":"{code_word}","#).into_bytes();
    push_advice(fault, &mut data);
    data.push(b',');
    push_members(fault, &mut data);
    if let Some(id) = instance {
        data.extend_from_slice(format!(r#","instance":"urn:uuid:{id}""#).as_bytes());
    }
    data.push(b'}');
    error_object(i64::from(code), &fault.public, Some(&data))
}

fn push_advice(fault: &Fault, out: &mut Vec<u8>) {
    // A tool's own error is final unless it says when to try again.
    let is_retryable = is_retryable(fault.kind) || fault.retry_after_ms.is_some();
    out.extend_from_slice(format!(r#""retryable":{is_retryable},"hint":"#).as_bytes());
    json::encode_string(hint(fault.kind), out);
}

/// The members that tell a program what happened, the same in `error.data` and in a problem document.
fn push_members(fault: &Fault, out: &mut Vec<u8>) {
    out.extend_from_slice(br#""kind":"#);
    json::encode_string(fault.kind.as_str(), out);
    if let Some(ms) = fault.retry_after_ms {
        out.extend_from_slice(format!(r#","retry_after_ms":{ms}"#).as_bytes());
    }
    if let Some(members) = &fault.data {
        out.push(b',');
        out.extend_from_slice(members.as_bytes());
    }
}

/// The JSON-RPC error object for a caller of this revision.
pub fn error(fault: &Fault, revision: Revision) -> Vec<u8> {
    let row = row(fault.kind);
    let code = if revision.is_modern() {
        row.modern
    } else {
        fault.legacy_code.unwrap_or(row.legacy)
    };
    let mut data = b"{".to_vec();
    // The members of an overload are fixed.
    if fault.kind != Kind::Overloaded {
        data.extend_from_slice(format!(r#""code":"{}","#, fault.kind.as_str()).as_bytes());
        push_advice(fault, &mut data);
        data.push(b',');
    }
    push_members(fault, &mut data);
    data.push(b'}');
    error_object(i64::from(code), &fault.public, Some(&data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_row() {
        // Kind, legacy code, modern code, status, status of MCP over HTTP up to 2025-11-25 and in 2026-07-28.
        let rows = [
            (Kind::ParseError, -32700, -32700, 400, 200, 200),
            (Kind::InvalidRequest, -32600, -32600, 400, 200, 200),
            (Kind::MethodNotFound, -32601, -32601, 404, 200, 404),
            (Kind::UnknownName, -32602, -32602, 404, 200, 200),
            (Kind::UnknownResource, -32002, -32602, 404, 200, 200),
            (Kind::InvalidParams, -32602, -32602, 400, 200, 200),
            (Kind::InvalidMeta, -32602, -32602, 400, 400, 400),
            (Kind::InvalidArguments, -32602, -32602, 400, 200, 200),
            (Kind::InvalidParameter, -32602, -32602, 400, 200, 200),
            (Kind::ToolError, -32000, -31422, 422, 200, 200),
            (Kind::InputRequired, -32000, -31409, 409, 200, 200),
            (Kind::ConfirmationRequired, -32000, -31409, 409, 200, 200),
            (Kind::ConfirmationInvalid, -32000, -31409, 409, 200, 200),
            (Kind::IdempotencyInProgress, -32000, -31409, 409, 200, 200),
            (Kind::IdempotencyMismatch, -32000, -31422, 422, 200, 200),
            (Kind::AnswerLost, -32000, -31422, 422, 200, 200),
            (Kind::HeaderMismatch, -32600, -32020, 400, 400, 400),
            (Kind::UnsupportedVersion, -32600, -32022, 400, 400, 400),
            (Kind::BadState, -32602, -32602, 400, 200, 200),
            (Kind::NotInitialized, -32002, -32600, 400, 400, 400),
            (Kind::UnknownSession, -32600, -32600, 404, 404, 404),
            (Kind::Unauthorized, -32001, -31401, 401, 200, 200),
            (Kind::Forbidden, -32001, -31403, 403, 200, 200),
            (Kind::Disabled, -32000, -31503, 503, 200, 200),
            (Kind::RateLimited, -32000, -31429, 429, 200, 200),
            (Kind::Overloaded, -32001, -31503, 503, 200, 200),
            (Kind::CircuitOpen, -32000, -31503, 503, 200, 200),
            (Kind::BackendUnavailable, -32603, -32603, 502, 200, 200),
            (Kind::BackendBusy, -32000, -31503, 503, 200, 200),
            (Kind::BackendTimeout, -32603, -32603, 504, 200, 200),
            (Kind::BackendBadReply, -32603, -32603, 502, 200, 200),
            (Kind::BackendError, -32603, -32603, 500, 200, 200),
            (Kind::MissingCapability, -32603, -32021, 400, 200, 400),
            (Kind::Cancelled, -32603, -32603, 500, 200, 200),
            (Kind::AuditUnavailable, -32603, -32603, 503, 200, 200),
            (Kind::Internal, -32603, -32603, 500, 200, 200),
            (Kind::NotFound, -32600, -32600, 404, 404, 404),
            (Kind::MethodNotAllowed, -32600, -32600, 405, 405, 405),
            (Kind::NotAcceptable, -32600, -32600, 406, 406, 406),
            (Kind::RequestTimeout, -32600, -32600, 408, 408, 408),
            (Kind::TooLarge, -32600, -32600, 413, 413, 413),
            (Kind::UriTooLong, -32600, -32600, 414, 414, 414),
            (Kind::RangeNotSatisfiable, -32600, -32600, 416, 416, 416),
            (Kind::UnsupportedMediaType, -32600, -32600, 415, 415, 415),
            (Kind::ExpectationFailed, -32600, -32600, 417, 417, 417),
            (Kind::UnsupportedCoding, -32600, -32600, 501, 501, 501),
            (Kind::Unprocessable, -32602, -32602, 422, 422, 422),
            (Kind::Conflict, -32000, -31409, 409, 200, 200),
            (Kind::TransactionConflict, -32603, -32603, 409, 200, 200),
            (Kind::TooManySessions, -32000, -31503, 503, 503, 503),
            (Kind::TooManyStreams, -32000, -31503, 503, 503, 503),
            (Kind::Unavailable, -32000, -31503, 503, 503, 503),
            (Kind::GoingDown, -32000, -31503, 503, 503, 503),
        ];
        let kinds: Vec<Kind> = rows.iter().map(|row| row.0).collect();
        assert_eq!(kinds, Kind::ALL);
        for (kind, legacy, modern, status, mcp_legacy, mcp_modern) in rows {
            let row = row(kind);
            let mcp = |revision| row.mcp_status(revision).as_u16();
            assert_eq!(
                (row.legacy, row.modern, row.status().as_u16()),
                (legacy, modern, status),
                "{kind:?}"
            );
            let by_era = (mcp(Revision::V2025_11_25), mcp(Revision::V2026_07_28));
            assert_eq!(by_era, (mcp_legacy, mcp_modern), "{kind:?}");
        }
    }

    #[test]
    fn decision_7_codes_reserved_in_2026_07_28_become_31000_and_the_status() {
        for kind in Kind::ALL {
            let Row {
                legacy,
                modern,
                status,
                ..
            } = row(*kind);
            assert!(!(-32019..=-32000).contains(&modern), "{kind:?}");
            let is_own = matches!(kind, Kind::UnknownResource | Kind::NotInitialized);
            if (-32019..=-32000).contains(&legacy) && !is_own {
                assert_eq!(modern, -31000 - i32::from(status), "{kind:?}");
            }
        }
    }

    #[test]
    fn a_problem_document_has_the_members_of_rfc_9457_and_the_kind() {
        let fault = Fault::new(Kind::TooManyStreams, "later").retry_after_ms(1500);
        let status = row(fault.kind).status();
        let problem = problem(&fault, status, None);
        let problem: serde_json::Value = serde_json::from_slice(&problem).expect("JSON");
        let expected = serde_json::json!({
            "type": "/problems/too_many_streams", "title": "Too many streams", "status": 503,
            "detail": "later", "code": "too_many_streams", "kind": "too_many_streams",
            "retryable": true, "hint": hint(fault.kind), "retry_after_ms": 1500,
        });
        assert_eq!(problem, expected);
    }

    #[test]
    fn p_1_the_overload_code_is_configurable_for_legacy_callers() {
        let fault = Fault::new(Kind::Overloaded, "SERVER_OVERLOADED").legacy_code(-7);
        let code = |revision| {
            let error: serde_json::Value =
                serde_json::from_slice(&error(&fault, revision)).expect("JSON");
            error["code"].as_i64()
        };
        assert_eq!(code(Revision::V2025_11_25), Some(-7));
        assert_eq!(code(Revision::V2026_07_28), Some(-31503));
    }

    #[test]
    fn c_1_the_kind_and_what_to_do_travel_with_the_error() {
        let fault = Fault::new(Kind::CircuitOpen, "later")
            .retry_after_ms(5)
            .with_data(r#""x":1"#);
        assert_eq!(
            String::from_utf8(error(&fault, Revision::V2025_11_25)).expect("text"),
            format!(
                r#"{{"code":-32000,"message":"later","data":{{"code":"circuit_open","retryable":true,"hint":"{}","kind":"circuit_open","retry_after_ms":5,"x":1}}}}"#,
                hint(fault.kind)
            )
        );
    }
}
