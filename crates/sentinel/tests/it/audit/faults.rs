//! P-A01 to P-A04, G-42, G-79: whatever breaks, callers do not notice and records arrive once.
//!
//! SENTINEL_OUTAGE_S says how long the store is away; a few seconds unless told (`make faults`: 30).

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sentinel_stores::rusqlite::Connection;
use serde_json::Value;

use crate::support::postgres::Cluster;
use crate::support::processes;
use crate::support::records::{
    call, export, post, try_session, verify, with_backend, with_postgres,
};
use crate::support::setup::{
    Gateway, Process, Server, Setup, http_backend, measured, signal, until, within,
};

const CALLERS: usize = 4;
/// Between two calls of one caller where the load is paced: about 300 a second in all, as P-A01 says.
const PACE: Duration = Duration::from_millis(13);
/// A whole outage, as long as it must be got over.
const STOPPED: Duration = Duration::from_secs(30);
/// Kills in a row, unless SENTINEL_KILLS says another number.
const KILLS: usize = 20;
/// Under load before each kill.
const BEFORE_KILL: Duration = Duration::from_millis(200);
/// What the scheduler of a busy machine may add to a p99 of a few milliseconds.
const SLACK: Duration = Duration::from_millis(2);

/// A call that was answered.
struct Answered {
    id: String,
    at: Instant,
    took: Duration,
}

/// Calls from several threads until told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<Vec<Answered>>>,
    count: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
}

impl Load {
    /// `tools` are called in turn; ids begin with `round`.
    fn start(address: &str, round: usize, tools: &'static [&'static str], pace: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let failed = Arc::new(AtomicU64::new(0));
        let count = Arc::new(AtomicU64::new(0));
        let threads = (0..CALLERS).map(|caller| {
            let (address, stop, failed) = (address.to_owned(), stop.clone(), failed.clone());
            let count = count.clone();
            thread::spawn(move || {
                let mut answered = Vec::new();
                let Some(session) = try_session(&address, &format!("hello-{round}-{caller}"))
                else {
                    failed.fetch_add(1, Ordering::Relaxed);
                    return answered;
                };
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let id = format!("{round}-{caller}-{n}");
                    let at = Instant::now();
                    let tool = tools[n % tools.len()];
                    match post(&address, Some(&session), &call(&id, tool)) {
                        Some(answer) if answer.body["result"].is_object() => {
                            let took = at.elapsed();
                            answered.push(Answered { id, at, took });
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                    }
                    thread::sleep(pace.saturating_sub(at.elapsed()));
                }
                answered
            })
        });
        Self {
            threads: threads.collect(),
            stop,
            count,
            failed,
        }
    }

    /// Waits until so many more calls were answered.
    #[track_caller]
    fn goes_on(&self, calls: u64) {
        let wanted = self.count.load(Ordering::Relaxed) + calls;
        until("calls are answered", || {
            (self.count.load(Ordering::Relaxed) >= wanted).then_some(())
        });
    }

    fn finish(self) -> (Vec<Answered>, u64) {
        self.stop.store(true, Ordering::Relaxed);
        let all = self.threads.into_iter();
        let answered = all.flat_map(|t| t.join().expect("a thread")).collect();
        (answered, self.failed.load(Ordering::Relaxed))
    }
}

/// The records of each call: everything but intents.
fn by_id(records: &[Value]) -> HashMap<&str, Vec<&Value>> {
    let mut found: HashMap<&str, Vec<&Value>> = HashMap::new();
    for record in records {
        if let Some(id) = record["request_id"].as_str()
            && record["outcome"] != "intent"
        {
            found.entry(id).or_default().push(record);
        }
    }
    found
}

#[track_caller]
fn assert_recorded_once(answered: &[Answered], records: &[Value]) {
    let found = by_id(records);
    for Answered { id, .. } in answered {
        let of = found.get(id.as_str()).map_or(0, Vec::len);
        assert_eq!(of, 1, "records of {id}, one of {} answered", answered.len());
    }
}

fn metric(gateway: &Gateway, name: &str) -> u64 {
    let page = gateway.get("/metrics").text;
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|rest| rest.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {page}"))
}

