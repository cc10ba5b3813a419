//! The example files, the documented names and the schema agree with each other (G-9, G-59 to G-68).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{World, config_of};
use crate::tree::Tree;
use crate::{Config, Section, example, normalised, normalised_toml, schema, shape};

const MINIMAL: &str = include_str!("../../../../configs/minimal.toml");
const POSTGRES: &str = include_str!("../../../../configs/postgres.toml");
/// What `make run` serves where a database is set.
const DEMO: &str = concat!(
    include_str!("../../../../configs/demo.toml"),
    include_str!("../../../../configs/demo-postgres.toml")
);
const EXAMPLE: &str = include_str!("../../../../configs/example.toml");
/// The names and defaults that were promised to users; not to be changed with the code.
const DOCUMENTED: &str = include_str!("data/documented.toml");

fn example_world() -> World {
    World::new(&[
        ("N8N_TOKEN", "Bearer 1"),
        ("CONTEXT7_KEY", "2"),
        ("PETSTORE_TOKEN", "3"),
        ("PETSTORE_USER", "me:4"),
        ("PETSTORE_KEY", "5"),
        ("PARTNER_KEY", "6"),
        ("SHOP_DATABASE_URL", "postgres://me:7@127.0.0.1/shop"),
        ("SHOP_REPLICAS_URL", "postgres://me:8@127.0.0.1/shop"),
    ])
}

/// The example with its switched-off lines switched on.
fn uncommented() -> String {
    let switch_on = |line: &str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c == '[' || c.is_ascii_alphabetic()) => {
            rest.to_owned()
        }
        _ => line.to_owned(),
    };
    EXAMPLE
        .lines()
        .map(switch_on)
        .collect::<Vec<_>>()
        .join("\n")
}

fn validator() -> jsonschema::Validator {
    jsonschema::draft202012::new(schema()).expect("the schema is one")
}

fn tree_of(text: &str) -> Tree {
    let (tree, syntax) = Tree::parse(text);
    assert_eq!(syntax, [], "syntax");
    tree
}

/// Every key that the value has, as paths without positions and without names that users choose.
fn keys(value: &Value, part: &Value, at: &str, found: &mut BTreeSet<String>) {
    let part = match part.get("$ref").and_then(Value::as_str) {
        Some(pointer) => schema()
            .pointer(pointer.trim_start_matches('#'))
            .expect("it is there"),
        None => part,
    };
    match value {
        Value::Array(items) => items
            .iter()
            .for_each(|item| keys(item, &part["items"], at, found)),
        Value::Object(map) => {
            for (key, inner) in map {
                let known = &part["properties"][key];
                if known.is_null() {
                    keys(inner, &part["additionalProperties"], at, found);
                } else {
                    let at = format!("{at}.{key}");
                    keys(inner, known, &at, found);
                    found.insert(at);
                }
            }
        }
        _ => {}
    }
}

fn keys_of(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    keys(&tree_of(text).value, schema(), "", &mut found);
    found
}

