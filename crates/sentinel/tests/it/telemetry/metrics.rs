//! `/metrics` as Prometheus reads it: the promised names with their types and labels, and that they move.

use std::collections::BTreeMap;
use std::net::TcpListener;

use serde_json::json;

use crate::support::callers::{Caller, Modern, kind_of, tool};
use crate::support::http;
use crate::support::setup::{Gateway, Server, http_backend, until};
use crate::support::tokens::token;

type Labels = BTreeMap<String, String>;

/// A family as it was announced, with its series.
struct Family {
    kind: String,
    samples: BTreeMap<(String, Labels), f64>,
}

/// A page by its families; panics where Prometheus would refuse it.
struct Page(BTreeMap<String, Family>);

impl Page {
    fn read(gateway: &Gateway) -> Self {
        let answer = gateway.get("/metrics");
        assert_eq!(answer.status, 200);
        assert!(answer.header("content-type").starts_with("text/plain"));
        Self::parse(&answer.text)
    }

    fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line ends, too");
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        let (mut helped, mut current) = (String::new(), String::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').expect("a text");
                assert!(!words.is_empty(), "{line}");
                assert!(!families.contains_key(name), "announced twice: {line}");
                helped = name.to_owned();
            } else if let Some(typed) = line.strip_prefix("# TYPE ") {
                let (name, kind) = typed.split_once(' ').expect("a type");
                assert_eq!(name, helped, "its help stands before it");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                current = name.to_owned();
                let family = Family {
                    kind: kind.to_owned(),
                    samples: BTreeMap::new(),
                };
                assert!(families.insert(current.clone(), family).is_none(), "{line}");
            } else {
                let (name, labels, value) = sample(line);
                let family = families.get_mut(&current).expect("announced before");
                let part = name
                    .strip_prefix(&current)
                    .unwrap_or_else(|| panic!("{line}"));
                match family.kind.as_str() {
                    "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&part), "{line}"),
                    _ => assert_eq!(part, "", "{line}"),
                }
                let twice = family.samples.insert((name, labels), value);
                assert!(twice.is_none(), "a series twice: {line}");
            }
        }
        Self(families)
    }

    /// The sum of the series of this name that have these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let all = self.0.values().flat_map(|family| &family.samples);
        all.filter(|((of, with), _)| of == name && has(with, labels))
            .map(|(_, value)| value)
            .sum()
    }

    /// That a family is of this kind, and that each of its series has these labels.
    #[track_caller]
    fn assert_family(&self, name: &str, kind: &str, labels: &[&str]) {
        let family = self.0.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(family.kind, kind, "{name}");
        assert!(!family.samples.is_empty(), "{name} has no series");
        for (_, with) in family.samples.keys() {
            let has = |label: &&str| with.contains_key(*label);
            assert!(labels.iter().all(has), "{name}: {with:?}");
        }
    }

    /// Buckets only grow, and the last of them is the count.
    fn assert_histogram(&self, name: &str, labels: &[(&str, &str)]) {
        let family = &self.0[name];
        let bucket = format!("{name}_bucket");
        let mut buckets: Vec<(f64, f64)> = family
            .samples
            .iter()
            .filter(|((of, with), _)| *of == bucket && has(with, labels))
            .map(|((_, with), count)| (with["le"].parse().expect("a bound"), *count))
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{buckets:?}");
        let (bound, last) = *buckets.last().expect("buckets");
        assert_eq!(bound, f64::INFINITY);
        assert_eq!(last, self.sum(&format!("{name}_count"), labels));
    }
}

fn has(labels: &Labels, wanted: &[(&str, &str)]) -> bool {
    let has = |(label, text): &(&str, &str)| labels.get(*label).is_some_and(|is| is == text);
    wanted.iter().all(has)
}

