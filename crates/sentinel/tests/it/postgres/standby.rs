//! Real standby servers: promoted while calls run, behind the primary, out of reach.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::postgres::Cluster;
use crate::support::setup::{Gateway, PATIENCE, Setup, until};
use crate::support::shop::{AUTH, gateway_of, login_url, member};
use crate::support::web::Web;

/// A primary with the shop, and a standby that follows it.
fn pair() -> (Cluster, Cluster) {
    let primary = Cluster::start();
    primary.run(include_str!("shop.sql"));
    let standby = primary.standby();
    (primary, standby)
}

/// A gateway that has the standby for what only reads.
fn gateway_with(primary: &Cluster, replicas: &str, more: &str) -> Gateway {
    let config = format!(
        "{AUTH}\n[[backends]]\nname = \"shop\"\ntype = \"postgres\"\nurl_env = \"SHOP_DATABASE_URL\"\n\
         replicas_env = \"SHOP_REPLICAS_URL\"\n{more}\n"
    );
    let url = login_url(primary);
    let env = [
        ("SHOP_DATABASE_URL", url.as_str()),
        ("SHOP_REPLICAS_URL", replicas),
    ];
    let gateway = Gateway::start_in(Setup::with_env(&config, &env));
    gateway.wait_ready();
    gateway
}

/// The server on which a tool ran.
#[track_caller]
fn server_of(web: &Web, tool: &str) -> String {
    let answer = web.post(&format!("/api/{tool}"), &json!({}));
    assert_eq!(answer.status, 200, "{answer:?}");
    format!("127.0.0.1:{}", answer.json()["result"])
}

/// Waits until the standby has all that the primary has.
fn wait_replayed(primary: &Cluster, standby: &Cluster) {
    let wanted = primary.ask("SELECT pg_current_wal_lsn()");
    until("the standby has it", || {
        let has = standby.ask(&format!(
            "SELECT pg_last_wal_replay_lsn() >= '{wanted}'::pg_lsn"
        ));
        (has == "t").then_some(())
    });
}

/// P-R02, P-R03: the primary dies under load, its standby is promoted, and nothing has to be restarted. What was answered is there,
/// once.
#[test]
fn p_r02_p_r03_a_standby_that_is_promoted_under_load_takes_over() {
    let (mut primary, standby) = pair();
    // What is committed is on the standby.
    primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary.ask("SELECT pg_reload_conf()");
    until("commits wait for the standby", || {
        let count =
            primary.ask("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'");
        (count == "1").then_some(())
    });
    let hosts = format!("{},{}", primary.address(), standby.address());
    let url = login_url(&primary).replace(&primary.address(), &hosts)
        + "?target_session_attrs=read-write";
    let gateway = gateway_of(&url, AUTH, "");
    let (address, credential) = (gateway.address.clone(), member("ann", "acme"));
    let web = || Web::at(&address).bearing(&credential);
    let (stop, next) = (AtomicBool::new(false), AtomicU32::new(0));
    let failures = AtomicU32::new(0);
    let place = || {
        let item = format!("load {}", next.fetch_add(1, Relaxed));
        let began = Instant::now();
        let answer = web().post("/api/place_order", &json!({"item": item, "amount": 1}));
        if answer.status != 200 {
            failures.fetch_add(1, Relaxed);
        }
        (item, answer, began.elapsed())
    };
    let answers = thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = Vec::new();
                    while !stop.load(Relaxed) {
                        seen.push(place());
                    }
                    seen
                })
            })
            .collect();
        until("orders are placed", || {
            (next.load(Relaxed) > 50).then_some(())
        });
        primary.stop();
        until("calls fail", || (failures.load(Relaxed) > 0).then_some(()));
        assert_eq!(standby.ask("SELECT pg_promote()"), "t");
        until("orders are placed again", || {
            (place().1.status == 200).then_some(())
        });
        stop.store(true, Relaxed);
        let seen = callers.into_iter();
        seen.flat_map(|caller| caller.join().expect("no panic"))
            .collect::<Vec<_>>()
    });
    let placed = answers.iter().filter(|(_, answer, _)| answer.status == 200);
    let placed: Vec<&str> = placed.map(|(item, ..)| item.as_str()).collect();
    println!(
        "a promotion under load: {} calls answered, {} failed",
        placed.len(),
        answers.len() - placed.len()
    );
    for (item, answer, took) in &answers {
        assert!(*took < PATIENCE, "{item}: {took:?}");
        if answer.status != 200 {
            assert!(matches!(answer.status, 502 | 503), "{answer:?}");
            let code = answer.json()["code"].clone();
            assert!(
                code == "backend_unavailable" || code == "circuit_open",
                "{answer:?}"
            );
            assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
        }
    }
    let stored = standby.ask("SELECT item FROM data.orders WHERE item LIKE 'load %' ORDER BY item");
    let stored: Vec<&str> = stored.lines().collect();
    let mut once = stored.clone();
    once.dedup();
    assert_eq!(stored, once, "nothing was done twice");
    for item in placed {
        assert!(stored.contains(&item), "{item} was answered and is lost");
    }
}

