//! Tables and views as operations: conditions, order, pages, and who sees which rows.

use serde_json::{Value, json};

use crate::support::shop::{Shop, member, tenants};
use crate::support::web::Web;

const MORE: &str = "
    CREATE TYPE data.state AS ENUM ('new', 'paid', 'sent');
    CREATE TABLE data.parcels (
        id int PRIMARY KEY, weight numeric, state data.state, sent_at timestamptz, label text NOT NULL, raw bytea, extra jsonb,
        parts int[]
    );
    COMMENT ON TABLE data.parcels IS 'What leaves the warehouse.';
    COMMENT ON COLUMN data.parcels.weight IS 'In kilograms.';
    INSERT INTO data.parcels
        SELECT n, CASE WHEN n % 3 > 0 THEN n / 4.0 END, (ARRAY['new', 'paid', 'sent']::data.state[])[n % 3 + 1],
            CASE WHEN n % 2 = 0 THEN timestamptz '2026-01-01 00:00Z' + n * interval '1 hour' END, 'label ' || (n % 7),
            '\\x00ff', jsonb_build_object('n', n), ARRAY[n, NULL]
        FROM generate_series(1, 250) n;
    CREATE VIEW data.heavy AS SELECT id, weight FROM data.parcels WHERE weight > 60;
    CREATE TABLE data.prices (id int PRIMARY KEY, \"price$1\" int, said json);
    INSERT INTO data.prices VALUES (1, 5, E'{\\n\"type\":\"result\"\\n}');
    GRANT SELECT ON data.prices TO gateway;
    CREATE TABLE data.hidden (id int PRIMARY KEY, secret text);
    GRANT SELECT ON data.parcels, data.heavy TO gateway;
";

const SELECT: &str = "select = [\"data.orders\", \"data.p*\", \"data.heavy\", \"data.hidden\"]";

fn shop() -> Shop {
    let shop = Shop::start("");
    shop.cluster.run(MORE);
    shop
}

/// A shop whose tables are offered, and a caller.
fn with_tables() -> (Shop, Web) {
    let Shop { gateway, cluster } = shop();
    let url = crate::support::shop::login_url(&cluster);
    drop(gateway);
    let gateway = crate::support::shop::gateway_of(&url, crate::support::shop::AUTH, SELECT);
    let web = Web::new(&gateway).bearing(&member("ann", "acme"));
    (Shop { gateway, cluster }, web)
}

#[track_caller]
fn ids(answer: &Value) -> Vec<i64> {
    let rows = answer["rows"]
        .as_array()
        .unwrap_or_else(|| panic!("no rows: {answer}"));
    rows.iter()
        .map(|row| row["id"].as_i64().expect("an id"))
        .collect()
}

#[test]
fn d_6_tables_are_offered_as_configured_and_rows_as_the_database_allows() {
    let (shop, web) = with_tables();
    let mut names: Vec<String> = web.get("/api/catalog").json()["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
        .filter(|name| name.starts_with("select_"))
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "select_data_heavy",
            "select_data_orders",
            "select_data_parcels",
            "select_data_prices"
        ],
        "{names:?}"
    );
    let notices = shop.gateway.setup.log();
    assert!(
        notices.contains("data.hidden"),
        "what the login may not read is said: {notices}"
    );
    let mine = web.post("/api/select_data_orders", &json!({})).json();
    assert_eq!(tenants(&mine), ["acme"]);
    let nobody = Web::new(&shop.gateway)
        .post("/api/select_data_orders", &json!({}))
        .json();
    assert_eq!(nobody["rows"], json!([]));
    let one = web
        .post("/api/select_data_parcels", &json!({"where": {"id": 2}}))
        .json();
    assert_eq!(
        one["rows"][0],
        json!({"id": 2, "weight": 0.5, "state": "sent", "sent_at": "2026-01-01T02:00:00+00:00", "label": "label 2",
               "raw": "AP8=", "extra": {"n": 2}, "parts": [2, null]})
    );
    let by_query = web
        .get("/api/select_data_parcels?limit=3&columns=id")
        .json();
    assert_eq!(
        by_query["rows"],
        json!([{"id": 1}, {"id": 2}, {"id": 3}]),
        "{by_query}"
    );
}

