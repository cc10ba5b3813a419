//! Audit records as they reach the store.
//!
//! The store is asked, so calls pay nothing for those who watch. Records arrive late and out of the order of time, but
//! always in the order of their lanes: so a stream knows how far each lane had come, and sends what is behind that. A reader
//! that is slower than the records is told how many it missed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use schemars::JsonSchema;
use sentinel_core::Fault;
use sentinel_core::audit::{AuditStore, Filter, Query, RecordKey, Run, StoreFailure, Stored};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use super::super::Exchange;
use super::super::parameters::{FromQuery, Pairs, Parameters};
use super::super::streaming::{Event, EventEndpoint, json};
use super::{DeclaredFilter, PAGE_BYTES_MAX, SEARCH_MAX, filter, store, unanswered, weight};

/// How often the store is asked, and by how much a look must be shorter than the time between two.
const LOOK_EVERY: Duration = Duration::from_millis(300);
const LOOK_SHARE: u32 = 20;
/// After the store failed.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Records that a stream sends each second, and at once after a pause: ingestion brings a second's records together.
const RATE_MAX: f64 = 1_000.0;
const BURST_MAX: f64 = 2_000.0;
/// What a look found is left out when it was not sent by then, so that a slow reader sees what happens now.
const STALE_AFTER: Duration = Duration::from_secs(5);
/// Read from the store at once, if records are small.
const STEP_LEN: usize = 250;
/// Lanes that are read at once, which bounds the statement. Others are looked at next.
const RUNS_MAX: usize = 32;
/// Looks of all streams at once: the store has a few readers, and searches need them too.
static LOOKS: Semaphore = Semaphore::const_new(1);

/// The parameters of the tail.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "read as a `TailQuery`; declared for its schema")]
pub(in crate::http) struct Declared {
    #[schemars(flatten)]
    filter: DeclaredFilter,
}

pub(in crate::http) struct TailQuery(Filter);

/// An event of this stream.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum TailEvent {
    /// A record that reached the store. Those of one connection come in their order.
    Record(Box<Stored>),
    Skipped(Skipped),
}

/// Records that were left out, because more came than are shown.
#[derive(Serialize, JsonSchema)]
pub struct Skipped {
    pub n: u64,
}

impl Event for TailEvent {
    fn name(&self) -> &'static str {
        match self {
            Self::Record(_) => "record",
            Self::Skipped(_) => "skipped",
        }
    }

    fn data(&self) -> Vec<u8> {
        match self {
            Self::Record(stored) => json(stored),
            Self::Skipped(skipped) => json(skipped),
        }
    }
}

impl FromQuery for TailQuery {
    type Declared = Declared;

    fn take(pairs: &mut Pairs<'_>) -> Result<Self, String> {
        filter(pairs).map(Self)
    }
}

pub(crate) struct Live;

impl EventEndpoint for Live {
    type Input = Parameters<TailQuery>;
    type Event = TailEvent;

    async fn open(
        exchange: &Exchange<'_>,
        Parameters(TailQuery(filter)): Self::Input,
    ) -> Result<BoxStream<'static, TailEvent>, Fault> {
        let tail = Tail::begin(store(exchange)?, filter).await;
        let tail = tail.map_err(unanswered)?;
        // Whoever watches may look into a call.
        let watching = exchange.server.gateway.auditor.stories.watch();
        let events = stream::unfold((tail, watching), |(mut tail, watching)| async {
            let event = tail.next().await;
            Some((event, (tail, watching)))
        });
        Ok(events.boxed())
    }
}

/// Where one stream is.
struct Tail {
    store: Arc<dyn AuditStore>,
    filter: Filter,
    /// How far each lane had come.
    seen: HashMap<(String, i64), u64>,
    /// What is behind that, as far as it is known, and where in it the stream is.
    runs: Vec<Run>,
    after: Option<(u64, RecordKey)>,
    /// Read, and not yet sent.
    ready: VecDeque<TailEvent>,
    step_len: usize,
    /// Records that may be sent at this moment.
    allowance: f64,
    allowed_at: Instant,
    looked_at: Instant,
    look_at: Instant,
}

