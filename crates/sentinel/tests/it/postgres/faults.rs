//! Callers who leave, locks, conflicts, and a database that goes away.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy};
use crate::support::http;
use crate::support::postgres::Cluster;
use crate::support::setup::{Gateway, PATIENCE, Setup, until};
use crate::support::shop::{Shop, gateway_of, login_url, member};
use crate::support::web::Web;

const JSON_BODY: (&str, &str) = ("Content-Type", "application/json");

/// P-R08: the statement of a caller who left is cancelled at once.
#[test]
fn p_r08_the_statement_of_a_departed_caller_is_gone_within_a_second() {
    let shop = Shop::start("");
    let address = shop.gateway.address.clone();
    let post = || {
        http::send(
            &address,
            "POST",
            "/api/sleep",
            &[JSON_BODY],
            r#"{"seconds": 60}"#,
        )
    };
    let mut took = Vec::new();
    for _ in 0..5 {
        let sent = post();
        shop.wait_running("sleep", 1);
        let began = Instant::now();
        sent.hang_up();
        shop.wait_running("sleep", 0);
        took.push(began.elapsed());
    }
    // One by MCP, whose call is cancelled by name.
    let legacy = Legacy::newest(&shop.gateway);
    let call = json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call",
        "params": {"name": "sleep", "arguments": {"seconds": 60}}});
    let sent = legacy.send(&call.to_string());
    shop.wait_running("sleep", 1);
    let began = Instant::now();
    legacy.cancel(&json!(77));
    shop.wait_running("sleep", 0);
    took.push(began.elapsed());
    drop(sent);
    println!("statements of departed callers were gone after {took:?}");
    assert!(
        took.iter().all(|took| *took < Duration::from_secs(1)),
        "{took:?}"
    );
}

/// The answers to two calls at the same time; `meanwhile` runs beside them.
fn both(
    shop: &Shop,
    path: &str,
    arguments: [Value; 2],
    meanwhile: impl FnOnce(),
) -> [http::Answer; 2] {
    let web = Web::new(&shop.gateway);
    thread::scope(|scope| {
        let calls = arguments.map(|arguments| {
            let web = &web;
            scope.spawn(move || web.post(path, &arguments))
        });
        meanwhile();
        calls.map(|call| call.join().expect("no panic"))
    })
}

/// D-5: two withdrawals that each see enough: one is made again, and sees that there is not.
#[test]
fn d_5_conflicting_serializable_transactions_are_made_again() {
    let shop = Shop::start("");
    let withdraw = |amount: u32| {
        let arguments = [1, 2].map(|account| json!({"account": account, "amount": amount}));
        both(&shop, "/api/withdraw", arguments, || {})
    };
    for answer in &withdraw(30) {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let left = shop.cluster.ask("SELECT sum(balance) FROM data.accounts");
    assert_eq!(left, "140", "both were made");
    let answers = withdraw(100);
    let mut statuses = answers.each_ref().map(|answer| answer.status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 422], "{answers:?}");
    assert_eq!(
        shop.cluster.ask("SELECT sum(balance) FROM data.accounts"),
        "40"
    );
}

/// D-5: two calls that wait for each other: one is made again as a whole, and what it did before is not there twice.
#[test]
fn d_5_a_deadlock_is_made_again_as_a_whole() {
    let shop = Shop::start("lock_timeout = 60");
    // Both have taken their first row before either goes on.
    let mut barrier = shop
        .cluster
        .hold("DO $$ BEGIN PERFORM pg_advisory_lock(7); END $$;");
    let arguments =
        [(1, 2), (2, 1)].map(|(first, second)| json!({"first": first, "second": second}));
    let answers = both(&shop, "/api/raise_both", arguments, || {
        until("both wait", || {
            let waiting =
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
            (shop.cluster.ask(waiting) == "2").then_some(())
        });
        barrier.release();
    });
    for (answer, second) in answers.iter().zip([2, 1]) {
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["result"], second);
    }
    let balances = "SELECT string_agg(balance::text, ' ') FROM data.accounts";
    assert_eq!(shop.cluster.ask(balances), "102 102", "each was made once");
    let attempts = shop.cluster.ask("SELECT last_value FROM data.attempts");
    assert_eq!(attempts, "3", "one of them was made again");
    until("the server counts a deadlock", || {
        let count = "SELECT sum(deadlocks) FROM pg_stat_database WHERE datname = 'postgres'";
        (shop.cluster.ask(count) == "1").then_some(())
    });
}

