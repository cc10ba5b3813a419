//! G-53 to G-58, P-R03: children that die, lie or fall silent harm nobody but their own calls.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, kind_of, request, text_of, tool};
use crate::support::http::{Sent, parse};
use crate::support::processes::{kill, running};
use crate::support::setup::{Gateway, measured, stdio_backend, until};

const FIXTURE: &str = "sentinel-fixture";

/// The pid of the one fixture that runs below a gateway.
fn child_of(gateway: &Gateway) -> u32 {
    until("one child runs", || {
        let [pid] = running(gateway.process.pid(), FIXTURE)[..] else {
            return None;
        };
        Some(pid)
    })
}

/// Sends calls that wait at a barrier, and returns once they do.
fn waiting(caller: &Modern, count: usize) -> Vec<Sent> {
    let sent = (0..count)
        .map(|_| caller.send("tools/call", tool("barrier", json!({"name": "w"}))))
        .collect();
    until("they wait", || {
        (caller.said("waiting", json!({"name": "w"})) == count.to_string()).then_some(())
    });
    sent
}

#[test]
fn p_r03_a_killed_child_fails_its_calls_at_once_and_is_back_within_two_seconds() {
    for era in ["legacy", "modern"] {
        let (failed, back) = measured(
            || failed_and_back(era),
            |(failed, back)| *failed < Duration::from_secs(1) && *back < Duration::from_secs(2),
        );
        eprintln!("P-R03 {era}: calls failed after {failed:?}, worked again {back:?} later");
    }
}

/// How long a kill is unknown to the calls in flight, and how long it is then felt by others.
fn failed_and_back(era: &str) -> (Duration, Duration) {
    let gateway = Gateway::ready(&stdio_backend("one", &["--era", era], ""));
    let caller = Modern::new(&gateway, "/mcp");
    let calls = waiting(&caller, 5);
    let first = child_of(&gateway);
    let start = Instant::now();
    kill(first);
    for call in calls {
        let answer = call.finish().json();
        assert_eq!(kind_of(&answer), "backend_unavailable", "{answer}");
        assert_eq!(answer["error"]["code"], -32603);
    }
    let failed = start.elapsed();
    // Meanwhile it is still listed (decision 22).
    assert!(caller.tools().contains(&"echo".to_owned()));
    until("calls work again", || {
        let answer = caller.call("echo", json!({"text": "back"}));
        (answer["result"]["content"][0]["text"] == "back").then_some(())
    });
    let back = start.elapsed() - failed;
    assert_ne!(child_of(&gateway), first);
    (failed, back)
}

#[test]
fn g_44_a_restarted_child_is_discovered_again_and_callers_hear_what_changed() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], ""));
    let caller = Legacy::newest(&gateway);
    assert_eq!(caller.said("grow", json!({})), "grown_1");
    until("the new tool is listed", || {
        caller.tools().contains(&"grown_1".to_owned()).then_some(())
    });
    let mut stream = caller.verb("GET").head();
    // The next process never grew.
    kill(child_of(&gateway));
    assert_eq!(stream.json()["method"], "notifications/tools/list_changed");
    assert!(!caller.tools().contains(&"grown_1".to_owned()));
    assert_eq!(caller.said("echo", json!({"text": "on"})), "on");
}

#[test]
fn p_r02_a_call_that_crashed_its_child_is_not_made_again() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], ""));
    let caller = Modern::new(&gateway, "/mcp");
    let first = child_of(&gateway);
    let crashed = caller.call("crash", json!({}));
    assert_eq!(kind_of(&crashed), "backend_unavailable", "{crashed}");
    until("it is back", || {
        let answer = caller.call("echo", json!({"text": "x"}));
        answer["result"].is_object().then_some(())
    });
    // Made again, the call would have ended this one, too.
    let second = child_of(&gateway);
    assert_ne!(first, second);
    assert_eq!(caller.said("echo", json!({"text": "on"})), "on");
    assert_eq!(child_of(&gateway), second);
    let restarts = gateway.setup.log().matches("\"message\":\"up\"").count();
    assert_eq!(restarts, 2, "up once, and once more");
}

