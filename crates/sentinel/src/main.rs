//! `sentinel`: reads the command line and hands over to the command.
//!
//! Not here: what a command does (`commands`), flags and help (`cli`).

mod adding;
mod audit;
mod cli;
mod client;
mod commands;
mod config;
mod config_file;
mod control;
mod data_dir;
mod database;
mod file_watch;
mod identity;
mod import;
mod key_file;
mod logging;
mod operator;
mod progress;
mod reload;
mod remember;
mod runfile;
mod spans;
mod typed_client;
mod visits;
mod wiring;
mod workers;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use sentinel_backends::child::shim;

/// A call makes some forty small allocations; with glibc they took an eighth of its instructions.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Before anything else: a child's shim is this program and must stay small.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|arg| arg == shim::SUBCOMMAND)
    {
        return shim::run();
    }
    let cli = Cli::parse();
    cli.global.color.apply();
    let outcome = match &cli.command {
        Command::Serve(args) => commands::serve::run(&cli.global, args),
        Command::Stdio => commands::stdio::run(&cli.global),
        Command::Check => commands::check::run(&cli.global),
        Command::Import(args) => commands::import::run(&cli.global, args),
        Command::Schema => commands::schema::schema(),
        Command::Example => commands::schema::example(),
        Command::Audit(args) => commands::audit::run(&cli.global, args),
        Command::Review(args) => commands::review::run(&cli.global, args),
        Command::Pg(args) => commands::pg::run(&cli.global, args),
        Command::Token(args) => commands::token::run(&cli.global, args),
        Command::Key(args) => commands::key::run(&cli.global, args),
        Command::Kill(args) => commands::kill::kill(&cli.global, args),
        Command::Revive(args) => commands::kill::revive(&cli.global, args),
        Command::Pin(args) => commands::pin::run(&cli.global, args),
        Command::Reload(args) => commands::reload::run(&cli.global, args),
        Command::Restart(args) => commands::restart::run(&cli.global, args),
        Command::Open(args) => commands::open::run(&cli.global, args),
        Command::Completions(args) => commands::completions::run(args),
        Command::Tools(args) => commands::tools::run(&cli.global, args),
        Command::Resources(args) => commands::resources::run(&cli.global, args),
        Command::Prompts(args) => commands::prompts::run(&cli.global, args),
        Command::Cost(args) => commands::cost::run(&cli.global, args),
        Command::Call(args) => commands::call::run(&cli.global, args),
        Command::Client(args) => commands::client::run(&cli.global, args),
        Command::Doctor(args) => commands::doctor::run(&cli.global, args),
    };
    outcome.unwrap_or_else(|error| commands::fail(&error))
}
