//! Builds a running gateway from the configuration.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use sentinel_backends::{Context, MessageLimits, child, kind_of};
use sentinel_core::audit::AuditStore;
use sentinel_core::backend::StoppedBackend;
use sentinel_core::catalog::{Glob, Listing, Pinning, Pins, Prefix, Publisher, Registry};
use sentinel_core::{Auditor, Backend, Policy, circuit};
use sentinel_review::store::ReviewStore;
use sentinel_review::{Service, Settings};
use sentinel_surfaces::http::{
    Allowed, HttpServer, Mounts, Pace, Replayable, Scrape, Serving, SurfaceName,
};
use sentinel_surfaces::{Gateway, Limits};
use tokio::runtime::Handle;

use crate::audit::Audit;
use crate::config::{self, Config};
use crate::data_dir;
use crate::database::Database;
use crate::file_watch;
use crate::identity::{self, KeyRefresh};
use crate::remember::{OfferFile, OfferFiles, RememberedBackend};

mod governing;
mod reload;
mod stopping;
mod unknown_names;

pub(crate) use governing::{kill_file, roles};
pub(crate) use unknown_names::unknown_names;

/// Interval of sweeping expired sessions and parked calls; a shorter `park_ttl` shortens it.
const SWEEP_MAX: Duration = Duration::from_secs(5);
/// Polling interval of files that other processes may change.
const LOOK: Duration = Duration::from_millis(500);

/// Chooses the runtime of a backend.
type RuntimeChooser = Arc<dyn Fn(usize) -> Handle + Send + Sync>;

/// A running gateway, and the state that a new configuration is compared with.
pub(crate) struct Running {
    pub(crate) gateway: Arc<Gateway>,
    home: RuntimeChooser,
    places: OfferFiles,
    /// The configuration at the start, for settings that only a restart changes.
    first: Config,
    /// The configuration in force.
    current: Mutex<Config>,
    entrance: Mutex<Option<Entrance>>,
    /// The stand-ins of backends that an operator keeps down, by name. Locked after `current`, never before.
    stopped: Mutex<HashMap<String, Arc<StoppedBackend>>>,
    /// The store of audit records, if they are stored.
    pub(crate) records: Option<Arc<dyn AuditStore>>,
    reviews: Option<Arc<Service>>,
}

/// The HTTP server for callers.
struct Entrance {
    server: Arc<HttpServer>,
    /// Where it listens.
    addresses: Vec<SocketAddr>,
    _keeping: Option<KeyRefresh>,
}

const TALLY_EVERY: Duration = Duration::from_secs(1);

/// Builds the gateway and starts its backends, each on the runtime that `home` chooses.
pub(crate) fn build(
    config: &Config,
    home: impl Fn(usize) -> Handle + Send + Sync + 'static,
    audit: &Audit,
) -> anyhow::Result<Arc<Running>> {
    build_with(config, home, audit, false)
}

/// Like `start`; `keep_running` starts lazy backends at once and stops none for idleness.
pub(crate) fn build_with(
    config: &Config,
    home: impl Fn(usize) -> Handle + Send + Sync + 'static,
    audit: &Audit,
    keep_running: bool,
) -> anyhow::Result<Arc<Running>> {
    let enabled = enabled(config);
    let reviews = reviews(config, audit.db.clone());
    let mut listings: Vec<Listing> = enabled.iter().map(|backend| listing(backend)).collect();
    // Built-in tools come last, so that a configured backend wins a name conflict.
    listings.extend(
        reviews
            .iter()
            .map(|_| Listing::new(sentinel_review::tools::NAME)),
    );
    // Catalogs and run files are stored there too; those writers report their own errors.
    let _ = data_dir::make(&config.gateway.data_dir);
    let registry = Registry::with_pins(listings, Pins::open(pin_file(&config.gateway.data_dir)));
    registry.set_first_answer_wait(config.gateway.first_list_timeout);
    let places = OfferFiles::default();
    for (index, backend) in enabled.iter().enumerate() {
        let publisher = registry.publisher(index);
        let place = place(config, backend);
        if let Some(offer) = place.load() {
            publisher.remember(offer);
        }
        let running = start(
            backend,
            config,
            publisher.clone(),
            &home(index),
            keep_running,
        )?;
        registry.attach(index, running);
        places.put(RememberedBackend::new(publisher, place));
    }
    if let Some(service) = &reviews {
        attach_reviews(
            &registry,
            enabled.len(),
            service.clone(),
            &home(enabled.len()),
            config.review.alone,
        );
    }
    let handle = home(0);
    let policy = Policy::new(
        registry.clone(),
        governing::settings(config, &enabled, &handle)?,
    );
    handle.spawn(watch_files(policy.clone()));
    watch_kill_file(&config.gateway.data_dir, &policy);
    audit.auditor.governed_by(governing::version(config));
    let gateway = Gateway::new(policy, limits(config), audit.auditor.clone());
    if let Some(service) = reviews.clone() {
        let gateway = gateway.clone();
        handle.spawn(async move {
            gateway.drained().await;
            service.end_waits();
        });
    }
    handle.spawn(tally(audit.auditor.clone()));
    handle.spawn(registry.clone().end_cold_start());
    handle.spawn(places.clone().keep_writing(registry));
    handle.spawn(sweep(gateway.clone()));
    Ok(Arc::new(Running {
        gateway,
        home: Arc::new(home),
        places,
        first: config.clone(),
        current: Mutex::new(config.clone()),
        entrance: Mutex::default(),
        stopped: Mutex::default(),
        records: audit.db.as_ref().map(Database::records),
        reviews,
    }))
}

