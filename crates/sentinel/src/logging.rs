//! Logs: to standard error, for people on a terminal and as JSON elsewhere.

use std::io::IsTerminal;
use std::sync::OnceLock;

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload::Handle;

use crate::config::{Config, LogFormat};

/// Replaces the filter, whatever the format.
type Refilter = Box<dyn Fn(EnvFilter) + Send + Sync>;

static REFILTER: OnceLock<Refilter> = OnceLock::new();

/// Starts logging as configured. Once per process.
pub(crate) fn begin(config: &Config) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.gateway.log_level).context("gateway.log_level")?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let terminal = std::io::stderr().is_terminal();
    let as_json = match config.gateway.log_format {
        LogFormat::Json => true,
        LogFormat::Auto => !terminal,
        LogFormat::Pretty => false,
    };
    if as_json {
        let logs = logs.json().flatten_event(true).with_filter_reloading();
        remember(logs.reload_handle());
        logs.init();
    } else {
        let logs = logs.with_ansi(terminal).with_target(false);
        let logs = logs.with_filter_reloading();
        remember(logs.reload_handle());
        logs.init();
    }
    Ok(())
}

fn remember<S: 'static>(handle: Handle<EnvFilter, S>) {
    let _ = REFILTER.set(Box::new(move |filter| {
        let _ = handle.reload(filter);
    }));
}

/// Applies the log level of another configuration, which has been validated.
pub(crate) fn follow(config: &Config) {
    let filter = EnvFilter::try_new(&config.gateway.log_level);
    if let (Some(refilter), Ok(filter)) = (REFILTER.get(), filter) {
        refilter(filter);
    }
}
