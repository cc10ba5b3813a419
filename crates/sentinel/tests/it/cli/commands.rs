//! The commands that need no gateway: check, schema, import, completions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Runs `sentinel` in a directory that is also its home, with nothing else in its environment.
fn sentinel(dir: &Path, args: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sentinel"))
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("HOME", dir)
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("text")
}

fn temp() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

#[test]
fn check_prints_the_normalised_file_and_exits_with_0() {
    let dir = temp();
    let output = sentinel(dir.path(), &["check"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("listen = \"127.0.0.1:9200\""));
    assert!(stderr(&output).contains("built-in defaults"));
}

#[test]
fn check_prints_every_mistake_to_stderr_and_exits_with_2() {
    let dir = temp();
    fs::write(
        dir.path().join("sentinel.toml"),
        "[gateway]\nlistn = 1\n[limits]\nbody_mb = 0\n",
    )
    .expect("a file");
    let output = sentinel(dir.path(), &["check"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
    for words in [
        "sentinel.toml:2:1",
        "did you mean `listen`?",
        "sentinel.toml:4:11",
        "2 mistakes in sentinel.toml",
    ] {
        assert!(
            stderr(&output).contains(words),
            "{words} is not in\n{}",
            stderr(&output)
        );
    }
    assert!(!stderr(&output).contains('\u{1b}'), "no colours in a pipe");
    let coloured = sentinel(dir.path(), &["check", "--color", "always"], &[]);
    assert!(stderr(&coloured).contains('\u{1b}'));

    let output = sentinel(dir.path(), &["check", "--json"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let answer: serde_json::Value = serde_json::from_str(stdout(&output)).expect("JSON");
    assert_eq!(answer["ok"], false);
    assert_eq!(answer["mistakes"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_empty_variable_is_an_unset_one() {
    let dir = temp();
    fs::write(dir.path().join("sentinel.toml"), "").expect("a file");
    let empty = [
        ("SENTINEL_CONFIG", ""),
        ("SENTINEL_DATA_DIR", ""),
        ("LOG_LEVEL", ""),
    ];
    let output = sentinel(dir.path(), &["check"], &empty);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("sentinel.toml: no mistakes"));
}

#[test]
fn check_reads_the_file_that_the_environment_names() {
    let dir = temp();
    fs::write(
        dir.path().join("other.toml"),
        "[gateway]\nstdio_role = \"nobody\"",
    )
    .expect("a file");
    let output = sentinel(dir.path(), &["check"], &[("SENTINEL_CONFIG", "other.toml")]);
    assert!(
        stderr(&output).contains("there is no role \"nobody\""),
        "{}",
        stderr(&output)
    );
    let output = sentinel(
        dir.path(),
        &["check"],
        &[("SENTINEL_DATA_DIR", "/somewhere"), ("LOG_LEVEL", "debug")],
    );
    assert!(stdout(&output).contains("data_dir = \"/somewhere\""));
    assert!(stdout(&output).contains("log_level = \"debug\""));
}

/// What is no level is a mistake like any other, wherever it comes from, and nobody else speaks of it.
#[test]
fn a_log_level_that_is_none_is_refused() {
    let dir = temp();
    for level in ["xx,yy", "loud", "info,hyper"] {
        let output = sentinel(dir.path(), &["check"], &[("LOG_LEVEL", level)]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("LOG_LEVEL"), "{}", stderr(&output));
        assert!(!stderr(&output).contains('\u{1b}'), "{}", stderr(&output));
    }
    let help = sentinel(dir.path(), &["--help"], &[]);
    assert!(stdout(&help).contains("error, warn, info, debug, off"));
    assert!(!stdout(&help).contains("trace"), "a release logs none");
}

#[test]
fn schema_prints_json() {
    let output = sentinel(temp().path(), &["schema"], &[]);
    let schema: serde_json::Value = serde_json::from_str(stdout(&output)).expect("JSON");
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
}

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let output = sentinel(temp().path(), &["completions", shell], &[]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("doctor"), "{shell}");
    }
}

#[test]
fn every_command_has_help_with_examples() {
    for command in [
        "serve",
        "stdio",
        "check",
        "import",
        "schema",
        "tools",
        "resources",
        "prompts",
        "call",
        "doctor",
        "completions",
    ] {
        let output = sentinel(temp().path(), &[command, "--help"], &[]);
        assert!(stdout(&output).contains("Examples:"), "{command}");
    }
}

const CLIENT: &str = r#"{ "mcpServers": { "gh": { "command": "npx", "env": { "GITHUB_TOKEN": "ghp_abcdefghijkl" } } } }"#;

#[test]
fn import_writes_a_file_that_passes_check() {
    let dir = temp();
    fs::write(dir.path().join(".mcp.json"), CLIENT).expect("a file");
    let output = sentinel(dir.path(), &["import"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains(".mcp.json"),
        "it says what it reads"
    );
    assert!(stderr(&output).contains("sentinel.toml with 1 backend\n"));
    assert_eq!(stdout(&output), "export GITHUB_TOKEN='ghp_abcdefghijkl'\n");
    let written = fs::read_to_string(dir.path().join("sentinel.toml")).expect("it was written");
    assert!(!written.contains("ghp_"), "{written}");

    let without = sentinel(dir.path(), &["check"], &[]);
    assert_eq!(without.status.code(), Some(2));
    assert!(stderr(&without).contains("GITHUB_TOKEN is not set"));
    let with = sentinel(
        dir.path(),
        &["check"],
        &[("GITHUB_TOKEN", "ghp_abcdefghijkl")],
    );
    assert_eq!(with.status.code(), Some(0), "{}", stderr(&with));
    assert!(
        stdout(&with).contains("GITHUB_TOKEN = \"<from GITHUB_TOKEN>\""),
        "{}",
        stdout(&with)
    );
}

#[test]
fn import_overwrites_only_by_force_and_keeps_credentials_private() {
    let dir = temp();
    let at = |name: &str| dir.path().join(name);
    fs::write(at(".mcp.json"), CLIENT).expect("a file");
    fs::write(at("sentinel.toml"), "# mine").expect("a file");
    fs::write(at("s.env"), "").expect("a file");
    fs::set_permissions(at("s.env"), fs::Permissions::from_mode(0o644)).expect("permissions");

    let refused = sentinel(dir.path(), &["import", "--env-file", "new.env"], &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--force"));
    assert_eq!(
        fs::read_to_string(at("sentinel.toml")).expect("a file"),
        "# mine"
    );
    assert!(
        !at("new.env").exists(),
        "nothing is written before everything can be"
    );

    let forced = sentinel(
        dir.path(),
        &["import", "--force", "--env-file", "s.env"],
        &[],
    );
    assert_eq!(forced.status.code(), Some(0), "{}", stderr(&forced));
    assert_eq!(stdout(&forced), "");
    assert!(
        !stderr(&forced).contains("ghp_"),
        "credentials went to the file"
    );
    assert_eq!(
        fs::metadata(at("s.env"))
            .expect("a file")
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    assert!(
        fs::read_to_string(at("s.env"))
            .expect("a file")
            .contains("ghp_abcdefghijkl")
    );
}

#[test]
fn import_to_standard_output_keeps_the_two_apart() {
    let dir = temp();
    fs::write(dir.path().join("x.json"), CLIENT).expect("a file");
    let output = sentinel(dir.path(), &["import", "x.json", "--output", "-"], &[]);
    assert!(stdout(&output).contains("GITHUB_TOKEN_ENV") && !stdout(&output).contains("ghp_"));
    assert!(stderr(&output).contains("export GITHUB_TOKEN='ghp_abcdefghijkl'"));
    assert!(!dir.path().join("sentinel.toml").exists());
}

#[test]
fn import_says_what_must_be_corrected() {
    let dir = temp();
    let text = r#"{ "mcpServers": { "x": { "url": "localhost:3000/mcp" } } }"#;
    fs::write(dir.path().join("x.json"), text).expect("a file");
    let output = sentinel(dir.path(), &["import", "x.json"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("begin it with http:// or https://"),
        "{}",
        stderr(&output)
    );
    assert!(dir.path().join("sentinel.toml").exists());
}

#[test]
fn import_says_why_it_cannot() {
    let dir = temp();
    let none = sentinel(dir.path(), &["import"], &[]);
    assert_eq!(none.status.code(), Some(1));
    assert!(stderr(&none).contains("usual places"));
    fs::write(dir.path().join("bad.json"), "{ \"mcpServers\": ").expect("a file");
    assert!(stderr(&sentinel(dir.path(), &["import", "bad.json"], &[])).contains("is not JSON"));
    fs::write(dir.path().join("empty.json"), "{}").expect("a file");
    assert!(
        stderr(&sentinel(dir.path(), &["import", "empty.json"], &[])).contains("holds no servers")
    );
}
