//! Audit records in PostgreSQL. Not on the hot path of a call.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::{BoxFuture, FutureExt, ready};
use sentinel_core::audit::figures::{
    Alike, By, Ended, Group, LATENCY_BOUNDS_US, Tallies, TallyQuery,
};
use sentinel_core::audit::{
    ANCHOR, AuditStore, Batch, Cut, Draft, Entered, Query, Record, RecordKey, StoreFailure, Stored,
};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Transaction};

use super::conditions::{Conditions, Dialect, Value, named};
use super::{COLUMNS, beginning, guarantee, matches_nothing, number};
use crate::error::StoreError;
use crate::postgres::Postgres;
use crate::sqlite::Migrations;

/// The tables, like those of SQLite.
pub const POSTGRES_MIGRATIONS: Migrations = Migrations {
    component: "audit",
    steps: &["CREATE TABLE audit (
         node text NOT NULL, lane bigint NOT NULL, seq bigint NOT NULL,
         at_ms bigint NOT NULL, request_id text NOT NULL, surface text NOT NULL,
         revision text NOT NULL, caller text NOT NULL, role text NOT NULL, tenant text NOT NULL,
         method text NOT NULL, backend text NOT NULL, operation text NOT NULL,
         decision text NOT NULL, outcome text NOT NULL, kind text NOT NULL,
         latency_us bigint NOT NULL, bytes_in bigint NOT NULL, bytes_out bigint NOT NULL,
         args_digest bytea, args text, policy_version bigint NOT NULL,
         guarantee text NOT NULL, intent bigint NOT NULL, hash bytea NOT NULL,
         PRIMARY KEY (node, lane, seq)
     );
     CREATE INDEX audit_at ON audit (at_ms);
     CREATE TABLE audit_cut (
         node text NOT NULL, lane bigint NOT NULL, seq bigint NOT NULL, hash bytea NOT NULL,
         PRIMARY KEY (node, lane)
     );"],
};

pub struct PostgresAudit {
    db: Postgres,
}

impl PostgresAudit {
    /// The database must have been opened with `POSTGRES_MIGRATIONS`.
    pub fn new(db: &Postgres) -> Self {
        Self { db: db.clone() }
    }

    async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreFailure> {
        let done = self
            .db
            .with(async |client: &mut Client| Ok::<_, StoreError>(work(client).await?));
        Ok(done.await?)
    }
}

impl AuditStore for PostgresAudit {
    fn insert(&self, batch: Batch) -> BoxFuture<'_, Result<(), StoreFailure>> {
        self.with(async move |client| {
            let records: Vec<Entered<'_>> = batch.records().collect();
            let columns = Columns::of(&batch, &records);
            client.execute(INSERT, &columns.params()).await?;
            Ok(())
        })
        .boxed()
    }

    fn find(&self, query: Query) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>> {
        if matches_nothing(&query.filter) {
            return ready(Ok(Vec::new())).boxed();
        }
        self.with(async move |client| {
            let Some(limit) = query.within else {
                return find(client, &query).await;
            };
            let looking = bounded(client, limit).await?;
            find(looking.client(), &query).await
        })
        .boxed()
    }

    fn count(&self, query: Query) -> BoxFuture<'_, Result<u64, StoreFailure>> {
        if matches_nothing(&query.filter) {
            return ready(Ok(0)).boxed();
        }
        self.with(async move |client| {
            let Some(limit) = query.within else {
                return count(client, &query).await;
            };
            let looking = bounded(client, limit).await?;
            count(looking.client(), &query).await
        })
        .boxed()
    }

    fn ends(&self) -> BoxFuture<'_, Result<Vec<RecordKey>, StoreFailure>> {
        self.with(async |client| {
            let rows = client.query(ENDS, &[]).await?;
            rows.iter().map(key).collect()
        })
        .boxed()
    }

    fn tally(&self, query: TallyQuery) -> BoxFuture<'_, Result<Tallies, StoreFailure>> {
        if matches_nothing(&query.filter) {
            return ready(Ok(Tallies::default())).boxed();
        }
        self.with(async move |client| {
            let looking = bounded(client, query.within).await?;
            tally(looking.client(), &query).await
        })
        .boxed()
    }

    fn page(
        &self,
        after: Option<RecordKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>> {
        self.with(async move |client| {
            let RecordKey { node, lane, seq } = after.unwrap_or_else(beginning);
            let (seq, limit) = (seq as i64, number(limit as u64));
            let sql = format!(
                "SELECT {COLUMNS} FROM audit WHERE (node, lane, seq) > ($1, $2, $3)
                 ORDER BY node, lane, seq LIMIT $4"
            );
            let rows = client.query(&sql, &[&node, &lane, &seq, &limit]).await?;
            rows.iter().map(read).collect()
        })
        .boxed()
    }

    fn cuts(&self) -> BoxFuture<'_, Result<Vec<Cut>, StoreFailure>> {
        self.with(async |client| {
            let rows = client
                .query("SELECT node, lane, seq, hash FROM audit_cut", &[])
                .await?;
            rows.iter()
                .map(|row| {
                    Ok(Cut {
                        key: key(row)?,
                        hash: hash(row, 3)?.unwrap_or_default(),
                    })
                })
                .collect()
        })
        .boxed()
    }

    fn retain(&self, since_ms: u64) -> BoxFuture<'_, Result<u64, StoreFailure>> {
        self.with(async move |client| {
            client
                .query_one(RETAIN, &[&(since_ms as i64), &ANCHOR])
                .await
        })
        .map(|row| Ok(row?.try_get::<_, i64>(0)? as u64))
        .boxed()
    }
}

