//! G-56, G-57, P-R08: many calls at once, none in another's way, each ended by whoever may end it.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::callers::{
    Caller, Legacy, Modern, kind_of, notification, request, text_of, tool,
};
use crate::support::http::parse;
use crate::support::pipe::Pipe;
use crate::support::setup::{
    Gateway, PATIENCE, Server, http_backend, measured, stdio_backend, until,
};

/// One server of each kind; a call to one says nothing about the others.
fn four() -> (Gateway, [Server; 2]) {
    let legacy = Server::start(&["--era", "legacy"]);
    let modern = Server::start(&["--era", "modern"]);
    let config = [
        http_backend("hl", &legacy.address, ""),
        http_backend("hm", &modern.address, ""),
        stdio_backend("sl", &["--era", "legacy"], ""),
        stdio_backend("sm", &["--era", "modern"], ""),
    ];
    (Gateway::ready(&config.concat()), [legacy, modern])
}

const BACKENDS: [&str; 4] = ["hl", "hm", "sl", "sm"];

#[test]
fn g_56_fifty_calls_to_one_child_are_answered_in_reverse() {
    for era in ["legacy", "modern"] {
        let config = stdio_backend("one", &["--era", era], "");
        let gateway = Gateway::ready(&config);
        let caller = Modern::new(&gateway, "/mcp");
        let sent: Vec<_> = (0..50)
            .map(|i| caller.send("tools/call", tool("reverse", json!({"n": 50, "i": i}))))
            .collect();
        for (i, sent) in sent.into_iter().enumerate() {
            assert_eq!(text_of(&sent.finish().json()), i.to_string());
        }
        drop(gateway);

        let pipe = Pipe::legacy(&config, "2025-11-25", json!({}));
        pipe.wait_for_tool("reverse");
        let ids: Vec<_> = (0..50)
            .map(|i| pipe.start("tools/call", tool("reverse", json!({"n": 50, "i": i}))))
            .collect();
        for (i, id) in ids.iter().enumerate() {
            assert_eq!(text_of(&pipe.answer(id)), i.to_string(), "{era}");
        }
    }
}

#[test]
fn g_56_a_slow_call_delays_no_other_call_ping_or_cancel_of_its_session() {
    let (gateway, _servers) = four();
    for backend in BACKENDS {
        let caller = Legacy::connect(&gateway, &format!("/mcp/{backend}"), "2025-11-25");
        let call = |id: &str| {
            request(
                &json!(id),
                "tools/call",
                tool("barrier", json!({"name": "g"})),
            )
        };
        let slow = caller.send(&call("slow"));
        let doomed = caller.send(&call("doomed"));
        let waiting = || caller.said("waiting", json!({"name": "g"}));
        until("both wait", || (waiting() == "2").then_some(()));
        assert_eq!(caller.said("echo", json!({"text": "quick"})), "quick");
        assert_eq!(caller.result("ping", json!({})), json!({}));
        caller.cancel(&json!("doomed"));
        until("the backend hears the cancellation", || {
            (waiting() == "1").then_some(())
        });
        assert!(!doomed.finish().text.contains("result"), "{backend}");
        assert_eq!(caller.said("release", json!({"name": "g"})), "1");
        assert_eq!(text_of(&slow.finish().json()), "passed g", "{backend}");
    }
}

#[test]
fn g_56_a_slow_call_delays_nothing_on_stdio() {
    for era in ["legacy", "modern"] {
        let config = stdio_backend("one", &["--era", era], "");
        for modern in [false, true] {
            let pipe = if modern {
                Pipe::modern(&config, json!({}))
            } else {
                Pipe::legacy(&config, "2025-11-25", json!({}))
            };
            pipe.wait_for_tool("barrier");
            let barrier = || tool("barrier", json!({"name": "g"}));
            let slow = pipe.start("tools/call", barrier());
            let doomed = pipe.start("tools/call", barrier());
            let waiting = || pipe.said("waiting", json!({"name": "g"}));
            until("both wait", || (waiting() == "2").then_some(()));
            assert_eq!(pipe.said("echo", json!({"text": "quick"})), "quick");
            if !modern {
                assert_eq!(pipe.result("ping", json!({})), json!({}));
            }
            pipe.write(&notification(
                "notifications/cancelled",
                json!({"requestId": doomed}),
            ));
            until("the backend hears it", || (waiting() == "1").then_some(()));
            assert_eq!(pipe.said("release", json!({"name": "g"})), "1");
            assert_eq!(text_of(&pipe.answer(&slow)), "passed g");
            let about_doomed = |line: &Value| line["id"] == doomed;
            assert!(
                pipe.is_silent(Duration::from_millis(50), about_doomed),
                "{era}"
            );
        }
    }
}

/// How many cancellations of running calls a backend heard.
fn heard(caller: &impl Caller) -> usize {
    let said = parse(&caller.said("cancelled", json!({})));
    said["ids"].as_array().expect("a list").len()
}

