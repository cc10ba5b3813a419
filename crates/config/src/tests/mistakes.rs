//! Mistakes: all of them together, each with its place, what was expected and what to write.

use std::path::Path;

use proptest::prelude::*;

use super::{World, config_of, mistakes_of};
use crate::{Overrides, parse, schema};

#[test]
fn all_mistakes_are_reported_together_each_with_its_place() {
    insta::assert_snapshot!(mistakes_of(include_str!("data/mistakes.toml")));
}

#[test]
fn a_syntax_error_does_not_hide_the_other_mistakes() {
    insta::assert_snapshot!(mistakes_of(
        "[gateway\nlisten = \"x\"\n[limits]\nbody_mb = 0\nline_mb =\n[audit]\narguments = \"digst\nbuffer = 0"
    ));
}

/// A file with one mistake, and words of its message.
type Row = (&'static str, &'static str);

const OF_THE_GATEWAY: &[Row] = &[
    (
        "[gateway]\nlisten = \"9200\"",
        "add an address: \"127.0.0.1:9200\"",
    ),
    ("[gateway]\nlisten = \":9200\"", "write \"0.0.0.0:9200\""),
    ("[gateway]\nlisten = \"127.0.0.1\"", "add a port"),
    (
        "[gateway]\nlisten = \"example.com:80\"",
        "is no address to listen on",
    ),
    (
        "[gateway]\nhealth_listen = \"127.0.0.1:9200\"",
        "is the address of `listen`",
    ),
    ("[gateway]\nallowed_hosts = [\"http://x\"]", "is no host"),
    (
        "[gateway]\nallowed_origins = [\"https://x/\"]",
        "is no origin",
    ),
    ("[gateway]\ndata_dir = \"~you/x\"", "another user's home"),
    (
        "[gateway]\ndrain_timeout = \"30s\"",
        "plain number without a unit, such as 30",
    ),
    (
        "[gateway]\naudit_enabled = \"yes\"",
        "expected: true or false",
    ),
    ("[gateway]\nallowed_hosts = \"x\"", "write [\"x\"]"),
    ("[gateway]\ndrain_timeout = nan", "not finite"),
    (
        "[gateway]\ndrain_timeout = 99999999999999999999",
        "too large",
    ),
    ("[gatewy]\n", "did you mean `gateway`?"),
    (
        "[gateway]\nqueueSize = 1",
        "did you mean `queue_size` in [backends.admission] or [admission]?",
    ),
];

const OF_OTHER_SECTIONS: &[Row] = &[
    (
        "[surfaces]\nrest_path = \"tools\"",
        "\"tools\" cannot be a path",
    ),
    (
        "[surfaces]\nrest_path = \"/admin/x\"",
        "/admin is a path of the gateway's own",
    ),
    (
        "[surfaces]\nrpc_path = \"/api/rpc\"",
        "`rpc_path` and `rest_path` are one path, or one is below the other",
    ),
    ("[surfaces]\nconfirm = [\"\"]", "no tool has an empty name"),
    (
        "[[listeners]]\nbackend = \"review\"",
        "a listener needs an address",
    ),
    (
        "[[listeners]]\nlisten = \"127.0.0.1:9200\"",
        "127.0.0.1:9200 is listened on already",
    ),
    (
        "[[listeners]]\nlisten = \"127.0.0.1:1\"\nbackend = \"x\"",
        "there is no backend \"x\"",
    ),
    (
        "[[listeners]]\nlisten = \"127.0.0.1:1\"\nbackend = \"review\"\nsurfaces = [\"rest\"]",
        "a listener for one backend serves MCP only",
    ),
    ("[admission]\noverload_error_code = -32600", "reserved"),
    ("[admission]\noverload_error_code = -32050", "reserved"),
    (
        "[admission]\non_overload = \"ftp://x\"",
        "neither http nor https",
    ),
    (
        "[kill_switch]\ndisabled_backends = [\"b\"]",
        "there is no backend \"b\"",
    ),
    (
        "[kill_switch]\ndisabled_callers = [\"\"]",
        "no caller has an empty name",
    ),
    (
        "[rate_limits.per_tool]\nn8n.run = 5",
        "a name with a dot needs quotes: \"n8n.run\"",
    ),
    (
        "[rate_limits.per_tool]\n\"\" = 5",
        "no tool has an empty name",
    ),
    (
        "[backends]\nname = \"a\"",
        "write [[backends]], not [backends]",
    ),
    (
        "[[backends]]\ntype = \"http\"\nurl = \"http://x\"",
        "`name` is missing in [[backends]]",
    ),
    (
        "[auth]\njwks = \"/nowhere/set.json\"",
        "the keys in /nowhere/set.json cannot be used: No such file",
    ),
    (
        "[rbac.roles.\"\"]\npermissions = [\"*\"]",
        "a role needs a name",
    ),
];

