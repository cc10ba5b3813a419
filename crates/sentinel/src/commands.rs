//! What the commands do: one module each, all with a `run` that returns the exit code.
//!
//! Only this module and those below print; results go to standard output, everything else to standard
//! error. A reader that closes its end (`sentinel schema | head`) is no failure.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod import;
pub(crate) mod review;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod stdio;

use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::config::mistake::{self, Mistakes};

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

/// Tells the user something beside the result.
pub(crate) fn say(text: &str) {
    // There is nowhere left to complain if standard error is gone.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Tells the user something worth attention.
pub(crate) fn warn(text: &str) {
    const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
    say(&format!("{YELLOW}warning{YELLOW:#}: {text}"));
}

/// Prints the failure of a command with its causes. Mistakes in the configuration are exit code 2.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    const RED: Style = AnsiColor::Red.on_default().bold();
    if let Some(mistakes) = error.downcast_ref::<Mistakes>() {
        let _ = write!(anstream::stderr(), "{}", mistakes.render());
        return ExitCode::from(mistake::EXIT_CODE);
    }
    say(&format!("{RED}error{RED:#}: {error:#}"));
    ExitCode::FAILURE
}
