//! The failures of a store.

use rusqlite::ErrorCode;
use sentinel_pg::PgError;
use tokio_postgres::error::SqlState;

/// A failure of the store itself; a closure's refusals have their own type.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// No space left. Nothing was written.
    #[error("storage_full: no space left for the database")]
    StorageFull,
    /// Another process held the database for longer than the busy time-out. Nothing was written.
    #[error("busy: the database is locked by another process")]
    Busy,
    /// The file is damaged, or is no database at all.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// Reading or writing the file failed.
    #[error("io: {0}")]
    Io(String),
    /// The database was made by a newer version of this program.
    #[error("the tables of `{component}` have version {found}, this program knows {known}")]
    TooNew {
        component: &'static str,
        found: u32,
        known: u32,
    },
    /// The server cannot be reached, or does not answer.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The store is closed, or the closure panicked.
    #[error("closed: the store no longer runs")]
    Closed,
    /// Any other SQL error.
    #[error("sql: {0}")]
    Sql(String),
}

impl StoreError {
    /// The identifier for callers and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::StorageFull => "storage_full",
            Self::Busy => "busy",
            Self::Corrupt(_) => "corrupt",
            Self::Io(_) => "io",
            Self::TooNew { .. } => "too_new",
            Self::Unavailable(_) => "unavailable",
            Self::Closed => "closed",
            Self::Sql(_) => "sql",
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::StorageFull,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::OperationInterrupted) => {
                Self::Unavailable("it took too long".to_owned())
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Corrupt(error.to_string())
            }
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied,
            ) => Self::Io(error.to_string()),
            _ => Self::Sql(error.to_string()),
        }
    }
}

impl From<PgError> for StoreError {
    fn from(error: PgError) -> Self {
        match error {
            PgError::Closed => Self::Closed,
            PgError::Connect(error) | PgError::Database(error) => error.into(),
            // Migrations fail with an error of ours.
            PgError::Setup(error) => match error.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => Self::Unavailable(other.to_string()),
            },
            PgError::ConnectTimeout | PgError::AnswerTimeout => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(server_error) = error.as_db_error() else {
            // Its own message does not name the cause.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
            return Self::Unavailable(format!("PostgreSQL: {error}{cause}"));
        };
        let text = format!(
            "PostgreSQL {}: {}",
            server_error.code().code(),
            server_error.message()
        );
        match *server_error.code() {
            SqlState::DISK_FULL => Self::StorageFull,
            SqlState::T_R_SERIALIZATION_FAILURE
            | SqlState::T_R_DEADLOCK_DETECTED
            | SqlState::LOCK_NOT_AVAILABLE => Self::Busy,
            _ => match server_error.code().code().get(..2) {
                // Connection, resources, operator intervention, wrong password or database.
                Some("08" | "53" | "57" | "28" | "3D") => Self::Unavailable(text),
                Some("58") => Self::Io(text),
                Some("XX") => Self::Corrupt(text),
                _ => Self::Sql(text),
            },
        }
    }
}
