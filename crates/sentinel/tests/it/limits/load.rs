//! What callers get while there is far too much to do (P-R04, P-R06, P-R07), in short form: the load is
//! bounded by count and time, latencies are judged as ratios within one run, on the median of windows
//! (decision 42).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::callers::{Steady, kind_of, text_of};
use crate::support::http;
use crate::support::processes::resident_kib;
use crate::support::records::export;
use crate::support::setup::{Gateway, Server, Setup, http_backend, measured};
use crate::support::tokens::{JSON_BODY, token};

/// How long the tool takes; far more than the gateway does, also on a busy machine.
const WORK_MS: u64 = 400;
const PLACES: u32 = 8;
/// Callers of the noisy kind; each calls this often while it is refused, so that together they offer more
/// than 20 times the capacity of `PLACES` / `WORK_MS`, which is 20 calls a second.
const CALLERS: u32 = 80;
/// What P-R04 and P-R06 call overload.
const OVERLOAD: f64 = 20.0;
const PAUSE: Duration = Duration::from_millis(150);
const WINDOWS: usize = 5;
const SECOND: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_millis(1200);

fn config(backend: &Server, more: &str) -> String {
    format!(
        "[admission]\nmax_concurrent = {PLACES}\nqueue_size = 4\nqueue_timeout = 5.0\n\
         [rate_limits]\ndefault_rpm = 0\n{more}{}",
        http_backend("alpha", &backend.address, "")
    )
}

/// When a call began, how long it took, and what came.
type Seen = (Instant, Duration, Value);

/// Calls again and again, at the given pace, until told to stop.
fn keep_calling(
    address: &str,
    credential: Option<&str>,
    pause: Duration,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<Vec<Seen>> {
    let mut caller = Steady::connect(address, credential);
    let stop = stop.clone();
    std::thread::spawn(move || {
        let mut seen = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            let answer = caller.call("slow", json!({ "ms": WORK_MS }));
            seen.push((began, began.elapsed(), answer.expect("a connection stays")));
            std::thread::sleep(pause.saturating_sub(began.elapsed()));
        }
        seen
    })
}

/// Everybody of the noisy kind, one after the other: the first so that places become free one after the
/// other too, as they do where work takes now more and now less time, the others so that calls are spread
/// over the time and do not come eighty at once.
fn crowd(
    address: &str,
    credential: Option<&str>,
    stop: &Arc<AtomicBool>,
) -> Vec<JoinHandle<Vec<Seen>>> {
    (0..CALLERS)
        .map(|n| {
            std::thread::sleep(if n < PLACES {
                Duration::from_millis(WORK_MS / u64::from(PLACES))
            } else {
                PAUSE / CALLERS
            });
            keep_calling(address, credential, PAUSE, stop)
        })
        .collect()
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times
        .get(times.len() * 99 / 100)
        .or(times.last())
        .copied()
        .unwrap_or_default()
}

/// The median over the windows of what `of` says of the calls that began in each.
fn median(seen: &[Seen], began: Instant, of: impl Fn(&[&Seen]) -> Duration) -> Duration {
    let mut figures: Vec<Duration> = (0..WINDOWS)
        .map(|n| {
            let from = began + WINDOW * n as u32;
            let window: Vec<&Seen> = seen
                .iter()
                .filter(|(at, ..)| *at >= from && *at < from + WINDOW)
                .collect();
            of(&window)
        })
        .collect();
    figures.sort();
    figures[WINDOWS / 2]
}

fn times(window: &[&Seen], which: impl Fn(&Value) -> bool) -> Duration {
    let chosen = window.iter().filter(|(.., answer)| which(answer));
    p99(chosen.map(|(_, took, _)| *took).collect())
}

fn worked(answer: &Value) -> bool {
    answer["result"].is_object()
}

