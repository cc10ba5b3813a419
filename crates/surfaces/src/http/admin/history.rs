//! Calls, failures and latencies in steps of time, from the audit store.
//!
//! The store is asked for one slice of time after the other, newest first, until all are read or the time for it is over.
//! Percentiles are at most 5 % above the exact ones (`sentinel_core::audit::figures`).

use std::sync::Arc;

use schemars::JsonSchema;
use sentinel_core::Fault;
use sentinel_core::audit::figures::{By, Group, Tallies, Tally, TallyQuery};
use sentinel_core::audit::{AuditStore, Filter, StoreFailure};
use serde::Serialize;
use tokio::time::Instant;

use super::audit::{DeclaredFilter, SEARCH_MAX, filter, now_ms, store, turn, unanswered};
use super::parameters::{FromQuery, Pairs, Parameters};
use super::{Endpoint, Exchange};

/// Points of one answer: more than a chart has pixels to show.
const POINTS_MAX: u64 = 2_000;
/// Points where no step is asked for.
const POINTS_USUAL: u64 = 120;
/// Steps that people read easily, in seconds; longer ones are whole days.
const STEPS_S: [u64; 15] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 10_800, 21_600,
];
const DAY_S: u64 = 86_400;
/// Where no beginning is asked for.
const SINCE_DEFAULT_MS: u64 = 3_600_000;
/// A range is read in so many slices, so that an answer cut short by time has its newest part.
const SLICES: u64 = 12;

/// The parameters of the history.
#[derive(JsonSchema)]
#[expect(
    dead_code,
    reason = "read as a `HistoryQuery`; declared for its schema"
)]
pub(in crate::http) struct Declared {
    #[schemars(flatten)]
    filter: DeclaredFilter,
    /// Seconds of a step; by the range where nothing is said.
    step_s: Option<u64>,
}

pub(in crate::http) struct HistoryQuery {
    filter: Filter,
    range: Range,
    step_ms: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct History {
    pub since_ms: u64,
    pub until_ms: u64,
    pub step_ms: u64,
    /// `false`: the store took too long, and older points are missing.
    pub complete: bool,
    /// Steps with calls, oldest first.
    pub points: Vec<HistoryPoint>,
}

/// The calls of one step. A call is what the gateway passes to backends: `tools/call`, `resources/read`, `prompts/get` and
/// `completion/complete`, on any surface.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HistoryPoint {
    /// The beginning of the step.
    pub at_ms: u64,
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Calls that the gateway did not let through.
    pub refused: u64,
    pub p50_us: u64,
    pub p95_us: u64,
    pub p99_us: u64,
}

/// A range of time; the end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) since_ms: u64,
    pub(super) until_ms: u64,
}

impl Range {
    /// The range of a filter: up to now, and an hour, where it says nothing.
    pub(super) fn of(filter: &Filter, now_ms: u64) -> Result<Self, String> {
        let until_ms = filter.until_ms.unwrap_or(now_ms + 1);
        let since_ms = filter.since_ms;
        let since_ms = since_ms.unwrap_or(until_ms.saturating_sub(SINCE_DEFAULT_MS));
        match since_ms < until_ms {
            true => Ok(Self { since_ms, until_ms }),
            false => Err("`since` is before `until`".to_owned()),
        }
    }

    fn len(self) -> u64 {
        self.until_ms - self.since_ms
    }

    /// Slices, newest first. All but the ends of the range are multiples of a step.
    fn slices(self, step_ms: u64) -> impl Iterator<Item = Self> {
        let len = (self.len() / SLICES).next_multiple_of(step_ms).max(step_ms);
        let last = (self.until_ms - 1) / len;
        let first = self.since_ms / len;
        (first..=last).rev().map(move |at| Self {
            since_ms: self.since_ms.max(at * len),
            until_ms: self.until_ms.min((at + 1) * len),
        })
    }
}

impl FromQuery for HistoryQuery {
    type Declared = Declared;

    fn take(pairs: &mut Pairs<'_>) -> Result<Self, String> {
        let filter = filter(pairs)?;
        let step_s = pairs.number("step_s", 1, 366 * DAY_S)?;
        let range = Range::of(&filter, now_ms())?;
        let step_ms = step_s.unwrap_or_else(|| usual_step_s(range)) * 1000;
        if range.len() / step_ms >= POINTS_MAX {
            return Err(format!("at most {POINTS_MAX} steps: make `step_s` larger"));
        }
        Ok(Self {
            filter,
            range,
            step_ms,
        })
    }
}

