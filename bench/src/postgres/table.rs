//! The figures of PostgreSQL functions, for people and as JSON.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::stream::Stream;
use super::{THREADS, Way};
use crate::cell::median;

/// Calls per second through REST as a part of pgbench's.
const AIM: f64 = 0.7;
/// The cell that the aim is for.
const AIMED: &str = "minimal x16";
/// Why PostgREST is not beside them.
const POSTGREST: &str = "not compared; Debian, crates.io, PyPI and npm have clients and installers of it, but no binary";

/// One window of one way.
pub(super) struct Window {
    per_second: f64,
    postgres_us: f64,
    client_us: f64,
    gateway_us: f64,
}

impl Window {
    /// From the CPU time of the server, the client and the gateway in so long.
    pub(super) fn of(
        per_second: f64,
        elapsed: Duration,
        before: [u64; 3],
        after: [u64; 3],
    ) -> Self {
        let calls = per_second * elapsed.as_secs_f64();
        let used = |at: usize| after[at].saturating_sub(before[at]) as f64 / 1e3 / calls;
        Self {
            per_second,
            postgres_us: used(0),
            client_us: used(1),
            gateway_us: used(2),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct Functions {
    /// Of PostgreSQL.
    version: String,
    cells: Vec<Measured>,
    aim: f64,
    stream: Stream,
    postgrest: &'static str,
}

#[derive(Serialize)]
pub(super) struct Measured {
    cell: String,
    callers: usize,
    ways: Vec<Row>,
}

/// The figures of one way, medians over its windows. CPU is in microseconds per call.
#[derive(Serialize)]
struct Row {
    way: &'static str,
    per_second: f64,
    /// Calls per second as a part of what pgbench with the statement alone does in the same round.
    of_limit: f64,
    /// The same beside pgbench with the transaction.
    of_transaction: f64,
    gateway_us: f64,
    postgres_us: f64,
    /// Of pgbench or the load generator.
    client_us: f64,
}

impl Measured {
    pub(super) fn of(cell: String, callers: usize, windows: &[(Way, Vec<Window>)]) -> Self {
        let rates = |way: Way| {
            let all = windows.iter().find(|(one, _)| *one == way);
            let all = all.map_or(&[][..], |(_, windows)| windows);
            all.iter().map(|window| window.per_second)
        };
        let row = |(way, windows): &(Way, Vec<Window>)| {
            let of = |figure: fn(&Window) -> f64| median(windows.iter().map(figure).collect());
            let beside = |other: Way| {
                let ratios = rates(*way).zip(rates(other));
                median(ratios.map(|(ours, theirs)| ours / theirs).collect())
            };
            Row {
                way: way.name(),
                per_second: of(|window| window.per_second),
                of_limit: beside(Way::Statement),
                of_transaction: beside(Way::Transaction),
                gateway_us: of(|window| window.gateway_us),
                postgres_us: of(|window| window.postgres_us),
                client_us: of(|window| window.client_us),
            }
        };
        Self {
            cell,
            callers,
            ways: windows.iter().map(row).collect(),
        }
    }

    /// What is said at once, since a run takes minutes.
    pub(super) fn line(&self) -> String {
        let way = |way: Way| self.ways.iter().find(|row| row.way == way.name());
        match (way(Way::Statement), way(Way::Rest)) {
            (Some(limit), Some(rest)) => format!(
                "postgres {}: pgbench {:.0} calls/s, REST {:.0} calls/s, ratio {:.2}; gateway {:.1} us/call\n",
                self.cell, limit.per_second, rest.per_second, rest.of_limit, rest.gateway_us
            ),
            _ => String::new(),
        }
    }
}

impl Functions {
    pub(super) fn new(version: String, cells: Vec<Measured>, stream: Stream) -> Self {
        Self {
            version,
            cells,
            aim: AIM,
            stream,
            postgrest: POSTGREST,
        }
    }
}

impl fmt::Display for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nfunctions of PostgreSQL {}; pgbench -M prepared -j {THREADS} and the gateway with as many connections as \
             callers each; CPU in us per call",
            self.version
        )?;
        writeln!(
            f,
            "{:<14} {:<21} {:>9} {:>11} {:>15} {:>9} {:>9} {:>9}",
            "cell",
            "way",
            "calls/s",
            "of pgbench",
            "of transaction",
            "gateway",
            "postgres",
            "client"
        )?;
        for cell in &self.cells {
            for row in &cell.ways {
                writeln!(
                    f,
                    "{:<14} {:<21} {:>9.0} {:>11.2} {:>15.2} {:>9.1} {:>9.1} {:>9.1}",
                    cell.cell,
                    row.way,
                    row.per_second,
                    row.of_limit,
                    row.of_transaction,
                    row.gateway_us,
                    row.postgres_us,
                    row.client_us
                )?;
            }
        }
        let aimed = self.cells.iter().find(|cell| cell.cell == AIMED);
        let aimed = aimed.and_then(|cell| cell.ways.iter().find(|row| row.way == Way::Rest.name()));
        if let Some(row) = aimed {
            writeln!(
                f,
                "postgres {AIMED}: {:.0} calls/s through REST, {:.2} of pgbench (aim {AIM:.2})",
                row.per_second, row.of_limit
            )?;
        }
        writeln!(f, "{}", self.stream)?;
        write!(f, "PostgREST: {}", self.postgrest)
    }
}
