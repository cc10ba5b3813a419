//! The configuration is read again while the gateway runs (P-R15, G-69).

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, Steady, kind_of, text_of, tool};
use crate::support::http::{self, Answer, Sent};
use crate::support::processes;
use crate::support::processes::resident_kib;
use crate::support::setup::{Gateway, Process, Server, Setup, http_backend, stdio_backend, until};
use crate::support::tokens::{ping_as, token};

const DIFF: &str = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";

fn reload(gateway: &Gateway) -> Answer {
    ask_to_reload(gateway).finish()
}

fn ask_to_reload(gateway: &Gateway) -> Sent {
    let headers = [("Content-Type", "application/json")];
    http::send(
        &gateway.address,
        "POST",
        "/admin/api/reload",
        &headers,
        "{}",
    )
}

/// What the gateway says that it did with this configuration. It looks at the file by itself as well; stopped until it
/// has the request, it does not come first, however long this side takes.
#[track_caller]
fn reloaded(gateway: &Gateway, config: &str) -> Value {
    gateway.process.signal("STOP");
    gateway.setup.rewrite(config);
    let asked = ask_to_reload(gateway);
    gateway.process.signal("CONT");
    let answer = asked.finish();
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The least that something is in five seconds without calls: connections to backends idle for four, and then go.
fn settled(mut count: impl FnMut() -> usize) -> usize {
    let looks = (0..50).map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        count()
    });
    looks.min().expect("fifty of them")
}

