//! PostgreSQL as a store: a few connections, made when they are needed.
//!
//! `Postgres` knows where the server is and how many connections it may hold; `with` lends one. A
//! connection that ended, took too long or grew old is dropped, and the next call makes another: whoever
//! needs its work done tries again. Each new connection brings every component's tables up to date
//! first, so a gateway may start before its database does.
//!
//! A process opens a database once and shares the handle: `max_connections` is then what it says. All
//! connections live on the runtime that made the handle, so that one which ingestion opened on its thread,
//! which yields to others, is as quick for a review.
//!
//! A closure that wants a transaction begins it with `Client::transaction`, which rolls back when it is
//! dropped: the connection goes back to the others afterwards, whatever the closure returned. `read` and
//! `write` are for work that is many statements: a `Session` remembers those it prepared.
//!
//! Not here: the SQL of records and reviews (`audit`, `review`), the PostgreSQL *backend*
//! (`sentinel_backends`).

mod migrate;
pub(crate) mod tls;
mod url;

#[cfg(test)]
pub(crate) mod cluster;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row, Statement};

use crate::Migrations;
use crate::error::StoreError;
use tls::Tls;
pub use url::BadUrl;

/// A server that does not answer by then is treated as gone.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// After this a connection is made anew, so that a server that moved or changed its role is noticed.
const AGE_MAX: Duration = Duration::from_secs(600);

pub type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A handle on the database; cheap to clone. All clones share the connections.
#[derive(Clone)]
pub struct Postgres {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    tls: Tls,
    migrations: Vec<Migrations>,
    home: Handle,
    permits: Semaphore,
    /// The one used last is used next; the others grow old and go.
    idle: Mutex<Vec<Connected>>,
}

struct Connected {
    session: Session,
    since: Instant,
}

/// One connection, with the statements it knows.
pub struct Session {
    client: Client,
    /// Bounded by the queries in our code: none is put together from what callers send.
    statements: HashMap<String, Statement>,
}

impl Connected {
    fn is_good(&self) -> bool {
        !self.session.client.is_closed() && self.since.elapsed() < AGE_MAX
    }
}

impl Postgres {
    /// Reads the URL and connects to nothing yet. `migrations` are those of everybody who will use
    /// this handle or a clone of it. Called within the runtime that drives the connections.
    pub fn new(
        url: &str,
        max_connections: usize,
        migrations: &[Migrations],
    ) -> Result<Self, BadUrl> {
        let (config, tls) = url::read(url)?;
        Ok(Self {
            inner: Arc::new(Inner {
                config,
                tls,
                migrations: migrations.to_vec(),
                home: Handle::current(),
                permits: Semaphore::new(max_connections.max(1)),
                idle: Mutex::default(),
            }),
        })
    }

    /// Whether `new` would take this URL.
    pub fn check(url: &str) -> Result<(), BadUrl> {
        url::read(url).map(drop)
    }

    /// Lends a connection to `work`, for as long as a server may take to answer.
    pub async fn with<T, E>(
        &self,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<StoreError>,
    {
        self.lend(async |session: &mut Session| work(&mut session.client).await)
            .await
    }

    /// Runs `work` on a connection, each statement by itself.
    pub async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        E: From<StoreError>,
        F: for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<T, E>>,
    {
        self.lend(async |session: &mut Session| work(session).await)
            .await
    }

    /// Runs `work` in a transaction and returns once it is committed. An error of `work` rolls back
    /// what it did.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        E: From<StoreError>,
        F: for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<T, E>>,
    {
        self.lend(async |session: &mut Session| {
            session.batch("BEGIN").await?;
            let outcome = work(session).await;
            let ended = match &outcome {
                Ok(_) => session.batch("COMMIT").await,
                Err(_) => session.batch("ROLLBACK").await,
            };
            // Its own error says more than a rollback that failed after it.
            match (outcome, ended) {
                (Ok(_), Err(error)) => Err(error.into()),
                (outcome, _) => outcome,
            }
        })
        .await
    }

    async fn lend<T, E>(&self, work: impl AsyncFnOnce(&mut Session) -> Result<T, E>) -> Result<T, E>
    where
        E: From<StoreError>,
    {
        let inner = &self.inner;
        let Ok(_permit) = inner.permits.acquire().await else {
            return Err(StoreError::Closed.into());
        };
        // Held by this future while it works: whoever drops it, or takes too long, drops the connection.
        let mut connected = inner.connected().await?;
        let done = timeout(ANSWER_MAX, work(&mut connected.session))
            .await
            .map_err(|_| StoreError::Unavailable("PostgreSQL did not answer in time".to_owned()))?;
        if connected.is_good() {
            inner.idle.lock().push(connected);
        }
        done
    }
}

impl Inner {
    async fn connected(self: &Arc<Self>) -> Result<Connected, StoreError> {
        loop {
            let idle = self.idle.lock().pop();
            match idle {
                Some(connected) if connected.is_good() => return Ok(connected),
                Some(_) => {}
                None => break,
            }
        }
        let late = |_| StoreError::Unavailable("connecting to PostgreSQL took too long".to_owned());
        let connecting = timeout(CONNECT_MAX, self.clone().connect());
        let connected = self.home.spawn(connecting).await;
        connected.map_err(|_| StoreError::Closed)?.map_err(late)?
    }

    async fn connect(self: Arc<Self>) -> Result<Connected, StoreError> {
        let (mut client, connection) = self.config.connect(self.tls.clone()).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("the connection to PostgreSQL ended: {error}");
            }
        });
        // What is acknowledged is on the server's disk, whatever the server's default is. Tables that are
        // there already are no news.
        client
            .batch_execute(
                "SET client_min_messages = warning;
                 SELECT set_config('synchronous_commit', 'on', false)
                 WHERE current_setting('synchronous_commit') = 'off'",
            )
            .await?;
        migrate::run(&mut client, &self.migrations).await?;
        let session = Session {
            client,
            statements: HashMap::new(),
        };
        Ok(Connected {
            session,
            since: Instant::now(),
        })
    }
}

impl Session {
    /// All rows of a query whose text is fixed.
    pub async fn rows(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        let statement = self.statement(sql).await?;
        Ok(self.client.query(&statement, params).await?)
    }

    /// The first row, if there is one.
    pub async fn row(&mut self, sql: &str, params: Params<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    /// The one row of a query that always has one.
    pub async fn one(&mut self, sql: &str, params: Params<'_>) -> Result<Row, StoreError> {
        let row = self.row(sql, params).await?;
        row.ok_or_else(|| StoreError::Corrupt("a row that is always there is gone".to_owned()))
    }

    /// How many rows a statement changed.
    pub async fn execute(&mut self, sql: &str, params: Params<'_>) -> Result<u64, StoreError> {
        let statement = self.statement(sql).await?;
        Ok(self.client.execute(&statement, params).await?)
    }

    /// Statements without parameters.
    pub async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        Ok(self.client.batch_execute(sql).await?)
    }

    async fn statement(&mut self, sql: &str) -> Result<Statement, StoreError> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}
