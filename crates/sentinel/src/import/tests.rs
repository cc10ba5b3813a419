//! Clients' files in, our files out (user stories of import; G-64, G-65).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::read::{parse_lenient, parse_servers};
use super::{Client, Imported, Source, client_of, convert_all, find};
use crate::config::{self, Environment, Overrides, backend_name};

/// Converts the text of a file at this path, in a world with these variables.
fn imported(path: &str, text: &str, variables: &[(&str, &str)]) -> Imported {
    let variables: BTreeMap<&str, &str> = variables
        .iter()
        .copied()
        .chain([("HOME", "/home/me")])
        .collect();
    let lookup = |name: &str| variables.get(name).map(OsString::from);
    let environment = Environment {
        validators: config::Validators::default(),
        variables: &lookup,
        cwd: "/project".into(),
    };
    let source = Source {
        path: path.into(),
        client: client_of(Path::new(path)),
    };
    let value = parse_lenient(text).expect("it is JSON");
    let servers = parse_servers(&value, &source, &environment.cwd).expect("it has servers");
    convert_all(&[source], servers, &environment)
}

/// Both outputs, as a user would see them.
fn shown(imported: &Imported) -> String {
    format!(
        "{}\n--- exports\n{}--- warnings\n{}",
        imported.toml,
        imported.exports,
        imported.warnings.join("\n")
    )
}

/// What we write passes our own check once the variables are set.
fn passes_check(imported: &Imported) {
    let any = |name: &str| {
        Some(OsString::from(if name.ends_with("_URL") {
            "https://example.com/mcp"
        } else {
            "/x"
        }))
    };
    let environment = Environment {
        validators: config::Validators::default(),
        variables: &any,
        cwd: "/project".into(),
    };
    let checked = config::parse(
        "sentinel.toml",
        &imported.toml,
        Path::new("/project"),
        &Overrides::default(),
        &environment,
    );
    match checked {
        Ok(config) => {
            let names: Vec<_> = config
                .backends
                .into_iter()
                .map(|backend| backend.name)
                .collect();
            assert_eq!(names, imported.backends);
            assert_eq!(
                config.notices,
                Vec::<String>::new(),
                "a credential stayed in the file"
            );
        }
        Err(mistakes) => panic!("{mistakes}\n{}", imported.toml),
    }
}

#[test]
fn claude_code_project_file() {
    let imported = imported(
        "/project/.mcp.json",
        r#"{ "mcpServers": {
            "github": { "type": "http", "url": "https://api.githubcopilot.com/mcp/",
                        "headers": { "Authorization": "Bearer ghp_16C7e42F292c6912E7710c838347Ae178B4a", "X-Mode": "ro" } },
            "My Files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"], "env": {} },
            "api": { "type": "streamable-http", "url": "${API_BASE:-https://api.example.com}/mcp",
                     "headers": { "Authorization": "Bearer ${API_KEY}", "X-Key": "${OTHER}" } },
            "legacy": { "type": "sse", "url": "https://old.example.com/sse" },
            "db": { "command": "db-mcp", "env": { "DB_URL": "postgres://u:pw123456@db/x", "NODE_ENV": "production", "PORT": 8080 } }
        } }"#,
        &[],
    );
    insta::assert_snapshot!(shown(&imported));
    passes_check(&imported);
}

#[test]
fn claude_code_user_file_with_projects() {
    let imported = imported(
        "/home/me/.claude.json",
        r#"{ "numStartups": 3,
            "mcpServers": { "time": { "command": "uvx", "args": ["mcp-server-time"] } },
            "projects": {
                "/elsewhere": { "mcpServers": { "time": { "command": "other-time" } } },
                "/project": { "mcpServers": { "time": { "command": "uvx", "args": ["mcp-server-time"] },
                                              "here": { "command": "./serve", "cwd": "sub" } } },
                "/bare": {}
            } }"#,
        &[],
    );
    assert_eq!(imported.backends, ["time", "here", "time-2"]);
    assert!(
        imported.toml.contains("cwd = \"/project/sub\""),
        "{}",
        imported.toml
    );
    passes_check(&imported);
}

