//! The pages that people see: what problems mean, and the explorer.

use std::collections::BTreeSet;

use serde_json::json;

use super::documents::{get, guarded};
use crate::support::http;
use crate::support::setup::Gateway;
use crate::support::tokens::JSON_BODY;

#[test]
fn c_18_every_code_of_a_problem_leads_to_its_page() {
    let gateway = Gateway::ready("");
    let all = get(&gateway, "/problems", &[("Accept", "application/json")]).json();
    let all = all["problems"].as_array().expect("a list").clone();
    assert!(all.len() > 40);
    for problem in &all {
        let page = problem["type"].as_str().expect("a path");
        let code = problem["code"].as_str().expect("a code");
        let (title, hint) = (
            problem["title"].as_str().expect("a title"),
            problem["hint"].as_str().expect("a hint"),
        );
        let json = get(&gateway, page, &[("Accept", "application/json")]);
        assert_eq!(json.json(), *problem);
        let markdown = get(&gateway, page, &[]);
        assert!(markdown.header("content-type").starts_with("text/markdown"));
        assert!(
            markdown.text.starts_with(&format!("# `{code}`: {title}\n"))
                && markdown.text.contains(hint),
            "{code}"
        );
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let html = get(&gateway, page, &[("Accept", browser)]);
        assert!(html.header("content-type").starts_with("text/html"));
        assert!(
            html.text.contains("<h1>") && html.text.contains(code),
            "{code}"
        );
        assert!(
            html.header("content-security-policy")
                .contains("default-src 'none'")
        );
    }
    let refused = http::send(&gateway.address, "POST", "/api/nothing", &[JSON_BODY], "{}").finish();
    let page = refused.json()["type"].as_str().expect("a path").to_owned();
    assert!(all.iter().any(|problem| problem["type"] == *page), "{page}");
    assert_eq!(get(&gateway, "/problems/no_such_code", &[]).status, 404);
    assert_eq!(
        get(&gateway, "/problems", &[("Accept", "image/png")]).status,
        406
    );
}

#[test]
fn a_3_the_explorer_comes_out_of_the_binary_under_a_strict_policy() {
    let gateway = guarded(&[]);
    let page = get(&gateway, "/explorer", &[]);
    assert_eq!(page.status, 200);
    assert!(!page.text.contains("http://") && !page.text.contains("https://"));
    assert!(!page.text.contains("<script>") && !page.text.contains(" style="));
    let links = page
        .text
        .split(['"'])
        .filter(|part| part.starts_with("/explorer/"));
    let links: BTreeSet<&str> = links
        .chain(["/explorer", "/explorer/settings.json"])
        .collect();
    assert!(links.len() >= 7, "{links:?}");
    for link in links {
        let head = http::send(
            &gateway.address,
            "GET",
            link,
            &[("Accept-Encoding", "gzip")],
            "",
        )
        .head();
        let of = |name: &str| {
            let found = head
                .headers
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        assert_eq!(head.status, 200, "{link}");
        let policy = of("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && policy.contains("script-src 'self';"),
            "{link} {policy}"
        );
        assert!(
            policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"),
            "{link} {policy}"
        );
        assert_eq!(of("x-content-type-options"), "nosniff", "{link}");
        assert_eq!(of("referrer-policy"), "no-referrer", "{link}");
    }
    let settings = get(&gateway, "/explorer/settings.json", &[]).json();
    assert_eq!(settings, json!({ "guarded": true }));
    let identity_only = [("Accept-Encoding", "identity")];
    assert_eq!(
        get(&gateway, "/explorer/swagger-ui.css", &identity_only).status,
        406
    );
    assert_eq!(get(&gateway, "/explorer/../Cargo.toml", &[]).status, 404);
}