impl Tail {
    async fn begin(store: Arc<dyn AuditStore>, filter: Filter) -> Result<Self, StoreFailure> {
        let ends = store.ends().await?;
        let seen = ends.into_iter().map(|end| ((end.node, end.lane), end.seq));
        let now = Instant::now();
        Ok(Self {
            filter,
            seen: seen.collect(),
            runs: Vec::new(),
            after: None,
            ready: VecDeque::new(),
            step_len: STEP_LEN,
            allowance: BURST_MAX,
            allowed_at: now,
            looked_at: now,
            look_at: now + LOOK_EVERY,
            store,
        })
    }

    async fn next(&mut self) -> TailEvent {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            sleep_until(self.look_at).await;
            let read = match self.runs.is_empty() {
                true => self.look().await,
                false => self.read().await,
            };
            if let Err(error) = read {
                tracing::warn!("new audit records could not be read: {error}");
                self.look_at = Instant::now() + LOOK_AGAIN;
            }
        }
    }

    /// Finds out which lanes have grown.
    async fn look(&mut self) -> Result<(), StoreFailure> {
        let _turn = LOOKS.acquire().await;
        self.looked_at = Instant::now();
        let ends = self.store.ends().await?;
        for RecordKey { node, lane, seq } in ends {
            let lane = (node, lane);
            let after_seq = self.seen.get(&lane).copied().unwrap_or(0);
            if seq > after_seq && self.runs.len() < RUNS_MAX {
                let (node, lane) = lane;
                self.runs.push(Run {
                    node,
                    lane,
                    after_seq,
                    to_seq: seq,
                });
            }
        }
        self.look_at = match self.runs.is_empty() {
            true => Instant::now() + LOOK_EVERY.max(self.looked_at.elapsed() * LOOK_SHARE),
            false => Instant::now(),
        };
        Ok(())
    }

    /// Reads a part of what the lanes have grown by.
    async fn read(&mut self) -> Result<(), StoreFailure> {
        let limit = match self.looked_at.elapsed() < STALE_AFTER {
            true => self.step_len.min(self.room()),
            false => 0,
        };
        let _turn = LOOKS.acquire().await;
        let query = Query {
            filter: self.filter.clone(),
            runs: self.runs.clone(),
            after: self.after.clone(),
            limit,
            within: Some(SEARCH_MAX),
            ..Query::default()
        };
        if limit == 0 {
            let n = self.store.count(query).await?;
            if n > 0 {
                self.ready.push_back(TailEvent::Skipped(Skipped { n }));
            }
            self.is_read();
            return Ok(());
        }
        let found = self.store.find(query).await?;
        let (len, bytes) = (found.len(), found.iter().map(weight).sum::<usize>());
        if let Some(last) = found.last() {
            self.after = Some((last.record.at_ms, last.key.clone()));
            self.step_len = (PAGE_BYTES_MAX * len / bytes).clamp(1, STEP_LEN);
        }
        self.allowance -= len as f64;
        let records = found.into_iter().map(Box::new).map(TailEvent::Record);
        self.ready.extend(records);
        if len < limit {
            self.is_read();
        }
        Ok(())
    }

    /// All that the lanes have grown by was sent.
    fn is_read(&mut self) {
        for run in self.runs.drain(..) {
            self.seen.insert((run.node, run.lane), run.to_seq);
        }
        self.after = None;
        self.look_at = Instant::now() + LOOK_EVERY;
    }

    /// How many records may be sent now.
    fn room(&mut self) -> usize {
        let now = Instant::now();
        let passed = (now - self.allowed_at).as_secs_f64();
        self.allowance = (self.allowance + passed * RATE_MAX).min(BURST_MAX);
        self.allowed_at = now;
        self.allowance as usize
    }
}
