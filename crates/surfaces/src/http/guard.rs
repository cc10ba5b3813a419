//! Checks `Host` and `Origin`, against DNS rebinding and foreign pages.

use http::Uri;
use http::header::{HOST, HeaderMap, ORIGIN};
use http::uri::Authority;
use sentinel_core::{Fault, Kind};

/// Host names besides the loopback ones under which the gateway may be addressed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Host names, with or without a port.
    pub hosts: Vec<String>,
    /// Whole origins, such as `https://console.example.com`.
    pub origins: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Required by HTTP/1.1 (RFC 9112 3.2), and by us in any version.
    NoHost,
    Host(String),
    Origin(String),
}

impl Refused {
    pub(super) fn fault(&self) -> Fault {
        match self {
            Self::NoHost => Fault::new(Kind::InvalidRequest, "send a Host"),
            Self::Host(host) => Fault::new(
                Kind::Forbidden,
                format!(
                    "this gateway does not answer to the host {host:?}; add it to gateway.allowed_hosts if it should"
                ),
            ),
            Self::Origin(origin) => Fault::new(
                Kind::Forbidden,
                format!(
                    "pages of {origin:?} may not use this gateway; add the origin to gateway.allowed_origins if they should"
                ),
            ),
        }
    }
}

impl Allowed {
    /// `authority` is the one in an absolute request URL: HTTP gives it precedence over `Host`, so both are checked.
    pub(super) fn check(
        &self,
        authority: Option<&Authority>,
        headers: &HeaderMap,
    ) -> Result<(), Refused> {
        if let Some(named) = authority.filter(|a| !self.host_is_fine(a.as_str())) {
            return Err(Refused::Host(named.to_string()));
        }
        let host = single(headers, &HOST)
            .map_err(Refused::Host)?
            .ok_or(Refused::NoHost)?;
        if !self.host_is_fine(host) {
            return Err(Refused::Host(host.to_owned()));
        }
        match single(headers, &ORIGIN).map_err(Refused::Origin)? {
            Some(origin) if !self.origin_is_fine(origin) => Err(Refused::Origin(origin.to_owned())),
            _ => Ok(()),
        }
    }

    fn host_is_fine(&self, host: &str) -> bool {
        let name = without_port(host);
        is_loopback(name) || self.hosts.iter().any(|h| same(h, host) || same(h, name))
    }

    fn origin_is_fine(&self, origin: &str) -> bool {
        if self.origins.iter().any(|o| same(o, origin)) {
            return true;
        }
        // "null" and other values that are no http origin have no host.
        let Ok(uri) = origin.parse::<Uri>() else {
            return false;
        };
        let http = matches!(uri.scheme_str(), Some("http" | "https"));
        http && uri
            .authority()
            .is_some_and(|a| is_loopback(without_port(a.as_str())))
    }
}

/// The only value of a header; several are rejected.
fn single<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> Result<Option<&'h str>, String> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(format!("several {name} headers"));
    }
    first
        .to_str()
        .map(Some)
        .map_err(|_| "unreadable".to_owned())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => {
            name
        }
        _ => host,
    }
}

fn is_loopback(name: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|known| same(known, name))
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn check(host: &str, origin: Option<&str>) -> bool {
        let allowed = Allowed {
            hosts: vec!["gate.example".into(), "other.example:9200".into()],
            origins: vec!["https://console.example".into()],
        };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).expect("a value"));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).expect("a value"));
        }
        allowed.check(None, &headers).is_ok()
    }

    #[test]
    fn host_and_origin_are_checked_each_on_its_own() {
        for host in [
            "localhost",
            "LOCALHOST:9200",
            "127.0.0.1:1",
            "[::1]:9200",
            "gate.example",
            "gate.example:80",
            "other.example:9200",
        ] {
            assert!(check(host, None), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:9200",
            "other.example:1",
            "",
            "[::2]",
        ] {
            assert!(!check(host, None), "{host}");
        }
        for origin in [
            "http://localhost",
            "http://127.0.0.1:3000",
            "https://[::1]:8",
            "https://console.example",
        ] {
            assert!(check("localhost", Some(origin)), "{origin}");
        }
        for origin in [
            "null",
            "https://evil.example",
            "http://localhost.evil.example",
            "file://",
            "https://console.example.evil",
            "",
        ] {
            assert!(!check("localhost", Some(origin)), "{origin}");
        }
        assert!(!check("evil.example", Some("http://localhost")));
    }
}
