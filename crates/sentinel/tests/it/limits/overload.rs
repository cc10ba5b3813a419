//! Admission through the real program: what runs, what waits, what is refused, and that everything
//! else answers meanwhile (P-1 to P-25, P-R05).

use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::callers::{
    Caller, Legacy, MODERN, Modern, introduced, kind_of, notification, request, text_of, tool,
};
use crate::support::http;
use crate::support::pipe::Pipe;
use crate::support::setup::{Gateway, Server, http_backend, until};

const SMALL: &str = "[admission]\nmax_concurrent = 5\nqueue_size = 10\nqueue_timeout = 30.0\n\
    [rate_limits]\ndefault_rpm = 0\n";

/// Calls a tool of the fixture itself, past the gateway.
fn direct(server: &Server, name: &str, arguments: Value) -> String {
    let body = request(
        &json!(1),
        "tools/call",
        introduced(tool(name, arguments), &json!({})),
    );
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", MODERN),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", name),
    ];
    text_of(
        &http::send(&server.address, "POST", "/mcp", &headers, body)
            .finish()
            .json(),
    )
}

fn held(server: &Server) -> String {
    direct(server, "waiting", json!({"name": "b"}))
}

fn overload(code: i64) -> Value {
    json!({"code": code, "message": "SERVER_OVERLOADED", "data": {
        "kind": "overloaded", "reason": "queue_full", "active": 5, "queued": 10, "max_concurrent": 5,
        "queue_size": 10, "queue_timeout_ms": 30000, "retry_after_ms": 1000}})
}

#[test]
fn p_r05_five_run_ten_wait_fifteen_are_refused_at_once_with_the_exact_object() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&format!(
        "{SMALL}{}",
        http_backend("alpha", &server.address, "")
    ));
    let barrier = || tool("barrier", json!({"name": "b"}));
    let session = Legacy::newest(&gateway);
    let (tell, heard) = sync_channel(30);
    let began = Instant::now();
    for n in 0..30 {
        // Half of them over each era.
        let sent = if n % 2 == 0 {
            Modern::new(&gateway, "/mcp").send("tools/call", barrier())
        } else {
            session.send(&request(&json!(n + 1000), "tools/call", barrier()))
        };
        let tell = tell.clone();
        std::thread::spawn(move || {
            let mut stream = sent.head();
            let (status, mut last) = (stream.status, String::new());
            while let Some(message) = stream.message() {
                last = message;
            }
            let _ = tell.send((n, status, http::parse(&last)));
        });
    }
    for _ in 0..15 {
        let (n, status, answer) = heard
            .recv_timeout(Duration::from_secs(10))
            .expect("refused at once");
        assert_eq!(status, 200, "on MCP it stays 200");
        let code = if n % 2 == 0 { -31503 } else { -32001 };
        assert_eq!(answer["error"], overload(code), "{answer}");
    }
    println!("15 of 30 refused within {:?}", began.elapsed());
    until("five run", || (held(&server) == "5").then_some(()));
    assert!(heard.try_recv().is_err(), "the others wait");
    // Everything that is no call answers meanwhile.
    let quick = Instant::now();
    assert_eq!(session.ask("ping", json!({}))["result"], json!({}));
    assert!(!session.tools().is_empty());
    assert_eq!(gateway.get("/health").status, 200);
    assert!(
        quick.elapsed() < Duration::from_secs(20),
        "{:?}",
        quick.elapsed()
    );
    for left in [10, 5, 0] {
        assert_eq!(direct(&server, "release", json!({"name": "b"})), "5");
        for _ in 0..5 {
            let (_, _, answer) = heard.recv_timeout(Duration::from_secs(10)).expect("ran");
            assert_eq!(text_of(&answer), "passed b");
        }
        let next = if left > 0 { "5" } else { "0" };
        until("the next five run", || {
            (held(&server) == next).then_some(())
        });
    }
    assert_eq!(session.said("echo", json!({"text": "free"})), "free");
}

#[test]
fn p_21_the_same_over_stdio_and_a_hundred_rounds_of_cancels_leave_full_capacity() {
    let server = Server::start(&[]);
    let config = format!("{SMALL}{}", http_backend("alpha", &server.address, ""));
    let caller = Pipe::legacy(&config, "2025-11-25", json!({}));
    caller.wait_for_tool("barrier");
    for _ in 0..100 {
        let ids: Vec<Value> = (0..12)
            .map(|_| caller.start("tools/call", tool("barrier", json!({"name": "b"}))))
            .collect();
        for id in ids {
            caller.write(&notification(
                "notifications/cancelled",
                json!({"requestId": id}),
            ));
        }
    }
    assert_eq!(caller.ask("ping", json!({}))["result"], json!({}));
    until("all are gone", || (held(&server) == "0").then_some(()));
    for _ in 0..30 {
        caller.start("tools/call", tool("barrier", json!({"name": "b"})));
    }
    for _ in 0..15 {
        let line = caller.line("a refusal", |line| !line["error"].is_null());
        assert_eq!(http::parse(&line)["error"], overload(-32001));
    }
    until("five run", || (held(&server) == "5").then_some(()));
    for _ in 0..3 {
        until("five run", || (held(&server) == "5").then_some(()));
        direct(&server, "release", json!({"name": "b"}));
    }
    for _ in 0..15 {
        let line = caller.line("an answer", |line| !line["result"]["content"].is_null());
        assert_eq!(text_of(&http::parse(&line)), "passed b");
    }
}

