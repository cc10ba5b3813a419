//! G-48 to G-52, G-70 to G-73, P-R02: servers over HTTP that come, go, forget and fail.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, kind_of, text_of, tool};
use crate::support::http::{Stream, parse};
use crate::support::setup::{Gateway, Server, free_port, http_backend, stdio_backend, until};

/// Calls until it works.
fn until_works(caller: &impl Caller) {
    until("calls work", || {
        let answer = caller.call("echo", json!({"text": "x"}));
        (answer["result"]["content"][0]["text"] == "x").then_some(())
    });
}

/// Reads on until the list of tools is said to have changed.
fn hears_of_tools(stream: &mut Stream) {
    while stream.json()["method"] != "notifications/tools/list_changed" {}
}

#[test]
fn g_50_a_forgotten_session_is_opened_again_and_the_call_runs_once() {
    let server = Server::start(&["--era", "legacy"]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    for modern in [false, true] {
        let caller: Box<dyn Caller> = if modern {
            Box::new(Modern::new(&gateway, "/mcp"))
        } else {
            Box::new(Legacy::newest(&gateway))
        };
        let key = json!({"key": format!("m{modern}")});
        let session =
            |caller: &dyn Caller| parse(&caller.said("whoami", json!({})))["session"].clone();
        let before = session(&*caller);
        assert!(before.is_string());
        caller.said("forget_sessions", json!({}));
        assert_eq!(
            caller.said("count", key.clone()),
            "1",
            "made in a new session"
        );
        assert_eq!(caller.said("executed", key.clone()), "1", "P-R02");
        assert_ne!(session(&*caller), before);
        // Several at once after one loss: each runs, and runs once.
        caller.said("forget_sessions", json!({}));
        let callers: Vec<_> = (0..4).map(|_| Modern::new(&gateway, "/mcp")).collect();
        let sent: Vec<_> = callers
            .iter()
            .map(|caller| caller.send("tools/call", tool("count", key.clone())))
            .collect();
        for sent in sent {
            text_of(&sent.finish().json());
        }
        assert_eq!(caller.said("executed", key), "5", "P-R02");
    }
}

#[test]
fn g_44_a_server_that_is_down_at_start_is_found_when_it_comes() {
    let port = free_port();
    let config = [
        http_backend("late", &format!("127.0.0.1:{port}"), "health_interval = 1"),
        stdio_backend("good", &[], ""),
    ];
    let gateway = Gateway::start(&config.concat());
    let caller = Legacy::newest(&gateway);
    until("the good one works", || {
        caller
            .tools()
            .iter()
            .any(|name| name.ends_with("echo"))
            .then_some(())
    });
    let refused = Modern::new(&gateway, "/mcp/late").call("echo", json!({"text": "x"}));
    assert!(refused["error"].is_object(), "{refused}");
    let mut stream = caller.verb("GET").head();
    let _server = Server::start_at(port, &[]);
    assert_eq!(stream.json()["method"], "notifications/tools/list_changed");
    until_works(&Modern::new(&gateway, "/mcp/late"));
}

#[test]
fn g_72_g_73_a_dead_server_leaves_the_catalog_and_comes_back() {
    for era in ["legacy", "modern"] {
        let mut server = Server::start(&["--era", era, "--tools", "1"]);
        let config = [
            stdio_backend("good", &[], ""),
            http_backend("one", &server.address, "health_interval = 1"),
        ];
        let gateway = Gateway::ready(&config.concat());
        let caller = Legacy::newest(&gateway);
        let listed = || caller.tools().contains(&"echo_1".to_owned());
        assert!(listed());
        let mut stream = caller.verb("GET").head();
        let port = server.port();
        server.kill();
        // One failure is not enough, three are.
        assert_eq!(
            kind_of(&caller.call("echo_1", json!({"text": "x"}))),
            "backend_unavailable"
        );
        until("it is off the list", || (!listed()).then_some(()));
        hears_of_tools(&mut stream);
        assert_eq!(caller.said("echo", json!({"text": "others"})), "others");
        let _again = Server::start_at(port, &["--era", era, "--tools", "1"]);
        until("it is back on the list", || listed().then_some(()));
        hears_of_tools(&mut stream);
        until_works(&Modern::new(&gateway, "/mcp/one"));
    }
}

#[test]
fn p_r02_a_server_that_dies_in_a_call_is_not_called_again() {
    let mut server = Server::start(&["--era", "legacy"]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, "retries = 3"));
    let caller = Modern::new(&gateway, "/mcp");
    let call = caller.send("tools/call", tool("barrier", json!({"name": "w"})));
    until("it waits", || {
        (caller.said("waiting", json!({"name": "w"})) == "1").then_some(())
    });
    let port = server.port();
    server.kill();
    let answer = call.finish().json();
    assert_eq!(kind_of(&answer), "backend_unavailable", "{answer}");
    // The same server again: had the call been repeated, it would wait there.
    let _again = Server::start_at(port, &["--era", "legacy"]);
    until_works(&caller);
    assert_eq!(caller.said("waiting", json!({"name": "w"})), "0");
}

