//! Moves records from the spool into the store, in the background.
//!
//! One low-priority thread reads the lanes and inserts batches at least once; the store ignores duplicates. While the store
//! is down the spool grows. During a burst of calls ingestion pauses (`BURST_WAIT_MAX`), since records are safe in the
//! spool. Missing records are announced by gap records, lanes are tied together by anchors, and lanes of dead processes
//! are adopted.

mod adoption;
mod gaps;
mod intents;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sentinel_core::audit::{ANCHOR, AuditStore, Batch};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

pub use self::adoption::{Adopted, adopt_all};

use self::adoption::adopt;
use self::gaps::announce;
use self::intents::Intents;
use super::heads::{self, Head};
use crate::spool::follow::{Chunk, Follower, Gap};
use crate::spool::{FileLane, Recorder};

/// Polling interval. Records that arrive in between share a transaction, so a shorter interval costs
/// more per record.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// New records in one interval that count as a burst.
const BURST_LEN_MIN: u64 = 1000;
/// How long ingestion waits for a burst to end.
const BURST_WAIT_MAX: Duration = Duration::from_millis(800);
const ANCHOR_EVERY: Duration = Duration::from_secs(1);
const ADOPT_EVERY: Duration = Duration::from_secs(10);
const RETAIN_EVERY: Duration = Duration::from_secs(3600);
/// Retry backoff of a failing store: doubles from `RETRY_MIN` to `RETRY_MAX`.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Records of the memory lane in one insert, about as many as in a chunk of the spool.
const MEMORY_LEN_MAX: usize = 4096;
/// Niceness of the thread: workers have priority on a busy machine.
const NICENESS: i32 = 10;

/// The running ingestion.
pub struct Ingest {
    stop: watch::Sender<bool>,
    done: watch::Receiver<bool>,
    recorder: Arc<Recorder>,
}

impl Ingest {
    /// Starts the thread. `retention` is how long records are kept; `None` for ever.
    pub fn start(
        recorder: Arc<Recorder>,
        store: Arc<dyn AuditStore>,
        data_dir: &Path,
        retention: Option<Duration>,
    ) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let (finished, done) = watch::channel(false);
        let mut work = Work {
            lanes: recorder.lanes().map(Lane::of).collect(),
            recorder: recorder.clone(),
            store,
            data_dir: data_dir.to_owned(),
            retention,
            stop: stopped,
            memory_next: 1,
            memory_head: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("audit-ingest".to_owned())
            .spawn(move || {
                // On Linux this applies to the thread. A failure only costs priority.
                let _ = rustix::process::setpriority_process(None, NICENESS);
                runtime.block_on(work.run());
                finished.send_replace(true);
            })?;
        Ok(Self {
            stop,
            done,
            recorder,
        })
    }

    /// Drains the spool within a deadline; returns the number of records left for the next process.
    pub async fn finish(mut self, deadline: Duration) -> u64 {
        self.recorder.end();
        self.stop.send_replace(true);
        let done = self.done.wait_for(|done| *done);
        let in_time = matches!(timeout(deadline, done).await, Ok(Ok(_)));
        if in_time {
            0
        } else {
            self.recorder.metrics.audit.backlog()
        }
    }
}

/// The progress of one turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moved {
    Nothing,
    Some,
    /// There is more to read right now.
    More,
}

struct Work {
    recorder: Arc<Recorder>,
    store: Arc<dyn AuditStore>,
    data_dir: PathBuf,
    retention: Option<Duration>,
    stop: watch::Receiver<bool>,
    lanes: Vec<Lane>,
    memory_next: u64,
    memory_head: Option<Head>,
}

/// One lane of the spool and its reading position.
struct Lane {
    file: Arc<FileLane>,
    follower: Follower,
    intents: Intents,
    /// The last record that the store has.
    head: Option<Head>,
    /// Only anchors were written since the last anchor.
    anchored: bool,
}

impl Lane {
    fn of(file: &Arc<FileLane>) -> Self {
        Self {
            file: file.clone(),
            follower: Follower::new(file.folder.clone()),
            intents: Intents::default(),
            head: None,
            anchored: true,
        }
    }