/// Waits until the store has everything.
fn ingested(gateway: &Gateway) -> Duration {
    let began = Instant::now();
    within(
        Duration::from_secs(60),
        "the backlog is in the store",
        || (metric(gateway, "sentinel_audit_backlog ") == 0).then_some(()),
    );
    began.elapsed()
}

/// The p99 of the calls that began within each of these times, and the median of those.
fn p99(answered: &[Answered], windows: &[(Instant, Instant)]) -> Duration {
    let of = |(from, to): &(Instant, Instant)| {
        let calls = answered.iter().filter(|a| a.at >= *from && a.at < *to);
        let mut took: Vec<Duration> = calls.map(|a| a.took).collect();
        took.sort_unstable();
        assert!(took.len() >= 10, "there was load: {}", took.len());
        took[(took.len() - 1) * 99 / 100]
    };
    let mut all: Vec<Duration> = windows.iter().map(of).collect();
    all.sort_unstable();
    all[all.len() / 2]
}

fn outage() -> Duration {
    let said = std::env::var("SENTINEL_OUTAGE_S").ok();
    let seconds = said.map_or(4, |text| text.parse().expect("seconds"));
    Duration::from_secs(seconds)
}

/// Lets some time pass, and says from when to when.
fn window(of: Duration) -> (Instant, Instant) {
    let from = Instant::now();
    thread::sleep(of);
    (from, Instant::now())
}

