//! Backends that an operator keeps down, and what their children write to standard error.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, kind_of, tool};
use crate::support::http::Stream;
use crate::support::postgres::Cluster;
use crate::support::processes;
use crate::support::setup::{
    Gateway, Server, Setup, fixture, http_backend, program_backend, stdio_backend, until,
};
use crate::support::shop::login_url;
use crate::support::web::Web;

fn post(operator: &Web, what: &str, body: &Value) -> Value {
    let answer = operator.post(&format!("/admin/api/{what}"), body);
    assert_eq!(answer.status, 200, "{what} {body}: {answer:?}");
    answer.json()
}

fn stop(operator: &Web, backend: &str) -> Value {
    post(
        operator,
        "backends/stop",
        &json!({"backend": backend, "reason": "it is on fire"}),
    )
}

fn start(operator: &Web, backend: &str) -> Value {
    post(operator, "backends/start", &json!({"backend": backend}))
}

fn message(answer: &Value) -> String {
    answer["error"]["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_stopped_child_ends_takes_no_calls_and_comes_back_only_when_it_is_started() {
    let more = "prefix = \"always\"\nhealth_interval = 1\n";
    let child = stdio_backend("child", &[], more);
    let other = stdio_backend("other", &[], "prefix = \"always\"");
    let gateway = Gateway::ready(&format!("{child}{other}"));
    let operator = Web::new(&gateway);
    let pid = gateway.process.pid();
    let children = || processes::running(pid, "sentinel-fixture").len();
    assert_eq!(children(), 2);
    let caller = Modern::new(&gateway, "/mcp");
    assert!(caller.tools().contains(&"child__echo".to_owned()));
    // One call runs.
    let running = Legacy::newest(&gateway);
    let slow = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call",
        "params": tool("child__slow", json!({"ms": 60_000}))});
    let slow = running.send(&slow.to_string());
    until("it runs", || {
        let all = operator.get("/admin/api/backends").json();
        (all[0]["active"] == 1).then_some(())
    });

    let status = stop(&operator, "child");
    assert_eq!(status["health"], "stopped", "{status}");
    assert_eq!(
        (&status["problem"], &status["listed"]),
        (&json!("it is on fire"), &json!(false))
    );
    assert_eq!(children(), 1, "its process is gone when the answer comes");
    let ended = slow.finish().json();
    assert!(ended["error"].is_object(), "{ended}");
    assert!(!caller.tools().contains(&"child__echo".to_owned()));
    assert!(caller.tools().contains(&"other__echo".to_owned()));
    let refused = || {
        let refused = caller.call("child__echo", json!({"text": "x"}));
        assert_eq!(kind_of(&refused), "disabled", "{refused}");
        let text = message(&refused);
        assert!(
            text.contains("stopped by an operator: it is on fire"),
            "{text}"
        );
    };
    refused();
    let why = operator
        .get("/admin/api/why?operation=child__echo&role=admin")
        .json();
    assert_eq!(why["call"], false, "{why}");
    assert!(why.to_string().contains("stop: backend child"), "{why}");
    let ready = gateway.get("/ready");
    assert_eq!(
        (ready.status, &ready.json()["backends"]["child"]),
        (200, &json!("stopped"))
    );
    // Again is no mistake; a reload, which starts others anew, does not bring it back.
    stop(&operator, "child");
    let changed = stdio_backend("child", &[], "prefix = \"always\"\ntimeout = 7\n");
    let replaced = stdio_backend("other", &[], "prefix = \"always\"\ntimeout = 7\n");
    gateway.setup.rewrite(&format!("{changed}{replaced}"));
    let reloaded = post(&operator, "reload", &json!({}));
    assert_eq!(
        reloaded["replaced"],
        json!(["child", "other"]),
        "{reloaded}"
    );
    refused();
    until("the other one is back", || {
        (gateway.health("other") == "up").then_some(())
    });
    assert_eq!(gateway.health("child"), "stopped");

    let status = start(&operator, "child");
    assert_eq!(
        (&status["health"], &status["listed"]),
        (&json!("up"), &json!(true)),
        "{status}"
    );
    assert_eq!(caller.said("child__echo", json!({"text": "x"})), "x");
    assert!(caller.tools().contains(&"child__echo".to_owned()));
    // Of one that runs a start is nothing.
    let again = start(&operator, "child");
    assert_eq!(again["health"], "up");
    // A restart brings it back as well.
    stop(&operator, "child");
    let restarted = post(&operator, "restart", &json!({"backend": "child"}));
    assert_eq!(restarted["up"], true, "{restarted}");
    assert_eq!(caller.said("child__echo", json!({"text": "x"})), "x");
    let log = gateway.setup.log();
    assert!(log.contains("stopped by an operator") && log.contains("started by an operator"));
    until("it is on record", || {
        let records = operator
            .get("/admin/api/audit?method=admin/backends/stop")
            .json();
        let records = records["records"].to_string();
        records.contains("backend child").then_some(())
    });
    for (what, backend, status) in [("stop", "nothing", 400), ("start", "nothing", 400)] {
        let path = format!("/admin/api/backends/{what}");
        assert_eq!(
            operator.post(&path, &json!({"backend": backend})).status,
            status
        );
    }
    let lines = json!({"backend": "child", "reason": "two\nlines"});
    assert_eq!(
        operator.post("/admin/api/backends/stop", &lines).status,
        400
    );
}

