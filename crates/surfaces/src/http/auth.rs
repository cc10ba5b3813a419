//! Authentication of HTTP requests by their `Authorization` header (G-21), and the challenge for rejected ones.
//!
//! A session id is no credential, nor is anything in the URL. With OAuth the challenge names this gateway's metadata,
//! which names the token issuers (RFC 9728).
//!
//! Not here: validation of credentials (`core::identity`), permissions (the walk).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{FutureExt, ready};
use futures_util::{StreamExt, stream};
use http::header::{AUTHORIZATION, CACHE_CONTROL, HOST, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, Uri};
use hyper::body::Incoming;
use sentinel_core::identity::{Authenticator, Proof, Reject};
use sentinel_core::{Fault, Identity, Kind, Policy};
use sentinel_wire::{Id, Revision};
use serde_json::json;
use tokio::sync::watch;

use super::body::Body;
use super::exchange::Exchange;
use super::reply;
use super::routes::Handled;
use crate::mcp::{Unfinished, fault_message};
use crate::rescue;

/// How long a request runs before revocation is watched. Longer than a worker's timer interval, or each request would
/// wake the runtime to set this timer.
const GRACE: Duration = Duration::from_millis(500);

pub(super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// The metadata of one endpoint, at the path that RFC 9728 defines.
pub(super) const WELL_KNOWN_ANYWHERE: &str = "/.well-known/oauth-protected-resource/{endpoint}";

/// The content of the metadata, if OAuth is configured.
#[derive(Clone, Debug, Default)]
pub struct OAuth {
    /// The gateway's canonical URI without a trailing slash; empty: as in the caller's request.
    pub resource: String,
    pub authorization_servers: Vec<String>,
    /// Scopes that a token must have for any endpoint.
    pub required_scopes: Vec<String>,
}

/// Which callers are admitted, and their identities.
pub enum Access {
    /// No authentication: every caller has this identity.
    Trusted(Arc<Identity>),
    Guarded {
        authenticator: Arc<Authenticator>,
        oauth: OAuth,
    },
}

/// Why a credential is rejected.
enum Reason {
    /// No credential, or one that is not examined.
    Missing(&'static str),
    Rejected(Reject),
    Scope,
}

/// The rejection of a request: the fault, and the challenge header.
pub(super) struct Challenge {
    pub(super) fault: Fault,
    header: Option<HeaderValue>,
}

impl Challenge {
    pub(super) fn respond(self, render: impl FnOnce(&Fault) -> Response<Body>) -> Response<Body> {
        let mut response = render(&self.fault);
        if let Some(header) = self.header {
            response.headers_mut().insert(WWW_AUTHENTICATE, header);
        }
        response
    }
}

impl Access {
    pub(super) fn is_guarded(&self) -> bool {
        matches!(self, Self::Guarded { .. })
    }

    /// Authenticates the sender of these headers.
    pub(super) async fn admit(&self, headers: &HeaderMap) -> Result<Arc<Identity>, Challenge> {
        let (authenticator, oauth) = match self {
            Self::Trusted(local) => return Ok(local.clone()),
            Self::Guarded {
                authenticator,
                oauth,
            } => (authenticator, oauth),
        };
        match credential(headers) {
            Ok(Some(credential)) => self.admit_by(credential, headers).await,
            Ok(None) => authenticator.anonymous().ok_or_else(|| {
                oauth.challenge(headers, &Reason::Missing("a credential is needed"))
            }),
            Err(reason) => Err(oauth.challenge(headers, &reason)),
        }
    }

    /// Authenticates by a credential; the headers are for the challenge.
    pub(super) async fn admit_by(
        &self,
        credential: &str,
        headers: &HeaderMap,
    ) -> Result<Arc<Identity>, Challenge> {
        let (authenticator, oauth) = match self {
            Self::Trusted(local) => return Ok(local.clone()),
            Self::Guarded {
                authenticator,
                oauth,
            } => (authenticator, oauth),
        };
        let mut verdict = authenticator.verify(credential);
        if verdict == Err(Reject::UnknownKey) && Box::pin(authenticator.ask_for_keys()).await {
            verdict = authenticator.verify(credential);
        }
        let reason = match verdict {
            Ok(identity) if oauth.suffices(&identity) => return Ok(identity),
            Ok(_) => Reason::Scope,
            Err(reject) => Reason::Rejected(reject),
        };
        Err(oauth.challenge(headers, &reason))
    }

    pub(super) fn is_revoked(&self, identity: &Identity) -> bool {
        match self {
            Self::Guarded { authenticator, .. } => authenticator.is_revoked(identity),
            Self::Trusted(_) => false,
        }
    }

    async fn revoked(&self, identity: &Identity) {
        match self {
            Self::Guarded { authenticator, .. } if identity.proof != Proof::None => {
                authenticator.revoked(identity).await;
            }
            _ => std::future::pending().await,
        }
    }

    /// Resolves when an identity is no longer valid.
    async fn ended(&self, identity: &Identity) {
        match self {
            Self::Guarded { authenticator, .. } if identity.proof != Proof::None => {
                authenticator.ended(identity).await;
            }
            _ => std::future::pending().await,
        }
    }
}

/// The protected-resource metadata, if OAuth is configured.
pub(super) fn metadata<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    let entrance = exchange.server.entrance.load();
    // One document for every endpoint, since all have the same audience.
    let document = match &entrance.epoch.access {
        Access::Guarded { oauth, .. } if oauth.describes(exchange.rest) => {
            Ok(oauth.document(exchange.headers()))
        }
        _ => Err(Fault::new(Kind::NotFound, "there is no such metadata here")),
    };
    let response = document.map(|document| {
        let mut response = reply::json(http::StatusCode::OK, document);
        let no_cache = HeaderValue::from_static("no-cache");
        response.headers_mut().insert(CACHE_CONTROL, no_cache);
        response
    });
    ready(response).boxed()
}

/// The request that a rejection answers.
pub(super) struct RejectedRequest {
    pub(super) id: Id,
    pub(super) revision: Revision,
}

/// An `Access` for as long as it is in force.
pub(super) struct AccessEpoch {
    pub(super) access: Access,
    closed: watch::Sender<bool>,
}

impl AccessEpoch {
    pub(super) fn new(access: Access) -> Arc<Self> {
        Arc::new(Self {
            access,
            closed: watch::Sender::new(false),
        })
    }

    /// Ends the epoch: callers admitted under it must authenticate again.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Resolves when the identity is no longer admitted (P-S07).
    pub(super) async fn ended(&self, identity: &Identity) {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            () = self.access.ended(identity) => {}
            _ = closed.wait_for(|closed| *closed) => {}
        }
    }

    /// Resolves when the identity was revoked or the epoch closed. Most calls end before this is watched.
    pub(super) async fn rejected(&self, identity: &Identity) {
        // Without a credential there is nothing to revoke; the session ends with the epoch.
        if !self.access.is_guarded() {
            return std::future::pending().await;
        }
        tokio::time::sleep(GRACE).await;
        let mut closed = self.closed.subscribe();
        tokio::select! {
            () = self.access.revoked(identity) => {}
            _ = closed.wait_for(|closed| *closed) => {}
        }
    }

    /// Calls `act` whenever identities may have been revoked, until this epoch closes.
    pub(super) async fn on_each_change(&self, act: impl Fn()) {
        let mut closed = self.closed.subscribe();
        let mut changes = match &self.access {
            Access::Guarded { authenticator, .. } => Some(authenticator.changes()),
            Access::Trusted(_) => None,
        };
        let mut changed = async || match &mut changes {
            Some(changes) => drop(changes.changed().await),
            None => std::future::pending().await,
        };
        loop {
            tokio::select! {
                () = changed() => act(),
                _ = closed.wait_for(|closed| *closed) => return,
            }
        }
    }

    /// Whether the identity was revoked or the epoch closed.
    pub(super) fn is_rejected(&self, identity: &Identity) -> bool {
        self.access.is_revoked(identity) || *self.closed.borrow()
    }

    /// The answer to a revoked caller, in the form of its request, as far as that was read.
    pub(super) fn reject(&self, asked: Option<&RejectedRequest>) -> Response<Body> {
        // The head was consumed with the request.
        let headers = &HeaderMap::new();
        let reason = Reason::Missing("the credential is no longer accepted");
        let challenge = match &self.access {
            Access::Guarded { oauth, .. } => oauth.challenge(headers, &reason),
            Access::Trusted(_) => OAuth::default().challenge(headers, &reason),
        };
        challenge.respond(|fault| {
            let (id, revision) = match asked {
                Some(RejectedRequest { id, revision }) => (Some(id), *revision),
                None => (None, Revision::V2025_03_26),
            };
            let message = fault_message(id, revision, fault);
            reply::json(rescue::row(fault.kind).status(), message)
        })
    }

    /// Ends a stream when its identity is no longer valid, or its role is removed.
    pub(super) fn watch(
        self: &Arc<Self>,
        policy: &Arc<Policy>,
        identity: Arc<Identity>,
        response: Response<Body>,
    ) -> Response<Body> {
        if let Body::Ready(_) = response.body() {
            return response;
        }
        let epoch = self.clone();
        response.map(|body| match body {
            Body::Stream(chunks) => {
                let policy = policy.clone();
                let ended = async move {
                    tokio::select! {
                        () = epoch.ended(&identity) => {}
                        () = policy.role_removed(&identity.role) => {}
                    }
                };
                Body::stream(chunks.take_until(Box::pin(ended)))
            }
            // A call in flight continues if its credential merely expires, as other calls do.
            Body::Message(pieces) => {
                let out = async move { epoch.rejected(&identity).await };
                let state = Some((pieces, Box::pin(out)));
                Body::message(stream::unfold(state, async |state| {
                    let (mut pieces, mut out) = state?;
                    tokio::select! {
                        biased;
                        () = &mut out => Some((Err(Unfinished), None)),
                        piece = pieces.next() => Some((piece?, Some((pieces, out)))),
                    }
                }))
            }
            ready => ready,
        })
    }
}

