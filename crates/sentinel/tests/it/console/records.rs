//! Records for those who look: filters, the tail, the export and the verification, on SQLite and on PostgreSQL.

use std::collections::{HashMap, HashSet};
use std::thread;

use sentinel_stores::rusqlite::Connection;
use serde_json::{Value, json};

use super::live::{event, open};
use crate::support::callers::{Caller, Modern};
use crate::support::http::parse;
use crate::support::records::{export, with_backend, with_postgres};
use crate::support::setup::{Gateway, until};
use crate::support::web::Web;

const REDACTED: &str = "[audit]\narguments = \"redacted\"";

/// The records of a search.
fn search(web: &Web, query: &str) -> Vec<Value> {
    let answer = web.get(&format!("/admin/api/audit?{query}"));
    assert_eq!(answer.status, 200, "{query}: {answer:?}");
    answer.json()["records"]
        .as_array()
        .expect("records")
        .clone()
}

fn operations(records: &[Value]) -> Vec<&str> {
    let mut names: Vec<&str> = records
        .iter()
        .map(|record| record["operation"].as_str().expect("text"))
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn filters_find_records_in_sqlite() {
    let (_server, gateway) = with_backend(REDACTED, "");
    filters(&gateway);
}

#[test]
fn filters_find_records_in_postgresql() {
    let (_cluster, _server, gateway) = with_postgres(REDACTED);
    filters(&gateway);
}

fn filters(gateway: &Gateway) {
    let web = Web::new(gateway);
    let caller = Modern::new(gateway, "/mcp");
    caller.call("echo", json!({"text": "a Needle", "password": "hunter2"}));
    caller.call("slow", json!({"ms": 500}));
    caller.call("fail", json!({"text": "no"}));
    caller.call("no-such-tool", json!({}));
    web.post("/api/echo", &json!({"text": "b"}));
    until("all five calls are in the store", || {
        (search(&web, "method=tools/call").len() == 5).then_some(())
    });
    for (query, expected) in [
        ("text=nEEDLE", vec!["echo"]),
        ("text=such", vec!["no-such-tool"]),
        ("text=LOCAL&method=tools/call&surface=rest", vec!["echo"]),
        // Neither what was redacted is found, nor the word that stands for it.
        ("text=hunter2", vec![]),
        ("text=redacted", vec![]),
        ("text=%25", vec![]),
        (
            "failed=true&method=tools/call",
            vec!["fail", "no-such-tool"],
        ),
        ("kind=unknown_name", vec!["no-such-tool"]),
        ("slower_than_ms=499&method=tools/call", vec!["slow"]),
        ("slower_than_ms=3600000", vec![]),
        ("surface=rest", vec!["echo"]),
        ("role=nobody", vec![]),
        ("tenant=acme", vec![]),
    ] {
        assert_eq!(operations(&search(&web, query)), expected, "{query}");
    }
    let kept = &search(&web, "text=needle")[0]["args"];
    assert_eq!(kept, &json!({"text": "a Needle", "password": "[redacted]"}));
}

/// The texts of the records of a tail, until there are so many.
fn tail(stream: &mut crate::support::http::Stream, len: usize) -> Vec<Value> {
    let mut records = Vec::new();
    while records.len() < len {
        let (name, data) = event(stream);
        assert_eq!(name, "record", "{data}");
        records.push(data);
    }
    records
}

#[test]
fn the_tail_follows_sqlite() {
    let (_server, gateway) = with_backend("", "");
    follow(&gateway);
}

#[test]
fn the_tail_follows_postgresql() {
    let (_cluster, _server, gateway) = with_postgres("");
    follow(&gateway);
}

/// A thousand records within about a second come once each, and those of each lane in their order.
fn follow(gateway: &Gateway) {
    const CALLERS: usize = 4;
    const EACH: usize = 250;
    let web = Web::new(gateway);
    Modern::new(gateway, "/mcp").said("echo", json!({"text": "before"}));
    until("it is in the store", || {
        (!search(&web, "tool=echo").is_empty()).then_some(())
    });
    let mut all = open(&web, "audit/live?method=tools/list");
    let mut failed = open(&web, "audit/live?failed=true&method=tools/call");
    thread::scope(|scope| {
        for n in 0..CALLERS {
            scope.spawn(move || {
                let caller = Modern::new(gateway, "/mcp");
                for at in 0..EACH {
                    let id = json!(format!("{n}-{at}"));
                    caller.send_as(&id, "tools/list", json!({})).finish();
                }
            });
        }
    });
    let caller = Modern::new(gateway, "/mcp");
    caller.said("echo", json!({"text": "fine"}));
    caller.call("fail", json!({"text": "no"}));
    assert_eq!(tail(&mut failed, 1)[0]["operation"], "fail");
    let (mut ids, mut lanes) = (HashSet::new(), HashMap::new());
    for record in tail(&mut all, CALLERS * EACH) {
        let seq = record["seq"].as_u64().expect("a number");
        let before = lanes.insert(record["lane"].to_string(), seq);
        assert!(before < Some(seq), "{before:?}: {record}");
        ids.insert(record["request_id"].to_string());
    }
    assert_eq!(ids.len(), CALLERS * EACH);
}

/// More comes at once than is shown: the rest is counted, and the tail goes on with what comes next.
#[test]
fn a_tail_says_how_many_records_it_left_out() {
    /// More than are sent before what was found is stale.
    const FLOOD: u64 = 20_000;
    let (cluster, _server, gateway) = with_postgres("");
    let web = Web::new(&gateway);
    let mut stream = open(&web, "audit/live?caller=flood");
    let flood = |node: &str, len: u64| {
        let sql = format!(
            "INSERT INTO audit SELECT '{node}', 2, n, 1, '', 'http', '', 'flood', '', '', '', '', '',
                 'allow', 'success', '', 0, 0, 0, NULL, NULL, 0, 'spool', 0, '' FROM generate_series(1, {len}) n"
        );
        cluster.run(&sql);
    };
    flood("x", FLOOD);
    let mut shown = 0;
    let skipped = loop {
        let (name, data) = event(&mut stream);
        match name.as_str() {
            "record" => {
                shown += 1;
                assert_eq!(data["seq"], shown);
            }
            _ => break data["n"].as_u64().expect("a number"),
        }
    };
    assert_eq!(shown + skipped, FLOOD);
    assert!(shown > 0, "{shown}");
    flood("y", 1);
    let (name, data) = event(&mut stream);
    assert_eq!((name.as_str(), &data["node"]), ("record", &json!("y")));
}

#[test]
fn an_export_has_every_record_on_sqlite() {
    let (_server, gateway) = with_backend("", "");
    exports(gateway);
}

#[test]
fn an_export_has_every_record_on_postgresql() {
    let (_cluster, _server, gateway) = with_postgres("");
    exports(gateway);
}

fn exports(gateway: Gateway) {
    let web = Web::new(&gateway);
    let caller = Modern::new(&gateway, "/mcp");
    for n in 0..30 {
        caller.said("echo", json!({"text": n.to_string()}));
    }
    until("all calls are in the store", || {
        (search(&web, "tool=echo").len() == 30).then_some(())
    });
    let lines = |query: &str| -> Vec<Value> {
        let answer = web.get(&format!("/admin/api/audit/export?{query}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), "application/x-ndjson");
        answer.text.lines().map(parse).collect()
    };
    let echoes = lines("tool=echo");
    assert_eq!(echoes.len(), 30);
    assert_eq!(lines("tool=echo&limit=7"), echoes[..7]);
    assert_eq!(lines("tool=nothing"), Vec::<Value>::new());
    let refused = web.get("/admin/api/audit/export?limit=0");
    assert_eq!(refused.status, 400, "{refused:?}");
    // The same as the command says.
    let told = export(&gateway.end());
    let told = told
        .into_iter()
        .filter(|record| record["operation"] == "echo");
    assert_eq!(told.collect::<Vec<_>>(), echoes);
}

#[test]
fn a_verification_names_an_altered_record_in_sqlite() {
    let (_server, gateway) = with_backend("", "");
    let file = gateway.setup.data().join("sentinel.db");
    verification(&gateway, |sql| {
        let store = Connection::open(&file).expect("a database");
        store.execute_batch(sql).expect("a statement");
    });
}

#[test]
fn a_verification_names_an_altered_record_in_postgresql() {
    let (cluster, _server, gateway) = with_postgres("");
    verification(&gateway, |sql| cluster.run(sql));
}

fn verification(gateway: &Gateway, tamper: impl Fn(&str)) {
    let web = Web::new(gateway);
    Modern::new(gateway, "/mcp").said("echo", json!({"text": "a"}));
    until("it is in the store", || {
        (!search(&web, "tool=echo").is_empty()).then_some(())
    });
    let verify = || {
        let answer = web.post("/admin/api/audit/verify", &json!({}));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let sound = verify();
    assert_eq!(
        (&sound["ok"], &sound["broken"]),
        (&json!(true), &Value::Null),
        "{sound}"
    );
    assert!(sound["records"].as_u64() > Some(0) && sound["lanes"].as_u64() > Some(0));
    tamper("UPDATE audit SET caller = 'eve' WHERE operation = 'echo'");
    let broken = verify();
    assert_eq!(
        (&broken["ok"], &broken["broken_lanes"]),
        (&json!(false), &json!(1))
    );
    let altered = &search(&web, "tool=echo")[0];
    let member = |name: &str| altered[name].to_string().replace('"', "");
    let key = ["node", "lane", "seq"].map(member).join(".");
    assert_eq!(broken["broken"]["key"], key.as_str(), "{broken}");
    // Another page cannot have it made.
    let form = web
        .send("POST", "/admin/api/audit/verify", &[], "")
        .finish();
    assert_eq!(form.status, 415, "{form:?}");
}
