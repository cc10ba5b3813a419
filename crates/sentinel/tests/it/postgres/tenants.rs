//! Who sees what: identities in the database, on every surface, on shared connections.

use std::collections::BTreeMap;
use std::thread;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, Steady};
use crate::support::http::Answer;
use crate::support::postgres::Cluster;
use crate::support::setup::{Gateway, Setup, until};
use crate::support::shop::{AUTH, Shop, gateway_of, login_url, member, tenants};
use crate::support::tokens::token;
use crate::support::web::Web;

/// What every surface answers to the same call, by surface.
fn everywhere(
    shop: &Shop,
    credential: Option<&str>,
    tool: &str,
    arguments: &Value,
) -> BTreeMap<&'static str, Value> {
    let gateway = &shop.gateway;
    let web = |credential: Option<&str>| match credential {
        Some(credential) => Web::new(gateway).bearing(credential),
        None => Web::new(gateway),
    };
    let modern = match credential {
        Some(credential) => Modern::new(gateway, "/mcp").bearing(credential),
        None => Modern::new(gateway, "/mcp"),
    };
    let legacy = match credential {
        Some(credential) => Legacy::bearing(gateway, credential),
        None => Legacy::newest(gateway),
    };
    let rest = web(credential).post(&format!("/api/{tool}"), arguments);
    let rpc = web(credential).rpc(tool, arguments);
    BTreeMap::from([
        (
            "MCP 2026-07-28",
            modern.call(tool, arguments.clone())["result"]["structuredContent"].clone(),
        ),
        (
            "MCP 2025-11-25",
            legacy.call(tool, arguments.clone())["result"]["structuredContent"].clone(),
        ),
        ("REST", rest.json()),
        ("JSON-RPC", rpc.json()["result"].clone()),
    ])
}

#[test]
fn d_8_d_26_one_function_shows_each_tenant_its_rows_on_every_surface() {
    let shop = Shop::start("");
    for tenant in ["acme", "globex"] {
        let credential = member("ann", tenant);
        let answers = everywhere(
            &shop,
            Some(&credential),
            "list_orders",
            &json!({"min_amount": 2}),
        );
        let first = answers["REST"].clone();
        assert_eq!(tenants(&first), [tenant]);
        assert_eq!(first["rows"].as_array().map(Vec::len), Some(2), "{first}");
        for (surface, answer) in &answers {
            assert_eq!(*answer, first, "{surface}");
        }
        let routed = Web::new(&shop.gateway)
            .bearing(&credential)
            .get("/shop/orders?min_amount=2");
        assert_eq!(routed.json(), first, "by its route");
    }
    for answer in everywhere(&shop, None, "list_orders", &json!({})).values() {
        assert_eq!(answer["rows"], json!([]), "somebody unknown has no tenant");
    }
}

/// Identity is that of the credential, whatever else a request says.
#[test]
fn c_14_the_database_learns_who_calls_from_the_credential_alone() {
    let shop = Shop::start("");
    let credential = member("ann", "acme");
    let forged = [
        ("x-user-id", "root|boss"),
        ("x-tenant-id", "globex"),
        ("x-user-email", "boss@globex.example"),
        ("auth.user_id", "boss"),
    ];
    let web = Web::new(&shop.gateway).bearing(&credential);
    let answer = web.post_with("/api/whoami", &json!({}), &forged).json();
    let own = shop.gateway.address.clone();
    assert_eq!(answer["user_id"], "ann", "{own} {answer}");
    assert_eq!(answer["tenant_id"], "acme");
    assert_eq!(answer["email"], "ann@acme.example");
    assert_eq!(answer["role"], "agent");
    assert_eq!(answer["login"], "gateway");
    let digest = ring::digest::digest(&ring::digest::SHA256, credential.as_bytes());
    let hex: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        answer["token"],
        hex.as_str(),
        "a digest and not the credential"
    );
    for answer in everywhere(&shop, None, "whoami", &json!({})).values() {
        for name in ["user_id", "tenant_id", "email", "role", "token"] {
            assert_eq!(answer[name], "", "{answer}");
        }
    }
}

