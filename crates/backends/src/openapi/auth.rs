//! Credentials of the configuration, as the security schemes of a description want them sent.
//!
//! Of the alternatives that an operation names, the first is taken for which every scheme has a credential. Values come from the
//! configuration only: nothing that a caller sent is one, and nothing here is printed.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use sentinel_config::{ApiAuth, Secret};
use serde_json::Value;

use super::document::{Document, Version, text};
use super::style::{Escape, escape};
use super::swagger;

/// One part of what proves who calls. No `Debug`: it holds a secret.
#[derive(Clone)]
pub(super) enum Credential {
    Header(HeaderName, HeaderValue),
    /// Name and value, percent-encoded.
    Query(String, String),
    Cookie(String, String),
}

/// The credentials for an operation, or the scheme for which there is none.
pub(super) fn credentials(
    document: &Document,
    operation: &Value,
    auth: &ApiAuth,
) -> Result<Vec<Credential>, String> {
    let security = operation
        .get("security")
        .or_else(|| document.root.get("security"));
    let Some(alternatives) = security.and_then(Value::as_array) else {
        return Ok(undescribed(document, auth));
    };
    let mut missing = None;
    for alternative in alternatives {
        let names = alternative
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name);
        match names
            .map(|name| one(document, name, auth).ok_or(name))
            .collect()
        {
            Ok(all) => return Ok(all),
            Err(name) => missing = missing.or(Some(name.clone())),
        }
    }
    missing.map_or(Ok(Vec::new()), Err)
}

/// A description without a word about security: what needs no name is sent.
fn undescribed(document: &Document, auth: &ApiAuth) -> Vec<Credential> {
    if schemes(document).is_some_and(|schemes| !schemes.is_empty()) {
        return Vec::new();
    }
    let bearer = auth.bearer.as_ref().and_then(bearer);
    bearer
        .or_else(|| auth.basic.as_ref().and_then(basic))
        .into_iter()
        .collect()
}

fn schemes(document: &Document) -> Option<&serde_json::Map<String, Value>> {
    let at = match document.version {
        Version::V20 => document.root.get("securityDefinitions"),
        _ => document.root.pointer("/components/securitySchemes"),
    };
    at?.as_object()
}

fn one(document: &Document, name: &str, auth: &ApiAuth) -> Option<Credential> {
    let scheme = document.resolve(schemes(document)?.get(name)?)?;
    let scheme = match document.version {
        Version::V20 => swagger::scheme(scheme),
        _ => scheme.clone(),
    };
    let own = auth.schemes.get(name);
    let kind = text(&scheme, "type")?;
    let http = text(&scheme, "scheme").unwrap_or_default();
    match kind {
        "http" if http.eq_ignore_ascii_case("basic") => basic(own.or(auth.basic.as_ref())?),
        "http" if http.eq_ignore_ascii_case("bearer") => bearer(own.or(auth.bearer.as_ref())?),
        // Another scheme of the Authorization header: the variable holds what follows its name.
        "http" => header(AUTHORIZATION, &format!("{http} {}", own?.expose())),
        "oauth2" | "openIdConnect" => bearer(own.or(auth.bearer.as_ref())?),
        "apiKey" => {
            let key = own.or(auth.api_key.as_ref())?.expose();
            let field = text(&scheme, "name")?;
            match text(&scheme, "in")? {
                "header" => header(field.parse().ok()?, key),
                "query" => {
                    let escaped = |text| escape(text, Escape::Strict);
                    Some(Credential::Query(escaped(field), escaped(key)))
                }
                "cookie" => is_cookie(field, key)
                    .then(|| Credential::Cookie(field.to_owned(), key.to_owned())),
                _ => None,
            }
        }
        _ => None,
    }
}

/// What RFC 6265 lets stand in a cookie: it may begin no other one.
fn is_cookie(name: &str, value: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\');
    !name.is_empty() && name.bytes().all(|b| good(b) && b != b'=') && value.bytes().all(good)
}

fn bearer(token: &Secret) -> Option<Credential> {
    let token = token.expose();
    // People put the whole header into the variable.
    let bare = token.strip_prefix("Bearer ").unwrap_or(token);
    header(AUTHORIZATION, &format!("Bearer {bare}"))
}

fn basic(pair: &Secret) -> Option<Credential> {
    let encoded = BASE64_STANDARD.encode(pair.expose());
    header(AUTHORIZATION, &format!("Basic {encoded}"))
}

fn header(name: HeaderName, value: &str) -> Option<Credential> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(Credential::Header(name, value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(value: &str) -> Secret {
        Secret::from_variable("X", value)
    }

    fn shown(credentials: Vec<Credential>) -> Vec<String> {
        let show = |credential| match credential {
            Credential::Header(name, value) => {
                format!("{name}: {}", value.to_str().expect("text"))
            }
            Credential::Query(name, value) => format!("?{name}={value}"),
            Credential::Cookie(name, value) => format!("{name}={value}"),
        };
        credentials.into_iter().map(show).collect()
    }

    #[test]
    fn o_5_each_scheme_gets_its_credential_where_it_wants_it() {
        let document = Document::new(json!({
            "openapi": "3.1.0",
            "components": { "securitySchemes": {
                "basic": {"type": "http", "scheme": "Basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
                "oauth": {"type": "oauth2", "flows": {}},
                "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://x/"},
                "head": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "query": {"type": "apiKey", "in": "query", "name": "api key"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
                "own": {"type": "apiKey", "in": "header", "name": "X-Own"},
                "mutual": {"type": "mutualTLS"},
            }},
        }))
        .expect("a description");
        let auth = ApiAuth {
            bearer: Some(secret("tok")),
            basic: Some(secret("me:pw")),
            api_key: Some(secret("k&y")),
            schemes: [("own".to_owned(), secret("mine"))].into(),
        };
        let of = |security: Value| {
            credentials(&document, &json!({ "security": security }), &auth).map(shown)
        };
        for (security, expected) in [
            (
                json!([{"basic": []}]),
                vec!["authorization: Basic bWU6cHc="],
            ),
            (json!([{"bearer": []}]), vec!["authorization: Bearer tok"]),
            (json!([{"oauth": ["a"]}]), vec!["authorization: Bearer tok"]),
            (json!([{"oidc": []}]), vec!["authorization: Bearer tok"]),
            (
                json!([{"head": [], "own": []}]),
                vec!["x-key: k&y", "x-own: mine"],
            ),
            (json!([{"query": []}]), vec!["?api%20key=k%26y"]),
            (json!([{"cookie": []}]), vec!["sid=k&y"]),
            (json!([{"mutual": []}, {"head": []}]), vec!["x-key: k&y"]),
            (json!([{}]), vec![]),
            (json!([]), vec![]),
        ] {
            assert_eq!(
                of(security.clone()).expect("credentials"),
                expected,
                "{security}"
            );
        }
        assert_eq!(of(json!([{"mutual": []}])), Err("mutual".to_owned()));
        let none = credentials(
            &document,
            &json!({"security": [{"own": []}]}),
            &ApiAuth::default(),
        );
        assert_eq!(none.map(shown), Err("own".to_owned()));
        // Nothing is said of security: nothing is sent, unless the description says nothing at all.
        assert_eq!(
            credentials(&document, &json!({}), &auth).map(shown),
            Ok(vec![])
        );
        let silent = Document::new(json!({"openapi": "3.1.0"})).expect("a description");
        let sent = credentials(&silent, &json!({}), &auth).map(shown);
        assert_eq!(sent, Ok(vec!["authorization: Bearer tok".to_owned()]));
    }
}
