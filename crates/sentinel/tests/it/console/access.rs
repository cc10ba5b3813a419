//! The catalog with its cost and its roles, and why a call is refused.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Modern, kind_of};
use crate::support::setup::{Gateway, Server, Setup, http_backend, stdio_backend, until};
use crate::support::tokens::token;
use crate::support::web::Web;

const ROLES: &str = "[auth]\n\
    [rbac.roles.reader]\npermissions = [\"tools.read\"]\n\
    [rbac.roles.caller]\npermissions = [\"tool:echo\", \"beta.*\"]\n\
    [rbac.roles.user]\npermissions = [\"tools.execute\"]\ndenied_tools = [\"slow\", \"beta.*\"]\n";
const NAMES: [&str; 4] = ["admin", "caller", "reader", "user"];

struct World {
    gateway: Gateway,
    operator: Web,
    _servers: [Server; 2],
}

impl World {
    fn new(more: &str) -> Self {
        let servers = [Server::start(&[]), Server::start(&[])];
        let alpha = http_backend("alpha", &servers[0].address, "");
        let beta = http_backend("beta", &servers[1].address, "");
        let gateway = Gateway::ready(&format!("{ROLES}{more}{alpha}{beta}"));
        let operator = Web::new(&gateway).bearing(&token(json!({"role": "admin", "sub": "op"})));
        Self {
            gateway,
            operator,
            _servers: servers,
        }
    }

    fn get(&self, what: &str) -> Value {
        let answer = self.operator.get(&format!("/admin/api/{what}"));
        assert_eq!(answer.status, 200, "{what}: {answer:?}");
        answer.json()
    }

    fn caller(&self, role: &str) -> Modern {
        let bearer = token(json!({"role": role, "sub": format!("the {role}")}));
        Modern::new(&self.gateway, "/mcp").bearing(&bearer)
    }

    /// The step that refuses, and what decides.
    fn refusal(&self, query: &str) -> Option<(String, String)> {
        let why = self.get(&format!("why?{query}"));
        let reasons = why["reasons"].as_array().expect("reasons");
        let refusing = reasons.iter().find(|one| one["verdict"] == "refused");
        assert_eq!(why["call"] == true, refusing.is_none(), "{why}");
        let text = |one: &Value, member: &str| one[member].as_str().unwrap_or("").to_owned();
        refusing.map(|one| (text(one, "step"), text(one, "rule")))
    }
}

fn strings(list: &Value) -> Vec<&str> {
    let list = list.as_array().expect("a list");
    list.iter().filter_map(Value::as_str).collect()
}

