//! Queries that change rows. Each runs inside the writer's transaction.

use rusqlite::{Connection, OptionalExtension, params};
use sentinel_core::builtin::Refused;
use sentinel_core::clock::{Moment, iso};
use sentinel_core::random::uuid;
use sentinel_review::store::{
    ActionOutcome, Addition, Attachment, DIFF_PAGE, Decide, DiffRange, Effect, Lease, Message,
    NewEvent, NewReview, Patch, Review, ReviewError, ReviewStatus, Role, Verdict, WriteKey,
};

use super::chain::{self, Link};
use super::{Expire, read, rows, sql};

/// The row that an event refers to, and the digest of its text.
#[derive(Default)]
pub(super) struct About {
    pub(super) id: Option<String>,
    pub(super) content: Option<[u8; 32]>,
}

/// The first event of a review.
pub(super) fn new_event(new: &NewReview) -> NewEvent {
    let parent = new.parent_id.as_ref();
    NewEvent {
        event: "review_created",
        old_status: None,
        new_status: Some(ReviewStatus::Created),
        detail: parent.map(|id| serde_json::json!({ "parent_id": id })),
    }
}

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

/// The queue contains reviews in `created`: entering and leaving that status changes it.
pub(super) fn queue_changes(event: &NewEvent) -> bool {
    let enters = event.new_status == Some(ReviewStatus::Created);
    let leaves = event.old_status == Some(ReviewStatus::Created);
    enters != leaves
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
    let about = About {
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
    insert_patch(
        tx,
        now,
        seq,
        &patch_id,
        &new.review_id,
        &new.proposed_by,
        Role::Proposer,
        None,
        &new.diff,
        &files,
    )?;
    for key in keys {
        remember(tx, Some(key), &new.review_id, seq)?;
    }
    Ok(submitted(new, patch_id, now))
}

/// The outcome of submitting a new review, from the written values.
pub(super) fn submitted(new: NewReview, patch_id: String, now: &Moment) -> ActionOutcome {
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

/// The outcome of an effect, built from the written values: reading them back would cost more than writing them.
pub(super) struct Done {
    pub(super) acted: ActionOutcome,
    pub(super) about_id: Option<String>,
}

impl Done {
    pub(super) fn new(
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
pub(super) const FIRST_PAGE: DiffRange = DiffRange {
    offset: 0,
    limit: DIFF_PAGE,
};

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
        let nothing = About::default();
        let about = if at + 1 == count { &about } else { &nothing };
        seq = log(tx, now, &review.review_id, Some(seq), actor, event, about)?;
    }
    let (mut messages, mut patches) = (0, 0);
    match (&effect.addition, &about.id) {
        (Some(Addition::Message { role, body }), Some(id)) => {
            messages = 1;
            insert_message(tx, now, seq, id, &review, actor, *role, body)?;
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
            insert_patch(
                tx,
                now,
                seq,
                id,
                &review.review_id,
                actor,
                *role,
                description.as_deref(),
                diff,
                &files,
            )?;
        }
        (Some(Addition::Verdict { decision, reason }), Some(id)) => {
            tx.prepare_cached(
                "INSERT INTO verdicts (id, review_id, seq, decision, reason, given_by, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )
            .and_then(|mut insert| {
                insert.execute(params![
                    id,
                    review.review_id,
                    seq,
                    decision.as_str(),
                    reason,
                    actor,
                    now.iso()
                ])
            })
            .map_err(sql)?;
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

pub(super) fn describe(addition: &Addition) -> About {
    let (id, content) = match addition {
        Addition::Message { role, body } => (uuid(), chain::content(&[role.as_str(), body, ""])),
        Addition::Patch {
            role,
            description,
            diff,
            ..
        } => {
            let description = description.as_deref().unwrap_or_default();
            (uuid(), chain::content(&[role.as_str(), diff, description]))
        }
        Addition::Verdict { decision, reason } => {
            let reason = reason.as_deref().unwrap_or_default();
            (uuid(), chain::content(&[decision.as_str(), reason, ""]))
        }
        Addition::Judgement { patch_id, .. } => {
            return About {
                id: Some(patch_id.clone()),
                content: None,
            };
        }
    };
    About {
        id: Some(id),
        content: Some(content),
    }
}

/// Appends an event to the chain, and to the list of its review after `prev_seq`; returns its number.
pub(super) fn log(
    tx: &Connection,
    now: &Moment,
    review_id: &str,
    prev_seq: Option<i64>,
    actor: &str,
    event: &NewEvent,
    about: &About,
) -> Result<i64, ReviewError> {
    let head = chain::last(tx)?;
    let seq = head.next;
    let queue = if queue_changes(event) {
        seq
    } else {
        head.queue
    };
    let created_at = now.iso();
    let detail = event.detail.as_ref().map(ToString::to_string);
    let link = Link {
        seq,
        review_id,
        event: event.event,
        actor,
        old_status: event.old_status.map(ReviewStatus::as_str),
        new_status: event.new_status.map(ReviewStatus::as_str),
        about_id: about.id.as_deref(),
        content: about.content.as_ref().map(|content| &content[..]),
        detail: detail.as_deref(),
        created_at: &created_at,
    };
    let hash = link.hash(&head.hash);
    tx.prepare_cached(
        "INSERT INTO review_events (seq, review_id, event, actor, old_status, new_status, about_id, content,
             detail, created_at, queue, hash, prev_seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )
    .and_then(|mut insert| {
        insert.execute(params![
            seq, review_id, link.event, actor, link.old_status, link.new_status, link.about_id, link.content,
            link.detail, created_at, queue, &hash[..], prev_seq,
        ])
    })
    .map_err(sql)?;
    Ok(seq)
}

#[expect(clippy::too_many_arguments, reason = "the columns of one row")]
fn insert_message(
    tx: &Connection,
    now: &Moment,
    seq: i64,
    id: &str,
    review: &Review,
    actor: &str,
    role: Role,
    body: &str,
) -> Result<(), ReviewError> {
    tx.prepare_cached(
        "INSERT INTO messages (id, review_id, seq, role, body, posted_by, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )
    .and_then(|mut insert| {
        insert.execute(params![
            id,
            review.review_id,
            seq,
            role.as_str(),
            body,
            actor,
            now.iso()
        ])
    })
    .map_err(sql)?;
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the columns of one row")]
fn insert_patch(
    tx: &Connection,
    now: &Moment,
    seq: i64,
    id: &str,
    review_id: &str,
    actor: &str,
    role: Role,
    description: Option<&str>,
    diff: &str,
    files: &str,
) -> Result<(), ReviewError> {
    tx.prepare_cached(
        "INSERT INTO patches (id, review_id, seq, role, description, affected_files, submitted_by, created_at, diff)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )
    .and_then(|mut insert| {
        insert.execute(params![id, review_id, seq, role.as_str(), description, files, actor, now.iso(), diff])
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

/// The documents after an action; of a large diff the first page.
fn acted(tx: &Connection, review_id: &str, seq: i64) -> Result<ActionOutcome, ReviewError> {
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