#[test]
fn p_r08_cancelling_reaches_the_backend_and_so_does_closing_a_modern_stream() {
    let (gateway, _servers) = four();
    for backend in BACKENDS {
        let path = format!("/mcp/{backend}");
        let legacy = Legacy::connect(&gateway, &path, "2025-11-25");
        let modern = Modern::new(&gateway, &path);
        let late = || tool("barrier", json!({"name": "late"}));
        let waits = |n: &str| {
            until("it waits", || {
                (modern.said("waiting", json!({"name": "late"})) == n).then_some(())
            });
        };
        let before = heard(&modern);
        let call = legacy.send(&request(&json!(9), "tools/call", late()));
        waits("1");
        let start = Instant::now();
        legacy.cancel(&json!(9));
        until("a cancellation is heard", || {
            (heard(&modern) == before + 1).then_some(())
        });
        eprintln!(
            "P-R08 {backend}: notifications/cancelled heard after {:?}",
            start.elapsed()
        );
        drop(call);

        let call = modern.send("tools/call", late());
        waits("1");
        let start = Instant::now();
        call.hang_up();
        until("a closed stream is heard", || {
            (heard(&modern) == before + 2).then_some(())
        });
        eprintln!(
            "P-R08 {backend}: closed stream heard after {:?}",
            start.elapsed()
        );

        // The same once something was said, so that the stream is open.
        let chatty = json!({"name": "chatty", "arguments": {"n": 10_000, "ms": 20}, "_meta": {"progressToken": 1}});
        let mut stream = modern.send("tools/call", chatty).head();
        assert_eq!(stream.json()["method"], "notifications/progress");
        stream.hang_up();
        until("a closed event stream is heard", || {
            (heard(&modern) == before + 3).then_some(())
        });
    }
}

#[test]
fn p_r08_a_legacy_caller_that_disconnects_does_not_cancel() {
    let (gateway, _servers) = four();
    for backend in BACKENDS {
        let path = format!("/mcp/{backend}");
        let caller = Legacy::connect(&gateway, &path, "2025-11-25");
        let before = heard(&caller);
        let barrier = tool("barrier", json!({"name": "kept"}));
        let call = caller.send(&request(&json!("kept"), "tools/call", barrier));
        let waiting = || caller.said("waiting", json!({"name": "kept"}));
        until("it waits", || (waiting() == "1").then_some(()));
        call.hang_up();
        // Long enough for a close to be seen: one was, just before, in far less.
        thread::sleep(Duration::from_millis(150));
        assert_eq!(
            (waiting().as_str(), heard(&caller)),
            ("1", before),
            "{backend}"
        );
        assert_eq!(caller.said("release", json!({"name": "kept"})), "1");
    }
}

#[test]
fn p_r08_the_end_of_input_on_stdio_cancels_what_is_left() {
    let server = Server::start(&["--era", "legacy"]);
    let config = http_backend("one", &server.address, "");
    let gateway = Gateway::ready(&config);
    let watcher = Modern::new(&gateway, "/mcp");
    let pipe = Pipe::legacy(&config, "2025-11-25", json!({}));
    pipe.wait_for_tool("barrier");
    pipe.start("tools/call", tool("barrier", json!({"name": "end"})));
    let waiting = || watcher.said("waiting", json!({"name": "end"}));
    until("it waits", || (waiting() == "1").then_some(()));
    pipe.close();
    assert_eq!(pipe.wait().code(), Some(0));
    until("the backend hears it", || (waiting() == "0").then_some(()));
}

#[test]
fn g_51_g_57_a_backend_that_never_answers_fails_at_the_deadline() {
    let server = Server::start(&["--era", "legacy"]);
    let config = [
        http_backend("h", &server.address, "timeout = 2"),
        stdio_backend("s", &[], "timeout = 2"),
    ];
    let gateway = Gateway::ready(&config.concat());
    for path in ["/mcp/h", "/mcp/s"] {
        let caller = Legacy::connect(&gateway, path, "2025-11-25");
        let mut tries = 0;
        let time_out = || {
            tries += 1;
            let start = Instant::now();
            let answer = caller.call("never", json!({}));
            let took = start.elapsed();
            assert_eq!(kind_of(&answer), "backend_timeout", "{path}: {answer}");
            assert_eq!(answer["error"]["code"], -32603);
            assert!(took >= Duration::from_millis(1950), "{took:?}");
            took
        };
        let took = measured(time_out, |took| *took < Duration::from_millis(3500));
        eprintln!("G-51 {path}: time-out of 2 s after {took:?}");
        assert_eq!(caller.said("echo", json!({"text": "on"})), "on");
        until("the backend is told", || {
            (heard(&caller) == tries).then_some(())
        });
    }
}

#[test]
fn p_r01_calls_of_many_callers_are_each_answered_once() {
    let (gateway, _servers) = four();
    let start = Instant::now();
    thread::scope(|scope| {
        for n in 0..8 {
            let gateway = &gateway;
            scope.spawn(move || {
                let path = format!("/mcp/{}", BACKENDS[n % 4]);
                let legacy = Legacy::connect(gateway, &path, "2025-11-25");
                let modern = Modern::new(gateway, &path);
                for i in 0..25 {
                    let text = format!("{n}-{i}");
                    assert_eq!(legacy.said("echo", json!({"text": text})), text);
                    assert_eq!(modern.said("echo", json!({"text": text})), text);
                }
            });
        }
    });
    assert!(start.elapsed() < PATIENCE);
}
