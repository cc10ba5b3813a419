//! Reviews in PostgreSQL: the tables, rules and history of SQLite, for several gateways.
//!
//! A write locks the head of the history first, then its review: as in SQLite there is one writer at a time, so
//! events have no gaps and there are no deadlocks. Times come from the database, so that all gateways agree when a
//! claim ends.
//!
//! Not here: connections (`crate::postgres`), which actions are allowed (`sentinel_review::machine`).

mod purge;
mod read;
mod verify;
mod write;

use std::path::PathBuf;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sentinel_core::builtin::Refused;
use sentinel_review::store::{
    ActionOutcome, Changes, Decide, DiffRange, Event, ListPage, Message, NewReview, Page, Patch,
    PurgedReview, Review, ReviewError, ReviewFilter, ReviewStore, Statistics, StoreFuture, Verdict,
    VerifyReport, WriteKey,
};
use tokio_postgres::Row;

use super::Expire;
use super::rows::Cells;
use crate::error::StoreError;
use crate::postgres::Postgres;
use crate::sqlite::Migrations;
use sentinel_pg::Session;

pub const POSTGRES_MIGRATIONS: Migrations = Migrations {
    component: "review",
    steps: &[include_str!("postgres/tables.sql")],
};

pub struct PostgresReviews {
    db: Postgres,
    expire: Expire,
}

impl PostgresReviews {
    /// The database must have been opened with `POSTGRES_MIGRATIONS`.
    pub fn new(db: &Postgres, expire: Expire) -> Self {
        Self {
            db: db.clone(),
            expire,
        }
    }

    fn reading<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<T, ReviewError>>
        + Send
        + 'static,
    ) -> StoreFuture<T> {
        let db = self.db.clone();
        async move { db.read(work).await }.boxed()
    }

    fn writing<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<T, ReviewError>>
        + Send
        + 'static,
    ) -> StoreFuture<T> {
        let db = self.db.clone();
        async move { db.write(work).await }.boxed()
    }
}

impl ReviewStore for PostgresReviews {
    fn submit(&self, new: NewReview, keys: Vec<WriteKey>) -> StoreFuture<ActionOutcome> {
        self.writing(move |db| write::submit(db, new, keys).boxed())
    }

    fn act(
        &self,
        id: String,
        actor: String,
        key: Option<WriteKey>,
        decide: Decide,
    ) -> StoreFuture<ActionOutcome> {
        self.writing(move |db| write::act(db, id, actor, key, decide).boxed())
    }

    fn expire(&self) -> StoreFuture<Vec<Review>> {
        let (db, decide) = (self.db.clone(), self.expire);
        async move {
            let due: Vec<String> = db.read(|db| write::expired(db).boxed()).await?;
            if due.is_empty() {
                return Ok::<_, ReviewError>(Vec::new());
            }
            db.write(move |db| write::expire(db, due, decide).boxed())
                .await
        }
        .boxed()
    }

    fn get(&self, id: String) -> StoreFuture<Review> {
        self.reading(move |db| async move { read::review(db, &id).await }.boxed())
    }

    fn list(&self, filter: ReviewFilter, page: Page) -> StoreFuture<ListPage<Review>> {
        self.reading(move |db| read::list(db, filter, page).boxed())
    }

    fn messages(&self, id: String, page: Page) -> StoreFuture<ListPage<Message>> {
        self.reading(move |db| read::messages(db, id, page).boxed())
    }

    fn verdicts(&self, id: String) -> StoreFuture<Vec<Verdict>> {
        self.reading(move |db| read::verdicts(db, id).boxed())
    }

    fn original(&self, id: String, slice: DiffRange) -> StoreFuture<Patch> {
        self.reading(move |db| read::original(db, id, slice).boxed())
    }

    fn patches(&self, id: String, slice: DiffRange) -> StoreFuture<Vec<Patch>> {
        self.reading(move |db| read::patches(db, id, slice).boxed())
    }

    fn patch(&self, id: String, patch_id: String, slice: DiffRange) -> StoreFuture<Patch> {
        self.reading(move |db| read::patch(db, id, patch_id, slice).boxed())
    }

    fn events(&self, id: Option<String>, page: Page) -> StoreFuture<ListPage<Event>> {
        self.reading(move |db| read::events(db, id, page).boxed())
    }

    fn chain(&self, id: String) -> StoreFuture<Vec<Review>> {
        self.reading(move |db| read::relatives(db, id).boxed())
    }

    fn statistics(&self, project: Option<String>) -> StoreFuture<Statistics> {
        self.reading(move |db| read::statistics(db, project).boxed())
    }

    fn queue_version(&self, projects: Vec<String>) -> StoreFuture<u64> {
        self.reading(move |db| read::queue_version(db, projects).boxed())
    }

    fn changes(&self, after: u64) -> StoreFuture<Changes> {
        self.reading(move |db| read::changes(db, after).boxed())
    }

    fn backup(&self, _: PathBuf) -> StoreFuture<()> {
        let message = "these reviews are in PostgreSQL: back them up with the database's own tools, for example \
                       pg_dump --format=custom --file=reviews.dump \"$DATABASE_URL\"";
        let refused: ReviewError = Refused::new("unsupported", message).into();
        async move { Err(refused) }.boxed()
    }

    fn purgeable(&self, before: String) -> StoreFuture<Vec<PurgedReview>> {
        self.reading(move |db| purge::look(db, before).boxed())
    }

    fn purge(&self, before: String, by: String) -> StoreFuture<Vec<PurgedReview>> {
        self.writing(move |db| purge::purge(db, before, by).boxed())
    }

    fn verify(&self) -> StoreFuture<VerifyReport> {
        // The transaction only provides a snapshot.
        self.writing(|db| verify::verify(db).boxed())
    }
}

impl Cells for Row {
    type Error = StoreError;

    fn maybe_text(&self, at: usize) -> Result<Option<String>, StoreError> {
        Ok(self.try_get(at)?)
    }

    fn maybe_number(&self, at: usize) -> Result<Option<i64>, StoreError> {
        Ok(self.try_get(at)?)
    }

    fn maybe_flag(&self, at: usize) -> Result<Option<bool>, StoreError> {
        Ok(self.try_get(at)?)
    }

    fn unreadable(&self, at: usize) -> StoreError {
        let name = self.columns().get(at).map_or("?", |column| column.name());
        StoreError::Corrupt(format!("column {name} holds what was never written there"))
    }
}
