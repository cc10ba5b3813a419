//! One connection, with the statements it has prepared.

use std::collections::HashMap;

use futures_util::future::{BoxFuture, try_join_all};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::error::PgError;

/// Prepared statements kept per connection; when there are more, all are closed and prepared again
/// on use. Far above the number of queries of a component.
const STATEMENTS_MAX: usize = 512;

pub type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

pub struct Session {
    client: Client,
    statements: HashMap<String, Statement>,
}

impl Session {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            statements: HashMap::new(),
        }
    }

    /// The connection itself, for what has no method here.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    pub async fn query(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, PgError> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.query(&statement, params).await?)
    }

    /// The number of rows that a statement changed.
    pub async fn execute(&mut self, sql: &str, params: Params<'_>) -> Result<u64, PgError> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.execute(&statement, params).await?)
    }

    /// Runs several queries in one round trip, once they are prepared. Each sees the effects of those
    /// before it.
    pub async fn pipeline(
        &mut self,
        queries: &[(&str, Params<'_>)],
    ) -> Result<Vec<Vec<Row>>, PgError> {
        let mut statements = Vec::with_capacity(queries.len());
        for (sql, _) in queries {
            statements.push(self.prepare(sql).await?);
        }
        // The client sends a request when its future is first polled, without awaiting the one before.
        let running = statements.iter().zip(queries);
        let running = running.map(|(statement, (_, params))| self.client.query(statement, params));
        Ok(try_join_all(running).await?)
    }

    /// Statements without parameters, separated by semicolons, in one round trip.
    pub async fn batch(&mut self, sql: &str) -> Result<(), PgError> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// Runs `work` in a transaction: commits if it succeeds, rolls back if it fails. `begin` opens it
    /// and may carry its mode and limits, as in `BEGIN READ ONLY; SET LOCAL statement_timeout = 500`.
    pub async fn transaction<T, E>(
        &mut self,
        begin: &str,
        work: impl for<'a> FnOnce(&'a mut Self) -> BoxFuture<'a, Result<T, E>>,
    ) -> Result<Result<T, E>, PgError> {
        self.batch(begin).await?;
        let outcome = work(self).await;
        let ended = self.batch(if outcome.is_ok() {
            "COMMIT"
        } else {
            "ROLLBACK"
        });
        match (outcome, ended.await) {
            (Ok(_), Err(error)) => Err(error),
            // The error of `work` says more than a failed rollback after it.
            (outcome, _) => Ok(outcome),
        }
    }

    async fn prepare(&mut self, sql: &str) -> Result<Statement, PgError> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(sql).await?;
        if self.statements.len() >= STATEMENTS_MAX {
            self.statements.clear();
        }
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}
