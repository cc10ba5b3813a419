//! `sentinel schema` and `sentinel example`: the configuration file, for editors and for readers.

use std::process::ExitCode;

use super::print;
use crate::config;

pub(crate) fn schema() -> anyhow::Result<ExitCode> {
    print(&format!("{:#}\n", config::schema()))
}

pub(crate) fn example() -> anyhow::Result<ExitCode> {
    print(&config::example())
}
