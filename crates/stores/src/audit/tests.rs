//! One suite on SQLite and on a real PostgreSQL, and tests of ingestion.

#![allow(clippy::print_stderr, reason = "a test says what it measured")]

mod suite;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use sentinel_core::audit::figures::{Tallies, TallyQuery};
use sentinel_core::audit::{
    ANCHOR, AuditStore, Batch, Cut, Draft, GAP, Guarantee, Query, RecordKey, Sink, StoreFailure,
    Stored,
};
use sentinel_core::metrics::Metrics;
use tempfile::TempDir;

use super::*;
use crate::cluster::Cluster;
use crate::postgres::Postgres;
use crate::spool::{AtQuota, FileLane, Limits, Recorder, root};
use crate::sqlite::{Sqlite, Synchronous};

fn sqlite(folder: &TempDir) -> (Sqlite, Arc<dyn AuditStore>) {
    let path = folder.path().join("sentinel.db");
    let db = Sqlite::open(&path, Synchronous::Full, &[MIGRATIONS]).unwrap();
    let store = Arc::new(SqliteAudit::new(&db));
    (db, store)
}

#[tokio::test]
async fn sqlite_passes_the_suite() {
    let folder = TempDir::new().unwrap();
    let (db, store) = sqlite(&folder);
    let tamper = |sql: &'static str| -> BoxFuture<'static, ()> {
        let db = db.clone();
        async move {
            db.write::<_, crate::StoreError, _>(move |tx| Ok(tx.execute_batch(sql)?))
                .await
                .unwrap();
        }
        .boxed()
    };
    suite::run(&*store, folder.path(), &tamper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_passes_the_suite() {
    let folder = TempDir::new().unwrap();
    let cluster = Cluster::start();
    let db = Postgres::new(&cluster.url(), 4, &[POSTGRES_MIGRATIONS]).unwrap();
    let store = PostgresAudit::new(&db);
    let url = cluster.url();
    let tamper = |sql: &'static str| -> BoxFuture<'static, ()> {
        let url = url.clone();
        async move {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
                .await
                .unwrap();
            let running = tokio::spawn(connection);
            client.batch_execute(sql).await.unwrap();
            drop(client);
            running.await.unwrap().unwrap();
        }
        .boxed()
    };
    suite::run(&store, folder.path(), &tamper).await;
    gives_up(&cluster, &store).await;
}

/// A search that may take so long, and no longer, is ended by the server; the next one works.
async fn gives_up(cluster: &Cluster, store: &PostgresAudit) {
    let (mut holder, connection) = tokio_postgres::connect(&cluster.url(), tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let held = holder.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE audit").await.unwrap();
    let query = Query {
        limit: 1,
        within: Some(Duration::from_millis(100)),
        ..Query::default()
    };
    let began = tokio::time::Instant::now();
    assert!(store.find(query.clone()).await.is_err());
    assert!(began.elapsed() < Duration::from_secs(5));
    held.rollback().await.unwrap();
    let query = Query {
        within: Some(Duration::from_secs(20)),
        ..query
    };
    assert_eq!(store.find(query).await.unwrap(), []);
}

/// Records that are verified; `make faults` says a million.
fn many() -> u64 {
    let said = std::env::var("SENTINEL_VERIFY_RECORDS").ok();
    said.map_or(20_000, |text| text.parse().unwrap())
}

#[tokio::test]
async fn p_a05_many_records_verify_within_ten_seconds_a_million() {
    let folder = TempDir::new().unwrap();
    let (_, store) = sqlite(&folder);
    let records = suite::lane(2, many(), None);
    for some in records.chunks(5_000) {
        store.insert(Batch::of(some)).await.unwrap();
    }
    let began = tokio::time::Instant::now();
    let verdict = verify(&*store, folder.path()).await.unwrap();
    let took = began.elapsed();
    assert_eq!((verdict.records, verdict.broken.len()), (many(), 0));
    eprintln!("P-A05: {} records verified in {took:?}", verdict.records);
    // Without optimization, and with others on the machine, several times as long.
    let each = if cfg!(debug_assertions) { 200 } else { 10 };
    assert!(took <= Duration::from_micros(each * many()), "{took:?}");
}

/// A store that can be switched off, and then fails or hangs.
struct Moody {
    inner: Arc<dyn AuditStore>,
    up: AtomicBool,
}

impl AuditStore for Moody {
    fn insert(&self, batch: Batch) -> BoxFuture<'_, Result<(), StoreFailure>> {
        if self.up.load(Ordering::Relaxed) {
            self.inner.insert(batch)
        } else {
            async { Err("down".into()) }.boxed()
        }
    }
    fn find(&self, query: Query) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>> {
        self.inner.find(query)
    }
    fn count(&self, query: Query) -> BoxFuture<'_, Result<u64, StoreFailure>> {
        self.inner.count(query)
    }
    fn ends(&self) -> BoxFuture<'_, Result<Vec<RecordKey>, StoreFailure>> {
        self.inner.ends()
    }
    fn tally(&self, query: TallyQuery) -> BoxFuture<'_, Result<Tallies, StoreFailure>> {
        self.inner.tally(query)
    }
    fn page(
        &self,
        after: Option<RecordKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Stored>, StoreFailure>> {
        self.inner.page(after, limit)
    }
    fn cuts(&self) -> BoxFuture<'_, Result<Vec<Cut>, StoreFailure>> {
        self.inner.cuts()
    }
    fn retain(&self, since_ms: u64) -> BoxFuture<'_, Result<u64, StoreFailure>> {
        self.inner.retain(since_ms)
    }
}