#[test]
fn claude_desktop_file_with_credentials_in_arguments() {
    let imported = imported(
        "/home/me/.config/Claude/claude_desktop_config.json",
        r#"{ "mcpServers": {
            "remote": { "command": "npx", "args": ["mcp-remote", "https://x.example.com/mcp", "--header", "Authorization: Bearer abc123def456"] },
            "exa": { "command": "npx", "args": ["-y", "exa-mcp-server", "--api-key", "11111111-2222-3333"], "env": { "API_KEY": "k-1234567" } },
            "docker": { "command": "docker", "args": ["run", "-e", "GITHUB_TOKEN=ghp_abcdefghijkl", "-e", "MODE=x", "image"] },
            "flag": { "command": "srv", "args": ["--token=tok-12345678", "postgres://u:secretpw@h/db"], "disabled": true }
        } }"#,
        &[],
    );
    insta::assert_snapshot!(shown(&imported));
    passes_check(&imported);
    for secret in [
        "abc123def456",
        "11111111-2222-3333",
        "k-1234567",
        "ghp_abcdefghijkl",
        "tok-12345678",
        "secretpw",
    ] {
        assert!(!imported.toml.contains(secret), "{secret} is in the file");
        assert!(imported.exports.contains(secret), "{secret} is lost");
    }
}

/// A user in a URL means basic authentication; the gateway takes it as a header, and never from the file.
#[test]
fn a_user_in_a_url_becomes_a_header_out_of_the_file() {
    let server = |definition: &str| format!(r#"{{ "mcpServers": {{ "s": {definition} }} }}"#);
    for (url, bare, user) in [
        (
            "https://me:zq9@example.com/mcp",
            "https://example.com/mcp",
            "bWU6enE5",
        ),
        (
            "https://zq9@example.com:8/",
            "https://example.com:8/",
            "enE5Og==",
        ),
        (
            "http://me:z%40q%3A9@h/a?b=c@d",
            "http://h/a?b=c@d",
            "bWU6ekBxOjk=",
        ),
        ("https://m@e:zq9@h", "https://h", "bUBlOnpxOQ=="),
    ] {
        let imported = imported(
            "/project/.mcp.json",
            &server(&format!(r#"{{ "url": "{url}" }}"#)),
            &[],
        );
        assert!(
            imported.toml.contains(&format!("url = \"{bare}\"")),
            "{}",
            imported.toml
        );
        assert!(
            imported
                .toml
                .contains("Authorization_ENV = \"S_AUTHORIZATION\""),
            "{}",
            imported.toml
        );
        assert!(!imported.toml.contains("zq9"), "{}", imported.toml);
        let export = format!("export S_AUTHORIZATION='Basic {user}'\n");
        assert_eq!(imported.exports, export);
        passes_check(&imported);
    }
    // A header that is there says it already.
    let both = r#"{ "url": "https://me:zq9@h/", "headers": { "authorization": "Bearer zq8-credential" } }"#;
    let imported_both = imported("/project/.mcp.json", &server(both), &[]);
    assert!(
        imported_both.exports.contains("Bearer zq8"),
        "{}",
        imported_both.exports
    );
    assert!(!shown(&imported_both).contains("zq9"));
    passes_check(&imported_both);
    // What is in a variable cannot be encoded here.
    let asked = r#"{ "url": "https://me:${PW}@h/" }"#;
    let warnings = imported("/project/.mcp.json", &server(asked), &[]).warnings;
    assert!(warnings[0].contains("by hand"), "{warnings:?}");
}

#[test]
fn cursor_file() {
    let imported = imported(
        "/project/.cursor/mcp.json",
        r#"{ "mcpServers": {
            "local": { "command": "${workspaceFolder}/bin/serve", "args": ["--root", "${userHome}/x", "${env:REGION}"],
                       "env": { "TOKEN": "${env:MY_TOKEN}" }, "envFile": ".env" },
            "tavily": { "url": "https://mcp.tavily.com/mcp/?tavilyApiKey=tvly-abcdefgh" }
        } }"#,
        &[],
    );
    insta::assert_snapshot!(shown(&imported));
    passes_check(&imported);
}

#[test]
fn vscode_file_with_comments_and_inputs() {
    let imported = imported(
        "/project/.vscode/mcp.json",
        r#"{
            // asked once
            "inputs": [ { "type": "promptString", "id": "perplexity-key", "description": "Perplexity API Key", "password": true }, ],
            "servers": {
                /* one server // not a comment end */
                "perplexity": {
                    "type": "stdio", "command": "npx", "args": ["-y", "server-perplexity-ask", "--note=// kept, ]"],
                    "env": { "PERPLEXITY_API_KEY": "${input:perplexity-key}", },
                },
                "fetch": { "type": "http", "url": "https://example.com/", "headers": { "Authorization": "Bearer ${input:perplexity-key}", "Accept": "x" } },
            },
        }"#,
        &[],
    );
    insta::assert_snapshot!(shown(&imported));
    passes_check(&imported);
}

