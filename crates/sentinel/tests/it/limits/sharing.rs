//! Many gateways, one limit (G-85), and what holds while the store of shared limits is away (C-21). Against a real Redis.
//!
//! A machine may be so busy that an answer of the store's comes too late, and a gateway decides alone. That is right, and
//! counted: whatever is exact only with the store is tried again then (`calmly`).

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::callers::{Caller as _, Modern, Steady, kind_of, text_of};
use crate::support::elicitation::{accept, first_round, forms, retry};
use crate::support::http;
use crate::support::redis::Server as Redis;
use crate::support::setup::{Gateway, Server, Setup, http_backend, until};
use crate::support::tokens::token;

/// One call a minute flows in: no test takes that long.
const LIMITS: &str = "[rate_limits]\ndefault_rpm = 1\nburst = 6\n";
const BURST: usize = 6;
const CALM_MAX: usize = 10;

fn config(server: &Server, limits: &str) -> String {
    let backend = http_backend("alpha", &server.address, "");
    format!("[auth]\n[redis]\n{limits}{backend}")
}

fn gateway(server: &Server, url: &str) -> Gateway {
    let setup = Setup::with_env(&config(server, LIMITS), &[("REDIS_URL", url)]);
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    gateway
}

fn metric(gateway: &Gateway, name: &str) -> u64 {
    let bearer = format!("Bearer {}", token(json!({})));
    let headers = [("Authorization", &*bearer)];
    let page = http::send(&gateway.address, "GET", "/metrics", &headers, "");
    let page = page.finish().text;
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|rest| rest.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {page}"))
}

fn alone(gateways: &[Gateway]) -> u64 {
    let of = |gateway| metric(gateway, "sentinel_shared_limits_alone_total ");
    gateways.iter().map(of).sum()
}

fn until_up(gateways: &[Gateway], up: u64) {
    until("the store's state is noticed", || {
        let is = |gateway| metric(gateway, "sentinel_shared_limits_up ") == up;
        gateways.iter().all(is).then_some(())
    });
}

/// Tries with another caller until the store decided every call.
#[track_caller]
fn calmly(gateways: &[Gateway], mut attempt: impl FnMut(&str)) {
    for n in 0..CALM_MAX {
        until_up(gateways, 1);
        let before = alone(gateways);
        let who = format!("caller {n}");
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| attempt(&who)));
        match tried {
            _ if alone(gateways) != before => continue,
            Ok(()) => return,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    panic!("the store was never in time for {CALM_MAX} attempts");
}

struct Caller(Steady);

impl Caller {
    fn new(gateway: &Gateway, who: &str) -> Self {
        let token = token(json!({"sub": who}));
        Self(Steady::connect(&gateway.address, Some(&token)))
    }

    fn call(&mut self, tool: &str) -> Value {
        let arguments = match tool {
            "echo" => json!({"text": "x"}),
            _ => json!({"ms": 0}),
        };
        self.0.call(tool, arguments).expect("an answer")
    }

    /// Whether it passed; whoever does not is limited.
    #[track_caller]
    fn passes(&mut self, tool: &str) -> bool {
        let answer = self.call(tool);
        match kind_of(&answer) {
            "" => true,
            "rate_limited" => false,
            other => panic!("{other}: {answer}"),
        }
    }

    /// Calls until one is refused.
    fn passed(&mut self) -> usize {
        (0..50).take_while(|_| self.passes("echo")).count()
    }
}

/// G-85: exactly the burst passes through both, one after the other and all at once.
#[test]
fn g_85_two_gateways_have_one_limit() {
    let (redis, server) = (Redis::start(), Server::start(&[]));
    let gateways = [(); 2].map(|()| gateway(&server, &redis.url()));
    calmly(&gateways, |who| {
        let began = Instant::now();
        let mut callers = [0, 1].map(|n| Caller::new(&gateways[n], who));
        for n in 0..BURST {
            assert!(callers[n % 2].passes("echo"), "call {n}");
        }
        for caller in &mut callers {
            let limited = caller.call("echo");
            assert_eq!(kind_of(&limited), "rate_limited", "{limited}");
            let told = limited["error"]["data"]["retry_after_ms"].as_u64();
            let least = 59_999u64.saturating_sub(began.elapsed().as_millis() as u64);
            assert!(
                told.is_some_and(|ms| (least..=60_000).contains(&ms)),
                "{limited}"
            );
            assert!(caller.passes("slow"), "another tool has its own");
        }
        let other = format!("{who}, another");
        assert!(Caller::new(&gateways[0], &other).passes("echo"));
    });
    calmly(&gateways, |who| {
        let who = format!("{who} at once");
        let calling: Vec<_> = (0..6)
            .map(|n| {
                let mut caller = Caller::new(&gateways[n % 2], &who);
                std::thread::spawn(move || caller.passed())
            })
            .collect();
        let passed: usize = calling
            .into_iter()
            .map(|c| c.join().expect("no panic"))
            .sum();
        assert_eq!(passed, BURST);
    });
    // What was forgotten: the script is sent again, buckets begin anew.
    calmly(&gateways, |who| {
        let mut callers = [0, 1].map(|n| Caller::new(&gateways[n], &format!("{who} forgotten")));
        assert_eq!(callers[0].passed(), BURST);
        assert_eq!(redis.ask(&["SCRIPT", "FLUSH"]), "OK");
        assert!(!callers[1].passes("echo"));
        assert_eq!(redis.ask(&["FLUSHALL"]), "OK");
        assert_eq!(callers[1].passed(), BURST);
    });
}

