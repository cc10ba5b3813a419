//! Files that the binary sends to browsers: of the explorer and of the console.
//!
//! Not here: which files there are (`explorer`, `console`, `build.rs`).

use std::sync::OnceLock;

use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, HeaderName,
    HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, Response};
use sentinel_core::{Fault, Kind};

use super::body::Body;
use super::rest::{Content, entity_tag};

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
/// Of a file whose name has a hash of its bytes.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

pub(super) struct Asset {
    /// The path below the page's own.
    pub(super) name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
    is_gzip: bool,
    tag: OnceLock<String>,
}

impl Asset {
    pub(super) const fn plain(
        name: &'static str,
        media_type: &'static str,
        bytes: &'static [u8],
    ) -> Self {
        Self {
            name,
            media_type,
            bytes,
            is_gzip: false,
            tag: OnceLock::new(),
        }
    }

    pub(super) const fn gzip(
        name: &'static str,
        media_type: &'static str,
        bytes: &'static [u8],
    ) -> Self {
        let is_deflate_in_gzip = bytes[0] == 0x1f && bytes[1] == 0x8b && bytes[2] == 8;
        assert!(is_deflate_in_gzip, "the bytes are no gzip file");
        Self {
            name,
            media_type,
            bytes,
            is_gzip: true,
            tag: OnceLock::new(),
        }
    }

    /// The file, under the page's content security policy.
    pub(super) fn respond(
        &self,
        headers: &HeaderMap,
        policy: &'static str,
    ) -> Result<Response<Body>, Fault> {
        if self.is_gzip && !takes_gzip(headers) {
            let text = "this file is sent with Content-Encoding: gzip only";
            return Err(Fault::new(Kind::NotAcceptable, text));
        }
        let content = Content {
            media_type: HeaderValue::from_static(self.media_type),
            bytes: self.bytes.into(),
        };
        let tag = self.tag.get_or_init(|| entity_tag(self.bytes)).clone();
        let mut response = content.respond_tagged(headers, tag);
        let headers = response.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        if self.is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        secure(headers, HeaderValue::from_static(policy));
        Ok(response)
    }

    /// The same for a file whose name changes with its bytes.
    pub(super) fn respond_for_ever(
        &self,
        headers: &HeaderMap,
        policy: &'static str,
    ) -> Result<Response<Body>, Fault> {
        let mut response = self.respond(headers, policy)?;
        response.headers_mut().insert(CACHE_CONTROL, FOR_EVER);
        Ok(response)
    }
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
}
