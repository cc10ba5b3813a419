//! Every key in force: its value, its line, its variable and its reload rule.

use serde_json::{Value, json};

use super::{World, config_of};
use crate::{KeyInForce, Reload};

const TEXT: &str = r#"# a comment
[limits]
body_mb = 8

[[backends]]
name = "shop"
type = "http"
url = "https://shop.example/mcp"
headers = { Authorization_ENV = "SHOP_TOKEN", X-Api-Key = "sk-zq9-credential", X-Mode = "ro" }

[[backends]]
name = "files"
type = "stdio"
command = "npx"
args = ["--token", "zq9-credential"]
[backends.env]
NODE_ENV = { value = "<from HOME>" }

[rbac.roles."on call"]
permissions = ["tools.read"]

[rate_limits.per_tool]
"files.write" = 5
"#;

fn keys() -> Vec<KeyInForce> {
    let world = World::new(&[("SHOP_TOKEN", "Bearer zq9-credential")]);
    let config = world.parse(TEXT).expect("no mistakes");
    config.keys(TEXT)
}

fn key<'k>(keys: &'k [KeyInForce], name: &str) -> &'k KeyInForce {
    let found = keys.iter().find(|key| key.key == name);
    found.unwrap_or_else(|| panic!("{name} is among {keys:#?}"))
}

#[test]
fn each_key_tells_its_value_and_where_it_is_from() {
    let keys = keys();
    for (name, value, line, variable) in [
        ("limits.body_mb", json!(8), Some(3), None),
        ("limits.line_mb", json!(16), None, None),
        (
            "backends.shop.url",
            json!("https://shop.example/mcp"),
            Some(8),
            None,
        ),
        ("backends.shop.timeout", json!(60), None, None),
        (
            "backends.shop.headers.Authorization",
            json!("<from SHOP_TOKEN>"),
            Some(9),
            Some("SHOP_TOKEN"),
        ),
        (
            "backends.shop.headers.X-Api-Key",
            json!("<hidden>"),
            Some(9),
            None,
        ),
        ("backends.shop.headers.X-Mode", json!("ro"), Some(9), None),
        (
            "backends.files.args",
            json!(["--token", "<hidden>"]),
            Some(15),
            None,
        ),
        // A text of the file that looks like what is shown of a variable.
        (
            "backends.files.env.NODE_ENV.value",
            json!("<from HOME>"),
            Some(17),
            None,
        ),
        (
            "rbac.roles.\"on call\".permissions",
            json!(["tools.read"]),
            Some(20),
            None,
        ),
        (
            "rate_limits.per_tool.\"files.write\"",
            json!(5),
            Some(23),
            None,
        ),
        ("kill_switch.disabled_tools", json!([]), None, None),
    ] {
        let found = key(&keys, name);
        assert_eq!(found.value, value, "{name}");
        assert_eq!(found.line, line, "{name}");
        assert_eq!(found.variable.as_deref(), variable, "{name}");
    }
    assert!(!format!("{keys:?}").contains("zq9"));
}

#[test]
fn each_key_outside_backends_has_its_reload_rule() {
    for found in keys() {
        let is_of_backend = found.key.starts_with("backends.");
        assert_eq!(found.reload.is_none(), is_of_backend, "{}", found.key);
    }
    let keys = config_of("[[listeners]]\nlisten = \"127.0.0.1:1\"").keys("");
    for (name, rule) in [
        ("gateway.listen", Reload::Restart),
        ("gateway.drain_timeout", Reload::Live),
        ("listeners.0.listen", Reload::Restart),
        ("console.edit", Reload::Live),
        ("rbac.roles.admin.permissions", Reload::Live),
    ] {
        assert_eq!(key(&keys, name).reload, Some(rule), "{name}");
    }
}

#[test]
fn a_mistake_names_its_key_and_line() {
    let text = "[limits]\nbody_mb = 0\nbodi_mb = 1\n[[backends]]\nname = \"shop\"\ntype = \"http\"\nurl = \"x\"\n";
    let world = World::new(&[]);
    let mistakes = world.parse(text).map(|_| ()).expect_err("mistakes");
    let placed: Vec<(Option<String>, Option<usize>)> = mistakes
        .placed()
        .map(|mistake| (mistake.key, mistake.line))
        .collect();
    let wanted = [
        ("limits.body_mb", 2),
        ("limits.bodi_mb", 3),
        ("backends.shop.url", 7),
    ];
    let wanted = wanted.map(|(key, line)| (Some(key.to_owned()), Some(line)));
    assert_eq!(placed, wanted);
    let json: Value = mistakes.to_json();
    assert_eq!(json[2]["key"], "backends.shop.url");
}