/// A call of three rounds takes one token of the shared bucket, not one from the gateway of each round: a burst of
/// two is one such call and one more, wherever they are made.
#[test]
fn issue_17_a_call_of_several_rounds_takes_one_token_of_the_shared_limit() {
    let redis = Redis::start();
    let servers = ["legacy", "modern"].map(|era| Server::start(&["--era", era]));
    let limits = "[rate_limits]\ndefault_rpm = 1\nburst = 2\n";
    let config = format!(
        "[auth]\n[redis]\n{limits}{}{}",
        http_backend("hl", &servers[0].address, ""),
        http_backend("hm", &servers[1].address, ""),
    );
    let gateways = [(); 2].map(|()| {
        let setup = Setup::with_env(&config, &[("REDIS_URL", &redis.url())]);
        let gateway = Gateway::start_in(setup);
        gateway.wait_ready();
        gateway
    });
    calmly(&gateways, |who| {
        for backend in ["hl", "hm"] {
            let [near, far] = [0, 1].map(|n| {
                let caller = Modern::with(&gateways[n], &format!("/mcp/{backend}"), forms());
                caller.bearing(&token(json!({"sub": who})))
            });
            let mut round = first_round(&near, "Who?");
            for _ in 0..2 {
                let mut unanswered = retry(&round, "Who?", accept("x"));
                unanswered["inputResponses"] = json!({});
                round = near.result("tools/call", unanswered);
                assert_eq!(round["resultType"], "input_required", "{backend}: {round}");
            }
            let done = near.ask("tools/call", retry(&round, "Who?", accept("Ada")));
            assert_eq!(text_of(&done), "hello Ada", "{backend}");
            first_round(&far, "Second?");
            for caller in [&far, &near] {
                let third = caller.call("ask", json!({"message": "Third?"}));
                assert_eq!(kind_of(&third), "rate_limited", "{backend}: {third}");
            }
        }
    });
}

/// G-85: a reload changes the limit and leaves what was used up; another store needs a restart, and says so.
#[test]
fn g_85_a_reload_changes_the_shared_limit() {
    let (redis, server) = (Redis::start(), Server::start(&[]));
    let gateways = [gateway(&server, &redis.url())];
    let reload = |config: &str| {
        gateways[0].setup.rewrite(config);
        let (code, _, said) = gateways[0].setup.sentinel(&["reload"]);
        assert_eq!(code, 0, "{said}");
        said
    };
    calmly(&gateways, |who| {
        reload(&config(&server, LIMITS));
        let mut caller = Caller::new(&gateways[0], who);
        assert_eq!(caller.passed(), BURST);
        reload(&config(&server, &LIMITS.replace("burst = 6", "burst = 20")));
        assert!(!caller.passes("echo"), "more room is not more in it");
        reload(&config(&server, &LIMITS.replace("rpm = 1", "rpm = 600")));
        until("more flows in", || caller.passes("echo").then_some(()));
    });
    let said = reload(&config(&server, LIMITS).replace("[redis]", ""));
    assert!(said.contains("redis"), "{said}");
}

fn count(gateway: &Gateway, words: &str) -> usize {
    gateway.setup.log().matches(words).count()
}

