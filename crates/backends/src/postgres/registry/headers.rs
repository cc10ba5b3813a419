//! Headers of requests and answers, and who calls.
//!
//! What a client says about its identity never reaches the database. Callers with a credential are named by the gateway: in
//! headers to REST and RPC handlers, in the context to MCP handlers.

use std::borrow::Cow;

use http::{HeaderName, HeaderValue};
use sentinel_config::Token;
use sentinel_core::http_call::is_of_connection;
use sentinel_core::{Caller, HttpCall};
use sentinel_wire::json;

use super::super::Config;

/// Headers by which the database knows who calls.
const OF_IDENTITY: [&str; 6] = [
    "x-user-id",
    "x-user-email",
    "x-tenant-id",
    "user-id",
    "authorization",
    "proxy-authorization",
];
/// For the database's own log.
const ERROR_STATE: &str = "x-error-sqlstate";
/// Headers of one answer, and their bytes.
const HEADERS_MAX: usize = 100;
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// Longer names of users are no names to the database.
const USER_BYTES_MAX: usize = 4096;

/// A caller as the database gets to know it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Person {
    /// `provider|subject`; empty without a credential.
    pub(super) user: String,
    email: Option<String>,
    tenant: Option<String>,
    token: Option<String>,
}

impl Person {
    /// A caller without a credential has no members.
    pub(super) fn of(caller: &Caller, config: &Config) -> Self {
        let Some(account) = caller.account.as_deref() else {
            return Self::default();
        };
        let provider = match config.provider.as_str() {
            "" => &*account.provider,
            configured => configured,
        };
        let user = format!("{provider}|{}", caller.subject);
        // A provider with a bar in it could speak for the users of another.
        let is_whole =
            !provider.is_empty() && !provider.contains('|') && !caller.subject.is_empty();
        if !is_whole || user.len() > USER_BYTES_MAX {
            return Self::default();
        }
        let credential = &account.credential;
        Self {
            user,
            email: account.email.as_deref().map(str::to_owned),
            tenant: caller.tenant.as_deref().map(str::to_owned),
            token: match config.token {
                Token::Digest => Some(credential.digest()),
                Token::Full => Some(format!("Bearer {}", credential.expose())),
                Token::Off => None,
            },
        }
    }

    fn headers(self) -> impl Iterator<Item = (&'static str, String)> {
        let user = Some(self.user).filter(|user| !user.is_empty());
        let all = [
            ("x-user-id", user),
            ("x-user-email", self.email),
            ("x-tenant-id", self.tenant),
            ("authorization", self.token),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
    }

    /// The context of MCP handlers; `None` without a user.
    pub(super) fn context(&self) -> Option<String> {
        if self.user.is_empty() {
            return None;
        }
        let members = [
            ("user_id", Some(&self.user)),
            ("user_email", self.email.as_ref()),
            ("tenant_id", self.tenant.as_ref()),
        ];
        let mut out = Vec::from(*b"{");
        for (name, value) in members {
            let Some(value) = value else { continue };
            if out.len() > 1 {
                out.push(b',');
            }
            json::encode_string(name, &mut out);
            out.push(b':');
            json::encode_string(value, &mut out);
        }
        out.push(b'}');
        String::from_utf8(out).ok()
    }
}

/// Names and values for an hstore, which has each name once.
pub(super) fn of_request(request: &HttpCall, person: Person) -> (Vec<String>, Vec<String>) {
    let (mut names, mut values): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (name, value) in &request.headers {
        let name = name.to_ascii_lowercase();
        if OF_IDENTITY.contains(&name.as_str()) {
            continue;
        }
        match names.iter().position(|known| *known == name) {
            // RFC 9110, section 5.3, and for cookies RFC 6265.
            Some(at) => {
                values[at].push_str(if name == "cookie" { "; " } else { ", " });
                values[at].push_str(value);
            }
            None => {
                names.push(name);
                values.push(value.to_string());
            }
        }
    }
    for (name, value) in person.headers() {
        names.push(name.to_owned());
        values.push(value);
    }
    (names, values)
}

/// The value of a header of a request.
pub(super) fn value<'a>(request: &'a HttpCall, name: &str) -> Option<Cow<'a, str>> {
    let mut found = request
        .headers
        .iter()
        .filter(|(known, _)| known.eq_ignore_ascii_case(name));
    let first = &found.next()?.1;
    let rest: Vec<&str> = found.map(|(_, value)| &**value).collect();
    Some(match rest.is_empty() {
        true => Cow::Borrowed(first),
        false => format!("{first}, {}", rest.join(", ")).into(),
    })
}

