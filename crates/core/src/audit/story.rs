//! The stories of recent calls: when each step of the walk began, for operators who look into one call.
//!
//! Times are noted while somebody watches (`Stories::watch`) and for a minute after. A request that comes at another time
//! pays one relaxed load, and its steps look at an empty pointer.
//!
//! Not here: what a record says of the steps (`surfaces`).

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::record::Draft;
use crate::trace::to_hex;

/// Stories that are kept, the newest: those of a few seconds under load, some 300 bytes each.
const STORIES_MAX: usize = 4096;
/// How long times are noted after the last one who watched has left, who may come back to a call.
const LINGER: Duration = Duration::from_secs(60);

/// A step of the walk, in the order in which calls take them.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StepName {
    Resolve,
    Authorize,
    Kill,
    Limit,
    Arguments,
    Confirm,
    Recall,
    Circuit,
    Admit,
    Intend,
    Backend,
}

impl StepName {
    pub const ALL: [Self; 11] = [
        Self::Resolve,
        Self::Authorize,
        Self::Kill,
        Self::Limit,
        Self::Arguments,
        Self::Confirm,
        Self::Recall,
        Self::Circuit,
        Self::Admit,
        Self::Intend,
        Self::Backend,
    ];
}

/// What is noted of one call on its way.
pub(crate) struct Notes {
    began: Instant,
    began_ms: u64,
    trace: Option<[u8; 16]>,
    /// When each step began in the last round, in nanoseconds after `began`, plus one.
    entered: [AtomicU64; StepName::ALL.len()],
    rounds: AtomicU32,
    questions: AtomicU32,
    retries: AtomicU32,
}

impl Notes {
    fn new(began: Instant, began_ms: u64, trace: Option<[u8; 16]>) -> Self {
        Self {
            began,
            began_ms,
            trace,
            entered: Default::default(),
            rounds: AtomicU32::new(0),
            questions: AtomicU32::new(0),
            retries: AtomicU32::new(0),
        }
    }

    /// A step begins.
    pub(crate) fn enter(&self, step: StepName) {
        if step == StepName::Resolve {
            // A further round takes all steps again.
            self.rounds.fetch_add(1, Relaxed);
            self.entered.iter().for_each(|at| at.store(0, Relaxed));
        }
        let ns = self.began.elapsed().as_nanos() as u64;
        self.entered[step as usize].store(ns + 1, Relaxed);
    }

    /// The caller is asked something.
    pub(crate) fn asked(&self) {
        self.questions.fetch_add(1, Relaxed);
    }

    /// The backend is sent the request once more.
    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Relaxed);
    }
}

/// The story of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// When the request that began the call was read. The times below are counted from it.
    pub began_ms: u64,
    /// The steps that the call took in its last round, and when each began.
    pub steps: Vec<(StepName, Duration)>,
    /// When the request ended that the record is of.
    pub ended: Duration,
    /// How often the steps were taken; 0 if the call was refused before.
    pub rounds: u32,
    /// What the caller was asked.
    pub questions: u32,
    /// How often the backend was sent the request again.
    pub retries: u32,
    /// In hexadecimal digits.
    pub trace: Option<String>,
}

/// The stories of recent calls; one of these per gateway.
#[derive(Default)]
pub struct Stories {
    is_on: AtomicBool,
    watchers: Mutex<Watchers>,
    recent: Mutex<VecDeque<Kept>>,
}

#[derive(Default)]
struct Watchers {
    count: usize,
    /// When the last one left.
    left_at: Option<Instant>,
}

struct Kept {
    /// Of the record.
    key: u64,
    ended: Duration,
    notes: Arc<Notes>,
}

/// Somebody watches; until this is dropped.
pub struct Watching(Arc<Stories>);

impl Stories {
    /// Has times noted of requests that are read from now on.
    pub fn watch(self: &Arc<Self>) -> Watching {
        let mut watchers = self.watchers.lock();
        watchers.count += 1;
        self.is_on.store(true, Relaxed);
        Watching(self.clone())
    }

    /// Called every second: ends the noting a minute after the last one left.
    pub(crate) fn sweep(&self) {
        if !self.is_on.load(Relaxed) {
            return;
        }
        let watchers = self.watchers.lock();
        let is_over = |left_at: Instant| left_at.elapsed() >= LINGER;
        if watchers.count == 0 && watchers.left_at.is_none_or(is_over) {
            self.is_on.store(false, Relaxed);
        }
    }