/// The bearer credential of a request. Several, or one of another scheme, are rejected and not ignored: a proxy in
/// between may have checked another one.
fn credential(headers: &HeaderMap) -> Result<Option<&str>, Reason> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Reason::Missing("there are several Authorization headers"));
    }
    let bearer = || {
        let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
        let token = rest.trim_matches(' ');
        let good = scheme.eq_ignore_ascii_case("bearer")
            && !token.is_empty()
            && token.bytes().all(|b| b.is_ascii_graphic() && b != b',');
        good.then_some(token)
    };
    bearer()
        .map(Some)
        .ok_or(Reason::Missing("send Authorization: Bearer <token>"))
}

impl OAuth {
    fn is_published(&self) -> bool {
        !self.resource.is_empty() || !self.authorization_servers.is_empty()
    }

    /// Whether there is a document for this path below the well-known one.
    fn describes(&self, below: &str) -> bool {
        let is_endpoint = matches!(below, "" | "mcp") || below.starts_with("mcp/");
        self.is_published() && (is_endpoint || below == self.path().trim_start_matches('/'))
    }

    /// API keys and anonymous callers have no scopes; only their role counts.
    fn suffices(&self, identity: &Identity) -> bool {
        let has = |wanted: &String| identity.scopes.iter().any(|s| **s == **wanted);
        !matches!(identity.proof, Proof::Token { .. }) || self.required_scopes.iter().all(has)
    }

