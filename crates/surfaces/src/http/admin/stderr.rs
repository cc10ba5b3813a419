//! What the children of a backend write to standard error: the kept lines at once, and then each as it comes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use schemars::JsonSchema;
use sentinel_core::backend::{OutputLine, OutputLog};
use sentinel_core::{Fault, Kind, Registry};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::parameters::{FromQuery, Pairs, Parameters};
use super::streaming::{Event, EventEndpoint, json};
use super::{Exchange, invalid};

/// How often it is looked whether another backend runs under the name: a reload replaces one, with what was kept of it.
const LOOK: Duration = Duration::from_secs(1);

#[derive(JsonSchema)]
pub(crate) struct StderrQuery {
    /// Its name.
    backend: String,
}

impl FromQuery for StderrQuery {
    type Declared = Self;

    fn take(pairs: &mut Pairs<'_>) -> Result<Self, String> {
        let backend = pairs.owned("backend").ok_or("`backend` says which")?;
        Ok(Self { backend })
    }
}

/// An event of this stream.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum StderrEvent {
    Line(StderrLine),
    /// Lines that are kept no longer: they came faster than they were read.
    Skipped(SkippedLines),
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct StderrLine {
    pub at_ms: u64,
    /// Without its end, whatever is in it. Of a line of more than 4 KiB only the length is told.
    pub text: String,
    /// Which child wrote it: its process id, and whose it is where callers have children of their own.
    pub child: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SkippedLines {
    pub n: u64,
}

impl Event for StderrEvent {
    fn name(&self) -> &'static str {
        match self {
            Self::Line(_) => "line",
            Self::Skipped(_) => "skipped",
        }
    }

    fn data(&self) -> Vec<u8> {
        match self {
            Self::Line(line) => json(line),
            Self::Skipped(skipped) => json(skipped),
        }
    }
}

pub(crate) struct Follow;

impl EventEndpoint for Follow {
    type Input = Parameters<StderrQuery>;
    type Event = StderrEvent;

    async fn open(
        exchange: &Exchange<'_>,
        Parameters(StderrQuery { backend }): Self::Input,
    ) -> Result<BoxStream<'static, StderrEvent>, Fault> {
        exchange.about(format!("backend {backend}"));
        let registry = exchange.server.gateway.registry.clone();
        let unknown = || invalid(format!("there is no backend `{backend}`"));
        let running = registry.running(&backend).ok_or_else(unknown)?;
        let log = running.output().ok_or_else(|| {
            let kind = running.describe().kind;
            let text =
                format!("backend `{backend}` is of type \"{kind}\", which has no program here");
            Fault::new(Kind::NotFound, text)
        })?;
        let reader = Reader {
            registry,
            backend,
            log,
            seen: 0,
            events: VecDeque::new(),
        };
        let events = stream::unfold(reader, |mut reader| async {
            Some((reader.next().await?, reader))
        });
        Ok(events.boxed())
    }
}

struct Reader {
    registry: Arc<Registry>,
    backend: String,
    log: Arc<OutputLog>,
    /// The number of the last line that was read.
    seen: u64,
    /// At most what a log keeps.
    events: VecDeque<StderrEvent>,
}

impl Reader {
    /// `None`: there is no such backend any more.
    async fn next(&mut self) -> Option<StderrEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let mut changes = self.log.changes();
            let lines = self.log.after(self.seen);
            if !lines.is_empty() {
                self.take(lines);
                continue;
            }
            let _ = timeout(LOOK, changes.changed()).await;
            let log = self.registry.running(&self.backend)?.output()?;
            if !Arc::ptr_eq(&log, &self.log) {
                (self.log, self.seen) = (log, 0);
            }
        }
    }

    fn take(&mut self, lines: Vec<OutputLine>) {
        for line in lines {
            let n = line.number - self.seen - 1;
            if n > 0 && self.seen > 0 {
                self.events
                    .push_back(StderrEvent::Skipped(SkippedLines { n }));
            }
            self.seen = line.number;
            self.events.push_back(StderrEvent::Line(StderrLine {
                at_ms: line.at_ms,
                text: line.text.to_string(),
                child: line.child.to_string(),
            }));
        }
    }
}
