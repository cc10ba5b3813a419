//! Why a store could not do what it was asked.

use rusqlite::ErrorCode;
use tokio_postgres::error::SqlState;

/// A failure of the store itself; what a closure refuses for its own reasons is its own error.
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
    /// Anything else that SQL can say.
    #[error("sql: {0}")]
    Sql(String),
}

impl StoreError {
    /// The word for callers and metrics.
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

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            // Its own words do not say why; the cause does.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
            return Self::Unavailable(format!("PostgreSQL: {error}{cause}"));
        };
        let text = format!("PostgreSQL {}: {}", said.code().code(), said.message());
        match *said.code() {
            SqlState::DISK_FULL => Self::StorageFull,
            SqlState::T_R_SERIALIZATION_FAILURE
            | SqlState::T_R_DEADLOCK_DETECTED
            | SqlState::LOCK_NOT_AVAILABLE => Self::Busy,
            _ => match said.code().code().get(..2) {
                // Connection, resources, operator intervention, wrong password or database.
                Some("08" | "53" | "57" | "28" | "3D") => Self::Unavailable(text),
                Some("58") => Self::Io(text),
                Some("XX") => Self::Corrupt(text),
                _ => Self::Sql(text),
            },
        }
    }
}