/// G-64: who is turned back because the child restarts says nothing about it. With a circuit that opens at the second
/// failure, the death of the child is the only one.
#[test]
fn p_r03_calls_during_a_restart_open_no_circuit_and_say_when_to_come_back() {
    let more = "circuit_breaker = { threshold = 2, recovery = 60 }";
    let child = stdio_backend("one", &["--start-delay-ms", "1000"], more);
    let gateway = Gateway::ready(&child);
    let caller = Modern::new(&gateway, "/mcp");
    let crashed = caller.call("crash", json!({}));
    assert_eq!(kind_of(&crashed), "backend_unavailable", "{crashed}");
    until("it is back", || {
        let answer = caller.call("echo", json!({"text": "x"}));
        if answer["result"].is_object() {
            return Some(());
        }
        assert_eq!(kind_of(&answer), "backend_unavailable", "{answer}");
        let after = &answer["error"]["data"]["retry_after_ms"];
        assert!(after.as_u64() >= Some(250), "{answer}");
        None
    });
}

#[test]
fn g_54_a_child_that_lies_harms_no_other_call() {
    for era in ["legacy", "modern"] {
        let config = stdio_backend("one", &["--era", era], "timeout = 2");
        let gateway = Gateway::ready(&format!("[limits]\nline_mb = 4\n{config}"));
        let caller = Modern::new(&gateway, "/mcp");
        let innocent = caller.send("tools/call", tool("barrier", json!({"name": "i"})));
        until("an innocent call waits", || {
            (caller.said("waiting", json!({"name": "i"})) == "1").then_some(())
        });
        let pid = child_of(&gateway);
        // Lies beside the truth: the truth arrives.
        for kind in ["unknown_id", "null_id", "garbage", "invalid_utf8"] {
            assert_eq!(
                caller.said("liar", json!({"kind": kind})),
                "the truth",
                "{era} {kind}"
            );
        }
        assert_eq!(
            caller.said("liar", json!({"kind": "twice"})),
            "the truth",
            "{era}"
        );
        assert_eq!(
            caller.said("liar", json!({"kind": "partial", "ms": 50})),
            "the truth",
            "{era}"
        );
        // Lies in the place of an answer: an error, and at once where it can be told.
        for kind in ["both", "neither"] {
            let answer = caller.call("liar", json!({"kind": kind}));
            assert_eq!(
                kind_of(&answer),
                "backend_bad_reply",
                "{era} {kind}: {answer}"
            );
        }
        // A 5 MB line is beyond the limit of 4: its own call fails, the pipe goes on.
        let huge = caller.call("liar", json!({"kind": "huge", "mb": 5}));
        assert!(huge["error"]["code"].is_i64(), "{era}: {huge}");
        assert_eq!(caller.said("echo", json!({"text": "on"})), "on");
        // An answer with somebody else's id is nobody's; its own call runs out of time.
        let wrong = caller.call("liar", json!({"kind": "wrong_id"}));
        assert_eq!(kind_of(&wrong), "backend_timeout", "{era}: {wrong}");
        assert_eq!(child_of(&gateway), pid, "the same child all along");
        drop(innocent);
    }
}

#[test]
fn g_54_an_innocent_call_survives_every_lie() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], "timeout = 20"));
    let caller = Modern::new(&gateway, "/mcp");
    for kind in [
        "twice",
        "unknown_id",
        "null_id",
        "garbage",
        "both",
        "neither",
        "batch",
        "invalid_utf8",
        "partial",
        "huge",
    ] {
        let innocent = caller.send("tools/call", tool("barrier", json!({"name": "i"})));
        until("it waits", || {
            (caller.said("waiting", json!({"name": "i"})) == "1").then_some(())
        });
        let answer = caller.call("liar", json!({"kind": kind, "mb": 1, "ms": 10}));
        assert!(
            answer["result"].is_object() || answer["error"].is_object(),
            "{kind}"
        );
        assert_eq!(caller.said("release", json!({"name": "i"})), "1", "{kind}");
        assert_eq!(text_of(&innocent.finish().json()), "passed i", "{kind}");
    }
}

