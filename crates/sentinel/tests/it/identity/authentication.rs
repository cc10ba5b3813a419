//! Who callers are: at every route, in every session, on stdio (G-19 to G-21, P-S01, P-S04, P-S07).

use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::callers::{
    Caller, Legacy, MODERN, Modern, introduced, kind_of, notification, request, tool,
};
use crate::support::http::{self, Answer};
use crate::support::setup::{Gateway, Server, Setup, http_backend, measured, stdio_backend, until};
use crate::support::tokens::{JSON_BODY, PING, Signer, claims, ping, ping_as, token};

const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");
const PROBES: [&str; 2] = ["/health", "/ready"];
const METADATA: &str = "/.well-known/oauth-protected-resource";

fn bearer(credential: &str) -> String {
    format!("Bearer {credential}")
}

fn post(gateway: &Gateway, credential: &str, more: &[(&str, &str)], body: &str) -> Answer {
    let authorization = bearer(credential);
    let mut headers = vec![JSON_BODY, ACCEPT, ("Authorization", &authorization)];
    headers.extend(more);
    http::send(&gateway.address, "POST", "/mcp", &headers, body).finish()
}

/// Opens a session and returns its id.
fn session(gateway: &Gateway, credential: &str) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                        "clientInfo": {"name": "it", "version": "1"}});
    let hello = post(
        gateway,
        credential,
        &[],
        &request(&json!(1), "initialize", params),
    );
    assert_eq!(hello.status, 200, "{hello:?}");
    let id = hello.header("mcp-session-id").to_owned();
    let ready = notification("notifications/initialized", json!({}));
    assert_eq!(
        post(gateway, credential, &[("Mcp-Session-Id", &id)], &ready).status,
        202
    );
    id
}

/// `sentinel key …` in the setup of a gateway.
fn key(setup: &Setup, args: &[&str]) -> Output {
    let output = setup.command("key").args(args).output();
    output.expect("the program runs")
}

