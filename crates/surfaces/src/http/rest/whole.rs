//! Requests that a backend takes as a whole (`HttpCall`), and its answers.
//!
//! Of the request's headers the backend gets what belongs to the request: not those of the connection, no credentials, and none
//! that name an identity, which only the gateway knows. Of the answer's the client gets all but those of the connection, cookies and
//! CORS, which are the gateway's to decide. An answer that is a page runs nothing unless the backend has a policy for it: it has the
//! origin of the gateway.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use percent_encoding::percent_decode_str;
use ring::digest::{SHA256, digest};
use sentinel_core::http_call::is_of_connection;
use sentinel_core::invocation::params_named;
use sentinel_core::{Addressing, Fault, HttpCall, Kind, Operation};
use sentinel_wire::json::{Rules, encode_string};
use sentinel_wire::{Id, Method};
use serde_json::{Map, Value};

use super::super::body::Body;
use super::super::exchange::Exchange;
use super::super::operations::{Completed, Wanted, Way};
use super::answer::INERT;
use super::malformed;

/// Not for backends: credentials, and claims about who calls.
const WITHHELD: [&str; 8] = [
    "authorization",
    "cookie",
    "expect",
    "proxy-authorization",
    "x-confirmation-token",
    "x-tenant-id",
    "x-user-email",
    "x-user-id",
];
const NOT_ANSWERED: [&str; 2] = ["set-cookie", "set-cookie2"];
const CORS: &str = "access-control-";

/// A name in lower case, and a value.
type PassedHeader = (Box<str>, Box<str>);

/// A request, read.
pub(in crate::http) struct WholeRequest {
    http: Arc<HttpCall>,
    /// What of it the record shows, and a confirmation is bound to.
    arguments: Vec<u8>,
    pub(in crate::http) id: Option<Id>,
}

/// A backend's answer whose parts are good.
#[derive(Debug)]
pub(in crate::http) struct WholeAnswer {
    pub(in crate::http) status: StatusCode,
    headers: HeaderMap,
    pub(in crate::http) body: Bytes,
}

impl WholeRequest {
    pub(in crate::http) fn read(exchange: &Exchange<'_>, body: Bytes) -> Result<Self, Fault> {
        let head = exchange.head;
        let uri = &head.uri;
        let url = uri.path_and_query().map_or("/", |url| url.as_str());
        let headers = passed_on(&head.headers)?;
        let arguments = shown(head.method.as_str(), uri.path(), uri.query(), &body);
        Ok(Self {
            http: Arc::new(HttpCall::new(head.method.as_str(), url, headers, body)),
            arguments,
            id: None,
        })
    }

    /// The call of a tool that is this request, and the place of its answer.
    pub(in crate::http) fn wanted(
        self,
        operation: &Operation,
        addressing: Addressing,
    ) -> Result<(Wanted, Arc<HttpCall>), Fault> {
        let params = params_named(&operation.exposed, &self.arguments, b"", Rules::backend());
        let wanted = Wanted {
            method: Method::ToolsCall,
            params: params.map_err(malformed)?,
            id: self.id,
            bytes_in: self.http.body.len(),
            with_notices: false,
            way: Way {
                addressing,
                http: Some(self.http.clone()),
                takes_rows: false,
            },
        };
        Ok((wanted, self.http))
    }
}

/// What came of it: the answer that lies there if the call was made, a refusal otherwise.
pub(in crate::http) fn answer_of(
    mut completed: Completed,
    http: &HttpCall,
) -> Result<(Completed, WholeAnswer), Box<Completed>> {
    if completed.outcome.is_err() {
        return Err(Box::new(completed));
    }
    match read_answer(http) {
        Ok(answer) => Ok((completed, answer)),
        Err(why) => {
            let text = "the backend's answer cannot be sent on";
            completed.spoil(Fault::new(Kind::BackendBadReply, text).because(why));
            Err(Box::new(completed))
        }
    }
}

