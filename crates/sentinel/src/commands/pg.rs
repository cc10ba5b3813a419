//! `sentinel pg`: an example to begin with, and a look at a database as its backend sees it.

mod check;
mod init;
mod login;
mod report;

use std::process::ExitCode;

use crate::cli::{Global, Pg, PgCommand};

pub(crate) fn run(global: &Global, args: &Pg) -> anyhow::Result<ExitCode> {
    match &args.command {
        PgCommand::Init(args) => init::run(args),
        PgCommand::Check(args) => check::run(global, args),
    }
}
