//! `sentinel client`: writes a typed client of what callers see.
//!
//! Nothing is written while a backend is away, unless that is asked for: a client without some of its operations would
//! replace a good one. A file that was not generated is left alone.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use sentinel_core::ItemKind;
use sentinel_core::catalog::Glob;
use serde_json::Value;

use super::{Unreachable, one_line, print, say, warn};
use crate::cli::{Global, TypedClient};
use crate::client::{self, Client, Wish};
use crate::typed_client::{Api, MARK};

pub(crate) fn run(global: &Global, args: &TypedClient) -> anyhow::Result<ExitCode> {
    let output = args
        .output
        .as_deref()
        .filter(|path| path.as_os_str() != "-");
    if let Some(path) = output {
        may_replace(path)?;
    }
    let only: Vec<Glob> = args.only.iter().map(Glob::new).collect();
    client::with_client(global, &args.target, Wish::default(), async |client| {
        check_complete(client, args.partial)?;
        let tools = chosen(client, ItemKind::Tool, &only)?;
        let prompts = chosen(client, ItemKind::Prompt, &only)?;
        if tools.is_empty() && prompts.is_empty() && !args.only.is_empty() {
            bail!("no tool or prompt has such a name; `sentinel tools` lists them");
        }
        let api = Api::new(&tools, &prompts)
            .with_base_url(args.base_url.clone())
            .with_options(options(args));
        let text = api.write(args.language);
        let Some(path) = output else {
            return print(&text);
        };
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        say(&format!(
            "wrote {} with {} operations",
            path.display(),
            api.operations()
        ));
        Ok(ExitCode::SUCCESS)
    })
}

/// Only what was generated, or is empty, is overwritten.
fn may_replace(path: &Path) -> anyhow::Result<()> {
    let Ok(text) = fs::read(path) else {
        return Ok(());
    };
    let first = text.split(|b| *b == b'\n').next().unwrap_or_default();
    let is_ours = String::from_utf8_lossy(first).contains(MARK);
    if is_ours || text.is_empty() {
        return Ok(());
    }
    bail!(
        "{} was not written by `sentinel client`, and is left as it is",
        path.display()
    );
}

fn check_complete(client: &Client, is_partial_fine: bool) -> anyhow::Result<()> {
    if client.troubles.is_empty() {
        return Ok(());
    }
    for trouble in &client.troubles {
        warn(&trouble.words());
    }
    if is_partial_fine {
        return Ok(());
    }
    let text = "operations of a backend that is away may be missing, so nothing was written; --partial writes it all the same";
    Err(Unreachable(text.to_owned()).into())
}

/// The items of a kind whose names are wanted.
fn chosen(client: &Client, kind: ItemKind, only: &[Glob]) -> anyhow::Result<Vec<Value>> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|glob| glob.matches(name));
    let listed = client.list(kind)?.into_iter();
    Ok(listed
        .filter(|item| wanted(&item.key))
        .map(|item| item.fields)
        .collect())
}

/// The options that decide what is in the file, as they are typed.
fn options(args: &TypedClient) -> String {
    let mut out = String::new();
    for pattern in &args.only {
        out.push_str(&format!(" --only {}", typed(pattern)));
    }
    if let Some(url) = &args.base_url {
        out.push_str(&format!(" --base-url {}", typed(url)));
    }
    if args.partial {
        out.push_str(" --partial");
    }
    out
}

/// A word for a shell.
fn typed(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", one_line(word).replace('\'', "'\\''")),
    }
}