#[test]
fn g_64_a_child_that_keeps_dying_leaves_the_catalog_and_the_others_alone() {
    let config = [
        stdio_backend("good", &[], ""),
        crate::support::setup::program_backend(
            "bad",
            "sh",
            &["-c", "echo last words >&2; exit 3"],
            "max_restarts = 1",
        ),
        crate::support::setup::program_backend(
            "absent",
            "/no/such/program",
            &[],
            "max_restarts = 1",
        ),
    ];
    let gateway = Gateway::start(&config.concat());
    let caller = Modern::new(&gateway, "/mcp");
    until("the good one answers", || {
        let answer = caller.call("echo", json!({"text": "x"}));
        (answer["result"]["content"][0]["text"] == "x").then_some(())
    });
    until("the bad ones are given up", || {
        let ready = gateway.get("/ready");
        let settled = ["bad", "absent"]
            .iter()
            .all(|name| ready.json()["backends"][name] != "starting");
        (ready.status == 200 && settled).then_some(())
    });
    for name in ["bad", "absent"] {
        let refused = Modern::new(&gateway, &format!("/mcp/{name}")).call("echo", json!({}));
        assert!(refused["error"].is_object(), "{refused}");
    }
    assert_eq!(caller.said("echo", json!({"text": "still"})), "still");
    // Its last words are in the log, under its name.
    let log = gateway.setup.log();
    let said = log.lines().find(|line| line.contains("last words"));
    assert!(said.is_some_and(|line| line.contains("bad")), "{log}");
}

/// A child that runs only while a file exists.
fn fragile(file: &std::path::Path) -> String {
    let fixture = crate::support::setup::fixture().display();
    let script = format!("test -e {} && exec {fixture} stdio", file.display());
    let more = "max_restarts = 1\nhealth_interval = 0";
    crate::support::setup::program_backend("one", "sh", &["-c", &script], more)
}

#[test]
fn issue_17_8_a_child_that_was_given_up_says_when_it_is_tried_and_comes_back_once_repaired() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("works");
    let write = || std::fs::write(&file, "").expect("written");
    let config = fragile(&file);
    write();
    let gateway = Gateway::ready(&(stdio_backend("good", &["--tools", "1"], "") + &config));
    let caller = Modern::new(&gateway, "/mcp");
    let own = Modern::new(&gateway, "/mcp/one");
    let lists = || caller.tools().contains(&"one__echo".to_owned());
    let call = || caller.call("one__echo", json!({"text": "x"}));
    let give_up = || {
        std::fs::remove_file(&file).expect("removed");
        own.call("crash", json!({}));
        until("it is out of the lists", || (!lists()).then_some(()));
    };
    assert!(lists());

    give_up();
    for answer in [call(), own.call("echo", json!({"text": "x"}))] {
        assert_eq!(kind_of(&answer), "backend_unavailable", "{answer}");
        let after = answer["error"]["data"]["retry_after_ms"].as_u64();
        assert!((1..=300_000).contains(&after.unwrap_or(0)), "{answer}");
    }
    let log = gateway.setup.log();
    assert!(
        log.contains("given up") && log.contains("next_start_s"),
        "{log}"
    );
    let (code, _, said) = gateway.setup.sentinel(&["restart", "one"]);
    assert_eq!(code, 3, "{said}");
    assert!(
        said.contains("did not start: it ended with status 1"),
        "{said}"
    );
    write();
    until("it is back by itself", || {
        call()["result"].is_object().then_some(())
    });
    assert!(lists());

    give_up();
    write();
    let (code, out, said) = gateway.setup.sentinel(&["restart", "one"]);
    assert_eq!(code, 0, "{out}{said}");
    assert_eq!(own.said("echo", json!({"text": "at once"})), "at once");
    let first = child_pids(&gateway);
    let (code, ..) = gateway.setup.sentinel(&["restart", "one", "--json"]);
    assert_eq!(code, 0);
    assert_ne!(child_pids(&gateway), first, "one that runs is started anew");

    for (name, words) in [
        ("oen", "did you mean `one`"),
        ("no-such", "there is no backend"),
    ] {
        let (code, _, said) = gateway.setup.sentinel(&["restart", name]);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(words), "{said}");
    }
    let restarts = |record: &Value| record["operation"] == "backend one";
    let records = crate::support::records::export(&gateway.end());
    assert_eq!(records.iter().filter(|r| restarts(r)).count(), 3);
}

