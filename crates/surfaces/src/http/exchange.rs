//! One HTTP request around its handler: drain, `Host` and `Origin`, identity, record, handler, refusal, end of record.
//!
//! Not here: which handler (`routes`), the record of a JSON-RPC message (`crate::exchange`).

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use http::header::{
    ALLOW, CONNECTION, HeaderName, HeaderValue, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Method as Verb, Request, Response, StatusCode, request};
use hyper::body::{Body as _, Incoming};
use sentinel_core::audit::{self, Ending, Surface};
use sentinel_core::identity::Proof;
use sentinel_core::{Caller, Entry, Fault, Identity, Kind, View, tags};
use sentinel_wire::Method;

use super::auth::{Access, Challenge, RejectedRequest};
use super::body::Body;
use super::mounts::RoutesOf;
use super::post::Version;
use super::routes::{self, Handler, Match, OnRecord, Route, Speaks, Who};
use super::timing::Timing;
use super::{Endpoint, Entrance, HttpServer, Serves, Serving, cors, post, reply, rest, rpc};

/// Says where the page is that a browser sends a request for.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Of a path and query. RFC 9110 has 8,000 as the least that everybody should take; more is arguments that belong in a body.
const TARGET_BYTES_MAX: usize = 8 * 1024;
/// Below it everything is for admins, also what is not there.
const ADMIN: &str = "/admin/api/";

/// A request as its handler sees it, without the body.
pub(super) struct Exchange<'a> {
    pub(super) server: &'a Arc<HttpServer>,
    pub(super) head: &'a request::Parts,
    /// The rest of the path, where the route's pattern has one.
    pub(super) rest: &'a str,
    /// What the listener serves, where that is not everything.
    serving: Option<&'a Serving>,
    identity: Option<&'a Arc<Identity>>,
    pub(super) from: IpAddr,
    /// The request message, once read.
    pub(super) asked: &'a OnceLock<RejectedRequest>,
    about: OnceLock<String>,
    /// The verbs of the named object, where they are not those of its row.
    allow: OnceLock<Cow<'static, str>>,
    pub(super) timing: Option<&'a Timing>,
}

/// A request whose head was read, before anybody knows whose it is.
struct Arrived<'a> {
    found: Match<'a>,
    serving: Option<&'a Serving>,
    head: &'a request::Parts,
    from: IpAddr,
    asked: &'a OnceLock<RejectedRequest>,
    timing: Option<&'a Timing>,
}

