//! Peers that take their time: the limits for first bytes, heads and bodies count (P-R10, `limits`), and
//! a connection that is merely idle is left alone.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::callers::request;
use crate::support::setup::{Gateway, PATIENCE};

const LIMITS: &str = "[limits]\nfirst_byte_timeout = 1\nhead_timeout = 1.5\nheader_kb = 8\nheader_fields = 20\nbody_min_kb_per_s = 64\n";

fn connect(gateway: &Gateway) -> TcpStream {
    let socket = TcpStream::connect(&gateway.address).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    socket
}

/// Reads to the end; a reset is an end, too.
fn rest(mut socket: TcpStream) -> String {
    let mut answer = Vec::new();
    match socket.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("no end: {error}"),
        _ => String::from_utf8_lossy(&answer).into_owned(),
    }
}

fn head(gateway: &Gateway, length: usize) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: */*\r\n\
         Content-Length: {length}\r\n\r\n",
        gateway.address
    )
}

/// Sends a byte every now and then until the gateway hangs up, and says after how long it did.
fn trickle(socket: &mut TcpStream, text: &str) -> Duration {
    let began = Instant::now();
    let step = Duration::from_millis(100);
    socket.set_read_timeout(Some(step)).expect("a time-out");
    for byte in text.bytes().cycle() {
        let _ = socket.write_all(&[byte]);
        match socket.read(&mut [0; 512]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            _ => break,
        }
        assert!(began.elapsed() < PATIENCE, "it is still listened to");
    }
    began.elapsed()
}

#[test]
fn p_r10_a_silent_connection_is_closed_after_the_first_byte_timeout() {
    let gateway = Gateway::start(LIMITS);
    let began = Instant::now();
    assert_eq!(rest(connect(&gateway)), "");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(900), "{took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn p_r10_a_head_must_come_in_time_also_after_a_request() {
    let gateway = Gateway::start(LIMITS);
    let mut socket = connect(&gateway);
    let took = trickle(&mut socket, "GET /health HTTP/1.1\r\nX: slow");
    assert!(took >= Duration::from_millis(1300), "{took:?}");
    assert!(took < Duration::from_secs(6), "{took:?}");

    // A connection that proved itself may be idle for longer than that, but not be slow.
    let mut socket = connect(&gateway);
    let ping = request(&json!(1), "ping", json!({}));
    let mut said = [0; 12];
    for pause in [Duration::ZERO, Duration::from_millis(2500)] {
        std::thread::sleep(pause);
        let text = head(&gateway, ping.len()) + &ping;
        socket.write_all(text.as_bytes()).expect("it is read");
        socket.read_exact(&mut said).expect("it is answered");
        assert_eq!(&said, b"HTTP/1.1 200");
        let mut more = [0; 4096];
        let _ = socket.read(&mut more).expect("the rest of it");
    }
    let took = trickle(&mut socket, "GET /health HTTP/1.1\r\nX: slow");
    assert!(took < Duration::from_secs(6), "{took:?}");
}

#[test]
fn p_r10_a_body_slower_than_the_limit_is_not_waited_for() {
    let gateway = Gateway::start(LIMITS);
    let mut socket = connect(&gateway);
    let text = head(&gateway, 1 << 20);
    socket.write_all(text.as_bytes()).expect("it is read");
    let took = trickle(&mut socket, " ");
    assert!(took >= Duration::from_secs(4), "{took:?}");
    assert!(took < Duration::from_secs(15), "{took:?}");

    // Slow at first, but fast enough on the whole.
    let mut socket = connect(&gateway);
    let ping = request(&json!(1), "ping", json!({}));
    let text = head(&gateway, ping.len());
    socket.write_all(text.as_bytes()).expect("it is read");
    std::thread::sleep(Duration::from_secs(2));
    socket.write_all(ping.as_bytes()).expect("it is read");
    let mut said = [0; 12];
    socket.read_exact(&mut said).expect("it is answered");
    assert_eq!(&said, b"HTTP/1.1 200");
}

#[test]
fn p_r10_heads_are_bounded_as_configured() {
    let gateway = Gateway::start(LIMITS);
    let get = |more: &str| {
        let mut socket = connect(&gateway);
        let text = format!(
            "GET /health HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{more}\r\n",
            gateway.address
        );
        let _ = socket.write_all(text.as_bytes());
        rest(socket)
    };
    let fields = |n: usize| (0..n).map(|i| format!("X-{i}: 1\r\n")).collect::<String>();
    assert!(get(&fields(15)).starts_with("HTTP/1.1 200"));
    assert!(get(&fields(21)).starts_with("HTTP/1.1 431"));
    assert!(get(&format!("X: {}\r\n", "x".repeat(6 << 10))).starts_with("HTTP/1.1 200"));
    assert!(get(&format!("X: {}\r\n", "x".repeat(9 << 10))).starts_with("HTTP/1.1 431"));
}
