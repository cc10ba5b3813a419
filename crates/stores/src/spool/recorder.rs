//! The audit sink: chooses the lane by the record's guarantee, and runs the fsync thread.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;
use sentinel_core::audit::{Draft, Guarantee, NotKept, Sink, Surface};
use sentinel_core::metrics::Metrics;
use tokio::sync::{Notify, oneshot};

use super::complaints::Complaints;
use super::{AtQuota, FileLane, MemoryLane, node_id, root};

/// Interval of fsyncs: what a power failure may lose.
const SYNC_EVERY: Duration = Duration::from_millis(200);
/// Intents waiting for one fsync; more calls than this never run at once.
const WAITERS_MAX: usize = 16_384;

/// Lanes of one process; further threads share them.
const WRITERS_MAX: usize = 64;
/// Minimum quota of a lane, a handful of segments; with less, threads share lanes.
const LANE_BYTES_MIN: u64 = 512 * 1024;

/// Bounds, from the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `audit.spool_max_mb`.
    pub spool_bytes_max: u64,
    /// `audit.buffer`.
    pub memory_len_max: usize,
    /// Worker threads, each with its own lane.
    pub writers: usize,
}

static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    static THREAD: usize = NEXT_THREAD.fetch_add(1, Relaxed);
}

pub struct Recorder {
    /// One per worker thread, to avoid lock contention; never empty.
    files: Vec<Arc<FileLane>>,
    /// For intents of `sync` calls, their completions and gap records: separate, so that no load displaces them.
    promised: Arc<FileLane>,
    pub(crate) memory: MemoryLane,
    pub(crate) metrics: Arc<Metrics>,
    waiters: Arc<Mutex<Vec<Waiter>>>,
    wake: SyncSender<()>,
    complaints: Arc<Complaints>,
    /// Notified when a lane has little room left.
    pub(crate) crowded: Arc<Notify>,
}

type Waiter = oneshot::Sender<Result<(), String>>;

impl Recorder {
    /// Creates the lanes of this process and starts the fsync thread.
    pub fn start(data_dir: &Path, limits: Limits, metrics: Arc<Metrics>) -> io::Result<Arc<Self>> {
        let node: Arc<str> = node_id(data_dir)?.into();
        let room = limits.spool_bytes_max / LANE_BYTES_MIN;
        let lanes_max = room.saturating_sub(1).clamp(1, WRITERS_MAX as u64);
        let writers = limits.writers.clamp(1, lanes_max as usize);
        let quota = limits.spool_bytes_max / (writers as u64 + 1);
        let complaints = Arc::new(Complaints::default());
        let crowded = Arc::new(Notify::new());
        let lane = |at_quota| {
            let quota = (quota, at_quota);
            let (metrics, complaints) = (metrics.clone(), complaints.clone());
            let root = root(data_dir);
            FileLane::create(
                &root,
                node.clone(),
                quota,
                metrics,
                complaints,
                crowded.clone(),
            )
            .map(Arc::new)
        };
        let files = (0..writers)
            .map(|_| lane(AtQuota::Oldest))
            .collect::<io::Result<Vec<_>>>()?;
        let promised = lane(AtQuota::Nothing)?;
        let memory = MemoryLane::new(
            node.clone(),
            files[0].lane() + 1,
            limits.memory_len_max,
            metrics.clone(),
        );
        let (wake, woken) = sync_channel(1);
        let waiters = Arc::new(Mutex::new(Vec::new()));
        {
            let (mut files, waiters) = (files.clone(), waiters.clone());
            files.push(promised.clone());
            std::thread::Builder::new()
                .name("audit-fsync".to_owned())
                .spawn(move || keep_syncing(&files, &waiters, &woken))?;
        }
        metrics.audit.enabled.store(1, Relaxed);
        let this = Arc::new(Self {
            files,
            promised,
            memory,
            metrics,
            waiters,
            wake,
            complaints,
            crowded,
        });
        this.note("audit/start", None);
        Ok(this)
    }

