//! Looking at other MCP servers: an operator names a URL, and speaks MCP with that server at `/admin/visits/<id>`.
//!
//! A visited server is in no catalog of callers. Each visit is a gateway of its own with one backend, behind this server's
//! guards, so that translation between revisions, questions and records are those of every backend. It belongs to the
//! operator who began it.
//!
//! Not here: which addresses are allowed (`Control::visit`).

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Uri};
use hyper::body::Incoming;
use parking_lot::Mutex;
use schemars::JsonSchema;
use sentinel_core::identity::Proof;
use sentinel_core::policy::ADMIN;
use sentinel_core::{Backend, Fault, Identity, Kind, random};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Endpoint, Exchange, HttpServer, Json, control, invalid};
use crate::http::routes::Handled;
use crate::http::{Access, Mounts, Scrape};

/// A visit keeps a connection or two and a catalog.
const VISITS_MAX: usize = 16;
/// Without a request for this long, a visit ends.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// How long the first look may take.
const LOOK_MAX: Duration = Duration::from_secs(20);
const URL_BYTES_MAX: usize = 2048;

#[derive(Default)]
pub(in crate::http) struct Visits(Mutex<Vec<Visit>>);

#[derive(Clone)]
struct Visit {
    id: String,
    url: String,
    subject: Arc<str>,
    server: Arc<HttpServer>,
    last_used: Instant,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VisitRequest {
    /// The MCP endpoint of the server.
    url: String,
    /// Sent as a bearer token with every request to it, and kept for as long as the visit.
    #[serde(default)]
    bearer: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VisitId {
    id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct VisitList {
    /// The operator's own.
    visits: Vec<Visited>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Visited {
    id: String,
    url: String,
    /// Where MCP with this server is spoken.
    endpoint: String,
    health: String,
    /// The revision it speaks, once known.
    revision: Option<String>,
    /// Why it does not answer.
    problem: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct VisitEnded {
    /// False: there was none of that id.
    ended: bool,
}

impl Visit {
    fn backend(&self) -> Option<Arc<dyn Backend>> {
        let backends = self.server.gateway.registry.backends();
        backends.into_iter().next().map(|(_, backend)| backend)
    }

    fn shown(&self) -> Visited {
        let status = self.backend().map(|backend| backend.status());
        let revision = status.as_ref().and_then(|status| status.revision);
        Visited {
            id: self.id.clone(),
            url: self.url.clone(),
            endpoint: format!("/admin/visits/{}", self.id),
            health: (status.as_ref())
                .map_or("stopped", |status| status.health.as_str())
                .to_owned(),
            revision: revision.map(|revision| revision.as_str().to_owned()),
            problem: status.and_then(|status| status.problem),
        }
    }

    /// Ends the connections to the server; dropping the last reference ends the sessions.
    fn end(&self) {
        if let Some(backend) = self.backend() {
            tokio::spawn(backend.stop());
        }
        self.server.gateway.drain();
    }
}

impl Visits {
    fn add(&self, visit: Visit) -> Result<(), Fault> {
        let mut visits = self.0.lock();
        if visits.len() >= VISITS_MAX {
            let text = format!(
                "{VISITS_MAX} servers are looked at already: end one of these visits first"
            );
            return Err(Fault::new(Kind::TooManySessions, text));
        }
        visits.push(visit);
        Ok(())
    }

    /// The visit of that id, if it is this operator's; it is in use from now on.
    fn find(&self, id: &str, subject: &str) -> Option<Visit> {
        let mut visits = self.0.lock();
        let visit = visits
            .iter_mut()
            .find(|visit| visit.id == id && *visit.subject == *subject)?;
        visit.last_used = Instant::now();
        Some(visit.clone())
    }

    fn remove(&self, id: &str, subject: &str) -> bool {
        let mut visits = self.0.lock();
        let at = visits
            .iter()
            .position(|visit| visit.id == id && *visit.subject == *subject);
        match at {
            Some(at) => {
                visits.swap_remove(at).end();
                true
            }
            None => false,
        }
    }

    /// Ends idle visits, and sessions in the others that expired.
    pub(in crate::http) fn sweep(&self) {
        let mut visits = self.0.lock();
        visits.retain(|visit| {
            let is_used = visit.last_used.elapsed() < IDLE_MAX;
            match is_used {
                true => visit.server.end_expired_sessions(),
                false => visit.end(),
            }
            is_used
        });
    }
}

/// The operator as the only caller of a visit, who may do everything there.
fn only_caller(identity: &Identity) -> Arc<Identity> {
    Arc::new(Identity {
        subject: identity.subject.clone(),
        role: ADMIN.into(),
        tenant: None,
        scopes: Arc::default(),
        proof: Proof::None,
        account: None,
    })
}

pub(crate) struct List;

impl Endpoint for List {
    type Input = ();
    type Output = VisitList;

    async fn handle(exchange: &Exchange<'_>, (): ()) -> Result<VisitList, Fault> {
        let subject = &exchange.identity().subject;
        let visits = exchange.server.visits.0.lock();
        let own = visits.iter().filter(|visit| visit.subject == *subject);
        Ok(VisitList {
            visits: own.map(Visit::shown).collect(),
        })
    }
}

pub(crate) struct Begin;

impl Endpoint for Begin {
    type Input = Json<VisitRequest>;
    type Output = Visited;

    async fn handle(
        exchange: &Exchange<'_>,
        Json(VisitRequest { url, bearer }): Json<VisitRequest>,
    ) -> Result<Visited, Fault> {
        if url.len() > URL_BYTES_MAX {
            return Err(invalid("this URL is too long"));
        }
        exchange.about(url.clone());
        let gateway = control(exchange.server)?.visit(&url, bearer.as_deref())?;
        let identity = exchange.identity();
        let allowed = exchange.server.entrance.load().allowed.clone();
        let access = Access::Trusted(only_caller(identity));
        let server = HttpServer::new(gateway, allowed, Mounts::default(), access, Scrape::Open);
        let visit = Visit {
            id: random::uuid(),
            url,
            subject: identity.subject.clone(),
            server,
            last_used: Instant::now(),
        };
        tracing::warn!(url = visit.url, "an operator looks at another server");
        if let Some(backend) = visit.backend() {
            // What comes of it is in its status.
            let _ = tokio::time::timeout(LOOK_MAX, backend.look()).await;
        }
        let shown = visit.shown();
        exchange
            .server
            .visits
            .add(visit.clone())
            .inspect_err(|_| visit.end())?;
        Ok(shown)
    }
}

pub(crate) struct End;

impl Endpoint for End {
    type Input = Json<VisitId>;
    type Output = VisitEnded;

    async fn handle(
        exchange: &Exchange<'_>,
        Json(VisitId { id }): Json<VisitId>,
    ) -> Result<VisitEnded, Fault> {
        exchange.about(id.clone());
        let ended = exchange
            .server
            .visits
            .remove(&id, &exchange.identity().subject);
        Ok(VisitEnded { ended })
    }
}

/// MCP with a visited server.
pub(in crate::http) fn pass<'a>(exchange: &'a Exchange<'a>, body: Incoming) -> Handled<'a> {
    async move {
        let subject = &exchange.identity().subject;
        let visit = exchange.server.visits.find(exchange.rest, subject);
        let visit = visit.ok_or_else(|| {
            Fault::new(
                Kind::NotFound,
                "there is no visit of this id; it may have ended",
            )
        })?;
        let mut head = exchange.head.clone();
        head.uri = Uri::from_static("/mcp");
        let request = Request::from_parts(head, body);
        // Boxed, for an answer would contain itself otherwise.
        let answer: BoxFuture<'_, _> = visit.server.answer(request, exchange.from, None).boxed();
        Ok(answer.await)
    }
    .boxed()
}