impl Exchange<'_> {
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    pub(super) fn identity(&self) -> &Arc<Identity> {
        self.identity.expect("the route is for known callers")
    }

    /// The caller, if it authenticated, on a route that does not require it.
    pub(super) fn caller(&self) -> Option<&Arc<Identity>> {
        self.identity
    }

    /// Notes the request's target for the record, where the path does not name it.
    pub(super) fn about(&self, what: impl Into<String>) {
        let _ = self.about.set(what.into());
    }

    /// The fault for a verb that the named object does not support; `allow` lists those it does.
    pub(super) fn only(&self, allow: impl Into<Cow<'static, str>>, text: &'static str) -> Fault {
        let _ = self.allow.set(allow.into());
        Fault::new(Kind::MethodNotAllowed, text)
    }

    /// Refuses a GET that a page of another site made a browser send: it has no `Origin` where the page only embeds or
    /// opens its target, so `guard` cannot tell it from a request of the user's own.
    pub(super) fn check_site(&self) -> Result<(), Fault> {
        let headers = self.headers();
        let is_cross_site = headers
            .get(SEC_FETCH_SITE)
            .is_some_and(|site| site == "cross-site");
        if !is_cross_site || headers.contains_key(ORIGIN) {
            return Ok(());
        }
        let text = "pages of other sites may not call operations";
        Err(Fault::new(Kind::Forbidden, text))
    }

    /// What is to be seen at a path of MCP: everything, or one backend. One that is hidden from the caller is not
    /// there.
    pub(super) fn endpoint(&self) -> Result<Endpoint, Fault> {
        let tags = self.head.uri.query().and_then(tags::TagFilter::in_query);
        if self.rest.is_empty() {
            let view = View::Merged;
            return Ok(Endpoint { view, tags });
        }
        let gateway = &self.server.gateway;
        let index = gateway.registry.index_of(self.rest);
        let index = index.filter(|index| gateway.policy.sees_backend(self.identity(), *index));
        let view = View::Only(index.ok_or_else(|| self.not_found())?);
        Ok(Endpoint { view, tags })
    }

    /// Whether the listener serves sessions of this view.
    pub(super) fn serves(&self, view: View) -> bool {
        match self.serving {
            Some(Serving::Backend(name)) => {
                let index = self.server.gateway.registry.index_of(name);
                index.is_some_and(|index| view == View::Only(index))
            }
            Some(Serving::Surfaces(_)) | None => true,
        }
    }

    /// Whose routes may be at the path, which no row of the table has.
    pub(super) fn routes_here(&self) -> Option<RoutesOf<'_>> {
        let entrance = self.server.entrance.load();
        let routes = entrance.mounts.routes_of(self.serving)?;
        (!routes::is_own(&entrance.mounts, self.head.uri.path())).then_some(routes)
    }

    /// Whether the listener serves one backend alone.
    pub(super) fn is_for_one_backend(&self) -> bool {
        matches!(self.serving, Some(Serving::Backend(_)))
    }

    /// The fault for a path at which there is nothing, or nothing that the caller may know of.
    pub(super) fn not_found(&self) -> Fault {
        let text = self.server.entrance.load().mounts.describe(self.serving);
        Fault::new(Kind::NotFound, text)
    }

    /// The verbs of a refusal of this one.
    fn allowed(&self, route: Option<&Route>) -> Option<HeaderValue> {
        let allow = match (self.allow.get(), route) {
            (Some(allow), _) => allow.to_string(),
            (None, Some(route)) => route.allow(),
            (None, None) => return None,
        };
        HeaderValue::try_from(allow).ok()
    }

    /// OPTIONS, and verbs that a path does not have. A backend that is hidden has no path, whatever the verb.
    fn other_verb(&self, route: &Route) -> Result<Response<Body>, Fault> {
        if self.identity.is_some() && route.surface == Speaks::Mcp {
            self.endpoint()?;
        }
        let mut allow = route.allow();
        if self.identity.is_some()
            && route.is_of_an_operation()
            && let Some(verbs) = rest::verbs::of(self)
        {
            let _ = self.allow.set(verbs.into());
            allow = verbs.to_owned();
        }
        match self.identity.is_some() && self.head.method == Verb::OPTIONS {
            true => Ok(options(&allow)),
            false => Err(Fault::new(Kind::MethodNotAllowed, "method not allowed")),
        }
    }
}

