//! Events of the history: what they say, and their writing.

use rusqlite::{Connection, params};
use sentinel_core::clock::Moment;
use sentinel_core::random::uuid;
use sentinel_review::store::{Addition, NewEvent, NewReview, ReviewError, ReviewStatus};

use super::super::chain::{self, Link};
use super::super::sql;

/// The row that an event refers to, and the digest of its text.
#[derive(Default)]
pub(in super::super) struct EventSubject {
    pub(in super::super) id: Option<String>,
    pub(in super::super) content: Option<[u8; 32]>,
}

/// The first event of a review.
pub(in super::super) fn new_event(new: &NewReview) -> NewEvent {
    let parent = new.parent_id.as_ref();
    NewEvent {
        event: "review_created",
        old_status: None,
        new_status: Some(ReviewStatus::Created),
        detail: parent.map(|id| serde_json::json!({ "parent_id": id })),
    }
}

/// The queue contains reviews in `created`: entering and leaving that status changes it.
pub(in super::super) fn queue_changes(event: &NewEvent) -> bool {
    let enters = event.new_status == Some(ReviewStatus::Created);
    let leaves = event.old_status == Some(ReviewStatus::Created);
    enters != leaves
}

pub(in super::super) fn describe(addition: &Addition) -> EventSubject {
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
            return EventSubject {
                id: Some(patch_id.clone()),
                content: None,
            };
        }
    };
    EventSubject {
        id: Some(id),
        content: Some(content),
    }
}

/// Appends an event to the chain, and to the list of its review after `prev_seq`; returns its number.
pub(in super::super) fn log(
    tx: &Connection,
    now: &Moment,
    review_id: &str,
    prev_seq: Option<i64>,
    actor: &str,
    event: &NewEvent,
    about: &EventSubject,
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
    let link = Link::of_new(
        seq,
        event,
        about,
        (review_id, actor),
        detail.as_deref(),
        &created_at,
    );
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
