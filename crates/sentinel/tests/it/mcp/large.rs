//! Replies above 256 KiB (decision 14, G-47, P-R10): they reach the caller while they still come, byte for byte, within
//! bounds, and what is broken never looks whole.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, MODERN, Modern, introduced, kind_of, request, tool};
use crate::support::processes::resident_kib;
use crate::support::records::export;
use crate::support::setup::{Gateway, PATIENCE, Server, Setup, http_backend, until, within};

const MB: usize = 1 << 20;

/// How a server answers a call: with its id, by whatever it writes to the connection.
type Script = Arc<dyn Fn(&mut TcpStream, &str) -> io::Result<()> + Send + Sync>;

/// The fixture, except for its tool `echo`, whose answers the test writes.
struct Scripted {
    address: String,
    _fixture: Server,
}

impl Scripted {
    fn start(
        era: &str,
        script: impl Fn(&mut TcpStream, &str) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let fixture = Server::start(&["--era", era]);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (behind, script): (String, Script) = (fixture.address.clone(), Arc::new(script));
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (behind, script) = (behind.clone(), script.clone());
                thread::spawn(move || serve(socket, &behind, &script));
            }
        });
        Self {
            address,
            _fixture: fixture,
        }
    }
}

/// One request of a connection, which ends with its answer.
fn serve(mut socket: TcpStream, behind: &str, script: &Script) -> io::Result<()> {
    let mut reader = BufReader::new(socket.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let field = |name: &str| {
        let line = |line: &str| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        };
        head.lines().find_map(line)
    };
    let len = field("content-length").and_then(|len| len.parse().ok());
    let mut body = vec![0; len.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    if message["method"] == "tools/call" && message["params"]["name"] == "echo" {
        return script(&mut socket, &message["id"].to_string());
    }
    let mut next = TcpStream::connect(behind)?;
    let (first, rest) = head.split_once("\r\n").expect("a request line");
    next.write_all(format!("{first}\r\nConnection: close\r\n{rest}").as_bytes())?;
    next.write_all(&body)?;
    io::copy(&mut next, &mut socket)?;
    Ok(())
}

fn head(framing: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{framing}\r\nConnection: close\r\n\r\n"
    )
}

/// A result of about this size with everything in it that could be read wrong at a seam.
fn result(era: &str, len: usize) -> String {
    let kind = match era {
        "modern" => r#""resultType": "complete","#,
        _ => "",
    };
    let unit = r#"é\u00e9\ud83d\ude00 \"}],{ 😀\\"#;
    let text = unit.repeat(len / unit.len());
    format!(
        r#"{{{kind} "n":[1.50,-0,1e400,true,null],"content":[{{"type":"text","text":"{text}"}}], "isError":false }}"#
    )
}

fn response(id: &str, result: &str) -> String {
    format!(r#" {{"jsonrpc":"2.0","id":{id},"result":{result} ,"vendor":{{"id":1}}}} "#)
}

/// Writes a body chunk by chunk, in sizes that fit nothing.
fn write_chunked(socket: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    socket.write_all(head("Transfer-Encoding: chunked").as_bytes())?;
    let mut rest = body;
    for size in [1, 7, 4093, 65_537, 3, 300_001].iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, tail) = rest.split_at((*size).min(rest.len()));
        socket.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
        socket.write_all(chunk)?;
        socket.write_all(b"\r\n")?;
        rest = tail;
    }
    socket.write_all(b"0\r\n\r\n")
}

fn write_sized(socket: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    socket.write_all(head(&format!("Content-Length: {}", body.len())).as_bytes())?;
    socket.write_all(body)
}

/// An answer that may be cut.
struct Reading {
    reader: BufReader<TcpStream>,
    head: String,
}

struct Got {
    body: Vec<u8>,
    /// It came to its own end.
    whole: bool,
}

