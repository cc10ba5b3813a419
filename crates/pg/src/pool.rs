//! The pool: a semaphore, a stack of idle connections, and who ends which connection.
//!
//! The pool is our own because the moment at which a connection ends matters: after an error, a
//! time-out or a cancelled call nothing of it may reach the next one. What a transaction left in its session, locks above all, is
//! removed once the session is unused for a moment, so that no call pays for it (`clean_unused`).

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{AsyncMessage, Client, Config};

use crate::error::{BoxError, PgError};
use crate::session::Session;
use crate::tls::Tls;
use crate::url::{self, BadUrl};

/// Connections are replaced at this age, so that a failover or a changed role is noticed.
const AGE_MAX: Duration = Duration::from_secs(600);
/// How long a cancel request may take before the connection is dropped without it.
const CANCEL_MAX: Duration = Duration::from_secs(1);
/// Longer than the pauses of a caller that is busy.
const CLEAN_AFTER: Duration = Duration::from_millis(200);
/// How long cleaning may take before the connection is dropped. It takes a place of the pool.
const CLEAN_MAX: Duration = Duration::from_secs(1);

/// Prepares a new connection, for example with settings or migrations; an error closes it.
pub type OnConnect =
    Arc<dyn for<'a> Fn(&'a mut Client) -> BoxFuture<'a, Result<(), BoxError>> + Send + Sync>;

#[derive(Clone)]
pub struct PoolOptions {
    config: Config,
    tls: Tls,
    pub max_connections: usize,
    /// Bounds connecting, `on_connect` included.
    pub connect_timeout: Duration,
    /// Bounds one `Pool::run`; the query is cancelled on the server afterwards.
    pub answer_timeout: Duration,
    pub on_connect: Option<OnConnect>,
    /// A session that no call used for so long is cleaned of what its transactions left.
    pub clean_after: Duration,
}

impl PoolOptions {
    /// Reads a URL or a key-value connection string.
    pub fn new(url: &str) -> Result<Self, BadUrl> {
        let (config, tls) = url::parse(url)?;
        Ok(Self {
            config,
            tls,
            max_connections: 10,
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(10),
            on_connect: None,
            clean_after: CLEAN_AFTER,
        })
    }

    /// Sets a server parameter for every connection, such as `statement_timeout`. It is part of the
    /// start-up message and costs no round trip.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        let set = format!(
            "-c {name}={}",
            value.replace('\\', r"\\").replace(' ', r"\ ")
        );
        let options = match self.config.get_options() {
            Some(others) => format!("{others} {set}"),
            None => set,
        };
        self.config.options(options);
        self
    }

    /// Connects to nothing yet. All connections live on the current runtime, whichever runtime uses
    /// them.
    pub fn build(self) -> Pool {
        Pool {
            shared: Arc::new(Shared {
                home: Handle::current(),
                permits: Arc::new(Semaphore::new(self.max_connections.max(1))),
                idle: Mutex::default(),
                options: self,
            }),
        }
    }
}

/// A handle on the pool; cheap to clone. All clones share the connections.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    options: PoolOptions,
    home: Handle,
    permits: Arc<Semaphore>,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// Last in, first out: connections beyond the present load age and are closed.
    connections: Vec<Connection>,
    /// `clean_unused` runs.
    is_cleaned: bool,
}

struct Connection {
    session: Session,
    since: Instant,
    used: Instant,
}

impl Connection {
    fn is_usable(&self) -> bool {
        self.session.is_usable() && self.since.elapsed() < AGE_MAX
    }

    fn is_to_be_cleaned(&self, after: Duration) -> bool {
        self.session.has_owner() && self.used.elapsed() >= after
    }
}

impl Pool {
    /// Lends a connection to `work`. It returns to the pool whatever `work` returned; a transaction
    /// that `work` left open would go with it, so use `Session::transaction`.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&mut Session) -> T) -> Result<T, PgError> {
        let limit = self.shared.options.answer_timeout;
        let mut lent = self.lend().await?;
        let done = timeout(limit, work(lent.session()?)).await;
        let done = done.map_err(|_| PgError::AnswerTimeout)?;
        lent.give_back();
        Ok(done)
    }

    /// The same for answers that are taken piece by piece: `answer_timeout` bounds the wait for a connection only, and `work` bounds
    /// itself.
    pub async fn run_unbounded<T>(
        &self,
        work: impl AsyncFnOnce(&mut Session) -> T,
    ) -> Result<T, PgError> {
        let lent = timeout(self.shared.options.answer_timeout, self.lend()).await;
        let mut lent = lent.map_err(|_| PgError::AnswerTimeout)??;
        let done = work(lent.session()?).await;
        lent.give_back();
        Ok(done)
    }

    async fn lend(&self) -> Result<Lent<'_>, PgError> {
        let shared = &self.shared;
        let permit = shared.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|_| PgError::Closed)?;
        let connection = shared.connection().await?;
        Ok(Lent {
            shared,
            connection: Some(connection),
            permit: Some(permit),
        })
    }
}

