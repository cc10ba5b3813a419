//! Queries that change rows. Each runs inside a transaction that holds the head.

use std::sync::Arc;

use sentinel_core::builtin::Refused;
use sentinel_core::clock::Moment;
use sentinel_core::random::uuid;
use sentinel_review::store::{
    ActionOutcome, Addition, Attachment, Decide, Effect, NewEvent, NewReview, Review, ReviewError,
    Role, WriteKey,
};
use tokio_postgres::Row;

use super::super::chain::Link;
use super::super::rows::{self, Cells};
use super::super::write::{
    Done, EventSubject, FIRST_PAGE, describe, new_event, parent_is_over, queue_changes, submitted,
};
use super::super::{Expire, chain};
use super::read;
use crate::error::StoreError;
use crate::postgres::Queries as _;
use sentinel_pg::Session;

/// Claims ended in one transaction; `expire` is called again soon.
const EXPIRE_MAX: i64 = 100;
/// Leases on PostgreSQL use its clock, whichever machine reads them.
const DATABASE_TIME: &str = "database";

/// The clock is read after locking, so that times increase with the history.
const LOCK: &str = "WITH head AS MATERIALIZED (SELECT seq, hash FROM review_head FOR UPDATE)
    SELECT seq, hash, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms FROM head";

fn moment(row: &Row) -> Result<Moment, ReviewError> {
    let ms = row.number(2)?;
    Ok(Moment {
        wall_ms: ms,
        boot_ms: ms,
        boot_id: Arc::from(DATABASE_TIME),
    })
}

/// A transaction that holds the head of the history.
pub(super) struct Writing<'a> {
    pub(super) db: &'a mut Session,
    now: Moment,
    seq: i64,
    hash: Vec<u8>,
}

impl<'a> Writing<'a> {
    pub(super) async fn begin(db: &'a mut Session) -> Result<Self, ReviewError> {
        let head = db.one(LOCK, &[]).await?;
        Ok(Self {
            now: moment(&head)?,
            seq: head.number(0)?,
            hash: head.try_get(1).map_err(StoreError::from)?,
            db,
        })
    }