fn of_backends() -> Vec<(String, &'static str)> {
    let backend = |rest: &str| format!("[[backends]]\nname = \"a\"\n{rest}");
    let http = |rest: &str| backend(&format!("type = \"http\"\nurl = \"http://x\"\n{rest}"));
    let stdio = |rest: &str| backend(&format!("type = \"stdio\"\ncommand = \"x\"\n{rest}"));
    vec![
        (backend("command = \"x\""), "write type = \"stdio\""),
        (backend("type = \"http\""), "needs `url`"),
        (backend("type = \"http\"\nurl = \"\""), "`url` is empty"),
        (backend("type = \"stdio\""), "needs `command`"),
        (backend("type = \"postgres\""), "needs `url_env`"),
        (backend("type = \"openapi\""), "needs `spec`"),
        (
            backend("type = \"http\"\nurl = \"localhost:3000\""),
            "begin it with http:// or https://",
        ),
        (
            backend("type = \"http\"\nurl = \"http://me@x/\""),
            "has a user in it",
        ),
        (
            backend("type = \"http\"\nurl = \"http://x/#a\""),
            "has a fragment",
        ),
        (
            backend("type = \"http\"\nurl = \"http://x:99999/\""),
            "no usable host and port",
        ),
        (backend("type = \"http\"\nurl = \"http://\""), "no URL"),
        (
            http("url_env = \"HOME\""),
            "`url` and `url_env` are both given",
        ),
        (
            http("headers = { \"a b\" = \"c\" }"),
            "cannot name a header",
        ),
        (http("headers = { A = \"b\", a = \"c\" }"), "given twice"),
        (
            http("headers = { A = \"b\\n\" }"),
            "cannot be sent in a header",
        ),
        (
            http("headers = { A_ENV = \"MISSING\" }"),
            "MISSING is not set",
        ),
        (
            http("headers = { Mcp-Session-Id = \"x\" }"),
            "set by the gateway",
        ),
        (
            http("tools = { rename = { a = \"c\", b = \"c\" } }"),
            "renamed to \"c\" too",
        ),
        (
            http("tools = { rename = { a = \"no good\" } }"),
            "cannot be a tool's name",
        ),
        (
            stdio("env = { A = \"1\", A_ENV = \"HOME\" }"),
            "A is given twice",
        ),
        (
            stdio("env = { NODE_ENV = \"production\" }"),
            "write NODE_ENV = { value = \"production\" }",
        ),
        (stdio("args = [\"${MISSING}\"]"), "MISSING is not set"),
        (stdio("retries = 1"), "it belongs to type \"http\""),
        (
            backend("type = \"stdio\"\ncommand = \"npx -y thing\""),
            "args = [\"-y\", \"thing\"]",
        ),
        (
            stdio("interactive = \"serialize\"\nisolation = \"caller\""),
            "for a shared child",
        ),
    ]
}

