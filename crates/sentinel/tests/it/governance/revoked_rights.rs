//! P-S07: what was begun while it was allowed goes no further once it is not: a call that waits for its caller, and news
//! of what somebody follows.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, kind_of, text_of};
use crate::support::elicitation::{accept, first_round, forms, retry};
use crate::support::http::{Stream, parse};
use crate::support::setup::{Gateway, PATIENCE, Server, http_backend};
use crate::support::tokens::token;

const FOLLOWED: [&str; 2] = ["test://static", "test://binary"];
const DEVELOPER: &str =
    "[rbac.roles.developer]\npermissions = [\"tools.read\", \"tools.execute\"]\n";
const READER: &str = "[rbac.roles.developer]\npermissions = [\"tools.read\"]\n";

fn developer(claims: Value) -> String {
    let mut all = json!({"sub": "dev", "role": "developer"});
    for (name, value) in claims.as_object().expect("an object") {
        all[name] = value.clone();
    }
    token(all)
}

fn config(server: &Server, roles: &str) -> String {
    let backend = http_backend("alpha", &server.address, "");
    format!("[auth]\njwt_secret_env = \"JWT_SECRET_KEY\"\n{roles}{backend}")
}

#[track_caller]
fn reload(gateway: &Gateway, config: &str) {
    gateway.setup.rewrite(config);
    run(gateway, &["reload"]);
}

#[track_caller]
fn run(gateway: &Gateway, command: &[&str]) {
    let (code, _, wrong) = gateway.setup.sentinel(command);
    assert_eq!(code, 0, "{command:?}: {wrong}");
}

#[test]
fn p_s07_a_call_that_waits_is_taken_up_only_by_who_may_make_it() {
    let server = Server::start(&["--era", "legacy"]);
    let all = config(&server, DEVELOPER);
    let gateway = Gateway::ready(&all);
    let bearing = |token: &str| Modern::with(&gateway, "/mcp", forms()).bearing(token);
    let caller = bearing(&developer(json!({})));
    let taken_up =
        |round: &Value, by: &Modern| by.ask("tools/call", retry(round, "Who?", accept("Ada")));
    let denied = format!("{DEVELOPER}denied_tools = [\"ask\"]\n");
    for roles in [denied.as_str(), READER, ""] {
        let round = first_round(&caller, "Who?");
        reload(&gateway, &config(&server, roles));
        let refused = taken_up(&round, &caller);
        let kind = match roles {
            READER => "forbidden",
            _ => "unknown_name",
        };
        assert_eq!(kind_of(&refused), kind, "{roles}: {refused}");
        reload(&gateway, &all);
        // It did not wait on for better times.
        let gone = taken_up(&round, &caller);
        assert_eq!(kind_of(&gone), "bad_state", "{roles}: {gone}");
    }
    for scope in ["tools.read", "alpha.echo"] {
        let round = first_round(&caller, "Who?");
        let narrow = bearing(&developer(json!({"scope": scope})));
        let refused = taken_up(&round, &narrow);
        assert!(refused["error"].is_object(), "{scope}: {refused}");
    }
    let round = first_round(&caller, "Who?");
    assert_eq!(text_of(&taken_up(&round, &caller)), "hello Ada");
}

/// The streams on which callers of both eras hear of resources.
fn followers(gateway: &Gateway, token: &str) -> [Stream; 2] {
    let legacy = Legacy::bearing(gateway, token);
    let own = legacy.verb("GET").head();
    for uri in FOLLOWED {
        legacy.result("resources/subscribe", json!({ "uri": uri }));
    }
    let wanted = json!({"notifications": {"resourceSubscriptions": FOLLOWED}});
    let modern = Modern::new(gateway, "/mcp").bearing(token);
    let mut listening = modern.send("subscriptions/listen", wanted).head();
    let honoured = &listening.json()["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*honoured, json!(FOLLOWED));
    [own, listening]
}

/// The resource that is said to have changed next.
#[track_caller]
fn news(stream: &mut Stream) -> String {
    loop {
        let said = parse(&stream.message_within(PATIENCE).expect("news"));
        if said["method"] == "notifications/resources/updated" {
            return said["params"]["uri"].as_str().expect("a URI").to_owned();
        }
    }
}

#[test]
fn p_s07_news_of_a_resource_end_with_the_right_to_it() {
    let denied = format!("{DEVELOPER}denied_tools = [\"alpha.test://static\"]\n");
    for era in ["legacy", "modern"] {
        let server = Server::start(&["--era", era]);
        let all = config(&server, DEVELOPER);
        let gateway = Gateway::ready(&all);
        let admin = token(json!({"sub": "root"}));
        let touch = |uri: &str| {
            let answer = Modern::new(&gateway, "/mcp").bearing(&admin);
            answer.said("touch", json!({ "uri": uri }));
        };
        let mut watched = followers(&gateway, &admin);
        let mut streams = followers(&gateway, &developer(json!({})));
        let reloaded = |roles: &str| reload(&gateway, &config(&server, roles));
        let kill = |scope: &str, name: &str| run(&gateway, &["kill", scope, name]);
        let revive = |scope: &str, name: &str| run(&gateway, &["revive", scope, name]);
        type Step<'s> = (&'s str, &'s dyn Fn(), &'s dyn Fn());
        let steps: [Step<'_>; 4] = [
            ("denied", &|| reloaded(&denied), &|| reloaded(DEVELOPER)),
            ("a reader", &|| reloaded(READER), &|| reloaded(DEVELOPER)),
            (
                "the resource is off",
                &|| kill("tool", "alpha.test://static"),
                &|| revive("tool", "alpha.test://static"),
            ),
            ("the caller is off", &|| kill("caller", "dev"), &|| {
                revive("caller", "dev")
            }),
        ];
        for (what, take, give_back) in steps {
            take();
            touch(FOLLOWED[0]);
            if what != "the resource is off" {
                watched
                    .iter_mut()
                    .for_each(|s| assert_eq!(news(s), FOLLOWED[0]));
            }
            give_back();
            touch(FOLLOWED[1]);
            for stream in &mut streams {
                assert_eq!(news(stream), FOLLOWED[1], "{era}: {what}");
            }
            watched
                .iter_mut()
                .for_each(|s| assert_eq!(news(s), FOLLOWED[1]));
        }
        touch(FOLLOWED[0]);
        streams
            .iter_mut()
            .for_each(|s| assert_eq!(news(s), FOLLOWED[0]));
    }
}

#[test]
fn issue_17_5_the_streams_of_a_role_that_a_reload_removes_end() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&config(&server, DEVELOPER));
    let admin = token(json!({"sub": "root"}));
    let mut kept = followers(&gateway, &admin);
    let mut removed = followers(&gateway, &developer(json!({})));
    reload(&gateway, &config(&server, ""));
    let reloaded = Instant::now();
    for stream in &mut removed {
        while stream.message_within(PATIENCE).is_some() {}
    }
    assert!(reloaded.elapsed() < PATIENCE, "they ended");
    let touched = Modern::new(&gateway, "/mcp").bearing(&admin);
    touched.said("touch", json!({ "uri": FOLLOWED[0] }));
    kept.iter_mut()
        .for_each(|s| assert_eq!(news(s), FOLLOWED[0]));
}
