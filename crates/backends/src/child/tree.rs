//! Lists processes: the direct children of this process, and everything below them.
//!
//! A list is outdated as soon as it is read, since processes fork and die meanwhile. Callers that must be exact
//! repeat until the kernel reports that no child is left to wait for.
//!
//! Not here: what happens to them (`super::shim`, `super::shims`).

use std::collections::HashSet;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// A larger tree is a fork bomb, which only a pids cgroup can hold.
const TREE_MAX: usize = 65_536;

/// The processes whose parent is this one, zombies included.
pub(super) fn children() -> Vec<Pid> {
    let me = rustix::process::getpid();
    children_by_task(me).unwrap_or_else(|| children_by_scan(me))
}

/// Sends `signal` to every process below this one, top down.
pub(super) fn signal_descendants(signal: Signal) {
    let mut seen = HashSet::new();
    let mut todo = children();
    while let Some(pid) = todo.pop() {
        if seen.len() >= TREE_MAX || !seen.insert(pid) {
            continue;
        }
        // The list is read first: a process that obeys at once takes its own list with it.
        let below = children_by_task(pid).unwrap_or_else(|| children_by_scan(pid));
        let _ = kill_process(pid, signal);
        todo.extend(below);
    }
}

/// `/proc/<pid>/task/*/children`: a child belongs to the thread that made or adopted it.
/// `None` where the kernel was built without it.
fn children_by_task(pid: Pid) -> Option<Vec<Pid>> {
    let mut found = Vec::new();
    let mut readable = false;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        if let Ok(list) = fs::read_to_string(task.path().join("children")) {
            readable = true;
            found.extend(list.split_ascii_whitespace().filter_map(parse_pid));
        }
    }
    readable.then_some(found)
}

/// Every process whose `stat` names `parent`; slower, but available wherever `/proc` is.
fn children_by_scan(parent: Pid) -> Vec<Pid> {
    let Ok(all) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    all.flatten()
        .filter_map(|entry| parse_pid(entry.file_name().to_str()?))
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself hold spaces and parentheses: count from its end.
    let (_, rest) = stat.rsplit_once(')')?;
    parse_pid(rest.split_ascii_whitespace().nth(1)?)
}

fn parse_pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn both_ways_of_listing_find_a_new_child() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(child.id() as i32).unwrap();
        let me = rustix::process::getpid();
        assert!(children_by_task(me).is_none_or(|list| list.contains(&pid)));
        assert!(children_by_scan(me).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!children_by_scan(me).contains(&pid));
    }
}
