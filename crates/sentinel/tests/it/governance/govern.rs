//! Who sees and calls what, through the real program: one verdict on every endpoint, in every
//! revision, over both transports (P-S02), the kill switch, limits, and arguments.

use serde_json::{Value, json};

use crate::support::callers::{Caller, LEGACY, Legacy, Modern, kind_of, text_of};
use crate::support::pipe::Pipe;
use crate::support::setup::{Gateway, Server, Setup, http_backend};
use crate::support::tokens::{ping_at, token};

/// What a role may do with a tool, said again in other words than the program's.
struct Rule {
    permissions: &'static str,
    denied: &'static str,
    sees: fn(backend: &str, own: &str) -> bool,
    calls: fn(backend: &str, own: &str) -> bool,
}

const RULES: &[Rule] = &[
    Rule {
        permissions: r#"["*"]"#,
        denied: "[]",
        sees: |_, _| true,
        calls: |_, _| true,
    },
    Rule {
        permissions: r#"["tools.read"]"#,
        denied: r#"["alpha.c*"]"#,
        sees: |backend, own| !(backend == "alpha" && own.starts_with('c')),
        calls: |_, _| false,
    },
    Rule {
        permissions: r#"["beta.*"]"#,
        denied: "[]",
        sees: |backend, _| backend == "beta",
        calls: |backend, _| backend == "beta",
    },
    Rule {
        // `tool:` is about merged names, and beta's begin with its own.
        permissions: r#"["tool:echo*", "beta.count", "tools.read"]"#,
        denied: r#"["beta__blob"]"#,
        sees: |backend, own| !(backend == "beta" && own == "blob"),
        calls: |backend, own| match backend {
            "alpha" => own.starts_with("echo"),
            _ => own == "count",
        },
    },
    Rule {
        permissions: r#"["tools.read", "tools.execute"]"#,
        denied: r#"["echo*", "beta.*"]"#,
        sees: |backend, own| backend == "alpha" && !own.starts_with("echo"),
        calls: |backend, own| backend == "alpha" && !own.starts_with("echo"),
    },
    Rule {
        permissions: "[]",
        denied: "[]",
        sees: |_, _| false,
        calls: |_, _| false,
    },
];

fn backends(alpha: &Server, beta: &Server) -> String {
    http_backend("alpha", &alpha.address, "")
        + &http_backend("beta", &beta.address, "prefix = \"always\"")
}

/// An answer without its id, with the name in it made neutral.
fn neutral(answer: &Value, name: &str) -> String {
    let mut answer = answer.clone();
    answer["id"] = Value::Null;
    answer.to_string().replace(name, "NAME")
}

#[derive(Default)]
struct Tally {
    cells: usize,
    refused: usize,
}

/// Compares the list and a call of every tool with the rule.
fn check(
    rule: &Rule,
    who: &str,
    caller: &dyn Caller,
    tools: &[(String, String, String)],
    tally: &mut Tally,
) {
    let listed = caller.tools();
    let nonesuch = neutral(&call(caller, "no_such_tool"), "no_such_tool");
    for (backend, own, name) in tools {
        let (sees, calls) = ((rule.sees)(backend, own), (rule.calls)(backend, own));
        let cell = format!("{who} with {}: {backend}'s {own}", rule.permissions);
        assert_eq!(listed.contains(name), sees, "listed? {cell}");
        let answer = call(caller, name);
        // Arguments that are no object stop the call after every other question; where they are
        // repeated in headers, that is asked first of those who may call.
        let verdict = match kind_of(&answer) {
            "header_mismatch" | "invalid_params" => (true, true),
            "forbidden" => (true, false),
            "unknown_name" => (false, false),
            other => panic!("{cell}: {other}: {answer}"),
        };
        assert_eq!(verdict, (sees, calls), "{cell}: {answer}");
        if !sees {
            assert_eq!(neutral(&answer, name), nonesuch, "{cell}");
        }
        tally.cells += 1;
        tally.refused += usize::from(!calls);
    }
}

