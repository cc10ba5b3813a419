//! P-R11: kill -9 of the gateway leaves no descendant alive: not those that left its session, forked
//! twice, ignore SIGTERM and their closed input; nor at start-up, nor while a child is restarted.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Modern};
use crate::support::http::parse;
use crate::support::processes::{alive, below, gone, mark, marked, running};
use crate::support::setup::{Gateway, Process, Setup, fixture, program_backend, until};

/// A tree that does not want to die; its last line speaks MCP badly, which keeps it restarting.
const STUBBORN: &str = "trap '' TERM HUP INT; \
    setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 30; done' & \
    (setsid sh -c 'sleep 60 & sleep 60' &) ; \
    (sleep 60 & sleep 60) & \
    while :; do sleep 30; done";

fn stubborn(name: &str, mark: &str) -> String {
    program_backend(
        name,
        "sh",
        &["-c", STUBBORN],
        &format!("env = {{ IT_MARK = {mark:?} }}"),
    )
}

/// Every process of this mark, and every shim below the gateway as it was.
fn left(mark: &str, family: &[u32]) -> Vec<u32> {
    let mut left = marked(mark);
    left.extend(family.iter().copied().filter(|pid| alive(*pid)));
    left
}

#[test]
fn p_r11_no_tree_outlives_a_killed_gateway() {
    let mark = mark("trees");
    let config: String = (0..3).map(|n| stubborn(&format!("b{n}"), &mark)).collect();
    let mut gateway = Gateway::start(&config);
    until("the trees stand", || {
        (marked(&mark).len() >= 3 * 6).then_some(())
    });
    let family: Vec<u32> = below(gateway.process.pid()).into_iter().collect();
    gateway.process.signal("KILL");
    gateway.process.wait();
    let took = gone("trees", || left(&mark, &family));
    eprintln!(
        "P-R11: {} processes gone {took:?} after kill -9",
        family.len()
    );
}

#[test]
fn p_r11_no_tree_outlives_a_killed_stdio_gateway() {
    let mark = mark("stdio");
    let pipe = crate::support::pipe::Pipe::silent(&stubborn("one", &mark));
    until("the tree stands", || {
        (marked(&mark).len() >= 6).then_some(())
    });
    let family: Vec<u32> = below(pipe.pid()).into_iter().collect();
    crate::support::setup::signal(pipe.pid(), "KILL");
    pipe.wait();
    gone("stdio", || left(&mark, &family));
}

#[test]
fn p_r11_a_gateway_killed_while_it_starts_leaves_nothing() {
    let mark = mark("start-up");
    let config: String = (0..3).map(|n| stubborn(&format!("b{n}"), &mark)).collect();
    let setup = Setup::new(&config);
    let mut slowest = Duration::ZERO;
    for round in 0..30_u64 {
        let process = setup
            .command("serve")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(setup.log_file())
            .spawn()
            .expect("the program starts");
        let mut process = Process(process);
        // The moment of the kill is what is varied: before, between and after its children.
        std::thread::sleep(Duration::from_micros(round * 1500));
        process.signal("KILL");
        process.wait();
        slowest = slowest.max(gone("start-up", || marked(&mark)));
    }
    eprintln!("P-R11: 30 kills during start-up, the slowest was clear after {slowest:?}");
}

#[test]
fn p_r11_a_gateway_killed_while_children_restart_leaves_nothing() {
    let mark = mark("restart");
    // Each life leaves a daemon behind and ends.
    let dies = "(setsid sleep 60 &) ; trap '' TERM; sleep 0.05; exit 1";
    let more = format!("env = {{ IT_MARK = {mark:?} }}\nmax_restarts = 0");
    let config: String = (0..3)
        .map(|n| program_backend(&format!("b{n}"), "sh", &["-c", dies], &more))
        .collect();
    for round in 0..8_u64 {
        let mut gateway = Gateway::start(&config);
        until("children have come", || {
            (!marked(&mark).is_empty()).then_some(())
        });
        std::thread::sleep(Duration::from_millis(round * 40));
        gateway.process.signal("KILL");
        gateway.process.wait();
        gone("restart", || marked(&mark));
    }
}