#[test]
fn generic_file_with_odd_entries() {
    let imported = imported(
        "/project/servers.json",
        r#"{ "mcpServers": {
            "Ünïcode Ñame": { "command": "npx -y thing" },
            "a b": { "command": "x" }, "a-b": { "command": "y" }, "A_B": { "command": "z" },
            "tools": { "serverUrl": "https://example.com/x" },
            "---": { "command": "x" },
            "nothing": {}, "number": 7, "odd": { "type": "pigeon", "command": "x" },
            "bad-args": { "command": "x", "args": "y", "env": ["z"] },
            "quotes": { "command": "x", "args": ["say \"hi\"", "it's", "a\nb", "$${kept}"], "env": { "PASSWORD": "it's \"$x\"" } }
        } }"#,
        &[],
    );
    insta::assert_snapshot!(shown(&imported));
    passes_check(&imported);
}

#[test]
fn a_variable_that_the_client_refers_to_is_not_redefined() {
    let imported = imported(
        "/project/.mcp.json",
        r#"{ "mcpServers": {
            "one": { "command": "x", "env": { "GITHUB_TOKEN": "ghp_abcdefghijkl" } },
            "two": { "command": "x", "env": { "GITHUB_TOKEN": "${GITHUB_TOKEN}" } },
            "three": { "command": "x", "env": { "OTHER_TOKEN": "first-one" } },
            "four": { "command": "x", "env": { "OTHER_TOKEN": "second-one" } }
        } }"#,
        &[],
    );
    insta::assert_snapshot!(imported.exports);
    passes_check(&imported);
}

/// `mcp-remote` expands `${…}` itself, by the variables that the server's own `env` gives it.
#[test]
fn a_variable_of_the_servers_own_env_is_left_to_the_program() {
    let imported = imported(
        "/project/claude_desktop_config.json",
        r#"{ "mcpServers": {
            "remote": { "command": "npx", "args": ["mcp-remote", "https://x/sse", "--header", "Authorization:${AUTH_HEADER}",
                                                   "--header", "X-Region:${REGION}"],
                        "env": { "AUTH_HEADER": "Bearer abcdefgh" } },
            "scheme": { "command": "npx", "args": ["mcp-remote", "https://x/sse", "--header", "Authorization: Bearer ${AUTH_TOKEN}"],
                        "env": { "AUTH_TOKEN": "abcdefgh123" } },
            "passed": { "command": "x", "args": ["--token", "${TOKEN}", "${env:MODE}"], "env": { "TOKEN": "${TOKEN}", "MODE": "fast" } },
            "mixed": { "command": "x", "args": ["sk-zq9-credential ${MODE}"], "env": { "MODE": "fast" } }
        } }"#,
        &[],
    );
    passes_check(&imported);
    for line in [
        r#""Authorization:$${AUTH_HEADER}""#,
        r#""X-Region:${REGION}""#,
        r#""Authorization: Bearer $${AUTH_TOKEN}""#,
        r#"["--token", "${TOKEN}", "${MODE}"]"#,
    ] {
        assert!(imported.toml.contains(line), "{line}:\n{}", imported.toml);
    }
    let loaded = |name: &str| match name {
        "REMOTE_AUTH_HEADER" => Some("Bearer abcdefgh".into()),
        "HOME" => Some("/home/me".into()),
        _ => Some("given".into()),
    };
    let environment = Environment {
        validators: config::Validators::default(),
        variables: &loaded,
        cwd: "/project".into(),
    };
    let config = config::parse(
        "t",
        &imported.toml,
        Path::new("/project"),
        &Overrides::default(),
        &environment,
    )
    .expect("its variables are set");
    let config::BackendKind::Stdio(child) = &config.backends[0].kind else {
        panic!("a program");
    };
    assert_eq!(child.args[3].expose(), "Authorization:${AUTH_HEADER}");
    assert!(
        imported
            .exports
            .contains(r#"MIXED_ARGUMENT="sk-zq9-credential \${MODE}""#),
        "{}",
        imported.exports
    );
}

