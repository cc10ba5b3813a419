//! Which functions are operations, and how the catalog follows the database.

use std::time::Duration;

use sentinel_config::Expose;
use sentinel_core::{Health, ItemKind, Kind, Reach, Route, RouteKind};
use serde_json::json;

use crate::gateway::gateway;

const ORDERS: &str = r#"
CREATE DOMAIN api.quantity AS int CHECK (VALUE > 0 AND VALUE <= 100);
CREATE TYPE api.size AS ENUM ('s', 'm');
CREATE TYPE api.item AS (sku text, quantity api.quantity);
COMMENT ON COLUMN api.item.sku IS 'article number';
CREATE TABLE api.orders (id bigint PRIMARY KEY, total numeric(10,2) NOT NULL, at timestamptz);
GRANT ALL ON api.orders TO gateway;
CREATE FUNCTION api.add_order(customer uuid, items api.item[], size api.size DEFAULT 'm', note varchar DEFAULT NULL, tenant text DEFAULT '')
    RETURNS api.orders LANGUAGE sql AS $$SELECT 1::bigint, 2.5, pg_catalog.now()$$;
COMMENT ON FUNCTION api.add_order IS 'Places an order.

It is paid later.
@tool place_order
@title Place an order
@tags shop, orders
@param customer who orders
  and pays
@bind tenant auth.tenant_id
@destructive false
@idempotent
@route POST /orders';
CREATE FUNCTION api.order(id bigint) RETURNS SETOF api.orders LANGUAGE sql STABLE STRICT AS 'SELECT * FROM api.orders o WHERE o.id = $1';
COMMENT ON FUNCTION api.order IS '@route GET /orders/{id}';
CREATE FUNCTION api.last_order() RETURNS json LANGUAGE sql STABLE AS $$SELECT '1'::json$$;
COMMENT ON FUNCTION api.last_order IS '@route GET /orders/last
@tool';
"#;

#[tokio::test]
async fn a_function_and_its_comment_become_a_definition() {
    let gateway = gateway(ORDERS, |_| {}).await;
    assert_eq!(gateway.backend.status().notices, Vec::<String>::new());
    let number = json!({"type": ["number", "string", "null"], "description":
        "exact decimal of 10 digits, 2 after the point; long ones and NaN as strings"});
    let order = json!({"type": "object", "properties": {
        "id": {"type": ["integer", "null"], "minimum": i64::MIN, "maximum": i64::MAX},
        "total": number,
        "at": {"type": ["string", "null"], "format": "date-time"},
    }, "required": ["id", "total", "at"], "additionalProperties": false});
    let wanted = json!({
        "name": "place_order",
        "title": "Place an order",
        "description": "Places an order.\n\nIt is paid later.",
        "inputSchema": {"type": "object", "properties": {
            "customer": {"type": ["string", "null"], "format": "uuid", "description": "who orders and pays"},
            "items": {"type": ["array", "null"], "items": {"type": ["object", "array", "null"], "properties": {
                "sku": {"type": ["string", "null"], "description": "article number"},
                "quantity": {"type": ["integer", "null"], "exclusiveMinimum": 0, "maximum": 100},
            }, "additionalProperties": false}},
            "size": {"type": "string", "enum": ["s", "m"], "default": "m"},
            "note": {"type": ["string", "null"]},
        }, "required": ["customer", "items"], "additionalProperties": false},
        "outputSchema": order,
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false},
        "_meta": {"tags": ["shop", "orders"]},
    });
    let mut found = gateway.item(ItemKind::Tool, "place_order");
    // Null is a value of the enum, too.
    let size = &mut found["inputSchema"]["properties"]["size"];
    assert_eq!(size["enum"], json!(["s", "m", null]));
    assert_eq!(size["type"], json!(["string", "null"]));
    size["enum"] = json!(["s", "m"]);
    size["type"] = json!("string");
    assert_eq!(found, wanted, "{found:#}");
    let tools = gateway.items(ItemKind::Tool);
    let order = tools.iter().find(|item| item.key == "order").unwrap();
    assert_eq!((order.reach, order.is_read_only), (Reach::ByRoute, true));
    let routes = gateway
        .registry
        .publisher(0)
        .offer()
        .unwrap()
        .routes
        .clone();
    let of = |verb: &str, path: &str| {
        let fits = |route: &Route| match &route.kind {
            RouteKind::Http { pattern, verbs } if verbs.contains(&verb.into()) => {
                Some((route.tool.to_string(), pattern.matches(path)?))
            }
            _ => None,
        };
        routes.iter().find_map(fits)
    };
    assert_eq!(
        of("POST", "/orders"),
        Some(("place_order".to_owned(), vec![]))
    );
    let id = vec![("id".to_owned(), "5".to_owned())];
    assert_eq!(of("GET", "/orders/5"), Some(("order".to_owned(), id)));
    // The longer text comes first.
    assert_eq!(
        of("GET", "/orders/last"),
        Some(("last_order".to_owned(), vec![]))
    );
    assert_eq!(of("DELETE", "/orders/5"), None);
}

