//! `sentinel key`: API keys are made, listed and revoked.

use std::process::ExitCode;

use sentinel_core::identity::{self, KeyRecord, KeyStore};
use serde_json::{Value, json};

use super::{print, say, warn};
use crate::cli::{Global, Key, KeyAction};
use crate::config::{self, Config};
use crate::key_file::KeyFile;

pub(crate) fn run(global: &Global, args: &Key) -> anyhow::Result<ExitCode> {
    let config = config::load(&global.overrides(), &config::environment()?)?.config;
    let store = KeyFile::new(&config.gateway.data_dir);
    match &args.action {
        KeyAction::Create {
            name,
            role,
            expires,
        } => {
            caution(&config, role);
            create(global, &store, name, role, *expires)
        }
        KeyAction::List => list(global, &store),
        KeyAction::Revoke { id } => {
            if !store.revoke(id, identity::now())? {
                anyhow::bail!("there is no key {id:?} that could be revoked");
            }
            if global.json {
                return print(&format!("{:#}\n", json!({"id": id, "revoked": true})));
            }
            say(&format!("{id} is revoked"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Says what would make a new key useless.
fn caution(config: &Config, role: &str) {
    if config.auth.as_ref().is_none_or(|auth| !auth.api_keys) {
        warn("the configuration does not ask callers for API keys ([auth] with api_keys)");
    }
    if !config.rbac.roles.contains_key(role) {
        warn(&format!("the configuration has no role \"{role}\""));
    }
}

/// A name must tell one key from all others that are good.
fn named_well(store: &KeyFile, name: &str, now: u64) -> anyhow::Result<()> {
    anyhow::ensure!(
        !name.trim().is_empty() && !name.contains(char::is_control),
        "a key needs a name of visible characters"
    );
    anyhow::ensure!(
        !name.starts_with("key:"),
        "\"key:\" begins the names of callers, not of keys"
    );
    let keys = store.list()?;
    let good = keys.iter().filter(|key| key.is_good(now));
    if let Some(key) = good
        .into_iter()
        .find(|key| key.name == name || key.id == name)
    {
        anyhow::bail!(
            "the key {} is called {:?} already; revoke it, or choose another name",
            key.id,
            key.name
        );
    }
    Ok(())
}

fn create(
    global: &Global,
    store: &KeyFile,
    name: &str,
    role: &str,
    expires: Option<u64>,
) -> anyhow::Result<ExitCode> {
    let now = identity::now();
    named_well(store, name, now)?;
    let (record, text) = KeyRecord::create(name, role, now, expires.map(|time| now + time));
    let id = record.id.clone();
    let shown = shown(&record, now);
    store.add(record)?;
    if global.json {
        let mut answer = shown;
        answer["key"] = json!(text);
        return print(&format!("{answer:#}\n"));
    }
    say(&format!(
        "{id}: this is the only time that the key is shown"
    ));
    print(&format!("{text}\n"))
}

fn list(global: &Global, store: &KeyFile) -> anyhow::Result<ExitCode> {
    let now = identity::now();
    let keys = store.list()?;
    if global.json {
        return print(&format!("{:#}\n", shown_all(&keys)));
    }
    if keys.is_empty() {
        say("there are no keys");
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{:<14}{:<10}{:<16}{}\n", "ID", "STATE", "ROLE", "NAME");
    for key in &keys {
        let state = state(key, now);
        text.push_str(&format!(
            "{:<14}{state:<10}{:<16}{}\n",
            key.id, key.role, key.name
        ));
    }
    print(&text)
}

/// Keys for programs to read.
pub(crate) fn shown_all(keys: &[KeyRecord]) -> Value {
    let now = identity::now();
    let keys: Vec<Value> = keys.iter().map(|key| shown(key, now)).collect();
    json!({ "keys": keys })
}

/// A key for programs to read; never its hash.
fn shown(key: &KeyRecord, now: u64) -> Value {
    json!({
        "id": key.id, "name": key.name, "role": key.role, "state": state(key, now),
        "created_at": key.created_at, "expires_at": key.expires_at, "revoked_at": key.revoked_at,
    })
}

fn state(key: &KeyRecord, now: u64) -> &'static str {
    match key {
        KeyRecord {
            revoked_at: Some(_),
            ..
        } => "revoked",
        key if !key.is_good(now) => "expired",
        _ => "good",
    }
}