/// D-5: after three attempts the caller is told to come back.
#[test]
fn d_5_a_transaction_that_loses_three_times_is_a_conflict() {
    let shop = Shop::start("");
    let web = Web::new(&shop.gateway);
    for answer in [
        web.post("/api/lose", &json!({})),
        web.rpc("lose", &json!({})),
    ] {
        assert_eq!(answer.status, 409, "{answer:?}");
        assert_eq!(answer.header("retry-after"), "1");
        assert!(answer.text.contains("transaction_conflict"), "{answer:?}");
        assert!(!answer.text.contains("leak"), "{answer:?}");
    }
    let mcp = Legacy::newest(&shop.gateway).call("lose", json!({}));
    assert_eq!(mcp["result"]["isError"], true, "{mcp}");
    let attempts = shop.cluster.ask("SELECT last_value FROM data.attempts");
    assert_eq!(attempts, "9", "three for each of three calls");
}

/// A row that is locked for long blocks the calls that need it, and no other.
#[test]
fn p_r06_a_held_lock_blocks_its_own_calls_only() {
    let shop = Shop::start("max_connections = 4\nlock_timeout = 60");
    let address = shop.gateway.address.clone();
    let mut holder = shop
        .cluster
        .hold("BEGIN; UPDATE data.accounts SET balance = balance WHERE id = 1;");
    let touch = || {
        http::send(
            &address,
            "POST",
            "/api/touch",
            &[JSON_BODY],
            r#"{"account": 1}"#,
        )
    };
    let waiting: Vec<_> = (0..8).map(|_| touch()).collect();
    shop.wait_running("touch", 3);
    let web = Web::new(&shop.gateway).bearing(&member("ann", "acme"));
    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        let began = Instant::now();
        assert_eq!(web.post("/api/list_orders", &json!({})).status, 200);
        slowest = slowest.max(began.elapsed());
    }
    println!("with a row locked, the slowest of 50 other calls took {slowest:?}");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    assert_eq!(
        shop.running("touch"),
        3,
        "a fourth connection is left to the others"
    );
    holder.release();
    for call in waiting {
        assert_eq!(call.finish().status, 200);
    }
}

#[test]
fn the_catalog_is_read_while_calls_hold_every_connection() {
    let shop = Shop::start("max_connections = 1");
    let web = Web::new(&shop.gateway);
    let _sleeper = http::send(
        &shop.gateway.address,
        "POST",
        "/api/sleep",
        &[JSON_BODY],
        r#"{"seconds": 600}"#,
    );
    shop.wait_running("sleep", 1);
    shop.cluster
        .ask("COMMENT ON FUNCTION api.sleep IS '@tool doze'; NOTIFY sentinel_catalog");
    until("the tool has its new name", || {
        let catalog = web.get("/api/catalog").text;
        catalog.contains("\"doze\"").then_some(())
    });
    assert_eq!(shop.running("sleep"), 1, "the call goes on");
}

#[test]
fn a_lock_that_is_not_freed_in_time_is_a_conflict() {
    let shop = Shop::start("lock_timeout = 0.1");
    let _holder = shop
        .cluster
        .hold("BEGIN; UPDATE data.accounts SET balance = balance WHERE id = 1;");
    let answer = Web::new(&shop.gateway).post("/api/touch", &json!({"account": 1}));
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
}

