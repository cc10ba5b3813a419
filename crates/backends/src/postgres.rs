//! Functions of a PostgreSQL database as tools, resources, prompts and routes.
//!
//! `PostgresBackend` is what the core calls. Its `run` reads the catalog of functions, publishes it, and reads it again when the
//! database says so (`NOTIFY sentinel_catalog`) and from time to time, until `stop`. Calls go on meanwhile. Each call is one
//! transaction in one round trip; dropping it cancels the statement on the server.
//!
//! The parts: `functions`, `tables` and `registry` read what the database declares and make the statement of each call
//! (`operation::Execute`), `settings` says who calls, `database` runs transactions, on a `standby` where they only read, `failure` says what
//! went wrong.
//!
//! Not here: connections, TLS and pooling (`sentinel_pg`), policy, limits and records of calls (`core`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sentinel_config::{Expose, Registry, Token};
use sentinel_core::catalog::{Change, Publisher};
use sentinel_core::{
    Backend, Call, Description, Fault, Kind, Offer, Refusals, Reply, Side, Status,
};
use sentinel_pg::{PgError, Pool, PoolOptions, Session};
use sentinel_wire::{Method, Revision};
use tokio::sync::Notify;
use tokio::time::Instant;

mod catalog;
mod check;
mod database;
mod failure;
mod functions;
pub mod fuzzing;
mod kind;
mod mode;
mod operation;
mod path;
mod registry;
mod served;
mod settings;
mod setup;
mod standby;
mod tables;

use catalog::{Catalog, offer, serve};
use database::Database;
use failure::Failure;
use operation::{Found, Site};
use settings::Fixed;

pub use check::{Exposed, Finding, Hints, InspectError, Report, inspect};
pub use setup::{Applied, Login, SetupError, apply};

use crate::causes::with_causes;
use crate::loaded::Loaded;

/// The `type` of these backends in the configuration.
pub const TYPE: &str = "postgres";

/// Notifications on this channel mean that functions have changed.
const CHANNEL: &str = "sentinel_catalog";
/// Notifications that come within this time are one.
const SETTLE: Duration = Duration::from_millis(50);
/// The pause behind a reading is at least this many times its duration, however many notifications come.
const PAUSE_FACTOR: u32 = 4;
/// First and longest pause between attempts to read a catalog that cannot be read, and to listen.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// The value that sessions begin with, whatever a function set it to.
const SEARCH_PATH: &str = "SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'search_path'";

/// What the settings come to.
struct Config {
    name: String,
    /// The database as operators may see it.
    target: String,
    schema: String,
    expose: Expose,
    /// Patterns of tables and views.
    select: Vec<String>,
    registry: Registry,
    /// The first part of `x-user-id`; empty: the issuer of the caller's token.
    provider: String,
    /// As SET ROLE takes it.
    role: String,
    token: Token,
    statement_timeout: Duration,
    lock_timeout: Duration,
    /// Connections that one operation may hold.
    per_operation: usize,
    rows_max: usize,
    reply_bytes_max: usize,
    timeout: Duration,
    /// Zero: only when the database says so.
    refresh: Duration,
    unhealthy_after: u32,
}

struct Inner {
    config: Config,
    database: Database,
    /// A connection for the catalog, which must be read also while calls hold all others.
    reader: Pool,
    listening: PoolOptions,
    publisher: Publisher,
    loaded: Loaded<Catalog>,
    /// A reading holds the lock, so readings happen one at a time.
    offered: tokio::sync::Mutex<Offered>,
    changed: Notify,
}

/// What the last reading came to.
#[derive(Default)]
struct Offered {
    offer: Option<Offer>,
    /// What it is made of, as `Found` has it: this stays, where there is more than can be offered.
    sources: Vec<String>,
}

/// Why the catalog was not read.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("the catalog of functions cannot be read")]
    Database(#[from] PgError),
    #[error("the catalog of functions was not read within {0:?}")]
    TimedOut(Duration),
}

#[derive(Clone)]
pub(crate) struct PostgresBackend(Arc<Inner>);

