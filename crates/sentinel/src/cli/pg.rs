//! `sentinel pg`: its flags and their help.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct Pg {
    #[command(subcommand)]
    pub(crate) command: PgCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PgCommand {
    /// Print the SQL of an example: two tenants, row-level security, functions and a role for the gateway
    #[command(after_help = "\
Examples:
  sentinel pg init | psql \"$DATABASE_URL\"
  sentinel pg init --apply DATABASE_URL --env-file shop.env
  sentinel pg init --event-trigger --output shop.sql

Only --apply touches a database. It gives the gateway's role a random password and prints its URL as an
`export` line, or writes it to --env-file with mode 0600. It may be repeated: what exists stays, the password too.")]
    Init(PgInit),

    /// Say what a database offers to whom, what was left out and why, and what is unsafe
    #[command(after_help = "\
Examples:
  sentinel pg check
  sentinel pg check shop --json

It connects as the backend does and calls nothing. Exit codes: 0 nothing unsafe, 1 something unsafe,
2 configuration, 3 database unreachable.")]
    Check(PgCheck),
}

#[derive(Debug, Args)]
pub(crate) struct PgInit {
    /// File to write [default: standard output]
    #[arg(
        long,
        short,
        visible_alias = "out",
        value_name = "FILE",
        conflicts_with = "apply"
    )]
    pub(crate) output: Option<PathBuf>,
    /// Run it in the database whose URL this environment variable holds
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) apply: Option<String>,
    /// Write the export line of the gateway's URL to this file, mode 0600, and do not print it
    #[arg(long, value_name = "FILE", requires = "apply")]
    pub(crate) env_file: Option<PathBuf>,
    /// Give the gateway's role another password, if it exists already
    #[arg(long, requires = "apply")]
    pub(crate) new_password: bool,
    /// With an event trigger that tells the gateway of every change; needs a superuser
    #[arg(long)]
    pub(crate) event_trigger: bool,
    /// Overwrite files that exist
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PgCheck {
    /// The backend, by its name in the configuration [default: all of type postgres]
    #[arg(value_name = "BACKEND")]
    pub(crate) backend: Option<String>,
}