impl PoolOptions {
    /// Hears notifications on a channel over a connection of its own, until that ends. `on_notice` is called once the
    /// connection listens, and then for each notification.
    pub async fn listen(&self, channel: &str, on_notice: impl Fn()) -> Result<(), PgError> {
        let connecting = timeout(self.connect_timeout, self.config.connect(self.tls.clone()));
        let (client, mut connection) = connecting
            .await
            .map_err(|_| PgError::ConnectTimeout)?
            .map_err(PgError::Connect)?;
        let command = format!("LISTEN \"{}\"", channel.replace('"', "\"\""));
        let mut listening = std::pin::pin!(client.batch_execute(&command));
        let mut is_listening = false;
        loop {
            tokio::select! {
                done = &mut listening, if !is_listening => {
                    done?;
                    is_listening = true;
                    on_notice();
                }
                message = poll_fn(|cx| connection.poll_message(cx)) => match message {
                    Some(Ok(AsyncMessage::Notification(_))) => on_notice(),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error.into()),
                    None => return Err(PgError::Closed),
                },
            }
        }
    }
}

impl Shared {
    async fn connection(self: &Arc<Self>) -> Result<Connection, PgError> {
        loop {
            let idle = self.idle.lock().connections.pop();
            match idle {
                Some(connection) if connection.is_usable() => return Ok(connection),
                Some(_) => {}
                None => break,
            }
        }
        let connecting = timeout(self.options.connect_timeout, self.clone().connect());
        let connected = self.home.spawn(connecting).await;
        let connected = connected.map_err(|_| PgError::Closed)?;
        connected.map_err(|_| PgError::ConnectTimeout)?
    }

    async fn connect(self: Arc<Self>) -> Result<Connection, PgError> {
        let PoolOptions { config, tls, .. } = &self.options;
        let (mut client, connection) = config
            .connect(tls.clone())
            .await
            .map_err(PgError::Connect)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("the connection to PostgreSQL ended: {error}");
            }
        });
        if let Some(on_connect) = &self.options.on_connect {
            on_connect(&mut client).await.map_err(PgError::Setup)?;
        }
        Ok(Connection {
            session: Session::new(client).await,
            since: Instant::now(),
            used: Instant::now(),
        })
    }

    fn give_back(self: &Arc<Self>, connection: Connection) {
        let has_owner = connection.session.has_owner();
        let mut idle = self.idle.lock();
        idle.connections.push(connection);
        if has_owner && !idle.is_cleaned {
            idle.is_cleaned = true;
            let after = self.options.clean_after;
            self.home.spawn(clean_unused(Arc::downgrade(self), after));
        }
    }

    /// A connection that is to be cleaned, and a place for it. `None` if there is none, or if calls need all places.
    fn unused(&self) -> Option<(Connection, OwnedSemaphorePermit)> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        let connections = &mut self.idle.lock().connections;
        let after = self.options.clean_after;
        let mut those = connections.iter();
        let at = those.position(|one| one.is_to_be_cleaned(after))?;
        Some((connections.remove(at), permit))
    }

    /// Whether a session will have to be cleaned, unless a call takes it first.
    fn goes_on_cleaning(&self) -> bool {
        let mut idle = self.idle.lock();
        let mut sessions = idle.connections.iter().map(|one| &one.session);
        idle.is_cleaned = sessions.any(Session::has_owner);
        idle.is_cleaned
    }
}

/// Cleans sessions that no call uses, until there is none to be cleaned.
async fn clean_unused(pool: Weak<Shared>, after: Duration) {
    loop {
        sleep(after).await;
        let Some(shared) = pool.upgrade() else {
            return;
        };
        while let Some((mut connection, _permit)) = shared.unused() {
            // Otherwise it is dropped, and its session ends.
            if let Ok(Ok(())) = timeout(CLEAN_MAX, connection.session.clean()).await {
                // Below those that are in use.
                shared.idle.lock().connections.insert(0, connection);
            }
        }
        if !shared.goes_on_cleaning() {
            return;
        }
    }
}

/// A connection in use. Dropped before `give_back`, it cancels its query and closes the connection.
struct Lent<'a> {
    shared: &'a Arc<Shared>,
    connection: Option<Connection>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Lent<'_> {
    fn session(&mut self) -> Result<&mut Session, PgError> {
        let connection = self.connection.as_mut().ok_or(PgError::Closed)?;
        Ok(&mut connection.session)
    }

    fn give_back(&mut self) {
        // One that cannot be used again is left for `drop`.
        let connection = self.connection.take_if(|connection| connection.is_usable());
        if let Some(mut connection) = connection {
            connection.used = Instant::now();
            self.shared.give_back(connection);
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        if connection.session.client().is_closed() {
            return;
        }
        let (tls, permit) = (self.shared.options.tls.clone(), self.permit.take());
        self.shared.home.spawn(async move {
            let query = connection.session.client().cancel_token();
            if !matches!(
                timeout(CANCEL_MAX, query.cancel_query(tls)).await,
                Ok(Ok(()))
            ) {
                tracing::debug!("a query of PostgreSQL could not be cancelled");
            }
            drop((connection, permit));
        });
    }
}
