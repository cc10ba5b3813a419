//! G-76, P-R13: the end of a gateway: calls finish, children go, the exit says how it went.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, Steady, request, text_of, tool};
use crate::support::http::{Sent, parse, status};
use crate::support::pipe::Pipe;
use crate::support::processes::{alive, below, gone, running};
use crate::support::setup::{
    Gateway, PATIENCE, Process, Server, Setup, http_backend, measured, stdio_backend, until,
};

fn until_it_drains(gateway: &Gateway) {
    until("readiness turns 503", || {
        (status(&gateway.address, "/ready")? == 503).then_some(())
    });
}

/// The one call at the barrier is in flight.
fn until_it_waits(caller: &impl Caller) {
    until("the call waits", || {
        (caller.said("waiting", json!({"name": "b"})) == "1").then_some(())
    });
}

/// A gateway that ended has waited for its children; their shims may be a moment behind it.
fn went_with_it(children: &[u32], family: &HashSet<u32>) {
    assert!(children.iter().all(|pid| !alive(*pid)), "children first");
    gone("after an orderly end", || {
        family.iter().copied().filter(|pid| alive(*pid)).collect()
    });
}

#[test]
fn p_r13_sigterm_lets_calls_finish_then_children_go_and_the_exit_is_0() {
    let server = Server::start(&[]);
    let config = [
        stdio_backend("one", &["--era", "legacy"], ""),
        http_backend("two", &server.address, ""),
    ];
    let mut gateway = Gateway::ready(&config.concat());
    let legacy = Legacy::newest(&gateway);
    let modern = Modern::new(&gateway, "/mcp");
    let two = Modern::new(&gateway, "/mcp/two");
    let talk = || json!({"name": "chatty", "arguments": {"n": 8, "ms": 100}, "_meta": {"progressToken": 1}});
    let mut calls = [
        legacy
            .send(&request(&json!("c"), "tools/call", talk()))
            .head(),
        modern.send("tools/call", talk()).head(),
        two.send("tools/call", talk()).head(),
    ];
    for call in &mut calls {
        assert_eq!(call.json()["method"], "notifications/progress");
    }
    // However long the looks below take, this one is in flight meanwhile.
    let held = two.send("tools/call", tool("barrier", json!({"name": "b"})));
    until_it_waits(&two);
    let family = below(gateway.process.pid());
    let children = running(gateway.process.pid(), "sentinel-fixture");
    assert_eq!(children.len(), 1);

    let start = Instant::now();
    gateway.process.signal("TERM");
    until_it_drains(&gateway);
    eprintln!("P-R13: not ready {:?} after SIGTERM", start.elapsed());
    assert_eq!(gateway.get("/health").status, 200, "but alive");
    let late = modern.send("tools/list", json!({})).finish();
    assert_eq!(late.status, 503, "nothing new begins: {late:?}");
    let direct = Modern::at(&server.address, "/mcp", json!({}));
    assert_eq!(direct.said("release", json!({"name": "b"})), "1");
    assert_eq!(text_of(&held.finish().json()), "passed b");
    for mut call in calls {
        let last = std::iter::from_fn(|| call.message()).last();
        assert_eq!(text_of(&parse(&last.expect("an answer"))), "said 8");
    }
    let status = gateway.process.wait();
    assert_eq!(status.code(), Some(0));
    eprintln!(
        "P-R13: exit {:?} after SIGTERM, calls in flight",
        start.elapsed()
    );
    went_with_it(&children, &family);
    let run = gateway.setup.data().join("run");
    assert_eq!(
        std::fs::read_dir(run)
            .map(|files| files.count())
            .unwrap_or(0),
        0
    );
}

/// Thirteen callers at four fifths of what eight places can do: whatever was begun is answered whole.
#[test]
fn p_r13_under_load_nothing_that_was_begun_is_lost() {
    measured(ended_under_load, |after| *after < Duration::from_secs(1));
}

