//! One cell of the table: so many callers, so large results, every contender in turn.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::contenders::{Lane, Stage};
use crate::load::{self, Caller};
use crate::options::{Contender, Options};
use crate::usage;

/// A call that takes longer is a failure, not a slow one.
const PATIENCE: Duration = Duration::from_secs(10);

/// The threads that bring audit records into the store, behind the calls' backs.
pub(crate) const INGESTING: [&str; 2] = ["audit-ingest", "sqlite-writer"];

#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) callers: usize,
    pub(crate) size: usize,
}

/// The figures of one contender, medians over its windows.
#[derive(Serialize, Clone)]
pub(crate) struct Row {
    pub(crate) contender: &'static str,
    pub(crate) calls: usize,
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// CPU microseconds per call of what stands between caller and backend, without `ingest_us`.
    pub(crate) proxy_us: f64,
    /// CPU microseconds per call of the threads that bring audit records into the store.
    pub(crate) ingest_us: f64,
    pub(crate) backend_us: f64,
    pub(crate) generator_us: f64,
    /// Largest resident set of the proxy's processes in any window.
    pub(crate) peak_kb: u64,
    /// `proxy_us` and `per_second` of each round.
    #[serde(skip)]
    rounds: Vec<(f64, f64)>,
}

impl Row {
    pub(crate) fn of(contender: Contender, windows: &[Window]) -> Self {
        let median = |figure: fn(&Window) -> f64| median(windows.iter().map(figure).collect());
        Self {
            contender: contender.name(),
            calls: windows.iter().map(|window| window.calls).sum(),
            per_second: median(|window| window.per_second),
            p50_us: median(|window| window.p50_us),
            p99_us: median(|window| window.p99_us),
            proxy_us: median(|window| window.proxy_us),
            ingest_us: median(|window| window.ingest_us),
            backend_us: median(|window| window.backend_us),
            generator_us: median(|window| window.generator_us),
            peak_kb: windows
                .iter()
                .map(|window| window.peak_kb)
                .max()
                .unwrap_or_default(),
            rounds: windows.iter().map(|w| (w.proxy_us, w.per_second)).collect(),
        }
    }

    /// CPU per call as a multiple of the other's: the median of what each round says. A machine that is slower in
    /// one minute than in the next is so for both of a round.
    pub(crate) fn cpu_ratio(&self, other: &Self) -> f64 {
        median(self.ratios(other))
    }

    /// By how much chance may have moved that: the standard error of the median, by the middle half of the rounds.
    pub(crate) fn cpu_ratio_error(&self, other: &Self) -> f64 {
        let mut ratios = self.ratios(other);
        ratios.sort_by(f64::total_cmp);
        let (quarter, rounds) = (ratios.len() / 4, ratios.len());
        let middle = ratios[rounds - 1 - quarter] - ratios[quarter];
        // Of a normal distribution it is 1.35 deviations wide, and a median errs by 1.25 of them over the root.
        1.25 * middle / 1.35 / (rounds as f64).sqrt()
    }

    fn ratios(&self, other: &Self) -> Vec<f64> {
        let rounds = self.rounds.iter().zip(&other.rounds);
        rounds.map(|(ours, theirs)| ours.0 / theirs.0).collect()
    }

    /// Calls per second as a multiple of the other's.
    pub(crate) fn throughput_ratio(&self, other: &Self) -> f64 {
        let rounds = self.rounds.iter().zip(&other.rounds);
        median(rounds.map(|(ours, theirs)| ours.1 / theirs.1).collect())
    }
}

pub(crate) struct Window {
    calls: usize,
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    proxy_us: f64,
    ingest_us: f64,
    backend_us: f64,
    generator_us: f64,
    peak_kb: u64,
}

#[derive(Default)]
struct Phase {
    recording: AtomicBool,
    over: AtomicBool,
}

impl Cell {
    pub(crate) async fn measure(
        self,
        stage: &Stage,
        options: &Options,
    ) -> anyhow::Result<Vec<Row>> {
        let mut windows: Vec<Vec<Window>> = stage.lanes.iter().map(|_| Vec::new()).collect();
        for _ in 0..options.rounds() {
            for (lane, windows) in stage.lanes.iter().zip(&mut windows) {
                let measured = self.window(stage, lane, options, options.window()).await;
                windows.push(measured.with_context(|| lane.contender.name())?);
            }
        }
        let lanes = stage.lanes.iter().zip(&windows);
        Ok(lanes
            .map(|(lane, windows)| Row::of(lane.contender, windows))
            .collect())
    }

