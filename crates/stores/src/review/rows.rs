//! Rows as documents.

use rusqlite::types::{FromSql, Type};
use rusqlite::{Row, RowIndex};
use sentinel_core::clock::iso;
use sentinel_core::review::{
    AffectedFile, Category, Decision, Event, Lease, Message, Patch, Priority, Review, Role, Slice,
    Status, Verdict,
};

pub(super) const REVIEW: &str = "id, status, version, intent, description, agent_type, phase, plan, \
    task, project, category, priority, proposed_by, claimed_by, claim_generation, lease_boot_id, \
    lease_boot_ms, lease_wall_ms, parent_id, affected_files, message_count, patch_count, created_at, \
    updated_at";

pub(super) const MESSAGE: &str = "id, review_id, role, body, posted_by, created_at";
pub(super) const VERDICT: &str = "id, review_id, decision, reason, given_by, created_at";
pub(super) const PATCH: &str = "id, review_id, role, description, diff, affected_files, accepted, \
    submitted_by, created_at";
pub(super) const EVENT: &str =
    "seq, review_id, event, actor, old_status, new_status, about_id, detail, created_at";

/// A word that only we wrote, behind a CHECK; anything else means a damaged file.
fn word<T>(row: &Row<'_>, at: &str, parse: fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text: String = row.get(at)?;
    parse(&text).ok_or_else(|| unreadable(row, at))
}

fn unreadable(row: &Row<'_>, at: &str) -> rusqlite::Error {
    let index = at.idx(row.as_ref()).unwrap_or(0);
    rusqlite::Error::InvalidColumnType(index, at.to_owned(), Type::Text)
}

/// Counts and sizes are never negative.
pub(super) fn count(row: &Row<'_>, at: &str) -> rusqlite::Result<u64> {
    let number: i64 = row.get(at)?;
    Ok(number.max(0) as u64)
}

fn files(row: &Row<'_>) -> rusqlite::Result<Vec<AffectedFile>> {
    let text: String = row.get("affected_files")?;
    serde_json::from_str(&text).map_err(|_| unreadable(row, "affected_files"))
}

fn optional<T: FromSql>(row: &Row<'_>, at: &str) -> rusqlite::Result<Option<T>> {
    row.get(at)
}

pub(super) fn review(row: &Row<'_>) -> rusqlite::Result<Review> {
    let lease = match optional::<String>(row, "lease_boot_id")? {
        Some(boot_id) => Some(Lease {
            boot_id,
            boot_until_ms: row.get("lease_boot_ms")?,
            wall_until_ms: row.get("lease_wall_ms")?,
        }),
        None => None,
    };
    Ok(Review {
        review_id: row.get("id")?,
        status: word(row, "status", Status::parse)?,
        version: count(row, "version")?,
        intent: row.get("intent")?,
        description: row.get("description")?,
        agent_type: row.get("agent_type")?,
        phase: row.get("phase")?,
        plan: row.get("plan")?,
        task: row.get("task")?,
        project: row.get("project")?,
        category: word(row, "category", Category::parse)?,
        priority: priority(row.get("priority")?).ok_or_else(|| unreadable(row, "priority"))?,
        proposed_by: row.get("proposed_by")?,
        claimed_by: row.get("claimed_by")?,
        claim_generation: count(row, "claim_generation")?,
        claim_expires_at: lease.as_ref().map(|lease| iso(lease.wall_until_ms)),
        parent_id: row.get("parent_id")?,
        affected_files: files(row)?,
        message_count: count(row, "message_count")?,
        patch_count: count(row, "patch_count")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        lease,
    })
}

fn priority(number: i64) -> Option<Priority> {
    Priority::ALL.get(usize::try_from(number).ok()?).copied()
}

pub(super) fn message(row: &Row<'_>) -> rusqlite::Result<Message> {
    Ok(Message {
        message_id: row.get("id")?,
        review_id: row.get("review_id")?,
        role: word(row, "role", Role::parse)?,
        body: row.get("body")?,
        posted_by: row.get("posted_by")?,
        created_at: row.get("created_at")?,
    })
}

pub(super) fn verdict(row: &Row<'_>) -> rusqlite::Result<Verdict> {
    Ok(Verdict {
        verdict_id: row.get("id")?,
        review_id: row.get("review_id")?,
        decision: word(row, "decision", Decision::parse)?,
        reason: row.get("reason")?,
        given_by: row.get("given_by")?,
        created_at: row.get("created_at")?,
    })
}

pub(super) fn patch(row: &Row<'_>, slice: Slice) -> rusqlite::Result<Patch> {
    let whole: String = row.get("diff")?;
    let (diff, next_offset) = cut(&whole, slice);
    Ok(Patch {
        patch_id: row.get("id")?,
        review_id: row.get("review_id")?,
        role: word(row, "role", Role::parse)?,
        description: row.get("description")?,
        diff: diff.to_owned(),
        diff_bytes: whole.len() as u64,
        next_offset,
        affected_files: files(row)?,
        accepted: row.get("accepted")?,
        submitted_by: row.get("submitted_by")?,
        created_at: row.get("created_at")?,
    })
}

/// The part of a diff that was asked for, and where the next begins. Parts end between characters,
/// so that putting them together gives the whole; each has at least one character.
fn cut(whole: &str, slice: Slice) -> (&str, Option<u64>) {
    let start = whole.ceil_char_boundary((slice.offset as usize).min(whole.len()));
    let wanted = start.saturating_add(slice.limit as usize).min(whole.len());
    let mut end = whole.floor_char_boundary(wanted);
    if end <= start {
        end = whole.ceil_char_boundary((start + 1).min(whole.len()));
    }
    (
        &whole[start..end],
        (end < whole.len()).then_some(end as u64),
    )
}

pub(super) fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let status = |at: &str| -> rusqlite::Result<Option<Status>> {
        let text: Option<String> = row.get(at)?;
        Ok(text.as_deref().and_then(Status::parse))
    };
    let detail: Option<String> = row.get("detail")?;
    Ok(Event {
        seq: count(row, "seq")?,
        review_id: row.get("review_id")?,
        event: row.get("event")?,
        actor: row.get("actor")?,
        old_status: status("old_status")?,
        new_status: status("new_status")?,
        about_id: row.get("about_id")?,
        detail: detail.and_then(|text| serde_json::from_str(&text).ok()),
        created_at: row.get("created_at")?,
    })
}