    pub fn node(&self) -> &str {
        &self.files[0].node
    }

    /// All lanes that are files.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Arc<FileLane>> {
        self.files.iter().chain([&self.promised])
    }

    /// The lane for a record. An intent and its completion share a lane, whichever threads write them.
    fn file(&self, draft: &Draft<'_>) -> &Arc<FileLane> {
        match draft.intent {
            0 => self.here(),
            _ => &self.promised,
        }
    }

    /// The lane of this thread.
    fn here(&self) -> &Arc<FileLane> {
        &self.files[THREAD.with(|thread| *thread) % self.files.len()]
    }

    /// Appends a record of the audit itself.
    pub(crate) fn note(&self, method: &str, args: Option<&str>) {
        self.note_in(self.here(), method, args);
    }

    /// The same in the lane of gap records, where nothing is dropped; returns its number.
    pub(crate) fn announce(&self, method: &str, args: &str) -> Option<u64> {
        self.note_in(&self.promised, method, Some(args))
    }

    /// Appends the final record, also to each lane that ends with lost records: a later number reveals them.
    pub(crate) fn end(&self) {
        self.note("audit/end", None);
        let loose = self.lanes().filter(|lane| lane.has_loose_end());
        for lane in loose {
            self.note_in(lane, "audit/end", None);
        }
    }

    /// The same in a given lane.
    pub(crate) fn note_in(&self, lane: &FileLane, method: &str, args: Option<&str>) -> Option<u64> {
        let noted = lane.append(&Draft {
            at_ms: now_ms(),
            surface: Surface::Gateway.as_str(),
            method,
            args,
            decision: "allow",
            outcome: "success",
            guarantee: Guarantee::Spool,
            ..Draft::default()
        });
        noted.inspect_err(|error| self.complaints.about(error)).ok()
    }
}

impl Sink for Recorder {
    fn append(&self, draft: &Draft<'_>) {
        if draft.guarantee == Guarantee::Memory {
            self.memory.append(draft);
        } else if let Err(error) = self.file(draft).append(draft) {
            self.complaints.about(&error);
        }
    }

    fn intend(&self, draft: &Draft<'_>) -> BoxFuture<'static, Result<u64, NotKept>> {
        let refuse = |why: String| ready(Err(NotKept(why))).boxed();
        let file = &self.promised;
        if file.is_full() {
            return refuse("the spool is full (audit.spool_max_mb)".to_owned());
        }
        let seq = match file.append(draft) {
            Ok(seq) => seq,
            Err(error) => return refuse(error.to_string()),
        };
        let (done, synced) = oneshot::channel();
        {
            let mut waiters = self.waiters.lock();
            if waiters.len() >= WAITERS_MAX {
                return refuse("too many records wait for the disk".to_owned());
            }
            waiters.push(done);
        }
        let _ = self.wake.try_send(());
        async move {
            match synced.await {
                Ok(Ok(())) => Ok(seq),
                Ok(Err(error)) => Err(NotKept(error)),
                Err(_) => Err(NotKept("the gateway is going down".to_owned())),
            }
        }
        .boxed()
    }
}

/// Ends when the recorder is gone.
fn keep_syncing(files: &[Arc<FileLane>], waiters: &Mutex<Vec<Waiter>>, woken: &Receiver<()>) {
    let mut failing = false;
    loop {
        let gone = woken.recv_timeout(SYNC_EVERY) == Err(RecvTimeoutError::Disconnected);
        // Taken before the fsync: later ones wait for the next.
        let waiting = std::mem::take(&mut *waiters.lock());
        let synced = files.iter().try_for_each(|file| file.sync());
        let synced = synced.map_err(|error| error.to_string());
        if let Err(error) = &synced
            && !failing
        {
            tracing::error!("the audit spool could not be made durable: {error}");
        }
        failing = synced.is_err();
        for waiter in waiting {
            let _ = waiter.send(synced.clone());
        }
        if gone {
            return;
        }
    }
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}