/// A line of the page: name, labels, value.
fn sample(line: &str) -> (String, Labels, f64) {
    let (series, value) = line.rsplit_once(' ').expect("a value");
    let (name, inside) = match series.split_once('{') {
        None => (series, ""),
        Some((name, rest)) => (name, rest.strip_suffix('}').expect("closed")),
    };
    assert!(is_word(name), "{line}");
    let (mut labels, mut rest) = (Labels::new(), inside);
    while !rest.is_empty() {
        let (label, quoted) = rest.split_once("=\"").expect("a label");
        assert!(is_word(label), "{line}");
        let (text, after) = unquote(quoted);
        let twice = labels.insert(label.to_owned(), text);
        assert!(twice.is_none(), "a label twice: {line}");
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    (name.to_owned(), labels, value.parse().expect("a number"))
}

fn is_word(name: &str) -> bool {
    let mut all = name.chars();
    all.next().is_some_and(|c| c.is_ascii_lowercase())
        && all.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// What stands up to the closing quote, and what is behind it.
fn unquote(quoted: &str) -> (String, &str) {
    let (mut text, mut chars) = (String::new(), quoted.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, &quoted[at + 1..]),
            '\\' => text.push(match chars.next().expect("escaped").1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                other => panic!("no escape: {other}"),
            }),
            c => text.push(c),
        }
    }
    panic!("no closing quote: {quoted}")
}

/// An address where nobody is served. It is held, so that no other test's server comes to be there.
fn hangs_up() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || listener.incoming().for_each(drop));
    address.to_string()
}

/// Section 2.0 of the requirements names five families; P-16 the counters of admission.
#[test]
fn p_16_the_promised_metrics_are_there_with_type_and_labels_and_move() {
    let server = Server::start(&[]);
    let nobody = hangs_up();
    let config = format!(
        "[rate_limits]\ndefault_rpm = 0\nburst = 2\n[rate_limits.per_tool]\necho = 1\n\
         [admission]\nmax_concurrent = 1\nqueue_size = 0\n\
         [rbac.roles.admin]\npermissions = [\"tools.read\", \"tool:echo\", \"tool:slow\", \"tool:barrier\"]\n{}{}",
        http_backend("alpha", &server.address, ""),
        http_backend("beta", &nobody, "")
    );
    let gateway = Gateway::start(&config);
    until("one of the two is there", || {
        (gateway.health("alpha") == "up").then_some(())
    });
    let tools = [("method", "tools/call")];
    let before = Page::read(&gateway);
    assert_eq!(before.sum("sentinel_requests_total", &tools), 0.0);

    let caller = Modern::new(&gateway, "/mcp");
    let direct = Modern::at(&server.address, "/mcp", json!({}));
    for _ in 0..2 {
        assert_eq!(caller.said("echo", json!({"text": "x"})), "x");
    }
    let refused = |name: &str, arguments| kind_of(&caller.call(name, arguments)).to_owned();
    assert_eq!(refused("echo", json!({"text": "x"})), "rate_limited");
    assert_eq!(refused("count", json!({"key": "k"})), "forbidden");
    let held = caller.send("tools/call", tool("barrier", json!({"name": "b"})));
    until("the only place is taken", || {
        (direct.said("waiting", json!({"name": "b"})) == "1").then_some(())
    });
    assert_eq!(
        Page::read(&gateway).sum("sentinel_admission_active", &[]),
        1.0
    );
    assert_eq!(refused("slow", json!({"ms": 0})), "overloaded");
    direct.said("release", json!({"name": "b"}));
    drop(held.finish());

    let page = until("every call is counted", || {
        let page = Page::read(&gateway);
        (page.sum("sentinel_requests_total", &tools) == 6.0).then_some(page)
    });
    page.assert_family("sentinel_requests_total", "counter", &["tool", "status"]);
    page.assert_family("sentinel_request_duration_seconds", "histogram", &["tool"]);
    page.assert_family("sentinel_errors_total", "counter", &["tool", "error_type"]);
    page.assert_family("sentinel_backend_healthy", "gauge", &["backend"]);
    page.assert_family("sentinel_rate_limit_hits_total", "counter", &["tool"]);
    page.assert_family("sentinel_admission_active", "gauge", &[]);
    page.assert_family("sentinel_admission_queued", "gauge", &[]);
    page.assert_family("sentinel_admission_returning", "gauge", &[]);
    page.assert_family("sentinel_admission_rejected_total", "counter", &["reason"]);

    for (name, status, count) in [
        ("echo", "success", 2.0),
        ("echo", "rate_limited", 1.0),
        ("count", "denied", 1.0),
        ("slow", "overloaded", 1.0),
        ("barrier", "success", 1.0),
    ] {
        let labels = [("tool", name), ("status", status), ("backend", "alpha")];
        let counted = page.sum("sentinel_requests_total", &labels);
        assert_eq!(counted, count, "{name} {status}");
    }
    for (name, kind) in [
        ("echo", "rate_limited"),
        ("count", "forbidden"),
        ("slow", "overloaded"),
    ] {
        let labels = [("tool", name), ("error_type", kind)];
        assert_eq!(
            page.sum("sentinel_errors_total", &labels),
            1.0,
            "{name} {kind}"
        );
    }
    assert_eq!(page.sum("sentinel_errors_total", &tools), 3.0);
    let hits = |labels: &[(&str, &str)]| page.sum("sentinel_rate_limit_hits_total", labels);
    assert_eq!((hits(&[("tool", "echo")]), hits(&[])), (1.0, 1.0));
    let timed = "sentinel_request_duration_seconds";
    for (name, count) in [
        ("echo", 3.0),
        ("count", 1.0),
        ("slow", 1.0),
        ("barrier", 1.0),
    ] {
        let labels = [("method", "tools/call"), ("tool", name)];
        assert_eq!(
            page.sum(&format!("{timed}_count"), &labels),
            count,
            "{name}"
        );
        page.assert_histogram(timed, &labels);
    }
    let waited = page.sum(&format!("{timed}_sum"), &[("tool", "barrier")]);
    assert!(waited > 0.0);
    let healthy = |name| page.sum("sentinel_backend_healthy", &[("backend", name)]);
    assert_eq!((healthy("alpha"), healthy("beta")), (1.0, 0.0));
    assert!(
        page.0["sentinel_backend_healthy"].samples.len() >= 2,
        "0 is said, not left out"
    );
    let rejected = |reason| page.sum("sentinel_admission_rejected_total", &[("reason", reason)]);
    assert_eq!(rejected("concurrency_limit"), 1.0);
    assert_eq!(
        (rejected("queue_full"), rejected("queue_timeout")),
        (0.0, 0.0)
    );
    assert_eq!(page.sum("sentinel_admission_admitted_total", &[]), 3.0);
    assert_eq!(page.sum("sentinel_admission_active", &[]), 0.0);
}

