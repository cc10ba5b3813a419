//! The rows that an action adds to a review.

use rusqlite::{Connection, ToSql, params};
use sentinel_core::clock::Moment;
use sentinel_review::store::{Decision, ReviewError, Role};

use super::super::sql;

/// What the rows of one action have in common.
pub(super) struct AddedBy<'a> {
    pub(super) tx: &'a Connection,
    pub(super) now: &'a Moment,
    /// The event that they belong to.
    pub(super) seq: i64,
    pub(super) review_id: &'a str,
    pub(super) actor: &'a str,
}

impl AddedBy<'_> {
    pub(super) fn message(&self, id: &str, role: Role, body: &str) -> Result<(), ReviewError> {
        self.text(
            "INSERT INTO messages (id, review_id, seq, role, body, posted_by, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (id, role.as_str(), &body),
        )
    }

    pub(super) fn verdict(
        &self,
        id: &str,
        decision: Decision,
        reason: Option<&str>,
    ) -> Result<(), ReviewError> {
        self.text(
            "INSERT INTO verdicts (id, review_id, seq, decision, reason, given_by, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (id, decision.as_str(), &reason),
        )
    }

    fn text(
        &self,
        insert: &str,
        (id, word, text): (&str, &str, &dyn ToSql),
    ) -> Result<(), ReviewError> {
        let (review_id, seq, actor) = (self.review_id, self.seq, self.actor);
        self.tx
            .prepare_cached(insert)
            .and_then(|mut insert| {
                insert.execute(params![
                    id,
                    review_id,
                    seq,
                    word,
                    text,
                    actor,
                    self.now.iso()
                ])
            })
            .map_err(sql)?;
        Ok(())
    }

    pub(super) fn patch(
        &self,
        id: &str,
        role: Role,
        description: Option<&str>,
        (diff, files): (&str, &str),
    ) -> Result<(), ReviewError> {
        let (review_id, seq, actor) = (self.review_id, self.seq, self.actor);
        let at = self.now.iso();
        self.tx
            .prepare_cached(
                "INSERT INTO patches (id, review_id, seq, role, description, affected_files, submitted_by,
                     created_at, diff)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )
            .and_then(|mut insert| {
                insert.execute(params![id, review_id, seq, role.as_str(), description, files, actor, at, diff])
            })
            .map_err(sql)?;
        Ok(())
    }
}