/// What an operator is told of a role is what its callers get.
#[test]
fn roles_see_and_call_what_the_catalog_and_the_matrix_say() {
    let world = World::new("");
    let catalog = world.get("catalog?definitions=true");
    let entries = catalog.as_array().expect("entries");
    let roles = world.get("roles");
    let roles = roles["roles"].as_array().expect("roles");
    let names: Vec<&str> = roles
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, NAMES);
    for role in roles {
        let name = role["name"].as_str().expect("a name");
        let access = world.get(&format!("access?role={name}"));
        let operations = access["operations"].as_array().expect("operations");
        assert_eq!(operations.len(), entries.len());
        let with = |what: &str| operations.iter().filter(|one| one[what] == true).count();
        assert_eq!(role["sees"], with("see"), "{role}");
        assert_eq!(role["calls"], with("call"), "{role}");
        for (entry, operation) in entries.iter().zip(operations) {
            assert_eq!(entry["name"], operation["name"]);
            let is_in = |list: &str| strings(&entry[list]).contains(&name);
            assert_eq!(operation["see"], is_in("roles_see"), "{name}: {entry}");
            assert_eq!(operation["call"], is_in("roles_call"), "{name}: {entry}");
        }
        // The lists that such a caller gets.
        let mut listed = world.caller(name).tools();
        let tools = operations
            .iter()
            .filter(|one| one["kind"] == "tools" && one["see"] == true);
        let mut told: Vec<String> = tools
            .filter_map(|one| one["name"].as_str().map(str::to_owned))
            .collect();
        listed.sort();
        told.sort();
        assert_eq!(listed, told, "{name}");
    }
    let user = &roles[3];
    assert_eq!(user["permissions"], json!(["tools.execute"]));
    assert_eq!(user["denied"], json!(["slow", "beta.*"]));
    assert_eq!(
        (&roles[0]["builtin"], &user["builtin"]),
        (&json!(true), &json!(false))
    );
    // Definitions only where they are asked for.
    let echo = entries
        .iter()
        .find(|one| one["name"] == "echo")
        .expect("echo");
    assert_eq!(echo["definition"]["name"], "echo");
    assert_eq!(echo["pin"], "pinned");
    assert!(
        echo["description"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
    let bare = world.get("catalog");
    assert_eq!(bare[0]["definition"], Value::Null);
    let unknown = world.operator.get("/admin/api/access?role=nobody");
    assert_eq!(unknown.status, 400);
    for query in [
        "access",
        "access?role=a&role=b",
        "catalog?definitions=x",
        "why?operation=echo",
        "why?role=x",
    ] {
        let wrong = world.operator.get(&format!("/admin/api/{query}"));
        assert_eq!(wrong.status, 400, "{query}");
    }
}

/// E-6: one count of tokens, wherever it is told.
#[test]
fn e_6_the_catalog_counts_tokens_as_sentinel_cost_does() {
    let world = World::new("");
    let (code, out, err) = world.gateway.setup.sentinel(&["cost", "--json"]);
    assert_eq!(code, 0, "{err}");
    let cost: Value = serde_json::from_str(&out).expect("JSON");
    let definitions = cost["definitions"].as_array().expect("definitions");
    let catalog = world.get("catalog");
    let entries = catalog.as_array().expect("entries");
    let mut tools = 0;
    for definition in definitions.iter().filter(|one| one["kind"] == "tool") {
        let same = |one: &&Value| one["name"] == definition["name"] && one["kind"] == "tools";
        let entry = entries.iter().find(same).expect("it is in the catalog");
        assert_eq!(entry["tokens"], definition["tokens"], "{definition}");
        tools += 1;
    }
    assert!(tools > 10, "{tools}");
}

/// The steps agree with the calls, and name what decides.
#[test]
fn why_names_the_rule_that_a_call_then_meets() {
    let world = World::new("[rate_limits]\ndefault_rpm = 0\nper_tool = { echo = 1 }\n");
    let rule = |query: &str| world.refusal(query);
    let of = |step: &str, rule: &str| Some((step.to_owned(), rule.to_owned()));
    assert_eq!(rule("operation=echo&role=caller"), None);
    assert_eq!(
        rule("operation=slow&role=reader"),
        of("authorize", "rbac.roles.reader.permissions: tools.read")
    );
    assert_eq!(
        kind_of(&world.caller("reader").call("slow", json!({}))),
        "forbidden"
    );
    assert_eq!(
        rule("operation=slow&role=user"),
        of("authorize", "rbac.roles.user.denied_tools: slow")
    );
    assert_eq!(
        kind_of(&world.caller("user").call("slow", json!({}))),
        "unknown_name"
    );
    // By the name that only its backend has, and by one of a resource.
    assert_eq!(
        rule("operation=beta.echo&role=user"),
        of("authorize", "rbac.roles.user.denied_tools: beta.*")
    );
    assert_eq!(
        rule("operation=test://static&role=caller"),
        of("authorize", "rbac.roles.caller.permissions")
    );
    let missing = world.get("why?operation=nothing&role=admin");
    assert_eq!(missing["reasons"][0]["step"], "resolve");
    assert_eq!(
        (&missing["see"], &missing["call"]),
        (&json!(false), &json!(false))
    );

    // A caller by its subject: its role is in its records, its bucket is its own.
    let caller = world.caller("caller");
    caller.said("echo", json!({"text": "x"}));
    let limited = until("its record tells its role", || {
        let query = "/admin/api/why?operation=echo&caller=the%20caller";
        let answer = world.operator.get(query);
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(limited["role"], "caller");
    assert_eq!(
        rule("operation=echo&caller=the%20caller"),
        of("limit", "rate_limits.per_tool: echo")
    );
    assert_eq!(kind_of(&caller.call("echo", json!({}))), "rate_limited");
    assert_eq!(rule("operation=echo&role=caller"), None, "of no caller");
    assert_eq!(rule("operation=echo&caller=another&role=caller"), None);

    let kill = json!({"scope": "tool", "name": "echo", "reason": "it loops"});
    assert_eq!(world.operator.post("/admin/api/kill", &kill).status, 200);
    assert_eq!(
        rule("operation=echo&role=admin"),
        of("kill", "kill: tool echo (it loops)")
    );
    let why = world.get("why?operation=echo&role=admin");
    assert_eq!((&why["see"], &why["call"]), (&json!(false), &json!(false)));
    let nobody = world
        .operator
        .get("/admin/api/why?operation=echo&caller=nobody");
    assert_eq!(nobody.status, 400);
    assert!(nobody.text.contains("`role`"), "{nobody:?}");
}

/// A key stands for its holder, by its name and by its id.
#[test]
fn why_takes_an_api_key_for_its_caller() {
    let server = Server::start(&[]);
    let alpha = http_backend("alpha", &server.address, "");
    let beta = http_backend("beta", &server.address, "");
    let setup = Setup::new(&format!("{ROLES}{alpha}{beta}"));
    let (code, _, err) = setup.sentinel(&["key", "create", "ci", "--role", "reader"]);
    assert_eq!(code, 0, "{err}");
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    let operator = Web::new(&gateway).bearing(&token(json!({"role": "admin"})));
    let get = |what: &str| operator.get(&format!("/admin/api/{what}")).json();
    let id = get("keys")["keys"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    for name in ["ci", &id] {
        let why = get(&format!("why?operation=echo&caller={name}"));
        assert_eq!(why["role"], "reader", "{why}");
        assert_eq!(why["caller"], format!("key:{id}"), "{why}");
        assert_eq!(
            (&why["see"], &why["call"]),
            (&json!(true), &json!(false)),
            "{why}"
        );
    }
}

/// The figures are those of the calls that were made.
#[test]
fn limits_tell_rates_places_and_circuits_as_they_stand() {
    let server = Server::start(&[]);
    let alpha = http_backend(
        "alpha",
        &server.address,
        "[backends.circuit_breaker]\nthreshold = 2\n",
    );
    let child = stdio_backend("child", &[], "prefix = \"always\"");
    let settings = "[rate_limits]\ndefault_rpm = 600\nburst = 10\nper_tool = { slow = 3, \"no*\" = 0 }\n\
        [admission]\nmax_concurrent = 7\nqueue_size = 5\n";
    let gateway = Gateway::ready(&format!("{settings}{alpha}{child}"));
    let operator = Web::new(&gateway);
    let limits = || operator.get("/admin/api/limits").json();
    let before = limits();
    assert_eq!(before["rates"]["default_rpm"], 600);
    assert_eq!(before["rates"]["per_tool"], json!({"no*": 0, "slow": 3}));
    assert_eq!(before["buckets"], json!([]));
    assert_eq!(
        (
            &before["admission"]["max"],
            &before["admission"]["queue_max"]
        ),
        (&json!(7), &json!(5))
    );
    let backends = before["admission"]["backends"]
        .as_array()
        .expect("backends");
    assert_eq!(backends.len(), 2, "{before}");
    assert!(before["sessions"]["max"].as_u64() > Some(0));
    let caller = Modern::new(&gateway, "/mcp");
    for _ in 0..4 {
        caller.said("echo", json!({"text": "x"}));
    }
    caller.call("slow", json!({"ms": 0}));
    let after = limits();
    let buckets = after["buckets"].as_array().expect("buckets");
    assert_eq!(after["buckets_total"], 2);
    let names: Vec<&str> = buckets
        .iter()
        .filter_map(|one| one["tool"].as_str())
        .collect();
    assert_eq!(names.len(), 2, "{after}");
    for bucket in buckets {
        assert_eq!(
            (&bucket["caller"], &bucket["backend"]),
            (&json!("local"), &json!("alpha"))
        );
        let (limit, most) = match bucket["tool"].as_str() {
            Some("echo") => (600, 9),
            _ => (3, 9),
        };
        assert_eq!(bucket["limit"], limit, "{bucket}");
        assert!(bucket["remaining"].as_u64() <= Some(most), "{bucket}");
        assert!(bucket["full_in_ms"].as_u64() > Some(0), "{bucket}");
    }
    drop(server);
    for _ in 0..2 {
        caller.call("echo", json!({"text": "x"}));
    }
    let circuits = limits()["circuits"].clone();
    let of = |name: &str| {
        let all = circuits.as_array().expect("circuits");
        all.iter()
            .find(|one| one["backend"] == name)
            .cloned()
            .expect("it is there")
    };
    assert_eq!(of("alpha")["state"], "open", "{circuits}");
    assert_eq!(of("alpha")["threshold"], 2);
    assert!(of("alpha")["retry_after_ms"].as_u64() > Some(0));
    assert_eq!(of("child")["state"], "closed");
}
