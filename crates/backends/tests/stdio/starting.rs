//! Starting and stopping one child: clear errors, its status, no descriptors but its own.

use std::time::{Duration, Instant};

use sentinel_backends::child::{
    Bounds, Child, Command, Exit, StartFailure, StopTimeouts, shim_count,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::processes::{command, mark, marked, soon, tree_command, zombies_of};

/// For those who will not listen.
const QUICK: StopTimeouts = StopTimeouts {
    after_eof: Duration::from_millis(300),
    after_term: Duration::from_millis(300),
};

/// For those who will, however busy the machine is; whoever ends does not take it.
const LONG: Duration = Duration::from_secs(20);

async fn ready(command: &Command) -> Child {
    let mut child = command.start().await.unwrap();
    let mut line = [0; 6];
    child.stdout.read_exact(&mut line).await.unwrap();
    assert_eq!(&line, b"ready\n");
    child
}

async fn output(command: &Command) -> String {
    let mut child = command.start().await.unwrap();
    let mut out = String::new();
    child.stdout.read_to_string(&mut out).await.unwrap();
    child.guard.exited().await;
    out
}

async fn refusal(command: &Command) -> (StartFailure, String) {
    let error = command.start().await.unwrap_err();
    (error.failure.clone(), error.to_string())
}

#[tokio::test]
async fn a_missing_program_is_named_with_the_path_that_was_searched() {
    let (failure, text) = refusal(&command("no-such-mcp-server", &[], "-")).await;
    assert!(
        matches!(failure, StartFailure::NotOnPath { .. }),
        "{failure:?}"
    );
    assert!(
        text.contains("`no-such-mcp-server`") && text.contains("/bin"),
        "{text}"
    );
    let (failure, _) = refusal(&command("/no/such/mcp-server", &[], "-")).await;
    assert_eq!(failure, StartFailure::NoSuchFile);
}

#[tokio::test]
async fn a_missing_directory_is_not_mistaken_for_a_missing_program() {
    let mut command = command("cat", &[], "-");
    command.cwd = Some("/no/such/directory".into());
    let (failure, text) = refusal(&command).await;
    assert!(matches!(failure, StartFailure::Cwd { .. }), "{failure:?}");
    assert!(text.contains("/no/such/directory"), "{text}");
}

#[tokio::test]
async fn a_file_without_the_right_to_run_is_called_so() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (failure, _) = refusal(&command(file.path().to_str().unwrap(), &[], "-")).await;
    assert_eq!(failure, StartFailure::NotExecutable);
}

#[tokio::test]
async fn a_nul_in_an_argument_is_refused() {
    let (failure, _) = refusal(&command("cat", &["a\0b"], "-")).await;
    assert_eq!(failure, StartFailure::Gateway);
}

#[tokio::test]
async fn a_child_gets_its_directory_and_its_environment() {
    let mut shell = command("sh", &["-c", "pwd; env"], "here");
    shell.cwd = Some("/usr".into());
    let out = output(&shell).await;
    assert!(
        out.starts_with("/usr\n") && out.contains("LAB_MARK=here\n"),
        "{out}"
    );
    assert!(
        !out.contains("CARGO"),
        "our own environment stays with us: {out}"
    );
}