/// Functions that are left out, with what the notice says about them.
const LEFT_OUT: &[(&str, &str, &str, &str)] = &[
    (
        "word",
        "(a int) RETURNS int",
        "@tool\n@paramm a x",
        "unknown word @paramm",
    ),
    (
        "twice",
        "(a int) RETURNS int",
        "@tool\n@tool b",
        "says @tool twice",
    ),
    (
        "value",
        "(a int) RETURNS int",
        "@tool\n@timeout soon",
        "500ms, 5s or 2min",
    ),
    (
        "unmarked",
        "(a int) RETURNS int",
        "@read_only",
        "none of @tool",
    ),
    (
        "unnamed",
        "(int) RETURNS int",
        "@tool",
        "a parameter has no name",
    ),
    (
        "poly",
        "(a anyelement) RETURNS int",
        "@tool",
        "pseudo-type anyelement",
    ),
    (
        "records",
        "() RETURNS SETOF record",
        "@tool",
        "returns record without OUT",
    ),
    (
        "no_param",
        "(a int) RETURNS int",
        "@tool\n@param b x",
        "@param b, and that is none of its parameters",
    ),
    (
        "no_bind",
        "(a int) RETURNS int",
        "@tool\n@bind b auth.role",
        "@bind b, and that is none of its parameters",
    ),
    (
        "no_route",
        "(a int) RETURNS int",
        "@route POST /x/{b}",
        "none of its parameters",
    ),
    (
        "bound_route",
        "(a int) RETURNS int",
        "@route POST /x/{a}\n@bind a auth.role",
        "none of its parameters",
    ),
    (
        "get",
        "(a int) RETURNS int",
        "@route GET /x/{a}",
        "for functions that only read",
    ),
    (
        "pattern",
        "(a int) RETURNS int",
        "@route POST /x/{a",
        "a brace has no partner",
    ),
    (
        "uri",
        "(a int, b int) RETURNS int",
        "@resource x://y/{a}",
        "b is needed and not in the URI",
    ),
    (
        "odd name",
        "(a int) RETURNS int",
        "@tool",
        "letters, digits",
    ),
    (
        "waits",
        "(a int) RETURNS int",
        "@tool\n@isolation serializable\n@deferrable",
        "@deferrable is for",
    ),
];

