//! Rows of the translation table (LL, LM, ML, MM), each by hand.

use super::*;
use Revision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};

fn payload(text: &str) -> Payload {
    Payload::parse(Bytes::copy_from_slice(text.as_bytes()), Rules::backend()).expect("json")
}

#[track_caller]
fn check_result(method: Method, from: Revision, to: Revision, given: &str, want: &str) {
    let given = payload(given);
    let got = result(&method, &given, from, to);
    assert_eq!(String::from_utf8_lossy(&got), want, "{from} -> {to}");
}

const ABOUT: About<'_> = About {
    capabilities: b"{}",
    client_info: None,
    log_level: None,
    traceparent: None,
};

fn outgoing<'a>(method: &'a Method, from: Revision, to: Revision) -> Outgoing<'a> {
    Outgoing {
        method,
        from,
        to,
        own_name: None,
        progress_token: None,
        task: None,
        about: ABOUT,
    }
}

#[track_caller]
fn check_params(outgoing: &Outgoing<'_>, given: &str, want: &str) {
    let params =
        Params::parse(Bytes::copy_from_slice(given.as_bytes()), Rules::caller(64)).expect("params");
    let mut out = Vec::new();
    outgoing.write(&params, &mut out);
    assert_eq!(String::from_utf8_lossy(&out), want);
}

#[test]
fn within_one_revision_nothing_changes() {
    let text = r#"{ "content":[ ] , "resultType":"x","n":1.0 }"#;
    for revision in Revision::ALL {
        check_result(Method::ToolsCall, revision, revision, text, text);
        // Requests of 2026-07-28 say what they are each time.
        let params = match revision.is_modern() {
            true => {
                r#"{ "name": "a" , "_meta":{ "io.modelcontextprotocol/protocolVersion":"2026-07-28" } }"#
            }
            false => r#"{ "name": "a" }"#,
        };
        check_params(
            &outgoing(&Method::ToolsCall, revision, revision),
            params,
            params,
        );
    }
}

