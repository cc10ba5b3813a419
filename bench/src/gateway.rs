//! Starts a gateway, with a directory and a port of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::leash::Leash;
use crate::options::Options;

/// More places at a backend than the load has callers.
pub(crate) const PLACES: &str = "[backends.admission]\nmax_concurrent = 4096\n";

/// Longest start of a contender.
pub(crate) const START: Duration = Duration::from_secs(15);

/// A temporary directory.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("sentinel-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A gateway with these lines of `[gateway]` and these backends. Its log is `sentinel-NAME.log` in this directory.
pub(crate) fn start(
    options: &Options,
    directory: &Path,
    name: &str,
    environment: &[(&str, &str)],
    gateway: &str,
    backends: &str,
) -> anyhow::Result<(SocketAddr, Leash)> {
    let program = present(&options.sentinel(), "cargo build --release -p sentinel")?;
    let address = free_address()?;
    let log = directory.join(format!("sentinel-{name}.log"));
    let directory = directory.join(name);
    std::fs::create_dir_all(&directory)?;
    let extra = match &options.sentinel_config {
        Some(path) => {
            std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?
        }
        // The load is one caller and one tool: limits that it cannot reach, but does pay for.
        None => "[rate_limits]\ndefault_rpm = 1000000000\n\n\
                 [admission]\nmax_concurrent = 4096\n"
            .to_owned(),
    };
    let config = format!(
        "[gateway]\nlisten = \"{address}\"\ndata_dir = {directory:?}\nlog_level = \"warn\"\n{gateway}\n\
         {backends}\n{extra}\n"
    );
    let file = directory.join("sentinel.toml");
    std::fs::write(&file, config)?;
    let args = ["serve", "--config", text(&file)?];
    let leash = Leash::start_with(environment, &program, &args, &log)?;
    Ok((address, leash))
}

pub(crate) fn last_lines(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

pub(crate) fn present(program: &Path, how: &str) -> anyhow::Result<PathBuf> {
    if !program.is_file() {
        bail!("{} is not there; build it with `{how}`", program.display());
    }
    Ok(program.to_owned())
}

pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

pub(crate) fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str()
        .context("the temporary directory has an odd name")
}
