//! A progress line on the terminal, which shows what a command waits for.
//!
//! It is erased when dropped, so that results begin on a clean line.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use tokio::time::Instant;

/// Shorter waits show no line, which would only flicker.
const PATIENCE: Duration = Duration::from_millis(200);
const WIDTH_UNKNOWN: usize = 80;

pub(crate) struct Progress {
    terminal: bool,
    began: Instant,
    shown: String,
}

impl Progress {
    pub(crate) fn begin() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            began: Instant::now(),
            shown: String::new(),
        }
    }

    /// Whether it is shown.
    pub(crate) fn is_seen(&self) -> bool {
        self.terminal
    }

    pub(crate) fn show(&mut self, text: &str) {
        if !self.terminal || self.began.elapsed() < PATIENCE || self.shown == text {
            return;
        }
        let cut: String = text.chars().take(width(std::io::stderr()) - 1).collect();
        // A closed terminal does not stop the command.
        let _ = write!(std::io::stderr(), "\r{cut}\x1b[K");
        self.shown = text.to_owned();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.shown.is_empty() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// "starting 3 of 6: time, git, …"
pub(crate) fn starting(waiting: &[&str], all: usize) -> String {
    const NAMES_MAX: usize = 4;
    let mut names = waiting
        .iter()
        .take(NAMES_MAX)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    if waiting.len() > NAMES_MAX {
        names.push_str(", …");
    }
    format!("starting {} of {all}: {names}", waiting.len())
}

/// Columns of a terminal.
pub(crate) fn width(terminal: impl std::os::fd::AsFd) -> usize {
    rustix::termios::tcgetwinsize(terminal)
        .map(|size| usize::from(size.ws_col))
        .ok()
        .filter(|columns| *columns > 1)
        .unwrap_or(WIDTH_UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::starting;

    #[test]
    fn the_line_names_a_few_and_counts_all() {
        assert_eq!(starting(&["time"], 3), "starting 1 of 3: time");
        let five = ["a", "b", "c", "d", "e"];
        assert_eq!(starting(&five, 6), "starting 5 of 6: a, b, c, d, …");
    }
}