fn created(setup: &Setup, role: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("it {}", NEXT.fetch_add(1, Ordering::Relaxed));
    let output = key(setup, &["create", &name, "--role", role]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned()
}

fn id_of(key: &str) -> &str {
    key.split('_').nth(1).expect("an id")
}

#[test]
fn p_s01_without_a_credential_only_probes_and_metadata_answer() {
    let backend = stdio_backend("alpha", &[], "");
    let gateway = Gateway::ready(&format!(
        "[auth]\nresource = \"http://127.0.0.1/mcp\"\nauthorization_servers = [\"https://as.example\"]\n{backend}"
    ));
    let mut paths: Vec<String> = [
        "/mcp",
        "/mcp/",
        "/mcp/alpha",
        "/mcp/alpha/",
        "/mcp/nobody",
        "/MCP",
        "//mcp",
        "/mcp//alpha",
        "/./mcp",
        "/mcp/../mcp",
        "/health/../mcp",
        "/ready/../mcp/alpha",
        "/%6dcp",
        "/mcp%2falpha",
        "/mcp/%61lpha",
        "/mcp;a",
        "/mcp?access_token=x",
        "/mcp#x",
        "/mcp%00",
        "/mcp%20",
        "/health/",
        "/health/mcp",
        "/healthz",
        "/Health",
        "/health%2f..%2fmcp",
        "/ready/",
        "/readyz",
        "/api",
        "/api/tools",
        "/api/alpha/echo",
        "/openapi.json",
        "/rpc",
        "/admin",
        "/admin/api/status",
        "/admin/api/audit",
        "/admin/api/audit?limit=1",
        "/admin/api/config",
        "/admin/api/keys",
        "/admin/api/kill",
        "/admin/api/pins",
        "/admin/api/reload",
        "/metrics",
        "/llms.txt",
        "/sse",
        "/messages",
        "/favicon.ico",
        "/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource/other",
        "/.well-known/oauth-protected-resourcex",
        "/.well-known/oauth-protected-resource/../../mcp",
        "/.well-known/../mcp",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.push(format!("http://{}/mcp", gateway.address));
    // Pages that are the same for everybody.
    let pages = [
        "/",
        "/console",
        "/console/",
        "/explorer",
        "/problems",
        "/problems/not_found",
    ];
    let open: Vec<String> = PROBES
        .iter()
        .chain(&pages)
        .map(|p| (*p).to_owned())
        .chain(["", "/mcp", "/mcp/alpha"].map(|below| format!("{METADATA}{below}")))
        .collect();
    let verbs = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW",
    ];
    let initialize = request(
        &json!(1),
        "initialize",
        json!({"protocolVersion": "2025-11-25"}),
    );
    let mut tried = 0;
    for verb in verbs {
        for path in paths.iter().chain(&open) {
            for body in [PING, &initialize, ""] {
                let headers = [JSON_BODY, ACCEPT];
                let answer = http::send(&gateway.address, verb, path, &headers, body).finish();
                let may = open.contains(path) && ["GET", "HEAD"].contains(&verb);
                let good = (200..300).contains(&answer.status);
                assert_eq!(good, may, "{verb} {path}: {answer:?}");
                tried += 1;
            }
        }
    }
    eprintln!("{tried} requests without a credential");
    // With one, all of them is somebody's or nobody's, and MCP is there.
    assert_eq!(ping_as(&gateway, &token(json!({}))).status, 200);
}

#[test]
fn the_metadata_names_the_authorization_server_and_the_challenge_names_the_metadata() {
    let gateway = Gateway::start(
        "[auth]\nresource = \"https://gw.example/mcp/\"\nauthorization_servers = [\"https://as.example\"]\nrequired_scopes = [\"mcp:use\", \"mcp:more\"]\n",
    );
    let document = gateway.get(&format!("{METADATA}/mcp")).json();
    assert_eq!(document["resource"], "https://gw.example/mcp");
    assert_eq!(
        document["authorization_servers"],
        json!(["https://as.example"])
    );
    assert_eq!(document["scopes_supported"], json!(["mcp:use", "mcp:more"]));

    let url = "https://gw.example/.well-known/oauth-protected-resource/mcp";
    let missing = ping(&gateway, &[]);
    assert_eq!((missing.status, missing.code()), (401, -32001));
    assert_eq!(
        missing.header("www-authenticate"),
        format!("Bearer resource_metadata=\"{url}\", scope=\"mcp:use mcp:more\"")
    );
    let modern = ping(&gateway, &[("MCP-Protocol-Version", MODERN)]);
    assert_eq!((modern.status, modern.code()), (401, -31401));

    let narrow = ping_as(&gateway, &token(json!({"scope": "mcp:use"})));
    assert_eq!((narrow.status, narrow.code()), (403, -32001));
    assert_eq!(narrow.json()["error"]["data"]["kind"], "forbidden");
    let challenge = narrow.header("www-authenticate");
    assert!(
        challenge.contains("error=\"insufficient_scope\""),
        "{challenge}"
    );
    assert!(
        challenge.contains("scope=\"mcp:use mcp:more\""),
        "{challenge}"
    );
    // For the resource itself, which is what OAuth clients ask tokens for.
    let wide = token(json!({"scp": ["mcp:use", "mcp:more"], "aud": "https://gw.example/mcp"}));
    assert_eq!(ping_as(&gateway, &wide).status, 200);
}

#[test]
fn g_21_a_session_is_no_credential_and_is_its_owners_own() {
    let gateway = Gateway::start("[auth]\n");
    let alice = token(json!({}));
    let id = session(&gateway, &alice);
    let list = request(&json!(2), "tools/list", json!({}));
    let named = [("Mcp-Session-Id", id.as_str())];
    assert_eq!(post(&gateway, &alice, &named, &list).status, 200);
    // A renewed token of the same caller goes on with it.
    let later = token(json!({"exp": crate::support::tokens::now() + 1200}));
    assert_eq!(post(&gateway, &later, &named, &list).status, 200);
    for other in [
        json!({"sub": "bob"}),
        json!({"role": "viewer"}),
        json!({"tenant_id": "acme"}),
        json!({"scope": "more"}),
    ] {
        let other = token(other);
        assert_eq!(post(&gateway, &other, &named, &list).status, 404);
        for verb in ["GET", "DELETE"] {
            let authorization = bearer(&other);
            let headers = [ACCEPT, named[0], ("Authorization", authorization.as_str())];
            let answer = http::send(&gateway.address, verb, "/mcp", &headers, "").finish();
            assert_eq!(answer.status, 404, "{verb}");
        }
    }
    for verb in ["POST", "GET", "DELETE"] {
        let headers = [JSON_BODY, ACCEPT, named[0]];
        let answer = http::send(&gateway.address, verb, "/mcp", &headers, &list).finish();
        assert_eq!(answer.status, 401, "{verb}");
    }
    assert_eq!(post(&gateway, &alice, &named, &list).status, 200);
}

#[test]
fn an_anonymous_role_is_for_callers_without_credentials_only() {
    let gateway = Gateway::start("[auth]\nanonymous_role = \"admin\"\n");
    assert_eq!(ping(&gateway, &[]).status, 200);
    assert_eq!(ping_as(&gateway, &token(json!({}))).status, 200);
    assert_eq!(ping_as(&gateway, "wrong").status, 401);
    assert_eq!(
        ping(&gateway, &[("Authorization", "Basic YTpi")]).status,
        401
    );
}

#[test]
fn p_s07_a_revoked_key_is_refused_at_once_and_its_stream_ends() {
    measured(stream_ended, |took| *took < Duration::from_secs(1));
}

/// How long a stream outlives its key.
fn stream_ended() -> Duration {
    let gateway = Gateway::start("[auth]\n");
    let (kept, lost) = (
        created(&gateway.setup, "admin"),
        created(&gateway.setup, "admin"),
    );
    let on_disk = std::fs::read_to_string(gateway.setup.data().join("keys.json")).expect("a file");
    for key in [&kept, &lost] {
        assert_eq!(ping_as(&gateway, key).status, 200);
        let secret = key.splitn(3, '_').nth(2).expect("a secret");
        assert!(!on_disk.contains(secret));
    }
    let id = session(&gateway, &lost);
    let authorization = bearer(&lost);
    let headers = [
        ACCEPT,
        ("Mcp-Session-Id", id.as_str()),
        ("Authorization", authorization.as_str()),
    ];
    let mut stream = http::send(&gateway.address, "GET", "/mcp", &headers, "").head();
    assert_eq!(stream.status, 200);
    let output = key(&gateway.setup, &["revoke", id_of(&lost)]);
    assert!(output.status.success(), "{output:?}");
    let revoked = Instant::now();
    assert_eq!(ping_as(&gateway, &lost).status, 401);
    while stream.message().is_some() {}
    let took = revoked.elapsed();
    assert_eq!(ping_as(&gateway, &kept).status, 200);
    let again = key(&gateway.setup, &["revoke", id_of(&lost)]);
    assert_eq!(again.status.code(), Some(1));
    let list = key(&gateway.setup, &["list", "--json"]).stdout;
    let list: Value = serde_json::from_slice(&list).expect("JSON");
    let states: Vec<_> = list["keys"]
        .as_array()
        .expect("keys")
        .iter()
        .map(|k| &k["state"])
        .collect();
    assert_eq!(states, ["good", "revoked"]);
    took
}

#[test]
fn p_s07_the_calls_of_a_revoked_key_end() {
    let took = measured(calls_ended, |took| *took < Duration::from_secs(2));
    println!("P-S07: calls of a revoked key ended after {took:?}");
}

/// How long calls outlive their key.
fn calls_ended() -> Duration {
    let server = Server::start(&[]);
    let backend = http_backend("alpha", &server.address, "");
    let gateway = Gateway::ready(&format!("[auth]\n{backend}"));
    let (kept, lost) = (
        created(&gateway.setup, "admin"),
        created(&gateway.setup, "admin"),
    );
    let watcher = Modern::new(&gateway, "/mcp").bearing(&kept);
    let waiting = || watcher.said("waiting", json!({"name": "b"}));
    let barrier = || tool("barrier", json!({"name": "b"}));
    let new = Modern::new(&gateway, "/mcp").bearing(&lost);
    let (old, left, listening) = (
        Legacy::bearing(&gateway, &lost),
        Legacy::bearing(&gateway, &lost),
        Legacy::bearing(&gateway, &lost),
    );
    let modern = new.send_as(&json!("m7"), "tools/call", barrier());
    let body = request(&json!(7), "tools/call", barrier());
    let stream = listening.verb("GET").head();
    let legacy = [old.send(&body), listening.send(&body)];
    let gone = left.send(&body);
    let others = watcher.send("tools/call", barrier());
    until("all five run", || (waiting() == "5").then_some(()));
    // Its caller is gone; the call of a legacy session goes on all the same.
    gone.hang_up();

    let output = key(&gateway.setup, &["revoke", id_of(&lost)]);
    assert!(output.status.success(), "{output:?}");
    let revoked = Instant::now();
    until("the other caller's is left", || {
        (waiting() == "1").then_some(())
    });
    let took = revoked.elapsed();
    // Decision 7: each in the words of its era, and about its own request.
    let refused = modern.finish();
    let body = refused.json();
    assert_eq!((refused.status, &body["id"]), (401, &json!("m7")), "{body}");
    assert_eq!(body["error"]["code"], -31401, "{body}");
    for refused in legacy.map(|sent| sent.finish()) {
        assert_eq!(refused.status, 401, "{refused:?}");
        let body = refused.json();
        assert_eq!(body["id"], 7, "{body}");
        assert_eq!(body["error"]["code"], -32001, "{body}");
    }
    drop(stream);
    watcher.said("release", json!({"name": "b"}));
    assert_eq!(others.finish().status, 200);
    took
}

/// A server for keys that only its own authority vouches for: python's, with a certificate of openssl's.
struct KeyServer {
    process: std::process::Child,
    port: u16,
}

impl KeyServer {
    fn start(folder: &std::path::Path) -> Self {
        let run = |args: &[&str]| {
            let mut openssl = std::process::Command::new("openssl");
            let done = openssl.args(args).current_dir(folder).output();
            let done = done.expect("openssl is installed");
            assert!(done.status.success(), "{done:?}");
        };
        let new = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ];
        let ca = [
            "req",
            "-x509",
            "-days",
            "2",
            "-subj",
            "/CN=test authority",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
        ];
        run(&[&ca[..], &new].concat());
        let leaf = [
            "req",
            "-x509",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            "leaf.key",
            "-out",
            "leaf.pem",
        ];
        run(&[&leaf[..], &new].concat());
        let program = "import http.server, ssl, sys\n\
            server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n\
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
            context.load_cert_chain('leaf.pem', 'leaf.key')\n\
            server.socket = context.wrap_socket(server.socket, server_side=True)\n\
            print(server.server_address[1], flush=True)\n\
            server.serve_forever()\n";
        let mut process = std::process::Command::new("python3")
            .args(["-c", program])
            .current_dir(folder)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("python starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line)
            .expect("a port");
        let port = line.trim().parse().expect("a number");
        Self { process, port }
    }
}

impl Drop for KeyServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn p_s07_keys_come_over_https_from_a_server_that_is_vouched_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (Signer::new(), Signer::new());
    let publish = |keys: Value| {
        let text = json!({ "keys": keys }).to_string();
        std::fs::write(folder.path().join("set.json"), text).expect("written");
    };
    publish(json!([one.jwk("one")]));
    let server = KeyServer::start(folder.path());
    let config = format!(
        "[auth]\njwks = \"https://localhost:{}/set.json\"\n",
        server.port
    );
    let ca = folder.path().join("ca.pem");
    let ca = ca.to_str().expect("text");
    let signed = |signer: &Signer, kid: &str| {
        let header = json!({"alg": "ES256", "kid": kid});
        signer.token(&header, &claims(json!({})).to_string())
    };
    let gateway = Gateway::start_in(Setup::with_env(&config, &[("SSL_CERT_FILE", ca)]));
    until("the keys are fetched", || {
        (ping_as(&gateway, &signed(&one, "one")).status == 200).then_some(())
    });
    assert_eq!(ping_as(&gateway, &signed(&two, "one")).status, 401);
    // The last good keys stay when the server is gone.
    drop(server);
    assert_eq!(ping_as(&gateway, &signed(&one, "one")).status, 200);

    // Nobody vouches for it here: its keys are not taken.
    publish(json!([two.jwk("two")]));
    let server = KeyServer::start(folder.path());
    let config = format!(
        "[auth]\njwks = \"https://localhost:{}/set.json\"\n",
        server.port
    );
    let other = folder.path().join("other.pem");
    std::fs::write(&other, "").expect("written");
    let other = other.to_str().expect("text");
    let gateway = Gateway::start_in(Setup::with_env(&config, &[("SSL_CERT_FILE", other)]));
    until("the fetch failed", || {
        gateway
            .setup
            .log()
            .contains("cannot be fetched")
            .then_some(())
    });
    assert_eq!(ping_as(&gateway, &signed(&two, "two")).status, 401);
}