#[test]
fn conditions_select_what_they_say() {
    let (_shop, web) = with_tables();
    let select = |arguments: Value| {
        let answer = web.post("/api/select_data_parcels", &arguments);
        assert_eq!(answer.status, 200, "{arguments}: {answer:?}");
        ids(&answer.json())
    };
    for (condition, wanted) in [
        (json!({"id": {"gt": 3, "lte": 5}}), vec![4, 5]),
        (json!({"id": {"in": [7, 9, 700]}}), vec![7, 9]),
        (json!({"state": "new", "id": {"lt": 8}}), vec![3, 6]),
        (json!({"weight": null, "id": {"lt": 8}}), vec![3, 6]),
        (
            json!({"weight": {"is_null": false}, "id": {"lt": 4}}),
            vec![1, 2],
        ),
        (
            json!({"label": {"like": "%3"}, "id": {"lt": 12}}),
            vec![3, 10],
        ),
        (
            json!({"label": {"ilike": "LABEL 3"}, "id": {"lt": 4}}),
            vec![3],
        ),
        (json!({"state": {"ne": "new"}, "id": {"lt": 4}}), vec![1, 2]),
        (
            json!({"sent_at": {"gte": "2026-01-11T09:00:00+00:00"}, "id": {"lt": 249}}),
            vec![],
        ),
        (json!({"extra": {"is_null": true}}), vec![]),
        (json!({"raw": "AP8=", "id": {"lt": 3}}), vec![1, 2]),
        (json!({"raw": {"ne": "AP8="}}), vec![]),
        (json!({"raw": {"in": ["AA==", "AP8="]}, "id": 4}), vec![4]),
        (json!({"label": "'; DROP TABLE data.parcels; --"}), vec![]),
    ] {
        assert_eq!(select(json!({"where": condition})), wanted, "{condition}");
    }
    assert_eq!(select(json!({"order": ["-id"], "limit": 2})), [250, 249]);
    for refused in [
        json!({"where": {"nothing": 1}}),
        json!({"where": {"id": {"equals": 1}}}),
        json!({"where": {"id\" = 1 OR \"id": 1}}),
        json!({"where": {"parts": {"eq": [1]}}}),
        json!({"order": ["id; DROP TABLE data.parcels"]}),
        json!({"columns": ["xmin"]}),
        json!({"where": {"label": {"like": "\\"}}}),
        json!({"where": {"extra": {"is_null": 1}}}),
        json!({"limit": 0}),
        json!({"limit": 1_000_000}),
        json!({"after": "x"}),
    ] {
        let answer = web.post("/api/select_data_parcels", &refused);
        assert!(matches!(answer.status, 400 | 422), "{refused}: {answer:?}");
    }
}