/// A gateway with one backend that keeps its records in a PostgreSQL of its own.
#[test]
fn p_a01_p_a02_a_postgres_that_hangs_or_is_gone_is_noticed_by_nobody() {
    let (mut cluster, _server, gateway) = with_postgres("");
    let away = outage();
    let everybody = |cluster: &Cluster, word: &str| {
        let mut pids = processes::below(cluster.pid());
        pids.insert(cluster.pid());
        pids.into_iter().for_each(|pid| signal(pid, word));
    };
    let mut round = 0;
    let outages = || {
        let load = Load::start(&gateway.address, round, &["echo"], PACE);
        round += 1;
        thread::sleep(Duration::from_millis(300));
        // Windows interleave, so that a slow moment of the machine is everybody's. Hung: every process of the
        // server is stopped, its connections stay open. Gone: connections are refused.
        let (mut up, mut hung, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..5 {
            up.push(window(away / 5));
            everybody(&cluster, "STOP");
            hung.push(window(away / 5));
            everybody(&cluster, "CONT");
            cluster.stop();
            gone.push(window(away / 5));
            cluster.resume();
        }
        let (answered, failed) = load.finish();
        assert_eq!(failed, 0, "calls that failed");
        let took = ingested(&gateway);
        assert_recorded_once(&answered, &export(&gateway.setup));
        let verdict = verify(&gateway.setup);
        assert_eq!(verdict["ok"], true, "{verdict}");
        let [up, hung, gone] = [&up, &hung, &gone].map(|windows| p99(&answered, windows));
        (answered.len(), [up, hung, gone], took)
    };
    let unnoticed = |up: Duration, away: Duration| away <= up.mul_f64(1.5) + SLACK;
    let (calls, [up, hung, gone], took) = measured(outages, |(_, [up, hung, gone], _)| {
        unnoticed(*up, *hung) && unnoticed(*up, *gone)
    });
    eprintln!(
        "P-A01: PostgreSQL hung for {away:?} and gone for {away:?}: {calls} calls, 0 failed, each recorded once; \
         p99 {up:?} up, {hung:?} hung ({:.2}x), {gone:?} gone ({:.2}x); all records in the store {took:?} after the end",
        hung.as_secs_f64() / up.as_secs_f64(),
        gone.as_secs_f64() / up.as_secs_f64(),
    );
}

/// The same in one piece; what it does to latencies is judged above, by windows that interleave.
#[test]
fn p_a01_a_postgres_that_is_stopped_for_30_s_under_load_costs_no_call_and_no_record() {
    let (mut cluster, _server, gateway) = with_postgres("");
    let load = Load::start(&gateway.address, 0, &["echo"], PACE);
    let up = window(Duration::from_secs(2));
    cluster.stop();
    let gone = window(STOPPED);
    cluster.resume();
    let (answered, failed) = load.finish();
    assert_eq!(failed, 0, "calls that failed");
    let took = ingested(&gateway);
    let records = export(&gateway.setup);
    assert_recorded_once(&answered, &records);
    let calls = records.iter().filter(|r| r["method"] == "tools/call");
    assert_eq!(
        calls.count(),
        answered.len(),
        "and nothing else is on record"
    );
    let verdict = verify(&gateway.setup);
    assert_eq!(verdict["ok"], true, "{verdict}");
    eprintln!(
        "P-A01: PostgreSQL stopped for {STOPPED:?}: {} calls, 0 failed, each recorded once; p99 {:?} before, {:?} meanwhile; \
         all records in the store {took:?} after the end",
        answered.len(),
        p99(&answered, &[up]),
        p99(&answered, &[gone]),
    );
}

#[test]
fn p_a02_a_locked_sqlite_is_noticed_by_nobody() {
    let (_server, gateway) = with_backend("", "");
    let load = Load::start(&gateway.address, 0, &["echo"], PACE);
    until("a record is in the store", || {
        (metric(&gateway, "sentinel_audit_ingested_total ") > 0).then_some(())
    });
    let other = Connection::open(gateway.setup.data().join("sentinel.db")).expect("a database");
    other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    // What was written just before the lock may be counted after it.
    let waits = |records: u64| {
        until("records wait for the store", || {
            (metric(&gateway, "sentinel_audit_backlog ") > records).then_some(())
        });
        metric(&gateway, "sentinel_audit_ingested_total ")
    };
    assert_eq!(waits(200), waits(500));
    other.execute_batch("ROLLBACK").expect("no lock");
    let (answered, failed) = load.finish();
    assert_eq!(failed, 0);
    assert!(answered.len() > 100, "there was load: {}", answered.len());
    ingested(&gateway);
    assert_recorded_once(&answered, &export(&gateway.setup));
}

#[test]
fn p_a03_after_kill_9_every_answered_call_has_its_record_and_every_intent_its_end() {
    let server = Server::start(&[]);
    let mut setup = Setup::new(&format!(
        "{}{}",
        http_backend("alpha", &server.address, ""),
        http_backend(
            "beta",
            &server.address,
            "guarantee = \"sync\"\nprefix = \"always\""
        )
    ));
    let mut answered = Vec::new();
    let said = std::env::var("SENTINEL_KILLS").ok();
    let kills = said.map_or(KILLS, |text| text.parse().expect("a number"));
    for round in 0..kills {
        let gateway = Gateway::start_in(setup);
        gateway.wait_ready();
        let tools = &["echo", "beta__echo"];
        let load = Load::start(&gateway.address, round, tools, Duration::ZERO);
        thread::sleep(BEFORE_KILL);
        gateway.process.signal("KILL");
        let (these, _) = load.finish();
        answered.extend(these);
        let Gateway {
            mut process,
            setup: same,
            ..
        } = gateway;
        process.wait();
        setup = same;
    }
    assert!(
        answered.len() > 10 * kills,
        "there was load: {}",
        answered.len()
    );
    let records = export(&setup);
    assert_recorded_once(&answered, &records);
    // Of `sync` calls: each intent has exactly one end, if only that nobody knows it.
    let place = |r: &Value, seq: &str| (r["request_id"].to_string(), r[seq].as_u64());
    let mut ends: HashMap<_, usize> = HashMap::new();
    for record in records.iter().filter(|r| r["intent"] != 0) {
        *ends.entry(place(record, "intent")).or_default() += 1;
    }
    let intents: Vec<&Value> = records
        .iter()
        .filter(|r| r["outcome"] == "intent")
        .collect();
    for intent in &intents {
        assert_eq!(ends.get(&place(intent, "seq")), Some(&1), "{intent}");
    }
    let unknown = records.iter().filter(|r| r["outcome"] == "unknown").count();
    let verdict = verify(&setup);
    assert_eq!(verdict["ok"], true, "{verdict}");
    eprintln!(
        "P-A03: {kills} kills -9 under load: {} answered calls, each with its record; {} intents, {unknown} of them ended unknown",
        answered.len(),
        intents.len()
    );
    assert!(intents.len() > kills);
}

#[test]
fn p_a04_a_full_disk_fails_no_call_and_what_is_lost_is_announced_exactly() {
    let server = Server::start(&[]);
    let gateway = Gateway::ready(&format!(
        "[audit]\nspool_max_mb = 1\n{}{}",
        http_backend("alpha", &server.address, ""),
        http_backend(
            "beta",
            &server.address,
            "guarantee = \"sync\"\nprefix = \"always\""
        )
    ));
    let lanes = fs::read_dir(gateway.setup.data().join("spool")).expect("a spool");
    let lanes: Vec<_> = lanes.flatten().map(|lane| lane.path()).collect();
    // The next segment finds no room, in whichever lane.
    for lane in &lanes {
        symlink("/dev/full", lane.join("00000002.seg")).expect("a link");
    }
    let session = try_session(&gateway.address, "i1").expect("a session");
    let say = |id: String, tool: &str| {
        post(&gateway.address, Some(&session), &call(&id, tool))
            .expect("an answer")
            .body
    };
    let mut n = 0;
    let mut one = || {
        n += 1;
        let answer = say(format!("c{n}"), "echo");
        assert!(answer["result"].is_object(), "{answer}");
    };
    let dropped = || metric(&gateway, "sentinel_audit_dropped_total ");
    let began = Instant::now();
    while dropped() == 0 {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the segment never filled"
        );
        (0..50).for_each(|_| one());
    }
    (0..20).for_each(|_| one());
    // Where the intent must be on disk first, the call is refused as soon as its lane is full.
    let refused = (0..1000)
        .map(|m| say(format!("s{m}"), "beta__echo"))
        .find(|answer| !answer["result"].is_object());
    let kind = refused
        .as_ref()
        .map(|refused| &refused["error"]["data"]["kind"]);
    assert_eq!(kind, Some(&Value::from("audit_unavailable")), "{refused:?}");
    for lane in &lanes {
        fs::remove_file(lane.join("00000002.seg")).expect("a link");
    }
    let lost = dropped();
    assert!(lost >= 20);
    (0..20).for_each(|_| one());
    assert!(say("again".to_owned(), "beta__echo")["result"].is_object());
    assert_eq!(dropped(), lost, "there is room again");
    let setup = gateway.end();
    let records = export(&setup);
    let kept = records.iter().filter(|r| r["operation"] == "echo").count() as u64;
    // Besides calls of `echo` the refused call lost its intent and its record, and each lane each second an
    // anchor.
    let anchors = (kept + lost).checked_sub(2 + n);
    let anchors = anchors.unwrap_or_else(|| panic!("{kept} {lost} {n}"));
    let anchors_max = (1 + began.elapsed().as_secs()) * lanes.len() as u64;
    assert!(anchors <= anchors_max, "{anchors}");
    let verdict = verify(&setup);
    assert_eq!(
        (&verdict["ok"], verdict["announced_missing"].as_u64()),
        (&Value::Bool(true), Some(lost))
    );
    let gaps = records.iter().filter(|r| r["method"] == "audit/gap");
    let announced: Vec<u64> = gaps.filter_map(|r| r["args"]["count"].as_u64()).collect();
    assert!(
        announced.len() <= lanes.len(),
        "one run, one gap: {announced:?}"
    );
    assert_eq!(announced.iter().sum::<u64>(), lost);
}

