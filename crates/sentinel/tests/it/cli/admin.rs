//! The admin API over HTTP (decision 38): what each part says, who may ask, and what it never shows.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Modern, kind_of};
use crate::support::http::{self, Answer};
use crate::support::postgres::Cluster;
use crate::support::setup::{Gateway, Server, Setup, http_backend, until};
use crate::support::tokens::{JSON_BODY, token};

const ROLES: &str = "[auth]\n[rbac.roles.reader]\npermissions = [\"tool:echo\"]\n\
    [rbac.roles.keeper]\npermissions = [\"admin\"]\n";
const GETS: [&str; 9] = [
    "status",
    "backends",
    "catalog",
    "audit",
    "config",
    "keys",
    "pins",
    "history",
    "usage?by=caller",
];
const POSTS: [&str; 7] = [
    "kill",
    "revive",
    "reload",
    "pins",
    "keys",
    "keys/revoke",
    "audit/verify",
];

/// Asks as somebody with this role, or as nobody.
fn ask(gateway: &Gateway, verb: &str, what: &str, role: Option<&str>, body: &str) -> Answer {
    let bearer = role.map(|role| format!("Bearer {}", token(json!({"role": role, "sub": role}))));
    let mut headers = vec![JSON_BODY];
    headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
    let path = format!("/admin/api/{what}");
    http::send(&gateway.address, verb, &path, &headers, body).finish()
}

fn get(gateway: &Gateway, what: &str) -> Value {
    let answer = ask(gateway, "GET", what, Some("keeper"), "");
    assert_eq!(answer.status, 200, "{what}: {answer:?}");
    answer.json()
}

#[test]
fn decision_38_every_part_is_for_roles_with_admin_and_for_nobody_else() {
    let server = Server::start(&[]);
    let alpha = http_backend("alpha", &server.address, "");
    let gateway = Gateway::ready(&format!("{ROLES}{alpha}"));
    for what in GETS {
        assert_eq!(ask(&gateway, "GET", what, None, "").status, 401, "{what}");
        let refused = ask(&gateway, "GET", what, Some("reader"), "");
        assert_eq!(refused.status, 403, "{what}");
        assert_eq!(refused.json()["kind"], "forbidden");
        assert_eq!(refused.header("content-type"), "application/problem+json");
        assert!(!get(&gateway, what).is_null(), "{what}");
        let wrong = ask(&gateway, "DELETE", what, Some("keeper"), "");
        assert_eq!(wrong.status, 405, "{what}");
        assert!(wrong.header("allow").starts_with("GET"), "{what}");
    }
    for what in POSTS {
        let body = r#"{"scope":"all","backend":"alpha"}"#;
        assert_eq!(ask(&gateway, "POST", what, None, body).status, 401);
        let refused = ask(&gateway, "POST", what, Some("reader"), body);
        assert_eq!(refused.status, 403, "{what}");
    }
    assert_eq!(get(&gateway, "status")["killed"], json!([]));
    // A role that governs may not call.
    let keeper = token(json!({"role": "keeper"}));
    let caller = Modern::new(&gateway, "/mcp").bearing(&keeper);
    assert_eq!(kind_of(&caller.call("echo", json!({}))), "unknown_name");
}

