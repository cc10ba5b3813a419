//! The connection URL: what `tokio_postgres` understands, and how TLS is wanted as libpq spells it.

use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use super::tls::{Tls, Trust};
use crate::decoded;

/// The URL cannot be used. It is not repeated: it holds a password.
#[derive(Debug, thiserror::Error)]
pub enum BadUrl {
    #[error("not a PostgreSQL URL or connection string: {0}")]
    Unreadable(String),
    #[error("sslmode `{0}` is unknown: disable, prefer, require, verify-ca or verify-full")]
    SslMode(String),
    #[error("sslmode `verify-ca` and `verify-full` need certificates: {0}")]
    Roots(String),
}

/// `sslmode` and `sslrootcert` are ours; the rest goes on.
pub(super) fn read(url: &str) -> Result<(Config, Tls), BadUrl> {
    let mut mode = String::from("prefer");
    let mut roots = None;
    let mut ours = |pair: &str| match pair.split_once('=') {
        Some(("sslmode", value)) => {
            mode = value.to_owned();
            true
        }
        Some(("sslrootcert", value)) => {
            roots = Some(PathBuf::from(decoded(value)));
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
        ("disable", _) => (SslMode::Disable, Trust::Anybody),
        ("prefer", None) => (SslMode::Prefer, Trust::Anybody),
        ("require", None) => (SslMode::Require, Trust::Anybody),
        // As libpq: whoever names certificates wants them checked.
        ("prefer", roots) => (SslMode::Prefer, Trust::Chain(roots)),
        ("require" | "verify-ca", roots) => (SslMode::Require, Trust::Chain(roots)),
        ("verify-full", roots) => (SslMode::Require, Trust::ChainAndName(roots)),
        (other, _) => return Err(BadUrl::SslMode(other.to_owned())),
    };
    config.ssl_mode(wanted);
    let tls = Tls::new(&trust).map_err(BadUrl::Roots)?;
    Ok((config, tls))
}
