//! Audit records in a store: SQLite or PostgreSQL, filled from the spool in the background.

mod conditions;
mod heads;
mod ingest;
mod postgres;
mod sqlite;
mod verify;

#[cfg(test)]
pub(crate) mod tests;

pub use ingest::{Adopted, Ingest, adopt_all};
pub use postgres::{POSTGRES_MIGRATIONS, PostgresAudit};
pub use sqlite::{MIGRATIONS, SqliteAudit};
pub use verify::{Verdict, verify};

use sentinel_core::audit::{Filter, Guarantee, RecordKey};

/// The columns, in the order that both stores read and write them.
pub(crate) const COLUMNS: &str = "node, lane, seq, at_ms, request_id, surface, revision, caller, role, \
     tenant, method, backend, operation, decision, outcome, kind, latency_us, bytes_in, bytes_out, \
     args_digest, args, policy_version, guarantee, intent, hash";

/// `None` for a word that is no guarantee.
pub(crate) fn guarantee(word: &str) -> Option<Guarantee> {
    [Guarantee::Memory, Guarantee::Spool, Guarantee::Sync]
        .into_iter()
        .find(|guarantee| guarantee.as_str() == word)
}

/// A key before all records of a store.
pub(crate) fn beginning() -> RecordKey {
    RecordKey {
        node: String::new(),
        lane: i64::MIN,
        seq: i64::MIN as u64,
    }
}

/// A number in the stores' integer type, saturating.
pub(crate) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// No text of a record contains NUL, and PostgreSQL rejects it in parameters.
pub(crate) fn matches_nothing(filter: &Filter) -> bool {
    [
        &filter.caller,
        &filter.operation,
        &filter.backend,
        &filter.outcome,
        &filter.kind,
        &filter.surface,
        &filter.method,
        &filter.role,
        &filter.tenant,
        &filter.request_id,
        &filter.text,
    ]
    .into_iter()
    .flatten()
    .any(|text| text.contains('\0'))
}
