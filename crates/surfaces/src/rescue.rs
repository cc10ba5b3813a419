//! From a fault to what a caller sees: the only table of codes and statuses.

use http::StatusCode;
use sentinel_core::{Fault, Kind};
use sentinel_wire::envelope::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, error_object,
};
use sentinel_wire::{Revision, json};

/// How one kind of fault looks outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// For callers up to 2025-11-25.
    pub legacy: i32,
    /// For callers of 2026-07-28, which leaves -32000 to -32019 alone.
    pub modern: i32,
    /// For REST and JSON-RPC over plain HTTP.
    pub status: StatusCode,
}

pub fn row(kind: Kind) -> Row {
    let same = |code: i32, status: StatusCode| Row {
        legacy: code,
        modern: code,
        status,
    };
    let seed = |code: i32, status: StatusCode| Row {
        legacy: code,
        modern: -31000 - i32::from(status.as_u16()),
        status,
    };
    match kind {
        Kind::ParseError => same(PARSE_ERROR, StatusCode::BAD_REQUEST),
        Kind::InvalidRequest => same(INVALID_REQUEST, StatusCode::BAD_REQUEST),
        Kind::TooLarge => same(INVALID_REQUEST, StatusCode::PAYLOAD_TOO_LARGE),
        Kind::MethodNotFound => same(METHOD_NOT_FOUND, StatusCode::NOT_FOUND),
        Kind::UnknownName => same(INVALID_PARAMS, StatusCode::NOT_FOUND),
        // "Resource not found" had a code of its own until 2026-07-28.
        Kind::UnknownResource => Row {
            legacy: -32002,
            modern: INVALID_PARAMS,
            status: StatusCode::NOT_FOUND,
        },
        Kind::InvalidParams | Kind::InvalidArguments | Kind::BadState => {
            same(INVALID_PARAMS, StatusCode::BAD_REQUEST)
        }
        Kind::NotInitialized => Row {
            legacy: -32002,
            modern: INVALID_REQUEST,
            status: StatusCode::BAD_REQUEST,
        },
        Kind::Unauthorized => seed(-32001, StatusCode::UNAUTHORIZED),
        Kind::Forbidden => seed(-32001, StatusCode::FORBIDDEN),
        Kind::RateLimited => seed(-32000, StatusCode::TOO_MANY_REQUESTS),
        // The legacy code is configurable: `Fault::legacy_code`.
        Kind::Overloaded => seed(-32001, StatusCode::SERVICE_UNAVAILABLE),
        Kind::Disabled | Kind::CircuitOpen | Kind::BackendBusy => {
            seed(-32000, StatusCode::SERVICE_UNAVAILABLE)
        }
        Kind::BackendUnavailable | Kind::BackendBadReply => {
            same(INTERNAL_ERROR, StatusCode::BAD_GATEWAY)
        }
        Kind::BackendTimeout => same(INTERNAL_ERROR, StatusCode::GATEWAY_TIMEOUT),
        Kind::MissingCapability => Row {
            legacy: INTERNAL_ERROR,
            modern: -32021,
            status: StatusCode::BAD_REQUEST,
        },
        Kind::AuditUnavailable => same(INTERNAL_ERROR, StatusCode::SERVICE_UNAVAILABLE),
        Kind::Cancelled | Kind::Internal => same(INTERNAL_ERROR, StatusCode::INTERNAL_SERVER_ERROR),
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
    let mut data = br#"{"kind":"#.to_vec();
    json::encode_string(fault.kind.as_str(), &mut data);
    if let Some(ms) = fault.retry_after_ms {
        data.extend_from_slice(format!(r#","retry_after_ms":{ms}"#).as_bytes());
    }
    if let Some(members) = &fault.data {
        data.push(b',');
        data.extend_from_slice(members.as_bytes());
    }
    data.push(b'}');
    error_object(i64::from(code), &fault.public, Some(&data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_row() {
        let rows = [
            (Kind::ParseError, -32700, -32700, 400),
            (Kind::InvalidRequest, -32600, -32600, 400),
            (Kind::TooLarge, -32600, -32600, 413),
            (Kind::MethodNotFound, -32601, -32601, 404),
            (Kind::UnknownName, -32602, -32602, 404),
            (Kind::UnknownResource, -32002, -32602, 404),
            (Kind::InvalidParams, -32602, -32602, 400),
            (Kind::BadState, -32602, -32602, 400),
            (Kind::NotInitialized, -32002, -32600, 400),
            (Kind::InvalidArguments, -32602, -32602, 400),
            (Kind::Unauthorized, -32001, -31401, 401),
            (Kind::Forbidden, -32001, -31403, 403),
            (Kind::Disabled, -32000, -31503, 503),
            (Kind::RateLimited, -32000, -31429, 429),
            (Kind::Overloaded, -32001, -31503, 503),
            (Kind::CircuitOpen, -32000, -31503, 503),
            (Kind::BackendUnavailable, -32603, -32603, 502),
            (Kind::BackendBusy, -32000, -31503, 503),
            (Kind::BackendBadReply, -32603, -32603, 502),
            (Kind::BackendTimeout, -32603, -32603, 504),
            (Kind::MissingCapability, -32603, -32021, 400),
            (Kind::Cancelled, -32603, -32603, 500),
            (Kind::AuditUnavailable, -32603, -32603, 503),
            (Kind::Internal, -32603, -32603, 500),
        ];
        for (kind, legacy, modern, status) in rows {
            let row = row(kind);
            assert_eq!(
                (row.legacy, row.modern, row.status.as_u16()),
                (legacy, modern, status),
                "{kind:?}"
            );
        }
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
    fn c_1_the_kind_travels_with_the_error() {
        let fault = Fault::new(Kind::CircuitOpen, "later")
            .retry_after_ms(5)
            .with_data(r#""x":1"#);
        assert_eq!(
            String::from_utf8(error(&fault, Revision::V2025_11_25)).expect("text"),
            r#"{"code":-32000,"message":"later","data":{"kind":"circuit_open","retry_after_ms":5,"x":1}}"#
        );
    }
}
