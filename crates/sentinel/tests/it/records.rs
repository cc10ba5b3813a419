//! G-18, G-36, G-42, G-79, P-A01 to P-A06: every answered request has its record, whatever happens.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::house::{Gateway, House, PATIENCE, Server, http_backend, until};
use crate::postgres::Cluster;

/// An answer that came whole.
struct Whole {
    head: String,
    body: Value,
}

/// Posts on a connection of its own; `None` if no whole answer came, as when the gateway is killed.
fn post(address: &str, session: Option<&str>, body: &Value) -> Option<Whole> {
    let body = body.to_string();
    let session = session.map_or(String::new(), |id| format!("mcp-session-id: {id}\r\n"));
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{session}\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some(Whole {
        head: head.to_owned(),
        body: serde_json::from_str(body).unwrap_or_default(),
    })
}

fn open_session(address: &str, id: &str) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let answer = post(address, None, &hello).expect("an answer");
    let named = |line: &str| Some(line.strip_prefix("mcp-session-id: ")?.to_owned());
    answer.head.lines().find_map(named).expect("a session")
}

fn call(id: &str, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": {"text": id}}})
}

/// Every record of the store, by request id.
fn export(house: &House) -> Vec<Value> {
    let output = house
        .command("audit")
        .arg("export")
        .stderr(Stdio::null())
        .output()
        .expect("the program runs");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let parse = |line: &str| serde_json::from_str(line).expect("JSON");
    text.lines().map(parse).collect()
}