/// The gateway that starts again starts everything, for what an operator stopped is not in the configuration.
#[test]
fn a_stop_lasts_until_the_gateway_starts_again() {
    let gateway = Gateway::ready(&stdio_backend("child", &[], ""));
    stop(&Web::new(&gateway), "child");
    assert_eq!(gateway.health("child"), "stopped");
    let gateway = gateway.restart();
    gateway.wait_ready();
}

/// Nothing of what wakes backends wakes this one.
#[test]
fn a_lazy_child_that_is_stopped_is_not_started_by_a_call() {
    let gateway = Gateway::ready(&stdio_backend("child", &[], ""));
    let lazy = stdio_backend("child", &[], "start = \"lazy\"");
    gateway.setup.rewrite(&lazy);
    let operator = Web::new(&gateway);
    post(&operator, "reload", &json!({}));
    let status = stop(&operator, "child");
    assert_eq!(status["health"], "stopped");
    let caller = Modern::new(&gateway, "/mcp");
    assert_eq!(
        kind_of(&caller.call("echo", json!({"text": "x"}))),
        "disabled"
    );
    let children = processes::running(gateway.process.pid(), "sentinel-fixture");
    assert_eq!(children, Vec::<u32>::new());
    start(&operator, "child");
    assert_eq!(caller.said("echo", json!({"text": "x"})), "x");
}

