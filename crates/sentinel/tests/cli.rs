//! The commands that ask: tools, resources, prompts, call and doctor, against the configuration, a
//! running gateway and a URL. Also what a gateway prints, and its second listener.
#![allow(
    clippy::disallowed_methods,
    reason = "these tests start the program itself, as a user does"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes on a busy machine; only failures wait this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// The fixture lies beside the program under test; built here if this package alone was asked for.
fn fixture() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = Path::new(env!("CARGO_BIN_EXE_sentinel")).with_file_name("sentinel-fixture");
        if !path.exists() {
            let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
            let built = Command::new(cargo)
                .args(["build", "-p", "sentinel-fixture"])
                .status();
            assert!(built.expect("cargo starts").success() && path.exists());
        }
        path
    })
}

/// A backend that is the fixture with these options.
fn stdio(name: &str, options: &[&str], more: &str) -> String {
    let args: Vec<&str> = ["stdio"].iter().chain(options).copied().collect();
    program(name, fixture().to_str().expect("text"), &args, more)
}

fn program(name: &str, command: &str, args: &[&str], more: &str) -> String {
    format!(
        "[[backends]]\nname = \"{name}\"\ntype = \"stdio\"\ncommand = {command:?}\nargs = {args:?}\n{more}\n"
    )
}

/// A directory with a configuration, in which the program is run.
struct House(TempDir);

