//! Functions over `sentinel stdio`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::callers::{Caller, notification};
use crate::support::pipe::Pipe;
use crate::support::postgres::Cluster;
use crate::support::processes::kill;
use crate::support::setup::{Setup, until};
use crate::support::shop::{AUTH, login_url, member, tenants};

fn cluster() -> Cluster {
    let cluster = Cluster::start();
    cluster.run(include_str!("shop.sql"));
    cluster
}

/// A gateway on standard input and output, whose caller has this credential.
fn setup(cluster: &Cluster, credential: Option<&str>) -> Setup {
    let auth = match credential {
        Some(_) => AUTH.replace("[auth]\n", "[auth]\nstdio_token_env = \"STDIO_TOKEN\"\n"),
        None => String::new(),
    };
    let config = format!(
        "{auth}[[backends]]\nname = \"shop\"\ntype = \"postgres\"\nurl_env = \"SHOP_DATABASE_URL\"\n"
    );
    let url = login_url(cluster);
    let mut env = vec![("SHOP_DATABASE_URL", url.as_str())];
    env.extend(credential.map(|credential| ("STDIO_TOKEN", credential)));
    Setup::with_env(&config, &env)
}

fn pipes(cluster: &Cluster, credential: Option<&str>) -> [Pipe; 2] {
    let pipes = [
        Pipe::legacy_in(setup(cluster, credential), "2025-11-25", json!({})),
        Pipe::modern_in(setup(cluster, credential)),
    ];
    pipes.iter().for_each(|pipe| pipe.wait_for_tool("whoami"));
    pipes
}

fn running(cluster: &Cluster, text: &str) -> String {
    cluster.ask(&format!(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = 'gateway' AND state = 'active' AND query LIKE '%{text}%'"
    ))
}

fn wait_running(cluster: &Cluster, text: &str, count: &str) {
    until("statements run", || {
        (running(cluster, text) == count).then_some(())
    });
}

/// D-26: over stdio as over HTTP; and nothing but messages is on standard output, whatever the database says.
#[test]
fn d_8_d_26_callers_over_stdio_have_their_identity_and_their_rows() {
    let cluster = cluster();
    for (credential, name, tenant) in [
        (Some(member("ann", "acme")), "ann", "acme"),
        (Some(member("gus", "globex")), "gus", "globex"),
        (None, "", ""),
    ] {
        for pipe in pipes(&cluster, credential.as_deref()) {
            let who = pipe.call("whoami", json!({}));
            let who = &who["result"]["structuredContent"];
            assert_eq!(
                (&who["user_id"], &who["tenant_id"]),
                (&json!(name), &json!(tenant))
            );
            let orders = pipe.call("list_orders", json!({}));
            let orders = &orders["result"]["structuredContent"];
            match tenant {
                "" => assert_eq!(orders["rows"], json!([])),
                _ => assert_eq!(tenants(orders), [tenant]),
            }
            let read = pipe.ask("resources/read", json!({"uri": "shop://orders/2"}));
            match tenant {
                "acme" => assert_eq!(read["result"]["contents"][0]["text"], "acme item 2 for 2"),
                _ => assert!(read["error"].is_object(), "{read}"),
            }
            let prompt = json!({"name": "advise", "arguments": {"topic": "tea"}});
            let prompt = pipe.result("prompts/get", prompt);
            let text = &prompt["messages"][0]["content"]["text"];
            assert_eq!(*text, format!("Give advice on tea to {name}"));
            let members = pipe.call("members_only", json!({}));
            match (tenant, pipe.is_modern()) {
                ("", true) => assert_eq!(members["error"]["code"], -31401, "{members}"),
                ("", false) => assert_eq!(members["error"]["code"], -32001, "{members}"),
                _ => assert_eq!(members["result"]["structuredContent"]["result"], name),
            }
            for how in ["raise", "check", "unique", "cast", "denied", "public"] {
                let failed = pipe.call("fail", json!({"how": how}));
                assert_eq!(failed["result"]["isError"], true, "{failed}");
                assert!(!failed.to_string().contains("leak"), "{failed}");
            }
            // Three megabytes in one line.
            let many = pipe.call("numbers", json!({"count": 1000, "width": 3000}));
            let rows = many["result"]["structuredContent"]["rows"].as_array();
            assert_eq!(rows.map(Vec::len), Some(1000));
        }
    }
}

