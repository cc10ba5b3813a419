//! Queries that change rows. Each runs inside the writer's transaction.

mod events;
mod insert;
mod outcome;

use rusqlite::{Connection, OptionalExtension, params};
use sentinel_core::builtin::Refused;
use sentinel_core::clock::Moment;
use sentinel_core::random::uuid;
use sentinel_review::store::{
    ActionOutcome, Addition, Decide, Effect, Lease, NewReview, Review, ReviewError, ReviewStatus,
    Role, WriteKey,
};

use super::{Expire, chain, read, rows, sql};
pub(super) use events::{EventSubject, describe, log, new_event, queue_changes};
use insert::AddedBy;
use outcome::acted;
pub(super) use outcome::{Done, FIRST_PAGE, submitted};

/// Only a finished review can be followed by a resubmission.
pub(super) fn parent_is_over(parent: &Review) -> Result<(), Refused> {
    if matches!(parent.status, ReviewStatus::Rejected | ReviewStatus::Closed) {
        return Ok(());
    }
    let message = format!(
        "the review `{}` is '{}': only one that was rejected or closed can be followed by a resubmission",
        parent.review_id, parent.status
    );
    Err(Refused::new("parent_still_open", message))
}

pub(super) fn submit(
    tx: &Connection,
    now: &Moment,
    new: NewReview,
    keys: Vec<WriteKey>,
) -> Result<ActionOutcome, ReviewError> {
    for key in &keys {
        if let Some(first) = first_try(tx, Some(key))? {
            return Ok(first);
        }
    }
    if let Some(parent) = &new.parent_id {
        parent_is_over(&read::review(tx, parent)?)?;
    }
    let taken = tx
        .prepare_cached(
            "SELECT 1 FROM reviews WHERE id = ?1 UNION ALL SELECT 1 FROM purged_reviews WHERE id = ?1",
        )
        .and_then(|mut query| query.exists([&new.review_id]))
        .map_err(sql)?;
    if taken {
        return Err(ReviewError::KeyReused);
    }
    let patch_id = uuid();
    let files = serde_json::to_string(&new.affected_files).expect("plain data");
    let about = EventSubject {
        id: Some(patch_id.clone()),
        content: Some(chain::content_of_new(&new, &files)),
    };
    let event = new_event(&new);
    let (id, by) = (&new.review_id, &new.proposed_by);
    let seq = log(tx, now, id, None, by, &event, &about)?;
    tx.prepare_cached(
        "INSERT INTO reviews (id, seq, intent, description, agent_type, phase, plan, task, project, category,
             priority, proposed_by, parent_id, affected_files, patch_count, created_at, updated_at, last_seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 1, ?15, ?15, ?2)",
    )
    .and_then(|mut insert| {
        insert.execute(params![
            new.review_id, seq, new.intent, new.description, new.agent_type, new.phase, new.plan, new.task,
            new.project, new.category.as_str(), new.priority as i64, new.proposed_by, new.parent_id, files,
            now.iso(),
        ])
    })
    .map_err(sql)?;
    let row = AddedBy {
        tx,
        now,
        seq,
        review_id: id,
        actor: by,
    };
    row.patch(&patch_id, Role::Proposer, None, (&new.diff, &files))?;
    for key in keys {
        remember(tx, Some(key), &new.review_id, seq)?;
    }
    Ok(submitted(new, patch_id, now))
}

pub(super) fn act(
    tx: &Connection,
    now: &Moment,
    id: &str,
    actor: &str,
    key: Option<WriteKey>,
    decide: Decide,
) -> Result<ActionOutcome, ReviewError> {
    if let Some(first) = first_try(tx, key.as_ref())? {
        return Ok(first);
    }
    let (review, last_seq) = read::with_last_seq(tx, id)?;
    let effect = decide(&review, now)?;
    let (done, seq) = apply(tx, now, review, last_seq, actor, effect)?;
    remember(tx, key, id, seq)?;
    Ok(done.acted)
}

/// Whether `expire` would find anything, without taking the writer's lock.
pub(super) fn any_expired(tx: &Connection, now: &Moment) -> Result<bool, ReviewError> {
    tx.prepare_cached(&format!("SELECT 1 FROM reviews WHERE {OVER}"))
        .and_then(|mut query| query.exists(params![&*now.boot_id, now.boot_ms, now.wall_ms]))
        .map_err(sql)
}

/// As `Lease::is_over`.
const OVER: &str = "lease_boot_id IS NOT NULL
    AND CASE WHEN lease_boot_id = ?1 THEN lease_boot_ms <= ?2 ELSE lease_wall_ms <= ?3 END";

fn overdue(tx: &Connection, now: &Moment) -> Result<Vec<(Review, i64)>, ReviewError> {
    let query = format!(
        "SELECT {}, last_seq FROM reviews WHERE {OVER} ORDER BY seq",
        rows::REVIEW
    );
    tx.prepare_cached(&query)
        .and_then(|mut query| {
            let moment = params![&*now.boot_id, now.boot_ms, now.wall_ms];
            query
                .query_map(moment, rows::review_and_last_seq)?
                .collect()
        })
        .map_err(sql)
}

pub(super) fn expire(
    tx: &Connection,
    now: &Moment,
    decide: Expire,
) -> Result<Vec<Review>, ReviewError> {
    let mut changed = Vec::new();
    for (review, last_seq) in overdue(tx, now)? {
        if let Some(effect) = decide(&review, now) {
            let (done, _) = apply(tx, now, review, last_seq, "broker", effect)?;
            changed.push(done.acted.review);
        }
    }
    Ok(changed)
}