/// A transaction whose statements the server ends itself, even if the caller has left.
async fn bounded(
    client: &mut Client,
    limit: Duration,
) -> Result<Transaction<'_>, tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    let bound = format!("SET LOCAL statement_timeout = {}", limit.as_millis().max(1));
    transaction.batch_execute(&bound).await?;
    Ok(transaction)
}

/// Cuts each lane at the last anchor before its first record from $1 or later; a lane without such a record goes
/// whole. Later records stay, whatever their time, since clocks may be set back.
const RETAIN: &str = "WITH old AS (
         SELECT DISTINCT node, lane FROM audit WHERE at_ms < $1
     ), first AS (
         SELECT o.node, o.lane, (
             SELECT a.seq FROM audit a WHERE a.node = o.node AND a.lane = o.lane AND a.at_ms >= $1
             ORDER BY a.seq LIMIT 1) AS young FROM old o
     ), last AS (
         SELECT f.node, f.lane, max(a.seq) AS seq FROM first f JOIN audit a USING (node, lane)
         WHERE f.young IS NULL OR (a.seq < f.young AND a.method = $2)
         GROUP BY f.node, f.lane
     ), noted AS (
         INSERT INTO audit_cut (node, lane, seq, hash)
         SELECT l.node, l.lane, l.seq, a.hash FROM last l JOIN audit a USING (node, lane, seq)
         ON CONFLICT (node, lane) DO UPDATE SET seq = excluded.seq, hash = excluded.hash
     ), gone AS (
         DELETE FROM audit a USING last l
         WHERE a.node = l.node AND a.lane = l.lane AND a.seq <= l.seq RETURNING 1
     ) SELECT count(*) FROM gone";

/// Node and lane are the same for the whole batch.
const INSERT: &str = "INSERT INTO audit (node, lane, seq, at_ms, request_id, surface, revision, \
         caller, role, tenant, method, backend, operation, decision, outcome, kind, latency_us, \
         bytes_in, bytes_out, args_digest, args, policy_version, guarantee, intent, hash)
     SELECT $1::text, $2::bigint, * FROM unnest($3::bigint[], $4::bigint[], $5::text[],
         $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
         $13::text[], $14::text[], $15::text[], $16::text[], $17::bigint[], $18::bigint[],
         $19::bigint[], $20::bytea[], $21::text[], $22::bigint[], $23::text[], $24::bigint[],
         $25::bytea[])
     ON CONFLICT DO NOTHING";

