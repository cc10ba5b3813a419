//! tools, resources, prompts and call, against the configuration, a running gateway and a URL.

use std::fs;
use std::time::{Duration, Instant};

use crate::setup::{PATIENCE, Served, Setup, fixture, program, stdio};

#[test]
fn lists_are_grouped_by_backend_and_aligned() {
    let never = stdio("b", &["--era", "legacy"], "prefix = \"always\"");
    let setup = Setup::new("", &[stdio("a", &[], ""), never]);
    let ran = setup.run(&["tools"]).well();
    assert_eq!(ran.err, "");
    assert!(!ran.out.contains('\u{1b}'), "no colours in a pipe");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("a  28 tools"), "{}", ran.out);
    let echo = lines
        .iter()
        .find(|line| line.starts_with("  echo "))
        .expect("echo");
    assert!(
        echo.contains("  read-only    Returns its text")
            || echo.contains("  read-only  Returns its text"),
        "{echo}"
    );
    let b = lines.iter().position(|line| line.starts_with("b  "));
    let others = &lines[b.expect("a group") + 1..];
    assert!(
        others.iter().all(|line| line.starts_with("  b__")),
        "{others:?}"
    );

    let coloured = setup.run(&["tools", "--color", "always"]).well();
    assert!(coloured.out.contains('\u{1b}'));
    assert!(
        setup
            .run(&["resources"])
            .well()
            .out
            .contains("test://items/{id}  template")
    );
    assert!(setup.run(&["prompts"]).well().out.contains("<who>"));
}