/// How long after the last answer the gateway was gone.
fn ended_under_load() -> Duration {
    const WORK_MS: u64 = 50;
    const LOAD: usize = 250;
    let server = Server::start(&[]);
    let config = http_backend("one", &server.address, "");
    let mut gateway = Gateway::ready(&format!("[admission]\nmax_concurrent = 8\n{config}"));
    let count = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..13)
        .map(|_| {
            let count = count.clone();
            let mut caller = Steady::connect(&gateway.address, None);
            std::thread::spawn(move || {
                let (mut answered, mut last) = (0, Instant::now());
                loop {
                    let began = Instant::now();
                    // An error is a connection that was closed between two calls, or a truncated answer; the
                    // records tell them apart.
                    match caller.call("slow", json!({ "ms": WORK_MS })) {
                        Ok(answer) if answer["result"].is_object() => {
                            (answered, last) = (answered + 1, Instant::now());
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(refused) => panic!("{refused}"),
                        Err(_) => return (answered, last),
                    }
                    let pause = Duration::from_millis(2 * WORK_MS);
                    std::thread::sleep(pause.saturating_sub(began.elapsed()));
                }
            })
        })
        .collect();
    until("there is load", || {
        (count.load(Ordering::Relaxed) >= LOAD).then_some(())
    });
    let told = Instant::now();
    gateway.process.signal("TERM");
    until_it_drains(&gateway);
    let unready = told.elapsed();
    assert_eq!(gateway.process.wait().code(), Some(0));
    let exit = Instant::now();
    let ends: Vec<(usize, Instant)> = callers
        .into_iter()
        .map(|c| c.join().expect("no panic"))
        .collect();
    let answered: usize = ends.iter().map(|(answered, _)| answered).sum();
    let last = ends.iter().map(|(_, last)| *last).max().expect("callers");
    let records = crate::support::records::export(&gateway.setup);
    // Whoever came after the signal was turned away, and that is on record, too.
    let is_begun = |r: &&Value| r["operation"] == "slow" && r["kind"] != "going_down";
    let begun = records.iter().filter(is_begun);
    let begun: Vec<&str> = begun.filter_map(|r| r["outcome"].as_str()).collect();
    let after = exit.saturating_duration_since(last);
    eprintln!(
        "P-R13: SIGTERM under load: {answered} calls answered, {} recorded, 0 lost; not ready after {unready:?}, \
         exit {after:?} after the last answer",
        begun.len(),
    );
    assert_eq!(begun, vec!["success"; answered]);
    after
}

#[test]
fn p_r13_a_second_signal_ends_at_once() {
    let config = stdio_backend("one", &[], "");
    let second_signal = || {
        let mut gateway = Gateway::ready(&config);
        let caller = Modern::new(&gateway, "/mcp");
        let call = caller.send("tools/call", tool("barrier", json!({"name": "b"})));
        until_it_waits(&caller);
        let family = below(gateway.process.pid());
        gateway.process.signal("TERM");
        assert!(call.is_silent(Duration::from_millis(200)), "it drains");
        let start = Instant::now();
        gateway.process.signal("INT");
        assert_ne!(gateway.process.wait().code(), Some(0));
        let took = start.elapsed();
        gone("after a second signal", || {
            family.iter().copied().filter(|pid| alive(*pid)).collect()
        });
        took
    };
    measured(second_signal, |took| *took < Duration::from_secs(1));
}

#[test]
fn p_r13_draining_ends_when_its_time_is_over() {
    let config = format!("drain_timeout = 1\n{}", stdio_backend("one", &[], ""));
    let mut gateway = Gateway::ready(&config);
    let caller = Modern::new(&gateway, "/mcp");
    let _call = caller.send("tools/call", tool("barrier", json!({"name": "b"})));
    until_it_waits(&caller);
    let start = Instant::now();
    gateway.process.signal("TERM");
    assert!(gateway.process.wait().code().is_some());
    let took = start.elapsed();
    assert!(
        took > Duration::from_millis(900) && took < Duration::from_secs(6),
        "{took:?}"
    );
}

#[test]
fn g_76_stdio_ends_with_its_input_and_with_a_signal() {
    let config = stdio_backend("one", &[], "");
    for by_signal in [false, true] {
        let pipe = Pipe::legacy(&config, "2025-11-25", json!({}));
        pipe.wait_for_tool("echo");
        let family = below(pipe.pid());
        let children = running(pipe.pid(), "sentinel-fixture");
        assert_eq!(children.len(), 1);
        if by_signal {
            crate::support::setup::signal(pipe.pid(), "TERM");
        } else {
            pipe.close();
        }
        assert_eq!(pipe.wait().code(), Some(0));
        went_with_it(&children, &family);
    }
}

