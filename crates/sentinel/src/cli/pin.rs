//! `sentinel pin`.

use clap::{Args, Subcommand};

use super::Target;

#[derive(Debug, Args)]
pub(crate) struct Pin {
    #[command(subcommand)]
    pub(crate) action: PinAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PinAction {
    /// List the tools that differ
    List {
        /// Those that do not, too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Take what a backend says about its tools for good
    Approve {
        /// The backend
        #[arg(value_name = "BACKEND")]
        backend: String,
        /// One of its tools, by its own name [default: all of them]
        #[arg(value_name = "TOOL")]
        tool: Option<String>,
        #[command(flatten)]
        target: Target,
    },
}
