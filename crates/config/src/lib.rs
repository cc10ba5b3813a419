//! The configuration file: found, read, checked and turned into what the program needs.
//!
//! `tree` reads a file and remembers where everything stands, `shape` compares it with the schema, `sections`
//! decodes it and builds `Config`. Every step reports its mistakes and goes on; they are shown together.
//!
//! To add a key, add it to its section (`sections/<name>.rs`): see `sections`.
//!
//! The environment is read here, once, and nowhere later.
//!
//! Not here: watching the file for changes; the conversion into each crate's own configuration.

mod builder;
pub mod credentials;
mod example;
mod in_force;
pub mod mistake;
mod schema;
mod secret;
mod section;
mod sections;
mod shape;
pub mod suggest;
pub mod template;
#[cfg(test)]
mod tests;
mod tree;

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use builder::Builder;
use mistake::{Mistake, Mistakes};
use rustix::fs::OFlags;
use sections::RawConfig;
use serde_json::Value;
use tree::Tree;

pub use example::example;
pub use in_force::KeyInForce;
pub use schema::schema;
pub use secret::{Endpoint, Origin, Secret};
pub use section::{Key, Kibibytes, Mebibytes, Reload, Section};
pub use sections::*;

/// Larger files are refused: no configuration comes near it, and a wrong path may name anything.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// What the command line says about the configuration; it wins over the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    pub config: Option<PathBuf>,
    pub data_dir: Option<PathBuf>,
    pub log_level: Option<String>,
    /// In place of `gateway.listen`.
    pub listen: Option<String>,
}

impl Overrides {
    /// The keys of the file that it gives other values.
    fn keys(&self) -> Vec<&'static str> {
        let given = [
            ("gateway.data_dir", self.data_dir.is_some()),
            ("gateway.log_level", self.log_level.is_some()),
            ("gateway.listen", self.listen.is_some()),
        ];
        let given = given.into_iter().filter(|(_, given)| *given);
        given.map(|(key, _)| key).collect()
    }
}

/// What surrounds the process: variables, the working directory, and other crates' knowledge of values.
pub struct Environment<'a> {
    pub variables: &'a dyn Fn(&str) -> Option<OsString>,
    pub cwd: PathBuf,
    pub validators: Validators,
}

/// Checks of values that other crates parse. This crate knows neither databases nor keys; the program passes their own
/// parsers in, so that `sentinel check` refuses what a start would refuse.
#[derive(Clone, Copy)]
pub struct Validators {
    /// Of a file with public keys.
    pub key_set: fn(&[u8]) -> Result<(), String>,
    pub postgres_url: fn(&str) -> Result<(), String>,
    pub redis_url: fn(&str) -> Result<(), String>,
}

impl Default for Validators {
    /// Accepts everything.
    fn default() -> Self {
        Self {
            key_set: |_| Ok(()),
            postgres_url: |_| Ok(()),
            redis_url: |_| Ok(()),
        }
    }
}

impl Environment<'static> {
    /// The environment of this process.
    pub fn of_process(validators: Validators) -> io::Result<Self> {
        Ok(Self {
            variables: &|name: &str| std::env::var_os(name),
            cwd: std::env::current_dir()?,
            validators,
        })
    }
}

impl Environment<'_> {
    pub fn variable(&self, name: &str) -> Option<Result<String, OsString>> {
        (self.variables)(name).map(OsString::into_string)
    }

    /// A directory that a variable names; the XDG rules ignore relative ones.
    pub fn directory(&self, name: &str) -> Option<PathBuf> {
        (self.variables)(name)
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute())
    }

    pub fn home(&self) -> Option<PathBuf> {
        self.directory("HOME")
    }
}

/// A usable configuration and where it came from.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    /// None: no file was found, everything is default.
    pub file: Option<PathBuf>,
    /// There is a file, and it sets nothing: it has no byte, or only comments.
    pub is_empty: bool,
    /// Keys whose values the command line gave.
    pub overridden: Vec<&'static str>,
}

/// What may be at the file's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Also a pipe (`-c <(...)`): a start may wait for its writer.
    Anything,
    /// A regular file, behind links or not: a running gateway must not wait for the writer of a pipe.
    RegularFile,
    /// Whatever is there, this text is read in its stead.
    Given(Arc<str>),
}

/// Finds the file, reads it and builds the configuration.
pub fn load(overrides: &Overrides, environment: &Environment<'_>) -> Result<Loaded, Mistakes> {
    load_from(Place::Anything, overrides, environment)
}

