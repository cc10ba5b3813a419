//! What the tests see of the machine's processes.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use crate::support::house::{signal, within};

/// The bound of P-R11.
const SOON: Duration = Duration::from_secs(2);

/// A value that no other process has in its environment.
pub(crate) fn mark(test: &str) -> String {
    format!(
        "{test}-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    )
}

/// Living processes that were started with this mark in `IT_MARK`.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("IT_MARK={mark}");
    let has = |pid: &u32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|env| env.split(|b| *b == 0).any(|var| var == wanted.as_bytes()))
    };
    all().filter(has).collect()
}

/// There and not a zombie.
pub(crate) fn alive(pid: u32) -> bool {
    state(pid).is_some_and(|(state, _)| state != 'Z')
}

/// Everything below `top`, however deep.
pub(crate) fn below(top: u32) -> HashSet<u32> {
    let parents: Vec<_> = all().filter_map(|pid| Some((pid, state(pid)?.1))).collect();
    let mut found = HashSet::from([top]);
    while let Some((pid, _)) = parents
        .iter()
        .find(|(pid, parent)| found.contains(parent) && !found.contains(pid))
    {
        found.insert(*pid);
    }
    found.remove(&top);
    found
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

/// A process's state letter and its parent.
fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut rest = stat.rsplit(')').next()?.split_whitespace();
    Some((rest.next()?.chars().next()?, rest.next()?.parse().ok()?))
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Resident memory of a process.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|n| n.parse().ok()).expect("a number")
}