/// Asks for `/health` on one connection, a hundred times a second, until told to stop.
fn keep_probing(address: &str, stop: &Arc<AtomicBool>) -> JoinHandle<Vec<Seen>> {
    let mut socket = TcpStream::connect(address).expect("the gateway listens");
    socket.set_nodelay(true).expect("an option");
    let stop = stop.clone();
    std::thread::spawn(move || {
        let mut seen = Vec::new();
        let mut answer = [0; 4096];
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            let asked = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
            socket.write_all(asked).expect("a connection stays");
            let len = socket.read(&mut answer).expect("an answer");
            assert!(answer[..len].starts_with(b"HTTP/1.1 200"));
            seen.push((began, began.elapsed(), Value::Null));
            std::thread::sleep(Duration::from_millis(10));
        }
        seen
    })
}

/// How long refusals for overload took in the gateway, as their records say: p99 and p99.9.
fn refused_inside(setup: &Setup) -> (Duration, Duration) {
    let records = export(setup);
    let refused = records.iter().filter(|r| r["outcome"] == "overloaded");
    let mut took: Vec<u64> = refused.filter_map(|r| r["latency_us"].as_u64()).collect();
    took.sort_unstable();
    let at = |per_mille: usize| Duration::from_micros(took[(took.len() - 1) * per_mille / 1000]);
    (at(990), at(999))
}

/// What callers saw of an overload.
#[derive(Debug)]
struct Shed {
    /// p99 of admitted calls, in what one takes when nobody else calls.
    ratio: f64,
    /// Refusals inside the gateway, p99 and p99.9, and at callers beside what a probe takes that does nothing.
    inside: (Duration, Duration),
    refusals: Duration,
    floor: Duration,
    goodput: f64,
    offered: f64,
}

impl Shed {
    /// From the request's last byte to its answer, and as callers see it: on two cores everybody waits for eighty
    /// callers, too.
    fn is_quick(&self) -> bool {
        let quick = Duration::from_millis(5);
        self.inside.0 < quick
            && self.inside.1 < Duration::from_millis(20)
            && self.refusals < quick + self.floor
    }
}

#[test]
fn p_r04_overload_sheds_and_does_not_sag() {
    measured(overloaded, |shed| {
        shed.is_quick() && shed.ratio <= 2.0 && shed.offered >= OVERLOAD && shed.goodput >= 0.95
    });
}

fn overloaded() -> Shed {
    let server = Server::start(&[]);
    let short = config(&server, "").replace("queue_size = 4", "queue_size = 2");
    let gateway = Gateway::ready(&short);
    let mut alone = Steady::connect(&gateway.address, None);
    let unloaded = p99((0..6)
        .map(|_| {
            let began = Instant::now();
            let answer = alone
                .call("slow", json!({ "ms": WORK_MS }))
                .expect("an answer");
            assert_eq!(text_of(&answer), format!("waited {WORK_MS} ms"));
            began.elapsed()
        })
        .collect());
    let before = resident_kib(gateway.process.pid());
    let stop = Arc::new(AtomicBool::new(false));
    let callers = crowd(&gateway.address, None, &stop);
    let probe = keep_probing(&gateway.address, &stop);
    let began = Instant::now();
    std::thread::sleep(WINDOW * WINDOWS as u32);
    let ended = Instant::now();
    let after = resident_kib(gateway.process.pid());
    stop.store(true, Ordering::Relaxed);
    let mut seen = Vec::new();
    for caller in callers {
        seen.extend(caller.join().expect("no panic"));
    }
    let probes = probe.join().expect("no panic");
    let mut process = gateway.process;
    process.signal("TERM");
    process.wait();
    let inside = refused_inside(&gateway.setup);

    let refused = seen.iter().filter(|(.., answer)| !worked(answer));
    for (.., answer) in refused.clone() {
        assert_eq!(kind_of(answer), "overloaded", "{answer}");
        let data = answer["error"]["data"].as_object().expect("data");
        assert_eq!(data.len(), 8, "{answer}");
        assert_eq!(data["reason"], "queue_full", "{answer}");
    }
    let refused = refused.count();
    // What ended meanwhile, by the time that all places were taken.
    let in_time = |(at, took, _): &&Seen| (began..ended).contains(&(*at + *took));
    let all = seen.iter().filter(in_time);
    let good = all.clone().filter(|(.., answer)| worked(answer)).count();
    let admitted = median(&seen, began, |window| times(window, worked));
    let refusals = median(&seen, began, |window| times(window, |a| !worked(a)));
    let floor = median(&probes, began, |window| times(window, |_| true));
    let ratio = admitted.as_secs_f64() / unloaded.as_secs_f64();
    let capacity = f64::from(PLACES) * 1000.0 / WORK_MS as f64;
    let took = (ended - began).as_secs_f64();
    let goodput = good as f64 / took / capacity;
    let offered = all.count() as f64 / took / capacity;
    eprintln!(
        "P-R04: {offered:.1}x the capacity of {capacity:.0} calls a second: admitted p99 {ratio:.2}x of unloaded; {refused} \
         refused with p99 {:?} and p99.9 {:?} in the gateway, p99 {refusals:?} at callers where /health takes \
         {floor:?}; goodput {:.0} %, resident +{} KiB",
        inside.0,
        inside.1,
        goodput * 100.0,
        after.saturating_sub(before)
    );
    assert!(after < before + 64 * 1024, "{before} -> {after} KiB");
    Shed {
        ratio,
        inside,
        refusals,
        floor,
        goodput,
        offered,
    }
}

