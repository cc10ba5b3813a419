//! What processes use, as the kernel counts it.
//!
//! CPU time comes from `schedstat` of every thread: nanoseconds, where `stat` has 10 ms ticks. The
//! count of a running thread may be one scheduler tick behind, well below a hundredth of a window.

use std::fs;
use std::path::PathBuf;

/// CPU time of all threads of these processes, in nanoseconds.
pub(crate) fn cpu_ns(pids: &[u32]) -> u64 {
    pids.iter().map(|pid| process_cpu_ns(*pid)).sum()
}

/// The same of the threads with one of these names.
pub(crate) fn threads_ns(pids: &[u32], names: &[&str]) -> u64 {
    let named = |name: &str| names.contains(&name.trim());
    pids.iter().map(|pid| some_cpu_ns(*pid, named)).sum()
}

fn process_cpu_ns(pid: u32) -> u64 {
    some_cpu_ns(pid, |_| true)
}

fn some_cpu_ns(pid: u32, counts: impl Fn(&str) -> bool) -> u64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0;
    };
    let ran = threads.flatten().filter_map(|thread| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        if !counts(&name) {
            return None;
        }
        let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    ran.sum()
}

/// Sum of a `/proc/PID/status` field in kB; shared pages count in every process.
pub(crate) fn status_kb(pids: &[u32], field: &str) -> u64 {
    let one = |pid: &u32| -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    pids.iter().filter_map(one).sum()
}

/// Proportional set size in kB: pages shared by several processes count once in all.
pub(crate) fn pss_kb(pids: &[u32]) -> u64 {
    let one = |pid: &u32| -> Option<u64> {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.split_whitespace().next()?.parse().ok()
    };
    pids.iter().filter_map(one).sum()
}

/// Starts a new peak of the resident set. Not allowed for processes of other users, whose peak
/// then is that of their whole life.
pub(crate) fn reset_peak(pids: &[u32]) {
    for pid in pids {
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
}

/// The program that a process runs.
pub(crate) fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Children, their children and so on.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let all: Vec<(u32, u32)> = entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name in parentheses may contain anything; the parent is the second field after it.
            let parent = stat
                .rsplit_once(')')?
                .1
                .split_whitespace()
                .nth(1)?
                .parse()
                .ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(
            all.iter()
                .filter(|(_, p)| *p == parent)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    found.remove(0);
    found
}