impl PostgresBackend {
    fn new(
        config: Config,
        database: Database,
        listening: PoolOptions,
        publisher: Publisher,
    ) -> Self {
        let mut reader = listening.clone();
        reader.max_connections = 1;
        Self(Arc::new(Inner {
            config,
            database,
            reader: reader.build(),
            listening,
            publisher,
            loaded: Loaded::starting(),
            offered: tokio::sync::Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Keeps the catalog fresh. Ends after `stop`.
    async fn run(self) {
        let inner = &*self.0;
        tokio::select! {
            () = inner.loaded.stopped() => {}
            () = inner.keep() => {}
            () = inner.listen() => {}
            () = inner.database.watch() => {}
        }
    }
}

impl Inner {
    async fn keep(&self) {
        let mut pause = RETRY_MIN;
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let loaded = self.load().await;
            let settle = (began.elapsed() * PAUSE_FACTOR).max(SETTLE);
            let wait = match loaded {
                Ok(()) => {
                    (failures, pause) = (0, RETRY_MIN);
                    self.config.refresh
                }
                Err(error) => {
                    failures += 1;
                    self.failed(&error, failures);
                    let now = pause;
                    pause = (pause * 2).min(RETRY_MAX);
                    now
                }
            };
            let changed = self.changed.notified();
            match wait.is_zero() {
                true => changed.await,
                false => drop(tokio::time::timeout(wait, changed).await),
            }
            tokio::time::sleep(settle).await;
        }
    }

    /// Wakes `keep` when the database says that functions have changed. A new connection counts as a change, because notifications
    /// may have been missed before, and so does the end of one, because the database may be gone.
    async fn listen(&self) {
        let mut pause = RETRY_MIN;
        loop {
            let began = Instant::now();
            let was_listening = AtomicBool::new(false);
            let on_notice = || {
                was_listening.store(true, Ordering::Relaxed);
                self.changed.notify_one();
            };
            if let Err(error) = self.listening.listen(CHANNEL, on_notice).await {
                let why = with_causes(&error);
                tracing::debug!(backend = %self.config.name, "no notifications: {why}");
            }
            if was_listening.into_inner() {
                self.changed.notify_one();
            }
            if began.elapsed() > RETRY_MAX {
                pause = RETRY_MIN;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
    }

    /// Reads the catalog and puts it in force if it changed.
    async fn load(&self) -> Result<(), LoadError> {
        let config = &self.config;
        let mut offered = self.offered.lock().await;
        let read = async |session: &mut Session| {
            let found = read(session, config, &offered.sources).await?;
            let row = session.client().query_one(SEARCH_PATH, &[]).await?;
            Ok::<_, PgError>((found, row.get::<_, Option<String>>(0)))
        };
        let reading = tokio::time::timeout(config.timeout, self.reader.run(read));
        let reading = reading
            .await
            .map_err(|_| LoadError::TimedOut(config.timeout))?;
        let (mut found, search_path) = reading??;
        offered.sources = std::mem::take(&mut found.sources);
        let (served, notices) = serve(found, config.per_operation);
        let offer = offer(&served);
        let fixed = Fixed {
            role: config.role.clone(),
            search_path: search_path.unwrap_or_default(),
            lock_timeout_ms: config.lock_timeout.as_millis().to_string(),
            token: config.token,
        };
        let is_new = offered.offer.as_ref() != Some(&offer);
        let before = self.loaded.set_notices(notices.clone());
        for notice in notices.iter().filter(|notice| !before.contains(notice)) {
            tracing::warn!(backend = %config.name, "{notice}");
        }
        // The catalog is what calls run by, so it is replaced even if the definitions are the same.
        let catalog = Catalog::of(served, fixed);
        if is_new {
            tracing::info!(backend = %config.name, operations = catalog.operations.len(), "the catalog of functions was read");
            // Before calls may go by it: the gateway's catalog holds back what must be approved first.
            match offered.offer.is_some() {
                true => self.publisher.publish_changed(offer.clone(), &Change::ALL),
                false => self.publisher.publish(offer.clone()),
            }
            offered.offer = Some(offer);
        } else {
            self.publisher.restore();
        }
        self.loaded.replace(Arc::new(catalog));
        self.loaded.note_up(None);
        Ok(())
    }

    fn failed(&self, error: &LoadError, failures: u32) {
        let problem = with_causes(error);
        tracing::warn!(backend = %self.config.name, "{problem}");
        let is_down = failures >= self.config.unhealthy_after;
        self.loaded.note_failure(problem, is_down);
        self.loaded.give_up_starting();
        match is_down {
            true => self.publisher.withdraw(),
            false => self.publisher.tried(),
        }
    }

    /// The catalog, waiting while it is read for the first time.
    async fn ready(&self) -> Result<Arc<Catalog>, Fault> {
        self.loaded.ready().await.ok_or_else(|| {
            let text = format!(
                "the database of backend `{}` cannot be reached",
                self.config.name
            );
            Fault::new(Kind::BackendUnavailable, text).retry_after_ms(1000)
        })
    }

    async fn call(&self, call: &Call) -> Result<Reply, Fault> {
        // The statement of a call whose rows leave one by one has no deadline as a whole, so each wait before it has one.
        let catalog = self.in_time(self.ready()).await??;
        let (served, arguments) = catalog.find(call)?;
        if served.declared.needs_identity && call.caller.account.is_none() {
            return Err(needs_identity().not_run());
        }
        // The functions may have changed since the call was resolved.
        self.publisher
            .confirm(call)
            .map_err(|held| call.turned_back(held))?;
        let site = Site {
            database: &self.database,
            config: &self.config,
            fixed: &catalog.fixed,
            changed: &self.changed,
            call,
            arguments: &arguments,
        };
        let _permit = self.in_time(served.permit()).await?;
        let outcome = served.declared.execute.run(site).await;
        outcome
            .map_err(|failure| self.fault(call, failure))
            .or_else(|fault| tool_error(call, fault))
    }

    /// The fault of a failed call. What the database said goes to the log, under the reference that the caller gets.
    fn fault(&self, call: &Call, failure: Failure) -> Fault {
        let mut fault = failure.into_fault(&self.config.name);
        let Some(cause) = std::error::Error::source(&fault) else {
            return fault;
        };
        let reference = call.round.call;
        let operation = &call
            .target
            .as_ref()
            .map_or("", |target| &target.operation.own);
        let cause = with_causes(cause);
        let backend = &self.config.name;
        match fault.side() {
            // Ordinary answers of functions, such as PT404.
            Side::Caller => {
                tracing::info!(%backend, operation, %reference, "{fault}: {cause}");
            }
            _ => tracing::warn!(%backend, operation, %reference, "{fault}: {cause}"),
        }
        let refused = format!(r#""reference":"{reference}""#);
        fault.data = Some(refused);
        fault.without_source()
    }

    async fn in_time<T>(&self, waiting: impl Future<Output = T>) -> Result<T, Fault> {
        let timed = tokio::time::timeout(self.config.timeout, waiting).await;
        timed.map_err(|_| self.timed_out())
    }

    fn timed_out(&self) -> Fault {
        let text = format!("backend `{}` did not answer in time", self.config.name);
        Fault::new(Kind::BackendTimeout, text)
    }
}

/// The operation is for callers with a credential.
fn needs_identity() -> Fault {
    let text = "authentication required: this operation is for known callers";
    Fault::new(Kind::Unauthorized, text)
}

/// A failure that a model shall read is a result, on surfaces where models call.
fn tool_error(call: &Call, fault: Fault) -> Result<Reply, Fault> {
    let is_for_models = call.method == Method::ToolsCall && call.refusals == Refusals::ByRevision;
    let is_of_gateway = matches!(
        fault.kind,
        Kind::Unauthorized | Kind::BackendUnavailable | Kind::BackendTimeout | Kind::Cancelled
    );
    if !is_for_models || is_of_gateway {
        return Err(fault);
    }
    let mut text = format!("Tool execution failed: {fault}");
    if fault.data.is_some() {
        text.push_str(&format!(" (reference {})", call.round.call));
    }
    Ok(Reply::tool_error(&text, Revision::NEWEST))
}

/// Everything that the database declares at one moment: functions and their types may come and go meanwhile. `offered` is what the
/// offer so far is made of.
async fn read(
    session: &mut Session,
    config: &Config,
    offered: &[String],
) -> Result<Found, PgError> {
    session
        .batch("BEGIN ISOLATION LEVEL REPEATABLE READ")
        .await?;
    let found = read_all(session, config, offered).await;
    let end = if found.is_ok() { "COMMIT" } else { "ROLLBACK" };
    if session.batch(end).await.is_err() {
        session.retire();
    }
    found
}

async fn read_all(
    session: &mut Session,
    config: &Config,
    offered: &[String],
) -> Result<Found, PgError> {
    let mut found = registry::read(session, config, offered).await?;
    found.extend(functions::read(session, config, offered).await?);
    found.extend(tables::read(session, config, offered).await?);
    Ok(found)
}

impl Backend for PostgresBackend {
    fn name(&self) -> &str {
        &self.0.config.name
    }

    fn describe(&self) -> Description {
        Description {
            kind: TYPE,
            target: self.0.config.target.clone(),
        }
    }

    fn call(&self, call: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        let inner = self.0.clone();
        Box::pin(async move {
            // Rows that leave one by one have time limits of their own.
            if call.extra.rows.is_some() {
                return inner.call(&call).await;
            }
            inner.in_time(inner.call(&call)).await?
        })
    }

    fn look(&self) -> BoxFuture<'static, Result<(), Fault>> {
        let inner = self.0.clone();
        Box::pin(async move {
            inner.load().await.map_err(|error| {
                let text = format!(
                    "the database of backend `{}` cannot be read",
                    inner.config.name
                );
                Fault::new(Kind::BackendUnavailable, text).because(error)
            })
        })
    }

    fn restart(&self) -> BoxFuture<'static, Result<(), Fault>> {
        self.look()
    }

    fn status(&self) -> Status {
        self.0.loaded.status()
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        self.0.loaded.stop();
        Box::pin(std::future::ready(()))
    }
}
