//! What audit costs: the same gateway with records and without, in turn.
//!
//! Of two equal gateways one may cost a hundredth more than the other for as long as it runs, by where things came to
//! lie in its memory. That is a fifth of what is judged here, so both are started anew several times. Who comes first
//! changes from round to round, and each begins when the records of the one before are in the store: otherwise the
//! gateway without records would pay for bringing in those of the other.
//!
//! Ingestion waits for the end of a burst (`stores::audit::Ingest`), so short windows say what records cost the calls
//! they are about, which is judged; ingestion is reported apart. Under a load that lasts it runs beside the calls, and
//! what they lose by that neighbour is in the windows that are longer than it waits.

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

/// How calls come.
struct Load {
    name: &'static str,
    window: Duration,
    /// Of each sitting.
    rounds: usize,
    quick_rounds: usize,
    more_max: Option<f64>,
}

const LOADS: [Load; 2] = [
    // Short, so that both of a round meet the same machine; and many.
    Load {
        name: "in bursts",
        window: Duration::from_millis(150),
        rounds: 40,
        quick_rounds: 10,
        more_max: Some(MORE_MAX),
    },
    Load {
        name: "without a pause",
        window: Duration::from_millis(2500),
        rounds: 2,
        quick_rounds: 2,
        more_max: None,
    },
];

impl Load {
    fn rounds(&self, options: &Options) -> usize {
        if options.quick {
            self.quick_rounds
        } else {
            self.rounds
        }
    }

    fn planned(&self, options: &Options) -> Duration {
        let round = (self.window + warm_up(self.window)) * BOTH.len() as u32 + INGESTED;
        round * self.rounds(options) as u32
    }

    /// The windows of one start of both.
    async fn sitting(&self, stage: &Stage, options: &Options) -> anyhow::Result<[Vec<Window>; 2]> {
        let mut windows = [Vec::new(), Vec::new()];
        for round in 0..self.rounds(options) {
            for turn in [0, 1] {
                let one = (round + turn) % 2;
                stage.ingestion().await?;
                let window = CELL.window(stage, &stage.lanes[one], options, self.window);
                windows[one].push(window.await?);
            }
        }
        Ok(windows)
    }
}

#[derive(Serialize)]
pub(crate) struct Cost {
    cell: String,
    load: &'static str,
    more_max: Option<f64>,
    spool_us: f64,
    off_us: f64,
    /// More CPU per call in percent, the median of each sitting.
    sittings: Vec<f64>,
    /// The mean of these, and by how much chance may have moved it: its standard error.
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
    let start = Duration::from_secs(2);
    let all: Duration = LOADS.iter().map(|load| load.planned(options)).sum();
    (all + start) * u32::try_from(options.sittings()).unwrap_or(u32::MAX)
}

/// What audit costs under each load.
pub(crate) async fn costs(options: &Options) -> anyhow::Result<Vec<Cost>> {
    let mut all = LOADS.map(|_| Vec::new());
    for _ in 0..options.sittings() {
        let stage = Stage::set(options, &BOTH).await?;
        for (load, all) in LOADS.iter().zip(&mut all) {
            let windows = load.sitting(&stage, options).await;
            all.push(windows.context("comparing audit on and off")?);
        }
    }
    let loads = LOADS.iter().zip(all);
    Ok(loads.map(|(load, all)| Cost::of(load, all)).collect())
}

impl Cost {
    fn of(load: &Load, sittings: Vec<[Vec<Window>; 2]>) -> Self {
        let rows = |windows: [&[Window]; 2]| [0, 1].map(|one| Row::of(BOTH[one], windows[one]));
        let ratio = |[spool, off]: [Row; 2]| percent(spool.cpu_ratio(&off));
        let by_sitting: Vec<f64> = sittings
            .iter()
            .map(|[spool, off]| ratio(rows([spool, off])))
            .collect();
        let mut all = [Vec::new(), Vec::new()];
        for sitting in sittings {
            for (all, some) in all.iter_mut().zip(sitting) {
                all.extend(some);
            }
        }
        let [spool, off] = rows([&all[0], &all[1]]);
        Self {
            cell: CELL.to_string(),
            load: load.name,
            more_max: load.more_max,
            spool_us: spool.proxy_us,
            off_us: off.proxy_us,
            more: mean(&by_sitting),
            error: match by_sitting.len() {
                1 => spool.cpu_ratio_error(&off) * 100.0,
                _ => standard_error(&by_sitting),
            },
            throughput: percent(spool.throughput_ratio(&off)),
            sittings: by_sitting,
        }
    }
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len() as f64
}

fn standard_error(all: &[f64]) -> f64 {
    let (len, mean) = (all.len() as f64, mean(all));
    let squares: f64 = all.iter().map(|one| (one - mean).powi(2)).sum();
    (squares / (len - 1.0) / len).sqrt()
}

/// How much more than one a ratio is.
fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cell, load, more, ..
        } = self;
        let (spool_us, off_us) = (self.spool_us, self.off_us);
        write!(
            f,
            "audit {cell} {load}: spool {spool_us:.1} us/call, off {off_us:.1} us/call, {more:+.1} ±{:.1} %",
            self.error
        )?;
        if let Some(most) = self.more_max {
            write!(f, " (bound {most:.0} %)")?;
        }
        write!(f, "; by sitting")?;
        for more in &self.sittings {
            write!(f, " {more:+.1}")?;
        }
        write!(f, "; calls a second {:+.1} %", self.throughput)
    }
}