fn child_pids(gateway: &Gateway) -> Vec<u32> {
    let mut pids = running(gateway.process.pid(), FIXTURE);
    pids.sort_unstable();
    pids
}

#[test]
fn g_65_a_child_gets_its_configured_environment_and_nothing_else() {
    let config = stdio_backend(
        "one",
        &[],
        "env = { PLAIN = \"as written\", SECRET_ENV = \"PATH\" }",
    );
    let gateway = Gateway::ready(&config);
    let caller = Modern::new(&gateway, "/mcp");
    let env = |name: &str| caller.said("env", json!({"name": name}));
    assert_eq!(env("PLAIN"), "as written");
    assert_eq!(env("SECRET"), std::env::var("PATH").unwrap_or_default());
    assert_eq!(env("CARGO_MANIFEST_DIR"), "");
}

#[test]
fn g_45_children_of_every_revision_and_manner_are_discovered() {
    let mut config = String::new();
    for (n, options) in [
        &["--era", "legacy", "--revision", "2024-11-05"][..],
        &["--era", "legacy", "--revision", "2025-03-26"],
        &["--era", "legacy", "--revision", "2025-06-18"],
        &["--era", "legacy", "--revision", "2025-11-25"],
        &["--era", "modern"],
        &["--era", "both"],
        &["--era", "legacy", "--exit-on-probe"],
    ]
    .iter()
    .enumerate()
    {
        config.push_str(&stdio_backend(&format!("b{n}"), options, ""));
    }
    let gateway = Gateway::ready(&config);
    let revisions: Vec<Value> = (0..7)
        .map(|n| {
            let caller = Modern::new(&gateway, &format!("/mcp/b{n}"));
            parse(&caller.said("whoami", json!({})))["revision"].clone()
        })
        .collect();
    assert_eq!(
        revisions,
        [
            "2024-11-05",
            "2025-03-26",
            "2025-06-18",
            "2025-11-25",
            "2026-07-28",
            "2025-11-25",
            "2025-11-25"
        ]
    );
    // And each serves a caller of each era.
    for n in 0..7 {
        let path = format!("/mcp/b{n}");
        let caller = Legacy::connect(&gateway, &path, "2024-11-05");
        assert_eq!(caller.said("echo", json!({"text": path})), path);
        let body = request(&json!(1), "tools/call", tool("fail", json!({})));
        assert_eq!(caller.post(&body).json()["result"]["isError"], true);
    }
}

#[test]
fn decision_23_isolated_children_are_one_per_session_or_one_per_caller() {
    let config = [
        stdio_backend("session", &[], "isolation = \"session\""),
        stdio_backend("caller", &[], "isolation = \"caller\""),
        stdio_backend("shared", &[], ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    let pid = |caller: &dyn Caller| parse(&caller.said("whoami", json!({})))["pid"].clone();
    let session =
        |backend: &str| Legacy::connect(&gateway, &format!("/mcp/{backend}"), "2025-11-25");
    let (a, b) = (session("session"), session("session"));
    assert_ne!(pid(&a), pid(&b));
    assert_eq!(pid(&a), pid(&a), "the same child for the whole session");
    for backend in ["caller", "shared"] {
        assert_eq!(pid(&session(backend)), pid(&session(backend)), "{backend}");
    }
    // What one session's child remembers, the other's does not know.
    assert_eq!(a.said("count", json!({"key": "k"})), "1");
    assert_eq!(b.said("executed", json!({"key": "k"})), "0");
}
