//! The connection URL: `redis://user:password@host:port/database`, or `rediss://` for TLS.

use std::fmt;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use percent_encoding::percent_decode_str;
use sentinel_pg::tls::{Tls, Trust};

const PORT: u16 = 6379;

/// The URL is invalid. The message repeats none of it, since it contains a password at an unknown position.
#[derive(Debug, thiserror::Error)]
pub enum BadUrl {
    #[error("not a Redis URL: it begins neither with redis:// nor with rediss://")]
    Scheme,
    #[error("there is no host in the Redis URL, or one that cannot be read")]
    Host,
    #[error("the port in the Redis URL is no number up to 65535")]
    Port,
    #[error(
        "the path of the Redis URL is no number of a database (a `/` in a password is written %2F)"
    )]
    Database,
    #[error("the Redis URL has a user and no password")]
    Password,
    #[error("the Redis URL has options (`?` or `#`), and none are known")]
    Options,
    #[error("rediss:// needs certificates to trust: {0}")]
    Roots(String),
}

/// Address and login of the server. Displays host and port.
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
    /// The user, if given, and the password.
    pub(super) login: Option<(Option<String>, String)>,
    pub(super) database: u32,
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

pub(super) fn read(url: &str) -> Result<Place, BadUrl> {
    let (scheme, rest) = url.split_once("://").ok_or(BadUrl::Scheme)?;
    let encrypted = match scheme.to_ascii_lowercase().as_str() {
        "redis" => false,
        "rediss" => true,
        _ => return Err(BadUrl::Scheme),
    };
    if rest.contains(['?', '#']) {
        return Err(BadUrl::Options);
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let database = match path {
        "" => 0,
        number => number.parse().map_err(|_| BadUrl::Database)?,
    };
    let (login, server) = match authority.rsplit_once('@') {
        Some((login, server)) => (Some(read_login(login)?), server),
        None => (None, authority),
    };
    let (host, port) = read_server(server)?;
    let tls = match encrypted {
        true => {
            let name = ServerName::try_from(host.clone()).map_err(|_| BadUrl::Host)?;
            let tls = Tls::new(&Trust::ChainAndName(None)).map_err(BadUrl::Roots)?;
            Some((tls.connector(), name))
        }
        false => None,
    };
    Ok(Place {
        host,
        port,
        login: login.flatten(),
        database,
        tls,
    })
}

fn read_login(text: &str) -> Result<Option<(Option<String>, String)>, BadUrl> {
    match text.split_once(':') {
        Some(("", "")) => Ok(None),
        Some((_, "")) => Err(BadUrl::Password),
        Some(("", password)) => Ok(Some((None, decoded(password)))),
        Some((user, password)) => Ok(Some((Some(decoded(user)), decoded(password)))),
        None if text.is_empty() => Ok(None),
        None => Err(BadUrl::Password),
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn read_server(text: &str) -> Result<(String, u16), BadUrl> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(BadUrl::Host)?;
            let port = match rest {
                "" => None,
                rest => Some(rest.strip_prefix(':').ok_or(BadUrl::Host)?),
            };
            (host, port)
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_strange = |c: char| c.is_whitespace() || c.is_control() || c == '@';
    if host.is_empty() || host.contains(is_strange) {
        return Err(BadUrl::Host);
    }
    let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| BadUrl::Port))?;
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> Result<Place, String> {
        read(url).map_err(|error| {
            let said = error.to_string();
            assert!(!said.contains("hunter2"), "{url}: {said}");
            said
        })
    }

    #[test]
    fn urls_say_where_and_who() {
        let login = |user: Option<&str>, password: &str| {
            Some((user.map(str::to_owned), password.to_owned()))
        };
        for (url, shown, database, wanted) in [
            ("redis://host", "host:6379", 0, None),
            ("REDIS://host:1/", "host:1", 0, None),
            ("redis://host/7", "host:6379", 7, None),
            ("redis://[::1]:9/2", "[::1]:9", 2, None),
            ("redis://[::1]", "[::1]:6379", 0, None),
            ("redis://:@host", "host:6379", 0, None),
            ("redis://:p%40ss@host", "host:6379", 0, login(None, "p@ss")),
            (
                "redis://me:a:b@host",
                "host:6379",
                0,
                login(Some("me"), "a:b"),
            ),
            (
                "redis://me:a@b@host",
                "host:6379",
                0,
                login(Some("me"), "a@b"),
            ),
        ] {
            let place = place(url).expect(url);
            let found = (place.to_string(), place.database, place.login.clone());
            assert_eq!(found, (shown.to_owned(), database, wanted), "{url}");
            assert!(place.tls.is_none(), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_told_without_the_password() {
        for (url, word) in [
            ("postgres://me:hunter2@host", "not a Redis URL"),
            ("hunter2", "not a Redis URL"),
            ("redis://", "host"),
            ("redis://:hunter2@", "host"),
            ("redis://[::1", "host"),
            ("redis://[::1]x", "host"),
            ("redis://me:hunter2@host:port", "port"),
            ("redis://me:hunter2@host:70000", "port"),
            ("redis://:hun/hunter2@host", "%2F"),
            ("redis://:hunter2@host/one", "database"),
            ("redis://host/-1", "database"),
            ("redis://hunter2@host", "no password"),
            ("redis://host?password=hunter2", "options"),
        ] {
            let said = place(url).map(|_| ()).expect_err(url);
            assert!(said.contains(word), "{url}: {said}");
        }
    }
}