struct Setup {
    data: TempDir,
    store: Arc<Moody>,
    metrics: Arc<Metrics>,
}

impl Setup {
    fn new() -> Self {
        let data = TempDir::new().unwrap();
        let (_, inner) = sqlite(&data);
        Self {
            data,
            store: Arc::new(Moody {
                inner,
                up: AtomicBool::new(true),
            }),
            metrics: Arc::default(),
        }
    }

    fn recorder(&self, spool_bytes_max: u64, memory_len_max: usize) -> Arc<Recorder> {
        self.recorder_of(1, spool_bytes_max, memory_len_max)
    }

    fn recorder_of(
        &self,
        writers: usize,
        spool_bytes_max: u64,
        memory_len_max: usize,
    ) -> Arc<Recorder> {
        let limits = Limits {
            spool_bytes_max,
            memory_len_max,
            writers,
        };
        Recorder::start(self.data.path(), limits, self.metrics.clone()).unwrap()
    }

    fn ingest(&self, recorder: &Arc<Recorder>) -> Ingest {
        Ingest::start(recorder.clone(), self.store.clone(), self.data.path(), None).unwrap()
    }

    async fn ids(&self) -> Vec<u64> {
        let all = self.store.page(None, 1_000_000).await.unwrap();
        let ids = all.iter().filter_map(|s| s.record.request_id.parse().ok());
        let mut ids: Vec<u64> = ids.collect();
        ids.sort_unstable();
        ids
    }
}

fn record(recorder: &Recorder, id: u64, guarantee: Guarantee) {
    recorder.append(&Draft {
        at_ms: crate::spool::now_ms(),
        request_id: &id.to_string(),
        outcome: "success",
        guarantee,
        ..Draft::default()
    });
}

