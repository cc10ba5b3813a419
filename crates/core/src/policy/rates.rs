//! Rate limits: a token bucket per caller and tool, exact.
//!
//! One token is `MINUTE_NS` units and a limit of n calls a minute refills n units a nanosecond, so no fraction is
//! rounded: in any window a caller gets at most the burst and the refill. A full bucket equals a missing one, which
//! is how buckets are removed.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::roles::Pattern;
use super::shared::{Allowance, Decision, SharedRates};
use crate::map::Map;
use crate::operation::Operation;

const MINUTE_NS: u128 = 60_000_000_000;
/// Each shard has its own lock, so that calls on different threads rarely contend.
const SHARDS: usize = 64;
/// Bound on buckets per shard, a quarter of a million together: every caller of a busy gateway times every tool it
/// used within the last minute.
const SHARD_LEN_MAX: usize = 4096;
/// Smaller shards are not swept for full buckets.
const SWEEP_LEN_MIN: usize = 64;
/// `retry_after` of a caller for whom no bucket is left.
const CROWDED_MS: u64 = 1000;

#[derive(Clone, Debug, Default)]
pub struct RateConfig {
    /// Calls in a minute; 0 is no limit.
    pub default_rpm: u32,
    /// Burst; 0 is the minute's allowance.
    pub burst: u32,
    /// By the tool's merged name, by `<backend>.<own name>`, or by a pattern over either. Names take precedence over
    /// patterns, merged names over own ones, and among patterns the most specific.
    pub per_tool: HashMap<String, u32>,
}

/// The configuration, indexed.
#[derive(Default)]
struct Limits {
    default_rpm: u32,
    burst: u32,
    /// Exact names.
    named: Map<String, u32>,
    /// Most specific first.
    patterns: Vec<(Pattern, u32)>,
}

impl Limits {
    fn of(config: RateConfig) -> Self {
        let (patterns, named): (Vec<_>, Vec<_>) = config
            .per_tool
            .into_iter()
            .partition(|(name, _)| name.contains('*'));
        let mut patterns: Vec<(String, u32)> = patterns;
        let said = |name: &str| name.chars().filter(|c| *c != '*').count();
        patterns.sort_by(|(a, _), (b, _)| said(b).cmp(&said(a)).then_with(|| a.cmp(b)));
        Self {
            default_rpm: config.default_rpm,
            burst: config.burst,
            named: named.into_iter().collect(),
            patterns: patterns
                .iter()
                .map(|(text, rpm)| (Pattern::new(text), *rpm))
                .collect(),
        }
    }

    /// Calls a minute of this tool; 0 is no limit.
    fn rpm(&self, tool: &Operation) -> u32 {
        let own = || {
            let whole = [&*tool.backend, ".", &*tool.own].concat();
            self.named.get(&whole)
        };
        let named = match self.named.is_empty() {
            true => None,
            false => self.named.get(&*tool.exposed).or_else(own),
        };
        let mut patterns = self.patterns.iter();
        let mut pattern = || patterns.find(|(pattern, _)| pattern.matches(tool));
        let found = named.or_else(|| pattern().map(|(_, rpm)| rpm));
        *found.unwrap_or(&self.default_rpm)
    }

    /// `None`: no limit.
    fn allowance(&self, tool: &Operation) -> Option<Allowance> {
        let rpm = self.rpm(tool);
        let burst = if self.burst == 0 { rpm } else { self.burst };
        (rpm != 0).then_some(Allowance { rpm, burst })
    }
}

type Key = (Arc<str>, usize, Arc<str>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    units: u128,
    at_ns: u64,
    rpm: u32,
    capacity: u128,
}

struct Shard {
    buckets: Map<Key, Bucket>,
    /// The size at which full buckets are removed.
    sweep_at: usize,
    swept_ns: Option<u64>,
}

pub struct Rates {
    limits: ArcSwap<Limits>,
    began: Instant,
    hasher: foldhash::fast::RandomState,
    shards: Vec<Mutex<Shard>>,
    /// The buckets shared by several gateways, if configured.
    shared: Option<Arc<dyn SharedRates>>,
}

/// The limit is reached; retry after this many milliseconds.
#[derive(Debug, PartialEq, Eq)]
pub struct Limited {
    pub retry_after_ms: u64,
}

/// The remaining allowance, in calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateFigures {
    /// Calls in a minute.
    pub limit: u32,
    /// Calls possible at once now.
    pub remaining: u32,
    /// Time until the full burst is available again.
    pub full_in_s: u64,
}

impl Rates {
    pub fn new(config: RateConfig) -> Self {
        let shard = || {
            Mutex::new(Shard {
                buckets: Map::default(),
                sweep_at: SWEEP_LEN_MIN,
                swept_ns: None,
            })
        };
        Self {
            limits: ArcSwap::from_pointee(Limits::of(config)),
            began: Instant::now(),
            hasher: foldhash::fast::RandomState::default(),
            shards: (0..SHARDS).map(|_| shard()).collect(),
            shared: None,
        }
    }

    /// Adds buckets that several gateways share.
    #[must_use]
    pub fn shared_by(self, shared: Option<Arc<dyn SharedRates>>) -> Self {
        Self { shared, ..self }
    }

