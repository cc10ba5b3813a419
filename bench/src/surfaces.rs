//! What a call costs over REST and JSON-RPC, beside the same call over MCP 2026-07-28.
//!
//! Each surface has a gateway of its own in front of the same backend, and their windows take turns: a slow moment of the
//! machine hits all three.

use std::fmt;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use crate::cell::{Cell, Row, Window, warm_up};
use crate::contenders::Stage;
use crate::options::{Contender, Era, Options};

pub(crate) const ALL: [Contender; 3] = [Contender::Mcp, Contender::Rest, Contender::Rpc];
/// CPU per call as a multiple of MCP's.
const RATIO_MAX: f64 = 1.15;
/// The cell that is judged.
const CELL: Cell = Cell {
    callers: 16,
    size: 64,
};
const WINDOW: Duration = Duration::from_millis(200);
const ROUNDS: usize = 30;
const QUICK_ROUNDS: usize = 10;

fn rounds(options: &Options) -> usize {
    if options.quick { QUICK_ROUNDS } else { ROUNDS }
}

pub(crate) fn planned(options: &Options) -> Duration {
    if !options.wants_surfaces() {
        return Duration::ZERO;
    }
    (WINDOW + warm_up(WINDOW)) * (ALL.len() * rounds(options)) as u32
}

/// A surface beside MCP.
#[derive(Serialize)]
pub(crate) struct Beside {
    cell: String,
    surface: &'static str,
    us: f64,
    mcp_us: f64,
    ratio: f64,
    /// By how much chance may have moved the ratio.
    error: f64,
}

pub(crate) async fn costs(options: &Options) -> anyhow::Result<Vec<Beside>> {
    let mut options = options.clone();
    options.era = Era::Modern;
    let stage = Stage::set(&options, &ALL).await.context("the surfaces")?;
    let mut windows: [Vec<Window>; ALL.len()] = Default::default();
    for round in 0..rounds(&options) {
        for turn in 0..ALL.len() {
            let one = (round + turn) % ALL.len();
            let window = CELL.window(&stage, &stage.lanes[one], &options, WINDOW);
            windows[one].push(window.await.with_context(|| ALL[one].name())?);
        }
    }
    let rows: Vec<Row> = ALL
        .iter()
        .zip(&windows)
        .map(|(contender, windows)| Row::of(*contender, windows))
        .collect();
    let beside = |row: &Row| Beside {
        cell: CELL.to_string(),
        surface: row.contender,
        us: row.proxy_us,
        mcp_us: rows[0].proxy_us,
        ratio: row.cpu_ratio(&rows[0]),
        error: row.cpu_ratio_error(&rows[0]),
    };
    Ok(rows[1..].iter().map(beside).collect())
}

impl Beside {
    /// Above the bound by more than chance explains.
    pub(crate) fn is_beyond(&self) -> bool {
        self.ratio > RATIO_MAX + self.error
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cell,
            surface,
            us,
            mcp_us,
            ratio,
            error,
        } = self;
        write!(
            f,
            "{surface} {cell}: {us:.1} us/call, mcp {mcp_us:.1} us/call, ratio {ratio:.2} +- {error:.2} (bound {RATIO_MAX})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_surface_is_beyond_its_bound_by_more_than_chance() {
        let of = |ratio, error| Beside {
            cell: String::new(),
            surface: "rest",
            us: 1.0,
            mcp_us: 1.0,
            ratio,
            error,
        };
        assert!(of(1.30, 0.10).is_beyond());
        assert!(!of(1.20, 0.10).is_beyond());
        assert!(!of(1.15, 0.0).is_beyond());
    }
}
