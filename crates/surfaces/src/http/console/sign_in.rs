//! Signing in to the console: a credential is shown once, and a cookie stands for it from then on.
//!
//! The cookie is not a right of its own: each request that comes with it is authenticated by the credential behind it, as if
//! that had been sent. So a revoked key, an expired token and another configuration hold at once.
//!
//! Another site cannot use the cookie: browsers keep it from requests of other sites (`SameSite=Strict`) and from scripts
//! (`HttpOnly`), and it counts only on requests that carry `X-Sentinel-Console`, which a page of another origin cannot send
//! without a preflight that allows credentials; the gateway never allows that. A request that names an `Origin` must name
//! this one.
//!
//! Sessions are in memory: a restarted gateway asks again. Their number is bounded, in all and by caller.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::FutureExt;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    SET_COOKIE,
};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use schemars::JsonSchema;
use sentinel_core::identity::{CREDENTIAL_BYTES_MAX, Proof};
use sentinel_core::{Caller, Fault, Identity, Kind};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Paths;
use crate::http::admin::{FromRequest, Json};
use crate::http::body::Body;
use crate::http::exchange::Exchange;
use crate::http::reply;
use crate::http::routes::Handled;

/// Sent by the page with each of its requests.
const CONSOLE: HeaderName = HeaderName::from_static("x-sentinel-console");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// A session takes up to some 16 kB: the credential.
const SESSIONS_MAX: usize = 1024;
/// Browsers of one caller.
const SESSIONS_PER_CALLER_MAX: usize = 32;
const ID_BYTES: usize = 32;

/// Who is signed in, by the hash of the cookie's value.
#[derive(Default)]
pub(in crate::http) struct SignedIn(Mutex<Vec<Session>>);

struct Session {
    id: [u8; 32],
    subject: Arc<str>,
    credential: Arc<str>,
    until: Instant,
}

/// The console as the page finds it.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct Console {
    version: &'static str,
    /// Another one after each start of the gateway.
    boot_id: String,
    /// Whether callers have to show a credential.
    guarded: bool,
    /// Absent: sign in.
    caller: Option<SessionCaller>,
    paths: Paths,
}

#[derive(Serialize, JsonSchema)]
struct SessionCaller {
    subject: String,
    role: String,
    tenant: Option<String>,
    /// Whether the admin API is open to it.
    is_admin: bool,
    /// When its credential expires, in milliseconds since 1970.
    expires_at_ms: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SignIn {
    /// A token or an API key.
    credential: String,
}

impl SignedIn {
    /// The credential that the cookie of a request stands for, where none was sent.
    pub(in crate::http) fn credential(&self, headers: &HeaderMap) -> Option<Arc<str>> {
        if headers.contains_key(AUTHORIZATION) || !headers.contains_key(&CONSOLE) {
            return None;
        }
        if !is_own_page(headers) {
            return None;
        }
        let id = hash(cookie(headers)?);
        let now = Instant::now();
        let sessions = self.0.lock();
        let session = sessions
            .iter()
            .find(|one| one.id == id && one.until > now)?;
        Some(session.credential.clone())
    }

    /// Begins a session; returns the value of its cookie. The oldest of a caller who has too many ends.
    fn begin(&self, subject: &Arc<str>, credential: &str, ttl: Duration) -> Result<String, Fault> {
        let mut id = [0; ID_BYTES];
        SystemRandom::new()
            .fill(&mut id)
            .expect("the system has randomness");
        let text = URL_SAFE_NO_PAD.encode(id);
        let now = Instant::now();
        let mut sessions = self.0.lock();
        sessions.retain(|one| one.until > now);
        let mut own = sessions.iter().enumerate();
        let own: Vec<usize> = own
            .by_ref()
            .filter(|(_, one)| one.subject == *subject)
            .map(|(at, _)| at)
            .collect();
        if own.len() >= SESSIONS_PER_CALLER_MAX {
            sessions.remove(own[0]);
        }
        if sessions.len() >= SESSIONS_MAX {
            let text = "too many people are signed in to the console";
            return Err(Fault::new(Kind::TooManySessions, text));
        }
        sessions.push(Session {
            id: hash(&text),
            subject: subject.clone(),
            credential: credential.into(),
            until: now + ttl,
        });
        Ok(text)
    }

