//! PostgreSQL as a store: a few connections, made when they are needed.
//!
//! A connection is taken out of the pool while it works and goes back only if nothing went wrong:
//! a failure, a time-out or a dropped caller closes it, and the server rolls back what it had begun.
//! The first connection brings the tables up to date. Connections are plain: a server on another
//! machine is reached through a tunnel or a local pooler.
//!
//! Not here: any table (`audit`, `review`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

use crate::error::StoreError;
use crate::sqlite::Migrations;

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A server that has not answered by then is treated as gone.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Two gateways that start together migrate one after the other.
const MIGRATION_LOCK: i64 = 0x0053_4773_746f_7265;

pub type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A handle on the database; cheap to clone.
#[derive(Clone)]
pub struct Postgres {
    inner: Arc<Inner>,
}

struct Inner {
    url: String,
    migrations: Migrations,
    migrated: AtomicBool,
    permits: Semaphore,
    idle: Mutex<Vec<Session>>,
}

/// One connection, with the statements it knows.
pub struct Session {
    client: Client,
    /// Bounded by the queries in our code: none is put together from what callers send.
    statements: HashMap<String, Statement>,
}

impl Postgres {
    /// Connects when it is first used.
    pub fn new(url: String, connections_max: usize, migrations: Migrations) -> Self {
        let inner = Inner {
            url,
            migrations,
            migrated: AtomicBool::new(false),
            permits: Semaphore::new(connections_max.max(1)),
            idle: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Runs `work` on a connection, each statement by itself.
    pub async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        E: From<StoreError>,
        F: for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<T, E>>,
    {
        let inner = &self.inner;
        let _permit = inner.permits.acquire().await.map_err(|_| closed())?;
        let mut session = inner.session().await?;
        let outcome = answered(work(&mut session)).await?;
        inner.give_back(session);
        outcome
    }

    /// Runs `work` in a transaction and returns once it is committed. An error of `work` rolls back
    /// what it did.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        E: From<StoreError>,
        F: for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<T, E>>,
    {
        let inner = &self.inner;
        let _permit = inner.permits.acquire().await.map_err(|_| closed())?;
        let mut session = inner.session().await?;
        session.batch("BEGIN").await?;
        let outcome = answered(work(&mut session)).await?;
        let end = if outcome.is_ok() {
            "COMMIT"
        } else {
            "ROLLBACK"
        };
        match answered(session.batch(end)).await? {
            Ok(()) => inner.give_back(session),
            // Its own error says more than a rollback that failed after it.
            Err(error) if outcome.is_ok() => return Err(error.into()),
            Err(_) => {}
        }
        outcome
    }
}

fn closed() -> StoreError {
    StoreError::Closed
}

async fn answered<T>(work: impl Future<Output = T>) -> Result<T, StoreError> {
    tokio::time::timeout(ANSWER_MAX, work)
        .await
        .map_err(|_| StoreError::Unavailable("PostgreSQL did not answer in time".to_owned()))
}

impl Inner {
    async fn session(&self) -> Result<Session, StoreError> {
        loop {
            let kept = self.lock().pop();
            match kept {
                Some(session) if !session.client.is_closed() => return Ok(session),
                Some(_) => {}
                None => break,
            }
        }
        let connecting = tokio::time::timeout(CONNECT_MAX, self.connect());
        connecting.await.map_err(|_| {
            StoreError::Unavailable("connecting to PostgreSQL took too long".to_owned())
        })?
    }

    async fn connect(&self) -> Result<Session, StoreError> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("the connection to PostgreSQL ended: {error}");
            }
        });
        let mut session = Session {
            client,
            statements: HashMap::new(),
        };
        // What is acknowledged is on the server's disk, whatever the server's default is.
        session
            .batch(
                "SELECT set_config('synchronous_commit', 'on', false)
                 WHERE current_setting('synchronous_commit') = 'off'",
            )
            .await?;
        if !self.migrated.load(Ordering::Acquire) {
            migrate(&mut session, self.migrations).await?;
            self.migrated.store(true, Ordering::Release);
        }
        Ok(session)
    }

    /// One that broke meanwhile is noticed when it is taken again.
    fn give_back(&self, session: Session) {
        self.lock().push(session);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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

async fn migrate(session: &mut Session, migrations: Migrations) -> Result<(), StoreError> {
    let Migrations { component, steps } = migrations;
    session.batch("BEGIN").await?;
    session
        .rows("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK])
        .await?;
    session
        .batch(
            "CREATE TABLE IF NOT EXISTS schema_version (
                 component text PRIMARY KEY, version integer NOT NULL)",
        )
        .await?;
    let found: i32 = session
        .row(
            "SELECT version FROM schema_version WHERE component = $1",
            &[&component],
        )
        .await?
        .map_or(Ok(0), |row| row.try_get(0))?;
    let known = steps.len() as u32;
    if found as u32 > known {
        return Err(StoreError::TooNew {
            component,
            found: found as u32,
            known,
        });
    }
    for step in &steps[found as usize..] {
        session.batch(step).await?;
    }
    session
        .execute(
            "INSERT INTO schema_version (component, version) VALUES ($1, $2)
             ON CONFLICT (component) DO UPDATE SET version = excluded.version",
            &[&component, &(known as i32)],
        )
        .await?;
    session.batch("COMMIT").await
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(state) = error.code() else {
            return Self::Unavailable(error.to_string());
        };
        // What the server says, in its words: the error's own text is only "db error".
        let said = error
            .as_db_error()
            .map_or_else(|| error.to_string(), |db| db.message().to_owned());
        let busy = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
        ];
        match state {
            full if *full == SqlState::DISK_FULL => Self::StorageFull,
            state if busy.contains(state) => Self::Busy,
            // Connection, resources, operator intervention, wrong password or database.
            state if ["08", "53", "57", "28", "3D"].contains(&&state.code()[..2]) => {
                Self::Unavailable(said)
            }
            state if state.code().starts_with("58") => Self::Io(said),
            state if state.code().starts_with("XX") => Self::Corrupt(said),
            _ => Self::Sql(said),
        }
    }
}
