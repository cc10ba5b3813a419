//! Deletes closed reviews permanently, by an operator's command (C-32).
//!
//! The review, its messages, patches, verdicts and keys are deleted; its events stay, and one more names the operator
//! and the hash of all deleted events. So the chain stays valid, and its verification shows what was removed and why.
//! Only reviews that no remaining review refers to are deleted: a resubmission keeps its predecessor.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};
use sentinel_core::clock::Moment;
use sentinel_review::store::{NewEvent, PurgedReview, ReviewError, ReviewStatus};
use serde_json::json;

use super::write::{self, EventSubject};
use super::{chain, sql};

/// Reviews closed before a time, as text in the form of the tables, oldest first: id, intent, time, messages,
/// patches.
pub(super) const CLOSED: &str =
    "SELECT id, intent, updated_at, message_count, patch_count FROM reviews
    WHERE status = 'closed' AND updated_at < $1 ORDER BY seq";
/// Resubmissions with their predecessors.
pub(super) const FOLLOWS: &str = "SELECT id, parent_id FROM reviews WHERE parent_id IS NOT NULL";

/// Those that no remaining review refers to.
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

/// The event of a purge.
pub(super) fn event(one: &PurgedReview, hashes: &[Vec<u8>]) -> (NewEvent, EventSubject) {
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
    let about = EventSubject {
        id: None,
        content: Some(chain::covered(hashes)),
    };
    (event, about)
}

/// The reviews that a purge would delete.
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

/// Longest wait for readers.
const LOG_WAIT: Duration = Duration::from_secs(5);

/// Checkpoints and truncates the write-ahead log.
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
    // Overwrites deleted rows in free pages. The connection is shared, so the setting is reset afterwards.
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
    // In one statement, since they may refer to each other. Dependent rows are deleted by cascade.
    tx.execute(
        "DELETE FROM reviews WHERE id IN (SELECT value FROM json_each(?1))",
        [json!(ids).to_string()],
    )
    .map_err(sql)?;
    Ok(going)
}