    fn end(&self, headers: &HeaderMap) {
        if let Some(id) = cookie(headers).map(hash) {
            self.0.lock().retain(|one| one.id != id);
        }
    }
}

/// `GET /console/api/session`.
pub(in crate::http) fn read<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    async move {
        let entrance = exchange.server.entrance.load_full();
        let admitted = exchange
            .server
            .admit(&entrance.epoch.access, exchange.headers())
            .await;
        Ok(answer(exchange, admitted.ok().as_deref()))
    }
    .boxed()
}

/// `POST /console/api/session`.
pub(in crate::http) fn begin<'a>(exchange: &'a Exchange<'a>, body: Incoming) -> Handled<'a> {
    async move {
        let Json(SignIn { credential }) = Json::<SignIn>::read(exchange, body).await?;
        check_page(exchange.headers())?;
        let entrance = exchange.server.entrance.load_full();
        let access = &entrance.epoch.access;
        let credential = credential.trim();
        if !access.is_guarded() {
            let text = "nobody signs in to this gateway: it has no [auth]";
            return Err(Fault::new(Kind::InvalidRequest, text));
        }
        let is_whole = credential.bytes().all(|byte| byte.is_ascii_graphic());
        if credential.is_empty() || !is_whole || credential.len() > CREDENTIAL_BYTES_MAX {
            let text = "this is neither a token nor an API key";
            return Err(Fault::new(Kind::Unauthorized, text));
        }
        let admitted = access.admit_by(credential, exchange.headers()).await;
        let identity = admitted.map_err(|challenge| challenge.fault)?;
        exchange.about(identity.subject.to_string());
        let ttl = exchange.server.gateway.limits().console_session;
        let id = exchange
            .server
            .signed_in
            .begin(&identity.subject, credential, ttl)?;
        let mut response = answer(exchange, Some(&identity));
        set_cookie(&mut response, exchange.headers(), &id, ttl);
        Ok(response)
    }
    .boxed()
}

/// `DELETE /console/api/session`.
pub(in crate::http) fn end<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    async move {
        check_page(exchange.headers())?;
        exchange.server.signed_in.end(exchange.headers());
        let mut response = answer(exchange, None);
        set_cookie(&mut response, exchange.headers(), "", Duration::ZERO);
        Ok(response)
    }
    .boxed()
}

fn answer(exchange: &Exchange<'_>, identity: Option<&Identity>) -> Response<Body> {
    let server = exchange.server;
    let entrance = server.entrance.load();
    let caller = identity.map(|identity| SessionCaller {
        subject: identity.subject.to_string(),
        role: identity.role.to_string(),
        tenant: identity.tenant.as_deref().map(str::to_owned),
        is_admin: server.gateway.policy.is_admin(&Caller::of(identity)),
        expires_at_ms: match identity.proof {
            Proof::Token { until, .. } => Some(until * 1000),
            _ => None,
        },
    });
    let console = Console {
        version: env!("CARGO_PKG_VERSION"),
        boot_id: server.gateway.boot_id().to_owned(),
        guarded: entrance.epoch.access.is_guarded(),
        caller,
        paths: Paths::of(&entrance.mounts),
    };
    let body = serde_json::to_vec(&console).expect("texts and numbers");
    let mut response = reply::json(StatusCode::OK, body);
    let private = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, private);
    response
}

/// Refuses to begin or end a session for anything but the page.
fn check_page(headers: &HeaderMap) -> Result<(), Fault> {
    match headers.contains_key(&CONSOLE) && is_own_page(headers) {
        true => Ok(()),
        false => Err(Fault::new(
            Kind::Forbidden,
            "only the console signs in and out here: send X-Sentinel-Console, from its own origin",
        )),
    }
}