#[test]
fn g_28_stdio_ends_when_nobody_reads_its_answers_although_its_input_is_open() {
    use std::io::Write;
    let setup = Setup::new(&stdio_backend("one", &[], ""));
    let mut gateway = setup.spawn_stdio();
    drop(gateway.stdout.take());
    let mut input = gateway.stdin.take().expect("it was asked for");
    let ping = request(&json!(1), "ping", json!({}));
    writeln!(input, "{ping}").expect("it reads");
    let end = Instant::now() + PATIENCE;
    while gateway.try_wait().expect("ours").is_none() {
        assert!(Instant::now() < end, "it still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(input);
}

#[test]
fn g_27_nothing_but_messages_reaches_stdout() {
    let pipe = Pipe::legacy(&stdio_backend("one", &[], ""), "2025-11-25", json!({}));
    pipe.wait_for_tool("echo");
    // `line` parses every line that comes; logs went elsewhere.
    assert_eq!(pipe.said("echo", json!({"text": "x"})), "x");
    assert!(pipe.setup.log().contains("\"message\":\"up\""));
}

#[test]
fn p_r13_a_call_in_flight_may_still_be_answered_and_cancelled_while_draining() {
    let server = Server::start(&["--era", "legacy"]);
    let mut gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    let forms = json!({"elicitation": {"form": {}}});
    let caller = Legacy::with(&gateway, "/mcp", "2025-11-25", forms);
    let ask = tool("ask", json!({"message": "?"}));
    let mut asking = caller
        .send(&request(&json!("ask"), "tools/call", ask))
        .head();
    let question = asking.json();
    let stuck = caller.send(&request(
        &json!("stuck"),
        "tools/call",
        tool("barrier", json!({"name": "b"})),
    ));
    until_it_waits(&caller);
    gateway.process.signal("TERM");
    until_it_drains(&gateway);
    let answer = json!({"jsonrpc": "2.0", "id": question["id"],
                        "result": {"action": "accept", "content": {"name": "Ada"}}});
    assert_eq!(caller.post(&answer.to_string()).status, 202);
    assert_eq!(text_of(&asking.json()), "hello Ada");
    caller.cancel(&json!("stuck"));
    assert!(!stuck.finish().text.contains("result"));
    assert_eq!(gateway.process.wait().code(), Some(0));
}

/// How the one call of this name is on record after the end.
fn outcome_of(gateway: &Gateway, operation: &str) -> String {
    let records = crate::support::records::export(&gateway.setup);
    let mut calls = records.iter().filter(|r| r["operation"] == operation);
    let call = calls.next().expect("a record of the call");
    assert!(calls.next().is_none(), "one record");
    call["outcome"].as_str().expect("text").to_owned()
}

/// A call that takes so long, once it has its place.
fn begun(gateway: &Gateway, ms: u64) -> Sent {
    let caller = Legacy::newest(gateway);
    let slow = tool("slow", json!({ "ms": ms }));
    let call = caller.send(&request(&json!("c"), "tools/call", slow));
    until("it runs", || {
        let metrics = gateway.get("/metrics").text;
        let active =
            |line: &str| line.starts_with("sentinel_admission_active") && line.ends_with(" 1");
        metrics.lines().any(active).then_some(())
    });
    call
}

/// Decision 16: a legacy call belongs to its session, also while the gateway goes down.
#[test]
fn p_r13_a_call_whose_connection_is_gone_is_waited_for_and_on_record() {
    let server = Server::start(&[]);
    let mut gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    begun(&gateway, 2_000).hang_up();
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait().code(), Some(0));
    assert_eq!(outcome_of(&gateway, "slow"), "success");
}

/// P-A06: what the end of the gateway cuts off has its record, too.
#[test]
fn p_a06_calls_that_the_end_cuts_off_are_on_record() {
    let server = Server::start(&[]);
    let backend = http_backend("one", &server.address, "");
    let mut gateway = Gateway::ready(&format!("drain_timeout = 1\n{backend}"));
    let call = begun(&gateway, 60_000);
    gateway.process.signal("TERM");
    gateway.process.wait();
    drop(call);
    assert_eq!(outcome_of(&gateway, "slow"), "cancelled");
}

/// A supervisor may think better of it at once: whatever the gateway is at, its end is an orderly one. The
/// configuration is a pipe, so that it is known to be still reading.
#[test]
fn g_76_sigterm_before_the_configuration_is_read_is_an_orderly_end() {
    for subcommand in ["serve", "stdio"] {
        let setup = Setup::new("");
        let text = setup.become_a_pipe();
        let child = setup
            .command(subcommand)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(setup.log_file())
            .spawn()
            .expect("the program starts");
        let mut process = Process(child);
        // Opens when the other side does.
        let mut pipe = setup.open_the_pipe();
        process.signal("TERM");
        std::io::Write::write_all(&mut pipe, &text).expect("it still reads");
        drop(pipe);
        assert_eq!(process.wait().code(), Some(0), "{subcommand}");
    }
}