/// P-R01, P-R03: a restart of the database fails calls clearly, and nothing has to be restarted after it.
#[test]
fn p_r03_calls_during_a_restart_of_the_database_fail_clearly_and_then_recover() {
    let mut shop = Shop::start("");
    let address = shop.gateway.address.clone();
    let credential = member("ann", "acme");
    let call = move || {
        Web::at(&address)
            .bearing(&credential)
            .post("/api/list_orders", &json!({}))
    };
    let stop = std::sync::atomic::AtomicBool::new(false);
    let statuses = thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| {
                let (call, stop) = (call.clone(), &stop);
                scope.spawn(move || {
                    let mut seen = Vec::new();
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        let began = Instant::now();
                        let answer = call();
                        let code = match answer.status {
                            200 => String::new(),
                            _ => answer.json()["code"]
                                .as_str()
                                .unwrap_or_default()
                                .to_owned(),
                        };
                        seen.push((answer.status, code, began.elapsed()));
                    }
                    seen
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(300));
        shop.cluster.stop();
        thread::sleep(Duration::from_millis(500));
        shop.cluster.resume();
        until("calls are answered again", || {
            (call().status == 200).then_some(())
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        callers
            .into_iter()
            .flat_map(|caller| caller.join().expect("no panic"))
            .collect::<Vec<_>>()
    });
    let good = statuses
        .iter()
        .filter(|(status, ..)| *status == 200)
        .count();
    let failed: Vec<_> = statuses
        .iter()
        .filter(|(status, ..)| *status != 200)
        .collect();
    println!(
        "a restart under load: {good} calls answered, {} failed",
        failed.len()
    );
    assert!(good > 0 && !failed.is_empty());
    for (status, code, took) in failed {
        assert!(matches!(status, 502 | 503), "{status} {code}");
        assert!(
            ["backend_unavailable", "circuit_open"].contains(&code.as_str()),
            "{status} {code}"
        );
        assert!(*took < PATIENCE, "{took:?}");
    }
}

/// A failover: of two hosts the one that takes writes is used, without a restart.
#[test]
fn p_r03_a_failover_is_followed() {
    let (first, second) = (Cluster::start(), Cluster::start());
    for cluster in [&first, &second] {
        cluster.run(include_str!("shop.sql"));
    }
    let demote = |cluster: &Cluster, on: &str| {
        cluster.ask(&format!(
            "BEGIN READ WRITE; ALTER DATABASE postgres SET default_transaction_read_only = {on}; COMMIT"
        ));
        cluster.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gateway'",
        );
    };
    demote(&second, "on");
    let hosts = format!("{},{}", first.address(), second.address());
    let url =
        login_url(&first).replace(&first.address(), &hosts) + "?target_session_attrs=read-write";
    let gateway = gateway_of(&url, crate::support::shop::AUTH, "");
    let web = Web::new(&gateway).bearing(&member("ann", "acme"));
    let place = || web.post("/api/place_order", &json!({"item": "tea", "amount": 1}));
    assert_eq!(place().status, 200);
    demote(&first, "on");
    demote(&second, "off");
    until("writes go to the other", || {
        (place().status == 200).then_some(())
    });
    assert_ne!(
        second.ask("SELECT count(*) FROM data.orders WHERE item = 'tea'"),
        "0"
    );
}

/// Calls that may not be made again are not: a connection that broke says nothing about its transaction.
#[test]
fn p_r02_a_transaction_whose_connection_broke_is_not_made_again() {
    let shop = Shop::start("");
    let address = shop.gateway.address.clone();
    let sent = http::send(
        &address,
        "POST",
        "/api/sleep",
        &[JSON_BODY],
        r#"{"seconds": 60}"#,
    );
    shop.wait_running("sleep", 1);
    shop.cluster.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%sleep%' AND usename = 'gateway'");
    let answer = sent.finish();
    assert!(matches!(answer.status, 502 | 503), "{answer:?}");
    assert_eq!(shop.running("sleep"), 0);
}

/// Read-only operations go to the standby while there is one; what writes, and what a standby cannot do, does not.
#[test]
fn read_only_operations_go_to_a_standby_while_it_can_be_reached() {
    let (primary, mut standby) = (Cluster::start(), Cluster::start());
    for cluster in [&primary, &standby] {
        cluster.run(include_str!("shop.sql"));
    }
    standby.ask("ALTER ROLE gateway SET default_transaction_read_only = on");
    let (url, replicas) = (login_url(&primary), login_url(&standby));
    let config = format!(
        "{}\n[[backends]]\nname = \"shop\"\ntype = \"postgres\"\nurl_env = \"SHOP_DATABASE_URL\"\nreplicas_env = \"SHOP_REPLICAS_URL\"\n",
        crate::support::shop::AUTH
    );
    let env = [
        ("SHOP_DATABASE_URL", url.as_str()),
        ("SHOP_REPLICAS_URL", replicas.as_str()),
    ];
    let gateway = Gateway::start_in(Setup::with_env(&config, &env));
    gateway.wait_ready();
    let web = Web::new(&gateway);
    let port = |tool: &str| {
        let answer = web.post(&format!("/api/{tool}"), &json!({}));
        assert_eq!(answer.status, 200, "{answer:?}");
        format!("127.0.0.1:{}", answer.json()["result"])
    };
    assert_eq!(port("port"), standby.address());
    assert_eq!(port("port_for_writing"), primary.address());
    assert_eq!(port("port_serializable"), primary.address());
    standby.stop();
    until("the primary takes what the standby did", || {
        let answer = web.post("/api/port", &json!({}));
        (answer.status == 200).then(|| {
            assert!(
                primary
                    .address()
                    .ends_with(&answer.json()["result"].to_string())
            )
        })
    });
    standby.resume();
    until("the standby is used again", || {
        (port("port") == standby.address()).then_some(())
    });
}
