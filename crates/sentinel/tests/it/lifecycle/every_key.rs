//! Every key of a running gateway's file is changed: a reload applies it, or names it in `restart_needed`.
//!
//! The keys come from `sentinel schema`, so a key that this test cannot change fails it. The admin socket is asked, which
//! no change of `[auth]` closes.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Map, Value, json};

use crate::support::callers::{Caller, Modern};
use crate::support::setup::{Gateway, PATIENCE, SECRET, Server, Setup, fixture};
use crate::support::tokens::{Signer, token};

const DIFF: &str = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";

/// A key that is changed: where it stands in the file and in the configuration in force.
struct Key {
    /// `section.key`, or `backends.key`, as it is written here.
    name: String,
    /// Its place in the file.
    pointer: String,
    schema: Value,
}

/// Sends a request to the admin socket, while the gateway is stopped if it has to read a new file: it looks at the file by itself as
/// well, and must not come first.
fn admin(gateway: &Gateway, verb: &str, path: &str, file: Option<&Value>) -> (u16, Value) {
    let socket = gateway.setup.data().join("run");
    let socket = socket.join(format!("{}.sock", gateway.process.pid()));
    if let Some(file) = file {
        gateway.process.signal("STOP");
        gateway
            .setup
            .overwrite(&toml::to_string(file).expect("a file"));
    }
    let mut stream = UnixStream::connect(socket).expect("the admin socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let head = "Host: localhost\r\nConnection: close\r\nContent-Type: application/json";
    let request = format!("{verb} {path} HTTP/1.1\r\n{head}\r\nContent-Length: 2\r\n\r\n{{}}");
    stream.write_all(request.as_bytes()).expect("it is taken");
    gateway.process.signal("CONT");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok());
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let body = serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"));
    (status.expect("a status"), body)
}

fn reload(gateway: &Gateway, file: &Value) -> (u16, Value) {
    admin(gateway, "POST", "/admin/api/reload", Some(file))
}

fn in_force(gateway: &Gateway) -> Value {
    admin(gateway, "GET", "/admin/api/config", None).1
}

fn base(setup: &Setup, address: &str) -> Value {
    let api = json!({"openapi": "3.1.0", "servers": [{"url": "http://127.0.0.1:1"}],
        "paths": {"/a": {"get": {"operationId": "a"}}}});
    let beside = setup.data().with_file_name("api.json");
    std::fs::write(beside, api.to_string()).expect("a file");
    json!({
        "gateway": {"listen": "127.0.0.1:0", "data_dir": setup.data()},
        "auth": {"jwt_secret_env": "JWT_SECRET_KEY"},
        "review": {"enabled": true},
        "listeners": [{"listen": "127.0.0.1:0"}],
        "rbac": {"roles": {"extra": {"permissions": ["tools.read"]}}},
        "backends": [
            {"name": "web", "type": "http", "url": format!("http://{address}/mcp")},
            {"name": "child", "type": "stdio", "command": fixture(), "args": ["stdio"]},
            {"name": "api", "type": "openapi", "spec": "api.json"},
            {"name": "db", "type": "postgres", "url_env": "DATABASE_URL"},
        ],
    })
}

fn resolve<'a>(root: &'a Value, part: &'a Value) -> &'a Value {
    match part["$ref"].as_str() {
        Some(pointer) => root.pointer(&pointer[1..]).expect("it is there"),
        None => part,
    }
}

