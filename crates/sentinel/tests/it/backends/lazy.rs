//! Lazy children: listed from memory, started by the first call, stopped when nobody calls.

use std::thread;

use serde_json::json;

use crate::support::callers::{Caller, Legacy, Modern, text_of, tool};
use crate::support::http::parse;
use crate::support::processes::running;
use crate::support::setup::{Gateway, stdio_backend, until};

fn children(gateway: &Gateway) -> usize {
    running(gateway.process.pid(), "sentinel-fixture").len()
}

#[test]
fn g_45_a_lazy_child_is_remembered_across_restarts_and_started_once_by_the_first_call() {
    let config = stdio_backend("lazy", &["--start-delay-ms", "200"], "start = \"lazy\"");
    let gateway = Gateway::start(&config);
    // Nobody knows it yet, so it is looked at once.
    let caller = Modern::new(&gateway, "/mcp");
    until("its tools are known", || {
        caller.tools().contains(&"echo".to_owned()).then_some(())
    });
    until("the catalog is written down", || {
        gateway
            .setup
            .data()
            .join("catalogs/lazy.json")
            .exists()
            .then_some(())
    });

    let gateway = gateway.restart();
    let caller = Modern::new(&gateway, "/mcp");
    assert!(
        caller.tools().contains(&"echo".to_owned()),
        "listed before it ever ran"
    );
    let legacy = Legacy::newest(&gateway);
    assert!(legacy.hello["capabilities"]["tools"].is_object());
    assert_eq!(children(&gateway), 0, "listing starts nothing");
    assert_eq!(gateway.get("/ready").status, 200);
    assert_eq!(children(&gateway), 0);

    let pids: Vec<_> = thread::scope(|scope| {
        let call =
            || parse(&Modern::new(&gateway, "/mcp").said("whoami", json!({})))["pid"].clone();
        let calls: Vec<_> = (0..10).map(|_| scope.spawn(call)).collect();
        calls
            .into_iter()
            .map(|call| call.join().expect("answered"))
            .collect()
    });
    assert!(
        pids.iter().all(|pid| *pid == pids[0]),
        "one child for all: {pids:?}"
    );
    assert_eq!(children(&gateway), 1);
    let log = gateway.setup.log();
    assert_eq!(
        log.matches("\"message\":\"up\"").count(),
        2,
        "once in each life: {log}"
    );
}

#[test]
fn g_45_a_changed_command_is_not_taken_for_the_remembered_one() {
    let gateway = Gateway::ready(&stdio_backend("one", &["--tools", "1"], ""));
    until("the catalog is written down", || {
        gateway
            .setup
            .data()
            .join("catalogs/one.json")
            .exists()
            .then_some(())
    });
    gateway
        .setup
        .rewrite(&stdio_backend("one", &["--hang"], "start = \"eager\""));
    let gateway = gateway.restart();
    assert!(
        !Modern::new(&gateway, "/mcp")
            .tools()
            .contains(&"echo_1".to_owned())
    );
}

#[test]
fn g_45_an_idle_child_is_stopped_and_the_next_call_starts_it_again() {
    let gateway = Gateway::start(&stdio_backend(
        "idle",
        &[],
        "start = \"lazy\"\nidle_stop = 1",
    ));
    let caller = Modern::new(&gateway, "/mcp");
    until("its tools are known", || {
        caller.tools().contains(&"echo".to_owned()).then_some(())
    });
    let awake = || {
        // A call keeps it awake for as long as it takes.
        let held = caller.send("tools/call", tool("barrier", json!({"name": "b"})));
        until("the call waits", || {
            (caller.said("waiting", json!({"name": "b"})) == "1").then_some(())
        });
        assert_eq!(children(&gateway), 1);
        assert_eq!(caller.said("release", json!({"name": "b"})), "1");
        assert_eq!(text_of(&held.finish().json()), "passed b");
    };
    awake();
    until("it is stopped", || (children(&gateway) == 0).then_some(()));
    assert!(caller.tools().contains(&"echo".to_owned()), "still listed");
    assert_eq!(gateway.health("idle"), "asleep");
    awake();
    // Longer than it may be idle.
    assert_eq!(caller.said("slow", json!({"ms": 1500})), "waited 1500 ms");
}
