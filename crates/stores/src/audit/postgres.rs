//! Audit records in PostgreSQL.
//!
//! One connection, made when it is needed and dropped when anything goes wrong or takes too long:
//! whoever calls tries again. Nothing here is on the way of a call.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use sentinel_core::audit::{AuditStore, Cut, Key, Query, Record, StoreFailure, Stored};
use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

use super::{ANCHOR, COLUMNS, guarantee};

/// A server that does not answer by then is treated as gone.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Numbered like those of SQLite, in a table of the same shape.
const STEPS: &[&str] = &["CREATE TABLE audit (
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
     );"];

/// Two gateways that start together migrate one after the other.
const MIGRATION_LOCK: i64 = 0x0053_4761_7564_6974;

pub struct PostgresAudit {
    url: String,
    client: Mutex<Option<Client>>,
}

impl PostgresAudit {
    pub fn new(url: String) -> Self {
        Self {
            url,
            client: Mutex::new(None),
        }
    }

    async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreFailure> {
        let mut slot = self.client.lock().await;
        // Taken out while it works: a failure or a time-out leaves none behind.
        let mut client = match slot.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => tokio::time::timeout(CONNECT_MAX, connect(&self.url))
                .await
                .map_err(|_| "connecting to PostgreSQL took too long")??,
        };
        let done = tokio::time::timeout(ANSWER_MAX, work(&mut client))
            .await
            .map_err(|_| "PostgreSQL did not answer in time")??;
        *slot = Some(client);
        Ok(done)
    }
}

async fn connect(url: &str) -> Result<Client, StoreFailure> {
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("the connection to PostgreSQL ended: {error}");
        }
    });
    migrate(&mut client).await?;
    Ok(client)
}

async fn migrate(client: &mut Client) -> Result<(), StoreFailure> {
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK])
        .await?;
    transaction
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS schema_version (
                 component text PRIMARY KEY, version integer NOT NULL)",
        )
        .await?;
    let found = transaction
        .query_opt(
            "SELECT version FROM schema_version WHERE component = 'audit'",
            &[],
        )
        .await?
        .map_or(0, |row| row.get::<_, i32>(0)) as usize;
    if found > STEPS.len() {
        return Err(format!("the audit tables have version {found}, this program is older").into());
    }
    for step in &STEPS[found..] {
        transaction.batch_execute(step).await?;
    }
    transaction
        .execute(
            "INSERT INTO schema_version VALUES ('audit', $1)
             ON CONFLICT (component) DO UPDATE SET version = excluded.version",
            &[&(STEPS.len() as i32)],
        )
        .await?;
    transaction.commit().await?;
    Ok(())
}