/// Each row once, whatever the order, with nulls in it and rows that come and go meanwhile.
#[test]
fn pages_by_key_show_each_row_once() {
    let (shop, web) = with_tables();
    for order in [
        json!([]),
        json!(["label"]),
        json!(["-weight"]),
        json!(["weight", "-state"]),
        json!(["-sent_at", "label"]),
    ] {
        let mut seen = Vec::new();
        let mut after = Value::Null;
        loop {
            let arguments = json!({"order": order, "limit": 40, "after": after, "columns": ["id"]});
            let answer = web.post("/api/select_data_parcels", &arguments);
            assert_eq!(answer.status, 200, "{answer:?}");
            let page = answer.json();
            seen.extend(ids(&page));
            after = page["next"].clone();
            assert_eq!(page["truncated"], after.is_string(), "{page}");
            if after.is_null() {
                break;
            }
            shop.cluster
                .ask("UPDATE data.parcels SET extra = NULL WHERE id = 1");
        }
        let by = match order.as_array().map(Vec::as_slice) {
            Some([]) => "id".to_owned(),
            Some(names) => {
                let names = names.iter().filter_map(Value::as_str);
                let sql = names.map(|name| match name.strip_prefix('-') {
                    Some(name) => format!("{name} DESC"),
                    None => name.to_owned(),
                });
                sql.chain(["id".to_owned()]).collect::<Vec<_>>().join(", ")
            }
            None => unreachable!("an array"),
        };
        let sql = format!("SELECT string_agg(id::text, ',' ORDER BY {by}) FROM data.parcels");
        let wanted = shop.cluster.ask(&sql);
        let seen: Vec<String> = seen.iter().map(i64::to_string).collect();
        assert_eq!(seen.join(","), wanted, "{order}");
    }
    let cursor = web
        .post(
            "/api/select_data_parcels",
            &json!({"limit": 1, "order": ["label"]}),
        )
        .json()["next"]
        .clone();
    let other = web.post("/api/select_data_parcels", &json!({"after": cursor}));
    assert_eq!(other.status, 400, "a cursor of another order: {other:?}");
    let heavy = web
        .post("/api/select_data_heavy", &json!({"limit": 1}))
        .json();
    assert_eq!(
        (&heavy["truncated"], heavy.get("next")),
        (&json!(true), None),
        "a view has no key: {heavy}"
    );
}

#[test]
fn rows_of_a_table_stream_and_indexes_serve_their_pages() {
    let (shop, web) = with_tables();
    let lines = [("Accept", "application/x-ndjson")];
    let all = web.post_with(
        "/api/select_data_parcels",
        &json!({"columns": ["id"]}),
        &lines,
    );
    let rows = all
        .text
        .lines()
        .filter(|line| line.contains(r#""type":"row""#))
        .count();
    assert_eq!(
        rows,
        250,
        "a stream has no page: {}",
        all.text.lines().last().unwrap_or_default()
    );
    // What the gateway sends, as the server plans it.
    shop.cluster.run(
        "CREATE TABLE data.big AS SELECT n AS id FROM generate_series(1, 200000) n; ALTER TABLE data.big ADD PRIMARY KEY (id); ANALYZE data.big;",
    );
    let plan = shop.cluster.ask(
        "PREPARE page(json) AS SELECT t.id FROM data.big AS t WHERE t.id > (SELECT v.v0 FROM \
         pg_catalog.json_to_record($1) AS v(v0 pg_catalog.int4)) ORDER BY t.id LIMIT 41; \
         EXPLAIN EXECUTE page('{\"v0\": 100000}')",
    );
    assert!(
        plan.contains("Index Only Scan") && !plan.contains("Sort"),
        "{plan}"
    );
}

#[test]
fn names_and_values_of_any_kind_make_whole_statements_and_whole_lines() {
    let (_shop, web) = with_tables();
    let all = web.post(
        "/api/select_data_prices",
        &json!({"columns": ["id", "price$1"]}),
    );
    assert_eq!(
        all.json()["rows"],
        json!([{"id": 1, "price$1": 5}]),
        "{all:?}"
    );
    // Arguments are checked by the schema, which a column without an order must not spoil.
    for unfit in [
        json!({"where": {"said": {"is_null": 1}}}),
        json!({"limit": 0}),
    ] {
        let answer = web.post("/api/select_data_prices", &unfit);
        assert_eq!(
            answer.json()["code"],
            "invalid_arguments",
            "{unfit}: {answer:?}"
        );
    }
    let lines = [("Accept", "application/x-ndjson")];
    let streamed = web.post_with("/api/select_data_prices", &json!({}), &lines);
    let kinds: Vec<Value> = streamed
        .text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a whole line")["type"].clone())
        .collect();
    assert_eq!(kinds, ["row", "result"], "{streamed:?}");
}
