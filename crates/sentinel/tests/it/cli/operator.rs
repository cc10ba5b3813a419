//! Commands that speak to a running gateway: by its socket, where nobody needs a token, or by URL.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, kind_of};
use crate::support::http;
use crate::support::pipe::Pipe;
use crate::support::records::{export, verify};
use crate::support::setup::{Gateway, Server, Setup, http_backend, until};
use crate::support::tokens::token;

const ROLES: &str = "[auth]\n[rbac.roles.reader]\npermissions = [\"tool:echo\"]\n";

#[track_caller]
fn well(setup: &Setup, args: &[&str]) -> String {
    let (code, out, err) = setup.sentinel(args);
    assert_eq!(code, 0, "{args:?}: {err}");
    out
}

fn json_of(setup: &Setup, args: &[&str]) -> Value {
    serde_json::from_str(&well(setup, args)).expect("JSON")
}

#[test]
fn decision_37_the_operator_needs_no_token_and_a_token_is_its_bearer() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&format!(
        "{ROLES}{}",
        http_backend("alpha", &server.address, "")
    ));
    let setup = &gateway.setup;
    let run = setup.data().join("run");
    let mode = |path: &std::path::Path| {
        let metadata = std::fs::metadata(path).expect("it is there");
        metadata.permissions().mode() & 0o777
    };
    let socket = run.join(format!("{}.sock", gateway.process.pid()));
    assert_eq!((mode(&socket), mode(&run)), (0o600, 0o700));

    assert!(
        json_of(setup, &["tools", "--json"])
            .to_string()
            .contains("slow")
    );
    assert!(well(setup, &["resources"]).contains("test://static"));
    assert!(well(setup, &["prompts"]).contains("greet"));
    assert_eq!(
        well(setup, &["call", "echo", r#"{"text":"hi"}"#]).trim(),
        "hi"
    );

    let reader = token(json!({"role": "reader"}));
    let seen = json_of(setup, &["tools", "--json", "--token", &reader]).to_string();
    assert!(seen.contains("echo") && !seen.contains("slow"), "{seen}");
    let url = format!("http://{}/mcp", gateway.address);
    let (code, _, said) = setup.sentinel(&["tools", "--url", &url]);
    assert!(code == 3 && said.contains("--token"), "{code} {said}");

    let kill = ["kill", "tool", "echo", "--url", &url];
    let (code, _, said) = setup.sentinel(&kill);
    assert!(code == 1 && said.contains("--token"), "{code} {said}");
    let (code, _, said) = setup.sentinel(&[&kill[..], &["--token", &reader]].concat());
    assert!(code == 1 && said.contains("admin"), "{code} {said}");
    let admin = token(json!({"role": "admin"}));
    well(setup, &[&kill[..], &["--token", &admin]].concat());
    let caller = Modern::new(&gateway, "/mcp").bearing(&reader);
    assert_eq!(kind_of(&caller.call("echo", json!({}))), "disabled");
    drop(gateway.process);
    assert!(
        !well(setup, &["kill"]).is_empty(),
        "the file says it without a gateway"
    );
}

#[test]
fn p_s06_kill_and_revive_from_the_command_line_hold_at_once_and_after_a_restart() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&format!(
        "{ROLES}{}",
        http_backend("alpha", &server.address, "")
    ));
    let alice = || token(json!({"role": "admin"}));
    let (old, new) = (
        Legacy::bearing(&gateway, &alice()),
        Modern::new(&gateway, "/mcp").bearing(&alice()),
    );
    let setup = &gateway.setup;
    let mut stream = old.verb("GET").head();
    for what in [
        &["tool", "echo"][..],
        &["tool", "alpha.ec*"],
        &["backend", "alpha"],
        &["caller", "alice"],
        &["all"],
    ] {
        let with = |verb| [&[verb], what].concat();
        well(setup, &with("kill"));
        let off = new.call("echo", json!({"text": "x"}));
        assert_eq!(kind_of(&off), "disabled", "{what:?}");
        assert!(!new.tools().contains(&"echo".to_owned()), "{what:?}");
        well(setup, &with("revive"));
        assert_eq!(new.said("echo", json!({"text": "x"})), "x", "{what:?}");
        assert!(new.tools().contains(&"echo".to_owned()), "{what:?}");
        let (code, _, said) = setup.sentinel(&with("revive"));
        assert!(code == 1 && said.contains("was not switched off"), "{said}");
    }
    let told = stream.message().expect("an event");
    assert_eq!(
        http::parse(&told)["method"],
        "notifications/tools/list_changed"
    );

    for wrong in [
        &["kill", "tool"][..],
        &["kill", "all", "echo"],
        &["revive", "backend", ""],
    ] {
        assert_eq!(setup.sentinel(wrong).0, 1, "{wrong:?}");
    }
    let (_, _, said) = setup.sentinel(&["kill", "tool", "nobody_has_this"]);
    assert!(said.contains("nothing has that name"), "{said}");
    well(setup, &["kill", "tool", "echo", "--reason", "runs wild"]);

    let gateway = gateway.restart();
    gateway.wait_ready();
    let new = Modern::new(&gateway, "/mcp").bearing(&alice());
    assert_eq!(kind_of(&new.call("echo", json!({}))), "disabled");
    let Gateway { process, setup, .. } = gateway;
    drop(process);
    // Without a gateway the next one begins as it was told.
    assert!(well(&setup, &["kill"]).contains("tool `echo`: runs wild"));
    well(&setup, &["revive", "tool", "echo"]);
    well(&setup, &["kill", "tool", "slow"]);
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    let new = Modern::new(&gateway, "/mcp").bearing(&alice());
    assert_eq!(new.said("echo", json!({"text": "x"})), "x");
    assert_eq!(kind_of(&new.call("slow", json!({"ms": 0}))), "disabled");
}

