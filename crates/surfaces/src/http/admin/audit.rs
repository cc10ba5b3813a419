//! Searches audit records, newest first, a page at a time; what other endpoints about records share.
//!
//! A page is bounded three ways: in records, in bytes and in the time that the store may take. What does not fit is
//! behind `next`.

pub mod export;
pub mod live;
pub mod story;
pub mod verify;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use sentinel_core::audit::{
    AuditStore, Filter, OUTCOMES, Query, RecordKey, StoreFailure, Stored, Surface,
};
use sentinel_core::{Fault, Kind};
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::parameters::{FromQuery, Pairs, Parameters};
use super::{Endpoint, Exchange, control};

const LIMIT_DEFAULT: u64 = 100;
const LIMIT_MAX: u64 = 1000;
/// Read from the store at once: arguments may be large, and a page of large ones is cut short.
const STEP_LEN: usize = 32;
/// A page ends with the record that goes beyond. What a record takes without its arguments is guessed.
const PAGE_BYTES_MAX: usize = 4 << 20;
const RECORD_BYTES: usize = 1024;
/// A rare match in a large store is searched for no longer than this; a filter by time makes it quick.
pub(super) const SEARCH_MAX: Duration = Duration::from_secs(5);
/// Searches at once; others wait. The store has a few readers, and reviews need them too.
const SEARCHES_MAX: usize = 2;

static SEARCHES: Semaphore = Semaphore::const_new(SEARCHES_MAX);

/// Which records, as parameters.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "read as a `Filter`; declared for its schema")]
pub(super) struct DeclaredFilter {
    caller: Option<String>,
    /// The operation as the caller named it.
    tool: Option<String>,
    backend: Option<String>,
    outcome: Option<String>,
    /// The kind of a failure, such as `backend_timeout`.
    kind: Option<String>,
    /// `http`, `stdio`, `rest`, `rpc`, `admin` or `gateway`.
    surface: Option<String>,
    /// Such as `tools/call`.
    method: Option<String>,
    role: Option<String>,
    tenant: Option<String>,
    /// A part of the operation, the caller, the request id or the recorded arguments, in letters of either case.
    text: Option<String>,
    /// Requests that took longer.
    slower_than_ms: Option<u64>,
    /// Requests that were refused or failed only.
    failed: Option<bool>,
    /// RFC 3339, milliseconds since 1970, or how long ago (`15m`).
    since: Option<String>,
    until: Option<String>,
}

/// The parameters of the search.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "read as a `Query`; declared for its schema")]
pub(in crate::http) struct AuditQuery {
    #[schemars(flatten)]
    filter: DeclaredFilter,
    /// 1 to 1000.
    limit: Option<u16>,
    /// `next` of the page before.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct AuditPage {
    pub records: Vec<Stored>,
    /// The `cursor` of the next page; `None` at the end.
    pub next: Option<String>,
}

/// What is asked for, in the words of `sentinel audit search`.
pub(super) fn filter(pairs: &mut Pairs<'_>) -> Result<Filter, String> {
    let surfaces = Surface::ALL.map(Surface::as_str);
    let slower_ms = pairs.number("slower_than_ms", 0, u64::MAX / 1000 - 1)?;
    Ok(Filter {
        caller: pairs.owned("caller"),
        operation: pairs.owned("tool"),
        backend: pairs.owned("backend"),
        outcome: pairs.word("outcome", &OUTCOMES)?,
        kind: pairs.owned("kind"),
        surface: pairs.word("surface", &surfaces)?,
        method: pairs.owned("method"),
        role: pairs.owned("role"),
        tenant: pairs.owned("tenant"),
        text: pairs.owned("text"),
        latency_us_min: slower_ms.map(|ms| ms * 1000 + 1),
        failed: pairs.flag("failed")?,
        since_ms: pairs.time("since")?,
        until_ms: pairs.time("until")?,
        ..Filter::default()
    })
}

pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_millis() as u64
}

impl FromQuery for Query {
    type Declared = AuditQuery;

    fn take(pairs: &mut Pairs<'_>) -> Result<Self, String> {
        let filter = filter(pairs)?;
        let limit = pairs.number("limit", 1, LIMIT_MAX)?;
        let cursor = pairs.text("cursor");
        let cursor =
            cursor.map(|text| place(&text).ok_or("`cursor` is what `next` said, as it was"));
        Ok(Self {
            filter,
            newest: true,
            limit: limit.unwrap_or(LIMIT_DEFAULT) as usize,
            after: cursor.transpose()?,
            ..Self::default()
        })
    }
}

pub(crate) struct Search;

impl Endpoint for Search {
    type Input = Parameters<Query>;
    type Output = AuditPage;

    async fn handle(
        exchange: &Exchange<'_>,
        Parameters(query): Self::Input,
    ) -> Result<AuditPage, Fault> {
        let store = store(exchange)?;
        let _turn = turn().await;
        page(&*store, query).await.map_err(unanswered)
    }
}

