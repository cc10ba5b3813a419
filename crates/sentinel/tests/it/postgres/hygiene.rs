//! Nothing of the database's own words reaches a caller, and nothing of a caller's reaches its SQL.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern};
use crate::support::http::Answer;
use crate::support::postgres::Cluster;
use crate::support::records::export;
use crate::support::setup::until;
use crate::support::shop::{AUTH, Shop, gateway_of, login_url, member};
use crate::support::web::Web;

/// Every name of a failure of `fail`, with its status over REST.
const FAILURES: [(&str, u16); 8] = [
    ("raise", 500),
    ("check", 422),
    ("unique", 409),
    ("null", 400),
    ("cast", 400),
    ("table", 500),
    ("denied", 403),
    ("public", 409),
];

/// The answer of one surface: status, headers and body as text.
fn whole(answer: &Answer) -> String {
    format!("{} {:?} {}", answer.status, answer.headers, answer.text)
}

/// D-2: SQLERRM never reaches a client.
#[test]
fn d_2_d_18_what_the_database_says_of_an_error_reaches_nobody() {
    let shop = Shop::start("");
    let credential = member("ann", "acme");
    let gateway = &shop.gateway;
    let web = Web::new(gateway).bearing(&credential);
    let modern = Modern::new(gateway, "/mcp").bearing(&credential);
    let legacy = Legacy::bearing(gateway, &credential);
    let mut said = Vec::new();
    for (how, status) in FAILURES {
        let arguments = json!({"how": how});
        let rest = web.post("/api/fail", &arguments);
        assert_eq!(rest.status, status, "{how}: {rest:?}");
        assert_eq!(
            rest.header("content-type"),
            "application/problem+json",
            "{how}"
        );
        if how == "public" {
            assert_eq!(rest.json()["detail"], "the shop is closed");
        }
        said.push(whole(&rest));
        let routed = web.post("/shop/fail", &arguments);
        assert_eq!(routed.status, status, "{how}: {routed:?}");
        said.push(whole(&routed));
        let rpc = web.rpc("fail", &arguments);
        assert_eq!(rpc.status, status, "{how}: {rpc:?}");
        said.push(whole(&rpc));
        let lines = web.post_with(
            "/api/fail",
            &arguments,
            &[("Accept", "application/x-ndjson")],
        );
        said.push(whole(&lines));
        for answer in [
            modern.call("fail", arguments.clone()),
            legacy.call("fail", arguments.clone()),
        ] {
            assert_eq!(answer["result"]["isError"], true, "{how}: {answer}");
            said.push(answer.to_string());
        }
    }
    assert_eq!(
        web.post("/api/fail", &json!({"how": "not"})).json()["result"],
        "fine"
    );
    said.push(gateway.get("/metrics").text);
    let log = until("the cause is in the log", || {
        let log = gateway.setup.log();
        log.contains("leak-message").then_some(log)
    });
    let reference = web.post("/api/fail", &json!({"how": "raise"})).json()["reference"].clone();
    let id = reference.as_str().expect("a reference").to_owned();
    until("the reference is in the log", || {
        let log = gateway.setup.log();
        log.lines()
            .any(|line| line.contains(&id) && line.contains("leak-message"))
            .then_some(())
    });
    drop(log);
    let setup = shop.gateway.end();
    said.extend(export(&setup).iter().map(Value::to_string));
    for text in &said {
        for marker in [
            "leak",
            "data.orders",
            "orders_",
            "pg_authid",
            "PL/pgSQL",
            "plpgsql",
        ] {
            // What a caller itself sent may come back in its record.
            assert!(!text.contains(marker), "{marker} in {text}");
        }
    }
    println!(
        "{} answers and records, no word of the database in them",
        said.len()
    );
}