fn verify(house: &House) -> Value {
    let output = house
        .command("audit")
        .args(["verify", "--json"])
        .output()
        .expect("the program runs");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn count_by_id(records: &[Value]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for record in records {
        if let Some(id) = record["request_id"].as_str() {
            *counts.entry(id.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// Calls from several threads until told to stop; gives the ids that were answered.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<Vec<String>>>,
    failed: Arc<AtomicU64>,
}

impl Load {
    fn start(address: &str, round: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let failed = Arc::new(AtomicU64::new(0));
        let threads = (0..4)
            .map(|thread| {
                let (address, stop, failed) = (address.to_owned(), stop.clone(), failed.clone());
                std::thread::spawn(move || {
                    let session = open_session(&address, &format!("hello-{round}-{thread}"));
                    let mut answered = Vec::new();
                    for n in 0..100_000 {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let id = format!("{round}-{thread}-{n}");
                        match post(&address, Some(&session), &call(&id, "echo")) {
                            Some(answer) if answer.body["result"].is_object() => answered.push(id),
                            _ => {
                                failed.fetch_add(1, Ordering::Relaxed);
                                break;
                            }
                        }
                    }
                    answered
                })
            })
            .collect();
        Self {
            stop,
            threads,
            failed,
        }
    }

    fn finish(self) -> (Vec<String>, u64) {
        self.stop.store(true, Ordering::Relaxed);
        let answered = self
            .threads
            .into_iter()
            .flat_map(|t| t.join().expect("a thread"));
        let answered = answered.collect();
        (answered, self.failed.load(Ordering::Relaxed))
    }
}

#[test]
fn p_a06_every_request_of_every_kind_leaves_one_record() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&http_backend("alpha", &server.address, ""));
    let address = &gateway.address;
    let session = open_session(address, "i1");
    let session = Some(session.as_str());
    post(address, session, &call("c1", "echo"));
    post(address, session, &call("c2", "no-such-tool"));
    post(
        address,
        session,
        &json!({"jsonrpc": "2.0", "id": "l1", "method": "tools/list"}),
    );
    post(
        address,
        session,
        &json!({"jsonrpc": "2.0", "id": "m1", "method": "no/such"}),
    );
    post(
        address,
        session,
        &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    );
    post(address, None, &call("s1", "echo"));
    gateway.get("/health");
    gateway.get("/metrics");
    let mut process = gateway.process;
    process.signal("TERM");
    process.wait();
    let records = export(&gateway.house);
    let mut seen: Vec<(String, String, String, String)> = records
        .iter()
        .filter(|record| record["surface"] == "http")
        .map(|r| {
            let text = |name: &str| r[name].as_str().unwrap_or_default().to_owned();
            (
                text("request_id"),
                text("decision"),
                text("outcome"),
                text("kind"),
            )
        })
        .collect();
    seen.sort();
    let row = |a: &str, b: &str, c: &str, d: &str| (a.into(), b.into(), c.into(), d.into());
    assert_eq!(
        seen,
        [
            row("c1", "allow", "success", ""),
            row("c2", "deny", "denied", "unknown_name"),
            row("i1", "allow", "success", ""),
            row("l1", "allow", "success", ""),
            row("m1", "deny", "error", "method_not_found"),
            row("s1", "deny", "error", "not_initialized"),
        ]
    );
    let called = records
        .iter()
        .find(|r| r["request_id"] == "c1")
        .expect("c1");
    assert_eq!(called["caller"], "local");
    assert_eq!(called["backend"], "alpha");
    assert_eq!(called["revision"], "2025-06-18");
    assert_eq!(called["args_digest"].as_str().expect("a digest").len(), 64);
    assert_eq!(called["args"], Value::Null);
    assert_eq!(verify(&gateway.house)["ok"], true);
}

#[test]
fn p_a03_after_kill_9_every_answered_call_has_its_record() {
    let server = Server::start(&[]);
    let mut house = House::new(&http_backend("alpha", &server.address, ""));
    let mut answered = Vec::new();
    for round in 0..3 {
        let gateway = Gateway::start_in(house);
        gateway.wait_ready();
        let load = Load::start(&gateway.address, round);
        std::thread::sleep(Duration::from_millis(700));
        gateway.process.signal("KILL");
        let (ids, _) = load.finish();
        assert!(ids.len() > 20, "there was load: {}", ids.len());
        answered.extend(ids);
        let Gateway {
            mut process,
            house: same,
            ..
        } = gateway;
        process.wait();
        house = same;
    }
    let counts = count_by_id(&export(&house));
    for id in &answered {
        assert_eq!(
            counts.get(id),
            Some(&1),
            "{id}, of {} answered",
            answered.len()
        );
    }
    let verdict = verify(&house);
    assert_eq!(verdict["ok"], true, "{verdict}");
}

#[test]
fn p_a01_a_postgres_that_stops_fails_no_call_and_misses_no_record() {
    let mut cluster = Cluster::start();
    let server = Server::start(&[]);
    let config = format!(
        "[postgres]\nurl_env = \"STORE_URL\"\n{}",
        http_backend("alpha", &server.address, "")
    );
    let house = House::with_env(&config, &[("STORE_URL", &cluster.url())]);
    let gateway = Gateway::start_in(house);
    gateway.wait_ready();
    let load = Load::start(&gateway.address, 0);
    std::thread::sleep(Duration::from_millis(500));
    cluster.stop();
    std::thread::sleep(Duration::from_secs(2));
    cluster.resume();
    std::thread::sleep(Duration::from_millis(500));
    let (answered, failed) = load.finish();
    assert_eq!(failed, 0);
    assert!(answered.len() > 100, "there was load: {}", answered.len());
    until("the backlog is in the store", || {
        let page = gateway.get("/metrics").text;
        page.lines()
            .any(|line| line == "sentinel_audit_backlog 0")
            .then_some(())
    });
    let counts = count_by_id(&export(&gateway.house));
    for id in &answered {
        assert_eq!(
            counts.get(id),
            Some(&1),
            "{id}, of {} answered",
            answered.len()
        );
    }
    let verdict = verify(&gateway.house);
    assert_eq!(verdict["ok"], true, "{verdict}");
}

#[test]
fn a_sync_call_has_its_intent_before_its_backend_is_called() {
    let server = Server::start(&[]);
    let backend = http_backend("alpha", &server.address, "guarantee = \"sync\"");
    let gateway = Gateway::ready(&backend);
    let session = open_session(&gateway.address, "i1");
    let answer = post(&gateway.address, Some(&session), &call("c1", "echo")).expect("an answer");
    assert!(answer.body["result"].is_object());
    let mut process = gateway.process;
    process.signal("TERM");
    process.wait();
    let records = export(&gateway.house);
    let of_call: Vec<&Value> = records.iter().filter(|r| r["request_id"] == "c1").collect();
    let [intent, done] = of_call[..] else {
        panic!("intent and end: {of_call:?}")
    };
    assert_eq!(intent["outcome"], "intent");
    assert_eq!(done["outcome"], "success");
    assert_eq!(done["intent"], intent["seq"]);
}

#[test]
fn audit_enabled_false_leaves_nothing() {
    let server = Server::start(&[]);
    let backend = http_backend("alpha", &server.address, "");
    let gateway = Gateway::ready(&format!("audit_enabled = false\n{backend}"));
    open_session(&gateway.address, "i1");
    assert!(!gateway.house.data().join("spool").exists());
    assert!(
        gateway
            .get("/metrics")
            .text
            .contains("sentinel_audit_enabled 0")
    );
}
