//! Audit records in SQLite.

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use rusqlite::types::{Null, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, Statement, ToSql, params_from_iter};
use sentinel_core::audit::figures::{Alike, Group, Tallies, TallyQuery};
use sentinel_core::audit::{
    ANCHOR, AuditStore, Batch, Cut, Draft, Entered, Query, Record, RecordKey, StoreFailure, Stored,
};

use super::conditions::{Conditions, Dialect, Value, named, step};
use super::{COLUMNS, beginning, guarantee, matches_nothing, number};
use crate::error::StoreError;
use crate::sqlite::{Migrations, Sqlite, Synchronous};

/// The tables. One index besides the key, since each costs more than the row. Row ids keep insertion order: ordered by
/// key, lanes written in turn would split each other's pages.
pub const MIGRATIONS: Migrations = Migrations {
    component: "audit",
    steps: &["CREATE TABLE audit (
             node TEXT NOT NULL, lane INTEGER NOT NULL, seq INTEGER NOT NULL,
             at_ms INTEGER NOT NULL, request_id TEXT NOT NULL, surface TEXT NOT NULL,
             revision TEXT NOT NULL, caller TEXT NOT NULL, role TEXT NOT NULL, tenant TEXT NOT NULL,
             method TEXT NOT NULL, backend TEXT NOT NULL, operation TEXT NOT NULL,
             decision TEXT NOT NULL, outcome TEXT NOT NULL, kind TEXT NOT NULL,
             latency_us INTEGER NOT NULL, bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL,
             args_digest BLOB, args TEXT, policy_version INTEGER NOT NULL,
             guarantee TEXT NOT NULL, intent INTEGER NOT NULL, hash BLOB NOT NULL,
             PRIMARY KEY (node, lane, seq)
         ) STRICT;
         CREATE INDEX audit_at ON audit (at_ms);
         CREATE TABLE audit_cut (
             node TEXT NOT NULL, lane INTEGER NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL,
             PRIMARY KEY (node, lane)
         ) STRICT, WITHOUT ROWID;"],
};

pub struct SqliteAudit {
    db: Sqlite,
}

impl SqliteAudit {
    /// The database must have been opened with `MIGRATIONS`.
    pub fn new(db: &Sqlite) -> Self {
        Self {
            db: db.with_synchronous(Synchronous::Normal),
        }
    }

    fn search<T: Send + 'static>(
        &self,
        within: Option<Duration>,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreFailure>> {
        async move {
            Ok(match within {
                Some(limit) => self.db.read_within(limit, work).await?,
                None => self.db.read(work).await?,
            })
        }
        .boxed()
    }
}

impl AuditStore for SqliteAudit {
    fn insert(&self, batch: Batch) -> BoxFuture<'_, Result<(), StoreFailure>> {
        let work = move |tx: &Connection| insert(tx, &batch);
        async move { Ok(self.db.write(work).await?) }.boxed()
    }

    fn find(&self, query: Query) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>> {
        self.search(query.within, move |conn| find(conn, &query))
    }

    fn count(&self, query: Query) -> BoxFuture<'_, Result<u64, StoreFailure>> {
        self.search(query.within, move |conn| count(conn, &query))
    }

    fn ends(&self) -> BoxFuture<'_, Result<Vec<RecordKey>, StoreFailure>> {
        self.search(None, ends)
    }

    fn tally(&self, query: TallyQuery) -> BoxFuture<'_, Result<Tallies, StoreFailure>> {
        self.search(Some(query.within), move |conn| tally(conn, &query))
    }

    fn page(
        &self,
        after: Option<RecordKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>> {
        let work = move |conn: &Connection| {
            let after = after.unwrap_or_else(beginning);
            let sql = format!(
                "SELECT {COLUMNS} FROM audit WHERE (node, lane, seq) > (?1, ?2, ?3)
                 ORDER BY node, lane, seq LIMIT ?4"
            );
            let mut rows = conn.prepare_cached(&sql)?;
            let found = rows.query_map(
                (
                    after.node,
                    after.lane,
                    after.seq as i64,
                    number(limit as u64),
                ),
                read,
            )?;
            Ok::<_, StoreError>(found.collect::<Result<_, _>>()?)
        };
        async move { Ok(self.db.read(work).await?) }.boxed()
    }

    fn cuts(&self) -> BoxFuture<'_, Result<Vec<Cut>, StoreFailure>> {
        let work = |conn: &Connection| {
            let mut rows = conn.prepare("SELECT node, lane, seq, hash FROM audit_cut")?;
            let found = rows.query_map([], |row| {
                Ok(Cut {
                    key: key(row)?,
                    hash: hash(row, 3)?.unwrap_or_default(),
                })
            })?;
            Ok::<_, StoreError>(found.collect::<Result<_, _>>()?)
        };
        async move { Ok(self.db.read(work).await?) }.boxed()
    }

    fn retain(&self, since_ms: u64) -> BoxFuture<'_, Result<u64, StoreFailure>> {
        async move {
            let mut gone = 0;
            // One transaction per lane, so that none holds the writer for long.
            for (node, lane) in self.db.read(move |conn| old_lanes(conn, since_ms)).await? {
                let cut = move |tx: &Connection| cut(tx, (&node, lane), since_ms);
                gone += self.db.write(cut).await?;
            }
            Ok(gone)
        }
        .boxed()
    }
}