/// D-27: nothing of a caller is left on its connection, whatever functions do to the session.
#[test]
fn d_27_an_unknown_caller_after_a_known_one_on_the_same_connection_is_nobody() {
    let shop = Shop::start("max_connections = 1");
    let (ann, nobody) = (
        Web::new(&shop.gateway).bearing(&member("ann", "acme")),
        Web::new(&shop.gateway),
    );
    let first = ann.post("/api/whoami", &json!({})).json();
    assert_eq!(
        ann.post("/api/litter", &json!({"left_behind": "acme"}))
            .status,
        200
    );
    let after = nobody.post("/api/whoami", &json!({})).json();
    assert_eq!(after["pid"], first["pid"], "it is the same connection");
    for name in ["user_id", "tenant_id", "email", "role", "token"] {
        assert_eq!(after[name], "", "{after}");
    }
    assert_eq!(after["path"], first["path"]);
    assert_eq!(
        nobody.post("/api/list_orders", &json!({})).json()["rows"],
        json!([])
    );
    assert_eq!(
        nobody.post("/api/sleep", &json!({"seconds": 0.05})).status,
        200,
        "time-outs are its own, too"
    );
}

/// D-27, P-S05: fifty identities on four connections.
#[test]
fn d_27_ten_thousand_interleaved_calls_of_fifty_identities_are_never_mixed_up() {
    const IDENTITIES: usize = 50;
    const CALLS: usize = 200;
    let shop = Shop::start("max_connections = 4\nmax_per_operation = 4");
    let address = shop.gateway.address.as_str();
    let (wrong, pids) = thread::scope(|scope| {
        let callers: Vec<_> = (0..IDENTITIES)
            .map(|n| {
                scope.spawn(move || {
                    let (subject, tenant) = (format!("user{n}"), format!("tenant{}", n % 7));
                    let credential = (n % 10 != 0).then(|| member(&subject, &tenant));
                    let (subject, tenant) = match credential {
                        Some(_) => (subject, tenant),
                        None => (String::new(), String::new()),
                    };
                    let mut caller = Steady::connect(address, credential.as_deref());
                    let mut wrong = Vec::new();
                    let mut pids = Vec::new();
                    for _ in 0..CALLS {
                        let answer = caller.call("whoami", json!({})).expect("an answer");
                        let said = &answer["result"]["structuredContent"];
                        if said["user_id"] != subject.as_str()
                            || said["tenant_id"] != tenant.as_str()
                        {
                            wrong.push(answer.to_string());
                        }
                        pids.extend(said["pid"].as_i64());
                    }
                    (wrong, pids)
                })
            })
            .collect();
        let all = callers
            .into_iter()
            .map(|caller| caller.join().expect("no panic"));
        all.fold(
            (Vec::new(), Vec::new()),
            |(mut wrong, mut pids), (some, more)| {
                wrong.extend(some);
                pids.extend(more);
                (wrong, pids)
            },
        )
    });
    assert_eq!(wrong, [""; 0]);
    assert_eq!(pids.len(), IDENTITIES * CALLS);
    let mut distinct = pids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    println!(
        "{} calls of {IDENTITIES} identities on {} connections, none mixed up",
        pids.len(),
        distinct.len()
    );
    assert!(distinct.len() <= 4, "{distinct:?}");
}

fn assert_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert_eq!(answer.json()["code"], code, "{answer:?}");
}

/// C-13: an operation that needs an identity, called without one, and a transport that needs one.
#[test]
fn d_16_c_13_c_15_a_missing_identity_is_said_as_each_surface_has_it() {
    let shop = Shop::start("");
    let gateway = &shop.gateway;
    let nobody = Web::new(gateway);
    for answer in [
        nobody.post("/api/members_only", &json!({})),
        nobody.get("/shop/members"),
    ] {
        assert_problem(&answer, 401, "unauthorized");
        assert!(
            answer.header("www-authenticate").starts_with("Bearer"),
            "{answer:?}"
        );
    }
    let rpc = nobody.rpc("members_only", &json!({}));
    assert_eq!((rpc.status, rpc.code()), (401, -32001), "{rpc:?}");
    let modern = Modern::new(gateway, "/mcp")
        .send(
            "tools/call",
            json!({"name": "members_only", "arguments": {}}),
        )
        .finish();
    assert_eq!((modern.status, modern.code()), (200, -31401), "{modern:?}");
    let legacy = Legacy::newest(gateway).call("members_only", json!({}));
    assert_eq!(legacy["error"]["code"], -32001, "{legacy}");
    let forged = Web::new(gateway).bearing(&token(json!({"exp": 1})));
    assert_eq!(
        forged.post("/api/members_only", &json!({})).status,
        401,
        "the transport refuses"
    );
    let known = Web::new(gateway).bearing(&member("ann", "acme"));
    assert_eq!(
        known.post("/api/members_only", &json!({})).json()["result"],
        "ann"
    );
    let answer = known.post("/api/members_only", &json!({"owner": "boss"}));
    assert_eq!(
        answer.status, 422,
        "a bound parameter cannot be sent: {answer:?}"
    );
}

