//! What one peer may make the gateway hold, and bodies it cannot read ([limits], P-R10, G-48).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, Steady, kind_of, request, text_of};
use crate::support::http::{Answer, Stream, parse};
use crate::support::processes::resident_kib;
use crate::support::records::export;
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend, until};
use crate::support::tokens::token;

/// Calls `chatty` with progress notices of this size.
fn chatty(n: usize, kb: usize) -> Value {
    json!({"name": "chatty", "arguments": {"n": n, "kb": kb}, "_meta": {"progressToken": 1}})
}

/// How many notices came, and the answer.
fn heard(stream: &mut Stream) -> (usize, Value) {
    let mut notices = 0;
    loop {
        let message = parse(&stream.message().expect("an answer comes"));
        if message["method"] != "notifications/progress" {
            return (notices, message);
        }
        notices += 1;
    }
}

/// `limits.event_mb`: what is no reply may be so large; a reply may be larger.
#[test]
fn p_r10_a_notice_that_is_too_large_is_dropped_and_the_answer_comes() {
    for era in ["legacy", "modern"] {
        let server = Server::start(&["--era", era]);
        let config = http_backend("one", &server.address, "");
        let gateway = Gateway::ready(&format!(
            "[limits]\nevent_mb = 1\nstream_buffer_kb = 8192\n{config}"
        ));
        let caller = Modern::new(&gateway, "/mcp");
        for (kb, passed) in [(900, 3), (1100, 0)] {
            let mut stream = caller.send("tools/call", chatty(3, kb)).head();
            let (notices, answer) = heard(&mut stream);
            assert_eq!(notices, passed, "{era} {kb}");
            assert_eq!(answer["result"]["content"][0]["text"], "said 3", "{era}");
        }
        let huge = caller.call("liar", json!({"kind": "huge", "mb": 2}));
        assert!(huge["result"].is_object(), "{era}: a reply");
        assert!(gateway.setup.log().contains("limits.event_mb"), "{era}");
    }
}

/// G-83: five servers as children, five over HTTP, a thousand calls.
#[test]
fn g_83_a_gateway_with_ten_backends_takes_less_than_100_mb() {
    let server = Server::start(&[]);
    let backends = (0..5).map(|n| {
        let more = "prefix = \"always\"";
        let child = stdio_backend(&format!("child-{n}"), &[], more);
        child + &http_backend(&format!("http-{n}"), &server.address, more)
    });
    let gateway = Gateway::ready(&backends.collect::<String>());
    let mut caller = Steady::connect(&gateway.address, None);
    for n in 0..1000 {
        let kind = if n % 2 == 0 { "child" } else { "http" };
        let name = format!("{kind}-{}__echo", n % 5);
        let answer = caller.call(&name, json!({"text": name}));
        assert_eq!(text_of(&answer.expect("an answer")), name);
    }
    let resident = resident_kib(gateway.process.pid());
    println!("G-83: {resident} KiB with ten backends after a thousand calls");
    assert!(resident * 1024 < 100_000_000, "{resident} KiB");
}

/// `limits.stream_buffer_kb`: sixty-four notices may wait, but not if they are large. A child speaks whether
/// its caller reads or not.
#[test]
fn p_r10_a_caller_that_reads_nothing_leaves_so_much_unread_and_still_has_its_answer() {
    let config = stdio_backend("one", &[], "");
    let gateway = Gateway::ready(&format!("[limits]\nstream_buffer_kb = 512\n{config}"));
    let (old, new) = (Legacy::newest(&gateway), Modern::new(&gateway, "/mcp"));
    let before = resident_kib(gateway.process.pid());
    let call = |n: usize| old.send(&request(&json!(n), "tools/call", chatty(24, 1024)));
    let streams = [
        call(101),
        new.send("tools/call", chatty(24, 1024)),
        call(102),
    ];
    // The child answers one after the other: this one comes when it has said all of that.
    assert_eq!(new.said("echo", json!({"text": "x"})), "x");
    let held = resident_kib(gateway.process.pid()).saturating_sub(before);
    for sent in streams {
        let (notices, answer) = heard(&mut sent.head());
        assert_eq!(answer["result"]["content"][0]["text"], "said 24");
        assert!((1..24).contains(&notices), "{notices}");
    }
    println!("P-R10: three callers that read nothing of 24 MiB each: resident +{held} KiB");
    assert!(held < 32 * 1024, "{held} KiB");
}

/// A proxy before a server that changes what is said of its answers.
struct Meddler {
    address: String,
    /// In the heads of answers: what becomes what.
    change: Arc<Mutex<Option<(&'static str, &'static str)>>>,
    asked: Arc<Mutex<String>>,
}

impl Meddler {
    fn before(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let this = Self {
            address: listener.local_addr().expect("an address").to_string(),
            change: Arc::default(),
            asked: Arc::default(),
        };
        let (server, change, asked) = (server.to_owned(), this.change.clone(), this.asked.clone());
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let far = TcpStream::connect(&server).expect("the server listens");
                let (mut up, mut down) = (near.try_clone().expect("a socket"), near);
                let (mut to, mut from) = (far.try_clone().expect("a socket"), far);
                let (change, asked) = (change.clone(), asked.clone());
                thread::spawn(move || {
                    pass(&mut up, &mut to, |bytes| {
                        asked
                            .lock()
                            .expect("alone")
                            .push_str(&String::from_utf8_lossy(&bytes));
                        bytes
                    });
                });
                thread::spawn(move || {
                    pass(&mut from, &mut down, |bytes| {
                        let Some((what, with)) = *change.lock().expect("alone") else {
                            return bytes;
                        };
                        let text = String::from_utf8_lossy(&bytes).into_owned();
                        text.replacen(what, with, 1).into_bytes()
                    });
                });
            }
        });
        this
    }

    fn say(&self, change: Option<(&'static str, &'static str)>) {
        *self.change.lock().expect("alone") = change;
    }
}

