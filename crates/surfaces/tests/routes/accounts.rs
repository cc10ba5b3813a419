//! What a call tells its backend about its caller's credential: the same for every way in, and never another's.

use std::sync::Arc;

use sentinel_core::identity::{self, Authenticator, mint};
use sentinel_surfaces::http::{Access, Mounts, OAuth};
use sentinel_surfaces::{Limits, stdio};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex};

use crate::site::{Answer, Site};

const SECRET: &[u8] = b"a secret of more than thirty-two bytes, for tests";
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

fn token(subject: &str, email: &str, serial: u32) -> String {
    let claims = json!({
        "iss": "https://issuer.example", "aud": "gateway", "sub": subject, "role": "admin",
        "exp": identity::now() + 600, "email": email, "jti": serial,
    });
    let claims: Map<String, Value> = claims.as_object().expect("an object").clone();
    mint::hs256(SECRET, &claims)
}

fn guarded() -> Site {
    let rules = identity::Rules {
        issuer: "https://issuer.example".to_owned(),
        audiences: vec!["gateway".to_owned()],
        role_claim: "role".to_owned(),
        default_role: String::new(),
        tenant_claim: "tenant".to_owned(),
        leeway: 0,
    };
    let authenticator = Authenticator::new(identity::Config {
        secret: Some(SECRET.to_vec()),
        rules,
        api_keys: None,
        anonymous_role: "admin".to_owned(),
        has_key_source: false,
    });
    let access = Access::Guarded {
        authenticator,
        oauth: OAuth::default(),
    };
    Site::with(access, Mounts::default(), Limits::default())
}

fn expected(subject: &str, email: &str, token: &str) -> Value {
    json!({ "subject": subject, "provider": "https://issuer.example", "email": email, "credential": token })
}

fn mcp_headers<'h>(credential: &'h str, further: &[&'h str]) -> Vec<&'h str> {
    let mut all = vec![
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        credential,
    ];
    all.extend(further);
    all
}

fn said(answer: &Answer) -> Value {
    let message = answer.json();
    message["result"]["structuredContent"].clone()
}

const MODERN: [&str; 3] = [
    "MCP-Protocol-Version: 2026-07-28",
    "Mcp-Method: tools/call",
    "Mcp-Name: whoami",
];

async fn modern(site: &Site, credential: &str) -> Value {
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"whoami","arguments":{{}},{META}}}}}"#
    );
    said(
        &site
            .send("POST /mcp", &mcp_headers(credential, &MODERN), &call)
            .await,
    )
}

#[tokio::test]
async fn every_way_in_carries_the_callers_own_account() {
    let site = guarded();
    let token = token("ada", "ada@example.com", 1);
    let credential = format!("Authorization: Bearer {token}");
    let want = expected("ada", "ada@example.com", &token);
    for line in ["GET /whoami", "GET /api/whoami", "POST /api/whoami"] {
        let headers = [&*credential, "Content-Type: application/json"];
        assert_eq!(site.send(line, &headers, "").await.json(), want, "{line}");
    }
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"whoami"}"#;
    let headers = [&*credential, "Content-Type: application/json"];
    let answer = site.send("POST /rpc", &headers, call).await;
    assert_eq!(answer.json()["result"], want);
    assert_eq!(modern(&site, &credential).await, want);
    // Without a credential there is no account, on the same gateway.
    let nobody =
        json!({ "subject": "anonymous", "provider": null, "email": null, "credential": null });
    assert_eq!(site.get("GET /whoami").await.json(), nobody);
    assert_eq!(modern(&site, "X-None: 1").await, nobody);
}

async fn open_session(site: &Site, credential: &str) -> String {
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let answer = site
        .send("POST /mcp", &mcp_headers(credential, &[]), hello)
        .await;
    let id = answer.header("mcp-session-id").expect("a session");
    let session = format!("Mcp-Session-Id: {id}");
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    site.send("POST /mcp", &mcp_headers(credential, &[&session]), ready)
        .await;
    session
}

#[tokio::test]
async fn a_session_goes_on_with_a_new_credential_of_its_caller_and_of_nobody_else() {
    let site = guarded();
    let first = token("ada", "ada@example.com", 1);
    let credential = format!("Authorization: Bearer {first}");
    let session = open_session(&site, &credential).await;
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"whoami","arguments":{}}}"#;
    let by = async |credential: &str| {
        let headers = mcp_headers(credential, &[&session]);
        site.send("POST /mcp", &headers, call).await
    };
    let answer = by(&credential).await;
    assert_eq!(said(&answer), expected("ada", "ada@example.com", &first));
    let second = token("ada", "ada@example.com", 2);
    assert_ne!(first, second);
    let renewed = format!("Authorization: Bearer {second}");
    let answer = by(&renewed).await;
    assert_eq!(said(&answer), expected("ada", "ada@example.com", &second));
    for other in [
        token("bob", "bob@example.com", 3),
        token("ada", "mallory@example.com", 4),
    ] {
        let answer = by(&format!("Authorization: Bearer {other}")).await;
        assert_eq!(answer.status, 404, "{answer:?}");
    }
    assert_eq!(by("X-None: 1").await.status, 404);
}

#[tokio::test]
async fn over_stdio_the_account_is_the_connections() {
    let site = guarded();
    let identity = identity::Identity {
        subject: "ada".into(),
        role: "admin".into(),
        tenant: None,
        scopes: Arc::default(),
        proof: identity::Proof::None,
        account: None,
    };
    let (mut ours, input) = duplex(1 << 16);
    let (answers, output) = duplex(1 << 16);
    let gateway = site.gateway.clone();
    tokio::spawn(stdio::serve(gateway, Arc::new(identity), input, output));
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"whoami","arguments":{{}},{META}}}}}"#
    );
    ours.write_all((call + "\n").as_bytes())
        .await
        .expect("it is sent");
    let mut line = String::new();
    BufReader::new(answers)
        .read_line(&mut line)
        .await
        .expect("a line");
    let answer: Value = serde_json::from_str(&line).expect("JSON");
    let want = json!({ "subject": "ada", "provider": null, "email": null, "credential": null });
    assert_eq!(answer["result"]["structuredContent"], want);
}