/// D-2: nor of resources, prompts and tables.
#[test]
fn d_2_d_18_resources_prompts_and_tables_say_nothing_of_the_database() {
    let cluster = Cluster::start();
    cluster.run(include_str!("shop.sql"));
    cluster.run(
        "CREATE VIEW data.shares WITH (security_invoker = true) AS SELECT n, 1 / (n - 2) AS share FROM generate_series(1, 3) n;
        GRANT SELECT ON data.shares TO gateway;
        CREATE FUNCTION api.tell(how text) RETURNS text LANGUAGE sql STABLE AS 'SELECT api.leak(how)';
        COMMENT ON FUNCTION api.tell IS '@resource tales://{how}\n@prompt tell';",
    );
    let config = "select = [\"data.shares\"]";
    let gateway = gateway_of(&login_url(&cluster), AUTH, config);
    let credential = member("ann", "acme");
    let web = Web::new(&gateway).bearing(&credential);
    let modern = Modern::new(&gateway, "/mcp").bearing(&credential);
    let legacy = Legacy::bearing(&gateway, &credential);
    let callers: [&dyn Caller; 2] = [&modern, &legacy];
    let mut said = Vec::new();
    for (how, status) in [
        ("raise", 500),
        ("cast", 400),
        ("denied", 403),
        ("public", 409),
    ] {
        let uri = format!("tales://{how}");
        let prompt = json!({"name": "tell", "arguments": {"how": how}});
        let answers = [
            web.get(&format!("/api/resources/tales%3A%2F%2F{how}")),
            web.rpc("rpc.readResource", &json!({"uri": uri})),
            web.post("/api/prompts/tell", &json!({"how": how})),
            web.rpc("rpc.getPrompt", &prompt),
        ];
        for answer in answers {
            assert_eq!(answer.status, status, "{how}: {answer:?}");
            assert_eq!(
                answer.text.contains("the shop is closed"),
                how == "public",
                "{answer:?}"
            );
            said.push(whole(&answer));
        }
        for caller in callers {
            for answer in [
                caller.ask("resources/read", json!({"uri": uri})),
                caller.ask("prompts/get", prompt.clone()),
            ] {
                assert!(answer["error"].is_object(), "{how}: {answer}");
                said.push(answer.to_string());
            }
        }
    }
    let table = "select_data_shares";
    let lines = [("Accept", "application/x-ndjson")];
    said.extend([
        whole(&web.post(&format!("/api/{table}"), &json!({}))),
        whole(&web.rpc(table, &json!({}))),
        whole(&web.post_with(&format!("/api/{table}"), &json!({}), &lines)),
        modern.call(table, json!({})).to_string(),
        legacy.call(table, json!({})).to_string(),
    ]);
    until("the causes are in the log", || {
        let log = gateway.setup.log();
        (log.contains("leak-message") && log.contains("division by zero")).then_some(())
    });
    said.extend(export(&gateway.end()).iter().map(Value::to_string));
    for text in &said {
        for marker in ["leak", "division", "pg_authid", "PL/pgSQL"] {
            assert!(!text.contains(marker), "{marker} in {text}");
        }
    }
}

/// D-2: nor on a stream, before its first row or behind many.
#[test]
fn d_2_d_18_a_stream_that_fails_says_nothing_of_the_database() {
    const ROWS: usize = 3000;
    let shop = Shop::start("");
    let web = Web::new(&shop.gateway).bearing(&member("ann", "acme"));
    let mut said = Vec::new();
    for media in [
        "text/event-stream",
        "application/x-ndjson",
        "application/jsonl",
    ] {
        let accept = [("Accept", media)];
        for (how, code) in [
            ("raise", "backend_error"),
            ("cast", "invalid_params"),
            ("denied", "forbidden"),
            ("public", "conflict"),
        ] {
            // One value, a set whose first row fails, and one whose rows have left.
            let (fail, first, later) = (
                json!({"how": how}),
                json!({"how": how, "good": 0}),
                json!({"how": how, "good": ROWS}),
            );
            for (path, arguments, has_rows) in [
                ("/api/fail", &fail, false),
                ("/api/fail_rows", &first, false),
                ("/api/fail_rows", &later, true),
                ("/shop/fail_rows", &later, true),
            ] {
                let answer = web.post_with(path, arguments, &accept);
                let place = format!("{media} {path} {arguments}");
                let rows = answer.text.matches("\"type\":\"row\"").count();
                assert_eq!(rows > 0, has_rows, "{place}: {rows} rows");
                assert!(
                    answer.text.contains(&format!("\"code\":\"{code}\"")),
                    "{place}: {}",
                    &answer.text[answer.text.len().saturating_sub(600)..]
                );
                assert!(!answer.text.contains("\"type\":\"result\""), "{place}");
                assert_eq!(
                    answer.text.contains("the shop is closed"),
                    how == "public",
                    "{place}"
                );
                said.push(whole(&answer));
            }
        }
        let fine = web.post_with("/api/fail_rows", &json!({"how": "not", "good": 2}), &accept);
        assert_eq!(fine.text.matches("\"type\":\"row\"").count(), 3, "{fine:?}");
    }
    until("the cause is in the log", || {
        shop.gateway
            .setup
            .log()
            .contains("leak-message")
            .then_some(())
    });
    let setup = shop.gateway.end();
    said.extend(export(&setup).iter().map(Value::to_string));
    for text in &said {
        for marker in ["leak", "pg_authid", "PL/pgSQL", "generate_series"] {
            assert!(!text.contains(marker), "{marker} in {text}");
        }
    }
}

