//! What a write answers with, built from the written values or, for a repeated write, from the rows.

use rusqlite::{Connection, OptionalExtension};
use sentinel_core::clock::{Moment, iso};
use sentinel_review::store::{
    ActionOutcome, Addition, Attachment, DIFF_PAGE, DiffRange, Effect, Message, NewReview, Patch,
    Review, ReviewError, ReviewStatus, Role, Verdict,
};

use super::super::{read, rows, sql};

/// The outcome of submitting a new review, from the written values.
pub(in super::super) fn submitted(new: NewReview, patch_id: String, now: &Moment) -> ActionOutcome {
    let (page, next_offset) = rows::cut(&new.diff, FIRST_PAGE);
    let patch = Patch {
        patch_id,
        review_id: new.review_id.clone(),
        role: Role::Proposer,
        description: None,
        diff: page.to_owned(),
        diff_bytes: new.diff.len() as u64,
        next_offset,
        affected_files: new.affected_files.clone(),
        accepted: None,
        submitted_by: new.proposed_by.clone(),
        created_at: now.iso(),
    };
    let review = Review {
        review_id: new.review_id,
        status: ReviewStatus::Created,
        version: 1,
        intent: new.intent,
        description: new.description,
        agent_type: new.agent_type,
        phase: new.phase,
        plan: new.plan,
        task: new.task,
        project: new.project,
        category: new.category,
        priority: new.priority,
        proposed_by: new.proposed_by,
        claimed_by: None,
        claim_generation: 0,
        claim_expires_at: None,
        parent_id: new.parent_id,
        affected_files: new.affected_files,
        message_count: 0,
        patch_count: 1,
        created_at: now.iso(),
        updated_at: now.iso(),
        lease: None,
    };
    ActionOutcome {
        review,
        added: Some(Attachment::Patch(patch)),
        repeated: false,
    }
}

/// The outcome of an effect, built from the written values: reading them back would cost more than writing them.
pub(in super::super) struct Done {
    pub(in super::super) acted: ActionOutcome,
    pub(in super::super) about_id: Option<String>,
}

impl Done {
    pub(in super::super) fn new(
        mut review: Review,
        actor: &str,
        now: &Moment,
        effect: Effect,
        about_id: Option<String>,
    ) -> Self {
        let created_at = now.iso();
        if !effect.events.is_empty() {
            review.version += 1;
            review.updated_at.clone_from(&created_at);
        }
        review.status = effect.status;
        review.claimed_by = effect.claimed_by;
        review.claim_generation = effect.claim_generation;
        review.claim_expires_at = effect.lease.as_ref().map(|lease| iso(lease.wall_until_ms));
        review.lease = effect.lease;
        let (id, by) = (about_id.clone().unwrap_or_default(), actor.to_owned());
        let review_id = review.review_id.clone();
        let added = match effect.addition {
            Some(Addition::Message { role, body }) => {
                review.message_count += 1;
                Some(Attachment::Message(Message {
                    message_id: id,
                    review_id,
                    role,
                    body,
                    posted_by: by,
                    created_at,
                }))
            }
            Some(Addition::Patch {
                role,
                description,
                diff,
                affected_files,
            }) => {
                review.patch_count += 1;
                let (page, next_offset) = rows::cut(&diff, FIRST_PAGE);
                Some(Attachment::Patch(Patch {
                    patch_id: id,
                    review_id,
                    role,
                    description,
                    diff: page.to_owned(),
                    diff_bytes: diff.len() as u64,
                    next_offset,
                    affected_files,
                    accepted: None,
                    submitted_by: by,
                    created_at,
                }))
            }
            Some(Addition::Verdict { decision, reason }) => Some(Attachment::Verdict(Verdict {
                verdict_id: id,
                review_id,
                decision,
                reason,
                given_by: by,
                created_at,
            })),
            Some(Addition::Judgement { .. }) | None => None,
        };
        let acted = ActionOutcome {
            review,
            added,
            repeated: false,
        };
        Self { acted, about_id }
    }
}

/// The part of a diff returned by the action that submitted it.
pub(in super::super) const FIRST_PAGE: DiffRange = DiffRange {
    offset: 0,
    limit: DIFF_PAGE,
};

/// The documents after an action; of a large diff the first page.
pub(super) fn acted(
    tx: &Connection,
    review_id: &str,
    seq: i64,
) -> Result<ActionOutcome, ReviewError> {
    Ok(ActionOutcome {
        review: read::review(tx, review_id)?,
        added: added(tx, seq)?,
        repeated: false,
    })
}

/// The row that an event added.
fn added(tx: &Connection, seq: i64) -> Result<Option<Attachment>, ReviewError> {
    let message = format!("SELECT {} FROM messages WHERE seq = ?1", rows::MESSAGE);
    if let Some(found) = one(tx, &message, seq, |row| rows::message(row))? {
        return Ok(Some(Attachment::Message(found)));
    }
    let verdict = format!("SELECT {} FROM verdicts WHERE seq = ?1", rows::VERDICT);
    if let Some(found) = one(tx, &verdict, seq, |row| rows::verdict(row))? {
        return Ok(Some(Attachment::Verdict(found)));
    }
    let patch = format!("SELECT {} FROM patches WHERE seq = ?1", rows::PATCH);
    Ok(one(tx, &patch, seq, |row| rows::patch(row, FIRST_PAGE))?.map(Attachment::Patch))
}

fn one<T>(
    tx: &Connection,
    query: &str,
    seq: i64,
    read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, ReviewError> {
    tx.prepare_cached(query)
        .and_then(|mut query| query.query_row([seq], read).optional())
        .map_err(sql)
}