    /// Reads what was written since the last call.
    fn read(&mut self) -> Chunk {
        let live = self.file.end(self.follower.segment());
        self.follower.read(Some(live)).unwrap_or_else(|error| {
            tracing::error!("the audit spool could not be read: {error}");
            Chunk::default()
        })
    }

    /// Releases segments whose records the store has.
    fn forget(&mut self) {
        let oldest = self.intents.open.keys().next().copied();
        self.intents.held.retain(|(number, last_seq)| {
            let done = oldest.is_none_or(|oldest| *last_seq < oldest);
            match done {
                true => self.file.forget(*number),
                false => self.file.stored(*number),
            }
            !done
        });
    }
}

impl Work {
    async fn run(&mut self) {
        let mut adopt_at = Instant::now();
        let mut retain_at = Instant::now();
        let mut anchor_at = Instant::now() + ANCHOR_EVERY;
        loop {
            let stopping = *self.stop.borrow();
            let moved = self.turn().await;
            if stopping && moved == Moved::Nothing {
                break;
            }
            let now = Instant::now();
            // At the next poll it would be late.
            if now + LOOK_EVERY >= anchor_at {
                anchor_at = now + ANCHOR_EVERY;
                self.anchor();
            }
            if now >= adopt_at {
                adopt_at = now + ADOPT_EVERY;
                self.adopt().await;
            }
            if now >= retain_at {
                retain_at = now + RETAIN_EVERY;
                self.retain().await;
            }
            if moved == Moved::More {
                continue;
            }
            self.pause().await;
        }
        self.write_heads();
        self.lanes.iter().for_each(|lane| lane.file.remove());
    }

    /// Waits for the next poll, or for the end of a burst.
    async fn pause(&mut self) {
        let began = Instant::now();
        let mut hurries = false;
        let mut is_burst = true;
        while is_burst && !hurries && began.elapsed() < BURST_WAIT_MAX {
            let before = self.recorder.metrics.audit.records.load(Relaxed);
            hurries = tokio::select! {
                // The memory lane drops its oldest records, so it does not wait.
                () = sleep(LOOK_EVERY) => !self.recorder.memory.is_empty(),
                () = self.recorder.crowded.notified() => true,
                _ = self.stop.wait_for(|stop| *stop) => true,
            };
            let records = self.recorder.metrics.audit.records.load(Relaxed);
            is_burst = records - before >= BURST_LEN_MIN;
        }
    }

    /// Moves one chunk of each lane.
    async fn turn(&mut self) -> Moved {
        let mut from_files = Moved::Nothing;
        for at in 0..self.lanes.len() {
            from_files = from_files.max(self.move_file(at).await);
        }
        let (before, taken) = self.recorder.memory.take(MEMORY_LEN_MAX);
        let from_memory = match taken.len() {
            0 => Moved::Nothing,
            MEMORY_LEN_MAX => Moved::More,
            _ => Moved::Some,
        };
        if !taken.is_empty() {
            self.deliver_memory(before, taken).await;
        }
        from_files.max(from_memory)
    }

    async fn move_file(&mut self, at: usize) -> Moved {
        let chunk = self.lanes[at].read();
        let moved = match (&chunk.records, chunk.more) {
            (_, true) => Moved::More,
            (None, _) if chunk.finished.is_empty() => Moved::Nothing,
            _ => Moved::Some,
        };
        if let Some(said) = announce(&self.recorder, &chunk.gaps, "spool")
            && at + 1 < self.lanes.len()
        {
            self.say_first(said).await;
        }
        let lane = &mut self.lanes[at];
        // Their records were in earlier chunks.
        for number in chunk.finished {
            lane.intents.held.push((number, lane.intents.last_seq));
        }
        if let Some(records) = &chunk.records {
            lane.intents.note(records, chunk.steps);
            lane.anchored &= !chunk.beyond_anchors;
            self.insert(records).await;
            let lane = &mut self.lanes[at];
            lane.head = Head::of(records).or(lane.head.take());
            lane.file.progressed();
        }
        self.lanes[at].forget();
        moved
    }

