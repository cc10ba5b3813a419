//! `sentinel audit`.

use clap::{Args, Subcommand};
use sentinel_core::audit::{OUTCOMES, moment};

#[derive(Debug, Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    pub(crate) action: AuditAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditAction {
    /// Print the last records, then new ones as they come
    Tail {
        #[command(flatten)]
        filter: AuditFilter,
        /// Records to begin with
        #[arg(long, short = 'n', default_value_t = 20, value_name = "COUNT")]
        lines: usize,
        /// Do not wait for more
        #[arg(long)]
        stop: bool,
    },
    /// Find records
    Search {
        #[command(flatten)]
        filter: AuditFilter,
        /// At most so many, the newest
        #[arg(long, default_value_t = 100, value_name = "COUNT")]
        limit: usize,
    },
    /// Print all records as JSON lines
    Export {
        #[command(flatten)]
        filter: AuditFilter,
    },
    /// Check the hash chains; says which record is the first that was changed or removed
    Verify,
}

#[derive(Debug, Args)]
pub(crate) struct AuditFilter {
    /// Only this caller's
    #[arg(long, value_name = "NAME")]
    pub(crate) caller: Option<String>,
    /// Only this tool, prompt or resource, as the caller named it
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only this backend's
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<String>,
    /// Only what ended so
    #[arg(long, value_name = "OUTCOME", value_parser = OUTCOMES)]
    pub(crate) outcome: Option<String>,
    /// From then on: 15m, 2h, 7d ago, or 2026-07-28T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    pub(crate) since: Option<u64>,
    /// Before then
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    pub(crate) until: Option<u64>,
}
