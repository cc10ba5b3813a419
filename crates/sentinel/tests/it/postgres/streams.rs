//! Large sets, row by row.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::processes::resident_kib;
use crate::support::setup::{PATIENCE, until};
use crate::support::shop::Shop;
use crate::support::web::Web;

const LINES: (&str, &str) = ("Accept", "application/x-ndjson");

#[test]
fn a_set_is_cut_where_it_is_one_answer_and_whole_as_lines() {
    let shop = Shop::start("max_rows = 10");
    let web = Web::new(&shop.gateway);
    let cut = web.post("/api/numbers", &json!({"count": 11})).json();
    assert_eq!(cut["rows"].as_array().map(Vec::len), Some(10), "{cut}");
    assert_eq!(cut["truncated"], true);
    let all = web.post("/api/numbers", &json!({"count": 10})).json();
    assert_eq!(all["truncated"], false, "{all}");
    let lines = web.post_with("/api/numbers", &json!({"count": 5000}), &[LINES]);
    assert_eq!(lines.status, 200, "{lines:?}");
    let records: Vec<Value> = lines
        .text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let rows = records
        .iter()
        .filter(|record| record["type"] == "row")
        .count();
    assert_eq!(rows, 5000);
    assert_eq!(
        records.last().map(|last| &last["type"]),
        Some(&json!("result")),
        "{:?}",
        records.last()
    );
    assert_eq!(records[4999]["row"], "x5000");
}

/// P-R10: rows wait in the database for a caller who reads slowly.
#[test]
fn p_r10_a_large_set_passes_in_bounded_memory() {
    const ROWS: usize = 400_000;
    const WIDTH: usize = 1000;
    let shop = Shop::start("");
    let pid = shop.gateway.process.pid();
    // What one small stream needs is there already.
    let warm = Web::new(&shop.gateway).post_with(
        "/api/numbers",
        &json!({"count": 1000, "width": WIDTH}),
        &[LINES],
    );
    assert_eq!(warm.status, 200);
    let before = resident_kib(pid);
    let body = json!({"count": ROWS, "width": WIDTH}).to_string();
    let mut socket = TcpStream::connect(&shop.gateway.address).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let head = format!(
        "POST /api/numbers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/x-ndjson\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).expect("it is read");
    let (mut read, mut most) = (0_usize, before);
    let mut bytes = vec![0; 256 * 1024];
    let mut tail = Vec::new();
    loop {
        let count = socket.read(&mut bytes).expect("it goes on");
        if count == 0 {
            break;
        }
        read += count;
        tail.extend_from_slice(&bytes[..count]);
        let keep = tail.len().saturating_sub(300);
        tail.drain(..keep);
        most = most.max(resident_kib(pid));
    }
    let grown = most - before;
    println!(
        "{} MiB of rows, the gateway grew by {grown} KiB",
        read >> 20
    );
    assert!(read > ROWS * WIDTH, "all rows came: {read}");
    assert!(
        String::from_utf8_lossy(&tail).contains("\"type\":\"result\""),
        "it ended well"
    );
    assert!(grown < 32 * 1024, "{grown} KiB");
}

/// P-R08: a caller who leaves in the middle ends the statement.
#[test]
fn p_r08_a_stream_that_is_left_ends_its_statement() {
    let shop = Shop::start("");
    let body = json!({"count": 2_000_000, "width": 1000});
    let web = Web::new(&shop.gateway);
    let headers = [("Content-Type", "application/json"), LINES];
    let stream = web
        .send("POST", "/api/numbers", &headers, body.to_string())
        .head();
    assert_eq!(stream.status, 200);
    stream.hang_up();
    until("the statement is gone", || {
        (shop.running("numbers") == 0).then_some(())
    });
}
