//! `sentinel completions`: completions for a shell.

use std::process::ExitCode;

use clap::CommandFactory;

use super::print;
use crate::cli::{Cli, Completions};

pub(crate) fn run(args: &Completions) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sentinel", &mut text);
    print(&String::from_utf8_lossy(&text))
}
