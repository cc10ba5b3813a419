//! Pasted servers become backends, and the file stays what it was around them.

use std::ffi::OsString;

use super::*;

/// What is made of a text beside a configuration, where these variables are set.
fn imported(
    text: &str,
    config: &str,
    variables: &[(&str, &str)],
    literals: bool,
) -> Vec<ImportedServer> {
    let lookup = |name: &str| {
        let mut all = variables.iter().chain([&("HOME", "/home/me")]);
        let found = all.find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let environment = Environment {
        validators: config::Validators::default(),
        variables: &lookup,
        cwd: "/project".into(),
    };
    let (base, overrides) = (Path::new("/project"), Overrides::default());
    let config = config::parse("t", config, base, &overrides, &environment).expect("good");
    let servers = read::servers_of_text(text, base).expect("servers");
    candidates(servers, &config, &environment, literals)
}

fn names(servers: &[ImportedServer]) -> Vec<&str> {
    servers.iter().map(|server| &*server.name).collect()
}

#[test]
fn whatever_is_copied_from_a_clients_file_is_understood() {
    for text in [
        r#"{ "mcpServers": { "time": { "command": "uvx", "args": ["mcp-server-time"] } } }"#,
        r#"{ "servers": { "time": { "command": "uvx", "args": ["mcp-server-time"] } }, "inputs": [] }"#,
        r#"{ "time": { "command": "uvx", "args": ["mcp-server-time"] } }"#,
        r#""time": { "command": "uvx", "args": ["mcp-server-time"] },"#,
        r#"{ "name": "time", "command": "uvx", "args": ["mcp-server-time"] }"#,
        "{ // with a comment\n \"time\": { \"command\": \"uvx\", \"args\": [\"mcp-server-time\",], }, }",
    ] {
        let servers = imported(text, "", &[], false);
        assert_eq!(names(&servers), ["time"], "{text}");
        assert_eq!(servers[0].summary, "uvx mcp-server-time");
        assert_eq!(servers[0].problem, None);
        assert!(servers[0].toml.contains("args = [\"mcp-server-time\"]"));
    }
    for text in [
        "",
        "[]",
        "7",
        "{}",
        "{\"a\": 1}",
        "{\"a\": {\"b\": 1}}",
        "not json",
    ] {
        let cwd = Path::new("/project");
        assert!(read::servers_of_text(text, cwd).is_err(), "{text}");
    }
}

#[test]
fn names_are_valid_and_no_backend_has_them() {
    let config = "[[backends]]\nname = \"time\"\ntype = \"stdio\"\ncommand = \"x\"\n";
    let text = r#"{ "Time": { "command": "a" }, "time": { "command": "b" }, "review": { "command": "c" },
        "My Files!": { "command": "d" } }"#;
    let servers = imported(text, config, &[], false);
    assert_eq!(
        names(&servers),
        ["time-2", "time-3", "review-server", "my-files"]
    );
    assert_eq!(servers[3].original, "My Files!");
}

#[test]
fn a_server_that_is_there_already_is_known() {
    let config = r#"
        [[backends]]
        name = "clock"
        type = "stdio"
        command = "uvx"
        args = ["mcp-server-time"]
        [[backends]]
        name = "shop"
        type = "http"
        url = "https://shop.example/mcp"
    "#;
    let text = r#"{ "time": { "command": "uvx", "args": ["mcp-server-time"] },
        "other": { "command": "uvx", "args": ["mcp-server-fetch"] },
        "store": { "url": "https://shop.example/mcp" } }"#;
    let servers = imported(text, config, &[], false);
    let known: Vec<Option<&str>> = servers.iter().map(|one| one.known.as_deref()).collect();
    assert_eq!(names(&servers), ["time", "other", "store"]);
    assert_eq!(known, [Some("clock"), None, Some("shop")]);
}