#[test]
fn p_s06_a_kill_reaches_every_gateway_of_the_data_directory() {
    let server = Server::start(&[]);
    let caller = Pipe::modern(&http_backend("alpha", &server.address, ""), json!({}));
    caller.wait_for_tool("echo");
    let mut beside = caller.setup.serve();
    well(&caller.setup, &["kill", "tool", "echo"]);
    assert_eq!(
        kind_of(&caller.call("echo", json!({"text": "x"}))),
        "disabled"
    );
    beside.signal("TERM");
    beside.wait();
    well(&caller.setup, &["revive", "tool", "echo"]);
    assert_eq!(caller.said("echo", json!({"text": "x"})), "x");
    // By the file alone, as through the admin API of another gateway.
    std::fs::write(
        caller.setup.data().join("kill_switch.json"),
        r#"{"killed":[{"scope":"all"}]}"#,
    )
    .expect("written");
    until("the file is looked at", || {
        (kind_of(&caller.call("echo", json!({"text": "x"}))) == "disabled").then_some(())
    });
}

/// A run file whose process is gone, although somebody else has its number by now, keeps no command from the
/// gateways that are there.
#[test]
fn p_s06_a_kill_passes_over_what_a_dead_gateway_left() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&http_backend("alpha", &server.address, ""));
    let run = gateway.setup.data().join("run");
    let (dead, living) = (std::process::id(), gateway.process.pid());
    let said = std::fs::read_to_string(run.join(format!("{living}.json"))).expect("a run file");
    let said = said.replace(&format!("\"pid\":{living}"), &format!("\"pid\":{dead}"));
    std::fs::write(run.join(format!("{dead}.json")), said).expect("written");
    drop(UnixListener::bind(run.join(format!("{dead}.sock"))).expect("a socket"));
    well(&gateway.setup, &["kill", "tool", "echo"]);
    let caller = Modern::new(&gateway, "/mcp");
    assert_eq!(
        kind_of(&caller.call("echo", json!({"text": "x"}))),
        "disabled"
    );
    assert!(
        !run.join(format!("{dead}.json")).exists(),
        "it is cleared away"
    );
}

