//! P-S04: nothing secret gets out. Canaries stand where secrets stand, and everything that the gateway writes,
//! says or hands on is searched for them, plain and in the encodings in which things leave.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

use crate::support::callers::{MODERN, introduced, request, tool};
use crate::support::http;
use crate::support::processes;
use crate::support::setup::{Gateway, SECRET, Server, Setup, http_backend, stdio_backend, until};
use crate::support::tokens::{JSON_BODY, token};

/// Keys under which arguments are secrets, whatever their case and separators.
const SECRET_KEYS: [&str; 16] = [
    "password",
    "Passwd",
    "passphrase",
    "secret",
    "client_secret",
    "token",
    "access-token",
    "apiKey",
    "api_key",
    "Authorization",
    "credential",
    "cookie",
    "private_key",
    "access_key",
    "sessionId",
    "signature",
];
/// Arguments of a prompt that are secrets.
const PROMPT_KEYS: [&str; 4] = ["password", "token", "api_key", "secret"];
/// Headers that are a caller's own business.
const HEADERS: [&str; 10] = [
    "Cookie",
    "X-Api-Key",
    "Proxy-Authorization",
    "X-Auth-Token",
    "X-User-Id",
    "X-Forwarded-User",
    "X-Csrf-Token",
    "X-Amz-Security-Token",
    "X-Vault-Token",
    "X-Goog-Api-Key",
];

fn canary(name: &str) -> String {
    format!("canary+{name}/7f3a~91")
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// A secret as it might leave.
fn forms(secret: &str) -> Vec<String> {
    let percent = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    // Without what a longer text before or after would change.
    let inner =
        |text: String| text.trim_end_matches('=')[..text.len().saturating_sub(4)].to_owned();
    vec![
        secret.to_owned(),
        secret.bytes().map(percent).collect(),
        secret.replace('/', "\\/"),
        hex(secret),
        hex(secret).to_uppercase(),
        inner(STANDARD.encode(secret)),
        inner(URL_SAFE_NO_PAD.encode(secret)),
    ]
}

/// Everything below a folder, file by file.
fn files(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if let Ok(bytes) = std::fs::read(&path) {
            found.insert(path.display().to_string(), text_of(&bytes));
        }
    }
}