#[test]
fn p_s15_without_configuration_it_is_safe_and_says_so() {
    let setup = Setup::new("");
    let run = |config: &str, args: &[&str]| {
        setup.rewrite(config);
        setup.sentinel(args)
    };
    let everywhere = ["serve", "--listen", "0.0.0.0:0"];
    let (code, _, said) = run("", &everywhere);
    assert!(code == 2 && said.contains("[auth]"), "{code} {said}");
    let (code, out, _) = run("", &["doctor"]);
    // The setup of these tests has no rate limit, which is less than no configuration gives.
    assert!(code == 0 && out.contains("default_rpm"), "{code} {out}");
    setup.rewrite("");
    let gateway = Gateway::start_in(setup);
    assert!(
        gateway.address.starts_with("127.0.0.1:"),
        "{}",
        gateway.address
    );
    assert!(
        gateway
            .setup
            .log()
            .contains("every caller that reaches this port has the role admin")
    );
    let status = gateway.get("/admin/api/config").json();
    assert_eq!(status["admission"]["max_concurrent"], 256, "{status}");
    assert!(status["limits"]["body_mb"].as_u64() <= Some(4), "{status}");
}

#[test]
fn p_s03_keys_that_cannot_be_read_are_a_mistake_of_the_configuration() {
    let setup = Setup::new("[auth]\njwks = \"set.json\"\n");
    for command in ["check", "serve"] {
        let (code, _, said) = setup.sentinel(&[command]);
        assert_eq!(code, 2, "{command}: {said}");
        assert!(
            said.contains("set.json cannot be used: No such file"),
            "{said}"
        );
        assert!(said.contains("JSON Web Key Set"), "{said}");
    }
}