/// Rows per statement: one descent of the B-tree instead of one per row.
const ROWS: usize = 16;
const COLUMN_COUNT: usize = 25;

static INSERT: LazyLock<String> = LazyLock::new(|| insert_rows(1));
static INSERT_ROWS: LazyLock<String> = LazyLock::new(|| insert_rows(ROWS));

fn insert_rows(rows: usize) -> String {
    let row = format!("({})", vec!["?"; COLUMN_COUNT].join(", "));
    let rows = vec![row; rows].join(", ");
    format!("INSERT INTO audit ({COLUMNS}) VALUES {rows} ON CONFLICT DO NOTHING")
}

fn insert(tx: &Connection, batch: &Batch) -> Result<(), StoreError> {
    let mut several = tx.prepare_cached(&INSERT_ROWS)?;
    let mut bound = [None; ROWS];
    let mut records = batch.records();
    while records.len() >= ROWS {
        for (row, entered) in records.by_ref().take(ROWS).enumerate() {
            bind(&mut several, row, bound[row].as_ref(), batch, &entered)?;
            bound[row] = Some(entered.draft);
        }
        several.raw_execute()?;
    }
    let mut one = tx.prepare_cached(&INSERT)?;
    let mut bound = None;
    for entered in records {
        bind(&mut one, 0, bound.as_ref(), batch, &entered)?;
        bound = Some(entered.draft);
        one.raw_execute()?;
    }
    Ok(())
}

/// Binds a row in the order of `COLUMNS`, only where it differs from the record bound there before: most columns of a
/// busy gateway repeat.
fn bind(
    statement: &mut Statement<'_>,
    row: usize,
    before: Option<&Draft<'_>>,
    batch: &Batch,
    entered: &Entered<'_>,
) -> rusqlite::Result<()> {
    let draft = &entered.draft;
    let at = |column: usize| row * COLUMN_COUNT + column;
    macro_rules! text {
        ($($column:literal $field:ident),*) => {
            $(if before.is_none_or(|before| before.$field != draft.$field) {
                statement.raw_bind_parameter(at($column), draft.$field)?;
            })*
        };
    }
    macro_rules! number {
        ($($column:literal $field:ident),*) => {
            $(if before.is_none_or(|before| before.$field != draft.$field) {
                statement.raw_bind_parameter(at($column), draft.$field as i64)?;
            })*
        };
    }
    if before.is_none() {
        statement.raw_bind_parameter(at(1), &*batch.node)?;
        statement.raw_bind_parameter(at(2), batch.lane)?;
    }
    statement.raw_bind_parameter(at(3), entered.seq as i64)?;
    number!(4 at_ms, 17 latency_us, 18 bytes_in, 19 bytes_out, 22 policy_version, 24 intent);
    text!(5 request_id, 6 surface, 7 revision, 8 caller, 9 role, 10 tenant, 11 method, 12 backend,
        13 operation, 14 decision, 15 outcome, 16 kind);
    if before.is_none_or(|before| before.args_digest != draft.args_digest) {
        match &draft.args_digest {
            Some(digest) => statement.raw_bind_parameter(at(20), &digest[..])?,
            None => statement.raw_bind_parameter(at(20), Null)?,
        }
    }
    if before.is_none_or(|before| before.args != draft.args) {
        match draft.args {
            Some(args) => statement.raw_bind_parameter(at(21), args)?,
            None => statement.raw_bind_parameter(at(21), Null)?,
        }
    }
    if before.is_none_or(|before| before.guarantee != draft.guarantee) {
        statement.raw_bind_parameter(at(23), draft.guarantee.as_str())?;
    }
    statement.raw_bind_parameter(at(25), &entered.hash[..])
}

