//! doctor: what it finds, says and exits with.

use std::time::{Duration, Instant};

use crate::setup::{Setup, program, stdio};

#[test]
fn doctor_finds_nothing_wrong_with_what_works() {
    let lazy = stdio("b", &["--era", "legacy"], "start = \"lazy\"");
    let setup = Setup::new("", &[stdio("a", &["--era", "modern"], ""), lazy]);
    let ran = setup.run(&["doctor"]).well();
    for words in [
        "no mistakes",
        "writable",
        "not running",
        "2026-07-28",
        "2025-11-25",
        "28 tools",
        "exposed as `b__echo`",
        "all well",
    ] {
        assert!(ran.out.contains(words), "{words} is not in\n{}", ran.out);
    }
    let report = setup.run(&["doctor", "--json"]).well().json();
    assert_eq!(report["ok"], true);
    assert_eq!(report["backends"][0]["era"], "modern");
    assert_eq!(report["backends"][1]["era"], "legacy");
    assert!(report["backends"][1]["start_up_ms"].is_u64());
    assert_eq!(report["deviations"], serde_json::json!([]), "ps15");
}

/// C-17: a tool whose arguments nobody checks is named, though nobody called it yet.
#[test]
fn c_17_doctor_names_tools_whose_arguments_are_not_checked() {
    let setup = Setup::new("", &[stdio("a", &["--maze"], "")]);
    let ran = setup.run(&["doctor"]).well();
    assert!(
        ran.out.contains("Arguments that are not checked"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("tool `riddle` of backend `a`"),
        "{}",
        ran.out
    );
    let report = setup.run(&["doctor", "--json"]).well().json();
    let unchecked = report["unchecked"].as_array().expect("a list");
    assert_eq!(unchecked.len(), 1, "{report}");
}

/// What is built in is behind the gateway too, but it is nobody's backend to be examined.
#[test]
fn doctor_examines_a_file_that_leaves_the_built_in_tools_on() {
    let setup = Setup::new("", &[]);
    let file = setup.0.path().join("sentinel.toml");
    std::fs::write(file, stdio("a", &[], "")).expect("a file");
    let report = setup.run(&["doctor", "--json"]).well().json();
    let backends = report["backends"].as_array().expect("a list");
    assert_eq!(backends.len(), 1);
    assert_eq!(backends[0]["reachable"], true);
}

#[test]
fn what_the_gateway_keeps_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let setup = Setup::new("data_dir = \"kept/here\"", &[stdio("a", &[], "")]);
    setup.run(&["tools"]).well();
    let kept = setup.0.path().join("kept/here");
    let mode = || std::fs::metadata(&kept).expect("it is made").permissions();
    assert_eq!(mode().mode() & 0o777, 0o700);
    assert_eq!(
        setup.run(&["doctor", "--json"]).well().json()["deviations"],
        serde_json::json!([])
    );

    std::fs::set_permissions(&kept, PermissionsExt::from_mode(0o755)).expect("ours");
    let report = setup.run(&["doctor", "--json"]).well().json();
    let said = report["deviations"][0].as_str().unwrap_or_default();
    assert!(said.contains("open to other users"), "{report}");
    assert_eq!(mode().mode() & 0o777, 0o755, "it is not touched");
}

#[test]
fn doctor_says_why_a_backend_fails_and_what_to_do() {
    let backends = [
        program(
            "loud",
            "sh",
            &["-c", "echo API_KEY is not set >&2; exit 7"],
            "",
        ),
        program("absent", "no-such-program", &[], ""),
        stdio("hung", &["--hang"], "timeout = 1"),
        "[[backends]]\nname = \"gone\"\ntype = \"http\"\nurl = \"http://127.0.0.1:1\"\n".to_owned(),
        program("chatter", "sh", &["-c", "echo hello; cat"], "timeout = 1"),
        stdio("off", &[], "enabled = false"),
        stdio("fine", &[], "inherit_env = true"),
    ];
    let setup = Setup::new("", &backends);
    let began = Instant::now();
    let ran = setup.run(&["doctor", "--json"]);
    assert!(
        began.elapsed() < Duration::from_secs(12),
        "a backend's own timeout ends the wait"
    );
    assert_eq!(ran.code, Some(3));
    let report = ran.json();
    let of = |name: &str| {
        let all = report["backends"].as_array().expect("a list");
        all.iter()
            .find(|b| b["name"] == name)
            .cloned()
            .expect("a backend")
    };
    assert_eq!(
        of("loud")["stderr"],
        serde_json::json!(["API_KEY is not set"])
    );
    let check = |name: &str, member: &str, words: &str| {
        let text = of(name)[member].to_string();
        assert!(text.contains(words), "{name}: {text}");
    };
    check("loud", "problem", "7");
    check("loud", "advice", "credential");
    check("absent", "problem", "no such program on PATH");
    check("hung", "problem", "no answer within 1 s");
    check("gone", "advice", "nothing listens there");
    check("chatter", "advice", "other than MCP messages");
    check("off", "health", "disabled");
    check("fine", "reachable", "true");
    assert!(
        report["deviations"][0]
            .as_str()
            .expect("text")
            .contains("inherit_env"),
        "ps15"
    );
    let human = setup.run(&["doctor"]);
    assert_eq!(human.code, Some(3));
    assert!(
        human.out.contains("stderr   API_KEY is not set"),
        "{}",
        human.out
    );
    assert!(
        human.out.contains("5 backends cannot be used"),
        "{}",
        human.out
    );
}

#[test]
fn doctor_reports_mistakes_with_exit_code_2() {
    let setup = Setup::new("listn = 1", &[]);
    let ran = setup.run(&["doctor"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("did you mean `listen`?"), "{}", ran.err);
    let json = setup.run(&["doctor", "--json"]);
    assert_eq!(json.code, Some(2));
    assert_eq!(
        json.json()["configuration"]["mistakes"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_data_directory_that_cannot_be_used_is_reported() {
    let setup = Setup::new("data_dir = \"sentinel.toml/data\"", &[stdio("a", &[], "")]);
    let ran = setup.run(&["doctor"]);
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    assert!(ran.out.contains("not writable"), "{}", ran.out);
}

/// Says that there is a further page for ever, each with a tool of its own.
const ENDLESS: &str = r#"n=0
while read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  case $line in
    *'"initialize"'*) answer='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}' ;;
    *'"tools/list"'*) n=$((n + 1)); answer='{"tools":[{"name":"t'$n'","inputSchema":{"type":"object"}}],"nextCursor":"'$n'"}' ;;
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id"; continue ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer"
done"#;

/// G-45: a list that does not end is cut, and nobody has to find out by counting.
#[test]
fn g_45_doctor_and_the_log_say_that_a_list_was_cut() {
    let endless = program("endless", "sh", &["-c", ENDLESS], "");
    let setup = Setup::new("", &[endless]);
    let ran = setup.run(&["doctor", "--log-level", "warn"]).well();
    let words = "its tools did not end within the 1000 pages that are read: 1000 were taken";
    assert!(
        ran.out.contains(&format!("backend `endless`: {words}")),
        "{}",
        ran.out
    );
    let logged = ran.err.lines().filter(|line| line.contains(words)).count();
    assert_eq!(logged, 1, "{}", ran.err);
    assert!(ran.err.contains("WARN"), "{}", ran.err);
}