impl HttpServer {
    /// Answers one HTTP request.
    pub(super) async fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
        from: IpAddr,
        serving: Option<&Serving>,
    ) -> Response<Body> {
        let (head, body) = request.into_parts();
        let is_for_probes = matches!(self.serves, Serves::ProbesOnly { .. });
        let entrance = self.entrance.load_full();
        let path = entrance.mounts.resolve(head.uri.path(), serving);
        let found = path.as_deref().map_or(Match::Unknown, |path| {
            routes::find(&head.method, path, is_for_probes)
        });
        let timing = entrance.mounts.tells_time.then(Timing::begin);
        let arrived = Arrived {
            found,
            serving,
            head: &head,
            from,
            asked: &OnceLock::new(),
            timing: timing.as_ref(),
        };
        if is_for_probes || found.who() == Who::Probe {
            return self.run(&arrived, body, None).await;
        }
        if let Err(refused) = entrance.allowed.check(head.uri.authority(), &head.headers) {
            self.gateway.auditor.turned_away(from, Kind::Forbidden);
            return refusal(found.speaks(), &head, &refused.fault());
        }
        let Some(origin) = head.headers.get(ORIGIN).cloned() else {
            return self.guarded(&entrance, &arrived, body).await;
        };
        let verbs = || match found.route() {
            Some(route) => route.allow(),
            // Whether a backend has a route there is for callers that it shows it to.
            None if self.gateway.registry.has_routes() => cors::ANY_VERB.to_owned(),
            None => String::new(),
        };
        let response = match cors::preflight(&head, verbs) {
            Some(response) => response,
            None => self.guarded(&entrance, &arrived, body).await,
        };
        cors::shown_to(origin, response)
    }

    /// Continues for an allowed host and origin: authenticates, and watches for revocation while serving.
    async fn guarded(
        self: &Arc<Self>,
        entrance: &Entrance,
        arrived: &Arrived<'_>,
        body: Incoming,
    ) -> Response<Body> {
        let Arrived { found, head, .. } = *arrived;
        let access = &entrance.epoch.access;
        let is_public = match found.who() {
            Who::Scraper => !(self.scrape.is_open() && access.is_guarded()),
            who => matches!(who, Who::Public | Who::Page),
        };
        // A POST may hold an answer or a cancellation for a call in flight: it is read first.
        if self.gateway.is_draining() && head.method != Verb::POST && found.who() != Who::Scraper {
            return refusal(found.speaks(), head, &post::going_down());
        }
        if is_public {
            return self.run(arrived, body, None).await;
        }
        let admitted = self.admit(access, &head.headers).await;
        if let Some(timing) = arrived.timing {
            timing.authenticated();
        }
        let identity = match admitted {
            Ok(identity) => identity,
            Err(refused) => {
                let auditor = &self.gateway.auditor;
                auditor.turned_away(arrived.from, refused.fault.kind);
                return refused.respond(|fault| refusal(found.speaks(), head, fault));
            }
        };
        let revoked = async {
            entrance.epoch.rejected(&identity).await;
            // A call belongs to the request, which is dropped next, or to its session: in either case it ends now and
            // is recorded before the answer.
            let is_out = |identity: &Identity| entrance.epoch.is_rejected(identity);
            self.sessions.end_those(is_out);
        };
        // A reload must be able to report that it changed the admission rules.
        let is_operating = found.who() == Who::Admin;
        let rejected = || entrance.epoch.reject(arrived.asked.get());
        let response = tokio::select! {
            biased;
            response = self.run(arrived, body, Some(&identity)) => response,
            () = revoked, if !is_operating => return rejected(),
        };
        // A call that ended with its session, before this request learned why.
        if response.extensions().get::<reply::Cancelled>().is_some()
            && entrance.epoch.is_rejected(&identity)
        {
            return rejected();
        }
        entrance
            .epoch
            .watch(&self.gateway.policy, identity, response)
    }

    /// Runs the handler between the beginning and the end of the record.
    async fn run(
        self: &Arc<Self>,
        arrived: &Arrived<'_>,
        body: Incoming,
        identity: Option<&Arc<Identity>>,
    ) -> Response<Body> {
        let Arrived { found, head, .. } = *arrived;
        let exchange = Exchange {
            server: self,
            head,
            rest: match found {
                Match::Found(_, rest) | Match::OtherVerb(_, rest) => rest,
                Match::Unknown => "",
            },
            serving: arrived.serving,
            identity,
            from: arrived.from,
            asked: arrived.asked,
            about: OnceLock::new(),
            allow: OnceLock::new(),
            timing: arrived.timing,
        };
        let record = match found.record() {
            OnRecord::Everything => Some(self.record(&exchange, body.size_hint().lower() as usize)),
            _ => None,
        };
        let is_admin = head.uri.path().starts_with(ADMIN);
        let who = if is_admin { Who::Admin } else { found.who() };
        let authorized = self
            .check_exposure(who, arrived.from)
            .and_then(|()| self.authorize(who, identity));
        let handled = match (authorized, found) {
            (Err(fault), _) => Err(fault),
            _ if is_too_long(head) => {
                let text = format!("a path and query of more than {TARGET_BYTES_MAX} bytes");
                Err(Fault::new(Kind::UriTooLong, text))
            }
            (_, Match::Unknown) if identity.is_none() => {
                let text = "not found; here are only /health, /ready and /metrics";
                Err(Fault::new(Kind::NotFound, text))
            }
            (_, Match::Unknown) => Box::pin(rest::at_route(&exchange, body)).await,
            (_, Match::OtherVerb(route, _)) => exchange.other_verb(route),
            (_, Match::Found(route, _)) => match route.handler {
                Handler::McpPost => post::answer(&exchange, body).await,
                Handler::RestPost => rest::post(&exchange, body).await,
                Handler::Rpc => rpc::answer(&exchange, body).await,
                Handler::Boxed(handler) => handler(&exchange, body).await,
            },
        };
        let ending = match &handled {
            Ok(_) => Ending::Success,
            Err(fault) => Ending::Refused(fault.kind),
        };
        let is_refused = handled.is_err();
        let mut response = handled.unwrap_or_else(|fault| {
            let mut response = refusal(found.speaks(), head, &fault);
            if fault.kind == Kind::MethodNotAllowed
                && let Some(allow) = exchange.allowed(found.route())
            {
                response.headers_mut().entry(ALLOW).or_insert(allow);
            }
            response
        });
        if response.status() == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            let headers = response.headers_mut();
            headers.entry(WWW_AUTHENTICATE).or_insert(bearer);
        }
        if let Some(timing) = arrived.timing.filter(|_| found.speaks() != Speaks::Mcp) {
            timing.tell(response.headers_mut());
        }
        let record = match found.record() {
            OnRecord::Refusals if is_refused => Some(self.record(&exchange, 0)),
            _ => record,
        };
        if let Some(entry) = record {
            if let Some(about) = exchange.about.get() {
                entry.trail().about(about);
            }
            entry.finish(&ending, response.body().size_hint().lower() as usize);
        }
        response
    }

    fn record(&self, exchange: &Exchange<'_>, bytes_in: usize) -> Entry {
        let head = exchange.head;
        let (surface, method) = match head.uri.path().strip_prefix(ADMIN) {
            Some(what) => (Surface::Admin, format!("admin/{what}")),
            None => (Surface::Http, head.method.to_string()),
        };
        let mut entry = self.gateway.auditor.open(&audit::Request {
            surface,
            id: None,
            method: Some(&Method::parse(&method)),
            params: None,
            bytes_in,
            traceparent: None,
        });
        if let Some(identity) = exchange.identity {
            entry.from(identity);
        }
        entry
    }

    /// Authenticates by the `Authorization` header, or by the cookie of somebody who is signed in to the console.
    pub(super) async fn admit(
        &self,
        access: &Access,
        headers: &HeaderMap,
    ) -> Result<Arc<Identity>, Challenge> {
        let signed_in = match access.is_guarded() {
            true => self.signed_in.credential(headers),
            false => None,
        };
        match signed_in {
            Some(credential) => access.admit_by(&credential, headers).await,
            None => access.admit(headers).await,
        }
    }

    /// Refuses to let everybody who can reach the gateway operate it.
    fn check_exposure(&self, who: Who, from: IpAddr) -> Result<(), Fault> {
        let is_operating = matches!(who, Who::Admin | Who::Page);
        let is_operator = matches!(self.serves, Serves::Operator);
        if !is_operating || is_operator || from.is_loopback() {
            return Ok(());
        }
        match self.entrance.load().epoch.access.is_guarded() {
            true => Ok(()),
            false => Err(Fault::new(
                Kind::Forbidden,
                "without [auth] the console and the admin API answer to callers on the gateway's own machine only",
            )),
        }
    }

    /// Whether an authenticated caller may use a route.
    pub(super) fn authorize(
        &self,
        who: Who,
        identity: Option<&Arc<Identity>>,
    ) -> Result<(), Fault> {
        let (Who::Admin, Some(identity)) = (who, identity) else {
            return Ok(());
        };
        let policy = &self.gateway.policy;
        let is_operator = matches!(self.serves, Serves::Operator);
        if !is_operator && !policy.is_admin(&Caller::of(identity)) {
            let text = "your role may not use the admin API";
            return Err(Fault::new(Kind::Forbidden, text));
        }
        // A caller that was killed must not revoke that itself; the operator's socket is independent. Without
        // authentication all callers are one, so it must be able to.
        let is_off = || policy.kills().now().names_caller(&identity.subject);
        if identity.proof != Proof::None && is_off() {
            return Err(Fault::new(Kind::Disabled, "this caller is switched off"));
        }
        Ok(())
    }
}