fn pass(from: &mut TcpStream, to: &mut TcpStream, with: impl Fn(Vec<u8>) -> Vec<u8>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if to.write_all(&with(buffer[..len].to_vec())).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
    let _ = from.shutdown(std::net::Shutdown::Both);
}

#[test]
fn g_49_a_body_of_another_type_or_encoding_is_named_for_what_it_is() {
    let server = Server::start(&[]);
    let meddler = Meddler::before(&server.address);
    let backend = http_backend("one", &meddler.address, "health_interval = 0");
    let gateway = Gateway::ready(&backend);
    let caller = Modern::new(&gateway, "/mcp");
    assert_eq!(caller.said("echo", json!({"text": "x"})), "x");
    let asked = meddler.asked.lock().expect("alone").to_ascii_lowercase();
    assert!(asked.contains("accept-encoding: identity\r\n"), "{asked}");

    let json = "content-type: application/json";
    for (with, words) in [
        (
            "content-type: text/html; charset=utf-8",
            ["`text/html`", "JSON or an event stream"],
        ),
        (
            "x-nothing: 1",
            ["without a content type", "JSON or an event stream"],
        ),
        (
            "content-type: application/json\r\ncontent-encoding: gzip",
            ["`gzip`", "not asked for"],
        ),
    ] {
        meddler.say(Some((json, with)));
        let answer = caller.call("echo", json!({"text": "x"}));
        assert_eq!(kind_of(&answer), "backend_bad_reply", "{answer}");
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
    meddler.say(Some((
        json,
        "content-type: application/json\r\ncontent-encoding: identity",
    )));
    assert_eq!(caller.said("echo", json!({"text": "plain"})), "plain");
    meddler.say(None);
    until("all is well", || {
        (kind_of(&caller.call("echo", json!({"text": "x"}))).is_empty()).then_some(())
    });
}

/// protocol.md 6.2: a server may ask for what the caller offered, and for nothing else.
#[test]
fn c_39_what_a_modern_server_may_not_ask_for_does_not_reach_the_caller() {
    let server = Server::start(&["--era", "modern"]);
    let meddler = Meddler::before(&server.address);
    let backend = http_backend("one", &meddler.address, "health_interval = 0");
    let gateway = Gateway::ready(&backend);
    let caller = Modern::with(&gateway, "/mcp", json!({"elicitation": {"form": {}}}));
    let ask = || caller.call("ask", json!({"message": "Who?"}));
    assert_eq!(ask()["result"]["resultType"], "input_required");
    meddler.say(Some(("elicitation/create", "elicitation/divine")));
    let answer = ask();
    assert_eq!(kind_of(&answer), "backend_bad_reply", "{answer}");
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("`elicitation/divine`"), "{message}");
}

/// Each of the two refusals is a 503 that says which limit is reached and when to try again.
#[track_caller]
fn assert_too_many_of_one_caller(refused: &Answer) {
    assert_eq!(refused.status, 503, "{refused:?}");
    let error = refused.json()["error"].clone();
    assert_eq!(error["data"]["kind"], "too_many_streams", "{error}");
    assert_eq!(error["data"]["retry_after_ms"], 1000, "{error}");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("limits.streams_per_caller"), "{message}");
}

#[test]
fn issue_17_4_at_its_own_bound_of_streams_a_caller_is_refused_and_another_is_not() {
    let server = Server::start(&[]);
    let backend = http_backend("one", &server.address, "");
    let limits = "[limits]\nstreams = 4\nstreams_per_caller = 2\n";
    let gateway = Gateway::ready(&format!("[auth]\n{limits}{backend}"));
    let credential = |subject: &str| token(json!({"sub": subject}));
    let [noisy, quiet] = ["noisy", "quiet"].map(credential);
    let wanted = || json!({"notifications": {"toolsListChanged": true}});
    let listen = |credential: &str| {
        let caller = Modern::new(&gateway, "/mcp").bearing(credential);
        caller.send("subscriptions/listen", wanted()).head()
    };
    // Streams of both eras count together, and whatever token of the subject they were opened with.
    let legacy = Legacy::bearing(&gateway, &noisy);
    let own = legacy.verb("GET").head();
    let mut listening = listen(&token(json!({"sub": "noisy", "jti": "another"})));
    assert_eq!((own.status, listening.status), (200, 200));
    listening.json();

    assert_too_many_of_one_caller(&listen(&noisy).finish());
    let another = Legacy::bearing(&gateway, &noisy);
    let refused = another.verb("GET").finish();
    assert_too_many_of_one_caller(&refused);
    // What needs no stream is answered.
    assert_eq!(another.said("echo", json!({"text": "x"})), "x");

    let mut others = [
        listen(&quiet),
        Legacy::bearing(&gateway, &quiet).verb("GET").head(),
    ];
    assert_eq!(
        others[0].json()["method"],
        "notifications/subscriptions/acknowledged"
    );
    assert_eq!(others[1].status, 200);

    own.hang_up();
    until("a stream that ended makes room", || {
        (another.verb("GET").head().status == 200).then_some(())
    });
    let mut records = export(&gateway.end());
    records.retain(|record| record["kind"] == "too_many_streams");
    let [first, second] = &records[..2] else {
        panic!("both refusals: {records:?}")
    };
    for (record, method) in [(first, "subscriptions/listen"), (second, "GET")] {
        let said = ["method", "caller", "decision", "outcome"].map(|name| &record[name]);
        assert_eq!(said, [method, "noisy", "deny", "error"], "{record}");
    }
    assert!(records.iter().all(|record| record["caller"] == "noisy"));
}