/// A form of another page carries no such type (and no such token); nothing else makes us reload.
#[test]
fn decision_38_reload_says_every_mistake_as_a_problem() {
    let gateway = Gateway::start(ROLES);
    let wrong = format!("{ROLES}[limits]\nbody_mb = 0\nbodi_mb = 1\n[[backends]]\nname = \"A\"\n");
    gateway.setup.rewrite(&wrong);
    let path = "/admin/api/reload";
    let bearer = format!("Bearer {}", token(json!({"role": "keeper"})));
    let form = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    let refused = http::send(&gateway.address, "POST", path, &form, "{}").finish();
    assert_eq!(refused.status, 415, "{refused:?}");
    let answer = ask(&gateway, "POST", "reload", Some("keeper"), "{}");
    assert_eq!(answer.status, 422, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let problem = answer.json();
    assert_eq!(problem["status"], 422, "{problem}");
    let mistakes = problem["mistakes"].as_array().expect("a list");
    for word in ["body_mb", "bodi_mb", "backends"] {
        let found = mistakes.iter().any(|m| m.to_string().contains(word));
        assert!(found, "{word}: {problem}");
    }
    assert!(mistakes.iter().all(|m| m["line"].is_u64()), "{problem}");
    // What is in force is what it was.
    assert_eq!(get(&gateway, "config")["limits"]["body_mb"], 4);
}

#[test]
fn p_s04_config_keys_and_records_show_no_secret() {
    let server = Server::start(&[]);
    let alpha = http_backend(
        "alpha",
        &server.address,
        "headers = { X-Api-Key_ENV = \"ALPHA_KEY\" }",
    );
    let setup = Setup::with_env(
        &format!("{ROLES}{alpha}"),
        &[("ALPHA_KEY", "canary-of-a-header")],
    );
    let (code, key, said) = setup.sentinel(&["key", "create", "ci", "--role", "reader"]);
    assert_eq!(code, 0, "{said}");
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    let file = std::fs::read(gateway.setup.data().join("keys.json")).expect("a file");
    let file: Value = serde_json::from_slice(&file).expect("JSON");
    let kept = file["keys"][0].as_object().expect("a key");
    let shown = get(&gateway, "keys");
    assert_eq!(shown["keys"][0]["name"], "ci", "{shown}");
    assert_eq!(shown["keys"][0]["state"], "good", "{shown}");
    let config = get(&gateway, "config");
    assert_eq!(config["backends"][0]["name"], "alpha", "{config}");
    assert!(config.to_string().contains("ALPHA_KEY"), "{config}");
    let everything: String = GETS.map(|what| get(&gateway, what).to_string()).concat();
    let hash = kept.values().filter_map(Value::as_str);
    let mut secrets: Vec<&str> = hash.filter(|text| text.len() > 30).collect();
    assert!(!secrets.is_empty(), "the file has the hash: {file}");
    secrets.extend([
        key.trim(),
        "canary-of-a-header",
        crate::support::setup::SECRET,
    ]);
    for secret in secrets {
        assert!(!everything.contains(secret), "{secret}");
    }
}

/// Pages through a search; gives the request ids, newest first.
fn search(gateway: &Gateway, filters: &str, limit: usize) -> Vec<String> {
    let mut ids = Vec::new();
    let mut cursor = String::new();
    for _ in 0..100 {
        let page = get(gateway, &format!("audit?limit={limit}{filters}{cursor}"));
        let records = page["records"].as_array().expect("records");
        assert!(records.len() <= limit, "{page}");
        ids.extend(records.iter().map(|r| r["request_id"].to_string()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
    panic!("it never ends: {ids:?}")
}

/// The same on both stores.
fn searches(gateway: &Gateway) {
    let reader = token(json!({"role": "reader", "sub": "bob"}));
    let caller = Modern::new(gateway, "/mcp").bearing(&reader);
    for n in 0..7 {
        assert_eq!(
            caller.said("echo", json!({"text": n.to_string()})),
            n.to_string()
        );
    }
    for _ in 0..3 {
        assert_eq!(
            kind_of(&caller.call("slow", json!({"ms": 0}))),
            "unknown_name"
        );
    }
    let of_bob = "&caller=bob";
    until("all records are in the store", || {
        (search(gateway, of_bob, 1000).len() == 10).then_some(())
    });
    let whole = search(gateway, of_bob, 1000);
    // However it is cut, each record is there once and in order.
    for limit in [1, 3, 10, 40] {
        assert_eq!(search(gateway, of_bob, limit), whole, "{limit}");
    }
    assert_eq!(whole.iter().collect::<HashSet<_>>().len(), 10);
    let count = |filters: &str| search(gateway, filters, 100).len();
    assert_eq!(count("&caller=bob&tool=echo&outcome=success"), 7);
    // Whose a hidden tool is, records know.
    assert_eq!(count("&caller=bob&backend=alpha&outcome=success"), 7);
    assert_eq!(count("&caller=bob&backend=beta"), 0);
    assert_eq!(count("&caller=bob&tool=slow&outcome=success"), 0);
    assert_eq!(count("&caller=nobody"), 0);
    // No name has a zero character; no store minds the question.
    assert_eq!(count("&caller=bob%00"), 0);
    assert_eq!(count("&caller=bob&since=1h"), 10);
    assert_eq!(count("&caller=bob&until=2020-01-01"), 0);
    let page = get(gateway, "audit?caller=bob&tool=echo&limit=1");
    let record = &page["records"][0];
    assert_eq!(record["method"], "tools/call", "{record}");
    assert!(record["hash"].as_str().is_some_and(|hash| hash.len() == 64));
    for wrong in ["limit=0", "limit=1001", "since=soon", "who=me", "cursor=x"] {
        let answer = ask(
            gateway,
            "GET",
            &format!("audit?{wrong}"),
            Some("keeper"),
            "",
        );
        assert_eq!(answer.status, 400, "{wrong}");
        assert_eq!(answer.json()["kind"], "invalid_params");
    }
}

#[test]
fn decision_38_records_are_found_in_sqlite() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&format!(
        "{ROLES}{}",
        http_backend("alpha", &server.address, "")
    ));
    searches(&gateway);
}

/// And whoever asks while the store is away is told so, in time; one handle serves records and reviews.
#[test]
fn decision_38_g_11_records_are_found_in_postgres_through_one_set_of_connections() {
    let mut cluster = Cluster::start();
    let server = Server::start(&[]);
    let config = format!(
        "{ROLES}[postgres]\nurl_env = \"STORE_URL\"\nmax_connections = 2\n[review]\nenabled = true\n{}",
        http_backend("alpha", &server.address, "")
    );
    let setup = Setup::with_env(&config, &[("STORE_URL", &cluster.url())]);
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    searches(&gateway);
    let admin = Modern::new(&gateway, "/mcp").bearing(&token(json!({"role": "admin"})));
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..5 {
                    let listed = admin.call("list_reviews", json!({}));
                    assert!(kind_of(&listed).is_empty(), "{listed}");
                }
            });
        }
    });
    let ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sentinel'";
    let open = cluster.ask(ours);
    assert!((1..=2).contains(&open.parse().unwrap_or(0)), "{open}");
    cluster.stop();
    let away = ask(&gateway, "GET", "audit", Some("keeper"), "");
    assert_eq!(away.status, 503, "{away:?}");
    assert_eq!(away.json()["kind"], "audit_unavailable");
    assert_eq!(admin.said("echo", json!({"text": "x"})), "x");
}