impl Match<'_> {
    pub(super) fn route(&self) -> Option<&'static Route> {
        match self {
            Self::Found(route, _) | Self::OtherVerb(route, _) => Some(route),
            Self::Unknown => None,
        }
    }

    /// Unknown paths are reported to authenticated callers only.
    fn who(&self) -> Who {
        self.route().map_or(Who::Caller, |route| route.who)
    }

    fn speaks(&self) -> Speaks {
        self.route().map_or(Speaks::Http, |route| route.surface)
    }

    fn record(&self) -> OnRecord {
        self.route()
            .map_or(OnRecord::Refusals, |route| route.record)
    }
}

fn is_too_long(head: &request::Parts) -> bool {
    let target = head.uri.path_and_query();
    target.is_some_and(|target| target.as_str().len() > TARGET_BYTES_MAX)
}

pub(super) fn options(allow: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if let Ok(allow) = HeaderValue::try_from(allow) {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

/// A fault in the form that clients of a surface read.
pub(super) fn refusal(speaks: Speaks, head: &request::Parts, fault: &Fault) -> Response<Body> {
    let mut response = match speaks {
        Speaks::Mcp => reply::refuse_in(Version::of(&head.headers).revision(), fault),
        Speaks::Rpc => rpc::refusal(fault),
        Speaks::Http => reply::problem(fault),
    };
    let headers = response.headers_mut();
    // The start of the next request on this connection is unknown.
    if fault.kind == Kind::UnsupportedCoding {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if let (Speaks::Http, Some(ms)) = (speaks, fault.retry_after_ms) {
        headers.insert(RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000)));
    }
    response
}