/// A proxy that delivers calls of `count` and closes the connection in place of their answer, as often as `cuts` says.
fn cutting_proxy(server: &str, cuts: &Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (server, cuts) = (server.to_owned(), cuts.clone());
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = TcpStream::connect(&server).expect("the server listens");
            let is_count = Arc::new(AtomicBool::new(false));
            let (mut up, mut to) = (
                near.try_clone().expect("near"),
                far.try_clone().expect("far"),
            );
            let seen = is_count.clone();
            thread::spawn(move || {
                let mut bytes = [0; 64 * 1024];
                while let Ok(len @ 1..) = up.read(&mut bytes) {
                    let text = String::from_utf8_lossy(&bytes[..len]);
                    seen.fetch_or(text.contains(r#""name":"count""#), Ordering::SeqCst);
                    if to.write_all(&bytes[..len]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Both);
            });
            let (mut from, mut down, cuts) = (far, near, cuts.clone());
            thread::spawn(move || {
                let mut bytes = [0; 64 * 1024];
                while let Ok(len @ 1..) = from.read(&mut bytes) {
                    let cut = |left: usize| left.checked_sub(1);
                    let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
                    let is_count = is_count.swap(false, Ordering::SeqCst);
                    let is_cut = is_count && cuts.fetch_update(set, get, cut).is_ok();
                    if is_cut || down.write_all(&bytes[..len]).is_err() {
                        break;
                    }
                }
                let _ = down.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

/// G-52, P-R02, decision 17: after delivery only what our configuration names is tried again.
#[test]
fn issue_17_3_a_tool_that_matches_idempotent_tools_is_tried_again_after_delivery_and_no_other() {
    let server = Server::start(&[]);
    for (patterns, executed) in [
        (r#"["echo", "c*t"]"#, 3),
        (r#"["count"]"#, 3),
        (r#"["cou", "*x", "Count"]"#, 1),
        ("[]", 1),
    ] {
        let cuts = Arc::default();
        let address = cutting_proxy(&server.address, &cuts);
        let config = format!("retries = 3\nidempotent_tools = {patterns}");
        let gateway = Gateway::ready(&http_backend("one", &address, &config));
        let caller = Modern::new(&gateway, "/mcp");
        cuts.store(2, Ordering::SeqCst);
        let key = json!({"key": patterns});
        let answer = caller.call("count", key.clone());
        match executed {
            1 => assert_eq!(
                kind_of(&answer),
                "backend_unavailable",
                "{patterns}: {answer}"
            ),
            _ => assert_eq!(text_of(&answer), "3", "{patterns}: two attempts were lost"),
        }
        let count = caller.said("executed", key);
        assert_eq!(count, executed.to_string(), "{patterns}");
    }
}

#[test]
fn decision_22_an_open_circuit_answers_at_once_and_lets_one_call_see() {
    let mut server = Server::start(&[]);
    let circuit = "health_interval = 300\nretries = 0\n[backends.circuit_breaker]\nthreshold = 3\nrecovery = 5";
    let gateway = Gateway::ready(&http_backend("one", &server.address, circuit));
    let legacy = Legacy::newest(&gateway);
    let modern = Modern::new(&gateway, "/mcp");
    let echo = |caller: &dyn Caller| caller.call("echo", json!({"text": "x"}));
    let port = server.port();
    server.kill();
    for _ in 0..3 {
        assert_eq!(kind_of(&echo(&modern)), "backend_unavailable");
    }
    let open = echo(&legacy);
    assert_eq!(
        (kind_of(&open), &open["error"]["code"]),
        ("circuit_open", &json!(-32000))
    );
    let retry_after = open["error"]["data"]["retry_after_ms"]
        .as_u64()
        .expect("a time");
    assert!(retry_after <= 5000);
    let open = echo(&modern);
    assert_eq!(
        (kind_of(&open), &open["error"]["code"]),
        ("circuit_open", &json!(-31503))
    );
    assert!(
        modern.tools().contains(&"echo".to_owned()),
        "still listed (decision 22)"
    );
    let _again = Server::start_at(port, &[]);
    until_works(&modern);
}

#[test]
fn g_7_g_65_headers_from_the_environment_reach_the_server_and_nothing_else_does() {
    let server = Server::start(&["--require-header", "X-Key: s3cret"]);
    let setup = crate::support::setup::Setup::new(&http_backend(
        "one",
        &server.address,
        "headers = { X-Key = \"s3cret\" }",
    ));
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    let caller = Modern::new(&gateway, "/mcp");
    let who = parse(&caller.said("whoami", json!({})));
    assert_eq!(who["headers"]["x-key"], json!(["s3cret"]));
    assert!(who["headers"]["authorization"].is_null(), "{who}");
    assert_eq!(who["headers"]["mcp-method"], json!(["tools/call"]));
    assert_eq!(who["headers"]["mcp-name"], json!(["whoami"]));
}

#[test]
fn c_39_arguments_marked_for_headers_are_mirrored_to_a_modern_server() {
    let server = Server::start(&["--era", "modern"]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    let legacy = Legacy::newest(&gateway);
    let modern = Modern::new(&gateway, "/mcp");
    let level = ("Mcp-Param-Level", "3");
    for (region, header) in [("eu-west", "eu-west"), (" ü", "=?base64?IMO8?=")] {
        let arguments = json!({"region": region, "level": 3});
        let call = |headers: &[(&str, &str)]| {
            let params = tool("routed", arguments.clone());
            modern
                .send_with(&json!(1), "tools/call", params, headers)
                .finish()
        };
        let region = ("Mcp-Param-Region", header);
        let said = [
            legacy.said("routed", arguments.clone()),
            text_of(&call(&[region, level]).json()),
        ];
        for said in said {
            let headers = &parse(&said)["headers"];
            assert_eq!(headers["mcp-param-region"], json!([header]), "{said}");
            assert_eq!(headers["mcp-param-level"], json!(["3"]));
        }
        for wrong in [
            &[region][..],
            &[level],
            &[("Mcp-Param-Region", "us"), level],
        ] {
            let refused = call(wrong);
            assert_eq!((refused.status, refused.code()), (400, -32020), "{wrong:?}");
        }
    }
}

#[test]
fn g_49_answers_as_events_are_understood_and_large_ones_pass() {
    for options in [&["--sse"][..], &[]] {
        let server = Server::start(options);
        let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
        let caller = Modern::new(&gateway, "/mcp");
        for len in [0, 1, 300_000, 3_000_000] {
            assert_eq!(caller.said("blob", json!({"bytes": len})).len(), len);
        }
    }
}

#[test]
fn g_45_servers_of_every_revision_are_discovered() {
    let all = [
        (
            &["--era", "legacy", "--revision", "2024-11-05"][..],
            "2024-11-05",
        ),
        (
            &["--era", "legacy", "--revision", "2025-03-26", "--sse"],
            "2025-03-26",
        ),
        (
            &["--era", "legacy", "--revision", "2025-06-18"],
            "2025-06-18",
        ),
        (&["--era", "legacy"], "2025-11-25"),
        (&["--era", "modern", "--sse"], "2026-07-28"),
        (&[], "2026-07-28"),
    ];
    let servers: Vec<_> = all
        .iter()
        .map(|(options, _)| Server::start(options))
        .collect();
    let config: String = servers
        .iter()
        .enumerate()
        .map(|(n, server)| http_backend(&format!("b{n}"), &server.address, ""))
        .collect();
    let gateway = Gateway::ready(&config);
    for (n, (_, want)) in all.iter().enumerate() {
        let path = format!("/mcp/b{n}");
        let who: Value = parse(&Modern::new(&gateway, &path).said("whoami", json!({})));
        assert_eq!(who["revision"], *want, "{who}");
        let legacy = Legacy::connect(&gateway, &path, "2025-03-26");
        assert_eq!(legacy.said("echo", json!({"text": path})), path);
    }
}

#[test]
fn p_s05_a_server_over_http_that_lies_harms_no_other_call() {
    for era in ["legacy", "modern"] {
        let server = Server::start(&["--era", era]);
        let config = http_backend(
            "one",
            &server.address,
            "timeout = 20\n[backends.circuit_breaker]\nthreshold = 0",
        );
        let gateway = Gateway::ready(&format!("[limits]\nreply_mb = 4\n{config}"));
        let caller = Modern::new(&gateway, "/mcp");
        let innocent = caller.send("tools/call", tool("barrier", json!({"name": "i"})));
        until("it waits", || {
            (caller.said("waiting", json!({"name": "i"})) == "1").then_some(())
        });
        // The stream of a POST is one call's own: what is no message in it may cost that call.
        for kind in ["garbage", "invalid_utf8"] {
            let answer = caller.call("liar", json!({"kind": kind}));
            let truth = answer["result"]["content"][0]["text"] == "the truth";
            assert!(
                truth || kind_of(&answer) == "backend_bad_reply",
                "{era} {kind}: {answer}"
            );
        }
        for kind in ["unknown_id", "null_id", "twice", "partial"] {
            assert_eq!(
                caller.said("liar", json!({"kind": kind, "ms": 20})),
                "the truth",
                "{era} {kind}"
            );
        }
        for kind in ["both", "neither", "wrong_id", "huge"] {
            let answer = caller.call("liar", json!({"kind": kind, "mb": 5}));
            assert!(answer["error"]["code"].is_i64(), "{era} {kind}: {answer}");
            let said = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(said.contains("`one`"), "{era} {kind}: {said}");
        }
        let said = caller.call("liar", json!({"kind": "neither"}));
        let said = said["error"]["message"].as_str().unwrap_or_default();
        assert!(
            said.starts_with("backend `one`'s answer could not be read: "),
            "{said}"
        );
        assert_eq!(caller.said("release", json!({"name": "i"})), "1");
        assert_eq!(text_of(&innocent.finish().json()), "passed i", "{era}");
    }
}

#[test]
fn g_50_a_forgotten_session_costs_no_tool_and_changes_are_heard_in_the_next_one() {
    let server = Server::start(&["--era", "legacy"]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, "health_interval = 1"));
    let caller = Legacy::newest(&gateway);
    let tools = caller.tools();
    caller.said("forget_sessions", json!({}));
    // Nobody calls: the gateway itself has to notice, first by its stream, then by its pings.
    let start = std::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_millis(2500) {
        assert_eq!(caller.tools(), tools);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(gateway.health("one"), "up");
    until("a new tool is heard of", || {
        caller.said("grow", json!({}));
        caller.tools().contains(&"grown_1".to_owned()).then_some(())
    });
}

#[test]
fn c_39_a_result_of_a_type_that_nobody_knows_is_no_success() {
    let server = Server::start(&["--era", "modern"]);
    let config = [
        http_backend("h", &server.address, ""),
        stdio_backend("s", &["--era", "modern"], ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    let odd = json!({"kind": "odd_type"});
    for path in ["/mcp/h", "/mcp/s"] {
        let legacy = Legacy::connect(&gateway, path, "2025-11-25");
        let answer = legacy.call("liar", odd.clone());
        assert_eq!(kind_of(&answer), "backend_bad_reply", "{path}: {answer}");
        // A modern caller may know it, from an extension that both declared.
        let answer = Modern::new(&gateway, path).call("liar", odd.clone());
        assert_eq!(answer["result"]["resultType"], "odd", "{path}: {answer}");
    }
}

#[test]
fn c_39_a_modern_server_that_asks_like_a_legacy_one_is_ignored_and_logged_once() {
    let server = Server::start(&["--era", "modern"]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    let able = json!({"roots": {}});
    let legacy = Legacy::with(&gateway, "/mcp", "2025-11-25", able.clone());
    let modern = Modern::with(&gateway, "/mcp", able);
    for caller in [&legacy as &dyn Caller, &modern] {
        let messages = caller.exchange("tools/call", tool("liar", json!({"kind": "asks"})));
        let [answer] = &messages[..] else {
            panic!("nothing but the answer: {messages:?}");
        };
        assert_eq!(text_of(&parse(answer)), "the truth");
    }
    let log = gateway.setup.log();
    assert_eq!(log.matches("ignored a request of a server").count(), 1);
}