    fn resource(&self, headers: &HeaderMap) -> String {
        if !self.resource.is_empty() {
            return self.resource.clone();
        }
        // The guard has checked it.
        let host = headers.get(HOST).and_then(|h| h.to_str().ok());
        format!("http://{}/mcp", host.unwrap_or("localhost"))
    }

    fn path(&self) -> &str {
        let rest = self.resource.split_once("://").map_or("", |(_, rest)| rest);
        rest.find('/').map_or("", |at| &rest[at..])
    }

    fn document(&self, headers: &HeaderMap) -> Vec<u8> {
        let mut document = json!({
            "resource": self.resource(headers),
            "resource_name": "Sentinel Gateway",
            "bearer_methods_supported": ["header"],
        });
        for (name, list) in [
            ("authorization_servers", &self.authorization_servers),
            ("scopes_supported", &self.required_scopes),
        ] {
            if !list.is_empty() {
                document[name] = json!(list);
            }
        }
        document.to_string().into_bytes()
    }

    fn metadata_url(&self, headers: &HeaderMap) -> Option<String> {
        let resource: Uri = self.resource(headers).parse().ok()?;
        let (scheme, authority) = (resource.scheme_str()?, resource.authority()?);
        let path = resource.path().trim_end_matches('/');
        Some(format!("{scheme}://{authority}{WELL_KNOWN}{path}"))
    }

