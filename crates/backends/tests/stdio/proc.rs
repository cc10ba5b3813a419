//! The machine's processes as `/proc` shows them. The tests of `sentinel` include this file as well.

use std::collections::HashSet;
use std::fs;

/// A value that no other process has in its environment.
pub(crate) fn mark(test: &str) -> String {
    format!(
        "{test}-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    )
}

/// Living processes with this `NAME=value` in their environment.
pub(crate) fn with_variable(wanted: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|env| env.split(|b| *b == 0).any(|var| var == wanted.as_bytes()))
    };
    all().filter(has).collect()
}

/// Exists and is not a zombie: after the gateway's death init reaps its shims.
pub(crate) fn alive(pid: u32) -> bool {
    state(pid).is_some_and(|(state, _)| state != 'Z')
}

/// All descendants of `top`.
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

/// A process's state letter and its parent.
pub(crate) fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut rest = stat.rsplit(')').next()?.split_whitespace();
    Some((rest.next()?.chars().next()?, rest.next()?.parse().ok()?))
}

pub(crate) fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
