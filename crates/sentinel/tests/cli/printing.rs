//! What goes to which stream, the second listener, and the README.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::Value;

use crate::setup::{PATIENCE, Ran, Setup, program, stdio};

#[test]
fn commands_log_only_when_asked() {
    let setup = Setup::new("log_format = \"json\"", &[stdio("a", &[], "")]);
    assert_eq!(setup.run(&["tools"]).well().err, "");
    let debug = setup.run(&["tools", "--log-level", "debug"]).well();
    let mut lines = debug.err.lines();
    assert!(lines.clone().count() > 0);
    assert!(
        lines.all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{}",
        debug.err
    );
}

#[test]
fn stdio_prints_nothing_but_json_rpc() {
    for format in ["json", "pretty"] {
        // One that prints what it should not, one that is missing: both are talked about.
        let chatter = program("x", "sh", &["-c", "echo hello; echo there >&2; exit 1"], "");
        let gateway = format!("log_format = \"{format}\"");
        let setup = Setup::new(&gateway, &[stdio("a", &[], ""), chatter]);
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let mut child = setup
            .command(&["stdio", "--log-level", "debug"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut requests = child.stdin.take().expect("it was asked for");
        let mut answers = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut all = String::new();
        for (id, method) in ["server/discover", "tools/list", "no/such"]
            .iter()
            .enumerate()
        {
            writeln!(
                requests,
                r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{meta}}}}}"#
            )
            .expect("it reads");
            answers.read_line(&mut all).expect("an answer");
        }
        writeln!(requests, "no JSON").expect("it reads");
        answers.read_line(&mut all).expect("an answer");
        let mut log = String::new();
        let mut logs = BufReader::new(child.stderr.take().expect("it was asked for"));
        while !log.contains("there") {
            assert!(
                logs.read_line(&mut log).expect("a line") > 0,
                "what a child says goes to the log: {log}"
            );
        }
        drop(requests);
        answers.read_to_string(&mut all).expect("its end");
        logs.read_to_string(&mut log).expect("its end");
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
        let messages: Vec<Value> = all
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect();
        assert_eq!(messages.len(), 4, "{all}");
        assert!(
            messages.iter().all(|message| message["jsonrpc"] == "2.0"),
            "{all}"
        );
        let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
        assert_eq!(log.lines().all(is_json), format == "json", "{log}");
    }
}

fn get(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(stream, "{request} HTTP/1.1\r\nHost: probe.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn the_second_listener_serves_probes_and_nothing_else() {
    let setup = Setup::new("health_listen = \"127.0.0.1:0\"", &[stdio("a", &[], "")]);
    let checked = setup.run(&["check"]).well();
    assert!(
        !checked.err.contains("health_listen"),
        "it has an effect: {}",
        checked.err
    );
    let served = setup.serve();
    setup.run(&["tools"]).well();
    let probes = served.text("health_listen");
    assert!(get(probes, "GET /health").starts_with("HTTP/1.1 200"));
    let ready = get(probes, "GET /ready");
    assert!(
        ready.starts_with("HTTP/1.1 200") && ready.contains("\"a\":\"up\""),
        "{ready}"
    );
    for request in ["POST /mcp", "GET /mcp/a", "GET /"] {
        assert!(
            get(probes, request).starts_with("HTTP/1.1 404"),
            "{request}"
        );
    }
    // The first listener knows that name no more than before.
    assert!(get(served.text("listen"), "POST /mcp").starts_with("HTTP/1.1 403"));
}

#[test]
fn the_configuration_in_the_readme_passes_check() {
    let readme = include_str!("../../../../README.md");
    let (_, rest) = readme.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let setup = Setup::new("", &[]);
    fs::write(setup.0.path().join("sentinel.toml"), example).expect("a file");
    let mut check = setup.command(&["check"]);
    check.env("GITHUB_AUTH", "Bearer x");
    let ran = Ran::of(&check.output().expect("the program starts")).well();
    assert!(!ran.err.contains("warning"), "{}", ran.err);
}

#[test]
fn an_outcome_that_no_record_has_is_refused_with_those_there_are() {
    let setup = Setup::new("", &[]);
    for command in ["search", "tail", "export"] {
        let ran = setup.run(&["audit", command, "--outcome", "bogus"]);
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        for word in ["bogus", "denied", "rate_limited", "unknown"] {
            assert!(ran.err.contains(word), "{}", ran.err);
        }
    }
    let known = ["audit", "search", "--outcome", "denied"];
    assert_eq!(setup.run(&known).well().out, "");
}

#[test]
fn an_address_in_use_is_named_with_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let setup = Setup::new("", &[]);
    let port = address.rsplit(':').next().expect("a port");
    for (args, key) in [
        (["serve", "--listen", &address], "gateway.listen"),
        (
            ["review", "serve", &format!("--port={port}")],
            "review.listen",
        ),
    ] {
        let ran = setup.run(&args);
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        for words in [&*address, key, "ss -ltnp"] {
            assert!(ran.err.contains(words), "{words} is not in {}", ran.err);
        }
    }
    // Where it is a gateway of the same data directory, that one is named.
    let served = setup.serve();
    let ran = setup.run(&["serve", "--listen", served.text("listen")]);
    let pid = format!("(pid {})", served.child.id());
    assert!(ran.err.contains(&pid), "{}", ran.err);
}