/// Whoever was switched off does not switch himself on again, be it an admin.
#[test]
fn p_s06_a_killed_admin_cannot_revive_himself() {
    let server = Server::start(&[]);
    let alpha = http_backend("alpha", &server.address, "");
    let gateway = Gateway::ready(&format!("[auth]\n{alpha}"));
    well(&gateway.setup, &["kill", "caller", "evil"]);
    let revive = |subject: &str| {
        let bearer = format!("Bearer {}", token(json!({"sub": subject, "role": "admin"})));
        let headers = [
            ("Content-Type", "application/json"),
            ("Authorization", &*bearer),
        ];
        let evil = json!({"scope": "caller", "name": "evil"}).to_string();
        let path = "/admin/api/revive";
        http::send(&gateway.address, "POST", path, &headers, evil).finish()
    };
    let refused = revive("evil");
    assert_ne!(refused.status, 200, "{refused:?}");
    assert_eq!(revive("good").status, 200);
    assert_eq!(revive("evil").status, 200);
}

/// Decision 1: whoever could see it is told that it is off, and why; not that it does not exist.
#[test]
fn decision_1_a_call_of_what_is_switched_off_says_so_with_the_reason() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&http_backend("alpha", &server.address, ""));
    let setup = &gateway.setup;
    well(setup, &["kill", "tool", "echo", "--reason", "it runs wild"]);
    let call = |setup: &Setup| setup.sentinel(&["call", "echo", r#"{"text":"x"}"#]);
    let (code, _, said) = call(setup);
    assert_eq!(code, 1);
    assert!(
        said.contains("`echo` is switched off for now: it runs wild"),
        "{said}"
    );
    let (_, _, said) = setup.sentinel(&["call", "ecoh", "{}"]);
    assert!(said.contains("unknown tool: ecoh"), "{said}");
    // The same where the command asks the backends itself.
    let Gateway {
        mut process, setup, ..
    } = gateway;
    process.signal("TERM");
    process.wait();
    let (code, _, said) = call(&setup);
    assert!(code == 1 && said.contains("it runs wild"), "{code} {said}");
}

/// P-A06: whichever way a call is made.
#[test]
fn p_a06_a_call_by_the_command_itself_is_on_record() {
    let server = Server::start(&[]);
    let setup = Setup::new(&http_backend("alpha", &server.address, ""));
    well(&setup, &["call", "echo", r#"{"text":"x"}"#]);
    let (code, ..) = setup.sentinel(&["call", "nope", "{}"]);
    assert_eq!(code, 1);
    let records = export(&setup);
    let calls = records.iter().filter(|r| r["method"] == "tools/call");
    let said: Vec<_> = calls
        .map(|r| json!([r["operation"], r["decision"], r["outcome"]]))
        .collect();
    assert_eq!(
        said,
        [
            json!(["echo", "allow", "success"]),
            json!(["nope", "deny", "denied"])
        ]
    );
    assert_eq!(verify(&setup)["ok"], true);
}

/// Whatever is kept is its owner's alone, whatever the mask says.
#[test]
fn every_file_of_the_data_directory_is_for_its_owner_only() {
    let server = Server::start(&[]);
    let backends = http_backend("alpha", &server.address, "");
    let gateway = Gateway::ready(&format!("[auth]\n[review]\nenabled = true\n{backends}"));
    let setup = &gateway.setup;
    well(setup, &["kill", "tool", "nothing"]);
    well(setup, &["key", "create", "ci", "--role", "admin"]);
    let data = setup.data();
    until("everything is there", || {
        let names = [
            "catalogs/alpha.json",
            "pins.json",
            "kill_switch.json",
            "keys.json",
            "audit/heads",
        ];
        names
            .iter()
            .all(|name| data.join(name).exists())
            .then_some(())
    });
    let mut folders = vec![data];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            // It may be gone again: files are written aside and moved.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let mode = metadata.permissions().mode() & 0o777;
            let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, wanted, "{}", entry.path().display());
            seen += 1;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    assert!(seen > 15, "{seen}");
}

/// A server that says the same to whoever comes, until the test is over.
fn stranger(says: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (mut reader, mut writer) = (&stream, &stream);
            let _ = reader.read(&mut [0; 16 * 1024]);
            let _ = writer.write_all(says.as_bytes());
        }
    });
    format!("http://{address}/mcp")
}

