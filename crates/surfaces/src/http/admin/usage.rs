//! Calls, failures and latencies by what they have in common, from the audit store.

use schemars::JsonSchema;
use sentinel_core::Fault;
use sentinel_core::audit::Filter;
use sentinel_core::audit::figures::{By, Group, Tally};
use serde::Serialize;

use super::audit::{DeclaredFilter, filter, now_ms, store, unanswered};
use super::history::{Range, tally};
use super::parameters::{FromQuery, Pairs, Parameters};
use super::{Endpoint, Exchange};

const LIMIT_DEFAULT: u64 = 50;
const LIMIT_MAX: u64 = 1000;

/// The parameters of the usage.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "read as a `UsageQuery`; declared for its schema")]
pub(in crate::http) struct Declared {
    by: DeclaredBy,
    #[schemars(flatten)]
    filter: DeclaredFilter,
    /// Rows, 1 to 1000.
    limit: Option<u16>,
}

/// What the rows are of.
#[derive(JsonSchema)]
#[schemars(rename = "UsageBy", rename_all = "snake_case")]
#[expect(dead_code, reason = "declared for its schema")]
enum DeclaredBy {
    Operation,
    Caller,
    Backend,
    Outcome,
    Kind,
}

pub(in crate::http) struct UsageQuery {
    by: By,
    filter: Filter,
    range: Range,
    limit: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Usage {
    pub since_ms: u64,
    pub until_ms: u64,
    /// `false`: the store took too long and older calls are missing, or there are too many rows.
    pub complete: bool,
    /// Those with most calls first.
    pub rows: Vec<UsageRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct UsageRow {
    /// Of the operation, caller, backend, outcome or kind; empty for calls that have none.
    pub name: String,
    /// The backend of an operation.
    pub backend: String,
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Calls that the gateway did not let through.
    pub refused: u64,
    pub p50_us: u64,
    pub p95_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub last_at_ms: u64,
}

impl FromQuery for UsageQuery {
    type Declared = Declared;

    fn take(pairs: &mut Pairs<'_>) -> Result<Self, String> {
        const WORDS: [(&str, By); 5] = [
            ("operation", By::Operation),
            ("caller", By::Caller),
            ("backend", By::Backend),
            ("outcome", By::Outcome),
            ("kind", By::Kind),
        ];
        let asked = pairs.text("by");
        let filter = filter(pairs)?;
        let limit = pairs.number("limit", 1, LIMIT_MAX)?;
        let by = WORDS
            .iter()
            .find(|(word, _)| asked.as_deref() == Some(word));
        let (_, by) = by.ok_or_else(|| {
            let words = WORDS.map(|(word, _)| word).join(", ");
            format!("`by` is one of: {words}")
        })?;
        Ok(Self {
            by: *by,
            range: Range::of(&filter, now_ms())?,
            filter,
            limit: limit.unwrap_or(LIMIT_DEFAULT) as usize,
        })
    }
}

pub(crate) struct Read;

impl Endpoint for Read {
    type Input = Parameters<UsageQuery>;
    type Output = Usage;

    async fn handle(
        exchange: &Exchange<'_>,
        Parameters(query): Self::Input,
    ) -> Result<Usage, Fault> {
        let UsageQuery {
            by,
            filter,
            range,
            limit,
        } = query;
        let read = tally(store(exchange)?, filter, range, by, 1).await;
        let (tallies, is_whole) = read.map_err(unanswered)?;
        let mut groups: Vec<(Group, Tally)> = tallies.groups.into_iter().collect();
        groups.sort_unstable_by(|(a, of_a), (b, of_b)| {
            of_b.calls.cmp(&of_a.calls).then_with(|| a.cmp(b))
        });
        groups.truncate(limit);
        Ok(Usage {
            since_ms: range.since_ms,
            until_ms: range.until_ms,
            complete: is_whole && tallies.left_out == 0,
            rows: groups.into_iter().map(row).collect(),
        })
    }
}

fn row((group, tally): (Group, Tally)) -> UsageRow {
    UsageRow {
        name: group.name,
        backend: group.backend,
        calls: tally.calls,
        errors: tally.errors,
        refused: tally.refused,
        p50_us: tally.percentile_us(50),
        p95_us: tally.percentile_us(95),
        p99_us: tally.percentile_us(99),
        max_us: tally.max_us,
        bytes_in: tally.bytes_in,
        bytes_out: tally.bytes_out,
        last_at_ms: tally.last_at_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameters::{check_declared, parse};
    use super::*;

    #[test]
    fn the_document_has_the_parameters_that_are_read() {
        check_declared::<UsageQuery>();
    }

    #[test]
    fn what_the_rows_are_of_is_one_of_five_words() {
        let query: UsageQuery = parse("by=caller&limit=3").expect("good");
        assert_eq!((query.by, query.limit), (By::Caller, 3));
        for asked in ["", "by=", "by=time", "by=Caller"] {
            let wrong = parse::<UsageQuery>(asked).err().expect(asked);
            assert!(wrong.contains("operation, caller"), "{wrong}");
        }
    }
}
