//! A child's standard error: logged under the backend's name, with the last lines kept for `doctor` and for the
//! message about a child that died.
//!
//! The log takes a bounded number of lines per second and counts those left out.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sentinel_core::backend::OutputLog;
use sentinel_wire::lines::LineDecoder;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

/// Those that are told with a failure: enough for the end of a stack trace.
const LINES_TOLD: usize = 20;
/// Longer lines are cut: only people read them.
const LINE_MAX: usize = 4 * 1024;
const LOGGED_PER_SECOND: u32 = 50;

/// The newest lines of one backend's standard error, across restarts, and the invalid lines of its standard output; and
/// which of its children writes them here.
#[derive(Debug, Clone, Default)]
pub struct OutputTail {
    log: Arc<OutputLog>,
    /// Whose child it is, where callers have their own; `None`: it is shared.
    whose: Option<Arc<str>>,
    /// Its process, once it runs.
    child: Arc<OnceLock<Arc<str>>>,
}

impl OutputTail {
    pub(crate) fn log(&self) -> &Arc<OutputLog> {
        &self.log
    }

    /// For the child of these callers.
    pub(crate) fn of(&self, whose: Arc<str>) -> Self {
        Self {
            whose: Some(whose),
            ..self.for_process()
        }
    }

    /// For another process.
    pub(crate) fn for_process(&self) -> Self {
        Self {
            child: Arc::default(),
            ..self.clone()
        }
    }

    /// Names the process that writes from now on.
    pub(crate) fn runs_as(&self, pid: u32) {
        let _ = self.child.set(match &self.whose {
            None => pid.to_string().into(),
            Some(whose) => format!("{pid} {whose}").into(),
        });
    }

    /// Oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.log.tail(LINES_TOLD)
    }

    pub(crate) fn push(&self, line: &str) {
        let child = self.child.get().cloned().unwrap_or_default();
        self.log.push(child, line);
    }
}

/// Reads until the child closes its standard error.
pub(crate) async fn read(backend: &str, mut source: impl AsyncRead + Unpin, kept: &OutputTail) {
    let mut decoder = LineDecoder::new(LINE_MAX);
    let mut quota = Quota::new(LOGGED_PER_SECOND);
    let mut chunk = vec![0; 4 * 1024];
    let mut on_line = |line: Result<bytes::Bytes, _>| {
        let line = match line {
            Ok(line) => String::from_utf8_lossy(&line).into_owned(),
            Err(too_long) => format!("({too_long})"),
        };
        match quota.take(Instant::now()) {
            Allowance::Yes => tracing::info!(backend, "{line}"),
            Allowance::YesAfter(left_out) => {
                tracing::warn!(backend, left_out, "standard error was too much for the log");
                tracing::info!(backend, "{line}");
            }
            Allowance::No => {}
        }
        kept.push(&line);
    };
    while let Ok(got @ 1..) = source.read(&mut chunk).await {
        let mut input = &chunk[..got];
        while let Some(line) = decoder.next(&mut input) {
            on_line(line);
        }
    }
    if let Some(line) = decoder.finish() {
        on_line(line);
    }
}

/// A rate limit for log lines that a child can cause.
#[derive(Debug)]
pub(crate) struct Quota {
    per_second: u32,
    since: Instant,
    taken: u32,
    left_out: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    Yes,
    /// Allowed, with the number of lines left out before.
    YesAfter(u64),
    No,
}

impl Quota {
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            per_second,
            since: Instant::now(),
            taken: 0,
            left_out: 0,
        }
    }

    pub(crate) fn take(&mut self, now: Instant) -> Allowance {
        if now - self.since >= Duration::from_secs(1) {
            self.since = now;
            self.taken = 0;
        }
        if self.taken >= self.per_second {
            self.left_out += 1;
            return Allowance::No;
        }
        self.taken += 1;
        match std::mem::take(&mut self.left_out) {
            0 => Allowance::Yes,
            left_out => Allowance::YesAfter(left_out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_twenty_lines_are_told_whatever_their_length() {
        let mut text = String::new();
        for i in 0..30 {
            text.push_str(&format!("line {i}\n"));
        }
        text.push_str(&"x".repeat(10_000));
        text.push_str("\nlast");
        let kept = OutputTail::default();
        read("b", text.as_bytes(), &kept).await;
        let lines = kept.lines();
        assert_eq!(lines.len(), LINES_TOLD);
        assert_eq!(lines[0], "line 12");
        assert!(lines[18].contains("10000 bytes"), "{}", lines[18]);
        assert_eq!(lines[19], "last");
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_cut_and_counted() {
        let mut quota = Quota::new(2);
        let now = Instant::now();
        let taken: Vec<_> = (0..4).map(|_| quota.take(now)).collect();
        assert_eq!(
            taken,
            [Allowance::Yes, Allowance::Yes, Allowance::No, Allowance::No]
        );
        assert_eq!(
            quota.take(now + Duration::from_secs(1)),
            Allowance::YesAfter(2)
        );
        assert_eq!(quota.take(now + Duration::from_secs(1)), Allowance::Yes);
    }
}