#[test]
fn every_rule_has_a_message() {
    let rows = [OF_THE_GATEWAY, OF_OTHER_SECTIONS].concat().into_iter();
    let rows = rows.map(|(text, words)| (text.to_owned(), words));
    for (text, words) in rows.chain(of_backends()) {
        let mistakes = mistakes_of(&text);
        assert!(
            mistakes.contains(words),
            "{text}\n--- lacks: {words}\n{mistakes}"
        );
    }
}

#[test]
fn a_backends_name_is_checked() {
    let file =
        |name: &str| format!("[[backends]]\nname = \"{name}\"\ntype = \"stdio\"\ncommand = \"x\"");
    for good in ["a", "0", "n8n", "a-b-", &"x".repeat(32)] {
        config_of(&file(good));
    }
    for bad in [
        "",
        "-a",
        "A",
        "a_b",
        "a b",
        "ä",
        &"x".repeat(33),
        "tools",
        "admin",
        "review",
    ] {
        mistakes_of(&file(bad));
    }
    let twice = format!("{}\n{}", file("a"), file("a"));
    assert!(mistakes_of(&twice).contains("the name \"a\" is taken by backend number 1"));
}

#[test]
fn issue_17_10_sides_are_enforced_only_where_callers_can_be_told_apart() {
    let mistakes = mistakes_of("[review]\nenforce_roles = true");
    assert!(
        mistakes.contains("`enforce_roles` needs [auth]"),
        "{mistakes}"
    );
    assert!(mistakes.contains("test.toml:2:17"), "{mistakes}");
    assert!(mistakes.contains("sentinel key create"), "{mistakes}");
    config_of("[auth]\n[review]\nenforce_roles = true");
    config_of("[review]\nenabled = false\nenforce_roles = true");
}

#[test]
fn p_s15_beyond_loopback_needs_authentication_or_words() {
    for (key, section) in [
        ("listen", "gateway"),
        ("health_listen", "gateway"),
        ("listen", "review"),
    ] {
        for address in ["0.0.0.0:9999", "[::]:9999", "192.168.1.1:9999"] {
            let text = format!("[{section}]\n{key} = \"{address}\"\n");
            let mistakes = mistakes_of(&text);
            assert!(
                mistakes.contains("gateway.allow_unauthenticated_network = true"),
                "{mistakes}"
            );
            let words = if section == "gateway" {
                String::new()
            } else {
                "[gateway]\n".into()
            };
            config_of(&format!(
                "{text}{words}allow_unauthenticated_network = true"
            ));
        }
        for address in [
            "127.0.0.1:9999",
            "127.8.8.8:9999",
            "[::1]:9999",
            "localhost:9999",
            "off",
        ] {
            config_of(&format!("[{section}]\n{key} = \"{address}\"\n"));
        }
    }
}

#[test]
fn p_s15_the_command_line_is_no_way_around() {
    let parse = |text: &str, listen: &str| {
        let overrides = Overrides {
            listen: Some(listen.into()),
            ..Overrides::default()
        };
        World::new(&[]).with("/".into(), |environment| {
            parse("t", text, Path::new("/"), &overrides, environment)
        })
    };
    let mistakes = parse("", "0.0.0.0:1")
        .map(|_| ())
        .expect_err("refused")
        .to_string();
    assert!(
        mistakes.contains("0.0.0.0:1 can be reached from the network"),
        "{mistakes}"
    );
    let config = parse(
        "[gateway]\nallow_unauthenticated_network = true",
        "0.0.0.0:1",
    )
    .expect("said in words");
    assert_eq!(
        config.notices,
        ["0.0.0.0:1 can be reached from the network, and callers are not authenticated"]
    );
    let config = parse("[gateway]\nlisten = \"off\"", "127.0.0.1:0").expect("loopback");
    assert_eq!(config.gateway.listen, "127.0.0.1:0".parse().ok());
}