/// The admin API takes no place among calls: a kill is in force as quickly as ever.
#[test]
fn p_s06_a_kill_at_twenty_times_the_load_is_in_force_within_100_ms() {
    measured(killed_under_load, |(took, ended)| {
        *took < Duration::from_millis(100) && *ended < SECOND
    });
}

/// How long a kill took, the median of some, and until the last call in flight had ended.
fn killed_under_load() -> (Duration, Duration) {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&config(&server, ""));
    let stop = Arc::new(AtomicBool::new(false));
    let callers = crowd(&gateway.address, None, &stop);
    let switch = |verb: &str| {
        let began = Instant::now();
        let body = r#"{"scope":"tool","name":"slow","reason":"test"}"#;
        let path = format!("/admin/api/{verb}");
        let answer = http::send(&gateway.address, "POST", &path, &[JSON_BODY], body).finish();
        assert_eq!(answer.status, 200, "{answer:?}");
        (began, Instant::now())
    };
    let mut killed = Vec::new();
    for _ in 0..WINDOWS {
        std::thread::sleep(Duration::from_millis(500));
        let (asked, done) = switch("kill");
        std::thread::sleep(Duration::from_millis(500));
        killed.push((asked, done, switch("revive").0));
    }
    stop.store(true, Ordering::Relaxed);
    let mut seen = Vec::new();
    for caller in callers {
        seen.extend(caller.join().expect("no panic"));
    }
    let (mut ended, mut refused) = (Duration::ZERO, 0);
    for (asked, done, revived) in &killed {
        for (began, took, answer) in &seen {
            let end = *began + *took;
            if *began > *done && end < *revived {
                assert_eq!(kind_of(answer), "disabled", "{answer}");
                refused += 1;
            } else if *began < *asked && end > *done && kind_of(answer) == "disabled" {
                ended = ended.max(end - *done);
            }
            // What began before and worked had ended by then.
            assert!(!(worked(answer) && end > *done + SECOND && *began < *asked));
        }
    }
    let mut took: Vec<Duration> = killed
        .iter()
        .map(|(asked, done, _)| *done - *asked)
        .collect();
    took.sort();
    eprintln!(
        "P-S06: a kill at 20x the load is in force after {:?} (median of {WINDOWS}, at most {:?}); {refused} calls after it \
         refused, none dispatched; calls in flight ended within {ended:?}",
        took[WINDOWS / 2],
        took[WINDOWS - 1]
    );
    assert!(refused > 200, "{refused}");
    (took[WINDOWS / 2], ended)
}

#[test]
fn p_r06_a_quiet_caller_does_not_notice_a_noisy_one() {
    measured(quiet_beside_noisy, |(ratio, calls, refused)| {
        *ratio <= 2.0 && *calls >= 10 && *refused > 300
    });
}

