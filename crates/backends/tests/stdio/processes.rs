//! What the tests need to see of the machine's processes, and the commands that they start.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sentinel_backends::child::{Bounds, Command, ShimProgram, environment};

pub(crate) use crate::proc::{alive, below, mark};
use crate::proc::{all, state, with_variable};

pub(crate) const LAB: &str = env!("CARGO_BIN_EXE_backends-lab");

/// The bound of P-R11.
pub(crate) const SOON: Duration = Duration::from_secs(2);

pub(crate) fn trees() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stdio/trees.py")
}

/// Living processes that were started with this mark.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    with_variable(&format!("LAB_MARK={mark}"))
}

/// Dead processes that `parent` did not wait for.
pub(crate) fn zombies_of(parent: u32) -> Vec<u32> {
    all()
        .filter(|pid| state(*pid).is_some_and(|(s, of)| s == 'Z' && of == parent))
        .collect()
}

/// Waits until no process is left; returns the time it took, or panics.
#[track_caller]
pub(crate) fn soon(what: &str, mut left: impl FnMut() -> Vec<u32>) -> Duration {
    let start = Instant::now();
    loop {
        // Read first: a pause between the two must not count.
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