/// A batch as columns, for a single statement.
struct Columns<'a> {
    node: &'a str,
    lane: i64,
    texts: Vec<Vec<&'a str>>,
    numbers: Vec<Vec<i64>>,
    digests: Vec<Option<&'a [u8]>>,
    args: Vec<Option<&'a str>>,
    hashes: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a Batch, records: &'a [Entered<'a>]) -> Self {
        let text = |get: fn(&Draft<'a>) -> &'a str| -> Vec<&'a str> {
            records.iter().map(|entered| get(&entered.draft)).collect()
        };
        let number = |get: fn(&Entered<'a>) -> u64| records.iter().map(|e| get(e) as i64).collect();
        Self {
            node: &batch.node,
            lane: batch.lane,
            texts: vec![
                text(|d| d.request_id),
                text(|d| d.surface),
                text(|d| d.revision),
                text(|d| d.caller),
                text(|d| d.role),
                text(|d| d.tenant),
                text(|d| d.method),
                text(|d| d.backend),
                text(|d| d.operation),
                text(|d| d.decision),
                text(|d| d.outcome),
                text(|d| d.kind),
                text(|d| d.guarantee.as_str()),
            ],
            numbers: vec![
                number(|e| e.seq),
                number(|e| e.draft.at_ms),
                number(|e| e.draft.latency_us),
                number(|e| e.draft.bytes_in),
                number(|e| e.draft.bytes_out),
                number(|e| e.draft.policy_version),
                number(|e| e.draft.intent),
            ],
            digests: records
                .iter()
                .map(|e| e.draft.args_digest.as_ref().map(|d| &d[..]))
                .collect(),
            args: records.iter().map(|e| e.draft.args).collect(),
            hashes: records.iter().map(|e| &e.hash[..]).collect(),
        }
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let (t, n) = (&self.texts, &self.numbers);
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.node, &self.lane, &n[0], &n[1]];
        params.extend(t[..12].iter().map(|column| column as &(dyn ToSql + Sync)));
        params.extend(n[2..5].iter().map(|column| column as &(dyn ToSql + Sync)));
        params.extend([
            &self.digests as &(dyn ToSql + Sync),
            &self.args,
            &n[5],
            &t[12],
            &n[6],
            &self.hashes,
        ]);
        params
    }
}

async fn find(client: &Client, query: &Query) -> Result<Vec<Stored>, tokio_postgres::Error> {
    let mut conditions = Conditions::of_query(query, &DIALECT);
    let sql = conditions.select(query);
    let rows = client.query(&sql, &params(&conditions.values)).await?;
    rows.iter().map(read).collect()
}

async fn count(client: &Client, query: &Query) -> Result<u64, tokio_postgres::Error> {
    let conditions = Conditions::of_query(query, &DIALECT);
    let params = params(&conditions.values);
    let row = client.query_one(&conditions.count(), &params).await?;
    Ok(row.try_get::<_, i64>(0)? as u64)
}

/// The last record of each lane: one descent of the index for each.
const ENDS: &str = "WITH RECURSIVE ends AS (
         (SELECT node, lane, seq FROM audit ORDER BY node DESC, lane DESC, seq DESC LIMIT 1)
         UNION ALL
         SELECT earlier.* FROM ends CROSS JOIN LATERAL (
             SELECT a.node, a.lane, a.seq FROM audit a
             WHERE (a.node, a.lane) < (ends.node, ends.lane)
             ORDER BY a.node DESC, a.lane DESC, a.seq DESC LIMIT 1) earlier
     ) SELECT node, lane, seq FROM ends";

