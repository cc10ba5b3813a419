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
    _data: TempDir,
}

fn house() -> House {
    let data = TempDir::new().unwrap();
    let path = data.path().join("sentinel.db");
    let db = Sqlite::open(&path, Synchronous::Full, &[MIGRATIONS]).unwrap();
    let metrics = Arc::<Metrics>::default();
    let limits = Limits {
        spool_bytes_max: 64 << 20,
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