impl Reading {
    /// Waits for the head of an answer.
    fn begin(socket: TcpStream) -> Self {
        let mut reader = BufReader::new(socket);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).expect("a head"), 0, "{head}");
        }
        let head = head.to_ascii_lowercase();
        Self { reader, head }
    }

    fn is_chunked(&self) -> bool {
        self.head.contains("transfer-encoding: chunked")
    }

    fn finish(mut self) -> Got {
        let mut body = Vec::new();
        let whole = match self.is_chunked() {
            true => self.chunks(&mut body).is_ok(),
            false => self.reader.read_to_end(&mut body).is_ok(),
        };
        Got { body, whole }
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            let len = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            let start = body.len();
            body.resize(start + len + 2, 0);
            self.reader.read_exact(&mut body[start..])?;
            body.truncate(start + len);
            if len == 0 {
                return Ok(());
            }
        }
    }
}

/// Somebody who calls `echo` and reads the answer as it comes.
enum Who {
    Legacy(Legacy),
    Modern(String),
}

impl Who {
    fn new(era: &str, gateway: &Gateway) -> Self {
        match era {
            "legacy" => Self::Legacy(Legacy::newest(gateway)),
            _ => Self::Modern(gateway.address.clone()),
        }
    }

    fn call_by(&self, version: &str, id: &str) -> TcpStream {
        let arguments = tool("echo", json!({"text": "x"}));
        let (more, params) = match self {
            Self::Legacy(legacy) => (format!("Mcp-Session-Id: {}\r\n", legacy.session), arguments),
            Self::Modern(_) => (
                format!(
                    "MCP-Protocol-Version: {MODERN}\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
                ),
                introduced(arguments, &json!({})),
            ),
        };
        let address = match self {
            Self::Legacy(legacy) => &legacy.address,
            Self::Modern(address) => address,
        };
        let body = request(&json!(id), "tools/call", params);
        let text = format!(
            "POST /mcp {version}\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nConnection: close\r\n{more}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        socket.write_all(text.as_bytes()).expect("it is taken");
        socket
    }

    fn call(&self, id: &str) -> Reading {
        Reading::begin(self.call_by("HTTP/1.1", id))
    }
}

fn gateway(server: &Scripted, limits: &str) -> Gateway {
    // Audit records come to the store at once when the gateway ends.
    Gateway::ready(&format!(
        "{limits}{}",
        http_backend("one", &server.address, "")
    ))
}

/// The only record of a request, once the gateway has ended.
fn record(gateway: Gateway, id: &str) -> Value {
    let Gateway {
        mut process, setup, ..
    } = gateway;
    process.signal("TERM");
    process.wait();
    only(&setup, id)
}

#[track_caller]
fn only(setup: &Setup, id: &str) -> Value {
    let mut found: Vec<Value> = export(setup);
    found.retain(|record| record["request_id"] == id);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn in_flight(gateway: &Gateway) -> Option<()> {
    let metrics = gateway.get("/metrics").text;
    let active = |line: &&str| line.starts_with("sentinel_admission_active ");
    let active = metrics.lines().find(active).expect("a figure");
    active.ends_with(" 0").then_some(())
}

#[test]
fn decision_14_a_large_result_arrives_byte_for_byte_while_it_still_comes() {
    for era in ["legacy", "modern"] {
        for chunked in [false, true] {
            let wanted = result(era, 10 * MB);
            let (seen, go): (Sender<()>, Receiver<()>) = mpsc::channel();
            let (sent, go) = (wanted.clone(), Mutex::new(go));
            let server = Scripted::start(era, move |socket, id| {
                let body = response(id, &sent);
                if chunked {
                    return write_chunked(socket, body.as_bytes());
                }
                // The other nine tenths come once the caller has seen the beginning.
                let (first, rest) = body.as_bytes().split_at(MB + 1);
                socket.write_all(head(&format!("Content-Length: {}", body.len())).as_bytes())?;
                socket.write_all(first)?;
                let go = go.lock().expect("no holder panics").recv_timeout(PATIENCE);
                go.map_err(io::Error::other)?;
                socket.write_all(rest)
            });
            let gateway = gateway(&server, "");
            let reading = Who::new(era, &gateway).call("large");
            assert!(reading.is_chunked(), "{}", reading.head);
            seen.send(()).expect("the server lives");
            let read = reading.finish();
            assert!(read.whole);
            let whole = format!(r#"{{"jsonrpc":"2.0","id":"large","result":{wanted}}}"#);
            assert!(read.body == whole.as_bytes(), "{era} {chunked}");
            until("nothing is in flight", || in_flight(&gateway));
            let record = record(gateway, "large");
            assert_eq!(record["outcome"], "success");
            assert_eq!(record["bytes_out"], whole.len());
        }
    }
}

/// What must be looked into, or cannot be cut short visibly, is gathered as ever.
#[test]
fn decision_14_what_cannot_pass_in_pieces_comes_whole() {
    let early = result("modern", MB);
    // The id behind the result, and the type of the result behind what is large.
    let late = early.replace(r#""resultType": "complete","#, "");
    let late = late.replace(r#""isError":false }"#, r#""resultType":"complete"}"#);
    let script = {
        let (early, late) = (early.clone(), late.clone());
        let turn = AtomicU64::new(0);
        move |socket: &mut TcpStream, id: &str| {
            let body = match turn.fetch_add(1, Ordering::Relaxed) {
                0 => format!(r#"{{"result":{early},"jsonrpc":"2.0","id":{id}}}"#),
                1 => response(id, &late),
                _ => response(id, &early),
            };
            write_sized(socket, body.as_bytes())
        }
    };
    let server = Scripted::start("modern", script);
    let gateway = gateway(&server, "");
    let modern = Who::new("modern", &gateway);
    let whole = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":"w","result":{result}}}"#);
    for result in [&early, &late] {
        let reading = modern.call("w");
        assert!(!reading.is_chunked(), "{}", reading.head);
        assert!(reading.finish().body == whole(result).as_bytes());
    }
    // A caller of HTTP/1.0 could not tell a cut body from a whole one.
    let reading = Reading::begin(modern.call_by("HTTP/1.0", "w"));
    assert!(reading.head.contains("content-length"), "{}", reading.head);
    assert!(reading.finish().body == whole(&early).as_bytes());
    // Another era reads other words.
    let reading = Who::new("legacy", &gateway).call("w");
    assert!(!reading.is_chunked(), "{}", reading.head);
    let read = String::from_utf8(reading.finish().body).expect("text");
    assert!(read.starts_with(r#"{"jsonrpc":"2.0","id":"w","result":{"n":[1.50,-0,1e400,"#));
}

/// Serves a broken answer of either era and says what the caller got of it, and its record.
#[track_caller]
fn broken(
    era: &'static str,
    limits: &str,
    script: impl Fn(&mut TcpStream, &str, &str) -> io::Result<()> + Send + Sync + 'static,
) -> (Got, Value, String) {
    let good = result(era, 10 * MB);
    let server = Scripted::start(era, move |socket, id| script(socket, id, &good));
    let gateway = gateway(&server, limits);
    let reading = Who::new(era, &gateway).call("broken");
    assert!(reading.is_chunked(), "{}", reading.head);
    let read = reading.finish();
    until("nothing is in flight", || in_flight(&gateway));
    until("it is on record", || {
        gateway.setup.log().contains("ended early").then_some(())
    });
    let log = gateway.setup.log();
    (read, record(gateway, "broken"), log)
}

#[test]
fn decision_14_grammar_that_breaks_far_behind_cuts_the_answer_off() {
    for era in ["legacy", "modern"] {
        let (read, record, log) = broken(era, "", |socket, id, good| {
            let mut body = response(id, good).into_bytes();
            let at = body[5_000_000..].iter().position(|byte| *byte == b' ');
            body[5_000_000 + at.expect("a space")] = 0x01;
            write_sized(socket, &body)
        });
        assert!(!read.whole, "{era}: it looks whole");
        assert!(read.body.len() < 5_000_100, "{era}: {}", read.body.len());
        assert_eq!(record["outcome"], "error");
        assert_eq!(record["kind"], "backend_bad_reply");
        assert!(
            log.contains("control character in a string at byte 50000"),
            "{log}"
        );
    }
}

#[test]
fn decision_14_a_server_that_dies_during_its_answer_cuts_it_off() {
    for (era, chunked) in [("legacy", false), ("modern", true)] {
        let (read, record, _) = broken(era, "", move |socket, id, good| {
            let body = response(id, good);
            let half = &body.as_bytes()[..body.len() / 2];
            match chunked {
                false => {
                    let framing = format!("Content-Length: {}", body.len());
                    socket.write_all(head(&framing).as_bytes())?;
                    socket.write_all(half)
                }
                true => {
                    let framing = "Transfer-Encoding: chunked";
                    let size = format!("{}{:x}\r\n", head(framing), body.len());
                    socket.write_all(size.as_bytes())?;
                    socket.write_all(half)
                }
            }
        });
        assert!(!read.whole, "{era}: it looks whole");
        assert_eq!(record["outcome"], "error");
        assert_eq!(record["kind"], "backend_unavailable");
        let bytes = record["bytes_out"].as_u64().expect("a number");
        assert!(bytes > MB as u64 && bytes < 10 * MB as u64, "{bytes}");
    }
}

#[test]
fn p_r10_an_answer_that_turns_out_too_long_is_cut_off() {
    let (read, record, _) = broken("modern", "[limits]\nreply_mb = 4\n", |socket, id, good| {
        write_chunked(socket, response(id, good).as_bytes())
    });
    assert!(!read.whole, "it looks whole");
    assert!(read.body.len() <= 4 * MB);
    assert_eq!(record["kind"], "backend_bad_reply");
}

/// Where the server says how long it is, it is refused in words.
#[test]
fn p_r10_an_answer_that_is_too_long_from_the_start_is_refused() {
    let server = Scripted::start("modern", |socket, id| {
        write_sized(socket, response(id, &result("modern", 5 * MB)).as_bytes())
    });
    let gateway = gateway(&server, "[limits]\nreply_mb = 4\n");
    let refused = Modern::new(&gateway, "/mcp").call("echo", json!({"text": "x"}));
    assert_eq!(kind_of(&refused), "backend_bad_reply", "{refused}");
}

#[test]
fn decision_14_an_envelope_that_goes_wrong_behind_its_result_cuts_the_answer_off() {
    for wrong in [
        r#","id":1"#,
        r#","error":{"code":1,"message":"x"}"#,
        r#","result":{}"#,
        "} x",
    ] {
        let (read, record, _) = broken("legacy", "", move |socket, id, good| {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{good}{wrong}}}"#);
            write_sized(socket, body.as_bytes())
        });
        assert!(!read.whole, "{wrong}: it looks whole");
        assert_eq!(record["kind"], "backend_bad_reply", "{wrong}");
    }
    // And a result that says late what nobody may hand on.
    let (read, record, _) = broken("modern", "", |socket, id, good| {
        let late = good.replace(
            r#""isError":false }"#,
            r#""resultType":"input_required","requestState":"x"}"#,
        );
        write_sized(socket, response(id, &late).as_bytes())
    });
    assert!(!read.whole && record["kind"] == "backend_bad_reply");
}

/// A server that writes for ever, and says how much it wrote and when it could not any more.
struct Endless {
    server: Scripted,
    written: Arc<AtomicU64>,
    stopped: Receiver<Instant>,
}

fn endless(era: &'static str, len: usize) -> Endless {
    let written = Arc::new(AtomicU64::new(0));
    let (tell, stopped) = mpsc::channel();
    let (count, tell) = (written.clone(), Mutex::new(tell));
    let server = Scripted::start(era, move |socket, id| {
        let kind = match era {
            "modern" => r#""resultType":"complete","#,
            _ => "",
        };
        let start = format!(
            r#"{}{{"jsonrpc":"2.0","id":{id},"result":{{{kind}"content":[{{"type":"text","text":""#,
            head(&format!("Content-Length: {len}"))
        );
        socket.write_all(start.as_bytes())?;
        let filler = [b'x'; 64 << 10];
        let outcome = loop {
            match socket.write(&filler) {
                Ok(n) => count.fetch_add(n as u64, Ordering::Relaxed),
                Err(error) => break error,
            };
        };
        let tell = tell.lock().expect("no holder panics");
        let _ = tell.send(Instant::now());
        Err(outcome)
    });
    Endless {
        server,
        written,
        stopped,
    }
}

/// P-R08, G-57: whoever leaves, cancels or is switched off ends the reading from the server, too.
#[test]
fn p_r08_leaving_cancelling_and_killing_end_a_large_answer_and_its_request() {
    for (era, how) in [
        ("modern", "leave"),
        ("legacy", "leave"),
        ("legacy", "cancel"),
        ("modern", "kill"),
    ] {
        let endless = endless(era, 60 * MB);
        let gateway = gateway(&endless.server, "");
        let who = Who::new(era, &gateway);
        let mut reading = Some(who.call("gone"));
        let began = Instant::now();
        match (how, &who) {
            ("leave", _) => drop(reading.take()),
            ("cancel", Who::Legacy(legacy)) => legacy.cancel(&json!("gone")),
            _ => {
                let (code, _, said) = gateway.setup.sentinel(&["kill", "tool", "echo"]);
                assert_eq!(code, 0, "{said}");
            }
        }
        let stopped = endless.stopped.recv_timeout(PATIENCE).expect("it ends");
        eprintln!("{era} {how}: over after {:?}", stopped - began);
        until("nothing is in flight", || in_flight(&gateway));
        if let Some(reading) = reading {
            assert!(!reading.finish().whole, "{how}: it looks whole");
        }
        let outcome = record(gateway, "gone")["outcome"].clone();
        let wanted = if how == "kill" { "killed" } else { "cancelled" };
        assert_eq!(outcome, wanted, "{era} {how}");
    }
}

/// Eight callers who do not read hold a few pieces each, whatever their servers have to say.
#[test]
fn p_r10_callers_who_read_nothing_slow_their_servers_and_hold_little() {
    let endless = endless("modern", 64 * MB - 1);
    let gateway = gateway(&endless.server, "");
    let pid = gateway.process.pid();
    let who = Who::new("modern", &gateway);
    let before = resident_kib(pid);
    let readings: Vec<Reading> = (0..8).map(|i| who.call(&format!("slow{i}"))).collect();
    // They write until nothing more fits between them and the callers.
    let mut last = 0;
    within(PATIENCE, "the servers wait", || {
        thread::sleep(Duration::from_millis(300));
        let now = endless.written.load(Ordering::Relaxed);
        (std::mem::replace(&mut last, now) == now && now > 0).then_some(())
    });
    let held = resident_kib(pid).saturating_sub(before) / 1024;
    eprintln!(
        "8 x 64 MB to callers who read nothing: {held} MiB more, {} MiB taken from the servers",
        last >> 20
    );
    assert!(held < 32, "{held} MiB for 8 callers who read nothing");
    drop(readings);
    for _ in 0..8 {
        endless.stopped.recv_timeout(PATIENCE).expect("it ends");
    }
    until("nothing is in flight", || in_flight(&gateway));
}

/// The fixture's own large results, by every way there is.
#[test]
fn decision_14_the_fixture_s_large_results_pass_in_every_quadrant() {
    for backend in ["legacy", "modern"] {
        let server = Server::start(&["--era", backend]);
        let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
        for bytes in [200_000, 300_000, 3_000_000] {
            let legacy: &dyn Caller = &Legacy::newest(&gateway);
            let modern: &dyn Caller = &Modern::new(&gateway, "/mcp");
            for (caller, era) in [(legacy, "legacy"), (modern, "modern")] {
                let said = caller.said("blob", json!({"bytes": bytes}));
                assert_eq!(said.len(), bytes, "{era} to {backend}");
            }
        }
    }
}
