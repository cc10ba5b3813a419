//! Removes closed reviews for good, on an operator's word (C-32).
//!
//! The review, its messages, patches, verdicts and keys go; its events stay, and one more says who removed it, with the
//! hash of all that were there. So the chain is as whole as before, and whoever checks it learns what is missing and
//! why. Only reviews that no remaining one follows are removed: a resubmission keeps what it replaced.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};
use sentinel_core::clock::Moment;
use sentinel_review::store::{NewEvent, PurgedReview, ReviewError, ReviewStatus};
use serde_json::json;

use super::write::{self, About};
use super::{chain, sql};

/// Closed before a moment, as text in the form of the tables, oldest first: id, intent, when, messages, patches.
pub(super) const CLOSED: &str =
    "SELECT id, intent, updated_at, message_count, patch_count FROM reviews
    WHERE status = 'closed' AND updated_at < $1 ORDER BY seq";
/// Resubmissions: the review, and the one that it follows.
pub(super) const FOLLOWS: &str = "SELECT id, parent_id FROM reviews WHERE parent_id IS NOT NULL";

/// Those that no remaining review follows.
pub(super) fn free(closed: Vec<PurgedReview>, follows: &[(String, String)]) -> Vec<PurgedReview> {
    let mut going: HashSet<String> = closed.iter().map(|one| one.review_id.clone()).collect();
    loop {
        let stays =
            |(child, parent): &&(String, String)| !going.contains(child) && going.contains(parent);
        let needed: Vec<String> = follows
            .iter()
            .filter(stays)
            .map(|(_, parent)| parent.clone())
            .collect();
        if needed.is_empty() {
            break;
        }
        needed.iter().for_each(|id| {
            going.remove(id);
        });
    }
    let mut free = closed;
    free.retain(|one| going.contains(&one.review_id));
    free
}

/// What the history says of a removal.
pub(super) fn event(one: &PurgedReview, hashes: &[Vec<u8>]) -> (NewEvent, About) {
    let event = NewEvent {
        event: chain::PURGED,
        old_status: Some(ReviewStatus::Closed),
        new_status: None,
        detail: Some(json!({
            "closed_at": one.closed_at,
            "messages": one.messages,
            "patches": one.patches,
        })),
    };
    let about = About {
        id: None,
        content: Some(chain::covered(hashes)),
    };
    (event, about)
}

/// The reviews that would go.
pub(super) fn look(tx: &Connection, before: &str) -> Result<Vec<PurgedReview>, ReviewError> {
    let closed = tx
        .prepare(CLOSED)
        .and_then(|mut query| {
            let purged = |row: &rusqlite::Row<'_>| {
                Ok(PurgedReview {
                    review_id: row.get(0)?,
                    intent: row.get(1)?,
                    closed_at: row.get(2)?,
                    messages: row.get::<_, i64>(3)? as u64,
                    patches: row.get::<_, i64>(4)? as u64,
                })
            };
            query.query_map([before], purged)?.collect()
        })
        .map_err(sql)?;
    let follows: Vec<(String, String)> = tx
        .prepare(FOLLOWS)
        .and_then(|mut query| {
            let pairs = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            pairs.collect()
        })
        .map_err(sql)?;
    Ok(free(closed, &follows))
}

/// How long readers are waited for.
const LOG_WAIT: Duration = Duration::from_secs(5);

/// Brings the write-ahead log into the database and cuts it to nothing.
pub(super) fn empty_log(path: &Path) -> Result<(), String> {
    let empty = || {
        let connection = Connection::open(path)?;
        connection.busy_timeout(LOG_WAIT)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
    };
    match empty().map_err(|error| error.to_string())? {
        0 => Ok(()),
        _ => Err("somebody reads by it".to_owned()),
    }
}

pub(super) fn purge(
    tx: &Connection,
    now: &Moment,
    before: &str,
    by: &str,
) -> Result<Vec<PurgedReview>, ReviewError> {
    // What is gone shall not lie in free pages of the file. The connection is everybody's: it is set back.
    tx.pragma_update(None, "secure_delete", true).map_err(sql)?;
    let gone = erase(tx, now, before, by);
    tx.pragma_update(None, "secure_delete", false)
        .map_err(sql)?;
    gone
}

fn erase(
    tx: &Connection,
    now: &Moment,
    before: &str,
    by: &str,
) -> Result<Vec<PurgedReview>, ReviewError> {
    let going = look(tx, before)?;
    for one in &going {
        let id = &one.review_id;
        let last: i64 = tx
            .query_row("SELECT last_seq FROM reviews WHERE id = ?1", [id], |row| {
                row.get(0)
            })
            .map_err(sql)?;
        let (event, about) = event(one, &chain::hashes_to(tx, last)?);
        let seq = write::log(tx, now, id, Some(last), by, &event, &about)?;
        let insert = "INSERT INTO purged_reviews (id, seq) VALUES (?1, ?2)";
        tx.execute(insert, params![id, seq]).map_err(sql)?;
        let keys = "DELETE FROM review_keys WHERE review_id = ?1";
        tx.execute(keys, [id]).map_err(sql)?;
    }
    let ids: Vec<&str> = going.iter().map(|one| &*one.review_id).collect();
    // At once, for they may follow each other. What hangs on them goes with them.
    tx.execute(
        "DELETE FROM reviews WHERE id IN (SELECT value FROM json_each(?1))",
        [json!(ids).to_string()],
    )
    .map_err(sql)?;
    Ok(going)
}