/// C-21: a store that hangs or dies stops nobody. Each gateway goes on with what its callers have left of it, the log says
/// so once, and the shared limit holds again when the store is back.
#[test]
fn c_21_without_the_store_each_gateway_counts_alone() {
    let (mut redis, server) = (Redis::start(), Server::start(&[]));
    let gateways = [(); 2].map(|()| gateway(&server, &redis.url()));
    let mut name = String::new();
    calmly(&gateways, |who| {
        name = who.to_owned();
        for gateway in &gateways {
            let mut caller = Caller::new(gateway, who);
            assert!(caller.passes("echo") && caller.passes("echo"));
        }
    });
    let mut callers = [0, 1].map(|n| Caller::new(&gateways[n], &name));
    let went = "cannot be used";
    let before = gateways.each_ref().map(|gateway| count(gateway, went));
    redis.hang();
    for caller in &mut callers {
        assert_eq!(caller.passed(), BURST - 2, "what this gateway has left");
        assert!((0..20).all(|_| !caller.passes("echo")));
    }
    until_up(&gateways, 0);
    for (gateway, before) in gateways.iter().zip(before) {
        until("it is in the log", || {
            (count(gateway, went) > before).then_some(())
        });
        assert_eq!(count(gateway, went), before + 1, "{}", gateway.setup.log());
        assert!(metric(gateway, "sentinel_shared_limits_alone_total ") > 20);
    }
    redis.go_on();
    until_up(&gateways, 1);
    for (gateway, before) in gateways.iter().zip(before) {
        let back = count(gateway, "answers again");
        assert!(back > before, "{}", gateway.setup.log());
    }
    redis.kill();
    until_up(&gateways, 0);
    for gateway in &gateways {
        let mut caller = Caller::new(gateway, "somebody new");
        assert_eq!(caller.passed(), BURST);
    }
    redis.restart();
    until_up(&gateways, 1);
    calmly(&gateways, |who| {
        let mut callers = [0, 1].map(|n| Caller::new(&gateways[n], &format!("{who} again")));
        assert!(callers[0].passes("echo"));
        assert_eq!(callers[1].passed(), BURST - 1);
        assert!(!callers[0].passes("echo"));
    });
}

/// C-21: a store that does not let us in is said by name, and the password nowhere.
#[test]
fn c_21_a_wrong_password_is_told_and_stops_nobody() {
    let redis = Redis::with(&["--requirepass", "right"]);
    let server = Server::start(&[]);
    let url = format!("redis://:hunter2@127.0.0.1:{}", redis.port());
    let gateways = [gateway(&server, &url)];
    until_up(&gateways, 0);
    let refused = "does not accept the user and password";
    until("it is in the log", || {
        (count(&gateways[0], refused) > 0).then_some(())
    });
    assert_eq!(Caller::new(&gateways[0], "alice").passed(), BURST);
    for (command, code) in [("check", 0), ("doctor", 1)] {
        let (ended, out, err) = gateways[0].setup.sentinel(&[command]);
        assert_eq!(ended, code, "{command}: {out}{err}");
        assert!(!format!("{out}{err}").contains("hunter2"), "{out}{err}");
        if command == "doctor" {
            assert!(out.contains("cannot be used: it does not accept"), "{out}");
        }
    }
    assert!(!gateways[0].setup.log().contains("hunter2"));
    // What cannot be a store is a mistake of the configuration.
    for env in [&[][..], &[("REDIS_URL", "http://:hunter2@host")]] {
        let setup = Setup::with_env(&config(&server, LIMITS), env);
        let (ended, out, err) = setup.sentinel(&["check"]);
        assert_eq!(ended, 2, "{out}{err}");
        assert!(
            err.contains("REDIS_URL") && !err.contains("hunter2"),
            "{err}"
        );
    }
}

/// G-85: by TLS, to a server whose certificate is trusted for its name.
#[test]
fn g_85_a_store_by_tls_is_trusted_by_its_certificate() {
    let (redis, server) = (Redis::with_tls(), Server::start(&[]));
    let url = format!("rediss://localhost:{}", redis.port());
    let certificate = redis.certificate();
    let trusted = certificate.to_str().expect("text");
    let env = [("REDIS_URL", &*url), ("SSL_CERT_FILE", trusted)];
    let setup = Setup::with_env(&config(&server, LIMITS), &env);
    let (ended, out, err) = setup.sentinel(&["doctor"]);
    assert!(out.contains("answers"), "{ended}: {out}{err}");
    // Not for that name.
    let elsewhere = url.replace("localhost", "127.0.0.1");
    let env = [("REDIS_URL", &*elsewhere), ("SSL_CERT_FILE", trusted)];
    let setup = Setup::with_env(&config(&server, LIMITS), &env);
    let (ended, out, err) = setup.sentinel(&["doctor"]);
    assert!(
        ended == 1 && out.contains("cannot be used"),
        "{ended}: {out}{err}"
    );
}
