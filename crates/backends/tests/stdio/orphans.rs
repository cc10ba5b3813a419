//! P-R11: kill -9 of the gateway, or of a shim, leaves no descendant and no zombie.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::processes::{LAB, alive, below, mark, marked, soon, trees, zombies_of};

/// A gateway in a process of its own, killed at the latest when the test ends.
struct Gateway {
    process: Child,
    /// The children's pids and their shims'.
    children: Vec<(u32, u32)>,
}

impl Gateway {
    fn spawn(options: &[&str], count: usize, mark: &str, program: &[&str]) -> Child {
        Command::new(LAB)
            .arg("gateway")
            .args(options)
            .args([&count.to_string(), mark])
            .args(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Waits until every child said that its tree stands.
    fn with_trees(options: &[&str], kinds: usize, mark: &str, kind: &str) -> Self {
        let script = trees();
        let program = ["python3", script.to_str().unwrap(), kind];
        let mut process = Self::spawn(options, kinds, mark, &program);
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let children = lines
            .take(kinds)
            .map(|line| {
                let line = line.unwrap();
                let [pid, shim, "ready"] = line.split(' ').collect::<Vec<_>>()[..] else {
                    panic!("the child said {line:?}");
                };
                (pid.parse().unwrap(), shim.parse().unwrap())
            })
            .collect();
        Self { process, children }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        assert_eq!(self.process.wait().unwrap().signal(), Some(9));
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn p_r11_no_tree_outlives_a_killed_gateway() {
    for kind in [
        "polite",
        "deaf",
        "sessions",
        "daemon",
        "chain",
        "bush",
        "runner",
        "closed-pipes",
    ] {
        let mark = mark(kind);
        let mut gateway = Gateway::with_trees(&[], 2, &mark, kind);
        assert!(
            marked(&mark).len() >= 2,
            "{kind}: the trees stand before the kill"
        );
        gateway.kill();
        let took = soon(kind, || {
            let mut left = marked(&mark);
            let shims = gateway.children.iter().map(|(_, shim)| *shim);
            left.extend(shims.filter(|shim| alive(*shim)));
            left
        });
        eprintln!("P-R11 {kind}: clear {} ms after kill -9", took.as_millis());
    }
}

#[test]
fn p_r11_a_gateway_killed_while_it_starts_children_leaves_none() {
    // The tree stands within a few milliseconds, so the kills fall before, between and after its parts.
    let tree = "trap '' TERM HUP; setsid sleep 60 & (sleep 60 & sleep 60) & echo ready; sleep 60";
    let mark = mark("start-up");
    let mut slowest = Duration::ZERO;
    for round in 0..100 {
        let mut process = Gateway::spawn(&[], 3, &mark, &["sh", "-c", tree]);
        sleep(Duration::from_micros(round * 250));
        process.kill().unwrap();
        process.wait().unwrap();
        slowest = slowest.max(soon("start-up", || marked(&mark)));
    }
    eprintln!(
        "P-R11 100 kills during start-up: slowest clear {} ms",
        slowest.as_millis()
    );
}

#[test]
fn p_r11_a_killed_shim_leaves_its_tree_to_the_gateway_which_clears_it() {
    for kind in ["deaf", "daemon", "chain"] {
        let mark = mark(&format!("shim-{kind}"));
        let gateway = Gateway::with_trees(&["--subreaper"], 2, &mark, kind);
        let [(_, killed), (other, kept)] = gateway.children[..] else {
            panic!("two children")
        };
        let before = marked(&mark);
        assert!(before.contains(&other));
        Command::new("kill")
            .args(["-9", &killed.to_string()])
            .status()
            .unwrap();
        let of_other = below(kept);
        let took = soon(kind, || {
            marked(&mark)
                .into_iter()
                .filter(|p| !of_other.contains(p))
                .collect()
        });
        soon("zombies", || zombies_of(gateway.process.id()));
        eprintln!(
            "P-R11 shim of {kind} killed: clear after {} ms",
            took.as_millis()
        );
        // The other child of the same gateway was left alone.
        assert!(of_other.contains(&other));
        assert!(of_other.is_subset(&marked(&mark).into_iter().collect::<HashSet<_>>()));
    }
}

#[test]
fn g_76_a_polite_stop_leaves_nothing_even_of_the_deaf() {
    for kind in ["polite", "deaf", "daemon", "runner"] {
        let mark = mark(&format!("stop-{kind}"));
        let mut gateway = Gateway::with_trees(&["--subreaper"], 2, &mark, kind);
        gateway
            .process
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"stop\n")
            .unwrap();
        assert!(gateway.process.wait().unwrap().success());
        soon(kind, || marked(&mark));
    }
}

#[test]
fn ignored_signals_of_the_gateway_are_not_ignored_by_its_children() {
    let mark = mark("mask");
    let show = "grep ^Sig /proc/self/status | tr '\\n' ' '; echo; exec cat";
    let ignore = r#"trap '' INT TERM HUP QUIT USR1 ALRM; exec "$@""#;
    let mut process = Command::new("sh")
        .args([
            "-c", ignore, "sh", LAB, "gateway", "1", &mark, "sh", "-c", show,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Ends of input ends the lab, after it has shown the child's first line.
    drop(process.stdin.take());
    let mut said = String::new();
    process
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    process.wait().unwrap();
    // The 31 signals that have names; some environments ignore the C library's own two after them.
    for set in ["SigIgn:\t", "SigBlk:\t"] {
        let hex = said
            .split_once(set)
            .expect(set)
            .1
            .split_whitespace()
            .next()
            .unwrap();
        assert_eq!(
            u64::from_str_radix(hex, 16).unwrap() & 0x7fff_ffff,
            0,
            "{set}{said}"
        );
    }
}