/// P-A04, decision 25: while the store is away and the quota is used up, `sync` calls are refused; what was
/// executed before stays on record, however many are refused, and the loss of refusals is announced.
#[test]
fn p_a04_at_a_full_quota_refusals_push_out_nothing_that_was_executed() {
    let audit = "[audit]\nspool_max_mb = 1\nguarantee = \"sync\"";
    let (_server, gateway) = with_backend(audit, "");
    until("a record is in the store", || {
        (metric(&gateway, "sentinel_audit_ingested_total ") > 0).then_some(())
    });
    let other = Connection::open(gateway.setup.data().join("sentinel.db")).expect("a database");
    other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let session = try_session(&gateway.address, "hello").expect("a session");
    let say = |id: &str| {
        let answer = post(&gateway.address, Some(&session), &call(id, "echo"));
        let body = answer.expect("an answer").body;
        let kind = &body["error"]["data"]["kind"];
        assert!(
            body["result"].is_object() || kind == "audit_unavailable",
            "{body}"
        );
        body["result"].is_object()
    };
    let executed = (0..10_000).take_while(|n| say(&format!("e{n}"))).count();
    assert!((100..10_000).contains(&executed), "{executed}");
    let refused: usize = thread::scope(|scope| {
        let callers = (0..CALLERS).map(|caller| {
            scope.spawn(move || {
                let all = (0..1000).filter(|n| !say(&format!("r{caller}-{n}")));
                all.count()
            })
        });
        let callers: Vec<_> = callers.collect();
        callers
            .into_iter()
            .map(|c| c.join().expect("a thread"))
            .sum()
    });
    assert_eq!(refused, CALLERS * 1000, "none is let in meanwhile");
    let lost = metric(&gateway, "sentinel_audit_dropped_total ");
    assert!(lost > 0, "there were more refusals than room");
    other.execute_batch("ROLLBACK").expect("no lock");
    ingested(&gateway);
    until("there is room again", || say("again").then_some(()));
    let setup = gateway.end();
    let records = export(&setup);
    let found = by_id(&records);
    for n in 0..executed {
        let id = format!("e{n}");
        let of = found.get(id.as_str()).map_or(0, Vec::len);
        assert_eq!(of, 1, "{id}, one of {executed} executed");
    }
    let verdict = verify(&setup);
    eprintln!(
        "P-A04: at a full quota {executed} executed calls are on record after {refused} refused ones, {lost} records \
         of refusals lost and announced"
    );
    assert_eq!(verdict["ok"], true, "{verdict}");
    assert_eq!(verdict["announced_missing"], lost, "{verdict}");
}

