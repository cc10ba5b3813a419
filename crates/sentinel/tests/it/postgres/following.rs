//! News of the catalog, subscriptions to resources, completion.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern};
use crate::support::http::{Stream, parse};
use crate::support::setup::{PATIENCE, until};
use crate::support::shop::Shop;
use crate::support::web::Web;

/// The methods of the messages that come until one of each is there.
#[track_caller]
fn hear(stream: &mut Stream, wanted: &[&str]) -> Vec<String> {
    let mut heard: Vec<String> = Vec::new();
    while !wanted
        .iter()
        .all(|wanted| heard.iter().any(|one| one == wanted))
    {
        let message = stream.message_within(PATIENCE);
        let message = message.unwrap_or_else(|| panic!("{wanted:?} is missing: {heard:?}"));
        heard.push(
            parse(&message)["method"]
                .as_str()
                .expect("a method")
                .to_owned(),
        );
    }
    heard
}

const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";

/// A stream of news for a caller of each era.
fn listeners(shop: &Shop) -> (Legacy, [Stream; 2]) {
    let legacy = Legacy::newest(&shop.gateway);
    let own = legacy.verb("GET").head();
    assert_eq!(own.status, 200);
    let wanted = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true}});
    let mut listening = Modern::new(&shop.gateway, "/mcp")
        .send("subscriptions/listen", wanted)
        .head();
    let first = listening.json();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    (legacy, [own, listening])
}

fn function(name: &str, comment: &str) -> String {
    format!(
        "CREATE FUNCTION api.{name}(a int DEFAULT 0) RETURNS text LANGUAGE sql STABLE AS 'SELECT a::text';
         COMMENT ON FUNCTION api.{name} IS '{comment}'; NOTIFY sentinel_catalog;"
    )
}

#[test]
fn c_10_callers_hear_of_every_kind_of_function_that_comes_and_goes() {
    let shop = Shop::start("");
    let (_legacy, mut streams) = listeners(&shop);
    shop.cluster
        .run(&function("fresh", "@tool\n@prompt\n@resource shop://fresh"));
    for stream in &mut streams {
        hear(stream, &[TOOLS, PROMPTS, RESOURCES]);
    }
    let caller = Modern::new(&shop.gateway, "/mcp");
    assert!(caller.tools().contains(&"fresh".to_owned()));
    let resources = caller.names("resources/list", "resources", "uri");
    assert_eq!(resources, ["shop://fresh"]);
    shop.cluster
        .run("DROP FUNCTION api.fresh; NOTIFY sentinel_catalog;");
    for stream in &mut streams {
        hear(stream, &[TOOLS, PROMPTS, RESOURCES]);
    }
    assert!(!caller.tools().contains(&"fresh".to_owned()));
}