/// Wherever a credential stands, it leaves the configuration and is not lost.
#[test]
fn no_credential_stays_in_the_file() {
    let json = |text: &str| serde_json::Value::from(text).to_string();
    let places = [
        r#"{ "command": "x", "env": { "OPENAPI_MCP_HEADERS": VALUE } }"#,
        r#"{ "command": "x", "args": ["run", "--config", VALUE] }"#,
        r#"{ "url": "https://example.com", "headers": { "X-Anything": VALUE } }"#,
    ];
    let values = [
        r#"{"Authorization": "Bearer zq9-credential"}"#,
        r#"{"region": "us", "apiKey": "zq9-credential"}"#,
        "Server=db;Password=zq9-credential",
        "Bearer zq9-credential",
        "https://me:zq9-credential@example.com/",
        "https://example.com/?token=zq9-credential",
        "${TOKEN:-ghp_zq9-credential}",
        "sk-zq9-credential",
    ];
    let direct = [
        r#"{ "command": "x --api-key zq9-credential" }"#,
        r#"{ "command": "x", "args": ["--token", "${T:-zq9-credential}"] }"#,
        r#"{ "command": "x", "args": ["--token", "zq9-credential"] }"#,
        r#"{ "command": "x", "args": ["-e", "MY_SECRET=zq9-credential"] }"#,
        r#"{ "command": "x", "args": ["--header", "x-api-key:zq9-credential"] }"#,
        r#"{ "url": "https://example.com/mcp?api_key=zq9-credential" }"#,
        r#"{ "command": "x", "env": { "PASSWORD": "${P:-zq9-credential}" } }"#,
    ];
    let placed = places
        .iter()
        .flat_map(|place| values.map(|value| place.replace("VALUE", &json(value))));
    for server in placed.chain(direct.map(str::to_owned)) {
        let imported = imported(
            "/project/.mcp.json",
            &format!(r#"{{ "mcpServers": {{ "s": {server} }} }}"#),
            &[],
        );
        assert!(
            !imported.toml.contains("zq9"),
            "{server}\n{}",
            imported.toml
        );
        assert!(
            imported.exports.contains("zq9-credential"),
            "{server}\n{}",
            imported.exports
        );
        assert!(
            !imported
                .variables
                .iter()
                .any(|name| name.to_lowercase().contains("zq9")),
            "{server}"
        );
        passes_check(&imported);
    }
}

#[test]
fn names_are_made_of_our_alphabet() {
    for (given, expected) in [
        ("github", Some("github")),
        ("My Server!", Some("my-server")),
        ("__x__y__", Some("x-y")),
        ("admin", Some("admin-server")),
        ("日本", None),
        (
            "a-very-long-name-that-does-not-fit-in",
            Some("a-very-long-name-that-does-not-f"),
        ),
    ] {
        assert_eq!(backend_name(given).as_deref(), expected, "{given}");
    }
}

#[test]
fn files_are_found_in_the_usual_places() {
    let root = tempfile::TempDir::new().expect("a temporary directory");
    let put = |name: &str| {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, "{}").expect("a file");
    };
    for name in [
        "work/.mcp.json",
        "work/.vscode/mcp.json",
        "home/.claude.json",
        "home/.cursor/mcp.json",
    ] {
        put(name);
    }
    let home = root.path().join("home").into_os_string();
    let lookup = |name: &str| (name == "HOME").then(|| home.clone());
    let environment = Environment {
        validators: config::Validators::default(),
        variables: &lookup,
        cwd: root.path().join("work"),
    };
    let names = |from: Option<Client>| -> Vec<PathBuf> {
        let found = find(None, from, &environment);
        found
            .iter()
            .map(|s| s.path.strip_prefix(root.path()).expect("inside").to_owned())
            .collect()
    };
    let all = [
        "work/.mcp.json",
        "work/.vscode/mcp.json",
        "home/.claude.json",
        "home/.cursor/mcp.json",
    ];
    assert_eq!(names(None), all.map(PathBuf::from));
    assert_eq!(
        names(Some(Client::Cursor)),
        [PathBuf::from("home/.cursor/mcp.json")]
    );
    assert_eq!(names(Some(Client::ClaudeDesktop)), Vec::<PathBuf>::new());
}

/// The shell itself is the judge of the export lines.
#[test]
#[allow(clippy::disallowed_methods, reason = "the shell is the subject")]
fn export_lines_mean_what_they_say() {
    let secret = r#"it's "a" $HOME `x` \ password"#;
    let text = serde_json::json!({ "mcpServers": { "s": { "command": "x", "env": {
        "PASSWORD": secret, "MIXED_TOKEN": "pre\"$5 ${WHO:-no body} post", } } } });
    let imported = imported("/project/.mcp.json", &text.to_string(), &[]);
    let script = format!(
        "{}printf '%s\\n' \"$S_PASSWORD\" \"$MIXED_TOKEN\"",
        imported.exports
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("there is a shell");
    let printed = String::from_utf8(output.stdout).expect("text");
    assert_eq!(
        printed,
        format!("{secret}\npre\"$5 no body post\n"),
        "{}",
        imported.exports
    );
}
