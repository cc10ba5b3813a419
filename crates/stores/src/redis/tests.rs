//! Against a real server. How long things take is nowhere a claim: a machine may be too busy for any answer to
//! come in time, and then nobody can say (`Unavailable`), which is what the tests allow for.

use std::io::{Read, Write};
use std::net::TcpStream;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sentinel_core::ItemKind;
use sentinel_core::policy::{RateConfig, Rates};
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::server::Server;
use super::*;

const SCRIPT: &str = include_str!("bucket.lua");
const PATIENCE: Duration = Duration::from_secs(20);

fn tool(name: &str) -> Operation {
    Operation::unlisted(Some(ItemKind::Tool), 0, &"alpha".into(), name)
}

fn allow(rpm: u32, burst: u32) -> Allowance {
    Allowance { rpm, burst }
}

fn handle(url: &str) -> Redis {
    Redis::new(url, &Handle::current()).expect("a good URL")
}

/// Whether a call passes; `None` if the server did not answer in time.
fn verdict(decision: Decision) -> Option<Result<(), Limited>> {
    match decision {
        Decision::Allowed => Some(Ok(())),
        Decision::Limited(limited) => Some(Err(limited)),
        Decision::Unavailable => None,
    }
}

/// Asks until somebody can say. A call that nobody decided in time may have been counted all the same: this is for
/// answers that do not depend on that.
async fn take(redis: &Redis, who: &str, name: &str, allowance: Allowance) -> Result<(), Limited> {
    let asking = async {
        loop {
            if let Some(said) = verdict(redis.take(who, &tool(name), allowance).await) {
                return said;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, asking).await.expect("an answer")
}

/// One call of this caller that passes; the name of the tool that it went to. Where nobody could say in time, it is
/// another tool's turn, of which none was counted.
async fn first(redis: &Redis, who: &str, name: &str) -> String {
    let asking = async {
        let mut name = name.to_owned();
        loop {
            if let Some(said) = verdict(redis.take(who, &tool(&name), allow(1, 1)).await) {
                said.expect("the first of this tool");
                return name;
            }
            sleep(Duration::from_millis(10)).await;
            name.push('+');
        }
    };
    timeout(PATIENCE, asking).await.expect("an answer")
}

/// Whether a call passes after something was done to the server, which is done again as long as nobody can say.
async fn after(redis: &Redis, who: &str, name: &str, scene: impl Fn()) -> Result<(), Limited> {
    let asking = async {
        loop {
            scene();
            if let Some(said) = verdict(redis.take(who, &tool(name), allow(1, 1)).await) {
                return said;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, asking).await.expect("an answer")
}

async fn until_up(redis: &Redis, is_up: bool) {
    let looking = async {
        while redis.figures().is_up != is_up {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("noticed");
}

/// Speaks to the server without any of our machinery in between.
struct Plain(TcpStream);

impl Plain {
    fn ask(&mut self, parts: &[&str]) -> Reply {
        let mut out = Vec::new();
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        resp::command(&mut out, &parts);
        self.0.write_all(&out).expect("sent");
        let mut came = Vec::new();
        loop {
            if let Some((reply, _)) = resp::parse(&came).expect("an answer") {
                return reply;
            }
            let mut some = [0; 512];
            let n = self.0.read(&mut some).expect("more");
            came.extend_from_slice(&some[..n]);
        }
    }
}

/// Calls that come so many microseconds after one another, the limits changing in between.
fn calls() -> impl Strategy<Value = Vec<(u64, u32, u32)>> {
    let pause = prop_oneof![
        Just(0),
        0..2_000u64,
        0..100_000_000u64,
        Just(86_400_000_000)
    ];
    let rpm = prop_oneof![1..10u32, 1..100_000u32, Just(u32::MAX)];
    // The same limits for a while, and then others.
    let phase = (rpm, 1..6u32, prop::collection::vec(pause, 1..25));
    prop::collection::vec(phase, 1..4).prop_map(|phases| {
        let calls = phases.into_iter().flat_map(|(rpm, burst, pauses)| {
            let call = move |pause| (pause, rpm, burst);
            pauses.into_iter().map(call)
        });
        calls.collect()
    })
}

/// G-85, P-R07: the script decides as the gateway's own bucket does, to the millisecond it tells, whatever the times
/// and however limits change. Only its clock is ours here, so nothing may be forgotten by the server's.
#[test]
fn g_85_the_script_is_as_exact_as_our_own_bucket() {
    let server = Server::start();
    let clocked = SCRIPT.replace("redis.call('TIME')", "{ ARGV[3], ARGV[4] }");
    assert_ne!(clocked, SCRIPT);
    let script = clocked.replace(", 'PX', string.format('%.0f', full)", "");
    assert_ne!(script, clocked);
    let mut plain = Plain(TcpStream::connect(("127.0.0.1", server.port())).expect("it listens"));
    let plain = std::cell::RefCell::new(&mut plain);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(96));
    let ran = runner.run(&calls(), |calls| {
        let mut plain = plain.borrow_mut();
        plain.ask(&["FLUSHALL"]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let config = |rpm, burst| RateConfig {
                default_rpm: rpm,
                burst,
                ..RateConfig::default()
            };
            let ours = Rates::new(RateConfig::default());
            let mut now_us = 1_790_000_000_000_000u64;
            for (pause_us, rpm, burst) in calls {
                tokio::time::advance(Duration::from_micros(pause_us)).await;
                now_us += pause_us;
                ours.reconfigure(config(rpm, burst));
                let here = ours.take(&"alice".into(), &tool("echo"));
                let time = [now_us / 1_000_000, now_us % 1_000_000].map(|n| n.to_string());
                let (rpm, burst) = (rpm.to_string(), burst.to_string());
                let asked = ["EVAL", &script, "1", "b", &rpm, &burst, &time[0], &time[1]];
                let there = verdict(decision(&plain.ask(&asked))).expect("it runs");
                prop_assert_eq!(there, here);
            }
            Ok(())
        })
    });
    ran.expect("the same");
}

/// What is kept of a bucket goes when that would be full.
#[test]
fn a_bucket_is_forgotten_when_it_would_be_full() {
    let server = Server::start();
    let mut plain = Plain(TcpStream::connect(("127.0.0.1", server.port())).expect("it listens"));
    for (taken, full_ms) in [(1, 60_000), (2, 120_000)] {
        let asked = ["EVAL", SCRIPT, "1", "b", "1", "10"];
        assert_eq!(plain.ask(&asked), Reply::Number(0));
        let Reply::Number(left) = plain.ask(&["PTTL", "b"]) else {
            panic!("a number")
        };
        assert!((0..=full_ms + 1).contains(&left), "{left} of {taken}");
        assert!(left > full_ms / 2, "{left} of {taken}");
    }
}

/// The largest bucket there is, emptied a little and refilled to the unit.
#[test]
fn the_largest_bucket_is_exact() {
    let server = Server::start();
    let script = SCRIPT.replace("redis.call('TIME')", "{ ARGV[3], ARGV[4] }");
    let mut plain = Plain(TcpStream::connect(("127.0.0.1", server.port())).expect("it listens"));
    let burst = BURST_MAX.to_string();
    let mut take = |rpm: &str, second: &str, micro: &str| {
        let asked = ["EVAL", &script, "1", "b", rpm, &burst, second, micro];
        assert_eq!(plain.ask(&asked), Reply::Number(0));
        let Reply::Text(kept) = plain.ask(&["GET", "b"]) else {
            panic!("a text")
        };
        kept
    };
    let full = u64::from(BURST_MAX) * 60_000_000;
    assert!(full < 1 << 53);
    for (rpm, second, micro, left) in [
        ("1", "1790000000", "0", full - 60_000_000),
        // One unit flowed in, and a token went out.
        ("1", "1790000000", "1", full - 120_000_000 + 1),
        // A clock that was put back brings nothing.
        ("1", "1700000000", "0", full - 180_000_000 + 1),
        ("4294967295", "1700000000", "7", full - 240_000_000 + 8),
        // More flowed in than any number holds exactly: it is full.
        ("4294967295", "1790000000", "0", full - 60_000_000),
    ] {
        let kept = take(rpm, second, micro);
        assert_eq!(kept.split(' ').next(), Some(&*left.to_string()), "{kept}");
    }
}

/// G-85: two gateways, one limit, all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g_85_exactly_the_burst_passes_through_all_handles_together() {
    let server = Server::start();
    let handles = [handle(&server.url()), handle(&server.url())].map(Arc::new);
    let calls: Vec<_> = (0..80)
        .map(|n| {
            let redis = handles[n % 2].clone();
            tokio::spawn(async move { redis.take("alice", &tool("echo"), allow(1, 20)).await })
        })
        .collect();
    let (mut passed, mut limited, mut unknown) = (0, 0, 0);
    for call in calls {
        match call.await.expect("no panic") {
            Decision::Allowed => passed += 1,
            Decision::Limited(Limited { retry_after_ms }) => {
                assert!((1..=60_000).contains(&retry_after_ms), "{retry_after_ms}");
                limited += 1;
            }
            Decision::Unavailable => unknown += 1,
        }
    }
    assert!(passed <= 20, "{passed}");
    assert!(unknown > 0 || passed == 20, "{passed} and {limited}");
    // Others have their own.
    first(&handles[0], "bob", "echo").await;
    first(&handles[0], "alice", "other").await;
    let keys = server.ask(&["KEYS", "*"]);
    for key in keys.lines().filter(|key| *key != "sentinel:rate:probe") {
        let hash = key.strip_prefix(PREFIX).expect(key);
        assert!(
            hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
            "{key}"
        );
        assert_ne!(server.ask(&["PTTL", key]), "-1", "{key} stays for ever");
    }
}

#[tokio::test]
async fn whoever_waits_as_long_as_it_was_told_passes() {
    let server = Server::start();
    let redis = handle(&server.url());
    let mut passed = 0;
    while passed < 5 {
        let limited = loop {
            if let Err(limited) = take(&redis, "alice", "echo", allow(600, 1)).await {
                break limited;
            }
        };
        assert!((1..=100).contains(&limited.retry_after_ms), "{limited:?}");
        sleep(Duration::from_millis(limited.retry_after_ms)).await;
        if let Some(said) = verdict(redis.take("alice", &tool("echo"), allow(600, 1)).await) {
            said.expect("told the time");
            passed += 1;
        }
    }
}

#[test]
fn parts_of_a_key_do_not_run_together() {
    let keys = [
        key("ab", "c", "d"),
        key("a", "bc", "d"),
        key("a", "b", "cd"),
    ];
    assert!(keys[0] != keys[1] && keys[1] != keys[2]);
    assert_eq!(keys[0], key("ab", "c", "d"));
}

/// G-85: what a server forgets costs nobody an error.
#[tokio::test]
async fn a_server_that_forgets_goes_on() {
    let server = Server::start();
    let redis = handle(&server.url());
    let used = first(&redis, "alice", "echo").await;
    take(&redis, "alice", &used, allow(1, 1))
        .await
        .expect_err("one too many");
    assert_eq!(server.ask(&["SCRIPT", "FLUSH"]), "OK");
    take(&redis, "alice", &used, allow(1, 1))
        .await
        .expect_err("the bucket is there");
    // The script is there again.
    first(&redis, "bob", "echo").await;
    let forgets = || assert_eq!(server.ask(&["FLUSHALL"]), "OK");
    after(&redis, "alice", &used, forgets)
        .await
        .expect("the bucket is gone");
    // Something else under our key is no bucket.
    let odd = || drop(server.ask(&["SET", &key("carol", "alpha", "echo"), "nonsense"]));
    after(&redis, "carol", "echo", odd)
        .await
        .expect("as if it were not there");
}

/// C-21: it hangs, it dies, it comes back.
#[tokio::test]
async fn c_21_a_server_that_is_away_is_asked_again_when_it_is_back() {
    let mut server = Server::start();
    let redis = handle(&server.url());
    let used = first(&redis, "alice", "echo").await;
    server.hang();
    let said = timeout(PATIENCE, redis.take("alice", &tool(&used), allow(1, 1))).await;
    assert_eq!(said, Ok(Decision::Unavailable));
    until_up(&redis, false).await;
    let before = redis.figures();
    for _ in 0..100 {
        let said = redis.take("alice", &tool(&used), allow(1, 1)).await;
        assert_eq!(said, Decision::Unavailable);
    }
    assert_eq!(redis.figures().alone, before.alone + 100);
    assert_eq!(redis.figures().decided, before.decided);
    server.go_on();
    until_up(&redis, true).await;
    take(&redis, "alice", &used, allow(1, 1))
        .await
        .expect_err("it was used up");
    // Once, unless nobody can say in time whether it kept anything.
    let kept = loop {
        server.kill();
        until_up(&redis, false).await;
        assert_eq!(
            redis.take("alice", &tool(&used), allow(1, 1)).await,
            Decision::Unavailable
        );
        server.restart();
        until_up(&redis, true).await;
        if let Some(said) = verdict(redis.take("alice", &tool(&used), allow(1, 1)).await) {
            break said;
        }
    };
    kept.expect("it kept nothing");
}

/// C-21: a server that does not let us in, or may not be written to, or is something else.
#[tokio::test]
async fn c_21_troubles_are_told_by_name_and_without_the_password() {
    let trouble = async |url: String| {
        let (place, found) = Redis::probe(&url).await.expect("a good URL");
        let said = found.expect_err(&url).to_string();
        assert!(
            !said.contains("hunter2") && !place.contains("hunter2"),
            "{said}"
        );
        said
    };
    let locked = Server::with(&["--requirepass", "right"]);
    let at = |login: &str| format!("redis://{login}127.0.0.1:{}", locked.port());
    let said = trouble(at(":hunter2@")).await;
    assert!(
        said.contains("does not accept") && said.contains("WRONGPASS"),
        "{said}"
    );
    let said = trouble(at("nobody:hunter2@")).await;
    assert!(said.contains("WRONGPASS"), "{said}");
    let said = trouble(at("")).await;
    assert!(said.contains("NOAUTH"), "{said}");
    // It repeats what it does not know.
    let odd = Server::with(&[
        "--rename-command",
        "AUTH",
        "",
        "--rename-command",
        "SCRIPT",
        "",
    ]);
    let said = trouble(format!("redis://:hunter2@127.0.0.1:{}", odd.port())).await;
    assert!(said.contains("does not accept"), "{said}");
    let said = trouble(odd.url()).await;
    assert_eq!(said, "it says: ERR unknown command 'SCRIPT'");
    let full = Server::with(&["--maxmemory", "1"]);
    let said = trouble(full.url()).await;
    assert!(said.contains("OOM"), "{said}");
    let said = trouble(format!("{}/9999", full.url())).await;
    assert!(said.contains("out of range"), "{said}");
}

#[tokio::test]
async fn users_and_databases_of_the_url_are_meant() {
    let server = Server::with(&["--requirepass", "p@ss:/"]);
    let url = format!("redis://default:p%40ss%3a%2f@127.0.0.1:{}/3", server.port());
    let redis = handle(&url);
    first(&redis, "alice", "echo").await;
    let spaces = server.ask(&["-a", "p@ss:/", "INFO", "keyspace"]);
    assert!(
        spaces.contains("db3:") && !spaces.contains("db0:"),
        "{spaces}"
    );
}

#[tokio::test]
async fn something_else_at_that_address_is_told_apart() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let (_, found) = Redis::probe(&url).await.expect("a good URL");
    assert!(matches!(found, Err(Trouble::NoRedis)), "{found:?}");
}
