//! Logs: to standard error, for people on a terminal and as JSON elsewhere.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

/// Begins to log as the configuration says. Once per process.
pub(crate) fn begin(config: &Config) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.gateway.log_level).context("gateway.log_level")?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let terminal = std::io::stderr().is_terminal();
    match config.gateway.log_format {
        LogFormat::Json => logs.json().flatten_event(true).init(),
        LogFormat::Auto if !terminal => logs.json().flatten_event(true).init(),
        _ => logs.with_ansi(terminal).with_target(false).init(),
    }
    Ok(())
}