    /// `before` is the hash before the first record.
    async fn deliver_memory(&mut self, before: [u8; 32], records: Batch) {
        // The ring drops from its front, so the batch itself has no gap.
        let first = records.records().next().map(|entered| entered.seq);
        if let Some(seq) = first.filter(|seq| *seq > self.memory_next) {
            let gap = Gap {
                lane: self.recorder.memory.lane(),
                from_seq: self.memory_next,
                to_seq: seq - 1,
                before: Some(before),
            };
            if let Some(said) = announce(&self.recorder, &[gap], "buffer") {
                self.say_first(said).await;
            }
        }
        self.memory_next = records.last().map_or(self.memory_next, |(seq, _)| seq + 1);
        self.insert(&records).await;
        self.memory_head = Head::of(&records).or(self.memory_head.take());
    }

    /// Ingests the gap record with this number before the records after the gap: a verification in between would find
    /// unannounced missing records. Gap records are in the last lane, which is also verified last.
    async fn say_first(&mut self, said: u64) {
        let last = self.lanes.len() - 1;
        while self.lanes[last].intents.last_seq < said {
            if Box::pin(self.move_file(last)).await == Moved::Nothing {
                return;
            }
        }
    }

    /// Retries until the store has them. If the process ends first, the spool still has them.
    async fn insert(&self, records: &Batch) {
        let mut pause = RETRY_MIN;
        let metrics = &self.recorder.metrics.audit;
        while let Err(error) = self.store.insert(records.clone()).await {
            metrics.ingest_failures.fetch_add(1, Relaxed);
            if pause == RETRY_MIN {
                tracing::warn!(
                    "the audit store does not take records, they wait in the spool: {error}"
                );
            }
            sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
        metrics.ingested.fetch_add(records.len() as u64, Relaxed);
        if pause > RETRY_MIN {
            tracing::info!("the audit store takes records again");
        }
    }

    /// Appends an anchor with the heads of all lanes to each lane that changed since the last one.
    fn anchor(&mut self) {
        if self.lanes.iter().all(|lane| lane.anchored) {
            return;
        }
        self.write_heads();
        let heads = heads::read_all(&self.data_dir).unwrap_or_default();
        let args = json!({ "heads": newest(heads) }).to_string();
        for lane in self.lanes.iter_mut().filter(|lane| !lane.anchored) {
            lane.anchored = true;
            self.recorder.note_in(&lane.file, ANCHOR, Some(&args));
        }
    }

    fn write_heads(&self) {
        let heads = self.lanes.iter().filter_map(|lane| lane.head.as_ref());
        for head in heads.chain(&self.memory_head) {
            if let Err(error) = heads::write(&self.data_dir, head) {
                tracing::warn!("the head of the audit chain could not be noted: {error}");
            }
        }
    }

    async fn adopt(&mut self) {
        let (recorder, store) = (self.recorder.clone(), self.store.clone());
        let data_dir = self.data_dir.clone();
        let say_first = async |said| self.say_first(said).await;
        match adopt(&data_dir, &*store, &recorder, say_first).await {
            Ok(adopted) if adopted.records > 0 => tracing::info!(
                records = adopted.records,
                unknown = adopted.unknown,
                "took over audit records of processes that are gone"
            ),
            Ok(_) => {}
            Err(error) => tracing::warn!("audit records left behind wait for the store: {error}"),
        }
    }

    async fn retain(&self) {
        let Some(retention) = self.retention else {
            return;
        };
        let since = crate::spool::now_ms().saturating_sub(retention.as_millis() as u64);
        match self.store.retain(since).await {
            Ok(0) => {}
            Ok(records) => {
                tracing::info!(records, "audit records older than the retention are gone")
            }
            Err(error) => tracing::warn!("old audit records could not be removed: {error}"),
        }
        heads::sweep(&self.data_dir, retention * 2);
    }
}

/// Lanes named in an anchor; more would make it larger than the records it covers.
const HEADS_MAX: usize = 32;

fn newest(mut heads: Vec<Head>) -> Vec<Head> {
    heads.sort_by_key(|head| std::cmp::Reverse(head.lane));
    heads.truncate(HEADS_MAX);
    heads
}
