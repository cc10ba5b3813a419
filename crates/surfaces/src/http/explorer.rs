//! The explorer at `/explorer`: Swagger UI with a page and a script of our own, out of the binary.
//!
//! Everybody may load it, for there is nothing of the catalog in it: the document comes with the token of whoever looks.
//! Not here: the document (`documents`), which files of Swagger UI there are (`build.rs`), how files are sent (`assets`).

use futures_util::FutureExt;
use http::header::HeaderValue;
use hyper::body::Incoming;
use sentinel_core::{Fault, Kind};

use super::assets::{Asset, secure};
use super::exchange::Exchange;
use super::rest::Content;
use super::routes::Handled;

/// Scripts, styles and requests of this origin only; pictures also from the style sheet itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";

macro_rules! vendored {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz"))
    };
}

#[rustfmt::skip] // a table has columns
static ASSETS: [Asset; 6] = [
    Asset::plain("",                    "text/html; charset=utf-8",  include_bytes!("explorer/index.html")),
    Asset::plain("explorer.js",         JAVASCRIPT,                  include_bytes!("explorer/explorer.js")),
    Asset::plain("explorer.css",        CSS,                         include_bytes!("explorer/explorer.css")),
    Asset::gzip("swagger-ui-bundle.js", JAVASCRIPT,                  vendored!("swagger-ui-bundle.js")),
    Asset::gzip("swagger-ui.css",       CSS,                         vendored!("swagger-ui.css")),
    Asset::gzip("NOTICE",               "text/plain; charset=utf-8", vendored!("NOTICE")),
];

/// `GET /explorer` and `GET /explorer/{file}`.
pub(super) fn file<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    async move {
        if exchange.rest == "settings.json" {
            return Ok(settings(exchange));
        }
        let asset = ASSETS.iter().find(|asset| asset.name == exchange.rest);
        let missing = || Fault::new(Kind::NotFound, "the explorer has no such file");
        asset
            .ok_or_else(missing)?
            .respond(exchange.headers(), POLICY)
    }
    .boxed()
}

/// What the page has to know before it asks for anything.
fn settings(exchange: &Exchange<'_>) -> http::Response<super::body::Body> {
    let is_guarded = exchange.server.entrance.load().epoch.access.is_guarded();
    let settings = serde_json::json!({ "guarded": is_guarded }).to_string();
    let mut response = Content::json(settings).respond();
    secure(response.headers_mut(), HeaderValue::from_static(POLICY));
    response
}
