//! The connection URL: what `tokio_postgres` understands, plus libpq's `sslmode` and `sslrootcert`.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::tls::{Tls, Trust};

/// The URL cannot be used. Messages do not repeat it: it holds a password.
#[derive(Debug, thiserror::Error)]
pub enum BadUrl {
    #[error("not a PostgreSQL URL or connection string: {0}")]
    Unreadable(String),
    #[error("sslmode `{0}` is unknown: disable, prefer, require, verify-ca or verify-full")]
    SslMode(String),
    #[error("sslmode `verify-ca` and `verify-full` need certificates: {0}")]
    Roots(String),
}

/// Whether `PoolOptions::new` would accept this URL.
pub fn check(url: &str) -> Result<(), BadUrl> {
    parse(url).map(drop)
}

/// Takes `sslmode` and `sslrootcert` out, and leaves the rest to `tokio_postgres`.
pub(crate) fn parse(url: &str) -> Result<(Config, Tls), BadUrl> {
    let mut mode = String::from("prefer");
    let mut roots = None;
    let mut ours = |pair: &str| match pair.split_once('=') {
        Some(("sslmode", value)) => {
            mode = value.to_owned();
            true
        }
        Some(("sslrootcert", value)) => {
            roots = Some(PathBuf::from(
                percent_decode_str(value).decode_utf8_lossy().into_owned(),
            ));
            true
        }
        _ => false,
    };
    let rest = match url.split_once('?') {
        Some((base, query)) if url.contains("://") => {
            let kept: Vec<&str> = query.split('&').filter(|pair| !ours(pair)).collect();
            match kept.is_empty() {
                true => base.to_owned(),
                false => format!("{base}?{}", kept.join("&")),
            }
        }
        _ if url.contains("://") => url.to_owned(),
        _ => {
            let kept: Vec<&str> = url.split(' ').filter(|pair| !ours(pair)).collect();
            kept.join(" ")
        }
    };
    let unreadable = |error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        BadUrl::Unreadable(cause.unwrap_or_else(|| error.to_string()))
    };
    let mut config: Config = rest.parse().map_err(unreadable)?;
    config.application_name("sentinel");
    let (wanted, trust) = match (mode.as_str(), roots) {
        ("disable", _) => (SslMode::Disable, Trust::Any),
        ("prefer", None) => (SslMode::Prefer, Trust::Any),
        ("require", None) => (SslMode::Require, Trust::Any),
        // As in libpq: with root certificates given, the chain is checked.
        ("prefer", roots) => (SslMode::Prefer, Trust::Chain(roots)),
        ("require" | "verify-ca", roots) => (SslMode::Require, Trust::Chain(roots)),
        ("verify-full", roots) => (SslMode::Require, Trust::ChainAndName(roots)),
        (other, _) => return Err(BadUrl::SslMode(other.to_owned())),
    };
    config.ssl_mode(wanted);
    let tls = Tls::new(&trust).map_err(BadUrl::Roots)?;
    Ok((config, tls))
}