/// Applies an effect to a review whose last event was `seq`; returns the outcome and the new last event.
fn apply(
    tx: &Connection,
    now: &Moment,
    review: Review,
    mut seq: i64,
    actor: &str,
    effect: Effect,
) -> Result<(Done, i64), ReviewError> {
    let about = effect.addition.as_ref().map(describe).unwrap_or_default();
    let count = effect.events.len();
    for (at, event) in effect.events.iter().enumerate() {
        // The addition belongs to the last event; earlier ones are transitions toward it.
        let nothing = EventSubject::default();
        let about = if at + 1 == count { &about } else { &nothing };
        seq = log(tx, now, &review.review_id, Some(seq), actor, event, about)?;
    }
    let row = AddedBy {
        tx,
        now,
        seq,
        review_id: &review.review_id,
        actor,
    };
    let (mut messages, mut patches) = (0, 0);
    match (&effect.addition, &about.id) {
        (Some(Addition::Message { role, body }), Some(id)) => {
            messages = 1;
            row.message(id, *role, body)?;
        }
        (
            Some(Addition::Patch {
                role,
                description,
                diff,
                affected_files,
            }),
            Some(id),
        ) => {
            patches = 1;
            let files = serde_json::to_string(affected_files).expect("plain data");
            row.patch(id, *role, description.as_deref(), (diff, &files))?;
        }
        (Some(Addition::Verdict { decision, reason }), Some(id)) => {
            row.verdict(id, *decision, reason.as_deref())?;
        }
        (Some(Addition::Judgement { patch_id, accepted }), _) => {
            let done = tx
                .execute(
                    "UPDATE patches SET accepted = ?3 WHERE id = ?1 AND review_id = ?2",
                    params![patch_id, review.review_id, accepted],
                )
                .map_err(sql)?;
            if done == 0 {
                let message = format!("this review has no patch `{patch_id}`");
                return Err(Refused::new("unknown_patch", message).into());
            }
        }
        _ => {}
    }
    update(tx, now, &review, &effect, seq, messages, patches)?;
    Ok((Done::new(review, actor, now, effect, about.id), seq))
}

fn update(
    tx: &Connection,
    now: &Moment,
    review: &Review,
    effect: &Effect,
    last_seq: i64,
    messages: u64,
    patches: u64,
) -> Result<(), ReviewError> {
    let changed = !effect.events.is_empty();
    if !changed && effect.lease == review.lease {
        return Ok(());
    }
    let lease = effect.lease.as_ref();
    let updated_at = if changed {
        &now.iso()
    } else {
        &review.updated_at
    };
    tx.prepare_cached(
        "UPDATE reviews SET lease_boot_ms = ?2, lease_wall_ms = ?3, version = version + ?4, updated_at = ?5,
             message_count = message_count + ?6, patch_count = patch_count + ?7, last_seq = ?8
         WHERE id = ?1",
    )
    .and_then(|mut update| {
        update.execute(params![
            review.review_id,
            lease.map(|lease| lease.boot_until_ms),
            lease.map(|lease| lease.wall_until_ms),
            i64::from(changed),
            updated_at,
            messages as i64,
            patches as i64,
            last_seq,
        ])
    })
    .map_err(sql)?;
    transfer(tx, review, effect)
}

/// Updates the state of a review and its claimant, if they changed. A separate statement, because SQLite writes the
/// pages of every index over a column that a statement sets, even to the same value.
fn transfer(tx: &Connection, review: &Review, effect: &Effect) -> Result<(), ReviewError> {
    fn boot(lease: &Option<Lease>) -> Option<&str> {
        lease.as_ref().map(|lease| &*lease.boot_id)
    }
    let stays = effect.status == review.status
        && effect.claimed_by == review.claimed_by
        && effect.claim_generation == review.claim_generation
        && boot(&effect.lease) == boot(&review.lease);
    if stays {
        return Ok(());
    }
    tx.prepare_cached(
        "UPDATE reviews SET status = ?2, claimed_by = ?3, claim_generation = ?4, lease_boot_id = ?5 WHERE id = ?1",
    )
    .and_then(|mut update| {
        update.execute(params![
            review.review_id,
            effect.status.as_str(),
            effect.claimed_by,
            effect.claim_generation as i64,
            boot(&effect.lease),
        ])
    })
    .map_err(sql)?;
    Ok(())
}

/// The outcome of the first attempt under this key, if there was one.
fn first_try(
    tx: &Connection,
    key: Option<&WriteKey>,
) -> Result<Option<ActionOutcome>, ReviewError> {
    let Some(key) = key else {
        return Ok(None);
    };
    let found: Option<(Vec<u8>, String, i64)> = tx
        .prepare_cached("SELECT digest, review_id, seq FROM review_keys WHERE key = ?1")
        .and_then(|mut query| {
            query
                .query_row([&key.key], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })
                .optional()
        })
        .map_err(sql)?;
    match found {
        None => Ok(None),
        Some((digest, ..)) if digest[..] != key.digest[..] => Err(ReviewError::KeyReused),
        Some((_, review_id, seq)) => {
            let mut first = acted(tx, &review_id, seq)?;
            first.repeated = true;
            Ok(Some(first))
        }
    }
}

fn remember(
    tx: &Connection,
    key: Option<WriteKey>,
    review_id: &str,
    seq: i64,
) -> Result<(), ReviewError> {
    if let Some(key) = key {
        tx.prepare_cached(
            "INSERT INTO review_keys (key, digest, review_id, seq) VALUES (?1, ?2, ?3, ?4)",
        )
        .and_then(|mut insert| insert.execute(params![key.key, &key.digest[..], review_id, seq]))
        .map_err(sql)?;
    }
    Ok(())
}