    pub fn shared(&self) -> Option<&Arc<dyn SharedRates>> {
        self.shared.as_ref()
    }

    /// Replaces the limits; consumed tokens stay consumed.
    pub fn reconfigure(&self, config: RateConfig) {
        self.limits.store(Arc::new(Limits::of(config)));
    }

    /// Asks the shared buckets; `None` without them, or without a limit. Its result goes to `settle`.
    pub fn ask(
        &self,
        subject: &Arc<str>,
        tool: &Operation,
    ) -> Option<BoxFuture<'static, Decision>> {
        let shared = self.shared.as_ref()?;
        let allowance = self.limits.load().allowance(tool)?;
        Some(shared.take(subject, tool, allowance))
    }

    /// The decision after asking the shared buckets. The local bucket is charged for calls that pass, so that its
    /// level is right when the shared buckets are unavailable.
    pub fn settle(
        &self,
        decision: Decision,
        subject: &Arc<str>,
        tool: &Operation,
    ) -> Result<(), Limited> {
        match decision {
            Decision::Allowed => {
                let _ = self.take(subject, tool);
                Ok(())
            }
            Decision::Limited(limited) => Err(limited),
            Decision::Unavailable => self.take(subject, tool),
        }
    }

    /// Takes a token for one call of a tool from the local bucket.
    pub fn take(&self, subject: &Arc<str>, tool: &Operation) -> Result<(), Limited> {
        let Some(Allowance { rpm, burst }) = self.limits.load().allowance(tool) else {
            return Ok(());
        };
        let capacity = u128::from(burst) * MINUTE_NS;
        let key = (subject.clone(), tool.index, tool.own.clone());
        let at = self.hasher.hash_one(&key) as usize % SHARDS;
        // Under the lock, so that time is monotonic for a bucket.
        let mut shard = self.shards[at].lock();
        let now_ns = self.began.elapsed().as_nanos() as u64;
        shard.take(key, rpm, capacity, now_ns)
    }

    /// The caller's remaining allowance for this tool; takes no token. `None` without a limit. By the local bucket
    /// even with shared limits, so calls at other gateways are not included.
    pub fn figures(&self, subject: &Arc<str>, tool: &Operation) -> Option<RateFigures> {
        let Allowance { rpm, burst } = self.limits.load().allowance(tool)?;
        let capacity = u128::from(burst) * MINUTE_NS;
        let key = (subject.clone(), tool.index, tool.own.clone());
        let at = self.hasher.hash_one(&key) as usize % SHARDS;
        let bucket = self.shards[at].lock().buckets.get(&key).copied();
        let units = bucket.map_or(capacity, |mut bucket| {
            bucket.refill(self.began.elapsed().as_nanos() as u64);
            bucket.units.min(capacity)
        });
        let full_in_ns = (capacity - units).div_ceil(u128::from(rpm));
        Some(RateFigures {
            limit: rpm,
            remaining: (units / MINUTE_NS) as u32,
            full_in_s: full_in_ns.div_ceil(1_000_000_000) as u64,
        })
    }

    /// Number of buckets.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().buckets.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Shard {
    fn take(&mut self, key: Key, rpm: u32, capacity: u128, now_ns: u64) -> Result<(), Limited> {
        if self.buckets.len() >= self.sweep_at && !self.buckets.contains_key(&key) {
            self.sweep(now_ns);
            if self.buckets.len() >= SHARD_LEN_MAX {
                return Err(Limited {
                    retry_after_ms: CROWDED_MS,
                });
            }
        }
        let bucket = self.buckets.entry(key).or_insert(Bucket {
            units: capacity,
            at_ns: now_ns,
            rpm,
            capacity,
        });
        bucket.refill(now_ns);
        (bucket.rpm, bucket.capacity) = (rpm, capacity);
        bucket.units = bucket.units.min(capacity);
        match bucket.units.checked_sub(MINUTE_NS) {
            Some(left) => {
                bucket.units = left;
                Ok(())
            }
            None => {
                let missing = MINUTE_NS - bucket.units;
                let wait_ns = missing.div_ceil(u128::from(rpm));
                Err(Limited {
                    retry_after_ms: wait_ns.div_ceil(1_000_000) as u64,
                })
            }
        }
    }

    /// Removes full buckets. At the bound it runs once a second, so that many callers cannot make every call search
    /// the shard.
    fn sweep(&mut self, now_ns: u64) {
        let at_bound = self.buckets.len() >= SHARD_LEN_MAX;
        let lately = |then: u64| now_ns.saturating_sub(then) < 1_000_000_000;
        if at_bound && self.swept_ns.is_some_and(lately) {
            return;
        }
        self.swept_ns = Some(now_ns);
        self.buckets.retain(|_, bucket| {
            let mut then = *bucket;
            then.refill(now_ns);
            then.units < then.capacity
        });
        self.sweep_at = (2 * self.buckets.len()).clamp(SWEEP_LEN_MIN, SHARD_LEN_MAX);
    }
}

impl Bucket {
    fn refill(&mut self, now_ns: u64) {
        let elapsed = u128::from(now_ns.saturating_sub(self.at_ns));
        let units = self.units + elapsed * u128::from(self.rpm);
        self.units = units.min(self.capacity);
        self.at_ns = self.at_ns.max(now_ns);
    }
}

#[cfg(test)]
mod tests;
