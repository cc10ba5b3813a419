//! From the configuration to a running gateway: the rooms' own configurations, built and joined.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::join_all;
use http::{HeaderName, HeaderValue};
use sentinel_backends::child::{self, Patience, ShimProgram};
use sentinel_backends::stdio::{Interactive, Isolation, supervisor::Policy};
use sentinel_backends::{http as http_backend, stdio};
use sentinel_core::catalog::{Glob, Listing, Prefix, Publisher, Registry};
use sentinel_core::{Auditor, Backend, circuit};
use sentinel_surfaces::{Gateway, Limits};
use tokio::runtime::Handle;

use crate::config::{self, BackendKind, Config};
use crate::remember::{self, Place};

/// How often expired sessions and parked calls are swept.
const SWEEP: Duration = Duration::from_secs(5);

/// Builds the gateway and sets its backends going, each on the runtime that `home` names for it.
pub(crate) fn build(
    config: &Config,
    home: impl Fn(usize) -> Handle,
    auditor: Arc<Auditor>,
) -> anyhow::Result<Arc<Gateway>> {
    let enabled: Vec<&config::Backend> = config.backends.iter().filter(|b| b.enabled).collect();
    let registry = Registry::new(enabled.iter().map(|backend| listing(backend)).collect());
    let mut places = Vec::new();
    for (index, backend) in enabled.iter().enumerate() {
        let publisher = registry.publisher(index);
        let place = Place::new(&config.gateway.data_dir, &backend.name, source(backend));
        if let Some(offer) = place.load() {
            publisher.remember(offer);
        }
        let running = start(backend, config, publisher.clone(), &home(index))?;
        registry.attach(index, running);
        places.push((publisher, place));
    }
    let gateway = Gateway::new(registry.clone(), limits(config), auditor);
    let handle = home(0);
    handle.spawn(registry.clone().end_cold_start());
    handle.spawn(remember::keep_writing(registry, places));
    handle.spawn(sweep(gateway.clone()));
    Ok(gateway)
}

/// Stops every backend; children get their time to end.
pub(crate) async fn stop(gateway: &Gateway) {
    join_all(
        gateway
            .registry
            .backends()
            .map(|(_, backend)| backend.stop()),
    )
    .await;
}

async fn sweep(gateway: Arc<Gateway>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        gateway.sweep();
        child::reap_strangers();
    }
}

fn limits(config: &Config) -> Limits {
    let limits = &config.limits;
    Limits {
        body_bytes_max: limits.body as usize,
        line_bytes_max: limits.line as usize,
        json_depth_max: limits.json_depth,
        sessions_max: limits.sessions as usize,
        session_idle: limits.session_idle,
        streams_max: limits.streams as usize,
    }
}

fn listing(backend: &config::Backend) -> Listing {
    let globs = |patterns: &[String]| patterns.iter().map(Glob::new).collect();
    Listing {
        name: backend.name.clone(),
        prefix: match backend.prefix {
            config::Prefix::Collisions => Prefix::Collisions,
            config::Prefix::Always => Prefix::Always,
            config::Prefix::Never => Prefix::Never,
        },
        include: globs(&backend.tools.include),
        exclude: globs(&backend.tools.exclude),
        rename: backend
            .tools
            .rename
            .clone()
            .into_iter()
            .collect::<HashMap<_, _>>(),
        circuit: circuit::Config {
            threshold: backend.circuit_breaker.threshold,
            recovery: backend.circuit_breaker.recovery,
        },
    }
}

/// What a backend is, without secrets; a remembered catalog belongs to it.
fn source(backend: &config::Backend) -> String {
    serde_json::to_string(&backend.kind).unwrap_or_default()
}

fn start(
    backend: &config::Backend,
    config: &Config,
    publisher: Publisher,
    home: &Handle,
) -> anyhow::Result<Arc<dyn Backend>> {
    match &backend.kind {
        BackendKind::Http(http) => {
            let headers = http.headers.iter().map(|(name, value)| {
                let name: HeaderName = name
                    .parse()
                    .with_context(|| format!("backend `{}`: header {name}", backend.name))?;
                let mut value = HeaderValue::from_str(value.expose()).with_context(|| {
                    format!("backend `{}`: the value of header {name}", backend.name)
                })?;
                value.set_sensitive(true);
                Ok((name, value))
            });
            let built = http_backend::HttpBackend::new(
                http_backend::Config {
                    name: backend.name.clone(),
                    url: http.url.expose().clone(),
                    headers: headers.collect::<anyhow::Result<_>>()?,
                    timeout: backend.timeout,
                    retries: http.retries,
                    health_interval: backend.health_interval,
                    unhealthy_after: backend.unhealthy_after,
                    reply_bytes_max: config.limits.reply as usize,
                    idempotent_tools: backend.idempotent_tools.clone(),
                },
                publisher,
            )?;
            home.spawn(built.clone().run());
            Ok(Arc::new(built))
        }
        BackendKind::Stdio(program) => {
            let env = program
                .env
                .iter()
                .map(|(name, value)| (name, value.expose()));
            let command = child::Command {
                label: backend.name.clone(),
                program: program.command.clone().into(),
                args: program.args.iter().map(|arg| arg.expose().into()).collect(),
                env: child::environment(program.inherit_env, env),
                cwd: program.cwd.clone(),
                shim: ShimProgram::ThisProgram,
            };
            let policy = Policy {
                restart_on_exit: program.restart_on_exit,
                max_restarts: (program.max_restarts > 0).then_some(program.max_restarts),
                lazy: program.start == config::Start::Lazy,
                idle_stop: (!program.idle_stop.is_zero()).then_some(program.idle_stop),
                ping_interval: (!backend.health_interval.is_zero())
                    .then_some(backend.health_interval),
                unhealthy_after: backend.unhealthy_after,
            };
            let stdio = stdio::Config {
                name: backend.name.clone(),
                command,
                policy,
                timeout: backend.timeout,
                line_max: config.limits.line as usize,
                isolation: match program.isolation {
                    config::Isolation::Shared => Isolation::Shared,
                    config::Isolation::Session => Isolation::Session,
                    config::Isolation::Caller => Isolation::Caller,
                },
                interactive: match program.interactive {
                    config::Interactive::Off => Interactive::Off,
                    config::Interactive::Serialize => Interactive::Serialize,
                },
                max_children: program.max_children as usize,
                patience: Patience::default(),
            };
            let _inside = home.enter();
            Ok(stdio.build(publisher))
        }
        BackendKind::Postgres(_) | BackendKind::Openapi(_) => {
            unreachable!("refused when the configuration was built")
        }
    }
}
