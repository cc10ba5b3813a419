//! `sentinel pg init` and `sentinel pg check` with a real PostgreSQL.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::postgres::Cluster;
use crate::support::setup::{Setup, stdio_backend};

const SHOP: &str = "[auth]\njwt_secret_env = \"JWT_SECRET_KEY\"\n\
    [rbac.roles.buyer]\npermissions = [\"tools.execute\"]\n\
    [rbac.roles.viewer]\npermissions = [\"tools.read\"]\n\
    [[backends]]\nname = \"shop\"\ntype = \"postgres\"\nurl_env = \"SHOP_DATABASE_URL\"\nschema = \"shop_api\"\n";

/// The URL in an export line.
fn exported(line: &str) -> &str {
    let url = line.strip_prefix("export SHOP_DATABASE_URL='");
    url.and_then(|url| url.strip_suffix("'\n"))
        .unwrap_or_else(|| panic!("no export line: {line}"))
}

/// A database with the example in it, and a setup whose gateway uses it.
fn shop() -> (Cluster, Setup) {
    let cluster = Cluster::start();
    let operator = Setup::with_env("", &[("DATABASE_URL", &cluster.url())]);
    let (code, out, err) = operator.sentinel(&["pg", "init", "--apply", "DATABASE_URL"]);
    assert_eq!(code, 0, "{err}");
    let setup = Setup::with_env(SHOP, &[("SHOP_DATABASE_URL", exported(&out))]);
    (cluster, setup)
}

fn check(setup: &Setup) -> (i32, Value) {
    let (code, out, err) = setup.sentinel(&["pg", "check", "--json"]);
    let report = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    (code, report)
}

fn findings(report: &Value) -> Vec<(String, String)> {
    let all = report["backends"][0]["findings"].as_array();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    all.unwrap_or_else(|| panic!("no findings: {report}"))
        .iter()
        .map(|one| (text(&one["rule"]), text(&one["object"])))
        .collect()
}

#[test]
fn nothing_touches_a_database_before_it_is_asked_to() {
    let cluster = Cluster::start();
    let setup = Setup::with_env("", &[("DATABASE_URL", &cluster.url())]);
    let (code, printed, _) = setup.sentinel(&["pg", "init"]);
    assert_eq!(code, 0);
    assert!(printed.contains("FORCE ROW LEVEL SECURITY"), "{printed}");
    assert!(!printed.contains("EVENT TRIGGER"), "{printed}");
    let file = setup.data().with_file_name("shop.sql");
    let path = file.to_str().expect("text");
    let (code, _, err) = setup.sentinel(&["pg", "init", "--event-trigger", "--output", path]);
    assert_eq!(code, 0, "{err}");
    let written = fs::read_to_string(&file).expect("a file");
    assert!(written.starts_with(&printed) && written.contains("EVENT TRIGGER"));
    let (code, _, err) = setup.sentinel(&["pg", "init", "--output", path]);
    assert_eq!(code, 1);
    assert!(err.contains("--force overwrites it"), "{err}");
    assert_eq!(
        cluster.ask("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'shop%'"),
        "0"
    );

    let (code, _, err) = setup.sentinel(&["pg", "init", "--apply", "NOWHERE"]);
    assert_eq!(code, 2, "{err}");
    let setup = Setup::with_env(
        "",
        &[("DATABASE_URL", "postgres://me:hunter2@127.0.0.1:1/x")],
    );
    let (code, out, err) = setup.sentinel(&["pg", "init", "--apply", "DATABASE_URL"]);
    assert_eq!(code, 3, "{err}");
    assert!(!format!("{out}{err}").contains("hunter2"), "{err}");
}