/// Every key below a table of the schema.
fn walk(root: &Value, part: &Value, name: &str, pointer: &str, found: &mut Vec<Key>) {
    let properties = part["properties"].as_object().cloned();
    for (key, schema) in properties.unwrap_or_default() {
        let inner = resolve(root, &schema);
        let name = format!("{name}{key}");
        let pointer = format!("{pointer}/{key}");
        let roles = resolve(root, &inner["additionalProperties"]);
        if name == "backends" {
            let backend = resolve(root, &inner["items"]);
            backends(root, backend, found);
        } else if let Some(each) =
            Some(resolve(root, &inner["items"])).filter(|each| each["properties"].is_object())
        {
            walk(
                root,
                each,
                &format!("{name}."),
                &format!("{pointer}/0"),
                found,
            );
        } else if inner["properties"].is_object() {
            walk(root, inner, &format!("{name}."), &pointer, found);
        } else if roles["properties"].is_object() {
            let (name, pointer) = (format!("{name}.extra."), format!("{pointer}/extra"));
            walk(root, roles, &name, &pointer, found);
        } else {
            let schema = schema.clone();
            found.push(Key {
                name,
                pointer,
                schema,
            });
        }
    }
}

/// Keys of backends are changed in a backend that has them: the child, the API and the database for their own, the first for the rest.
fn backends(root: &Value, backend: &Value, found: &mut Vec<Key>) {
    for (key, schema) in backend["properties"].as_object().expect("keys") {
        let text = schema["description"].as_str().unwrap_or_default();
        let kinds = text.split_once(": ").map_or("", |(kinds, _)| kinds);
        let index = match kinds {
            "openapi" => 2,
            kinds if kinds.starts_with("postgres") => 3,
            kinds => usize::from(kinds.starts_with("stdio")),
        };
        let one = json!({"properties": Map::from_iter([(key.clone(), schema.clone())])});
        let pointer = format!("/backends/{index}");
        walk(root, &one, "backends.", &pointer, found);
    }
}

/// Another value of a key, valid in the file of `base`.
fn another(key: &Key, root: &Value, now: &Value) -> Value {
    let schema = resolve(root, &key.schema);
    let words = schema["oneOf"].as_array().into_iter().flatten();
    let words = words.map(|word| &word["const"]);
    let words: Vec<&Value> = words
        .chain(schema["enum"].as_array().into_iter().flatten())
        .collect();
    match &*key.name {
        "backends.type" => return json!("stdio"),
        "gateway.listen" => return json!("127.0.0.1:1"),
        "gateway.health_listen" => return json!("127.0.0.1:2"),
        "gateway.log_level" => return json!("debug"),
        "gateway.data_dir" | "sqlite.path" => return json!("elsewhere"),
        "gateway.stdio_role" | "auth.default_role" | "auth.anonymous_role" => {
            return json!("extra");
        }
        "gateway.allowed_hosts" => return json!(["example.com"]),
        "gateway.allowed_origins" => return json!(["https://app.example.com"]),
        "auth.jwt_secret_env" => return json!("OTHER_SECRET"),
        "auth.jwt_issuer" | "auth.jwt_audience" | "auth.role_claim" | "auth.tenant_claim" => {
            return json!("other");
        }
        "auth.jwks" => return json!("keys.json"),
        "auth.resource" => return json!("https://example.com/mcp"),
        "auth.authorization_servers" => return json!(["https://example.com"]),
        "auth.required_scopes" => return json!(["scope"]),
        "auth.stdio_token_env" => return json!("OTHER_SECRET"),
        "postgres.url_env" => return json!("DATABASE_URL"),
        "redis.url_env" => return json!("REDIS_URL"),
        "rate_limits.per_tool" => return json!({"echo": 7}),
        "kill_switch.disabled_tools" | "kill_switch.disabled_callers" => return json!(["x"]),
        "kill_switch.disabled_backends" => return json!(["web"]),
        "admission.on_overload" | "telemetry.otlp_endpoint" => {
            return json!("http://127.0.0.1:1/");
        }
        "rbac.roles.extra.permissions" => return json!(["*"]),
        "rbac.roles.extra.denied_tools" | "rbac.roles.extra.confirm" | "surfaces.confirm" => {
            return json!(["x"]);
        }
        "surfaces.mcp_path" | "surfaces.rest_path" | "surfaces.rpc_path" => return json!("/other"),
        "listeners.listen" => return json!("127.0.0.1:4"),
        "listeners.backend" => return json!("web"),
        "listeners.surfaces" => return json!(["mcp"]),
        "review.listen" => return json!("127.0.0.1:3"),
        "backends.name" => return json!("renamed"),
        "backends.url" => return json!("http://127.0.0.1:1/mcp"),
        "backends.url_env" => return json!("WEB_URL"),
        "backends.headers" | "backends.env" => return json!({"X": "y"}),
        "backends.command" => return json!("cat"),
        "backends.args" => return json!(["stdio", "--name", "other"]),
        "backends.cwd" => return json!("/"),
        "backends.idempotent_tools" | "backends.tools.include" | "backends.tools.exclude" => {
            return json!(["e*"]);
        }
        "backends.spec" => return json!("other.json"),
        "backends.base_url" => return json!("http://127.0.0.1:1/api"),
        "backends.server_variables" => return json!({"a": "b"}),
        "backends.include" | "backends.exclude" => return json!(["GET"]),
        "backends.auth.bearer_env" | "backends.auth.basic_env" | "backends.auth.api_key_env" => {
            return json!("OTHER_SECRET");
        }
        "backends.auth.schemes" => return json!({"a": "OTHER_SECRET"}),
        "backends.schema" | "backends.role" | "backends.provider" => return json!("other"),
        "backends.select" => return json!(["other"]),
        "backends.replicas_env" => return json!("DATABASE_URL"),
        "backends.tools.rename" => return json!({"echo": "other"}),
        _ => {}
    }
    if let Some(word) = words.into_iter().find(|word| **word != *now) {
        return word.clone();
    }
    let now = if now.is_null() {
        &schema["default"]
    } else {
        now
    };
    match schema["type"].as_str() {
        Some("boolean") => json!(!now.as_bool().unwrap_or(false)),
        Some("integer" | "number") => {
            let more = now.as_i64().unwrap_or(0) + 1;
            let max = schema["maximum"].as_f64().unwrap_or(f64::MAX);
            json!(if more as f64 <= max { more } else { more - 2 })
        }
        _ => panic!("no other value of {} is known: name one here", key.name),
    }
}