#[test]
fn p_s07_keys_are_rotated_without_a_restart() {
    let (old, new) = (Signer::new(), Signer::new());
    let setup = Setup::new("[auth]\njwks = \"set.json\"\n");
    let file = setup.data().with_file_name("set.json");
    let publish = |keys: Value| {
        let fresh = file.with_extension("new");
        std::fs::write(&fresh, json!({"keys": keys}).to_string()).expect("written");
        std::fs::rename(&fresh, &file).expect("moved");
    };
    publish(json!([old.jwk("old")]));
    let gateway = Gateway::start_in(setup);
    let signed = |signer: &Signer, kid: &str| {
        signer.token(
            &json!({"alg": "ES256", "kid": kid}),
            &claims(json!({})).to_string(),
        )
    };
    let (before, after) = (signed(&old, "old"), signed(&new, "new"));
    assert_eq!(ping_as(&gateway, &before).status, 200);
    assert_eq!(ping_as(&gateway, &after).status, 401);
    publish(json!([old.jwk("old"), new.jwk("new")]));
    until("the new key is known", || {
        (ping_as(&gateway, &after).status == 200).then_some(())
    });
    assert_eq!(ping_as(&gateway, &before).status, 200);
    // A file that cannot be used changes nothing, and the log says why and what to do.
    let says = |words: &str| {
        until(words, || gateway.setup.log().contains(words).then_some(()));
        assert_eq!(ping_as(&gateway, &before).status, 200);
    };
    std::fs::write(&file, "").expect("written");
    says("no JSON object with an array `keys`: the keys read before stay good. Publish");
    publish(json!([]));
    says("it holds no keys: the keys read before stay good. Publish");
    std::fs::remove_file(&file).expect("removed");
    says("No such file or directory (os error 2): the keys read before stay good. Publish");
    publish(json!([new.jwk("new")]));
    until("the old key is gone", || {
        (ping_as(&gateway, &before).status == 401).then_some(())
    });
    assert_eq!(ping_as(&gateway, &after).status, 200);
}