#[test]
fn backends_of_every_kind_can_be_stopped_and_started() {
    let server = Server::start(&[]);
    let api = Server::api(&[]);
    let cluster = Cluster::start();
    cluster.run(include_str!("../postgres/shop.sql"));
    let setup = Setup::with_env("", &[("SHOP_DATABASE_URL", &login_url(&cluster))]);
    let spec = setup.data().with_file_name("api.json");
    let paths =
        json!({"/x": {"get": {"operationId": "look", "responses": {"200": {"description": "x"}}}}});
    let description =
        json!({"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths});
    std::fs::write(&spec, description.to_string()).expect("ours");
    setup.rewrite(&format!(
        "{}[[backends]]\nname = \"api\"\ntype = \"openapi\"\nspec = {spec:?}\nbase_url = \"http://{}\"\n\
         [[backends]]\nname = \"shop\"\ntype = \"postgres\"\nurl_env = \"SHOP_DATABASE_URL\"\n",
        http_backend("alpha", &server.address, ""),
        api.address
    ));
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    let operator = Web::new(&gateway);
    let caller = Modern::new(&gateway, "/mcp");
    let of = |backend: &str| -> Vec<String> {
        let catalog = operator.get("/admin/api/catalog").json();
        let all = catalog.as_array().expect("entries").iter();
        let own = all.filter(|one| one["backend"] == backend && one["kind"] == "tools");
        own.filter_map(|one| one["name"].as_str().map(str::to_owned))
            .collect()
    };
    let sessions =
        || cluster.ask("SELECT count(*) FROM pg_stat_activity WHERE usename = 'gateway'");
    for backend in ["alpha", "api", "shop"] {
        let tools = of(backend);
        assert!(!tools.is_empty(), "{backend}");
        let status = stop(&operator, backend);
        assert_eq!(
            (&status["health"], &status["listed"]),
            (&json!("stopped"), &json!(false)),
            "{status}"
        );
        assert_eq!(of(backend), Vec::<String>::new());
        let refused = caller.call(&tools[0], json!({}));
        assert_eq!(kind_of(&refused), "disabled", "{backend}: {refused}");
        if backend == "shop" {
            until("its connections are closed", || {
                (sessions() == "0").then_some(())
            });
        }
        let status = start(&operator, backend);
        assert_eq!(
            (&status["health"], &status["listed"]),
            (&json!("up"), &json!(true)),
            "{status}"
        );
        assert_eq!(of(backend), tools);
        let answer = caller.call(&tools[0], json!({}));
        assert_ne!(kind_of(&answer), "disabled", "{backend}: {answer}");
    }
    // A server that cannot be reached is no reason to wait for ever.
    stop(&operator, "alpha");
    drop(server);
    let status = start(&operator, "alpha");
    assert_ne!(status["health"], "stopped", "{status}");
    let stream = operator.get("/admin/api/backends/stderr?backend=alpha");
    assert_eq!(stream.status, 404, "{stream:?}");
    assert!(stream.text.contains("no program"), "{stream:?}");
}

/// A child that says something on standard error, and again whenever the file has another line.
fn noisy(name: &str, lines: &str, more: &str) -> String {
    let script = format!(
        "printf '{lines}' >&2; exec {} stdio",
        fixture().to_str().expect("text")
    );
    program_backend(name, "sh", &["-c", &script], more)
}

fn follow(gateway: &Gateway, backend: &str) -> Stream {
    let path = format!("/admin/api/backends/stderr?backend={backend}");
    let stream = Web::new(gateway).send("GET", &path, &[], "").head();
    assert_eq!(stream.status, 200);
    stream
}

fn line(stream: &mut Stream) -> Value {
    let message = stream.message().expect("the stream goes on");
    serde_json::from_str(&message).expect("JSON")
}

#[test]
fn standard_error_is_kept_and_followed_across_stops_and_starts() {
    let text = "first\\n\\033[31mred\\033[0m \\001\\nlast \\302\\265\\n";
    let gateway = Gateway::ready(&noisy("child", text, ""));
    let operator = Web::new(&gateway);
    let mut stream = follow(&gateway, "child");
    let lines: Vec<Value> = (0..3).map(|_| line(&mut stream)).collect();
    let texts: Vec<&str> = lines
        .iter()
        .filter_map(|one| one["text"].as_str())
        .collect();
    assert_eq!(
        texts,
        ["first", "\u{1b}[31mred\u{1b}[0m \u{1}", "last \u{b5}"]
    );
    let pid = processes::running(gateway.process.pid(), "sentinel-fixture")[0];
    assert_eq!(lines[0]["child"], pid.to_string());
    assert!(lines[0]["at_ms"].as_u64() > Some(1_700_000_000_000));
    // Kept while it is stopped, and followed in the next process.
    stop(&operator, "child");
    assert_eq!(line(&mut follow(&gateway, "child"))["text"], "first");
    start(&operator, "child");
    let again = line(&mut stream);
    assert_eq!(again["text"], "first");
    assert_ne!(again["child"], lines[0]["child"]);
    let wrong = operator.get("/admin/api/backends/stderr");
    assert_eq!(wrong.status, 400);
    assert_eq!(
        operator.get("/admin/api/backends/stderr?backend=x").status,
        400
    );
    // It ends with the backend.
    gateway.setup.rewrite("");
    post(&operator, "reload", &json!({}));
    while stream.message().is_some() {}
}

#[test]
fn children_of_callers_are_named_by_their_callers() {
    let gateway = Gateway::ready(&noisy("child", "hello\\n", "isolation = \"session\"\n"));
    let mut stream = follow(&gateway, "child");
    let shared = line(&mut stream)["child"]
        .as_str()
        .expect("text")
        .to_owned();
    assert!(shared.parse::<u32>().is_ok(), "{shared}");
    let sessions = [Legacy::newest(&gateway), Legacy::newest(&gateway)];
    let mut names = Vec::new();
    for session in &sessions {
        assert_eq!(session.said("echo", json!({"text": "x"})), "x");
        let child = line(&mut stream)["child"]
            .as_str()
            .expect("text")
            .to_owned();
        assert!(child.contains(" session "), "{child}");
        names.push(child);
    }
    assert_ne!(names[0], names[1]);
}

/// A flood neither grows without bound nor holds anybody up; what is missing is told.
#[test]
fn a_flood_of_lines_is_cut_and_told() {
    let script = format!(
        "i=0; while [ $i -lt 3000 ]; do echo line $i >&2; i=$((i+1)); done; exec {} stdio",
        fixture().to_str().expect("text")
    );
    let gateway = Gateway::ready(&program_backend("child", "sh", &["-c", &script], ""));
    let mut stream = follow(&gateway, "child");
    let mut texts = Vec::new();
    while texts.last().map(String::as_str) != Some("line 2999") {
        let line = line(&mut stream);
        texts.extend(line["text"].as_str().map(str::to_owned));
    }
    assert!(texts.len() <= 500, "{}", texts.len());
    let operator = Web::new(&gateway);
    let caller = Modern::new(&gateway, "/mcp");
    assert_eq!(caller.said("echo", json!({"text": "x"})), "x");
    assert_eq!(operator.get("/admin/api/backends").status, 200);
}
