//! What audit costs: the same gateway with records and without, in turn and in short windows.
//!
//! Of two equal gateways one may cost a hundredth more than the other for as long as it runs, by where things came to
//! lie in its memory. That is a fifth of what is judged here, so both are started anew several times. Who comes first
//! changes from round to round, and each begins when the records of the one before are in the store: otherwise the
//! gateway without records would pay for bringing in those of the other.

use std::fmt;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use crate::cell::{Cell, Row, Window, warm_up};
use crate::contenders::Stage;
use crate::options::{Contender, Options};

const BOTH: [Contender; 2] = [Contender::Governed, Contender::Unaudited];
/// CPU per call that audit may add, in percent.
const MORE_MAX: f64 = 5.0;
/// The cell that is judged.
const CELL: Cell = Cell {
    callers: 16,
    size: 64,
};
/// What bringing the records of a window in may take, by which the whole is planned.
const INGESTED: Duration = Duration::from_millis(500);
/// Short, so that both of a round meet the same machine; and many.
const WINDOW: Duration = Duration::from_millis(150);
const ROUNDS: usize = 40;
const QUICK_ROUNDS: usize = 10;

fn rounds(options: &Options) -> usize {
    if options.quick { QUICK_ROUNDS } else { ROUNDS }
}

#[derive(Serialize)]
pub(crate) struct Cost {
    cell: String,
    spool_us: f64,
    off_us: f64,
    /// More CPU per call in percent, the median of each sitting.
    sittings: Vec<f64>,
    /// The median of all rounds, and by how much chance may have moved it: the standard error of the sittings' mean.
    more: f64,
    error: f64,
    /// More calls per second in percent, the median of all rounds.
    throughput: f64,
}

pub(crate) fn is_wanted(options: &Options) -> bool {
    options.sittings() > 0 && BOTH.iter().all(|one| options.wants(*one))
}

pub(crate) fn planned(options: &Options) -> Duration {
    if !is_wanted(options) {
        return Duration::ZERO;
    }
    let round = (WINDOW + warm_up(WINDOW)) * BOTH.len() as u32 + INGESTED;
    let start = Duration::from_secs(2);
    (round * rounds(options) as u32 + start) * u32::try_from(options.sittings()).unwrap_or(u32::MAX)
}

pub(crate) async fn cost(options: &Options) -> anyhow::Result<Cost> {
    let mut all = BOTH.map(|_| Vec::new());
    let mut sittings = Vec::new();
    for _ in 0..options.sittings() {
        let stage = Stage::set(options, &BOTH).await?;
        let measured = sitting(&stage, options).await;
        let measured = measured.context("comparing audit on and off")?;
        let [spool, off] = [0, 1].map(|one| Row::of(BOTH[one], &measured[one]));
        sittings.push(percent(spool.cpu_ratio(&off)));
        for (all, some) in all.iter_mut().zip(measured) {
            all.extend(some);
        }
    }
    let [spool, off] = [0, 1].map(|one| Row::of(BOTH[one], &all[one]));
    Ok(Cost {
        cell: CELL.to_string(),
        spool_us: spool.proxy_us,
        off_us: off.proxy_us,
        more: percent(spool.cpu_ratio(&off)),
        error: match sittings.len() {
            1 => spool.cpu_ratio_error(&off) * 100.0,
            _ => standard_error(&sittings),
        },
        throughput: percent(spool.throughput_ratio(&off)),
        sittings,
    })
}

/// The windows of one start of both.
async fn sitting(stage: &Stage, options: &Options) -> anyhow::Result<[Vec<Window>; 2]> {
    let mut windows = [Vec::new(), Vec::new()];
    for round in 0..rounds(options) {
        for turn in [0, 1] {
            let one = (round + turn) % 2;
            stage.ingestion().await?;
            let window = CELL.window(stage, &stage.lanes[one], options, WINDOW);
            windows[one].push(window.await?);
        }
    }
    Ok(windows)
}

fn standard_error(all: &[f64]) -> f64 {
    let len = all.len() as f64;
    let mean = all.iter().sum::<f64>() / len;
    let squares: f64 = all.iter().map(|one| (one - mean).powi(2)).sum();
    (squares / (len - 1.0) / len).sqrt()
}

/// How much more than one a ratio is.
fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cell, more, .. } = self;
        let (spool_us, off_us) = (self.spool_us, self.off_us);
        write!(
            f,
            "audit {cell}: spool {spool_us:.1} us/call, off {off_us:.1} us/call, {more:+.1} ±{:.1} % (bound {MORE_MAX:.0} %); \
             by sitting",
            self.error
        )?;
        for more in &self.sittings {
            write!(f, " {more:+.1}")?;
        }
        write!(f, "; calls a second {:+.1} %", self.throughput)
    }
}
