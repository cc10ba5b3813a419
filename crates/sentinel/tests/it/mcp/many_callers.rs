//! P-S05, P-R08, decision 18: many callers are asked at once, some take their time, some never come back, some go
//! away in the middle. Every answer reaches its own call, and nothing is left behind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, kind_of, request, text_of, tool};
use crate::support::http::parse;
use crate::support::setup::{
    Gateway, PATIENCE, Server, http_backend, measured, stdio_backend, until,
};

/// Callers that are asked at the same time, a quarter in each pairing of eras. Parked are those of a
/// modern caller with a legacy backend: fewer than one caller may have.
const CROWD: usize = 200;
/// Parked calls that one caller may have.
const PARKED_PER_CALLER_MAX: usize = 64;
/// Calls that are dropped, and how long a backend may take to hear of it.
const DROPPED: usize = 1_000;
const HEARD_WITHIN: Duration = Duration::from_millis(500);
/// Calls are dropped within this time after they were sent.
const DROP_WITHIN_MS: u64 = 40;
const DROPPERS: usize = 8;

fn forms() -> Value {
    json!({"elicitation": {"form": {}}})
}

fn accept(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

/// One server of each era over HTTP, and a gateway before them.
fn two(more: &str) -> (Gateway, [Server; 2]) {
    let legacy = Server::start(&["--era", "legacy"]);
    let modern = Server::start(&["--era", "modern"]);
    let config = [
        http_backend("hl", &legacy.address, more),
        http_backend("hm", &modern.address, more),
    ];
    (Gateway::ready(&config.concat()), [legacy, modern])
}

/// Waits until everybody was asked, then answers; says what the call was answered with.
fn asked_legacy(gateway: &Gateway, path: &str, n: usize, everybody: &Barrier) -> String {
    let caller = Legacy::with(gateway, path, "2025-11-25", forms());
    let ask = tool("ask", json!({"message": format!("who is {n}?")}));
    let mut stream = caller.send(&request(&json!(n), "tools/call", ask)).head();
    let question = stream.json();
    everybody.wait();
    let shown = question["params"]["message"].as_str().unwrap_or_default();
    assert!(
        shown.ends_with(&format!("] who is {n}?")),
        "{n}: {question}"
    );
    let answer =
        json!({"jsonrpc": "2.0", "id": question["id"], "result": accept(&format!("n{n}"))});
    assert_eq!(caller.post(&answer.to_string()).status, 202);
    let done = stream.json();
    assert_eq!(done["id"], json!(n), "{done}");
    text_of(&done)
}

fn asked_modern(gateway: &Gateway, path: &str, n: usize, everybody: &Barrier) -> String {
    let caller = Modern::with(gateway, path, forms());
    let message = format!("who is {n}?");
    let round = caller.ask("tools/call", tool("ask", json!({"message": message})));
    everybody.wait();
    let question = question(&round["result"]);
    assert!(question.ends_with(&format!("] {message}")), "{n}: {round}");
    let retry = retry(&round["result"], &message, &accept(&format!("n{n}")));
    text_of(&caller.ask("tools/call", retry))
}

fn question(round: &Value) -> String {
    let requests = round["inputRequests"].as_object();
    let one = requests.and_then(|all| all.values().next());
    let shown = one.and_then(|one| one["params"]["message"].as_str());
    shown.unwrap_or_default().to_owned()
}

fn retry(round: &Value, message: &str, answer: &Value) -> Value {
    let requests = round["inputRequests"].as_object();
    let key = requests.and_then(|all| all.keys().next());
    let key = key.unwrap_or_else(|| panic!("no question in {round}"));
    json!({
        "name": "ask", "arguments": {"message": message},
        "inputResponses": {key: answer}, "requestState": round["requestState"],
    })
}

#[test]
fn p_s05_two_hundred_callers_are_asked_at_once_and_no_answer_crosses() {
    let (gateway, _servers) = two("");
    let everybody = Barrier::new(CROWD);
    let start = Instant::now();
    thread::scope(|scope| {
        for n in 0..CROWD {
            let (gateway, everybody) = (&gateway, &everybody);
            scope.spawn(move || {
                let path = if n / 2 % 2 == 0 { "/mcp/hl" } else { "/mcp/hm" };
                let said = if n % 2 == 0 {
                    asked_legacy(gateway, path, n, everybody)
                } else {
                    asked_modern(gateway, path, n, everybody)
                };
                assert_eq!(said, format!("hello n{n}"));
            });
        }
    });
    eprintln!("G-24: {CROWD} answers in {:?}", start.elapsed());
}

/// How many cancellations of running calls a backend heard.
fn heard(caller: &impl Caller) -> usize {
    let said = parse(&caller.said("cancelled", json!({})));
    said["ids"].as_array().expect("a list").len()
}

#[test]
fn decision_18_a_parked_call_waits_for_a_caller_that_thinks_longer_than_the_backends_time_out() {
    // SENTINEL_LONG=1 is the long form.
    let long = std::env::var_os("SENTINEL_LONG").is_some();
    let think = Duration::from_secs(if long { 30 } else { 5 });
    let server = Server::start(&["--era", "legacy"]);
    let config = [
        http_backend("hl", &server.address, "timeout = 3"),
        stdio_backend(
            "sl",
            &["--era", "legacy"],
            "isolation = \"caller\"\ntimeout = 3",
        ),
    ];
    let gateway = Gateway::ready(&config.concat());
    let callers = ["/mcp/hl", "/mcp/sl"].map(|path| Modern::with(&gateway, path, forms()));
    // A caller's first call starts its child, which is part of that call's time.
    for caller in &callers {
        until("it has its child", || {
            let answer = caller.call("echo", json!({"text": "x"}));
            answer["result"].is_object().then_some(())
        });
    }
    let ask = || tool("ask", json!({"message": "?"}));
    let rounds = callers
        .each_ref()
        .map(|caller| caller.result("tools/call", ask()));
    thread::sleep(think);
    for (caller, round) in callers.iter().zip(&rounds) {
        let done = caller.ask("tools/call", retry(round, "?", &accept("Ada")));
        assert_eq!(text_of(&done), "hello Ada", "after {think:?}");
        assert_eq!(heard(caller), 0, "nobody cancelled it");
    }
}

/// Resident memory of a process.
fn resident_kb(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("a process")
        .count()
}

/// How long a question waits there.
const THINKING: Duration = Duration::from_secs(3);

/// A gateway before a legacy backend whose questions do not wait for long.
fn impatient(backend: String) -> Gateway {
    let seconds = THINKING.as_secs();
    Gateway::ready(&format!("[limits]\npark_ttl = {seconds}\n{backend}"))
}

#[test]
fn p_r08_calls_whose_caller_never_returns_are_cancelled_and_leave_nothing() {
    let server = Server::start(&["--era", "legacy"]);
    let gateway = impatient(http_backend("hl", &server.address, ""));
    let caller = Modern::with(&gateway, "/mcp", forms());
    // Large enough that a round which stays behind shows in the memory of the process.
    let message = "?".repeat(100_000);
    let ask = || caller.ask("tools/call", tool("ask", json!({"message": message})));
    let mut memory = Vec::new();
    for round in 1..=4 {
        let began = Instant::now();
        // Every round finds all places free again, and no more than those.
        let parked: Vec<Value> = thread::scope(|scope| {
            let asking: Vec<_> = (0..PARKED_PER_CALLER_MAX)
                .map(|_| scope.spawn(ask))
                .collect();
            let answer =
                |call: thread::ScopedJoinHandle<'_, Value>| call.join().expect("an answer");
            asking.into_iter().map(answer).collect()
        });
        for answer in &parked {
            assert_eq!(
                answer["result"]["resultType"], "input_required",
                "round {round}"
            );
        }
        let refused = ask();
        // On a machine so busy that the first of them was given up meanwhile there is a place again.
        assert!(
            refused["error"].is_object() || began.elapsed() >= THINKING,
            "one too many in round {round}"
        );
        let want = round * (PARKED_PER_CALLER_MAX + 1);
        until("the backend hears of each", || {
            (heard(&caller) == want).then_some(())
        });
        let late = retry(&parked[0]["result"], &message, &accept("late"));
        let gone = caller.ask("tools/call", late);
        assert_eq!(gone["error"]["code"], -32602, "{gone}");
        assert_eq!(kind_of(&gone), "bad_state");
        memory.push(resident_kb(gateway.process.pid()));
    }
    eprintln!("G-24: resident after each round {memory:?} kB");
    // The first rounds warm buffers; what stayed of the later ones would be more than 12 MB. What is free is given back
    // to the system after a while, and while calls go on.
    until("what the rounds took is given back", || {
        assert_eq!(caller.said("echo", json!({"text": "on"})), "on");
        (resident_kb(gateway.process.pid()) < memory[1] + 6_000).then_some(())
    });
}

#[test]
fn p_r08_a_child_is_free_again_when_the_caller_it_asked_never_returns() {
    let gateway = impatient(stdio_backend(
        "sl",
        &["--era", "legacy"],
        "isolation = \"caller\"",
    ));
    let caller = Modern::with(&gateway, "/mcp", forms());
    for round in 1..=2 {
        let asked = caller.result("tools/call", tool("ask", json!({"message": "?"})));
        assert_eq!(asked["resultType"], "input_required");
        // A child that may ask serves one call after the other: until this one is given up, the next is told so.
        until("the child is free", || {
            let next = caller.call("echo", json!({"text": "x"}));
            (kind_of(&next) != "backend_busy").then_some(())
        });
        assert_eq!(heard(&caller), round, "cancelled at the backend");
        let gone = caller.ask("tools/call", retry(&asked, "?", &accept("late")));
        assert_eq!(kind_of(&gone), "bad_state", "{gone}");
    }
}

/// Numbers that look random and can be had again from the seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn seed() -> u64 {
    let told = std::env::var("SENTINEL_SEED").ok();
    told.and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |now| now.subsec_nanos().into())
    })
}