/// Whoever was told "it is off" relies on it: only a gateway's own answer counts.
#[test]
fn p_s06_only_the_answer_of_a_gateway_is_success() {
    let setup = Setup::new("");
    for says in [
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 18\r\n\r\n<html>hello</html>",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 6\r\n\r\n[0,[]]",
        "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n",
    ] {
        let url = stranger(says);
        for command in [
            &["kill", "tool", "a"][..],
            &["kill"],
            &["revive", "tool", "a"],
            &["pin", "list"],
            &["pin", "approve", "b"],
            &["reload"],
        ] {
            let (code, out, err) = setup.sentinel(&[command, &["--url", &url]].concat());
            assert_eq!(code, 3, "{command:?} {says}: {out}{err}");
            assert!(err.contains("Sentinel gateway"), "{command:?}: {err}");
            assert!(out.is_empty(), "{command:?}: {out}");
        }
    }
}

#[test]
fn a_refusal_says_why_and_advises_on_roles_only_where_roles_refuse() {
    let setup = Setup::new("");
    let kill = |url: &str| setup.sentinel(&["kill", "tool", "a", "--url", url]);
    let url = stranger("HTTP/1.1 431 X\r\nContent-Length: 0\r\n\r\n");
    let (code, _, said) = kill(&url);
    assert!(code == 1 && said.contains("Fields Too Large"), "{said}");
    let foreign = "HTTP/1.1 403 X\r\nContent-Length: 12\r\n\r\nwrong host x";
    let (code, _, said) = kill(&stranger(foreign));
    assert!(code == 1 && said.contains("wrong host x"), "{said}");
    assert!(!said.contains("permission"), "{said}");
    for wrong in ["http://127.0.0.1:99999/mcp", "http://u:p@127.0.0.1:1/mcp"] {
        let (code, _, said) = kill(wrong);
        assert_eq!(code, 2, "{said}");
    }
    let long = "x".repeat(5000);
    let (code, _, said) = setup.sentinel(&["kill", "tool", &long]);
    assert!(code == 1 && said.contains("4096"), "{said}");
}

/// Nobody waits for a minute without a word. All at once, for each takes its fifteen seconds.
#[test]
fn a_gateway_that_does_not_answer_is_given_up_and_named() {
    let setup = Setup::new("");
    let hanging = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", hanging.local_addr().expect("bound"));
    std::thread::scope(|scope| {
        for command in [
            &["kill", "tool", "a"][..],
            &["pin", "approve", "b"],
            &["reload"],
        ] {
            let (setup, url) = (&setup, &url);
            scope.spawn(move || {
                let began = Instant::now();
                let (code, _, said) = setup.sentinel(&[command, &["--url", url]].concat());
                assert_eq!(code, 3, "{said}");
                assert!(said.contains("within 15 s"), "{said}");
                // Far from the minute it was, however busy the machine is.
                assert!(began.elapsed() < Duration::from_secs(40), "{command:?}");
            });
        }
    });
}

/// A built-in backend is refused by name, on record; it goes on serving.
#[test]
fn a_built_in_backend_cannot_be_restarted() {
    let server = Server::start(&[]);
    let alpha = http_backend("alpha", &server.address, "");
    let gateway = Gateway::ready(&format!("[review]\nenabled = true\n{alpha}"));
    let setup = &gateway.setup;
    let (code, out, said) = setup.sentinel(&["restart", "review"]);
    assert_eq!(code, 1, "{out}{said}");
    assert!(
        said.contains("`review` is built in: there is nothing to restart"),
        "{said}"
    );
    assert!(!said.contains("did you mean"), "{said}");
    assert!(!setup.log().contains("restarted by an operator"));
    assert_eq!(well(setup, &["restart", "alpha"]).trim(), "");
    let caller = Modern::new(&gateway, "/mcp");
    assert!(caller.tools().iter().any(|name| name.contains("review")));
    let records = export(&gateway.end());
    let of = |name: &str| {
        let about = format!("backend {name}");
        let found = records
            .iter()
            .find(|r| r["operation"] == *about)
            .expect("a record");
        ["method", "decision", "kind"].map(|key| found[key].clone())
    };
    assert_eq!(of("review"), ["admin/restart", "deny", "invalid_params"]);
    assert_eq!(of("alpha"), ["admin/restart", "allow", ""]);
}