    pub(crate) async fn window(
        self,
        stage: &Stage,
        lane: &Lane,
        options: &Options,
        window: Duration,
    ) -> anyhow::Result<Window> {
        let text = load::text(self.size);
        // All of them connect before the first one calls: a handshake behind the load would take long.
        let mut waiting = Vec::with_capacity(self.callers);
        for _ in 0..self.callers {
            let opening = Caller::open(
                lane.address,
                lane.contender.speech(options.era),
                lane.token.as_deref(),
                text.clone(),
            );
            let caller = tokio::time::timeout(PATIENCE, opening)
                .await
                .context("the handshake takes too long")??;
            waiting.push(caller);
        }
        let crew = stage.crew(lane);
        let me = [std::process::id()];
        let sample = || {
            [
                usage::cpu_ns(&crew.proxy),
                usage::cpu_ns(&crew.backend),
                usage::cpu_ns(&me),
                usage::threads_ns(&crew.proxy, &INGESTING),
            ]
        };
        let begin = || {
            usage::reset_peak(&crew.proxy);
            (sample(), 0)
        };
        let end = || (sample(), usage::status_kb(&crew.proxy, "VmHWM"));
        let driven = drive(waiting, window, begin, end).await?;
        let (elapsed, mut latencies) = (driven.elapsed, driven.latencies);
        let ((before, _), (after, peak_kb)) = (driven.before, driven.after);
        let calls = latencies.len();
        let used =
            |which: usize| after[which].saturating_sub(before[which]) as f64 / 1e3 / calls as f64;
        Ok(Window {
            calls,
            per_second: calls as f64 / elapsed.as_secs_f64(),
            p50_us: quantile(&mut latencies, 0.5),
            p99_us: quantile(&mut latencies, 0.99),
            proxy_us: used(0) - used(3),
            ingest_us: used(3),
            backend_us: used(1),
            generator_us: used(2),
            peak_kb,
        })
    }
}

/// What a window under load saw.
pub(crate) struct Driven<S> {
    /// Of the measured calls, in nanoseconds; there is at least one.
    pub(crate) latencies: Vec<u64>,
    pub(crate) elapsed: Duration,
    pub(crate) before: S,
    pub(crate) after: S,
}

/// Lets these call for a while; `begin` and `end` sample what is used, around the part that is measured.
pub(crate) async fn drive<S>(
    waiting: Vec<Caller>,
    window: Duration,
    begin: impl FnOnce() -> S,
    end: impl FnOnce() -> S,
) -> anyhow::Result<Driven<S>> {
    let phase = Arc::new(Phase::default());
    let mut callers = JoinSet::new();
    for caller in waiting {
        callers.spawn(keep_calling(caller, phase.clone()));
    }
    tokio::time::sleep(warm_up(window)).await;
    let before = begin();
    let since = Instant::now();
    phase.recording.store(true, Ordering::Relaxed);
    tokio::time::sleep(window).await;
    phase.recording.store(false, Ordering::Relaxed);
    let elapsed = since.elapsed();
    let after = end();
    phase.over.store(true, Ordering::Relaxed);

    let mut latencies = Vec::new();
    while let Some(caller) = callers.join_next().await {
        latencies.extend(caller.context("a caller panicked")??);
    }
    ensure!(
        !latencies.is_empty(),
        "not one call ended within the window"
    );
    Ok(Driven {
        latencies,
        elapsed,
        before,
        after,
    })
}

/// Calls until the window is over; returns the latencies of the measured calls in nanoseconds.
async fn keep_calling(mut caller: Caller, phase: Arc<Phase>) -> anyhow::Result<Vec<u64>> {
    let mut latencies = Vec::with_capacity(4096);
    while !phase.over.load(Ordering::Relaxed) {
        let since = Instant::now();
        tokio::time::timeout(PATIENCE, caller.call())
            .await
            .context("a call takes too long")??;
        if phase.recording.load(Ordering::Relaxed) {
            latencies.push(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }
    tokio::time::timeout(PATIENCE, caller.close())
        .await
        .context("the farewell takes too long")??;
    Ok(latencies)
}

fn quantile(nanoseconds: &mut [u64], q: f64) -> f64 {
    let at = ((nanoseconds.len() - 1) as f64 * q).round() as usize;
    *nanoseconds.select_nth_unstable(at).1 as f64 / 1e3
}

/// Time under load before a window is measured.
pub(crate) fn warm_up(window: Duration) -> Duration {
    window / 6
}

pub(crate) fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    if all.len().is_multiple_of(2) {
        f64::midpoint(all[middle - 1], all[middle])
    } else {
        all[middle]
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            size if size >= 1 << 20 && size.is_multiple_of(1 << 20) => {
                write!(f, "{}MB", size >> 20)?
            }
            size if size >= 1 << 10 && size.is_multiple_of(1 << 10) => {
                write!(f, "{}KB", size >> 10)?
            }
            size => write!(f, "{size}B")?,
        }
        write!(f, " x{}", self.callers)
    }
}