/// D-2: nor where the answer comes later, and only to the caller who asked.
#[test]
fn d_2_d_27_a_function_that_is_answered_later_has_its_own_caller_and_says_nothing_of_the_database()
{
    let shop = Shop::start("");
    shop.cluster.run(
        "CREATE FUNCTION api.whoami_late() RETURNS text LANGUAGE sql STABLE AS
            $$SELECT current_setting('auth.user_id', true) FROM pg_sleep(0.5)$$;
        COMMENT ON FUNCTION api.whoami_late IS '@tool';
        CREATE FUNCTION api.fail_late(how text) RETURNS text LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_sleep(0.5); RETURN api.fail(how); END';
        COMMENT ON FUNCTION api.fail_late IS '@tool'; NOTIFY sentinel_catalog;",
    );
    let (ann, gus) = (
        Web::new(&shop.gateway).bearing(&member("ann", "acme")),
        Web::new(&shop.gateway).bearing(&member("gus", "globex")),
    );
    until("the functions are there", || {
        ann.get("/api/catalog")
            .text
            .contains("fail_late")
            .then_some(())
    });
    let begin = |web: &Web, tool: &str, arguments: &Value| {
        let later = [("Prefer", "respond-async")];
        let answer = web.post_with(&format!("/api/{tool}"), arguments, &later);
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.header("location").to_owned()
    };
    let end = |web: &Web, url: &str| web.send("GET", url, &[("Prefer", "wait=20")], "").finish();
    let tasks: Vec<String> = (0..8)
        .map(|n| if n % 2 == 0 { &ann } else { &gus })
        .map(|web| begin(web, "whoami_late", &json!({})))
        .collect();
    for (n, url) in tasks.iter().enumerate() {
        let (own, other, name) = match n % 2 {
            0 => (&ann, &gus, "ann"),
            _ => (&gus, &ann, "gus"),
        };
        assert_eq!(end(other, url).status, 404, "it is for its own caller");
        assert_eq!(end(own, url).json()["result"], name);
    }
    for (how, status) in FAILURES {
        let failed = end(&ann, &begin(&ann, "fail_late", &json!({"how": how})));
        assert_eq!(failed.status, status, "{how}: {failed:?}");
        assert!(!whole(&failed).contains("leak"), "{failed:?}");
    }
    // One that is deleted ends its statement.
    let url = begin(&ann, "sleep", &json!({"seconds": 60}));
    shop.wait_running("sleep", 1);
    assert_eq!(ann.send("DELETE", &url, &[], "").finish().status, 204);
    shop.wait_running("sleep", 0);
}

