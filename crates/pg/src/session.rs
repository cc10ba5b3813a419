//! One connection, with the statements it has prepared.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{BoxFuture, try_join_all, try_join5};
use futures_util::{TryFutureExt, TryStreamExt};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::error::PgError;

/// Prepared statements kept per connection; when there are more, all are closed and prepared again
/// on use. Far above the number of queries of a component.
const STATEMENTS_MAX: usize = 512;

/// Removes what statements may have left in the session for later ones: settings, temporary tables, cursors, values of sequences,
/// channels and locks. Prepared statements stay.
const CLEAN: &str = "CLOSE ALL; UNLISTEN *; DISCARD SEQUENCES; DISCARD TEMP; \
    SELECT pg_catalog.pg_advisory_unlock_all(); RESET ALL";
/// What functions say besides errors is not for us, and there may be any number of it.
const QUIET: &str = "SET client_min_messages = error";
/// While a statement runs, the server looks every 5 seconds whether its client is still there. Not all servers can.
const WATCH: &str = "SET client_connection_check_interval = 5000";

pub type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Takes the rows of a query one by one.
pub trait RowSink: Send {
    type Error: Send;

    /// An error leaves the remaining rows unread.
    fn row(&mut self, row: Row) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Why a transaction ended early.
enum Ended<E> {
    Database(tokio_postgres::Error),
    /// What an earlier owner left could not be undone.
    Unclean(tokio_postgres::Error),
    Sink(E),
}

pub struct Session {
    client: Client,
    statements: HashMap<String, Statement>,
    is_retired: bool,
    clean: String,
    /// Whose transactions may have left something in the session.
    owner: Option<u64>,
}

impl Session {
    pub(crate) async fn new(client: Client) -> Self {
        let mut own = format!("{QUIET}; {WATCH}");
        if client.batch_execute(&own).await.is_err() {
            own = QUIET.to_owned();
            // A server that does not take this either is found out by the first statement.
            drop(client.batch_execute(&own).await);
        }
        Self {
            client,
            statements: HashMap::new(),
            is_retired: false,
            owner: None,
            clean: format!("{CLEAN}; {own}"),
        }
    }

    /// Cancels what still runs and closes the connection, once it is given back.
    pub fn retire(&mut self) {
        self.is_retired = true;
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.is_retired && !self.client.is_closed()
    }

    /// Whether a transaction may have left something here.
    pub(crate) fn has_owner(&self) -> bool {
        self.owner.is_some()
    }

    /// Removes what transactions left.
    pub(crate) async fn clean(&mut self) -> Result<(), PgError> {
        self.client.batch_execute(&self.clean).await?;
        self.owner = None;
        Ok(())
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

    /// Runs a query in a transaction of its own: `begin`, the queries of `before`, this one and COMMIT travel in one round
    /// trip, once they are prepared. Rows go to `rows` as they come, and the server waits for it. After an error nothing took
    /// effect, and the error is the first one; an error of `rows` cancels what still runs. What statements for another
    /// `owner` did to their session is undone first, in the same round trip, unless the pool has done that already.
    pub async fn transact<R: RowSink>(
        &mut self,
        owner: u64,
        begin: &str,
        before: &[(&str, Params<'_>)],
        (sql, params): (&str, Params<'_>),
        rows: &mut R,
    ) -> Result<Result<(), R::Error>, PgError> {
        let (begin, commit) = (self.prepare(begin).await?, self.prepare("COMMIT").await?);
        let mut settings = Vec::with_capacity(before.len());
        for (sql, _) in before {
            settings.push(self.prepare(sql).await?);
        }
        let statement = self.prepare(sql).await?;
        let before_it = self.owner.replace(owner);
        let client = &self.client;
        let is_refused = |error| Ended::Database(error);
        // Each future sends its request when it is first polled, so their order here is the order on the wire. The server
        // refuses what follows an error, and makes a ROLLBACK of the COMMIT; answers that nobody waits for are dropped.
        let cleans = async {
            match before_it.is_none_or(|before| before == owner) {
                true => Ok(()),
                false => (client.batch_execute(&self.clean).await).map_err(Ended::Unclean),
            }
        };
        let begins = client.execute(&begin, &[]).map_err(is_refused);
        let sets = settings.iter().zip(before);
        let sets = sets.map(|(statement, (_, params))| client.execute(statement, params));
        let sets = try_join_all(sets).map_err(is_refused);
        let runs = async {
            let params = params.iter().map(|param| *param as &dyn ToSql);
            let answer = client.query_raw(&statement, params).await;
            let mut answer = pin!(answer.map_err(is_refused)?);
            while let Some(row) = answer.try_next().await.map_err(is_refused)? {
                rows.row(row).await.map_err(Ended::Sink)?;
            }
            Ok(())
        };
        let is_committed = AtomicBool::new(false);
        let commits = async {
            is_committed.store(true, Ordering::Relaxed);
            client.execute(&commit, &[]).await.map_err(is_refused)
        };
        match try_join5(cleans, begins, sets, runs, commits).await {
            Ok(_) => Ok(Ok(())),
            Err(Ended::Database(error)) => {
                // Not the server but this side refused something, or the error was there before COMMIT was sent: on a busy
                // machine an answer may come while later requests are still being written.
                let is_open = !is_committed.into_inner();
                let is_unknown = error.as_db_error().is_none();
                if is_unknown || (is_open && self.batch("ROLLBACK").await.is_err()) {
                    self.retire();
                }
                Err(error.into())
            }
            Err(Ended::Unclean(error)) => {
                self.retire();
                Err(error.into())
            }
            Err(Ended::Sink(error)) => {
                self.retire();
                Ok(Err(error))
            }
        }
    }

    /// Forgets the prepared statements, after an error that says that they are gone.
    pub fn forget_statements(&mut self) {
        self.statements.clear();
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

    /// The statement as this connection has it prepared.
    pub async fn prepare(&mut self, sql: &str) -> Result<Statement, PgError> {
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
