//! PostgreSQL as a store: a `sentinel_pg::Pool` whose connections migrate our tables.
//!
//! Each new connection runs the migrations first, so a gateway may start before its database does. A
//! process opens a database once and shares the handle, so that `max_connections` is its total.
//!
//! Not here: connections (`sentinel_pg`), the SQL of records and reviews (`audit`, `review`).

mod migrate;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sentinel_pg::tokio_postgres::{Client, Row};
use sentinel_pg::{BadUrl, OnConnect, Params, Pool, PoolOptions, Session};

use crate::Migrations;
use crate::error::StoreError;

/// Acknowledged transactions are on the server's disk, whatever the server's default.
const DURABLE: &str = "SET client_min_messages = warning;
    SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'";

/// A handle on the database; cheap to clone. All clones share the connections.
#[derive(Clone)]
pub struct Postgres {
    pool: Pool,
}

impl Postgres {
    /// Parses the URL without connecting. `migrations` are those of every component that uses this handle or a clone
    /// of it. Must be called within the runtime that drives the connections.
    pub fn new(
        url: &str,
        max_connections: usize,
        migrations: &[Migrations],
    ) -> Result<Self, BadUrl> {
        let mut options = PoolOptions::new(url)?;
        options.max_connections = max_connections;
        options.on_connect = Some(on_connect(migrations.into()));
        Ok(Self {
            pool: options.build(),
        })
    }

    /// Whether `new` would accept this URL.
    pub fn check(url: &str) -> Result<(), BadUrl> {
        sentinel_pg::check(url)
    }

    /// Lends a connection to `work`.
    pub async fn with<T, E>(
        &self,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<StoreError>,
    {
        let work = async |session: &mut Session| work(session.client_mut()).await;
        self.pool.run(work).await.map_err(StoreError::from)?
    }

    /// Runs `work` on a connection, outside of a transaction.
    pub async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        E: From<StoreError>,
        F: for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<T, E>>,
    {
        let work = async |session: &mut Session| work(session).await;
        self.pool.run(work).await.map_err(StoreError::from)?
    }

    /// Runs `work` in a transaction and returns once it is committed. An error of `work` rolls back.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        E: From<StoreError>,
        F: for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<T, E>>,
    {
        let work = async |session: &mut Session| session.transaction("BEGIN", work).await;
        let done = self.pool.run(work).await.map_err(StoreError::from)?;
        done.map_err(StoreError::from)?
    }
}

fn on_connect(migrations: Arc<[Migrations]>) -> OnConnect {
    Arc::new(move |client| {
        let migrations = migrations.clone();
        let setup = async move {
            client
                .batch_execute(DURABLE)
                .await
                .map_err(StoreError::from)?;
            Ok(migrate::run(client, &migrations).await?)
        };
        setup.boxed()
    })
}

/// Queries whose errors are `StoreError`s.
pub(crate) trait Queries {
    fn rows(
        &mut self,
        sql: &str,
        params: Params<'_>,
    ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;

    /// The first row, if there is one.
    fn row(
        &mut self,
        sql: &str,
        params: Params<'_>,
    ) -> impl Future<Output = Result<Option<Row>, StoreError>> + Send;

    /// The row of a query that always has one.
    fn one(
        &mut self,
        sql: &str,
        params: Params<'_>,
    ) -> impl Future<Output = Result<Row, StoreError>> + Send;

    /// The number of rows that a statement changed.
    fn change(
        &mut self,
        sql: &str,
        params: Params<'_>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

impl Queries for Session {
    async fn rows(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        Ok(self.query(sql, params).await?)
    }

    async fn row(&mut self, sql: &str, params: Params<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    async fn one(&mut self, sql: &str, params: Params<'_>) -> Result<Row, StoreError> {
        let row = self.row(sql, params).await?;
        row.ok_or_else(|| StoreError::Corrupt("a row that is always there is gone".to_owned()))
    }

    async fn change(&mut self, sql: &str, params: Params<'_>) -> Result<u64, StoreError> {
        Ok(self.execute(sql, params).await?)
    }
}
