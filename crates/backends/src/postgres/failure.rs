//! What a failed statement means to its caller.
//!
//! The text of the database goes to the log and nowhere else. Callers learn a kind and a sentence of ours; functions speak to them by
//! raising an error of class `PT` (`PT404`: the class and a status), whose message is public by agreement.
//!
//! Not here: codes and statuses (`surfaces::rescue`).

use std::borrow::Cow;

use sentinel_core::{Fault, Kind};
use sentinel_pg::PgError;
use sentinel_pg::tokio_postgres::error::{DbError, SqlState};

use super::mode::Mode;

/// Longest public message that a function may raise.
const MESSAGE_CHARS_MAX: usize = 2000;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the database could not be used")]
    Pool(#[source] PgError),
    #[error("{attempts} attempts ended with SQLSTATE {}", .error.code().code())]
    Conflict { attempts: u32, error: Box<DbError> },
    #[error("SQLSTATE {}", .0.code().code())]
    Statement(#[source] Box<DbError>),
    /// The rows are more than an answer may hold.
    #[error("the answer is larger than {0} bytes (limits.reply_mb)")]
    TooLarge(usize),
    /// The database has no part in it.
    #[error("the call cannot be carried out")]
    Refused(#[source] Fault),
}

impl Failure {
    pub(super) fn of(error: PgError) -> Self {
        match error {
            PgError::Database(inner) => match inner.as_db_error() {
                Some(error) => Self::Statement(Box::new(error.clone())),
                None => Self::Pool(PgError::Database(inner)),
            },
            other => Self::Pool(other),
        }
    }

    /// Whether the whole transaction may be tried again: it lost against another one.
    pub(super) fn is_conflict(&self) -> bool {
        let lost = [
            &SqlState::T_R_SERIALIZATION_FAILURE,
            &SqlState::T_R_DEADLOCK_DETECTED,
        ];
        matches!(self, Self::Statement(error) if lost.contains(&error.code()))
    }

    /// Whether the connection leads to a server that was demoted: a transaction that may write was refused as read-only.
    pub(super) fn is_demoted(&self, mode: Mode) -> bool {
        !mode.is_read_only
            && matches!(self, Self::Statement(error) if *error.code() == SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// Whether no server was reached, so nothing was sent.
    pub(super) fn is_unreachable(&self) -> bool {
        let Self::Pool(error) = self else {
            return false;
        };
        matches!(
            error,
            PgError::ConnectTimeout | PgError::Connect(_) | PgError::Setup(_)
        )
    }

    /// Whether the primary may be able to do what a standby refused: something is not there yet (class 42 and 3F), or is not
    /// possible during recovery (25006, 55000).
    pub(super) fn is_behind(&self) -> bool {
        let Self::Statement(error) = self else {
            return false;
        };
        let code = error.code().code();
        code.starts_with("42") || code.starts_with("3F") || matches!(code, "25006" | "55000")
    }

    /// Whether a prepared statement is gone or out of date; the statement did not run.
    pub(super) fn is_stale(&self) -> bool {
        let Self::Statement(error) = self else {
            return false;
        };
        *error.code() == SqlState::INVALID_SQL_STATEMENT_NAME
            || (*error.code() == SqlState::FEATURE_NOT_SUPPORTED
                && error.routine() == Some("RevalidateCachedQuery"))
    }

    /// The fault for its caller.
    pub(super) fn into_fault(self, backend: &str) -> Fault {
        match self {
            Self::Pool(error) => unusable(error, backend),
            Self::Conflict { .. } => {
                let text =
                    "other transactions changed the same data at each attempt; nothing was changed";
                Fault::new(Kind::TransactionConflict, text)
                    .retry_after_ms(1000)
                    .because(self)
            }
            Self::Statement(error) => {
                let (kind, text) = meaning(&error);
                let fault = Fault::new(kind, text).because(Reported(error));
                match kind {
                    Kind::TransactionConflict | Kind::BackendUnavailable => {
                        fault.retry_after_ms(1000)
                    }
                    // One slow function says nothing about the others.
                    Kind::BackendTimeout => fault.uncounted(),
                    _ => fault,
                }
            }
            Self::TooLarge(_) => {
                let text = "the answer is larger than this gateway passes on (limits.reply_mb)";
                Fault::new(Kind::BackendError, text).because(self)
            }
            Self::Refused(fault) => fault,
        }
    }
}

/// A database's error for the log.
#[derive(Debug, thiserror::Error)]
#[error("SQLSTATE {}: {}{}{}", .0.code().code(), .0.message(), part(" detail: ", .0.detail()), part(" where: ", .0.where_()))]
struct Reported(Box<DbError>);

fn part(name: &str, text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!("{name}{text}"))
}

fn unusable(error: PgError, backend: &str) -> Fault {
    match error {
        PgError::AnswerTimeout => {
            let text = format!("backend `{backend}` did not answer in time");
            Fault::new(Kind::BackendTimeout, text).because(error)
        }
        PgError::Database(_) => {
            let text = format!("the connection of backend `{backend}` to its database broke");
            Fault::new(Kind::BackendUnavailable, text)
                .retry_after_ms(1000)
                .because(error)
        }
        PgError::ConnectTimeout | PgError::Connect(_) | PgError::Closed | PgError::Setup(_) => {
            let text = format!("backend `{backend}` cannot reach its database");
            let fault = Fault::new(Kind::BackendUnavailable, text).retry_after_ms(1000);
            fault.not_run().because(error)
        }
    }
}

/// The kind and the public words of an error, by its SQLSTATE.
fn meaning(error: &DbError) -> (Kind, Cow<'static, str>) {
    let code = error.code().code();
    if let Some(status) = code.strip_prefix("PT") {
        return (raised(status), said(error.message()));
    }
    let (kind, text) = match code {
        "23505" | "23P01" => (Kind::Conflict, "this exists already"),
        "23514" => (
            Kind::Unprocessable,
            "a value is not allowed by the rules of the data",
        ),
        "23502" => (Kind::InvalidParams, "a value that is needed is missing"),
        "23503" => (
            Kind::InvalidParams,
            "it refers to something that does not exist, or is still referred to",
        ),
        "22P02" | "22023" | "22007" | "22025" | "2201B" | "2200M" | "2200N" | "2200S" | "2200T" => {
            (
                Kind::InvalidParams,
                "a value does not have the form of its type",
            )
        }
        "22P05" | "22021" => (
            Kind::InvalidParams,
            "a text contains a character that the database cannot store",
        ),
        "22001" | "22003" | "22008" | "22009" | "22015" | "22026" | "2201W" | "2201X" => {
            (Kind::Unprocessable, "a value is too long or out of range")
        }
        // A value that has a grammar of its own, such as tsquery and jsonpath: an error in SQL has a place in it.
        "42601" if error.where_().is_none() && error.position().is_none() => (
            Kind::InvalidParams,
            "a value does not have the form of its type",
        ),
        "54000" => (
            Kind::Unprocessable,
            "a value is larger or deeper than the database can take",
        ),
        // A range or an array whose bounds are in the wrong order.
        "22000" | "2202E" => (Kind::Unprocessable, "a value contradicts itself"),
        "25006" => (
            Kind::BackendError,
            "the operation is declared read-only and tried to write",
        ),
        "42501" => (Kind::Forbidden, "the database does not allow this"),
        "57014" => (
            Kind::BackendTimeout,
            "the statement took too long and was cancelled",
        ),
        "55P03" => (
            Kind::TransactionConflict,
            "what it needs is locked by another transaction",
        ),
        "40001" | "40P01" => (
            Kind::TransactionConflict,
            "other transactions changed the same data",
        ),
        "57P01" | "57P02" | "57P03" => (
            Kind::BackendUnavailable,
            "the database is going down or starting",
        ),
        _ if code.starts_with("08") || code.starts_with("53") => (
            Kind::BackendUnavailable,
            "the database cannot take the call at the moment",
        ),
        _ => (Kind::BackendError, "the operation failed in the database"),
    };
    (kind, text.into())
}

/// The kind of a raised `PT` error, by the status in its code.
fn raised(status: &str) -> Kind {
    match status {
        "400" => Kind::InvalidParams,
        "401" => Kind::Unauthorized,
        "403" => Kind::Forbidden,
        "404" => Kind::NotFound,
        "409" => Kind::Conflict,
        "422" => Kind::Unprocessable,
        "429" => Kind::RateLimited,
        "503" => Kind::Unavailable,
        _ => Kind::BackendError,
    }
}

fn said(message: &str) -> Cow<'static, str> {
    let text: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    text.into()
}