/// Puts a value into a file, with the tables around it.
fn put(file: &mut Value, pointer: &str, value: Value) {
    let mut at = file;
    for step in pointer[1..].split('/') {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step],
        };
    }
    *at = value;
}

/// Lists of a reload's answer.
fn names(answer: &Value, lists: &[&str]) -> Vec<String> {
    let all = lists
        .iter()
        .flat_map(|list| answer[list].as_array().cloned().unwrap_or_default());
    all.filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

#[test]
fn g_69_every_key_is_applied_by_a_reload_or_named_as_one_that_needs_a_restart() {
    let server = Server::start(&[]);
    let url = format!("http://{}/mcp", server.address);
    let setup = Setup::with_env(
        "",
        &[
            ("OTHER_SECRET", "another secret of tests, 32 bytes"),
            ("DATABASE_URL", "postgres://me@127.0.0.1:1/x"),
            ("REDIS_URL", "redis://127.0.0.1:1"),
            ("WEB_URL", &url),
        ],
    );
    assert_ne!(SECRET, "another secret of tests, 32 bytes");
    let keys = json!({"keys": [Signer::new().jwk("k")]});
    let beside = setup.data().with_file_name("keys.json");
    std::fs::write(beside, keys.to_string()).expect("a file");
    let base = base(&setup, &server.address);
    setup.overwrite(&toml::to_string(&base).expect("a file"));
    let (_, schema, _) = setup.sentinel(&["schema"]);
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    let mut keys = Vec::new();
    walk(&schema, &schema, "", "", &mut keys);
    assert!(keys.len() > 110, "{} keys", keys.len());

    let gateway = Gateway::start_in(setup);
    let before = in_force(&gateway);
    let (mut applied, mut restart) = (0, 0);
    for key in &keys {
        let name = &key.name;
        let now = before.pointer(&key.pointer).cloned().unwrap_or_default();
        let mut file = base.clone();
        put(&mut file, &key.pointer, another(key, &schema, &now));
        let web = file["backends"][0].as_object_mut().expect("a table");
        match name.as_str() {
            "backends.type" => {
                web.remove("url");
                web.insert("command".to_owned(), json!("cat"));
            }
            "backends.url_env" => drop(web.remove("url")),
            _ => {}
        }
        let (status, answer) = reload(&gateway, &file);
        assert_eq!(status, 200, "{name}: {answer}");
        let after = in_force(&gateway);
        let shown = |config: &Value| match name.as_str() {
            // Shown as the URL that it holds.
            "backends.url_env" => config["backends"][0]["url"].clone(),
            _ => config.pointer(&key.pointer).cloned().unwrap_or_default(),
        };
        let needs_restart = names(&answer, &["restart_needed"]);
        if needs_restart.contains(name) {
            assert_eq!(shown(&after), shown(&before), "{name} waits for a restart");
            restart += 1;
        } else {
            assert_ne!(
                shown(&after),
                shown(&before),
                "{name} is in neither: {answer}"
            );
            let section = name.split('.').next().unwrap_or_default();
            let done = names(&answer, &["added", "removed", "replaced", "changed"]);
            let of_it = |done: &String| match section {
                "backends" => !done.contains('.') || done.starts_with("backends."),
                _ => done == section,
            };
            assert!(done.iter().any(of_it), "{name}: {answer}");
            applied += 1;
        }
        let (status, answer) = reload(&gateway, &base);
        assert_eq!(status, 200, "{name}, taken back: {answer}");
        assert_eq!(answer["restart_needed"], json!([]), "{name}, taken back");
        assert_eq!(in_force(&gateway), before, "{name}, taken back");
    }
    println!("{applied} keys applied, {restart} named in restart_needed");
    assert_eq!(applied + restart, keys.len());
}

#[test]
fn issue_17_1_a_reload_enforces_the_sides_of_a_review() {
    let server = Server::start(&[]);
    let setup = Setup::new("");
    let mut file = base(&setup, &server.address);
    // Nobody listens at the database, and the gateway must become ready.
    file["backends"].as_array_mut().expect("a list").pop();
    setup.overwrite(&toml::to_string(&file).expect("a file"));
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    let caller = Modern::new(&gateway, "/mcp").bearing(&token(json!({"role": "admin"})));
    let claimed = || {
        let proposal = json!({"intent": "i", "agent_type": "a", "phase": "1", "diff": DIFF});
        let submitted = caller.call("submit_proposal", proposal);
        let id = &submitted["result"]["structuredContent"]["review_id"];
        assert!(id.is_string(), "{submitted}");
        caller.call(
            "claim_review",
            json!({"review_id": id, "reviewer_id": "other"}),
        )
    };
    assert!(claimed()["result"]["isError"].as_bool() != Some(true));
    file["review"]["enforce_roles"] = json!(true);
    let (status, answer) = reload(&gateway, &file);
    assert_eq!(
        (status, &answer["changed"]),
        (200, &json!(["review"])),
        "{answer}"
    );
    assert_eq!(in_force(&gateway)["review"]["enforce_roles"], true);
    let refused = claimed();
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(refused.to_string().contains("wrong_role"), "{refused}");
}

#[test]
fn issue_17_10_a_gateway_that_cannot_tell_callers_apart_enforces_no_sides() {
    let setup = Setup::new("[review]\nenforce_roles = true\n");
    for command in ["check", "serve"] {
        let (code, out, error) = setup.sentinel(&[command]);
        assert_eq!(code, 2, "{out}{error}");
        assert!(error.contains("`enforce_roles` needs [auth]"), "{error}");
    }
}
