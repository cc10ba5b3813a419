//! Audit records as JSON Lines, oldest first.
//!
//! A page of records is read when the connection has room for it, so an export takes the memory of one page, however long it
//! is and however slowly it is read.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use schemars::JsonSchema;
use sentinel_core::Fault;
use sentinel_core::audit::{AuditStore, Filter, Query, RecordKey, StoreFailure, Stored};

use super::super::Exchange;
use super::super::parameters::{FromQuery, Pairs, Parameters};
use super::super::streaming::{LineEndpoint, Lines};
use super::{
    DeclaredFilter, RECORD_BYTES, SEARCH_MAX, end, filter, store, turn, unanswered, weight,
};
use crate::mcp::Unfinished;

const LIMIT_DEFAULT: u64 = 100_000;
/// A store of a year is more; later exports go on by `since`.
const LIMIT_MAX: u64 = 10_000_000;
/// Read from the store at once, if records are small.
const STEP_LEN: usize = 1000;
/// What is read at once should not take more memory than this; one record may.
const CHUNK_BYTES: usize = 4 << 20;

pub(in crate::http) struct ExportQuery {
    filter: Filter,
    limit: usize,
}

/// The parameters of an export.
#[derive(JsonSchema)]
#[expect(
    dead_code,
    reason = "read as an `ExportQuery`; declared for its schema"
)]
pub(in crate::http) struct Declared {
    #[schemars(flatten)]
    filter: DeclaredFilter,
    /// 1 to 10000000; 100000 where nothing is said.
    limit: Option<u32>,
}

impl FromQuery for ExportQuery {
    type Declared = Declared;

    fn take(pairs: &mut Pairs<'_>) -> Result<Self, String> {
        let filter = filter(pairs)?;
        let limit = pairs.number("limit", 1, LIMIT_MAX)?;
        let limit = limit.unwrap_or(LIMIT_DEFAULT) as usize;
        Ok(Self { filter, limit })
    }
}

pub(crate) struct Export;

impl LineEndpoint for Export {
    type Input = Parameters<ExportQuery>;
    type Line = Stored;

    async fn open(
        exchange: &Exchange<'_>,
        Parameters(ExportQuery { filter, limit }): Self::Input,
    ) -> Result<Lines<Stored>, Fault> {
        let mut reading = Reading {
            store: store(exchange)?,
            filter,
            left: limit,
            after: None,
            step_len: STEP_LEN,
        };
        // What fails at once is refused; later only the connection can tell.
        let first = reading.next().await.map_err(unanswered)?;
        let rest = stream::unfold(Some(reading), async |reading| {
            let mut reading = reading?;
            match reading.next().await {
                Ok(records) if records.is_empty() => None,
                Ok(records) => Some((Ok(records), Some(reading))),
                Err(error) => {
                    tracing::warn!("an export of audit records ended early: {error}");
                    Some((Err(Unfinished), None))
                }
            }
        });
        Ok(stream::iter([Ok(first)]).chain(rest).boxed())
    }
}

/// An export on its way.
struct Reading {
    store: Arc<dyn AuditStore>,
    filter: Filter,
    /// Records that may still come.
    left: usize,
    after: Option<(u64, RecordKey)>,
    /// Records to ask for next: fewer where arguments are large.
    step_len: usize,
}

impl Reading {
    /// The next records; none at the end.
    async fn next(&mut self) -> Result<Vec<Stored>, StoreFailure> {
        let limit = self.step_len.min(self.left);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let _turn = turn().await;
        let query = Query {
            filter: self.filter.clone(),
            after: self.after.clone(),
            limit,
            within: Some(SEARCH_MAX),
            ..Query::default()
        };
        let found = self.store.find(query).await?;
        self.left = match found.len() < limit {
            true => 0,
            false => self.left - found.len(),
        };
        self.after = end(&found).or(self.after.take());
        let bytes: usize = found.iter().map(weight).sum();
        let mean = bytes / found.len().max(1);
        self.step_len = (CHUNK_BYTES / mean.max(RECORD_BYTES)).clamp(1, STEP_LEN);
        Ok(found)
    }
}
