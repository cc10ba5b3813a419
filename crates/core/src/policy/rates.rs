//! Rate limits: a token bucket per caller and tool, exact.
//!
//! One token is `MINUTE_NS` units and a limit of n calls a minute refills n units a nanosecond, so no fraction is
//! rounded: in any window a caller gets at most the burst and the refill. A full bucket equals a missing one, which
//! is how buckets are removed.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};
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

    /// The entry of `per_tool` that is about this tool, if one is, and its calls a minute; 0 is no limit.
    fn rule(&self, tool: &Operation) -> (Option<&str>, u32) {
        let own = || {
            let whole = [&*tool.backend, ".", &*tool.own].concat();
            self.named.get_key_value(&whole)
        };
        let named = match self.named.is_empty() {
            true => None,
            false => self.named.get_key_value(&*tool.exposed).or_else(own),
        };
        if let Some((name, rpm)) = named {
            return (Some(name), *rpm);
        }
        let mut patterns = self.patterns.iter();
        match patterns.find(|(pattern, _)| pattern.matches(tool)) {
            Some((pattern, rpm)) => (Some(pattern.text()), *rpm),
            None => (None, self.default_rpm),
        }
    }

    /// `None`: no limit.
    fn allowance(&self, tool: &Operation) -> Option<Allowance> {
        let (_, rpm) = self.rule(tool);
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

/// A bucket as it stands, in calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketFigures {
    /// Calls in a minute.
    pub limit: u32,
    pub burst: u32,
    /// Calls possible at once now.
    pub remaining: u32,
    /// Time until another call is possible.
    pub renews_in_ms: u64,
    pub full_in_ms: u64,
}

/// One caller's bucket for one tool.
#[derive(Clone, Debug)]
pub struct UsedBucket {
    pub subject: Arc<str>,
    /// The backend's slot, and its own name for the tool.
    pub index: usize,
    pub own: Arc<str>,
    pub figures: BucketFigures,
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

    /// The limits in force.
    pub fn config(&self) -> RateConfig {
        let limits = self.limits.load();
        let named = limits.named.iter();
        let named = named.map(|(name, rpm)| (name.clone(), *rpm));
        let patterns = limits.patterns.iter();
        let patterns = patterns.map(|(pattern, rpm)| (pattern.text().to_owned(), *rpm));
        RateConfig {
            default_rpm: limits.default_rpm,
            burst: limits.burst,
            per_tool: named.chain(patterns).collect(),
        }
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
        let Some(allowance) = self.limits.load().allowance(tool) else {
            return Ok(());
        };
        let key = (subject.clone(), tool.index, tool.own.clone());
        // Under the lock, so that time is monotonic for a bucket.
        let mut shard = self.shard(&key).lock();
        let now_ns = self.now_ns();
        shard.take(key, allowance, now_ns)
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        let at = self.hasher.hash_one(key) as usize % SHARDS;
        &self.shards[at]
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// The caller's bucket for this tool, a full one where it has none.
    fn bucket(&self, subject: &Arc<str>, tool: &Operation) -> Option<(Bucket, Allowance, u64)> {
        let allowance = self.limits.load().allowance(tool)?;
        let key = (subject.clone(), tool.index, tool.own.clone());
        let known = self.shard(&key).lock().buckets.get(&key).copied();
        let now_ns = self.now_ns();
        let bucket = known.unwrap_or_else(|| Bucket::full(allowance, now_ns));
        Some((bucket, allowance, now_ns))
    }

    /// What `take` would say now; takes no token.
    pub fn prospect(&self, subject: &Arc<str>, tool: &Operation) -> Result<(), Limited> {
        match self.bucket(subject, tool) {
            None => Ok(()),
            Some((mut bucket, allowance, now_ns)) => bucket.take(allowance, now_ns),
        }
    }

    /// The setting by which calls of this tool are limited, and how many of a minute; 0 is no limit.
    pub fn rule(&self, tool: &Operation) -> (String, u32) {
        let limits = self.limits.load();
        let (name, rpm) = limits.rule(tool);
        let rule = match name {
            Some(name) => format!("rate_limits.per_tool: {name}"),
            None => "rate_limits.default_rpm".to_owned(),
        };
        (rule, rpm)
    }

    /// The caller's remaining allowance for this tool; takes no token. `None` without a limit. By the local bucket
    /// even with shared limits, so calls at other gateways are not included.
    pub fn figures(&self, subject: &Arc<str>, tool: &Operation) -> Option<RateFigures> {
        let (bucket, allowance, now_ns) = self.bucket(subject, tool)?;
        let figures = bucket.figures(allowance, now_ns);
        Some(RateFigures {
            limit: figures.limit,
            remaining: figures.remaining,
            full_in_s: figures.full_in_ms.div_ceil(1000),
        })
    }

    /// The buckets of which most is used, at most `len_max`, the most used first. One shard is locked at a time, for as
    /// long as its buckets are compared, which is less than a millisecond.
    pub fn most_used(&self, len_max: usize) -> Vec<UsedBucket> {
        let mut most: BinaryHeap<Reverse<ByUse>> = BinaryHeap::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let now_ns = self.now_ns();
            for (key, bucket) in &shard.buckets {
                let (mut now, allowance) = (*bucket, bucket.allowance());
                now.refill(now_ns);
                let used = now.used_ppm();
                let is_more = || {
                    most.peek()
                        .is_none_or(|Reverse(least)| used > least.used_ppm)
                };
                if used == 0 || (most.len() >= len_max && !is_more()) {
                    continue;
                }
                if most.len() >= len_max {
                    most.pop();
                }
                let (subject, index, own) = key.clone();
                most.push(Reverse(ByUse {
                    used_ppm: used,
                    bucket: UsedBucket {
                        subject,
                        index,
                        own,
                        figures: now.figures(allowance, now_ns),
                    },
                }));
            }
        }
        let most = most.into_sorted_vec().into_iter();
        most.map(|Reverse(one)| one.bucket).collect()
    }

