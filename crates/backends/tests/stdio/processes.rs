//! What the tests need to see of the machine's processes, and the commands that they start.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sentinel_backends::child::{Bounds, Command, ShimProgram, environment};

pub(crate) const LAB: &str = env!("CARGO_BIN_EXE_backends-lab");

/// The bound of P-R11.
pub(crate) const SOON: Duration = Duration::from_secs(2);

pub(crate) fn trees() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stdio/trees.py")
}

/// A value no other process has in its environment.
pub(crate) fn mark(test: &str) -> String {
    format!(
        "{test}-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    )
}

/// Living processes that were started with this mark.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("LAB_MARK={mark}");
    all()
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|env| env.split(|b| *b == 0).any(|var| var == wanted.as_bytes()))
        })
        .collect()
}

/// Dead processes that `parent` did not wait for.
pub(crate) fn zombies_of(parent: u32) -> Vec<u32> {
    all()
        .filter(|pid| state(*pid).is_some_and(|(s, of)| s == 'Z' && of == parent))
        .collect()
}

/// There and not a zombie: after the gateway's death reaping its shims is init's business.
pub(crate) fn alive(pid: u32) -> bool {
    state(pid).is_some_and(|(state, _)| state != 'Z')
}

/// Everything below `top`.
pub(crate) fn below(top: u32) -> HashSet<u32> {
    let parents: Vec<_> = all().filter_map(|pid| Some((pid, state(pid)?.1))).collect();
    let mut found = HashSet::from([top]);
    while let Some((pid, _)) = parents
        .iter()
        .find(|(pid, parent)| found.contains(parent) && !found.contains(pid))
    {
        found.insert(*pid);
    }
    found.remove(&top);
    found
}

/// A process's state letter and its parent.
fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut rest = stat.rsplit(')').next()?.split_whitespace();
    Some((rest.next()?.chars().next()?, rest.next()?.parse().ok()?))
}

/// Waits until `holds`; the time it took, or a panic with what is left.
#[track_caller]
pub(crate) fn soon(what: &str, mut left: impl FnMut() -> Vec<u32>) -> Duration {
    let start = Instant::now();
    loop {
        // Read before the look: a pause between the two is no process's fault.
        let looked = start.elapsed();
        let still = left();
        if still.is_empty() {
            return looked;
        }
        assert!(
            looked < SOON,
            "{what}: {still:?} still there after {SOON:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn tree_command(kind: &str, mark: &str) -> Command {
    command("python3", &[trees().to_str().unwrap(), kind], mark)
}

pub(crate) fn command(program: &str, args: &[&str], mark: &str) -> Command {
    Command {
        label: "test".into(),
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        env: environment(false, [("LAB_MARK", mark)]),
        cwd: None,
        bounds: Bounds::default(),
        pid_namespace: false,
        shim: ShimProgram::At(LAB.into()),
    }
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