#[test]
fn a_credential_needs_its_variable_or_the_operators_word() {
    let text = r#"{ "github": { "command": "x", "args": ["--api-key", "zq9-credential"],
        "env": { "GITHUB_TOKEN": "ghp_zq9credential", "MODE": "ro", "USER_NAME": "${NAME}" } } }"#;
    let servers = imported(text, "", &[], false);
    let github = &servers[0];
    assert!(!github.toml.contains("zq9"), "{}", github.toml);
    assert!(!github.summary.contains("zq9"), "{}", github.summary);
    let problem = github
        .problem
        .as_deref()
        .expect("its variables are not set");
    assert!(problem.contains("GITHUB_TOKEN"), "{problem}");
    let variables: Vec<(&str, bool, bool)> = github
        .variables
        .iter()
        .map(|one| (&*one.name, one.set, one.literal))
        .collect();
    let wanted = [
        ("GITHUB_API_KEY", false, true),
        ("GITHUB_TOKEN", false, true),
        ("NAME", false, false),
    ];
    assert_eq!(variables, wanted);
    let set = [
        ("GITHUB_API_KEY", "a"),
        ("GITHUB_TOKEN", "b"),
        ("NAME", "c"),
    ];
    let servers = imported(text, "", &set, false);
    assert_eq!(servers[0].problem, None);
    assert!(!servers[0].toml.contains("zq9"), "{}", servers[0].toml);
    // With the operator's word they stand in the file; what is only named is still needed.
    let servers = imported(text, "", &[], true);
    let problem = servers[0].problem.as_deref().expect("NAME is not set");
    assert!(
        problem.contains("NAME") && !problem.contains("TOKEN"),
        "{problem}"
    );
    let servers = imported(text, "", &[("NAME", "c")], true);
    assert_eq!(servers[0].problem, None);
    assert!(
        servers[0]
            .toml
            .contains("GITHUB_TOKEN = \"ghp_zq9credential\""),
        "{}",
        servers[0].toml
    );
    assert!(
        !servers[0].summary.contains("zq9"),
        "{}",
        servers[0].summary
    );
    assert!(
        servers[0]
            .warnings
            .iter()
            .any(|one| one.contains("credential"))
    );
}

#[test]
fn a_url_with_a_credential_is_not_shown() {
    let text = r#"{ "s": { "url": "https://mcp.example/mcp/?apiKey=zq9-credential" } }"#;
    for literals in [false, true] {
        let servers = imported(
            text,
            "",
            &[("S_URL", "https://x.example/mcp?apiKey=zq9-credential")],
            literals,
        );
        assert_eq!(servers[0].problem, None);
        assert!(
            !servers[0].summary.contains("zq9"),
            "{}",
            servers[0].summary
        );
    }
}

#[test]
fn what_cannot_be_a_backend_says_why() {
    let text = r#"{ "good": { "command": "x" }, "odd": { "type": "pigeon", "command": "x" }, "bad": { "url": "nothing" } }"#;
    let servers = imported(text, "", &[], false);
    assert_eq!(names(&servers), ["good", "odd", "bad"]);
    assert_eq!(servers[0].problem, None);
    assert!(servers[2].problem.is_some());
    let odd = servers[1].problem.as_deref().expect("no such type");
    assert!(odd.contains("pigeon"), "{odd}");
}

/// One backend's table as it is added.
const NEW: &str = "\n[[backends]]\nname = \"new\"\ntype = \"stdio\"\ncommand = \"x\"\n";

#[test]
fn the_file_stays_as_it_is_and_gets_a_table_more() {
    for before in [
        "",
        "# only a comment",
        "[gateway]\nlisten = \"off\"   # here\n\n\n# the end\n",
        "[[backends]] # one\nname = \"a\"\n[backends.env]\nX = \"1\"\n\n[rbac.roles.x]\npermissions = []",
    ] {
        let after = added_to(before, &[NEW, NEW]).expect("it can be added to");
        assert!(after.starts_with(before), "{after}");
        let document: DocumentMut = after.parse().expect("TOML");
        let backends = document["backends"].as_array_of_tables().expect("tables");
        let names: Vec<&str> = backends
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        assert_eq!(&names[names.len() - 2..], ["new", "new"], "{after}");
    }
}

#[test]
fn an_inline_list_gets_another_element() {
    let before = "# mine\nbackends = [{ name = \"a\", type = \"stdio\", command = \"y\" }]\n[limits]\nbody_mb = 8 # big\n";
    let after = added_to(before, &[NEW]).expect("it can be added to");
    assert!(
        after.starts_with("# mine\n") && after.contains("body_mb = 8 # big"),
        "{after}"
    );
    let document: DocumentMut = after.parse().expect("TOML");
    let names = document["backends"].as_array().expect("a list");
    assert_eq!(names.len(), 2, "{after}");
    added_to("backends = 7", &[NEW]).expect_err("no list");
    added_to("a = [", &[NEW]).expect_err("no TOML");
}
