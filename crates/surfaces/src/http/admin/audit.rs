//! Searches audit records, newest first, a page at a time.
//!
//! A page is bounded three ways: in records, in bytes and in the time that the store may take. What does not fit is
//! behind `next`.

use std::time::Duration;

use hyper::body::Incoming;
use schemars::{JsonSchema, Schema};
use sentinel_core::audit::{AuditStore, OUTCOMES, Query, RecordKey, StoreFailure, Stored, moment};
use sentinel_core::{Fault, Kind};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{Endpoint, Exchange, FromRequest, control, invalid, schema_of};

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;
/// Read from the store at once: arguments may be large, and a page of large ones is cut short.
const STEP_LEN: usize = 32;
/// A page ends with the record that goes beyond. What a record takes without its arguments is guessed.
const PAGE_BYTES_MAX: usize = 4 << 20;
const RECORD_BYTES: usize = 1024;
/// A rare match in a large store is searched for no longer than this; a filter by time makes it quick.
const SEARCH_MAX: Duration = Duration::from_secs(5);
/// Searches at once; others wait. The store has a few readers, and reviews need them too.
const SEARCHES_MAX: usize = 2;

static SEARCHES: Semaphore = Semaphore::const_new(SEARCHES_MAX);

/// The parameters of the query string.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "read as a `Query`; declared for its schema")]
struct AuditQuery {
    caller: Option<String>,
    tool: Option<String>,
    backend: Option<String>,
    outcome: Option<String>,
    /// RFC 3339, milliseconds since 1970, or how long ago (`15m`).
    since: Option<String>,
    until: Option<String>,
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

impl FromRequest for Query {
    fn schema() -> Option<Schema> {
        Some(schema_of::<AuditQuery>())
    }

    async fn read(exchange: &Exchange<'_>, _: Incoming) -> Result<Self, Fault> {
        let query = exchange.head.uri.query().unwrap_or_default();
        parse(query).map_err(invalid)
    }
}

pub(crate) struct Search;

impl Endpoint for Search {
    type Input = Query;
    type Output = AuditPage;

    async fn handle(exchange: &Exchange<'_>, query: Query) -> Result<AuditPage, Fault> {
        let none = || Fault::new(Kind::NotFound, "this gateway keeps no records");
        let store = control(exchange.server)?.records().ok_or_else(none)?;
        let _turn = SEARCHES.acquire().await;
        page(&*store, query).await.map_err(|error| {
            tracing::warn!("records could not be searched: {error}");
            let text =
                "the audit store does not answer, or had to look for too long: say `since` when";
            Fault::new(Kind::AuditUnavailable, text)
        })
    }
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
            let args = stored.record.args.as_ref();
            bytes += RECORD_BYTES + args.map_or(0, String::len);
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

/// Where the next page begins.
fn end(records: &[Stored]) -> Option<(u64, RecordKey)> {
    let last = records.last()?;
    Some((last.record.at_ms, last.key.clone()))
}

/// What is asked for, in the words of `sentinel audit search`.
fn parse(asked: &str) -> Result<Query, String> {
    let mut query = Query {
        newest: true,
        limit: LIMIT_DEFAULT,
        ..Query::default()
    };
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in form_urlencoded::parse(asked.as_bytes()) {
        if seen.iter().any(|before| *before == name) {
            return Err(format!("`{name}` is there twice"));
        }
        let text = || Some(value.to_string());
        let time = || moment::parse(&value).map_err(|why| format!("`{name}`: {why}"));
        match &*name {
            "caller" => query.caller = text(),
            "tool" => query.operation = text(),
            "backend" => query.backend = text(),
            "outcome" if OUTCOMES.contains(&&*value) => query.outcome = text(),
            "outcome" => {
                let known = OUTCOMES.join(", ");
                return Err(format!("`outcome` is one of: {known}"));
            }
            "since" => query.since_ms = Some(time()?),
            "until" => query.until_ms = Some(time()?),
            "limit" => {
                let limit = value.parse().ok();
                let allowed = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit));
                query.limit = allowed.ok_or(format!("`limit` is 1 to {LIMIT_MAX}"))?;
            }
            "cursor" => {
                let after = place(&value).ok_or("`cursor` is what `next` said, as it was")?;
                query.after = Some(after);
            }
            _ => {
                return Err(format!(
                    "there is no filter `{name}`: use caller, tool, backend, outcome, since, until, limit, cursor"
                ));
            }
        }
        seen.push(name.into_owned());
    }
    Ok(query)
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
    use super::*;

    #[test]
    fn what_is_asked_is_read_or_refused_by_name() {
        let query = parse("caller=a%20b&tool=x+y&since=1000&until=2000&limit=7").expect("good");
        assert_eq!(query.caller.as_deref(), Some("a b"));
        assert_eq!(query.operation.as_deref(), Some("x y"));
        assert_eq!((query.since_ms, query.until_ms), (Some(1000), Some(2000)));
        assert_eq!((query.limit, query.newest), (7, true));
        for (asked, word) in [
            ("limit=0", "1 to 1000"),
            ("limit=1001", "1 to 1000"),
            ("since=soon", "`since`"),
            ("cursor=x", "`next`"),
            ("cursor=1.2.3.%00", "`next`"),
            ("who=me", "`who`"),
            ("outcome=bogus", "success, error, denied"),
            ("outcome=", "success, error, denied"),
            ("caller=a&caller=b", "twice"),
        ] {
            let wrong = parse(asked).expect_err(asked);
            assert!(wrong.contains(word), "{asked}: {wrong}");
        }
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
