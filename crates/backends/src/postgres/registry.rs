//! Stub.
use sentinel_pg::{PgError, Session};

use super::Config;
use super::operation::Found;

pub(super) async fn read(_session: &mut Session, _config: &Config) -> Result<Found, PgError> {
    Ok(Found::default())
}
