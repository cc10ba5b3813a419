//! `sentinel schema`: the JSON Schema of the configuration file.

use std::process::ExitCode;

use super::print;
use crate::config;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    print(&format!("{:#}\n", config::schema()))
}