/// A gateway whose data directory is a small file system of its own, in a mount namespace of its own; gone
/// with it.
struct Cramped {
    gateway: Gateway,
    /// The data directory as it is seen from here.
    data: PathBuf,
}

impl Cramped {
    fn start(setup: Setup, mib: u32) -> Self {
        let data = setup.data();
        fs::create_dir_all(&data).expect("a folder");
        let mount = format!("mount -t tmpfs -o size={mib}m,mode=700 tmpfs \"$0\" && exec \"$@\"");
        let place = data.to_str().expect("text");
        let started = setup
            .command_under(&["unshare", "-rm", "sh", "-c", &mount, place], "serve")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(setup.log_file())
            .spawn();
        let process = Process(started.expect("unshare starts"));
        let root = PathBuf::from(format!("/proc/{}/root", process.pid()));
        let data = root.join(data.strip_prefix("/").expect("a whole path"));
        let file = data.join(format!("run/{}.json", process.pid()));
        let address = until("it says where it listens", || {
            let said: Value = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
            said["listen"].as_str().map(str::to_owned)
        });
        let gateway = Gateway {
            process,
            address,
            setup,
        };
        gateway.wait_ready();
        Self { gateway, data }
    }

    /// Leaves no room at all.
    fn fill(&self) -> PathBuf {
        let path = self.data.join("ballast");
        let mut file = fs::File::create(&path).expect("a file");
        for size in [64 * 1024, 4096, 1] {
            let bytes = vec![0; size];
            while file.write_all(&bytes).is_ok() {}
        }
        path
    }

    /// `sentinel audit` where the data directory is: SQLite finds the way there from nowhere else.
    fn audit(&self, args: &[&str]) -> Vec<u8> {
        let target = self.gateway.process.pid().to_string();
        let enter = [
            "nsenter",
            "--user",
            "--mount",
            "--preserve-credentials",
            "--target",
            &target,
        ];
        let mut command = self.gateway.setup.command_under(&enter, "audit");
        let output = command.args(args).output().expect("nsenter starts");
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }
}