/// Any role of the database may notify; callers hear of changes only.
#[test]
fn a_flood_of_notifications_is_no_news() {
    let shop = Shop::start("");
    let (_legacy, mut streams) = listeners(&shop);
    for _ in 0..20 {
        shop.cluster.run(
            "DO $$ BEGIN FOR n IN 1..500 LOOP PERFORM pg_notify('sentinel_catalog', n::text); END LOOP; END $$;",
        );
        let answer = Web::new(&shop.gateway).post("/api/whoami", &json!({}));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    shop.cluster.run(&function("fresh", "@tool"));
    for stream in &mut streams {
        let heard = hear(stream, &[TOOLS]);
        assert!(heard.len() <= 4, "one change is told once: {heard:?}");
    }
}

/// Functions that come and go while the catalog is read are there or not, and the others stay.
#[test]
fn a_schema_that_changes_all_the_time_stays_readable() {
    let shop = Shop::start("");
    let caller = Modern::new(&shop.gateway, "/mcp");
    let is_over = AtomicBool::new(false);
    let looks = thread::scope(|scope| {
        scope.spawn(|| {
            shop.cluster.ask(
                "DO $do$ BEGIN FOR n IN 1..4000 LOOP
                    EXECUTE 'CREATE DOMAIN api.churned AS int CHECK (VALUE > 0)';
                    EXECUTE 'CREATE FUNCTION api.churn(a api.churned DEFAULT 1) RETURNS api.churned LANGUAGE sql AS ''SELECT a''';
                    EXECUTE 'COMMENT ON FUNCTION api.churn IS ''@tool''';
                    NOTIFY sentinel_catalog;
                    COMMIT;
                    EXECUTE 'DROP FUNCTION api.churn';
                    EXECUTE 'DROP DOMAIN api.churned';
                    NOTIFY sentinel_catalog;
                    COMMIT;
                END LOOP; END $do$",
            );
            is_over.store(true, Relaxed);
        });
        let mut looks = 0;
        while !is_over.load(Relaxed) {
            assert_eq!(shop.gateway.health("shop"), "up");
            let tools = caller.tools();
            assert!(tools.contains(&"whoami".to_owned()), "{tools:?}");
            looks += 1;
        }
        looks
    });
    println!("{looks} looks at a catalog in change");
    let log = shop.gateway.setup.log();
    assert!(!log.contains("cannot be read"), "every reading succeeded");
    until("the last change is seen", || {
        (!caller.tools().contains(&"churn".to_owned())).then_some(())
    });
}

/// The connection that hears notifications is a connection like others.
#[test]
fn p_r03_changes_are_heard_again_after_the_listening_connection_broke() {
    let shop = Shop::start("refresh = 0");
    let caller = Modern::new(&shop.gateway, "/mcp");
    for n in 0..3 {
        let listening = "FROM pg_stat_activity WHERE usename = 'gateway' AND query LIKE 'LISTEN%'";
        until("it listens", || {
            let count = shop.cluster.ask(&format!("SELECT count(*) {listening}"));
            (count == "1").then_some(())
        });
        shop.cluster
            .ask(&format!("SELECT pg_terminate_backend(pid) {listening}"));
        // Nobody may have heard of this one.
        shop.cluster.run(&function(&format!("fresh_{n}"), "@tool"));
        until("the tool is there", || {
            caller.tools().contains(&format!("fresh_{n}")).then_some(())
        });
    }
}

/// What functions cannot do is said as any server without it says it, and harms no stream.
#[test]
fn subscribing_and_completing_are_declined_as_they_are_declared() {
    let shop = Shop::start("");
    shop.cluster
        .run(&function("status", "@resource shop://status"));
    let modern = Modern::new(&shop.gateway, "/mcp");
    until("the resource is there", || {
        let uris = modern.names("resources/list", "resources", "uri");
        (uris == ["shop://status"]).then_some(())
    });
    let legacy = Legacy::newest(&shop.gateway);
    let declared = &legacy.hello["capabilities"];
    assert_eq!(
        declared["resources"]["subscribe"],
        Value::Null,
        "{declared}"
    );
    assert_eq!(declared["completions"], Value::Null, "{declared}");
    let code = |answer: &Value| answer["error"]["code"].as_i64();
    for uri in ["shop://status", "shop://orders/2"] {
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            let answer = legacy.ask(method, json!({"uri": uri}));
            assert_eq!(code(&answer), Some(-32601), "{method} {uri}: {answer}");
        }
    }
    let callers: [&dyn Caller; 2] = [&modern, &legacy];
    for caller in callers {
        for reference in [
            json!({"type": "ref/prompt", "name": "advise"}),
            json!({"type": "ref/resource", "uri": "shop://orders/{id}"}),
        ] {
            let asked =
                json!({"ref": reference, "argument": {"name": "topic", "value": "' OR 1=1 --"}});
            let answer = caller.ask("completion/complete", asked);
            assert_eq!(code(&answer), Some(-32601), "{answer}");
        }
        let unknown = json!({"ref": {"type": "ref/prompt", "name": "nothing"}, "argument": {"name": "a", "value": ""}});
        let answer = caller.ask("completion/complete", unknown);
        assert!(answer["error"].is_object(), "{answer}");
    }
    // A modern listener is told what it gets, and hears of the rest.
    let wanted = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["shop://status", "shop://orders/2"]}});
    let mut listening = modern.send("subscriptions/listen", wanted).head();
    let first = listening.json();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let honoured = &first["params"]["notifications"];
    assert_eq!(honoured["toolsListChanged"], true, "{first}");
    let subscribed = honoured["resourceSubscriptions"].as_array();
    assert!(subscribed.is_none_or(Vec::is_empty), "{first}");
    shop.cluster.run(&function("fresh", "@tool"));
    hear(&mut listening, &[TOOLS]);
}
