//! CORS headers for pages whose origin is allowed. Whether an origin is allowed is decided before (`guard`).

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderName, HeaderValue, VARY,
};
use http::{Method as Verb, Response, StatusCode, request};

use super::body::Body;

/// Sent for a page of the web that requests an address of this machine or network.
const REQUEST_PRIVATE: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// What a page may read of our answers besides their bodies.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After, RateLimit, RateLimit-Policy, ETag, Location, \
     Content-Range, Link, Next-Arguments, Idempotency-Replayed, Preference-Applied, Server-Timing",
);
/// The verbs that are told of a path where a backend may have a route.
pub(super) const ANY_VERB: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
/// Seconds for which a browser need not ask again.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Answers a preflight request; `None` if it is none.
pub(super) fn preflight(
    head: &request::Parts,
    verbs: impl FnOnce() -> String,
) -> Option<Response<Body>> {
    let headers = &head.headers;
    if head.method != Verb::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let answer = response.headers_mut();
    let verbs = HeaderValue::try_from(verbs()).expect("verbs are ASCII");
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, verbs);
    answer.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    // Any header, since the page is allowed and the set of `Mcp-Param-*` is open.
    if let Some(wanted) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    if headers.contains_key(&REQUEST_PRIVATE) {
        answer.insert(ALLOW_PRIVATE, HeaderValue::from_static("true"));
    }
    Some(response)
}

/// Lets the page of this origin read the response. Without credentials mode, since there are no cookies.
pub(super) fn shown_to(origin: HeaderValue, mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(VARY, HeaderValue::from_static("Origin"));
    response
}
