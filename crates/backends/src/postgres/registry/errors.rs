//! Errors in the forms of REST and RPC, for what the database did not answer itself or shall not say.
//!
//! An answer of a handler passes as it is. One that the gateway functions wrote because a handler failed has no details of the
//! database: some deployments put the text of the error there.

use bytes::Bytes;
use sentinel_core::{HttpAnswer, HttpCall};
use sentinel_wire::Payload;
use sentinel_wire::json::{self, Rules};

use super::super::operation::Site;

/// The form of a handler's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// RFC 9457.
    Problem,
    JsonRpc,
}

/// The code of failures that say nothing else.
pub(super) const INTERNAL: i32 = -32603;
/// What callers see of them.
pub(super) const INTERNAL_TEXT: &str = "Internal error";
const RETRYABLE: &str = "pgmi.transaction_retryable";

impl Form {
    pub(super) fn unknown_isolation(self, request: &HttpCall) -> HttpAnswer {
        let error = Error {
            status: 400,
            title: "Bad Request",
            rpc_code: -32600,
            text: "x-pgmi-transaction-isolation is none of read committed, repeatable read, serializable",
            members: r#""code":"pgmi.transaction_isolation_unsupported""#.to_owned(),
        };
        error.answer(self, request)
    }

    pub(super) fn conflict(self, request: &HttpCall, sqlstate: &str, attempts: u32) -> HttpAnswer {
        let error = Error {
            status: 409,
            title: "Conflict",
            rpc_code: INTERNAL,
            text: "other transactions changed the same data at each attempt; nothing was changed",
            members: conflict_members(sqlstate, attempts),
        };
        let mut answer = error.answer(self, request);
        answer.headers.push(("retry-after".into(), "1".into()));
        answer
    }
}

/// What programs read about a transaction that lost each time.
pub(super) fn conflict_members(sqlstate: &str, attempts: u32) -> String {
    let mut out = format!(r#""code":"{RETRYABLE}","sqlstate":"#).into_bytes();
    json::encode_string(sqlstate, &mut out);
    out.extend_from_slice(format!(r#","attempts":{attempts}"#).as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

struct Error<'a> {
    status: u16,
    title: &'a str,
    rpc_code: i32,
    text: &'a str,
    /// Further JSON members, without braces.
    members: String,
}

impl Error<'_> {
    fn answer(&self, form: Form, request: &HttpCall) -> HttpAnswer {
        let (media_type, body) = match form {
            Form::Problem => ("application/problem+json", self.problem()),
            Form::JsonRpc => ("application/json", self.json_rpc(request)),
        };
        let headers = [("content-type", media_type), ("cache-control", "no-store")];
        HttpAnswer {
            status: self.status,
            headers: headers.map(|(n, v)| (n.to_owned(), v.to_owned())).into(),
            body: match request.verb.eq_ignore_ascii_case("HEAD") {
                true => Bytes::new(),
                false => body.into(),
            },
        }
    }

    fn problem(&self) -> Vec<u8> {
        let mut out = br#"{"type":"about:blank","title":"#.to_vec();
        json::encode_string(self.title, &mut out);
        out.extend_from_slice(format!(r#","status":{},"detail":"#, self.status).as_bytes());
        json::encode_string(self.text, &mut out);
        out.push(b',');
        out.extend_from_slice(self.members.as_bytes());
        out.push(b'}');
        out
    }

    fn json_rpc(&self, request: &HttpCall) -> Vec<u8> {
        let mut out = br#"{"jsonrpc":"2.0","id":"#.to_vec();
        out.extend_from_slice(&id(&request.body));
        out.extend_from_slice(
            format!(r#","error":{{"code":{},"message":"#, self.rpc_code).as_bytes(),
        );
        json::encode_string(self.text, &mut out);
        out.extend_from_slice(br#","data":{"#);
        out.extend_from_slice(self.members.as_bytes());
        out.extend_from_slice(b"}}}");
        out
    }
}

/// The id of a JSON-RPC request; `null` if it has none that is a text or number.
fn id(request: &Bytes) -> Bytes {
    let id = Payload::parse(request.clone(), Rules::backend());
    let id = id.ok().and_then(|request| request.get_bytes("id"));
    let is_id = |raw: &Bytes| {
        let kind = json::Kind::of(raw);
        matches!(kind, Some(json::Kind::String | json::Kind::Number))
    };
    id.filter(is_id).unwrap_or(Bytes::from_static(b"null"))
}

/// The answer without what the database says about a failure of its own; that goes to the log.
pub(super) fn without_details(
    form: Form,
    answer: HttpAnswer,
    request: &HttpCall,
    site: Site<'_>,
) -> HttpAnswer {
    let is_internal = match form {
        Form::Problem => answer.status == 500,
        Form::JsonRpc => answer.status == 500 || code(&answer.body) == Some(INTERNAL),
    };
    if !is_internal {
        return answer;
    }
    let reference = site.call.round.call;
    let said = String::from_utf8_lossy(&answer.body);
    let said: String = said.chars().take(2000).collect();
    tracing::warn!(backend = %site.config.name, %reference, "a handler failed: {said}");
    let error = Error {
        status: answer.status,
        title: "Internal Server Error",
        rpc_code: INTERNAL,
        text: match form {
            Form::Problem => "the operation failed in the database",
            Form::JsonRpc => INTERNAL_TEXT,
        },
        members: format!(r#""reference":"{reference}""#),
    };
    let written = error.answer(form, request);
    let ours = |name: &str| written.headers.iter().any(|(known, _)| known == name);
    let mut headers = written.headers.clone();
    let theirs = answer.headers.into_iter();
    // The length is that of the text that is left out.
    headers.extend(theirs.filter(|(name, _)| !ours(name) && name != "content-length"));
    HttpAnswer { headers, ..written }
}

/// The code of a JSON-RPC error.
pub(super) fn code(answer: &Bytes) -> Option<i32> {
    let parse = |raw: Bytes| Payload::parse(raw, Rules::backend()).ok();
    let error = parse(parse(answer.clone())?.get_bytes("error")?)?;
    std::str::from_utf8(error.get("code")?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(answer: &HttpAnswer) -> &str {
        std::str::from_utf8(&answer.body).expect("text")
    }

    #[test]
    fn a_lost_transaction_says_so_in_the_form_of_its_surface() {
        let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":"a\"b","method":"m"}"#);
        let request = HttpCall::new("POST", "/rpc", Vec::new(), body);
        let answer = Form::JsonRpc.conflict(&request, "40001", 3);
        let wanted = r#"{"jsonrpc":"2.0","id":"a\"b","error":{"code":-32603,"message":"other transactions changed the same data at each attempt; nothing was changed","data":{"code":"pgmi.transaction_retryable","sqlstate":"40001","attempts":3}}}"#;
        assert_eq!((answer.status, text(&answer)), (409, wanted));
        assert!(answer.headers.contains(&("retry-after".into(), "1".into())));
        let answer = Form::Problem.unknown_isolation(&request);
        assert_eq!(answer.status, 400);
        let ends = r#""code":"pgmi.transaction_isolation_unsupported"}"#;
        assert!(text(&answer).ends_with(ends), "{}", text(&answer));
    }

    #[test]
    fn ids_are_echoed_if_they_are_ids() {
        for (body, wanted) in [
            (r#"{"id":7}"#, "7"),
            (r#"{"id":true}"#, "null"),
            (r#"{"id":{}}"#, "null"),
            ("{}", "null"),
            ("x", "null"),
        ] {
            assert_eq!(id(&Bytes::from_static(body.as_bytes())), wanted, "{body}");
        }
    }
}
