//! Child processes that cannot outlive this one.
//!
//! A small shell holds each of them and waits on its own stdin. When we close that, by dropping the
//! leash or by dying in whatever way, it sends SIGTERM to its child. Its cost is nothing while it waits.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::usage;

const HOLD: &str =
    r#""$@" </dev/null & child=$!; cat >/dev/null; kill -TERM $child 2>/dev/null; wait $child"#;
/// A child that ignores SIGTERM for longer is killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// What gateways that check tokens sign them with.
pub(crate) const SECRET: &str = "a secret of the bench, 32 bytes.";

pub(crate) struct Leash {
    shell: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Leash {
    pub(crate) fn start(program: &Path, args: &[&str], log: &Path) -> anyhow::Result<Self> {
        Self::start_with(&[], program, args, log)
    }

    /// The same with more in its environment.
    pub(crate) fn start_with(
        environment: &[(&str, &str)],
        program: &Path,
        args: &[&str],
        log: &Path,
    ) -> anyhow::Result<Self> {
        let log = std::fs::File::create(log).with_context(|| format!("{}", log.display()))?;
        let mut shell = Command::new("/bin/sh")
            .args(["-c", HOLD, "leash"])
            .arg(program)
            .args(args)
            // Without [auth] nobody reads it.
            .env("JWT_SECRET_KEY", SECRET)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("/bin/sh does not start")?;
        let stdin = shell.stdin.take();
        let lines = BufReader::new(shell.stdout.take().context("stdout is piped")?).lines();
        Ok(Self {
            shell,
            stdin,
            lines,
        })
    }

    /// The next line that the child prints.
    pub(crate) async fn line(&mut self) -> anyhow::Result<String> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line())
            .await
            .context("it prints nothing")??;
        line.context("it ended")
    }

    /// Every process on this leash, but not the shell's own two.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let Some(shell) = self.shell.id() else {
            return Vec::new();
        };
        let mut pids = usage::descendants(shell);
        pids.retain(|pid| usage::program(*pid).is_none_or(|program| !program.ends_with("cat")));
        pids
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let pids = self.pids();
        drop(self.stdin.take());
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            if !matches!(self.shell.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
        let _ = std::process::Command::new("kill")
            .arg("-KILL")
            .args(pids)
            .stderr(Stdio::null())
            .status();
        let _ = self.shell.start_kill();
    }
}