/// The store of records, where there is one.
pub(super) fn store(exchange: &Exchange<'_>) -> Result<Arc<dyn AuditStore>, Fault> {
    let none = || Fault::new(Kind::NotFound, "this gateway keeps no records");
    control(exchange.server)?.records().ok_or_else(none)
}

/// Waits until the store may be searched.
pub(super) async fn turn() -> SemaphorePermit<'static> {
    let turn = SEARCHES.acquire().await;
    turn.expect("it is never closed")
}

pub(super) fn unanswered(error: StoreFailure) -> Fault {
    tracing::warn!("records could not be searched: {error}");
    let text = "the audit store does not answer, or had to look for too long: say `since` when";
    Fault::new(Kind::AuditUnavailable, text)
}

async fn page(store: &dyn AuditStore, mut query: Query) -> Result<AuditPage, StoreFailure> {
    let (wanted, until) = (query.limit, Instant::now() + SEARCH_MAX);
    let mut records = Vec::new();
    let mut bytes = 0;
    loop {
        query.limit = STEP_LEN.min(wanted - records.len());
        query.within = Some(until.saturating_duration_since(Instant::now()));
        let found = store.find(query.clone()).await?;
        let is_end = found.len() < query.limit;
        for stored in found {
            bytes += weight(&stored);
            records.push(stored);
            if bytes > PAGE_BYTES_MAX || records.len() == wanted {
                let next = end(&records).as_ref().map(cursor);
                return Ok(AuditPage { records, next });
            }
        }
        if is_end {
            let next = None;
            return Ok(AuditPage { records, next });
        }
        query.after = end(&records);
    }
}

/// What a record takes in an answer.
fn weight(stored: &Stored) -> usize {
    let args = stored.record.args.as_ref();
    RECORD_BYTES + args.map_or(0, String::len)
}

/// Where the next page begins.
fn end(records: &[Stored]) -> Option<(u64, RecordKey)> {
    let last = records.last()?;
    Some((last.record.at_ms, last.key.clone()))
}

/// Where a page ended, as text: `<at_ms>.<lane>.<seq>.<node>`.
fn cursor((at_ms, key): &(u64, RecordKey)) -> String {
    format!("{at_ms}.{}.{}.{}", key.lane, key.seq, key.node)
}

fn place(text: &str) -> Option<(u64, RecordKey)> {
    let mut parts = text.splitn(4, '.');
    let at_ms = parts.next()?.parse().ok()?;
    let lane = parts.next()?.parse().ok()?;
    let seq = parts.next()?.parse().ok()?;
    let node = parts.next().filter(|node| !node.contains('\0'))?;
    let node = node.to_owned();
    Some((at_ms, RecordKey { node, lane, seq }))
}

#[cfg(test)]
mod tests {
    use super::super::parameters::{check_declared, parse};
    use super::*;

    #[test]
    fn what_is_asked_is_read_or_refused_by_name() {
        let asked = "caller=a%20b&tool=x+y&since=1000&until=2000&limit=7&slower_than_ms=5&failed=true&surface=rest";
        let Query {
            filter,
            limit,
            newest,
            ..
        } = parse(asked).expect("good");
        assert_eq!(filter.caller.as_deref(), Some("a b"));
        assert_eq!(filter.operation.as_deref(), Some("x y"));
        assert_eq!((filter.since_ms, filter.until_ms), (Some(1000), Some(2000)));
        assert_eq!((filter.latency_us_min, filter.failed), (Some(5001), true));
        assert_eq!(filter.surface.as_deref(), Some("rest"));
        assert_eq!((limit, newest), (7, true));
        for (asked, word) in [
            ("limit=0", "1 to 1000"),
            ("limit=1001", "1 to 1000"),
            ("since=soon", "`since`"),
            ("cursor=x", "`next`"),
            ("cursor=1.2.3.%00", "`next`"),
            ("who=me", "`who`: use"),
            ("outcome=bogus", "success, error, denied"),
            ("outcome=", "success, error, denied"),
            ("surface=tcp", "http, stdio"),
            ("failed=yes", "true or false"),
            ("slower_than_ms=-1", "`slower_than_ms`"),
            ("caller=a&caller=b", "twice"),
        ] {
            let wrong = parse::<Query>(asked).expect_err(asked);
            assert!(wrong.contains(word), "{asked}: {wrong}");
        }
    }

    #[test]
    fn the_document_has_the_parameters_that_are_read() {
        check_declared::<Query>();
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let key = RecordKey {
            node: "a.b".to_owned(),
            lane: -3,
            seq: 9,
        };
        let at = (1_785_232_800_000, key);
        assert_eq!(place(&cursor(&at)), Some(at));
    }
}
