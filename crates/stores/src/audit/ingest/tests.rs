//! When ingestion looks, by a clock that jumps ahead whenever everybody waits.

use std::ops::RangeInclusive;

use sentinel_core::audit::{Draft, Guarantee, Sink};
use sentinel_core::metrics::Metrics;
use tempfile::TempDir;

use super::super::{MIGRATIONS, SqliteAudit};
use super::*;
use crate::spool::{AtQuota, Limits};
use crate::sqlite::{Sqlite, Synchronous};

struct Setup {
    work: Work,
    metrics: Arc<Metrics>,
    stop: watch::Sender<bool>,
    db: Sqlite,
    _data: TempDir,
}

fn setup() -> Setup {
    let data = TempDir::new().unwrap();
    let path = data.path().join("sentinel.db");
    let db = Sqlite::open(&path, Synchronous::Full, &[MIGRATIONS]).unwrap();
    let metrics = Arc::<Metrics>::default();
    let limits = Limits {
        spool_bytes_max: 1 << 20,
        memory_len_max: 10,
        writers: 1,
    };
    let recorder = Recorder::start(data.path(), limits, metrics.clone()).unwrap();
    let (stop, stopped) = watch::channel(false);
    let work = Work {
        recorder,
        store: Arc::new(SqliteAudit::new(&db)),
        data_dir: data.path().to_owned(),
        retention: None,
        stop: stopped,
        lanes: Vec::new(),
        memory_next: 1,
        memory_head: None,
    };
    Setup {
        work,
        metrics,
        stop,
        db,
        _data: data,
    }
}

impl Setup {
    /// Ten calls a millisecond, for so long.
    fn calls(&self, lasts: Duration) {
        let metrics = self.metrics.clone();
        tokio::spawn(async move {
            let end = Instant::now() + lasts;
            while Instant::now() < end {
                metrics.audit.records.fetch_add(10, Relaxed);
                sleep(Duration::from_millis(1)).await;
            }
        });
    }

    /// In milliseconds.
    async fn pauses_for(&mut self, expected: RangeInclusive<u128>) {
        let began = Instant::now();
        self.work.pause().await;
        let took = began.elapsed().as_millis();
        assert!(expected.contains(&took), "{took} ms");
    }
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn p_a06_records_of_a_burst_wait_for_its_end_but_not_for_long() {
    let mut setup = setup();
    setup.pauses_for(200..=202).await;
    setup.calls(Duration::from_millis(250));
    setup.pauses_for(400..=404).await;
    setup.calls(LONG);
    setup.pauses_for(800..=808).await;
    setup.pauses_for(800..=808).await;
}

#[tokio::test(start_paused = true)]
async fn p_a04_a_burst_does_not_wait_where_something_would_give_way() {
    let mut setup = setup();
    setup.calls(LONG);
    setup.work.recorder.crowded.notify_one();
    setup.pauses_for(0..=1).await;
    setup.pauses_for(800..=808).await;
    setup.work.recorder.append(&Draft {
        guarantee: Guarantee::Memory,
        ..Draft::default()
    });
    setup.pauses_for(200..=202).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_does_not_wait_for_a_burst() {
    let mut setup = setup();
    setup.calls(LONG);
    setup.stop.send_replace(true);
    setup.pauses_for(0..=1).await;
}

impl Setup {
    /// How many gaps were announced, and how many records behind one of them are in the store before that: SQLite counts
    /// rows in the order in which they came.
    async fn gaps(&self) -> (i64, i64) {
        const GAPS: &str = "SELECT count(*) FROM audit WHERE method = 'audit/gap'";
        const LATE: &str = "SELECT count(*) FROM audit gap JOIN audit record \
            ON record.lane = json_extract(gap.args, '$.lane') AND record.seq > json_extract(gap.args, '$.to_seq') \
            WHERE gap.method = 'audit/gap' AND record.rowid < gap.rowid";
        let count = async |sql: &'static str| -> i64 {
            let count = self
                .db
                .read::<_, crate::StoreError, _>(|db| Ok(db.query_row(sql, (), |row| row.get(0))?));
            count.await.unwrap()
        };
        (count(GAPS).await, count(LATE).await)
    }
}

/// Whoever verifies at any moment finds no record missing that is merely not announced yet.
#[tokio::test]
async fn p_a04_gaps_are_announced_before_the_records_behind_them() {
    let mut setup = setup();
    let recorder = setup.work.recorder.clone();
    setup.work.lanes = recorder.lanes().map(Lane::of).collect();
    for guarantee in [Guarantee::Memory, Guarantee::Spool] {
        let draft = Draft {
            guarantee,
            ..Draft::default()
        };
        (0..20_000).for_each(|_| recorder.append(&draft));
    }
    while setup.work.turn().await != Moved::Nothing {}
    assert_eq!(setup.gaps().await, (2, 0), "of memory and of the spool");
}

/// Also in what a dead process left, and where more than one chunk is before the announcement.
#[tokio::test]
async fn p_a04_gaps_of_a_dead_process_are_announced_first() {
    let mut setup = setup();
    let recorder = setup.work.recorder.clone();
    setup.work.lanes = recorder.lanes().map(Lane::of).collect();
    let draft = Draft {
        guarantee: Guarantee::Spool,
        ..Draft::default()
    };
    {
        let quota = (256 << 10, AtQuota::Oldest);
        let root = crate::spool::root(&setup.work.data_dir);
        let (node, metrics) = (recorder.node().into(), setup.metrics.clone());
        let dead =
            FileLane::create(&root, node, quota, metrics, Arc::default(), Arc::default()).unwrap();
        (0..20_000).for_each(|_| drop(dead.append(&draft)));
    }
    // Calls whose guarantee is `sync` were begun and are not brought in yet: several segments of them.
    let args = "x".repeat(10_000);
    let large = Draft {
        args: Some(&args),
        ..draft
    };
    for _ in 0..40 {
        recorder.intend(&large).await.unwrap();
    }
    setup.work.adopt().await;
    assert_eq!(setup.gaps().await, (1, 0));
}