fn usual_step_s(range: Range) -> u64 {
    let least = range.len().div_ceil(POINTS_USUAL * 1000).max(1);
    let nice = STEPS_S.iter().find(|step| **step >= least);
    nice.copied().unwrap_or(least.next_multiple_of(DAY_S))
}

pub(crate) struct Read;

impl Endpoint for Read {
    type Input = Parameters<HistoryQuery>;
    type Output = History;

    async fn handle(
        exchange: &Exchange<'_>,
        Parameters(query): Self::Input,
    ) -> Result<History, Fault> {
        let HistoryQuery {
            filter,
            range,
            step_ms,
        } = query;
        let store = store(exchange)?;
        let read = tally(store, filter, range, By::Time(step_ms), step_ms).await;
        let (tallies, complete) = read.map_err(unanswered)?;
        let mut points: Vec<HistoryPoint> = tallies.groups.into_iter().map(point).collect();
        points.sort_unstable_by_key(|point| point.at_ms);
        Ok(History {
            since_ms: range.since_ms,
            until_ms: range.until_ms,
            step_ms,
            complete,
            points,
        })
    }
}

fn point((group, tally): (Group, Tally)) -> HistoryPoint {
    HistoryPoint {
        at_ms: group.at_ms,
        calls: tally.calls,
        errors: tally.errors,
        refused: tally.refused,
        p50_us: tally.percentile_us(50),
        p95_us: tally.percentile_us(95),
        p99_us: tally.percentile_us(99),
    }
}

/// The figures of a range, and whether they are of all of it.
pub(super) async fn tally(
    store: Arc<dyn AuditStore>,
    filter: Filter,
    range: Range,
    by: By,
    step_ms: u64,
) -> Result<(Tallies, bool), StoreFailure> {
    let _turn = turn().await;
    let until = Instant::now() + SEARCH_MAX;
    let mut all = Tallies::default();
    for slice in range.slices(step_ms) {
        let within = until.saturating_duration_since(Instant::now());
        if within.is_zero() {
            return Ok((all, false));
        }
        let filter = Filter {
            since_ms: Some(slice.since_ms),
            until_ms: Some(slice.until_ms),
            ..filter.clone()
        };
        match store.tally(TallyQuery { filter, by, within }).await {
            Ok(tallies) => all.merge(tallies),
            // It was ended because of its time.
            Err(_) if Instant::now() >= until => return Ok((all, false)),
            Err(error) => return Err(error),
        }
    }
    Ok((all, true))
}

#[cfg(test)]
mod tests {
    use super::super::parameters::{check_declared, parse};
    use super::*;

    #[test]
    fn the_document_has_the_parameters_that_are_read() {
        check_declared::<HistoryQuery>();
    }

    #[test]
    fn slices_cover_a_range_once_and_split_no_step() {
        for (since_ms, until_ms, step_ms) in [
            (0, 1, 1000),
            (999, 1001, 1000),
            (1_785_232_800_123, 1_785_236_400_123, 30_000),
            (1_785_232_800_000, 1_785_232_812_000, 1_000),
            (5, 86_400_000 * 400, 86_400_000),
        ] {
            let range = Range { since_ms, until_ms };
            let slices: Vec<Range> = range.slices(step_ms).collect();
            assert!(slices.len() as u64 <= SLICES + 2, "{slices:?}");
            let mut end = until_ms;
            for slice in slices {
                assert_eq!(slice.until_ms, end);
                assert!(slice.since_ms % step_ms == 0 || slice.since_ms == since_ms);
                end = slice.since_ms;
            }
            assert_eq!(end, since_ms);
        }
    }

    #[test]
    fn a_range_has_steps_that_people_read_easily() {
        for (asked, step_s) in [
            ("", 30),
            ("since=0&until=60000", 1),
            ("since=0&until=86400000", 900),
            ("since=0&until=604800000", 10_800),
            ("since=0&until=31622400000", 4 * DAY_S),
            ("since=0&until=60000&step_s=7", 7),
        ] {
            let query: HistoryQuery = parse(asked).expect(asked);
            assert_eq!(query.step_ms, step_s * 1000, "{asked}");
        }
        for (asked, word) in [
            ("step_s=0", "`step_s`"),
            ("since=0&until=2000001&step_s=1", "2000 steps"),
            ("since=5&until=5", "`since` is before"),
        ] {
            let wrong = parse::<HistoryQuery>(asked).err().expect(asked);
            assert!(wrong.contains(word), "{wrong}");
        }
    }
}
