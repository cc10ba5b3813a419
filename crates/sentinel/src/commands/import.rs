//! `sentinel import`: writes a configuration from an MCP client's.
//!
//! Files that exist are left alone without --force, and nothing is written before both files are known to
//! be writable. Export lines hold credentials: they are printed, or written with mode 0600.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::json;

use super::{print, say, warn};
use crate::cli::{Global, Import};
use crate::config::{self, Environment, Overrides};
use crate::import::{self, Imported};

pub(crate) fn run(global: &Global, args: &Import) -> anyhow::Result<ExitCode> {
    let environment = config::environment()?;
    let sources = import::find(args.path.as_deref(), args.from, &environment);
    if sources.is_empty() {
        bail!(
            "no client's configuration was found in the usual places; name a file: sentinel import PATH"
        );
    }
    for source in &sources {
        say(&format!("reading {}", source.path.display()));
    }
    let imported = import::import(&sources, &environment)?;
    for warning in &imported.warnings {
        warn(warning);
    }
    if imported.backends.is_empty() {
        bail!("there is no server to import");
    }
    let to_stdout = args.output.as_os_str() == "-";
    let files = [
        (!to_stdout).then_some(args.output.as_path()),
        args.env_file.as_deref(),
    ];
    for file in files.into_iter().flatten() {
        if file.exists() && !args.force {
            bail!("{} exists; --force overwrites it", file.display());
        }
    }
    if let Some(file) = &args.env_file {
        write_file(file, &imported.exports, 0o600, args.force)?;
    }
    if !to_stdout {
        write_file(&args.output, &imported.toml, 0o644, args.force)?;
    }
    let outcome = report(global, args, &imported, to_stdout)?;
    Ok(verify(&imported, &environment).unwrap_or(outcome))
}

/// A client's file may hold what we refuse, such as a URL without a scheme: the user should hear of it
/// now. Variables are not set yet, so a stand-in that suits every place answers for them.
fn verify(imported: &Imported, environment: &Environment<'_>) -> Option<ExitCode> {
    let variables = |name: &str| match name {
        "HOME" | "XDG_DATA_HOME" => (environment.variables)(name),
        _ => Some("https://example.com/".into()),
    };
    let environment = Environment {
        validators: config::Validators::default(),
        variables: &variables,
        cwd: environment.cwd.clone(),
    };
    let overrides = Overrides::default();
    let checked = config::parse(
        "the imported file",
        &imported.toml,
        &environment.cwd,
        &overrides,
        &environment,
    );
    let mistakes = checked.err()?;
    warn("the imported configuration needs a correction before it can be used:");
    Some(super::fail(&mistakes.into()))
}

fn report(
    global: &Global,
    args: &Import,
    imported: &Imported,
    to_stdout: bool,
) -> anyhow::Result<ExitCode> {
    if !to_stdout {
        let backends = match imported.backends.len() {
            1 => "1 backend".to_owned(),
            n => format!("{n} backends"),
        };
        say(&format!("wrote {} with {backends}", args.output.display()));
    }
    match &args.env_file {
        Some(file) if !imported.variables.is_empty() => {
            say(&format!(
                "wrote {}; load it with `. {}` before starting",
                file.display(),
                dotted(file)
            ));
        }
        None if !imported.variables.is_empty() => {
            say("the configuration names these variables; set them before starting:");
        }
        _ => {}
    }
    if to_stdout {
        if args.env_file.is_none() {
            say(imported.exports.trim_end());
        }
        return print(&imported.toml);
    }
    if global.json {
        let answer = json!({
            "output": args.output,
            "backends": imported.backends,
            "variables": imported.variables,
            "warnings": imported.warnings,
        });
        return print(&format!("{answer:#}\n"));
    }
    // On standard output, so that a shell can evaluate them.
    if args.env_file.is_none() {
        print(&imported.exports)
    } else {
        Ok(ExitCode::SUCCESS)
    }
}

/// `.` looks for a name without a slash in PATH.
fn dotted(file: &Path) -> String {
    let shown = file.display().to_string();
    if shown.contains('/') {
        shown
    } else {
        format!("./{shown}")
    }
}

/// Writes a file that must be new, unless `force`.
pub(super) fn write_file(path: &Path, text: &str, mode: u32, force: bool) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).mode(mode);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let mut file = options
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    if mode == 0o600 {
        // A file that was there may have been readable by others.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
    }
    file.write_all(text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}
