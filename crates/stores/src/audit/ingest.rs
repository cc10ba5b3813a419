//! From the spool into the store, behind the calls' backs.
//!
//! One thread reads what the lanes hold and inserts it in batches, at least once; the store drops what
//! it has already. While the store is down or hangs the spool grows, nothing else. What is missing is
//! announced by gap records, the chain is tied by anchors, and spools of dead processes are adopted.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sentinel_core::audit::{AuditStore, Record, Sink, StoreFailure, Stored};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::heads::{self, Head};
use super::{ANCHOR, GAP};
use crate::spool::follow::{Batch, Follower, Gap};
use crate::spool::{FileLane, Recorder, orphans};

/// How often new records are looked for, when there were none.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const ANCHOR_EVERY: Duration = Duration::from_secs(1);
const ADOPT_EVERY: Duration = Duration::from_secs(10);
const RETAIN_EVERY: Duration = Duration::from_secs(3600);
/// Between attempts to reach a store that fails, doubling.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Records in one insert: enough to make the statement cheap, few enough for one transaction.
const BATCH_LEN_MAX: usize = 1000;

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
            follower: Follower::new(recorder.file.folder.clone()),
            recorder: recorder.clone(),
            store,
            data_dir: data_dir.to_owned(),
            retention,
            stop: stopped,
            intents: Intents::default(),
            memory_next: 1,
            head: None,
            anchored: true,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("audit-ingest".to_owned())
            .spawn(move || {
                runtime.block_on(work.run());
                finished.send_replace(true);
            })?;
        Ok(Self {
            stop,
            done,
            recorder,
        })
    }

    /// Brings everything into the store within a deadline; gives how many records are left in the
    /// spool, for the next process to adopt.
    pub async fn finish(mut self, deadline: Duration) -> u64 {
        self.recorder.note("audit/end", None);
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

/// Intents whose calls have not ended: their segments stay until they have.
#[derive(Default)]
struct Intents {
    open: BTreeMap<u64, Record>,
    /// Segments that are done with but for these, and their last numbers.
    held: Vec<(u64, u64)>,
    last_seq: u64,
}

impl Intents {
    fn note(&mut self, stored: &Stored) {
        self.last_seq = stored.key.seq;
        if stored.record.outcome == "intent" {
            self.open.insert(stored.key.seq, stored.record.clone());
        } else if stored.record.intent != 0 {
            self.open.remove(&stored.record.intent);
        }
    }
}

struct Work {
    recorder: Arc<Recorder>,
    store: Arc<dyn AuditStore>,
    data_dir: PathBuf,
    retention: Option<Duration>,
    stop: watch::Receiver<bool>,
    follower: Follower,
    intents: Intents,
    memory_next: u64,
    /// The last record of the file lane that the store has.
    head: Option<Head>,
    /// Nothing but anchors came since the last anchor.
    anchored: bool,
}

impl Work {
    async fn run(&mut self) {
        let mut adopt_at = Instant::now();
        let mut retain_at = Instant::now();
        let mut anchor_at = Instant::now() + ANCHOR_EVERY;
        loop {
            let stopping = *self.stop.borrow();
            let moved = self.turn().await;
            if stopping && !moved {
                break;
            }
            if moved {
                continue;
            }
            let now = Instant::now();
            if now >= anchor_at {
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
            tokio::select! {
                () = sleep(LOOK_EVERY) => {}
                _ = self.stop.wait_for(|stop| *stop) => {}
            }
        }
        self.write_head();
        self.recorder.file.remove();
    }

    /// Moves what there is, one batch of each lane; `false` if there was nothing.
    async fn turn(&mut self) -> bool {
        let file = self.recorder.file.clone();
        let live = file.end(self.follower.segment());
        let batch = match self.follower.read(Some(live)) {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!("the audit spool could not be read: {error}");
                Batch::default()
            }
        };
        let from_file = self.deliver_file(&file, batch).await;
        let taken = self.recorder.memory.take(BATCH_LEN_MAX);
        let from_memory = !taken.is_empty();
        if from_memory {
            self.deliver_memory(taken).await;
        }
        from_file || from_memory
    }

    async fn deliver_file(&mut self, file: &FileLane, batch: Batch) -> bool {
        let Batch {
            records,
            gaps,
            finished,
        } = batch;
        let moved = !records.is_empty() || !finished.is_empty();
        for gap in &gaps {
            announce(&self.recorder, gap, "spool");
        }
        for stored in &records {
            self.intents.note(stored);
            self.anchored &= stored.record.method == ANCHOR;
        }
        if let Some(last) = records.last() {
            self.head = Some(Head::new(&last.key, &last.hash));
        }
        if !records.is_empty() {
            self.insert(records).await;
            file.progressed();
        }
        // Their records were in batches before this one.
        for number in finished {
            self.intents.held.push((number, self.intents.last_seq));
        }
        let oldest = self.intents.open.keys().next().copied();
        self.intents.held.retain(|(number, last_seq)| {
            let done = oldest.is_none_or(|oldest| *last_seq < oldest);
            if done {
                file.forget(*number);
            }
            !done
        });
        moved
    }

    async fn deliver_memory(&mut self, records: Vec<Stored>) {
        let lane = self.recorder.memory.lane();
        for stored in &records {
            let seq = stored.key.seq;
            if seq > self.memory_next {
                let gap = Gap {
                    lane,
                    from_seq: self.memory_next,
                    to_seq: seq - 1,
                };
                announce(&self.recorder, &gap, "buffer");
            }
            self.memory_next = seq + 1;
        }
        self.insert(records).await;
    }

    /// Tries until the store has them. Only the end of the process stops it, and then the spool
    /// still has them.
    async fn insert(&self, records: Vec<Stored>) {
        let mut pause = RETRY_MIN;
        let metrics = &self.recorder.metrics.audit;
        for chunk in records.chunks(BATCH_LEN_MAX) {
            loop {
                match self.store.insert(chunk.to_vec()).await {
                    Ok(()) => break,
                    Err(error) => {
                        metrics.ingest_failures.fetch_add(1, Relaxed);
                        if pause == RETRY_MIN {
                            tracing::warn!(
                                "the audit store does not take records, they wait in the spool: {error}"
                            );
                        }
                        sleep(pause).await;
                        pause = (pause * 2).min(RETRY_MAX);
                    }
                }
            }
            metrics.ingested.fetch_add(chunk.len() as u64, Relaxed);
        }
        if pause > RETRY_MIN {
            tracing::info!("the audit store takes records again");
        }
    }

    /// Ties the heads of the lanes together, if anything happened since the last time.
    fn anchor(&mut self) {
        if self.anchored {
            return;
        }
        self.anchored = true;
        self.write_head();
        let heads = heads::read_all(&self.data_dir).unwrap_or_default();
        let args = json!({ "heads": newest(heads) }).to_string();
        self.recorder.note(ANCHOR, Some(&args));
    }

    fn write_head(&self) {
        if let Some(head) = &self.head
            && let Err(error) = heads::write(&self.data_dir, head)
        {
            tracing::warn!("the head of the audit chain could not be noted: {error}");
        }
    }

    async fn adopt(&self) {
        match adopt_all(&self.data_dir, &*self.store, &self.recorder).await {
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

/// Lanes that an anchor names: more would make it as large as the records it ties.
const HEADS_MAX: usize = 16;

fn newest(mut heads: Vec<Head>) -> Vec<Head> {
    heads.sort_by_key(|head| std::cmp::Reverse(head.lane));
    heads.truncate(HEADS_MAX);
    heads
}

fn announce(recorder: &Recorder, gap: &Gap, reason: &str) {
    let count = gap.to_seq + 1 - gap.from_seq;
    recorder.metrics.audit.gaps.fetch_add(1, Relaxed);
    tracing::warn!(
        lane = gap.lane,
        from = gap.from_seq,
        to = gap.to_seq,
        count,
        "audit records are missing"
    );
    let args = json!({
        "lane": gap.lane, "from_seq": gap.from_seq, "to_seq": gap.to_seq, "count": count, "reason": reason,
    });
    recorder.note(GAP, Some(&args.to_string()));
}

/// What was found in spools whose process is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    pub records: u64,
    /// Calls that were begun and whose end nobody knows.
    pub unknown: u64,
}

/// Brings the records of dead processes into the store. What must be said about them goes to the
/// lane of `recorder`. A failure leaves the rest for the next time.
pub async fn adopt_all(
    data_dir: &Path,
    store: &dyn AuditStore,
    recorder: &Recorder,
) -> Result<Adopted, StoreFailure> {
    let mut adopted = Adopted::default();
    for orphan in orphans::adopt(data_dir)? {
        let mut follower = Follower::new(orphan.folder.clone());
        let mut intents = Intents::default();
        let mut head = None;
        let mut gaps = Vec::new();
        loop {
            let batch = follower.read(None)?;
            gaps.extend(batch.gaps);
            let Some(last) = batch.records.last() else {
                break;
            };
            head = Some(Head::new(&last.key, &last.hash));
            for stored in &batch.records {
                intents.note(stored);
            }
            adopted.records += batch.records.len() as u64;
            for chunk in batch.records.chunks(BATCH_LEN_MAX) {
                store.insert(chunk.to_vec()).await?;
            }
        }
        for gap in &gaps {
            announce(recorder, gap, "crash");
        }
        for (seq, record) in &intents.open {
            adopted.unknown += 1;
            let mut draft = record.draft();
            draft.outcome = "unknown";
            draft.kind = "crash";
            draft.intent = *seq;
            recorder.append(&draft);
        }
        if let Some(head) = head {
            heads::write(data_dir, &head)?;
        }
        orphan.remove();
    }
    Ok(adopted)
}
