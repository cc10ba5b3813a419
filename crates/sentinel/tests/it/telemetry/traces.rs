//! Traces over OTLP: off unless configured, a span for each request and one for its backend, and the
//! caller's `traceparent` carried through `_meta` and headers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::support::http;
use crate::support::setup::{Gateway, Server, http_backend, until};

/// A collector that keeps the spans of every request it is sent.
struct Collector {
    address: String,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let spans = Arc::<Mutex<Vec<Value>>>::default();
        let kept = spans.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if reader.read_line(&mut head).unwrap_or(0) == 0 {
                        break;
                    }
                }
                let head = head.to_ascii_lowercase();
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "));
                let mut body =
                    vec![0; length.map_or(0, |len| len.trim().parse().expect("a length"))];
                if reader.read_exact(&mut body).is_err() {
                    continue;
                }
                assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
                assert!(head.contains("content-type: application/json"), "{head}");
                let sent: Value = serde_json::from_slice(&body).expect("JSON");
                let found = sent["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array();
                kept.lock()
                    .expect("no panic")
                    .extend(found.expect("spans").iter().cloned());
                let _ = reader
                    .get_mut()
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
            }
        });
        Self { address, spans }
    }

    /// The span of this kind for a request id.
    fn span(&self, id: &str, kind: u64) -> Value {
        until("the span arrives", || {
            let spans = self.spans.lock().expect("no panic");
            let wanted =
                |span: &&Value| span["kind"] == kind && attribute(span, "jsonrpc.request.id") == id;
            spans.iter().find(wanted).cloned()
        })
    }
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a str {
    let all = span["attributes"].as_array().expect("attributes").iter();
    all.filter(|a| a["key"] == key)
        .find_map(|a| a["value"]["stringValue"].as_str())
        .unwrap_or_default()
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00f067aa0ba902b7";

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

/// What the fixture says it was sent: the headers and the `_meta` of the call.
fn whoami(gateway: &Gateway, id: &str, meta: Value, headers: &[(&str, &str)]) -> Value {
    let mut own = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    own.as_object_mut()
        .expect("an object")
        .extend(meta.as_object().expect("an object").clone());
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "whoami", "arguments": {}, "_meta": own}});
    let mut all = vec![
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "whoami"),
    ];
    all.extend(headers);
    let answer = http::send(&gateway.address, "POST", "/mcp", &all, body.to_string()).finish();
    let text = answer.json()["result"]["content"][0]["text"].clone();
    serde_json::from_str(text.as_str().unwrap_or_else(|| panic!("{}", answer.text))).expect("JSON")
}