#[test]
fn c_13_without_a_guest_role_the_transport_refuses_callers_without_a_credential() {
    let shop = Shop::with(&AUTH.replace("anonymous_role = \"guest\"\n", ""), "");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let answer = Web::new(&shop.gateway).post("/mcp", &body);
    assert_eq!((answer.status, answer.code()), (401, -32001), "{answer:?}");
    assert!(
        answer.header("www-authenticate").starts_with("Bearer"),
        "{answer:?}"
    );
    let rest = Web::new(&shop.gateway).get("/shop/orders");
    assert_problem(&rest, 401, "unauthorized");
}

#[test]
fn d_10_resources_and_prompts_are_functions_too() {
    let shop = Shop::start("");
    let credential = member("ann", "acme");
    let caller = Modern::new(&shop.gateway, "/mcp").bearing(&credential);
    let read = caller.result("resources/read", json!({"uri": "shop://orders/2"}));
    assert_eq!(read["contents"][0]["text"], "acme item 2 for 2", "{read}");
    assert_eq!(read["contents"][0]["mimeType"], "text/plain");
    let prompt = caller.result(
        "prompts/get",
        json!({"name": "advise", "arguments": {"topic": "tea"}}),
    );
    assert_eq!(
        prompt["messages"][0]["content"]["text"], "Give advice on tea to ann",
        "{prompt}"
    );
    let web = Web::new(&shop.gateway).bearing(&credential);
    let resource = web.get("/api/resources/shop%3A%2F%2Forders%2F2");
    assert_eq!(
        (resource.status, resource.text.as_str()),
        (200, "acme item 2 for 2"),
        "{resource:?}"
    );
}

/// A resource and a prompt on every surface, for callers of two tenants and for nobody.
#[test]
fn d_8_d_10_resources_and_prompts_show_each_tenant_its_own_on_every_surface() {
    let shop = Shop::start("");
    let gateway = &shop.gateway;
    // The order is of acme.
    let uri = "shop://orders/2";
    let path = "/api/resources/shop%3A%2F%2Forders%2F2";
    for (credential, name) in [
        (Some(member("ann", "acme")), "ann"),
        (Some(member("gus", "globex")), "gus"),
        (None, ""),
    ] {
        let is_own = name == "ann";
        let (web, modern, legacy) = match &credential {
            Some(credential) => (
                Web::new(gateway).bearing(credential),
                Modern::new(gateway, "/mcp").bearing(credential),
                Legacy::bearing(gateway, credential),
            ),
            None => (
                Web::new(gateway),
                Modern::new(gateway, "/mcp"),
                Legacy::newest(gateway),
            ),
        };
        let callers: [&dyn Caller; 2] = [&modern, &legacy];
        let wanted = format!("Give advice on tea to {name}");
        let asked = json!({"name": "advise", "arguments": {"topic": "tea"}});
        for caller in callers {
            let templates = caller.names(
                "resources/templates/list",
                "resourceTemplates",
                "uriTemplate",
            );
            assert_eq!(templates, ["shop://orders/{id}"]);
            assert_eq!(caller.names("prompts/list", "prompts", "name"), ["advise"]);
            let read = caller.ask("resources/read", json!({"uri": uri}));
            match is_own {
                true => assert_eq!(read["result"]["contents"][0]["text"], "acme item 2 for 2"),
                false => assert!(read["error"].is_object(), "{name}: {read}"),
            }
            let prompt = caller.result("prompts/get", asked.clone());
            assert_eq!(prompt["messages"][0]["content"]["text"], wanted.as_str());
        }
        let rest = web.get(path);
        let rpc = web.rpc("rpc.readResource", &json!({"uri": uri}));
        match is_own {
            true => {
                assert_eq!(
                    (rest.status, rest.text.as_str()),
                    (200, "acme item 2 for 2")
                );
                assert_eq!(rest.header("content-type"), "text/plain; charset=utf-8");
                let contents = &rpc.json()["result"]["contents"];
                assert_eq!(contents[0]["text"], "acme item 2 for 2", "{rpc:?}");
            }
            false => {
                assert_problem(&rest, 404, "unknown_resource");
                assert_eq!(rpc.status, 404, "{name}: {rpc:?}");
            }
        }
        let rest = web.post("/api/prompts/advise", &json!({"topic": "tea"}));
        assert_eq!(
            rest.json()["messages"][0]["content"]["text"],
            wanted.as_str(),
            "{rest:?}"
        );
        let rpc = web.rpc("rpc.getPrompt", &asked);
        let messages = &rpc.json()["result"]["messages"];
        assert_eq!(messages[0]["content"]["text"], wanted.as_str(), "{rpc:?}");
        // What is missing and what is wrong are the caller's mistakes on each.
        assert_eq!(web.post("/api/prompts/advise", &json!({})).status, 400);
        assert_eq!(
            web.get("/api/resources/shop%3A%2F%2Forders%2Fmany").status,
            400
        );
        assert_eq!(
            web.get("/api/resources/shop%3A%2F%2Fothers%2F2").status,
            404
        );
    }
}

