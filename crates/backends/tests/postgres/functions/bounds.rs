//! More functions, tables and handlers than are offered: what stays, and what is said of the rest.

use std::time::Duration;

use sentinel_backends::postgres::inspect;
use sentinel_config::Expose;
use sentinel_core::ItemKind;

use crate::gateway::{TestGateway, gateway, settings};

/// Functions that are offered at most.
const MOST: usize = 5000;

/// Functions `{name}_1` and so on, in one statement.
fn functions(name: &str, count: usize) -> String {
    format!(
        "DO $do$ BEGIN FOR n IN 1..{count} LOOP
            EXECUTE format('CREATE FUNCTION api.{name}_%s() RETURNS int LANGUAGE sql AS ''SELECT %s''', n, n);
        END LOOP; END $do$;"
    )
}

fn tools(gateway: &TestGateway) -> usize {
    gateway.items(ItemKind::Tool).len()
}

fn is_told(gateway: &TestGateway, words: &str) -> bool {
    let notices = gateway.backend.status().notices;
    notices.iter().any(|notice| notice.contains(words))
}

#[tokio::test]
async fn functions_beyond_the_bound_are_told_and_take_the_place_of_none() {
    let sql = format!(
        "{} CREATE FUNCTION api.zz(a int) RETURNS int LANGUAGE sql AS 'SELECT a';",
        functions("m", MOST - 1)
    );
    let gateway = gateway(&sql, |settings| settings.expose = Expose::All).await;
    assert_eq!(tools(&gateway), MOST);
    assert_eq!(gateway.backend.status().notices, [""; 0]);
    // Their names come first, and there are as many again.
    gateway
        .cluster
        .ask(&format!("{} NOTIFY sentinel_catalog", functions("a", MOST)));
    let told = "5000 functions of api are left out, for example a_";
    gateway.until(|gateway| is_told(gateway, told)).await;
    assert!(is_told(&gateway, "@ignore"), "how to narrow it");
    assert_eq!(tools(&gateway), MOST);
    assert!(!gateway.has_tool("a_1"));
    let answer = gateway.call("zz", r#"{"a":7}"#).await;
    assert_eq!(answer.unwrap(), r#"{"result":7}"#);
    // One that is made anew is the youngest now, and still the one that is offered.
    gateway.cluster.ask(
        "DROP FUNCTION api.zz; CREATE FUNCTION api.zz(b int) RETURNS int LANGUAGE sql AS 'SELECT b'; NOTIFY sentinel_catalog",
    );
    gateway
        .until(|gateway| {
            gateway.item(ItemKind::Tool, "zz")["inputSchema"]["properties"]["b"].is_object()
        })
        .await;
    // `pg check` looks at it as a new gateway does.
    let mut own = settings(&gateway.cluster);
    own.expose = Expose::All;
    let report = inspect(&own, "db", Duration::from_secs(20)).await.unwrap();
    assert!(
        report.left_out[0].contains("5000 functions of api are left out"),
        "{:?}",
        report.left_out
    );
    assert_eq!(report.operations.len(), MOST);
    // What nobody wants leaves places to others.
    gateway.cluster.ask(
        "DO $do$ BEGIN FOR n IN 1..4999 LOOP
            EXECUTE format('COMMENT ON FUNCTION api.m_%s IS ''Not this one.\n@ignore''', n);
        END LOOP; END $do$; NOTIFY sentinel_catalog",
    );
    gateway
        .until(|gateway| is_told(gateway, "1 functions of api are left out"))
        .await;
    assert!(gateway.has_tool("zz") && !gateway.has_tool("m_1"));
}

#[tokio::test]
async fn functions_that_are_not_wanted_do_not_count() {
    let sql = format!(
        "{} CREATE FUNCTION api.zz(a int) RETURNS int LANGUAGE sql AS 'SELECT a'; COMMENT ON FUNCTION api.zz IS '@tool';",
        functions("a", 2 * MOST)
    );
    let gateway = gateway(&sql, |_| {}).await;
    assert_eq!(gateway.backend.status().notices, [""; 0]);
    assert_eq!(tools(&gateway), 1);
    assert!(gateway.has_tool("zz"));
}

#[tokio::test]
async fn tables_beyond_the_bound_are_told_and_take_the_place_of_none() {
    let tables = |name: &str, count: usize| {
        format!(
            "DO $do$ BEGIN FOR n IN 1..{count} LOOP
                EXECUTE format('CREATE TABLE api.{name}_%s (id int)', n);
                EXECUTE format('GRANT SELECT ON api.{name}_%s TO gateway', n);
            END LOOP; END $do$;"
        )
    };
    let sql = format!(
        "CREATE TABLE api.\"z.z*\" (id int); GRANT SELECT ON api.\"z.z*\" TO gateway; {}",
        tables("b", 999)
    );
    let gateway = gateway(&sql, |settings| {
        settings.select = vec!["b_*".to_owned(), "*.z.z*".to_owned(), "a_*".to_owned()];
    })
    .await;
    assert!(is_told(&gateway, "`a_*` is no table"));
    assert_eq!(tools(&gateway), 1000);
    gateway
        .cluster
        .ask(&format!("{} NOTIFY sentinel_catalog", tables("a", 10)));
    gateway
        .until(|gateway| is_told(gateway, "10 of 1010 tables and views are left out"))
        .await;
    assert_eq!(tools(&gateway), 1000);
    assert!(gateway.has_tool("select_z.z*") && !gateway.has_tool("select_a_1"));
}