#[tokio::test]
async fn what_cannot_be_offered_is_left_out_with_a_notice() {
    let mut sql = String::from(
        "CREATE FUNCTION api.overloaded(a int) RETURNS int LANGUAGE sql AS 'SELECT 1';
         CREATE FUNCTION api.overloaded(a int, b int DEFAULT 1) RETURNS int LANGUAGE sql AS 'SELECT 1';
         COMMENT ON FUNCTION api.overloaded(int) IS '@tool';
         CREATE FUNCTION api.exact(a int) RETURNS int LANGUAGE sql AS 'SELECT 1';
         CREATE FUNCTION api.exact(a text) RETURNS int LANGUAGE sql AS 'SELECT 2';
         COMMENT ON FUNCTION api.exact(text) IS '@tool';
         CREATE FUNCTION api.secret() RETURNS int LANGUAGE sql AS 'SELECT 1';
         COMMENT ON FUNCTION api.secret() IS '@tool';
         REVOKE EXECUTE ON FUNCTION api.secret() FROM PUBLIC;
         CREATE PROCEDURE api.procedure() LANGUAGE sql AS 'SELECT 1';
         COMMENT ON PROCEDURE api.procedure() IS '@tool';
         CREATE AGGREGATE api.aggregate(int) (SFUNC = int4pl, STYPE = int);
         COMMENT ON AGGREGATE api.aggregate(int) IS '@tool';
         CREATE FUNCTION api.trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         COMMENT ON FUNCTION api.trigger() IS '@tool';
         CREATE FUNCTION api.first_route(a int) RETURNS int LANGUAGE sql AS 'SELECT 1';
         COMMENT ON FUNCTION api.first_route IS '@route POST /twice/{a}';
         CREATE FUNCTION api.second_route(b int) RETURNS int LANGUAGE sql AS 'SELECT 1';
         COMMENT ON FUNCTION api.second_route IS '@route POST /twice/{b}';
         CREATE FUNCTION api.plain() RETURNS int LANGUAGE sql AS 'SELECT 1';",
    );
    for (name, signature, comment, _) in LEFT_OUT {
        sql.push_str(&format!(
            "CREATE FUNCTION api.\"{name}\"{signature} LANGUAGE plpgsql AS 'BEGIN RETURN; END'; COMMENT ON FUNCTION api.\"{name}\" IS '{comment}';"
        ).replace("SETOF record LANGUAGE plpgsql AS 'BEGIN RETURN; END'", "SETOF record LANGUAGE sql AS 'SELECT 1, 2'")
         .replace("RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN; END'", "RETURNS int LANGUAGE sql AS 'SELECT 1'"));
    }
    let gateway = gateway(&sql, |_| {}).await;
    let notices = gateway.backend.status().notices;
    let told = LEFT_OUT.iter().map(|(name, _, _, why)| (*name, *why));
    for (name, why) in told.chain([
        ("overloaded", "another function has its name"),
        ("secret", "may not EXECUTE"),
        ("procedure", "it is a procedure"),
        ("aggregate", "it is an aggregate"),
        ("trigger", "pseudo-type trigger"),
        ("twice/{b}", "never taken"),
    ]) {
        let is_told = notices
            .iter()
            .any(|notice| notice.contains(name) && notice.contains(why));
        assert!(is_told, "{name}: {why}: {notices:#?}");
        assert!(!gateway.has_tool(name), "{name}");
    }
    assert_eq!(
        gateway.call("exact", r#"{"a":"x"}"#).await.unwrap(),
        r#"{"result":2}"#
    );
    assert!(!gateway.has_tool("plain"));
    assert_eq!(notices.len(), LEFT_OUT.len() + 6, "{notices:#?}");
}

#[tokio::test]
async fn all_functions_are_tools_where_that_is_asked_for() {
    let sql = "CREATE FUNCTION api.plain() RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION api.marked() RETURNS int LANGUAGE sql AS 'SELECT 1';
        COMMENT ON FUNCTION api.marked IS '@tool other';
        CREATE FUNCTION api.hidden() RETURNS int LANGUAGE sql AS 'SELECT 1';
        COMMENT ON FUNCTION api.hidden IS '@ignore';
        CREATE FUNCTION api.secret() RETURNS int LANGUAGE sql AS 'SELECT 1';
        REVOKE EXECUTE ON FUNCTION api.secret() FROM PUBLIC;";
    let gateway = gateway(sql, |settings| {
        settings.expose = Expose::All;
        settings.refresh = Duration::from_millis(50);
    })
    .await;
    let names = |gateway: &crate::gateway::TestGateway| {
        let mut names: Vec<String> = gateway
            .items(ItemKind::Tool)
            .into_iter()
            .map(|item| item.key)
            .collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(names(&gateway), "other plain");
    // A new function is found without a notification.
    gateway
        .cluster
        .ask("CREATE FUNCTION api.late() RETURNS int LANGUAGE sql AS 'SELECT 3'");
    gateway
        .until(|gateway| names(gateway) == "late other plain")
        .await;
    assert_eq!(gateway.call("late", "{}").await.unwrap(), r#"{"result":3}"#);
    // Beside a registry's tables, only what is marked.
    gateway.cluster.ask("CREATE TABLE api.handler (id int)");
    gateway.until(|gateway| names(gateway) == "other").await;
}

#[tokio::test]
async fn the_catalog_follows_the_database() {
    let sql = "CREATE FUNCTION api.one(a int) RETURNS int LANGUAGE sql AS 'SELECT a';
        COMMENT ON FUNCTION api.one IS '@tool'";
    let mut gateway = gateway(sql, |_| {}).await;
    assert_eq!(
        gateway.call("one", r#"{"a":1}"#).await.unwrap(),
        r#"{"result":1}"#
    );
    gateway.cluster.ask(
        "DROP FUNCTION api.one;
         CREATE FUNCTION api.one(b text) RETURNS text LANGUAGE sql AS 'SELECT b';
         COMMENT ON FUNCTION api.one IS '@tool'; NOTIFY sentinel_catalog",
    );
    gateway
        .until(|gateway| {
            gateway.item(ItemKind::Tool, "one")["inputSchema"]["properties"]["b"].is_object()
        })
        .await;
    assert_eq!(
        gateway.call("one", r#"{"b":"x"}"#).await.unwrap(),
        r#"{"result":"x"}"#
    );
    // The same signature with another body needs no new catalog, and not even a new statement.
    gateway.cluster.ask(
        "CREATE OR REPLACE FUNCTION api.one(b text) RETURNS text LANGUAGE sql AS 'SELECT b || b'",
    );
    assert_eq!(
        gateway.call("one", r#"{"b":"x"}"#).await.unwrap(),
        r#"{"result":"xx"}"#
    );
    gateway
        .cluster
        .ask("DROP FUNCTION api.one; NOTIFY sentinel_catalog");
    gateway.until(|gateway| !gateway.has_tool("one")).await;
    assert_eq!(
        gateway.refusal("one", r#"{"b":"x"}"#).await,
        Kind::UnknownName
    );
    // A schema that is gone is a notice, and a database that is gone a failure that ends by itself.
    gateway
        .cluster
        .ask("DROP SCHEMA api CASCADE; NOTIFY sentinel_catalog");
    let is_told = |gateway: &crate::gateway::TestGateway| {
        gateway
            .backend
            .status()
            .notices
            .iter()
            .any(|notice| notice.contains("does not exist"))
    };
    gateway.until(is_told).await;
    gateway.cluster.stop();
    assert!(gateway.backend.look().await.is_err());
    gateway.cluster.resume();
    gateway
        .cluster
        .ask("CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO gateway");
    gateway.cluster.ask(sql);
    gateway.backend.look().await.unwrap();
    gateway
        .until(|gateway| gateway.backend.status().health == Health::Up && gateway.has_tool("one"))
        .await;
    assert_eq!(
        gateway.call("one", r#"{"a":1}"#).await.unwrap(),
        r#"{"result":1}"#
    );
}