/// Every key that the schema knows, in the same form.
fn keys_of_schema() -> BTreeSet<String> {
    fn walk(part: &Value, at: &str, found: &mut BTreeSet<String>) {
        let part = match part.get("$ref").and_then(Value::as_str) {
            Some(pointer) => schema()
                .pointer(pointer.trim_start_matches('#'))
                .expect("it is there"),
            None => part,
        };
        for (key, inner) in part["properties"].as_object().into_iter().flatten() {
            let at = format!("{at}.{key}");
            walk(inner, &at, found);
            found.insert(at);
        }
        for inner in ["items", "additionalProperties"] {
            if part[inner].is_object() {
                walk(&part[inner], at, found);
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(schema(), "", &mut found);
    found
}

#[test]
fn g_9_an_empty_file_is_a_working_gateway() {
    insta::assert_snapshot!("empty", normalised_toml(&config_of("")));
}

#[test]
fn the_minimal_file_is_normalised() {
    insta::assert_snapshot!("minimal", normalised_toml(&config_of(MINIMAL)));
}

#[test]
fn the_files_with_a_database_have_no_mistakes() {
    let world = World::new(&[
        ("JWT_SECRET_KEY", "a secret of tests, 32 bytes long."),
        ("SHOP_DATABASE_URL", "postgres://me@127.0.0.1/shop"),
    ]);
    for (text, backends) in [(POSTGRES, 1), (DEMO, 7)] {
        let config = world.parse(text);
        let config = config.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(config.backends.len(), backends);
        assert!(config.auth.is_some());
    }
}

#[test]
fn the_example_file_is_normalised() {
    let config = example_world()
        .parse(EXAMPLE)
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    insta::assert_snapshot!("example", normalised_toml(&config));
    insta::assert_snapshot!("example-notices", config.notices.join("\n"));
}

#[test]
fn the_example_file_is_made_from_the_declarations() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/example.toml");
    if std::env::var_os("UPDATE_EXAMPLE").is_some() {
        std::fs::write(file, example()).expect("it can be written");
    }
    let written = std::fs::read_to_string(file).expect("it is there");
    assert_eq!(written, example(), "UPDATE_EXAMPLE=1 writes it");
}

#[test]
fn every_key_of_the_schema_has_a_reload_rule() {
    let of_backends = crate::Backend::KEYS.iter().map(|key| key.name.to_owned());
    let rules: BTreeSet<String> = Config::rules().into_iter().map(|(key, _)| key).collect();
    let backends: BTreeSet<String> = of_backends.collect();
    for (section, part) in schema()["properties"].as_object().expect("sections") {
        let pointer = part["$ref"].as_str().or(part["items"]["$ref"].as_str());
        let pointer = pointer.expect("sections are definitions");
        let part = schema().pointer(&pointer[1..]).expect("it is there");
        for key in part["properties"].as_object().expect("keys").keys() {
            let known = match section.as_str() {
                // The keys of a kind go with its type: a change starts the backend anew.
                "backends" => {
                    backends.contains(key)
                        || part["properties"][key]["description"]
                            .as_str()
                            .is_some_and(|d| d.contains(": "))
                }
                _ => rules.contains(&format!("{section}.{key}")),
            };
            assert!(known, "{section}.{key}");
        }
    }
}

#[test]
fn the_example_file_shows_every_key() {
    let shown = keys_of(&uncommented());
    let missing: Vec<_> = keys_of_schema().difference(&shown).cloned().collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn g_59_to_g_68_every_documented_name_is_understood_and_has_its_documented_default() {
    let mut tree = tree_of(DOCUMENTED);
    assert_eq!(shape::check(&mut tree).mistakes, []);
    let defaults = serde_json::to_value(config_of("")).expect("it serialises");
    let raw_defaults = schema();
    for (section, keys) in tree.value.as_object().expect("a table") {
        // Examples of what a user names have no default.
        if matches!(section.as_str(), "backends" | "rbac") {
            continue;
        }
        let definition = raw_defaults["properties"][section]["$ref"]
            .as_str()
            .expect("a section");
        let definition = raw_defaults
            .pointer(definition.trim_start_matches('#'))
            .expect("it is there");
        for (key, documented) in keys.as_object().expect("a table") {
            let default = &definition["properties"][key]["default"];
            // Computed from the user's home.
            if key == "data_dir" {
                assert_eq!(defaults[section][key], "/home/me/.local/share/sentinel");
            } else if key != "per_tool" {
                let same = match (default.as_f64(), documented.as_f64()) {
                    (Some(ours), Some(theirs)) => ours == theirs,
                    _ => default == documented,
                };
                assert!(
                    same,
                    "[{section}] {key}: {default} is documented as {documented}"
                );
            }
        }
    }
}

#[test]
fn documented_backends_show_their_defaults() {
    let mut tree = tree_of(DOCUMENTED);
    shape::check(&mut tree);
    let definition = schema()
        .pointer("/$defs/Backend/properties")
        .expect("backends are defined");
    let examples = [
        "name",
        "type",
        "url",
        "url_env",
        "headers",
        "command",
        "args",
        "env",
        "spec",
        "admission",
        "circuit_breaker",
        "tools",
    ];
    for backend in tree.value["backends"].as_array().expect("an array") {
        for (key, documented) in backend.as_object().expect("a table") {
            if !examples.contains(&key.as_str()) {
                let default = &definition[key]["default"];
                let same = default == documented
                    || default.as_f64() == documented.as_f64() && default.is_number();
                assert!(
                    same,
                    "backends.{key}: {default} is documented as {documented}"
                );
            }
        }
    }
}

#[test]
fn the_examples_validate_against_the_schema() {
    for (name, text) in [
        ("minimal", MINIMAL),
        ("postgres", POSTGRES),
        ("demo", DEMO),
        ("example", EXAMPLE),
        ("uncommented", &uncommented()),
        ("documented", DOCUMENTED),
    ] {
        let errors: Vec<String> = validator()
            .iter_errors(&tree_of(text).value)
            .map(|e| e.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn the_schema_and_the_shape_check_refuse_the_same_files() {
    for text in [
        "unknown = 1",
        "[gateway]\nunknown = 1",
        "[gateway]\nlisten = 1",
        "[gateway]\nlog_format = \"xml\"",
        "[limits]\nbody_mb = 0",
        "[limits]\nbody_mb = 1.5",
        "[[backends]]\nname = \"a\"",
        "[[backends]]\nname = \"a\"\ntype = \"http\"\nurl = \"http://x\"\nenv = { A = 1 }",
        "[[backends]]\nname = \"a\"\ntype = \"http\"\nurl = \"http://x\"\nheaders = { A = { valu = \"\" } }",
        "[backends]\nname = \"a\"",
    ] {
        let mut tree = tree_of(text);
        assert!(
            !validator().is_valid(&tree.value),
            "the schema permits: {text}"
        );
        assert_ne!(
            shape::check(&mut tree).mistakes,
            [],
            "the shape check permits: {text}"
        );
    }
}

#[test]
fn what_check_prints_is_a_file_that_means_the_same() {
    let text = "[gateway]\nlisten = \"localhost:0\"\ndata_dir = \"data\"\n[limits]\nsession_idle = 1.5\n\
        [[backends]]\nname = \"a\"\ntype = \"http\"\nurl = \"http://x\"\nheaders = { X-A = \"b\" }\n\
        [[backends]]\nname = \"b\"\ntype = \"stdio\"\ncommand = \"./run\"\nargs = [\"x\"]\nenv = { A = \"b\", APP_ENV = { value = \"x\" } }\ncwd = \"~\"";
    let once = normalised_toml(&config_of(text));
    let twice = normalised_toml(&config_of(&once));
    assert_eq!(once, twice);
    assert!(once.contains("/etc/sentinel/./run"), "{once}");
}

#[test]
fn stores_that_nobody_asked_for_are_not_printed() {
    let printed = normalised(&config_of(""));
    assert!(printed.get("redis").is_none() && printed.get("postgres").is_none());
    let world = World::new(&[("SHARED", "redis://me:hunter2@host")]);
    let config = world.parse("[redis]\nurl_env = \"SHARED\"");
    let printed = normalised_toml(&config.expect("no mistakes"));
    assert!(printed.contains("<from SHARED>"), "{printed}");
    assert!(!printed.contains("hunter2"), "{printed}");
}