/// The quiet caller's p99 beside the noisy one, in what it is without; how many calls that is of, and how many of the
/// noisy one were refused meanwhile.
fn quiet_beside_noisy() -> (f64, usize, usize) {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&config(&server, "[auth]\n"));
    let (noisy, quiet) = (
        token(json!({"sub": "noisy"})),
        token(json!({"sub": "quiet"})),
    );
    // A tenth of the capacity.
    let pace = Duration::from_millis(500);
    let calm = Arc::new(AtomicBool::new(false));
    let alone = keep_calling(&gateway.address, Some(&quiet), pace, &calm);
    std::thread::sleep(Duration::from_secs(3));
    calm.store(true, Ordering::Relaxed);
    let unloaded = p99(alone
        .join()
        .expect("no panic")
        .iter()
        .map(|s| s.1)
        .collect());

    let stop = Arc::new(AtomicBool::new(false));
    let burst = crowd(&gateway.address, Some(&noisy), &stop);
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    let calm: Vec<_> = (0..2)
        .map(|_| keep_calling(&gateway.address, Some(&quiet), pace * 2, &stop))
        .collect();
    std::thread::sleep(WINDOW * WINDOWS as u32);
    stop.store(true, Ordering::Relaxed);
    let (mut seen, mut refused) = (Vec::new(), 0);
    for caller in calm {
        seen.extend(caller.join().expect("no panic"));
    }
    for caller in burst {
        let of_noisy = caller.join().expect("no panic");
        refused += of_noisy.iter().filter(|(.., a)| !worked(a)).count();
    }
    let failed: Vec<&Value> = seen
        .iter()
        .map(|(.., a)| a)
        .filter(|a| !worked(a))
        .collect();
    let loaded = median(&seen, began, |window| times(window, worked));
    let ratio = loaded.as_secs_f64() / unloaded.as_secs_f64();
    eprintln!(
        "P-R06: the quiet caller made {} calls beside {refused} refusals of the noisy one: {} failed, p99 {ratio:.2}x",
        seen.len(),
        failed.len()
    );
    assert!(failed.is_empty(), "{failed:?}");
    (ratio, seen.len(), refused)
}

#[test]
fn p_r07_rate_limits_are_exact_however_many_call_at_once() {
    measured(passed_and_limited, |(passed, limited, least)| {
        f64::from(*passed) >= 0.99 * least - 1.0 && limited > passed
    });
}

/// How many calls passed, how many were refused, and how many were free to pass, had callers been quick enough. More than
/// the limit pass never.
fn passed_and_limited() -> (u32, u32, f64) {
    let server = Server::start(&[]);
    let config = format!(
        "[rate_limits]\ndefault_rpm = 1200\nburst = 30\n{}",
        http_backend("alpha", &server.address, "")
    );
    let gateway = Gateway::ready(&config);
    let stop = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    // The bucket begins with the first call.
    let first = Steady::connect(&gateway.address, None).call("echo", json!({"text": "x"}));
    assert_eq!(text_of(&first.expect("an answer")), "x");
    let filled = Instant::now();
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (stop, mut caller) = (stop.clone(), Steady::connect(&gateway.address, None));
            std::thread::spawn(move || {
                let (mut passed, mut limited) = (0u32, 0u32);
                while !stop.load(Ordering::Relaxed) {
                    let answer = caller
                        .call("echo", json!({"text": "x"}))
                        .expect("an answer");
                    match kind_of(&answer) {
                        "" => passed += 1,
                        "rate_limited" => limited += 1,
                        other => panic!("{other}: {answer}"),
                    }
                }
                (passed, limited)
            })
        })
        .collect();
    std::thread::sleep(Duration::from_secs(4));
    let least = filled.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let (mut passed, mut limited) = (1, 0);
    for caller in callers {
        let (p, l) = caller.join().expect("no panic");
        (passed, limited) = (passed + p, limited + l);
    }
    let most = began.elapsed().as_secs_f64();
    let allowed = |time: f64| 30.0 + 20.0 * time;
    eprintln!(
        "P-R07: {passed} calls passed and {limited} were refused in {most:.2} s; allowed {:.1}",
        allowed(most)
    );
    assert!(
        f64::from(passed) <= allowed(most),
        "{passed} of {}",
        allowed(most)
    );
    (passed, limited, allowed(least))
}
