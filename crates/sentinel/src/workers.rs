//! The runtime's layout: one single-threaded runtime per core.
//!
//! A connection and everything its requests do stay on one thread, so nothing on the way of a call
//! takes a lock that another core wants or wakes another thread. A relay laid out like this costs
//! 1.07 to 1.17 times nginx; one shared multi-threaded runtime costs 1.31 times.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

/// More workers than this help no relay, and each has pools of its own.
const WORKERS_MAX: usize = 16;

pub(crate) struct Workers {
    handles: Vec<Handle>,
    threads: Vec<thread::JoinHandle<()>>,
    stop: watch::Sender<bool>,
    /// Those whose tasks are gone.
    ended: Arc<AtomicUsize>,
    next: AtomicUsize,
}

/// A worker that does not end in this time is in the middle of something that cannot be interrupted.
const END_MAX: Duration = Duration::from_secs(2);

/// Shorter than what a call waits for at most: its answer, the caller's next request, or a word meanwhile.
const PULSE: Duration = Duration::from_millis(250);

/// Keeps a timer near. One that is set for earlier than all others has the runtime wake itself by a `write`, and among
/// the few timers of a worker that would be every fourth call.
async fn pulse() {
    loop {
        tokio::time::sleep(PULSE).await;
    }
}

/// How many workers this machine wants.
pub(crate) fn count() -> usize {
    thread::available_parallelism()
        .map_or(1, |n| n.get())
        .min(WORKERS_MAX)
}

impl Workers {
    pub(crate) fn start() -> io::Result<Self> {
        let count = count();
        let stop = watch::Sender::new(false);
        let ended = Arc::new(AtomicUsize::new(0));
        let mut handles = Vec::with_capacity(count);
        let mut threads = Vec::with_capacity(count);
        for n in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.spawn(pulse());
            handles.push(runtime.handle().clone());
            let (mut stopped, ended) = (stop.subscribe(), ended.clone());
            let thread = thread::Builder::new().name(format!("worker-{n}"));
            threads.push(thread.spawn(move || {
                runtime.block_on(async { drop(stopped.wait_for(|stop| *stop).await) });
                drop(runtime);
                ended.fetch_add(1, Ordering::Release);
            })?);
        }
        Ok(Self {
            handles,
            threads,
            stop,
            ended,
            next: AtomicUsize::new(0),
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.handles.len()
    }

    pub(crate) fn handle(&self, n: usize) -> &Handle {
        &self.handles[n % self.handles.len()]
    }

    /// The workers in turn.
    pub(crate) fn pick(&self) -> (usize, &Handle) {
        let n = self.next.fetch_add(1, Ordering::Relaxed) % self.handles.len();
        (n, &self.handles[n])
    }

    /// Ends the runtimes from elsewhere; whatever still runs on them is dropped.
    pub(crate) async fn end(&self) {
        self.stop.send_replace(true);
        let all = async {
            while self.ended.load(Ordering::Acquire) < self.handles.len() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(END_MAX, all).await.is_err() {
            tracing::warn!("a worker did not end");
        }
    }

    /// Ends the runtimes; whatever still runs on them is dropped.
    pub(crate) fn stop(self) {
        self.stop.send_replace(true);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}
