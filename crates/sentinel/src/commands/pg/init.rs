//! `sentinel pg init`: the SQL of the example, printed, written or run.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use sentinel_backends::postgres::{self, Login, SetupError};

use super::super::import::write_file;
use super::super::{Misuse, Unreachable, print, say};
use super::login;
use crate::cli::PgInit;
use crate::client;

const EXAMPLE: &str = include_str!("example.sql");
const EVENT_TRIGGER: &str = include_str!("event_trigger.sql");
/// The role that the example makes for the gateway.
const ROLE: &str = "shop_gateway";
/// The variable that the example's configuration names.
const VARIABLE: &str = "SHOP_DATABASE_URL";

pub(super) fn run(args: &PgInit) -> anyhow::Result<ExitCode> {
    let mut sql = EXAMPLE.to_owned();
    if args.event_trigger {
        sql.push_str(EVENT_TRIGGER);
    }
    if let Some(variable) = &args.apply {
        return apply(args, variable, &sql);
    }
    let Some(file) = args
        .output
        .as_deref()
        .filter(|file| *file != Path::new("-"))
    else {
        return print(&sql);
    };
    refuse_to_overwrite(file, args.force)?;
    write_file(file, &sql, 0o644, args.force)?;
    say(&format!("wrote {}", file.display()));
    Ok(ExitCode::SUCCESS)
}

fn refuse_to_overwrite(file: &Path, force: bool) -> anyhow::Result<()> {
    match file.exists() && !force {
        true => bail!("{} exists; --force overwrites it", file.display()),
        false => Ok(()),
    }
}

fn apply(args: &PgInit, variable: &str, sql: &str) -> anyhow::Result<ExitCode> {
    let Some(url) = std::env::var(variable).ok().filter(|url| !url.is_empty()) else {
        let text = format!("the environment has no {variable}: set it to the URL of a database");
        return Err(Misuse(text).into());
    };
    if let Some(file) = &args.env_file {
        refuse_to_overwrite(file, args.force)?;
    }
    let password = login::password();
    let verifier = login::verifier(&password);
    let login = Login {
        role: ROLE,
        verifier: &verifier,
        always: args.new_password,
    };
    let applied = client::run(async {
        match postgres::apply(&url, sql, login).await {
            Ok(applied) => Ok(applied),
            Err(SetupError::Unreachable(error)) => {
                let why = anyhow::Error::new(error);
                let text = format!("the database of {variable} cannot be reached: {why:#}");
                Err(Unreachable(text).into())
            }
            Err(SetupError::Url(why)) => {
                Err(Misuse(format!("the URL in {variable} cannot be used: {why}")).into())
            }
            Err(error) => Err(error).context(format!("the database of {variable}")),
        }
    })?;
    say(&format!(
        "the example is in the database of {variable}: schemas shop and shop_api, roles shop_owner and {ROLE}"
    ));
    if !applied.is_password_new {
        say(&format!(
            "{ROLE} existed and keeps its password; --new-password gives it another one"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let url = login::url_for(&url, ROLE, &password);
    let export = format!("export {VARIABLE}='{}'\n", url.replace('\'', r"'\''"));
    let Some(file) = &args.env_file else {
        // On standard output, so that a shell can evaluate it.
        return print(&export);
    };
    write_file(file, &export, 0o600, args.force)
        .context("the password is lost; repeat with --new-password")?;
    say(&format!("wrote {}", file.display()));
    Ok(ExitCode::SUCCESS)
}