#[test]
fn a_database_needs_its_variables() {
    let text = "[[backends]]\nname = \"a\"\ntype = \"postgres\"\n";
    for (more, expected) in [
        ("", "url_env"),
        ("url_env = \"ELSEWHERE\"", "ELSEWHERE"),
        (
            "url_env = \"URL\"\nreplicas_env = \"ELSEWHERE\"",
            "ELSEWHERE",
        ),
    ] {
        let text = format!("{text}{more}");
        let world = World::new(&[("URL", "postgres://x")]);
        let mistakes = world.parse(&text).map(|_| ()).expect_err(&text);
        assert_eq!(mistakes.count(), 1, "{mistakes}");
        assert!(mistakes.to_string().contains(expected), "{mistakes}");
    }
}

#[test]
fn a_file_with_nothing_to_notice_has_no_notices() {
    for text in ["", "[console]\nedit = false"] {
        assert_eq!(config_of(text).notices, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn mistakes_are_sorted_and_have_json() {
    let mistakes = World::new(&[])
        .parse("[limits]\nstreams = 0\nbody_mb = 0")
        .map(|_| ())
        .expect_err("two");
    let json = mistakes.to_json();
    assert_eq!(json[0]["line"], 2);
    assert_eq!(json[0]["column"], 11);
    assert_eq!(json[1]["line"], 3);
    assert_eq!(json[1]["expected"], "a whole number from 1 to 1024");
}

/// Every key with every kind of value: each ends in a configuration or in mistakes.
#[test]
fn no_value_of_any_key_makes_the_reader_panic() {
    let values = [
        "\"\"",
        "\"x\"",
        "\"~\"",
        "\"${A:-b}\"",
        "\"http://[\"",
        "0",
        "-1",
        "4294967296",
        "0.5",
        "1e308",
        "inf",
        "true",
        "2020-01-01",
        "[]",
        "[\"\"]",
        "[1, [2]]",
        "{}",
        "{ a = \"\" }",
        "{ a_ENV = \"HOME\" }",
        "{ a = { value = \"\" } }",
    ];
    let sections = schema()["properties"].as_object().expect("sections");
    for (section, part) in sections {
        let (head, part) = match part.get("items") {
            Some(items) => (format!("[[{section}]]\n"), items),
            None => (format!("[{section}]\n"), part),
        };
        let pointer = part["$ref"]
            .as_str()
            .expect("a section")
            .trim_start_matches('#');
        let keys = schema().pointer(pointer).expect("it is there")["properties"]
            .as_object()
            .expect("keys");
        for (key, value) in keys.keys().flat_map(|key| values.map(|value| (key, value))) {
            for kind in [
                "",
                "type = \"http\"\nname = \"a\"\n",
                "type = \"stdio\"\nname = \"a\"\n",
            ] {
                let kind = if head.starts_with("[[") { kind } else { "" };
                let kind = if key == "type" || key == "name" {
                    ""
                } else {
                    kind
                };
                let _ = World::new(&[]).parse(&format!("{head}{kind}{key} = {value}"));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the file holds, reading it ends in a configuration or in mistakes.
    #[test]
    fn no_file_makes_the_reader_panic(
        lines in prop::collection::vec(
            prop_oneof![
                Just("[gateway]".to_owned()),
                Just("[[backends]]".to_owned()),
                Just("[backends.tools]".to_owned()),
                Just("[rbac.roles.x]".to_owned()),
                ("(listen|name|type|url|env|headers|args|timeout|permissions|rename|ü)", "( = | |=)",
                    "(\"[^\"]{0,8}\"|-?[0-9]{1,25}|1e400|\\{ A_ENV = \"B\" \\}|\\[1, \"\"\\]|true|\"\\$\\{X\\}\"|\"http\"|\"stdio\"|'''|1979-05-27)")
                    .prop_map(|(key, sign, value)| format!("{key}{sign}{value}")),
                ".{0,12}",
            ],
            0..12,
        )
    ) {
        let text = lines.join("\n");
        if let Err(mistakes) = World::new(&[]).parse(&text) {
            prop_assert!(mistakes.count() > 0);
            prop_assert!(!mistakes.to_string().is_empty());
        }
    }
}