#[test]
fn g_37_a_minted_token_is_good_here() {
    let gateway = Gateway::start("[auth]\n");
    let args = ["--role", "admin", "--subject", "alice", "--expires", "2m"];
    let output = gateway
        .setup
        .command("token")
        .args(args)
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    let minted = String::from_utf8(output.stdout).expect("text");
    assert_eq!(ping_as(&gateway, minted.trim()).status, 200);
    // Nobody gets one that is good for nothing.
    for subject in ["", "local", "key:1"] {
        let args = ["token", "--role", "admin", "--subject", subject];
        let (code, out, said) = gateway.setup.sentinel(&args);
        assert_eq!((code, out.as_str()), (2, ""), "{subject}: {said}");
        assert!(said.contains("would refuse such a token"), "{said}");
    }
}

/// P-S04: what callers prove themselves with never reaches a backend.
#[test]
fn p_s04_credentials_never_reach_a_backend() {
    let server = Server::start(&[]);
    let backends = [
        http_backend("web", &server.address, "prefix = \"always\""),
        stdio_backend("child", &[], "prefix = \"always\""),
    ];
    let gateway = Gateway::ready(&format!("[auth]\n{}", backends.concat()));
    let api_key = created(&gateway.setup, "admin");
    for credential in [token(json!({"tenant_id": "acme"})), api_key] {
        let id = session(&gateway, &credential);
        for name in ["web__whoami", "child__whoami"] {
            let extra = [
                ("Cookie", "canary-cookie"),
                ("X-Api-Key", "canary-key"),
                ("Proxy-Authorization", "Basic canary-proxy"),
                ("X-User-Id", "canary-user"),
                ("X-Tenant-Id", "canary-tenant"),
            ];
            let legacy = request(&json!(5), "tools/call", tool(name, json!({})));
            let named: Vec<_> = extra
                .into_iter()
                .chain([("Mcp-Session-Id", id.as_str())])
                .collect();
            let modern = introduced(tool(name, json!({})), &json!({}));
            let modern = request(&json!(6), "tools/call", modern);
            let said: Vec<_> = extra
                .into_iter()
                .chain([
                    ("MCP-Protocol-Version", MODERN),
                    ("Mcp-Method", "tools/call"),
                    ("Mcp-Name", name),
                ])
                .collect();
            for answer in [
                post(&gateway, &credential, &named, &legacy),
                post(&gateway, &credential, &said, &modern),
            ] {
                assert!(answer.text.contains("pid"), "it answered: {answer:?}");
                assert!(!answer.text.contains("canary"), "{answer:?}");
                let parts = credential.split(['.', '_']).filter(|part| part.len() > 20);
                for part in parts {
                    assert!(!answer.text.contains(part), "{answer:?}");
                }
            }
        }
    }
    assert!(!gateway.setup.log().contains("canary"));
}