#[test]
fn spans_reach_the_collector_and_the_trace_goes_on_to_the_backend() {
    let collector = Collector::start();
    let server = Server::start(&["--era", "modern"]);
    let gateway = Gateway::ready(&format!(
        "[telemetry]\notlp_endpoint = \"http://{}\"\n{}",
        collector.address,
        http_backend("alpha", &server.address, "")
    ));
    let said = whoami(
        &gateway,
        "t1",
        json!({"traceparent": traceparent("01")}),
        &[],
    );
    let (own, client) = (collector.span("t1", 2), collector.span("t1", 3));
    assert_eq!(
        (&own["traceId"], &own["parentSpanId"]),
        (&json!(TRACE), &json!(PARENT))
    );
    assert_eq!(
        (&client["traceId"], &client["parentSpanId"]),
        (&json!(TRACE), &own["spanId"])
    );
    assert_eq!(own["name"], "tools/call whoami");
    assert_eq!(attribute(&own, "sentinel.backend"), "alpha");
    assert_eq!(attribute(&own, "sentinel.outcome"), "success");
    assert_eq!(attribute(&own, "mcp.protocol.version"), "2026-07-28");
    let time = |span: &Value, name: &str| {
        span[name]
            .as_str()
            .expect("text")
            .parse::<u64>()
            .expect("a number")
    };
    assert!(time(&own, "startTimeUnixNano") <= time(&client, "startTimeUnixNano"));
    assert!(time(&own, "startTimeUnixNano") < time(&own, "endTimeUnixNano"));
    // The backend's parent is our client span, in `_meta` and in the header.
    let onward = format!("00-{TRACE}-{}-01", client["spanId"].as_str().expect("text"));
    assert_eq!(said["_meta"]["traceparent"], onward);
    assert_eq!(said["headers"]["traceparent"][0], onward);

    // From a header as well; an error is one; a refusal has no client span; no trace begins one.
    let refused = json!({"jsonrpc": "2.0", "id": "t2", "method": "tools/call", "params": {"name": "nope",
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}});
    let headers = [
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "nope"),
        ("traceparent", &*traceparent("01")),
    ];
    http::send(
        &gateway.address,
        "POST",
        "/mcp",
        &headers,
        refused.to_string(),
    )
    .finish();
    let own = collector.span("t2", 2);
    assert_eq!(
        (&own["traceId"], &own["status"]["code"]),
        (&json!(TRACE), &json!(2))
    );
    assert_eq!(attribute(&own, "error.type"), "unknown_name");
    whoami(&gateway, "t3", json!({}), &[]);
    let own = collector.span("t3", 2);
    assert!(own["traceId"] != TRACE && own["parentSpanId"].is_null());

    // A caller that does not sample is not collected, but carried on.
    let said = whoami(
        &gateway,
        "t4",
        json!({"traceparent": traceparent("00")}),
        &[],
    );
    assert!(
        said["_meta"]["traceparent"]
            .as_str()
            .expect("text")
            .starts_with(&format!("00-{TRACE}-"))
    );
    whoami(&gateway, "t5", json!({}), &[]);
    collector.span("t5", 2);
    let spans = collector.spans.lock().expect("no panic");
    assert!(
        !spans
            .iter()
            .any(|s| attribute(s, "jsonrpc.request.id") == "t4")
    );
    assert!(
        !spans
            .iter()
            .any(|s| s["kind"] == 3 && attribute(s, "jsonrpc.request.id") == "t2")
    );
}

#[test]
fn without_a_collector_a_trace_passes_as_it_came() {
    let server = Server::start(&["--era", "modern"]);
    let gateway = Gateway::ready(&http_backend("alpha", &server.address, ""));
    let said = whoami(&gateway, "t1", json!({"traceparent": "odd but mine"}), &[]);
    assert_eq!(said["_meta"]["traceparent"], "odd but mine");
    let header = traceparent("01");
    let said = whoami(&gateway, "t2", json!({}), &[("traceparent", &header)]);
    assert_eq!(said["_meta"]["traceparent"], header);
    assert_eq!(said["headers"]["traceparent"][0], header);
    let said = whoami(&gateway, "t3", json!({}), &[]);
    assert!(said["_meta"]["traceparent"].is_null());
}

#[test]
fn a_collector_that_is_gone_costs_spans_and_nothing_else() {
    let nobody = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    let server = Server::start(&["--era", "modern"]);
    let gateway = Gateway::ready(&format!(
        "[telemetry]\notlp_endpoint = \"http://{nobody}\"\n{}",
        http_backend("alpha", &server.address, "")
    ));
    for n in 0..20 {
        whoami(&gateway, &format!("t{n}"), json!({}), &[]);
    }
    until("they are counted", || {
        let page = gateway.get("/metrics").text;
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix("sentinel_spans_dropped_total "));
        (line?.parse::<u64>().ok()? >= 40).then_some(())
    });
}

#[test]
fn p_r10_a_callers_text_is_cut_in_spans() {
    let collector = Collector::start();
    let gateway = Gateway::ready(&format!(
        "[telemetry]\notlp_endpoint = \"http://{}\"\n",
        collector.address
    ));
    let long = "x".repeat(100_000);
    for (id, method, name) in [("m", &*long, "echo"), ("n", "tools/call", &*long)] {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method,
            "params": {"name": name, "arguments": {}}});
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        http::send(&gateway.address, "POST", "/mcp", &headers, body.to_string()).finish();
        let span = collector.span(id, 2).to_string();
        assert!(span.contains("xxx") && span.len() < 4096, "{span}");
    }
}
