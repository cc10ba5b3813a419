//! Figures of calls over many records: counts, latencies, sizes.
//!
//! Latencies are counted in classes, each 5 % wider than the one before (`LATENCY_BOUNDS_US`), so figures of parts can be added
//! up, and a percentile is at most 5 % above the exact one and never below it.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

use super::record::Draft;
use super::store::Filter;

/// The methods whose requests take the walk: what counts as a call.
pub const CALLS: [&str; 4] = [
    "tools/call",
    "resources/read",
    "prompts/get",
    "completion/complete",
];

/// The first and the last bound of the classes. What is below the first is as good as nothing, and no call takes longer
/// than the last.
const BOUND_MIN_US: u64 = 20;
const BOUND_MAX_US: u64 = 24 * 3600 * 1_000_000;

/// Inclusive upper bounds of the classes of latency, in microseconds. A last class holds what is above.
pub static LATENCY_BOUNDS_US: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let next = |bound: &u64| Some(*bound + (*bound / 20).max(1));
    std::iter::successors(Some(BOUND_MIN_US), next)
        .take_while(|bound| *bound <= BOUND_MAX_US)
        .collect()
});

/// How a call ended, as far as figures tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Well,
    Failed,
    /// The gateway did not let it through.
    Refused,
}

impl Ended {
    /// The outcomes that are refusals, whatever the decision says.
    pub const REFUSALS: [&str; 5] = [
        "denied",
        "rate_limited",
        "killed",
        "circuit_open",
        "overloaded",
    ];
    /// The outcomes that are failures where the request was not refused.
    pub const FAILURES: [&str; 2] = ["error", super::UNKNOWN];

    pub fn of(decision: &str, outcome: &str) -> Self {
        if decision == "deny" || Self::REFUSALS.contains(&outcome) {
            Self::Refused
        } else if Self::FAILURES.contains(&outcome) {
            Self::Failed
        } else {
            Self::Well
        }
    }
}

/// What figures of calls are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Steps of so many milliseconds, counted from 1970.
    Time(u64),
    /// And its backend.
    Operation,
    Caller,
    Backend,
    Outcome,
    Kind,
}

/// A question for figures of the calls that a filter matches.
#[derive(Clone, Debug)]
pub struct TallyQuery {
    pub filter: Filter,
    pub by: By,
    /// Time limit.
    pub within: Duration,
}

/// What the calls of a group have in common. Members that the question does not tell apart are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// The beginning of the step.
    pub at_ms: u64,
    pub name: String,
    pub backend: String,
}

/// The figures of groups of calls. Their number is bounded: callers choose names of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    pub groups: HashMap<Group, Tally>,
    /// Calls of groups that had no room.
    pub left_out: u64,
}

/// A group has some 500 bytes, and an answer shows far fewer.
const GROUPS_MAX: usize = 20_000;

impl Tallies {
    pub fn add(&mut self, group: Group, alike: &Alike) {
        match self.room_for(group) {
            Some(tally) => tally.add(alike),
            None => self.left_out += alike.calls,
        }
    }

    /// Adds the figures of other calls.
    pub fn merge(&mut self, other: Self) {
        self.left_out += other.left_out;
        for (group, figures) in other.groups {
            match self.room_for(group) {
                Some(tally) => tally.merge(&figures),
                None => self.left_out += figures.calls,
            }
        }
    }

    fn room_for(&mut self, group: Group) -> Option<&mut Tally> {
        match self.groups.len() >= GROUPS_MAX {
            true => self.groups.get_mut(&group),
            false => Some(self.groups.entry(group).or_default()),
        }
    }
}

/// The figures of some calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub calls: u64,
    pub errors: u64,
    pub refused: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub max_us: u64,
    pub last_at_ms: u64,
    latencies: BTreeMap<u16, u64>,
}

/// Calls that ended alike and took about as long.
#[derive(Clone, Copy, Debug)]
pub struct Alike {
    pub ended: Ended,
    /// The class of their latency: an index into `LATENCY_BOUNDS_US`, or its length.
    pub class: usize,
    pub calls: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub max_us: u64,
    pub last_at_ms: u64,
}