/// What the standby does not have yet is asked of the primary.
#[test]
fn what_a_standby_does_not_have_yet_is_asked_of_the_primary() {
    let (primary, standby) = pair();
    let gateway = gateway_with(&primary, &login_url(&standby), "select = [\"data.fresh\"]");
    let web = Web::new(&gateway).bearing(&member("ann", "acme"));
    assert_eq!(server_of(&web, "port"), standby.address());
    wait_replayed(&primary, &standby);
    standby.ask("SELECT pg_wal_replay_pause()");
    primary.run(
        "CREATE FUNCTION api.fresh_port() RETURNS int LANGUAGE sql STABLE AS 'SELECT inet_server_port()';
        COMMENT ON FUNCTION api.fresh_port IS '@tool';
        CREATE FUNCTION api.fresh_ports() RETURNS SETOF int LANGUAGE sql STABLE AS 'SELECT inet_server_port()';
        COMMENT ON FUNCTION api.fresh_ports IS '@tool';
        DROP FUNCTION api.port;
        CREATE FUNCTION api.port(plus int DEFAULT 0) RETURNS int LANGUAGE sql STABLE AS 'SELECT inet_server_port()';
        COMMENT ON FUNCTION api.port IS '@tool';
        CREATE TABLE data.fresh (id int PRIMARY KEY); INSERT INTO data.fresh VALUES (7); GRANT SELECT ON data.fresh TO gateway;
        NOTIFY sentinel_catalog;",
    );
    until("the new functions are offered", || {
        let catalog = web.get("/api/catalog").text;
        (catalog.contains("fresh_port") && catalog.contains("select_data_fresh")).then_some(())
    });
    assert_eq!(server_of(&web, "fresh_port"), primary.address());
    let answer = web.post("/api/port", &json!({"plus": 1}));
    assert_eq!(answer.status, 200, "another signature: {answer:?}");
    assert!(
        primary
            .address()
            .ends_with(&answer.json()["result"].to_string())
    );
    let table = web.post("/api/select_data_fresh", &json!({}));
    assert_eq!(table.json()["rows"], json!([{"id": 7}]), "{table:?}");
    let lines = [("Accept", "application/x-ndjson")];
    let streamed = web.post_with("/api/fresh_ports", &json!({}), &lines);
    let first: Value =
        serde_json::from_str(streamed.text.lines().next().expect("a line")).expect("JSON");
    assert!(
        primary.address().ends_with(&first["row"].to_string()),
        "{streamed:?}"
    );
    standby.ask("SELECT pg_wal_replay_resume()");
    wait_replayed(&primary, &standby);
    assert_eq!(server_of(&web, "fresh_port"), standby.address());
}

/// A standby cancels what reads that which its primary removed.
#[test]
fn a_call_that_is_in_the_way_of_a_standby_is_made_on_the_primary() {
    let (primary, standby) = pair();
    standby.ask("ALTER SYSTEM SET max_standby_streaming_delay = 0");
    standby.ask("SELECT pg_reload_conf()");
    primary.run(
        "CREATE FUNCTION api.slow_port() RETURNS int LANGUAGE sql STABLE AS
            'SELECT inet_server_port() FROM data.accounts, pg_sleep(CASE WHEN pg_is_in_recovery() THEN 60 ELSE 0 END) LIMIT 1';
        COMMENT ON FUNCTION api.slow_port IS '@tool';",
    );
    wait_replayed(&primary, &standby);
    let gateway = gateway_with(&primary, &login_url(&standby), "statement_timeout = 60");
    let web = Web::new(&gateway);
    let answer = thread::scope(|scope| {
        let call = scope.spawn(|| web.post("/api/slow_port", &json!({})));
        until("it runs on the standby", || {
            let running = standby.ask(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = 'gateway' AND wait_event = 'PgSleep'",
            );
            (running == "1").then_some(())
        });
        primary.ask("ALTER TABLE data.accounts ADD COLUMN more int");
        call.join().expect("no panic")
    });
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        primary
            .address()
            .ends_with(&answer.json()["result"].to_string())
    );
}

/// One call finds out that no standby answers; the others do not wait for it.
#[test]
fn a_standby_that_does_not_answer_holds_up_no_call_but_the_first() {
    let primary = Cluster::start();
    primary.run(include_str!("shop.sql"));
    let silent = TcpListener::bind("127.0.0.1:0").expect("the system allows it");
    let address = silent.local_addr().expect("an address").to_string();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    thread::spawn(move || {
        // Kept, and never answered.
        let mut kept = Vec::new();
        while let Ok((socket, _)) = silent.accept() {
            kept.push(socket);
            counted.fetch_add(1, Relaxed);
        }
    });
    let replicas = format!("postgres://gateway@{address}/postgres");
    let gateway = gateway_with(&primary, &replicas, "");
    let web = Web::new(&gateway);
    let began = Instant::now();
    assert_eq!(server_of(&web, "port"), primary.address());
    let first = began.elapsed();
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let began = Instant::now();
        assert_eq!(server_of(&web, "port"), primary.address());
        slowest = slowest.max(began.elapsed());
    }
    println!(
        "a silent standby: the first call took {first:?}, the slowest of 20 others {slowest:?}"
    );
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    assert!(asked.load(Relaxed) < 10, "{asked:?} attempts to connect");
    assert!(
        gateway.setup.log().contains("the primary takes the calls"),
        "it is in the log"
    );
}

/// P-S12: a login that bypasses the rules is refused there, too.
#[test]
fn p_s12_a_standby_with_a_login_that_bypasses_row_level_security_is_not_used() {
    let primary = Cluster::start();
    primary.run(include_str!("shop.sql"));
    let gateway = gateway_with(&primary, &primary.url(), "");
    let web = Web::new(&gateway).bearing(&member("ann", "acme"));
    for _ in 0..3 {
        let who = web.post("/api/whoami", &json!({})).json();
        assert_eq!(who["login"], "gateway", "{who}");
    }
    let log = gateway.setup.log();
    let told = log.matches("no standby server can be used").count();
    assert_eq!(told, 1, "{log}");
    assert!(log.contains("is a superuser"), "{log}");
}
