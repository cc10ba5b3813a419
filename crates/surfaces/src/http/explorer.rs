//! The explorer at `/explorer`: Swagger UI with a page and a script of our own, out of the binary.
//!
//! Everybody may load it, for there is nothing of the catalog in it: the document comes with the token of whoever looks.
//! Not here: the document (`documents`), which files of Swagger UI there are (`build.rs`).

use std::sync::LazyLock;

use futures_util::FutureExt;
use http::HeaderMap;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, HeaderName,
    HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::body::Incoming;
use sentinel_core::{Fault, Kind};

use super::exchange::Exchange;
use super::rest::{Content, entity_tag};
use super::routes::Handled;

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
/// Scripts, styles and requests of this origin only; pictures also from the style sheet itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

struct Asset {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
    is_gzip: bool,
    tag: LazyLock<String>,
}

macro_rules! assets {
    ($($name:literal, $media_type:literal, $bytes:expr, $is_gzip:literal;)*) => {
        static ASSETS: [Asset; 6] = [$(Asset {
            name: $name,
            media_type: $media_type,
            bytes: $bytes,
            is_gzip: $is_gzip,
            tag: LazyLock::new(|| entity_tag($bytes)),
        },)*];
    };
}

assets! {
    "", "text/html; charset=utf-8", include_bytes!("explorer/index.html"), false;
    "explorer.js", "text/javascript; charset=utf-8", include_bytes!("explorer/explorer.js"), false;
    "explorer.css", "text/css; charset=utf-8", include_bytes!("explorer/explorer.css"), false;
    "swagger-ui-bundle.js", "text/javascript; charset=utf-8",
        include_bytes!(concat!(env!("OUT_DIR"), "/swagger-ui-bundle.js.gz")), true;
    "swagger-ui.css", "text/css; charset=utf-8", include_bytes!(concat!(env!("OUT_DIR"), "/swagger-ui.css.gz")), true;
    "NOTICE", "text/plain; charset=utf-8", include_bytes!(concat!(env!("OUT_DIR"), "/NOTICE.gz")), true;
}

/// `GET /explorer` and `GET /explorer/{file}`.
pub(super) fn file<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    async move {
        if exchange.rest == "settings.json" {
            return Ok(settings(exchange));
        }
        let asset = ASSETS.iter().find(|asset| asset.name == exchange.rest);
        let asset =
            asset.ok_or_else(|| Fault::new(Kind::NotFound, "the explorer has no such file"))?;
        if asset.is_gzip && !takes_gzip(exchange.headers()) {
            let text = "this file is sent with Content-Encoding: gzip only";
            return Err(Fault::new(Kind::NotAcceptable, text));
        }
        let content = Content {
            media_type: HeaderValue::from_static(asset.media_type),
            bytes: asset.bytes.into(),
        };
        let mut response = content.respond_tagged(exchange.headers(), asset.tag.clone());
        let headers = response.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        if asset.is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        secure(headers, HeaderValue::from_static(POLICY));
        Ok(response)
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

/// The headers of what browsers show.
pub(super) fn secure(headers: &mut HeaderMap, policy: HeaderValue) {
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    // Asked for again each time, and answered with 304: another version of the gateway has other files.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
}

/// Without the header any coding is acceptable (RFC 9110, 12.5.3).
fn takes_gzip(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(ACCEPT_ENCODING).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    let codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut found = None;
    for coding in codings {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = matches!(parameters.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        match name.trim() {
            name if name.eq_ignore_ascii_case("gzip") => return !is_refused,
            "*" => found = Some(!is_refused),
            _ => {}
        }
    }
    found.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        for (value, takes) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("*", true),
            ("gzip;q=0, *", false),
            ("br", false),
            ("", false),
            ("*;q=0", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().expect("a header"));
            assert_eq!(takes_gzip(&headers), takes, "{value}");
        }
        assert!(takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn what_is_compressed_is_gzip() {
        for asset in ASSETS.iter().filter(|asset| asset.is_gzip) {
            assert_eq!(asset.bytes[..3], [0x1f, 0x8b, 8], "{}", asset.name);
        }
    }
}
