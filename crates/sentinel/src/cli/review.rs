//! Flags of `sentinel review`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct Review {
    /// The database of reviews, in place of sqlite.path
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) db: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: ReviewCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReviewCommand {
    /// Serve the review tools alone, on 127.0.0.1:8321
    #[command(after_help = "\
Examples:
  sentinel review serve
  sentinel review serve --port 8400
  sentinel review serve --db .planning/codex_review_broker.sqlite3")]
    Serve {
        /// Port on 127.0.0.1, in place of review.listen
        #[arg(long, value_name = "PORT")]
        port: Option<u16>,
    },
    /// List reviews, latest change first
    List {
        /// created, claimed, in_discussion, approved, rejected or closed
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Only this project
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        /// How many
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: u64,
    },
    /// Show a review: proposal, discussion, patches, verdicts, resubmissions
    Show {
        /// Its id, or enough of the beginning
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Print what happens, as it happens
    Watch {
        /// Only this review: its id, or enough of the beginning
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
    /// Write a consistent copy of the database while it is in use
    Backup {
        /// The file to write; it must not exist
        #[arg(value_name = "FILE")]
        to: PathBuf,
    },
    /// Check that no part of the history was changed or lost
    Verify,
    /// Remove closed reviews for good; the history says who did
    #[command(after_help = "\
Examples:
  sentinel review purge --closed-before 90d --dry-run
  sentinel review purge --closed-before 2026-01-31 --yes

Texts go: intents, diffs, messages, reasons. Events stay, with digests of what they added. A closed review that an
open one follows stays, too. Make a backup first: there is no way back.")]
    Purge {
        /// Those closed before: 90d (ago), 12h, 2026-01-31, 2026-01-31T10:00:00Z
        #[arg(long, value_name = "WHEN")]
        closed_before: String,
        /// Only show what would be removed
        #[arg(long)]
        dry_run: bool,
        /// Do not ask
        #[arg(long, conflicts_with = "dry_run")]
        yes: bool,
    },
}
