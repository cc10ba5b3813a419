//! Verifies the history in one snapshot.

use std::collections::HashSet;

use sentinel_review::store::{ReviewError, VerifyReport};
use tokio_postgres::Row;

use super::super::chain::{self, StoredEvent, Walker};
use super::super::rows::Cells;
use crate::error::StoreError;
use crate::postgres::Queries as _;
use sentinel_pg::Session;

/// Events read at once.
const PAGE: i64 = 500;

/// The extent of the history, or its first error.
pub(super) async fn verify(db: &mut Session) -> Result<VerifyReport, ReviewError> {
    let isolated = db.batch("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY");
    isolated.await.map_err(StoreError::from)?;
    let head = db.one("SELECT seq, hash FROM review_head", &[]).await?;
    let mut removed = HashSet::new();
    for row in db.rows("SELECT id FROM purged_reviews", &[]).await? {
        removed.insert(row.text(0)?);
    }
    let mut walker = Walker::new(removed);
    let mut after = 0;
    loop {
        let events = db
            .rows(
                &format!(
                    "SELECT {} FROM review_events WHERE seq > $1 ORDER BY seq LIMIT $2",
                    chain::LINK
                ),
                &[&after, &PAGE],
            )
            .await?;
        let Some(last) = events.last() else { break };
        after = last.number(0)?;
        for event in &events {
            step(db, &mut walker, event).await?;
        }
    }
    let written: Vec<u8> = head.try_get(1).map_err(StoreError::from)?;
    if !walker.ends_with(&written) {
        return Err(chain::broken(
            "the last event is not the one that was written last".to_owned(),
        ));
    }
    let verified = walker.end(head.number(0)?)?;
    let states = chain::STATES
        .replace("{more}", "")
        .replace("{events}", "review_events")
        .replace("{judged}", "(e.detail::json ->> 'accepted')::boolean")
        .replace("{claimant}", "e.detail::json ->> 'claimed_by'");
    let wrong = db.row(&states, &[]).await?;
    chain::found_wrong(wrong.map(|row| row.text(0)).transpose()?)?;
    Ok(verified)
}

async fn step(db: &mut Session, walker: &mut Walker, row: &Row) -> Result<(), ReviewError> {
    let event = stored(row)?;
    let (review_id, seq) = (&event.review_id, event.seq);
    let mut found = None;
    if event.event == chain::PURGED {
        let query = "SELECT hash FROM review_events WHERE review_id = $1 AND seq < $2 ORDER BY seq";
        let rows = db.rows(query, &[review_id, &seq]).await?;
        let hashes: Result<Vec<Vec<u8>>, _> = rows.iter().map(|row| row.try_get(0)).collect();
        found = Some(chain::covered(&hashes.map_err(StoreError::from)?));
    }
    let about = event.about_id.as_ref().filter(|_| event.content.is_some());
    if let Some(about) = about {
        let query = chain::text_query(&event.event);
        let row = db
            .row(
                query,
                &[about, review_id, &seq, &event.actor, &event.created_at],
            )
            .await?;
        if let Some(row) = row {
            let text = |at: usize| row.try_get::<_, String>(at).map_err(StoreError::from);
            found = Some(chain::content(&[&text(0)?, &text(1)?, &text(2)?]));
        }
    }
    walker.step(&event, found)
}

/// The columns of `chain::LINK`.
fn stored(row: &Row) -> Result<StoredEvent, ReviewError> {
    let bytes = |at: usize| {
        row.try_get::<_, Option<Vec<u8>>>(at)
            .map_err(StoreError::from)
    };
    Ok(StoredEvent {
        seq: row.number(0)?,
        review_id: row.text(1)?,
        event: row.text(2)?,
        actor: row.text(3)?,
        old_status: row.maybe_text(4)?,
        new_status: row.maybe_text(5)?,
        about_id: row.maybe_text(6)?,
        content: bytes(7)?,
        detail: row.maybe_text(8)?,
        created_at: row.text(9)?,
        hash: bytes(10)?.unwrap_or_default(),
    })
}