/// Whether the rule hides all of a backend, which then is not there; `hidden` has the other ways to ask.
fn is_hidden(
    rule: &Rule,
    gateway: &Gateway,
    path: &str,
    tools: &[(String, String, String)],
    headers: &[(&str, &str)],
) -> bool {
    let hides = path != "/mcp" && !tools.iter().any(|(of, own, _)| (rule.sees)(of, own));
    if hides {
        let [hidden, unknown] = [path, "/mcp/nobody"].map(|path| {
            let answer = ping_at(gateway, path, headers);
            (answer.status, answer.text)
        });
        assert_eq!(hidden, unknown, "{path} with {}", rule.permissions);
        assert_eq!(hidden.0, 404, "{path} with {}", rule.permissions);
    }
    hides
}

fn call(caller: &dyn Caller, tool: &str) -> Value {
    caller.ask("tools/call", json!({"name": tool, "arguments": 5}))
}

/// What else both backends have: a prompt by its own name, a resource, a template.
enum Other {
    Prompt(&'static str),
    Resource(&'static str),
    /// A template, and a URI that it makes.
    Template(&'static str, &'static str),
}

const OTHERS: [Other; 5] = [
    Other::Prompt("greet"),
    Other::Prompt("plain"),
    Other::Resource("test://static"),
    Other::Resource("test://binary"),
    Other::Template("test://items/{id}", "test://items/7"),
];

impl Other {
    fn own(&self) -> &'static str {
        match self {
            Self::Prompt(name) | Self::Resource(name) | Self::Template(name, _) => name,
        }
    }

    /// Its name as this caller would have to use it.
    fn exposed(&self, prefix: &str) -> String {
        match self {
            Self::Prompt(name) => format!("{prefix}{name}"),
            Self::Resource(uri) | Self::Template(uri, _) => (*uri).to_owned(),
        }
    }

    fn is_listed(&self, caller: &dyn Caller, exposed: &str) -> bool {
        let names = match self {
            Self::Prompt(_) => caller.names("prompts/list", "prompts", "name"),
            Self::Resource(_) => caller.names("resources/list", "resources", "uri"),
            Self::Template(..) => {
                let member = "resourceTemplates";
                caller.names("resources/templates/list", member, "uriTemplate")
            }
        };
        names.iter().any(|name| name == exposed)
    }

    /// Uses it, and something of its kind that does not exist: both answers, without what was asked for.
    fn used(&self, caller: &dyn Caller, exposed: &str) -> (Value, String, String) {
        let (method, member, used, missing) = match self {
            Self::Prompt(_) => ("prompts/get", "name", exposed, "no_such_prompt"),
            Self::Resource(uri) | Self::Template(_, uri) => {
                ("resources/read", "uri", *uri, "test://no/such")
            }
        };
        let ask = |name: &str| {
            let mut params = json!({member: name});
            if method == "prompts/get" {
                params["arguments"] = json!({"who": "x"});
            }
            caller.ask(method, params)
        };
        let answer = ask(used);
        let neutral_answer = neutral(&answer, used);
        (answer, neutral_answer, neutral(&ask(missing), missing))
    }
}

/// The same for prompts, resources and templates: `backends` are those of this endpoint in order, with what
/// their prompts' names begin with. A URI is the first one's.
fn check_others(
    rule: &Rule,
    who: &str,
    caller: &dyn Caller,
    backends: &[(&str, &str)],
    tally: &mut Tally,
) {
    for (n, (backend, prefix)) in backends.iter().enumerate() {
        for other in &OTHERS {
            if n > 0 && !matches!(other, Other::Prompt(_)) {
                continue;
            }
            let own = other.own();
            // `tool:` speaks of tools only.
            let is_tool_rule = rule.permissions.contains("tool:");
            let sees = (rule.sees)(backend, own);
            let calls = (rule.calls)(backend, own) && !(is_tool_rule && own.starts_with("echo"));
            let exposed = other.exposed(prefix);
            let cell = format!("{who} with {}: {backend}'s {own}", rule.permissions);
            // A URI that several list shows as long as one of them is seen; its owner decides on reading.
            let listed = other.is_listed(caller, &exposed);
            let shared = backends.len() > 1 && matches!(other, Other::Template(..));
            let seen_elsewhere = backends.iter().any(|(b, _)| (rule.sees)(b, own));
            let wanted = if shared { seen_elsewhere } else { sees };
            assert_eq!(listed, wanted, "listed? {cell}");
            let (answer, said, nonesuch) = other.used(caller, &exposed);
            let verdict = match kind_of(&answer) {
                _ if answer["result"].is_object() => (true, true),
                "forbidden" => (true, false),
                "unknown_name" | "unknown_resource" => (false, false),
                kind => panic!("{cell}: {kind}: {answer}"),
            };
            assert_eq!(verdict, (sees, calls), "{cell}: {answer}");
            if !sees {
                assert_eq!(said, nonesuch, "{cell}");
            }
            tally.cells += 1;
            tally.refused += usize::from(!calls);
        }
    }
}

#[test]
fn p_s02_list_and_call_agree_in_every_revision_on_every_endpoint_over_both_transports() {
    let alpha = Server::start(&["--tools", "50"]);
    let beta = Server::start(&["--tools", "20"]);
    let behind = backends(&alpha, &beta);
    let all = Gateway::ready(&behind);
    let names = |path: &str| Modern::new(&all, path).tools();
    let own = |backend: &str| -> Vec<(String, String, String)> {
        let names = names(&format!("/mcp/{backend}")).into_iter();
        names
            .map(|own| (backend.to_owned(), own.clone(), own))
            .collect()
    };
    let (of_alpha, of_beta) = (own("alpha"), own("beta"));
    let prefixed = |(backend, own, _): &(String, String, String)| {
        (backend.clone(), own.clone(), format!("beta__{own}"))
    };
    let merged: Vec<_> = of_alpha
        .iter()
        .cloned()
        .chain(of_beta.iter().map(prefixed))
        .collect();
    assert_eq!(merged.len(), names("/mcp").len());
    drop(all);

    let mut tally = Tally::default();
    for rule in RULES {
        let role = |name: &str| {
            format!(
                "[rbac.roles.{name}]\npermissions = {}\ndenied_tools = {}\n",
                rule.permissions, rule.denied
            )
        };
        // Callers over HTTP are `admin` while nobody has to say who they are.
        let gateway = Gateway::ready(&format!("{}{behind}", role("admin")));
        let both: &[_] = &[("alpha", ""), ("beta", "beta__")];
        for (path, tools, here) in [
            ("/mcp", &merged, both),
            ("/mcp/alpha", &of_alpha, &[("alpha", "")]),
            ("/mcp/beta", &of_beta, &[("beta", "")]),
        ] {
            if is_hidden(rule, &gateway, path, tools, &[]) {
                continue;
            }
            let mut callers: Vec<(&str, Box<dyn Caller>)> = Vec::new();
            for revision in LEGACY {
                let caller = Legacy::connect(&gateway, path, revision);
                callers.push((revision, Box::new(caller)));
            }
            callers.push(("2026-07-28", Box::new(Modern::new(&gateway, path))));
            for (revision, caller) in callers {
                let who = format!("{revision} at {path}");
                check(rule, &who, &*caller, tools, &mut tally);
                check_others(rule, &who, &*caller, here, &mut tally);
            }
        }
        let config = format!("stdio_role = \"it\"\n{}{behind}", role("it"));
        // One of each backend's, so that both are there.
        let visible: Vec<&String> = ["alpha", "beta"]
            .iter()
            .filter_map(|backend| {
                let mut tools = merged.iter();
                tools.find(|(of, own, _)| of == backend && (rule.sees)(of, own))
            })
            .map(|(_, _, name)| name)
            .collect();
        let ready = |caller: &Pipe| visible.iter().for_each(|name| caller.wait_for_tool(name));
        for revision in LEGACY {
            let caller = Pipe::legacy(&config, revision, json!({}));
            ready(&caller);
            let who = format!("{revision} on stdio");
            check(rule, &who, &caller, &merged, &mut tally);
            check_others(rule, &who, &caller, both, &mut tally);
        }
        let caller = Pipe::modern(&config, json!({}));
        ready(&caller);
        check(rule, "2026-07-28 on stdio", &caller, &merged, &mut tally);
        check_others(rule, "2026-07-28 on stdio", &caller, both, &mut tally);
    }
    let Tally { cells, refused } = tally;
    println!("P-S02: {cells} cells, {refused} refused, one verdict");
    assert!(cells >= 10_000, "{cells}");
    assert!(
        refused * 4 >= cells && refused < cells,
        "{refused} of {cells}"
    );
}

/// Tools of the two backends: whose, its own name, and how it is called at `/mcp` and at its own endpoint.
type Tools = Vec<(String, String, String)>;

fn tools_of(gateway: &Gateway, credential: Option<&str>) -> [(&'static str, Tools); 3] {
    let names = |path: &str| {
        let caller = Modern::new(gateway, path);
        match credential {
            Some(credential) => caller.bearing(credential).tools(),
            None => caller.tools(),
        }
    };
    let own = |backend: &str, prefix: &str| -> Tools {
        let names = names(&format!("/mcp/{backend}")).into_iter();
        names
            .map(|own| (backend.to_owned(), own.clone(), format!("{prefix}{own}")))
            .collect()
    };
    let merged = [own("alpha", ""), own("beta", "beta__")].concat();
    [
        ("/mcp", merged),
        ("/mcp/alpha", own("alpha", "")),
        ("/mcp/beta", own("beta", "")),
    ]
}

/// The same table, written as scopes of tokens whose role allows everything: they narrow it alike.
#[test]
fn p_s02_scopes_of_a_token_give_the_same_verdicts_as_permissions() {
    let (alpha, beta) = (Server::start(&[]), Server::start(&[]));
    let behind = backends(&alpha, &beta);
    let gateway = Gateway::ready(&format!("[auth]\n{behind}"));
    let everything = tools_of(&gateway, Some(&token(json!({}))));
    let mut tally = Tally::default();
    for rule in RULES
        .iter()
        .filter(|r| r.denied == "[]" && r.permissions != "[]")
    {
        let scopes: Vec<String> = serde_json::from_str(rule.permissions).expect("a list");
        let scope = format!("openid {} mcp:use User.Read", scopes.join(" "));
        let credential = token(json!({ "scope": scope }));
        let bearer = format!("Bearer {credential}");
        for (path, tools) in &everything {
            if is_hidden(rule, &gateway, path, tools, &[("Authorization", &bearer)]) {
                continue;
            }
            let caller = Modern::new(&gateway, path).bearing(&credential);
            check(
                rule,
                &format!("scopes at {path}"),
                &caller,
                tools,
                &mut tally,
            );
        }
        let caller = Legacy::bearing(&gateway, &credential);
        check(
            rule,
            "scopes in a session",
            &caller,
            &everything[0].1,
            &mut tally,
        );
    }
    // Scopes take away; they give nothing that the role has not.
    let reader = token(json!({"role": "nobody", "scope": "*"}));
    let caller = Modern::new(&gateway, "/mcp").bearing(&reader);
    assert!(caller.tools().is_empty());
    println!("P-S02: {} cells by scopes", tally.cells);
    assert!(tally.cells > 300 && tally.refused > 0);
}

/// Sabotage: a program that decides differently in a single cell turns the matrix red.
#[test]
fn p_s02_the_matrix_notices_one_wrong_cell() {
    let (alpha, beta) = (Server::start(&[]), Server::start(&[]));
    let behind = backends(&alpha, &beta);
    let everything = tools_of(&Gateway::ready(&behind), None);
    for (rule, broken) in [
        // One tool too few, one too many, one that is seen and must not be called.
        (
            &RULES[0],
            "permissions = [\"*\"]\ndenied_tools = [\"beta.count\"]",
        ),
        (&RULES[2], "permissions = [\"beta.*\", \"tool:echo\"]"),
        (
            &RULES[1],
            "permissions = [\"tools.read\", \"beta.count\"]\ndenied_tools = [\"alpha.c*\"]",
        ),
    ] {
        let gateway = Gateway::ready(&format!("[rbac.roles.admin]\n{broken}\n{behind}"));
        let caller = Modern::new(&gateway, "/mcp");
        let red = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check(
                rule,
                "sabotage",
                &caller,
                &everything[0].1,
                &mut Tally::default(),
            );
        }));
        assert!(red.is_err(), "{broken} was not noticed");
    }
}

