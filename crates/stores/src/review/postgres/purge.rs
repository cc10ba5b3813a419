//! Deletes closed reviews, as `review::purge` does in SQLite.

use sentinel_review::store::{PurgedReview, ReviewError};

use super::super::purge::{CLOSED, FOLLOWS, event, free};
use super::super::rows::Cells;
use super::write::Writing;
use crate::error::StoreError;
use crate::postgres::Queries as _;
use sentinel_pg::Session;

/// The reviews that a purge would delete.
pub(super) async fn look(
    db: &mut Session,
    before: String,
) -> Result<Vec<PurgedReview>, ReviewError> {
    let mut closed = Vec::new();
    for row in db.rows(CLOSED, &[&before]).await? {
        closed.push(PurgedReview {
            review_id: row.text(0)?,
            intent: row.text(1)?,
            closed_at: row.text(2)?,
            messages: row.count(3)?,
            patches: row.count(4)?,
        });
    }
    let mut follows = Vec::new();
    for row in db.rows(FOLLOWS, &[]).await? {
        follows.push((row.text(0)?, row.text(1)?));
    }
    Ok(free(closed, &follows))
}

pub(super) async fn purge(
    db: &mut Session,
    before: String,
    by: String,
) -> Result<Vec<PurgedReview>, ReviewError> {
    let mut writing = Writing::begin(db).await?;
    let going = look(writing.db, before).await?;
    for one in &going {
        let id = &one.review_id;
        let query = "SELECT hash FROM review_events WHERE review_id = $1 ORDER BY seq";
        let rows = writing.db.rows(query, &[id]).await?;
        let hashes: Result<Vec<Vec<u8>>, _> = rows.iter().map(|row| row.try_get(0)).collect();
        let (event, about) = event(one, &hashes.map_err(StoreError::from)?);
        let seq = writing.log(id, &by, &event, &about).await?;
        let insert = "INSERT INTO purged_reviews (id, seq) VALUES ($1, $2)";
        writing.db.change(insert, &[id, &seq]).await?;
    }
    let ids: Vec<&str> = going.iter().map(|one| &*one.review_id).collect();
    let keys = "DELETE FROM review_keys WHERE review_id = ANY ($1)";
    writing.db.change(keys, &[&ids]).await?;
    // In one statement, since they may refer to each other. Dependent rows are deleted by cascade.
    let reviews = "DELETE FROM reviews WHERE id = ANY ($1)";
    writing.db.change(reviews, &[&ids]).await?;
    Ok(going)
}