    /// Notes for a request that was just read, if somebody watches. `trace` is asked for its trace.
    pub(crate) fn begin(
        &self,
        began: Instant,
        began_ms: u64,
        trace: impl FnOnce() -> Option<[u8; 16]>,
    ) -> Option<Arc<Notes>> {
        let is_on = self.is_on.load(Relaxed);
        is_on.then(|| Arc::new(Notes::new(began, began_ms, trace())))
    }

    /// Keeps the story of a request that ends now with this record.
    pub(crate) fn keep(&self, record: &Draft<'_>, notes: &Arc<Notes>) {
        let kept = Kept {
            key: key(record),
            ended: notes.began.elapsed(),
            notes: notes.clone(),
        };
        let mut recent = self.recent.lock();
        if recent.len() == STORIES_MAX {
            recent.pop_front();
        }
        recent.push_back(kept);
    }

    /// The story of the call that ended with this record, if it was noted and is still kept.
    pub fn of(&self, record: &Draft<'_>) -> Option<Story> {
        let key = key(record);
        let recent = self.recent.lock();
        let kept = recent.iter().rev().find(|kept| kept.key == key)?;
        let notes = &kept.notes;
        let entered = StepName::ALL.iter().zip(&notes.entered);
        let steps = entered.filter_map(|(step, at)| {
            let ns = at.load(Relaxed).checked_sub(1)?;
            Some((*step, Duration::from_nanos(ns)))
        });
        Some(Story {
            began_ms: notes.began_ms,
            steps: steps.collect(),
            ended: kept.ended,
            rounds: notes.rounds.load(Relaxed),
            questions: notes.questions.load(Relaxed),
            retries: notes.retries.load(Relaxed),
            trace: notes.trace.map(|trace| to_hex(&trace)),
        })
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut watchers = self.0.watchers.lock();
        watchers.count -= 1;
        watchers.left_at = Some(Instant::now());
    }
}

/// Records have no number before they are written. Two that agree in all of this are of one call, but for an accident
/// that only mixes up times.
fn key(record: &Draft<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (record.at_ms, record.latency_us, record.bytes_in).hash(&mut hasher);
    (record.request_id, record.caller, record.method).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: u64) -> Draft<'static> {
        Draft {
            at_ms: n,
            caller: "ann",
            ..Draft::default()
        }
    }

    fn begin(stories: &Stories) -> Option<Arc<Notes>> {
        stories.begin(Instant::now(), 7, || Some([1; 16]))
    }

    #[tokio::test(start_paused = true)]
    async fn times_are_noted_while_somebody_watches_and_a_minute_longer() {
        let stories = Arc::<Stories>::default();
        assert!(begin(&stories).is_none());
        let (first, second) = (stories.watch(), stories.watch());
        drop(first);
        tokio::time::advance(LINGER * 2).await;
        stories.sweep();
        assert!(begin(&stories).is_some());
        drop(second);
        tokio::time::advance(LINGER - Duration::from_secs(1)).await;
        stories.sweep();
        assert!(begin(&stories).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        stories.sweep();
        assert!(begin(&stories).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_story_has_the_steps_of_its_last_round() {
        let stories = Arc::<Stories>::default();
        let _watching = stories.watch();
        let notes = begin(&stories).expect("on");
        for step in [
            StepName::Resolve,
            StepName::Backend,
            StepName::Resolve,
            StepName::Kill,
        ] {
            tokio::time::advance(Duration::from_millis(2)).await;
            notes.enter(step);
        }
        notes.asked();
        tokio::time::advance(Duration::from_millis(1)).await;
        stories.keep(&record(1), &notes);
        let story = stories.of(&record(1)).expect("kept");
        let ms = Duration::from_millis;
        assert_eq!(
            story,
            Story {
                began_ms: 7,
                steps: vec![(StepName::Resolve, ms(6)), (StepName::Kill, ms(8))],
                ended: ms(9),
                rounds: 2,
                questions: 1,
                retries: 0,
                trace: Some("01".repeat(16)),
            }
        );
        assert_eq!(stories.of(&record(2)), None);
    }

    #[test]
    fn the_newest_stories_are_kept() {
        let stories = Arc::<Stories>::default();
        let _watching = stories.watch();
        let notes = begin(&stories).expect("on");
        for n in 0..=STORIES_MAX as u64 {
            stories.keep(&record(n), &notes);
        }
        assert!(stories.of(&record(0)).is_none());
        assert!(stories.of(&record(1)).is_some());
        assert!(stories.of(&record(STORIES_MAX as u64)).is_some());
    }
}