impl AuditStore for PostgresAudit {
    fn insert(&self, batch: Vec<Stored>) -> BoxFuture<'_, Result<(), StoreFailure>> {
        self.with(async move |client| {
            let columns = Columns::of(&batch);
            client.execute(INSERT, &columns.params()).await?;
            Ok(())
        })
        .boxed()
    }

    fn find(&self, query: Query) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>> {
        self.with(async move |client| find(client, &query).await)
            .boxed()
    }

    fn page(
        &self,
        after: Option<Key>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>> {
        self.with(async move |client| {
            let (node, lane, seq) = after.map_or((String::new(), 0, 0), |key| {
                (key.node, key.lane, key.seq as i64)
            });
            let sql = format!(
                "SELECT {COLUMNS} FROM audit WHERE (node, lane, seq) > ($1, $2, $3)
                 ORDER BY node, lane, seq LIMIT $4"
            );
            let rows = client
                .query(&sql, &[&node, &lane, &seq, &(limit as i64)])
                .await?;
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

/// Cuts each lane at its last anchor before $1; a lane that ended by then goes whole.
const RETAIN: &str = "WITH last AS (
         SELECT a.node, a.lane, max(a.seq) AS seq FROM audit a
         WHERE a.at_ms < $1 AND (a.method = $2 OR NOT EXISTS (
             SELECT 1 FROM audit b WHERE b.node = a.node AND b.lane = a.lane AND b.at_ms >= $1))
         GROUP BY a.node, a.lane
     ), noted AS (
         INSERT INTO audit_cut (node, lane, seq, hash)
         SELECT l.node, l.lane, l.seq, a.hash FROM last l JOIN audit a USING (node, lane, seq)
         ON CONFLICT (node, lane) DO UPDATE SET seq = excluded.seq, hash = excluded.hash
     ), gone AS (
         DELETE FROM audit a USING last l
         WHERE a.node = l.node AND a.lane = l.lane AND a.seq <= l.seq RETURNING 1
     ) SELECT count(*) FROM gone";

const INSERT: &str = "INSERT INTO audit (node, lane, seq, at_ms, request_id, surface, revision, \
         caller, role, tenant, method, backend, operation, decision, outcome, kind, latency_us, \
         bytes_in, bytes_out, args_digest, args, policy_version, guarantee, intent, hash)
     SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[],
         $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
         $13::text[], $14::text[], $15::text[], $16::text[], $17::bigint[], $18::bigint[],
         $19::bigint[], $20::bytea[], $21::text[], $22::bigint[], $23::text[], $24::bigint[],
         $25::bytea[])
     ON CONFLICT DO NOTHING";

/// A batch turned on its side: one statement for all of it.
struct Columns<'a> {
    texts: Vec<Vec<String>>,
    numbers: Vec<Vec<i64>>,
    digests: Vec<Option<&'a [u8]>>,
    args: Vec<Option<String>>,
    hashes: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a [Stored]) -> Self {
        let text = |get: fn(&Stored) -> &str| -> Vec<String> {
            batch.iter().map(|s| get(s).to_owned()).collect()
        };
        let number = |get: fn(&Stored) -> i64| -> Vec<i64> { batch.iter().map(get).collect() };
        Self {
            texts: vec![
                text(|s| &s.key.node),
                text(|s| &s.record.request_id),
                text(|s| &s.record.surface),
                text(|s| &s.record.revision),
                text(|s| &s.record.caller),
                text(|s| &s.record.role),
                text(|s| &s.record.tenant),
                text(|s| &s.record.method),
                text(|s| &s.record.backend),
                text(|s| &s.record.operation),
                text(|s| &s.record.decision),
                text(|s| &s.record.outcome),
                text(|s| &s.record.kind),
                text(|s| s.record.guarantee.as_str()),
            ],
            numbers: vec![
                number(|s| s.key.lane),
                number(|s| s.key.seq as i64),
                number(|s| s.record.at_ms as i64),
                number(|s| s.record.latency_us as i64),
                number(|s| s.record.bytes_in as i64),
                number(|s| s.record.bytes_out as i64),
                number(|s| s.record.policy_version as i64),
                number(|s| s.record.intent as i64),
            ],
            digests: batch
                .iter()
                .map(|s| s.record.args_digest.as_ref().map(|d| &d[..]))
                .collect(),
            args: batch.iter().map(|s| s.record.args.clone()).collect(),
            hashes: batch.iter().map(|s| &s.hash[..]).collect(),
        }
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let (t, n) = (&self.texts, &self.numbers);
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&t[0], &n[0], &n[1], &n[2]];
        params.extend(t[1..13].iter().map(|column| column as &(dyn ToSql + Sync)));
        params.extend(n[3..6].iter().map(|column| column as &(dyn ToSql + Sync)));
        params.extend([
            &self.digests as &(dyn ToSql + Sync),
            &self.args,
            &n[6],
            &t[13],
            &n[7],
            &self.hashes,
        ]);
        params
    }
}

async fn find(client: &Client, query: &Query) -> Result<Vec<Stored>, tokio_postgres::Error> {
    let order = if query.newest { "DESC" } else { "ASC" };
    let sql = format!(
        "SELECT {COLUMNS} FROM audit
         WHERE ($1::text IS NULL OR caller = $1) AND ($2::text IS NULL OR operation = $2)
           AND ($3::text IS NULL OR backend = $3) AND ($4::text IS NULL OR outcome = $4)
           AND ($5::bigint IS NULL OR at_ms >= $5) AND ($6::bigint IS NULL OR at_ms < $6)
           AND ($7::bigint IS NULL OR (at_ms, node, lane, seq) > ($7, $8::text, $9::bigint, $10::bigint))
         ORDER BY at_ms {order}, node {order}, lane {order}, seq {order} LIMIT $11"
    );
    let ms = |ms: Option<u64>| ms.map(|ms| ms as i64);
    let after = query.after.as_ref();
    let rows = client
        .query(
            &sql,
            &[
                &query.caller,
                &query.operation,
                &query.backend,
                &query.outcome,
                &ms(query.since_ms),
                &ms(query.until_ms),
                &after.map(|(at_ms, _)| *at_ms as i64),
                &after.map(|(_, key)| key.node.clone()),
                &after.map(|(_, key)| key.lane),
                &after.map(|(_, key)| key.seq as i64),
                &(query.limit as i64),
            ],
        )
        .await?;
    rows.iter().map(read).collect()
}

fn key(row: &Row) -> Result<Key, tokio_postgres::Error> {
    Ok(Key {
        node: row.try_get(0)?,
        lane: row.try_get(1)?,
        seq: row.try_get::<_, i64>(2)? as u64,
    })
}

/// A hash of another length is no hash: nothing will match it.
fn hash(row: &Row, at: usize) -> Result<Option<[u8; 32]>, tokio_postgres::Error> {
    let bytes: Option<&[u8]> = row.try_get(at)?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()))
}

fn read(row: &Row) -> Result<Stored, tokio_postgres::Error> {
    let number = |at: usize| Ok::<_, tokio_postgres::Error>(row.try_get::<_, i64>(at)? as u64);
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
        args_digest: hash(row, 19)?,
        args: row.try_get(20)?,
        policy_version: number(21)?,
        guarantee: guarantee(row.try_get(22)?),
        intent: number(23)?,
    };
    Ok(Stored {
        key: key(row)?,
        record,
        hash: hash(row, 24)?.unwrap_or_default(),
    })
}
