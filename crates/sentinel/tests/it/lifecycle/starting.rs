//! The gateway answers at once, whatever its backends do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::callers::{Caller, Modern, initialize_params, request};
use crate::support::setup::{Gateway, Server, Setup, http_backend, measured, stdio_backend, until};

/// The promise is 100 ms for a release build on a quiet machine; a debug build beside other tests
/// may take longer, but not by as much as any backend needs.
const CEILING: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1000 } else { 300 });

#[test]
fn p_r17_the_first_answer_comes_at_once_with_ten_backends_one_of_them_hanging() {
    let hanging = Server::start(&["--hang"]);
    let mut config = http_backend("hangs", &hanging.address, "");
    config.push_str(&stdio_backend("silent", &["--hang"], ""));
    for n in 0..8 {
        config.push_str(&stdio_backend(
            &format!("b{n}"),
            &["--start-delay-ms", "2000"],
            "",
        ));
    }
    let first_answer = || first_answer_of(&config);
    let took = measured(first_answer, |took| *took < CEILING);
    eprintln!("start-up: first answer {took:?} after launch, ten backends, two of them hanging");
}

/// How long a gateway takes from its launch to its first answer.
fn first_answer_of(config: &str) -> Duration {
    let port = crate::support::setup::free_port();
    let setup = Setup::new(config);
    let address = format!("127.0.0.1:{port}");
    let body = request(
        &json!(1),
        "initialize",
        initialize_params("2025-11-25", &json!({})),
    );
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let start = Instant::now();
    let process = setup
        .command("serve")
        .args(["--listen", &address])
        .stdout(std::process::Stdio::null())
        .stderr(setup.log_file())
        .spawn()
        .expect("the program starts");
    let _process = crate::support::setup::Process(process);
    let mut socket = until("it listens", || TcpStream::connect(&address).ok());
    socket.write_all((head + &body).as_bytes()).expect("taken");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    let took = start.elapsed();
    assert!(
        answer.contains("\"protocolVersion\":\"2025-11-25\""),
        "{answer}"
    );
    took
}

#[test]
fn g_46_lists_answer_while_backends_start_and_late_ones_are_announced() {
    let hanging = Server::start(&["--hang"]);
    let config = [
        http_backend("hangs", &hanging.address, ""),
        stdio_backend("slow", &["--start-delay-ms", "6000"], ""),
    ];
    let gateway = Gateway::start(&config.concat());
    let start = Instant::now();
    let caller = crate::support::callers::Legacy::newest(&gateway);
    // Decision 20: what is not known yet counts as capable of everything.
    assert!(
        caller.hello["capabilities"]["tools"].is_object(),
        "{}",
        caller.hello
    );
    assert_eq!(caller.tools(), [""; 0], "no stub tools, ever");
    assert!(start.elapsed() < Duration::from_secs(5), "nobody waited");
    let mut stream = caller.verb("GET").head();
    let mut heard = Vec::new();
    while !heard.contains(&json!("notifications/tools/list_changed")) {
        heard.push(stream.json()["method"].clone());
    }
    until("a bare name waits for earlier backends at most 2 s", || {
        Modern::new(&gateway, "/mcp")
            .tools()
            .iter()
            .any(|name| name.ends_with("echo"))
            .then_some(())
    });
    let slow = Modern::new(&gateway, "/mcp/slow");
    assert_eq!(slow.said("echo", json!({"text": "x"})), "x");
    assert_eq!(
        gateway.get("/ready").status,
        503,
        "one was never tried to its end"
    );
}

#[test]
fn decision_29_two_gateways_share_a_data_directory() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], ""));
    let mut second = gateway.setup.serve();
    let runs = gateway.setup.data().join("run");
    let files = || std::fs::read_dir(&runs).expect("a folder").count();
    assert_eq!(files(), 4, "each says where it is, and has a socket");
    second.signal("TERM");
    assert_eq!(second.wait().code(), Some(0));
    assert_eq!(files(), 2);
    let caller = Modern::new(&gateway, "/mcp");
    assert_eq!(
        caller.said("echo", json!({"text": "still here"})),
        "still here"
    );
}