    /// Appends an event to the chain; returns its number.
    pub(super) async fn log(
        &mut self,
        review_id: &str,
        actor: &str,
        event: &NewEvent,
        about: &EventSubject,
    ) -> Result<i64, ReviewError> {
        let seq = self.seq + 1;
        let created_at = self.now.iso();
        let detail = event.detail.as_ref().map(ToString::to_string);
        let link = Link::of_new(
            seq,
            event,
            about,
            (review_id, actor),
            detail.as_deref(),
            &created_at,
        );
        let hash = link.hash(&self.hash).to_vec();
        self.db
            .change(
                "WITH head AS (UPDATE review_head SET seq = $1, hash = $12)
                 INSERT INTO review_events (seq, review_id, event, actor, old_status, new_status, about_id, content,
                     detail, created_at, queue, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
                &[
                    &seq, &review_id, &link.event, &actor, &link.old_status, &link.new_status, &link.about_id,
                    &link.content, &link.detail, &created_at, &queue_changes(event), &hash,
                ],
            )
            .await?;
        self.seq = seq;
        self.hash = hash;
        Ok(seq)
    }

    /// Applies an effect.
    async fn apply(
        &mut self,
        review: Review,
        actor: &str,
        effect: Effect,
    ) -> Result<Done, ReviewError> {
        let about = effect.addition.as_ref().map(describe).unwrap_or_default();
        let nothing = EventSubject::default();
        let count = effect.events.len();
        let mut seq = 0;
        for (at, event) in effect.events.iter().enumerate() {
            // The addition belongs to the last event; earlier ones are transitions toward it.
            let about = if at + 1 == count { &about } else { &nothing };
            seq = self.log(&review.review_id, actor, event, about).await?;
        }
        if let (Some(addition), Some(id)) = (&effect.addition, &about.id) {
            self.add(&review, actor, seq, id, addition).await?;
        }
        self.update(&review, &effect).await?;
        Ok(Done::new(review, actor, &self.now, effect, about.id))
    }

    async fn add(
        &mut self,
        review: &Review,
        actor: &str,
        seq: i64,
        id: &String,
        addition: &Addition,
    ) -> Result<(), ReviewError> {
        let (review_id, at) = (&review.review_id, self.now.iso());
        match addition {
            Addition::Message { role, body } => {
                let insert =
                    "INSERT INTO messages (id, review_id, seq, role, body, posted_by, created_at)
                              VALUES ($1, $2, $3, $4, $5, $6, $7)";
                let role = role.as_str();
                self.db
                    .change(insert, &[id, review_id, &seq, &role, body, &actor, &at])
                    .await?;
            }
            Addition::Patch {
                role,
                description,
                diff,
                affected_files,
            } => {
                let files = serde_json::to_string(affected_files).expect("plain data");
                self.patch(
                    review_id,
                    actor,
                    seq,
                    id,
                    *role,
                    description.as_ref(),
                    diff,
                    &files,
                )
                .await?;
            }
            Addition::Verdict { decision, reason } => {
                let insert = "INSERT INTO verdicts (id, review_id, seq, decision, reason, given_by, created_at)
                              VALUES ($1, $2, $3, $4, $5, $6, $7)";
                let decision = decision.as_str();
                self.db
                    .change(
                        insert,
                        &[id, review_id, &seq, &decision, reason, &actor, &at],
                    )
                    .await?;
            }
            Addition::Judgement { patch_id, accepted } => {
                let update = "UPDATE patches SET accepted = $3 WHERE id = $1 AND review_id = $2";
                let params = [patch_id as _, review_id as _, accepted as _];
                if self.db.change(update, &params).await? == 0 {
                    let message = format!("this review has no patch `{patch_id}`");
                    return Err(Refused::new("unknown_patch", message).into());
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of one row")]
    async fn patch(
        &mut self,
        review_id: &str,
        actor: &str,
        seq: i64,
        id: &str,
        role: Role,
        description: Option<&String>,
        diff: &str,
        files: &str,
    ) -> Result<(), ReviewError> {
        self.db
            .change(
                "INSERT INTO patches (id, review_id, seq, role, description, affected_files, submitted_by, created_at, diff)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                &[
                    &id, &review_id, &seq, &role.as_str(), &description, &files, &actor, &self.now.iso(), &diff,
                ],
            )
            .await?;
        Ok(())
    }

    async fn update(&mut self, review: &Review, effect: &Effect) -> Result<(), ReviewError> {
        let changed = !effect.events.is_empty();
        if !changed && effect.lease == review.lease {
            return Ok(());
        }
        let lease = effect.lease.as_ref();
        let messages = matches!(effect.addition, Some(Addition::Message { .. }));
        let patches = matches!(effect.addition, Some(Addition::Patch { .. }));
        let updated_at = if changed {
            self.now.iso()
        } else {
            review.updated_at.clone()
        };
        self.db
            .change(
                "UPDATE reviews SET status = $2, claimed_by = $3, claim_generation = $4, lease_boot_id = $5,
                     lease_boot_ms = $6, lease_wall_ms = $7, version = version + $8, updated_at = $9,
                     message_count = message_count + $10, patch_count = patch_count + $11
                 WHERE id = $1",
                &[
                    &review.review_id,
                    &effect.status.as_str(),
                    &effect.claimed_by,
                    &(effect.claim_generation as i64),
                    &lease.map(|lease| &lease.boot_id),
                    &lease.map(|lease| lease.boot_until_ms),
                    &lease.map(|lease| lease.wall_until_ms),
                    &i64::from(changed),
                    &updated_at,
                    &i64::from(messages),
                    &i64::from(patches),
                ],
            )
            .await?;
        Ok(())
    }
}

pub(super) async fn submit(
    db: &mut Session,
    new: NewReview,
    keys: Vec<WriteKey>,
) -> Result<ActionOutcome, ReviewError> {
    let mut writing = Writing::begin(db).await?;
    for key in &keys {
        if let Some(first) = first_try(writing.db, Some(key)).await? {
            return Ok(first);
        }
    }
    if let Some(parent) = &new.parent_id {
        parent_is_over(&read::review(writing.db, parent).await?)?;
    }
    let taken = "SELECT 1 FROM reviews WHERE id = $1
                 UNION ALL SELECT 1 FROM purged_reviews WHERE id = $1";
    if writing.db.row(taken, &[&new.review_id]).await?.is_some() {
        return Err(ReviewError::KeyReused);
    }
    let patch_id = uuid();
    let files = serde_json::to_string(&new.affected_files).expect("plain data");
    let about = EventSubject {
        id: Some(patch_id.clone()),
        content: Some(chain::content_of_new(&new, &files)),
    };
    let seq = writing
        .log(&new.review_id, &new.proposed_by, &new_event(&new), &about)
        .await?;
    writing
        .db
        .change(
            "INSERT INTO reviews (id, seq, intent, description, agent_type, phase, plan, task, project, category,
                 priority, proposed_by, parent_id, affected_files, patch_count, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 1, $15, $15)",
            &[
                &new.review_id, &seq, &new.intent, &new.description, &new.agent_type, &new.phase, &new.plan, &new.task,
                &new.project, &new.category.as_str(), &(new.priority as i64), &new.proposed_by, &new.parent_id, &files,
                &writing.now.iso(),
            ],
        )
        .await?;
    let (id, by) = (&new.review_id, &new.proposed_by);
    writing
        .patch(
            id,
            by,
            seq,
            &patch_id,
            Role::Proposer,
            None,
            &new.diff,
            &files,
        )
        .await?;
    for key in keys {
        remember(writing.db, Some(key), id, Some(&patch_id)).await?;
    }
    let now = writing.now;
    Ok(submitted(new, patch_id, &now))
}

pub(super) async fn act(
    db: &mut Session,
    id: String,
    actor: String,
    key: Option<WriteKey>,
    decide: Decide,
) -> Result<ActionOutcome, ReviewError> {
    let mut writing = Writing::begin(db).await?;
    if let Some(first) = first_try(writing.db, key.as_ref()).await? {
        return Ok(first);
    }
    let review = locked(writing.db, &id).await?;
    let effect = decide(&review, &writing.now)?;
    let done = writing.apply(review, &actor, effect).await?;
    remember(writing.db, key, &id, done.about_id.as_deref()).await?;
    Ok(done.acted)
}

/// The review, locked until the end of this transaction.
async fn locked(db: &mut Session, id: &str) -> Result<Review, ReviewError> {
    let query = format!(
        "SELECT {} FROM reviews WHERE id = $1 FOR UPDATE",
        rows::REVIEW
    );
    match db.row(&query, &[&id]).await? {
        Some(row) => Ok(rows::review(&row)?),
        None => Err(ReviewError::NoReview(id.to_owned())),
    }
}

/// The reviews whose lease has ended; takes no lock.
pub(super) async fn expired(db: &mut Session) -> Result<Vec<String>, ReviewError> {
    let query = "SELECT id FROM reviews WHERE lease_boot_id IS NOT NULL
                     AND lease_boot_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
                 ORDER BY lease_boot_ms LIMIT $1";
    let rows = db.rows(query, &[&EXPIRE_MAX]).await?;
    let ids: Result<Vec<String>, StoreError> = rows.iter().map(|row| row.text(0)).collect();
    Ok(ids?)
}

pub(super) async fn expire(
    db: &mut Session,
    due: Vec<String>,
    decide: Expire,
) -> Result<Vec<Review>, ReviewError> {
    let mut writing = Writing::begin(db).await?;
    let mut changed = Vec::new();
    for id in due {
        let review = locked(writing.db, &id).await?;
        if let Some(effect) = decide(&review, &writing.now) {
            changed.push(writing.apply(review, "broker", effect).await?.acted.review);
        }
    }
    Ok(changed)
}

/// The outcome of the first attempt under this key, if there was one.
async fn first_try(
    db: &mut Session,
    key: Option<&WriteKey>,
) -> Result<Option<ActionOutcome>, ReviewError> {
    let Some(key) = key else {
        return Ok(None);
    };
    let query = "SELECT digest, review_id, about_id FROM review_keys WHERE key = $1";
    let Some(found) = db.row(query, &[&key.key]).await? else {
        return Ok(None);
    };
    let digest: Vec<u8> = found.try_get(0).map_err(StoreError::from)?;
    if digest[..] != key.digest[..] {
        return Err(ReviewError::KeyReused);
    }
    let (review_id, about_id) = (found.text(1)?, found.maybe_text(2)?);
    let mut first = acted(db, &review_id, about_id.as_deref()).await?;
    first.repeated = true;
    Ok(Some(first))
}

async fn remember(
    db: &mut Session,
    key: Option<WriteKey>,
    review_id: &str,
    about_id: Option<&str>,
) -> Result<(), ReviewError> {
    if let Some(key) = key {
        let insert =
            "INSERT INTO review_keys (key, digest, review_id, about_id) VALUES ($1, $2, $3, $4)";
        let digest = &key.digest[..];
        db.change(insert, &[&key.key, &digest, &review_id, &about_id])
            .await?;
    }
    Ok(())
}

/// The documents after an action; of a large diff the first page.
async fn acted(
    db: &mut Session,
    id: &str,
    about_id: Option<&str>,
) -> Result<ActionOutcome, ReviewError> {
    let review = read::review(db, id).await?;
    let added = match about_id {
        Some(about) => added(db, about).await?,
        None => None,
    };
    Ok(ActionOutcome {
        review,
        added,
        repeated: false,
    })
}

async fn added(db: &mut Session, id: &str) -> Result<Option<Attachment>, ReviewError> {
    let message = format!("SELECT {} FROM messages WHERE id = $1", rows::MESSAGE);
    if let Some(row) = db.row(&message, &[&id]).await? {
        return Ok(Some(Attachment::Message(rows::message(&row)?)));
    }
    let verdict = format!("SELECT {} FROM verdicts WHERE id = $1", rows::VERDICT);
    if let Some(row) = db.row(&verdict, &[&id]).await? {
        return Ok(Some(Attachment::Verdict(rows::verdict(&row)?)));
    }
    let patch = format!("SELECT {} FROM patches WHERE id = $1", rows::PATCH);
    let row = db.row(&patch, &[&id]).await?;
    Ok(row
        .map(|row| rows::patch(&row, FIRST_PAGE).map(Attachment::Patch))
        .transpose()?)
}