    fn challenge(&self, headers: &HeaderMap, reason: &Reason) -> Challenge {
        let (kind, text, error) = match reason {
            Reason::Missing(text) => (Kind::Unauthorized, (*text).to_owned(), None),
            Reason::Rejected(reject) => (
                Kind::Unauthorized,
                reject.to_string(),
                Some("invalid_token"),
            ),
            Reason::Scope => (
                Kind::Forbidden,
                format!(
                    "the token needs the scopes: {}",
                    self.required_scopes.join(" ")
                ),
                Some("insufficient_scope"),
            ),
        };
        tracing::debug!("a request is refused: {text}");
        let mut challenge = match self.is_published().then(|| self.metadata_url(headers)) {
            Some(Some(url)) => format!("Bearer resource_metadata=\"{url}\""),
            _ => "Bearer realm=\"sentinel\"".to_owned(),
        };
        if let Some(error) = error {
            challenge.push_str(&format!(
                ", error=\"{error}\", error_description=\"{}\"",
                quotable(&text)
            ));
        }
        if !self.required_scopes.is_empty() {
            challenge.push_str(&format!(", scope=\"{}\"", self.required_scopes.join(" ")));
        }
        Challenge {
            fault: Fault::new(kind, text),
            header: HeaderValue::from_str(&challenge).ok(),
        }
    }
}

/// Text in the form of a quoted string.
fn quotable(text: &str) -> String {
    text.chars()
        .filter(|c| (' '..='~').contains(c) && !matches!(c, '"' | '\\'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(
                AUTHORIZATION,
                HeaderValue::from_str(value).expect("a value"),
            );
        }
        headers.insert(HOST, HeaderValue::from_static("127.0.0.1:9200"));
        headers
    }

    #[test]
    fn only_one_bearer_credential_is_looked_at() {
        let of = |values: &[&str]| {
            credential(&headers(values))
                .map(|c| c.map(str::to_owned))
                .ok()
        };
        assert_eq!(of(&[]), Some(None));
        assert_eq!(of(&["Bearer abc"]), Some(Some("abc".into())));
        assert_eq!(of(&["bEARER   abc "]), Some(Some("abc".into())));
        for wrong in [
            "Bearer",
            "Bearer ",
            "abc",
            "Basic abc",
            "Bearer a b",
            "Bearer a,b",
            "Bearerabc",
            "Bearer a, Bearer b",
            "Token abc",
            "",
        ] {
            assert_eq!(of(&[wrong]), None, "{wrong}");
        }
        assert_eq!(of(&["Bearer abc", "Bearer abc"]), None);
    }

    #[test]
    fn the_challenge_names_the_metadata_beside_the_resource() {
        let oauth = OAuth {
            resource: "https://gw.example:8443/mcp".into(),
            ..OAuth::default()
        };
        assert_eq!(
            oauth.metadata_url(&headers(&[])).as_deref(),
            Some("https://gw.example:8443/.well-known/oauth-protected-resource/mcp")
        );
        assert_eq!(oauth.path(), "/mcp");
        let oauth = OAuth {
            authorization_servers: vec!["https://as.example".into()],
            ..OAuth::default()
        };
        assert_eq!(
            oauth.metadata_url(&headers(&[])).as_deref(),
            Some("http://127.0.0.1:9200/.well-known/oauth-protected-resource/mcp")
        );
        let refused = oauth.challenge(&headers(&[]), &Reason::Rejected(Reject::TooLong));
        assert_eq!(refused.fault.kind, Kind::Unauthorized);
        let header = refused.header.expect("a challenge");
        assert!(header.to_str().expect("text").contains("invalid_token"));
    }
}