/// No room for the spool, nor for the store behind it: calls go on, `sync` refuses, and everything is as it
/// was when there is room again. What was lost meanwhile is known to the record.
#[test]
fn p_a04_a_disk_that_is_really_full_fails_no_call_and_is_got_over_without_a_restart() {
    let server = Server::start(&[]);
    let setup = Setup::new(&format!(
        "{}{}",
        http_backend("alpha", &server.address, ""),
        http_backend(
            "beta",
            &server.address,
            "guarantee = \"sync\"\nprefix = \"always\""
        )
    ));
    let cramped = Cramped::start(setup, 8);
    let gateway = &cramped.gateway;
    let dropped = || metric(gateway, "sentinel_audit_dropped_total ");
    let session = try_session(&gateway.address, "hello").expect("a session");
    let say = |id: &str| {
        let began = Instant::now();
        let answer = post(&gateway.address, Some(&session), &call(id, "beta__echo"));
        (answer.expect("an answer").body, began.elapsed())
    };
    let load = Load::start(&gateway.address, 0, &["echo"], PACE);
    load.goes_on(100);
    assert!(say("s1").0["result"].is_object());

    let full = Instant::now();
    let ballast = cramped.fill();
    until("records are lost", || (dropped() > 20).then_some(()));
    // The lane that intents go to may have a page left.
    until("`sync` refuses", || {
        say("r").0["error"].is_object().then_some(())
    });
    let (refused, slowest) = (0..5).map(|n| say(&format!("r{n}"))).fold(
        (0, Duration::ZERO),
        |(count, slowest), (answer, took)| {
            let kind = &answer["error"]["data"]["kind"];
            assert_eq!(kind, "audit_unavailable", "{answer}");
            (count + 1, slowest.max(took))
        },
    );
    thread::sleep(outage() / 4);
    until("it is said", || {
        let log = gateway.setup.log();
        log.contains("\"level\":\"ERROR\"").then_some(())
    });
    fs::remove_file(ballast).expect("a file");
    let room = Instant::now();
    until("`sync` goes on", || {
        say("s2").0["result"].is_object().then_some(())
    });
    let back = room.elapsed();
    load.goes_on(100);
    let lost = dropped();
    let (answered, failed) = load.finish();
    assert_eq!(failed, 0, "calls that failed");
    ingested(gateway);

    let records: Vec<Value> = String::from_utf8(cramped.audit(&["export"]))
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let found = by_id(&records);
    let (before, meanwhile): (Vec<_>, Vec<_>) = answered.iter().partition(|a| a.at + a.took < full);
    let (after, meanwhile): (Vec<_>, Vec<_>) =
        meanwhile.into_iter().partition(|a| a.at > room + back);
    for Answered { id, .. } in before.iter().chain(&after) {
        assert_eq!(found.get(id.as_str()).map_or(0, Vec::len), 1, "{id}");
    }
    let missing = meanwhile
        .iter()
        .filter(|a| !found.contains_key(a.id.as_str()));
    let missing = missing.count() as u64;
    let verdict: Value =
        serde_json::from_slice(&cramped.audit(&["verify", "--json"])).expect("JSON");
    eprintln!(
        "P-A04: a full disk for {:.1} s: {} calls, 0 failed; {missing} of {} records of calls lost meanwhile, \
         {lost} of all kinds announced; {refused} `sync` calls refused within {slowest:?}; back {back:?} after there was room",
        room.duration_since(full).as_secs_f64(),
        answered.len(),
        meanwhile.len(),
    );
    assert_eq!(verdict["ok"], true, "{verdict}");
    assert_eq!(verdict["announced_missing"], lost, "{verdict}");
    assert!(missing > 0 && missing <= lost, "{missing} {lost}");
    assert!(before.len() > 50 && after.len() > 20, "there was load");
    assert!(back < Duration::from_secs(5), "{back:?}");
}