#[test]
fn the_example_may_be_applied_again_and_keeps_its_password() {
    let cluster = Cluster::start();
    let setup = Setup::with_env("", &[("DATABASE_URL", &cluster.url())]);
    let file = setup.data().with_file_name("shop.env");
    let path = file.to_str().expect("text");
    let apply = [
        "pg",
        "init",
        "--apply",
        "DATABASE_URL",
        "--event-trigger",
        "--env-file",
        path,
    ];
    let (code, out, err) = setup.sentinel(&apply);
    assert_eq!((code, &*out), (0, ""), "{err}");
    let mode = fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let line = fs::read_to_string(&file).expect("a file");
    assert!(
        exported(&line).starts_with("postgres://shop_gateway:"),
        "{line}"
    );
    let kept = "SELECT rolpassword FROM pg_authid WHERE rolname = 'shop_gateway'";
    let before = cluster.ask(kept);
    assert!(before.starts_with("SCRAM-SHA-256$4096:"), "{before}");

    let rows = "SELECT (SELECT count(*) FROM shop.purchase), (SELECT sum(stock) FROM shop.product)";
    assert_eq!(cluster.ask(rows), "3|55");
    let (code, out, err) =
        setup.sentinel(&["pg", "init", "--apply", "DATABASE_URL", "--event-trigger"]);
    assert_eq!((code, &*out), (0, ""), "{err}");
    assert!(err.contains("keeps its password"), "{err}");
    assert_eq!(
        (cluster.ask(kept), &*cluster.ask(rows)),
        (before.clone(), "3|55")
    );
    let again = ["pg", "init", "--apply", "DATABASE_URL", "--new-password"];
    let (code, out, err) = setup.sentinel(&again);
    assert_eq!(code, 0, "{err}");
    assert_ne!(exported(&out), exported(&line));
    assert_ne!(cluster.ask(kept), before);

    // A schema of somebody else is left alone, and nothing else is made either.
    let url = cluster.database("other");
    let other = Setup::with_env("", &[("DATABASE_URL", &url)]);
    let made = other.sentinel(&["pg", "init", "--apply", "DATABASE_URL"]);
    assert_eq!(made.0, 0, "{}", made.2);
    cluster.ask("DROP SCHEMA shop_api CASCADE");
    cluster.ask("CREATE SCHEMA shop_api");
    let (code, _, err) = setup.sentinel(&["pg", "init", "--apply", "DATABASE_URL"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("not of this example"), "{err}");
    assert_eq!(
        cluster.ask("SELECT count(*) FROM pg_proc WHERE pronamespace = 'shop_api'::regnamespace"),
        "0"
    );
}

/// The function of an event trigger runs with the rights of each role that changes a definition.
#[test]
fn the_function_of_the_event_trigger_belongs_to_who_applied_it_last() {
    let (cluster, _) = shop();
    let setup = Setup::with_env("", &[("DATABASE_URL", &cluster.url())]);
    let apply = ["pg", "init", "--apply", "DATABASE_URL", "--event-trigger"];
    let owner = "SELECT proowner::regrole || ' ' || (SELECT count(*) FROM pg_event_trigger WHERE evtfoid = p.oid) \
        || ' ' || (prosrc LIKE '%sentinel_catalog%') FROM pg_proc p WHERE proname = 'tell_gateway'";
    // One that somebody else made before, with a text of its own.
    cluster.run(
        "CREATE ROLE mallory; SET ROLE shop_owner; CREATE FUNCTION shop.tell_gateway() RETURNS event_trigger LANGUAGE plpgsql
            AS 'BEGIN END'; RESET ROLE; ALTER FUNCTION shop.tell_gateway() OWNER TO mallory;
        CREATE EVENT TRIGGER sentinel_catalog ON ddl_command_end EXECUTE FUNCTION shop.tell_gateway();",
    );
    assert_eq!(cluster.ask(owner), "mallory 1 false");
    let (code, _, err) = setup.sentinel(&apply);
    assert_eq!(code, 0, "{err}");
    assert_eq!(cluster.ask(owner), "postgres 1 true");
}

#[test]
fn what_is_unsafe_is_found_by_its_rule() {
    let (cluster, setup) = shop();
    let (code, report) = check(&setup);
    assert_eq!((code, findings(&report)), (0, vec![]), "{report}");
    assert_eq!(report["ok"], json!(true));
    assert_eq!(report["backends"][0]["login"], "shop_gateway");

    for (change, undo, rule, object) in [
        (
            "ALTER TABLE shop.purchase NO FORCE ROW LEVEL SECURITY",
            "ALTER TABLE shop.purchase FORCE ROW LEVEL SECURITY",
            "owner_bypass",
            "shop.purchase",
        ),
        (
            "ALTER TABLE shop.purchase DISABLE ROW LEVEL SECURITY",
            "ALTER TABLE shop.purchase ENABLE ROW LEVEL SECURITY",
            "no_row_security",
            "shop.purchase",
        ),
        (
            "CREATE TABLE public.open (id int); GRANT SELECT (id) ON public.open TO shop_gateway",
            "DROP TABLE public.open",
            "no_row_security",
            "public.open",
        ),
        (
            "CREATE VIEW public.all_purchases AS SELECT * FROM shop.purchase; \
             GRANT SELECT ON public.all_purchases TO shop_gateway",
            "DROP VIEW public.all_purchases",
            "view_bypass",
            "public.all_purchases",
        ),
        (
            "CREATE VIEW public.inner_view AS SELECT * FROM shop.purchase; \
             CREATE VIEW public.outer_view AS SELECT * FROM public.inner_view; \
             GRANT SELECT ON public.outer_view TO shop_gateway",
            "DROP VIEW public.outer_view, public.inner_view",
            "view_bypass",
            "public.outer_view",
        ),
        (
            "CREATE MATERIALIZED VIEW public.kept AS SELECT 1 AS one; GRANT SELECT ON public.kept TO shop_gateway",
            "DROP MATERIALIZED VIEW public.kept",
            "no_row_security",
            "public.kept",
        ),
        (
            "ALTER FUNCTION shop_api.stock_report() RESET search_path",
            "ALTER FUNCTION shop_api.stock_report() SET search_path = shop, pg_temp",
            "definer_search_path",
            "function shop_api.stock_report()",
        ),
        (
            "ALTER FUNCTION shop_api.stock_report() SET search_path = shop",
            "ALTER FUNCTION shop_api.stock_report() SET search_path = shop, pg_temp",
            "definer_search_path",
            "function shop_api.stock_report()",
        ),
        (
            "ALTER FUNCTION shop_api.stock_report() OWNER TO postgres",
            "ALTER FUNCTION shop_api.stock_report() OWNER TO shop_owner",
            "definer_bypass",
            "function shop_api.stock_report()",
        ),
        (
            "GRANT EXECUTE ON FUNCTION shop_api.stock_report() TO PUBLIC",
            "REVOKE EXECUTE ON FUNCTION shop_api.stock_report() FROM PUBLIC",
            "public_execute",
            "function shop_api.stock_report()",
        ),
        (
            "GRANT CREATE ON SCHEMA public TO shop_gateway",
            "REVOKE CREATE ON SCHEMA public FROM shop_gateway",
            "schema_create",
            "schema public",
        ),
        (
            "GRANT pg_read_all_data TO shop_gateway",
            "REVOKE pg_read_all_data FROM shop_gateway",
            "predefined_role",
            "role pg_read_all_data",
        ),
        (
            "ALTER ROLE shop_gateway CREATEROLE",
            "ALTER ROLE shop_gateway NOCREATEROLE",
            "create_role",
            "role shop_gateway",
        ),
        (
            "ALTER ROLE shop_gateway BYPASSRLS",
            "ALTER ROLE shop_gateway NOBYPASSRLS",
            "bypass_rls",
            "role shop_gateway",
        ),
        (
            "GRANT postgres TO shop_gateway",
            "REVOKE postgres FROM shop_gateway",
            "superuser",
            "role postgres",
        ),
    ] {
        for statement in change.split("; ") {
            cluster.ask(statement);
        }
        let (code, report) = check(&setup);
        assert_eq!(code, 1, "{change}: {report}");
        let found = findings(&report);
        let expected = (rule.to_owned(), object.to_owned());
        assert!(found.contains(&expected), "{change}: {found:?}");
        let others = found.iter().filter(|one| **one != expected).count();
        // What a member of the superuser may do is told once.
        assert_eq!(others, 0, "{change}: {found:?}");
        cluster.ask(undo);
    }
    assert_eq!(check(&setup).0, 0);

    // Views that read with the rights of their reader, tables of extensions, and functions that nobody is offered are fine.
    for harmless in [
        "CREATE VIEW public.own_purchases WITH (security_invoker = true) AS SELECT * FROM shop.purchase",
        "GRANT SELECT ON public.own_purchases TO shop_gateway",
        "CREATE FUNCTION shop_api.helper() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    ] {
        cluster.ask(harmless);
    }
    let (code, report) = check(&setup);
    assert_eq!((code, findings(&report)), (0, vec![]), "{report}");
}

/// What a called function may do, callers of the offered one may.
#[test]
fn functions_that_offered_ones_call_are_judged_as_far_as_they_can_be_found() {
    let (cluster, setup) = shop();
    cluster.run(
        "CREATE ROLE keeper; CREATE SCHEMA inner_part; GRANT USAGE ON SCHEMA inner_part TO shop_gateway, shop_owner;
        CREATE TABLE inner_part.salaries (who text); ALTER TABLE inner_part.salaries OWNER TO keeper;
        GRANT USAGE, CREATE ON SCHEMA inner_part TO keeper;
        CREATE FUNCTION inner_part.\"Pay roll\"() RETURNS bigint LANGUAGE sql SECURITY DEFINER
            SET search_path = pg_temp AS 'SELECT count(*) FROM inner_part.salaries';
        CREATE FUNCTION inner_part.between() RETURNS bigint BEGIN ATOMIC SELECT inner_part.\"Pay roll\"(); END;
        CREATE FUNCTION shop_api.known() RETURNS bigint BEGIN ATOMIC SELECT inner_part.between(); END;
        CREATE FUNCTION shop_api.texted() RETURNS bigint LANGUAGE plpgsql AS
            'BEGIN RETURN inner_part.\"Pay roll\" (); END';
        CREATE FUNCTION shop_api.innocent() RETURNS text LANGUAGE sql AS $$SELECT 'the Pay roll is not called'$$;
        ALTER FUNCTION inner_part.\"Pay roll\"() OWNER TO keeper;
        REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA shop_api FROM PUBLIC;
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shop_api TO shop_gateway;
        COMMENT ON FUNCTION shop_api.innocent() IS '@tool';",
    );
    let (code, report) = check(&setup);
    assert_eq!((code, findings(&report)), (0, vec![]), "{report}");
    let hints = |report: &Value| report["backends"][0]["hints"].clone();
    assert_eq!(hints(&report), json!([]), "it is not called");

    // A name in a text may be a call: that is a hint, and the tables of the owner with it.
    cluster.ask("COMMENT ON FUNCTION shop_api.texted() IS '@tool'");
    let (code, report) = check(&setup);
    assert_eq!((code, findings(&report)), (0, vec![]), "{report}");
    let told = hints(&report);
    assert_eq!(told[0]["rule"], "no_row_security", "{told}");
    assert_eq!(told[0]["object"], "inner_part.salaries", "{told}");
    cluster.ask("ALTER FUNCTION inner_part.\"Pay roll\"() RESET search_path");
    let (code, report) = check(&setup);
    assert_eq!(code, 0, "{report}");
    let told = hints(&report);
    assert_eq!(told[0]["rule"], "definer_search_path", "{told}");
    let problem = told[0]["problem"].as_str().expect("a text");
    assert!(
        problem.contains("the text of shop_api.texted names it"),
        "{problem}"
    );
    let (code, text, _) = setup.sentinel(&["pg", "check"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("Perhaps unsafe"), "{text}");

    // What PostgreSQL knows to be called is as unsafe as what is offered.
    cluster.ask("COMMENT ON FUNCTION shop_api.known() IS '@tool'");
    let (code, report) = check(&setup);
    assert_eq!(code, 1, "{report}");
    let object = "function inner_part.\"Pay roll\"()";
    let expected = [
        ("definer_search_path", object),
        ("no_row_security", "inner_part.salaries"),
    ]
    .map(|(rule, object)| (rule.to_owned(), object.to_owned()));
    assert_eq!(findings(&report), expected, "{report}");
    let problem = report["backends"][0]["findings"][0]["problem"].to_string();
    assert!(problem.contains("shop_api.known calls it"), "{problem}");
    assert_eq!(hints(&report), json!([]), "told once");
}

#[test]
fn exit_codes_tell_unsafe_from_unreachable_and_from_a_wrong_question() {
    let (mut cluster, setup) = shop();
    assert_eq!(setup.sentinel(&["pg", "check", "other"]).0, 2);
    let child = Setup::new(&stdio_backend("child", &[], ""));
    for args in [&["pg", "check"][..], &["pg", "check", "child"]] {
        let (code, _, err) = child.sentinel(args);
        assert_eq!(code, 2, "{args:?}: {err}");
    }

    // The backend would refuse this login; here it is a finding.
    let root = Setup::with_env(SHOP, &[("SHOP_DATABASE_URL", &cluster.url())]);
    let (code, report) = check(&root);
    let superuser = ("superuser".to_owned(), "role postgres".to_owned());
    assert_eq!((code, findings(&report)), (1, vec![superuser]), "{report}");

    let missing = SHOP.replace("shop_api", "nowhere");
    let empty = Setup::with_env(&missing, &[("SHOP_DATABASE_URL", &cluster.url())]);
    let (_, report) = check(&empty);
    let left_out = report["backends"][0]["left_out"].to_string();
    assert!(
        left_out.contains("schema nowhere does not exist"),
        "{report}"
    );

    cluster.stop();
    let (code, report) = check(&setup);
    assert_eq!((code, &report["ok"]), (3, &json!(false)), "{report}");
    let (code, out, _) = setup.sentinel(&["pg", "check", "shop"]);
    assert_eq!(code, 3);
    assert!(
        out.contains("FAIL") && out.contains("cannot be read"),
        "{out}"
    );
}

#[test]
fn what_is_offered_is_told_with_its_routes_hints_and_roles() {
    let (cluster, setup) = shop();
    cluster.ask("CREATE FUNCTION shop_api.odd(int) RETURNS int LANGUAGE sql AS 'SELECT 1'");
    cluster.ask("COMMENT ON FUNCTION shop_api.odd(int) IS '@tool'");
    cluster.ask("GRANT EXECUTE ON FUNCTION shop_api.odd(int) TO shop_gateway");
    cluster.ask("REVOKE EXECUTE ON FUNCTION shop_api.odd(int) FROM PUBLIC");
    let (code, report) = check(&setup);
    assert_eq!(code, 0, "{report}");
    let all = report["backends"][0]["operations"]
        .as_array()
        .expect("operations");
    let of = |own: &str| {
        let found = all.iter().find(|one| one["own"] == own);
        found.unwrap_or_else(|| panic!("no {own}: {report}"))
    };
    let order = of("get_order");
    assert_eq!(order["routes"], json!(["GET /shop/orders/{id}"]));
    assert_eq!(
        (
            &order["read_only"],
            &order["needs_identity"],
            &order["kind"]
        ),
        (&json!(true), &json!(true), &json!("tool"))
    );
    let roles = json!({"admin": "call", "buyer": "call", "viewer": "see"});
    assert_eq!(order["roles"], roles);
    assert_eq!(of("place_order")["read_only"], json!(false));
    assert_eq!(of("search_products")["needs_identity"], json!(false));
    assert_eq!(of("shop://stock")["kind"], "resource");
    assert_eq!(of("restock")["kind"], "prompt");
    // A parameter without a name cannot be called by name.
    assert!(all.iter().all(|one| one["own"] != "odd"), "{report}");
    let left_out = report["backends"][0]["left_out"].to_string();
    assert!(left_out.contains("odd"), "{report}");

    let (code, text, _) = setup.sentinel(&["pg", "check"]);
    assert_eq!(code, 0);
    for words in [
        "login shop_gateway",
        "needs identity",
        "GET /shop/orders/{id}",
        "called by admin, buyer; only seen by viewer",
        "Unsafe: nothing",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}
