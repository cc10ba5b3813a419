//! The newest lines that the children of a backend wrote to standard error, for operators.
//!
//! Writers never wait: the oldest lines give way, and a reader that was too slow sees by the numbers how many it missed.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::clock;

/// Several stack traces.
const LINES_MAX: usize = 500;
/// Of their text; a few hundred backends may be configured.
const BYTES_MAX: usize = 256 * 1024;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    /// Counts the lines of the log, from 1.
    pub number: u64,
    pub at_ms: u64,
    /// Which child wrote it.
    pub child: Arc<str>,
    pub text: Arc<str>,
}

#[derive(Debug)]
pub struct OutputLog {
    lines: Mutex<Lines>,
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<OutputLine>,
    bytes: usize,
    newest: u64,
}

impl Default for OutputLog {
    fn default() -> Self {
        Self {
            lines: Mutex::default(),
            newest: watch::Sender::new(0),
        }
    }
}

impl OutputLog {
    pub fn push(&self, child: Arc<str>, text: &str) {
        let at_ms = clock::wall_ms();
        let mut lines = self.lines.lock();
        lines.newest += 1;
        lines.bytes += text.len();
        let line = OutputLine {
            number: lines.newest,
            at_ms,
            child,
            text: text.into(),
        };
        lines.kept.push_back(line);
        while lines.kept.len() > LINES_MAX || (lines.bytes > BYTES_MAX && lines.kept.len() > 1) {
            let gone = lines.kept.pop_front();
            lines.bytes -= gone.map_or(0, |gone| gone.text.len());
        }
        self.newest.send_replace(lines.newest);
    }

    /// The kept lines after this number, oldest first.
    pub fn after(&self, number: u64) -> Vec<OutputLine> {
        let lines = self.lines.lock();
        let known = lines.kept.partition_point(|line| line.number <= number);
        lines.kept.range(known..).cloned().collect()
    }

    /// The texts of the newest lines, oldest first.
    pub fn tail(&self, len_max: usize) -> Vec<String> {
        let lines = self.lines.lock();
        let skipped = lines.kept.len().saturating_sub(len_max);
        let newest = lines.kept.range(skipped..);
        newest.map(|line| line.text.to_string()).collect()
    }

    /// Wakes with the number of the newest line.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: usize, text: &str) -> OutputLog {
        let log = OutputLog::default();
        for _ in 0..count {
            log.push("7".into(), text);
        }
        log
    }

    #[test]
    fn a_log_keeps_the_newest_lines_within_its_bounds() {
        let log = filled(LINES_MAX + 10, "x");
        let kept = log.after(0);
        assert_eq!(kept.len(), LINES_MAX);
        assert_eq!(kept[0].number, 11);
        assert_eq!(log.after(LINES_MAX as u64 + 8).len(), 2);
        assert_eq!(log.after(LINES_MAX as u64 + 10).len(), 0);
        assert_eq!(log.tail(3).len(), 3);
        assert_eq!(filled(2, "x").tail(20).len(), 2);
        // However long a line is, the newest one stays.
        let long = "x".repeat(BYTES_MAX / 4);
        assert_eq!(filled(9, &long).after(0).len(), 4);
        assert_eq!(filled(9, &"x".repeat(2 * BYTES_MAX)).after(0).len(), 1);
    }

    #[tokio::test]
    async fn a_reader_is_woken_by_a_line() {
        let log = OutputLog::default();
        let mut changes = log.changes();
        log.push("7".into(), "hello");
        changes.changed().await.expect("it is there");
        let lines = log.after(0);
        assert_eq!((&*lines[0].text, &*lines[0].child), ("hello", "7"));
        assert!(lines[0].at_ms > 1_700_000_000_000);
    }
}
