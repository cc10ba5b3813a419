//! Runs an operator's SQL once: what `sentinel pg init --apply` does.

use std::time::Duration;

use sentinel_pg::{BadUrl, PgError, PoolOptions, Session};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A table that is altered may be in use.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("the URL cannot be used")]
    Url(#[from] BadUrl),
    #[error("the database cannot be reached")]
    Unreachable(#[source] PgError),
    #[error("the database refused a statement; nothing was changed")]
    Refused(#[source] PgError),
}

/// A role that logs in, and its password as the server keeps it.
pub struct Login<'a> {
    pub role: &'a str,
    /// Hashed already, so that the password is in no log of the server.
    pub verifier: &'a str,
    /// Also if the role exists.
    pub always: bool,
}

pub struct Applied {
    /// The password of the login is the new one.
    pub is_password_new: bool,
}

/// Runs `sql`, then gives the login its password if there was no such role before.
pub async fn apply(url: &str, sql: &str, login: Login<'_>) -> Result<Applied, SetupError> {
    let mut options = PoolOptions::new(url)?;
    options.max_connections = 1;
    options.connect_timeout = CONNECT_TIMEOUT;
    options.answer_timeout = ANSWER_TIMEOUT;
    let work = async |session: &mut Session| {
        let known = "SELECT FROM pg_catalog.pg_roles WHERE rolname = $1";
        let is_known = !session.query(known, &[&login.role]).await?.is_empty();
        let is_password_new = login.always || !is_known;
        session.batch(sql).await?;
        if is_password_new {
            let set = "SELECT pg_catalog.format('ALTER ROLE %I PASSWORD %L', $1::text, $2::text)";
            let set = session.query(set, &[&login.role, &login.verifier]).await?;
            session.batch(set[0].get(0)).await?;
        }
        Ok(Applied { is_password_new })
    };
    let done = options.build().run(work).await;
    done.map_err(SetupError::Unreachable)?
        .map_err(SetupError::Refused)
}