/// Begins a call at a barrier of its own and drops it a moment later; how long the backend had it
/// after that.
fn drop_one(backend: &str, gateway: &Gateway, n: usize, dice: &mut Dice) -> Duration {
    let path = format!("/mcp/{backend}");
    let watcher = Modern::new(gateway, &path);
    let name = format!("drop-{n}");
    let barrier = tool("barrier", json!({"name": name}));
    let moment = Duration::from_millis(dice.below(DROP_WITHIN_MS));
    let dropped = if dice.below(2) == 0 {
        let caller = Legacy::connect(gateway, &path, "2025-11-25");
        let call = caller.send(&request(&json!(n), "tools/call", barrier));
        // On a connection of its own the cancellation may overtake the call, and is nobody's then.
        let waits = || watcher.said("waiting", json!({"name": name})) == "1";
        until("it has begun", || waits().then_some(()));
        thread::sleep(moment);
        let dropped = Instant::now();
        caller.cancel(&json!(n));
        // Without this the caller would only be gone, which does not cancel.
        call.hang_up();
        dropped
    } else {
        let call = watcher.send("tools/call", barrier);
        thread::sleep(moment);
        let dropped = Instant::now();
        call.hang_up();
        dropped
    };
    loop {
        let looked = dropped.elapsed();
        if watcher.said("waiting", json!({"name": name})) == "0" {
            return looked;
        }
        assert!(looked < PATIENCE, "call {n} to {backend} still waits");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn p_r08_a_thousand_calls_dropped_at_random_moments_are_all_heard_of_and_nothing_stays() {
    let legacy = Server::start(&["--era", "legacy"]);
    let modern = Server::start(&["--era", "modern"]);
    let config = [
        http_backend("hl", &legacy.address, ""),
        http_backend("hm", &modern.address, ""),
        stdio_backend("sl", &["--era", "legacy"], ""),
        stdio_backend("sm", &["--era", "modern"], ""),
    ];
    let gateway = Gateway::ready(&config.concat());
    let backends = ["hl", "hm", "sl", "sm"];
    let seed = seed();
    eprintln!("P-R08: SENTINEL_SEED={seed}");
    let descriptors_before = descriptors(gateway.process.pid());
    let late = Mutex::new(Vec::new());
    let slowest = AtomicU64::new(0);
    thread::scope(|scope| {
        for worker in 0..DROPPERS {
            let (gateway, slowest, late) = (&gateway, &slowest, &late);
            scope.spawn(move || {
                let mut dice = Dice((seed ^ (worker as u64 + 1).wrapping_mul(0x9E37_79B9)) | 1);
                for n in (worker..DROPPED).step_by(DROPPERS) {
                    let backend = backends[n / DROPPERS % 4];
                    let took = drop_one(backend, gateway, n, &mut dice);
                    slowest.fetch_max(took.as_millis() as u64, Ordering::Relaxed);
                    if took >= HEARD_WITHIN {
                        late.lock().expect("no panic").push((n, backend));
                    }
                }
            });
        }
    });
    let slowest = Duration::from_millis(slowest.into_inner());
    // Eight at once on a busy machine: what was late is looked at again, alone.
    let late = late.into_inner().expect("no panic");
    assert!(
        late.len() <= DROPPED / 20,
        "late: {late:?} with seed {seed}"
    );
    for (n, backend) in &late {
        let (mut again, mut dice) = (DROPPED + n, Dice(seed | 1));
        let alone = || {
            again += DROPPED;
            drop_one(backend, &gateway, again, &mut dice)
        };
        measured(alone, |took| *took < HEARD_WITHIN);
    }
    let mut known = 0;
    for (b, backend) in backends.iter().enumerate() {
        let watcher = Modern::new(&gateway, &format!("/mcp/{backend}"));
        known += heard(&watcher);
        // Also those that were dropped before they had arrived.
        for n in (0..DROPPED).filter(|n| n / DROPPERS % 4 == b) {
            let name = format!("drop-{n}");
            assert_eq!(
                watcher.said("waiting", json!({"name": name})),
                "0",
                "{backend} {n}"
            );
        }
    }
    eprintln!(
        "P-R08: {known} of {DROPPED} had begun; the slowest was heard of after {slowest:?}, {} measured again",
        late.len()
    );
    assert!(known > DROPPED / 2, "most were under way: {known}");
    // Idle connections to the two servers stay until their thread needs one again: as many as calls
    // at once, on each side of a call. A descriptor for each dropped call would be far more.
    let idle_max = 4 * DROPPERS;
    until("connections are given back", || {
        let now = descriptors(gateway.process.pid());
        (now <= descriptors_before + idle_max).then_some(())
    });
}