/// Counted by the server: a row for the calls of a group that ended alike and took about as long.
async fn tally(client: &Client, query: &TallyQuery) -> Result<Tallies, tokio_postgres::Error> {
    let mut conditions = Conditions::of(&query.filter, &DIALECT);
    conditions.of_calls();
    let (name, backend) = named(query.by);
    let step = match query.by {
        By::Time(step_ms) => {
            let step = conditions.bind(Value::Number(number(step_ms.max(1))));
            format!("at_ms - at_ms % {step}")
        }
        _ => "0::bigint".to_owned(),
    };
    let bounds: Vec<i64> = LATENCY_BOUNDS_US.iter().map(|us| number(*us) + 1).collect();
    let classes = format!("${}::bigint[]", conditions.values.len() + 1);
    let sql = format!(
        "SELECT {name}, {backend}, {step}, decision, outcome, width_bucket(latency_us, {classes}),
             count(*), max(latency_us), sum(bytes_in)::bigint, sum(bytes_out)::bigint, max(at_ms)
         FROM audit WHERE {} GROUP BY 1, 2, 3, 4, 5, 6",
        conditions.sql()
    );
    let mut all = params(&conditions.values);
    all.push(&bounds);
    let mut tallies = Tallies::default();
    let mut rows = pin!(client.query_raw(&sql, all).await?);
    while let Some(row) = rows.try_next().await? {
        let number =
            |at: usize| Ok::<_, tokio_postgres::Error>(row.try_get::<_, i64>(at)?.max(0) as u64);
        let group = Group {
            name: row.try_get(0)?,
            backend: row.try_get(1)?,
            at_ms: number(2)?,
        };
        let alike = Alike {
            ended: Ended::of(row.try_get(3)?, row.try_get(4)?),
            class: row.try_get::<_, i32>(5)?.max(0) as usize,
            calls: number(6)?,
            max_us: number(7)?,
            bytes_in: number(8)?,
            bytes_out: number(9)?,
            last_at_ms: number(10)?,
        };
        tallies.add(group, &alike);
    }
    Ok(tallies)
}

/// Parameters have their types in the text, for an expression of parameters alone has none.
static DIALECT: Dialect = Dialect {
    text: |at| format!("${at}::text"),
    number: |at| format!("${at}::bigint"),
    contains: |text, part| format!("strpos({text}, {part}) > 0"),
    lower: |text| format!("lower({text} COLLATE \"C\")"),
};

fn params(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    let one: fn(&Value) -> &(dyn ToSql + Sync) = |value| match value {
        Value::Text(text) => text,
        Value::Number(number) => number,
    };
    values.iter().map(one).collect()
}

fn key(row: &Row) -> Result<RecordKey, tokio_postgres::Error> {
    Ok(RecordKey {
        node: row.try_get(0)?,
        lane: row.try_get(1)?,
        seq: row.try_get::<_, i64>(2)? as u64,
    })
}

/// A hash of another length is treated as missing: it cannot match.
fn hash(row: &Row, at: usize) -> Result<Option<[u8; 32]>, tokio_postgres::Error> {
    let bytes: Option<&[u8]> = row.try_get(at)?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()))
}

fn read(row: &Row) -> Result<Stored, tokio_postgres::Error> {
    let number = |at: usize| Ok::<_, tokio_postgres::Error>(row.try_get::<_, i64>(at)? as u64);
    // A row that was tampered with is shown as far as possible, without its hash, which cannot match.
    let guarantee = guarantee(row.try_get(22)?);
    let digest = hash(row, 19)?;
    let has_digest = row.try_get::<_, Option<&[u8]>>(19)?.is_some();
    let is_sound = guarantee.is_some() && digest.is_some() == has_digest;
    let record = Record {
        at_ms: number(3)?,
        request_id: row.try_get(4)?,
        surface: row.try_get(5)?,
        revision: row.try_get(6)?,
        caller: row.try_get(7)?,
        role: row.try_get(8)?,
        tenant: row.try_get(9)?,
        method: row.try_get(10)?,
        backend: row.try_get(11)?,
        operation: row.try_get(12)?,
        decision: row.try_get(13)?,
        outcome: row.try_get(14)?,
        kind: row.try_get(15)?,
        latency_us: number(16)?,
        bytes_in: number(17)?,
        bytes_out: number(18)?,
        args_digest: digest,
        args: row.try_get(20)?,
        policy_version: number(21)?,
        guarantee: guarantee.unwrap_or_default(),
        intent: number(23)?,
    };
    Ok(Stored {
        key: key(row)?,
        record,
        hash: hash(row, 24)?.filter(|_| is_sound).unwrap_or_default(),
    })
}