#[test]
fn p_5_p_6_waiting_too_long_and_no_queue_have_their_own_reasons() {
    let server = Server::start(&[]);
    let alpha = http_backend(
        "alpha",
        &server.address,
        "timeout = 3\n[backends.admission]\nmax_concurrent = 1\nqueue_size = 0",
    );
    let beta = http_backend("beta", &server.address, "prefix = \"always\"");
    let config = format!(
        "[admission]\nmax_concurrent = 2\nqueue_size = 5\nqueue_timeout = 0.3\noverload_error_code = -7\n{alpha}{beta}"
    );
    let gateway = Gateway::ready(&config);
    let (one, two) = (Legacy::newest(&gateway), Modern::new(&gateway, "/mcp"));
    // A tool's own time-out is never an overload.
    assert_eq!(
        kind_of(&one.call("slow", json!({"ms": 5000}))),
        "backend_timeout"
    );
    let beta_held = two.send("tools/call", tool("beta__barrier", json!({"name": "b"})));
    until("it runs", || (held(&server) == "1").then_some(()));
    let second = two.send("tools/call", tool("beta__barrier", json!({"name": "b"})));
    until("both run", || (held(&server) == "2").then_some(()));
    let late = one.call("beta__echo", json!({"text": "x"}));
    assert_eq!(late["error"]["code"], -7, "{late}");
    assert_eq!(late["error"]["data"]["reason"], "queue_timeout");
    assert_eq!(late["error"]["data"]["queue_timeout_ms"], 300);
    assert_eq!(late["error"]["data"]["max_concurrent"], 2);
    direct(&server, "release", json!({"name": "b"}));
    drop((beta_held.finish(), second.finish()));
    // The first backend has one place and no queue.
    let held_there = two.send("tools/call", tool("barrier", json!({"name": "b"})));
    until("its only place is taken", || {
        (held(&server) == "1").then_some(())
    });
    let refused = one.call("echo", json!({"text": "x"}));
    assert_eq!(
        refused["error"]["data"]["reason"], "concurrency_limit",
        "{refused}"
    );
    assert_eq!(refused["error"]["data"]["max_concurrent"], 1);
    assert_eq!(one.said("beta__echo", json!({"text": "free"})), "free");
    direct(&server, "release", json!({"name": "b"}));
    drop(held_there.finish());
}

#[test]
fn p_16_overloads_are_posted_to_the_hook_logged_and_counted() {
    let server = Server::start(&[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let config = format!(
        "[admission]\nmax_concurrent = 1\nqueue_size = 0\non_overload = \"http://{address}/told?x=1\"\n{}",
        http_backend("alpha", &server.address, "")
    );
    let gateway = Gateway::ready(&config);
    let caller = Modern::new(&gateway, "/mcp");
    let held_call = caller.send("tools/call", tool("barrier", json!({"name": "b"})));
    until("it runs", || (held(&server) == "1").then_some(()));
    assert_eq!(
        kind_of(&caller.call("echo", json!({"text": "x"}))),
        "overloaded"
    );
    let (mut told, _) = listener.accept().expect("the hook is called");
    told.set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a time-out");
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.ends_with('}') {
        let len = std::io::Read::read(&mut told, &mut buffer).expect("a request");
        assert!(len > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..len]));
    }
    assert!(text.starts_with("POST /told?x=1 HTTP/1.1"), "{text}");
    assert!(text.contains(r#""reason":"concurrency_limit""#), "{text}");
    assert!(
        gateway
            .setup
            .log()
            .contains("overloaded: a call was refused")
    );
    let metrics = gateway.get("/metrics").text;
    for line in [
        "sentinel_admission_active 1",
        "sentinel_admission_queued 0",
        "sentinel_admission_rejected_total{reason=\"concurrency_limit\"} 1",
        "sentinel_admission_rejected_total{reason=\"queue_full\"} 0",
    ] {
        assert!(
            metrics.lines().any(|said| said == line),
            "{line}: {metrics}"
        );
    }
    direct(&server, "release", json!({"name": "b"}));
    drop(held_call.finish());
}
