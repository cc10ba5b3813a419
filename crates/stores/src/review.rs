//! Reviews in SQLite: one transaction per action, with its event. `postgres` does the same for several gateways.
//!
//! Every acknowledged action is on disk (`synchronous=FULL`). The decision of `act` runs in the writer's transaction,
//! on the current row. `write` holds the queries that change rows, `read` the others, `chain` the hashes over the
//! history.
//!
//! Not here: which actions are allowed (`sentinel_review::machine`).

mod backup;
mod chain;
mod postgres;
mod purge;
mod read;
mod rows;
#[cfg(test)]
mod tests;
mod write;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use rusqlite::Connection;
use sentinel_core::clock::{Clock, Moment};
use sentinel_review::store::{
    ActionOutcome, Changes, Decide, DiffRange, Event, ListPage, Message, NewReview, Page, Patch,
    PurgedReview, Review, ReviewError, ReviewFilter, ReviewStore, Statistics, StoreFuture, Verdict,
    VerifyReport, WriteKey,
};

use crate::error::StoreError;
use crate::sqlite::{Migrations, Sqlite, Synchronous};
pub use postgres::{POSTGRES_MIGRATIONS, PostgresReviews};

/// The tables of reviews.
pub const MIGRATIONS: Migrations = Migrations {
    component: "review",
    steps: &[include_str!("review/tables.sql")],
};

/// Events in one answer of `changes`; callers request the rest.
const CHANGES_MAX: i64 = 256;

/// Resubmissions shown in a chain; a longer one is a loop of agents, not a discussion.
const CHAIN_LEN_MAX: usize = 200;

/// Decides about a claim whose lease may have ended.
pub type Expire = fn(&Review, &Moment) -> Option<sentinel_review::store::Effect>;

impl From<StoreError> for ReviewError {
    fn from(error: StoreError) -> Self {
        Self::Store {
            kind: error.as_str(),
            message: error.to_string(),
        }
    }
}

/// SQL errors inside a closure.
fn sql(error: rusqlite::Error) -> ReviewError {
    StoreError::from(error).into()
}

pub struct SqliteReviews {
    db: Sqlite,
    clock: Arc<dyn Clock>,
    expire: Expire,
}

impl SqliteReviews {
    /// The database must have been opened with `MIGRATIONS`.
    pub fn new(db: &Sqlite, clock: Arc<dyn Clock>, expire: Expire) -> Self {
        Self {
            db: db.with_synchronous(Synchronous::Full),
            clock,
            expire,
        }
    }

    fn reading<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, ReviewError> + Send + 'static,
    ) -> StoreFuture<T> {
        let db = self.db.clone();
        async move { db.read(work).await }.boxed()
    }

    /// Reads the clock in the transaction, so that times increase with the history.
    fn writing<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Moment) -> Result<T, ReviewError> + Send + 'static,
    ) -> StoreFuture<T> {
        let (db, clock) = (self.db.clone(), self.clock.clone());
        async move { db.write(move |tx| work(tx, &clock.now())).await }.boxed()
    }
}

impl ReviewStore for SqliteReviews {
    fn submit(&self, new: NewReview, keys: Vec<WriteKey>) -> StoreFuture<ActionOutcome> {
        self.writing(move |tx, now| write::submit(tx, now, new, keys))
    }

    fn act(
        &self,
        id: String,
        actor: String,
        key: Option<WriteKey>,
        decide: Decide,
    ) -> StoreFuture<ActionOutcome> {
        self.writing(move |tx, now| write::act(tx, now, &id, &actor, key, decide))
    }

    fn expire(&self) -> StoreFuture<Vec<Review>> {
        let (db, clock, decide) = (self.db.clone(), self.clock.clone(), self.expire);
        async move {
            let now = clock.now();
            let due: bool = db.read(move |tx| write::any_expired(tx, &now)).await?;
            if !due {
                return Ok(Vec::new());
            }
            db.write(move |tx| write::expire(tx, &clock.now(), decide))
                .await
        }
        .boxed()
    }

    fn get(&self, id: String) -> StoreFuture<Review> {
        self.reading(move |tx| read::review(tx, &id))
    }

    fn list(&self, filter: ReviewFilter, page: Page) -> StoreFuture<ListPage<Review>> {
        self.reading(move |tx| read::list(tx, &filter, page))
    }

    fn messages(&self, id: String, page: Page) -> StoreFuture<ListPage<Message>> {
        self.reading(move |tx| read::messages(tx, &id, page))
    }

    fn verdicts(&self, id: String) -> StoreFuture<Vec<Verdict>> {
        self.reading(move |tx| read::verdicts(tx, &id))
    }

    fn original(&self, id: String, slice: DiffRange) -> StoreFuture<Patch> {
        self.reading(move |tx| read::original(tx, &id, slice))
    }

    fn patches(&self, id: String, slice: DiffRange) -> StoreFuture<Vec<Patch>> {
        self.reading(move |tx| read::patches(tx, &id, slice))
    }

    fn patch(&self, id: String, patch_id: String, slice: DiffRange) -> StoreFuture<Patch> {
        self.reading(move |tx| read::patch(tx, &id, &patch_id, slice))
    }

    fn events(&self, id: Option<String>, page: Page) -> StoreFuture<ListPage<Event>> {
        self.reading(move |tx| read::events(tx, id.as_deref(), page))
    }

    fn chain(&self, id: String) -> StoreFuture<Vec<Review>> {
        self.reading(move |tx| read::relatives(tx, &id))
    }

    fn statistics(&self, project: Option<String>) -> StoreFuture<Statistics> {
        self.reading(move |tx| read::statistics(tx, project.as_deref()))
    }

    fn queue_version(&self, projects: Vec<String>) -> StoreFuture<u64> {
        self.reading(move |tx| read::queue_version(tx, &projects))
    }

    fn changes(&self, after: u64) -> StoreFuture<Changes> {
        self.reading(move |tx| read::changes(tx, after))
    }

    fn backup(&self, to: PathBuf) -> StoreFuture<()> {
        self.reading(move |tx| backup::backup(tx, &to))
    }

    fn verify(&self) -> StoreFuture<VerifyReport> {
        self.reading(chain::verify)
    }

    fn purgeable(&self, before: String) -> StoreFuture<Vec<PurgedReview>> {
        self.reading(move |tx| purge::look(tx, &before))
    }

    fn purge(&self, before: String, by: String) -> StoreFuture<Vec<PurgedReview>> {
        let path = self.db.path().to_owned();
        let purged = self.writing(move |tx, now| purge::purge(tx, now, &before, &by));
        async move {
            let purged = purged.await?;
            // The WAL still holds purged texts until a checkpoint truncates it.
            let emptied = tokio::task::spawn_blocking(move || purge::empty_log(&path));
            match emptied.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!("texts stay in the database's log for now: {error}")
                }
                Err(error) => tracing::warn!("texts stay in the database's log for now: {error}"),
            }
            Ok(purged)
        }
        .boxed()
    }
}