#[tokio::test]
async fn p_a01_records_wait_for_a_store_that_is_down_and_arrive_once() {
    let setup = Setup::new();
    setup.store.up.store(false, Ordering::Relaxed);
    let recorder = setup.recorder_of(3, 64 << 20, 10);
    let ingest = setup.ingest(&recorder);
    // More threads than lanes, so some share one.
    std::thread::scope(|scope| {
        for part in 0..5 {
            let recorder = &recorder;
            scope.spawn(move || {
                (part * 1000..(part + 1) * 1000)
                    .for_each(|id| record(recorder, id, Guarantee::Spool));
            });
        }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(setup.ids().await.is_empty());
    setup.store.up.store(true, Ordering::Relaxed);
    assert_eq!(ingest.finish(Duration::from_secs(20)).await, 0);
    assert_eq!(setup.ids().await, (0..5000).collect::<Vec<_>>());
    assert_eq!(
        verify(&*setup.store, setup.data.path())
            .await
            .unwrap()
            .broken,
        []
    );
}

#[tokio::test]
async fn p_a03_another_process_adopts_what_a_dead_one_left() {
    let setup = Setup::new();
    let dead = setup.recorder_of(2, 64 << 20, 10);
    (0..3000).for_each(|id| record(&dead, id, Guarantee::Spool));
    // One call had begun and nobody knows how it ended; another has its record.
    for id in [7000, 7001] {
        let id = id.to_string();
        let intent = Draft {
            request_id: &id,
            outcome: "intent",
            guarantee: Guarantee::Sync,
            ..Draft::default()
        };
        let seq = dead.intend(&intent).await.unwrap();
        if id == "7001" {
            let done = Draft {
                outcome: "success",
                intent: seq,
                ..intent
            };
            // A call may end on another thread than it began on.
            std::thread::scope(|scope| drop(scope.spawn(|| dead.append(&done))));
        }
    }
    drop(dead);
    let living = setup.recorder(64 << 20, 10);
    // The fsync thread of the dead one holds its lock for one more turn.
    let mut found = Adopted::default();
    let adopted = loop {
        let adopted = adopt_all(setup.data.path(), &*setup.store, &living)
            .await
            .unwrap();
        found.records += adopted.records;
        found.unknown += adopted.unknown;
        // Its two lanes may be let go one after the other.
        if found.records >= 3004 {
            break found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((adopted.records, adopted.unknown), (3004, 1));
    let ingest = setup.ingest(&living);
    assert_eq!(ingest.finish(Duration::from_secs(20)).await, 0);
    let all = setup.store.page(None, 1_000_000).await.unwrap();
    let unknown: Vec<_> = all
        .iter()
        .filter(|s| s.record.outcome == "unknown")
        .collect();
    assert_eq!(unknown.len(), 1);
    assert_eq!(unknown[0].record.request_id, "7000");
    assert_eq!(
        verify(&*setup.store, setup.data.path())
            .await
            .unwrap()
            .broken,
        []
    );
}

#[tokio::test]
async fn p_a04_what_memory_and_spool_lose_is_announced_and_verifies() {
    let setup = Setup::new();
    setup.store.up.store(false, Ordering::Relaxed);
    let recorder = setup.recorder(512 * 1024, 100);
    let ingest = setup.ingest(&recorder);
    (0..20_000).for_each(|id| record(&recorder, id, Guarantee::Spool));
    (100_000..101_000).for_each(|id| record(&recorder, id, Guarantee::Memory));
    setup.store.up.store(true, Ordering::Relaxed);
    assert_eq!(ingest.finish(Duration::from_secs(20)).await, 0);
    let kept = setup.ids().await.len() as u64;
    let verdict = verify(&*setup.store, setup.data.path()).await.unwrap();
    assert_eq!(verdict.broken, []);
    assert!(verdict.announced > 0);
    let dropped = setup.metrics.audit.dropped.load(Ordering::Relaxed);
    assert_eq!(kept + dropped, 21_000);
    // Memory's first loss has no earlier record of its lane before it, but is announced all the same.
    let all = setup.store.page(None, 1_000_000).await.unwrap();
    let gaps = all.iter().filter(|s| s.record.method == GAP).count();
    assert!((2..=3).contains(&gaps), "{gaps} gap records");
}

/// P-A05: what memory and spool lost does not make the next record anybody's to write.
#[tokio::test]
async fn p_a05_the_record_behind_a_loss_cannot_be_altered() {
    let setup = Setup::new();
    let (db, _) = sqlite(&setup.data);
    setup.store.up.store(false, Ordering::Relaxed);
    let recorder = setup.recorder(512 * 1024, 100);
    let ingest = setup.ingest(&recorder);
    (0..20_000).for_each(|id| record(&recorder, id, Guarantee::Spool));
    (100_000..101_000).for_each(|id| record(&recorder, id, Guarantee::Memory));
    setup.store.up.store(true, Ordering::Relaxed);
    assert_eq!(ingest.finish(Duration::from_secs(20)).await, 0);
    let broken = async || {
        let verdict = verify(&*setup.store, setup.data.path()).await.unwrap();
        verdict.broken
    };
    let set_caller = async |caller: &'static str, lane: i64, seq: i64| {
        let sql = "UPDATE audit SET caller = ?1 WHERE lane = ?2 AND seq = ?3";
        let changed = db
            .write::<_, crate::StoreError, _>(move |tx| Ok(tx.execute(sql, (caller, lane, seq))?))
            .await
            .unwrap();
        assert_eq!(changed, 1);
    };
    assert_eq!(broken().await, []);
    let all = setup.store.page(None, 1_000_000).await.unwrap();
    let gaps: Vec<_> = all.iter().filter(|s| s.record.method == GAP).collect();
    assert!(gaps.len() >= 2, "of the spool and of memory: {gaps:?}");
    for gap in gaps {
        let args: serde_json::Value =
            serde_json::from_str(gap.record.args.as_deref().unwrap()).unwrap();
        let lane = args["lane"].as_i64().unwrap();
        let seq = args["to_seq"].as_i64().unwrap() + 1;
        set_caller("eve", lane, seq).await;
        let told = broken().await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0].key.lane, told[0].key.seq as i64), (lane, seq));
        set_caller("", lane, seq).await;
    }
    assert_eq!(broken().await, []);
}