impl House {
    fn new(gateway: &str, backends: &[String]) -> Self {
        let house = Self(TempDir::new().expect("a temporary directory"));
        let text = format!(
            "[gateway]\nlisten = \"127.0.0.1:0\"\n{gateway}\n{}",
            backends.concat()
        );
        fs::write(house.0.path().join("sentinel.toml"), text).expect("a file");
        house
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sentinel"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            .args(args)
            .current_dir(self.0.path())
            .env_clear()
            .envs([("HOME", self.0.path().as_os_str()), ("PATH", &path)]);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(args).output().expect("the program starts"))
    }

    fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut pipe = child.stdin.take().expect("it was asked for");
        pipe.write_all(input.as_bytes()).expect("it reads");
        drop(pipe);
        Ran::of(&child.wait_with_output().expect("it ends"))
    }

    /// Starts the gateway and waits until other commands can find it.
    fn serve(&self) -> Served {
        let child = self
            .command(&["serve"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let folder = self.0.path().join(".local/share/sentinel/run");
        let file = folder.join(format!("{}.json", child.id()));
        let began = Instant::now();
        let announced = loop {
            if let Ok(text) = fs::read(&file) {
                break serde_json::from_slice(&text).expect("JSON");
            }
            assert!(
                began.elapsed() < PATIENCE,
                "the gateway does not announce itself"
            );
            std::thread::sleep(Duration::from_millis(5));
        };
        Served { child, announced }
    }
}

/// A running program, ended with the test.
struct Served {
    child: Child,
    /// The run file of a gateway, the first line of a fixture.
    announced: Value,
}

impl Served {
    fn text(&self, member: &str) -> &str {
        self.announced[member].as_str().expect("text")
    }

    /// The fixture over HTTP.
    fn fixture(options: &[&str]) -> Self {
        let mut child = Command::new(fixture())
            .arg("http")
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the fixture starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("it was asked for");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line.trim().rsplit(' ').next().expect("an address");
        let announced = serde_json::json!({ "url": format!("http://{address}/mcp") });
        Self { child, announced }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        Self {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    #[track_caller]
    fn well(self) -> Self {
        assert_eq!(self.code, Some(0), "{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
}

#[test]
fn lists_are_grouped_by_backend_and_aligned() {
    let never = stdio("b", &["--era", "legacy"], "prefix = \"always\"");
    let house = House::new("", &[stdio("a", &[], ""), never]);
    let ran = house.run(&["tools"]).well();
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

    let coloured = house.run(&["tools", "--color", "always"]).well();
    assert!(coloured.out.contains('\u{1b}'));
    assert!(
        house
            .run(&["resources"])
            .well()
            .out
            .contains("test://items/{id}  template")
    );
    assert!(house.run(&["prompts"]).well().out.contains("<who>"));
}

#[test]
fn one_backend_is_listed_under_its_own_names() {
    let house = House::new(
        "",
        &[stdio("a", &[], ""), stdio("b", &["--tools", "1"], "")],
    );
    let ran = house.run(&["tools", "--backend", "b"]).well();
    assert!(ran.out.starts_with("b  29 tools\n  echo "), "{}", ran.out);
    let wrong = house.run(&["tools", "--backend", "bb"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("did you mean `b`?"), "{}", wrong.err);
}

#[test]
fn machines_get_what_callers_see() {
    let house = House::new("", &[stdio("a", &[], "")]);
    let tools = house.run(&["tools", "--json"]).well().json();
    let echo = &tools["tools"][0];
    assert_eq!(echo["name"], "echo");
    assert!(echo["inputSchema"]["properties"]["text"].is_object());
    let resources = house.run(&["resources", "--json"]).well().json();
    assert!(resources["resources"].is_array() && resources["resourceTemplates"].is_array());
}

#[test]
fn a_call_prints_what_the_tool_said() {
    let house = House::new("", &[stdio("a", &[], "")]);
    let said = house
        .run(&["call", "echo", r#"{"text": "two\nlines\u001b[1m"}"#])
        .well();
    assert_eq!(said.out, "two\nlines\u{1b}[1m\n", "a pipe gets the bytes");
    let read = house.run_with_input(
        &["call", "echo", "-"],
        "{\n  \"text\": \"from a pipe\"\n}\n",
    );
    assert_eq!(read.well().out, "from a pipe\n");
    let structured = house.run(&["call", "structured"]).well();
    assert_eq!(
        structured.out,
        "{\n  \"city\": \"Bern\",\n  \"degrees\": 21.5\n}\n"
    );
    let raw = house.run(&["call", "exact", "--json"]).well();
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
    let house = House::new("", &[stdio("a", &[], "")]);
    let failed = house.run(&["call", "fail", r#"{"text": "sorry"}"#]);
    assert_eq!((failed.code, failed.out.as_str()), (Some(1), "sorry\n"));
    let unknown = house.run(&["call", "ecko"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.err.contains("did you mean `echo`?"),
        "{}",
        unknown.err
    );
    let error = house.run(&[
        "call",
        "rpc_error",
        r#"{"code": -4, "message": "mine"}"#,
        "--json",
    ]);
    assert_eq!(error.code, Some(1));
    assert_eq!(error.json()["error"]["code"], -4);
    let bad = house.run(&["call", "echo", "text"]);
    assert_eq!(bad.code, Some(1));
    assert!(bad.err.contains("not JSON"), "{}", bad.err);
}

#[test]
fn a_running_gateway_is_asked_before_anything_is_started() {
    let house = House::new("", &[stdio("a", &[], ""), stdio("b", &[], "")]);
    let count = |house: &House| house.run(&["call", "count", r#"{"key": "k"}"#]).well().out;
    let first = count(&house);
    assert_eq!(count(&house), first, "each time a server of its own");
    let served = house.serve();
    assert_eq!(count(&house), first);
    assert_ne!(
        count(&house),
        first,
        "the same server, which counted the call before"
    );
    let tools = house.run(&["tools"]).well();
    assert!(
        tools.out.contains("b  28 tools\n  b__echo"),
        "owners are known: {}",
        tools.out
    );
    let own = house.run(&["tools", "--backend", "b"]).well();
    assert!(own.out.contains("b  28 tools\n  echo"), "{}", own.out);

    // From elsewhere, and although nothing is configured there.
    let away = House::new("", &[]);
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
    let here = house.run(&["doctor", "--json"]).well().json();
    assert_eq!(here["gateway"]["pid"], served.child.id());

    // A variable that only the gateway's shell has is no reason not to ask it.
    let path = house.0.path().join("sentinel.toml");
    fs::write(
        path,
        "[[backends]]\nname = \"a\"\ntype = \"http\"\nurl_env = \"MISSING\"",
    )
    .expect("a file");
    let asked = house.run(&["call", "echo", r#"{"text": "still"}"#]).well();
    assert_eq!(asked.out, "still\n");
    assert!(asked.err.contains("sentinel check"), "{}", asked.err);
}

#[test]
fn any_mcp_server_can_be_asked_in_its_era() {
    let house = House::new("", &[]);
    for options in [
        ["--era", "modern"],
        ["--era", "legacy"],
        ["--revision", "2025-03-26"],
    ] {
        let server = Served::fixture(&options);
        let ran = house.run(&[
            "call",
            "echo",
            r#"{"text": "x"}"#,
            "--url",
            server.text("url"),
        ]);
        assert_eq!(ran.well().out, "x\n", "{options:?}");
        let tools = house.run(&["tools", "--url", server.text("url")]).well();
        assert!(
            tools.out.starts_with("  echo "),
            "no owner is known: {}",
            tools.out
        );
    }
}

#[test]
fn a_token_is_sent_and_missed() {
    let house = House::new("", &[]);
    let server = Served::fixture(&["--require-header", "authorization: Bearer sesame"]);
    let without = house.run(&["tools", "--url", server.text("url")]);
    assert_eq!(without.code, Some(3), "{}", without.err);
    assert!(without.err.contains("--token"), "{}", without.err);
    let with = house.run(&["tools", "--url", server.text("url"), "--token", "sesame"]);
    with.well();
}

#[test]
fn nobody_to_ask_has_exit_code_3_and_says_what_to_do() {
    let empty = House::new("", &[]);
    let none = empty.run(&["tools"]);
    assert_eq!((none.code, none.out.as_str()), (Some(3), ""));
    assert!(none.err.contains("sentinel import"), "{}", none.err);
    let refused = empty.run(&["tools", "--url", "http://127.0.0.1:1"]);
    assert_eq!(refused.code, Some(3));
    assert!(refused.err.contains("sentinel serve"), "{}", refused.err);

    let broken = House::new("", &[program("x", "no-such-program", &[], "")]);
    let failed = broken.run(&["tools"]);
    assert_eq!(failed.code, Some(3));
    assert!(failed.err.contains("no-such-program"), "{}", failed.err);
    let mixed = House::new(
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
    let house = House::new(
        "",
        &[
            stdio("a", &[], ""),
            stdio("hung", &["--hang"], "timeout = 60"),
        ],
    );
    let began = Instant::now();
    assert_eq!(
        house.run(&["call", "echo", r#"{"text": "x"}"#]).well().out,
        "x\n"
    );
    // The gateway probes a silent server for ten seconds.
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn doctor_finds_nothing_wrong_with_what_works() {
    let lazy = stdio("b", &["--era", "legacy"], "start = \"lazy\"");
    let house = House::new("", &[stdio("a", &[], ""), lazy]);
    let ran = house.run(&["doctor"]).well();
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
    let report = house.run(&["doctor", "--json"]).well().json();
    assert_eq!(report["ok"], true);
    assert_eq!(report["backends"][0]["era"], "modern");
    assert_eq!(report["backends"][1]["era"], "legacy");
    assert!(report["backends"][1]["start_up_ms"].is_u64());
    assert_eq!(report["deviations"], serde_json::json!([]), "ps15");
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
        stdio("off", &[], "enabled = false"),
        stdio("fine", &[], "inherit_env = true"),
    ];
    let house = House::new("", &backends);
    let began = Instant::now();
    let ran = house.run(&["doctor", "--json"]);
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
    check("off", "health", "disabled");
    check("fine", "reachable", "true");
    assert!(
        report["deviations"][0]
            .as_str()
            .expect("text")
            .contains("inherit_env"),
        "ps15"
    );
    let human = house.run(&["doctor"]);
    assert_eq!(human.code, Some(3));
    assert!(
        human.out.contains("stderr   API_KEY is not set"),
        "{}",
        human.out
    );
    assert!(
        human.out.contains("4 backends cannot be used"),
        "{}",
        human.out
    );
}

#[test]
fn doctor_reports_mistakes_with_exit_code_2() {
    let house = House::new("listn = 1", &[]);
    let ran = house.run(&["doctor"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("did you mean `listen`?"), "{}", ran.err);
    let json = house.run(&["doctor", "--json"]);
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
    let house = House::new("data_dir = \"sentinel.toml/data\"", &[stdio("a", &[], "")]);
    let ran = house.run(&["doctor"]);
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    assert!(ran.out.contains("not writable"), "{}", ran.out);
}

#[test]
fn commands_log_only_when_asked() {
    let house = House::new("log_format = \"json\"", &[stdio("a", &[], "")]);
    assert_eq!(house.run(&["tools"]).well().err, "");
    let debug = house.run(&["tools", "--log-level", "debug"]).well();
    let mut lines = debug.err.lines();
    assert!(lines.clone().count() > 0);
    assert!(
        lines.all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{}",
        debug.err
    );
}

#[test]
fn stdio_prints_nothing_but_json_rpc() {
    for format in ["json", "pretty"] {
        // One that prints what it should not, one that is missing: both are talked about.
        let chatter = program("x", "sh", &["-c", "echo hello; echo there >&2; exit 1"], "");
        let gateway = format!("log_format = \"{format}\"");
        let house = House::new(&gateway, &[stdio("a", &[], ""), chatter]);
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let mut child = house
            .command(&["stdio", "--log-level", "debug"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut requests = child.stdin.take().expect("it was asked for");
        let mut answers = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut all = String::new();
        for (id, method) in ["server/discover", "tools/list", "no/such"]
            .iter()
            .enumerate()
        {
            writeln!(
                requests,
                r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{meta}}}}}"#
            )
            .expect("it reads");
            answers.read_line(&mut all).expect("an answer");
        }
        writeln!(requests, "no JSON").expect("it reads");
        answers.read_line(&mut all).expect("an answer");
        let mut log = String::new();
        let mut logs = BufReader::new(child.stderr.take().expect("it was asked for"));
        while !log.contains("there") {
            assert!(
                logs.read_line(&mut log).expect("a line") > 0,
                "what a child says goes to the log: {log}"
            );
        }
        drop(requests);
        answers.read_to_string(&mut all).expect("its end");
        logs.read_to_string(&mut log).expect("its end");
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
        let messages: Vec<Value> = all
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect();
        assert_eq!(messages.len(), 4, "{all}");
        assert!(
            messages.iter().all(|message| message["jsonrpc"] == "2.0"),
            "{all}"
        );
        let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
        assert_eq!(log.lines().all(is_json), format == "json", "{log}");
    }
}

fn get(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(stream, "{request} HTTP/1.1\r\nHost: probe.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn the_second_listener_serves_probes_and_nothing_else() {
    let house = House::new("health_listen = \"127.0.0.1:0\"", &[stdio("a", &[], "")]);
    let checked = house.run(&["check"]).well();
    assert!(
        !checked.err.contains("health_listen"),
        "it has an effect: {}",
        checked.err
    );
    let served = house.serve();
    house.run(&["tools"]).well();
    let probes = served.text("health_listen");
    assert!(get(probes, "GET /health").starts_with("HTTP/1.1 200"));
    let ready = get(probes, "GET /ready");
    assert!(
        ready.starts_with("HTTP/1.1 200") && ready.contains("\"a\":\"up\""),
        "{ready}"
    );
    for request in ["POST /mcp", "GET /mcp/a", "GET /"] {
        assert!(
            get(probes, request).starts_with("HTTP/1.1 404"),
            "{request}"
        );
    }
    // The first listener knows that name no more than before.
    assert!(get(served.text("listen"), "POST /mcp").starts_with("HTTP/1.1 403"));
}

#[test]
fn the_configuration_in_the_readme_passes_check() {
    let readme = include_str!("../../../README.md");
    let (_, rest) = readme.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let house = House::new("", &[]);
    fs::write(house.0.path().join("sentinel.toml"), example).expect("a file");
    let mut check = house.command(&["check"]);
    check.env("GITHUB_AUTH", "Bearer x");
    let ran = Ran::of(&check.output().expect("the program starts")).well();
    assert!(!ran.err.contains("warning"), "{}", ran.err);
}
