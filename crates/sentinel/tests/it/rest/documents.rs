//! The documents about the catalog: who sees what in them, when they change, and that they agree with the lists.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern};
use crate::support::http::{self, Answer};
use crate::support::setup::{Gateway, SECRET, Setup, stdio_backend, until};
use crate::support::tokens::{JSON_BODY, token};

/// Every document that is made of the catalog over GET.
const DOCUMENTS: [&str; 4] = [
    "/openapi.json",
    "/openapi.yaml",
    "/llms.txt",
    "/llms-full.txt",
];

const ROLES: &str = "[auth]\njwt_secret_env = \"SECRET\"\n\
    [rbac.roles.reader]\npermissions = [\"tools.read\", \"tools.execute\"]\n\
    denied_tools = [\"slow\", \"alpha.fail\", \"greet\"]\n";

pub(super) fn guarded(options: &[&str]) -> Gateway {
    let config = format!("{ROLES}{}", stdio_backend("alpha", options, ""));
    let gateway = Gateway::start_in(Setup::with_env(&config, &[("SECRET", SECRET)]));
    gateway.wait_ready();
    gateway
}

fn bearer(role: &str) -> (&'static str, String) {
    (
        "Authorization",
        format!("Bearer {}", token(json!({ "role": role }))),
    )
}

pub(super) fn get(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> Answer {
    http::send(&gateway.address, "GET", path, headers, "").finish()
}

fn get_as(gateway: &Gateway, role: &str, path: &str) -> Answer {
    let (name, value) = bearer(role);
    get(gateway, path, &[(name, &value)])
}

fn discover(gateway: &Gateway, headers: &[(&str, &str)]) -> Value {
    let body = r#"{"jsonrpc":"2.0","id":7,"method":"rpc.discover"}"#;
    let headers: Vec<(&str, &str)> = headers.iter().copied().chain([JSON_BODY]).collect();
    let answer = http::send(&gateway.address, "POST", "/rpc", &headers, body).finish();
    assert_eq!((answer.status, &answer.json()["id"]), (200, &json!(7)));
    answer.json()["result"].clone()
}

/// The tools that the paths of an OpenAPI document call.
fn tools_of(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().expect("paths");
    let posts = paths.iter().filter(|(_, item)| item.get("post").is_some());
    let names = posts.filter_map(|(path, _)| path.strip_prefix("/api/"));
    let tools = names.filter(|name| !name.contains('/'));
    tools.map(decoded).collect()
}

/// A segment of a path without its percent signs.
fn decoded(segment: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = segment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let hex = std::str::from_utf8(&after[..2]).expect("two digits");
            bytes.push(u8::from_str_radix(hex, 16).expect("a byte"));
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).expect("text")
}

