//! Builds policy from the configuration: roles, the kill switch, limits, admission.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use sentinel_backends::http::Webhook;
use sentinel_core::admission::{Admission, AdmissionConfig, Bounds, Hook, Overload};
use sentinel_core::policy::{
    CONFIGURED, ConfirmConfig, KillSwitch, Killed, RateConfig, Role, Roles, Scope, Settings,
    SharedRates,
};
use sentinel_stores::Redis;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::config::{self, Config};

/// Queued overloads for the webhook; during a storm most are only counted.
const HOOK_QUEUE_MAX: usize = 64;
/// Kills made at run time.
pub(super) const KILL_FILE: &str = "kill_switch.json";

pub(super) fn settings(
    config: &Config,
    enabled: &[&config::Backend],
    home: &Handle,
) -> anyhow::Result<Settings> {
    let file = kill_file(&config.gateway.data_dir);
    Ok(Settings {
        roles: roles(config),
        kills: KillSwitch::open(configured_kills(config), Some(file)),
        rates: rates(config),
        confirm: confirmations(config),
        shared_rates: shared_rates(config, home)?,
        admission: Some(admission(config, enabled, home)),
        is_open: config.auth.is_none(),
    })
}

/// The calls that everybody has to confirm; roles have further ones.
pub(super) fn confirmations(config: &Config) -> ConfirmConfig {
    ConfirmConfig {
        tools: config.surfaces.confirm.clone(),
        ttl: config.surfaces.confirm_ttl,
    }
}

/// The shared counter of rate limits, if one is configured. The start does not wait for it.
fn shared_rates(config: &Config, home: &Handle) -> anyhow::Result<Option<Arc<dyn SharedRates>>> {
    let Some(redis) = &config.redis else {
        return Ok(None);
    };
    let redis = Redis::new(redis.url.expose(), home)
        .context("the URL in the variable that redis.url_env names")?;
    Ok(Some(Arc::new(redis)))
}

/// The file of run-time kills in a data directory.
pub(crate) fn kill_file(data_dir: &Path) -> PathBuf {
    data_dir.join(KILL_FILE)
}

/// The version of the policy in records: the beginning of a hash, equal on all gateways with the same policy.
pub(super) fn version(config: &Config) -> u64 {
    let governs = (
        &config.rbac,
        &config.rate_limits,
        &config.kill_switch,
        &config.admission,
        &config.surfaces.confirm,
    );
    let text = serde_json::to_vec(&governs).unwrap_or_default();
    let hash = ring::digest::digest(&ring::digest::SHA256, &text);
    let first = hash.as_ref().first_chunk().copied().unwrap_or_default();
    // Databases have no unsigned integers.
    u64::from_be_bytes(first) >> 1
}

pub(crate) fn roles(config: &Config) -> Roles {
    Roles::new(config.rbac.roles.iter().map(|(name, role)| {
        let built = Role::new(&role.permissions, &role.denied_tools);
        (name.clone(), built.confirming(&role.confirm))
    }))
}

pub(super) fn configured_kills(config: &Config) -> Vec<Killed> {
    let switch = &config.kill_switch;
    let nameless = [String::new()];
    let everything = if switch.everything {
        &nameless[..]
    } else {
        &[]
    };
    let off = [
        (Scope::Tool, &switch.disabled_tools[..]),
        (Scope::Backend, &switch.disabled_backends),
        (Scope::Caller, &switch.disabled_callers),
        (Scope::All, everything),
    ];
    let killed = |scope, name: &String| Killed {
        scope,
        name: name.clone(),
        reason: CONFIGURED.to_owned(),
    };
    off.into_iter()
        .flat_map(|(scope, names)| names.iter().map(move |name| killed(scope, name)))
        .collect()
}

pub(super) fn rates(config: &Config) -> RateConfig {
    let limits = &config.rate_limits;
    RateConfig {
        default_rpm: limits.default_rpm,
        burst: limits.burst,
        per_tool: limits.per_tool.clone().into_iter().collect(),
    }
}

fn admission(config: &Config, enabled: &[&config::Backend], home: &Handle) -> Arc<Admission> {
    Admission::new(
        &admission_config(config, enabled),
        overload_hook(config, home),
    )
}

pub(super) fn overload_hook(config: &Config, home: &Handle) -> Option<Hook> {
    let url = config.admission.on_overload.as_ref();
    url.map(|url| hook(url, home))
}

pub(super) fn admission_config(config: &Config, enabled: &[&config::Backend]) -> AdmissionConfig {
    let settings = &config.admission;
    AdmissionConfig {
        bounds: Bounds {
            max_concurrent: settings.max_concurrent,
            queue_size: settings.queue_size,
        },
        queue_timeout: settings.queue_timeout,
        overload_error_code: settings.overload_error_code,
        backends: enabled
            .iter()
            .map(|backend| Bounds {
                max_concurrent: backend.admission.max_concurrent,
                queue_size: backend.admission.queue_size,
            })
            // The built-in backend is last and has no section.
            .chain([Bounds {
                max_concurrent: settings.max_concurrent,
                queue_size: settings.queue_size,
            }])
            .collect(),
    }
}

/// Posts overloads to a URL one after the other; faster ones are dropped.
fn hook(url: &http::Uri, home: &Handle) -> Hook {
    let (told, mut telling) = mpsc::channel::<Overload>(HOOK_QUEUE_MAX);
    let url = url.clone();
    home.spawn(async move {
        let hook = match Webhook::new(&url) {
            Ok(hook) => hook,
            Err(error) => return tracing::error!("admission.on_overload: {error}"),
        };
        while let Some(overload) = telling.recv().await {
            let body = format!(
                "{{\"kind\":\"overloaded\",{},\"retry_after_ms\":{}}}",
                overload.members(),
                Overload::RETRY_AFTER_MS
            );
            if let Err(error) = hook.post(body.into()).await {
                tracing::debug!("admission.on_overload: webhook failed: {error}");
            }
        }
    });
    Box::new(move |overload| {
        let _ = told.try_send(*overload);
    })
}