#[test]
fn decision_38_without_an_audit_there_are_no_records_to_find() {
    let gateway = Gateway::start(&format!("audit_enabled = false\n{ROLES}"));
    let answer = ask(&gateway, "GET", "audit", Some("keeper"), "");
    assert_eq!(answer.status, 404, "{answer:?}");
    assert!(answer.text.contains("keeps no records"), "{answer:?}");
}

/// What an operator mistyped must not switch off something else, nor look like another line of a log.
#[test]
fn decision_38_a_kill_says_exactly_what_it_means() {
    let gateway = Gateway::start(ROLES);
    let post = |what: &str, body: &str| ask(&gateway, "POST", what, Some("keeper"), body);
    for (body, words) in [
        ("[]", "must be a JSON object"),
        (r#"["all", "", ""]"#, "must be a JSON object"),
        ("null", "must be a JSON object"),
        (r#"{"scope":"all","until":"noon"}"#, "until"),
        (r#"{"scope":"all","reason":"a\nb"}"#, "control characters"),
        (
            r#"{"scope":"all","reason":"\u001b[2J"}"#,
            "control characters",
        ),
        (r#"{"name":"x"}"#, "scope"),
    ] {
        for what in ["kill", "revive"] {
            let answer = post(what, body);
            assert_eq!(answer.status, 400, "{what} {body}: {answer:?}");
            let said = answer.json()["detail"].to_string();
            assert!(
                said.contains(words) && !said.contains("struct"),
                "{body}: {said}"
            );
        }
    }
    assert_eq!(get(&gateway, "status")["killed"], json!([]));
    let (code, _, said) = gateway.setup.sentinel(&["kill", "all", "--reason", "a\tb"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("control characters"), "{said}");
    let answer = post("kill", r#" {"scope":"tool","name":"x","reason":"é & ü"}"#);
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn issue_17_a_running_gateway_makes_and_revokes_keys_and_both_are_on_record() {
    let gateway = Gateway::start(ROLES);
    let create = ["key", "create", "ci", "--role", "reader", "--json"];
    let (code, made, said) = gateway.setup.sentinel(&create);
    assert_eq!(code, 0, "{said}");
    let made: Value = serde_json::from_str(&made).expect("JSON");
    assert!(made["key"].is_string() && made["state"] == "good", "{made}");
    let id = made["id"].as_str().expect("an id").to_owned();
    let (code, _, said) = gateway.setup.sentinel(&create);
    assert_eq!(code, 1, "the name is taken: {said}");
    let (code, _, said) = gateway.setup.sentinel(&["key", "revoke", &id]);
    assert_eq!(code, 0, "{said}");
    let expected = json!([
        ["admin/keys/revoke", id, "success"],
        ["admin/keys", "ci", "error"],
        ["admin/keys", "ci", "success"],
    ]);
    until("the records are in the store", || {
        let page = get(&gateway, "audit?caller=local");
        let records = page["records"].as_array().expect("records").iter();
        let of_keys = records.filter(|r| r["method"].to_string().contains("admin/keys"));
        let seen = of_keys.map(|r| json!([r["method"], r["operation"], r["outcome"]]));
        (Value::from_iter(seen) == expected).then_some(())
    });
}