#[test]
fn a_2_a_caller_without_mcp_is_introduced_to_a_modern_server() {
    let outgoing = outgoing(&Method::ToolsCall, V2026_07_28, V2026_07_28);
    let params = Params::parse(Bytes::from_static(br#"{"name":"a"}"#), Rules::backend());
    let mut out = Vec::new();
    outgoing.write(&params.expect("params"), &mut out);
    let written: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    for key in [meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES] {
        assert!(
            written["_meta"][key] != serde_json::Value::Null,
            "{written}"
        );
    }
}

#[test]
fn lm_results_lose_what_the_handshake_era_cannot_read() {
    check_result(
        Method::ToolsCall,
        V2026_07_28,
        V2025_11_25,
        r#"{"resultType":"complete","content":[],"structuredContent":[1]}"#,
        r#"{"content":[]}"#,
    );
    check_result(
        Method::ToolsCall,
        V2026_07_28,
        V2025_11_25,
        r#"{"resultType":"complete","content":[],"structuredContent":{"a":1.0}}"#,
        r#"{"content":[],"structuredContent":{"a":1.0}}"#,
    );
    check_result(
        Method::ResourcesRead,
        V2026_07_28,
        V2025_06_18,
        r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public","contents":[]}"#,
        r#"{"contents":[]}"#,
    );
}

#[test]
fn ml_results_gain_what_modern_callers_require() {
    check_result(
        Method::ToolsCall,
        V2025_11_25,
        V2026_07_28,
        r#"{"content":[]}"#,
        r#"{"content":[],"resultType":"complete"}"#,
    );
    check_result(
        Method::ResourcesRead,
        V2025_03_26,
        V2026_07_28,
        r#"{"contents":[]}"#,
        r#"{"contents":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
    );
}

#[test]
fn ll_blocks_newer_than_the_caller_become_text() {
    let both = r#"{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"},{"type":"resource_link","uri":"a://b","name":"n"},{"type":"text","text":"t"}]}"#;
    check_result(
        Method::ToolsCall,
        V2025_11_25,
        V2024_11_05,
        both,
        r#"{"content":[{"type":"text","text":"[audio, audio/wav]"},{"type":"text","text":"[resource] n a://b"},{"type":"text","text":"t"}]}"#,
    );
    check_result(
        Method::ToolsCall,
        V2025_11_25,
        V2025_03_26,
        both,
        r#"{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"},{"type":"text","text":"[resource] n a://b"},{"type":"text","text":"t"}]}"#,
    );
    check_result(Method::ToolsCall, V2025_11_25, V2025_06_18, both, both);
    check_result(
        Method::PromptsGet,
        V2025_11_25,
        V2024_11_05,
        r#"{"messages":[{"role":"user","content":{"type":"resource_link","uri":"a://b","name":"n"}}]}"#,
        r#"{"messages":[{"role":"user","content":{"type":"text","text":"[resource] n a://b"}}]}"#,
    );
}

#[test]
fn c_37_the_backend_receives_its_own_name() {
    let renamed = Outgoing {
        own_name: Some("echo"),
        ..outgoing(&Method::ToolsCall, V2025_11_25, V2025_11_25)
    };
    check_params(
        &renamed,
        r#"{"name":"gamma__echo","arguments":{"x":1.0}}"#,
        r#"{"name":"echo","arguments":{"x":1.0}}"#,
    );
    let completion = Outgoing {
        own_name: Some("p"),
        ..outgoing(&Method::Complete, V2025_11_25, V2025_11_25)
    };
    check_params(
        &completion,
        r#"{"ref":{"type":"ref/prompt","name":"g__p"},"argument":{}}"#,
        r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{}}"#,
    );
}

#[test]
fn c_39_only_the_gateway_asks_a_legacy_server_for_a_task() {
    let wish = r#"{"name":"a","task":{"ttl":1}}"#;
    for from in [V2025_11_25, V2026_07_28] {
        let plain = outgoing(&Method::ToolsCall, from, V2025_11_25);
        check_params(&plain, wish, r#"{"name":"a"}"#);
        let asking = Outgoing {
            task: Some(br#"{"ttl":9}"#),
            ..plain
        };
        check_params(&asking, wish, r#"{"name":"a","task":{"ttl":9}}"#);
        check_params(
            &asking,
            r#"{"name":"a"}"#,
            r#"{"name":"a","task":{"ttl":9}}"#,
        );
    }
}

#[test]
fn lm_params_carry_who_is_calling() {
    let about = About {
        capabilities: br#"{"roots":{}}"#,
        client_info: Some(br#"{"name":"c"}"#),
        log_level: None,
        traceparent: None,
    };
    let stamped = Outgoing {
        about,
        ..outgoing(&Method::ToolsCall, V2025_11_25, V2026_07_28)
    };
    check_params(
        &stamped,
        r#"{"name":"a"}"#,
        r#"{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"c"}}}"#,
    );
}

#[test]
fn ml_params_lose_the_modern_keys_and_keep_the_rest() {
    let plain = outgoing(&Method::ToolsCall, V2026_07_28, V2025_11_25);
    check_params(
        &plain,
        r#"{"name":"a","requestState":"s","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"traceparent":"00-x","progressToken":1}}"#,
        r#"{"name":"a","_meta":{"traceparent":"00-x","progressToken":1}}"#,
    );
    check_params(
        &plain,
        r#"{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
        r#"{"name":"a"}"#,
    );
}

#[test]
fn progress_tokens_toward_a_backend_are_ours() {
    let ours = Outgoing {
        progress_token: Some(b"77"),
        ..outgoing(&Method::ToolsCall, V2025_11_25, V2025_11_25)
    };
    check_params(
        &ours,
        r#"{"name":"a","_meta":{"progressToken":"theirs","x":1}}"#,
        r#"{"name":"a","_meta":{"progressToken":77,"x":1}}"#,
    );
}

#[test]
fn completion_context_is_not_sent_to_servers_that_do_not_know_it() {
    let text = r#"{"ref":{},"context":{"arguments":{}}}"#;
    check_params(
        &outgoing(&Method::Complete, V2025_11_25, V2025_03_26),
        text,
        r#"{"ref":{}}"#,
    );
    check_params(
        &outgoing(&Method::Complete, V2025_11_25, V2025_06_18),
        text,
        text,
    );
}

#[test]
fn c_3_backend_errors_are_mapped_for_modern_callers() {
    let check = |given: &str, to: Revision, want: &str| {
        assert_eq!(String::from_utf8_lossy(&error(&payload(given), to)), want);
    };
    let not_found = r#"{"code":-32002,"message":"no","data":{"uri":"a"}}"#;
    check(not_found, V2025_11_25, not_found);
    check(
        not_found,
        V2026_07_28,
        r#"{"code":-32602,"message":"no","data":{"uri":"a"}}"#,
    );
    let vendor = r#"{"code":-32001,"message":"no"}"#;
    check(vendor, V2025_06_18, vendor);
    check(
        vendor,
        V2026_07_28,
        r#"{"code":-32603,"message":"no","data":{"code":-32001,"message":"no"}}"#,
    );
    check(
        r#"{"code":-32021,"message":"m","data":{}}"#,
        V2025_11_25,
        r#"{"code":-32603,"message":"m","data":{}}"#,
    );
    let own = r#"{"code":5,"message":"m"}"#;
    check(own, V2026_07_28, own);
}

#[test]
fn lm_tools_are_listed_as_older_clients_can_read_them() {
    let check = |given: &'static str, from, to, want: &str| {
        let raw = Bytes::from_static(given.as_bytes());
        assert_eq!(String::from_utf8_lossy(&tool(&raw, from, to)), want);
    };
    check(
        r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":true,"y":false,"z":{}}},"outputSchema":{"type":"array"}}"#,
        V2026_07_28,
        V2025_11_25,
        r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{},"y":{"not":{}},"z":{}}}}"#,
    );
    check(
        r#"{"name":"a","execution":{"taskSupport":"optional"},"_meta":{"v":1}}"#,
        V2025_11_25,
        V2026_07_28,
        r#"{"name":"a","_meta":{"v":1}}"#,
    );
    let same = r#"{"name":"a","execution":{}}"#;
    check(same, V2025_11_25, V2025_06_18, same);
}
