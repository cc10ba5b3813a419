//! The console: the page below `/console`, the way to it from `/`, and who is signed in.
//!
//! Everybody may load the page, for there is nothing of the gateway in it. What it shows comes from the same endpoints that
//! other clients use, with the rights of the caller who signed in (`sign_in`).
//!
//! Without `[auth]` every caller is trusted as on a loopback address, so the console and the admin API are then refused to
//! callers from elsewhere (`Who::LocalOrGuarded`, `HttpServer::authorize`).
//!
//! Not here: the page (`console/` at the top of the repository), its API (`admin`), how files are sent (`assets`).

use futures_util::FutureExt;
use http::header::{ACCEPT, HeaderValue, LOCATION, VARY};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use schemars::JsonSchema;
use sentinel_core::{Fault, Kind};
use serde::Serialize;

use super::assets::Asset;
use super::body::Body;
use super::exchange::Exchange;
use super::mounts::Mounts;
use super::reply;
use super::routes::Handled;

pub(super) mod sign_in;

/// Scripts, styles, fonts and requests of this origin only. Pictures and sound also from what the page was told by the API.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; \
    img-src 'self' data: blob:; media-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const HOME: &str = "/console/";
/// What the build gave a name with a hash of its bytes.
const HASHED: &str = "assets/";
const INDEX: &str = "index.html";

include!(concat!(env!("OUT_DIR"), "/console_files.rs"));

/// Instead of the page, where the binary was built without it.
static NOT_BUILT: Asset = Asset::plain(
    INDEX,
    "text/html; charset=utf-8",
    include_bytes!("console/not_built.html"),
);

/// What is where.
#[derive(Serialize, JsonSchema)]
pub(super) struct Index {
    name: &'static str,
    version: &'static str,
    paths: Paths,
}

/// The paths of what is served; absent: not served.
#[derive(Serialize, JsonSchema)]
pub(super) struct Paths {
    mcp: Option<String>,
    rest: Option<String>,
    rpc: Option<String>,
    openapi: Option<&'static str>,
    explorer: Option<&'static str>,
    llms: Option<&'static str>,
    console: &'static str,
    admin: Option<&'static str>,
    problems: &'static str,
    health: &'static str,
    ready: &'static str,
    metrics: &'static str,
}

impl Paths {
    fn of(mounts: &Mounts) -> Self {
        let has_documents = mounts.rest.is_some() && mounts.documents;
        let has_explorer = has_documents && mounts.explorer;
        Self {
            mcp: mounts.mcp.clone(),
            rest: mounts.rest.clone(),
            rpc: mounts.rpc.clone(),
            openapi: has_documents.then_some("/openapi.json"),
            explorer: has_explorer.then_some("/explorer"),
            llms: has_documents.then_some("/llms.txt"),
            console: HOME,
            admin: mounts.admin.then_some("/admin/api"),
            problems: "/problems",
            health: "/health",
            ready: "/ready",
            metrics: "/metrics",
        }
    }
}

/// `GET /`: browsers go to the console, everything else gets the index.
pub(super) fn root<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    async move {
        if takes_html(exchange) {
            return Ok(redirect(HOME));
        }
        let index = Index {
            name: "Sentinel Gateway",
            version: env!("CARGO_PKG_VERSION"),
            paths: Paths::of(&exchange.server.entrance.load().mounts),
        };
        let body = serde_json::to_vec(&index).expect("paths are text");
        let mut response = reply::json(StatusCode::OK, body);
        let varies = HeaderValue::from_static("Accept");
        response.headers_mut().insert(VARY, varies);
        Ok(response)
    }
    .boxed()
}

/// `GET /mcp-inspector`: the catalog, in which operations are called.
pub(super) fn inspector<'a>(_: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    async { Ok(redirect("/console/catalog")) }.boxed()
}

/// `GET /console` and everything below it: a file of the page, or the page itself, whose addresses are its own.
pub(super) fn file<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    async move {
        let headers = exchange.headers();
        let name = exchange.rest;
        if let Some(asset) = FILES.iter().find(|asset| asset.name == name) {
            return match name.starts_with(HASHED) {
                true => asset.respond_for_ever(headers, POLICY),
                false => asset.respond(headers, POLICY),
            };
        }
        // An old page asks for the scripts of the version that it came from.
        if name.starts_with(HASHED) || name.starts_with("api/") {
            return Err(Fault::new(Kind::NotFound, "the console has no such file"));
        }
        let page = FILES.iter().find(|asset| asset.name == INDEX);
        page.unwrap_or(&NOT_BUILT).respond(headers, POLICY)
    }
    .boxed()
}

fn takes_html(exchange: &Exchange<'_>) -> bool {
    let values = exchange.headers().get_all(ACCEPT).iter();
    let mut ranges = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    ranges.any(|range| range.trim().starts_with("text/html"))
}

fn redirect(to: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_static(to));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    response
}