/// P-A05: the notes of how far lanes came may be removed along with records; what is left tells.
#[tokio::test]
async fn p_a05_removed_heads_and_whole_lanes_are_told() {
    let setup = Setup::new();
    let (db, _) = sqlite(&setup.data);
    let recorder = setup.recorder_of(2, 64 << 20, 10);
    let ingest = setup.ingest(&recorder);
    // Two threads, so that two lanes have records; each is tied to the other by an anchor.
    let lanes = || async {
        let all = setup.store.page(None, 1_000_000).await.unwrap();
        let anchors = all.iter().filter(|s| s.record.method == ANCHOR);
        let tied = anchors.filter_map(|anchor| {
            let args: serde_json::Value =
                serde_json::from_str(anchor.record.args.as_deref()?).ok()?;
            let named = args["heads"]
                .as_array()?
                .iter()
                .filter_map(|h| h["lane"].as_i64());
            Some((anchor.key.lane, named.collect::<Vec<_>>()))
        });
        tied.collect::<Vec<_>>()
    };
    let began = tokio::time::Instant::now();
    let (tying, tied) = loop {
        std::thread::scope(|scope| {
            for part in 0..4 {
                let recorder = &recorder;
                scope.spawn(move || record(recorder, part, Guarantee::Spool));
            }
        });
        let found = lanes().await.into_iter().find_map(|(lane, named)| {
            let other = named.into_iter().find(|other| *other != lane)?;
            Some((lane, other))
        });
        if let Some(found) = found {
            break found;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "no anchor ties two lanes"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(ingest.finish(Duration::from_secs(20)).await, 0);
    let data = setup.data.path();
    let broken = || async { verify(&*setup.store, data).await.unwrap().broken };
    assert_eq!(broken().await, []);

    // The notes alone: nobody can say whether the newest records are all there.
    let heads = data.join("audit/heads");
    let aside = data.join("aside");
    std::fs::rename(&heads, &aside).unwrap();
    let told = broken().await;
    assert!(told.iter().any(|b| b.key.lane == tying), "{told:?}");
    assert!(
        told.iter().all(|b| b.reason.contains("note of its end")),
        "{told:?}"
    );
    std::fs::rename(&aside, &heads).unwrap();

    // A whole lane and its note: the anchors of the other one name it.
    let note = std::fs::read_dir(&heads)
        .unwrap()
        .flatten()
        .map(|e| e.path());
    let note = note.filter(|path| path.to_string_lossy().contains(&tied.to_string()));
    note.for_each(|path| std::fs::remove_file(path).unwrap());
    db.write::<_, crate::StoreError, _>(move |tx| {
        Ok(tx.execute_batch(&format!("DELETE FROM audit WHERE lane = {tied}"))?)
    })
    .await
    .unwrap();
    let told = broken().await;
    let first = told
        .iter()
        .find(|b| b.key.lane == tied)
        .expect("it is told");
    assert_eq!(first.key.seq, 1, "{told:?}");
    assert!(first.reason.starts_with("missing up to"), "{told:?}");
}

/// P-A03: one that cannot be read keeps nobody from the others, and waits.
#[tokio::test]
async fn p_a03_a_spool_that_cannot_be_read_keeps_nobody_from_the_others() {
    let setup = Setup::new();
    let root = root(setup.data.path());
    let plain = Draft {
        guarantee: Guarantee::Spool,
        ..Draft::default()
    };
    let folders = [1, 2, 3].map(|_| {
        let lane = FileLane::create(
            &root,
            "n".into(),
            (1 << 20, AtQuota::Oldest),
            Arc::default(),
            Arc::default(),
            Arc::default(),
        )
        .unwrap();
        for _ in 0..10 {
            lane.append(&plain).unwrap();
        }
        lane.folder.clone()
    });
    let segment = folders[0].join("00000001.seg");
    fs::rename(&segment, folders[0].join("aside")).unwrap();
    fs::create_dir(&segment).unwrap();
    let living = setup.recorder(64 << 20, 10);
    let adopt = || adopt_all(setup.data.path(), &*setup.store, &living);
    adopt().await.unwrap_err();
    assert_eq!(setup.store.page(None, 100).await.unwrap().len(), 20);
    assert_eq!(folders.each_ref().map(|f| f.exists()), [true, false, false]);
    fs::remove_dir(&segment).unwrap();
    fs::rename(folders[0].join("aside"), &segment).unwrap();
    assert_eq!(adopt().await.unwrap().records, 10);
    assert_eq!(setup.store.page(None, 100).await.unwrap().len(), 30);
}
