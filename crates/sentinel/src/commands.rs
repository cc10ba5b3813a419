//! What the commands do: one module each, all with a `run` that returns the exit code.
//!
//! Only this module and those below print; results go to standard output, everything else to standard
//! error. A reader that closes its end (`sentinel schema | head`) is no failure.

pub(crate) mod audit;
pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod client;
pub(crate) mod completions;
pub(crate) mod cost;
pub(crate) mod doctor;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod kill;
mod lists;
pub(crate) mod open;
pub(crate) mod pg;
pub(crate) mod pin;
pub(crate) mod prompts;
pub(crate) mod reload;
pub(crate) mod resources;
pub(crate) mod restart;
pub(crate) mod review;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod stdio;
mod terminal_text;
pub(crate) mod token;
pub(crate) mod tools;

use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::config::mistake::{self, Mistakes};
pub(crate) use terminal_text::{one_line, plain};

/// Exit code for [`Unreachable`].
pub(crate) const EXIT_UNREACHABLE: u8 = 3;

/// No gateway or backend can be reached.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreachable(pub(crate) String);

/// A mistake on the command line that its grammar does not detect.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misuse(pub(crate) String);

/// Prints a result.
pub(crate) fn print(text: &str) -> anyhow::Result<ExitCode> {
    match anstream::stdout()
        .write_all(text.as_bytes())
        .and_then(|()| io::stdout().flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints a message beside the result.
pub(crate) fn say(text: &str) {
    // If standard error is closed, errors cannot be reported.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Prints a warning.
pub(crate) fn warn(text: &str) {
    const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
    say(&format!("{YELLOW}warning{YELLOW:#}: {text}"));
}

/// Prints the failure of a command with its causes. Mistakes in the configuration and on the command line are exit code 2.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    const RED: Style = AnsiColor::Red.on_default().bold();
    if let Some(mistakes) = error.downcast_ref::<Mistakes>() {
        let _ = write!(anstream::stderr(), "{}", mistakes.render());
        return ExitCode::from(mistake::EXIT_CODE);
    }
    say(&format!("{RED}error{RED:#}: {error:#}"));
    if error.is::<Misuse>() {
        return ExitCode::from(mistake::EXIT_CODE);
    }
    match error.is::<Unreachable>() {
        true => ExitCode::from(EXIT_UNREACHABLE),
        false => ExitCode::FAILURE,
    }
}