/// The same, of what may be at the file's place.
pub fn load_from(
    place: Place,
    overrides: &Overrides,
    environment: &Environment<'_>,
) -> Result<Loaded, Mistakes> {
    let overridden = overrides.keys();
    let found = find(overrides, environment);
    let file = match (found, &place) {
        (Some(file), _) => file,
        (None, Place::Given(_)) => default_file(environment).unwrap_or_default(),
        (None, _) => {
            let (name, base) = ("built-in defaults", &environment.cwd);
            let config = parse(name, "", base, overrides, environment)?;
            return Ok(Loaded {
                config,
                file: None,
                is_empty: false,
                overridden,
            });
        }
    };
    let name = file.display().to_string();
    let text = read(&environment.cwd.join(&file), &place).map_err(|error| {
        let help = "without --config and SENTINEL_CONFIG, ./sentinel.toml and the user's configuration are tried";
        Mistakes::new(&name, "", vec![Mistake::new(None, format!("the file cannot be read: {error}")).help(help)])
    })?;
    let base = environment.cwd.join(file.parent().unwrap_or(Path::new("")));
    let config = parse(&name, &text, &base, overrides, environment)?;
    Ok(Loaded {
        config,
        file: Some(file),
        is_empty: says_nothing(&text),
        overridden,
    })
}

/// The text of a configuration file.
pub fn read(path: &Path, place: &Place) -> io::Result<String> {
    if let Place::Given(text) = place {
        return Ok(text.to_string());
    }
    let mut how = File::options();
    how.read(true);
    if *place == Place::RegularFile {
        // Even to open a device may do something; and what is a file now may be a pipe when it is opened.
        only_regular(&std::fs::metadata(path)?)?;
        how.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = how.open(path)?;
    if *place == Place::RegularFile {
        only_regular(&file.metadata()?)?;
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(io::Error::other("it is larger than 16 MiB")),
        false => Ok(text),
    }
}

fn only_regular(metadata: &Metadata) -> io::Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// Whether a file has nothing but blank lines and comments.
fn says_nothing(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines().map(str::trim);
    lines.all(|line| line.is_empty() || line.starts_with('#'))
}

/// --config (which SENTINEL_CONFIG stands in for), ./sentinel.toml, the user's configuration directory.
fn find(overrides: &Overrides, environment: &Environment<'_>) -> Option<PathBuf> {
    let named = || {
        environment
            .variable("SENTINEL_CONFIG")
            .and_then(Result::ok)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    if let Some(file) = overrides.config.clone().or_else(named) {
        return Some(file);
    }
    let local = PathBuf::from("sentinel.toml");
    if environment.cwd.join(&local).is_file() {
        return Some(local);
    }
    default_file(environment).filter(|file| file.is_file())
}

/// The file of the user's configuration directory, whether or not it exists.
pub fn default_file(environment: &Environment<'_>) -> Option<PathBuf> {
    let directory = environment
        .directory("XDG_CONFIG_HOME")
        .or_else(|| Some(environment.home()?.join(".config")))?;
    Some(directory.join("sentinel/sentinel.toml"))
}

/// Builds a configuration from the text of a file; relative paths in it start at `base`.
pub fn parse(
    name: &str,
    text: &str,
    base: &Path,
    overrides: &Overrides,
    environment: &Environment<'_>,
) -> Result<Config, Mistakes> {
    let (mut tree, syntax) = Tree::parse(text);
    let shape = shape::check(&mut tree);
    let raw: RawConfig = serde_json::from_value(tree.value.clone())
        .expect("what the shape check leaves fits the types that its schema was generated from");
    let mut builder = Builder {
        tree: &tree,
        removed: &shape.removed,
        environment,
        base,
        incomplete: !syntax.is_empty(),
        mistakes: Vec::new(),
        notices: Vec::new(),
    };
    let mut config = builder.build(raw, overrides);
    config.notices = std::mem::take(&mut builder.notices);
    // What stands on a line that could not be read is a consequence.
    let mut mistakes = syntax.clone();
    let further = shape.mistakes.into_iter().chain(builder.mistakes);
    mistakes.extend(further.filter(|m| !syntax.iter().any(|s| m.shares_line(s, text))));
    if mistakes.is_empty() {
        Ok(config)
    } else {
        Err(Mistakes::new(name, text, mistakes).with_data_dir(config.gateway.data_dir))
    }
}

/// The normalised configuration: every value explicit, in a stable order, with the names of the file.
pub fn normalised(config: &Config) -> Value {
    serde_json::to_value(config)
        .expect("settings are tables with string keys, arrays, strings, numbers and booleans")
}

/// The normalised configuration as a file.
pub fn normalised_toml(config: &Config) -> String {
    toml::to_string(&normalised(config)).expect("settings have no null")
}