impl Running {
    /// The HTTP server for callers, who reach it at these addresses.
    pub(crate) fn http_server(
        &self,
        addresses: Vec<SocketAddr>,
        scrape: Scrape,
    ) -> anyhow::Result<Arc<HttpServer>> {
        let config = &self.first;
        let guard = identity::access(config, &(self.home)(0))?;
        let allowed = allowed(config, &addresses);
        let gateway = self.gateway.clone();
        let server = HttpServer::new(gateway, allowed, mounts(config), guard.access, scrape);
        *self.entrance.lock() = Some(Entrance {
            server: server.clone(),
            addresses,
            _keeping: guard.keeping,
        });
        Ok(server)
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> Config {
        self.current.lock().clone()
    }
}

fn mounts(config: &Config) -> Mounts {
    let surfaces = &config.surfaces;
    let at = |is_on: bool, path: &String| is_on.then(|| path.clone());
    Mounts {
        mcp: at(surfaces.mcp, &surfaces.mcp_path),
        rest: at(surfaces.rest, &surfaces.rest_path),
        rpc: at(surfaces.rpc, &surfaces.rpc_path),
        documents: surfaces.documents,
        explorer: surfaces.explorer,
        admin: surfaces.admin,
        console: surfaces.console && config.console.enabled,
        tells_time: surfaces.server_timing,
    }
}

/// What a listener serves; `None`: everything.
pub(crate) fn serving(listener: &config::Listener) -> Option<Serving> {
    if !listener.backend.is_empty() {
        return Some(Serving::Backend(listener.backend.clone()));
    }
    let names = listener.surfaces.iter().map(|name| match name {
        config::SurfaceName::Mcp => SurfaceName::Mcp,
        config::SurfaceName::Rest => SurfaceName::Rest,
        config::SurfaceName::Rpc => SurfaceName::Rpc,
        config::SurfaceName::Admin => SurfaceName::Admin,
        config::SurfaceName::Console => SurfaceName::Console,
    });
    let names: Vec<SurfaceName> = names.collect();
    (!names.is_empty()).then_some(Serving::Surfaces(names))
}

fn allowed(config: &Config, addresses: &[SocketAddr]) -> Allowed {
    let gateway = &config.gateway;
    let hosts = gateway.allowed_hosts.iter().cloned();
    let addresses = addresses.iter().map(SocketAddr::to_string);
    Allowed {
        hosts: hosts.chain(addresses).collect(),
        origins: gateway.allowed_origins.clone(),
    }
}

fn enabled(config: &Config) -> Vec<&config::Backend> {
    config.backends.iter().filter(|b| b.enabled).collect()
}

fn place(config: &Config, backend: &config::Backend) -> OfferFile {
    OfferFile::new(&config.gateway.data_dir, &backend.name, source(backend))
}

/// The review broker, if enabled and its store opens. Without its store the gateway still serves backends; `review
/// serve` checks the store itself first and fails.
fn reviews(config: &Config, db: Option<Database>) -> Option<Arc<Service>> {
    if !config.review.enabled {
        return None;
    }
    match db.map_or_else(|| Database::open(config), Ok) {
        Ok(db) => Some(reviews_in(config, db.reviews())),
        Err(error) => {
            tracing::error!("no review tools: {error:#}");
            None
        }
    }
}

fn reviews_in(config: &Config, store: Arc<dyn ReviewStore>) -> Arc<Service> {
    Service::new(store, review_settings(config))
}

fn review_settings(config: &Config) -> Settings {
    Settings {
        claim_timeout: config.review.claim_timeout,
        extended_tools: config.review.extended_tools,
        enforce_roles: config.review.enforce_roles,
    }
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
    let publisher = registry.publisher(index);
    publisher.publish(offer);
    service.publish_to(publisher);
    registry.attach(index, Arc::new(backend));
    home.spawn(service.run());
}

/// Stops every backend; children get time to end.
pub(crate) async fn stop(gateway: &Gateway) {
    let running = gateway.registry.backends().into_iter();
    join_all(running.map(|(_, backend)| backend.stop())).await;
    gateway.registry.keep_pins();
}

/// The file of pins in a data directory.
pub(crate) fn pin_file(data_dir: &Path) -> PathBuf {
    data_dir.join("pins.json")
}

/// Loads kills and approvals of other gateways of the data directory, and saves new pins.
async fn watch_files(policy: Arc<Policy>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let policy = policy.clone();
        let look = move || {
            policy.look_at_kills();
            policy.registry().keep_pins();
        };
        let _ = tokio::task::spawn_blocking(look).await;
    }
}