/// A short form of P-R15: 100 reloads under load, 20 of them of broken files. Two backends are never
/// touched, one is replaced by most reloads, one comes and goes.
#[test]
fn p_r15_a_hundred_reloads_under_load_lose_nothing() {
    const NAMES: [&str; 3] = ["echo", "child__echo", "turned__echo"];
    let server = Server::start(&[]);
    let steady = format!(
        "{}{}",
        http_backend("alpha", &server.address, ""),
        stdio_backend("child", &[], "prefix = \"always\"")
    );
    let turned = |n: u64| {
        let timeout = 60 + n % 7;
        let replaced = format!("prefix = \"always\"\ntimeout = {timeout}");
        let mut config = format!(
            "{steady}{}",
            http_backend("turned", &server.address, &replaced)
        );
        if n.is_multiple_of(3) {
            let late = http_backend("late", &server.address, "prefix = \"always\"");
            config.push_str(&late);
        }
        let denied = if n.is_multiple_of(4) {
            "[\"never\"]"
        } else {
            "[]"
        };
        let roles = format!(
            "[rbac.roles.admin]\npermissions = [\"*\"]\ndenied_tools = {denied}\n\
             [admission]\nqueue_size = {}\n[rate_limits]\ndefault_rpm = {}\n",
            256 + n % 5,
            if n.is_multiple_of(2) { 0 } else { 4_000_000 }
        );
        roles + &config
    };
    let gateway = Gateway::ready(&turned(1));
    let pid = gateway.process.pid();
    let children = processes::running(pid, "sentinel-fixture");
    assert_eq!(children.len(), 1);
    let session = Legacy::newest(&gateway);
    let mut stream = session.verb("GET").head();
    let open = || {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("ours");
        fds.count()
    };
    // Every backend was called, and nobody calls.
    for name in NAMES {
        let called = Steady::connect(&gateway.address, None).call(name, json!({"text": name}));
        assert_eq!(text_of(&called.expect("an answer")), name);
    }
    assert_eq!(session.said("echo", json!({"text": "x"})), "x");
    let fds = settled(open);

    let taken = |n: u64| {
        gateway.setup.rewrite(&turned(n));
        let answer = reload(&gateway);
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let stop = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(AtomicU64::new(0));
    let callers: Vec<_> = NAMES
        .into_iter()
        .map(|name| {
            let (stop, calls) = (stop.clone(), calls.clone());
            let mut caller = Steady::connect(&gateway.address, None);
            std::thread::spawn(move || {
                let mut wrong: Vec<String> = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    match caller.call(name, json!({"text": name})) {
                        Ok(answer) if text_of(&answer) == name => {}
                        Ok(answer) => wrong.push(answer.to_string()),
                        // The connection is lost, and with it this caller.
                        Err(error) => {
                            wrong.push(format!("{name}: {error}"));
                            break;
                        }
                    }
                    calls.fetch_add(1, Ordering::Relaxed);
                    // Half of the load that one connection can make.
                    std::thread::sleep(Duration::from_millis(2));
                }
                wrong
            })
        })
        .collect();

    let began = Instant::now();
    let (mut memory, mut broken) = (0, 0);
    for n in 0..100 {
        if n % 5 == 2 {
            gateway.setup.rewrite(&format!(
                "{}[limits]\nbody_mb = 0\nbodi_mb = 1\n",
                turned(n)
            ));
            let answer = reload(&gateway);
            assert_eq!(answer.status, 422, "{answer:?}");
            let problem = answer.json();
            assert_eq!(answer.header("content-type"), "application/problem+json");
            let mistakes = problem["mistakes"].as_array().expect("a list");
            assert_eq!(mistakes.len(), 2, "{problem}");
            assert!(
                mistakes.iter().all(|m| m["line"].as_u64() > Some(5)),
                "{problem}"
            );
            broken += 1;
        } else {
            taken(n);
        }
        if n == 10 {
            memory = resident_kib(pid);
        }
    }
    let took = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    let mut wrong = Vec::new();
    for caller in callers {
        wrong.extend(caller.join().expect("no panic"));
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(processes::running(pid, "sentinel-fixture"), children);
    // The session and its stream are still there, and were told.
    assert_eq!(session.said("echo", json!({"text": "x"})), "x");
    assert!(stream.message().is_some_and(|m| m.contains("list_changed")));
    // With as many backends as at first there are as many descriptors.
    taken(1);
    let (calls, left) = (calls.load(Ordering::Relaxed), settled(open));
    let grown = resident_kib(pid).saturating_sub(memory);
    println!(
        "P-R15: 100 reloads ({broken} broken) in {:.1} s under {calls} calls: 0 errors, 0 lost connections, descriptors {fds} -> {left}, resident +{grown} KiB of {memory}",
        took.as_secs_f64()
    );
    assert!(broken == 20 && calls > 300, "{broken} {calls}");
    assert!(left * 100 <= fds * 102, "{fds} -> {left}");
    // What a reload leaves behind would show ninety times.
    assert!(grown * 100 <= memory * 2, "+{grown} KiB of {memory}");
}

#[test]
fn g_69_what_changed_follows_and_the_rest_stays() {
    let server = Server::start(&[]);
    let alpha = http_backend("alpha", &server.address, "");
    let child = stdio_backend("child", &[], "prefix = \"always\"");
    let gateway = Gateway::ready(&format!("{alpha}{child}"));
    let pid = gateway.process.pid();
    let old_child = processes::running(pid, "sentinel-fixture");
    let caller = Modern::new(&gateway, "/mcp");
    let held = caller.send("tools/call", tool("child__barrier", json!({"name": "b"})));
    until("it runs", || {
        (caller.said("child__waiting", json!({"name": "b"})) == "1").then_some(())
    });
    let session = Legacy::newest(&gateway);
    let mut stream = session.verb("GET").head();

    // Nothing new: nobody is told anything.
    let same = reloaded(&gateway, &format!("{alpha}{child}"));
    assert_eq!(same["kept"], json!(["alpha", "child"]), "{same}");
    for list in ["added", "removed", "replaced", "changed", "restart_needed"] {
        assert_eq!(same[list], json!([]), "{same}");
    }

    // Another backend, other names, another role, a switch, and what only a restart changes.
    let beta = http_backend(
        "beta",
        &server.address,
        "tools = { include = [\"echo\", \"slow\"] }",
    );
    let more = format!(
        "log_format = \"json\"\n[kill_switch]\ndisabled_tools = [\"child__echo\"]\n\
         [rbac.roles.admin]\npermissions = [\"*\"]\ndenied_tools = [\"beta__slow\"]\n\
         [limits]\nline_mb = 8\n{alpha}{child}{beta}"
    );
    let done = reloaded(&gateway, &more);
    assert_eq!(done["added"], json!(["beta"]), "{done}");
    assert_eq!(done["changed"], json!(["rbac", "kill_switch"]), "{done}");
    assert_eq!(
        done["restart_needed"],
        json!(["gateway.log_format", "limits.line_mb"]),
        "{done}"
    );
    let told = stream.message().expect("an event");
    assert!(told.contains("list_changed"), "{told}");
    gateway.wait_ready();
    assert_eq!(caller.said("beta__echo", json!({"text": "x"})), "x");
    assert_eq!(
        kind_of(&caller.call("beta__slow", json!({}))),
        "unknown_name"
    );
    assert_eq!(kind_of(&caller.call("child__echo", json!({}))), "disabled");
    let beta_alone = Modern::new(&gateway, "/mcp/beta");
    assert_eq!(beta_alone.tools(), ["echo"]);

    // A changed command: the call in flight ends where it began, then the old child does.
    let changed = child.replace("[\"stdio\"]", "[\"stdio\", \"--tools\", \"2\"]");
    assert_ne!(changed, child);
    let done = reloaded(&gateway, &format!("{alpha}{changed}"));
    assert_eq!(done["replaced"], json!(["child"]), "{done}");
    assert_eq!(done["removed"], json!(["beta"]), "{done}");
    until("the new child is there", || {
        let tools = caller.tools();
        tools.contains(&"child__echo_2".to_owned()).then_some(())
    });
    assert_eq!(caller.said("child__echo_2", json!({"text": "new"})), "new");
    assert_eq!(
        kind_of(&caller.call("beta__echo", json!({}))),
        "unknown_name"
    );
    assert_eq!(
        beta_alone.send("tools/list", json!({})).finish().status,
        404
    );
    assert!(processes::alive(old_child[0]), "its call is not over");
    held.hang_up();
    until("the old child ended", || {
        (!processes::alive(old_child[0])).then_some(())
    });
    assert_eq!(processes::running(pid, "sentinel-fixture").len(), 1);

    // Back again under its name; by SIGHUP, and by nothing but the file.
    gateway.setup.rewrite(&format!("{alpha}{beta}"));
    gateway.process.signal("HUP");
    until("beta is back, child is gone", || {
        let tools = caller.tools();
        let has = |name: &str| tools.iter().any(|tool| tool == name);
        (has("beta__slow") && !has("child__echo")).then_some(())
    });
    gateway.setup.rewrite(&alpha);
    until("the file was looked at", || {
        (!caller.tools().contains(&"beta__echo".to_owned())).then_some(())
    });
    gateway.setup.rewrite("[gateway\n");
    until("mistakes are in the log", || {
        gateway.setup.log().contains("not reloaded").then_some(())
    });
    let (code, _, said) = gateway.setup.sentinel(&["reload"]);
    assert!(
        code == 2 && said.contains("sentinel.toml:"),
        "{code} {said}"
    );
    assert_eq!(caller.said("echo", json!({"text": "x"})), "x");
    gateway.setup.rewrite(&alpha);
    let (code, _, said) = gateway.setup.sentinel(&["reload"]);
    assert!(code == 0 && said.contains("reloaded"), "{code} {said}");
}

/// What the catalog and policy do with a backend needs no restart of it, and is a change all the same.
#[test]
fn g_69_a_backend_that_is_only_seen_otherwise_is_named_and_stays() {
    let child = |more: &str| stdio_backend("child", &[], more);
    let gateway = Gateway::ready(&child(""));
    let old_child = processes::running(gateway.process.pid(), "sentinel-fixture");
    for more in [
        "pin = \"enforce\"",
        "prefix = \"always\"",
        "tools = { rename = { echo = \"say\" } }",
        "tools = { exclude = [\"slow\"] }",
        "admission = { max_concurrent = 3 }",
    ] {
        let done = reloaded(&gateway, &child(more));
        assert_eq!(done["changed"], json!(["backends.child"]), "{more}: {done}");
        assert_eq!(done["kept"], json!(["child"]), "{more}: {done}");
        let same = reloaded(&gateway, &child(more));
        assert_eq!(same["changed"], json!([]), "{more}: {same}");
    }
    // The gateway may look at the file before the command asks it to, and then there is nothing to say.
    let told = ["", "prefix = \"always\"", ""].iter().any(|more| {
        gateway.setup.rewrite(&child(more));
        let (code, _, said) = gateway.setup.sentinel(&["reload"]);
        assert_eq!(code, 0, "{said}");
        said.contains("changed backends.child")
    });
    assert!(told, "{}", gateway.setup.log());
    let now = processes::running(gateway.process.pid(), "sentinel-fixture");
    assert_eq!(now, old_child);
}

#[test]
fn p_s07_a_reload_that_changes_auth_holds_from_the_next_request_and_ends_streams() {
    let server = Server::start(&[]);
    let behind = http_backend("alpha", &server.address, "");
    let gateway = Gateway::ready(&behind);
    let trusted = Legacy::newest(&gateway);
    let mut stream = trusted.verb("GET").head();
    assert_eq!(
        reloaded(&gateway, &format!("[auth]\n{behind}"))["changed"],
        json!(["auth"])
    );
    assert!(
        stream.message_within(Duration::from_secs(1)).is_none(),
        "it ended"
    );
    assert_eq!(trusted.verb("GET").finish().status, 401);
    assert_eq!(reload(&gateway).status, 401);
    let alice = token(json!({}));
    assert_eq!(ping_as(&gateway, &alice).status, 200);
    let session = Legacy::bearing(&gateway, &alice);
    let mut stream = session.verb("GET").head();

    // The same [auth]: streams stay.
    let rewrite = |config: &str| {
        gateway.setup.rewrite(config);
        let (code, _, said) = gateway.setup.sentinel(&["reload"]);
        assert_eq!(code, 0, "{said}");
    };
    rewrite(&format!("[auth]\n[rate_limits]\ndefault_rpm = 7\n{behind}"));
    assert!(session.tools().contains(&"echo".to_owned()));
    // Another issuer: tokens of the old one are refused, and so are its streams.
    rewrite(&format!("[auth]\njwt_issuer = \"other\"\n{behind}"));
    assert_eq!(ping_as(&gateway, &alice).status, 401);
    assert!(
        stream.message_within(Duration::from_secs(1)).is_none(),
        "it ended"
    );
    let renewed = token(json!({"iss": "other"}));
    assert_eq!(ping_as(&gateway, &renewed).status, 200);
}

#[test]
fn p_s07_lists_are_private_once_a_reload_tells_callers_apart() {
    let server = Server::start(&["--era", "modern", "--ttl-ms", "90000"]);
    let behind = http_backend("alpha", &server.address, "");
    let gateway = Gateway::ready(&behind);
    let scope = |caller: Modern| caller.result("tools/list", json!({}))["cacheScope"].clone();
    assert_eq!(scope(Modern::new(&gateway, "/mcp/alpha")), "public");
    reloaded(&gateway, &format!("[auth]\n{behind}"));
    let alice = token(json!({}));
    let modern = Modern::new(&gateway, "/mcp/alpha").bearing(&alice);
    assert_eq!(scope(modern), "private");
}

/// P-S15: a file that was cut short takes no protection away, whatever address it names.
#[test]
fn p_s15_a_reload_does_not_take_authentication_away() {
    let server = Server::start(&[]);
    let behind = http_backend("alpha", &server.address, "");
    let gateway = Gateway::ready(&format!("[auth]\n{behind}"));
    for cut in ["", &*behind] {
        gateway.setup.rewrite(cut);
        let (code, _, said) = gateway.setup.sentinel(&["reload"]);
        assert_ne!(code, 0, "{said}");
        assert!(said.contains("[auth] was removed"), "{said}");
        assert_eq!(reload(&gateway).status, 401);
    }
    assert_eq!(ping_as(&gateway, &token(json!({}))).status, 200);
}

/// P-S15, G-69: a file that somebody is about to write, or could not, takes nothing away.
#[test]
fn p_s15_a_file_that_was_emptied_is_not_taken() {
    let server = Server::start(&[]);
    let behind = http_backend("alpha", &server.address, "");
    let narrow = "[rbac.roles.admin]\npermissions = [\"alpha.echo\", \"admin\"]\n";
    let gateway = Gateway::ready(&format!("{narrow}{behind}"));
    for emptied in ["", " \n\t\n", "# later\n\n  # more\n", "\u{feff}\n"] {
        gateway.setup.overwrite(emptied);
        let answer = reload(&gateway);
        assert_eq!(answer.status, 422, "{answer:?}");
        assert!(answer.text.contains("the file is empty"), "{answer:?}");
        let caller = Modern::new(&gateway, "/mcp");
        assert_eq!(caller.tools(), ["echo"]);
    }
    gateway.setup.overwrite("# once more\n");
    until("whoever watches the file sees it too", || {
        let log = gateway.setup.log();
        log.contains("not reloaded (the file changed)")
            .then_some(())
    });
    reloaded(&gateway, &behind);
    assert!(Modern::new(&gateway, "/mcp").tools().len() > 1);

    // To begin with nothing, and to stay so, is somebody's wish.
    let setup = Setup::new("");
    setup.overwrite("");
    let mut serve = setup.command("serve");
    serve
        .args(["--listen", "127.0.0.1:0", "--data-dir"])
        .arg(setup.data())
        .stdout(Stdio::null())
        .stderr(setup.log_file());
    let mut process = Process(serve.spawn().expect("the program starts"));
    let address = process.address(&setup);
    let gateway = Gateway {
        process,
        address,
        setup,
    };
    assert_eq!(reload(&gateway).status, 200);
}

/// Of the sections that are mostly read once, what is read for each request, connection or claim follows.
/// G-69: a gateway that runs waits for nobody to write into a pipe. What is no file is refused, and a file is read again.
#[test]
fn g_69_what_is_no_regular_file_is_refused_and_blocks_nothing() {
    let gateway = Gateway::start("");
    let text = gateway.setup.become_a_pipe();
    for _ in 0..2 {
        let answer = reload(&gateway);
        assert_eq!(answer.status, 422, "{answer:?}");
        assert!(answer.text.contains("no regular file"), "{answer:?}");
    }
    gateway.setup.become_a_link_to("/dev/zero");
    let answer = reload(&gateway);
    assert_eq!(answer.status, 422, "{answer:?}");
    gateway.setup.become_a_file(&text);
    let answer = reload(&gateway);
    assert_eq!(answer.status, 200, "{answer:?}");
    let large = [&text[..], &b"#".repeat(17 << 20)].concat();
    gateway.setup.become_a_file(&large);
    let answer = reload(&gateway);
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(answer.text.contains("16 MiB"), "{answer:?}");
}

#[test]
fn g_69_levels_limits_and_what_records_keep_follow_without_a_restart() {
    let server = Server::start(&[]);
    let alpha = http_backend("alpha", &server.address, "");
    let review = "[review]\nenabled = true\n";
    let gateway = Gateway::ready(&format!("{review}{alpha}"));
    let caller = Modern::new(&gateway, "/mcp");
    let deep = json!({"text": "x", "more": [[[[[[[[1]]]]]]]]});
    let large = json!({"text": "x".repeat(2 << 20)});
    let said = |name: &str, arguments: Value| {
        let answer = caller.call(name, arguments);
        let said = answer["result"]["structuredContent"].clone();
        assert!(said.is_object(), "{name}: {answer}");
        said
    };
    // For how long a claim holds, in seconds.
    let claimed_for = || {
        let submitted = said(
            "submit_proposal",
            json!({"intent": "i", "agent_type": "a", "phase": "1", "diff": DIFF}),
        );
        let id = &submitted["review_id"];
        said("claim_review", json!({"review_id": id, "reviewer_id": "r"}));
        let review = said("get_proposal", json!({"review_id": id}));
        let until = review["claim_expires_at"].as_str().expect("a time");
        let until = sentinel_core::audit::moment::parse(until).expect("a time");
        (until / 1000).saturating_sub(crate::support::tokens::now())
    };
    assert_eq!(kind_of(&caller.call("echo", deep.clone())), "");
    assert_eq!(kind_of(&caller.call("echo", large.clone())), "");
    assert!((1190..=1201).contains(&claimed_for()));
    let old = Legacy::newest(&gateway);

    gateway.setup.rewrite(&format!(
        "[audit]\narguments = \"full\"\nguarantee = \"memory\"\nbuffer = 4096\n\
         [limits]\nbody_mb = 1\njson_depth = 8\nsessions = 1\nreply_mb = 32\n\
         [telemetry]\nmetrics = false\n\
         [review]\nenabled = true\nclaim_timeout = 7200\nextended_tools = true\n{alpha}"
    ));
    let path = gateway.setup.data().with_file_name("sentinel.toml");
    let text = std::fs::read_to_string(&path).expect("the file");
    let debug = text.replace(
        "log_level = \"info\"",
        "log_level = \"debug\"\ndrain_timeout = 3",
    );
    std::fs::write(&path, debug).expect("written");
    let done = reload(&gateway).json();
    assert_eq!(
        done["changed"],
        json!(["audit", "limits", "review", "gateway"]),
        "{done}"
    );
    assert_eq!(
        done["restart_needed"],
        json!([
            "audit.buffer",
            "limits.reply_mb",
            "review.extended_tools",
            "telemetry.metrics"
        ]),
        "{done}"
    );
    // What the answer says is in force is what it says is in force.
    let config = gateway.get("/admin/api/config").json();
    let of = |section: &str, key: &str| config[section][key].clone();
    assert_eq!(of("limits", "body_mb"), 1);
    assert_eq!(of("limits", "reply_mb"), 64);
    assert_eq!(of("telemetry", "metrics"), true);
    assert_eq!(of("gateway", "log_level"), "debug");

    let refused = caller.send("tools/call", tool("echo", large)).finish();
    assert_eq!(refused.status, 413, "{}", refused.status);
    assert_eq!(kind_of(&caller.call("echo", deep)), "parse_error");
    // One session makes room for the other.
    let new = Legacy::newest(&gateway);
    assert_eq!(
        new.said("echo", json!({"text": "kept whole"})),
        "kept whole"
    );
    assert_eq!(old.verb("GET").finish().status, 404);
    // Half a request, and gone: worth a word to whoever looks closely.
    let mut half = std::net::TcpStream::connect(&gateway.address).expect("it listens");
    std::io::Write::write_all(&mut half, b"POST /mcp HT").expect("written");
    drop(half);
    until("the level is another", || {
        gateway
            .setup
            .log()
            .contains("\"level\":\"DEBUG\"")
            .then_some(())
    });
    let kept = until("the record is in the store", || {
        let path = "/admin/api/audit?tool=echo&limit=1";
        let page = gateway.get(path).json();
        let record = page["records"][0].clone();
        (record["args"]["text"] == "kept whole").then_some(record)
    });
    assert_eq!(kept["guarantee"], "memory", "{kept}");
    assert!((7190..=7201).contains(&claimed_for()));
}