#[tokio::test]
async fn p_r12_limits_hold_for_a_child_and_for_what_it_starts() {
    // The second shell is the child's child, and the value that nobody set is not touched.
    let script = "cat /proc/self/limits; sh -c 'cat /proc/self/limits'";
    let plain = output(&command("sh", &["-c", script], "-")).await;
    let mut shell = command("sh", &["-c", script], "-");
    shell.bounds = Bounds {
        memory_bytes: 512 << 20,
        address_space_bytes: 4 << 30,
        processes: 3_000,
        open_files: 64,
        cpu_seconds: 0,
    };
    let out = output(&shell).await;
    let row = |out: &str, name: &str| -> Vec<String> {
        let rows = out.lines().filter(|line| line.starts_with(name));
        rows.map(|line| {
            line[name.len()..]
                .split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
    };
    for (name, value) in [
        ("Max data size", 512 << 20),
        ("Max address space", 4_u64 << 30),
        ("Max processes", 3_000),
        ("Max open files", 64),
    ] {
        let both = format!("{value} {value}");
        assert_eq!(row(&out, name), [both.clone(), both], "{name}");
    }
    assert_eq!(row(&out, "Max cpu time"), row(&plain, "Max cpu time"));
}

#[tokio::test]
async fn p_r12_a_child_beyond_its_limit_is_killed() {
    let mut busy = command("sh", &["-c", "while :; do :; done"], "-");
    busy.bounds.cpu_seconds = 1;
    let mut child = busy.start().await.unwrap();
    let exit = tokio::time::timeout(Duration::from_secs(30), child.guard.exited()).await;
    assert_eq!(exit.expect("it is ended"), Exit::Signal(9));
}

#[tokio::test]
async fn a_child_gets_no_descriptor_that_a_plain_start_would_not_give() {
    // Others live beside it meanwhile: the gateway's own, and those of an earlier child.
    let _other = command("cat", &[], "-").start().await.unwrap();
    let plain = std::process::Command::new("ls")
        .arg("/proc/self/fd")
        .output()
        .unwrap();
    let plain = String::from_utf8(plain.stdout).unwrap();
    assert_eq!(output(&command("ls", &["/proc/self/fd"], "-")).await, plain);
}

#[tokio::test]
async fn an_environment_larger_than_a_socket_buffer_arrives() {
    let mut shell = command("sh", &["-c", "echo ${#V0} ${#V9}"], "-");
    for i in 0..10 {
        shell
            .env
            .push((format!("V{i}").into(), "x".repeat(100_000).into()));
    }
    assert_eq!(output(&shell).await, "100000 100000\n");
}

#[tokio::test]
async fn a_child_that_ends_by_itself_takes_its_daemons_along() {
    let mark = mark("left");
    let mut child = ready(&tree_command("daemon-left-behind", &mark)).await;
    assert_eq!(child.guard.exited().await, Exit::Code(7));
    assert_eq!(
        marked(&mark),
        [0u32; 0],
        "the exit is reported when the tree is gone"
    );
}

#[tokio::test]
async fn a_child_that_kills_its_group_does_not_hit_its_shim() {
    let mark = mark("group");
    let mut child = ready(&tree_command("kills-its-group", &mark)).await;
    assert_eq!(child.guard.exited().await, Exit::Signal(9));
    assert_eq!(marked(&mark), [0u32; 0]);
}

#[tokio::test]
async fn stopping_goes_from_polite_to_final() {
    let timeouts = |after_eof, after_term| StopTimeouts {
        after_eof,
        after_term,
    };
    let quick = QUICK.after_eof;
    for (kind, expected, timeouts, at_least) in [
        (
            "polite",
            Exit::Code(0),
            timeouts(LONG, LONG),
            Duration::ZERO,
        ),
        ("obeys-term", Exit::Signal(15), timeouts(quick, LONG), quick),
        ("deaf", Exit::Signal(9), QUICK, quick + QUICK.after_term),
    ] {
        let Child { stdin, guard, .. } = ready(&tree_command(kind, "-")).await;
        let start = Instant::now();
        drop(stdin);
        assert_eq!(guard.stop(timeouts).await, Some(expected), "{kind}");
        let took = start.elapsed();
        assert!(
            took >= at_least && took < at_least + LONG / 2,
            "{kind} took {took:?}"
        );
    }
}

#[tokio::test]
async fn dropping_a_child_kills_it_at_once_and_leaves_no_zombie() {
    let mark = mark("dropped");
    let child = ready(&tree_command("daemon", &mark)).await;
    let shim = child.guard.shim_pid();
    drop(child);
    soon("dropped", || marked(&mark));
    soon("the shim", || {
        zombies_of(std::process::id())
            .into_iter()
            .filter(|z| *z == shim)
            .collect()
    });
}

#[tokio::test]
async fn p_r12_a_hundred_starts_and_stops_leave_no_child_and_no_descriptor() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    let mark = mark("hygiene");
    let mut starting = Duration::ZERO;
    for round in 0..100 {
        let start = Instant::now();
        let child = command("cat", &[], &mark).start().await.unwrap();
        starting += start.elapsed();
        match round % 3 {
            0 => drop(child),
            1 => assert_eq!(
                child
                    .guard
                    .stop(StopTimeouts {
                        after_eof: Duration::ZERO,
                        after_term: LONG,
                    })
                    .await,
                Some(Exit::Signal(15))
            ),
            _ => {
                let Child {
                    stdin,
                    stdout,
                    guard,
                    ..
                } = child;
                drop(stdin);
                assert_eq!(
                    BufReader::new(stdout).lines().next_line().await.unwrap(),
                    None
                );
                let timeouts = StopTimeouts {
                    after_eof: LONG,
                    after_term: LONG,
                };
                assert_eq!(guard.stop(timeouts).await, Some(Exit::Code(0)));
            }
        }
    }
    eprintln!(
        "P-R12 a start takes {} us on average",
        starting.as_micros() / 100
    );
    soon("children", || marked(&mark));
    // Other tests of this process run beside this one: allow for theirs, not for a hundred.
    assert!(
        descriptors() < before + 60,
        "{before} before, {} after",
        descriptors()
    );
    assert!(shim_count() < 30, "{} shims", shim_count());
}
