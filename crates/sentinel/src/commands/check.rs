//! `sentinel check`: validates the configuration and prints it normalised.

use std::process::ExitCode;

use serde_json::json;

use super::{print, say, warn};
use crate::cli::Global;
use crate::config::{self, mistake};
use crate::wiring;

pub(crate) fn run(global: &Global) -> anyhow::Result<ExitCode> {
    let environment = config::environment()?;
    let loaded = match config::load(&global.overrides(), &environment) {
        Ok(loaded) => loaded,
        Err(mistakes) if global.json => {
            print(&format!(
                "{:#}\n",
                json!({ "ok": false, "mistakes": mistakes.to_json() })
            ))?;
            return Ok(ExitCode::from(mistake::EXIT_CODE));
        }
        Err(mistakes) => return Err(mistakes.into()),
    };
    let mut notices = loaded.config.notices.clone();
    notices.extend(wiring::unknown_names(&loaded.config));
    if global.json {
        let answer = json!({
            "ok": true,
            "file": loaded.file,
            "config": config::normalised(&loaded.config),
            "notices": notices,
        });
        return print(&format!("{answer:#}\n"));
    }
    match &loaded.file {
        Some(file) => say(&format!("{}: no mistakes", file.display())),
        None => say("no configuration file was found; these are the built-in defaults"),
    }
    for notice in &notices {
        warn(notice);
    }
    print(&config::normalised_toml(&loaded.config))
}
