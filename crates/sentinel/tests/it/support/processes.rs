//! What the tests see of the machine's processes.

#[path = "../../../../backends/tests/stdio/proc.rs"]
mod proc;

use std::fs;
use std::time::Duration;

use self::proc::with_variable;
pub(crate) use self::proc::{alive, below, mark};
use crate::support::setup::{signal, within};

/// The bound of P-R11.
const SOON: Duration = Duration::from_secs(2);

/// Living processes that were started with this mark in `IT_MARK`.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    with_variable(&format!("IT_MARK={mark}"))
}

/// Children of a gateway that run this program, by the end of its name.
pub(crate) fn running(gateway: u32, program: &str) -> Vec<u32> {
    let is = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with(program))
    };
    below(gateway).into_iter().filter(is).collect()
}

/// Waits until none of these is left, for as long as P-R11 allows.
#[track_caller]
pub(crate) fn gone(what: &str, left: impl Fn() -> Vec<u32>) -> Duration {
    let start = std::time::Instant::now();
    within(SOON, &format!("{what}: no process is left"), || {
        left().is_empty().then_some(())
    });
    start.elapsed()
}

pub(crate) fn kill(pid: u32) {
    signal(pid, "KILL");
}

/// Resident memory of a process.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|n| n.parse().ok()).expect("a number")
}
