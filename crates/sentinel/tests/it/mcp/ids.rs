//! G-4, P-S05, P-S13: ids come back as they were spelled, and what is no message is refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::support::callers::{
    Caller, LEGACY, Legacy, MODERN, Modern, bare_post, request, text_of, tool,
};
use crate::support::http;
use crate::support::pipe::Pipe;
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend};
use crate::support::tokens::JSON_BODY;

const GOOD: [&str; 10] = [
    "0",
    "-7",
    "\"\"",
    "\"7\"",
    "\"\\u0061\\/\u{e9}\"",
    "9007199254740993",
    "123456789012345678901234567890",
    "1.5",
    "-0.0",
    "1e3",
];
const BAD: [&str; 5] = ["null", "true", "false", "{}", "[1]"];

fn gateway() -> Gateway {
    Gateway::ready(&stdio_backend("one", &[], ""))
}

/// A call and a ping with this id, as text.
fn with_id(id: &str) -> [String; 2] {
    [
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"x"}}}}}}"#
        ),
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#),
    ]
}

#[test]
fn g_4_ids_of_every_legal_form_come_back_byte_for_byte() {
    let gateway = gateway();
    let caller = Legacy::newest(&gateway);
    for id in GOOD {
        for body in with_id(id) {
            let answer = caller.post(&body);
            assert!(
                answer.text.contains(&format!(r#""id":{id},"result""#)),
                "{id}: {}",
                answer.text
            );
        }
    }
    let modern = Modern::new(&gateway, "/mcp");
    for id in GOOD {
        // Written as text: no number may pass through a float on its way.
        let mut body = request(
            &json!("ID"),
            "tools/list",
            crate::support::callers::introduced(json!({}), &json!({})),
        );
        body = body.replace("\"ID\"", id);
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/list"),
        ];
        let answer = modern.send_raw(&body, &headers).finish();
        assert!(
            answer.text.contains(&format!(r#""id":{id},"result""#)),
            "{id}"
        );
    }
    let pipe = Pipe::legacy(&stdio_backend("one", &[], ""), "2025-11-25", json!({}));
    pipe.wait_for_tool("echo");
    for id in GOOD {
        for body in with_id(id) {
            pipe.write(&body);
            let line = pipe.line(id, |line| line["result"].is_object());
            assert!(
                line.contains(&format!(r#""id":{id},"result""#)),
                "{id}: {line}"
            );
        }
    }
}

#[test]
fn g_4_ids_that_are_none_are_refused() {
    let gateway = gateway();
    let caller = Legacy::newest(&gateway);
    for id in BAD {
        for body in with_id(id) {
            let answer = caller.post(&body);
            assert_eq!((answer.status, answer.code()), (400, -32600), "{body}");
            assert!(answer.json()["id"].is_null());
            let answer = bare_post(&gateway, "/mcp", &body);
            assert_eq!((answer.status, answer.code()), (400, -32600), "{body}");
        }
    }
    let pipe = Pipe::silent(&stdio_backend("one", &[], ""));
    for id in BAD {
        for body in with_id(id) {
            pipe.write(&body);
            let line = pipe.line(id, |line| line["error"].is_object());
            assert!(line.contains("-32600"), "{line}");
        }
    }
    assert_eq!(pipe.result("ping", json!({})), json!({}), "and it goes on");
}

#[test]
fn p_s05_callers_with_equal_ids_get_their_own_answers() {
    let gateway = gateway();
    let callers: Vec<_> = (0..8).map(|_| Legacy::newest(&gateway)).collect();
    let modern: Vec<_> = (0..8).map(|_| Modern::new(&gateway, "/mcp")).collect();
    // All meet at the backend before any is answered, so that all are in flight together.
    let meet = |n: usize| tool("reverse", json!({"n": 16, "i": n}));
    let text = |answer: &Value| answer["result"]["content"][0]["text"].clone();
    thread::scope(|scope| {
        for (n, caller) in callers.iter().enumerate() {
            scope.spawn(move || {
                let answer = caller
                    .post(&request(&json!(1), "tools/call", meet(n)))
                    .json();
                assert_eq!(
                    (&answer["id"], text(&answer)),
                    (&json!(1), json!(n.to_string()))
                );
            });
        }
        for (n, caller) in modern.iter().enumerate() {
            scope.spawn(move || {
                let answer = caller
                    .send_as(&json!(1), "tools/call", meet(n + 8))
                    .finish()
                    .json();
                assert_eq!(
                    (&answer["id"], text(&answer)),
                    (&json!(1), json!((n + 8).to_string()))
                );
            });
        }
    });
}

/// Callers that are there at once, half of them of each era.
const CALLERS: usize = 200;
/// Calls of all of them together, unless SENTINEL_CALLS says another number.
const CALLS: usize = 6000;

#[test]
fn p_s05_many_calls_of_many_callers_with_one_id_are_never_mixed_up() {
    let server = Server::start(&[]);
    // All of them may call one backend at once.
    let places = "[backends.admission]\nmax_concurrent = 256";
    let gateway = Gateway::ready(&format!(
        "[admission]\nmax_concurrent = 256\n{}{}",
        http_backend("alpha", &server.address, places),
        stdio_backend("beta", &[], &format!("prefix = \"always\"\n{places}"))
    ));
    let said = std::env::var("SENTINEL_CALLS").ok();
    let calls = said.map_or(CALLS, |text| text.parse().expect("a number"));
    let misrouted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (gateway, misrouted) = (&gateway, &misrouted);
            let send: Box<dyn Fn(Value) -> Value + Send> = match caller % 2 {
                0 => {
                    let legacy = Legacy::newest(gateway);
                    Box::new(move |params| {
                        legacy
                            .post(&request(&json!(1), "tools/call", params))
                            .json()
                    })
                }
                _ => {
                    let modern = Modern::new(gateway, "/mcp");
                    Box::new(move |params| {
                        let sent = modern.send_as(&json!(1), "tools/call", params);
                        sent.finish().json()
                    })
                }
            };
            scope.spawn(move || {
                for n in 0..calls / CALLERS {
                    let text = format!("{caller} {n}");
                    let name = ["echo", "beta__echo"][n % 2];
                    let answer = send(tool(name, json!({ "text": text })));
                    let is_ours = answer["id"] == 1 && text_of(&answer) == text;
                    misrouted.fetch_add(usize::from(!is_ours), Ordering::Relaxed);
                }
            });
        }
    });
    let misrouted = misrouted.into_inner();
    eprintln!("P-S05: {calls} calls of {CALLERS} callers with one id, {misrouted} misrouted");
    assert_eq!(misrouted, 0);
}

#[test]
fn g_4_an_id_in_flight_cannot_be_used_again_in_its_session() {
    let gateway = gateway();
    let caller = Legacy::newest(&gateway);
    let first = caller.send(&request(
        &json!("x"),
        "tools/call",
        tool("barrier", json!({"name": "b"})),
    ));
    crate::support::setup::until("it waits", || {
        (caller.said("waiting", json!({"name": "b"})) == "1").then_some(())
    });
    let second = caller.post(&request(
        &json!("x"),
        "tools/call",
        tool("echo", json!({"text": "2"})),
    ));
    assert_eq!(second.code(), -32600);
    assert_eq!(caller.said("release", json!({"name": "b"})), "1");
    assert_eq!(
        first.finish().json()["result"]["content"][0]["text"],
        "passed b"
    );
}

#[test]
fn p_s13_what_two_parsers_could_read_two_ways_is_refused() {
    let gateway = gateway();
    let caller = Legacy::newest(&gateway);
    let call = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"count","arguments":{arguments}}}}}"#
        )
    };
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    for (body, code) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#.to_owned(),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"tools/list"}"#.to_owned(),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}"#.to_owned(),
            -32600,
        ),
        (call(r#"{"key":"dup","key":"dup2"}"#), -32600),
        (call(r#"{"key":"dup","x":[{"a":1,"a":1}]}"#), -32600),
        (
            call(&format!(r#"{{"key":"dup","x":{}}}"#, deep(70))),
            -32700,
        ),
        (
            call(&format!(r#"{{"key":"dup","x":{}}}"#, deep(100_000))),
            -32700,
        ),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.to_owned(),
            -32600,
        ),
        (r#"{"id":1,"method":"ping"}"#.to_owned(), -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#.to_owned(), -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#.to_owned(), -32600),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#.to_owned(),
            -32700,
        ),
        ("\u{feff}{}".to_owned(), -32700),
        ("7".to_owned(), -32600),
        ("\"text\"".to_owned(), -32600),
        (String::new(), -32700),
        ("{".to_owned(), -32700),
        (
            r#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#.to_owned(),
            -32700,
        ),
    ] {
        let answer = caller.post(&body);
        let shown: String = body.chars().take(120).collect();
        assert_eq!((answer.status, answer.code()), (400, code), "{shown}");
    }
    let invalid = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xffing\"}";
    let answer = bare_post(&gateway, "/mcp", invalid);
    assert_eq!((answer.status, answer.code()), (400, -32700));
    assert_eq!(
        caller.said("executed", json!({"key": "dup"})),
        "0",
        "nothing ran"
    );
    // Just within the limit all is well.
    assert!(
        caller
            .post(&call(&format!(r#"{{"key":"deep","x":{}}}"#, deep(55))))
            .json()["result"]
            .is_object()
    );
}

#[test]
fn p_r10_bodies_and_lines_beyond_their_limits_are_refused() {
    let config = stdio_backend("one", &[], "");
    let gateway = Gateway::ready(&format!("[limits]\nbody_mb = 1\n{config}"));
    let caller = Legacy::newest(&gateway);
    let call = |len: usize| {
        request(
            &json!(1),
            "tools/call",
            tool("echo", json!({"text": "x".repeat(len)})),
        )
    };
    assert_eq!(caller.post(&call(1_000_000)).status, 200);
    let refused = caller.post(&call(1 << 20));
    assert_eq!((refused.status, refused.code()), (413, -32600));
    assert_eq!(caller.said("echo", json!({"text": "on"})), "on");

    let pipe = Pipe::legacy(
        &format!("[limits]\nline_mb = 1\n{config}"),
        "2025-11-25",
        json!({}),
    );
    pipe.wait_for_tool("echo");
    pipe.write(&call(1 << 20));
    let refused = pipe.line("a refusal", |line| line["error"].is_object());
    assert!(
        refused.contains("-32600") && refused.len() < 1000,
        "{refused}"
    );
    assert_eq!(
        pipe.said("echo", json!({"text": "on"})),
        "on",
        "the next line is read"
    );
}

/// C-39: up to 2025-06-18 only JSON-RPC 2.0 says how an error is written whose request has no id that could be read,
/// and it wants `null`; the schemas since then want no `id` at all. Without a header it is as in 2025-03-26.
#[test]
fn c_39_an_error_without_an_id_is_written_by_one_rule() {
    let gateway = Gateway::start("[limits]\nbody_mb = 1\n");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let refused = [
        ("{".to_owned(), 400),
        (
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#.to_owned(),
            400,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":2}}"#.to_owned(),
            400,
        ),
        (ping.replace('1', "null"), 400),
        (ping.replace('1', "{}"), 400),
        ("5".to_owned(), 400),
        ("[]".to_owned(), 400),
        (format!("[{ping}]"), 400),
        (" ".repeat(2 << 20), 413),
        // A session that is not there, for what has no id.
        (
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
            404,
        ),
    ];
    let versions = LEGACY.map(Some).into_iter().chain([None, Some(MODERN)]);
    for version in versions {
        for (body, status) in &refused {
            if *status == 404 && version == Some(MODERN) {
                continue;
            }
            let mut headers = vec![JSON_BODY, ("Accept", "*/*"), ("Mcp-Session-Id", "none")];
            headers.extend(version.map(|version| ("MCP-Protocol-Version", version)));
            let answer = http::send(&gateway.address, "POST", "/mcp", &headers, body).finish();
            let what = format!("{version:?} {:.60}: {answer:?}", body.trim());
            assert_eq!(answer.status, *status, "{what}");
            let wanted = match version.unwrap_or("2025-03-26") {
                "2025-11-25" | MODERN => None,
                _ => Some(&Value::Null),
            };
            assert_eq!(answer.json().get("id"), wanted, "{what}");
        }
    }
    // An id that could be read is in every answer.
    let headers = [
        JSON_BODY,
        ("Mcp-Session-Id", "none"),
        ("MCP-Protocol-Version", "2099-01-01"),
    ];
    let answer = http::send(&gateway.address, "POST", "/mcp", &headers, ping).finish();
    assert_eq!((answer.status, &answer.json()["id"]), (400, &json!(1)));
}
