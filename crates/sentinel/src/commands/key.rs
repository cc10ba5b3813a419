//! `sentinel key`: API keys are made, listed and revoked. The gateway of the data directory does it, if one runs, so that
//! it is on record; otherwise the file is changed here.

use std::process::ExitCode;

use sentinel_surfaces::http::admin::keys::{self, CreatedKey, KeyId, KeyList, NewKey, RevokedKey};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{print, say, warn};
use crate::cli::{Global, Key, KeyAction};
use crate::client;
use crate::config::{self, Config};
use crate::key_file::KeyFile;
use crate::operator::Reach;

pub(crate) fn run(global: &Global, args: &Key) -> anyhow::Result<ExitCode> {
    let config = config::load(&global.overrides(), &config::environment()?)?.config;
    let data_dir = &config.gateway.data_dir;
    // Several gateways of one data directory share the file: one is asked.
    let gateway = client::sockets(data_dir).into_iter().next();
    let store = KeyFile::new(data_dir);
    match &args.action {
        KeyAction::Create {
            name,
            role,
            expires,
        } => {
            caution(&config, role);
            let new = NewKey {
                name: name.clone(),
                role: role.clone(),
                expires_in_s: *expires,
            };
            let created = match gateway {
                Some(gateway) => ask(&gateway, "keys", &json!(new))?,
                None => keys::create(&store, &new)?,
            };
            show_created(global, &created)
        }
        KeyAction::List => list(global, &keys::list(&store)?),
        KeyAction::Revoke { id } => {
            let RevokedKey { id, revoked } = match gateway {
                Some(gateway) => {
                    let id = id.clone();
                    ask(&gateway, "keys/revoke", &json!(KeyId { id }))?
                }
                None => keys::revoke(&store, id)?,
            };
            if global.json {
                return print(&format!("{:#}\n", json!({"id": id, "revoked": revoked})));
            }
            say(&format!("{id} is revoked"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn ask<T: DeserializeOwned>(gateway: &Reach, what: &str, body: &Value) -> anyhow::Result<T> {
    client::run(gateway.wish(what, Some(body)))
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

fn show_created(global: &Global, created: &CreatedKey) -> anyhow::Result<ExitCode> {
    if global.json {
        return print(&format!("{:#}\n", json!(created)));
    }
    let id = &created.shown.id;
    say(&format!(
        "{id}: this is the only time that the key is shown"
    ));
    print(&format!("{}\n", created.key))
}

fn list(global: &Global, KeyList { keys }: &KeyList) -> anyhow::Result<ExitCode> {
    if global.json {
        return print(&format!("{:#}\n", json!({ "keys": keys })));
    }
    if keys.is_empty() {
        say("there are no keys");
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{:<14}{:<10}{:<16}{}\n", "ID", "STATE", "ROLE", "NAME");
    for key in keys {
        let state = key.state.as_str();
        text.push_str(&format!(
            "{:<14}{state:<10}{:<16}{}\n",
            key.id, key.role, key.name
        ));
    }
    print(&text)
}