#[test]
fn one_backend_is_listed_under_its_own_names() {
    let setup = Setup::new(
        "",
        &[stdio("a", &[], ""), stdio("b", &["--tools", "1"], "")],
    );
    let ran = setup.run(&["tools", "--backend", "b"]).well();
    assert!(ran.out.starts_with("b  29 tools\n  echo "), "{}", ran.out);
    let wrong = setup.run(&["tools", "--backend", "bb"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("did you mean `b`?"), "{}", wrong.err);
}

#[test]
fn one_backend_is_listed_although_an_earlier_one_hangs() {
    let hung = stdio("a", &["--hang"], "");
    let setup = Setup::new("", &[hung, stdio("b", &[], "")]);
    let ran = setup.run(&["tools", "--backend", "b"]).well();
    assert!(ran.out.starts_with("b  28 tools\n"), "{}", ran.out);
}

#[test]
fn machines_get_what_callers_see() {
    let setup = Setup::new("", &[stdio("a", &[], "")]);
    let tools = setup.run(&["tools", "--json"]).well().json();
    let echo = &tools["tools"][0];
    assert_eq!(echo["name"], "echo");
    assert!(echo["inputSchema"]["properties"]["text"].is_object());
    let resources = setup.run(&["resources", "--json"]).well().json();
    assert!(resources["resources"].is_array() && resources["resourceTemplates"].is_array());
}

#[test]
fn a_call_prints_what_the_tool_said() {
    let setup = Setup::new("", &[stdio("a", &[], "")]);
    let said = setup
        .run(&["call", "echo", r#"{"text": "two\nlines\u001b[1m"}"#])
        .well();
    assert_eq!(said.out, "two\nlines\u{1b}[1m\n", "a pipe gets the bytes");
    let read = setup.run_with_input(
        &["call", "echo", "-"],
        "{\n  \"text\": \"from a pipe\"\n}\n",
    );
    assert_eq!(read.well().out, "from a pipe\n");
    let structured = setup.run(&["call", "structured"]).well();
    assert_eq!(
        structured.out,
        "{\n  \"city\": \"Bern\",\n  \"degrees\": 21.5\n}\n"
    );
    let raw = setup.run(&["call", "exact", "--json"]).well();
    for exact in [
        "12345678901234567890123",
        "\"one\":1.0",
        "1e400",
        "[ 1 , 2 ]",
    ] {
        assert!(raw.out.contains(exact), "{exact} is not in {}", raw.out);
    }
}

#[test]
fn a_call_that_fails_has_exit_code_1() {
    let setup = Setup::new("", &[stdio("a", &[], "")]);
    let failed = setup.run(&["call", "fail", r#"{"text": "sorry"}"#]);
    assert_eq!((failed.code, failed.out.as_str()), (Some(1), "sorry\n"));
    let unknown = setup.run(&["call", "ecko"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.err.contains("did you mean `echo`?"),
        "{}",
        unknown.err
    );
    let error = setup.run(&[
        "call",
        "rpc_error",
        r#"{"code": -4, "message": "mine"}"#,
        "--json",
    ]);
    assert_eq!(error.code, Some(1));
    assert_eq!(error.json()["error"]["code"], -4);
    let bad = setup.run(&["call", "echo", "text"]);
    assert_eq!(bad.code, Some(1));
    assert!(bad.err.contains("not JSON"), "{}", bad.err);
}

#[test]
fn a_running_gateway_is_asked_before_anything_is_started() {
    let setup = Setup::new("", &[stdio("a", &[], ""), stdio("b", &[], "")]);
    let count = |setup: &Setup| setup.run(&["call", "count", r#"{"key": "k"}"#]).well().out;
    let first = count(&setup);
    assert_eq!(count(&setup), first, "each time a server of its own");
    let served = setup.serve();
    assert_eq!(count(&setup), first);
    assert_ne!(
        count(&setup),
        first,
        "the same server, which counted the call before"
    );
    let tools = setup.run(&["tools"]).well();
    assert!(
        tools.out.contains("b  28 tools\n  b__echo"),
        "owners are known: {}",
        tools.out
    );
    let own = setup.run(&["tools", "--backend", "b"]).well();
    assert!(own.out.contains("b  28 tools\n  echo"), "{}", own.out);

    // From elsewhere, and although nothing is configured there.
    let away = Setup::new("", &[]);
    let there = away.run(&[
        "call",
        "b__echo",
        r#"{"text": "x"}"#,
        "--url",
        served.text("listen"),
    ]);
    assert_eq!(there.well().out, "x\n");
    let examined = away
        .run(&["doctor", "--json", "--url", served.text("listen")])
        .well()
        .json();
    assert_eq!(examined["gateway"]["state"], "ready");
    assert_eq!(examined["backends"][1]["tools"], 28);
    let here = setup.run(&["doctor", "--json"]).well().json();
    assert_eq!(here["gateway"]["pid"], served.child.id());

    // A variable that only the gateway's shell has is no reason not to ask it.
    let path = setup.0.path().join("sentinel.toml");
    fs::write(
        path,
        "[[backends]]\nname = \"a\"\ntype = \"http\"\nurl_env = \"MISSING\"",
    )
    .expect("a file");
    let asked = setup.run(&["call", "echo", r#"{"text": "still"}"#]).well();
    assert_eq!(asked.out, "still\n");
    assert!(asked.err.contains("sentinel check"), "{}", asked.err);
}

#[test]
fn any_mcp_server_can_be_asked_in_its_era() {
    let setup = Setup::new("", &[]);
    for options in [
        ["--era", "modern"],
        ["--era", "legacy"],
        ["--revision", "2025-03-26"],
    ] {
        let server = Served::fixture(&options);
        let ran = setup.run(&[
            "call",
            "echo",
            r#"{"text": "x"}"#,
            "--url",
            server.text("url"),
        ]);
        assert_eq!(ran.well().out, "x\n", "{options:?}");
        let tools = setup.run(&["tools", "--url", server.text("url")]).well();
        assert!(
            tools.out.starts_with("  echo "),
            "no owner is known: {}",
            tools.out
        );
    }
}

#[test]
fn a_token_is_sent_and_missed() {
    let setup = Setup::new("", &[]);
    let server = Served::fixture(&["--require-header", "authorization: Bearer sesame"]);
    let without = setup.run(&["tools", "--url", server.text("url")]);
    assert_eq!(without.code, Some(3), "{}", without.err);
    assert!(without.err.contains("--token"), "{}", without.err);
    let with = setup.run(&["tools", "--url", server.text("url"), "--token", "sesame"]);
    with.well();
}

#[test]
fn nobody_to_ask_has_exit_code_3_and_says_what_to_do() {
    let empty = Setup::new("", &[]);
    let none = empty.run(&["tools"]);
    assert_eq!((none.code, none.out.as_str()), (Some(3), ""));
    assert!(none.err.contains("sentinel import"), "{}", none.err);
    let refused = empty.run(&["tools", "--url", "http://127.0.0.1:1"]);
    assert_eq!(refused.code, Some(3));
    assert!(refused.err.contains("sentinel serve"), "{}", refused.err);

    let broken = Setup::new("", &[program("x", "no-such-program", &[], "")]);
    let failed = broken.run(&["tools"]);
    assert_eq!(failed.code, Some(3));
    assert!(failed.err.contains("no-such-program"), "{}", failed.err);
    let mixed = Setup::new(
        "",
        &[
            program("x", "no-such-program", &[], ""),
            stdio("a", &[], ""),
        ],
    );
    let some = mixed.run(&["tools"]).well();
    assert!(some.err.contains("warning: backend `x`"), "{}", some.err);
    assert!(some.out.contains("  echo"));
}

#[test]
fn a_call_does_not_wait_for_backends_that_it_does_not_need() {
    let setup = Setup::new(
        "",
        &[
            stdio("a", &[], ""),
            stdio("hung", &["--hang"], "timeout = 60"),
        ],
    );
    let began = Instant::now();
    assert_eq!(
        setup.run(&["call", "echo", r#"{"text": "x"}"#]).well().out,
        "x\n"
    );
    // The gateway probes a silent server for ten seconds.
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
}

/// G-40, G-41: a rule about a name that nothing has is told, with what was meant, as far as catalogs are remembered.
#[test]
fn check_names_rules_about_what_nothing_is_called() {
    let backends = [stdio("a", &[], ""), stdio("b", &[], "prefix = \"always\"")];
    let rules = "[rbac.roles.dev]\npermissions = [\"*\"]\n\
                 denied_tools = [\"ehco\", \"b.ecoh\", \"nothing*\", \"plain\", \"b.plain\", \"b__echo\", \"test://x\"]\n\
                 [rate_limits.per_tool]\nb__ech0 = 1\n\"a.slow\" = 1\n\"b.*\" = 1\nplain = 1\n\
                 [kill_switch]\ndisabled_tools = [\"a.falli\", \"fail\"]\n";
    let setup = Setup::new("", &[&backends[..], &[rules.to_owned()]].concat());
    // Nothing is remembered yet, so nothing can be said.
    let before = setup.run(&["check"]).well();
    assert!(!before.err.contains("nothing is called"), "{}", before.err);
    // Commands remember nothing; a gateway does.
    let gateway = setup.serve();
    let folder = setup.0.path().join(".local/share/sentinel/catalogs");
    let began = Instant::now();
    while !(folder.join("a.json").exists() && folder.join("b.json").exists()) {
        assert!(began.elapsed() < PATIENCE, "catalogs are remembered");
        std::thread::sleep(Duration::from_millis(20));
    }
    let killed = setup.run(&["kill", "tool", "slwo"]).well();
    assert!(
        killed.err.contains("did you mean `slow`?"),
        "{}",
        killed.err
    );
    drop(gateway);
    let ran = setup.run(&["check"]).well();
    for (place, name, meant) in [
        (
            "rbac.roles.dev.denied_tools",
            "ehco",
            "; did you mean \"echo\"?",
        ),
        (
            "rbac.roles.dev.denied_tools",
            "b.ecoh",
            "; did you mean \"b.echo\"?",
        ),
        ("rbac.roles.dev.denied_tools", "nothing*", ""),
        (
            "rate_limits.per_tool",
            "b__ech0",
            "; did you mean \"b__echo\"?",
        ),
        ("rate_limits.per_tool", "plain", ""),
        (
            "kill_switch.disabled_tools",
            "a.falli",
            "; did you mean \"a.fail\"?",
        ),
        ("sentinel kill", "slwo", "; did you mean \"slow\"?"),
    ] {
        let line = format!("{place}: nothing is called \"{name}\"{meant}");
        assert!(ran.err.contains(&line), "{line}: {}", ran.err);
    }
    let told = ran.err.matches("nothing is called").count();
    assert_eq!(told, 7, "{}", ran.err);
}

/// What is built in is listed like what is configured: under its name, and alone if it is asked for.
#[test]
fn the_review_tools_are_listed_as_a_backend() {
    let setup = Setup::new("", &[]);
    let file = setup.0.path().join("sentinel.toml");
    let config = |backends: &str| {
        fs::write(
            &file,
            format!("[gateway]\nlisten = \"127.0.0.1:0\"\n{backends}"),
        )
        .expect("a file");
    };
    config("");
    let check_alone = || {
        let own = setup.run(&["tools", "--backend", "review"]).well();
        assert!(own.out.starts_with("review  "), "{}", own.out);
        assert!(own.out.contains("\n  submit_proposal"), "{}", own.out);
        assert_eq!(own.err, "");
    };
    check_alone();
    let no_backend = setup.run(&["tools"]).well();
    assert!(
        no_backend.out.contains("\n  submit_proposal"),
        "issue 17, mend 11: callers see the built-in tools: {}",
        no_backend.out
    );
    let hint = &no_backend.err;
    assert!(hint.contains("sentinel import"), "{hint}");
    config(&stdio("a", &[], ""));
    let check = || {
        let all = setup.run(&["tools"]).well();
        let heading = all.out.find("\nreview  ").expect("a heading");
        assert!(all.out.starts_with("a  28 tools\n"), "{}", all.out);
        assert!(all.out[heading..].contains("\n  submit_proposal"));
        check_alone();
    };
    check();
    let _served = setup.serve();
    check();
}

/// What a backend that is away offered before is still listed to callers, and so are the built-in tools.
#[test]
fn issue_17_11_tools_shows_what_callers_see_while_every_backend_is_away() {
    let setup = Setup::new("", &[]);
    let file = setup.0.path().join("sentinel.toml");
    let link = setup.0.path().join("server");
    std::os::unix::fs::symlink(fixture(), &link).expect("a link");
    let backend = program("a", link.to_str().expect("text"), &["stdio"], "");
    let config = format!("[gateway]\nlisten = \"127.0.0.1:0\"\n{backend}");
    fs::write(&file, config).expect("a file");
    let remembered = setup.0.path().join(".local/share/sentinel/catalogs/a.json");
    let gateway = setup.serve();
    let began = Instant::now();
    while !remembered.exists() {
        assert!(began.elapsed() < PATIENCE, "catalogs are remembered");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(gateway);
    fs::remove_file(&link).expect("the program is gone");
    let check = || {
        let ran = setup.run(&["tools"]);
        assert_eq!(ran.code, Some(3), "{}", ran.err);
        assert!(ran.err.contains("warning: backend `a`"), "{}", ran.err);
        assert!(ran.out.contains("\n  submit_proposal"), "{}", ran.out);
        assert!(ran.out.contains("\n  echo "), "{}", ran.out);
    };
    check();
    let _served = setup.serve();
    check();
}