/// The headers of an answer, from names and values in turn; `None` if they are too many. Those that HTTP does not allow are
/// left out. An answer to HEAD keeps its length, which is that of the answer to GET.
pub(super) fn of_answer(
    pairs: Vec<Option<String>>,
    is_head: bool,
) -> Option<Vec<(String, String)>> {
    let mut headers = Vec::with_capacity(pairs.len() / 2);
    let mut bytes = 0;
    let mut pairs = pairs.into_iter();
    while let (Some(name), Some(value)) = (pairs.next(), pairs.next()) {
        let (Some(name), Some(value)) = (name, value) else {
            continue;
        };
        let name = name.to_ascii_lowercase();
        let is_length = name == "content-length" && is_head && value.parse::<u64>().is_ok();
        let is_sent = HeaderName::from_bytes(name.as_bytes()).is_ok()
            && HeaderValue::from_str(&value).is_ok()
            && (is_length || !is_of_connection(&name))
            && name != ERROR_STATE;
        if !is_sent {
            continue;
        }
        bytes += name.len() + value.len();
        headers.push((name, value));
    }
    (headers.len() <= HEADERS_MAX && bytes <= HEADER_BYTES_MAX).then_some(headers)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn identity_comes_from_the_gateway_only() {
        let sent = [
            ("x-user-id", "idp|root"),
            ("X-User-Email", "root@example"),
            ("X-TENANT-ID", "other"),
            ("user-id", "idp|root"),
            ("authorization", "Bearer x"),
            ("accept", "a"),
            ("accept", "b"),
        ];
        let sent = sent.map(|(name, value)| (name.into(), value.into()));
        let request = HttpCall::new("GET", "/", sent.to_vec(), Bytes::new());
        let (names, values) = of_request(&request, Person::default());
        assert_eq!(
            (names, values),
            (vec!["accept".into()], vec!["a, b".into()])
        );
        assert_eq!(value(&request, "Accept").as_deref(), Some("a, b"));
        let person = Person {
            user: "idp|alice".into(),
            tenant: Some("acme".into()),
            ..Person::default()
        };
        let context = r#"{"user_id":"idp|alice","tenant_id":"acme"}"#;
        assert_eq!(person.context().as_deref(), Some(context));
        let (names, values) = of_request(&request, person);
        assert_eq!(names, ["accept", "x-user-id", "x-tenant-id"]);
        assert_eq!(values, ["a, b", "idp|alice", "acme"]);
    }

    #[test]
    fn only_headers_that_http_allows_are_passed() {
        let pairs = |pairs: &[(&str, Option<&str>)]| {
            let flat = pairs.iter().flat_map(|(name, value)| [Some(*name), *value]);
            flat.map(|text| text.map(str::to_owned)).collect()
        };
        let answer = pairs(&[
            ("Content-Type", Some("text/plain")),
            ("content-length", Some("5")),
            ("transfer-encoding", Some("chunked")),
            ("bad name", Some("x")),
            ("x-split", Some("a\r\nset-cookie: b")),
            ("x-null", None),
            ("x-error-sqlstate", Some("23505")),
        ]);
        let passed = vec![("content-type".to_owned(), "text/plain".to_owned())];
        assert_eq!(of_answer(answer, false), Some(passed));
        let length = of_answer(pairs(&[("content-length", Some("5"))]), true);
        assert_eq!(length, Some(vec![("content-length".into(), "5".into())]));
        let many = vec![Some("a".to_owned()); 2 * (HEADERS_MAX + 1)];
        assert_eq!(of_answer(many, false), None);
    }
}