fn stdio_with(setup: &Setup, token: &str) -> Output {
    let mut process = setup
        .command("stdio")
        .env("STDIO_TOKEN", token)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = process.stdin.take().expect("a pipe");
    // It may be gone already.
    let _ = std::io::Write::write_all(&mut input, format!("{PING}\n").as_bytes());
    drop(input);
    process.wait_with_output().expect("it ends")
}

#[test]
fn c_6_a_stdio_token_is_checked_once_at_the_start() {
    let setup = Setup::new("[auth]\nstdio_token_env = \"STDIO_TOKEN\"\n");
    let good = stdio_with(&setup, &token(json!({})));
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    assert!(String::from_utf8_lossy(&good.stdout).contains("\"result\":{}"));
    let bad = stdio_with(&setup, &token(json!({"exp": 1})));
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
    assert!(bad.stdout.is_empty());
    let said = String::from_utf8_lossy(&bad.stderr);
    assert!(
        said.contains("STDIO_TOKEN is not accepted: the token is expired"),
        "{said}"
    );
}

#[test]
fn p_s15_beyond_loopback_callers_are_asked() {
    let setup = Setup::new("[auth]\n");
    let mut process = setup
        .command("serve")
        .args(["--listen", "0.0.0.0:0"])
        .stdout(Stdio::null())
        .stderr(setup.log_file())
        .spawn()
        .expect("the program starts");
    let listening = until("it listens or ends", || {
        let log = setup.log();
        let ended = process.try_wait().expect("our child").is_some();
        (ended || log.contains("0.0.0.0:")).then_some(!ended)
    });
    let _ = process.kill();
    let _ = process.wait();
    assert!(listening, "{}", setup.log());
    // Nobody who is not asked may be reached from the network.
    let setup = Setup::new("");
    let refused = setup
        .command("serve")
        .args(["--listen", "0.0.0.0:0"])
        .output();
    assert_eq!(refused.expect("it runs").status.code(), Some(2));
}