#[test]
fn g_76_a_polite_stop_clears_stubborn_trees_too() {
    let mark = mark("term");
    let mut gateway = Gateway::start(&stubborn("one", &mark));
    until("the tree stands", || {
        (marked(&mark).len() >= 6).then_some(())
    });
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait().code(), Some(0));
    gone("after SIGTERM", || marked(&mark));
}

#[test]
fn p_r12_what_a_dead_child_left_behind_is_cleared_while_the_gateway_lives() {
    let mark = mark("left");
    let dies = "(setsid sleep 60 &) ; exit 1";
    let more = format!("env = {{ IT_MARK = {mark:?} }}\nmax_restarts = 1");
    let gateway = Gateway::start(&program_backend("one", "sh", &["-c", dies], &more));
    until("it is given up", || {
        let health = gateway.health("one");
        (health != "starting" && health != "restarting").then_some(())
    });
    gone("left behind", || marked(&mark));
    assert_eq!(gateway.get("/health").status, 200);
}

/// A child that leaves a daemon behind, in a namespace of its own.
fn namespaced(mark: &str) -> String {
    let script = format!(
        "setsid sh -c 'trap \"\" TERM HUP; sleep 300' & exec {} stdio",
        fixture().display()
    );
    let more = format!("pid_namespace = true\nenv = {{ IT_MARK = {mark:?} }}");
    program_backend("one", "sh", &["-c", &script], &more)
}

fn pid_of_child(gateway: &Gateway) -> Value {
    let caller = Modern::new(gateway, "/mcp");
    parse(&caller.said("whoami", json!({})))["pid"].clone()
}

#[test]
fn decision_44_a_tree_in_a_pid_namespace_ends_with_its_first_process() {
    let mark = mark("namespace");
    let mut gateway = Gateway::ready(&namespaced(&mark));
    assert_eq!(pid_of_child(&gateway), 1);
    until("the daemon runs", || {
        (marked(&mark).len() >= 3).then_some(())
    });
    let first = running(gateway.process.pid(), "sentinel-fixture");
    let old = marked(&mark);
    crate::support::processes::kill(first[0]);
    gone("a dead child's namespace", || {
        old.iter().copied().filter(|pid| alive(*pid)).collect()
    });
    until("the next one runs", || {
        (marked(&mark).len() >= 3).then_some(())
    });
    let family: Vec<u32> = below(gateway.process.pid()).into_iter().collect();
    gateway.process.signal("KILL");
    gateway.process.wait();
    let took = gone("a namespace", || left(&mark, &family));
    eprintln!(
        "decision 44: a namespace of {} processes gone {took:?} after kill -9",
        family.len()
    );
}

#[test]
fn decision_44_where_namespaces_are_forbidden_the_shim_does_it() {
    let mark = mark("forbidden");
    let setup = Setup::new(&namespaced(&mark));
    let forbid = "echo 0 > /proc/sys/user/max_pid_namespaces && exec \"$@\"";
    let started = setup
        .command_under(&["unshare", "-r", "sh", "-c", forbid, "sh"], "serve")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(setup.log_file())
        .spawn();
    let mut process = Process(started.expect("unshare starts"));
    let address = process.address(&setup);
    let mut gateway = Gateway {
        process,
        address,
        setup,
    };
    gateway.wait_ready();
    assert_ne!(pid_of_child(&gateway), 1);
    assert!(
        gateway
            .setup
            .log()
            .contains("does not allow a PID namespace")
    );
    until("the daemon runs", || {
        (marked(&mark).len() >= 3).then_some(())
    });
    let family: Vec<u32> = below(gateway.process.pid()).into_iter().collect();
    gateway.process.signal("KILL");
    gateway.process.wait();
    gone("a tree", || left(&mark, &family));
}