/// A program with two predicates: one path asks `lists` what there is, the other asks `calls`.
struct Torn<'a> {
    lists: &'a dyn Caller,
    calls: &'a dyn Caller,
}

impl Caller for Torn<'_> {
    fn is_modern(&self) -> bool {
        self.calls.is_modern()
    }

    fn exchange(&self, method: &str, params: Value) -> Vec<String> {
        let path = match method {
            "tools/list" => self.lists,
            _ => self.calls,
        };
        path.exchange(method, params)
    }
}

/// Sabotage: what is hidden and can be called all the same, and what is listed and is not there, turn the matrix red in
/// every era.
#[test]
fn p_s02_the_matrix_notices_when_list_and_call_disagree() {
    let (alpha, beta) = (Server::start(&[]), Server::start(&[]));
    let behind = backends(&alpha, &beta);
    let rule = &RULES[2];
    let gateway = |permissions: &str| {
        Gateway::ready(&format!(
            "[rbac.roles.admin]\npermissions = {permissions}\n{behind}"
        ))
    };
    let (right, wrong) = (
        gateway(rule.permissions),
        gateway("[\"beta.*\", \"tool:echo\"]"),
    );
    let everything = tools_of(&Gateway::ready(&behind), None);
    let is_red = |caller: &dyn Caller| {
        let judged = std::panic::AssertUnwindSafe(|| {
            let mut tally = Tally::default();
            check(rule, "sabotage", caller, &everything[0].1, &mut tally);
        });
        std::panic::catch_unwind(judged).is_err()
    };
    let modern = [&right, &wrong].map(|gateway| Modern::new(gateway, "/mcp"));
    let legacy = [&right, &wrong].map(Legacy::newest);
    for [right, wrong] in [
        modern.each_ref().map(|caller| caller as &dyn Caller),
        legacy.each_ref().map(|caller| caller as &dyn Caller),
    ] {
        let torn = |lists, calls| is_red(&Torn { lists, calls });
        assert!(!torn(right, right), "one predicate");
        assert!(torn(right, wrong), "hidden, and can be called");
        assert!(torn(wrong, right), "listed, and is not there");
    }
}