/// C-14: with `token = "full"` functions have the credential itself, for their own transaction, and nobody else has it.
#[test]
fn c_14_d_27_a_credential_that_functions_may_have_is_in_their_transaction_only() {
    let shop = Shop::start("token = \"full\"\nmax_connections = 1");
    let (ann, gus) = (member("ann", "acme"), member("gus", "globex"));
    for credential in [&ann, &gus] {
        for (surface, answer) in everywhere(&shop, Some(credential), "whoami", &json!({})) {
            assert_eq!(answer["token"], credential.as_str(), "{surface}");
        }
        for (surface, answer) in everywhere(&shop, None, "whoami", &json!({})) {
            assert_eq!(answer["token"], "", "{surface}");
        }
    }
    let weakened = shop.gateway.setup.sentinel(&["doctor"]).1;
    assert!(weakened.contains("token = \"full\""), "{weakened}");
    let setup = shop.gateway.end();
    let records = crate::support::records::export(&setup);
    let kept = format!("{} {records:?}", setup.log());
    assert!(!kept.contains(&ann) && !kept.contains(&gus));
    let off = Shop::start("token = \"off\"");
    let web = Web::new(&off.gateway).bearing(&ann);
    assert_eq!(web.post("/api/whoami", &json!({})).json()["token"], "");
}

/// P-S12: with `role` calls run with that role, and what they leave of it ends with them.
#[test]
fn p_s12_calls_run_with_the_configured_role_whatever_functions_set() {
    let cluster = Cluster::start();
    cluster.run(include_str!("shop.sql"));
    // The login itself may do nothing.
    cluster.run(
        "CREATE ROLE worker; ALTER ROLE gateway NOINHERIT; GRANT worker TO gateway; CREATE ROLE mighty BYPASSRLS; GRANT mighty TO gateway;
        REVOKE ALL ON ALL FUNCTIONS IN SCHEMA api FROM gateway; REVOKE ALL ON SCHEMA api, data FROM gateway;
        REVOKE ALL ON ALL TABLES IN SCHEMA data FROM gateway;
        CREATE FUNCTION api.leave_role() RETURNS text LANGUAGE plpgsql AS
            'BEGIN PERFORM set_config(''role'', ''none'', false); RETURN current_user; END';
        COMMENT ON FUNCTION api.leave_role() IS '@tool';
        GRANT USAGE ON SCHEMA api, data TO worker; GRANT SELECT, INSERT ON data.orders TO worker;
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA api TO worker; REVOKE EXECUTE ON FUNCTION api.sleep FROM worker;",
    );
    let config = "role = \"worker\"\nmax_connections = 1";
    let gateway = gateway_of(&login_url(&cluster), AUTH, config);
    let shop = Shop { gateway, cluster };
    let ann = member("ann", "acme");
    let web = Web::new(&shop.gateway).bearing(&ann);
    for _ in 0..2 {
        for (surface, answer) in everywhere(&shop, Some(&ann), "whoami", &json!({})) {
            assert_eq!(answer["login"], "worker", "{surface}");
        }
        let orders = web.post("/api/list_orders", &json!({})).json();
        assert_eq!(tenants(&orders), ["acme"], "the policies hold for it");
        let left = web.post("/api/leave_role", &json!({})).json();
        assert_eq!(left["result"], "gateway", "a function may become the login");
    }
    assert_eq!(
        web.post("/api/sleep", &json!({"seconds": 0})).status,
        404,
        "what the role may not execute is not offered"
    );
    for (role, why) in [
        ("mighty", "has BYPASSRLS"),
        ("nobody", "role \\\"nobody\\\" does not exist"),
    ] {
        let config = format!(
            "[[backends]]\nname = \"shop\"\ntype = \"postgres\"\nurl_env = \"SHOP_DATABASE_URL\"\nrole = {role:?}\n"
        );
        let url = login_url(&shop.cluster);
        let setup = Setup::with_env(&config, &[("SHOP_DATABASE_URL", url.as_str())]);
        let gateway = Gateway::start_in(setup);
        until(&format!("the role {role} is refused"), || {
            gateway.setup.log().contains(why).then_some(())
        });
        assert_ne!(gateway.health("shop"), "up", "{role}");
    }
}

