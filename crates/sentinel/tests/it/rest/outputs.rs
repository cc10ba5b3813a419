//! Results that their tool's output schema does not allow (requirements A-10, A-12, C-38).

use serde_json::json;

use super::posting::{get, post};
use crate::support::callers::{Caller, Modern};
use crate::support::setup::{Gateway, Server, http_backend};

/// The value of a series of the one backend and its tool `structured`; 0 where there is none.
fn metric(gateway: &Gateway, name: &str) -> u64 {
    let page = get(gateway, "/metrics", &[]).text;
    let series = format!(r#"{name}{{backend="one",tool="structured"}} "#);
    let line = page.lines().find_map(|line| line.strip_prefix(&series));
    line.map_or(0, |value| value.parse().expect("a count"))
}

const MISMATCHES: &str = "sentinel_output_mismatches_total";
const UNCHECKED: &str = "sentinel_output_unchecked_total";

#[test]
fn c_38_a_result_that_does_not_fit_passes_and_is_counted_and_logged() {
    let server = Server::start(&["--era", "modern"]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    let fits = post(&gateway, "structured", &[], &json!({"city": "Bern"}));
    assert_eq!(fits.json(), json!({"city": "Bern", "degrees": 21.5}));
    assert_eq!(metric(&gateway, MISMATCHES), 0);
    // The schema promises an object.
    for _ in 0..5 {
        let wrong = post(&gateway, "structured", &[], &json!({"list": true}));
        assert_eq!(wrong.status, 200);
        assert_eq!(wrong.json(), json!([{"city": "Bern", "degrees": 21.5}]));
    }
    let mcp = Modern::new(&gateway, "/mcp");
    let answer = mcp.call("structured", json!({"list": true}));
    assert!(answer["result"]["structuredContent"].is_array(), "{answer}");
    assert_eq!(metric(&gateway, MISMATCHES), 6);
    // After one, two and four of them.
    let log = gateway.setup.log();
    assert_eq!(
        log.matches("does not fit the tool's outputSchema").count(),
        3
    );
    assert!(!log.contains("21.5"), "results are not for the log");
}

#[test]
fn c_38_large_results_are_not_gathered_to_be_checked() {
    let server = Server::start(&["--era", "modern"]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    let mcp = Modern::new(&gateway, "/mcp");
    let answer = mcp.call("structured", json!({"list": true, "kb": 600}));
    let content = &answer["result"]["structuredContent"];
    assert!(
        content[0]["filler"]
            .as_str()
            .is_some_and(|text| text.len() == 600 << 10)
    );
    let rest = post(&gateway, "structured", &[], &json!({"kb": 600}));
    assert_eq!(rest.json()["filler"], content[0]["filler"]);
    assert_eq!(
        (metric(&gateway, MISMATCHES), metric(&gateway, UNCHECKED)),
        (0, 2)
    );
}

#[test]
fn c_38_a_backends_results_need_not_be_checked() {
    let server = Server::start(&["--era", "modern"]);
    let backend = http_backend("one", &server.address, "check_outputs = false");
    let gateway = Gateway::ready(&backend);
    let wrong = post(&gateway, "structured", &[], &json!({"list": true}));
    assert_eq!(wrong.status, 200);
    assert_eq!(metric(&gateway, MISMATCHES), 0);
    gateway
        .setup
        .rewrite(&http_backend("one", &server.address, ""));
    let (exit, _, problem) = gateway.setup.sentinel(&["reload"]);
    assert_eq!(exit, 0, "{problem}");
    post(&gateway, "structured", &[], &json!({"list": true}));
    assert_eq!(metric(&gateway, MISMATCHES), 1);
}