fn find(conn: &Connection, query: &Query) -> Result<Vec<Stored>, StoreError> {
    if matches_nothing(&query.filter) {
        return Ok(Vec::new());
    }
    let mut conditions = Conditions::of_query(query, &DIALECT);
    let sql = conditions.select(query);
    let mut rows = conn.prepare(&sql)?;
    let found = rows.query_map(params_from_iter(conditions.values), read)?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn count(conn: &Connection, query: &Query) -> Result<u64, StoreError> {
    if matches_nothing(&query.filter) {
        return Ok(0);
    }
    let conditions = Conditions::of_query(query, &DIALECT);
    let mut rows = conn.prepare(&conditions.count())?;
    let count: i64 = rows.query_row(params_from_iter(conditions.values), |row| row.get(0))?;
    Ok(count as u64)
}

const LAST: &str =
    "SELECT node, lane, seq FROM audit ORDER BY node DESC, lane DESC, seq DESC LIMIT 1";
/// The last record of the lane before.
const LAST_BEFORE: &str = "SELECT node, lane, seq FROM audit WHERE (node, lane) < (?1, ?2)
     ORDER BY node DESC, lane DESC, seq DESC LIMIT 1";

/// One descent of the B-tree for each lane.
fn ends(conn: &Connection) -> Result<Vec<RecordKey>, StoreError> {
    let mut before = conn.prepare_cached(LAST_BEFORE)?;
    let mut last = conn.prepare_cached(LAST)?;
    let mut ends = Vec::new();
    let mut end = last.query_row((), key).optional()?;
    while let Some(found) = end {
        end = before
            .query_row((&found.node, found.lane), key)
            .optional()?;
        ends.push(found);
    }
    Ok(ends)
}

fn tally_statement(query: &TallyQuery) -> (String, Vec<Value>) {
    let mut conditions = Conditions::of(&query.filter, &DIALECT);
    conditions.of_calls();
    let (name, backend) = named(query.by);
    let sql = format!(
        "SELECT {name}, {backend}, at_ms, decision, outcome, latency_us, bytes_in, bytes_out
         FROM audit WHERE {}",
        conditions.sql()
    );
    (sql, conditions.values)
}

/// The rows are counted here: grouping them in SQL would sort them.
fn tally(conn: &Connection, query: &TallyQuery) -> Result<Tallies, StoreError> {
    let mut tallies = Tallies::default();
    if matches_nothing(&query.filter) {
        return Ok(tallies);
    }
    let (sql, values) = tally_statement(query);
    let mut rows = conn.prepare(&sql)?;
    let mut rows = rows.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let text = |at: usize| {
            let bytes = row.get_ref(at)?.as_bytes()?;
            Ok::<_, rusqlite::Error>(String::from_utf8_lossy(bytes))
        };
        let number = |at: usize| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.max(0) as u64);
        let (decision, outcome) = (text(3)?, text(4)?);
        let draft = Draft {
            at_ms: number(2)?,
            decision: &decision,
            outcome: &outcome,
            latency_us: number(5)?,
            bytes_in: number(6)?,
            bytes_out: number(7)?,
            ..Draft::default()
        };
        let group = Group {
            at_ms: step(query.by, draft.at_ms),
            name: text(0)?.into_owned(),
            backend: text(1)?.into_owned(),
        };
        tallies.add(group, &Alike::one(&draft));
    }
    Ok(tallies)
}

/// Parameters in their order.
static DIALECT: Dialect = Dialect {
    text: |at| format!("?{at}"),
    number: |at| format!("?{at}"),
    contains: |text, part| format!("instr({text}, {part}) > 0"),
    lower: |text| format!("lower({text})"),
};

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Text(text) => text.to_sql(),
            Self::Number(number) => number.to_sql(),
        }
    }
}

