//! `sentinel`: reads the command line and hands over to the command.
//!
//! Not here: what a command does (`commands`), flags and help (`cli`).

mod cli;
mod commands;
mod config;
mod import;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.global.color.apply();
    let outcome = match &cli.command {
        Command::Check => commands::check::run(&cli.global),
        Command::Import(args) => commands::import::run(&cli.global, args),
        Command::Schema => commands::schema::run(),
        Command::Completions(args) => commands::completions::run(args),
        _ => Err(anyhow::anyhow!("this command is not built in this tree")),
    };
    outcome.unwrap_or_else(|error| commands::fail(&error))
}
