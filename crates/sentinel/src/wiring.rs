//! From the configuration to a running gateway: the rooms' own configurations, built and joined.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::join_all;
use http::{HeaderName, HeaderValue};
use sentinel_backends::child::{self, Patience, ShimProgram};
use sentinel_backends::stdio::{Interactive, Isolation, supervisor};
use sentinel_backends::{http as http_backend, stdio};
use sentinel_core::catalog::{Glob, Listing, Prefix, Publisher, Registry};
use sentinel_core::clock::SystemClock;
use sentinel_core::{Auditor, Backend, Policy, circuit};
use sentinel_review::{Service, Settings, machine};
use sentinel_stores::{Sqlite, SqliteReviews, Synchronous, audit, review};
use sentinel_surfaces::{Gateway, Limits};
use tokio::runtime::Handle;

use crate::audit::Audit;
use crate::config::{self, BackendKind, Config};
use crate::remember::{self, Place};

mod governing;

/// How often expired sessions and parked calls are swept; a shorter `park_ttl` makes it oftener.
const SWEEP_MAX: Duration = Duration::from_secs(5);

const TALLY_EVERY: Duration = Duration::from_secs(1);

/// Builds the gateway and sets its backends going, each on the runtime that `home` names for it.
pub(crate) fn build(
    config: &Config,
    home: impl Fn(usize) -> Handle,
    audit: &Audit,
) -> anyhow::Result<Arc<Gateway>> {
    let enabled: Vec<&config::Backend> = config.backends.iter().filter(|b| b.enabled).collect();
    let reviews = reviews(config, audit.db.as_ref());
    let mut listings: Vec<Listing> = enabled.iter().map(|backend| listing(backend)).collect();
    // Built-ins come last, so that a contested name is the configured backend's.
    listings.extend(
        reviews
            .iter()
            .map(|_| Listing::new(sentinel_review::tools::NAME)),
    );
    let registry = Registry::new(listings);
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
    if let Some(service) = reviews {
        attach_reviews(
            &registry,
            enabled.len(),
            service,
            &home(enabled.len()),
            config.review.alone,
        );
    }
    let handle = home(0);
    let policy = Policy::new(
        registry.clone(),
        governing::settings(config, &enabled, &handle),
    );
    audit.auditor.governed_by(governing::version(config));
    let gateway = Gateway::new(policy, limits(config), audit.auditor.clone());
    handle.spawn(tally(audit.auditor.clone()));
    handle.spawn(registry.clone().end_cold_start());
    handle.spawn(remember::keep_writing(registry, places));
    handle.spawn(sweep(gateway.clone()));
    Ok(gateway)
}

/// The review broker, if it is wanted and its store opens. A gateway whose disk is broken still serves
/// its backends; `review serve` opens the store itself first and fails.
fn reviews(config: &Config, db: Option<&Sqlite>) -> Option<Arc<Service>> {
    if !config.review.enabled {
        return None;
    }
    match db.cloned().map_or_else(|| open_db(config), Ok) {
        Ok(db) => Some(reviews_in(config, &db)),
        Err(error) => {
            tracing::error!("no review tools: {error:#}");
            None
        }
    }
}

/// The review broker over the store that the configuration names.
pub(crate) fn open_reviews(config: &Config) -> anyhow::Result<Arc<Service>> {
    Ok(reviews_in(config, &open_db(config)?))
}

/// The database of reviews and audit records. A gateway opens it once and shares the handle.
pub(crate) fn open_db(config: &Config) -> anyhow::Result<Sqlite> {
    let path = &config.sqlite.path;
    let migrations = [review::MIGRATIONS, audit::MIGRATIONS];
    Sqlite::open(path, Synchronous::Full, &migrations)
        .with_context(|| format!("opening {}", path.display()))
}

fn reviews_in(config: &Config, db: &Sqlite) -> Arc<Service> {
    let store = SqliteReviews::new(db, Arc::new(SystemClock::new()), machine::expire);
    let settings = Settings {
        claim_timeout: config.review.claim_timeout,
        extended_tools: config.review.extended_tools,
    };
    Service::new(Arc::new(store), settings)
}

fn attach_reviews(
    registry: &Arc<Registry>,
    index: usize,
    service: Arc<Service>,
    home: &Handle,
    alone: bool,
) {
    let backend = sentinel_review::backend(service.clone());
    let offer = backend.offer();
    if let Some(info) = offer.server_info.clone().filter(|_| alone) {
        registry.introduce_as(info);
    }
    registry.publisher(index).publish(offer);
    registry.attach(index, Arc::new(backend));
    home.spawn(service.run());
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

/// Records those who were turned away, second by second.
async fn tally(auditor: Arc<Auditor>) {
    loop {
        tokio::time::sleep(TALLY_EVERY).await;
        auditor.sweep();
    }
}

async fn sweep(gateway: Arc<Gateway>) {
    let pause = SWEEP_MAX.min(gateway.limits.park_ttl);
    loop {
        tokio::time::sleep(pause).await;
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
        park_ttl: limits.park_ttl,
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
            let policy = supervisor::Policy {
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
