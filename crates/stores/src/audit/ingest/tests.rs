//! When ingestion looks, by a clock that jumps ahead whenever everybody waits.

use std::ops::RangeInclusive;

use sentinel_core::audit::{Draft, Guarantee};
use sentinel_core::metrics::Metrics;
use tempfile::TempDir;

use super::super::{MIGRATIONS, SqliteAudit};
use super::*;
use crate::spool::Limits;
use crate::sqlite::{Sqlite, Synchronous};

struct House {
    work: Work,
    metrics: Arc<Metrics>,
    stop: watch::Sender<bool>,
    db: Sqlite,
    _data: TempDir,
}

fn house() -> House {
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
    House {
        work,
        metrics,
        stop,
        db,
        _data: data,
    }
}

impl House {
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
    let mut house = house();
    house.pauses_for(200..=202).await;
    house.calls(Duration::from_millis(250));
    house.pauses_for(400..=404).await;
    house.calls(LONG);
    house.pauses_for(800..=808).await;
    house.pauses_for(800..=808).await;
}

#[tokio::test(start_paused = true)]
async fn p_a04_a_burst_does_not_wait_where_something_would_give_way() {
    let mut house = house();
    house.calls(LONG);
    house.work.recorder.crowded.notify_one();
    house.pauses_for(0..=1).await;
    house.pauses_for(800..=808).await;
    house.work.recorder.append(&Draft {
        guarantee: Guarantee::Memory,
        ..Draft::default()
    });
    house.pauses_for(200..=202).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_does_not_wait_for_a_burst() {
    let mut house = house();
    house.calls(LONG);
    house.stop.send_replace(true);
    house.pauses_for(0..=1).await;
}

/// Whoever verifies at any moment finds no record missing that is merely not announced yet: SQLite counts rows in the
/// order in which they came.
#[tokio::test]
async fn p_a04_gaps_are_announced_before_the_records_behind_them() {
    const GAPS: &str = "SELECT count(*) FROM audit WHERE method = 'audit/gap'";
    const LATE: &str = "SELECT count(*) FROM audit gap JOIN audit record \
        ON record.lane = json_extract(gap.args, '$.lane') AND record.seq > json_extract(gap.args, '$.to_seq') \
        WHERE gap.method = 'audit/gap' AND record.rowid < gap.rowid";
    let mut house = house();
    let recorder = house.work.recorder.clone();
    house.work.lanes = recorder.lanes().map(Lane::of).collect();
    for guarantee in [Guarantee::Memory, Guarantee::Spool] {
        let draft = Draft {
            guarantee,
            ..Draft::default()
        };
        (0..20_000).for_each(|_| recorder.append(&draft));
    }
    while house.work.turn().await != Moved::Nothing {}
    let count = async |sql: &'static str| -> i64 {
        let count = house
            .db
            .read::<_, crate::StoreError, _>(|db| Ok(db.query_row(sql, (), |row| row.get(0))?));
        count.await.unwrap()
    };
    assert_eq!(count(GAPS).await, 2, "of memory and of the spool");
    assert_eq!(count(LATE).await, 0);
}