/// Lanes with records older than this.
fn old_lanes(conn: &Connection, since_ms: u64) -> Result<Vec<(String, i64)>, StoreError> {
    let mut rows = conn.prepare("SELECT DISTINCT node, lane FROM audit WHERE at_ms < ?1")?;
    let found = rows.query_map([since_ms as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Cuts a lane at the last anchor before its first record that is young enough; a lane without such a record goes
/// whole. Later records stay, whatever their time, since clocks may be set back.
fn cut(tx: &Connection, (node, lane): (&str, i64), since_ms: u64) -> Result<u64, StoreError> {
    let young: Option<i64> = tx
        .query_row(
            "SELECT seq FROM audit WHERE node = ?1 AND lane = ?2 AND at_ms >= ?3 ORDER BY seq LIMIT 1",
            (node, lane, since_ms as i64),
            |row| row.get(0),
        )
        .optional()?;
    let last: Option<(i64, Vec<u8>)> = tx
        .query_row(
            "SELECT seq, hash FROM audit WHERE node = ?1 AND lane = ?2
                 AND (?3 IS NULL OR (seq < ?3 AND method = ?4))
             ORDER BY seq DESC LIMIT 1",
            (node, lane, young, ANCHOR),
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((seq, hash)) = last else {
        return Ok(0);
    };
    tx.execute(
        "INSERT INTO audit_cut (node, lane, seq, hash) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (node, lane) DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
        (node, lane, seq, hash),
    )?;
    let gone = tx.execute(
        "DELETE FROM audit WHERE node = ?1 AND lane = ?2 AND seq <= ?3",
        (node, lane, seq),
    )?;
    Ok(gone as u64)
}

fn key(row: &Row<'_>) -> rusqlite::Result<RecordKey> {
    Ok(RecordKey {
        node: row.get(0)?,
        lane: row.get(1)?,
        seq: row.get::<_, i64>(2)? as u64,
    })
}

/// A hash of another length is treated as missing: it cannot match.
fn hash(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<[u8; 32]>> {
    let bytes = row.get_ref(at)?.as_blob_or_null()?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let number = |at: usize| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)? as u64);
    // A row that was tampered with is shown as far as possible, without its hash, which cannot match.
    let is_sound = Cell::new(true);
    let text = |at: usize| {
        let bytes = row.get_ref(at)?.as_bytes()?;
        let text = String::from_utf8_lossy(bytes);
        is_sound.set(is_sound.get() && text.as_bytes() == bytes);
        Ok::<_, rusqlite::Error>(text.into_owned())
    };
    let guarantee = guarantee(&text(22)?);
    let digest = hash(row, 19)?;
    let has_digest = row.get_ref(19)? != ValueRef::Null;
    is_sound.set(is_sound.get() && guarantee.is_some() && digest.is_some() == has_digest);
    let record = Record {
        at_ms: number(3)?,
        request_id: text(4)?,
        surface: text(5)?,
        revision: text(6)?,
        caller: text(7)?,
        role: text(8)?,
        tenant: text(9)?,
        method: text(10)?,
        backend: text(11)?,
        operation: text(12)?,
        decision: text(13)?,
        outcome: text(14)?,
        kind: text(15)?,
        latency_us: number(16)?,
        bytes_in: number(17)?,
        bytes_out: number(18)?,
        args_digest: digest,
        args: match row.get_ref(20)? {
            ValueRef::Null => None,
            _ => Some(text(20)?),
        },
        policy_version: number(21)?,
        guarantee: guarantee.unwrap_or_default(),
        intent: number(23)?,
    };
    Ok(Stored {
        key: key(row)?,
        record,
        hash: hash(row, 24)?
            .filter(|_| is_sound.get())
            .unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use sentinel_core::audit::figures::By;
    use sentinel_core::audit::{Filter, Run};

    use super::*;

    /// The plan of a statement, a line for each step.
    fn plan(conn: &Connection, sql: &str, values: &[Value]) -> String {
        let mut rows = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = rows.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
        let steps: Vec<String> = steps.unwrap().map(Result::unwrap).collect();
        steps.join("\n")
    }

    /// Decision 27: there is one index besides the key, and no search reads a range of time by anything else.
    #[test]
    fn ranges_of_time_and_runs_of_lanes_are_read_by_an_index() {
        let conn = Connection::open_in_memory().unwrap();
        MIGRATIONS
            .steps
            .iter()
            .for_each(|step| conn.execute_batch(step).unwrap());
        let filter = Filter {
            caller: Some("ann".to_owned()),
            text: Some("x".to_owned()),
            failed: true,
            since_ms: Some(1),
            until_ms: Some(2),
            ..Filter::default()
        };
        for newest in [true, false] {
            let key = RecordKey {
                node: "n".to_owned(),
                lane: 1,
                seq: 1,
            };
            let query = Query {
                filter: filter.clone(),
                newest,
                after: Some((1, key)),
                limit: 1,
                ..Query::default()
            };
            let mut conditions = Conditions::of_query(&query, &DIALECT);
            let sql = conditions.select(&query);
            let plan = plan(&conn, &sql, &conditions.values);
            assert!(plan.contains("USING INDEX audit_at"), "{plan}");
        }
        let query = TallyQuery {
            filter,
            by: By::Caller,
            within: Duration::ZERO,
        };
        let (sql, values) = tally_statement(&query);
        let by_time = plan(&conn, &sql, &values);
        assert!(by_time.contains("USING INDEX audit_at"), "{by_time}");
        let run = |lane| Run {
            node: "n".to_owned(),
            lane,
            after_seq: 1,
            to_seq: 2,
        };
        let query = Query {
            runs: vec![run(1), run(2)],
            limit: 1,
            ..Query::default()
        };
        let mut conditions = Conditions::of_query(&query, &DIALECT);
        let sql = conditions.select(&query);
        let by_lane = plan(&conn, &sql, &conditions.values);
        assert!(!by_lane.contains("SCAN"), "{by_lane}");
        for sql in [LAST, LAST_BEFORE] {
            let values = [Value::Text("n".to_owned()), Value::Number(1)];
            let plan = plan(&conn, sql, &values[..sql.matches('?').count()]);
            assert!(plan.contains("COVERING INDEX"), "{plan}");
        }
    }
}
