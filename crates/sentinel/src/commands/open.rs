//! `sentinel open`: the console of the running gateway, in the user's browser.

use std::process::{ExitCode, Stdio};
use std::{env, process};

use super::{Unreachable, print, say};
use crate::cli::{Global, Open};
use crate::client;

pub(crate) fn run(global: &Global, args: &Open) -> anyhow::Result<ExitCode> {
    let data_dir = client::data_dir(global)?;
    let Some((_, endpoint)) = client::running(&data_dir) else {
        let text = "no gateway is running on this data directory: start it with `sentinel serve`";
        return Err(Unreachable(text.to_owned()).into());
    };
    let base = endpoint.trim_end_matches("/mcp");
    let page = args.page.trim_matches('/');
    let url = format!("{base}/console/{page}");
    if args.print {
        return print(&format!("{url}\n"));
    }
    match start_browser(&url) {
        Ok(()) => say(&format!("opening {url}")),
        // A machine without a desktop: the address is what there is to give.
        Err(_) => say(&format!("no browser could be started; open {url}")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts the browser and leaves it to itself.
fn start_browser(url: &str) -> std::io::Result<()> {
    let wanted = env::var_os("BROWSER").filter(|program| !program.is_empty());
    let program = wanted.unwrap_or_else(|| "xdg-open".into());
    #[expect(
        clippy::disallowed_methods,
        reason = "the browser is the user's, not a child of the gateway, and outlives this command"
    )]
    let mut browser = process::Command::new(program);
    browser
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(drop)
}