/// A caller with an API key is switched off by whatever people call it.
#[test]
fn p_s06_a_caller_is_killed_by_the_name_the_id_or_the_subject_of_its_key() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&format!(
        "[auth]\n{}",
        http_backend("alpha", &server.address, "")
    ));
    let setup = &gateway.setup;
    let output = key(setup, &["create", "ci", "--role", "admin"]);
    let ours = String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned();
    let other = created(setup, "admin");
    let says = |key: &str| {
        let caller = Modern::new(&gateway, "/mcp").bearing(key);
        kind_of(&caller.call("echo", json!({"text": "x"}))).to_owned()
    };
    let id = id_of(&ours).to_owned();
    for name in ["ci", &id, &format!("key:{id}")] {
        let (code, _, err) = setup.sentinel(&["kill", "caller", name, "--reason", "lost"]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(
            (says(&ours), says(&other)),
            ("disabled".into(), String::new()),
            "{name}"
        );
        let (code, _, err) = setup.sentinel(&["revive", "caller", name]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(says(&ours), "", "{name}");
    }
    // Without a gateway the file says the same.
    let Gateway {
        mut process, setup, ..
    } = gateway;
    process.signal("TERM");
    process.wait();
    assert_eq!(setup.sentinel(&["kill", "caller", "ci"]).0, 0);
    let (_, off, _) = setup.sentinel(&["kill"]);
    assert!(off.contains(&format!("key:{id}")), "{off}");
    assert_eq!(setup.sentinel(&["revive", "caller", "ci"]).0, 0);
    let (_, off, _) = setup.sentinel(&["kill"]);
    assert!(!off.contains("caller"), "{off}");
}

#[test]
fn a_key_has_a_name_that_no_other_good_key_has() {
    let setup = Setup::new("[auth]\n");
    let create = |name: &str| key(&setup, &["create", name, "--role", "admin"]);
    for name in ["", "  ", "a\nb", "key:1"] {
        assert_eq!(create(name).status.code(), Some(1), "{name:?}");
    }
    let first = create("ci");
    assert!(first.status.success());
    let again = create("ci");
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        again.status.code() == Some(1) && said.contains("already"),
        "{said}"
    );
    let text = String::from_utf8(first.stdout).expect("text");
    assert_eq!(
        create(id_of(&text)).status.code(),
        Some(1),
        "nor another's id"
    );
    assert!(key(&setup, &["revoke", id_of(&text)]).status.success());
    assert!(create("ci").status.success(), "its name is free again");
}

/// C-5: a secret that can be guessed is a mistake, not a warning.
#[test]
fn g_60_a_short_secret_is_refused_by_check_and_at_the_start() {
    let config = "[auth]\njwt_secret_env = \"SHORT\"\n";
    for (secret, code) in [
        ("abc", 2),
        ("thirty-one bytes are not enough", 2),
        (crate::support::setup::SECRET, 0),
    ] {
        let setup = Setup::with_env(config, &[("SHORT", secret)]);
        let (checked, _, said) = setup.sentinel(&["check"]);
        assert_eq!(checked, code, "{said}");
        assert!(!said.contains(secret));
        if code == 2 {
            assert!(
                said.contains("at least 32 bytes") && said.contains("SHORT"),
                "{said}"
            );
            let served = setup.command("serve").output().expect("the program runs");
            assert_eq!(served.status.code(), Some(2), "{served:?}");
        }
    }
}