/// What is text in it stays as it is.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn p_s04_no_canary_is_found_in_any_sink() {
    let server = Server::start(&[]);
    let web = http_backend(
        "web",
        &server.address,
        "prefix = \"always\"\nheaders = { X-Upstream_ENV = \"WEB_KEY\" }",
    );
    let child = stdio_backend(
        "child",
        &[],
        "prefix = \"always\"\nenv = { OWN_KEY_ENV = \"CHILD_KEY\" }",
    );
    let other = stdio_backend("other", &[], "prefix = \"always\"");
    // Nobody is there: whoever complains about it has its address in hand.
    let dead = "[[backends]]\nname = \"dead\"\ntype = \"http\"\nurl_env = \"DEAD_URL\"\n";
    let config = format!("[auth]\n[audit]\narguments = \"redacted\"\n{web}{child}{other}{dead}");
    let mut env: Vec<(&str, String)> = ["WEB_KEY", "CHILD_KEY", "HEALTH_TOKEN", "UNRELATED_KEY"]
        .map(|name| (name, canary(name)))
        .to_vec();
    let plain = canary("DEAD_URL").replace(['+', '~'], "-");
    env.push(("DEAD_URL", format!("http://127.0.0.1:1/mcp?key={plain}")));
    let env: Vec<(&str, &str)> = env.iter().map(|(n, value)| (*n, value.as_str())).collect();
    let setup = Setup::with_env(&config, &env);
    let file = setup.data().with_file_name("sentinel.toml");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, text.replace("\"info\"", "\"trace\"")).expect("written");
    let (_, api_key, _) = setup.sentinel(&["key", "create", "ci", "--role", "admin"]);
    let api_key = api_key.trim().to_owned();
    let (_, revoked, _) = setup.sentinel(&["key", "create", "old", "--role", "admin"]);
    let revoked = revoked.trim().to_owned();
    let id = revoked.split('_').nth(1).expect("an id");
    setup.sentinel(&["key", "revoke", id]);
    let gateway = Gateway::start_in(setup);
    until("those that can be are ready", || {
        let ready = gateway.get("/ready").json();
        let up = |name: &str| ready["backends"][name] == "up";
        ["web", "child", "other"].into_iter().all(up).then_some(())
    });

    // What else a token says about its bearer is nobody's business either.
    let bearer = token(json!({"sub": "alice", "email": canary("claim")}));
    let expired = token(json!({"sub": "alice", "exp": 1_000_000_000}));
    let forged = format!(
        "{}x{}",
        &bearer[..bearer.len() - 9],
        &bearer[bearer.len() - 8..]
    );
    let mut arguments = json!({"list": [{"deep": {}}], "note": canary("no-secret")});
    for key in SECRET_KEYS {
        arguments[key] = canary(key).into();
        arguments["list"][0]["deep"][key] = json!({"x": canary(&format!("deep-{key}"))});
    }
    let headers: Vec<(&str, String)> = HEADERS.map(|name| (name, canary(name))).to_vec();
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    let credentials = [
        &bearer,
        &api_key,
        &forged,
        &canary("basic"),
        &expired,
        &revoked,
    ];
    for (n, credential) in credentials.into_iter().enumerate() {
        for name in ["web__whoami", "child__whoami", "other__whoami", "no_such"] {
            let bearer = format!("Bearer {credential}");
            let mut all = vec![
                JSON_BODY,
                ("Accept", "application/json, text/event-stream"),
                ("Authorization", bearer.as_str()),
                ("MCP-Protocol-Version", MODERN),
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", name),
            ];
            all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
            let params = introduced(tool(name, arguments.clone()), &json!({}));
            let body = request(&json!(n), "tools/call", params);
            let path = format!("/mcp?access_token={}", canary("query"));
            let answer = http::send(&gateway.address, "POST", &path, &all, body).finish();
            said.insert(format!("answer {n} {name}"), answer.text);
            let broken = http::send(
                &gateway.address,
                "POST",
                &path,
                &all,
                format!("{{{credential}"),
            )
            .finish();
            said.insert(format!("refusal {n} {name}"), broken.text);
        }
    }
    let admin = format!("Bearer {bearer}");
    let mut arguments = json!({"who": "x"});
    for key in PROMPT_KEYS {
        arguments[key] = canary(&format!("prompt-{key}")).into();
    }
    let prompted = [
        JSON_BODY,
        ("Accept", "application/json, text/event-stream"),
        ("Authorization", admin.as_str()),
        ("MCP-Protocol-Version", MODERN),
        ("Mcp-Method", "prompts/get"),
        ("Mcp-Name", "web__greet"),
    ];
    let params = introduced(
        json!({"name": "web__greet", "arguments": arguments}),
        &json!({}),
    );
    let body = request(&json!("p"), "prompts/get", params);
    let answer = http::send(&gateway.address, "POST", "/mcp", &prompted, body).finish();
    assert_eq!(answer.status, 200, "{answer:?}");
    said.insert("answer to a prompt".to_owned(), answer.text);
    let get = |path: &str| {
        let headers = [("Authorization", admin.as_str())];
        http::send(&gateway.address, "GET", path, &headers, "").finish()
    };
    until("the records are in the store", || {
        let found = get("/admin/api/audit?tool=no_such&limit=10").json();
        (found["records"].as_array().map_or(0, Vec::len) >= 2).then_some(())
    });
    for what in [
        "status",
        "backends",
        "catalog",
        "audit?limit=1000",
        "config",
        "keys",
        "pins",
    ] {
        let answer = get(&format!("/admin/api/{what}"));
        assert_eq!(answer.status, 200, "{what}");
        said.insert(what.to_owned(), answer.text);
    }
    let scrape = format!("Bearer {}", canary("HEALTH_TOKEN"));
    let path = format!("/metrics?token={}", canary("scrape-query"));
    let scraped = [("Authorization", scrape.as_str())];
    let metrics = http::send(&gateway.address, "GET", &path, &scraped, "").finish();
    assert_eq!(metrics.status, 200);
    said.insert("/metrics".to_owned(), metrics.text);
    let path = format!("/admin/api/status?key={}", canary("admin-query"));
    said.insert("a status with a query".to_owned(), get(&path).text);
    for command in [
        &["check"][..],
        &["doctor"],
        &["audit", "export"],
        &["tools"],
        &["key", "list"],
    ] {
        let (_, out, err) = gateway.setup.sentinel(command);
        said.insert(command.join(" "), format!("{out}{err}"));
    }
    // What runs below is told no more than is configured for it.
    let pid = gateway.process.pid();
    for pid in processes::below(pid) {
        for part in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{pid}/{part}")).unwrap_or_default();
            let text = text_of(&bytes);
            let whose = if text.contains("OWN_KEY=") {
                ", the child"
            } else {
                ""
            };
            said.insert(format!("{part} of {pid}{whose}"), text);
        }
    }
    files(&gateway.setup.data(), &mut said);
    said.insert("log".to_owned(), gateway.setup.log());
    // The search finds what is there: an argument that is no secret, a call that reached its server.
    assert!(said["audit export"].contains(&canary("no-secret")));
    for name in ["web", "child", "other"] {
        let answer = &said[&format!("answer 0 {name}__whoami")];
        assert!(answer.contains("pid"), "{answer}");
    }
    let level = r#""log_level":"trace""#;
    assert!(said["config"].contains(level), "it logs all it can");
    assert!(
        said.keys().any(|name| name.ends_with("sentinel.db")),
        "{:?}",
        said.keys()
    );

    let mut secrets: Vec<String> = vec![SECRET.to_owned(), api_key.clone(), revoked.clone(), plain];
    // Of a token its signature is what opens doors.
    secrets.extend(
        [&bearer, &forged, &expired]
            .map(|token| token.rsplit('.').next().unwrap_or_default().to_owned()),
    );
    secrets.extend(["WEB_KEY", "CHILD_KEY", "HEALTH_TOKEN", "UNRELATED_KEY"].map(canary));
    secrets.extend(["basic", "query", "claim", "scrape-query", "admin-query"].map(canary));
    secrets.extend(PROMPT_KEYS.map(|key| canary(&format!("prompt-{key}"))));
    secrets.extend(HEADERS.map(canary));
    secrets.extend(SECRET_KEYS.map(canary));
    secrets.extend(SECRET_KEYS.map(|key| canary(&format!("deep-{key}"))));
    let mut hits: Vec<String> = Vec::new();
    for secret in &secrets {
        for form in forms(secret) {
            for (sink, text) in &said {
                // The child has its own key, and `whoami` shows a server the headers that it was sent.
                let own = (*secret == canary("CHILD_KEY") && sink.ends_with(", the child"))
                    || (*secret == canary("WEB_KEY")
                        && sink.starts_with("answer")
                        && sink.ends_with("web__whoami"));
                if !own && text.contains(&form) {
                    hits.push(format!("{secret} as {form} in {sink}"));
                }
            }
        }
    }
    println!(
        "P-S04: {} canaries in {} forms, {} sinks of {} bytes: {} hits",
        secrets.len(),
        forms("x").len(),
        said.len(),
        said.values().map(String::len).sum::<usize>(),
        hits.len()
    );
    assert_eq!(hits, Vec::<String>::new());
    let different: std::collections::BTreeSet<_> = secrets.iter().collect();
    assert!(different.len() >= 60, "{}", different.len());
}
