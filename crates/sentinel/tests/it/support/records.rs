//! Records of the audit log: calls that leave them, and the log as the command line exports and verifies it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::postgres::Cluster;
use crate::support::setup::{Gateway, PATIENCE, Server, Setup, http_backend};

/// A gateway with these settings and one backend, which has `more` in its section.
pub(crate) fn with_backend(settings: &str, more: &str) -> (Server, Gateway) {
    let server = Server::start(&[]);
    let backend = http_backend("alpha", &server.address, more);
    let gateway = Gateway::ready(&format!("{settings}\n{backend}"));
    (server, gateway)
}

/// The same with its records in a PostgreSQL of its own.
pub(crate) fn with_postgres(settings: &str) -> (Cluster, Server, Gateway) {
    let cluster = Cluster::start();
    let server = Server::start(&[]);
    let config = format!(
        "{settings}\n[postgres]\nurl_env = \"STORE_URL\"\n{}",
        http_backend("alpha", &server.address, "")
    );
    let setup = Setup::with_env(&config, &[("STORE_URL", &cluster.url())]);
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    (cluster, server, gateway)
}

/// An answer that came whole.
pub(crate) struct Whole {
    head: String,
    pub(crate) body: Value,
}

/// Posts on a connection of its own; `None` if no whole answer came, as when the gateway is killed.
pub(crate) fn post(address: &str, session: Option<&str>, body: &Value) -> Option<Whole> {
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

pub(crate) fn open_session(address: &str, id: &str) -> String {
    try_session(address, id).expect("a session")
}

/// `None` if the gateway is killed meanwhile.
pub(crate) fn try_session(address: &str, id: &str) -> Option<String> {
    let hello = json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let answer = post(address, None, &hello)?;
    let named = |line: &str| Some(line.strip_prefix("mcp-session-id: ")?.to_owned());
    answer.head.lines().find_map(named)
}

pub(crate) fn call(id: &str, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": {"text": id}}})
}

/// Every record of the store, by request id.
pub(crate) fn export(setup: &Setup) -> Vec<Value> {
    let output = setup
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

pub(crate) fn verify(setup: &Setup) -> Value {
    let output = setup
        .command("audit")
        .args(["verify", "--json"])
        .output()
        .expect("the program runs");
    serde_json::from_slice(&output.stdout).expect("JSON")
}
