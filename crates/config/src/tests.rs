//! The configuration as users meet it: files in, normalised settings or mistakes out.

mod examples;
mod finding;
mod in_force;
mod mistakes;
mod secrets;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::mistake::Mistakes;
use super::{Config, Environment, Overrides};

/// A small world: a home, a working directory and some variables.
pub(super) struct World {
    variables: BTreeMap<String, OsString>,
}

impl World {
    pub(super) fn new(variables: &[(&str, &str)]) -> Self {
        let home = ("HOME", "/home/me");
        let all = variables.iter().copied().chain([home]);
        Self {
            variables: all
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect(),
        }
    }

    pub(super) fn with<T>(&self, cwd: PathBuf, f: impl FnOnce(&Environment<'_>) -> T) -> T {
        let variables = |name: &str| self.variables.get(name).cloned();
        f(&Environment {
            validators: crate::Validators::default(),
            variables: &variables,
            cwd,
        })
    }

    pub(super) fn parse(&self, text: &str) -> Result<Config, Mistakes> {
        self.with("/etc/sentinel".into(), |environment| {
            super::parse(
                "test.toml",
                text,
                Path::new("/etc/sentinel"),
                &Overrides::default(),
                environment,
            )
        })
    }
}

/// The mistakes of a file, as they are printed without colours.
fn mistakes_of(text: &str) -> String {
    match World::new(&[]).parse(text) {
        Ok(_) => panic!("this has no mistakes:\n{text}"),
        Err(mistakes) => mistakes.to_string(),
    }
}

/// A file without mistakes.
fn config_of(text: &str) -> Config {
    World::new(&[])
        .parse(text)
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}