fn names(list: &Value) -> BTreeSet<String> {
    let all = list.as_array().expect("a list").iter();
    all.map(|item| item["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn a_2_every_listed_tool_and_prompt_is_in_the_documents_and_nothing_else() {
    let config = format!(
        "{}{}",
        stdio_backend(
            "alpha",
            &["--tools", "3"],
            "tools = { rename = { echo_1 = \"odd.name-7\" } }"
        ),
        stdio_backend("beta", &[], "prefix = \"always\"")
    );
    let gateway = Gateway::ready(&config);
    let caller = Legacy::newest(&gateway);
    let listed = caller.ask("tools/list", json!({}))["result"]["tools"].clone();
    let openapi = get(&gateway, "/openapi.json", &[]).json();
    assert_eq!(tools_of(&openapi), names(&listed));
    assert!(names(&listed).contains("odd.name-7"));
    let odd = &openapi["paths"]["/api/odd.name-7"]["post"];
    assert_eq!(odd["x-mcp-name"], "odd.name-7");
    assert_eq!(odd["operationId"], "odd_name_7");
    let read_only = |tool: &&Value| tool["annotations"]["readOnlyHint"] == true;
    let with_get = listed
        .as_array()
        .expect("a list")
        .iter()
        .filter(read_only)
        .count();
    let gets = openapi["paths"].as_object().expect("paths").iter();
    let gets = gets.filter(|(_, item)| item.get("get").is_some() && item.get("post").is_some());
    assert_eq!(gets.count(), with_get);
    let prompts = caller.ask("prompts/list", json!({}))["result"]["prompts"].clone();
    for name in names(&prompts) {
        let path = format!("/api/prompts/{name}");
        assert!(openapi["paths"][&path]["post"].is_object(), "{path}");
    }
    let rpc = discover(&gateway, &[]);
    let methods = names(&rpc["methods"]);
    let of_tools: BTreeSet<String> = methods
        .into_iter()
        .filter(|name| !name.starts_with("rpc."))
        .collect();
    assert_eq!(of_tools, names(&listed));
    let ids: Vec<&str> = openapi["paths"]
        .as_object()
        .expect("paths")
        .values()
        .flat_map(|item| item.as_object().expect("verbs").values())
        .map(|operation| operation["operationId"].as_str().expect("an id"))
        .collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len());
    let tags: Vec<&str> = openapi["tags"]
        .as_array()
        .expect("tags")
        .iter()
        .filter_map(|tag| tag["name"].as_str())
        .collect();
    assert_eq!(tags, ["alpha", "beta", "Gateway"]);
}

/// Headers that change how a call is made, the answers that they lead to, and the paths of calls that are answered later.
#[test]
fn a_15_the_document_describes_keys_preferences_and_later_answers() {
    let config = format!(
        "[surfaces]\nrest_path = \"/tools\"\n{}",
        stdio_backend("alpha", &[], "")
    );
    let gateway = Gateway::ready(&config);
    let openapi = get(&gateway, "/openapi.json", &[]).json();
    let resolved = |place: &Value| match place["$ref"].as_str() {
        Some(target) => openapi.pointer(&target[1..]).expect("a component").clone(),
        None => place.clone(),
    };
    let keys = |object: &Value| -> BTreeSet<String> {
        object
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect()
    };
    let headers = |operation: &Value| -> BTreeSet<String> {
        let all = operation["parameters"].as_array().expect("parameters");
        let all = all.iter().map(&resolved).filter(|p| p["in"] == "header");
        all.map(|p| p["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    let set = |names: &[&str]| -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    };
    let echo = &openapi["paths"]["/tools/echo"];
    assert_eq!(
        headers(&echo["post"]),
        set(&["X-Confirmation-Token", "Idempotency-Key", "Prefer"])
    );
    assert_eq!(headers(&echo["get"]), set(&["X-Confirmation-Token"]));
    let answers = &echo["post"]["responses"];
    let later = keys(&resolved(&answers["202"])["headers"]);
    assert!(later.is_superset(&set(&["Location", "Preference-Applied", "Retry-After"])));
    assert!(keys(&resolved(&answers["200"])["headers"]).contains("Idempotency-Replayed"));
    assert!(
        !keys(&resolved(&echo["get"]["responses"]["200"])["headers"])
            .contains("Idempotency-Replayed")
    );
    for (status, code) in [
        ("400", "invalid_request"),
        ("409", "idempotency_in_progress"),
        ("422", "idempotency_mismatch"),
        ("422", "answer_lost"),
    ] {
        let text = resolved(&answers[status])["description"].to_string();
        assert!(text.contains(&format!("`{code}`")), "{status}: {text}");
    }
    let task = &openapi["paths"]["/tools/tasks/{id}"];
    for (operation, statuses) in [
        (&task["get"], ["200", "202", "404", "409"].as_slice()),
        (&task["delete"], &["204", "404"]),
        (
            &openapi["paths"]["/tools/tasks/{id}/continue"]["post"],
            &["202", "400", "404"],
        ),
    ] {
        let told = keys(&operation["responses"]);
        assert!(told.is_superset(&set(statuses)), "{operation}");
        assert_eq!(operation["parameters"][0]["name"], "id");
    }
    let schema = &openapi["components"]["parameters"]["IdempotencyKey"]["schema"];
    let schema = jsonschema::validator_for(schema).expect("a schema");
    for (key, is_good) in [
        ("order-17", true),
        ("\"order 17\"", true),
        (r#""a\"b""#, true),
        ("a b", false),
        ("a,b", false),
        ("a;b", false),
        (r"a\b", false),
        ("\"open", false),
        ("", false),
        ("\"\"", false),
    ] {
        assert_eq!(schema.is_valid(&json!(key)), is_good, "{key}");
        let headers = [JSON_BODY, ("Idempotency-Key", key)];
        let body = r#"{"text":"x"}"#;
        let answer = http::send(&gateway.address, "POST", "/tools/echo", &headers, body).finish();
        assert_eq!(answer.status == 200, is_good, "{key}: {answer:?}");
    }
}

#[test]
fn a_2_documents_hold_what_their_caller_sees() {
    let gateway = guarded(&[]);
    for path in DOCUMENTS {
        assert_eq!(get(&gateway, path, &[]).status, 401, "{path}");
        let (all, part) = (
            get_as(&gateway, "admin", path),
            get_as(&gateway, "reader", path),
        );
        assert_eq!((all.status, part.status), (200, 200), "{path}");
        for hidden in ["/api/fail", "/api/prompts/greet"] {
            assert!(all.text.contains(hidden), "{path} {hidden}");
            assert!(!part.text.contains(hidden), "{path} {hidden}");
        }
    }
    let of = |role: &str| {
        let (name, value) = bearer(role);
        let rpc = discover(&gateway, &[(name, &value)]);
        (
            tools_of(&get_as(&gateway, role, "/openapi.json").json()),
            names(&rpc["methods"]),
        )
    };
    let ((all, all_rpc), (part, part_rpc)) = (of("admin"), of("reader"));
    let hidden: BTreeSet<String> = ["slow", "fail"].map(str::to_owned).into();
    assert_eq!(
        all.difference(&part).cloned().collect::<BTreeSet<_>>(),
        hidden
    );
    assert_eq!(
        all_rpc
            .difference(&part_rpc)
            .cloned()
            .collect::<BTreeSet<_>>(),
        hidden
    );
    let openapi = get_as(&gateway, "reader", "/openapi.json").json();
    assert_eq!(
        openapi["components"]["securitySchemes"]["bearer"]["scheme"],
        "bearer"
    );
    assert_eq!(openapi["security"], json!([{ "bearer": [] }]));
    assert!(openapi["paths"]["/api/echo"]["post"]["responses"]["401"].is_object());
    assert_eq!(
        get_as(&gateway, "reader", "/admin/openapi.json").status,
        403
    );
    // What an operator switches off is gone from all of them.
    let (name, value) = bearer("admin");
    let kill = r#"{"scope":"tool","name":"echo"}"#;
    let headers = [(name, value.as_str()), JSON_BODY];
    let killed = http::send(&gateway.address, "POST", "/admin/api/kill", &headers, kill).finish();
    assert_eq!(killed.status, 200, "{killed:?}");
    assert!(!of("admin").0.contains("echo") && !of("reader").1.contains("echo"));
}

#[test]
fn a_2_a_document_has_another_tag_exactly_when_it_is_another() {
    let gateway = Gateway::ready(&stdio_backend("alpha", &[], ""));
    let tag_of = |path: &str| get(&gateway, path, &[]).header("etag").to_owned();
    for path in DOCUMENTS
        .iter()
        .chain(&["/admin/openapi.json", "/problems", "/explorer"])
    {
        let first = get(&gateway, path, &[]);
        let tag = first.header("etag");
        assert!(!tag.is_empty(), "{path}");
        let again = get(&gateway, path, &[("If-None-Match", tag)]);
        assert_eq!((again.status, &*again.text), (304, ""), "{path}");
        let other = get(&gateway, path, &[("If-None-Match", "\"other\"")]);
        assert_eq!(
            (other.status, other.text == first.text),
            (200, true),
            "{path}"
        );
        let head = http::send(&gateway.address, "HEAD", path, &[], "").head();
        let length = first.text.len().to_string();
        let has = |name: &str, value: &str| {
            head.headers
                .iter()
                .any(|(n, v)| n.eq_ignore_ascii_case(name) && v == value)
        };
        assert!(
            head.status == 200 && has("etag", tag) && has("content-length", &length),
            "{path} {:?}",
            head.headers
        );
    }
    let before = DOCUMENTS.map(tag_of);
    // Calls change nothing of what is listed, but for one that does.
    let call = |tool: &str, arguments: &str| {
        let path = format!("/api/{tool}");
        http::send(&gateway.address, "POST", &path, &[JSON_BODY], arguments).finish()
    };
    assert_eq!(call("echo", r#"{"text":"x"}"#).status, 200);
    assert_eq!(DOCUMENTS.map(tag_of), before);
    assert_eq!(call("grow", "{}").status, 200);
    until("the new tool is in the document", || {
        (tag_of("/openapi.json") != before[0]).then_some(())
    });
    let after = DOCUMENTS.map(tag_of);
    for (at, path) in DOCUMENTS.iter().enumerate() {
        assert_ne!(after[at], before[at], "{path}");
    }
}

#[test]
fn e_6_the_costs_of_llms_txt_are_those_of_the_lists_and_of_the_command() {
    let gateway = Gateway::ready(&stdio_backend("alpha", &[], ""));
    let caller = Modern::new(&gateway, "/mcp");
    let entries = caller.ask("tools/list", json!({}))["result"]["tools"].clone();
    let (index, full) = (
        get(&gateway, "/llms.txt", &[]).text,
        get(&gateway, "/llms-full.txt", &[]).text,
    );
    assert!(
        index.starts_with("# Sentinel Gateway\n\n> ")
            && full.starts_with("# Sentinel Gateway\n\n> ")
    );
    let (code, printed, warned) = gateway
        .setup
        .sentinel(&["cost", "--json", "--warn-above", "60"]);
    assert_eq!(code, 0, "{warned}");
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    let rows = printed["definitions"].as_array().expect("rows");
    let cost = |row: &Value| row["tokens"].as_u64().expect("a number");
    assert!(rows.is_sorted_by(|a, b| cost(a) >= cost(b)));
    assert_eq!(
        rows.iter().map(cost).sum::<u64>(),
        printed["total"].as_u64().expect("a sum")
    );
    assert!(
        index.contains(&format!("{} tokens in all", printed["total"])),
        "{index}"
    );
    for entry in entries.as_array().expect("a list") {
        let name = entry["name"].as_str().expect("a name");
        let tokens = entry.to_string().chars().count().div_ceil(4);
        assert!(
            index.contains(&format!("- [{name}](/api/{name})")),
            "{name}"
        );
        let line = index
            .lines()
            .find(|line| line.contains(&format!("](/api/{name})")));
        assert!(
            line.is_some_and(|line| line.ends_with(&format!("({tokens} tokens)"))),
            "{name} {line:?}"
        );
        assert!(
            full.contains(&format!("POST or GET /api/{name} ({tokens} tokens)"))
                || full.contains(&format!("POST /api/{name} ({tokens} tokens)")),
            "{name}"
        );
        let row = rows
            .iter()
            .find(|row| row["kind"] == "tool" && row["name"] == name)
            .expect("a row");
        assert_eq!(row["tokens"], tokens, "{name}");
        assert_eq!(row["isAboveBound"], tokens > 60, "{name}");
        assert_eq!(
            warned.contains(&format!("`{name}` costs {tokens} tokens")),
            tokens > 60,
            "{name}"
        );
    }
}

#[test]
fn a_2_the_admin_api_has_a_document_of_its_own() {
    let gateway = guarded(&[]);
    let document = get_as(&gateway, "admin", "/admin/openapi.json").json();
    let paths = document["paths"].as_object().expect("paths");
    // Besides the admin API what the console asks before anybody signed in.
    let is_known = |path: &String| {
        path.starts_with("/admin/api/") || ["/", "/console/api/session"].contains(&path.as_str())
    };
    assert!(paths.len() > 10 && paths.keys().all(is_known));
    for (path, item) in paths {
        for (verb, operation) in item.as_object().expect("verbs") {
            assert!(operation["operationId"].is_string(), "{verb} {path}");
            // One JSON value, one event of a stream, or one of many lines.
            let content = operation["responses"]["200"]["content"].as_object();
            let (_, content) = content.and_then(|all| all.iter().next()).expect("content");
            let name = content["schema"]["$ref"]
                .as_str()
                .and_then(|target| target.strip_prefix("#/components/schemas/"));
            assert!(
                document["components"]["schemas"][name.expect("a component")].is_object(),
                "{verb} {path}"
            );
        }
    }
    let live = &document["paths"]["/admin/api/live"]["get"]["responses"]["200"]["content"];
    assert!(live["text/event-stream"].is_object(), "{live}");
    let search = document["paths"]["/admin/api/audit"]["get"]["parameters"]
        .as_array()
        .expect("parameters")
        .clone();
    assert!(names(&json!(search)).contains("limit"));
}