/// Names of tools are in the figures, so they are for those who may see all of them.
#[test]
fn c_11_metrics_are_for_those_from_whom_nothing_is_hidden() {
    let server = Server::start(&[]);
    let backend = http_backend("alpha", &server.address, "");
    let gateway = Gateway::ready(&format!(
        "health_listen = \"127.0.0.1:0\"\n[auth]\njwt_secret_env = \"JWT_SECRET_KEY\"\n\
         [rbac.roles.reader]\npermissions = [\"tools.read\"]\n\
         [rbac.roles.narrow]\npermissions = [\"tools.read\", \"tools.execute\"]\ndenied_tools = [\"slow\"]\n{backend}"
    ));
    let scraped = |address: &str, credential: Option<String>| {
        let credential = credential.map(|token| format!("Bearer {token}"));
        let header = credential
            .iter()
            .map(|value| ("Authorization", value.as_str()));
        let headers: Vec<_> = header.collect();
        let answer = http::send(address, "GET", "/metrics", &headers, "").finish();
        (
            answer.status,
            answer.text.contains("sentinel_requests_total"),
        )
    };
    let by = |claims| scraped(&gateway.address, Some(token(claims)));
    for (role, verdict) in [
        ("admin", (200, true)),
        ("reader", (200, true)),
        ("narrow", (403, false)),
        ("ghost", (403, false)),
    ] {
        assert_eq!(by(json!({ "role": role })), verdict, "{role}");
    }
    let narrowed = json!({"role": "admin", "scope": "alpha.echo"});
    assert_eq!(by(narrowed), (403, false));
    assert_eq!(scraped(&gateway.address, None), (401, false));
    // Where probes are answered nobody is asked who it is.
    let run = gateway.setup.data().join("run");
    let file = run.join(format!("{}.json", gateway.process.pid()));
    let file = std::fs::read_to_string(file).expect("a run file");
    let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
    let probes = file["health_listen"].as_str().expect("an address");
    assert_eq!(scraped(probes, None), (403, false));
    let answer = http::send(probes, "GET", "/health", &[], "").finish();
    assert_eq!(answer.status, 200);
}