fn read_answer(http: &HttpCall) -> Result<WholeAnswer, &'static str> {
    let answer = http
        .answered()
        .ok_or("the backend gave no answer to the request")?;
    let status = StatusCode::from_u16(answer.status)
        .ok()
        .filter(|status| (200..600).contains(&status.as_u16()))
        .ok_or("the backend answered with a status that is none")?;
    let mut headers = HeaderMap::with_capacity(answer.headers.len());
    for (name, value) in &answer.headers {
        let unusable = "the backend answered with a header that cannot be sent";
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable)?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| unusable)?;
        headers.append(name, value);
    }
    Ok(WholeAnswer {
        status,
        headers,
        body: answer.body.clone(),
    })
}

/// The response. To a HEAD it says how long a GET's would be.
pub(in crate::http) fn respond(answer: &WholeAnswer, is_head: bool) -> Response<Body> {
    let has_none = matches!(
        answer.status,
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
    );
    let body = match is_head || has_none {
        true => Body::empty(),
        false => Body::from(answer.body.clone()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    let of_connection = named_by_connection(&answer.headers);
    for (name, value) in &answer.headers {
        let name_text = name.as_str();
        let is_ours = is_of_connection(name_text)
            || NOT_ANSWERED.contains(&name_text)
            || name_text.starts_with(CORS)
            || of_connection.iter().any(|one| one == name_text);
        if !is_ours {
            headers.append(name.clone(), value.clone());
        }
    }
    if is_head && !has_none {
        let len = match answer.body.is_empty() {
            true => declared_len(&answer.headers),
            false => Some(answer.body.len() as u64),
        };
        if let Some(len) = len {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
        }
    }
    guard(headers);
    response
}

/// What a browser may do with bytes that a backend chose, where it does not say so itself.
fn guard(headers: &mut HeaderMap) {
    let Some(media_type) = headers.get(CONTENT_TYPE) else {
        return;
    };
    let essence = media_type.as_bytes().split(|b| *b == b';').next();
    let essence = essence
        .unwrap_or_default()
        .trim_ascii()
        .to_ascii_lowercase();
    let is_json = essence == b"application/json" || essence.ends_with(b"+json");
    let nosniff = HeaderValue::from_static("nosniff");
    headers.entry(X_CONTENT_TYPE_OPTIONS).or_insert(nosniff);
    if !is_json {
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(INERT);
    }
}

fn declared_len(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Further headers of the connection, in lower case.
fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONNECTION).iter();
    let names = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    names.map(|name| name.trim().to_ascii_lowercase()).collect()
}

/// The headers for the backend, in the order in which they came.
fn passed_on(headers: &HeaderMap) -> Result<Vec<PassedHeader>, Fault> {
    let of_connection = named_by_connection(headers);
    let mut out = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let name = name.as_str();
        if is_of_connection(name)
            || WITHHELD.contains(&name)
            || of_connection.iter().any(|one| one == name)
        {
            continue;
        }
        let value = std::str::from_utf8(value.as_bytes()).map_err(|_| {
            let text = format!("the header {name} is not UTF-8");
            Fault::new(Kind::InvalidRequest, text)
        })?;
        out.push((name.into(), value.into()));
    }
    Ok(out)
}

/// The request as arguments of its tool: for the record, where members are blanked by their names, and for confirmations, which
/// are bound to the arguments. Of the body there is a digest.
fn shown(verb: &str, path: &str, query: Option<&str>, body: &[u8]) -> Vec<u8> {
    let mut out = br#"{"method":"#.to_vec();
    encode_string(verb, &mut out);
    out.extend_from_slice(br#","path":"#);
    encode_string(&percent_decode_str(path).decode_utf8_lossy(), &mut out);
    if let Some(query) = query {
        let mut all: Map<String, Value> = Map::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let values = all.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(values) = values {
                values.push(value.into());
            }
        }
        let all = Value::Object(all).to_string();
        out.extend_from_slice(br#","query":"#);
        out.extend_from_slice(all.as_bytes());
    }
    if !body.is_empty() {
        let mut hex = String::with_capacity(64);
        for byte in digest(&SHA256, body).as_ref() {
            let _ = write!(hex, "{byte:02x}");
        }
        out.extend_from_slice(br#","sha256":"#);
        encode_string(&hex, &mut out);
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests;