/// Whether nothing says that the request is from a page of another origin.
fn is_own_page(headers: &HeaderMap) -> bool {
    let is_own_site = headers
        .get(SEC_FETCH_SITE)
        .is_none_or(|site| site == "same-origin");
    let authority = |origin: &HeaderValue| {
        let origin = origin.to_str().ok()?;
        origin.split_once("://").map(|(_, at)| at.to_owned())
    };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let is_own_origin = headers
        .get(ORIGIN)
        .is_none_or(|origin| authority(origin).as_deref() == host);
    is_own_site && is_own_origin
}

/// Cookies of one host are shared by all its ports.
fn name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let port = host.and_then(|host| host.rsplit_once(':'));
    let port = port.filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    format!("sentinel_console_{}", port.map_or("", |(_, port)| port))
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let name = name(headers);
    let values = headers.get_all(COOKIE).iter();
    let mut cookies = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    cookies.find_map(|cookie| {
        let (one, value) = cookie.trim().split_once('=')?;
        (one == name).then_some(value)
    })
}

fn set_cookie(response: &mut Response<Body>, headers: &HeaderMap, value: &str, ttl: Duration) {
    // A page that came over TLS has such an origin; a proxy in front may have ended the TLS.
    let origin = headers.get(ORIGIN).map(HeaderValue::as_bytes);
    let secure = match origin.is_some_and(|origin| origin.starts_with(b"https://")) {
        true => "; Secure",
        false => "",
    };
    let (name, seconds) = (name(headers), ttl.as_secs());
    let cookie =
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let cookie = HeaderValue::try_from(cookie).expect("base64 and digits");
    response.headers_mut().insert(SET_COOKIE, cookie);
}

fn hash(id: &str) -> [u8; 32] {
    let hash = digest(&SHA256, id.as_bytes());
    hash.as_ref().try_into().expect("32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(rows: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in rows {
            let name = HeaderName::try_from(*name).expect("a name");
            headers.append(name, value.parse().expect("a value"));
        }
        headers
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn p_s11_a_cookie_counts_with_the_header_of_the_page_only() {
        let table = SignedIn::default();
        let id = table.begin(&"alice".into(), "token", HOUR).expect("room");
        let cookie = format!("other=1; sentinel_console_9200={id}");
        let own = ("host", "gw:9200");
        let is_known = |more: &[(&str, &str)]| {
            let mut rows = vec![own, ("cookie", &*cookie)];
            rows.extend(more);
            table.credential(&headers(&rows)).is_some()
        };
        let page = ("x-sentinel-console", "1");
        assert!(is_known(&[page]));
        assert!(is_known(&[page, ("origin", "http://gw:9200")]));
        assert!(is_known(&[page, ("sec-fetch-site", "same-origin")]));
        assert!(!is_known(&[]), "a form or an image cannot send the header");
        assert!(!is_known(&[page, ("origin", "http://gw:3000")]));
        assert!(!is_known(&[page, ("origin", "null")]));
        assert!(!is_known(&[page, ("sec-fetch-site", "same-site")]));
        assert!(!is_known(&[page, ("sec-fetch-site", "cross-site")]));
        assert!(!is_known(&[page, ("authorization", "Bearer other")]));
        let other_port = headers(&[("host", "gw:9201"), ("cookie", &cookie), page]);
        assert!(table.credential(&other_port).is_none());
        tokio::time::advance(HOUR).await;
        assert!(!is_known(&[page]), "it expired");
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_bounded_in_all_and_by_caller() {
        let table = SignedIn::default();
        let alice: Arc<str> = "alice".into();
        for _ in 0..2 * SESSIONS_PER_CALLER_MAX {
            table.begin(&alice, "token", HOUR).expect("room");
        }
        assert_eq!(table.0.lock().len(), SESSIONS_PER_CALLER_MAX);
        for n in SESSIONS_PER_CALLER_MAX..SESSIONS_MAX {
            let subject = format!("caller {n}").into();
            table.begin(&subject, "token", HOUR).expect("room");
        }
        let refused = table.begin(&"bob".into(), "token", HOUR).expect_err("full");
        assert_eq!(refused.kind, Kind::TooManySessions);
        tokio::time::advance(HOUR).await;
        table.begin(&"bob".into(), "token", HOUR).expect("room");
        assert_eq!(table.0.lock().len(), 1);
    }
}