#[test]
fn c_11_resources_prompts_and_completion_follow_the_same_predicate() {
    let server = Server::start(&[]);
    let seen = |permissions: &str| {
        let role = format!("[rbac.roles.admin]\npermissions = {permissions}\n");
        Gateway::ready(&(role + &http_backend("alpha", &server.address, "")))
    };
    let verdicts = |gateway: &Gateway| -> Vec<String> {
        let caller = Legacy::newest(gateway);
        let kind = |method: &str, params: Value| {
            let answer = caller.ask(method, params);
            match answer["result"].is_object() {
                true => "ok".to_owned(),
                false => kind_of(&answer).to_owned(),
            }
        };
        let reference = json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "a"}});
        let template = json!({"ref": {"type": "ref/resource", "uri": "test://items/{id}"}, "argument": {"name": "id", "value": "1"}});
        vec![
            caller
                .names("resources/list", "resources", "uri")
                .len()
                .to_string(),
            caller
                .names(
                    "resources/templates/list",
                    "resourceTemplates",
                    "uriTemplate",
                )
                .len()
                .to_string(),
            caller
                .names("prompts/list", "prompts", "name")
                .len()
                .to_string(),
            kind("resources/read", json!({"uri": "test://static"})),
            kind("resources/read", json!({"uri": "test://items/7"})),
            kind("prompts/get", json!({"name": "plain"})),
            kind("completion/complete", reference),
            kind("completion/complete", template),
        ]
    };
    let ok = "ok";
    assert_eq!(verdicts(&seen(r#"["*"]"#))[3..], [ok, ok, ok, ok, ok]);
    let forbidden = "forbidden";
    let reader = verdicts(&seen(r#"["tools.read"]"#));
    assert_ne!(reader[0], "0");
    assert_eq!(reader[3..], [forbidden; 5]);
    let (no_name, no_uri) = ("unknown_name", "unknown_resource");
    assert_eq!(
        verdicts(&seen(r#"["tool:*"]"#)),
        ["0", "0", "0", no_uri, no_uri, no_name, no_name, no_uri]
    );
    assert_eq!(
        verdicts(&seen(r#"["alpha.test://static", "alpha.plain"]"#)),
        ["1", "0", "1", ok, no_uri, ok, no_name, no_uri]
    );
    assert_eq!(
        verdicts(&seen(r#"["alpha.test://items/*"]"#)),
        ["0", "1", "0", no_uri, ok, no_name, no_name, ok]
    );
}

#[test]
fn g_41_what_is_switched_off_is_hidden_and_says_so_to_those_who_could_see_it() {
    let server = Server::start(&[]);
    let config = format!(
        "[rbac.roles.admin]\npermissions = [\"*\"]\ndenied_tools = [\"fail\"]\n\
         [kill_switch]\ndisabled_tools = [\"echo\", \"fail\"]\n{}",
        http_backend("alpha", &server.address, "")
    );
    let gateway = Gateway::ready(&config);
    for caller in [
        Box::new(Legacy::newest(&gateway)) as Box<dyn Caller>,
        Box::new(Modern::new(&gateway, "/mcp/alpha")),
    ] {
        let tools = caller.tools();
        assert!(!tools.contains(&"echo".to_owned()) && tools.contains(&"slow".to_owned()));
        let off = caller.call("echo", json!({"text": "x"}));
        assert_eq!(kind_of(&off), "disabled", "{off}");
        let code = if caller.is_modern() { -31503 } else { -32000 };
        assert_eq!(off["error"]["code"], code);
        // Denied and off: not seen, so not even that is said.
        assert_eq!(kind_of(&caller.call("fail", json!({}))), "unknown_name");
        assert_eq!(caller.said("slow", json!({"ms": 0})), "waited 0 ms");
    }
}

/// Callers and everything, by configuration; a reload takes it back.
#[test]
fn p_s06_the_configuration_switches_off_a_caller_or_everything() {
    let server = Server::start(&[]);
    let config = |switch: &str| {
        let behind = http_backend("alpha", &server.address, "");
        format!("[auth]\n[kill_switch]\n{switch}\n{behind}")
    };
    let gateway = Gateway::ready(&config("disabled_callers = [\"mallory\"]"));
    let [alice, mallory] = ["alice", "mallory"]
        .map(|sub| Modern::new(&gateway, "/mcp").bearing(&token(json!({ "sub": sub }))));
    let verdict = |caller: &Modern| {
        let answer = caller.call("echo", json!({"text": "x"}));
        let kind = match answer["result"].is_object() {
            true => "ok".to_owned(),
            false => kind_of(&answer).to_owned(),
        };
        (caller.tools().is_empty(), kind)
    };
    let (on, off) = ((false, "ok".to_owned()), (true, "disabled".to_owned()));
    assert_eq!([&alice, &mallory].map(verdict), [on.clone(), off.clone()]);
    let reload = |switch: &str| {
        gateway.setup.rewrite(&config(switch));
        let (code, _, wrong) = gateway.setup.sentinel(&["reload"]);
        assert_eq!(code, 0, "{wrong}");
    };
    reload("everything = true");
    assert_eq!([&alice, &mallory].map(verdict), [off.clone(), off]);
    reload("");
    assert_eq!([&alice, &mallory].map(verdict), [on.clone(), on]);
}

#[test]
fn p_s06_a_state_that_cannot_be_read_keeps_everything_closed() {
    let server = Server::start(&[]);
    let setup = Setup::new(&http_backend("alpha", &server.address, ""));
    std::fs::create_dir_all(setup.data()).expect("a directory");
    std::fs::write(setup.data().join("kill_switch.json"), "{\"killed\":[{").expect("written");
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    let caller = Modern::new(&gateway, "/mcp");
    assert!(caller.tools().is_empty());
    assert_eq!(
        kind_of(&caller.call("echo", json!({"text": "x"}))),
        "disabled"
    );
    assert!(gateway.setup.log().contains("everything is off"));
}

#[test]
fn g_40_a_caller_who_calls_too_often_is_told_when_to_come_back() {
    let server = Server::start(&[]);
    let config = format!(
        "[rate_limits]\ndefault_rpm = 600\nburst = 3\n[rate_limits.per_tool]\necho = 1\n{}",
        http_backend("alpha", &server.address, "")
    );
    let gateway = Gateway::ready(&config);
    let (old, new) = (
        Legacy::newest(&gateway),
        Modern::new(&gateway, "/mcp/alpha"),
    );
    // One caller, however it comes in; three at once, then one a minute.
    assert_eq!(old.said("echo", json!({"text": "1"})), "1");
    assert_eq!(new.said("echo", json!({"text": "2"})), "2");
    assert_eq!(old.said("echo", json!({"text": "3"})), "3");
    for (caller, code) in [(&old as &dyn Caller, -32000), (&new, -31429)] {
        let limited = caller.call("echo", json!({"text": "4"}));
        assert_eq!(kind_of(&limited), "rate_limited", "{limited}");
        assert_eq!(limited["error"]["code"], code);
        let after = limited["error"]["data"]["retry_after_ms"]
            .as_u64()
            .expect("a time");
        assert!((50_000..=60_000).contains(&after), "{after}");
    }
    assert_eq!(
        old.said("slow", json!({"ms": 0})),
        "waited 0 ms",
        "another tool"
    );
}

#[test]
fn c_17_arguments_that_the_schema_refuses_never_reach_the_backend() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&http_backend("alpha", &server.address, ""));
    for revision in LEGACY {
        let caller = Legacy::connect(&gateway, "/mcp", revision);
        let wrong = caller.call("count", json!({"key": 5}));
        if revision < "2025-11-25" {
            assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
            assert_eq!(kind_of(&wrong), "invalid_arguments");
        } else {
            assert_eq!(wrong["result"]["isError"], true, "{wrong}");
            assert!(text_of(&wrong).contains("/key"), "{wrong}");
        }
    }
    let caller = Modern::new(&gateway, "/mcp");
    for wrong in [json!({}), json!({"key": null}), json!({"key": ["x"]})] {
        let answer = caller.call("count", wrong);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(answer["result"]["resultType"], "complete");
    }
    assert_eq!(
        caller.said("count", json!({"key": "k"})),
        "1",
        "nothing was counted before"
    );
    assert_refused_on_record(gateway, LEGACY.len() + 3);
}

/// However a revision hears of it, on record it is a refusal of ours that no backend saw.
fn assert_refused_on_record(mut gateway: Gateway, times: usize) {
    gateway.process.signal("TERM");
    gateway.process.wait();
    let records = crate::support::records::export(&gateway.setup);
    let refused = records.iter().filter(|r| r["kind"] == "invalid_arguments");
    let refused: Vec<_> = refused.map(|r| &r["decision"]).collect();
    assert_eq!(refused, vec!["deny"; times]);
}

#[test]
fn c_17_arguments_that_cost_too_much_to_check_are_refused_and_on_record() {
    let server = Server::start(&["--maze"]);
    let gateway = Gateway::ready(&http_backend("alpha", &server.address, ""));
    let old = Legacy::connect(&gateway, "/mcp", "2025-06-18");
    let refused = old.call("maze", json!({"x": 1}));
    assert_eq!(kind_of(&refused), "invalid_arguments", "{refused}");
    let new = Modern::new(&gateway, "/mcp");
    let refused = new.call("maze", json!({"x": 1}));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(text_of(&refused).contains("cost too much"), "{refused}");
    // It is the arguments, not the tool.
    assert_eq!(new.said("maze", json!({})), "through");
    // A schema that cannot be compiled checks nothing, and the operator can see that.
    assert_eq!(
        gateway.get("/admin/api/status").json()["unchecked"],
        json!([])
    );
    assert_eq!(new.said("riddle", json!({"x": 1})), "through");
    let status = gateway.get("/admin/api/status").json();
    let unchecked = status["unchecked"].as_array().expect("a list");
    assert_eq!(unchecked.len(), 1, "{status}");
    assert_eq!(
        (&unchecked[0]["backend"], &unchecked[0]["tool"]),
        (&json!("alpha"), &json!("riddle"))
    );
    assert!(
        unchecked[0]["why"]
            .as_str()
            .is_some_and(|why| !why.is_empty())
    );
    assert_refused_on_record(gateway, 2);
}