/// P-R08: a call that is cancelled, and the end of the caller.
#[test]
fn p_r08_the_statement_of_a_caller_over_stdio_ends_with_its_call_or_its_caller() {
    let cluster = cluster();
    for pipe in pipes(&cluster, None) {
        let id = pipe.start(
            "tools/call",
            json!({"name": "sleep", "arguments": {"seconds": 60}}),
        );
        wait_running(&cluster, "sleep", "1");
        let began = Instant::now();
        pipe.write(&notification(
            "notifications/cancelled",
            json!({"requestId": id}),
        ));
        wait_running(&cluster, "sleep", "0");
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
        let answer = pipe.call("whoami", json!({}));
        assert!(
            answer["result"].is_object(),
            "the next call is answered: {answer}"
        );
    }
    // Its input ends, and so does the gateway.
    for pipe in pipes(&cluster, None) {
        pipe.start(
            "tools/call",
            json!({"name": "sleep", "arguments": {"seconds": 60}}),
        );
        wait_running(&cluster, "sleep", "1");
        pipe.close();
        wait_running(&cluster, "sleep", "0");
        pipe.wait();
    }
    // The process is gone: nobody is left to cancel, and the server finds out.
    for pipe in pipes(&cluster, None) {
        pipe.start(
            "tools/call",
            json!({"name": "sleep", "arguments": {"seconds": 60}}),
        );
        wait_running(&cluster, "sleep", "1");
        kill(pipe.pid());
        wait_running(&cluster, "sleep", "0");
    }
}

/// A caller that comes before the database is answered, and told when there is something.
#[test]
fn a_caller_over_stdio_need_not_wait_for_the_database() {
    let mut cluster = cluster();
    cluster.stop();
    let legacy = Pipe::legacy_in(setup(&cluster, None), "2025-11-25", json!({}));
    let modern = Pipe::modern_in(setup(&cluster, None));
    for pipe in [&legacy, &modern] {
        assert_eq!(pipe.tools(), [""; 0]);
        let early = pipe.call("whoami", json!({}));
        assert!(early["error"].is_object(), "{early}");
    }
    cluster.resume();
    legacy.line("tools came", |line| {
        line["method"] == "notifications/tools/list_changed"
    });
    for pipe in [&legacy, &modern] {
        pipe.wait_for_tool("whoami");
        let who = pipe.call("whoami", json!({}));
        assert_eq!(who["result"]["structuredContent"]["login"], "gateway");
    }
}

/// What changes is told over the same pipe.
#[test]
fn c_10_callers_over_stdio_hear_of_changed_functions() {
    let cluster = cluster();
    let changed = |line: &Value| line["method"] == "notifications/tools/list_changed";
    for (at, pipe) in pipes(&cluster, None).iter().enumerate() {
        if pipe.is_modern() {
            let filter = json!({"notifications": {"toolsListChanged": true}});
            pipe.start("subscriptions/listen", filter);
            pipe.line("agreed", |line| {
                line["method"] == "notifications/subscriptions/acknowledged"
            });
        }
        let name = format!("late_{at}");
        cluster.run(&format!(
            "CREATE FUNCTION api.{name}() RETURNS int LANGUAGE sql AS 'SELECT {at}';
             COMMENT ON FUNCTION api.{name}() IS '@tool'; NOTIFY sentinel_catalog;"
        ));
        pipe.line("a tool came", changed);
        pipe.wait_for_tool(&name);
        let said = pipe.call(&name, json!({}));
        assert_eq!(said["result"]["structuredContent"]["result"], at, "{said}");
    }
}