#[test]
fn d_10_routes_have_their_verbs_parameters_and_documents() {
    let shop = Shop::start("");
    let web = Web::new(&shop.gateway).bearing(&member("ann", "acme"));
    let placed = web.post(
        "/shop/orders",
        &json!({"item": "café \u{1f600}", "amount": 12.50}),
    );
    assert_eq!(placed.status, 200, "{placed:?}");
    let placed = placed.json();
    assert_eq!(
        (&placed["item"], &placed["placed_by"]),
        (&json!("café \u{1f600}"), &json!("ann"))
    );
    let path = format!("/shop/orders/{}", placed["id"]);
    let read = web.get(&path);
    assert_eq!(read.json(), placed);
    let head = web.send("HEAD", &path, &[], "").finish();
    assert_eq!((head.status, head.text.as_str()), (200, ""), "{head:?}");
    let other = Web::new(&shop.gateway)
        .bearing(&member("gus", "globex"))
        .get(&path);
    assert_problem(&other, 404, "not_found");
    assert_eq!(other.json()["detail"], "there is no such order");
    let refused = web.send("DELETE", "/shop/orders", &[], "").finish();
    assert_problem(&refused, 405, "method_not_allowed");
    let allowed = refused.header("allow");
    assert!(
        allowed.contains("GET") && allowed.contains("POST"),
        "{allowed}"
    );
    assert_eq!(web.get("/shop/nothing").status, 404);
    assert_eq!(web.get("/shop/orders/many").status, 400, "not a number");
    let document = web.get("/openapi.json").json();
    let paths = document["paths"].as_object().expect("paths");
    for (path, verb) in [
        ("/shop/orders", "get"),
        ("/shop/orders", "post"),
        ("/shop/orders/{id}", "get"),
    ] {
        assert!(paths[path][verb].is_object(), "{verb} {path}");
    }
}

/// What users of such systems ask for: where the time of a call went.
#[test]
fn answers_say_how_long_the_database_took() {
    let config = format!("[surfaces]\nserver_timing = true\n{AUTH}");
    let shop = Shop::with(&config, "");
    let web = Web::new(&shop.gateway).bearing(&member("ann", "acme"));
    for answer in [
        web.post("/api/sleep", &json!({"seconds": 0.2})),
        web.rpc("sleep", &json!({"seconds": 0.2})),
    ] {
        let timing = answer.header("server-timing");
        let took = |stage: &str| -> f64 {
            let stages = timing.split(", ");
            let mut of = stages.filter_map(|one| one.strip_prefix(stage)?.strip_prefix(";dur="));
            let found = of
                .next()
                .unwrap_or_else(|| panic!("no {stage} in {timing:?}"));
            found.parse().expect("a number")
        };
        assert!(took("backend") >= 200.0, "{timing}");
        assert!(took("total") >= took("backend"), "{timing}");
        assert!(took("auth") >= 0.0 && took("policy") >= 0.0);
    }
}

/// Each call, whatever its surface, leaves one record with its operation.
#[test]
fn g_36_each_call_of_a_function_leaves_one_record() {
    let shop = Shop::start("");
    let credential = member("ann", "acme");
    everywhere(&shop, Some(&credential), "list_orders", &json!({}));
    Web::new(&shop.gateway)
        .bearing(&credential)
        .get("/shop/orders");
    let setup = shop.gateway.end();
    let records = crate::support::records::export(&setup);
    let mut surfaces: Vec<&str> = records
        .iter()
        .filter(|record| record["operation"] == "list_orders")
        .filter_map(|record| record["surface"].as_str())
        .collect();
    surfaces.sort_unstable();
    assert_eq!(surfaces.len(), 5, "{surfaces:?}");
}