    /// Number of buckets.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().buckets.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A bucket by how much of it is used; equals in the order of caller and tool.
struct ByUse {
    used_ppm: u32,
    bucket: UsedBucket,
}

impl ByUse {
    fn key(&self) -> (u32, Reverse<(&str, usize, &str)>) {
        let UsedBucket {
            subject,
            index,
            own,
            ..
        } = &self.bucket;
        (self.used_ppm, Reverse((subject, *index, own)))
    }
}

impl PartialEq for ByUse {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ByUse {}

impl PartialOrd for ByUse {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByUse {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Shard {
    fn take(&mut self, key: Key, allowance: Allowance, now_ns: u64) -> Result<(), Limited> {
        if self.buckets.len() >= self.sweep_at && !self.buckets.contains_key(&key) {
            self.sweep(now_ns);
            if self.buckets.len() >= SHARD_LEN_MAX {
                return Err(Limited {
                    retry_after_ms: CROWDED_MS,
                });
            }
        }
        let new = || Bucket::full(allowance, now_ns);
        let bucket = self.buckets.entry(key).or_insert_with(new);
        bucket.take(allowance, now_ns)
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
    fn full(Allowance { rpm, burst }: Allowance, now_ns: u64) -> Self {
        let capacity = u128::from(burst) * MINUTE_NS;
        Self {
            units: capacity,
            at_ns: now_ns,
            rpm,
            capacity,
        }
    }

    /// What it was last refilled by.
    fn allowance(&self) -> Allowance {
        Allowance {
            rpm: self.rpm,
            burst: (self.capacity / MINUTE_NS) as u32,
        }
    }

    fn follow(&mut self, Allowance { rpm, burst }: Allowance, now_ns: u64) {
        self.refill(now_ns);
        self.rpm = rpm;
        self.capacity = u128::from(burst) * MINUTE_NS;
        self.units = self.units.min(self.capacity);
    }

    fn take(&mut self, allowance: Allowance, now_ns: u64) -> Result<(), Limited> {
        self.follow(allowance, now_ns);
        let missing = MINUTE_NS.saturating_sub(self.units);
        if missing == 0 {
            self.units -= MINUTE_NS;
            return Ok(());
        }
        Err(Limited {
            retry_after_ms: self.ms_until(missing),
        })
    }

    fn ms_until(&self, units: u128) -> u64 {
        let wait_ns = units.div_ceil(u128::from(self.rpm));
        wait_ns.div_ceil(1_000_000) as u64
    }

    fn figures(mut self, allowance: Allowance, now_ns: u64) -> BucketFigures {
        self.follow(allowance, now_ns);
        let part = self.units % MINUTE_NS;
        let is_full = self.units == self.capacity;
        BucketFigures {
            limit: allowance.rpm,
            burst: allowance.burst,
            remaining: (self.units / MINUTE_NS) as u32,
            renews_in_ms: if is_full {
                0
            } else {
                self.ms_until(MINUTE_NS - part)
            },
            full_in_ms: self.ms_until(self.capacity - self.units),
        }
    }

    /// How much of it is used, in millionths.
    fn used_ppm(&self) -> u32 {
        let used = self.capacity - self.units.min(self.capacity);
        (used * 1_000_000)
            .checked_div(self.capacity)
            .unwrap_or_default() as u32
    }

    fn refill(&mut self, now_ns: u64) {
        let elapsed = u128::from(now_ns.saturating_sub(self.at_ns));
        let units = self.units + elapsed * u128::from(self.rpm);
        self.units = units.min(self.capacity);
        self.at_ns = self.at_ns.max(now_ns);
    }
}

#[cfg(test)]
mod tests;