/// The same immediately, where the kernel reports changes.
fn watch_kill_file(data_dir: &Path, policy: &Arc<Policy>) {
    // A dropped receiver needs no event.
    let policy = Arc::downgrade(policy);
    let act = move || {
        let Some(policy) = policy.upgrade() else {
            return false;
        };
        policy.look_at_kills();
        true
    };
    if let Err(error) = file_watch::watch(data_dir, &[governing::KILL_FILE], act) {
        tracing::debug!("what other gateways switch off is seen within {LOOK:?}: {error}");
    }
}

/// Records rejections every second.
async fn tally(auditor: Arc<Auditor>) {
    loop {
        tokio::time::sleep(TALLY_EVERY).await;
        auditor.sweep();
    }
}

async fn sweep(gateway: Arc<Gateway>) {
    loop {
        let pause = SWEEP_MAX.min(gateway.limits().park_ttl);
        tokio::time::sleep(pause).await;
        gateway.sweep();
        child::reap_unknown_children();
    }
}

fn limits(config: &Config) -> Limits {
    let limits = &config.limits;
    Limits {
        body_bytes_max: limits.body_mb.bytes() as usize,
        head_bytes_max: limits.header_kb.bytes() as usize,
        head_fields_max: limits.header_fields as usize,
        pace: Pace {
            first_byte: limits.first_byte_timeout,
            head: limits.head_timeout,
            body_bytes_per_s_min: limits.body_min_kb_per_s.bytes(),
        },
        line_bytes_max: limits.line_mb.bytes() as usize,
        json_depth_max: limits.json_depth,
        sessions_max: limits.sessions as usize,
        session_idle: limits.session_idle,
        streams_max: limits.streams as usize,
        streams_per_caller_max: limits.streams_per_caller as usize,
        stream_bytes_max: limits.stream_buffer_kb.bytes() as usize,
        park_ttl: limits.park_ttl,
        replays: Replayable {
            keys_max: limits.idempotency_keys as usize,
            bytes_max: limits.idempotency_mb.bytes() as usize,
            ttl: limits.idempotency_ttl,
        },
        console_session: config.console.session_ttl,
    }
}

/// How a backend's operations enter the catalog.
pub(crate) fn listing(backend: &config::Backend) -> Listing {
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
        pin: match backend.pin {
            config::Pin::Off => Pinning::Off,
            config::Pin::Warn => Pinning::Warn,
            config::Pin::Enforce => Pinning::Enforce,
        },
        checks_outputs: backend.check_outputs,
        defers: false,
        circuit: circuit::Config {
            threshold: backend.circuit_breaker.threshold,
            recovery: backend.circuit_breaker.recovery,
        },
    }
}

/// The backend's target without secrets; identifies a remembered catalog.
fn source(backend: &config::Backend) -> String {
    serde_json::to_string(&backend.kind).unwrap_or_default()
}

/// Starts a backend by its kind.
fn start(
    backend: &config::Backend,
    config: &Config,
    publisher: Publisher,
    home: &Handle,
    keep_running: bool,
) -> anyhow::Result<Arc<dyn Backend>> {
    let kind = kind_of(&backend.kind);
    let (name, target) = (&backend.name, kind.target());
    tracing::debug!(backend = name, "{} {target}", kind.type_name());
    Ok(kind.start(Context {
        name: name.clone(),
        publisher,
        runtime: home.clone(),
        timeout: backend.timeout,
        health_interval: backend.health_interval,
        unhealthy_after: backend.unhealthy_after,
        idempotent_tools: backend.idempotent_tools.clone(),
        limits: MessageLimits {
            line: config.limits.line_mb.bytes() as usize,
            reply: config.limits.reply_mb.bytes() as usize,
            event: config.limits.event_mb.bytes() as usize,
        },
        keep_running,
    })?)
}
