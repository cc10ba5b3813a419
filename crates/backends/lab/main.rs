//! A gateway of a few lines, for tests that kill it.
//!
//! `backends-lab gateway [--subreaper] <count> <mark> <program> [args...]` starts `count` children, says
//! `<pid> <shim pid> <first line of the child>` for each, and holds them until it is killed or its standard
//! input says `stop` (polite stop of all) or ends. `mark` becomes the variable LAB_MARK of the children,
//! by which the test finds whatever is left of them.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use sentinel_backends::child::{
    self, Bounds, Command, ProcessGuard, ShimProgram, StopTimeouts, shim,
};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::JoinSet;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == shim::SUBCOMMAND).is_some() {
        return shim::run();
    }
    assert_eq!(
        args.next().as_deref(),
        Some("gateway"),
        "usage: see the head of this file"
    );
    if args.next_if(|arg| arg == "--subreaper").is_some() {
        child::become_subreaper().expect("Linux lets every process be a subreaper");
    }
    let count: usize = args.next().and_then(|n| n.parse().ok()).expect("a count");
    let mark = args.next().expect("a mark");
    let command = Command {
        label: "lab".into(),
        program: args.next().expect("a program").into(),
        args: args.map(Into::into).collect(),
        env: child::environment(false, [("LAB_MARK", mark)]),
        cwd: None,
        bounds: Bounds::default(),
        pid_namespace: false,
        shim: ShimProgram::ThisProgram,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .expect("a runtime")
        .block_on(gateway(count, command));
    ExitCode::SUCCESS
}

async fn gateway(count: usize, command: Command) {
    let (stop, stopped) = watch::channel(false);
    let mut held = JoinSet::new();
    for _ in 0..count {
        let child = command.start().await.expect("the child starts");
        let (pid, shim) = (child.guard.pid(), child.guard.shim_pid());
        let mut stdout = BufReader::new(child.stdout);
        let mut line = String::new();
        stdout
            .read_line(&mut line)
            .await
            .expect("a pipe can be read");
        writeln!(io::stdout(), "{pid} {shim} {}", line.trim_end()).expect("the test reads");
        held.spawn(hold(child.stdin, stdout, child.guard, stopped.clone()));
    }
    let word = tokio::task::spawn_blocking(|| io::stdin().lines().next()).await;
    if matches!(word, Ok(Some(Ok(word))) if word == "stop") {
        stop.send(true).expect("the holders listen");
        held.join_all().await;
    }
}

/// Keeps one child until it ends or is to be stopped.
async fn hold(
    stdin: pipe::Sender,
    _stdout: BufReader<pipe::Receiver>,
    mut guard: ProcessGuard,
    mut stopped: watch::Receiver<bool>,
) {
    tokio::select! {
        _ = guard.exited() => {}
        _ = stopped.changed() => {
            drop(stdin);
            let brief = Duration::from_millis(200);
            guard.stop(StopTimeouts { after_eof: brief, after_term: brief }).await;
        }
    }
}