impl Alike {
    /// One call.
    pub fn one(record: &Draft<'_>) -> Self {
        Self {
            ended: Ended::of(record.decision, record.outcome),
            class: class(record.latency_us),
            calls: 1,
            bytes_in: record.bytes_in,
            bytes_out: record.bytes_out,
            max_us: record.latency_us,
            last_at_ms: record.at_ms,
        }
    }
}

/// The class of a latency.
pub fn class(latency_us: u64) -> usize {
    LATENCY_BOUNDS_US.partition_point(|bound| *bound < latency_us)
}

impl Tally {
    pub fn add(&mut self, alike: &Alike) {
        self.calls += alike.calls;
        match alike.ended {
            Ended::Well => {}
            Ended::Failed => self.errors += alike.calls,
            Ended::Refused => self.refused += alike.calls,
        }
        self.bytes_in = self.bytes_in.saturating_add(alike.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(alike.bytes_out);
        self.max_us = self.max_us.max(alike.max_us);
        self.last_at_ms = self.last_at_ms.max(alike.last_at_ms);
        *self.latencies.entry(alike.class as u16).or_default() += alike.calls;
    }

    /// Adds the figures of other calls.
    pub fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.refused += other.refused;
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(other.bytes_out);
        self.max_us = self.max_us.max(other.max_us);
        self.last_at_ms = self.last_at_ms.max(other.last_at_ms);
        for (class, calls) in &other.latencies {
            *self.latencies.entry(*class).or_default() += calls;
        }
    }

    /// The latency that this part of the calls did not exceed; 0 without calls.
    pub fn percentile_us(&self, percent: u64) -> u64 {
        let rank = (self.calls * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (class, calls) in &self.latencies {
            seen += calls;
            if seen >= rank {
                let bound = LATENCY_BOUNDS_US.get(usize::from(*class));
                return bound.map_or(self.max_us, |bound| self.max_us.min(*bound));
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(latencies: impl IntoIterator<Item = u64>) -> Tally {
        let mut tally = Tally::default();
        for latency_us in latencies {
            tally.add(&Alike::one(&Draft {
                latency_us,
                ..Draft::default()
            }));
        }
        tally
    }

    #[test]
    fn a_percentile_is_at_most_a_twentieth_above_the_exact_one_and_never_below() {
        assert_eq!(tally([]).percentile_us(50), 0);
        for (n, spread) in [(1, 7), (99, 13), (1000, 977), (5000, 104_729)] {
            let mut all: Vec<u64> = (1..=n)
                .map(|i| (i * i * spread) % 90_000_001 + 20)
                .collect();
            let tally = tally(all.iter().copied());
            all.sort_unstable();
            for percent in [1, 50, 95, 99, 100] {
                let exact = all[((n * percent).div_ceil(100).max(1) - 1) as usize];
                let told = tally.percentile_us(percent);
                let most = exact + exact / 20 + 1;
                assert!(
                    (exact..=most).contains(&told),
                    "{n}, p{percent}: {told} for {exact}"
                );
            }
        }
        let beyond = tally([BOUND_MAX_US * 3]);
        assert_eq!(beyond.percentile_us(50), BOUND_MAX_US * 3);
    }

    #[test]
    fn figures_of_parts_add_up_to_those_of_the_whole() {
        let latencies: Vec<u64> = (0..500).map(|i| i * i).collect();
        let (first, second) = latencies.split_at(123);
        let mut parts = tally(first.iter().copied());
        parts.merge(&tally(second.iter().copied()));
        assert_eq!(parts, tally(latencies));
    }

    #[test]
    fn a_refusal_is_no_failure() {
        for (decision, outcome, ended) in [
            ("allow", "success", Ended::Well),
            ("allow", "input_required", Ended::Well),
            ("allow", "cancelled", Ended::Well),
            ("allow", "error", Ended::Failed),
            ("allow", "unknown", Ended::Failed),
            ("deny", "error", Ended::Refused),
            ("allow", "overloaded", Ended::Refused),
            ("deny", "killed", Ended::Refused),
        ] {
            assert_eq!(Ended::of(decision, outcome), ended, "{decision} {outcome}");
        }
    }
}
