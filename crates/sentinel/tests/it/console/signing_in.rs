//! The way to the console, and the cookie that stands for a credential (C-35, P-S11).

use std::process::Output;

use serde_json::{Value, json};

use crate::support::http::{self, Answer};
use crate::support::setup::{Gateway, Setup, stdio_backend};
use crate::support::tokens::JSON_BODY;

const PAGE: (&str, &str) = ("X-Sentinel-Console", "1");

const ROLES: &str = "[auth]\n[rbac.roles.viewer]\npermissions = [\"tools.read\"]\n";

fn key(setup: &Setup, args: &[&str]) -> Output {
    let output = setup.command("key").args(args).output();
    output.expect("the program runs")
}

fn created(setup: &Setup, name: &str, role: &str) -> String {
    let output = key(setup, &["create", name, "--role", role]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.trim().to_owned()
}

fn send(
    gateway: &Gateway,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Answer {
    let mut all = vec![JSON_BODY];
    all.extend(headers);
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    http::send(&gateway.address, method, path, &all, body).finish()
}

/// Signs in; returns the cookie as a browser sends it again.
fn sign_in(gateway: &Gateway, credential: &str) -> (Answer, String) {
    let body = json!({ "credential": credential });
    let answer = send(gateway, "POST", "/console/api/session", &[PAGE], &body);
    let set = answer.header("set-cookie").to_owned();
    let cookie = set.split(';').next().expect("a first part").to_owned();
    (answer, cookie)
}

fn session(gateway: &Gateway, cookie: &str) -> Value {
    let headers = [PAGE, ("Cookie", cookie)];
    send(
        gateway,
        "GET",
        "/console/api/session",
        &headers,
        &Value::Null,
    )
    .json()
}

/// C-35: one address for people and for programs.
#[test]
fn c_35_a_browser_is_sent_to_the_console_and_a_program_gets_the_paths() {
    let gateway = Gateway::ready(&stdio_backend("alpha", &[], ""));
    let get =
        |path: &str, accept: &str| send(&gateway, "GET", path, &[("Accept", accept)], &Value::Null);
    let html = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";
    let browser = get("/", html);
    assert_eq!(
        (browser.status, browser.header("location")),
        (303, "/console/")
    );
    let index = get("/", "*/*");
    assert_eq!(index.status, 200);
    let paths = &index.json()["paths"];
    for (name, path) in [
        ("mcp", "/mcp"),
        ("rest", "/api"),
        ("rpc", "/rpc"),
        ("console", "/console/"),
    ] {
        assert_eq!(paths[name], path);
    }
    assert_eq!(
        get("/mcp-inspector", html).header("location"),
        "/console/catalog"
    );
    for path in [
        "/console",
        "/console/",
        "/console/traffic",
        "/console/catalog/tools/x",
    ] {
        // Its text is compressed where the console was built.
        let page = send(&gateway, "HEAD", path, &[("Accept", html)], &Value::Null);
        assert_eq!(page.status, 200, "{path}");
        assert!(
            page.header("content-type").starts_with("text/html"),
            "{path}"
        );
        let policy = page.header("content-security-policy");
        assert!(policy.contains("script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    }
    assert_eq!(get("/console/assets/gone.js", "*/*").status, 404);
    let local = session(&gateway, "");
    assert_eq!(
        (&local["guarded"], &local["caller"]["is_admin"]),
        (&json!(false), &json!(true))
    );
    let (refused, _) = sign_in(&gateway, "anything");
    assert_eq!(refused.status, 400, "there is nobody to be: {refused:?}");
}

/// P-S11: the cookie is the credential's, no more and no longer, and only the page's own requests carry it.
#[test]
fn p_s11_a_signed_in_browser_has_the_rights_of_its_credential_while_that_is_good() {
    let gateway = Gateway::ready(&format!("{ROLES}{}", stdio_backend("alpha", &[], "")));
    let admin = created(&gateway.setup, "ada", "admin");
    let viewer = created(&gateway.setup, "vera", "viewer");
    assert_eq!(session(&gateway, "")["caller"], Value::Null);
    for wrong in ["nonsense", "", &admin[..admin.len() - 1]] {
        let (refused, _) = sign_in(&gateway, wrong);
        assert_eq!(refused.status, 401, "{refused:?}");
        assert_eq!(refused.header("set-cookie"), "");
    }
    let (answer, ada) = sign_in(&gateway, &admin);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["caller"]["is_admin"], true);
    let cookie = answer.header("set-cookie");
    assert!(
        cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"),
        "{cookie}"
    );
    assert!(
        !cookie.contains(&admin),
        "the credential stays at the gateway"
    );
    let (_, vera) = sign_in(&gateway, &viewer);

    let status = |headers: &[(&str, &str)]| {
        send(&gateway, "GET", "/admin/api/status", headers, &Value::Null).status
    };
    assert_eq!(status(&[PAGE, ("Cookie", &ada)]), 200);
    assert_eq!(status(&[PAGE, ("Cookie", &vera)]), 403);
    let kill = json!({ "scope": "tool", "name": "echo" });
    let as_viewer = send(
        &gateway,
        "POST",
        "/admin/api/kill",
        &[PAGE, ("Cookie", &vera)],
        &kill,
    );
    assert_eq!(as_viewer.status, 403, "{as_viewer:?}");
    let listed = send(
        &gateway,
        "GET",
        "/api/catalog",
        &[PAGE, ("Cookie", &vera)],
        &Value::Null,
    );
    assert_eq!(listed.status, 200, "a viewer sees what it may: {listed:?}");

    // What another page could make a browser send.
    assert_eq!(status(&[("Cookie", &ada)]), 401);
    assert_eq!(
        status(&[PAGE, ("Cookie", &ada), ("Origin", "http://127.0.0.1:1")]),
        401
    );
    assert_eq!(
        status(&[PAGE, ("Cookie", &ada), ("Sec-Fetch-Site", "same-site")]),
        401
    );
    let no_header = send(
        &gateway,
        "POST",
        "/console/api/session",
        &[],
        &json!({ "credential": admin }),
    );
    assert_eq!(no_header.status, 403, "{no_header:?}");

    let out = send(
        &gateway,
        "DELETE",
        "/console/api/session",
        &[PAGE, ("Cookie", &vera)],
        &Value::Null,
    );
    assert!(out.header("set-cookie").contains("Max-Age=0"), "{out:?}");
    assert_eq!(session(&gateway, &vera)["caller"], Value::Null);

    let id = admin.split('_').nth(1).expect("an id");
    assert!(key(&gateway.setup, &["revoke", id]).status.success());
    assert_eq!(
        status(&[PAGE, ("Cookie", &ada)]),
        401,
        "its key was revoked"
    );
    assert_eq!(session(&gateway, &ada)["caller"], Value::Null);
}