/// P-S12: whatever a caller sends is a value.
#[test]
fn p_s12_nothing_that_a_caller_sends_becomes_sql() {
    let shop = Shop::start("");
    let before = shop.cluster.ask("SELECT count(*) FROM data.orders");
    let texts = [
        "'; DROP TABLE data.orders; --",
        "$1; DELETE FROM data.orders",
        "\\'; TRUNCATE data.orders; --",
        "\" OR \"\"=\"",
        "$$; DROP SCHEMA data CASCADE; $$",
        "api.fail('raise')",
        "}'::json); DELETE FROM data.orders; --",
        "%27%3B%20DROP%20TABLE%20data.orders%3B--",
    ];
    let credential = member("ann", "acme");
    let web = Web::new(&shop.gateway).bearing(&credential);
    let caller = Modern::new(&shop.gateway, "/mcp").bearing(&credential);
    for text in texts {
        let name: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(
            web.post(&format!("/api/{name}"), &json!({})).status,
            404,
            "{text}"
        );
        assert_eq!(
            web.get(&format!("/shop/orders/{name}")).status,
            400,
            "{text}"
        );
        assert!(
            web.get(&format!("/shop/orders?min_amount={name}")).status >= 400,
            "{text}"
        );
        let uri = format!("shop://orders/{name}");
        assert!(
            caller.ask("resources/read", json!({"uri": uri}))["error"].is_object(),
            "{text}"
        );
        assert_eq!(web.rpc(text, &json!({})).status, 404, "{text}");
        let unknown = web.post("/api/list_orders", &json!({text: 1}));
        assert_eq!(unknown.status, 422, "{text}: {unknown:?}");
        let topic = caller.result(
            "prompts/get",
            json!({"name": "advise", "arguments": {"topic": text}}),
        );
        let shown = topic["messages"][0]["content"]["text"]
            .as_str()
            .expect("a text");
        assert_eq!(
            shown,
            format!("Give advice on {text} to ann"),
            "it comes back as it was sent"
        );
        let mut headers = vec![("X-Tenant-Id", text), ("X-Order", text)];
        headers.retain(|(_, value)| value.is_ascii());
        assert_eq!(
            web.post_with("/api/list_orders", &json!({}), &headers)
                .status,
            200
        );
        // An identity is a value, too.
        let odd = Web::new(&shop.gateway)
            .bearing(&member(text, text))
            .post("/api/whoami", &json!({}));
        if odd.status == 200 {
            assert_eq!(
                (&odd.json()["user_id"], &odd.json()["tenant_id"]),
                (&json!(text), &json!(text))
            );
        } else {
            assert_eq!(odd.status, 401, "{odd:?}");
        }
    }
    assert_eq!(shop.cluster.ask("SELECT count(*) FROM data.orders"), before);
}

/// Objects of a caller's own in front of the search path change nothing: names are qualified.
#[test]
fn p_s12_the_search_path_of_the_login_does_not_choose_what_is_called() {
    let shop = Shop::start("");
    let script = "CREATE SCHEMA trap; GRANT USAGE ON SCHEMA trap TO gateway; \
        CREATE FUNCTION trap.list_orders(min_amount numeric DEFAULT 0) RETURNS SETOF api.placed LANGUAGE sql \
            AS 'SELECT 0, ''trap'', ''trap'', ''trap'', 0'; \
        CREATE FUNCTION trap.to_json(anyelement) RETURNS json LANGUAGE sql AS 'SELECT ''\"trap\"''::json'; \
        CREATE FUNCTION trap.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT ''trap'''; \
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA trap TO gateway; \
        ALTER ROLE gateway SET search_path = trap, pg_catalog;";
    shop.cluster.run(script);
    shop.cluster
        .ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gateway'");
    let web = Web::new(&shop.gateway).bearing(&member("ann", "acme"));
    let answer = until("it is reached again", || {
        let answer = web.post("/api/list_orders", &json!({}));
        (answer.status == 200).then_some(answer)
    });
    assert_eq!(answer.json()["rows"][0]["tenant"], "acme", "{answer:?}");
}

/// A role that bypasses the rules of the database is refused, unless the configuration allows it.
#[test]
fn p_s12_a_login_that_bypasses_row_level_security_is_refused() {
    let cluster = crate::support::postgres::Cluster::start();
    let config = |more: &str| {
        format!(
            "[[backends]]\nname = \"shop\"\ntype = \"postgres\"\nurl_env = \"SHOP_DATABASE_URL\"\n{more}\n"
        )
    };
    let url = cluster.url();
    let env = [("SHOP_DATABASE_URL", url.as_str())];
    let setup = crate::support::setup::Setup::with_env(&config(""), &env);
    let gateway = crate::support::setup::Gateway::start_in(setup);
    until("the login is refused", || {
        gateway.setup.log().contains("is a superuser").then_some(())
    });
    assert_ne!(gateway.health("shop"), "up");
    drop(gateway);
    let setup = crate::support::setup::Setup::with_env(&config("allow_superuser = true"), &env);
    crate::support::setup::Gateway::start_in(setup).wait_ready();
}
